//! Records out of the JSON of `tc -j`: an array for each command, an object for each queue, class or filter.

use super::context::Context;
use super::json::{Json, Reader};
use super::text;
use crate::record::{Attachment, Counters, Deed, FilterRecord, Hook, NodeRecord, Record, What};
use crate::settings::QueueOptions;
use crate::u32_words;
use quell_tc::{Handle, MatchKey};
use serde_json::Value;

type Wrong = (usize, String);

pub(crate) fn read(
    reader: &mut Reader<'_>,
    context: &Context,
    records: &mut Vec<Record>,
) -> Result<(), Wrong> {
    if !reader.take('[') {
        return one(reader, context, records);
    }
    while !reader.take(']') {
        if !reader.take(',') {
            one(reader, context, records)?;
        }
    }
    Ok(())
}

fn one(reader: &mut Reader<'_>, context: &Context, records: &mut Vec<Record>) -> Result<(), Wrong> {
    let line = {
        reader.peek();
        reader.line()
    };
    let value = reader.value(1)?;
    let record = record(&value, context).map_err(|why| (line, why))?;
    let Some(what) = record else { return Ok(()) };
    let device = value.get("dev").and_then(Json::text).map(str::to_owned);
    records.push(Record { device: device.or_else(|| context.device.clone()), line, what });
    Ok(())
}

fn record(value: &Json, context: &Context) -> Result<Option<What>, String> {
    let text_of = |name: &str| value.get(name).and_then(Json::text);
    if let Some(kind) = text_of("class") {
        return node(value, kind, true).map(|node| Some(What::Class(node)));
    }
    let Some(kind) = text_of("kind") else {
        return Err(
            "an object of the JSON has no \"kind\": it is not of tc -j qdisc, class or filter show"
                .into(),
        );
    };
    if value.get("protocol").is_some()
        || value.get("pref").is_some()
        || value.get("chain").is_some()
    {
        return filter(value, kind, context).map(|filter| filter.map(What::Filter));
    }
    node(value, kind, false).map(|node| Some(What::Queue(node)))
}

fn node(value: &Json, kind: &str, class: bool) -> Result<NodeRecord, String> {
    let handle = value
        .get("handle")
        .and_then(Json::text)
        .ok_or_else(|| format!("{kind} has no \"handle\""))?;
    let handle = text::handle(handle)?;
    let parent = value.get("parent").and_then(Json::text).map(text::handle).transpose()?;
    let place = match parent {
        Some(Handle::INGRESS) => Attachment::Ingress,
        Some(parent) => Attachment::Under(parent),
        None if value.get("ingress").is_some() || value.get("clsact").is_some() => {
            Attachment::Ingress
        }
        None => Attachment::Root,
    };
    let mut options = QueueOptions::default();
    let of_class = |name: &str| {
        class
            && !["class", "handle", "parent", "root", "leaf", "dev", "stats", "options"]
                .contains(&name)
            && counter(name).is_none()
    };
    let own = value.members().iter().filter(|(name, _)| of_class(name));
    let nested = value.get("options").map_or(&[] as &[_], Json::members);
    for (name, value) in nested.iter().chain(own) {
        match value {
            Json::Words(words) if name.is_empty() => {
                let read = QueueOptions::of_words(kind, words.split_whitespace())?;
                options.settings.extend(read.settings);
                options.default = options.default.or(read.default);
            }
            value => options.put_json(kind, name, &plain(value))?,
        }
    }
    let counters = match (counters(value)?, value.get("stats")) {
        (None, Some(stats)) => counters(stats)?,
        (found, _) => found,
    };
    let counters =
        counters.map(|counters| Counters { direct_packets: options.direct_packets, ..counters });
    Ok(NodeRecord {
        kind: kind.to_owned(),
        handle,
        place,
        default: options.default,
        settings: options.settings,
        counters,
    })
}

/// The same for the one who knows the options; names that come twice, and words, don't matter there.
fn plain(value: &Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(is) => Value::Bool(*is),
        Json::Number(text) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Json::Text(text) | Json::Words(text) => Value::String(text.clone()),
        Json::List(items) => Value::Array(items.iter().map(plain).collect()),
        Json::Object(members) => Value::Object(
            members.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
        ),
    }
}

fn counter(name: &str) -> Option<fn(&mut Counters) -> &mut u64> {
    Some(match name {
        "bytes" => |c| &mut c.bytes,
        "packets" => |c| &mut c.packets,
        "drops" => |c| &mut c.drops,
        "overlimits" => |c| &mut c.overlimits,
        "backlog" => |c| &mut c.backlog_bytes,
        "qlen" => |c| &mut c.backlog_packets,
        _ => return None,
    })
}

fn counters(value: &Json) -> Result<Option<Counters>, String> {
    if value.get("bytes").is_none() {
        return Ok(None);
    }
    let mut counters = Counters::default();
    for (name, value) in value.members() {
        let count = |value: &Json| {
            let shown = match value {
                Json::Null => "null",
                value => value.text().unwrap_or("what stands there"),
            };
            value.number().ok_or_else(|| format!("\"{name}\": {shown} is no count"))
        };
        if let Some(field) = counter(name) {
            *field(&mut counters) = count(value)?;
        }
        let mut mark = |more: u64| {
            counters.marks = Some(counters.marks.unwrap_or(0).saturating_add(more));
        };
        match (name.as_str(), value) {
            ("ecn_mark" | "ce_mark" | "marked", value) => mark(count(value)?),
            ("tins", Json::List(tins)) => {
                mark(0);
                for marks in tins.iter().filter_map(|tin| tin.get("ecn_mark")) {
                    mark(count(marks)?);
                }
            }
            _ => {}
        }
    }
    Ok(Some(counters))
}

fn filter(value: &Json, kind: &str, context: &Context) -> Result<Option<FilterRecord>, String> {
    // Each kind also tells of itself, without options, and u32 of its tables.
    let Some(options) = value.get("options") else { return Ok(None) };
    let mut record = text::empty_filter(kind, context)?;
    let text_of = |name: &str| value.get(name).and_then(Json::text);
    record.protocol = text_of("protocol").unwrap_or("all").to_owned();
    record.prio = value
        .get("pref")
        .and_then(Json::number)
        .and_then(|prio| u32::try_from(prio).ok())
        .unwrap_or(0);
    if let Some(parent) = text_of("parent") {
        record.parent = Some(text::handle(parent)?);
        record.hook = None;
    }
    for (name, hook) in [("ingress", Hook::Ingress), ("egress", Hook::Egress)] {
        if value.get(name).is_some() {
            record.hook = Some(hook);
        }
    }
    record.chain = value
        .get("chain")
        .and_then(Json::number)
        .and_then(|chain| u32::try_from(chain).ok())
        .unwrap_or(0);
    let mut keys = Vec::new();
    let mut words = String::new();
    for (name, value) in options.members() {
        let text_here = || value.text().unwrap_or_default();
        match name.as_str() {
            "ht_divisor" => return Ok(None),
            "fh" | "handle" => record.name = text_here().trim_start_matches("0x").to_owned(),
            "flowid" | "classid" => record.class = Some(text::handle(text_here())?),
            "rule_hit" if kind == "matchall" => record.hits = value.number(),
            // How often all of a u32 filter's matches held; then, by the same name, how often each did.
            "success" if keys.is_empty() => record.hits = record.hits.or_else(|| value.number()),
            "match" => keys.extend(key(value)),
            "link" => text::link(&mut record, text_here()),
            "skip_sw" | "skip_hw" | "in_hw" => record.hardware.push(name.clone()),
            "keys" => record.matches.extend(
                value.members().iter().filter_map(|(name, inner)| flower_word(name, inner, value)),
            ),
            "bytecode" => {
                let length = value.get("length").and_then(Json::number).unwrap_or(0);
                record.matches.push(format!("bytecode of length {length}"));
            }
            "bpf_name" | "name" => record.matches.push(format!("program {}", text_here())),
            "direct-action" | "direct_action" => record.opaque = true,
            "actions" => {
                if let Json::List(actions) = value {
                    record.deeds.extend(actions.iter().map(deed));
                    let hits = actions
                        .first()
                        .and_then(|action| action.get("stats")?.get("packets")?.number());
                    record.hits = record.hits.or(hits);
                }
            }
            "" => words.push_str(text_here()),
            _ => {}
        }
    }
    record.matches.extend(u32_words::words(&record.protocol, &keys, None));
    record.keys = keys;
    text::rest_of_filter(&mut record, words.split_whitespace().collect())?;
    text::settle(&mut record);
    Ok(Some(record))
}

fn key(value: &Json) -> Option<MatchKey> {
    let hex = |name: &str| u32::from_str_radix(value.get(name)?.text()?, 16).ok();
    let at = value.get("off")?.text()?.parse().ok()?;
    let next_header =
        value.get("offmask").and_then(Json::text).is_some_and(|mask| !mask.is_empty());
    Some(MatchKey { value: hex("value")?, mask: hex("mask")?, at, next_header })
}

/// A key of flower; its mask stands beside it.
fn flower_word(name: &str, value: &Json, all: &Json) -> Option<String> {
    if name == "eth_type" || name.ends_with("_mask") {
        return None;
    }
    let mask = all.get(&format!("{name}_mask")).and_then(Json::text);
    Some(match (value.text(), mask) {
        (Some(text), mask) => text::flower_word(name, text, mask),
        (None, _) => name.to_owned(),
    })
}

fn deed(action: &Json) -> Deed {
    let text_of = |name: &str| action.get(name).and_then(Json::text);
    let kind = text_of("kind").unwrap_or("?");
    let chain = action.get("control_action").and_then(|control| control.get("chain")?.number());
    if let ("gact", Some(chain)) = (kind, chain) {
        return text::goto_chain(&chain.to_string());
    }
    let words = match kind {
        "mirred" => {
            let to = text_of("to_dev").unwrap_or("?").to_owned();
            let does = text_of("mirred_action").unwrap_or("redirect");
            return Deed {
                words: format!("{does} to {to}"),
                to: Some(to),
                redirects: does == "redirect",
                goto: None,
            };
        }
        "gact" => action
            .get("control_action")
            .and_then(|control| control.get("type")?.text())
            .unwrap_or("gact")
            .to_owned(),
        "skbedit" => {
            let parts = ["priority", "mark", "queue_mapping"]
                .map(|name| Some(format!("{name} {}", text_of(name)?)));
            format!("skbedit {}", parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
        }
        other => other.to_owned(),
    };
    Deed { words, ..Deed::default() }
}
