//! ICMP echo: several streams at once, each with its own socket, interval, size and TOS.

use crate::options::check_interval;
use crate::prober::{Prober, StreamSpec};
use crate::stream_socket::{Datagrams, EchoAnswer, Observed};
use crate::{ProbeError, ProbeOptions};
use nix::errno::Errno;
use quell_model::task::PingStream;
use quell_stats::Rng;
use quell_sys::secret;
use quell_sys::socket::{Arrival, EchoSocket, PathError, Way};
use quell_wire::{LARGEST_PAYLOAD, icmp};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU16, Ordering};

/// Raw sockets of this process tell their replies apart by identifiers that count up from here.
static SOCKETS: AtomicU16 = AtomicU16::new(0);

#[derive(Debug)]
struct EchoLine {
    socket: EchoSocket,
    known: KnownBy,
}

/// By what replies are known: they bring back what nobody can foresee.
#[derive(Debug, Clone, Copy)]
struct KnownBy {
    ipv6: bool,
    identifier: u16,
    /// Only our packets tell it.
    stream: u64,
    /// What the first packet has for a number: one that can't be foreseen where not all of that fits into the payload.
    first: u64,
    size: usize,
}

/// Opens the sockets of these streams.
///
/// Errors when a parameter can't be, when neither ping sockets nor raw ones are allowed, or when there is no route.
pub fn open(streams: &[(PingStream, ProbeOptions)], seed: u64) -> Result<Prober, ProbeError> {
    let rng = Rng::new(seed);
    let largest = streams.iter().map(|(stream, _)| stream.size as usize).max().unwrap_or(0) + 128;
    let streams = streams.iter().map(|(stream, options)| {
        check(stream)?;
        let socket = socket(stream.to, stream.tos.byte(), &options.way)?;
        let known = KnownBy::new(&socket, stream.size as usize)?;
        let spec = StreamSpec {
            name: stream.stream.clone(),
            interval_ns: stream.interval.nanos(),
            patience: options.patience(stream.linger, stream.interval),
            size: stream.size,
            seed: rng.derive(&stream.stream).derive("pace").u64(),
            count: options.count,
            delay: options.delay,
        };
        Ok((spec, Observed::boxed(EchoLine { socket, known })))
    });
    Ok(Prober::new(streams.collect::<Result<_, ProbeError>>()?, largest))
}

fn check(stream: &PingStream) -> Result<(), ProbeError> {
    let wrong = |why: String| ProbeError::Parameter { stream: stream.stream.clone(), why };
    check_interval(&stream.stream, stream.interval)?;
    if stream.size > u32::from(LARGEST_PAYLOAD) {
        return Err(wrong(format!(
            "{} bytes don't fit in a packet; at most {LARGEST_PAYLOAD}",
            stream.size
        )));
    }
    Ok(())
}

fn socket(to: IpAddr, tos: u8, way: &Way) -> Result<EchoSocket, ProbeError> {
    // The process id keeps two agents in one network apart.
    let base = std::process::id() as u16;
    let identifier = base.wrapping_mul(31).wrapping_add(SOCKETS.fetch_add(1, Ordering::Relaxed));
    Ok(EchoSocket::open_by(to, tos, identifier, way)?)
}

impl KnownBy {
    /// Of a run's seed it does not come: everybody knows that.
    fn new(socket: &EchoSocket, size: usize) -> Result<Self, ProbeError> {
        let first = if size < icmp::FULL { secret::number()? & 0xffff } else { 0 };
        let (ipv6, identifier) = (socket.is_ipv6(), socket.identifier());
        Ok(Self { ipv6, identifier, stream: secret::number()?, first, size })
    }

    fn request(&self, seq: u64, size: usize) -> Vec<u8> {
        icmp::request(self.ipv6, self.identifier, self.stream, seq.wrapping_add(self.first), size)
    }

    /// The start of a packet that its replies bring back.
    fn start(&self, seq: u64) -> Vec<u8> {
        self.request(seq, self.size.min(icmp::FULL))
    }

    /// Our number of the newest packet whose header has this one.
    fn newest(&self, short: u16, next: u64) -> Option<u64> {
        icmp::widen16(short, next.checked_add(self.first)?)?.checked_sub(self.first)
    }

    /// The number of the packet that this answers, if it is of this stream.
    fn answered(&self, message: &[u8], next: u64) -> Option<u64> {
        let echo = icmp::reply(self.ipv6, message)?;
        let seq = match echo.whole_number() {
            Some(seq) if self.size >= icmp::FULL => Some(seq).filter(|seq| *seq < next),
            _ => self.newest(echo.short_seq, next),
        };
        seq.filter(|seq| echo.answers(&self.start(*seq)))
    }

    fn quoted(&self, quoted: &[u8], next: u64) -> Option<u64> {
        let echo = icmp::quoted_request(self.ipv6, quoted)?;
        let seq = self.newest(echo.short_seq, next)?;
        echo.quotes(&self.start(seq)).then_some(seq)
    }
}

impl Datagrams for EchoLine {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn send(&mut self, seq: u64, _sent_ns: u64) -> Result<(), Errno> {
        self.socket.send(&self.known.request(seq, self.known.size))
    }

    fn read(&mut self, _arrival: &Arrival, bytes: &[u8], next: u64) -> Option<EchoAnswer> {
        let seq = self.known.answered(self.socket.message(bytes)?, next)?;
        Some(EchoAnswer { seq, ..EchoAnswer::default() })
    }

    fn blamed(&self, error: &PathError, next: u64) -> Option<u64> {
        self.known.quoted(&error.quoted, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(size: usize) -> KnownBy {
        let first = if size < icmp::FULL { 0xfffe } else { 0 };
        KnownBy { ipv6: false, identifier: 7, stream: 0xfeed_beef_0102_0304, first, size }
    }

    /// The reply to packet `seq`, with so many bytes of its payload.
    fn reply(known: &KnownBy, seq: u64, bytes: usize) -> Vec<u8> {
        let mut message = known.request(seq, known.size);
        message[0] = 0;
        message.truncate(icmp::HEADER + bytes);
        message
    }

    #[test]
    fn a_reply_that_does_not_bring_back_what_was_sent_is_nobodys() {
        for size in [1, 8, 16, 56, 1400] {
            let known = known(size);
            for seq in [0, 1, 2, 69_999] {
                let next = seq + 3;
                let whole = reply(&known, seq, size);
                assert_eq!(known.answered(&whole, next), Some(seq), "{size} bytes");
                let mut forged = whole.clone();
                forged[icmp::HEADER..].fill(0);
                assert_eq!(known.answered(&forged, next), None, "{size} bytes of nothing");
                assert_eq!(known.answered(&reply(&known, seq, 0), next), None, "{size} cut off");
            }
            assert_eq!(known.answered(&reply(&known, 7, size), 7), None, "not sent yet");
        }
        // Servers that shorten answers keep the start.
        assert_eq!(known(1400).answered(&reply(&known(1400), 3, 64), 70_000), Some(3));
    }

    #[test]
    fn where_nothing_fits_into_the_payload_the_numbers_begin_where_nobody_knows() {
        let known = known(0);
        for seq in [0, 1, 2, 69_999] {
            assert_eq!(known.answered(&reply(&known, seq, 0), seq + 3), Some(seq));
        }
        assert_eq!(known.answered(&[0, 0, 0, 0, 0, 7, 0, 0], 2), None, "the first has 65,534");
    }

    #[test]
    fn an_error_that_quotes_a_packet_that_was_not_sent_is_nobodys() {
        let known = known(56);
        let sent = known.request(5, 56);
        for length in [icmp::HEADER, 36] {
            assert_eq!(known.quoted(&sent[..length], 9), Some(5), "{length}");
        }
        assert_eq!(known.quoted(&[8, 0, 0, 0, 0, 7, 0, 5], 9), None);
    }
}
