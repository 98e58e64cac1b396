//! Records out of the text of `tc`: a line that begins with what it is, and the indented lines behind it.
//!
//! ```text
//!   class htb 1:10 parent 1:1 leaf 10: prio 0 rate 500Kbit …       filter parent 1: protocol ip pref 1 u32 chain 0 fh 800::800 …
//!    Sent 105242 bytes 101 pkt (dropped 0, …)                        match 0a090007/ffffffff at 16 (success 101 )
//!    backlog 0b 0p requeues 0                                        action order 1: mirred (Egress Redirect to device ifb0) stolen
//! ```

use super::context::Context;
use crate::record::{Attachment, Counters, Deed, FilterRecord, Hook, NodeRecord, Record, What};
use crate::settings::QueueOptions;
use crate::u32_words;
use quell_tc::{Handle, MatchKey};

pub(crate) fn begins_record(line: &str) -> bool {
    ["qdisc ", "class ", "filter "].iter().any(|word| line.starts_with(word))
}

/// Whether a line belongs to the record before it: indented, or empty.
pub(crate) fn goes_on(line: &str) -> bool {
    line.starts_with([' ', '\t']) || line.trim().is_empty()
}

/// A handle or a class as `tc` prints it: `1:`, `1:10`, `:1` where the queue has none, `none`.
pub(crate) fn handle(text: &str) -> Result<Handle, String> {
    let bad = || format!("\"{text}\" is no handle like 1: or 1:10");
    match text {
        "root" => return Ok(Handle::ROOT),
        "none" => return Ok(Handle::default()),
        _ => {}
    }
    let (major, minor) = text.split_once(':').ok_or_else(bad)?;
    let part = |digits: &str| match digits {
        "" => Some(0),
        hex if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u16::from_str_radix(hex, 16).ok(),
        _ => None,
    };
    Ok(Handle { major: part(major).ok_or_else(bad)?, minor: part(minor).ok_or_else(bad)? })
}

/// A record of its lines; none for what is no filter but its kind's own line or a table.
///
/// # Errors
/// The line that is none of a record, and why.
pub(crate) fn record(
    number: usize,
    line: &str,
    more: &[&str],
    context: &Context,
) -> Result<Option<Record>, (usize, String)> {
    let counters = match line.starts_with("filter ") {
        true => None,
        false => counters(more).map_err(|(index, why)| (number + 1 + index, why))?,
    };
    of_lines(number, line, more, counters, context).map_err(|why| (number, why))
}

fn of_lines(
    number: usize,
    line: &str,
    more: &[&str],
    counters: Option<Counters>,
    context: &Context,
) -> Result<Option<Record>, String> {
    let mut words = line.split_whitespace().peekable();
    let object = words.next().unwrap_or_default();
    let mut device = context.device.clone();
    let what = if object == "filter" {
        filter(line, more, context, &mut device)?.map(What::Filter)
    } else {
        let kind = words.next().ok_or("the line ends too early: was it cut off?")?;
        let own = handle(words.next().ok_or("the line ends too early: was it cut off?")?)?;
        let mut place = None;
        while place.is_none() {
            match words.next() {
                Some("dev") => device = words.next().map(str::to_owned),
                Some("root") => place = Some(Attachment::Root),
                Some("ingress" | "clsact") => place = Some(Attachment::Ingress),
                Some("parent") => {
                    let parent = handle(words.next().unwrap_or_default())?;
                    place = Some(if parent == Handle::INGRESS {
                        Attachment::Ingress
                    } else {
                        Attachment::Under(parent)
                    });
                }
                Some("offloaded" | "[offloaded]") => {}
                _ => {
                    return Err(format!(
                        "{object} {kind} {own} does not say where it hangs (root or parent)"
                    ));
                }
            }
        }
        if words.next_if_eq(&"leaf").is_some() {
            words.next();
        }
        let mut options = QueueOptions::of_words(kind, words)?;
        options.put_lines(kind, more)?;
        let counters = counters
            .map(|counters| Counters { direct_packets: options.direct_packets, ..counters });
        let place = place.unwrap_or(Attachment::Root);
        let node = NodeRecord {
            kind: kind.to_owned(),
            handle: own,
            place,
            default: options.default,
            settings: options.settings,
            counters,
        };
        Some(if object == "class" { What::Class(node) } else { What::Queue(node) })
    };
    Ok(what.map(|what| Record { device, line: number, what }))
}

/// The number behind a word, whatever unit hangs on it.
fn behind(words: &[&str], name: &str) -> Option<u64> {
    let at = words.iter().position(|word| *word == name)?;
    number(words.get(at + 1)?)
}

fn number(word: &str) -> Option<u64> {
    let digits = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let unit = word[digits..].trim_end_matches([',', ')']);
    let size = match unit {
        "" => return word[..digits].parse().ok(),
        "b" | "p" => 1.0,
        "Kb" => 1024.0,
        "Mb" => 1_048_576.0,
        "Gb" => 1_073_741_824.0,
        _ => return None,
    };
    let number = word[..digits].parse::<f64>().ok()? * size;
    (number < u64::MAX as f64).then_some(number as u64)
}

fn count(words: &[&str], at: usize) -> Result<u64, String> {
    let word = words.get(at).ok_or("the line ends too early: was it cut off?")?;
    number(word).ok_or_else(|| format!("\"{word}\" is no count"))
}

fn told(words: &[&str], name: &str) -> Result<Option<u64>, String> {
    words.iter().position(|word| *word == name).map(|at| count(words, at + 1)).transpose()
}

/// What lines tell that was counted. An error has the line's place among them.
fn counters(lines: &[&str]) -> Result<Option<Counters>, (usize, String)> {
    let mut counters: Option<Counters> = None;
    let mut marks: Option<u64> = None;
    for (index, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split_whitespace().take(64).collect();
        counters_of(line, &words, &mut counters, &mut marks).map_err(|why| (index, why))?;
    }
    Ok(counters.map(|counters| Counters { marks, ..counters }))
}

fn counters_of(
    line: &str,
    words: &[&str],
    counters: &mut Option<Counters>,
    marks: &mut Option<u64>,
) -> Result<(), String> {
    match words.first().copied() {
        // Of the flows of fq_codel, which show as classes, the kernel does not tell what was sent.
        Some(first @ ("Sent" | "(dropped")) => {
            let c = counters.get_or_insert_default();
            if first == "Sent" {
                (c.bytes, c.packets) = (count(words, 1)?, count(words, 3)?);
            }
            let cut_off = || "the line ends too early: was it cut off?".to_owned();
            c.drops = told(words, "(dropped")?.ok_or_else(cut_off)?;
            c.overlimits = told(words, "overlimits")?.ok_or_else(cut_off)?;
        }
        // An estimator's rate may stand before it.
        Some("backlog" | "rate") if line.contains("requeues") => {
            let c = counters.get_or_insert_default();
            if let Some(at) = words.iter().position(|word| *word == "backlog") {
                c.backlog_bytes = count(words, at + 1)?;
                c.backlog_packets = count(words, at + 2)?;
            }
        }
        // cake has a column a tin.
        Some("marks") => {
            let mut all = 0_u64;
            for at in 1..words.len() {
                all = all.saturating_add(count(words, at)?);
            }
            *marks = Some(all);
        }
        _ => {
            // sfq's and sfb's are marks of four sorts; dualpi2's step_marks are among its ecn_mark (sch_dualpi2.c).
            for name in [
                "ecn_mark",
                "ce_mark",
                "marked",
                "prob_mark",
                "prob_mark_head",
                "forced_mark",
                "forced_mark_head",
            ] {
                if let Some(count) = told(words, name)? {
                    *marks = Some(marks.unwrap_or(0).saturating_add(count));
                }
            }
        }
    }
    Ok(())
}

/// A filter of which nothing is known but where the command asked for it.
pub(crate) fn empty_filter(kind: &str, context: &Context) -> Result<FilterRecord, String> {
    let (protocol, kind) = ("all".to_owned(), kind.to_owned());
    let mut record = FilterRecord { protocol, kind, ..FilterRecord::default() };
    place(&mut record, context.parent.as_deref())?;
    Ok(record)
}

fn place(record: &mut FilterRecord, said: Option<&str>) -> Result<(), String> {
    match said {
        Some("ingress") => record.hook = Some(Hook::Ingress),
        Some("egress") => record.hook = Some(Hook::Egress),
        Some("root") | None => {}
        Some(parent) => record.parent = Some(handle(parent)?),
    }
    Ok(())
}

fn filter(
    line: &str,
    more: &[&str],
    context: &Context,
    device: &mut Option<String>,
) -> Result<Option<FilterRecord>, String> {
    let mut words = line.split_whitespace().skip(1).peekable();
    let mut record = empty_filter("", context)?;
    while record.kind.is_empty() {
        match words.next() {
            Some("dev") => *device = words.next().map(str::to_owned),
            Some(hook @ ("ingress" | "egress" | "root")) => place(&mut record, Some(hook))?,
            Some("parent") => {
                record.hook = None;
                record.parent = Some(handle(words.next().unwrap_or_default())?);
            }
            Some("block") => drop(words.next()),
            Some("protocol") => record.protocol = words.next().unwrap_or_default().to_owned(),
            Some("pref" | "prio" | "preference") => {
                let prio = words.next().unwrap_or_default();
                record.prio =
                    prio.parse().map_err(|_| format!("\"{prio}\" is no preference of a filter"))?;
            }
            Some(kind) => record.kind = kind.to_owned(),
            None => return Err("the filter has no kind: was the line cut off?".into()),
        }
    }
    if words.next_if_eq(&"chain").is_some() {
        record.chain = words.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    }
    let rest: Vec<&str> = words.collect();
    if rest.is_empty() || rest.windows(2).any(|pair| pair == ["ht", "divisor"]) {
        return Ok(None);
    }
    rest_of_filter(&mut record, rest)?;
    inside(&mut record, more)?;
    settle(&mut record);
    Ok(Some(record))
}

/// What stands behind the kind on a filter's line, and all of some kinds in the JSON of `tc` 6.1.
pub(crate) fn rest_of_filter(record: &mut FilterRecord, words: Vec<&str>) -> Result<(), String> {
    let mut words = words.into_iter().peekable();
    let mut left = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "fh" | "handle" => {
                let name = words.next().unwrap_or_default();
                if record.kind == "fw" {
                    record.matches.push(format!("mark {name}"));
                }
                record.name = name.trim_start_matches("0x").to_owned();
            }
            "order" | "ht" | "bkt" => drop(words.next()),
            "key" if record.kind == "u32" => {}
            "flowid" | "*flowid" | "classid" | "baseclass" => {
                // u32 says `terminal flowid` and no class where there is only an action, older ones `???`.
                if let Some(class) = words.peek().copied().filter(|class| class.contains(':')) {
                    words.next();
                    record.class = Some(handle(class)?);
                }
            }
            "terminal" | "???" | "not_in_hw" => {}
            "in_hw" | "skip_hw" | "skip_sw" => record.hardware.push(word.to_owned()),
            "hw_tc" => record.hardware.push(format!("hw_tc {}", words.next().unwrap_or_default())),
            "link" => link(record, words.next().unwrap_or_default()),
            "(rule" => {
                let mut hits = Vec::new();
                for word in words.by_ref() {
                    hits.push(word);
                    if word.ends_with(')') {
                        break;
                    }
                }
                record.hits = behind(&hits, "success").or_else(|| behind(&hits, "hit"));
            }
            "hash" | "map" if record.kind == "flow" => {
                let keys = words
                    .next()
                    .filter(|word| *word == "keys")
                    .and_then(|_| words.next())
                    .unwrap_or_default();
                record.matches.push(format!("{word} {keys}"));
                record.matches_all = (word == "hash").then_some(true);
            }
            "divisor" if record.kind == "flow" => {
                record.spread = words.next().and_then(|count| count.parse().ok())
            }
            "direct-action" => record.opaque = true,
            "bytecode" => {
                let code: Vec<&str> = words.by_ref().collect();
                let count = code.first().map_or("?", |word| {
                    word.trim_start_matches('\'').split(',').next().unwrap_or("?")
                });
                record.matches.push(format!("bytecode of length {count}"));
            }
            "name" if record.kind == "bpf" => {
                record.matches.push(format!("program {}", words.next().unwrap_or_default()))
            }
            other => left.push(other),
        }
    }
    // What an expression of basic says, and what nobody knows.
    if matches!(record.kind.as_str(), "basic" | "route" | "rsvp" | "tcindex" | "cgroup")
        && !left.is_empty()
    {
        record.matches.push(left.join(" "));
    }
    Ok(())
}

fn inside(record: &mut FilterRecord, lines: &[&str]) -> Result<(), String> {
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().take(64).collect();
        // Below an action stand its own counters.
        if !record.deeds.is_empty() && words.first() != Some(&"action") {
            if words.first() == Some(&"Sent") && record.deeds.len() == 1 {
                record.hits = record.hits.or_else(|| behind(&words, "bytes"));
                let police = record.deeds.iter_mut().find(|deed| deed.words.starts_with("police"));
                if let (Some(deed), Some(dropped @ 1..)) = (police, behind(&words, "(dropped")) {
                    deed.words += &format!(" ({dropped} dropped)");
                }
            }
            continue;
        }
        match (words.as_slice(), record.kind.as_str()) {
            ([], _) => {}
            (["action", "order", order, rest @ ..], _) if order.ends_with(':') => {
                record.deeds.push(deed(rest))
            }
            // As tc printed a policer before there were lists of actions.
            (["police", ..], _) => record.deeds.push(deed(&words)),
            (["match", value, "at", at, ..], "u32") if value.contains('/') => {
                record.keys.push(
                    key(value, at)
                        .ok_or_else(|| format!("\"{}\" is no match of u32", line.trim()))?,
                );
            }
            // `tc -p` has words of its own.
            (["match", rest @ ..], "u32") => {
                let rest: Vec<String> = rest
                    .iter()
                    .take_while(|word| !word.starts_with('('))
                    .map(|word| word.to_lowercase())
                    .collect();
                record.matches.push(rest.join(" "));
            }
            (["not_in_hw" | "in_hw" | "skip_sw" | "skip_hw" | "(rule", ..], _) => {
                let flag = |word: &&&str| matches!(**word, "in_hw" | "skip_sw" | "skip_hw");
                record.hardware.extend(words.iter().filter(flag).map(|word| (*word).to_owned()));
                let at = words.iter().position(|word| *word == "hit");
                let hits = at.and_then(|at| number(words.get(at + 1)?));
                record.hits = record.hits.or(hits);
            }
            (["eth_type", ..], "flower") => {}
            ([name, value], "flower") => {
                let (value, mask) = value
                    .split_once('/')
                    .filter(|_| matches!(*name, "ip_tos" | "ip_ttl"))
                    .map_or((*value, None), |(v, m)| (v, Some(m)));
                record.matches.push(flower_word(name, value, mask));
            }
            (_, "flower" | "basic") => record.matches.push(words.join(" ")),
            _ => {}
        }
    }
    record.matches.extend(u32_words::words(&record.protocol, &record.keys, None));
    Ok(())
}

/// A filter leads to a table of u32.
pub(crate) fn link(record: &mut FilterRecord, table: &str) {
    let table = table.trim_end_matches(':');
    record.link = Some(table.to_owned());
}

fn key(value: &str, at: &str) -> Option<MatchKey> {
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let (value, mask) = value.split_once('/')?;
    let (at, next_header) = at.strip_prefix("nexthdr+").map_or((at, false), |at| (at, true));
    Some(MatchKey { value: hex(value)?, mask: hex(mask)?, at: at.parse().ok()?, next_header })
}

/// A key of flower with its value: bytes of which some bits count are hexadecimal.
pub(crate) fn flower_word(name: &str, value: &str, mask: Option<&str>) -> String {
    let byte = value.parse::<u8>().ok().filter(|_| matches!(name, "ip_tos" | "ip_ttl"));
    match (byte, mask) {
        (Some(byte), mask) => {
            format!("{name} {byte:#x}/0x{}", mask.unwrap_or("ff").trim_start_matches("0x"))
        }
        (None, Some(mask)) => format!("{name} {value}/{mask}"),
        (None, None) => format!("{name} {value}"),
    }
}

fn deed(words: &[&str]) -> Deed {
    let plain = |words: String| Deed { words, ..Deed::default() };
    match words {
        ["mirred", rest @ ..] => {
            let at = rest.iter().position(|word| *word == "device");
            let to = at
                .and_then(|at| rest.get(at + 1))
                .map_or("?", |word| word.trim_end_matches(')'))
                .to_owned();
            let redirects = rest.contains(&"Redirect");
            let does = if redirects { "redirect" } else { "mirror" };
            Deed { words: format!("{does} to {to}"), to: Some(to), redirects, goto: None }
        }
        ["gact", "action", "goto", "chain", chain, ..] => goto_chain(chain),
        ["gact", "action", verdict, ..] => plain((*verdict).to_owned()),
        ["skbedit", rest @ ..] => {
            let parts = rest
                .chunks(2)
                .filter(|pair| matches!(pair, ["priority" | "mark" | "queue_mapping", _]));
            plain(format!(
                "skbedit {}",
                parts.map(|pair| pair.join(" ")).collect::<Vec<_>>().join(" ")
            ))
        }
        ["police", rest @ ..] => {
            let told = ["rate", "burst", "pkts_rate", "pkts_burst", "action"].map(|name| {
                let at = rest.iter().position(|word| *word == name)?;
                Some(format!(" {name} {}", rest.get(at + 1)?))
            });
            plain("police".to_owned() + &told.into_iter().flatten().collect::<String>())
        }
        [kind, ..] => plain((*kind).trim_end_matches(':').to_owned()),
        [] => plain("?".into()),
    }
}

/// A deed that leads to another chain.
pub(crate) fn goto_chain(chain: &str) -> Deed {
    Deed { words: format!("goto chain {chain}"), goto: chain.parse().ok(), ..Deed::default() }
}

/// What follows from the rest: whether all packets match, and whether the choice can be read.
pub(crate) fn settle(record: &mut FilterRecord) {
    if record.kind == "flower" {
        record.matches.sort_unstable();
    }
    record.matches.extend(record.link.as_deref().map(u32_words::link));
    record.matches_all = match record.kind.as_str() {
        "matchall" => Some(true),
        "u32" | "flower" => Some(record.matches.is_empty()),
        "fw" => Some(false),
        _ => record.matches_all,
    };
    let acts = !record.deeds.is_empty();
    record.opaque |= match record.kind.as_str() {
        "u32" | "flower" | "matchall" => false,
        "flow" => record.spread.is_none(),
        _ => record.class.is_none() && !acts,
    };
}
