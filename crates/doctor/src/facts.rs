//! What checks look at: a host now, a while before, and between.

use crate::Stalls;
use crate::peer::Peer;
use quell_finding::Evidence;
use quell_host::counters::file_of;
use quell_host::owner::Owner;
use quell_host::{Device, Seen, Snapshot};
use quell_netlink::sock_diag::{DiagSocket, SocketMemory, TcpInfo};
use std::collections::BTreeMap;

/// The facts of a host.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// A while before.
    pub before: Option<&'a Snapshot>,
    /// Now.
    pub now: &'a Snapshot,
    /// What was seen of connections in between.
    pub stalls: &'a Stalls,
    /// Whose sockets, by inode.
    pub owners: &'a BTreeMap<u32, Owner>,
    /// Context switches a second before the command that was watched; none where none was.
    pub quiet_switches: Option<f64>,
    /// What the other end of a path told; none where none was asked.
    pub peer: Option<&'a Peer>,
}

/// A counter since the start, and while we watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Since the kernel, or this network namespace, started.
    pub total: u64,
    /// While we watched.
    pub watched: u64,
}

/// How much of something is too much.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Fewer are never told of.
    pub least: u64,
    /// Since the start: at least so many an hour. While we watch, `least` is enough.
    pub per_hour: f64,
}

/// A connection now and before.
#[derive(Debug, Clone, Copy)]
pub struct Connection<'a> {
    /// Now.
    pub now: &'a DiagSocket,
    /// What TCP knows now.
    pub info: &'a TcpInfo,
    /// What it knew before; none for one that is new.
    pub earlier: Option<&'a TcpInfo>,
    /// What its buffers held before.
    pub earlier_memory: Option<SocketMemory>,
    /// Seconds between the two.
    pub seconds: f64,
}

/// How a send buffer shows that it holds a connection up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HeldBySendBuffer {
    /// By the kernel's own clock: the share of the busy time, and that in microseconds.
    Counted {
        /// The share.
        share: f64,
        /// The busy time.
        busy: u64,
    },
    /// It was full of what is in flight, whenever we looked.
    Full(SocketMemory),
}

impl Moved {
    /// From two readings. A counter that went back was reset, or wrapped: what it shows now is all that is known.
    pub fn between(before: Option<u64>, now: u64) -> Self {
        let watched = match before {
            Some(before) if before <= now => now - before,
            Some(_) => now,
            None => 0,
        };
        Self { total: now, watched }
    }

    /// The sum of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            total: self.total.saturating_add(other.total),
            watched: self.watched.saturating_add(other.watched),
        }
    }

    /// As evidence: since the start and, where it moved, while we watched.
    pub fn evidence(self, name: &str, source: &str) -> Vec<Evidence> {
        let mut all = vec![Evidence::amount(name, self.total, "since the start", source)];
        if self.watched > 0 {
            all.push(Evidence::amount("of these", self.watched, "while watching", source));
        }
        all
    }
}

impl<'a> Facts<'a> {
    /// Seconds that we watched.
    pub fn seconds(&self) -> f64 {
        self.before.map_or(0.0, |before| self.now.seconds_since(before))
    }

    /// Whether a count is too much.
    pub fn is_over(&self, moved: Moved, limit: Limit) -> bool {
        let hours = self.now.uptime().map_or(f64::INFINITY, |seconds| seconds / 3600.0);
        let often = moved.total as f64 >= limit.per_hour * hours;
        moved.watched >= limit.least.max(1) || (moved.total >= limit.least.max(1) && often)
    }

    /// A counter of the stack. Errors where this kernel has none.
    pub fn moved(&self, counter: &str) -> Seen<Moved> {
        let before = self.before.and_then(|before| before.counter(counter).ok());
        Ok(Moved::between(before, self.now.counter(counter)?))
    }

    /// The sum of counters, of which this kernel needs to have one, and each of them as evidence that is not zero.
    pub fn moved_all(&self, counters: &[&str]) -> Seen<(Moved, Vec<Evidence>)> {
        let mut sum = Moved::default();
        let mut evidence = Vec::new();
        let mut why = None;
        let mut seen = false;
        for counter in counters {
            match self.moved(counter) {
                Ok(moved) => {
                    seen = true;
                    sum = sum.and(moved);
                    let name = counter.rsplit('.').next().unwrap_or(counter);
                    if moved.total > 0 {
                        evidence.extend(moved.evidence(name, file_of(counter)));
                    }
                }
                Err(error) => why = Some(error),
            }
        }
        match why {
            Some(why) if !seen => Err(why),
            _ => Ok((sum, evidence)),
        }
    }

    /// The devices that are up, without loopback.
    pub fn devices(
        &self,
    ) -> Seen<impl Iterator<Item = (&'a Device, Option<&'a Device>)> + use<'a>> {
        let before = self.before.and_then(|before| before.devices().ok());
        let now = self.now.devices()?.values();
        let up = now.filter(|device| device.link.is_up() && device.link.name != "lo");
        Ok(up.map(move |device| (device, before.and_then(|all| all.get(&device.link.name)))))
    }

    /// Connections of TCP, the busiest first; as many as the snapshot kept.
    pub fn connections(&self) -> Seen<Vec<Connection<'a>>> {
        let earlier: BTreeMap<u64, &DiagSocket> = match self.before.map(Snapshot::sockets) {
            Some(Ok(sockets)) => sockets.tcp.iter().map(|socket| (socket.cookie, socket)).collect(),
            _ => BTreeMap::new(),
        };
        let sockets = self.now.sockets()?.tcp.iter();
        let one = |now: &'a DiagSocket| {
            let info = now.info.as_ref()?;
            let was = earlier.get(&now.cookie).copied();
            Some(Connection {
                now,
                info,
                earlier: was.and_then(|was| was.info.as_ref()),
                earlier_memory: was.and_then(|was| was.memory),
                seconds: self.seconds(),
            })
        };
        Ok(sockets.filter_map(one).collect())
    }

    /// A connection, with the process that holds it where that may be known.
    pub fn name(&self, socket: &DiagSocket) -> String {
        let ends = format!("{} to {}", socket.local, socket.remote);
        match self.owners.get(&socket.inode) {
            Some(owner) => format!("{owner}, {ends}"),
            None => ends,
        }
    }
}

impl Connection<'_> {
    /// How far a figure went while we watched, or since the connection began where it is new.
    pub fn went(&self, figure: impl Fn(&TcpInfo) -> Option<u64>) -> u64 {
        let before = self.earlier.and_then(&figure).unwrap_or(0);
        figure(self.info).unwrap_or(0).saturating_sub(before)
    }

    /// The share of its busy time that something took, and that busy time in microseconds: while we watched where it was busy then, else
    /// since it began.
    pub fn share_of_busy(&self, figure: impl Fn(&TcpInfo) -> Option<u64>) -> Option<(f64, u64)> {
        const ENOUGH_US: u64 = 100_000;
        let watched = self.went(|info| info.busy_time);
        let (busy, part) = if watched >= ENOUGH_US {
            (watched, self.went(figure))
        } else {
            (self.info.busy_time?, figure(self.info)?)
        };
        (busy >= ENOUGH_US).then(|| (part as f64 / busy as f64, busy))
    }

    /// How its send buffer holds it up, where it does.
    ///
    /// The kernel's clock of that (`sndbuf_limited`) runs only from a write that was cut short for want of room and of which all was sent:
    /// a program whose writes are as large as the buffer, or fit into it whole, waits before its next write, and the clock stands. What
    /// such a wait looks like is a buffer that is full of what is in flight, at both looks, with data in flight all the time between, while
    /// the window of the other end and the congestion window have room.
    pub fn held_by_send_buffer(&self) -> Option<HeldBySendBuffer> {
        const SHARE: f64 = 0.1;
        if let Some((share, busy)) = self.share_of_busy(|info| info.sndbuf_limited)
            && share > SHARE
        {
            return Some(HeldBySendBuffer::Counted { share, busy });
        }
        let (memory, info) = (self.now.memory?, self.info);
        let earlier = self.earlier?;
        let full = |memory: SocketMemory| memory.queued >= memory.send_buffer;
        let all_sent = |info: &TcpInfo| info.notsent_bytes.is_some_and(|left| left < info.snd_mss);
        let room = |info: &TcpInfo| info.unacked < info.snd_cwnd && info.lost == 0;
        let window =
            u64::from(info.snd_wnd?) > u64::from(self.now.send_queue) + u64::from(info.snd_mss);
        let seen = full(memory)
            && full(self.earlier_memory?)
            && [earlier, info].into_iter().all(|info| all_sent(info) && room(info));
        let busy = self.went(|info| info.busy_time) as f64 / 1e6;
        let moves = self.went(|info| info.bytes_acked) >= u64::from(memory.send_buffer);
        let held = seen && window && moves && self.seconds > 0.0 && busy >= 0.9 * self.seconds;
        held.then_some(HeldBySendBuffer::Full(memory))
    }

    /// Whether it stays on this machine.
    pub fn is_local(&self) -> bool {
        self.now.remote.ip().is_loopback() || self.now.remote.ip() == self.now.local.ip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_reset_moved_by_what_it_shows() {
        assert_eq!(Moved::between(Some(5), 7), Moved { total: 7, watched: 2 });
        assert_eq!(Moved::between(Some(4_294_967_290), 3), Moved { total: 3, watched: 3 });
        assert_eq!(Moved::between(None, 7), Moved { total: 7, watched: 0 });
    }
}
