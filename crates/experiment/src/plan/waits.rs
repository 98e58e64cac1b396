//! How long a packet of a probe or of a UDP load may be under way: what the buffers of all lines hold, at their rates, and the
//! delays. Pure.
//!
//! ```text
//!   each direction of each link:  delay + jitter + buffer ÷ rate     the worst of what the timeline makes of it
//!   all of them                   more than any packet waits on its way there and back
//! ```

use quell_lab::cell::{ChangeWhat, PlacedChange};
use quell_lab::topology::{Line, Network};
use quell_units::{Buffer, Span};

/// What is waited for at least.
const LEAST: Span = Span::from_secs(3);
/// And at most: a line that is slower than this is as good as cut.
const MOST: Span = Span::from_secs(3600);
/// Packets that a queue of the user's is taken to hold, as a device's own does; those that hold more keep them shorter.
const USUAL_QUEUE: u64 = 1000;
/// Packets of a line's buffer where none is named.
const USUAL_BUFFER: u64 = 100;
/// Bytes of an Ethernet header.
const ETHERNET: u64 = 14;

/// The longest that a packet may take there and back through the lines and so many queues in front of them, before it has to be lost.
pub fn longest(network: &Network, queues: usize, changes: &[PlacedChange]) -> Span {
    let lines = || network.wires.iter().flat_map(|wire| [&wire.up, &wire.down]);
    // A queue in front of a line is served at the slowest rate, or not much slower.
    let slowest = lines().filter_map(|line| line.rate).min();
    let changed = changes.iter().filter(|c| matches!(c.what, ChangeWhat::Queue(_))).count();
    let queue = slowest.map_or(0, |rate| rate.time_for(USUAL_QUEUE * (ETHERNET + 1500)).nanos());
    let mut sum = queue.saturating_mul((queues + changed) as u64);
    for wire in &network.wires {
        for (end, line) in [(0, &wire.up), (1, &wire.down)] {
            let mut line = line.clone();
            let mut worst = of(&line, wire.mtu);
            for change in changes {
                let ChangeWhat::Line { on, line: new } = &change.what else { continue };
                if on.device == wire.name && on.node == network.nodes[wire.ends[end]].name {
                    line = line.changed_by(new);
                    worst = worst.max(of(&line, wire.mtu));
                }
            }
            sum = sum.saturating_add(worst.nanos());
        }
    }
    Span::from_nanos(sum).clamp(LEAST, MOST)
}

/// How long one line holds a packet, at most.
fn of(line: &Line, mtu: u32) -> Span {
    let frame = u64::from(mtu) + ETHERNET + u64::from(line.overhead.unwrap_or(0));
    let bytes = match (line.buffer, &line.queue) {
        (Some(Buffer::Bytes(bytes)), _) => bytes.get().saturating_add(frame),
        (Some(Buffer::Packets(n)), _) => (u64::from(n) + 1).saturating_mul(frame),
        (None, Some(_)) => USUAL_QUEUE * frame,
        (None, None) => (USUAL_BUFFER + 1) * frame,
    };
    let waits = line.rate.map_or(0, |rate| rate.time_for(bytes).nanos());
    let [delay, jitter] = [line.delay, line.jitter].map(|d| d.map_or(0, Span::nanos));
    Span::from_nanos(waits.saturating_add(delay).saturating_add(jitter))
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

    #[test]
    fn a_deep_buffer_at_a_low_rate_is_waited_for() {
        // 1001 frames of 1514 bytes at 1 Mbit/s.
        let deep = network("up = { rate = \"1Mbit\", delay = \"20ms\", buffer = \"1000p\" }");
        assert_eq!(longest(&deep, 0, &[]), Span::from_micros(12_144_112));
        let fast = network("both = { rate = \"100Mbit\", delay = \"20ms\", buffer = \"1000p\" }");
        assert_eq!(longest(&fast, 0, &[]), LEAST);
        // And 1000 in front of it.
        assert_eq!(longest(&deep, 1, &[]), Span::from_micros(24_256_112));
        let dead = network("up = { rate = \"1kbit\", buffer = \"1000p\" }");
        assert_eq!(longest(&dead, 0, &[]), MOST);
    }

    #[test]
    fn a_line_that_slows_down_while_it_runs_is_waited_for_as_it_is_then() {
        let network = network("up = { rate = \"100Mbit\", buffer = \"1000p\" }");
        let change: Line = toml::from_str("rate = \"2Mbit\"").expect("a line");
        let on = quell_lab::topology::Interface { node: "a".into(), device: "line".into() };
        let at = Span::from_secs(4);
        let changes = [PlacedChange { at, what: ChangeWhat::Line { on, line: change } }];
        assert_eq!(longest(&network, 0, &changes), Span::from_micros(6_062_056));
    }
}
