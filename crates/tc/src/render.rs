//! A plan as `tc` commands, for a person to read. Quell never runs them; goldens prove that they mean the same.

mod filters;
mod words;

use words::{Words, quoted};

use crate::{Handle, Plan, Step};

/// The commands that make this plan on a device, one a step.
pub fn commands(plan: &Plan, device: &str) -> Vec<String> {
    plan.steps.iter().map(|step| command(step, &quoted(device))).collect()
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
        Step::Filter { parent, filter } => {
            let place = match *parent {
                Handle::CLSACT_INGRESS => "ingress".to_owned(),
                Handle::CLSACT_EGRESS => "egress".to_owned(),
                other => format!("parent {other}"),
            };
            let mut words = Words(format!("tc filter add dev {device} {place}"));
            filters::filter(&mut words, filter);
            words.0
        }
    }
}
