//! Whether a queue, class or filter is as it is wanted.
//!
//! The kernel fills in defaults and rounds: times to what its structs hold, bursts to ticks of 64 ns. So only what was asked for is compared,
//! and as closely as the kernel can keep it. Options are compared as a person reads them, which takes its time; of thousands most ask for the
//! same and have the same.

use std::cell::RefCell;

use quell_units::{Bytes, Rate, Ratio, Span};
use serde_json::{Map, Value};

use super::thing::{Seen, Thing};
use crate::observed::{ObservedClass, ObservedFilter, ObservedQdisc};
use crate::table::Field;
use crate::{ClassKind, Filter, FilterKind, Prefix, Qdisc, Step, U32, merge_keys};

/// How a queue is not as it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    None,
    /// In options that can be changed where it is.
    Alter,
    Replace,
}

#[derive(Default)]
pub(super) struct KnownSteps<'a> {
    queues: Recent<'a, Qdisc, Difference>,
    classes: Recent<'a, ClassKind, bool>,
}

impl<'a> KnownSteps<'a> {
    pub(super) fn difference(&self, thing: &'a Thing, here: &'a ObservedQdisc) -> Difference {
        match thing {
            Thing::Seen(Seen { raw, .. }) if *raw == here.raw => Difference::None,
            Thing::Seen(_) => Difference::Replace,
            Thing::Step(Step::Qdisc { qdisc, .. }) => {
                self.queues.of(qdisc, &here.options, || of_queue(qdisc, here))
            }
            Thing::Step(_) => Difference::None,
        }
    }

    pub(super) fn is_class(&self, thing: &'a Thing, here: &'a ObservedClass) -> bool {
        match thing {
            Thing::Seen(seen) => seen.raw == here.raw,
            Thing::Step(Step::Class { kind, .. }) => {
                let same = || class_unlike(kind, here).is_empty();
                self.classes.of(kind, &here.options, same)
            }
            Thing::Step(_) => false,
        }
    }
}

fn of_queue(qdisc: &Qdisc, here: &ObservedQdisc) -> Difference {
    let unlike = qdisc_unlike(qdisc, here);
    if unlike.is_empty() {
        return Difference::None;
    }
    let changeable = qdisc.changeable().map(|q| q.fields()).unwrap_or_default();
    let all = unlike.iter().all(|field| changeable.contains_key(field));
    if all { Difference::Alter } else { Difference::Replace }
}

/// Tariffs that a line's subscribers have, at most; more are compared each time.
const MOST: usize = 16;

/// Comparisons of what is wanted with what is there, the last one at the end.
struct Recent<'a, T, R>(RefCell<Vec<(&'a T, &'a Option<T>, R)>>);

impl<T, R> Default for Recent<'_, T, R> {
    fn default() -> Self {
        Recent(RefCell::default())
    }
}

impl<'a, T: PartialEq, R: Copy> Recent<'a, T, R> {
    fn of(&self, wanted: &'a T, here: &'a Option<T>, compare: impl FnOnce() -> R) -> R {
        let mut list = self.0.borrow_mut();
        let same = |(w, h, _): &(&T, &Option<T>, R)| *w == wanted && *h == here;
        if let Some(at) = list.iter().rposition(same) {
            let found = list.remove(at);
            list.push(found);
            return found.2;
        }
        let result = compare();
        if list.len() == MOST {
            list.remove(0);
        }
        list.push((wanted, here, result));
        result
    }
}

/// The options of a queue of the same kind that are not as wanted.
fn qdisc_unlike(wanted: &Qdisc, here: &ObservedQdisc) -> Vec<String> {
    let fields = here.options.as_ref().map(|options| options.fields());
    unlike(wanted.table(), wanted.expected(), fields)
}

/// The options of a class of the same kind that are not as wanted.
fn class_unlike(wanted: &ClassKind, here: &ObservedClass) -> Vec<String> {
    let fields = here.options.as_ref().map(|options| options.fields());
    unlike(wanted.table(), wanted.fields(), fields)
}

/// Whether a filter of the same kind is as wanted, beside its place.
pub(super) fn is_filter(wanted: &Filter, here: &ObservedFilter) -> bool {
    // Of thousands nearly all are told apart by whom they are about.
    if let Some(shown) = &here.filter {
        let about = match (&wanted.kind, &shown.kind) {
            (FilterKind::Flower(a), FilterKind::Flower(b)) => {
                let other = |a: Option<Prefix>, b: Option<Prefix>| a.is_some() && a != b;
                if other(a.src_ip, b.src_ip) || other(a.dst_ip, b.dst_ip) {
                    return false;
                }
                a == b
            }
            (FilterKind::U32(a), FilterKind::U32(b)) => {
                let keys = |u32: &U32| {
                    let mut keys = merge_keys(&u32.r#match).unwrap_or_default();
                    keys.sort_by_key(|key| (key.next_header, key.at));
                    keys
                };
                let (a, b) = (keys(a), keys(b));
                if a.len() == b.len() && a != b {
                    return false;
                }
                a == b
            }
            (a, b) => a == b,
        };
        let rest = (&wanted.class, &wanted.actions, wanted.protocol)
            == (&shown.class, &shown.actions, shown.protocol);
        if about && rest {
            return true;
        }
    }
    filter_unlike(wanted, here).is_empty()
}

/// What of a filter of the same kind is not as wanted, beside its place.
fn filter_unlike(wanted: &Filter, here: &ObservedFilter) -> Vec<String> {
    let mut desired = normal(wanted);
    let mut observed = here.filter.as_ref().map(normal);
    for key in ["kind", "prio", "handle"] {
        desired.remove(key);
        observed.as_mut().map(|map| map.remove(key));
    }
    unlike(&[], desired, observed)
}

/// The names of options that are not as wanted. `table` says which the kernel never shows; they are not compared.
fn unlike(
    table: &[Field],
    desired: Map<String, Value>,
    observed: Option<Map<String, Value>>,
) -> Vec<String> {
    let observed = observed.unwrap_or_default();
    let shown = |key: &str| !table.iter().any(|field| field.name == key && !field.reported);
    let differs = |(key, wanted): &(String, Value)| {
        let here = observed.get(key).unwrap_or(&Value::Null);
        !same(key, wanted, here) && !same_ticks(key, wanted, here, &observed)
    };
    let desired = desired.into_iter().filter(|(key, _)| shown(key));
    desired.filter(differs).map(|(key, _)| key).collect()
}

/// Buckets are kept as the time that they take at their rate, in whole µs and then in ticks of 64 ns: at 10 Gbit/s a µs is 1250 bytes.
fn same_ticks(key: &str, wanted: &Value, here: &Value, observed: &Map<String, Value>) -> bool {
    let rate = match key {
        "burst" => observed.get("rate"),
        "cburst" => observed.get("ceil"),
        _ => None,
    };
    let rate = rate.and_then(|rate| rate.as_str()?.parse::<Rate>().ok());
    let (Some(rate), Some(a), Some(b)) = (rate, bytes(wanted), bytes(here)) else { return false };
    let step = rate.bytes_per_second().saturating_mul(1_000 + 2 * 64) / 1_000_000_000;
    a.abs_diff(b) <= step
}

/// A filter's fields in one form: u32 matches as the comparisons they come to.
fn normal(filter: &Filter) -> Map<String, Value> {
    let mut map = filter.fields();
    if let FilterKind::U32(u32) = &filter.kind {
        let mut keys = merge_keys(&u32.r#match).unwrap_or_default();
        keys.sort_by_key(|key| (key.next_header, key.at));
        let keys =
            keys.iter().map(|k| format!("{:#x}/{:#x}@{}{}", k.value, k.mask, k.next_header, k.at));
        map.insert("match".into(), keys.collect());
    }
    if let FilterKind::Classify(config) = &filter.kind {
        // Also what was not said counts: the program has all of it.
        map = Map::from_iter([("config".to_owned(), config.to_string().into())]);
    }
    // The kernel knows a pinned or loaded program by its own name only.
    map.remove("pinned");
    map
}

fn bytes(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse::<Bytes>().ok().map(Bytes::get),
        _ => None,
    }
}

fn same(key: &str, wanted: &Value, here: &Value) -> bool {
    if wanted == here || (here.is_null() && is_zero(wanted)) {
        return true;
    }
    match (wanted, here) {
        (Value::Array(wanted), Value::Array(here)) => {
            wanted.len() <= here.len() && wanted.iter().zip(here).all(|(a, b)| same(key, a, b))
        }
        (Value::Object(wanted), Value::Object(here)) => wanted
            .iter()
            .filter(|(_, value)| !value.is_null())
            .all(|(key, a)| same(key, a, here.get(key).unwrap_or(&Value::Null))),
        (Value::String(a), Value::String(b)) => {
            // ADSL's cells are ATM's, and the kernel has one word for both.
            (key == "linklayer" && [a.as_str(), b] == ["adsl", "atm"])
                || same_rate(a, b)
                || same_span(key, a, b)
                || same_ratio(a, b)
                || same_bytes(key, wanted, here)
        }
        (Value::String(_), Value::Number(_)) | (Value::Number(_), Value::String(_)) => {
            same_bytes(key, wanted, here)
        }
        _ => false,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => {
            text.parse::<Ratio>().is_ok_and(|ratio| ratio.as_f64() == 0.0)
                || text.parse::<Span>().is_ok_and(|span| span.nanos() == 0)
                || text.parse::<Bytes>().is_ok_and(|bytes| bytes.get() == 0)
        }
        _ => false,
    }
}

/// The kernel counts whole bytes a second.
fn same_rate(a: &str, b: &str) -> bool {
    let (Ok(a), Ok(b)) = (a.parse::<Rate>(), b.parse::<Rate>()) else { return false };
    a.bytes_per_second() == b.bytes_per_second()
}

fn same_span(key: &str, a: &str, b: &str) -> bool {
    let (Ok(a), Ok(b)) = (a.parse::<Span>(), b.parse::<Span>()) else { return false };
    // PIE's timer runs in jiffies, 10 ms at most; CoDel counts in 1024 ns and reports whole µs; netem's times are exact.
    let close = match key {
        "tupdate" => 10_000_000,
        "delay" | "jitter" => 0,
        _ => 2_100,
    };
    a.nanos().abs_diff(b.nanos()) <= close
}

fn same_ratio(a: &str, b: &str) -> bool {
    let (Ok(a), Ok(b)) = (a.parse::<Ratio>(), b.parse::<Ratio>()) else { return false };
    (a.as_f64() - b.as_f64()).abs() < 1e-6
}

fn same_bytes(key: &str, a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (bytes(a), bytes(b)) else { return false };
    // Kept as a time in whole µs or ticks, and in whole cells of 48 bytes on ATM links.
    let rounded = matches!(key, "burst" | "cburst" | "mtu" | "limit");
    a == b || (rounded && a.abs_diff(b) <= 50 + a / 200)
}
