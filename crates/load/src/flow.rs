//! The flows of a TCP task while they run, and their reports.
//!
//! ```text
//!   worker threads: blocked in send or recv ──counters──► Reporter: looks at each flow at its ticks ──► Event::Flow, once a second
//! ```
//!
//! Looking costs the worker nothing; ticks are at round times of the measurement, the same for all flows.

use crate::connection_sample::tcp_info;
use crate::{Emit, FLUSH_NS};
use nix::errno::Errno;
use quell_model::{Event, Fact, FlowSample, Side, Subject, TcpState, Told, When};
use quell_netlink::sock_diag::TcpInfo;
use quell_sys::clock::thread_cpu_ns;
use quell_sys::pace::Window;
use quell_sys::socket::stream::{Discarded, TcpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that a receiver takes at most at a time.
pub(crate) const MOST: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All bytes that were asked for went over, or the other end finished.
    Complete,
    Broken(Errno),
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub name: String,
    pub side: Side,
    pub stream: Arc<TcpSocket>,
    pub report_ns: u64,
    pub started_ns: u64,
    /// What the kernel had counted as acknowledged before the first byte of data.
    pub before: u64,
    /// Bytes to send, where there is an end to it.
    pub limit: Option<u64>,
    pub received: Discarded,
    ended: Mutex<Option<(u64, Ending)>>,
}

impl Flow {
    pub fn new(name: String, side: Side, stream: Arc<TcpSocket>, report_ns: u64, now: u64) -> Self {
        Self {
            name,
            side,
            stream,
            report_ns,
            started_ns: now,
            before: 0,
            limit: None,
            received: Discarded::new(MOST),
            ended: Mutex::new(None),
        }
    }

    pub fn end(&self, now_ns: u64, ending: Ending) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some((now_ns, ending));
    }

    fn ended(&self) -> Option<(u64, Ending)> {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sample(&self, t_ns: i64) -> FlowSample {
        let mut sample = FlowSample { t_ns, side: self.side, bytes: 0, packets: 0, tcp: None };
        match self.side {
            Side::Receiver => sample.bytes = self.received.bytes(),
            Side::Sender => {
                if let Some(info) = tcp_info(&self.stream) {
                    // The handshake's and the end's sequence numbers count as bytes too (tcp_snd_una_update).
                    let acked = info.bytes_acked.unwrap_or(0).saturating_sub(self.before);
                    sample.bytes = acked.min(self.limit.unwrap_or(u64::MAX));
                    sample.tcp = Some(state(&info));
                }
            }
        }
        sample
    }
}

/// What the calling thread, which moved the data of one end, took of a CPU since it began.
pub(crate) fn toiled(name: &str, side: Side, emit: Emit<'_>) {
    let told = match side {
        Side::Sender => Told::SenderCpu,
        Side::Receiver => Told::ReceiverCpu,
    };
    if let Some(ns) = thread_cpu_ns() {
        emit(Fact::new(When::After, Subject::stream(name, told), ns.to_string()).into());
    }
}

pub(crate) fn state(info: &TcpInfo) -> TcpState {
    TcpState {
        retransmits: Some(info.total_retrans.into()),
        cwnd: info.snd_cwnd,
        srtt_us: info.rtt,
        min_rtt_us: info.min_rtt.unwrap_or(0),
        delivery_rate: info.delivery_rate.unwrap_or(0),
        pacing_rate: info.pacing_rate.unwrap_or(u64::MAX),
        unacked: info.unacked,
        notsent_bytes: info.notsent_bytes.unwrap_or(0),
    }
}

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

    pub fn adopt(&mut self, flow: Arc<Flow>) {
        let t_ns = self.window.t(flow.started_ns);
        let first = FlowSample { t_ns, side: flow.side, bytes: 0, packets: 0, tcp: None };
        self.live.push(Live {
            tick_ns: self.window.next_tick(flow.started_ns, flow.report_ns),
            flush_ns: flow.started_ns.saturating_add(FLUSH_NS),
            samples: vec![first],
            bytes: 0,
            flow,
        });
    }

    pub fn due(&self) -> Option<u64> {
        self.live.iter().map(|l| l.tick_ns).min()
    }

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
    pub fn ended(&mut self) -> Vec<(Arc<Flow>, Ending)> {
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
    pub fn finish(&mut self, now_ns: u64) -> Vec<(Arc<Flow>, Ending)> {
        let ended = self.ended();
        for mut live in self.live.drain(..) {
            live.look(&self.window, now_ns);
            live.flush(self.emit);
            live.flow.stream.abort();
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
