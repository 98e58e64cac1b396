//! Client and server as tasks of an experiment: a row a call, as an echo stream has it.

use crate::RrError;
use crate::client::{CallShape, Caller};
use crate::server::{Limits, RrServer};
use quell_model::task::RrClient;
use quell_model::{EchoSample, EchoStatus, Event};
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::{Alarm, Bell, readable, wait, wake_exactly};
use quell_units::Span;
use std::net::SocketAddr;

const BATCH: usize = 1000;

#[derive(Debug)]
pub struct ClientTask {
    client: RrClient,
    caller: Caller,
}

impl ClientTask {
    pub fn prepare(client: &RrClient) -> Result<Self, RrError> {
        let shape = CallShape {
            pattern: client.pattern,
            size: client.size,
            nodelay: client.nodelay,
            one_write: client.one_write,
            quickack: client.quickack,
        };
        Ok(Self {
            client: client.clone(),
            caller: Caller::new(client.to, shape)?.with_patience(client.patience.nanos()),
        })
    }

    /// Calls from the window's start to its end, or as often as it was told; a call that was begun is waited for.
    pub fn run(
        mut self,
        window: &Window,
        stop: &Bell,
        emit: &(dyn Fn(Event) + Sync),
    ) -> Result<(), RrError> {
        wake_exactly();
        let mut alarm = Alarm::new()?;
        alarm.set(Some(window.start_ns))?;
        wait(&mut [readable(&alarm), readable(stop)])?;
        let mut samples = Vec::new();
        let result = self.calls(window, stop, &mut samples, emit);
        if !samples.is_empty() {
            emit(Event::Echo { stream: self.client.stream, samples });
        }
        result
    }

    fn calls(
        &mut self,
        window: &Window,
        stop: &Bell,
        samples: &mut Vec<EchoSample>,
        emit: &(dyn Fn(Event) + Sync),
    ) -> Result<(), RrError> {
        for seq in 0..u64::from(self.client.calls) {
            if monotonic_ns() >= window.end_ns() || stop.rings() {
                break;
            }
            let begun_ns = monotonic_ns();
            match self.caller.open(stop) {
                Err(error) if error.is_silence() => {
                    samples.push(self.unanswered(seq, window.t(begun_ns)));
                    continue;
                }
                opened => opened?,
            }
            let opened_ns = monotonic_ns();
            if opened_ns >= window.end_ns() {
                // What would be called now, nobody measures any more.
                if seq == 0 {
                    let waited_ms = opened_ns.saturating_sub(begun_ns) / 1_000_000;
                    // Nobody reads nanoseconds.
                    let waited = Span::from_millis(waited_ms);
                    return Err(RrError::OpenedTooLate { to: self.client.to, waited });
                }
                break;
            }
            let call = match self.caller.call(stop) {
                Err(error) if error.is_silence() => {
                    samples.push(self.unanswered(seq, window.t(opened_ns)));
                    continue;
                }
                call => call?,
            };
            let status = match call.latency_ns {
                Some(_) => EchoStatus::Ok,
                None if stop.rings() => EchoStatus::Unfinished,
                None => EchoStatus::Lost,
            };
            let t_ns = window.t(call.start_ns);
            samples.push(EchoSample {
                rtt_ns: call.latency_ns,
                down_order: call.latency_ns.map(|_| seq),
                ..EchoSample::new(t_ns, seq, self.client.size, status)
            });
            if samples.len() >= BATCH {
                let samples = std::mem::take(samples);
                emit(Event::Echo { stream: self.client.stream.clone(), samples });
            }
        }
        Ok(())
    }

    /// A call for which no connection came about, as long as one was waited for.
    fn unanswered(&self, seq: u64, t_ns: i64) -> EchoSample {
        EchoSample::new(t_ns, seq, self.client.size, EchoStatus::Lost)
    }
}

#[derive(Debug)]
pub struct ServerTask(RrServer);

impl ServerTask {
    /// Listens. Errors when the port is in use.
    pub fn prepare(bind: SocketAddr) -> Result<Self, RrError> {
        // A broken path in the lab is the experiment's wish: patience beyond it.
        let patience = Span::from_secs(120);
        let limits = Limits { idle: patience, handshake: patience, ..Limits::default() };
        Ok(Self(RrServer::prepare(bind, limits)?))
    }

    pub fn run(self, stop: &Bell) -> Result<(), RrError> {
        self.0.run(stop)
    }
}
