//! Facts about a network that stands: what the kernel says of its settings and queues, for the manifest.

use crate::build::Built;
use quell_model::{Event, Fact, Subject, When};
use quell_netlink::{Stack, sysctl};

const SETTINGS: [&str; 16] = [
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_slow_start_after_idle",
];

/// One event a fact. What can't be read is left out: kernels differ in what they have.
pub fn facts(built: &Built, when: When) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut fact = |subject, value| events.push(Fact::new(when, subject, value).into());
    for (index, (node, space)) in built.network.nodes.iter().zip(&built.spaces).enumerate() {
        let seen = space.visit(|| {
            let settings: Vec<(String, String)> = match index {
                0 => SETTINGS
                    .iter()
                    .filter_map(|key| sysctl::read(key).ok().map(|v| (key.to_string(), v)))
                    .collect(),
                _ => Vec::new(),
            };
            (settings, queues())
        });
        let Ok((settings, queues)) = seen else { continue };
        for (key, value) in settings {
            fact(Subject::Sysctl(key), value);
        }
        for (device, value) in queues {
            fact(Subject::Queues(format!("{}:{device}", node.name)), value);
        }
    }
    events
}

/// The queues of each device of this namespace, as JSON.
fn queues() -> Vec<(String, String)> {
    let Ok(mut stack) = Stack::open() else { return Vec::new() };
    let Ok(links) = stack.links() else { return Vec::new() };
    let mut found = Vec::new();
    for link in links {
        let Ok(qdiscs) = quell_netlink::tc::dump_qdiscs(stack.socket(), link.index) else {
            continue;
        };
        if qdiscs.is_empty() || qdiscs.iter().all(|q| q.kind == "noqueue") {
            continue;
        }
        let text = serde_json::to_string(&qdiscs).unwrap_or_default();
        found.push((link.name.to_string(), text));
    }
    found
}
