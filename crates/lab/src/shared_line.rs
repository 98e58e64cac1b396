//! Which line each stream has to share, told as facts, so that the streams of one direction can be compared.
//!
//! ```text
//!   task: b sends to server ──► path b, router, modem, server ──► its narrowest line ──► `stream/NAME/way` = `dsl up`
//!   the answers to it                the same path back       ──► …                  ──► `stream/NAME/way-back` = `dsl down`
//! ```
//!
//! `up` is from the first to the second end of a link. Streams whose narrowest line is the same in the same direction compete for
//! it. Where a path has several lines with a rate, `stream/NAME/path` names them all: on each it is beside those that share it. Where no line on the path has a rate, the way is named by its ends: `b to server`. Pure.

use crate::topology::Network;
use quell_model::task::{Goes, Stream};
use quell_model::{Event, Fact, Subject, Task, Told, When};
use std::net::IpAddr;

/// A fact for each stream of these tasks, and, where programs run whose connections are not known beforehand, `way/FROM>TO` for the
/// addresses of all nodes.
pub fn facts(network: &Network, tasks: &[Task]) -> Vec<Event> {
    let mut facts = Vec::new();
    for task in tasks {
        let Some(from) = network.nodes.iter().position(|n| n.name == task.host) else { continue };
        for Stream { name, to, goes } in task.kind.about().streams {
            let Some(to) = node_with(network, to) else { continue };
            let (there, back) = (Route::of(network, from, to), Route::of(network, to, from));
            let mut fact = |way, path, route: Option<Route>| {
                let Some(Route { narrowest, lines }) = route else { return };
                facts.push(event(Subject::stream(name, way), narrowest));
                facts.extend(lines.map(|lines| event(Subject::stream(name, path), lines)));
            };
            match goes {
                Goes::There => fact(Told::Way, Told::Path, there),
                Goes::Back => fact(Told::Way, Told::Path, back),
                Goes::Answered => {
                    fact(Told::Way, Told::Path, there);
                    fact(Told::WayBack, Told::PathBack, back);
                }
            }
        }
    }
    if tasks.iter().any(|t| t.kind.about().is_foreign) {
        facts.extend(between_all(network));
    }
    facts
}

fn event(subject: Subject, value: String) -> Event {
    Fact::new(When::Before, subject, value).into()
}

fn node_with(network: &Network, address: IpAddr) -> Option<usize> {
    let has = |port: &crate::topology::Port| port.v4 == address || port.v6 == address;
    network.nodes.iter().position(|node| node.ports.iter().any(has))
}

fn between_all(network: &Network) -> Vec<Event> {
    let mut facts = Vec::new();
    for (from, source) in network.nodes.iter().enumerate() {
        for (to, target) in network.nodes.iter().enumerate().filter(|(to, _)| *to != from) {
            let Some(route) = Route::of(network, from, to) else { continue };
            for (a, b) in source.ports.iter().flat_map(|a| target.ports.iter().map(move |b| (a, b)))
            {
                for (a, b) in [(a.v4.into(), b.v4.into()), (a.v6.into(), b.v6.into())] {
                    facts.push(event(Subject::Way(a, b), route.narrowest.clone()));
                    facts.extend(route.lines.clone().map(|l| event(Subject::Path(a, b), l)));
                }
            }
        }
    }
    facts
}

/// The lines that packets from one node to another cross.
struct Route {
    narrowest: String,
    /// All that have a rate, where there are several.
    lines: Option<String>,
}

impl Route {
    /// None where there is no path.
    fn of(network: &Network, from: usize, to: usize) -> Option<Self> {
        let mut lines: Vec<(u64, String)> = Vec::new();
        let mut at = from;
        while at != to {
            let port = &network.nodes[at].ports[network.next_hops(at)[to]?];
            let wire = &network.wires[port.wire];
            let direction = if wire.ends[0] == at { "up" } else { "down" };
            let rate = network.line(at, port).rate;
            lines.extend(rate.map(|rate| (rate.bps(), format!("{} {direction}", wire.name))));
            at = port.peer;
        }
        let ends = || format!("{} to {}", network.nodes[from].name, network.nodes[to].name);
        let narrowest = lines.iter().min_by_key(|(rate, _)| *rate);
        let narrowest = narrowest.map_or_else(ends, |(_, line)| line.clone());
        let names: Vec<&str> = lines.iter().map(|(_, line)| &**line).collect();
        Some(Self { narrowest, lines: (names.len() > 1).then(|| names.join(", ")) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    const HOME: &str = r#"
        hosts = ["a", "b", "server"]
        routers = ["router", "modem"]
        [[link]]
        name = "la"
        ends = ["a", "router"]
        both = { rate = "100Mbit" }
        [[link]]
        name = "lb"
        ends = ["b", "router"]
        [[link]]
        name = "wan"
        ends = ["router", "modem"]
        [[link]]
        name = "dsl"
        ends = ["modem", "server"]
        up = { rate = "2Mbit" }
        down = { rate = "8Mbit" }
    "#;

    fn home() -> Network {
        let topology: Topology = toml::from_str(HOME).expect("a topology");
        topology.parse().expect("it fits together")
    }

    #[test]
    fn what_two_hosts_send_through_one_modem_shares_its_uplink() {
        let network = home();
        let node = |name: &str| network.nodes.iter().position(|n| n.name == name).unwrap();
        let route = |from, to| Route::of(&network, node(from), node(to)).unwrap();
        let way = |from, to| route(from, to).narrowest;
        assert_eq!(way("a", "server"), "dsl up");
        assert_eq!(way("b", "server"), "dsl up");
        assert_eq!(way("server", "a"), "dsl down");
        assert_eq!(way("b", "a"), "la down");
        assert_eq!(way("b", "router"), "b to router", "no line on it has a rate");
        assert_eq!(route("a", "server").lines.as_deref(), Some("la up, dsl up"));
        assert_eq!(route("b", "server").lines, None, "there is but one");
    }

    #[test]
    fn a_connection_of_any_program_is_known_by_its_addresses() {
        let network = home();
        let (a, server) = (network.v4(0).unwrap(), network.v4(2).unwrap());
        let facts = between_all(&network);
        let way = event(Subject::Way(a.into(), server.into()), "dsl up".into());
        assert!(facts.contains(&way), "{facts:?}");
    }
}
