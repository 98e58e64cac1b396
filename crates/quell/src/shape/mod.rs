//! `quell shape`: what is typed becomes calls of `quell_shaping`, and what these report becomes text or JSON.

mod args;
mod text;

use crate::failure::Failure;
use crate::options::{Backend, Json, Place};
use crate::pace::Pace;
use crate::results;
use crate::run::{Parts, RunArgs, carried_out, run};
use crate::screen;
use crate::text::{columns, document, hand_out, lines, say};
use crate::twin;
pub use args::{
    ApplyArgs, ChangeArgs, ConfirmArgs, ConfirmWithin, FollowArgs, HoldArgs, ImportArgs,
    LinePathArgs, OffArgs, PersistArgs, PlanArgs, ProveArgs, RecipeArgs, RecoverArgs, StateArgs,
    StatusArgs, TryArgs, WatchdogArgs,
};
use args::{ImportFormat, RehearsalArgs};
pub use quell_act::WATCHDOG;
use quell_act::{ActError, Applied, Leave, Log, OffRequest, Patience, is_over_ssh, own_watchdog};
use quell_flow::{Amount, FlowError, FlowPlan, FlowReport, Progress, Senders, Transport};
use quell_model::task::Direction;
use quell_policy::LinePolicy;
use quell_policy::import::{Imported, libreqos, sqm};
use quell_series::MeasuredLine;
use quell_shaping::change::RateChange;
use quell_shaping::follow::{self, FollowOptions, TestLoad};
use quell_shaping::metrics::metrics;
use quell_shaping::prove::{CheckVerdict, DirectionProof, LoadResult, ProofCheck};
use quell_shaping::rates::Reading;
use quell_shaping::{
    ApplyOptions, CommandError, LinePlan, daemon, lab, open, open_to_change, persist,
    policy_of_log, preview, prove, recipe, reconcile_again, status, text_of,
};
use quell_sys::resolve::{Family, Usual, resolve};
use quell_sys::wait::Bell;
use quell_twin::held_out::{Comparison, LoadFigures, compare};
use quell_units::{Rate, Span};
use quell_wire::auth::Secret;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Check(why) => Failure::check(why),
            CommandError::Usage(why) => Failure::usage(why),
            CommandError::Unusable(why) => Failure::unusable(why),
            CommandError::System(why) => Failure::system(why),
            CommandError::Act(error) => error.into(),
        }
    }
}

impl From<ActError> for Failure {
    fn from(error: ActError) -> Self {
        match error {
            ActError::Foreign(_)
            | ActError::NotAsLeft(_)
            | ActError::OneWay(_)
            | ActError::Changed
            | ActError::Busy { .. }
            | ActError::Unfinished { .. }
            | ActError::Nothing(_) => Failure::check(error),
            _ => Failure::system(error),
        }
    }
}

/// Prints a report: as JSON, or as text.
pub fn print(
    report: &impl Serialize,
    json: Json,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if json.json {
        println!("{}", document(&serde_json::to_value(report).map_err(Failure::system)?));
    } else {
        say(&text());
    }
    Ok(())
}

pub fn plan(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open()?;
    let mut plan = args.wanted.plan(&mut kernel)?;
    let no_aqm = no_aqm(&mut plan);
    let report = preview(&mut kernel, &args.state.logs(), &args.wanted.device, &plan)?;
    if args.json.json {
        println!("{}", document(&json!(report)));
    } else {
        say(&no_aqm);
        say(&text::plan(&report, args.steps, args.tc));
    }
    Ok(ExitCode::SUCCESS)
}

/// That nothing keeps delay short: it is said before all else, and not once more after it.
fn no_aqm(plan: &mut LinePlan) -> String {
    let Some(why) = plan.no_aqm.take() else { return String::new() };
    plan.remarks.retain(|remark| *remark != why);
    lines("! ", &why, columns())
}

pub fn apply(args: &ApplyArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open_to_change()?;
    let mut plan = args.wanted.plan(&mut kernel)?;
    let within = Patience::or_usual(args.confirm.confirm_within, is_over_ssh).span();
    let device = args.wanted.device.as_str();
    let options = ApplyOptions {
        device,
        command: "quell shape apply",
        confirm_within: within,
        why: if args.confirm.confirm_within.is_none() {
            " (since you are here over ssh)"
        } else {
            ""
        },
        replace: args.replace,
        no_way_back: args.no_way_back,
        logs: &args.state.logs(),
    };
    let wanted = plan.words.clone();
    let no_aqm = no_aqm(&mut plan);
    if !args.json.json {
        say(&no_aqm);
    }
    let applied = quell_shaping::apply(&mut kernel, plan, &options)?;
    let report = json!({
        "device": device,
        "wanted": wanted,
        "changed": !applied.steps.is_empty(),
        "steps": applied.steps,
        "remarks": applied.said,
        "confirm_within_s": within.map(Span::as_secs_f64),
    });
    print(&report, args.json, || {
        text::done(device, &applied, "as wanted") + &text::way_back(device)
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn change(args: &ChangeArgs) -> Result<ExitCode, Failure> {
    let ChangeArgs { up, down, up_floor, down_floor, .. } = *args;
    if [up, down, up_floor, down_floor].iter().all(Option::is_none) {
        return Err(Failure::usage("what rate? give --up, --down, --up-floor or --down-floor"));
    }
    let change = RateChange {
        name: args.name.clone(),
        up,
        down,
        up_floor,
        down_floor,
        confirm_within: args.confirm.confirm_within.and_then(Patience::span),
    };
    let (logs, root) = (args.state.logs(), &args.root.root);
    let report = quell_shaping::change::run(&logs, args.device.as_deref(), &change, root)?;
    print(&report, args.json, || text::changed(&report))?;
    Ok(ExitCode::SUCCESS)
}

pub fn confirm(args: &ConfirmArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open_to_change()?;
    let logs = args.state.logs();
    // In the log stands the name that it had.
    let mut known = |name: &String| match logs.of(&mut kernel, name) {
        Ok(log) => log.begun.device,
        Err(_) => name.clone(),
    };
    let device = args.device.as_ref().map(&mut known);
    let kept = quell_act::confirm(&logs.folder, device.as_deref(), "quell shape confirm")?;
    let stays = |device: &String| format!("{device}: what is in force stays\n");
    print(&json!({ "confirmed": kept }), args.json, || kept.iter().map(stays).collect())?;
    Ok(ExitCode::SUCCESS)
}

pub fn off(args: &OffArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open_to_change()?;
    let (logs, device) = (args.state.logs(), args.device.as_str());
    let leave = match (args.replace, args.keep) {
        (true, _) => Leave::Nothing,
        (_, true) => Leave::All,
        _ => Leave::Ask,
    };
    let (folder, command) = (&logs.folder, "quell shape off");
    let request = OffRequest { folder, device, command, leave, watchdog: &own_watchdog };
    let log = logs.of(&mut kernel, device).ok();
    if let Some(log) = &log {
        follow::pause(log, folder, &mut kernel)?;
    }
    let path = log.map(|log| log.path().to_owned());
    let mut off = quell_act::off(&mut kernel, &request);
    // Nothing was done: what persists stays as well.
    if let Err(error @ ActError::NotAsLeft(_)) = off {
        return Err(error.into());
    }
    if !args.for_now {
        let forgotten = persist::forget(&args.root.root, device)?;
        if matches!(off, Err(ActError::Nothing(_))) && !forgotten.is_empty() {
            off = Ok(Applied { steps: Vec::new(), said: Vec::new() });
        }
        if let Ok(done) = &mut off {
            done.said.extend(forgotten);
        }
    }
    let done = off?;
    if let Some(path) = path {
        daemon::ended(&path);
        follow::forget(&path);
    }
    let report = json!({ "device": device, "steps": done.steps, "remarks": done.said });
    print(&report, args.json, || text::done(device, &done, "as it was before"))?;
    Ok(ExitCode::SUCCESS)
}

pub fn recover(args: &RecoverArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open_to_change()?;
    let logs = args.state.logs();
    let done = quell_act::recover(&mut kernel, &logs.folder, "quell shape recover")?;
    for log in logs.all()? {
        reconcile_again(&mut kernel, log.path()).map_err(Failure::system)?;
    }
    let one = |(device, done): &(String, Applied)| json!({ "device": device, "steps": done.steps, "remarks": done.said });
    let report = json!({ "recovered": done.iter().map(one).collect::<Vec<Value>>() });
    print(&report, args.json, || match done.is_empty() {
        true => "nothing is unfinished\n".to_owned(),
        false => done.iter().map(|(dev, done)| text::done(dev, done, "as it was before")).collect(),
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    if let Some(every) = args.watch {
        return watch(args, every);
    }
    let entries = status::status(&args.state.logs(), args.device.as_deref())?;
    if args.metrics {
        hand_out(metrics(&entries).as_bytes())?;
    } else {
        print(&json!({ "shaped": entries }), args.json, || text::status(&entries))?;
    }
    let in_order = entries.iter().all(|entry| entry.in_order);
    Ok(if in_order { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// `quell shape status --watch`, until Ctrl-C.
fn watch(args: &StatusArgs, every: Span) -> Result<ExitCode, Failure> {
    let mut kernel = open()?;
    let (logs, device) = (args.state.logs(), args.device.as_deref());
    // Whether it is there is said at once; later it may go and come.
    drop(logs.some_of(&mut kernel, device)?);
    let mut pace = Pace::new(every)?;
    let mut picture = screen::Screen::new();
    let in_place = screen::is_live() && !args.json.json;
    let mut before: Option<Reading> = None;
    loop {
        let mut reading = Reading::take(&logs, device, &mut kernel)?;
        if let Some(before) = &before {
            let (report, read) = reading.since(before);
            reading = read;
            if in_place {
                let (width, rows) = screen::size();
                let lines = text::rates(&report);
                let shown: Vec<String> = lines.into_iter().take(rows.max(4) - 1).collect();
                screen::Screen::show(&picture.frame(&shown, width));
            } else {
                let text = match args.json.json {
                    true => json!(report).to_string() + "\n",
                    false => text::rates(&report).join("\n") + "\n\n",
                };
                let written = quell_sys::reader::print(std::io::stdout().lock(), text.as_bytes());
                written.map_err(|e| Failure::system(format!("writing to standard output: {e}")))?;
            }
        }
        before = Some(reading);
        if !pace.pause()? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

pub fn hold(args: &HoldArgs) -> Result<ExitCode, Failure> {
    use std::io::Write;
    let mut ready = || {
        // Whoever started it waits for this; who reads it later has gone.
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{}: makes classes of subscribers as they come", args.device);
        let _ = out.flush();
    };
    daemon::run(&args.state.logs(), &args.device, args.stand_by, &mut ready)?;
    Ok(ExitCode::SUCCESS)
}

/// Loads the line for a test of its signals: datagrams at more than it carries.
fn test_load(load: &TestLoad, secret: Option<Secret>, begun: &dyn Fn()) -> Result<Rate, String> {
    let usual = Usual {
        family: Family::Any,
        own: None,
        port: Some(quell_wire::iperf3::PORT),
        device: None,
    };
    let found = resolve(&load.host, usual)?;
    let of_policy = load.secret_file.as_deref().filter(|_| secret.is_none());
    let of_policy = of_policy.map(quell_sys::secret::read).transpose();
    let secret = of_policy.map_err(|e| e.to_string())?.or(secret);
    let up = load.way == Direction::Up;
    let plan = FlowPlan {
        transport: Transport::Udp,
        direction: if up { Senders::Up } else { Senders::Down },
        amount: Amount::Time(load.time),
        rate: Some(load.rate.bps()),
        interval: Span::from_millis(100),
        latency: false,
        secret,
        ..FlowPlan::new(&load.host, found.to)
    };
    let stop = Bell::new().map_err(|e| e.to_string())?;
    let mut tell = |progress: Progress<'_>| {
        if let Progress::Interval(_) = progress {
            begun();
        }
    };
    let outcome = quell_flow::run(&plan, &stop, &mut tell).map_err(|e| e.to_string())?;
    if let Some(broke) = &outcome.broke {
        return Err(format!("the load broke off: {broke}"));
    }
    let report = FlowReport::of(&outcome);
    let direction = if up { &report.up } else { &report.down };
    let counts = direction.as_ref().and_then(|direction| direction.datagrams.as_ref());
    let counts = counts.filter(|counts| counts.sent > 0).ok_or("how much arrived is unknown")?;
    let arrived =
        u128::from(load.rate.bps()) * u128::from(counts.arrived) / u128::from(counts.sent);
    Ok(Rate::from_bps(arrived as u64))
}

pub fn follow(args: &FollowArgs) -> Result<ExitCode, Failure> {
    use std::io::Write;
    let (logs, device) = (args.state.logs(), args.device.as_str());
    let mut ready = || {
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{device}: the rates follow the line");
        let _ = out.flush();
    };
    if let Some(follower) = args.guard {
        follow::guard(&logs, device, follower, &mut ready)?;
        return Ok(ExitCode::SUCCESS);
    }
    let secret = args.secret.read()?;
    let loader =
        Arc::new(move |load: &TestLoad, begun: &dyn Fn()| test_load(load, secret.clone(), begun));
    let options = FollowOptions { stand_by: args.stand_by, dry_run: args.dry_run, loader };
    follow::run(&logs, device, &options, &mut ready)?;
    Ok(ExitCode::SUCCESS)
}

pub fn guard(args: &WatchdogArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open()?;
    quell_act::watch(&args.log, (args.applier, args.at), args.limit, &mut kernel)?;
    // It may have led back, or whoever applied may have died before all subscribers were entered.
    reconcile_again(&mut kernel, &args.log).map_err(Failure::system)?;
    Ok(ExitCode::SUCCESS)
}

pub fn persist(args: &PersistArgs) -> Result<ExitCode, Failure> {
    let report = persist::persist(&args.state.logs(), &args.device, &args.root.root)?;
    print(&report, args.json, || text::persisted(&report))?;
    Ok(ExitCode::SUCCESS)
}

pub fn prove(args: &ProveArgs) -> Result<ExitCode, Failure> {
    let (logs, device) = (args.state.logs(), args.device.as_str());
    let log = logs.of(&mut open()?, device)?;
    let wanted = &log.begun.wanted;
    if args.in_lab {
        let policy = policy_of_log(&log)?;
        let Some(name) = policy.named() else {
            return Err(Failure::check(format!(
                "{wanted} is no policy, and promises nothing that could be proven in the lab"
            )));
        };
        let (changes, remarks) = lab::proof(&policy, name)?;
        announce(&policy.words(name), &remarks, args.json);
        return run(&lab_run(changes, None, &args.place, args.guest.clone(), args.json));
    }
    let (mut line, mut twin) = Default::default();
    if let Some(file) = &args.twin {
        (line, twin) = (twin::read(file)?, foretold(file, &log, args)?);
    }
    let to = args.to.as_deref().unwrap_or_default();
    let mut found = args.family.server(to, quell_wire::iperf3::PORT)?;
    let stop = crate::interrupt::bell()?;
    let secret = args.secret.read()?;
    if !args.json.json {
        say(&format!("{device}: {wanted}; to {to}\n"));
    }
    let address = found.to.ip();
    let mut load = |up: bool, look: &mut dyn FnMut()| {
        let plan = FlowPlan {
            direction: if up { Senders::Up } else { Senders::Down },
            amount: Amount::Time(args.time),
            interval: Span::from_millis(250),
            latency: true,
            secret: secret.clone(),
            ..FlowPlan::new(to, found.to)
        };
        let mut tell = |progress: Progress<'_>| {
            if let Progress::Interval(_) = progress {
                look();
            }
        };
        let outcome = found
            .reached(FlowError::is_nobody, |to| {
                quell_flow::run(&FlowPlan { to, control: to, ..plan.clone() }, &stop, &mut tell)
            })
            .map_err(CommandError::system)?;
        if let Some(broke) = &outcome.broke {
            return Err(CommandError::system(format!("the load broke off: {broke}")));
        }
        if outcome.stopped {
            return Err(CommandError::check("stopped before it was over"));
        }
        let findings = FlowReport::of(&outcome);
        let way = if up { &findings.up } else { &findings.down };
        let arrived = way.as_ref().and_then(|way| Some((way.received_bytes?, way.seconds?)));
        let (received_bytes, seconds) =
            arrived.ok_or_else(|| CommandError::system("how much arrived is unknown"))?;
        Ok(LoadResult {
            received_bytes,
            seconds,
            idle_ms: findings.idle.as_ref().map(|idle| idle.p50_ms),
            loaded_ms: findings.loaded.as_ref().map(|loaded| (loaded.p50_ms, loaded.p99_ms)),
            idle: json!(findings.idle),
            loaded: json!(findings.loaded),
        })
    };
    let mut tell = |proof: &DirectionProof| {
        if !args.json.json {
            let own = beside(&line, &twin, proof);
            say(&(text::proof(proof) + &text::checks(own.as_slice())));
        }
    };
    let mut report = prove::prove(&logs, device, address, &mut load, &mut tell)?;
    for way in &mut report.ways {
        way.checks.extend(beside(&line, &twin, way));
    }
    if args.json.json {
        println!("{}", document(&json!(report)));
    }
    Ok(ExitCode::from(u8::from(report.failed())))
}

/// What a line's twin foretells of a proof, up and down; it is printed.
fn foretold(file: &Path, log: &Log, args: &ProveArgs) -> Result<Vec<LoadFigures>, Failure> {
    let policy = policy_of_log(log)?;
    let (up, down) = policy.rates();
    let policy = LinePolicy { line: None, up, down, follow: None, ..policy };
    let mut changes = lab::prediction(&policy, quell_shaping::choose_with_cake(&policy))?;
    changes.push(twin::as_home_link(file)?.1);
    let silent = Json { json: true };
    let how = lab_run(changes, Some(args.time), &args.place, args.guest.clone(), silent);
    let (finished, experiment) = carried_out(&RunArgs { kernel: Some(args.kernel), ..how })?;
    let results = results::results_of(&finished, &experiment)?;
    let one = |load: &str| {
        let rows = || results.rows.iter().filter(|row| row.cell.scenario == load);
        let mbps = rows().find_map(|row| row.flow()?.carried_mbps)?;
        let rtt = rows().find_map(|row| row.echo()?.rtt_ms.as_ref())?;
        let (up, load, p50_ms, p95_ms) = (load == "up", load.to_owned(), rtt.p50, rtt.p95);
        if !args.json.json {
            say(&format!(
                "The twin foretells {mbps:.2} Mbit/s {load}, and beside it pings of {p50_ms:.1} ms, 95 % within {p95_ms:.1} ms.\n"
            ));
        }
        Some(LoadFigures { load, up, mbps, p50_ms, p95_ms })
    };
    let all: Option<Vec<_>> = ["up", "down"].into_iter().map(one).collect();
    all.ok_or_else(|| Failure::system("the twin could not be loaded"))
}

/// What was foretold, as a check of what was proven.
fn beside(line: &MeasuredLine, twin: &[LoadFigures], proof: &DirectionProof) -> Option<ProofCheck> {
    let twin = twin.iter().find(|one| one.load == proof.way)?;
    let received = |check: &ProofCheck| check.figures["received_bits_per_second"].as_f64();
    let measured = LoadFigures {
        mbps: proof.checks.iter().find_map(received)? / 1e6,
        p50_ms: proof.loaded["p50_ms"].as_f64()?,
        p95_ms: proof.loaded["p95_ms"].as_f64()?,
        ..twin.clone()
    };
    let all = compare(line, &[measured], std::slice::from_ref(twin));
    let verdict = if all.iter().any(Comparison::errs) {
        CheckVerdict::Fail
    } else if all.iter().any(Comparison::is_open) {
        CheckVerdict::Unknown
    } else {
        CheckVerdict::Pass
    };
    let says =
        |one: &Comparison| format!("{} {:.2}, foretold {:.2}", one.figure, one.measured, one.twin);
    let says = all.iter().map(says).collect::<Vec<_>>().join("; ");
    Some(ProofCheck { check: "it is as the twin foretold", verdict, says, figures: json!(all) })
}

pub fn try_it(args: &TryArgs) -> Result<ExitCode, Failure> {
    let twin = args.twin.as_ref().map(|file| twin::as_home_link(file)).transpose()?;
    let policy = match &twin {
        Some((line, _)) => LinePolicy { line: Some(*line), ..args.line.wanted()? },
        None => args.line.both_ways()?,
    };
    if policy.tree.is_some() {
        return Err(Failure::usage("a tree of one's own is tried as a `queue` of an experiment"));
    }
    // It runs in the lab's kernel, which has all of it.
    let name = quell_shaping::choose_with_cake(&policy);
    let (mut changes, mut remarks) = lab::rehearsal(&policy, name, args.how.path.path())?;
    changes.extend(twin.map(|(_, change)| change));
    remarks.extend(quell_shaping::lacking_here(&policy, name));
    announce(&policy.words(name), &remarks, args.json);
    run(&args.how.run_args(changes, args.json))
}

fn announce(words: &str, remarks: &[String], json: Json) {
    if !json.json {
        say(&format!("{words}, in the lab\n"));
        remarks.iter().for_each(|remark| say(&format!("{remark}\n")));
        println!();
    }
}

impl RehearsalArgs {
    fn run_args(&self, changes: Vec<String>, json: Json) -> RunArgs {
        lab_run(changes, Some(self.duration), &self.place, self.guest.clone(), json)
    }
}

/// home-link with changes, in the lab's kernel.
pub fn lab_run(
    changes: Vec<String>,
    duration: Option<Span>,
    place: &Place,
    guest: crate::options::Guest,
    json: Json,
) -> RunArgs {
    RunArgs {
        experiment: "home-link".into(),
        changes,
        line: None,
        path: LinePathArgs::default(),
        duration,
        repeat: None,
        seed: None,
        jobs: None,
        only: Vec::new(),
        parts: Parts::default(),
        place: Place { base: place.base.clone() },
        on: None,
        install: false,
        kernel: Some(Backend::Guest),
        guest,
        report: None,
        json,
    }
}

pub fn recipe(args: &RecipeArgs) -> Result<ExitCode, Failure> {
    let policy = args.line.both_ways()?;
    let target = args.target;
    let recipe = recipe::recipe(&policy, target, args.device.as_deref())?;
    let mut tried = None;
    if let (true, Some(name)) = (args.tried, recipe.policy) {
        let (changes, mut remarks) = lab::rehearsal(&policy, name, args.how.path.path())?;
        let how = args.how.run_args(changes, Json { json: false });
        let (finished, experiment) = carried_out(&how)?;
        // Comments have two columns less.
        let results = results::told(&finished, &experiment, 98)?;
        remarks.extend(recipe.not_tried.map(str::to_owned));
        tried = Some((remarks, results));
    }
    if args.json.json {
        let lab =
            tried.map(|(remarks, told)| json!({"remarks": remarks, "results": told.document}));
        let report = json!({
            "for": target.name(),
            "device": recipe.device,
            "wanted": recipe.words,
            "pieces": recipe.pieces,
            "remarks": recipe.said,
            "lab": lab,
        });
        println!("{}", document(&report));
    } else {
        let tried = tried.map(|(remarks, told)| (remarks, told.table));
        print!("{}", text::recipe(target, policy.line, &recipe, tried));
    }
    Ok(ExitCode::SUCCESS)
}

/// The text of LibreQoS' network.json.
fn network(args: &ImportArgs) -> Result<Option<String>, Failure> {
    let beside = args.file.with_file_name("network.json");
    let file = args.network.clone().or(beside.exists().then_some(beside));
    Ok(file.map(|file| text_of(&file)).transpose()?)
}

pub fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let text = text_of(&args.file)?;
    let imported = match args.format {
        ImportFormat::Sqm => sqm(&text, args.device.as_deref()),
        ImportFormat::Libreqos => libreqos(&text, network(args)?.as_deref()),
    };
    let refused = |why: String| Failure::unusable(format!("{}: {why}", args.file.display()));
    let Imported { wanted, left_out } = imported.map_err(refused)?;
    let mut text = String::new();
    for what in &left_out {
        let _ = writeln!(text, "# left out: {}", quell_wire::text::printable(what, 200));
    }
    if wanted.rates() == (None, None) {
        text.push_str("# what the line carries is not in that file; give it here, or as --line:\n# line = \"1000/1000\"\n");
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&toml::to_string(&wanted).map_err(Failure::system)?);
    hand_out(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_experiment::builtin;
    use quell_experiment::spec::{check, load_file, set};
    use quell_policy::{DeviceTraits, LineKind, LinePath, LinePolicy, PolicyName, Tell};

    /// The cells of `home-link` with these changes, and how many claims they make.
    fn planned(changes: &[String]) -> (Vec<quell_lab::cell::CellPlan>, usize) {
        let text = builtin::find("home-link").expect("the built-in one");
        let text = set::apply(text, changes).expect("fields that are there");
        let experiment = load_file::parse("try", &text).expect("an experiment");
        assert!(experiment.published().is_empty(), "others measured another line");
        (check::check(&experiment).expect("it fits together"), experiment.expect.len())
    }

    fn subscribers(count: u32, line: &str) -> LinePolicy {
        let one = |n: u32| {
            let prefix = std::net::Ipv4Addr::from_bits(0x0a00_0003 - n);
            format!(
                "[[subscriber]]\nname = \"s{n}\"\nprefixes = [\"{prefix}\"]\n\
                 up = {{ floor = \"10kbit\", ceiling = \"4Mbit\" }}\n\
                 down = {{ floor = \"10kbit\", ceiling = \"9Mbit\" }}\n"
            )
        };
        let all: String = (0..count).map(one).collect();
        toml::from_str(&format!("line = \"{line}\"\n{all}")).expect("a policy")
    }

    #[test]
    fn what_is_tried_is_what_would_be_applied_and_each_policy_has_its_claims() {
        let line = Some("10/50".parse().expect("rates"));
        let path = LinePath::of(Some(LineKind::Docsis), None, None);
        let plain = LinePolicy { line, ..LinePolicy::default() };
        let hosts = vec![vec!["192.0.2.7".parse().expect("an address")]];
        let named = LinePolicy { line, hosts, ..LinePolicy::default() };
        for (all, name) in [
            (plain.clone(), PolicyName::Cake),
            (plain, PolicyName::Tiers),
            (named, PolicyName::HostFair),
            (subscribers(2, "10/50"), PolicyName::Subscribers),
        ] {
            let (plans, _) = planned(&lab::rehearsal(&all, name, path).expect("changes").0);
            // Idle, upload, download and flood, each shaped too, with three probes.
            assert_eq!(plans.len(), 24);
            let shaped = plans.iter().find(|p| p.id.scenario == "bulk-shaped").expect("a cell");
            let (up, down) = all.rates();
            for (incoming, tell, rate) in
                [(false, Tell::Source, up), (true, Tell::Destination, down)]
            {
                let rate = rate.expect("both are known");
                let queue = shaped.queues.iter().find(|q| q.incoming == incoming).expect("one");
                if matches!(name, PolicyName::Cake | PolicyName::Tiers) {
                    let traits = DeviceTraits::default();
                    assert_eq!(Ok(queue.tree.clone()), all.tree(name, tell, rate, traits));
                }
            }
            let (_, claims) = planned(&lab::proof(&all, name).expect("changes").0);
            // Of two subscribers a floor and a ceiling each, both ways.
            let wanted = if name == PolicyName::Subscribers { 8 } else { 4 };
            assert_eq!(claims, wanted, "{name:?}");
        }
    }

    #[test]
    fn of_thousands_two_are_there_and_a_line_that_takes_too_long_is_refused() {
        // The third has 10.0.0.1, which in the lab is the first's.
        for count in [3, 1000] {
            let all = subscribers(count, "100/100");
            let (changes, said) =
                lab::rehearsal(&all, PolicyName::Subscribers, LinePath::default())
                    .expect("changes");
            assert_eq!(planned(&changes).0.len(), 24);
            let others = said.iter().any(|line| line.contains("the 998 others are not there"));
            assert_eq!(others, count == 1000, "{said:?}");
        }
        let too_fast = lab::rehearsal(
            &subscribers(3, "10000/10000"),
            PolicyName::Subscribers,
            LinePath::default(),
        );
        let why = too_fast.expect_err("the lab would take minutes for each second").to_string();
        assert!(why.contains("at most 1Gbit"), "{why}");
    }
}
