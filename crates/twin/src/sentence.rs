//! A measured line in a sentence.

use quell_series::MeasuredLine;
use quell_series::measured_line::{
    Estimate, Fairness, MeasuredDirection, Property, QueueKind, value,
};
use quell_units::table::{Align, Table};
use quell_units::{Buffer, fmt};

/// `12.3 Mbit/s up, 48.2 Mbit/s down; tail drop at 256 kB up, FQ-CoDel down. Pings see the queue up, not down.`
pub fn sentence(line: &MeasuredLine) -> String {
    let rates = [&line.up, &line.down]
        .map(|way| way.passes().map_or("unknown".to_owned(), |rate| fmt::rate(rate.bps() as f64)));
    let both = |what: [String; 2]| match what[0] == what[1] {
        true => format!("{} in both directions", what[0]),
        false => format!("{} up, {} down", what[0], what[1]),
    };
    let queues = [&line.up, &line.down].map(queue);
    let shared = match value(&line.both.shared) {
        Some(true) => "; both directions share it",
        _ => "",
    };
    let changes = [("up", &line.up), ("down", &line.down)].map(|(way, of)| changes(way, of));
    format!("{}; {}{shared}.{} {}", both(rates), both(queues), changes.concat(), pings(line))
}

/// ` Not stationary up: 10.0 Mbit/s, then 6.00 Mbit/s, from 34 s on.`
fn changes(way: &str, of: &MeasuredDirection) -> String {
    match of.stationary.as_ref().and_then(Property::estimate) {
        Some(Estimate { value: false, how, when, .. }) => {
            format!(" Not stationary {way}: {how}, from {when} on.")
        }
        _ => String::new(),
    }
}

fn queue(way: &MeasuredDirection) -> String {
    let name = match value(&way.queue) {
        Some(QueueKind::TailDrop) => "tail drop",
        Some(QueueKind::Codel) => "CoDel",
        Some(QueueKind::Pie) => "PIE",
        Some(QueueKind::FqCodel) => "FQ-CoDel",
        Some(QueueKind::Cake) => "CAKE",
        Some(QueueKind::Dualpi2) => "DualPI2",
        Some(QueueKind::Policer) => "a policer",
        None => "an unknown queue",
    };
    match (value(&way.buffer), value(&way.police_burst)) {
        (Some(Buffer::Packets(count)), _) => format!("{name} at {count} packets"),
        (Some(Buffer::Bytes(bytes)), _) => format!("{name} at {}", fmt::bytes(bytes.get())),
        (None, Some(burst)) => format!("{name} with a burst of {}", fmt::bytes(burst.get())),
        (None, None) => name.to_owned(),
    }
}

fn pings(line: &MeasuredLine) -> String {
    let sees = [&line.up, &line.down].map(|way| match (value(&way.fair), value(&way.queue)) {
        (Some(Fairness::None), _) => Some(true),
        (Some(_), _) => Some(false),
        _ => None,
    });
    match sees {
        [Some(true), Some(true)] => "Pings see the queue in both directions.".into(),
        [Some(false), Some(false)] => "Pings are blind to the queue in both directions.".into(),
        [Some(true), Some(false)] => "Pings see the queue up, not down.".into(),
        [Some(false), Some(true)] => "Pings see the queue down, not up.".into(),
        [up, down] => {
            let says = |sees: Option<bool>| match sees {
                Some(true) => "seen",
                Some(false) => "not seen",
                None => "unknown",
            };
            format!("By pings the queue up is {}, down {}.", says(up), says(down))
        }
    }
}

/// The figures with their bounds, up beside down, and below why some are unknown.
pub fn figures(line: &MeasuredLine) -> String {
    let [up, down] = [line.up.texts(), line.down.texts()];
    let mut words: Vec<&str> = up.iter().chain(&down).map(|(word, _)| *word).collect();
    let mut seen: Vec<&str> = Vec::new();
    words.retain(|word| match seen.contains(word) {
        true => false,
        false => {
            seen.push(word);
            true
        }
    });
    let mut table = Table::new([Align::Left, Align::Left, Align::Left]);
    table.row(["", "up", "down"].map(str::to_owned).into());
    table.rule();
    let mut reasons = Vec::new();
    for word in words {
        let mut cells = vec![word.to_owned()];
        for (way, texts) in [("up", &up), ("down", &down)] {
            let property = texts.iter().find(|(name, _)| *name == word).map(|(_, it)| it);
            cells.push(property.map_or_else(String::new, cell));
            if let Some(Property::Unknown(why)) = property {
                reasons.push(format!("{word} {way}: {why}"));
            }
        }
        table.row(cells);
    }
    for (word, property) in line.both.texts() {
        match &property {
            Property::Unknown(why) => reasons.push(format!("{word}: {why}")),
            Property::Measured(_) => table.row(vec![word.to_owned(), cell(&property)]),
        }
    }
    let mut out = table.to_string();
    if !reasons.is_empty() {
        out += "\nUnknown:\n";
        reasons.iter().for_each(|reason| out += &format!("- {reason}\n"));
    }
    out
}

/// `10 Mbit/s (9.98 to 10.02)`.
fn cell(property: &Property<String>) -> String {
    match property {
        Property::Unknown(_) => "unknown".into(),
        Property::Measured(Estimate { value, low: Some(low), high: Some(high), .. })
            if low != high =>
        {
            // The unit once, where it is the same.
            let unit = value.find(' ').map_or("", |at| &value[at..]);
            match (low.strip_suffix(unit), high.strip_suffix(unit)) {
                (Some(low), Some(high)) => format!("{value} ({low} to {high})"),
                _ => format!("{value} ({low} to {high})"),
            }
        }
        Property::Measured(Estimate { value, .. }) => value.clone(),
    }
}
