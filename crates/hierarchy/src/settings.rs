//! Options of queues and classes, in one spelling whoever told them.
//!
//! ```text
//!   tc's text   limit 10240p target 5ms memory_limit 32Mb     ┐
//!   tc's JSON   {"limit":10240,"target":4999,…}               ├─► limit 10240 · target 5ms · memory_limit 32MiB
//!   the kernel  fields of quell_tc                            ┘
//! ```
//!
//! `tc` prints three digits, and its JSON counts rates in bytes and times in microseconds; both become what a person writes.

use quell_units::{Bytes, Rate, Span};
use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// `tc`'s word for it.
    pub name: String,
    /// Its value; empty for what is only switched on.
    pub value: String,
    /// Whether it is what one has who chose nothing, or follows from the others.
    #[serde(skip)]
    pub usual: bool,
}

/// What a name's numbers count.
#[derive(Clone, Copy, PartialEq)]
enum OptionUnit {
    Rate,
    Time,
    Nanoseconds,
    Seconds,
    Bytes,
    Plain,
}

fn unit(kind: &str, name: &str) -> OptionUnit {
    match name {
        "min_rate" | "max_rate" if kind == "mqprio" => OptionUnit::Rate,
        "cycle-time" | "cycle_time" | "cycle-time-extension" | "cycle_time_extension" => {
            OptionUnit::Nanoseconds
        }
        "rate" | "ceil" | "bandwidth" | "peakrate" | "maxrate" | "defrate" | "m1" | "m2"
        | "low_rate_threshold" => OptionUnit::Rate,
        "perturb" => OptionUnit::Seconds,
        "timer_slack" => OptionUnit::Nanoseconds,
        "target" | "interval" | "rtt" | "lat" | "latency" | "tupdate" | "delay" | "d"
        | "ce_threshold" | "horizon" | "refill_delay" => OptionUnit::Time,
        "quantum" | "initial_quantum" | "memory_limit" | "burst" | "cburst" | "mtu"
        | "peakburst" | "minburst" => OptionUnit::Bytes,
        "min" | "max" if kind == "red" => OptionUnit::Bytes,
        "limit" if matches!(kind, "bfifo" | "red" | "tbf" | "gred") => OptionUnit::Bytes,
        _ => OptionUnit::Plain,
    }
}

/// Said of every queue, and of no use to a reader.
const NOISE: [&str; 6] =
    ["refcnt", "ver", "direct_packets_stat", "offloaded", "Scell_log", "level"];

/// Kind (empty for all), name and value (empty for any) of what nobody chose, as a rule.
const USUAL: [(&str, &str, &str); 60] = [
    ("", "linklayer", "ethernet"),
    ("", "mpu", "0"),
    ("", "overhead", "0"),
    ("", "multiqueue", ""),
    ("", "drop_batch", ""),
    ("htb", "r2q", "10"),
    ("htb", "direct_qlen", ""),
    ("htb", "prio", "0"),
    ("htb", "burst", ""),
    ("htb", "cburst", ""),
    ("htb", "quantum", ""),
    ("htb", "mtu", ""),
    ("drr", "quantum", "1514"),
    ("tbf", "mtu", ""),
    ("prio", "bands", "3"),
    ("prio", "priomap", "1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1"),
    ("pfifo_fast", "bands", "3"),
    ("pfifo_fast", "priomap", "1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1"),
    ("fq_codel", "limit", "10240"),
    ("fq_codel", "flows", "1024"),
    ("fq_codel", "quantum", "1514"),
    ("fq_codel", "target", "5ms"),
    ("fq_codel", "interval", "100ms"),
    ("fq_codel", "memory_limit", "32MiB"),
    ("fq_codel", "ecn", ""),
    ("codel", "limit", "1000"),
    ("codel", "target", "5ms"),
    ("codel", "interval", "100ms"),
    ("fq_pie", "limit", "10240"),
    ("fq_pie", "flows", "1024"),
    ("fq_pie", "quantum", "1514"),
    ("fq_pie", "memory_limit", "32MiB"),
    ("fq_pie", "ecn_prob", "10"),
    ("fq_pie", "tupdate", ""),
    ("fq_pie", "alpha", "2"),
    ("fq_pie", "beta", "20"),
    ("pie", "tupdate", ""),
    ("pie", "alpha", "2"),
    ("pie", "beta", "20"),
    ("sfq", "quantum", "1514"),
    ("sfq", "depth", "127"),
    ("sfq", "flows", ""),
    ("sfq", "divisor", "1024"),
    ("fq", "", ""),
    ("red", "ewma", ""),
    ("cake", "split-gso", ""),
    ("cake", "rtt", "100ms"),
    ("cake", "memory_limit", ""),
    // As tc has them, then as the kernel's answer is read.
    ("cake", "diffserv3", ""),
    ("cake", "triple-isolate", ""),
    ("cake", "diffserv", "diffserv3"),
    ("cake", "isolation", "triple-isolate"),
    ("cake", "ack_filter", "no-ack-filter"),
    ("cake", "framing", "noatm"),
    ("cake", "memlimit", ""),
    ("cake", "fwmark", "0"),
    ("cake", "fwmark", "0x0"),
    ("cake", "split_gso", ""),
    ("netem", "limit", "1000"),
    ("netem", "gap", "0"),
];

/// What was read of a queue's or a class's options.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct QueueOptions {
    pub settings: Vec<Setting>,
    pub default: Option<u16>,
    pub direct_packets: Option<u64>,
}

impl QueueOptions {
    fn put(&mut self, kind: &str, name: &str, value: String) {
        let hex = |text: &str| u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        match name {
            "default" if matches!(kind, "htb" | "hfsc") => {
                // A handle, or its minor alone.
                let minor = value.rsplit(':').next().unwrap_or_default();
                self.default = hex(minor).filter(|minor| *minor != 0);
            }
            "direct_packets_stat" => self.direct_packets = value.parse().ok(),
            _ if NOISE.contains(&name) || name.starts_with('-') => {}
            // What is switched off is not told.
            _ if kind == "cake"
                && (name.starts_with("no")
                    || (name == "fwmark" && value == "0")
                    || name == "raw") => {}
            _ => {
                let same = |rule: &str, said: &str| rule.is_empty() || rule == said;
                let mut rules = USUAL.iter();
                let usual =
                    rules.any(|(k, n, v)| same(k, kind) && same(n, name) && same(v, &value));
                self.settings.push(Setting { name: name.to_owned(), value, usual });
            }
        }
    }

    /// From the words of `tc`'s text, behind what says where the queue or class is.
    pub(crate) fn of_words<'a>(
        kind: &str,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<QueueOptions, String> {
        let mut options = QueueOptions::default();
        let mut words = words.peekable();
        let is_value =
            |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) || word.starts_with('(');
        while let Some(name) = words.next() {
            let mut values = Vec::new();
            if kind == "hfsc" && matches!(name, "sc" | "rt" | "ls" | "ul") {
                let curve = words.by_ref().take(6).collect::<Vec<_>>();
                let of = |at: usize| {
                    spelled(
                        kind,
                        ["m1", "d", "m2"][at],
                        curve.get(2 * at + 1).copied().unwrap_or_default(),
                    )
                };
                options.put(kind, name, curve_of(&of(0)?, &of(1)?, &of(2)?));
                continue;
            }
            if matches!(name, "linklayer" | "bandwidth" | "limit" | "mode" | "clockid") {
                values.extend(words.next());
            }
            while let Some(value) = words.next_if(|word| is_value(word) || negative(word)) {
                values.push(value);
            }
            let values: Result<Vec<String>, _> =
                values.iter().map(|value| spelled(kind, name, value)).collect();
            options.put(kind, name, values?.join(" "));
        }
        Ok(options)
    }

    /// From the lines below a queue whose options have no room on its own: mqprio's queues and rates, taprio's schedule.
    ///
    /// # Errors
    /// As for words.
    pub(crate) fn put_lines(&mut self, kind: &str, lines: &[&str]) -> Result<(), String> {
        if !matches!(kind, "taprio" | "mqprio") {
            return Ok(());
        }
        let mut gates = Vec::new();
        for line in lines {
            let line = line.trim();
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["index", _, "cmd", command, "gatemask", gates_open, "interval", ns, ..] => {
                    gates.extend(gate(command, gates_open, ns.parse().unwrap_or(-1.0)));
                }
                ["queues", "offset", ..] => {
                    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
                    let pairs = (1..words.len()).step_by(4);
                    let ranges = pairs.filter_map(|at| range(number(at + 1)?, number(at + 3)?));
                    self.put(kind, "queues", ranges.collect::<Vec<_>>().join(" "));
                }
                ["clockid" | "base-time" | "flags" | "max-sdu" | "fp", ..] => {
                    let read = QueueOptions::of_words(kind, words.into_iter())?;
                    self.settings.extend(read.settings);
                }
                // mqprio puts a colon behind its words.
                [first, ..] if first.contains(':') => {
                    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
                    for word in &words {
                        let (head, value) = word.split_once(':').unwrap_or(("", word));
                        if !head.is_empty() && !head.starts_with('(') {
                            values.push((head, vec![value]));
                        } else if let Some((_, all)) = values.last_mut() {
                            all.push(word);
                        }
                    }
                    for (name, all) in values {
                        let spelled: Result<Vec<String>, _> =
                            all.iter().map(|value| spelled(kind, name, value)).collect();
                        self.put(kind, name, spelled?.join(" ").trim().to_owned());
                    }
                }
                _ => {}
            }
        }
        if !gates.is_empty() {
            self.put(kind, "schedule", gates.join(", "));
        }
        Ok(())
    }

    /// From a value of `tc`'s JSON.
    pub(crate) fn put_json(&mut self, kind: &str, name: &str, value: &Value) -> Result<(), String> {
        let shown = match value {
            Value::Bool(false) => return Ok(()),
            // What is on without a value stands there as null.
            Value::Bool(true) | Value::Null => {
                let name = name.replace("split_gso", "split-gso");
                self.put(kind, &name, String::new());
                return Ok(());
            }
            // Words that stand alone.
            Value::String(word) if matches!(name, "diffserv" | "flowmode" | "atm") => {
                self.put(kind, word, String::new());
                return Ok(());
            }
            Value::String(word) if name == "ack-filter" => {
                if word != "disabled" {
                    self.put(kind, "ack-filter", String::new());
                }
                return Ok(());
            }
            Value::String(word) => spelled(kind, name, word)?,
            Value::Number(number) => {
                let plain = number.to_string();
                let known = of_number(unit(kind, name), number.as_f64().unwrap_or(-1.0), &plain);
                known.ok_or_else(|| impossible(name, &plain))?
            }
            Value::Array(items) if name == "schedule" => {
                let text = |item: &Value, key: &str| Some(item.get(key)?.as_str()?.to_owned());
                let one = |item: &Value| {
                    let ns = item.get("interval")?.as_f64()?;
                    gate(&text(item, "cmd")?, &text(item, "gatemask")?, ns)
                };
                items.iter().filter_map(one).collect::<Vec<_>>().join(", ")
            }
            Value::Array(items) if name == "queues" => {
                let number = |item: &Value, key: &str| item.get(key)?.as_u64();
                let one = |item: &Value| match item.as_array().map(Vec::as_slice) {
                    Some([first, last]) => Some(format!("({first}:{last})")),
                    _ => range(number(item, "offset")?, number(item, "count")?),
                };
                items.iter().filter_map(one).collect::<Vec<_>>().join(" ")
            }
            Value::Array(items) => {
                let one =
                    |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
                items.iter().map(one).collect::<Vec<_>>().join(" ")
            }
            Value::Object(parts) => return self.put_parts(kind, name, parts),
        };
        self.put(kind, name, shown);
        Ok(())
    }

    /// netem's groups: `{"delay":0.02,"jitter":0.003,"correlation":0}`.
    fn put_parts(
        &mut self,
        kind: &str,
        name: &str,
        parts: &Map<String, Value>,
    ) -> Result<(), String> {
        let number = |key: &str| parts.get(key).and_then(Value::as_f64);
        let name = name.trim_end_matches("-random");
        let mut values = Vec::new();
        let time =
            |name: &str, s: f64| time(s * 1e9).ok_or_else(|| impossible(name, &s.to_string()));
        match number(name) {
            Some(delay) if name == "delay" => {
                values.push(time("delay", delay)?);
                if let Some(jitter) = number("jitter").filter(|jitter| *jitter != 0.0) {
                    values.push(time("jitter", jitter)?);
                }
            }
            Some(rate) if name == "rate" => {
                let known = of_number(OptionUnit::Rate, rate, "");
                values.push(known.ok_or_else(|| impossible(name, &rate.to_string()))?);
            }
            Some(share) => values.push(percent(share)),
            None => return Ok(()),
        }
        values.extend(number("correlation").filter(|c| *c > 0.0).map(percent));
        self.put(kind, name, values.join(" "));
        Ok(())
    }

    /// From the options by name that the kernel's answer was read into.
    pub(crate) fn of_fields(kind: &str, fields: &Map<String, Value>) -> QueueOptions {
        let mut options = QueueOptions::default();
        for (name, value) in fields {
            match value {
                Value::Bool(true) => options.put(kind, name, String::new()),
                Value::Null | Value::Bool(false) => {}
                Value::Object(curve) => {
                    let of = |key: &str| {
                        curve.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
                    };
                    options.put(kind, name, curve_of(&of("m1"), &of("d"), &of("m2")));
                }
                Value::Array(items) => {
                    let one = |item: &Value| {
                        item.as_str().map_or_else(|| item.to_string(), str::to_owned)
                    };
                    options.put(kind, name, items.iter().map(one).collect::<Vec<_>>().join(" "));
                }
                Value::String(text) => {
                    let span = text
                        .parse::<Span>()
                        .ok()
                        .filter(|_| matches!(unit(kind, name), OptionUnit::Time));
                    options.put(
                        kind,
                        name,
                        span.and_then(|span| time(span.nanos() as f64))
                            .unwrap_or_else(|| text.clone()),
                    );
                }
                Value::Number(number) => {
                    options.put(kind, name, number.to_string());
                }
            }
        }
        // Both at once have a word of their own.
        let at = |name: &str| options.settings.iter().position(|s| s.name == name);
        if let (Some(rt), Some(ls)) = (at("rt"), at("ls"))
            && options.settings[rt].value == options.settings[ls].value
        {
            options.settings[rt].name = "sc".into();
            options.settings.remove(ls);
        }
        options
    }
}

/// The queues of a traffic class, from the first to the last.
fn range(first: u64, count: u64) -> Option<String> {
    Some(format!("({first}:{})", first.checked_add(count)?.checked_sub(1)?))
}

/// An entry of taprio's schedule: which gates are open, and for how long; none where the time can't be.
fn gate(command: &str, open: &str, ns: f64) -> Option<String> {
    let command = if command == "S" { String::new() } else { format!("{command} ") };
    Some(format!("{command}{open} for {}", time(ns)?))
}

fn negative(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// A service curve in words: a straight line is its slope alone.
fn curve_of(m1: &str, d: &str, m2: &str) -> String {
    if matches!(m1, "" | "0bit") { m2.to_owned() } else { format!("{m1} {d} {m2}") }
}

fn impossible(name: &str, value: &str) -> String {
    format!("{name}: {value} can't be")
}

/// A value of `tc`'s text in our spelling; what is no number with a unit stays as it is.
fn spelled(kind: &str, name: &str, text: &str) -> Result<String, String> {
    if unit(kind, name) != OptionUnit::Plain && negative(text) {
        return Err(impossible(name, text));
    }
    // Behind a slash stands the size of cells.
    let bare = text.split('/').next().unwrap_or_default();
    let digits = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
    let (Ok(number), suffix) = (bare[..digits].parse::<f64>(), &bare[digits..]) else {
        return Ok(text.to_owned());
    };
    let times = |units: &[(&str, f64)]| {
        let unit = units.iter().find(|(name, _)| suffix.eq_ignore_ascii_case(name));
        unit.map(|(_, size)| number * size)
    };
    const TIMES: [(&str, f64); 6] =
        [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("sec", 1e9), ("usec", 1e3)];
    const RATES: [(&str, f64); 9] = [
        ("bit", 1.0),
        ("Kbit", 1e3),
        ("Mbit", 1e6),
        ("Gbit", 1e9),
        ("Tbit", 1e12),
        ("Kibit", 1024.0),
        ("Mibit", 1_048_576.0),
        ("Gibit", 1_073_741_824.0),
        ("bps", 8.0),
    ];
    const SIZES: [(&str, f64); 5] =
        [("", 1.0), ("b", 1.0), ("Kb", 1024.0), ("Mb", 1_048_576.0), ("Gb", 1_073_741_824.0)];
    let known = match unit(kind, name) {
        OptionUnit::Rate => times(&RATES).map(|bits| of_number(OptionUnit::Rate, bits / 8.0, "")),
        OptionUnit::Nanoseconds if suffix.is_empty() => Some(time(number)),
        OptionUnit::Time | OptionUnit::Nanoseconds | OptionUnit::Seconds => times(&TIMES).map(time),
        OptionUnit::Bytes => {
            times(&SIZES).map(|bytes| whole(bytes).map(|n| Bytes::new(n).to_string()))
        }
        OptionUnit::Plain => {
            times(&[("p", 1.0), ("b", 1.0)]).map(|_| Some(bare[..digits].to_owned()))
        }
    };
    let Some(known) = known else { return Ok(text.to_owned()) };
    let shown = known.ok_or_else(|| impossible(name, text))?;
    Ok(without_unit(kind, name, shown))
}

/// A whole number; none where it is below 0, or larger than what the kernel counts with.
fn whole(number: f64) -> Option<u64> {
    (0.0..u64::MAX as f64).contains(&number).then(|| number.round() as u64)
}

/// A bare number of bytes, as people write quanta and buckets.
fn without_unit(kind: &str, name: &str, shown: String) -> String {
    match shown.strip_suffix('B') {
        Some(digits)
            if unit(kind, name) == OptionUnit::Bytes
                && digits.bytes().all(|b| b.is_ascii_digit()) =>
        {
            digits.to_owned()
        }
        _ => shown,
    }
}

/// A number of `tc`'s JSON: rates in bytes a second, times in microseconds; none where it can't be.
fn of_number(unit: OptionUnit, number: f64, plain: &str) -> Option<String> {
    match unit {
        OptionUnit::Rate => whole(number * 8.0).map(|bits| Rate::from_bps(bits).to_string()),
        OptionUnit::Time => time(number * 1e3),
        OptionUnit::Nanoseconds => time(number),
        OptionUnit::Seconds => time(number * 1e9),
        OptionUnit::Bytes => {
            let shown = Bytes::new(whole(number)?).to_string();
            let bare = shown.strip_suffix('B').filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            Some(bare.map_or(shown.clone(), str::to_owned))
        }
        OptionUnit::Plain => Some(plain.to_owned()),
    }
}

/// A time with three digits, as `tc` shows it: the kernel counts in ticks that don't divide what was asked for. None where it can't be.
fn time(ns: f64) -> Option<String> {
    whole(ns)?;
    if ns < 1.0 {
        return Some("0ms".into());
    }
    let scale = 10f64.powi(ns.log10().floor() as i32 - 2).max(1.0);
    Some(Span::from_nanos(whole((ns / scale).round() * scale)?).to_string())
}

fn percent(share: f64) -> String {
    let text = format!("{:.3}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(options: &QueueOptions) -> String {
        let one = |s: &Setting| {
            if s.value.is_empty() { s.name.clone() } else { format!("{} {}", s.name, s.value) }
        };
        options.settings.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn of_text(kind: &str, text: &str) -> QueueOptions {
        QueueOptions::of_words(kind, text.split_whitespace()).expect("it can be")
    }

    fn of_json(kind: &str, text: &str) -> QueueOptions {
        let mut options = QueueOptions::default();
        let Ok(Value::Object(map)) = serde_json::from_str(text) else { panic!("{text}") };
        for (name, value) in &map {
            options.put_json(kind, name, value).expect("it can be");
        }
        options
    }

    #[test]
    fn text_and_json_of_one_queue_are_spelled_alike() {
        let text = of_text("tbf", "rate 1Mbit burst 5Kb/1 mpu 0b lat 50ms linklayer ethernet");
        let json = of_json(
            "tbf",
            r#"{"rate":125000,"burst":"5Kb/1","mpu":0,"lat":50000,"linklayer":"ethernet"}"#,
        );
        assert_eq!(shown(&text), "rate 1Mbit, burst 5KiB, mpu 0, lat 50ms, linklayer ethernet");
        assert_eq!(
            {
                let mut s = text.settings.clone();
                s.sort_by(|a, b| a.name.cmp(&b.name));
                s
            },
            json.settings
        );
        let json = of_json(
            "fq_codel",
            r#"{"limit":10240,"target":4999,"interval":99999,"memory_limit":33554432,"ecn":true}"#,
        );
        assert!(json.settings.iter().all(|s| s.usual), "{json:?}");
    }

    #[test]
    fn netem_and_cake_lose_nothing_that_is_switched_on() {
        let json = of_json(
            "netem",
            r#"{"delay":{"delay":0.02,"jitter":0.003,"correlation":0},"loss-random":{"loss":0.01,"correlation":0},"rate":{"rate":1250000}}"#,
        );
        assert_eq!(shown(&json), "delay 20ms 3ms, loss 1%, rate 10Mbit");
        assert_eq!(shown(&of_text("netem", "delay 20ms  3ms loss 1% rate 10Mbit")), shown(&json));
        let text = of_text(
            "cake",
            "bandwidth 10Mbit diffserv4 dual-srchost nat nowash ack-filter ptm overhead 30",
        );
        assert_eq!(
            shown(&text),
            "bandwidth 10Mbit, diffserv4, dual-srchost, nat, ack-filter, ptm, overhead 30"
        );
    }

    #[test]
    fn of_a_cake_that_nobody_tuned_only_its_bandwidth_is_told() {
        let told = |options: &QueueOptions| -> Vec<String> {
            let chosen = options.settings.iter().filter(|setting| !setting.usual);
            chosen.map(|setting| setting.name.clone()).collect()
        };
        let text = "bandwidth 10Mbit diffserv3 triple-isolate nonat nowash no-ack-filter split-gso rtt 100ms raw overhead 0";
        assert_eq!(told(&of_text("cake", text)), ["bandwidth"]);
        let fields = serde_json::json!({
            "bandwidth": "10Mbit", "autorate": false, "rtt": "100ms", "diffserv": "diffserv3",
            "isolation": "triple-isolate", "nat": false, "wash": false, "split_gso": true,
            "ingress": false, "ack_filter": "no-ack-filter", "framing": "noatm", "overhead": 0,
            "mpu": 0, "memlimit": 4194304, "fwmark": 0,
        });
        let live = QueueOptions::of_fields("cake", fields.as_object().expect("fields"));
        assert_eq!(told(&live), ["bandwidth"]);
    }

    #[test]
    fn a_default_class_is_hexadecimal_however_it_is_written() {
        for text in ["default 0x30", "default 30", "default 1:30"] {
            assert_eq!(of_text("htb", text).default, Some(0x30), "{text}");
        }
        assert_eq!(of_text("htb", "default 0 direct_packets_stat 6").direct_packets, Some(6));
        assert_eq!(of_text("htb", "default 0").default, None);
    }

    #[test]
    fn a_curve_is_one_option() {
        let text = of_text("hfsc", "rt m1 2Mbit d 10ms m2 500Kbit ls m1 0bit d 0us m2 1Mbit");
        assert_eq!(shown(&text), "rt 2Mbit 10ms 500kbit, ls 1Mbit");
    }
}
