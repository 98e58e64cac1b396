//! Records of what the kernel said of a device.

use crate::record::{Attachment, Counters, Deed, FilterRecord, Hook, NodeRecord, Record, What};
use crate::settings::QueueOptions;
use crate::u32_words;
use quell_tc::observed::{ExtraStats, ObservedFilter, Snapshot, Stats};
use quell_tc::{Action, ClassKind, Filter, FilterKind, FlowMode, Handle, Match, MatchKey, Qdisc};
use serde_json::{Map, Value};

pub struct LiveDevice<'a> {
    pub name: &'a str,
    /// Its queues, classes and filters.
    pub snapshot: &'a Snapshot,
}

pub fn records_of(device: &LiveDevice<'_>) -> Vec<Record> {
    let LiveDevice { name, snapshot } = device;
    let clsact = snapshot.qdiscs.iter().any(|qdisc| qdisc.kind == "clsact");
    let queues = snapshot.qdiscs.iter().map(|queue| {
        let mut options = queue.options.as_ref().map_or_else(QueueOptions::default, |qdisc| {
            QueueOptions::of_fields(&queue.kind, &qdisc.fields())
        });
        if let Some(Qdisc::Htb(htb)) = &queue.options {
            options.default = htb.default.map(|class| class.minor);
        }
        What::Queue(NodeRecord {
            kind: queue.kind.clone(),
            handle: queue.handle,
            place: place(queue.parent),
            default: options.default,
            settings: options.settings,
            counters: Some(counters(&queue.stats, queue.extra.as_ref())),
        })
    });
    let classes = snapshot.classes.iter().map(|class| {
        let fields = class.options.as_ref().map(ClassKind::fields).unwrap_or_default();
        let options = QueueOptions::of_fields(&class.kind, &fields);
        What::Class(NodeRecord {
            kind: class.kind.clone(),
            handle: class.id,
            place: place(class.parent),
            default: None,
            settings: options.settings,
            counters: Some(counters(&class.stats, class.extra.as_ref())),
        })
    });
    let filters = snapshot.filters.iter().map(|filter| What::Filter(of_filter(filter, clsact)));
    // Those of each were asked for.
    let asked = snapshot.qdiscs.iter().map(|queue| What::Asked(Some(queue.handle)));
    let all = queues.chain(classes).chain(filters).chain(asked);
    all.map(|what| Record { device: Some((*name).to_owned()), line: 0, what }).collect()
}

fn place(parent: Handle) -> Attachment {
    match parent {
        Handle::ROOT => Attachment::Root,
        Handle::INGRESS => Attachment::Ingress,
        parent => Attachment::Under(parent),
    }
}

fn counters(stats: &Stats, extra: Option<&ExtraStats>) -> Counters {
    Counters {
        bytes: stats.bytes,
        packets: stats.packets,
        drops: stats.drops.into(),
        overlimits: stats.overlimits.into(),
        backlog_bytes: stats.backlog_bytes.into(),
        backlog_packets: stats.backlog_packets.into(),
        marks: extra.map(ExtraStats::ecn_marks),
        direct_packets: None,
    }
}

fn of_filter(observed: &ObservedFilter, clsact: bool) -> FilterRecord {
    let hook = match observed.parent {
        Handle::CLSACT_EGRESS => Some(Hook::Egress),
        Handle::CLSACT_INGRESS => Some(Hook::Ingress),
        parent if parent.major == u16::MAX && !clsact => Some(Hook::Ingress),
        _ => None,
    };
    let mut record = FilterRecord {
        parent: Some(observed.parent),
        hook,
        prio: observed.prio.into(),
        kind: observed.kind.clone(),
        name: name(&observed.kind, observed.handle),
        opaque: observed.filter.is_none(),
        chain: observed.chain,
        link: observed.link.map(|table| format!("{table:x}")),
        hardware: hardware(observed.flags),
        ..FilterRecord::default()
    };
    let Some(filter) = &observed.filter else {
        record.matches.push("(more than Quell can read)".into());
        return record;
    };
    record.protocol = filter.protocol.to_string();
    // flower names a traffic class of the hardware by a minor of its own (`TC_H_MIN_PRIORITY`).
    let traffic_class =
        |class: &Handle| (observed.kind == "flower").then(|| class.minor.checked_sub(0xffe0))?;
    record.class = filter.class;
    if let Some(number) = filter.class.as_ref().and_then(traffic_class).filter(|n| *n < 16) {
        record.class = None;
        record.hardware.insert(0, format!("hw_tc {number}"));
    }
    record.deeds = filter.actions.iter().map(deed).collect();
    matches(&mut record, filter);
    record
}

/// `TCA_CLS_FLAGS_*` in `tc`'s words.
fn hardware(flags: u32) -> Vec<String> {
    let words = [(1, "skip_hw"), (2, "skip_sw"), (4, "in_hw")];
    words.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, word)| (*word).to_owned()).collect()
}

/// A filter's name as `tc` prints it: of u32 the table, the bucket and the number in it.
fn name(kind: &str, handle: u32) -> String {
    if kind != "u32" {
        return format!("{handle:x}");
    }
    let bucket = Some((handle >> 12) & 0xff)
        .filter(|bucket| *bucket > 0)
        .map(|bucket| format!("{bucket:x}"));
    format!("{:x}:{}:{:x}", handle >> 20, bucket.unwrap_or_default(), handle & 0xfff)
}

fn matches(record: &mut FilterRecord, filter: &Filter) {
    let words = |fields: &Map<String, Value>| {
        let one = |(name, value): (&String, &Value)| match value {
            // An address alone is all of its bits.
            Value::String(text) if text.contains('.') => {
                format!("{name} {}", text.trim_end_matches("/32"))
            }
            Value::String(text) => format!("{name} {}", text.trim_end_matches("/128")),
            other => format!("{name} {other}"),
        };
        fields.iter().map(one).collect::<Vec<_>>()
    };
    match &filter.kind {
        FilterKind::U32(u32) => {
            let mut keys = Vec::new();
            for one in &u32.r#match {
                match *one {
                    Match::Raw { width: 32, value, mask, at, next_header } => {
                        keys.push(MatchKey { value, mask, at, next_header })
                    }
                    ref other => record.matches.push(other.to_string()),
                }
            }
            record.matches.extend(u32_words::words(&record.protocol, &keys, None));
            record.matches.extend(record.link.as_deref().map(u32_words::link));
            record.keys = keys;
            record.matches_all = Some(record.matches.is_empty());
        }
        FilterKind::Matchall(_) => record.matches_all = Some(true),
        FilterKind::Flower(_) => {
            record.matches = words(&filter.kind.fields());
            record.matches_all = Some(record.matches.is_empty());
        }
        FilterKind::Fw(fw) => {
            let mask = fw.mask.filter(|mask| *mask != u32::MAX).map(|mask| format!("/{mask:#x}"));
            record.matches.push(format!(
                "mark {:#x}{}",
                filter.handle.unwrap_or(0),
                mask.unwrap_or_default()
            ));
            record.matches_all = Some(false);
            record.opaque = filter.class.is_none();
        }
        FilterKind::Flow(flow) => {
            let keys: Vec<String> = flow
                .keys
                .iter()
                .filter_map(|key| Some(serde_json::to_value(key).ok()?.as_str()?.to_owned()))
                .collect();
            let hash = flow.mode == FlowMode::Hash;
            record.matches.push(format!(
                "{} {}",
                if hash { "hash" } else { "map" },
                keys.join(",")
            ));
            record.matches_all = hash.then_some(true);
            record.class = flow.baseclass;
            record.spread = flow.divisor;
            record.opaque = flow.divisor.is_none();
        }
        FilterKind::Bpf(bpf) => {
            record.matches = vec![match &bpf.program {
                quell_tc::BpfProgram::Loaded { name, .. } => format!("program {name}"),
                quell_tc::BpfProgram::Pinned(path) => format!("program {}", path.display()),
                quell_tc::BpfProgram::Bytecode(code) => {
                    format!("bytecode of length {}", code.len())
                }
            }];
            record.opaque = bpf.direct_action || filter.class.is_none();
        }
        FilterKind::Roster(side) => {
            record.matches = vec![format!("subscribers by {} address", side.address())];
            record.opaque = true;
        }
        FilterKind::Classify(config) => {
            record.matches = vec![config.words()];
            record.matches_all = Some(true);
            record.opaque = true;
        }
    }
}

fn deed(action: &Action) -> Deed {
    let words = |words: String| Deed { words, ..Deed::default() };
    match action {
        Action::Drop => words("drop".into()),
        Action::Pass => words("pass".into()),
        Action::Connmark => words("connmark".into()),
        Action::Redirect(to) => {
            Deed { to: Some(to.clone()), redirects: true, ..words(format!("redirect to {to}")) }
        }
        Action::Mirror(to) => Deed { to: Some(to.clone()), ..words(format!("mirror to {to}")) },
        Action::Skbedit(edit) => {
            let parts = [
                edit.priority.map(|p| format!("priority {p}")),
                edit.mark.map(|mark| format!("mark {mark}")),
            ];
            words(format!("skbedit {}", parts.into_iter().flatten().collect::<Vec<_>>().join(" ")))
        }
        Action::Other(kind) => Deed {
            goto: kind.strip_prefix("goto chain ").and_then(|chain| chain.parse().ok()),
            ..words(kind.clone())
        },
        Action::Police(police) => words(format!("police rate {}", police.rate)),
    }
}
