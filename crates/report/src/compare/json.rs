//! The comparison as JSON. The keys are a promise: they may be joined by more, and don't go away.

use super::comparison::Comparison;
use super::measure::{Basis, Set, Verdict, Why};
use super::text::sentences;
use super::text::{unit, word};
use quell_model::metric::Metric;
use quell_stats::Ranged;
use serde_json::{Value, json};

pub fn render(comparison: &Comparison) -> Value {
    let differences: Vec<Value> =
        comparison.sets.iter().flat_map(|set| of_set(comparison, set)).collect();
    json!({
        "by": comparison.by,
        "groups": comparison.groups.iter().map(|g| json!({ "label": g.label, "detail": g.detail })).collect::<Vec<_>>(),
        "differences": differences,
        "notes": comparison.notes,
        "worse": sentences(comparison),
    })
}

fn of_set(comparison: &Comparison, set: &Set) -> Vec<Value> {
    let mut found = Vec::new();
    for measure in &set.measures {
        let metric = measure.metric;
        for against in &measure.against {
            let (basis, pairs) = match against.basis {
                Basis::Pairs(count) => ("pairs", Some(count)),
                Basis::Repeats => ("repeats", None),
                Basis::Packets => ("packets", None),
                Basis::None => ("none", None),
            };
            let why = match against.verdict {
                Verdict::Unknown(Why::FewRepeats) => Some("few-repeats"),
                Verdict::Unknown(Why::FewPackets) => Some("few-packets"),
                Verdict::Unknown(Why::Minority) => Some("minority"),
                _ => None,
            };
            found.push(json!({
                "scenario": set.scenario,
                "probe": set.probe,
                "stream": set.stream,
                "metric": metric.name(),
                "unit": unit(metric).0,
                "first": side(metric, &comparison.groups[0].label, measure.first, measure.repeats),
                "other": side(metric, &comparison.groups[against.group].label, against.figure, against.repeats),
                "difference": ranged(metric, against.difference),
                "basis": basis,
                "pairs": pairs,
                "verdict": word(against.verdict),
                "unknown_since": why,
            }));
        }
    }
    found
}

fn side(metric: Metric, group: &str, figure: Ranged, repeats: usize) -> Value {
    let mut value = ranged(metric, figure);
    value["group"] = json!(group);
    value["repeats"] = json!(repeats);
    value
}

fn ranged(metric: Metric, Ranged { value, low, high }: Ranged) -> Value {
    let (_, factor) = unit(metric);
    json!({ "value": value * factor, "low": low.map(|l| l * factor), "high": high.map(|h| h * factor) })
}
