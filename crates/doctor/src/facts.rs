//! What checks look at: a host now, a while before, and between.

use crate::peer::PeerReport;
use quell_cause::ConnectionFacts;
use quell_finding::Evidence;
use quell_host::counters::file_of;
use quell_host::sockets::Owner;
use quell_host::sockets::Sockets;
use quell_host::{Device, Reading, Snapshot};
use quell_netlink::sock_diag::{DiagSocket, SocketMemory, TcpInfo, TcpState};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub before: Option<&'a Snapshot>,
    pub now: &'a Snapshot,
    /// What was seen of connections in between.
    pub stalls: &'a AckStalls,
    pub owners: &'a BTreeMap<u32, Owner>,
    /// Context switches a second before the command that was watched; none where none was.
    pub quiet_switches: Option<f64>,
    /// What the other end of a path told; none where none was asked.
    pub peer: Option<&'a PeerReport>,
}

/// A counter since the start, and while we watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterReading {
    /// Since the kernel, or this network namespace, started.
    pub total: u64,
    pub watched: u64,
}

/// How much of something is too much.
#[derive(Debug, Clone, Copy)]
pub struct Threshold {
    /// Fewer are never told of.
    pub least: u64,
    /// Since the start: at least so many an hour. While we watch, `least` is enough.
    pub per_hour: f64,
}

#[derive(Debug, Clone, Copy)]
pub struct Connection<'a> {
    pub now: &'a DiagSocket,
    pub info: &'a TcpInfo,
    /// What it knew before; none for one that is new.
    pub earlier: Option<&'a TcpInfo>,
    pub earlier_memory: Option<SocketMemory>,
    /// Seconds between the two.
    pub seconds: f64,
}

impl CounterReading {
    /// From two readings. A counter that went back was reset, or wrapped: what it shows now is all that is known.
    pub fn between(before: Option<u64>, now: u64) -> Self {
        let watched = match before {
            Some(before) if before <= now => now - before,
            Some(_) => now,
            None => 0,
        };
        Self { total: now, watched }
    }

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
    pub fn is_over(&self, moved: CounterReading, limit: Threshold) -> bool {
        let hours = self.now.uptime().map_or(f64::INFINITY, |seconds| seconds / 3600.0);
        let often = moved.total as f64 >= limit.per_hour * hours;
        moved.watched >= limit.least.max(1) || (moved.total >= limit.least.max(1) && often)
    }

    /// A counter of the stack. Errors where this kernel has none.
    pub fn counter(&self, counter: &str) -> Reading<CounterReading> {
        let before = self.before.and_then(|before| before.counter(counter).ok());
        Ok(CounterReading::between(before, self.now.counter(counter)?))
    }

    /// The sum of counters, of which this kernel needs to have one, and each of them as evidence that is not zero.
    pub fn counters(&self, counters: &[&str]) -> Reading<(CounterReading, Vec<Evidence>)> {
        let mut sum = CounterReading::default();
        let mut evidence = Vec::new();
        let mut why = None;
        let mut seen = false;
        for counter in counters {
            match self.counter(counter) {
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
    ) -> Reading<impl Iterator<Item = (&'a Device, Option<&'a Device>)> + use<'a>> {
        let before = self.before.and_then(|before| before.devices().ok());
        let now = self.now.devices()?.values();
        let up = now.filter(|device| device.link.is_up() && device.link.name != "lo");
        Ok(up.map(move |device| (device, before.and_then(|all| all.get(&device.link.name)))))
    }

    /// Connections of TCP, the busiest first; as many as the snapshot kept.
    pub fn connections(&self) -> Reading<Vec<Connection<'a>>> {
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

    /// What tells who waited on a connection.
    pub fn of_connection(&self, c: &Connection<'_>) -> ConnectionFacts {
        let info = c.info;
        let share = |clock: fn(&TcpInfo) -> Option<u64>| c.share_of_busy(clock).unwrap_or(0.0);
        // One segment in flight waits for a delayed acknowledgement as well.
        let least = info.min_rtt.filter(|us| *us < u32::MAX && info.unacked >= 4);
        let rate = info.delivery_rate.unwrap_or(u64::MAX).max(1);
        let shut = self.counter("TcpExt.TCPToZeroWindowAdv").is_ok_and(|count| count.total > 0);
        let full_sized = info.snd_mss >= 1000 && c.now.send_queue >= info.snd_mss;
        let acknowledged = info.bytes_acked.unwrap_or(0);
        // More than the handshake was acknowledged, or there came an answer: the other end is there.
        let is_there = acknowledged > 1 || info.bytes_received.unwrap_or(0) > 0;
        ConnectionFacts {
            window_share: share(|info| info.rwnd_limited),
            buffer_share: share(|info| info.sndbuf_limited),
            buffer_full: c.send_buffer_is_full(),
            app_limited: c.earlier.is_some()
                && c.went(|info| info.bytes_acked) >= 1_000_000
                && info.app_limited
                && info.notsent_bytes == Some(0),
            unread: shut
                && c.now
                    .memory
                    .is_some_and(|m| m.received > 0 && m.received >= m.receive_buffer / 2),
            queueing_us: least.map_or(0, |least| info.rtt.saturating_sub(least).into()),
            eight_segments_us: 8 * u64::from(info.snd_mss) * 1_000_000 / rate,
            own_queue: self.own_queue_stands(),
            looks: self.stalls.looks,
            held_back: self.stalls.seen.get(&c.now.cookie).copied().unwrap_or(0),
            timeouts: info.backoff.into(),
            large_unacknowledged: full_sized && is_there && acknowledged < info.snd_mss.into(),
        }
    }

    /// Whether an interface here held packets at both looks.
    fn own_queue_stands(&self) -> bool {
        let standing = |snapshot: &Snapshot| -> Vec<String> {
            let queues = snapshot.queues().unwrap_or_default().iter();
            let full = queues.filter(|queue| queue.root && queue.backlog_packets > 0);
            full.map(|queue| queue.device.clone()).collect()
        };
        let Some(before) = self.before.map(standing) else { return false };
        standing(self.now).iter().any(|device| before.contains(device))
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

    /// The share of its busy time that something took: while we watched where it was busy then, else since it began.
    pub fn share_of_busy(&self, figure: impl Fn(&TcpInfo) -> Option<u64>) -> Option<f64> {
        const ENOUGH_US: u64 = 100_000;
        let watched = self.went(|info| info.busy_time);
        let (busy, part) = if watched >= ENOUGH_US {
            (watched, self.went(figure))
        } else {
            (self.info.busy_time?, figure(self.info)?)
        };
        (busy >= ENOUGH_US).then(|| part as f64 / busy as f64)
    }

    /// Whether its send buffer is full of what is in flight, at both looks, while both windows have room.
    ///
    /// The kernel's clock of that (`sndbuf_limited`) runs only from a write that was cut short for want of room and of which all was sent:
    /// a program whose writes are as large as the buffer, or fit into it whole, waits before its next write, and the clock stands.
    pub fn send_buffer_is_full(&self) -> bool {
        let (Some(memory), Some(before)) = (self.now.memory, self.earlier_memory) else {
            return false;
        };
        let (Some(earlier), info) = (self.earlier, self.info) else { return false };
        let full = |memory: SocketMemory| memory.queued >= memory.send_buffer;
        let all_sent = |info: &TcpInfo| info.notsent_bytes.is_some_and(|left| left < info.snd_mss);
        let room = |info: &TcpInfo| info.unacked < info.snd_cwnd && info.lost == 0;
        let unacknowledged = u64::from(self.now.send_queue) + u64::from(info.snd_mss);
        let window = info.snd_wnd.is_some_and(|window| u64::from(window) > unacknowledged);
        let busy = self.went(|info| info.busy_time) as f64 / 1e6;
        let moves = self.went(|info| info.bytes_acked) >= u64::from(memory.send_buffer);
        let seen = [earlier, info].into_iter().all(|info| all_sent(info) && room(info));
        full(memory)
            && full(before)
            && seen
            && window
            && moves
            && busy >= 0.9 * self.seconds.max(0.001)
    }

    /// Whether it stays on this machine.
    pub fn is_local(&self) -> bool {
        self.now.remote.ip().is_loopback() || self.now.remote.ip() == self.now.local.ip()
    }
}

/// Most connections that are followed.
const MOST_FOLLOWED: usize = 256;

/// How often each connection was seen to wait for a delayed acknowledgement:
///
/// ```text
///   sender:    write ─ segment 1 ──►        write: too small for a segment, and one is unacknowledged: Nagle holds it
///   receiver:              waits 40 ms for something to send an acknowledgement with
///   TCP_INFO of the sender meanwhile: unacked 1, notsent < mss, idle for some milliseconds, nothing lost
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AckStalls {
    pub looks: u32,
    /// By the kernel's number for the socket.
    pub seen: BTreeMap<u64, u32>,
}

impl AckStalls {
    pub fn look(&mut self, sockets: &Sockets) {
        self.looks += 1;
        for socket in sockets.tcp.iter().filter(|socket| waits(socket)) {
            if self.seen.len() < MOST_FOLLOWED || self.seen.contains_key(&socket.cookie) {
                *self.seen.entry(socket.cookie).or_default() += 1;
            }
        }
    }
}

/// Whether a connection waits for an acknowledgement that nothing but its being delayed explains: far longer than its path takes, and
/// without a loss.
fn waits(socket: &DiagSocket) -> bool {
    let Some(info) = &socket.info else { return false };
    let held = info.notsent_bytes.unwrap_or(0);
    let path_ms = info.min_rtt.unwrap_or(info.rtt) / 1000;
    socket.state == TcpState::Established
        && info.unacked == 1
        && held > 0
        && held < info.snd_mss
        && info.lost == 0
        && info.retrans == 0
        && info.backoff == 0
        && info.last_data_sent > path_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_reset_moved_by_what_it_shows() {
        assert_eq!(CounterReading::between(Some(5), 7), CounterReading { total: 7, watched: 2 });
        assert_eq!(
            CounterReading::between(Some(4_294_967_290), 3),
            CounterReading { total: 3, watched: 3 }
        );
        assert_eq!(CounterReading::between(None, 7), CounterReading { total: 7, watched: 0 });
    }
}
