//! Shapers that shape nothing, since their line is no faster. Pure.
//!
//! ```text
//!   hosts ── router ─[2.4Mbit]── modem ──1Mbit── server      the queue stands in the modem, as if nothing were shaped
//! ```

use quell_lab::cell::{CellPlan, PlacedQueue};
use quell_lab::topology::{Network, NodeKind, Port};
use quell_tc::{Class, ClassKind, Qdisc, Queue};
use quell_units::Rate;
use std::fmt;

/// A queue whose rate is not below that of its line.
#[derive(Debug, Clone, PartialEq)]
pub struct NotBelow {
    pub scenarios: Vec<String>,
    /// The interface, as `router:wan`.
    pub on: String,
    pub incoming: bool,
    /// What it lets through, in bits per second.
    pub rate: Rate,
    /// The narrowest line on the way, by its name.
    pub line: String,
    /// Its direction, `up` or `down` as the file has it.
    pub direction: &'static str,
    pub carries: Rate,
}

impl fmt::Display for NotBelow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { on, rate, line, direction, carries, .. } = self;
        let scenarios = self.scenarios.join(", ");
        let way = if self.incoming { "in at" } else { "out by" };
        write!(
            f,
            "{scenarios}: the queue for what goes {way} {on} lets {rate} through, and the line `{line}` carries {carries}. \
         Packets wait in the line's buffer, as if nothing were shaped. Give it less than the line: rate = \"96% of link {line}.{direction}\""
        )
    }
}

/// The queues of these plans that are not slower than every line which their packets come to, each once.
pub fn not_below(plans: &[CellPlan]) -> Vec<NotBelow> {
    let mut found: Vec<NotBelow> = Vec::new();
    for plan in plans {
        // A plan was made of a network that can be.
        let Ok(network) = plan.topology.parse() else { continue };
        for queue in &plan.queues {
            let Some(new) = of_queue(&network, queue) else { continue };
            let same = found
                .iter_mut()
                .find(|old| NotBelow { scenarios: Vec::new(), ..(*old).clone() } == new);
            match same {
                Some(old) if old.scenarios.contains(&plan.id.scenario) => {}
                Some(old) => old.scenarios.push(plan.id.scenario.clone()),
                None => found.push(NotBelow { scenarios: vec![plan.id.scenario.clone()], ..new }),
            }
        }
    }
    found
}

/// None where it shapes nothing, or is slower than a line on the way to somebody.
fn of_queue(network: &Network, queue: &PlacedQueue) -> Option<NotBelow> {
    let rate = rate(queue.tree.queue.as_ref()?)?;
    let at = network.nodes.iter().position(|node| node.name == queue.on.node)?;
    let behind = network.hosts_behind(&queue.on);
    let ahead = (0..network.nodes.len())
        .filter(|n| network.nodes[*n].kind == NodeKind::Host && *n != at && !behind.contains(n));
    // Where a way has no rate, the queue is what is narrow.
    let narrowest = ahead.map(|host| narrowest(network, at, host, queue.incoming));
    let (line, direction, carries) =
        narrowest.collect::<Option<Vec<_>>>()?.into_iter().max_by_key(|(.., rate)| *rate)?;
    let on = queue.on.to_string();
    (rate >= carries).then(|| NotBelow {
        scenarios: Vec::new(),
        on,
        incoming: queue.incoming,
        rate,
        line,
        direction,
        carries,
    })
}

/// The line with the lowest rate from a node to another one, or, `back`, from that one to it.
fn narrowest(
    network: &Network,
    from: usize,
    to: usize,
    back: bool,
) -> Option<(String, &'static str, Rate)> {
    let mut at = from;
    let mut lowest: Option<(String, &'static str, Rate)> = None;
    while at != to {
        let port: &Port = &network.nodes[at].ports[network.next_hops(at)[to]?];
        let wire = &network.wires[port.wire];
        let sender = if back { port.peer } else { at };
        let (direction, line) = match wire.ends[0] == sender {
            true => ("up", &wire.up),
            false => ("down", &wire.down),
        };
        if let Some(rate) = line.rate
            && lowest.as_ref().is_none_or(|(.., low)| rate < *low)
        {
            lowest = Some((wire.name.clone(), direction, rate));
        }
        at = port.peer;
    }
    lowest
}

/// The most that a queue lets through; none where nothing in it has a rate. Of several classes that of the fastest: if that alone
/// is not below the line, all together aren't.
fn rate(queue: &Queue) -> Option<Rate> {
    let own = match &queue.qdisc {
        Qdisc::Tbf(q) => q.rate,
        Qdisc::Cake(q) => q.bandwidth,
        // What has no class goes by unshaped, but that is for the queue's own check.
        Qdisc::Htb(_) | Qdisc::Hfsc(_) => return queue.classes.iter().filter_map(of_class).max(),
        _ => None,
    };
    own.or_else(|| {
        queue
            .classes
            .iter()
            .map(|class| class.queue.as_deref().and_then(rate))
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .max()
    })
}

fn of_class(class: &Class) -> Option<Rate> {
    match &class.kind {
        ClassKind::Htb(kind) => kind.ceil.or(kind.rate),
        ClassKind::Hfsc(kind) => kind.ul.as_ref().map(|curve| curve.m2),
        ClassKind::Drr(_) | ClassKind::Band => class.queue.as_deref().and_then(rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load_file;

    const HOME: &str = r#"
name = "home"
duration = "1s"
[topology]
hosts = ["a", "server"]
routers = ["router", "modem"]
[[topology.link]]
name = "lan"
ends = ["a", "router"]
both = { rate = "1Gbit" }
[[topology.link]]
name = "wan"
ends = ["router", "modem"]
[[topology.link]]
name = "dsl"
ends = ["modem", "server"]
up = { rate = "2.5Mbit" }
down = { rate = "8Mbit" }
[[queue]]
name = "shaped"
on = "router:wan"
QUEUE
[[scenario]]
name = "one"
queues = ["shaped"]
[[scenario]]
name = "two"
queues = ["shaped"]
[[scenario]]
name = "plain"
[[probe]]
kind = "ping"
name = "p"
from = "a"
to = "server"
"#;

    fn told(queue: &str) -> Vec<String> {
        let experiment =
            load_file::parse("home.toml", &HOME.replace("QUEUE", queue)).expect("it can be read");
        let plans = super::super::plan(&experiment).expect("it can be planned");
        not_below(&plans).iter().map(NotBelow::to_string).collect()
    }

    #[test]
    fn a_shaper_above_its_line_is_told_once_with_all_its_scenarios() {
        for queue in [
            "policy = { kind = \"host-fair\", rate = \"3Mbit\" }",
            "queue = { kind = \"cake\", bandwidth = \"3Mbit\" }",
            "queue = { kind = \"tbf\", rate = \"3Mbit\", burst = 3000, limit = 30000 }",
        ] {
            let told = told(queue);
            assert_eq!(told.len(), 1, "{queue}: {told:?}");
            assert!(told[0].starts_with("one, two: the queue for what goes out by router:wan lets 3Mbit through, and the line `dsl` carries 2.5Mbit"), "{told:?}");
        }
        assert_eq!(
            told("queue = { kind = \"cake\", bandwidth = \"2.5Mbit\" }").len(),
            1,
            "as fast is not below"
        );
    }

    #[test]
    fn one_below_its_line_and_one_that_shapes_nothing_are_well() {
        assert!(told("policy = { kind = \"host-fair\", rate = \"2.4Mbit\" }").is_empty());
        assert!(told("queue = \"fq_codel\"").is_empty());
    }

    #[test]
    fn what_comes_in_has_the_other_direction_of_the_line() {
        let incoming = |rate: &str| {
            told(&format!(
                "direction = \"in\"\nqueue = {{ kind = \"cake\", bandwidth = \"{rate}\" }}"
            ))
        };
        assert!(incoming("7.5Mbit").is_empty());
        assert!(incoming("9Mbit")[0].ends_with(": rate = \"96% of link dsl.down\""));
        assert!(incoming("9Mbit")[0].contains(
            "goes in at router:wan lets 9Mbit through, and the line `dsl` carries 8Mbit"
        ));
    }

    #[test]
    fn what_is_built_in_shapes_below_its_lines() {
        for (name, text) in crate::builtin::ALL {
            let experiment = load_file::parse(name, text).expect(name);
            let plans = super::super::plan(&experiment).expect(name);
            assert_eq!(not_below(&plans), [], "{name}");
        }
    }
}
