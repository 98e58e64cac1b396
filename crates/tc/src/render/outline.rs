//! What is wanted on an interface as an indented tree, for a person to read: each queue with its classes, each class with its queue, and the
//! filters of both.
//!
//! ```text
//!   htb 1: default 2
//!     class 1:1 htb rate 9500kbit
//!       drr 2:
//!         class 2:1 drr
//!           …
//!         … 127 more like that
//!         filter protocol all prio 1 flower src_ip 192.0.2.7/32 flowid 2:1
//! ```

use super::filters;
use super::words::Words;
use crate::{Bpf, BpfProgram, FilterKind, Handle, Step, Thing};
use std::collections::BTreeMap;

/// Of neighbours that are not alike so many are shown.
const SHOWN: usize = 12;

/// Deeper than any tree that a kernel takes (`tcf_node_bind` and others count to 8 or so).
const DEEPEST: usize = 16;

/// The lines, each indented by two blanks a level.
pub fn outline(things: &[Thing]) -> Vec<String> {
    let mut below: BTreeMap<Handle, Vec<&Thing>> = BTreeMap::new();
    let mut top = Vec::new();
    for thing in things {
        match thing {
            Thing::Step(Step::Qdisc { parent: Handle::ROOT, .. } | Step::Ingress { .. }) => {
                top.push(thing);
            }
            Thing::Step(
                Step::Qdisc { parent, .. }
                | Step::Class { parent, .. }
                | Step::Filter { parent, .. },
            ) => below.entry(hook(*parent)).or_default().push(thing),
            Thing::Seen(_) => top.push(thing),
        }
    }
    let mut lines = Vec::new();
    Outline { below }.put(&top, 0, &mut lines);
    lines
}

/// All hooks are those of the one queue at which packets come in, or of both ways.
fn hook(parent: Handle) -> Handle {
    match parent {
        Handle::CLSACT_INGRESS | Handle::CLSACT_EGRESS => Handle::INGRESS_QDISC,
        other => other,
    }
}

struct Outline<'a> {
    below: BTreeMap<Handle, Vec<&'a Thing>>,
}

impl Outline<'_> {
    fn put(&self, things: &[&Thing], depth: usize, lines: &mut Vec<String>) {
        if depth > DEEPEST {
            return;
        }
        let indent = "  ".repeat(depth);
        let (mut at, mut shown) = (0, 0);
        while let Some(thing) = things.get(at) {
            if shown == SHOWN {
                lines.push(format!("{indent}… {} more", things.len() - at));
                return;
            }
            lines.push(format!("{indent}{}", line(thing)));
            self.put(self.children(thing), depth + 1, lines);
            let look = self.look(thing, depth);
            let alike = things[at + 1..].iter().take_while(|o| self.look(o, depth) == look).count();
            // One more is a line, whichever way.
            let folded = if alike > 1 { alike } else { 0 };
            if folded > 0 {
                lines.push(format!("{indent}… {folded} more like that"));
            }
            (at, shown) = (at + 1 + folded, shown + 1);
        }
    }

    fn children(&self, thing: &Thing) -> &[&Thing] {
        let name = match thing {
            Thing::Step(Step::Qdisc { handle, .. }) => *handle,
            Thing::Step(Step::Ingress { .. }) => Handle::INGRESS_QDISC,
            Thing::Step(Step::Class { id, .. }) => *id,
            _ => return &[],
        };
        self.below.get(&name).map_or(&[], Vec::as_slice)
    }

    /// What is the same of things that are alike: all but numbers, addresses and whom a filter names.
    fn look(&self, thing: &Thing, depth: usize) -> String {
        let mut look = match thing {
            Thing::Step(Step::Filter { filter, .. }) => {
                return format!("filter {} {:?}", filter.kind.kernel_name(), filter.prio);
            }
            Thing::Step(Step::Class { kind, .. }) => {
                let mut words = Words(kind.name().to_owned());
                kind.words(|word| words.put(word));
                words.0
            }
            Thing::Step(Step::Qdisc { qdisc, .. }) => {
                let mut words = Words(qdisc.kind().to_owned());
                qdisc.words(|word| words.put(word));
                words.0
            }
            other => other.to_string(),
        };
        if depth < DEEPEST {
            for child in self.children(thing) {
                look.push('\n');
                look.push_str(&self.look(child, depth + 1));
            }
        }
        look
    }
}

fn line(thing: &Thing) -> String {
    match thing {
        Thing::Step(Step::Qdisc { handle, qdisc, .. }) => {
            let mut words = Words(format!("{} {handle}", qdisc.kind()));
            qdisc.words(|word| words.put(word));
            words.0
        }
        Thing::Step(Step::Class { id, kind, .. }) => {
            let mut words = Words(format!("class {id} {}", kind.name()));
            kind.words(|word| words.put(word));
            words.0
        }
        Thing::Step(Step::Filter { filter, .. }) => match &filter.kind {
            FilterKind::Classify(config) => {
                format!("filter prio {} {config}", filter.prio.unwrap_or(0))
            }
            FilterKind::Bpf(Bpf { program: BpfProgram::Bytecode(code), .. }) => {
                let (prio, count) = (filter.prio.unwrap_or(0), code.len());
                format!("filter prio {prio} bpf program of {count} instructions")
            }
            _ => {
                let mut words = Words("filter".to_owned());
                filters::filter(&mut words, filter);
                words.0
            }
        },
        Thing::Step(Step::Ingress { .. }) => thing.kind().to_owned(),
        Thing::Seen(_) => thing.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    fn lines(text: &str) -> Vec<String> {
        let tree: Tree = toml::from_str(text).expect("a tree");
        outline(&tree.plan().expect("it fits together").things())
    }

    #[test]
    fn queues_stand_in_their_classes_and_what_comes_beside_them() {
        let text = r#"
            [queue]
            kind = "htb"
            default = "1:2"
            class = [ { id = "1:1", rate = "9Mbit", class = [ { id = "1:2", rate = "1Mbit", queue = "fq_codel" } ] } ]
            filter = [ { kind = "u32", match = "ip dst 10.0.0.2/32", protocol = "ip", class = "1:2" } ]
            [ingress]
            filter = [ { kind = "u32", match = "u32 0 0 at 0", action = { redirect = "i-a0" } } ]
        "#;
        let told = lines(text);
        let heads: Vec<&str> = told.iter().map(|l| l.split(" rate").next().unwrap_or(l)).collect();
        let heads: Vec<String> = heads
            .iter()
            .map(|l| {
                let depth = l.len() - l.trim_start().len();
                format!("{depth}{}", l.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
            })
            .collect();
        assert_eq!(
            heads,
            [
                "0htb 1:",
                "2class 1:1",
                "4class 1:2",
                "6fq_codel 2:",
                "2filter protocol",
                "0ingress",
                "2filter protocol"
            ],
            "{told:#?}"
        );
        assert!(told[2].contains("rate 1Mbit") && told[6].contains("i-a0"), "{told:#?}");
    }

    #[test]
    fn of_what_is_alike_the_first_is_shown_and_of_what_is_not_a_few() {
        let class = |n: usize, rate: usize| {
            format!(
                r#"{{ id = "1:{n:x}", rate = "{rate}kbit", queue = {{ kind = "pfifo", limit = 7 }} }}"#
            )
        };
        let of = |rate: fn(usize) -> usize| {
            let classes: Vec<String> = (1..=40).map(|n| class(n, rate(n))).collect();
            lines(&format!("[queue]\nkind = \"htb\"\nclass = [ {} ]\n", classes.join(",\n")))
        };
        let alike = of(|_| 100);
        assert_eq!(alike.len(), 4, "{alike:#?}");
        assert_eq!(alike[3], "  … 39 more like that");
        let others = of(|n| 100 + n);
        assert_eq!(others.len(), 1 + 2 * SHOWN + 1, "{others:#?}");
        assert_eq!(others[1 + 2 * SHOWN], "  … 28 more");
    }
}
