//! How a line becomes queues: one direction of a link, emulated where its packets leave and in the middle of the link.
//!
//! ```text
//!   where packets leave:
//!   packets ──► netem (delay, jitter, loss, duplication)
//!                └─► netem (marking)          only where both loss and marking are wanted
//!                     └─► htb (pace)          gives a packet to the wire when the last one's bits are through
//!                          └─► buffer: pfifo, bfifo or a queue of the user's
//!   in the middle:
//!   packets ──► netem (rate)                  a packet arrives when its own last bit is through: size / rate later
//!                └─► netem (delay, jitter, reordering)    where the line reorders: it has its delay here, and not where packets leave
//! ```
//!
//! One packet is on the wire at a time, and it counts as waiting no more: what waits for the wire waits in the buffer alone. The
//! delay comes before the rate: netem hands packets on to what is inside it when their time has come. The sum of delays is the
//! same. netem counts the buffer's packets into its own limit, so that limit is out of reach.
//!
//! A packet that netem lets overtake (`reorder`) leaves it at once and passes by the queues inside it (`netem_enqueue` and `netem_dequeue`,
//! net/sched/sch_netem.c): it would be neither paced nor wait in the buffer. So nothing is inside of a netem that reorders.

use crate::topology::Line;
use quell_tc::qdisc::{Bfifo, Htb, Netem, Pfifo};
use quell_tc::{Class, ClassKind, Handle, HtbClass, Qdisc, Queue, Tree};
use quell_units::{Buffer, Bytes, Rate, Span};

/// Packets that a buffer holds where none is named.
const USUAL_BUFFER: u32 = 100;

/// netem's limit: never reached, since it counts the packets of the buffer inside too.
const NEVER_REACHED: u32 = 1_000_000;

/// Bytes of an Ethernet header, which the kernel counts as part of a packet at this place.
pub const ETHERNET: u64 = nix::libc::ETH_HLEN as u64;

/// The line's own qdiscs, by majors that are high so that a user's handles stay free.
#[derive(Clone, Copy)]
enum LineQdisc {
    Delay = 0xf001,
    Mark,
    Rate,
    Buffer,
    Bits,
    Reorder,
}

/// How punctual the clock is that wakes a queue. A pacer that is woken late makes up for it by being early once, by at most this
/// time: it then takes a packet from the buffer before the last one is through. The packet's arrival does not show it, since bits are
/// timed in the middle of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Punctuality {
    /// Virtual time: late by looks at the clock only.
    Virtual,
    /// A real machine's timers, which a busy one serves late.
    Real,
}

impl Punctuality {
    /// That of the kernel on which this runs: guests say in their command line whether their time is virtual.
    pub fn of_this_kernel() -> Self {
        match std::fs::read_to_string("/proc/cmdline") {
            Ok(words) if words.split_whitespace().any(|w| w == "time-travel=inf-cpu") => {
                Punctuality::Virtual
            }
            _ => Punctuality::Real,
        }
    }

    fn early(self) -> Span {
        match self {
            Punctuality::Virtual => Span::from_micros(1),
            Punctuality::Real => Span::from_micros(1000),
        }
    }
}

/// The queues for a line on the device where its packets leave; `user` replaces the buffer (or stands alone where the line has no
/// rate). None where nothing is needed.
pub fn tree(line: &Line, mtu: u32, user: Option<&Tree>, clock: Punctuality) -> Option<Tree> {
    let mut filters_in = Tree::default();
    let mut inner = None;
    if let Some(user) = user {
        filters_in.ingress = user.ingress.clone();
        filters_in.clsact = user.clsact.clone();
        inner = user.queue.clone();
    }
    if let Some(rate) = line.rate {
        let buffer = inner.take().unwrap_or_else(|| buffer(line));
        inner = Some(pace(line, rate, mtu, buffer, clock));
    }
    let (delay, jitter) =
        if line.reorder.is_some() { (None, None) } else { (line.delay, line.jitter) };
    let delays = delay.is_some() || jitter.is_some() || line.duplicate.is_some();
    let alone = line.mark.is_some() && line.loss.is_none();
    if line.mark.is_some() && !alone {
        let netem = Netem {
            limit: Some(NEVER_REACHED),
            loss: line.mark,
            ecn: Some(true),
            ..Netem::default()
        };
        inner = Some(around(netem, LineQdisc::Mark, inner));
    }
    if delays || line.loss.is_some() || alone {
        let netem = Netem {
            limit: Some(NEVER_REACHED),
            delay,
            jitter,
            loss: line.loss.or(line.mark),
            ecn: alone.then_some(true),
            duplicate: line.duplicate,
            ..Netem::default()
        };
        inner = Some(around(netem, LineQdisc::Delay, inner));
    }
    filters_in.queue = inner;
    (filters_in != Tree::default()).then_some(filters_in)
}

/// The queues in the middle of the link, on the device that faces the receiver; None where the line needs none ([`Line::has_middle`]).
///
/// netem's rate takes packets one after the other and hands each on when it is through (`packet_time_ns`, net/sched/sch_netem.c, to
/// the nanosecond). They come paced, so none waits in it.
pub fn middle(line: &Line) -> Option<Tree> {
    let reorders = line.reorder.map(|reorder| Netem {
        limit: Some(NEVER_REACHED),
        delay: line.delay,
        jitter: line.jitter,
        reorder: Some(reorder),
        ..Netem::default()
    });
    let inner = reorders.map(|netem| around(netem, LineQdisc::Reorder, None));
    let outer = match line.rate {
        None => inner?,
        Some(rate) => {
            let netem = Netem {
                limit: Some(NEVER_REACHED),
                rate: Some(rate),
                packet_overhead: line.overhead.filter(|o| *o > 0).map(i32::from),
                ..Netem::default()
            };
            around(netem, LineQdisc::Bits, inner)
        }
    };
    Some(Tree::from(outer))
}

/// What stands in the middle of a link whose line needs nothing there any more: packets pass.
pub fn passage() -> Tree {
    let netem = Netem { limit: Some(NEVER_REACHED), ..Netem::default() };
    Tree::from(around(netem, LineQdisc::Bits, None))
}

/// HTB sends while it owes nothing, and then owes the packet's time: the next one leaves when that has passed, whatever its own size. (tbf
/// waits for the next packet's own time instead, and lets a bucketful of small ones go at once.)
fn pace(line: &Line, rate: Rate, mtu: u32, buffer: Queue, clock: Punctuality) -> Queue {
    let only = Handle::class(LineQdisc::Rate as u16, 1);
    let early = Bytes::new(rate.bytes_in(clock.early()).get().max(1));
    let class = HtbClass {
        rate: Some(rate),
        burst: Some(early),
        cburst: Some(early),
        quantum: Some(Bytes::new(u64::from(mtu) + ETHERNET)),
        overhead: line.overhead.filter(|o| *o > 0),
        ..HtbClass::default()
    };
    let htb = Htb { default: Some(only), ..Htb::default() };
    Queue::from(Qdisc::from(htb)).with_handle(Handle::qdisc(LineQdisc::Rate as u16)).with_class(
        Class {
            id: Some(only),
            kind: ClassKind::Htb(class),
            queue: Some(Box::new(buffer)),
            classes: Vec::new(),
            filters: Vec::new(),
        },
    )
}

fn buffer(line: &Line) -> Queue {
    if let Some(queue) = &line.queue {
        return queue.clone();
    }
    let qdisc: Qdisc = match line.buffer.unwrap_or(Buffer::Packets(USUAL_BUFFER)) {
        Buffer::Packets(n) => Pfifo { limit: Some(n) }.into(),
        Buffer::Bytes(bytes) => Bfifo { limit: Some(bytes) }.into(),
    };
    Queue::from(qdisc).with_handle(Handle::qdisc(LineQdisc::Buffer as u16))
}

fn around(outer: impl Into<Qdisc>, which: LineQdisc, inner: Option<Queue>) -> Queue {
    let major = which as u16;
    let outer = Queue::from(outer.into()).with_handle(Handle::qdisc(major));
    match inner {
        None => outer,
        Some(inner) => outer.with_class(Class {
            id: Some(Handle::class(major, 1)),
            kind: ClassKind::Band,
            queue: Some(Box::new(inner)),
            classes: Vec::new(),
            filters: Vec::new(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(line: &str, user: Option<&str>) -> Vec<String> {
        let line: Line = toml::from_str(line).expect("a line");
        let user: Option<Tree> = user.map(|u| toml::from_str(u).expect("a tree"));
        let tree = tree(&line, 1500, user.as_ref(), Punctuality::Virtual).expect("something to do");
        quell_tc::commands(&tree.plan().expect("a plan that fits together"), "wan")
    }

    #[test]
    fn a_modem_is_a_delay_then_a_pace_then_a_buffer_in_its_own_unit() {
        let by_packets = commands("rate = '2.5Mbit'\ndelay = '10ms'\nbuffer = '100p'", None);
        assert_eq!(by_packets.len(), 4, "{by_packets:#?}");
        assert!(by_packets[0].contains("root handle f001: netem limit 1000000 delay 10ms"));
        assert!(by_packets[1].contains("parent f001:1 handle f003: htb default 1"));
        assert!(
            by_packets[2].contains("classid f003:1 htb rate 2.5Mbit burst 1 cburst 1"),
            "{by_packets:#?}"
        );
        assert!(by_packets[3].contains("parent f003:1 handle f004: pfifo limit 100"));
        let by_bytes = commands("rate = '2.5Mbit'\nbuffer = '256kB'", None);
        assert!(by_bytes[2].contains("bfifo limit 256"), "{by_bytes:#?}");
    }

    #[test]
    fn a_packets_bits_take_their_time_with_what_each_costs_on_the_wire() {
        let line: Line = toml::from_str("rate = '1Mbit'\noverhead = 44").expect("a line");
        let plan = middle(&line).expect("a line with a rate").plan().expect("a plan");
        let got = quell_tc::commands(&plan, "wan");
        assert!(got[0].contains("netem limit 1000000 rate 1Mbit 44"), "{got:#?}");
    }

    #[test]
    fn a_line_without_limits_needs_no_queue() {
        assert_eq!(tree(&Line::default(), 1500, None, Punctuality::Real), None);
        assert_eq!(middle(&Line::default()), None);
    }

    #[test]
    fn who_overtakes_passes_by_neither_the_pace_nor_the_buffer() {
        let text = "rate = '1Mbit'\ndelay = '10ms'\njitter = '2ms'\nreorder = '10%'\nloss = '1%'";
        let before = commands(text, None);
        assert!(before[0].contains("netem limit 1000000 loss random 1%"), "{before:#?}");
        assert!(!before.concat().contains("reorder"), "{before:#?}");
        let after = |text: &str| {
            let line: Line = toml::from_str(text).expect("a line");
            assert!(line.has_middle());
            let plan = middle(&line).expect("it reorders").plan().expect("a plan");
            quell_tc::commands(&plan, "wan")
        };
        let skips = "netem limit 1000000 delay 10ms 2ms reorder 10%";
        let paced = after(text);
        assert!(paced[0].contains("handle f005: netem limit 1000000 rate 1Mbit"), "{paced:#?}");
        assert!(paced[1].contains("parent f005:1") && paced[1].contains(skips), "{paced:#?}");
        let alone = after("delay = '10ms'\njitter = '2ms'\nreorder = '10%'");
        assert!(alone[0].contains("root") && alone[0].contains(skips), "{alone:#?}");
    }

    #[test]
    fn loss_and_marking_together_take_two_netems() {
        let got = commands("loss = '1%'\nmark = '2%'", None);
        assert!(got[0].contains("loss") && !got[0].contains("ecn"), "{got:#?}");
        assert!(got[1].contains("loss") && got[1].contains("ecn"), "{got:#?}");
    }

    #[test]
    fn a_users_queue_takes_the_place_of_the_buffer() {
        let got = commands("rate = '2.5Mbit'\nbuffer = '100p'", Some("queue = 'fq_codel'"));
        assert_eq!(got.len(), 3);
        assert!(got[2].contains("fq_codel"), "{got:#?}");
    }
}
