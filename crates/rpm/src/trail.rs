//! What was seen and when, for a run that is kept: probes, and what had been carried.

use crate::ask::ForeignProbe;
use crate::plan::LoadDirection;
use quell_sys::clock::monotonic_ns;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeKind {
    Connection,
    /// A round trip of the handshake of TLS.
    Handshake,
    /// A few bytes on a connection of their own.
    Request,
    /// A few bytes within a loaded connection, or TCP's estimate of what that takes.
    Within,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeReturn {
    /// Under which load; none while the line was idle.
    pub way: Option<LoadDirection>,
    pub asked: ProbeKind,
    /// When it was sent, in nanoseconds since the start.
    pub t_ns: u64,
    pub ms: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    pub way: LoadDirection,
    /// When, in nanoseconds since the start.
    pub t_ns: u64,
    /// Bytes of payload until then, of all its connections.
    pub bytes: u64,
}

/// All of it. At most a hundred probes a second are in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Trail {
    began_ns: u64,
    pub probes: Vec<ProbeReturn>,
    /// What was carried, interval after interval.
    pub carried: Vec<Carried>,
}

impl Trail {
    pub fn begin() -> Self {
        Self::since(monotonic_ns())
    }

    fn since(began_ns: u64) -> Self {
        Self { began_ns, probes: Vec::new(), carried: Vec::new() }
    }

    pub fn empty(&self) -> Self {
        Self::since(self.began_ns)
    }

    pub fn append(&mut self, other: Self) {
        self.probes.extend(other.probes);
        self.carried.extend(other.carried);
    }

    /// A probe that is back just now.
    pub fn back(&mut self, way: Option<LoadDirection>, asked: ProbeKind, ms: f64) {
        self.sent(way, asked, monotonic_ns().saturating_sub(ns(ms)), ms);
    }

    /// The parts of one on a connection of its own, which was begun then.
    pub fn foreign(&mut self, way: Option<LoadDirection>, began_ns: u64, probe: &ForeignProbe) {
        self.sent(way, ProbeKind::Connection, began_ns, probe.tcp_ms);
        if let Some(ms) = probe.tls_ms {
            self.sent(way, ProbeKind::Handshake, began_ns + ns(probe.tcp_ms), ms);
        }
        self.back(way, ProbeKind::Request, probe.http_ms);
    }

    fn sent(&mut self, way: Option<LoadDirection>, asked: ProbeKind, at_ns: u64, ms: f64) {
        self.probes.push(ProbeReturn { way, asked, t_ns: at_ns.saturating_sub(self.began_ns), ms });
    }

    pub fn carried(&mut self, way: LoadDirection, bytes: u64) {
        let t_ns = monotonic_ns().saturating_sub(self.began_ns);
        self.carried.push(Carried { way, t_ns, bytes });
    }

    /// How long it has gone on, in nanoseconds.
    pub fn lasts_ns(&self) -> u64 {
        let ended = self.probes.iter().map(|probe| probe.t_ns + ns(probe.ms));
        ended.chain(self.carried.iter().map(|carried| carried.t_ns)).max().unwrap_or(0)
    }
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_probe_follow_each_other_and_directions_lie_one_behind_the_other() {
        let mut trail = Trail::begin();
        let began = trail.began_ns;
        let probe = ForeignProbe { tcp_ms: 20.0, tls_ms: Some(30.0), http_ms: 40.0 };
        trail.foreign(None, began + 1_000_000, &probe);
        let mut down = trail.empty();
        down.carried(LoadDirection::Down, 1000);
        trail.append(down);
        let at = |asked| trail.probes.iter().find(|p| p.asked == asked).expect("it is there");
        assert_eq!(
            (at(ProbeKind::Connection).t_ns, at(ProbeKind::Connection).ms),
            (1_000_000, 20.0)
        );
        assert_eq!(
            (at(ProbeKind::Handshake).t_ns, at(ProbeKind::Handshake).ms),
            (21_000_000, 30.0)
        );
        assert_eq!((at(ProbeKind::Request).ms, trail.carried[0].bytes), (40.0, 1000));
        assert!(trail.lasts_ns() >= 51_000_000);
    }
}
