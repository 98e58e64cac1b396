//! A UDP stream against a reflector: STAMP packets at a constant rate, with one-way delays and the direction of losses.

use crate::options::check_interval;
use crate::presence::UnansweredCount;
use crate::prober::{Prober, StreamSpec};
use crate::stream_socket::{Datagrams, EchoAnswer, Observed};
use crate::{ProbeError, ProbeOptions};
use nix::errno::Errno;
use quell_model::Told;
use quell_model::task::UdpEcho;
use quell_stats::Rng;
use quell_sys::secret;
use quell_sys::socket::{Arrival, PathError, Udp};
use quell_wire::LARGEST_PAYLOAD;
use quell_wire::stamp::{self, Presence, ReflectorPacket, SenderPacket, widen32};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

/// The number that the first packet carries. RFC 8762 begins at 0, as a reflector that counts does, so that a reflector that copies the
/// sender's number (its stateless mode) could not be told from one that counts as long as nothing is lost. No reflector that counts looks at
/// it.
const FIRST: u64 = 1 << 30;

/// Packets whose timestamps are remembered: an answer must bring its own back.
const REMEMBERED: usize = 1 << 16;

#[derive(Debug)]
struct StampLine {
    socket: Udp,
    ssid: u16,
    packet: Vec<u8>,
    stamps: Stamps,
    reflected: Reflected,
    shown: UnansweredCount,
    /// Whether the reflector has a clock of its own.
    is_apart: bool,
}

/// Opens the socket of one stream. Errors when a parameter can't be, or there is no route.
pub fn prepare(echo: &UdpEcho, seed: u64) -> Result<Prober, ProbeError> {
    prober(&[(echo.clone(), ProbeOptions::default())], |_| Rng::new(seed))
}

pub fn open(streams: &[(UdpEcho, ProbeOptions)], seed: u64) -> Result<Prober, ProbeError> {
    let rng = Rng::new(seed);
    prober(streams, |stream| rng.derive(stream))
}

fn prober(
    streams: &[(UdpEcho, ProbeOptions)],
    rng: impl Fn(&str) -> Rng,
) -> Result<Prober, ProbeError> {
    let largest = streams.iter().map(|(echo, _)| echo.size as usize).max().unwrap_or(0);
    let streams = streams.iter().map(|(echo, options)| {
        let spec = StreamSpec {
            name: echo.stream.clone(),
            interval_ns: echo.interval.nanos(),
            patience: options.patience(echo.linger, echo.interval),
            size: echo.size,
            seed: rng(&echo.stream).derive("pace").u64(),
            count: options.count,
            delay: options.delay,
        };
        Ok((spec, Observed::boxed(StampLine::open(echo, options)?)))
    });
    Ok(Prober::new(streams.collect::<Result<_, ProbeError>>()?, largest))
}

impl StampLine {
    fn open(echo: &UdpEcho, options: &ProbeOptions) -> Result<Self, ProbeError> {
        check_interval(&echo.stream, echo.interval)?;
        if (echo.size as usize) < stamp::BASE || echo.size > u32::from(LARGEST_PAYLOAD) {
            let least = stamp::BASE;
            let size = echo.size;
            return Err(ProbeError::Parameter {
                stream: echo.stream.clone(),
                why: format!("a STAMP packet has {least} to {LARGEST_PAYLOAD} bytes, not {size}"),
            });
        }
        let socket = Udp::connected_by(echo.to, echo.tos.byte(), &options.way)?;
        // Everybody knows a run's seed.
        let ssid = secret::number()? as u16;
        let packet = SenderPacket::template(echo.size as usize);
        let is_apart = echo.other_clock && socket.local()?.ip() != echo.to.ip();
        let (stamps, reflected) = (Stamps::default(), Reflected::default());
        let shown = UnansweredCount::default();
        Ok(Self { socket, ssid, packet, stamps, reflected, shown, is_apart })
    }
}

impl Datagrams for StampLine {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn send(&mut self, seq: u64, sent_ns: u64) -> Result<(), Errno> {
        SenderPacket { seq: (seq + FIRST) as u32, sent_ns, ssid: self.ssid }
            .write(&mut self.packet);
        Presence::bring(self.shown.mark(), &mut self.packet);
        self.stamps.sent(seq, sent_ns);
        self.socket.send(&self.packet)
    }

    fn read(&mut self, _arrival: &Arrival, bytes: &[u8], next: u64) -> Option<EchoAnswer> {
        let packet = ReflectorPacket::read(bytes).filter(|p| p.ssid == self.ssid)?;
        let seq = sent_number(packet.sender_seq, next)?;
        let is_ours =
            |sent_ns: Option<u64>| sent_ns.is_none_or(|at| SenderPacket::is_timed_in(at, bytes));
        is_ours(self.stamps.of(seq)).then_some(())?;
        let up_order = self.reflected.number(&packet);
        self.shown.answered(seq, up_order.is_some(), bytes);
        Some(EchoAnswer {
            seq,
            up_order,
            reflected_ns: Some((packet.received_ns, packet.sent_ns)),
            is_apart: self.is_apart,
            ..EchoAnswer::default()
        })
    }

    fn facts(&self) -> Vec<(Told, String)> {
        let clocks = if self.is_apart { "apart" } else { "same" };
        let unanswered = self.shown.unanswered(self.stamps.next());
        let unanswered = (unanswered > 0).then(|| (Told::Unanswered, unanswered.to_string()));
        [(Told::Clocks, clocks.to_owned())].into_iter().chain(unanswered).collect()
    }

    fn blamed(&self, error: &PathError, next: u64) -> Option<u64> {
        let quoted = error.quoted.first_chunk::<4>()?;
        sent_number(u32::from_be_bytes(*quoted), next)
    }
}

#[derive(Debug, Default)]
struct Stamps {
    first: u64,
    sent_ns: VecDeque<u64>,
}

impl Stamps {
    fn sent(&mut self, seq: u64, sent_ns: u64) {
        if seq != self.first + self.sent_ns.len() as u64 {
            (self.first, self.sent_ns) = (seq, VecDeque::new());
        }
        if self.sent_ns.len() >= REMEMBERED {
            self.sent_ns.pop_front();
            self.first += 1;
        }
        self.sent_ns.push_back(sent_ns);
    }

    fn next(&self) -> u64 {
        self.first + self.sent_ns.len() as u64
    }

    /// Of this packet; none where that is not remembered.
    fn of(&self, seq: u64) -> Option<u64> {
        self.sent_ns.get(usize::try_from(seq.checked_sub(self.first)?).ok()?).copied()
    }
}

fn sent_number(short: u32, next: u64) -> Option<u64> {
    widen32(short, next.saturating_add(FIRST))?.checked_sub(FIRST)
}

#[derive(Debug, Default)]
struct Reflected {
    /// The highest so far: they wrap after 2^32.
    highest: u64,
    /// It copies the sender's numbers, and counts nothing.
    is_stateless: bool,
}

impl Reflected {
    /// The reflector's own number of a packet; none where it does not count.
    fn number(&mut self, packet: &ReflectorPacket) -> Option<u64> {
        // A reflector may take to it later, when it has no room to count.
        self.is_stateless = packet.seq == packet.sender_seq;
        if self.is_stateless {
            return None;
        }
        // It counts what we sent, and perhaps copies that the network made: the count is near what it was.
        let near = self.highest.saturating_add(1 << 31);
        let number = widen32(packet.seq, near).unwrap_or(u64::from(packet.seq));
        self.highest = self.highest.max(number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_wire::stamp::BASE;

    /// What comes back of our packet `seq`, when the reflector gives it this number.
    fn reflected(seq: u64, number: impl Fn(u32) -> u32) -> ReflectorPacket {
        let mut bytes = SenderPacket::template(BASE);
        let sent = SenderPacket { seq: (seq + FIRST) as u32, sent_ns: 1, ssid: 2 };
        sent.write(&mut bytes);
        ReflectorPacket::reflect(&mut bytes, number(sent.seq), 3, 4, 64);
        ReflectorPacket::read(&bytes).expect("it is whole")
    }

    #[test]
    fn a_reflector_that_copies_our_number_does_not_count_and_one_that_counts_is_known_by_its_first_answer()
     {
        let mut counting = Reflected::default();
        let numbers = [0, 1, 5].map(|seq| counting.number(&reflected(seq, |_| seq as u32)));
        assert_eq!(numbers, [Some(0), Some(1), Some(5)]);
        let mut copying = Reflected::default();
        let numbers = [0, 1, 5].map(|seq| copying.number(&reflected(seq, |sent| sent)));
        assert_eq!(numbers, [None; 3]);
    }

    #[test]
    fn an_answer_brings_back_the_time_at_which_its_packet_was_sent() {
        let mut stamps = Stamps::default();
        (0..REMEMBERED as u64 + 2).for_each(|seq| stamps.sent(seq, 5_000_000_000 + seq));
        assert_eq!((stamps.of(1), stamps.of(2)), (None, Some(5_000_000_002)), "the last ones");
        assert_eq!(stamps.of(REMEMBERED as u64 + 2), None);
        let mut bytes = SenderPacket::template(BASE);
        SenderPacket { seq: 2, sent_ns: 5_000_000_002, ssid: 2 }.write(&mut bytes);
        ReflectorPacket::reflect(&mut bytes, 0, 3, 4, 64);
        assert!(SenderPacket::is_timed_in(5_000_000_002, &bytes));
        assert!(!SenderPacket::is_timed_in(5_000_000_003, &bytes), "made up");
        assert!(!SenderPacket::is_timed_in(5_000_000_002, &bytes[..30]), "cut short");
    }

    #[test]
    fn numbers_come_back_whole_also_behind_the_wrap() {
        for seq in [0, 1, 3 << 30, (3 << 30) + 1, (1 << 32) + 7, (1 << 40) + 5] {
            assert_eq!(sent_number((seq + FIRST) as u32, seq + 1), Some(seq));
            assert_eq!(sent_number((seq + FIRST) as u32, seq + 1000), Some(seq));
        }
        assert_eq!(sent_number(0, 5), None, "it was never sent");
    }
}
