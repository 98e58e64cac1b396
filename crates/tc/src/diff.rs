//! What was wanted against what is there.
//!
//! The kernel fills in defaults and rounds: times to what its structs hold, bursts to ticks of 64 ns. So only what
//! was asked for is compared, and as closely as the kernel can keep it.

use std::fmt;

use quell_units::{Bytes, Rate, Ratio, Span};
use serde_json::{Map, Value};

use crate::observed::{ObservedClass, ObservedFilter, ObservedQdisc, Snapshot};
use crate::table::Field;
use crate::{ClassKind, Filter, FilterKind, Handle, Plan, Prefix, Qdisc, Step, U32, merge_keys};

/// One way in which an interface is not as wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Something wanted is not there.
    Missing {
        /// What.
        object: String,
    },
    /// Something is there that was not wanted.
    Unexpected {
        /// What.
        object: String,
    },
    /// Something is there, but otherwise than wanted.
    Field {
        /// What.
        object: String,
        /// Which of its options.
        field: String,
        /// As wanted.
        desired: String,
        /// As it is.
        observed: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Missing { object } => write!(f, "{object}: missing"),
            Difference::Unexpected { object } => write!(f, "{object}: there, but not wanted"),
            Difference::Field { object, field, desired, observed } => {
                write!(f, "{object}: {field} is {observed}, wanted {desired}")
            }
        }
    }
}

/// Compares an interface with a plan for it. Empty means that all that the plan asks for is in force.
///
/// What hangs on a place that the plan does not touch (the other one of root and ingress) is not looked at.
pub fn diff(plan: &Plan, observed: &Snapshot) -> Vec<Difference> {
    let mut comparison = Comparison {
        observed,
        found: Vec::new(),
        seen_filters: vec![false; observed.filters.len()],
    };
    plan.steps.iter().for_each(|step| comparison.step(step));
    comparison.unexpected(plan);
    comparison.found
}

struct Comparison<'a> {
    observed: &'a Snapshot,
    found: Vec<Difference>,
    seen_filters: Vec<bool>,
}

impl Comparison<'_> {
    fn step(&mut self, step: &Step) {
        let object = step.to_string();
        match step {
            Step::Qdisc { parent, handle, qdisc } => {
                let here = self.observed.qdiscs.iter().find(|other| {
                    other.parent == *parent
                        && (other.handle == *handle || *handle == Handle::default())
                });
                let Some(here) = here else { return self.missing(object) };
                if here.kind != qdisc.kind() {
                    return self.field(&object, "kind", qdisc.kind(), &here.kind);
                }
                for unlike in qdisc_unlike(qdisc, here) {
                    self.unlike(&object, unlike);
                }
            }
            Step::Ingress { clsact } => {
                let kind = if *clsact { "clsact" } else { "ingress" };
                match self.observed.qdiscs.iter().find(|other| other.parent == Handle::INGRESS) {
                    None => self.missing(object),
                    Some(here) if here.kind != kind => {
                        self.field(&object, "kind", kind, &here.kind);
                    }
                    Some(_) => {}
                }
            }
            Step::Class { parent, id, kind } => {
                let Some(here) = self.observed.classes.iter().find(|other| other.id == *id) else {
                    return self.missing(object);
                };
                // The kernel says "root" for a class directly under its queue.
                let same =
                    here.parent == *parent || (parent.is_qdisc() && here.parent == Handle::ROOT);
                if !same {
                    self.field(&object, "parent", &parent.to_string(), &here.parent.to_string());
                }
                for unlike in class_unlike(kind, here) {
                    self.unlike(&object, unlike);
                }
            }
            Step::Filter { parent, filter } => self.filter(&object, *parent, filter),
        }
    }

    fn filter(&mut self, object: &str, parent: Handle, filter: &Filter) {
        let index = self.observed.filters.iter().enumerate().position(|(index, other)| {
            !self.seen_filters[index]
                && other.parent == parent
                && Some(other.prio) == filter.prio
                && filter.handle.is_none_or(|handle| handle == other.handle)
        });
        let Some(index) = index else { return self.missing(object.to_owned()) };
        self.seen_filters[index] = true;
        let here = &self.observed.filters[index];
        if here.kind != filter.kind.kernel_name() {
            return self.field(object, "kind", filter.kind.kernel_name(), &here.kind);
        }
        for unlike in filter_unlike(filter, here) {
            self.unlike(object, unlike);
        }
    }

    fn unlike(&mut self, object: &str, (field, wanted, here): Unlike) {
        self.field(object, &field, &text(&wanted), &text(&here));
    }

    fn unexpected(&mut self, plan: &Plan) {
        let has = |wanted: &dyn Fn(&Step) -> bool| plan.steps.iter().any(wanted);
        let root = has(&|step| matches!(step, Step::Qdisc { .. }));
        let ingress = has(&|step| matches!(step, Step::Ingress { .. }));
        for qdisc in &self.observed.qdiscs {
            let ours = if qdisc.parent == Handle::INGRESS { ingress } else { root };
            let wanted = qdisc.parent == Handle::INGRESS
                || has(
                    &|step| matches!(step, Step::Qdisc { handle, .. } if *handle == qdisc.handle),
                );
            // Without a handle it is one that the kernel made: a leaf FIFO, a child of mq.
            if ours && !wanted && qdisc.handle != Handle::default() {
                let object = format!("queue {} ({})", qdisc.handle, qdisc.kind);
                self.found.push(Difference::Unexpected { object });
            }
        }
        for class in &self.observed.classes {
            let written = matches!(class.kind.as_str(), "htb" | "drr")
                || (class.kind == "hfsc" && class.id.minor != 0);
            let wanted = has(&|step| matches!(step, Step::Class { id, .. } if *id == class.id));
            if root && written && !wanted {
                let object = format!("{} class {}", class.kind, class.id);
                self.found.push(Difference::Unexpected { object });
            }
        }
        for (filter, seen) in self.observed.filters.iter().zip(&self.seen_filters) {
            let ours = if filter.parent.major == u16::MAX { ingress } else { root };
            if ours && !seen {
                self.found.push(Difference::Unexpected { object: name(filter) });
            }
        }
    }

    fn missing(&mut self, object: String) {
        self.found.push(Difference::Missing { object });
    }

    fn field(&mut self, object: &str, field: &str, desired: &str, observed: &str) {
        self.found.push(Difference::Field {
            object: object.to_owned(),
            field: field.to_owned(),
            desired: desired.to_owned(),
            observed: observed.to_owned(),
        });
    }
}

/// An option, as wanted and as it is.
type Unlike = (String, Value, Value);

/// The options of a queue of the same kind that are not as wanted.
pub(crate) fn qdisc_unlike(wanted: &Qdisc, here: &ObservedQdisc) -> Vec<Unlike> {
    let fields = here.options.as_ref().map(|options| options.fields());
    unlike(wanted.table(), wanted.expected(), fields)
}

/// The options of a class of the same kind that are not as wanted.
pub(crate) fn class_unlike(wanted: &ClassKind, here: &ObservedClass) -> Vec<Unlike> {
    let fields = here.options.as_ref().map(|options| options.fields());
    unlike(wanted.table(), wanted.fields(), fields)
}

/// Whether a filter of the same kind is as wanted, beside its place.
pub(crate) fn is_filter(wanted: &Filter, here: &ObservedFilter) -> bool {
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
                    keys.sort_by_key(|key| key.offset);
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
pub(crate) fn filter_unlike(wanted: &Filter, here: &ObservedFilter) -> Vec<Unlike> {
    let mut desired = normal(wanted);
    let mut observed = here.filter.as_ref().map(normal);
    for key in ["kind", "prio", "handle"] {
        desired.remove(key);
        observed.as_mut().map(|map| map.remove(key));
    }
    unlike(&[], desired, observed)
}

/// `table` says which options the kernel never shows; they are not compared.
fn unlike(
    table: &[Field],
    desired: Map<String, Value>,
    observed: Option<Map<String, Value>>,
) -> Vec<Unlike> {
    let observed = observed.unwrap_or_default();
    let shown = |key: &str| !table.iter().any(|field| field.name == key && !field.reported);
    let desired = desired.into_iter().filter(|(key, _)| shown(key));
    let pairs = desired.map(|(key, wanted)| {
        let here = observed.get(&key).cloned().unwrap_or(Value::Null);
        (key, wanted, here)
    });
    let differs = |(key, wanted, here): &Unlike| {
        !same(key, wanted, here) && !same_ticks(key, wanted, here, &observed)
    };
    pairs.filter(differs).collect()
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

fn name(filter: &ObservedFilter) -> String {
    format!("{} filter {} ({:#x}) at {}", filter.kind, filter.prio, filter.handle, filter.parent)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A filter's fields in one form: u32 matches as the comparisons they come to.
fn normal(filter: &Filter) -> Map<String, Value> {
    let mut map = filter.fields();
    if let FilterKind::U32(u32) = &filter.kind {
        let mut keys = merge_keys(&u32.r#match).unwrap_or_default();
        keys.sort_by_key(|key| key.offset);
        let keys =
            keys.iter().map(|key| format!("{:#x}/{:#x}@{}", key.value, key.mask, key.offset));
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
