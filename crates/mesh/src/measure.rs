//! Carries out a plan: the threads that measure, and what of them is recorded.
//!
//! ```text
//!   ICMP, STAMP, TCP: one thread for each kind, all peers ─┬─► records ──► the agent's thread
//!   paths: one thread; pages and bulk tests: one (child) ──┘
//! ```
//!
//! All end when the bell rings. One whose records nobody takes stops as well, as where the disk hangs: it waits for room, and sends nothing.

use crate::child;
use crate::plan::{PlannedProbe, ProbeKind};
use crate::record::RecordKind;
use crate::slots::next_slot;
use quell_model::task::{PingStream, TcpPingStream, UdpEcho};
use quell_model::{EchoSample, EchoStatus, Event};
use quell_probe::{Patience, ProbeError, ProbeOptions, Prober};
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::Bell;
use quell_units::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// What was measured: peer, class, what.
pub type Measured = (String, String, RecordKind);

/// Records that may wait for the agent's thread.
const WAITING: usize = 1024;
/// Packets of a stream that were told to be lost, and are remembered in case that they come late.
const LOST: usize = 1024;

/// Where threads put what they measured.
#[derive(Clone)]
pub(crate) struct Out {
    records: SyncSender<Measured>,
    bell: Arc<Bell>,
}

impl Out {
    pub fn put(&self, probe: &PlannedProbe, kind: RecordKind) {
        // Nobody takes it any more only when the agent is about to end.
        let _ = self.records.send((probe.peer.clone(), probe.class.clone(), kind));
        self.bell.ring();
    }
}

/// A plan that is being carried out.
pub struct Measuring {
    pub revision: u64,
    stop: Arc<Bell>,
    records: Receiver<Measured>,
    threads: Vec<JoinHandle<()>>,
    /// What of it can't be measured here, and why.
    failed: Arc<Mutex<Vec<(PlannedProbe, String)>>>,
}

impl Measuring {
    /// Begins with the slots from this time on, by the wall and by the monotonic clock; `bell` rings when there is something to take.
    pub fn begin(
        revision: u64,
        (wall_ns, start_ns): (i64, u64),
        probes: &[PlannedProbe],
        bell: &Arc<Bell>,
        program: &Path,
        wall: fn() -> u64,
    ) -> Result<Self, quell_sys::SysError> {
        let (send, records) = sync_channel(WAITING);
        let stop = Arc::new(Bell::new()?);
        let out = Out { records: send, bell: Arc::clone(bell) };
        let failed = Arc::new(Mutex::new(Vec::new()));
        let mut threads = Vec::new();
        for group in groups(probes) {
            let (stop, out, failed) = (Arc::clone(&stop), out.clone(), Arc::clone(&failed));
            let program = program.to_owned();
            threads.push(std::thread::spawn(move || {
                let ended = match group[0].kind {
                    ProbeKind::Icmp { .. } | ProbeKind::Stamp { .. } | ProbeKind::Tcp => {
                        packets(&group, (wall_ns, start_ns), &stop, &out, wall)
                            .map_err(|e| e.to_string())
                    }
                    _ => child::run(&group, (wall_ns, wall), &program, &stop, &out)
                        .map_err(|e| e.to_string()),
                };
                if let (Err(why), Ok(mut failed)) = (ended, failed.lock()) {
                    failed.extend(group.into_iter().map(|probe| (probe, why.clone())));
                    out.bell.ring();
                }
            }));
        }
        Ok(Self { revision, stop, records, threads, failed })
    }

    /// What turned out not to be measurable here since it was asked last, and why.
    pub fn failed(&self) -> Vec<(PlannedProbe, String)> {
        self.failed.lock().map(|mut failed| std::mem::take(&mut *failed)).unwrap_or_default()
    }

    /// What was measured since.
    pub fn take(&self) -> Vec<Measured> {
        self.records.try_iter().collect()
    }

    /// Ends all of it, at once; what was under way is told as it stands.
    pub fn end(self) -> Vec<Measured> {
        self.stop.ring();
        // Until all threads are gone, who hold the other end.
        let left = self.records.iter().collect();
        for thread in self.threads {
            let _ = thread.join();
        }
        left
    }
}

/// The thread that carries out a kind: bulk tests wait for no path.
fn driver(kind: &ProbeKind) -> usize {
    match kind {
        ProbeKind::Icmp { .. } => 0,
        ProbeKind::Stamp { .. } => 1,
        ProbeKind::Tcp => 2,
        ProbeKind::Path => 3,
        ProbeKind::Page | ProbeKind::Flow { .. } | ProbeKind::Rpm { .. } => 4,
    }
}

/// The probes of each thread.
fn groups(probes: &[PlannedProbe]) -> Vec<Vec<PlannedProbe>> {
    let mut groups: [Vec<PlannedProbe>; 5] = Default::default();
    for probe in probes {
        groups[driver(&probe.kind)].push(probe.clone());
    }
    groups.into_iter().filter(|group| !group.is_empty()).collect()
}

/// Sends until the bell rings.
fn packets(
    probes: &[PlannedProbe],
    (wall_ns, start_ns): (i64, u64),
    stop: &Bell,
    out: &Out,
    wall: fn() -> u64,
) -> Result<(), ProbeError> {
    let prober = prober(probes, wall_ns)?;
    let window = Window { start_ns, ..Window::from_now(None) };
    let streams = Mutex::new(BTreeMap::<String, BTreeSet<u64>>::new());
    let emit = |event: Event| {
        let Event::Echo { stream, samples } = event else { return };
        let Some(probe) = stream.parse().ok().and_then(|at: usize| probes.get(at)) else { return };
        let Ok(mut streams) = streams.lock() else { return };
        let lost = streams.entry(stream).or_default();
        let settled: Vec<EchoSample> =
            samples.into_iter().filter(|sample| is_first_end(sample, lost)).collect();
        if settled.is_empty() {
            return;
        }
        let wall_ns = wall() as i64 - monotonic_ns() as i64 + window.origin_ns as i64;
        let walled = settled
            .into_iter()
            .map(|sample| EchoSample { t_ns: sample.t_ns.saturating_add(wall_ns), ..sample });
        out.put(probe, RecordKind::Packets(walled.collect()));
    };
    prober.run(&window, stop, &emit)
}

/// A packet has one end: one that was told to be lost stays so, should its answer come later than was waited for.
fn is_first_end(sample: &EchoSample, lost: &mut BTreeSet<u64>) -> bool {
    let is_second =
        matches!(sample.status, EchoStatus::Late | EchoStatus::Unsure | EchoStatus::Unfinished)
            && lost.contains(&sample.seq);
    if sample.status.is_lost() {
        lost.insert(sample.seq);
        if lost.len() > LOST {
            lost.pop_first();
        }
    }
    !is_second
}

/// One prober for probes of one kind; each stream is named by its place.
fn prober(probes: &[PlannedProbe], wall_ns: i64) -> Result<Prober, ProbeError> {
    let options = |probe: &PlannedProbe| ProbeOptions {
        delay: Span::from_nanos(next_slot(probe, wall_ns).saturating_sub(wall_ns).max(0) as u64),
        patience: Some(Patience::usual()),
        ..ProbeOptions::default()
    };
    let linger = quell_probe::patience::LEAST;
    let (mut icmp, mut stamp, mut tcp) = (Vec::new(), Vec::new(), Vec::new());
    for (at, probe) in probes.iter().enumerate() {
        let (stream, interval) = (at.to_string(), probe.interval);
        let wrong = |why: String| ProbeError::Parameter { stream: probe.peer.clone(), why };
        let with_port = || {
            let to: Result<SocketAddr, _> = probe.to.parse();
            to.map_err(|_| wrong(format!("`{}` is no address with a port", probe.to)))
        };
        match probe.kind {
            ProbeKind::Icmp { size, tos } => {
                let to = probe.to.parse();
                let to = to.map_err(|_| wrong(format!("`{}` is no address", probe.to)))?;
                let size = size.into();
                icmp.push((PingStream { stream, to, interval, size, tos, linger }, options(probe)));
            }
            ProbeKind::Stamp { size, tos } => {
                let (to, size) = (with_port()?, size.into());
                stamp.push((
                    UdpEcho { stream, to, interval, size, tos, linger, other_clock: true },
                    options(probe),
                ));
            }
            ProbeKind::Tcp => {
                let (to, tos) = (with_port()?, quell_units::Tos::from_byte(0));
                tcp.push((TcpPingStream { stream, to, interval, tos, linger }, options(probe)));
            }
            _ => {}
        }
    }
    let seed = quell_sys::secret::number()?;
    match (icmp.is_empty(), stamp.is_empty()) {
        (false, _) => quell_probe::ping::open(&icmp, seed),
        (true, false) => quell_probe::udp::open(&stamp, seed),
        (true, true) => quell_probe::tcp::open(&tcp, seed),
    }
}
