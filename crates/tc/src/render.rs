//! A plan as `tc` commands, for a person to read. Quell never runs them; goldens prove that they mean the same.

mod filters;
mod outline;
mod words;

pub use outline::outline;
use words::{Words, quoted};

use crate::{Change, FilterKind, Handle, Place, Plan, Protocol, Step, Thing};

/// The commands that make this plan on a device, one a step.
pub fn commands(plan: &Plan, device: &str) -> Vec<String> {
    plan.steps.iter().map(|step| command(step, &quoted(device))).collect()
}

/// A change as a `tc` command. What is made again byte for byte has none, and is told in a comment.
pub fn change_command(change: &Change, device: &str) -> String {
    let device = quoted(device);
    match change {
        Change::Make(Thing::Step(step)) => command(step, &device),
        Change::Alter(Thing::Step(step)) => command(step, &device)
            .replacen(" replace ", " change ", 1)
            .replacen(" add ", " change ", 1),
        Change::Make(Thing::Seen(_)) | Change::Alter(Thing::Seen(_)) => {
            format!("# on {device}: {change}, as it was")
        }
        Change::Remove { place, kind } => match *place {
            Place::Qdisc { parent: Handle::ROOT, .. } => format!("tc qdisc del dev {device} root"),
            Place::Qdisc { parent: Handle::INGRESS, .. } => {
                format!("tc qdisc del dev {device} {kind}")
            }
            Place::Qdisc { parent, .. } => format!("tc qdisc del dev {device} parent {parent}"),
            Place::Class { id, .. } => format!("tc class del dev {device} classid {id}"),
            Place::Filter { parent, prio, protocol, handle, .. } => {
                let protocol = Protocol(protocol);
                let name = if handle == 0 { String::new() } else { format!("handle {handle:#x} ") };
                let words = format!("protocol {protocol} prio {prio} {name}{kind}");
                format!("tc filter del dev {device} {} {words}", hook(parent))
            }
        },
    }
}

/// Where a filter hangs, in `tc`'s words.
fn hook(parent: Handle) -> String {
    match parent {
        Handle::CLSACT_INGRESS => "ingress".to_owned(),
        Handle::CLSACT_EGRESS => "egress".to_owned(),
        other => format!("parent {other}"),
    }
}

fn command(step: &Step, device: &str) -> String {
    match step {
        Step::Qdisc { parent, handle, qdisc } => {
            let parent = match *parent {
                Handle::ROOT => "root".to_owned(),
                class => format!("parent {class}"),
            };
            let mut words =
                Words(format!("tc qdisc replace dev {device} {parent} handle {handle}"));
            words.put(qdisc.kind());
            qdisc.words(|word| words.put(word));
            words.0
        }
        Step::Ingress { clsact: true } => format!("tc qdisc replace dev {device} clsact"),
        Step::Ingress { clsact: false } => format!("tc qdisc replace dev {device} ingress"),
        Step::Class { parent, id, kind } => {
            let mut words =
                Words(format!("tc class replace dev {device} parent {parent} classid {id}"));
            words.put(kind.name());
            kind.words(|word| words.put(word));
            words.0
        }
        Step::Filter { parent, filter } if let FilterKind::Classify(config) = &filter.kind => {
            let prio = filter.prio.unwrap_or(0);
            format!(
                "# on {device}, {} prio {prio}: {config}: a BPF program, which Quell loads and tc can't",
                hook(*parent)
            )
        }
        Step::Filter { parent, filter } => {
            let mut words = Words(format!("tc filter add dev {device} {}", hook(*parent)));
            filters::filter(&mut words, filter);
            words.0
        }
    }
}
