//! What `quell shape` prints for a person.

use quell_act::Applied;
use quell_policy::LineRates;
use quell_shaping::change::{ChangeReport, RateBounds};
use quell_shaping::follow::{FollowState, TestedSignal, word};
use quell_shaping::persist::{PersistReport, escaped};
use quell_shaping::prove::{CheckVerdict, DirectionProof, ProofCheck};
use quell_shaping::rates::{ClassRates, QueueRates, RatesReport};
use quell_shaping::recipe::{Recipe, RecipeTarget};
use quell_shaping::status::{Attendance, StatusEntry};
use quell_shaping::{HostSlots, LineClass, PlanReport};
use quell_units::fmt::plural;
use quell_units::{Bytes, Rate, Span};
use quell_wire::text::printable;
use std::fmt::Write;

/// Steps that were taken: so many are named, of more their count.
const TAKEN: usize = 4;
/// Classes of a queue that are shown: of thousands those that had most.
const CLASSES: usize = 20;

const NOTHING: &str = "nothing of Quell's is in force";

/// What would be done: what, how fast, for how many, and what stands against it. `steps` and `tc`: all of it, and as commands.
pub fn plan(report: &PlanReport, steps: bool, tc: bool) -> String {
    let mut text = format!("{}: {}\n", report.device, report.wanted);
    if let Some((up, down)) = report.places {
        text += &match up == down {
            true => format!("room for {} at a time\n", plural(up, "host")),
            false => format!("room for {} at a time up, {down} down\n", plural(up, "host")),
        };
    }
    text.extend(report.remarks.iter().map(|remark| wrapped(remark)));
    if report.steps.is_empty() {
        return text + "all is as wanted\n";
    }
    let indented = |lines: &[String]| lines.iter().map(|line| format!("  {line}\n")).collect();
    if !report.foreign.is_empty() {
        text +=
            "somebody else made these; `apply --replace` replaces them, `off` brings them back:\n";
        text.extend(report.foreign.iter().map(|what| format!("{what}\n")));
    }
    if !report.cannot_come_back.is_empty() {
        text += "these could not come back; only `apply --no-way-back` replaces them:\n";
        let lost: String = indented(&report.cannot_come_back);
        text += &lost;
    }
    let count = plural(report.steps.len(), "step");
    text += &format!("{count} would put it in force; nothing was touched");
    text += if steps || tc { "\n" } else { " (--steps names them, --tc as commands)\n" };
    if steps {
        text += "\nwanted:\n";
        for (device, lines) in &report.tree {
            let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
            text += &format!("  {device}\n{lines}");
        }
        let steps: String = indented(&report.steps);
        text += &format!("\n{count}:\n{steps}");
    }
    if tc {
        // A command is to be typed again, and whole.
        let commands: String = indented(&report.commands);
        text += &format!("\nthe same with ip and tc:\n{commands}");
        text.extend(report.beyond_commands.iter().map(|what| format!("  # {what}\n")));
    }
    text
}

/// What was done.
pub fn done(device: &str, done: &Applied, how: &str) -> String {
    let mut text = String::new();
    if done.steps.len() <= TAKEN {
        text.extend(done.steps.iter().map(|step| format!("  {step}\n")));
    }
    let _ = match done.steps.len() {
        0 => writeln!(text, "{device}: all was {how}"),
        count if count <= TAKEN => writeln!(text, "{device}: {how}, by {}", plural(count, "step")),
        count => writeln!(text, "{device}: {how}, by {count} steps (--json names them)"),
    };
    text.extend(done.said.iter().map(|remark| wrapped(remark)));
    text
}

/// A remark in lines that fit everywhere.
fn wrapped(remark: &str) -> String {
    crate::text::lines("", remark, crate::text::columns().min(80))
}

/// How to look at it, and how to be rid of it.
pub fn way_back(device: &str) -> String {
    format!(
        "look at it: quell shape status --dev {device}; take it off: quell shape off --dev {device}\n"
    )
}

/// What is otherwise of a subscriber.
pub fn changed(report: &ChangeReport) -> String {
    let moved = |way: &str, was: RateBounds, now: RateBounds| {
        let one = |what: &str, was: u64, now: u64| {
            let (now_rate, was_rate) = (Rate::from_bps(now), Rate::from_bps(was));
            (was != now).then(|| format!("{way} {what} {now_rate} (was {was_rate})"))
        };
        let most = one("at most", was.ceiling_bps, now.ceiling_bps);
        let least = one("at least", was.floor_bps, now.floor_bps);
        [most, least].into_iter().flatten()
    };
    let (was, now) = (report.was, report.now);
    let words: Vec<String> =
        moved("up", was.up, now.up).chain(moved("down", was.down, now.down)).collect();
    let words = if words.is_empty() { "it has that already".to_owned() } else { words.join(", ") };
    let mut text: String = report.steps.iter().map(|step| format!("  {step}\n")).collect();
    let _ = writeln!(text, "{}: {}: {words}", report.device, printable(&report.subscriber, 40));
    report.remarks.iter().for_each(|remark| text += &format!("{remark}\n"));
    text
}

/// Each direction that is followed, and its signals.
fn followed(follow: &FollowState) -> Vec<String> {
    let now = quell_sys::wall::realtime_ns() / 1_000_000_000;
    let rate = |bps: u64| Rate::from_bps(bps / 10_000 * 10_000);
    let mut lines = Vec::new();
    for one in &follow.directions {
        let wait = one.wait_ms.map_or("unknown".to_owned(), |ms| format!("{ms:.1} ms"));
        lines.push(format!(
            "  {} {} of {} to {}; load {}, wait in the line {wait}",
            word(one.direction),
            rate(one.rate_bps),
            rate(one.floor_bps),
            rate(one.ceiling_bps),
            rate(one.load_bps)
        ));
        let ago = Span::from_secs(now.saturating_sub(one.changed_at));
        lines.push(format!("    {} changes, the last {ago} ago: {}", one.changes, one.why));
    }
    let of = |test: &TestedSignal| {
        let direction = word(test.direction);
        format!("  {} {direction}: {}", printable(&test.signal, 60), test.says)
    };
    lines.extend(follow.signals.iter().map(of));
    lines
}

/// All changes in force.
pub fn status(entries: &[StatusEntry]) -> String {
    if entries.is_empty() {
        return format!("{NOTHING}\n");
    }
    let mut lines = Vec::new();
    for entry in entries {
        lines.push(format!("{}: {}; {}", entry.device, entry.wanted, entry.standing));
        lines.extend(entry.subscribers.iter().map(|who| attendance(who, &entry.device)));
        lines.extend(entry.follow.iter().flat_map(followed));
        for queue in &entry.queues {
            let (sent, waiting) =
                (Bytes::new(queue.sent_bytes), Bytes::new(queue.backlog_bytes.into()));
            lines.push(format!(
                "  {} {} {} {} packets sent ({sent}), {} dropped, {} waiting ({waiting})",
                queue.device,
                queue.kind,
                queue.handle,
                queue.sent_packets,
                queue.dropped_packets,
                queue.backlog_packets
            ));
            lines.extend(queue.hosts.iter().flat_map(host_slots));
            lines.extend(classes(&queue.parts));
        }
    }
    lines.join("\n") + "\n"
}

fn attendance(who: &Attendance, device: &str) -> String {
    let Attendance { known, here, most, holder } = who;
    match holder {
        Some(pid) => format!(
            "  {here} of {known} subscribers are here, at most {most} at a time; process {pid} makes classes for those who come"
        ),
        None => format!(
            "  {here} of {known} subscribers have classes; nobody makes any for those who come: quell shape hold --dev {device}"
        ),
    }
}

fn host_slots(slots: &HostSlots) -> Vec<String> {
    let HostSlots { count, held, sharing, strangers, unknown } = slots;
    if let Some(why) = unknown {
        return vec![format!("    who has which of {count} places is not known: {why}")];
    }
    let shared = match sharing {
        0 => String::new(),
        packets => format!("; {} of hosts that share one", plural(*packets, "packet")),
    };
    let taken = format!("    {} of {count} places for hosts taken{shared}", held.len());
    let strangers = match strangers {
        0 => None,
        1 => Some("    strangers: 1 address that no machine on this side has".to_owned()),
        many => Some(format!(
            "    strangers: {many} addresses that no machine on this side has, in one place"
        )),
    };
    std::iter::once(taken).chain(strangers).collect()
}

/// A line for each class that something passed through; of hosts' tiers `--watch` and `--json` tell.
fn classes(all: &[LineClass]) -> Vec<String> {
    let is_busy =
        |class: &&LineClass| class.host.is_none() && class.sent_packets + class.backlog_packets > 0;
    let mut busy: Vec<&LineClass> = all.iter().filter(is_busy).collect();
    let left = busy.len().saturating_sub(CLASSES);
    if left > 0 {
        busy.sort_by_key(|class| std::cmp::Reverse(class.sent_bytes));
        busy.truncate(CLASSES);
    }
    let width = busy.iter().map(|class| class.name.chars().count()).max().unwrap_or(0).min(31);
    let line = |class: &&LineClass| {
        let delay = class.delay_us.map(|us| format!(", {} of waiting", Span::from_micros(us)));
        format!(
            "    {:width$}  {} packets ({}), {} dropped, {} marked, {} waiting{}",
            printable(&class.name, 30),
            class.sent_packets,
            quell_units::fmt::bytes(class.sent_bytes),
            class.dropped_packets,
            class.marked_packets,
            class.backlog_packets,
            delay.unwrap_or_default()
        )
    };
    let mut lines: Vec<String> = busy.iter().map(line).collect();
    if left > 0 {
        lines.push(format!("    … and {left} more, which had less (--json has all)"));
    }
    lines
}

/// Who has how much of each line.
pub fn rates(report: &RatesReport) -> Vec<String> {
    let mut lines = Vec::new();
    for shaped in &report.shaped {
        lines.push(format!("{}: {}", shaped.device, shaped.wanted));
        shaped.queues.iter().for_each(|queue| queue_rates(queue, &mut lines));
    }
    if report.shaped.is_empty() {
        lines.push(NOTHING.to_owned());
    }
    lines
}

fn queue_rates(queue: &QueueRates, lines: &mut Vec<String>) {
    let head = format!("{} ({})", queue.device, queue.kind);
    lines.push(row(&head, ["rate", "packets/s", "waiting", "delay", "drops/s", "marks/s"]));
    let Some((all, parts)) = queue.parts.split_first() else { return };
    lines.push(class_rates("all", all));
    let hosts = parts.iter().filter(|class| class.host.is_none() && class.is_moving());
    let mut hosts: Vec<(usize, &ClassRates)> = hosts.enumerate().collect();
    let bits = |class: &ClassRates| class.bits_per_second.unwrap_or(0.0);
    hosts.sort_by(|a, b| bits(b.1).total_cmp(&bits(a.1)));
    let left = hosts.len().saturating_sub(CLASSES);
    hosts.truncate(CLASSES);
    if left == 0 {
        // In the order in which they were asked for.
        hosts.sort_by_key(|(at, _)| *at);
    }
    for (_, host) in hosts {
        lines.push(class_rates(&format!("  {}", printable(&host.name, 24)), host));
        let is_its = |tier: &&ClassRates| {
            tier.host.as_ref() == Some(&host.name) && tier.place == host.place && tier.is_moving()
        };
        let tiers = parts.iter().filter(is_its);
        lines.extend(tiers.map(|tier| class_rates(&format!("    {}", tier.name), tier)));
    }
    if left > 0 {
        lines.push(format!("    … and {left} more, which have less (--json has all)"));
    }
    lines.extend(queue.hosts.iter().flat_map(host_slots));
}

fn row(name: &str, cells: [&str; 6]) -> String {
    let [rate, packets, waiting, delay, drops, marks] = cells;
    let row = format!(
        "  {name:<30} {rate:>12} {packets:>10} {waiting:>14} {delay:>9} {drops:>8} {marks:>8}"
    );
    row.trim_end().to_owned()
}

fn class_rates(name: &str, class: &ClassRates) -> String {
    let waiting = match class.backlog_packets {
        0 => "0".to_owned(),
        packets => format!("{packets} ({})", quell_units::fmt::bytes(class.backlog_bytes)),
    };
    let count = |per_second: Option<f64>| match per_second {
        None => "–".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(few) if few < 9.95 => format!("{few:.1}"),
        Some(many) => format!("{many:.0}"),
    };
    // Three digits are as many as anybody reads while they change.
    let rounded = |value: f64| {
        let step = 10f64.powi((value.max(1.0).log10().floor() as i32 - 2).max(0));
        ((value / step).round() * step) as u64
    };
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let rate = class.bits_per_second.map(|bits| Rate::from_bps(rounded(bits)).to_string());
    let delay = class.delay_us.map(|us| Span::from_micros(rounded(us)).to_string());
    let (rate, delay) = (or_unknown(rate), or_unknown(delay));
    let packets = count(class.packets_per_second);
    let (drops, marks) = (count(class.dropped_per_second), count(class.marked_per_second));
    row(name, [&rate, &packets, &waiting, &delay, &drops, &marks])
}

/// How one way came out.
pub fn proof(proof: &DirectionProof) -> String {
    format!("{}, by {}:\n", proof.way, proof.queue) + &checks(&proof.checks)
}

pub fn checks(checks: &[ProofCheck]) -> String {
    let mut text = String::new();
    for check in checks {
        let verdict = match check.verdict {
            CheckVerdict::Pass => "pass",
            CheckVerdict::Fail => "FAIL",
            CheckVerdict::Unknown => "unknown",
        };
        let _ = writeln!(text, "  {verdict:<7}  {}: {}", check.check, check.says);
    }
    text
}

/// What is kept.
pub fn persisted(report: &PersistReport) -> String {
    let mut text: String = report.files.iter().map(|path| format!("  {path}\n")).collect();
    let PersistReport { device, wanted, .. } = report;
    let _ = writeln!(text, "{device}: {wanted}; comes back when the machine or the interface does");
    let unit = escaped(device);
    text + "systemd learns of it at the next boot, or now:\n"
        + &format!("  systemctl daemon-reload && systemctl start 'quell-shape@{unit}'\n")
}

/// The recipe for a person: each line that is not to be pasted is a comment there. `tried` are remarks and the table of a rehearsal.
pub fn recipe(
    target: RecipeTarget,
    line: Option<LineRates>,
    recipe: &Recipe,
    tried: Option<(Vec<String>, String)>,
) -> String {
    let mut comments = vec![format!("for {}: {}", target.name(), recipe.words)];
    comments.extend(recipe.said.iter().cloned());
    comments.push(String::new());
    match tried {
        Some((remarks, table)) => {
            let line = line.map(|line| format!(", {} Mbit/s up/down", String::from(line)));
            comments.push(format!(
                "tried in the lab on a line like that{}, as it is and with these queues:",
                line.unwrap_or_default()
            ));
            comments.extend(remarks);
            comments.extend(table.lines().map(str::to_owned));
        }
        None => comments.push("not tried in the lab; --try does that".into()),
    }
    let mut text = String::new();
    for comment in comments {
        let _ = writeln!(text, "{}", format!("# {comment}").trim_end());
    }
    for piece in &recipe.pieces {
        let _ = write!(text, "\n# ── {}\n{}", piece.place, piece.text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_by_the_second_and_fits_a_screen() {
        let all = ClassRates {
            name: "ann".into(),
            host: None,
            place: None,
            addresses: Vec::new(),
            mac: None,
            bits_per_second: Some(6e6),
            packets_per_second: Some(500.0),
            dropped_per_second: Some(50.0),
            marked_per_second: Some(0.0),
            backlog_packets: 10,
            backlog_bytes: 15_000,
            delay_us: Some(20_000.0),
            delay_is_reckoned: true,
        };
        let queue =
            QueueRates { device: "wan".into(), kind: "htb".into(), hosts: None, parts: vec![all] };
        let mut lines = Vec::new();
        queue_rates(&queue, &mut lines);
        let told = lines.last().expect("a line").split_whitespace().collect::<Vec<_>>();
        assert_eq!(told, ["all", "6Mbit", "500", "10", "(15.0", "kB)", "20ms", "50", "0"]);
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:?}");
    }
}
