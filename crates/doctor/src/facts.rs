//! What checks look at: a host now, a while before, and between.

use crate::packet_drops::DropReport;
use crate::peer::PeerReport;
use quell_cause::{ConnectionFacts, QUEUE_US};
use quell_finding::{Evidence, Finding};
use quell_host::counters::file_of;
use quell_host::sockets::{KEPT, Owner, Sockets};
use quell_host::{Device, Reading, Snapshot};
use quell_netlink::sock_diag::{DiagSocket, TcpInfo, TcpState};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub before: Option<&'a Snapshot>,
    pub now: &'a Snapshot,
    /// What was seen of connections in between.
    pub looks: &'a ConnectionLooks,
    pub owners: &'a BTreeMap<u32, Owner>,
    /// Context switches a second before the command that was watched; none where none was.
    pub quiet_switches: Option<f64>,
    /// What the other end of a path told; none where none was asked.
    pub peer: Option<&'a PeerReport>,
    /// What the kernel dropped while a command ran.
    pub drops: Option<&'a DropReport>,
    /// What the command found itself, where it was a quell.
    pub reported: &'a [Finding],
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

/// What of a receive buffer held the other end up, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiveLimit {
    /// The program left so much unread, and the window was shut.
    Unread(u64),
    /// It grew to what `tcp_rmem` allows, and is read once in a round trip.
    AtMost(u64),
    /// The program fixed it at so much (`SO_RCVBUF`), and what comes in a round trip fills it.
    Fixed(u64),
}

#[derive(Debug, Clone, Copy)]
pub struct Connection<'a> {
    pub now: &'a DiagSocket,
    pub info: &'a TcpInfo,
    /// What it knew before; none for one that is new.
    pub earlier: Option<&'a TcpInfo>,
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
        all.extend(self.new_evidence(source));
        all
    }

    /// What moved while we watched; none where nothing did.
    pub fn new_evidence(self, source: &str) -> Option<Evidence> {
        let new = || Evidence::amount("of these", self.watched, "while watching", source);
        (self.watched > 0).then(new)
    }
}

impl<'a> Facts<'a> {
    /// Seconds that we watched.
    pub fn seconds(&self) -> f64 {
        self.before.map_or(0.0, |before| self.now.seconds_since(before))
    }

    /// Whether a count of this network namespace is too much.
    pub fn is_over(&self, moved: CounterReading, limit: Threshold) -> bool {
        Self::is_over_in(self.now.counted_for(), moved, limit)
    }

    /// The same of a count that all namespaces share: it runs since the kernel started.
    pub fn is_over_since_boot(&self, moved: CounterReading, limit: Threshold) -> bool {
        Self::is_over_in(self.now.uptime(), moved, limit)
    }

    fn is_over_in(seconds: Reading<f64>, moved: CounterReading, limit: Threshold) -> bool {
        let hours = seconds.map_or(f64::INFINITY, |seconds| seconds / 3600.0);
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
                seconds: self.seconds(),
            })
        };
        Ok(sockets.filter_map(one).collect())
    }

    /// What tells who waited on a connection.
    pub fn of_connection(&self, c: &Connection<'_>) -> ConnectionFacts {
        let info = c.info;
        // One segment in flight waits for a delayed acknowledgement as well.
        let least = info.min_rtt.filter(|us| *us < u32::MAX && info.unacked >= 4);
        let came = c.went(|info| info.bytes_received);
        let sent = c.went(|info| info.data_segs_out.map(u64::from));
        let pieces = c.went(|info| info.data_segs_in.map(u64::from));
        // Who downloads says next to nothing itself.
        let receives = came >= 100_000 && sent * 10 < pieces;
        // Who answers what the other end says waits for that.
        let answers = c.went(|info| info.data_segs_in.map(u64::from)) >= 5;
        let moves_data = c.went(|info| info.bytes_acked) >= 100_000 && !answers;
        let full_sized = info.snd_mss >= 1000 && c.now.send_queue >= info.snd_mss;
        let acknowledged = info.bytes_acked.unwrap_or(0);
        // More than the handshake was acknowledged, or there came an answer: the other end is there.
        let is_there = acknowledged > 1 || info.bytes_received.unwrap_or(0) > 0;
        let idle_share = self.idle_share(c);
        let looks = self.looks.of(c.now).copied().unwrap_or_default();
        let (segment, rate) = match receives {
            true => (info.rcv_mss, (came as f64 / looks.seconds().max(0.1)) as u64),
            false => (info.snd_mss, info.delivery_rate.unwrap_or(u64::MAX)),
        };
        let queueing_us = match receives {
            true => looks.queueing_us(),
            false => least.map_or(0, |least| info.rtt.saturating_sub(least).into()),
        };
        // In less time than an ACK is delayed none was waited for.
        let is_slow = sent as f64 * 0.04 <= self.seconds().max(looks.seconds());
        let is_split = pieces * 2 >= sent * 3 && is_slow && looks.own_turn * 4 < looks.count;
        let full = f64::from(looks.buffer_full) / f64::from(looks.count.max(1));
        let share = |clock: fn(&TcpInfo) -> Option<u64>| {
            c.share_of_busy(clock).unwrap_or(0.0) * (1.0 - idle_share)
        };
        ConnectionFacts {
            idle_share: if moves_data { idle_share } else { 0.0 },
            window_share: share(|info| info.rwnd_limited),
            buffer_share: share(|info| info.sndbuf_limited).max(full),
            receive_buffer_full: self.receive_limit(c).is_some(),
            receives,
            split_answers: if is_split && !receives { sent } else { 0 },
            acks_delayed: self.counter("TcpExt.DelayedACKs").map_or(0, |count| count.watched),
            queueing_us,
            eight_segments_us: 8 * u64::from(segment) * 1_000_000 / rate.max(1),
            own_queue: self.own_queue_stands(),
            looks: looks.count,
            held_back: looks.held_back,
            timeouts: info.backoff.into(),
            large_unacknowledged: full_sized && is_there && acknowledged < info.snd_mss.into(),
        }
    }

    /// The share of the watched time in which the kernel had nothing to send.
    fn idle_share(&self, c: &Connection<'_>) -> f64 {
        let (seconds, busy_us) = match (self.looks.of(c.now), c.earlier) {
            _ if c.info.busy_time.is_none_or(|busy| busy == 0) => return 0.0,
            (Some(seen), _) if seen.seconds() >= 0.3 => (seen.seconds(), seen.busy_us()),
            (_, Some(_)) if c.seconds > 0.0 => (c.seconds, c.went(|info| info.busy_time)),
            _ => return 0.0,
        };
        (1.0 - busy_us as f64 / 1e6 / seconds.max(0.001)).max(0.0)
    }

    /// What of the receive buffer here held the other end up.
    pub fn receive_limit(&self, c: &Connection<'_>) -> Option<ReceiveLimit> {
        let memory = c.now.memory?;
        let buffer = u64::from(memory.receive_buffer);
        let shut = self.counter("TcpExt.TCPToZeroWindowAdv").is_ok_and(|count| count.total > 0);
        if shut && memory.received > 0 && memory.received >= memory.receive_buffer / 2 {
            return Some(ReceiveLimit::Unread(c.now.receive_queue.into()));
        }
        let &[_, first, most] = self.now.texts.numbers("net/ipv4/tcp_rmem").ok()?.as_slice() else {
            return None;
        };
        let came = c.went(|info| info.bytes_received);
        // The kernel lets it grow to twice what was read in a round trip.
        let read = u64::from(c.info.rcv_space) * 2;
        if is_at_most(memory.receive_buffer, most) && read * 100 >= most * 90 && came >= most {
            return Some(ReceiveLimit::AtMost(most));
        }
        let fixed = buffer < first || (read > buffer && buffer * 100 < most * 95);
        let rtt = f64::from(c.info.rcv_rtt) / 1e6;
        // Between posted texts nobody knows how long it was.
        let is_timed = c.earlier.is_some() && self.seconds() > 0.0;
        let seconds = if is_timed { self.seconds().max(0.001) } else { f64::MAX };
        // A third of what half of the buffer in a round trip lets come.
        let fills = came >= 50_000 && came as f64 / seconds * rtt >= 0.3 * buffer as f64 / 2.0;
        let waits = c.now.receive_queue >= memory.receive_buffer / 4;
        (fixed && fills && rtt > 0.0 && !waits).then_some(ReceiveLimit::Fixed(buffer))
    }

    /// Whether an interface here held packets at more than half of the looks, or before and now.
    fn own_queue_stands(&self) -> bool {
        if self.looks.queues.values().any(|times| times * 2 > self.looks.count) {
            return true;
        }
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

    /// Whether it stays on this machine.
    pub fn is_local(&self) -> bool {
        self.now.remote.ip().is_loopback() || self.now.remote.ip() == self.now.local.ip()
    }
}

/// Whether a buffer has grown as far as the kernel lets it. One that is larger was fixed by its program.
pub fn is_at_most(buffer: u32, most: u64) -> bool {
    let buffer = u64::from(buffer);
    buffer <= most && buffer * 100 >= most * 95
}

/// What several looks at the connections showed. One of them is how often each waited for a delayed ACK:
///
/// ```text
///   sender:    write ─ segment 1 ──►        write: too small for a segment, and one is unacknowledged: Nagle holds it
///   receiver:              waits 40 ms for something to send an acknowledgement with
///   TCP_INFO of the sender meanwhile: unacked 1, notsent < mss, idle for some milliseconds, nothing lost
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionLooks {
    pub count: u32,
    /// At how many of them a device held packets in its queue.
    pub queues: BTreeMap<String, u32>,
    /// By the kernel's number for the socket; of as many as a look keeps.
    pub seen: BTreeMap<u64, SeveralLooks>,
}

/// What the looks at one connection showed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeveralLooks {
    pub count: u32,
    /// Looks at which it waited for a delayed ACK.
    pub held_back: u32,
    /// Looks at which its send buffer was full of what is in flight.
    pub buffer_full: u32,
    /// Looks at which this end had been answered for longer than an ACK is delayed, and had not gone on.
    pub own_turn: u32,
    /// Looks at which more had come since the one before, of these those at which it had met a queue, and by how long that made its round trips.
    pub arrivals: u32,
    pub late: u32,
    pub late_us: u64,
    received: u64,
    /// The first and the last one: monotonic time, and the kernel's clock of `busy_time`.
    pub first: (u64, u64),
    pub last: (u64, u64),
}

impl SeveralLooks {
    fn seconds(&self) -> f64 {
        self.last.0.saturating_sub(self.first.0) as f64 / 1e9
    }

    /// Microseconds by which a queue made the round trips of what comes longer, at most looks.
    fn queueing_us(&self) -> u64 {
        let is_late = self.arrivals >= 4 && self.late * 2 > self.arrivals;
        if is_late { self.late_us / u64::from(self.late) } else { 0 }
    }

    fn came(&mut self, info: &TcpInfo) {
        let received = info.bytes_received.unwrap_or(0);
        let path_us = info.min_rtt.unwrap_or(info.rtt);
        let more_us = u64::from(info.rcv_rtt.saturating_sub(path_us));
        let since_us = u64::from(info.last_data_recv) * 1000;
        // 40 ms, and some for a busy host.
        let thinks = info.last_data_recv > 60 + path_us / 1000;
        self.own_turn += u32::from(thinks && info.last_data_sent > info.last_data_recv);
        // Without timestamps the receiver's kernel measures its window; what comes in bursts was not there to be sent.
        let timed = info.options & 1 != 0 && since_us * 4 <= more_us;
        if received > self.received {
            self.arrivals += 1;
            if timed && more_us >= QUEUE_US {
                (self.late, self.late_us) = (self.late + 1, self.late_us + more_us);
            }
        }
        self.received = received;
    }

    fn busy_us(&self) -> u64 {
        self.last.1.saturating_sub(self.first.1)
    }
}

impl ConnectionLooks {
    /// Looks at connections, and at how many bytes each device holds in its queue.
    pub fn look(&mut self, now_ns: u64, sockets: &Sockets, backlogs: &BTreeMap<String, u64>) {
        self.count += 1;
        for (device, _) in backlogs.iter().filter(|(_, bytes)| **bytes > 0) {
            *self.queues.entry(device.clone()).or_default() += 1;
        }
        for socket in &sockets.tcp {
            if self.seen.len() >= KEPT && !self.seen.contains_key(&socket.cookie) {
                continue;
            }
            let last = (now_ns, socket.info.and_then(|info| info.busy_time).unwrap_or(0));
            let fresh = SeveralLooks { first: last, ..SeveralLooks::default() };
            let seen = self.seen.entry(socket.cookie).or_insert(fresh);
            seen.last = last;
            seen.count += 1;
            seen.held_back += u32::from(waits(socket));
            seen.buffer_full += u32::from(send_buffer_is_full(socket));
            socket.info.iter().for_each(|info| seen.came(info));
        }
    }

    fn of(&self, socket: &DiagSocket) -> Option<&SeveralLooks> {
        self.seen.get(&socket.cookie)
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

/// Whether all was sent, both windows have room, and the program is not woken, since its buffer is full of what is in flight.
///
/// The kernel's clock of that (`sndbuf_limited`) runs only from a write that was cut short for want of room and of which all was sent:
/// a program whose writes are as large as the buffer, or fit into it whole, waits before its next write, and the clock stands.
fn send_buffer_is_full(socket: &DiagSocket) -> bool {
    let (Some(info), Some(memory)) = (&socket.info, socket.memory) else { return false };
    let (queued, buffer) = (u64::from(memory.queued), u64::from(memory.send_buffer));
    // sk_stream_is_writeable of include/net/sock.h.
    let is_shut = queued * 3 > buffer * 2;
    let more = u64::from(socket.send_queue) + u64::from(info.snd_mss);
    is_shut
        && info.notsent_bytes.is_some_and(|left| left < info.snd_mss)
        && info.unacked < info.snd_cwnd
        && info.lost == 0
        && info.snd_wnd.is_some_and(|window| u64::from(window) > more)
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
