//! How long a packet of a probe or of a UDP load may be under way: what the buffers of all lines and the queues in front of them hold, at
//! their rates, and the delays. Pure.
//!
//! ```text
//!   each direction of each link:  delay + jitter + buffer ÷ rate     the worst of what the timeline makes of it
//!   each queue of the scenario:   limit ÷ rate                       its own rate where that is lower, of a tree the slowest leaf
//!   all of them                   more than any packet waits on its way there and back
//! ```

use quell_lab::cell::{ChangeWhat, PlacedChange, PlacedQueue};
use quell_lab::topology::{Line, Network};
use quell_series::Steps;
use quell_tc::{Class, ClassKind, Qdisc, Queue};
use quell_units::{Buffer, Rate, Span};

const LEAST: Span = Span::from_secs(3);
/// And at most: a line that is slower than this is as good as cut.
const MOST: Span = Span::from_secs(3600);
/// Packets that a queue of the user's is taken to hold, as a device's own does; those that hold more keep them shorter.
const USUAL_QUEUE: u64 = 1000;
/// Packets of a line's buffer where none is named.
const USUAL_BUFFER: u64 = 100;
const ETHERNET: u64 = 14;

/// The longest that a packet may take there and back through the lines and these queues in front of them, before it has to be lost.
pub fn longest(network: &Network, queues: &[PlacedQueue], changes: &[PlacedChange]) -> Span {
    let lines = || network.wires.iter().flat_map(|wire| [&wire.up, &wire.down]);
    let changed_lines = changes.iter().filter_map(|c| match &c.what {
        ChangeWhat::Line { line, .. } => line.rate,
        ChangeWhat::Queue(_) => None,
    });
    // A queue in front of a line is served at the slowest rate, or not much slower.
    let slowest = lines().filter_map(|line| line.rate).chain(changed_lines).min();
    let mtu = network.wires.iter().map(|wire| wire.mtu).max().unwrap_or(1500);
    let hosts = network.nodes.len() as u64;
    let holder = Holder { frame: u64::from(mtu) + ETHERNET, hosts };
    let changed = changes.iter().filter_map(|c| match &c.what {
        ChangeWhat::Queue(queue) => Some(queue),
        ChangeWhat::Line { .. } => None,
    });
    let trees = queues.iter().chain(changed).filter_map(|placed| placed.tree.queue.as_ref());
    let mut sum = trees.fold(0, |sum: u64, queue| sum.saturating_add(holder.queue(queue, slowest)));
    for wire in &network.wires {
        for (end, line) in [(0, &wire.up), (1, &wire.down)] {
            let mut line = line.clone();
            let mut worst = of(&line, wire.mtu, hosts);
            for change in changes {
                let ChangeWhat::Line { on, line: new } = &change.what else { continue };
                if on.device == wire.name && on.node == network.nodes[wire.ends[end]].name {
                    line = line.changed_by(new);
                    worst = worst.max(of(&line, wire.mtu, hosts));
                }
            }
            sum = sum.saturating_add(worst.nanos());
        }
    }
    Span::from_nanos(sum).clamp(LEAST, MOST)
}

/// How long one line holds a packet, at most.
fn of(line: &Line, mtu: u32, hosts: u64) -> Span {
    let frame = u64::from(mtu) + ETHERNET + u64::from(line.overhead.unwrap_or(0));
    let waits = match (line.buffer, &line.queue) {
        (None, Some(queue)) => Holder { frame, hosts }.queue(queue, line.rate),
        (Some(Buffer::Bytes(bytes)), _) => time(line.rate, bytes.get().saturating_add(frame)),
        (Some(Buffer::Packets(n)), _) => time(line.rate, (u64::from(n) + 1).saturating_mul(frame)),
        (None, None) => time(line.rate, (USUAL_BUFFER + 1) * frame),
    };
    let [delay, jitter] = [line.delay, line.jitter].map(nanos);
    let varies = line.varies();
    let delays = varies.and_then(|v| v.delay.as_ref()).into_iter().flat_map(Steps::iter);
    let delay = delays.map(|(.., delay)| delay.nanos()).max().unwrap_or(delay);
    let rates = varies.and_then(|v| v.rate.as_ref()).into_iter().flat_map(Steps::iter);
    let still = rates.filter(|(.., rate)| rate.bps() == 0);
    let outage = still.map(|(begin, end, _)| end.nanos() - begin.nanos()).max().unwrap_or(0);
    let all = [waits, delay, jitter, outage];
    Span::from_nanos(all.into_iter().fold(0, u64::saturating_add))
}

fn nanos(span: Option<Span>) -> u64 {
    span.map_or(0, Span::nanos)
}

/// How long so many bytes take, in nanoseconds; no time where nothing limits them.
fn time(rate: Option<Rate>, bytes: u64) -> u64 {
    rate.map_or(0, |rate| rate.time_for(bytes).nanos())
}

fn lower(one: Option<Rate>, other: Option<Rate>) -> Option<Rate> {
    [one, other].into_iter().flatten().min()
}

/// How long queues hold packets, in nanoseconds.
struct Holder {
    /// Bytes of the largest frame.
    frame: u64,
    /// Nodes that may send: no more classes of a fair queue are busy.
    hosts: u64,
}

impl Holder {
    /// A queue with all that is in it, whose packets leave at `rate` where it is not slower itself.
    fn queue(&self, queue: &Queue, rate: Option<Rate>) -> u64 {
        let packets = |n: u64| n.saturating_mul(self.frame);
        let many = |limit: Option<u32>| packets(limit.map_or(USUAL_QUEUE, u64::from));
        // What keeps itself short holds no more than usual, however much it may.
        let managed =
            |limit: Option<u32>| packets(limit.map_or(USUAL_QUEUE, u64::from).min(USUAL_QUEUE));
        let is_leaf = queue.classes.is_empty();
        let (own, bytes, more) = match &queue.qdisc {
            Qdisc::Pfifo(q) => (None, many(q.limit), 0),
            Qdisc::Bfifo(q) => (None, q.limit.map_or(packets(USUAL_QUEUE), |b| b.get()), 0),
            Qdisc::Tbf(q) => (q.rate, q.limit.map_or(0, |b| b.get()), nanos(q.latency)),
            Qdisc::Netem(q) => (q.rate, many(q.limit), nanos(q.delay) + nanos(q.jitter)),
            Qdisc::Cake(q) => (q.bandwidth, packets(USUAL_QUEUE), 0),
            Qdisc::Sfq(q) => (None, many(q.limit), 0),
            Qdisc::Fq(q) => (q.maxrate, many(q.limit), 0),
            Qdisc::Red(q) => (None, q.limit.map_or(packets(USUAL_QUEUE), |b| b.get()), 0),
            Qdisc::Codel(q) => (None, managed(q.limit), 0),
            Qdisc::FqCodel(q) => (None, managed(q.limit), 0),
            Qdisc::Pie(q) => (None, managed(q.limit), 0),
            Qdisc::FqPie(q) => (None, managed(q.limit), 0),
            Qdisc::Htb(q) => (None, if q.default.is_none() { many(q.direct_qlen) } else { 0 }, 0),
            _ if is_leaf => (None, packets(USUAL_QUEUE), 0),
            _ => (None, 0, 0),
        };
        let rate = lower(rate, own);
        time(rate, bytes).saturating_add(more).saturating_add(self.classes(&queue.classes, rate))
    }

    fn classes(&self, classes: &[Class], rate: Option<Rate>) -> u64 {
        let busy = (classes.len() as u64).min(self.hosts).max(1);
        let shared = rate.map(|rate| Rate::from_bps((rate.bps() / busy).max(1)));
        let class = |class: &Class| {
            let rate = match &class.kind {
                // What a class gets for sure: the rest may be busy.
                ClassKind::Htb(class) => lower(rate, class.rate),
                ClassKind::Hfsc(class) => [&class.rt, &class.ls, &class.ul]
                    .into_iter()
                    .flatten()
                    .fold(rate, |rate, curve| lower(rate, Some(curve.m2))),
                ClassKind::Drr(_) | ClassKind::Band => shared,
            };
            let inside = match &class.queue {
                Some(queue) => self.queue(queue, rate),
                None if class.classes.is_empty() => time(rate, USUAL_QUEUE * self.frame),
                None => 0,
            };
            inside.saturating_add(self.classes(&class.classes, rate))
        };
        classes.iter().map(class).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_lab::topology::Topology;

    fn network(link: &str) -> Network {
        let text = format!(
            "hosts = [\"a\", \"b\"]\n[[link]]\nname = \"line\"\nends = [\"a\", \"b\"]\n{link}"
        );
        toml::from_str::<Topology>(&text).expect("it is whole").parse().expect("it can be")
    }

    fn placed(queue: &str) -> PlacedQueue {
        let queue: Queue = toml::from_str(queue).expect("a queue");
        let on = quell_lab::topology::Interface { node: "a".into(), device: "line".into() };
        PlacedQueue { on, incoming: false, tree: queue.into() }
    }

    #[test]
    fn a_queue_that_is_slower_than_the_line_is_waited_for_at_its_own_rate() {
        let network = network("both = { rate = \"10Mbit\" }");
        // Both directions of the line hold 101 frames of 1514 bytes.
        let line = 2 * 122_331_200 / 1000;
        for (queue, micros) in [
            ("kind = \"tbf\"\nrate = \"1Mbit\"\nburst = 3000\nlimit = 1500000", 12_000_000),
            ("kind = \"tbf\"\nrate = \"1Mbit\"\nburst = 3000\nlatency = \"7s\"", 7_000_000),
            (
                "kind = \"htb\"\ndefault = \"1:10\"\n[[class]]\nid = \"1:10\"\nrate = \"1Mbit\"\nceil = \"5Mbit\"\n\
                 queue = { kind = \"pfifo\", limit = 500 }",
                6_056_000,
            ),
            ("kind = \"netem\"\nlimit = 1000\nrate = \"2Mbit\"\ndelay = \"1s\"", 7_056_000),
            ("kind = \"cake\"\nbandwidth = \"3Mbit\"", 4_037_333),
        ] {
            let found = longest(&network, &[placed(queue)], &[]).nanos() / 1000;
            assert_eq!(found, micros + line, "{queue}");
        }
    }

    #[test]
    fn a_deep_buffer_at_a_low_rate_is_waited_for() {
        // 1001 frames of 1514 bytes at 1 Mbit/s.
        let deep = network("up = { rate = \"1Mbit\", delay = \"20ms\", buffer = \"1000p\" }");
        assert_eq!(longest(&deep, &[], &[]), Span::from_micros(12_144_112));
        let fast = network("both = { rate = \"100Mbit\", delay = \"20ms\", buffer = \"1000p\" }");
        assert_eq!(longest(&fast, &[], &[]), LEAST);
        // And 1000 in front of it.
        assert_eq!(
            longest(&deep, &[placed("kind = \"fq_codel\"")], &[]),
            Span::from_micros(24_256_112)
        );
        let dead = network("up = { rate = \"1kbit\", buffer = \"1000p\" }");
        assert_eq!(longest(&dead, &[], &[]), MOST);
    }

    #[test]
    fn a_line_that_slows_down_while_it_runs_is_waited_for_as_it_is_then() {
        let network = network("up = { rate = \"100Mbit\", buffer = \"1000p\" }");
        let change: Line = toml::from_str("rate = \"2Mbit\"").expect("a line");
        let on = quell_lab::topology::Interface { node: "a".into(), device: "line".into() };
        let at = Span::from_secs(4);
        let changes = [PlacedChange { at, what: ChangeWhat::Line { on, line: change } }];
        assert_eq!(longest(&network, &[], &changes), Span::from_micros(6_062_056));
    }
}
