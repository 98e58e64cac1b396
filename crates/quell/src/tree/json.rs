//! The hierarchy as JSON: what the drawings show, and the rates.

use super::found::Found;
use serde_json::{Value, json};

/// One document. Places (`parent`, `children`, `at`, `chosen_by`, a target's classes) count in `nodes` and `filters` of the same device, from 0.
pub(super) fn document(found: &Found) -> Value {
    let hierarchy = &found.hierarchy;
    let shown = match found.only {
        Some(only) => hierarchy.only(only),
        None => (0..hierarchy.devices.len()).collect(),
    };
    let name = |at: &usize| hierarchy.devices[*at].name.clone();
    let devices: Vec<Value> = shown
        .into_iter()
        .map(|at| {
            let device = &hierarchy.devices[at];
            let mut value = json!(device);
            let fed: Vec<Value> = device
                .fed_by
                .iter()
                .map(|(from, filter)| json!({"device": name(from), "filter": filter}))
                .collect();
            value["fed_by"] = fed.into();
            for (number, filter) in device.filters.iter().enumerate() {
                value["filters"][number]["feeds"] = filter.feeds.iter().map(name).collect();
            }
            if let Some(rates) = &found.rates {
                for (number, rate) in rates[at].iter().enumerate() {
                    value["nodes"][number]["per_second"] = json!(rate);
                }
            }
            value
        })
        .collect();
    json!({ "devices": devices })
}
