//! A plan as `tc` commands, for a person to read. Quell never runs them; goldens prove that they mean the same.

mod filters;

use quell_units::Bytes;

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

/// A command's words so far.
struct Words(String);

impl Words {
    fn put(&mut self, word: impl ToString) {
        self.0.push(' ');
        self.0.push_str(&word.to_string());
    }

    /// `name value`, if the option was given.
    fn opt<T: ToString>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(name);
            self.put(value.to_string());
        }
    }

    fn bytes(&mut self, name: &str, value: Option<Bytes>) {
        // Without a unit: tc's "kb" is 1024 bytes, people's is not.
        self.opt(name, value.map(Bytes::get));
    }

    /// A word for on and one for off.
    fn flag(&mut self, on: &str, off: &str, value: Option<bool>) {
        match value {
            Some(true) => self.put(on),
            Some(false) if !off.is_empty() => self.put(off),
            _ => {}
        }
    }
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
