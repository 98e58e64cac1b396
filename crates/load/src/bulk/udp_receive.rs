//! Datagrams into one socket: counted, put in order, timed.

use super::loss_recorder::LossRecorder;
use super::{Ended, Limit, Patience, UdpHeader, UdpTally, Woken};
use nix::errno::Errno;
use quell_stats::recent_order::WINDOW;
use quell_stats::{Jitter, RecentOrder};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::bulk::{Fill, Train, Trains, fill, prepare_receiving, tell_marks};
use quell_sys::wait::{Alarm, Bell};
use quell_sys::wall::Wall;
use quell_wire::iperf3::{Greeting, LONG_HELLO, LoggedDatagram};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::PoisonError;

/// Trains taken in one call, or single datagrams where there may be a thousand streams: each has room for so many of its own.
const BATCH: usize = 16;

const BUFFER: usize = 4 << 20;
/// Fewest numbers that are remembered: of a thousand streams none is so fast that more are on their way.
const FEWEST: u64 = 4096;

/// How many numbers are remembered by a stream with this buffer.
fn remembered(buffer: usize) -> u64 {
    (WINDOW.saturating_mul(buffer as u64) / BUFFER as u64).clamp(FEWEST, WINDOW)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpReceiving {
    pub header: UdpHeader,
    pub limit: Limit,
    /// The number of the last that counts: of an amount, which a sender may not keep to.
    pub last: Option<u64>,
    /// Receive buffer in bytes, payload and bookkeeping together, as far as the system grants it. One of many that share a buffer remembers
    /// as much fewer of the numbers that came.
    pub buffer: usize,
    /// The kernel may hand several over in one piece (`UDP_GRO`), with one stamp. Without, each has its own.
    pub trains: bool,
    /// A datagram that is this and nothing more is no data: a hello that comes again.
    pub hello: Option<[u8; LONG_HELLO]>,
    /// Bytes of each datagram, where they were agreed: any other is not of this flow.
    pub size: Option<usize>,
    /// Each datagram is logged.
    pub log: bool,
}

impl Default for UdpReceiving {
    fn default() -> Self {
        Self {
            header: UdpHeader::Bits32,
            limit: Limit::NONE,
            last: None,
            buffer: BUFFER,
            trains: true,
            hello: None,
            size: None,
            log: false,
        }
    }
}

/// Receives until the limit, or until the bell rings; what waits then is still counted. The socket gets options for that, and keeps
/// them. Where datagrams may come before this runs, give it them earlier ([`prepare_receiving`]): what did not find room then is lost
/// and not among `socket_drops`.
///
/// Errors from the path, such as that nobody listens at the other end, are no errors here.
pub fn udp_receive(
    socket: &impl AsFd,
    what: &UdpReceiving,
    tally: &UdpTally,
    stop: &Bell,
) -> Result<Ended, SysError> {
    let fd = socket.as_fd();
    let got = prepare_receiving(fd, what.buffer, what.trains);
    if what.log {
        tell_marks(fd);
    }
    let patience = Patience::new(stop, what.limit.end_ns)?;
    let mut trains = if got.trains { Trains::new(BATCH) } else { Trains::heads(BATCH) };
    let mut book = Book::new(what.header, tally, remembered(what.buffer));
    book.size = what.size;
    book.log = what.log;
    book.last = what.last.unwrap_or(u64::MAX);
    book.hello = what.hello;
    let drops_before = fill(fd).unwrap_or_default().drops;
    let mut nap = Nap::new()?;
    let most = what.limit.bytes.unwrap_or(u64::MAX);
    loop {
        let woken = match nap.due()? {
            None => patience.until_readable(fd, None)?,
            Some(alarm) => patience.until_alarm(alarm)?,
        };
        let full = fill(fd).unwrap_or_default();
        let pieces = take(fd, &mut trains, &mut book, most)?;
        nap.after(&full, pieces, monotonic_ns());
        tally.socket_drops.set(book.dropped(full.drops.wrapping_sub(drops_before)));
        if tally.bytes.get() >= most {
            return Ok(Ended::Done);
        }
        if let Woken::End(ended) = woken {
            let drops = fill(fd).unwrap_or_default().drops;
            tally.socket_drops.set(book.dropped(drops.wrapping_sub(drops_before)));
            return Ok(ended);
        }
    }
}

/// Takes what waits now; not for ever, since a sender may be faster than we are and one who rings must still be heard.
fn take(
    fd: BorrowedFd<'_>,
    trains: &mut Trains,
    book: &mut Book<'_>,
    most: u64,
) -> Result<usize, SysError> {
    let mut pieces = 0;
    for _ in 0..64 {
        let now = book.look();
        let got = match trains.receive(fd) {
            Ok(got) => got,
            // Something that was sent did not arrive, perhaps: what comes is none the worse for it.
            Err(Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH) => continue,
            Err(errno) => return Err(SysError::new("receive datagrams", errno)),
        };
        trains.iter().for_each(|train| book.arrive(&train, now));
        book.publish();
        pieces += got;
        if got < trains.capacity() || book.tally.bytes.get() >= most {
            break;
        }
    }
    Ok(pieces)
}

/// How long a receiver sleeps while much comes. Each datagram has the kernel's stamp, so that nobody need be there when it comes; and waking a
/// process costs more than all else, at the sender's expense where both share a machine.
///
/// ```text
///   fewer than ten in a millisecond        ──► woken by the socket, for each
///   each found many, the buffer ≤ 1/16 full ──► the nap grows by a quarter, to 1 ms at most
///   the buffer ≥ 1/4 full                  ──► the nap is halved
/// ```
struct Nap {
    alarm: Alarm,
    nap_ns: u64,
    /// Pieces since then, while there is no nap.
    seen: usize,
    since_ns: u64,
}

const SHORTEST_NAP_NS: u64 = 50_000;
const LONGEST_NAP_NS: u64 = 1_000_000;
/// Fewer pieces in a nap than this: the socket wakes.
const FEW: usize = 4;
/// The time between pieces from which on there are naps.
const DENSE_NS: u64 = 100_000;

impl Nap {
    fn new() -> Result<Self, SysError> {
        Ok(Self { alarm: Alarm::new()?, nap_ns: 0, seen: 0, since_ns: monotonic_ns() })
    }

    /// What to wait for in place of the socket, if anything.
    fn due(&mut self) -> Result<Option<&Alarm>, SysError> {
        if self.nap_ns < SHORTEST_NAP_NS {
            return Ok(None);
        }
        self.alarm.set(Some(monotonic_ns().saturating_add(self.nap_ns)))?;
        Ok(Some(&self.alarm))
    }

    fn after(&mut self, full: &Fill, pieces: usize, now: u64) {
        if self.nap_ns == 0 {
            self.seen += pieces;
            let spell = now.saturating_sub(self.since_ns);
            if spell >= LONGEST_NAP_NS {
                if self.seen as u64 * DENSE_NS > spell {
                    self.nap_ns = SHORTEST_NAP_NS * 2;
                }
                (self.seen, self.since_ns) = (0, now);
            }
            return;
        }
        self.nap_ns = if full.used >= full.room / 4 {
            self.nap_ns / 2
        } else if pieces < FEW {
            0
        } else if full.used <= full.room / 16 {
            (self.nap_ns + self.nap_ns / 4).clamp(SHORTEST_NAP_NS, LONGEST_NAP_NS)
        } else {
            self.nap_ns
        };
    }
}

struct Book<'a> {
    header: UdpHeader,
    tally: &'a UdpTally,
    order: RecentOrder,
    jitter: Jitter,
    losses: LossRecorder,
    /// A loss was seen since it was published.
    lost: bool,
    wall: Wall,
    /// The number of the last that counts, and whether the sender went beyond it.
    last: u64,
    went_beyond: bool,
    hello: Option<[u8; LONG_HELLO]>,
    /// When the previous one arrived, by the wall clock.
    last_ns: Option<u64>,
    /// Bytes of each datagram, where that was agreed.
    size: Option<usize>,
    strange: u64,
    longest: u64,
    log: bool,
}

impl<'a> Book<'a> {
    fn new(header: UdpHeader, tally: &'a UdpTally, remembered: u64) -> Self {
        Self {
            header,
            tally,
            order: RecentOrder::within(1, remembered),
            jitter: Jitter::default(),
            losses: LossRecorder::default(),
            lost: false,
            wall: Wall::new(),
            last: u64::MAX,
            went_beyond: false,
            hello: None,
            last_ns: None,
            size: None,
            strange: 0,
            longest: 1,
            log: false,
        }
    }

    /// The time; and whether somebody set the clock: stamps from before and after can't be compared.
    fn look(&mut self) -> u64 {
        let steps = self.wall.steps();
        let now = self.wall.look();
        if self.wall.steps() != steps {
            self.forget_stamps();
        }
        now
    }

    fn forget_stamps(&mut self) {
        self.last_ns = None;
        self.jitter.interrupt();
        self.losses.clock_set();
    }

    fn arrive(&mut self, train: &Train<'_>, now: u64) {
        let stamp = train.stamp_ns.unwrap_or_else(|| self.wall.at(now));
        let came_ns = self.wall.monotonic(stamp);
        let mut first = true;
        let mut begins = None;
        let mut bytes = 0;
        let mut together = 0;
        for datagram in train.datagrams() {
            let whole = datagram.len() + train.beyond;
            if train.beyond == 0 && self.is_hello(datagram) {
                continue;
            }
            let fits = self.size.is_none_or(|size| size == whole);
            let Some((sent_ns, number)) = self.header.read(datagram).filter(|_| fits) else {
                self.strange += 1;
                continue;
            };
            let number = match self.header {
                UdpHeader::Bits32 => self.order.widen(number as u32),
                UdpHeader::Bits64 => number,
            };
            if number > self.last {
                self.went_beyond = true;
                continue;
            }
            let newest = self.order.sent();
            if self.order.push(number) {
                begins.get_or_insert(number);
                if self.log {
                    let (sent_ns, came_ns) = (sent_ns.cast_signed(), stamp.cast_signed());
                    let mut log = self.tally.log.lock().unwrap_or_else(PoisonError::into_inner);
                    let marked = train.marked;
                    log.push(LoggedDatagram { number, sent_ns, came_ns, marked });
                }
                bytes += whole as u64;
                // A copy, or one that was overtaken, tells nothing of how the flow's transit changes.
                if number > newest && self.order.sent() == number {
                    // A constant offset of the clocks cancels.
                    let transit_ns = stamp.wrapping_sub(sent_ns) as i64;
                    self.jitter.push(transit_ns as f64);
                    let skipped = number > newest + 1;
                    self.losses.arrive(came_ns, self.order.arrived(), transit_ns, skipped);
                    self.lost |= skipped;
                }
            }
            if std::mem::take(&mut first) {
                if let Some(last) = self.last_ns.replace(stamp) {
                    self.tally.gap(stamp.saturating_sub(last), 1);
                }
            } else {
                together += 1;
            }
        }
        if together > 0 {
            self.tally.gap(0, together);
        }
        if !first {
            self.longest = self.longest.max(together + 1);
            if self.tally.first_ns.get() == 0 {
                self.tally.first_number.set(begins.unwrap_or(0));
                self.tally.first_ns.set(came_ns);
            }
            self.tally.last_ns.set(came_ns);
            self.tally.bytes.add(bytes);
        }
    }

    /// A hello that comes again, or the answer to one: as it was agreed, or as iperf3's are.
    fn is_hello(&self, datagram: &[u8]) -> bool {
        self.hello.as_ref().is_some_and(|hello| datagram == &hello[..])
            || Greeting::read(datagram).is_some_and(|greeting| greeting.token.is_none())
    }

    /// How many datagrams the pieces had that found no room: the kernel counts a train as one. At most what the longest had, and
    /// no more than are missing.
    fn dropped(&self, pieces: u32) -> u64 {
        let pieces = u64::from(pieces);
        let missing = self.order.missing();
        pieces.saturating_mul(self.longest).min(missing.max(pieces))
    }

    fn publish(&mut self) {
        let tally = self.tally;
        let order = &self.order;
        tally.arrived.set(order.arrived());
        tally.reordered.set(order.reordered());
        tally.duplicates.set(order.duplicates());
        tally.jitter_ns.set(self.jitter.settled().unwrap_or(0.0) as u64);
        tally.rfc_jitter_ns.set(self.jitter.last().unwrap_or(0.0) as u64);
        tally.foreign.set(self.strange + order.nonsense());
        tally.sent.set(if self.went_beyond { self.last } else { order.sent() });
        if std::mem::take(&mut self.lost) {
            let mut told = tally.losses.lock().unwrap_or_else(PoisonError::into_inner);
            told.clone_from(self.losses.record());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagrams(numbers: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; numbers.len() * 20];
        for (datagram, number) in bytes.chunks_mut(20).zip(numbers) {
            UdpHeader::Bits32.write(datagram, number * 1_000_000, *number);
        }
        bytes
    }

    #[test]
    fn a_trains_datagrams_are_counted_one_by_one_and_came_at_one_time() {
        let tally = UdpTally::new();
        let mut book = Book::new(UdpHeader::Bits32, &tally, WINDOW);
        let (first, second) = (datagrams(&[1, 2, 4]), datagrams(&[3, 3]));
        let at = |ns| Some(book.wall.at(ns));
        let (early, late) = (at(5_000_000), at(5_070_000));
        book.arrive(
            &Train { stamp_ns: early, bytes: &first, segment: 20, beyond: 0, marked: false },
            0,
        );
        book.arrive(
            &Train { stamp_ns: late, bytes: &second, segment: 20, beyond: 0, marked: false },
            0,
        );
        book.size = Some(20);
        book.arrive(
            &Train { stamp_ns: late, bytes: &[7; 16], segment: 16, beyond: 0, marked: false },
            0,
        );
        // iperf3's answer to a second hello is no stranger's.
        book.arrive(
            &Train { stamp_ns: late, bytes: b"6789", segment: 4, beyond: 0, marked: false },
            0,
        );
        book.publish();
        let counts = tally.counts();
        assert_eq!((counts.packets, counts.sent, counts.lost()), (4, 4, 0));
        assert_eq!((counts.reordered, counts.duplicates, counts.foreign), (1, 1, 1));
        assert_eq!(counts.bytes, 80);
        assert_eq!((counts.first_ns, counts.last_ns), (5_000_000, 5_070_000));
        // To the nanosecond, where its class has a bound of its own.
        assert_eq!((counts.first_number, counts.longest_ns), (1, 70_000));
        tally.forget_longest();
        assert_eq!(tally.counts().longest_ns, 0);
        assert_eq!(
            (book.dropped(0), book.dropped(1)),
            (0, 1),
            "a piece of unknown size, nothing missing"
        );
        let gaps: Vec<_> = tally.gaps().counts().map(|(_, count)| count).collect();
        assert_eq!(
            gaps,
            [3, 1],
            "three came together with their first, one train 70 us behind the other"
        );
    }

    #[test]
    fn what_a_sender_sends_beyond_an_amount_does_not_count_and_tells_that_all_of_it_was_sent() {
        let tally = UdpTally::new();
        let mut book = Book::new(UdpHeader::Bits32, &tally, WINDOW);
        book.last = 4;
        let bytes = datagrams(&[1, 2, 5, 6]);
        let train = |bytes| Train { stamp_ns: None, bytes, segment: 20, beyond: 0, marked: false };
        book.arrive(&train(&bytes[..40]), 0);
        book.publish();
        assert_eq!(tally.counts().sent, 2);
        book.arrive(&train(&bytes[40..]), 0);
        book.publish();
        let counts = tally.counts();
        assert_eq!((counts.packets, counts.bytes, counts.sent, counts.lost()), (2, 40, 4, 2));
        book.arrive(&train(&datagrams(&[4])), 0);
        book.publish();
        assert_eq!((tally.counts().packets, tally.counts().lost()), (3, 1), "overtaken");
    }

    #[test]
    fn a_copy_and_an_overtaken_one_move_no_jitter() {
        let tally = UdpTally::new();
        let mut book = Book::new(UdpHeader::Bits32, &tally, WINDOW);
        let mut come = |number: u64, came_ms: u64, sent_ns: u64| {
            let mut bytes = [0; 20];
            UdpHeader::Bits32.write(&mut bytes, sent_ns, number);
            let stamp_ns = Some(book.wall.at(came_ms * 1_000_000));
            book.arrive(
                &Train { stamp_ns, bytes: &bytes, segment: 20, beyond: 0, marked: false },
                0,
            );
            book.publish();
            tally.counts().jitter_ns
        };
        (1..=100).for_each(|n| assert_eq!(come(n, n, n * 1_000_000), 0));
        // A copy of the tenth a second time, from long ago; one that comes late.
        assert_eq!(come(10, 101, 7), 0);
        (102..=110).for_each(|n| assert_eq!(come(n, n, n * 1_000_000), 0));
        assert_eq!(come(101, 111, 7), 0);
        (111..=150).for_each(|n| assert_eq!(come(n, n, n * 1_000_000), 0));
        // And what swings does.
        (151..=300).for_each(|n| _ = come(n, n + n % 2, n * 1_000_000));
        let swings = come(301, 302, 301_000_000);
        assert!((900_000..1_100_000).contains(&swings), "{swings}");
    }

    #[test]
    fn a_train_that_found_no_room_is_as_many_datagrams_as_are_missing_at_most() {
        let tally = UdpTally::new();
        let mut book = Book::new(UdpHeader::Bits32, &tally, WINDOW);
        let bytes = datagrams(&[1, 2, 3, 10]);
        book.arrive(
            &Train { stamp_ns: None, bytes: &bytes[..60], segment: 20, beyond: 0, marked: false },
            0,
        );
        book.arrive(
            &Train { stamp_ns: None, bytes: &bytes[60..], segment: 20, beyond: 0, marked: false },
            0,
        );
        assert_eq!([0, 1, 2, 3].map(|pieces| book.dropped(pieces)), [0, 3, 6, 6]);
    }

    #[test]
    fn a_nap_grows_while_much_comes_and_ends_when_the_buffer_fills_or_little_comes() {
        let mut nap = Nap::new().unwrap();
        let full = |used| Fill { used, room: 1600, drops: 0 };
        let begun = nap.since_ns;
        nap.after(&full(0), 10, begun + 1_000_000);
        assert!(nap.due().unwrap().is_none(), "10,000 a second");
        (0..30).for_each(|n| nap.after(&full(100), 10, begun + 1_000_000 + n * 100_000));
        assert_eq!(nap.nap_ns, LONGEST_NAP_NS);
        nap.after(&full(300), 10, begun);
        assert_eq!(nap.nap_ns, LONGEST_NAP_NS, "between the marks it stays");
        nap.after(&full(400), 10, begun);
        assert_eq!(nap.nap_ns, LONGEST_NAP_NS / 2);
        assert!(nap.due().unwrap().is_some());
        nap.after(&full(0), 3, begun);
        assert!(nap.due().unwrap().is_none());
    }

    #[test]
    fn a_clock_that_is_set_makes_no_gap_and_no_jitter() {
        let tally = UdpTally::new();
        let mut book = Book::new(UdpHeader::Bits32, &tally, WINDOW);
        let bytes = datagrams(&[1, 2]);
        let train = |stamp, range: std::ops::Range<usize>| Train {
            stamp_ns: Some(stamp),
            bytes: &bytes[range],
            segment: 20,
            beyond: 0,
            marked: false,
        };
        book.arrive(&train(book.wall.at(1_000_000), 0..20), 0);
        // An hour on, by a clock that was set.
        book.forget_stamps();
        book.arrive(&train(book.wall.at(3_600_002_000_000), 20..40), 0);
        book.publish();
        assert_eq!((tally.counts().jitter_ns, tally.gaps().total()), (0, 0));
    }
}
