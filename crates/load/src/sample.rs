//! Samplers: what the kernel says of queues and of TCP connections, at round times of the measurement.

use crate::flow::state;
use crate::{Emit, FLUSH_NS, LoadError};
use quell_model::{Event, FlowSample, QueueSample, Side};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::sock_diag::{SockDiag, TcpFilter};
use quell_netlink::tc::{dump_classes, dump_qdiscs};
use quell_netlink::{NetlinkError, Stack};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::{Alarm, Bell, came, readable, wait, wake_exactly};
use quell_tc::observed::{ExtraStats, Stats};
use quell_units::Span;
use std::collections::{BTreeMap, BTreeSet};

const LEAST_INTERVAL: Span = Span::from_millis(1);

fn failed(error: NetlinkError) -> LoadError {
    LoadError::Netlink(error.to_string())
}

fn check(interval: Span) -> Result<(), LoadError> {
    if interval >= LEAST_INTERVAL {
        return Ok(());
    }
    let why = format!("a sample every {interval}; take at least {LEAST_INTERVAL}");
    Err(LoadError::Parameter { flow: "sampler".into(), why })
}

/// Calls `look` at every tick from the window's start to its end, that included, and `flush` about once a second and at the end.
fn at_ticks<T>(
    window: &Window,
    interval: Span,
    stop: &Bell,
    this: &mut T,
    look: impl Fn(&mut T, i64) -> Result<(), LoadError>,
    flush: impl Fn(&mut T),
) -> Result<(), LoadError> {
    wake_exactly();
    let mut alarm = Alarm::new()?;
    let mut due = window.start_ns;
    let mut flushed = window.start_ns;
    loop {
        alarm.set(Some(due))?;
        let mut fds = [readable(stop), readable(&alarm)];
        wait(&mut fds)?;
        if came(&fds[0]) {
            break;
        }
        let now = monotonic_ns();
        look(this, window.t(now))?;
        if now >= flushed.saturating_add(FLUSH_NS) {
            flush(this);
            flushed = now;
        }
        if now >= window.end_ns() {
            break;
        }
        due = window.next_tick(now, interval.nanos()).min(window.end_ns());
    }
    flush(this);
    Ok(())
}

pub struct QueueSampler {
    socket: Socket,
    host: String,
    devices: Vec<(u32, String)>,
    interval: Span,
    samples: Vec<QueueSample>,
}

impl QueueSampler {
    /// Finds the devices; none named means all that there are now. `host` names the node in the samples.
    ///
    /// Errors when a device is not there.
    pub fn prepare(host: &str, devices: &[String], interval: Span) -> Result<Self, LoadError> {
        check(interval)?;
        let mut stack = Stack::open().map_err(failed)?;
        let links = stack.links().map_err(failed)?;
        let there: BTreeMap<String, u32> =
            links.into_iter().map(|l| (l.name.to_string(), l.index)).collect();
        let mut chosen = Vec::new();
        for name in devices {
            let index = there.get(name).ok_or_else(|| {
                let names: Vec<&str> = there.keys().map(String::as_str).collect();
                let names = names.join(", ");
                LoadError::Netlink(format!("{host} has no device `{name}`; it has {names}"))
            })?;
            chosen.push((*index, name.clone()));
        }
        if devices.is_empty() {
            chosen = there.into_iter().map(|(name, index)| (index, name)).collect();
        }
        let socket = Socket::open(Protocol::Route).map_err(failed)?;
        Ok(Self { socket, host: host.into(), devices: chosen, interval, samples: Vec::new() })
    }

    /// Samples from the window's start to its end, or until the bell rings.
    pub fn run(mut self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), LoadError> {
        let interval = self.interval;
        at_ticks(window, interval, stop, &mut self, Self::look, |this| {
            let samples = std::mem::take(&mut this.samples);
            if !samples.is_empty() {
                emit(Event::Queues { samples });
            }
        })
    }

    fn look(&mut self, t_ns: i64) -> Result<(), LoadError> {
        for (index, name) in &self.devices {
            let device = format!("{}:{name}", self.host);
            for qdisc in dump_qdiscs(&mut self.socket, *index).map_err(failed)? {
                // A loopback's or tunnel's noqueue has nothing to tell.
                if qdisc.kind != "noqueue" {
                    let handle = qdisc.handle.to_string();
                    let marks = marks(qdisc.extra.as_ref());
                    let place = (device.clone(), handle, qdisc.kind.clone());
                    self.samples.push(sample(t_ns, place, &qdisc.stats, marks));
                }
            }
            for class in dump_classes(&mut self.socket, *index).map_err(failed)? {
                // The flows inside fq_codel, sfq … appear as classes too: there can be thousands, and their queue counts them all.
                if matches!(class.kind.as_str(), "fq_codel" | "sfq" | "cake" | "fq_pie" | "mq") {
                    continue;
                }
                let place = (device.clone(), class.id.to_string(), format!("{} class", class.kind));
                let marks = marks(class.extra.as_ref());
                self.samples.push(sample(t_ns, place, &class.stats, marks));
            }
        }
        Ok(())
    }
}

fn marks(extra: Option<&ExtraStats>) -> u64 {
    extra.map_or(0, ExtraStats::ecn_marks)
}

fn sample(
    t_ns: i64,
    (device, handle, kind): (String, String, String),
    stats: &Stats,
    marks: u64,
) -> QueueSample {
    QueueSample {
        t_ns,
        device,
        handle,
        kind,
        backlog_bytes: stats.backlog_bytes.into(),
        backlog_packets: stats.backlog_packets.into(),
        drops: stats.drops.into(),
        marks,
        packets: stats.packets,
        bytes: stats.bytes,
    }
}

/// Samples the TCP connections of foreign programs on this host. Those of this process are left out: they report themselves, under
/// their own names.
///
/// A connection is two flows, named by where the data comes from and goes to: `tcp 10.0.0.1:40000 > 10.0.0.2:80`, of which this host
/// is the sender, and the one the other way round, of which it is the receiver. A sampler at the other end reports the same names from the
/// other side.
pub struct SocketSampler {
    diag: SockDiag,
    interval: Span,
    flows: BTreeMap<(String, bool), Vec<FlowSample>>,
    /// The kernel's numbers of foreign connections. When their program has closed them they have no inode any more, and could not be told
    /// from our own.
    foreign: BTreeSet<u64>,
}

impl SocketSampler {
    /// Opens the conversation. Errors when the kernel has no socket statistics.
    pub fn prepare(interval: Span) -> Result<Self, LoadError> {
        check(interval)?;
        let mut diag = SockDiag::open().map_err(failed)?;
        // Now is the time to learn that the kernel lacks it.
        diag.tcp(&TcpFilter::ESTABLISHED).map_err(failed)?;
        Ok(Self { diag, interval, flows: BTreeMap::new(), foreign: BTreeSet::new() })
    }

    /// Samples from the window's start to its end, or until the bell rings.
    pub fn run(mut self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), LoadError> {
        let interval = self.interval;
        at_ticks(window, interval, stop, &mut self, Self::look, |this| {
            for ((stream, _), samples) in std::mem::take(&mut this.flows) {
                emit(Event::Flow { stream, samples });
            }
        })
    }

    fn look(&mut self, t_ns: i64) -> Result<(), LoadError> {
        let own = own_sockets().map_err(LoadError::System)?;
        for socket in self.diag.tcp(&TcpFilter::CONNECTED).map_err(failed)? {
            let owned = socket.inode != 0;
            if owned && !own.contains(&u64::from(socket.inode)) {
                self.foreign.insert(socket.cookie);
            }
            let Some(info) = socket.info.filter(|_| self.foreign.contains(&socket.cookie)) else {
                continue;
            };
            let (here, there) = (socket.local, socket.remote);
            let sent = FlowSample {
                t_ns,
                side: Side::Sender,
                bytes: info.bytes_acked.unwrap_or(0),
                packets: 0,
                tcp: Some(state(&info)),
            };
            let received = FlowSample {
                t_ns,
                side: Side::Receiver,
                bytes: info.bytes_received.unwrap_or(0),
                packets: 0,
                tcp: None,
            };
            let name = format!("tcp {here} > {there}");
            self.flows.entry((name, false)).or_default().push(sent);
            let name = format!("tcp {there} > {here}");
            self.flows.entry((name, true)).or_default().push(received);
        }
        Ok(())
    }
}

fn own_sockets() -> Result<BTreeSet<u64>, SysError> {
    let failed = |e: std::io::Error| SysError::io("list the own descriptors", &e);
    let mut inodes = BTreeSet::new();
    for entry in std::fs::read_dir("/proc/self/fd").map_err(failed)? {
        // One that is closed meanwhile is gone, that is all.
        let Ok(target) = entry.and_then(|e| std::fs::read_link(e.path())) else { continue };
        let inode: Option<u64> = target
            .to_str()
            .and_then(|t| t.strip_prefix("socket:["))
            .and_then(|t| t.strip_suffix(']'))
            .and_then(|t| t.parse().ok());
        inodes.extend(inode);
    }
    Ok(inodes)
}
