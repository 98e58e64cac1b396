//! The policy in force, as its log keeps it.
//!
//! ```text
//!   few subscribers     recipe: the policy file
//!   thousands           recipe: { kept: all but them, list: name of the annex, changed: those that are otherwise since }
//!                       annex:  all of them, a line each
//! ```
//!
//! So a change of one writes some hundred bytes, and the log of thousands is as short as any.

use quell_act::{Annex, Log};
use quell_shaper::{BothWays, TwoWaySubscriber, read_list, write_list};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// So many changes of single subscribers lie beside their list before it is written anew.
const CHANGES: usize = 256;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    kept: BothWays,
    list: String,
    changed: Vec<TwoWaySubscriber>,
}

/// How the text of such a recipe begins. That of an older version begins with an option.
const BEGINS: &str = "{\"kept\":";

/// What is in force, as it was asked for.
///
/// # Errors
/// It can't be read, or another version wrote it.
pub fn read(log: &Log) -> Result<BothWays, String> {
    let text = &log.begun.recipe;
    if !text.starts_with(BEGINS) {
        return match text.starts_with('{') {
            true => serde_json::from_str(text).map_err(|e| e.to_string()),
            false => toml::from_str(text).map_err(|e| e.to_string()),
        };
    }
    let Kept { mut kept, list, changed } = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let listed = log.annex(&list).map_err(|e| e.to_string())?;
    (kept.subscribers, _) = read_list(&listed, &[])?;
    let mut changed: HashMap<String, TwoWaySubscriber> =
        changed.into_iter().map(|one| (one.name.clone(), one)).collect();
    for one in &mut kept.subscribers {
        if let Some(now) = changed.remove(&one.name) {
            *one = now;
        }
    }
    Ok(kept)
}

/// A policy as a log keeps it that has thousands of subscribers.
///
/// # Errors
/// It can't be put into words.
pub fn write(all: &BothWays) -> Result<(String, Annex), String> {
    let annex = Annex::of(write_list(&all.subscribers));
    Ok((recipe(all, annex.name.clone(), Vec::new())?, annex))
}

fn recipe(all: &BothWays, list: String, changed: Vec<TwoWaySubscriber>) -> Result<String, String> {
    let kept = without_subscribers(all);
    serde_json::to_string(&Kept { kept, list, changed }).map_err(|e| e.to_string())
}

/// Without copying thousands.
fn without_subscribers(all: &BothWays) -> BothWays {
    BothWays {
        policy: all.policy,
        line: all.line,
        up: all.up,
        down: all.down,
        link: all.link,
        overhead: all.overhead,
        lazy: all.lazy,
        lazy_idle: all.lazy_idle,
        lazy_most: all.lazy_most,
        hosts: all.hosts.clone(),
        found: all.found,
        subscribers: Vec::new(),
        list: all.list.clone(),
        groups: all.groups.clone(),
        tree: all.tree.clone(),
    }
}

/// What is in force when one subscriber is otherwise. `all` has it so already.
///
/// # Errors
/// The recipe in force can't be read.
pub fn with_change(
    log: &Log,
    all: &BothWays,
    one: &TwoWaySubscriber,
) -> Result<(String, Option<Annex>), String> {
    let now: Kept = serde_json::from_str(&log.begun.recipe).map_err(|e| e.to_string())?;
    let mut changed = now.changed;
    changed.retain(|known| known.name != one.name);
    changed.push(one.clone());
    if changed.len() > CHANGES {
        return write(all).map(|(recipe, annex)| (recipe, Some(annex)));
    }
    Ok((recipe(all, now.list, changed)?, None))
}

/// Whether a log keeps its subscribers apart.
pub fn is_apart(log: &Log) -> bool {
    log.begun.recipe.starts_with(BEGINS)
}

/// Whether two policies want the same, in whatever order their subscribers stand.
pub fn same(one: &BothWays, other: &BothWays) -> bool {
    if one.subscribers.len() != other.subscribers.len() {
        return false;
    }
    let known: HashMap<&str, &TwoWaySubscriber> =
        one.subscribers.iter().map(|one| (one.name.as_str(), one)).collect();
    other.subscribers.iter().all(|one| known.get(one.name.as_str()) == Some(&one))
        && without_subscribers(one) == without_subscribers(other)
}
