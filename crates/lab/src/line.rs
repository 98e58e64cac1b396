//! How a line becomes queues: one direction of a link, emulated where its packets leave and in the middle of the link.
//!
//! ```text
//!   where packets leave:
//!   packets ──► netem (delay, jitter, loss, duplication)
//!                └─► netem (marking)          only where both loss and marking are wanted
//!                └─► prio (policer)           where the line has one: its filter drops what comes too fast
//!                     └─► htb (pace)          gives a packet to the wire when the last one's bits are through
//!                          └─► buffer: pfifo, bfifo or a queue of the user's
//!   where packets leave a line whose rate is a series, or that has a grid or shares its medium, in virtual time:
//!   packets ──► the same netem ──► tbf, which follows the series (crates/kernel/edits/line.edit) and keeps each packet
//!                                  until its last bit is through ──► buffer; nothing but reordering in the middle
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

use crate::topology::{Line, Policer};
use quell_series::Steps;
use quell_tc::qdisc::{Bfifo, GilbertElliott, Htb, LinkLayer, Netem, Pfifo, Prio, Tbf};
use quell_tc::{
    Action, Class, ClassKind, Exceed, Filter, Handle, HtbClass, Matchall, Police, Qdisc, Queue,
    Tree,
};
use quell_units::{Buffer, Bytes, Rate, Ratio, Span};
use std::collections::BTreeSet;

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
    Police,
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
            // A timer and the looks behind it take 1.4 µs.
            Punctuality::Virtual => Span::from_micros(4),
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
        inner = Some(match is_followed(line, clock) {
            true => follow(line, rate, mtu, buffer),
            false => pace(line, rate, mtu, buffer, clock),
        });
    }
    if let Some(policer) = line.police {
        inner = Some(police(policer, mtu, inner));
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
            loss: line.loss.or(line.mark).filter(|_| line.loss_run.is_none()),
            gemodel: line.loss_run.and_then(|run| in_runs(line.loss?, run)),
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
pub fn middle(line: &Line, clock: Punctuality) -> Option<Tree> {
    let reorders = line.reorder.map(|reorder| Netem {
        limit: Some(NEVER_REACHED),
        delay: line.delay,
        jitter: line.jitter,
        reorder: Some(reorder),
        ..Netem::default()
    });
    let inner = reorders.map(|netem| around(netem, LineQdisc::Reorder, None));
    let outer = match line.rate.filter(|_| !is_followed(line, clock)) {
        None => inner?,
        Some(rate) => {
            let netem = Netem {
                limit: Some(NEVER_REACHED),
                rate: Some(rate),
                packet_overhead: line.overhead.filter(|o| *o > 0).map(i32::from),
                cell_size: is_cells(line).then_some(48),
                cell_overhead: is_cells(line).then_some(5),
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
        linklayer: is_cells(line).then_some(LinkLayer::Atm),
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

/// The bucket that follows a series.
pub const FOLLOWER: Handle = Handle::qdisc(LineQdisc::Rate as u16);

/// Whether the bucket of the lab's kernel is the line. On a machine's own kernel HTB's rate is changed at each step of a series.
pub fn is_followed(line: &Line, clock: Punctuality) -> bool {
    let varies = line.varies().is_some_and(|varies| varies.rate.is_some());
    clock == Punctuality::Virtual && (varies || line.grid.is_some() || line.shared)
}

/// The rates of such a line.
pub fn followed(line: &Line) -> Option<Steps<Rate>> {
    let varies = line.varies().and_then(|varies| varies.rate.clone());
    varies.or_else(|| Steps::constant(line.rate?, Span::from_secs(1)))
}

/// The line as it is so long after the start of the measurement.
pub fn at(line: &Line, time: Span, clock: Punctuality) -> Line {
    let mut now = line.clone();
    let Some(varies) = line.varies() else { return now };
    now.delay = varies.delay.as_ref().map(|delay| delay.at(time)).or(now.delay);
    now.loss = varies.loss.as_ref().map(|loss| loss.at(time)).or(now.loss);
    if clock == Punctuality::Real {
        now.rate = varies.rate.as_ref().map(|rate| rate.at(time)).or(now.rate);
    }
    now
}

/// When something of a line changes that is changed from outside of the kernel.
pub fn changes(line: &Line, length: Span, clock: Punctuality) -> BTreeSet<Span> {
    fn of<T: Copy + PartialEq>(steps: &Option<Steps<T>>, length: Span, to: &mut BTreeSet<Span>) {
        let Some(steps) = steps else { return };
        for round in (0..length.nanos()).step_by(steps.end().nanos() as usize) {
            let begins = steps.iter().map(|(begin, ..)| Span::from_nanos(round + begin.nanos()));
            to.extend(begins.filter(|begin| *begin < length));
        }
    }
    let mut all = BTreeSet::new();
    if is_followed(line, clock) {
        // Then it begins.
        all.insert(Span::from_nanos(0));
    }
    let Some(varies) = line.varies() else { return all };
    of(&varies.delay, length, &mut all);
    of(&varies.loss, length, &mut all);
    if clock == Punctuality::Real {
        of(&varies.rate, length, &mut all);
    }
    all
}

/// Why this line can't be had in real time, as on a machine's own kernel.
pub fn too_fine(line: &Line) -> Option<String> {
    let only = |what: &str| {
        Some(format!(
            "{what}, which the lab's kernel can do in virtual time: --kernel guest, without --real-time"
        ))
    };
    if line.grid.is_some() {
        return only("its packets leave at a grid");
    }
    if line.shared {
        return only("both its directions share one medium");
    }
    let rate = line.varies()?.rate.as_ref()?;
    // A timer of a busy machine serves shorter ones late.
    let least = Span::from_millis(10);
    let short = rate.iter().find(|(b, end, _)| end.nanos() - b.nanos() < least.nanos());
    let still = rate.iter().find(|(.., rate)| rate.bps() == 0);
    let (at, what) = match (short, still) {
        (Some((at, ..)), _) => (at, "has a step shorter than 10ms"),
        (_, Some((at, ..))) => (at, "carries nothing"),
        _ => return None,
    };
    only(&format!("its series {what} at {at}"))
}

/// A queue whose filter drops what comes too fast; all else goes to its first band. (A filter drops silently, as a far policer does: a
/// sender on this device is not told.)
fn police(policer: Policer, mtu: u32, inner: Option<Queue>) -> Queue {
    let band = Handle::class(LineQdisc::Police as u16, 1);
    let police = Police {
        rate: policer.rate,
        burst: policer.burst,
        mtu: Some(Bytes::new(u64::from(mtu) + ETHERNET)),
        exceed: Exceed::Drop,
    };
    let filter = Filter::new(Matchall {}, Some(band)).with_action(Action::Police(police));
    let prio = Prio { bands: Some(2), priomap: vec![0; 16] };
    // A queue that never fills: what is inside empties it at once, or limits itself.
    let inner =
        inner.unwrap_or_else(|| Queue::from(Qdisc::from(Pfifo { limit: Some(NEVER_REACHED) })));
    around(prio, LineQdisc::Police, Some(inner)).with_filter(filter)
}

/// Gilbert's model: a loss is followed by another one with the chance that makes runs so long on average.
fn in_runs(loss: Ratio, run: f64) -> Option<GilbertElliott> {
    let share = loss.as_f64();
    let to_good = 1.0 / run;
    let to_bad = (share * to_good / (1.0 - share)).min(1.0);
    let ratio = |share: f64| Ratio::from_ppb((share * 1e9).round() as u64);
    Some(GilbertElliott {
        to_bad: ratio(to_bad)?,
        to_good: ratio(to_good)?,
        loss_in_bad: None,
        loss_in_good: None,
    })
}

fn is_cells(line: &Line) -> bool {
    line.cells == Some(true)
}

/// A bucket whose rate is the mean, until it gets its series.
fn follow(line: &Line, rate: Rate, mtu: u32, buffer: Queue) -> Queue {
    let tbf = Tbf {
        rate: Some(rate),
        burst: Some(Bytes::new(u64::from(mtu) + ETHERNET)),
        limit: Some(Bytes::new(0)),
        overhead: line.overhead.filter(|o| *o > 0),
        linklayer: is_cells(line).then_some(LinkLayer::Atm),
        ..Tbf::default()
    };
    around(tbf, LineQdisc::Rate, Some(buffer))
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
    use crate::topology::LineFiles;
    use quell_series::LineSeries;

    fn commands(line: &str, user: Option<&str>) -> Vec<String> {
        let line: Line = toml::from_str(line).expect("a line");
        let user: Option<Tree> = user.map(|u| toml::from_str(u).expect("a tree"));
        let tree = tree(&line, 1500, user.as_ref(), Punctuality::Virtual).expect("something to do");
        quell_tc::commands(&tree.plan().expect("a plan that fits together"), "wan")
    }

    #[test]
    fn a_series_changes_htb_on_a_machines_kernel_and_is_followed_by_a_bucket_in_the_labs() {
        let ms = Span::from_millis;
        let rate = Steps::new([(ms(0), Rate::from_bps(8001)), (ms(20), Rate::from_bps(0))], ms(25));
        let delay = Steps::new([(ms(0), ms(1)), (ms(30), ms(2))], ms(40));
        let series = LineSeries { rate, delay, ..LineSeries::default() };
        let line = Line {
            rate: Some(Rate::from_bps(6400)),
            series: Some(LineFiles::Read(series.into())),
            ..Line::default()
        };
        let kinds = |clock| {
            let tree = tree(&at(&line, ms(0), clock), 1500, None, clock).expect("queues");
            quell_tc::commands(&tree.plan().expect("a plan"), "wan").join(" ")
        };
        assert!(kinds(Punctuality::Virtual).contains("tbf rate 6400bit"));
        assert!(middle(&line, Punctuality::Virtual).is_none());
        assert!(kinds(Punctuality::Real).contains("htb rate 8001bit"));
        let changes = |clock| changes(&line, ms(50), clock).into_iter().collect::<Vec<_>>();
        assert_eq!(changes(Punctuality::Virtual), [0, 30, 40].map(ms));
        assert_eq!(changes(Punctuality::Real), [0, 20, 25, 30, 40, 45].map(ms));
        let later = at(&line, ms(72), Punctuality::Virtual);
        assert_eq!((later.rate, later.delay), (line.rate, Some(ms(2))));
        let why = too_fine(&line).expect("5 ms are too short");
        assert!(why.contains("shorter than 10ms at 20ms"), "{why}");
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
        let plan = middle(&line, Punctuality::Virtual)
            .expect("a line with a rate")
            .plan()
            .expect("a plan");
        let got = quell_tc::commands(&plan, "wan");
        assert!(got[0].contains("netem limit 1000000 rate 1Mbit 44"), "{got:#?}");
    }

    #[test]
    fn a_line_without_limits_needs_no_queue() {
        assert_eq!(tree(&Line::default(), 1500, None, Punctuality::Real), None);
        assert_eq!(middle(&Line::default(), Punctuality::Virtual), None);
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
            let plan =
                middle(&line, Punctuality::Virtual).expect("it reorders").plan().expect("a plan");
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
    fn a_policer_stands_before_the_rate_and_alone_where_there_is_none() {
        let police = "police = { rate = '2Mbit', burst = '30kB' }\ndelay = '5ms'\n";
        let alone = commands(police, None);
        assert!(alone[1].contains("parent f001:1 handle f007: prio bands 2"), "{alone:#?}");
        assert!(alone[2].contains("parent f007:1") && alone[2].contains("pfifo"), "{alone:#?}");
        let filter = alone.last().expect("a filter");
        let words = "parent f007: protocol all prio 1 matchall classid f007:1 action police rate 2Mbit burst 30";
        assert!(filter.contains(words), "{filter}");
        let before = commands(&format!("{police}rate = '10Mbit'"), None);
        assert!(before[2].contains("parent f007:1 handle f003: htb"), "{before:#?}");
    }

    #[test]
    fn cells_and_runs_of_losses_are_the_kernels_own() {
        let line = "rate = '1Mbit'\noverhead = 10\ncells = true\nloss = '2%'\nloss-run = 4";
        let plain = commands(line, None);
        assert!(plain[0].contains("loss gemodel 0.5102041% 25%"), "{plain:#?}");
        assert!(plain[2].contains("linklayer atm"), "{plain:#?}");
        let line: Line = toml::from_str(&format!("{line}\ngrid = '2ms'")).expect("a line");
        let grid = tree(&line, 1500, None, Punctuality::Virtual).expect("queues");
        let grid = quell_tc::commands(&grid.plan().expect("a plan"), "wan");
        assert!(grid[1].contains("tbf") && grid[1].contains("linklayer atm"), "{grid:#?}");
        assert!(middle(&line, Punctuality::Virtual).is_none());
        let middle = middle(&line, Punctuality::Real).expect("bits").plan().expect("a plan");
        let middle = quell_tc::commands(&middle, "wan");
        assert!(middle[0].contains("rate 1Mbit 10 48 5"), "{middle:#?}");
        let shared = Line { shared: true, ..Line::default() };
        for (line, what) in [(&line, "a grid"), (&shared, "one medium")] {
            let why = too_fine(line).expect(what);
            assert!(why.contains(what) && why.contains("--kernel guest"), "{why}");
        }
    }

    #[test]
    fn a_users_queue_takes_the_place_of_the_buffer() {
        let got = commands("rate = '2.5Mbit'\nbuffer = '100p'", Some("queue = 'fq_codel'"));
        assert_eq!(got.len(), 3);
        assert!(got[2].contains("fq_codel"), "{got:#?}");
    }
}
