//! The recipe as commands of `ip` and `tc`: those that `quell shape plan` prints, where nothing is there yet.

use super::super::report::command;
use super::super::wanted::mac_of;
use super::piece::{Piece, Recipe, Wish, cake};
use crate::failure::Failure;
use quell_act::Change;
use quell_tc::{Step, Tree};

/// The commands.
pub fn recipe(wish: &Wish) -> Result<Recipe, Failure> {
    let Wish { device, ifb, own, beyond } = wish;
    let mut lines = Vec::new();
    let mut off = vec![format!("tc qdisc del dev {device} root")];
    if let Some(tree) = beyond {
        let mac = mac_of(device);
        lines.push(command(&Change::MakeIfb { name: ifb.clone(), mac, index: None }));
        lines.extend(of(tree, ifb)?);
        off.push(format!("tc qdisc del dev {device} ingress"));
        off.push(format!("ip link del {ifb}"));
    }
    if own.queue.is_none() {
        off.remove(0);
    }
    lines.extend(of(own, device)?);
    let mut said = vec!["as root; gone after a reboot, or by these:".to_owned()];
    said.extend(off.iter().map(|line| format!("  {line}")));
    if cake(own).or(beyond.as_ref().and_then(cake)).is_some() {
        said.push(
            "a kernel that refuses `nat` tracks no connections: leave the word out there".into(),
        );
    }
    if looks_behind_tags(own) || beyond.as_ref().is_some_and(looks_behind_tags) {
        said.push("a packet with a VLAN tag is one of all others here: tc has no words for the addresses behind it".into());
    }
    Ok(Recipe {
        pieces: vec![Piece { place: "a shell".into(), text: lines.join("\n") + "\n" }],
        said,
    })
}

/// Whether Quell's own queues look further than commands can say.
fn looks_behind_tags(tree: &Tree) -> bool {
    let steps = tree.plan().map(|plan| plan.steps).unwrap_or_default();
    steps.iter().any(|step| match step {
        Step::Filter { filter, .. } => filter.family_behind_tags().is_some(),
        _ => false,
    })
}

/// The commands that make a tree.
pub fn of(tree: &Tree, device: &str) -> Result<Vec<String>, Failure> {
    let plan = tree.plan().map_err(Failure::usage)?;
    Ok(quell_tc::commands(&plan, device))
}
