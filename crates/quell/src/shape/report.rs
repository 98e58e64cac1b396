//! What `quell shape` prints.

use super::hold::holder;
use super::parts::{self, Part, Places};
use super::standby::Standby;
use super::wanted::{ROOT, Settled};
use crate::options::Json;
use crate::text::say;
use quell_act::{Applied, Change, Goal, Log, Now, Planned, Standing, Watchdog};
use quell_tc::observed::{ObservedQdisc, Snapshot, Stats};
use quell_units::{Bytes, Span};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What would be done, in words and as commands.
pub fn plan(device: &str, settled: &Settled, planned: &Planned, after: &[String], json: Json) {
    let commands: Vec<String> = planned.steps.iter().map(command).collect();
    let words = planned.steps.iter().map(ToString::to_string);
    let words: Vec<String> = words.chain(after.iter().cloned()).collect();
    let trees = settled.goal.devices.iter();
    let trees = trees.map(|goal| (goal.name.as_str(), quell_tc::outline(&goal.things)));
    let trees: Vec<(&str, Vec<String>)> = trees.filter(|(_, lines)| !lines.is_empty()).collect();
    if json.json {
        let document = json!({
            "device": device,
            "tree": trees.iter().cloned().collect::<BTreeMap<_, _>>(),
            "wanted": settled.words,
            "remarks": settled.remarks.iter().chain(&planned.said).collect::<Vec<_>>(),
            "steps": words,
            "commands": commands,
            "foreign": planned.foreign,
            "cannot_come_back": planned.lost,
        });
        println!("{}", crate::text::document(&document));
        return;
    }
    say(&format!("{device}: {}\n", settled.words));
    settled.remarks.iter().chain(&planned.said).for_each(|remark| say(&format!("{remark}\n")));
    if words.is_empty() {
        println!("all is as wanted");
        return;
    }
    println!("\nwanted:");
    for (device, lines) in &trees {
        println!("  {device}");
        lines.iter().for_each(|line| println!("    {line}"));
    }
    let count = words.len();
    println!("\n{count} step{}:", if count == 1 { "" } else { "s" });
    listed(&words, |step| say(&format!("  {step}\n")));
    println!("\nthe same with ip and tc:");
    // A command is to be typed again, and whole.
    listed(&commands, |command| println!("  {command}"));
    if planned.steps.iter().any(looks_behind_tags) {
        println!(
            "  # by their addresses Quell finds packets with a VLAN tag too; tc has no words for that"
        );
    }
    if settled.standby.is_some() {
        println!(
            "  # who is in the table of subscribers, and their classes as they come, no command says"
        );
    }
    if !planned.foreign.is_empty() {
        say(
            "\nsomebody else made these; `apply --replace` replaces them, `off` brings them back:\n",
        );
        planned.foreign.iter().for_each(|what| say(&format!("{what}\n")));
    }
    if !planned.lost.is_empty() {
        println!("\nthese could not come back; only `apply --no-way-back` replaces them:");
        planned.lost.iter().for_each(|what| say(&format!("  {what}\n")));
    }
}

/// Whether a step is about addresses in packets of any protocol, VLAN tags among them.
fn looks_behind_tags(step: &Change) -> bool {
    use quell_tc::{Change::Make, Step, Thing};
    match step {
        Change::Queue { change: Make(Thing::Step(Step::Filter { filter, .. })), .. } => {
            filter.family_behind_tags().is_some()
        }
        _ => false,
    }
}

/// Steps of a plan that a person is shown.
const LISTED: usize = 120;

/// A line each; of hundreds the first ones, and the last ones, with which packets are led there.
fn listed(lines: &[String], print: impl Fn(&String)) {
    const LAST: usize = 20;
    if lines.len() <= LISTED {
        lines.iter().for_each(print);
        return;
    }
    let left = lines.len() - LISTED;
    lines[..LISTED - LAST].iter().for_each(&print);
    println!("  … and {left} more (--json names all)");
    lines[lines.len() - LAST..].iter().for_each(&print);
}

/// A step as a command that does the same.
pub fn command(step: &Change) -> String {
    match step {
        Change::MakeIfb { name, mac, .. } => {
            let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
            format!("ip link add {name} address {mac} type ifb && ip link set {name} up")
        }
        Change::SwitchOn(target) => format!("ip link set {} up", target.name),
        Change::DeleteIfb(target) => format!("ip link del {}", target.name),
        Change::Queue { device, change } => quell_tc::change_command(change, &device.name),
        Change::Offload { device, feature, on } => {
            format!("ethtool -K {device} {feature} {}", if *on { "on" } else { "off" })
        }
        Change::Sysctl { key, value } => format!("sysctl -w {key}='{value}'"),
        Change::Route { to, route: Some(route) } => format!("ip route replace {to} {route}"),
        Change::Route { to, route: None } => format!("ip route del {to}"),
        // Nothing that nft can be told does the same: it writes no address into a mark.
        Change::HostTable { there: true, .. } => format!("# {step}; no command says that"),
        Change::HostTable { device, there: false } => {
            format!("nft delete table ip quell-hosts-{device}")
        }
        Change::File { path, .. } => format!("# {step}: {}", path.display()),
    }
}

/// Steps that are named where they were taken already.
const SHOWN: usize = 12;

/// What was done.
pub fn done(device: &str, done: &Applied, how: &str, document: &Value, json: Json) {
    if json.json {
        println!("{}", crate::text::document(document));
        return;
    }
    done.steps.iter().take(SHOWN).for_each(|step| say(&format!("  {step}\n")));
    if let Some(more @ 1..) = done.steps.len().checked_sub(SHOWN) {
        println!("  … and {more} more (--json names all)");
    }
    match done.steps.len() {
        0 => say(&format!("{device}: all was {how}\n")),
        1 => say(&format!("{device}: {how}, by 1 step\n")),
        count => say(&format!("{device}: {how}, by {count} steps\n")),
    }
    done.said.iter().for_each(|remark| say(&format!("{remark}\n")));
}

/// One change in force.
pub struct Entry {
    /// Whether somebody has to do something.
    pub broken: bool,
    lines: Vec<String>,
    document: Value,
}

/// The root queues of the interfaces of a change, with the interfaces' names and all that they have.
pub fn roots<'a>(log: &Log, now: &'a Now) -> Vec<(String, &'a Snapshot, &'a ObservedQdisc)> {
    let mut found = Vec::new();
    for device in Goal::from(&log.begun.before).devices {
        let target = now.target(&device);
        let by_name = || now.links.get(&device.name).map(|link| link.index);
        let index = target.as_ref().and_then(|t| t.index).or_else(by_name);
        let is_root = |q: &&ObservedQdisc| q.parent == ROOT && q.is_made();
        if let Some(snapshot) = index.and_then(|index| now.queues.get(&index))
            && let Some(root) = snapshot.qdiscs.iter().find(is_root)
        {
            found.push((device.name, snapshot, root));
        }
    }
    found
}

/// Of subscribers whose classes are made when they are there: how many are.
pub struct Attendance {
    known: usize,
    here: usize,
    most: usize,
    holder: Option<u32>,
}

impl Attendance {
    pub fn of(log: &Log, now: &Now, standby: &Standby) -> Self {
        let roots = roots(log, now);
        let way = standby.ways.first();
        let snapshot = way.and_then(|way| roots.iter().find(|(name, ..)| *name == way.device));
        let here = match (way, snapshot) {
            (Some(way), Some((_, snapshot, _))) => {
                snapshot.classes.iter().filter(|class| way.guest(class.place()).is_some()).count()
            }
            _ => 0,
        };
        let (known, most) = (standby.len(), standby.most);
        Attendance { known, here, most, holder: holder(log) }
    }

    fn line(&self, device: &str) -> String {
        let Attendance { known, here, most, holder } = self;
        match holder {
            Some(pid) => format!(
                "  {here} of {known} subscribers are here, at most {most} at a time; process {pid} makes classes for those who come"
            ),
            None => format!(
                "  {here} of {known} subscribers have classes; nobody makes any for those who come: quell shape hold --dev {device}"
            ),
        }
    }

    fn document(&self) -> Value {
        json!({ "known": self.known, "here": self.here, "most": self.most, "holder": self.holder })
    }
}

/// How a change stands, in what the machine `differs` from it, and what passes through its queues. While somebody is `changing` it, what is
/// there is neither as before nor as wanted, and nobody has to do anything.
pub fn entry(
    log: &Log,
    now: &Now,
    now_ns: u64,
    (differs, changing): (Option<String>, Option<&str>),
    attendance: Option<Attendance>,
) -> Entry {
    let (mut how, mut broken) = standing(log, now_ns, "quell shape");
    let renamed = log.renamed_to(now);
    if let (Some(name), false) = (renamed, broken) {
        broken = true;
        how = format!(
            "its interface is named {name} now: quell shape apply --dev {name}, or off --dev {name}"
        );
    } else if let Some(differs) = differs.filter(|_| !broken) {
        broken = true;
        how = format!("no longer as it was applied ({differs}): quell shape apply again, or off");
    }
    let unheld = attendance.as_ref().is_some_and(|attendance| attendance.holder.is_none());
    let changing = changing.filter(|_| broken || unheld);
    if let Some(who) = changing {
        broken = false;
        how = format!("being changed just now by {who}");
    } else {
        broken |= unheld;
    }
    let begun = &log.begun;
    let mut lines = vec![format!("{}: {}; {how}", begun.device, begun.wanted)];
    if let Some(attendance) = &attendance {
        lines.push(attendance.line(&begun.device));
    }
    let mut queues = Vec::new();
    for (name, snapshot, root) in roots(log, now) {
        let Stats { bytes, packets, drops, backlog_bytes, backlog_packets, .. } = root.stats;
        let (sent, waiting) = (Bytes::new(bytes), Bytes::new(backlog_bytes.into()));
        lines.push(format!(
            "  {} {} {} {packets} packets sent ({sent}), {drops} dropped, {backlog_packets} waiting ({waiting})",
            name, root.kind, root.handle
        ));
        let parts = parts::parts(log, snapshot, root);
        let places = parts::places(snapshot);
        lines.extend(places.iter().flat_map(Places::lines));
        lines.extend(parts::lines(&parts));
        queues.push(json!({
            "device": name,
            "kind": root.kind,
            "handle": root.handle.to_string(),
            "sent_packets": packets,
            "sent_bytes": bytes,
            "dropped_packets": drops,
            "backlog_packets": backlog_packets,
            "backlog_bytes": backlog_bytes,
            "hosts": places.as_ref().map(Places::document),
            "parts": parts.iter().map(Part::document).collect::<Vec<Value>>(),
        }));
    }
    let document = json!({
        "device": begun.device,
        "wanted": begun.wanted,
        "standing": how,
        "in_order": !broken,
        "changing": changing,
        "renamed_to": renamed,
        "by": begun.who.command,
        "since": begun.who.at,
        "queues": queues,
        "subscribers": attendance.map(|attendance| attendance.document()),
    });
    Entry { broken, lines, document }
}

/// Where nothing is.
pub const NOTHING: &str = "nothing of Quell's is in force";

/// All changes in force.
pub fn status(entries: &[Entry], json: Json) {
    if json.json {
        let all: Vec<&Value> = entries.iter().map(|entry| &entry.document).collect();
        println!("{}", crate::text::document(&json!({ "shaped": all })));
        return;
    }
    if entries.is_empty() {
        println!("{NOTHING}");
    }
    entries.iter().flat_map(|entry| &entry.lines).for_each(|line| say(&format!("{line}\n")));
}

/// How a log stands, for people, and whether somebody has to do something: with which command of a tool, as `quell shape`.
pub fn standing(log: &Log, now_ns: u64, tool: &str) -> (String, bool) {
    match log.standing {
        Standing::Confirmed => ("in force".to_owned(), false),
        Standing::Unfinished => {
            let at_work = if Watchdog::lives(log) { ", its watchdog is at it" } else { "" };
            (format!("unfinished{at_work}: {tool} recover"), true)
        }
        Standing::Awaiting(until) if !Watchdog::lives(log) => {
            let gone = until <= now_ns;
            let why = if gone { "not confirmed in time" } else { "its watchdog is gone" };
            (format!("{why}: {tool} recover"), true)
        }
        Standing::Awaiting(until) => {
            let left = Span::from_secs(until.saturating_sub(now_ns).div_ceil(1_000_000_000));
            (format!("in force for {left}, unless: {tool} confirm"), false)
        }
    }
}
