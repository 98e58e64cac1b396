//! The hierarchy as JSON: what the drawings show, and the rates.
//!
//! Each queue, class and filter is written and forgotten: a chain of sixty thousand classes would take a gigabyte as a whole.

use crate::View;
use quell_hierarchy::{Device, Finding};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// Places (`parent`, `children`, `at`, `chosen_by`, a target's classes) count in `nodes` and `filters` of the same device, from 0.
#[derive(Serialize)]
struct TreeDocument<D> {
    devices: D,
}

#[derive(Serialize)]
struct TreeRow<'a, F, P, N> {
    adrift: &'a [usize],
    fed_by: Vec<Value>,
    filters: F,
    findings: P,
    ifb: bool,
    name: &'a str,
    nodes: N,
    tops: &'a [usize],
}

/// What is made one after the other while it is written.
struct Each<F>(F);

impl<I, F> Serialize for Each<F>
where
    I: Iterator<Item: Serialize>,
    F: Fn() -> I,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// One document, to be written.
pub fn document<'a>(view: &'a View<'a>) -> impl Serialize + use<'a> {
    let shown = match view.only {
        Some(only) => view.hierarchy.only(only),
        None => (0..view.hierarchy.devices.len()).collect(),
    };
    TreeDocument { devices: Each(move || shown.clone().into_iter().map(|at| device(view, at))) }
}

fn device<'a>(view: &'a View<'a>, at: usize) -> impl Serialize + use<'a> {
    let name = |at: &usize| view.hierarchy.devices[*at].name.as_str();
    let Device { name: own, ifb, nodes, filters, tops, adrift, fed_by, findings, .. } =
        &view.hierarchy.devices[at];
    let rates = view.rates.map(|rates| &rates[at]);
    let fed_by =
        fed_by.iter().map(|(from, filter)| json!({"device": name(from), "filter": filter}));
    TreeRow {
        adrift,
        fed_by: fed_by.collect(),
        filters: Each(move || {
            filters.iter().map(move |filter| {
                let mut value = json!(filter);
                value["feeds"] = filter.feeds.iter().map(name).collect();
                value
            })
        }),
        findings: Each(move || findings.iter().map(|finding: &Finding| json!(finding))),
        ifb: *ifb,
        name: own,
        nodes: Each(move || {
            nodes.iter().enumerate().map(move |(number, node)| {
                let mut value = json!(node);
                if let Some(rate) = rates.and_then(|rates| rates.get(number)) {
                    value["per_second"] = json!(rate);
                }
                value
            })
        }),
        tops,
    }
}
