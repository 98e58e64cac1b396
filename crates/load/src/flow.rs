//! The flows of a TCP task while they run, and their reports.
//!
//! ```text
//!   worker threads: blocked in send or recv ──TCP_INFO──► Reporter: looks at each flow at its ticks ──► Event::Flow, once a second
//! ```
//!
//! Looking costs the worker nothing; ticks are at round times of the measurement, the same for all flows.

use crate::Emit;
use crate::bulk::Ended;
use crate::lane::Lane;
use quell_model::{Event, FlowSample, Side, TcpState};
use quell_netlink::sock_diag::TcpInfo;
use quell_netlink::sock_diag::TcpState::{Established, FinWait1, FinWait2};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use std::sync::{Arc, OnceLock};

/// How often samples are handed on.
const FLUSH_NS: u64 = 1_000_000_000;

/// A connection that carries data.
#[derive(Debug)]
pub(crate) struct Flow {
    pub name: String,
    pub lane: Lane,
    pub report_ns: u64,
    pub started_ns: u64,
    /// What the kernel had counted, as acknowledged or as received, before the first byte of data.
    pub before: u64,
    /// Bytes to send, where there is an end to it.
    pub limit: Option<u64>,
    /// When the worker's part ended.
    ended_ns: OnceLock<u64>,
}

impl Flow {
    pub fn new(
        name: String,
        lane: Lane,
        report_ns: u64,
        limit: Option<u64>,
        before: u64,
    ) -> Arc<Self> {
        let (started_ns, ended_ns) = (monotonic_ns(), OnceLock::new());
        Arc::new(Self { name, lane, report_ns, started_ns, before, limit, ended_ns })
    }

    /// Moves the data, to its end.
    pub fn work(&self) {
        self.lane.work_whole(self.limit);
        self.ended_ns.get_or_init(monotonic_ns);
    }

    /// Its first words could not be said.
    pub fn fail(&self, error: SysError) {
        self.lane.end(Err(error));
        self.ended_ns.get_or_init(monotonic_ns);
    }

    fn ended(&self) -> Option<(u64, Result<Ended, SysError>)> {
        Some((*self.ended_ns.get()?, self.lane.ended()?))
    }

    pub fn side(&self) -> Side {
        if self.lane.sends { Side::Sender } else { Side::Receiver }
    }

    fn sample(&self, t_ns: i64) -> FlowSample {
        let mut sample = FlowSample { t_ns, side: self.side(), bytes: 0, packets: 0, tcp: None };
        match self.lane.info() {
            // The handshake's and the end's sequence numbers count as bytes too (tcp_snd_una_update, tcp_fin).
            Some(info) if self.lane.sends => {
                let acked = info.bytes_acked.unwrap_or(0).saturating_sub(self.before);
                sample.bytes = acked.min(self.limit.unwrap_or(u64::MAX));
                sample.tcp = Some(state(&info));
            }
            // What comes within the one call of the worker is not in the tally yet; in the end all is.
            Some(info) if self.ended_ns.get().is_none() => {
                let open = matches!(info.state, Some(Established | FinWait1 | FinWait2));
                let before = self.before + u64::from(!open);
                let came = info.bytes_received.map(|bytes| bytes.saturating_sub(before));
                sample.bytes = came.unwrap_or(self.lane.moved().0);
            }
            _ if self.lane.sends => {}
            _ => sample.bytes = self.lane.moved().0,
        }
        sample
    }
}

/// What tables keep of it.
pub(crate) fn state(info: &TcpInfo) -> TcpState {
    TcpState {
        retransmits: info.total_retrans.into(),
        cwnd: info.snd_cwnd,
        srtt_us: info.rtt,
        min_rtt_us: info.min_rtt.unwrap_or(0),
        delivery_rate: info.delivery_rate.unwrap_or(0),
        pacing_rate: info.pacing_rate.unwrap_or(u64::MAX),
        unacked: info.unacked,
        notsent_bytes: info.notsent_bytes.unwrap_or(0),
    }
}

/// Looks at flows and reports.
pub(crate) struct Reporter<'a> {
    window: Window,
    emit: Emit<'a>,
    live: Vec<Live>,
}

struct Live {
    flow: Arc<Flow>,
    tick_ns: u64,
    flush_ns: u64,
    samples: Vec<FlowSample>,
    bytes: u64,
}

impl<'a> Reporter<'a> {
    pub fn new(window: Window, emit: Emit<'a>) -> Self {
        Self { window, emit, live: Vec::new() }
    }

    /// A flow begins, with nothing.
    pub fn adopt(&mut self, flow: Arc<Flow>) {
        let t_ns = self.window.t(flow.started_ns);
        let first = FlowSample { t_ns, side: flow.side(), bytes: 0, packets: 0, tcp: None };
        self.live.push(Live {
            tick_ns: self.window.next_tick(flow.started_ns, flow.report_ns),
            flush_ns: flow.started_ns.saturating_add(FLUSH_NS),
            samples: vec![first],
            bytes: 0,
            flow,
        });
    }

    /// When to look next.
    pub fn due(&self) -> Option<u64> {
        self.live.iter().map(|l| l.tick_ns).min()
    }

    /// Looks at the flows whose tick it is.
    pub fn tick(&mut self, now_ns: u64) {
        for live in &mut self.live {
            if live.tick_ns <= now_ns {
                live.look(&self.window, now_ns);
                live.tick_ns = self.window.next_tick(now_ns, live.flow.report_ns);
            }
            if live.flush_ns <= now_ns {
                live.flush(self.emit);
                live.flush_ns = now_ns.saturating_add(FLUSH_NS);
            }
        }
    }

    /// Reports the flows that ended for the last time, and gives them back.
    pub fn ended(&mut self) -> Vec<(Arc<Flow>, Result<Ended, SysError>)> {
        let mut gone = Vec::new();
        let (window, emit) = (self.window, self.emit);
        self.live.retain_mut(|live| {
            let Some((at_ns, ending)) = live.flow.ended() else { return true };
            live.look(&window, at_ns);
            live.flush(emit);
            gone.push((Arc::clone(&live.flow), ending));
            false
        });
        gone
    }

    /// Ends all flows: reports them for the last time, as of now, and breaks their connections off.
    pub fn finish(&mut self, now_ns: u64) -> Vec<(Arc<Flow>, Result<Ended, SysError>)> {
        let ended = self.ended();
        for mut live in self.live.drain(..) {
            live.look(&self.window, now_ns);
            live.flush(self.emit);
            live.flow.lane.abort();
        }
        ended
    }
}

impl Live {
    fn look(&mut self, window: &Window, now_ns: u64) {
        let mut sample = self.flow.sample(window.t(now_ns));
        // A connection that was reset may have forgotten; and a worker may note its end just before a tick is taken.
        sample.bytes = sample.bytes.max(self.bytes);
        self.bytes = sample.bytes;
        if let Some(last) = self.samples.last() {
            sample.t_ns = sample.t_ns.max(last.t_ns);
        }
        self.samples.push(sample);
    }

    fn flush(&mut self, emit: Emit<'_>) {
        let samples = std::mem::take(&mut self.samples);
        if !samples.is_empty() {
            emit(Event::Flow { stream: self.flow.name.clone(), samples });
        }
    }
}
