//! What was changed while a cell ran: the facts `timeline/TIME`, which the lab writes down as it carries a change out.

use quell_model::Subject;
use quell_store::CellData;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct LineChange {
    pub at_s: f64,
    /// What, in a few words, as `modem:dsl: rate 2Mbit`.
    pub what: String,
    /// The same without the interface, for figures, where room is scarce.
    pub short: String,
}

pub fn changes(data: &CellData) -> Vec<LineChange> {
    let mut changes: Vec<LineChange> = Vec::new();
    for fact in &data.facts {
        let Subject::Change(at) = fact.subject else { continue };
        let value: Value = serde_json::from_str(&fact.value).unwrap_or_default();
        let what = words(&value);
        let short = what.rsplit_once(": ").map_or(&*what, |(_, short)| short).to_owned();
        let change = LineChange { at_s: at.nanos() as f64 / 1e9, what, short };
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    changes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    changes
}

/// A change in words; `change` where this version does not know it.
fn words(value: &Value) -> String {
    if let Some(line) = value.get("Line") {
        let properties = line.get("line").and_then(Value::as_object);
        let words = properties.into_iter().flatten().filter_map(|(name, value)| match value {
            Value::Null => None,
            Value::String(text) => Some(format!("{name} {text}")),
            Value::Number(number) => Some(format!("{name} {number}")),
            _ => Some(name.clone()),
        });
        return place(line.get("on"), &words.collect::<Vec<_>>().join(", "));
    }
    match value.get("Queue") {
        Some(queue) => {
            let kind = queue.pointer("/tree/root/kind").or_else(|| queue.pointer("/tree/kind"));
            let kind = kind.and_then(Value::as_str).unwrap_or("another queue");
            place(queue.get("on"), kind)
        }
        None => "change".to_owned(),
    }
}

fn place(on: Option<&Value>, what: &str) -> String {
    let text = |key| on.and_then(|o| o.get(key)).and_then(Value::as_str);
    let on = match on {
        Some(Value::String(on)) => Some(on.clone()),
        _ => {
            text("node").zip(text("device").or(text("interface"))).map(|(n, d)| format!("{n}:{d}"))
        }
    };
    match on {
        Some(on) => format!("{on}: {what}"),
        None => what.to_owned(),
    }
}
