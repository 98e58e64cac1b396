//! What `quell tune` prints.

use super::asked::{ApplyArgs, Places};
use super::files::{self, Files};
use super::look::Settings;
use super::prove::Proof;
use super::settled::{Settled, standing};
use crate::failure::Failure;
use crate::flow::figures::rate;
use crate::options::Json;
use crate::text::{columns, lines, say};
use quell_act::{Applied, Log, Standing};
use quell_tune::{Proposal, Reach, Record, Tuning, Wanted, dotted, same};
use quell_units::Span;
use serde_json::{Value, json};

/// The plan, line by line.
pub fn plan(plan: &Tuning, now: &Settings, commands: &[String], proof: Option<&Proof>, form: Json) {
    let in_force = plan.settings().all(|(key, set)| now.get(key).is_some_and(|now| same(now, set)));
    let changes = plan.settings().count();
    if form.json {
        let reach = |reach: Option<Reach>| {
            reach.map(
                |r| json!({ "bits_per_second": r.bits_per_second, "limited_by": r.limit.words() }),
            )
        };
        let document = json!({
            "wanted": plan.wish.words(),
            "lines": plan.lines.iter().map(line_json).collect::<Vec<Value>>(),
            "in_force": in_force,
            "one_transfer_now": reach(plan.reach_now),
            "one_transfer_then": reach(plan.reach_then),
            "routes": commands,
            "cures": plan.cures.iter().map(|cure| json!({
                "route": cure.route.as_ref().map(ToString::to_string), "socket": cure.socket, "why": cure.why, "source": cure.source,
            })).collect::<Vec<Value>>(),
            "remarks": plan.remarks,
            "proof": proof.map(Proof::document),
        });
        println!("{}", crate::text::document(&document));
        return;
    }
    say(&format!("{}\n", plan.wish.words()));
    for line in &plan.lines {
        say(&format!("\n{}", line_text(line)));
    }
    if !plan.cures.is_empty() {
        say(
            "\nfor one route or one connection, where a setting for all would be too much (apply --route PREFIX):\n",
        );
        for cure in &plan.cures {
            let route = cure.route.as_ref().map(ToString::to_string);
            let words: Vec<&str> = route.as_deref().into_iter().chain(cure.socket).collect();
            say(&format!("  {}\n", words.join(", or a program's ")));
            print!("{}", lines("    ", &cure.why, columns()));
            print!("{}", lines("    ", &format!("source: {}", cure.source), columns()));
        }
        commands.iter().for_each(|command| println!("  {command}"));
    }
    if let (Some(now), Some(then)) = (plan.reach_now, plan.reach_then) {
        say(
            "\none transfer, both ends with these buffers, predicted as min(rate, window / RTT):\n",
        );
        for (name, reach) in [("as it is  ", now), ("as planned", then)] {
            let reached = rate(reach.bits_per_second);
            say(&format!("  {name}  {reached}, held up by {}\n", reach.limit.words()));
        }
    }
    if let Some(proof) = proof {
        say(&format!("\n{}", proof.text()));
    }
    plan.remarks.iter().for_each(|remark| print!("\n{}", lines("", remark, columns())));
    match (changes, in_force) {
        (0, _) => println!("\nall is as it should be"),
        (_, true) => println!("\nall of it is in force"),
        (1, false) => println!("\n1 setting would change; nothing was touched"),
        (count, false) => println!("\n{count} settings would change; nothing was touched"),
    }
}

fn line_text(line: &Proposal) -> String {
    let name = dotted(line.key);
    let now = line.now.as_deref().unwrap_or("–");
    let mut text = match &line.wanted {
        Wanted::Set(value) => format!("{name} = {value}\n  now      {now}\n"),
        Wanted::Keep => format!("{name}: stays {now}\n"),
        Wanted::Leave => format!("{name}: left alone, {now}\n"),
        Wanted::Sealed => format!("{name}: can't be set here, {now}\n"),
    };
    if let (Some(known), Wanted::Set(_)) = (&line.default, &line.wanted) {
        text += &format!("  default  {} ({})\n", known.value, known.from);
    }
    text += &lines("  why      ", &line.why, columns());
    text + &lines("  source   ", line.source, columns())
}

fn line_json(line: &Proposal) -> Value {
    let (action, value) = match &line.wanted {
        Wanted::Set(value) => ("set", Some(value)),
        Wanted::Keep => ("keep", None),
        Wanted::Leave => ("leave", None),
        Wanted::Sealed => ("cannot", None),
    };
    json!({
        "key": dotted(line.key), "action": action, "value": value, "now": line.now,
        "default": line.default.as_ref().map(|known| &known.value),
        "default_from": line.default.as_ref().map(|known| known.from),
        "why": line.why, "source": line.source,
    })
}

/// What was applied.
pub fn applied(
    settled: &Settled,
    record: &Record,
    applied: &Applied,
    within: Option<Span>,
    proof: Option<&Proof>,
    args: &ApplyArgs,
) {
    let mut said = applied.said.clone();
    let places = args.places.words();
    match within {
        Some(within) if !applied.steps.is_empty() => said.push(format!(
            "in force for {within}, and not kept for the next boot; to keep it: quell tune confirm{places}"
        )),
        _ if args.for_now => said.push("until the next boot".to_owned()),
        _ => {}
    }
    said.extend(settled.plan.remarks.iter().cloned());
    for other in settled.files.overridden(record) {
        said.push(format!(
            "{} sets {} to {} at boot, after ours: it wins then",
            other.file,
            dotted(&other.key),
            other.value
        ));
    }
    if args.json.json {
        let document = json!({
            "wanted": record.wanted,
            "kept": true,
            "steps": applied.steps,
            "settings": record.settings.iter().map(setting_json).collect::<Vec<Value>>(),
            "remarks": said,
            "confirm_within_s": within.map(|span| span.as_secs_f64()),
            "proof": proof.map(Proof::document),
        });
        println!("{}", crate::text::document(&document));
        return;
    }
    if let Some(proof) = proof {
        say(&format!("{}\n", proof.text()));
    }
    applied.steps.iter().for_each(|step| say(&format!("  {step}\n")));
    match applied.steps.len() {
        0 => say(&format!("{}: all was as wanted\n", record.wanted)),
        1 => say(&format!("{}: as wanted, by 1 step\n", record.wanted)),
        count => say(&format!("{}: as wanted, by {count} steps\n", record.wanted)),
    }
    said.iter().for_each(|remark| print!("{}", lines("", remark, columns())));
}

fn setting_json(setting: &quell_tune::Setting) -> Value {
    json!({ "key": dotted(&setting.key), "before": setting.before, "set": setting.set })
}

/// What was measured and not kept.
pub fn not_kept(proof: &Proof, document: &Value, form: Json) {
    if form.json {
        println!("{}", crate::text::document(document));
    } else {
        say(&proof.text());
        println!("nothing was kept: all is as it was before");
    }
}

/// What was brought back.
pub fn reverted(record: &Record, done: &Applied, stay: &[String], form: Json) {
    if form.json {
        let document = json!({
            "reverted": record.wanted, "steps": done.steps,
            "left": stay.iter().map(|key| dotted(key)).collect::<Vec<_>>(), "remarks": done.said,
        });
        println!("{}", crate::text::document(&document));
        return;
    }
    done.steps.iter().for_each(|step| say(&format!("  {step}\n")));
    stay.iter().for_each(|key| say(&format!("  {} is left as somebody set it\n", dotted(key))));
    say(&format!("{}: all is as it was before\n", record.wanted));
    done.said.iter().for_each(|remark| print!("{}", lines("", remark, columns())));
}

/// The settings of a record, as they are.
pub fn now(record: &Record) -> Settings {
    let keys: Vec<&str> = record.settings.iter().map(|s| s.key.as_str()).collect();
    super::look::all(&keys)
}

/// How things stand.
pub struct Status {
    /// Whether somebody has to do something.
    pub broken: bool,
    text: String,
    document: Value,
}

impl Status {
    /// Prints it.
    pub fn print(&self, form: Json) {
        if form.json {
            println!("{}", crate::text::document(&self.document));
        } else {
            say(&self.text);
        }
    }
}

/// How things stand.
pub fn status(
    files: &Files,
    log: Option<&Log>,
    recorded: Option<&Record>,
    places: &Places,
) -> Result<Status, Failure> {
    let of_log = log.and_then(files::of_log);
    let Some(record) = recorded.or(of_log.as_ref()) else {
        let unfinished = log.map(standing).filter(|(_, broken)| *broken);
        let text = match &unfinished {
            Some((how, _)) => format!("{how}\n"),
            None => "nothing of `quell tune` is in force\n".to_owned(),
        };
        let document = json!({ "applied": false, "in_order": unfinished.is_none() });
        return Ok(Status { broken: unfinished.is_some(), text, document });
    };
    // After a boot no log is needed: the file for the boot has done it.
    let (how, mut broken) = log.map_or(("in force since the boot".to_owned(), false), standing);
    let mut text = lines("", &format!("{}; {how}", record.wanted), columns());
    let now = now(record);
    let mut settings = Vec::new();
    for setting in &record.settings {
        let there = now.get(&setting.key);
        let state = match there {
            None => "gone",
            Some(there) if same(there, &setting.set) => "as set",
            Some(there) if same(there, &setting.before) => "as before",
            Some(_) => "changed",
        };
        broken |= state != "as set";
        let now = there.map(|v| v.split_whitespace().collect::<Vec<_>>().join(" "));
        let value = now.as_deref().unwrap_or("–");
        text += &match state {
            "as set" => format!("  {} = {value}\n", dotted(&setting.key)),
            "as before" => format!(
                "  {} = {value}: as before Quell, no longer {}\n",
                dotted(&setting.key),
                setting.set
            ),
            "gone" => {
                format!("  {}: the kernel has no such setting any more\n", dotted(&setting.key))
            }
            _ => format!(
                "  {} = {value}: somebody changed it since, from {}\n",
                dotted(&setting.key),
                setting.set
            ),
        };
        settings.push(json!({
            "key": dotted(&setting.key), "before": setting.before, "set": setting.set, "now": now, "state": state,
        }));
    }
    let routes = super::routes::as_they_are(log);
    for goal in &routes {
        broken |= goal.route.is_none();
        text += &match &goal.route {
            Some(route) => format!("  route {} {route}\n", goal.to),
            None => format!("  the route to {} is gone\n", goal.to),
        };
    }
    let waiting = log.is_some_and(|log| matches!(log.standing, Standing::Awaiting(_)));
    let (file, wrong) = boot_file(files, record, waiting);
    broken |= wrong;
    text += &lines("  ", &file, columns());
    let overridden = files.overridden(record);
    for other in &overridden {
        broken = true;
        let said = format!(
            "{} sets {} to {} at boot, after ours",
            other.file,
            dotted(&other.key),
            other.value
        );
        text += &lines("  ", &said, columns());
    }
    if broken && !waiting {
        text += &format!("quell tune apply{0} again, or quell tune revert{0}\n", places.words());
    }
    let document = json!({
        "applied": true,
        "wanted": record.wanted,
        "standing": how,
        "since": record.at,
        "in_order": !broken,
        "settings": settings,
        "routes": routes,
        "file": file,
        "overridden": overridden.iter().map(|other| json!({
            "key": dotted(&other.key), "file": other.file, "value": other.value,
        })).collect::<Vec<Value>>(),
    });
    Ok(Status { broken, text, document })
}

/// How the file for the next boot stands, and whether that is wrong.
fn boot_file(files: &Files, record: &Record, waiting: bool) -> (String, bool) {
    let path = files.conf.display();
    match files.boot_text() {
        _ if waiting => {
            ("nothing is kept for the next boot before it is confirmed".to_owned(), false)
        }
        _ if record.file.is_empty() => ("until the next boot; no file keeps it".to_owned(), false),
        Some(text) if text == record.file => (format!("{path} sets it at the next boot"), false),
        Some(_) => (format!("{path} is no longer as it was written"), true),
        None => (format!("{path} is gone: at the next boot nothing of it is set"), true),
    }
}
