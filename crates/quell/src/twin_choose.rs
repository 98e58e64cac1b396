//! `quell twin choose`: the queues that serve a measured line best, tried on its twin in the lab.

use crate::failure::Failure;
use crate::options::{Guest, Json, Place};
use crate::results::{shown, write};
use crate::run::carried_out;
use crate::text::{columns, document, say};
use crate::twin::{read, series as series_of};
use clap::Args;
use quell_finding::wrapped;
use quell_policy::LinePolicy;
use quell_twin::choose::{Candidate, Purpose, Trial, changes, follow, trials};
use quell_units::{Span, fmt};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct ChooseArgs {
    /// What `quell twin learn` wrote
    #[arg(default_value = "line.toml")]
    line: PathBuf,
    /// What the line is for: call, page, bulk or all
    #[arg(long = "for", value_name = "PURPOSE", default_value = "all", value_parser = purpose)]
    purpose: Purpose,
    /// Policy to write, for `quell shape apply --file`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    guest: Guest,
    #[command(flatten)]
    json: Json,
}

fn purpose(text: &str) -> Result<Purpose, String> {
    Purpose::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
        let names = Purpose::ALL.map(Purpose::name);
        format!("it is one of {}", names.join(", "))
    })
}

/// Those that are tried longer, in so many windows.
const FINALISTS: usize = 5;
const WINDOWS: u32 = 3;

/// `quell twin choose`.
pub fn choose(args: &ChooseArgs) -> Result<ExitCode, Failure> {
    let line = read(&args.line)?;
    let file = std::fs::canonicalize(&args.line).map_err(Failure::system)?;
    let tried = |candidates: &[Candidate], seconds: u64, windows: u32| {
        let duration = Span::from_secs(seconds);
        let changes = changes(&file.to_string_lossy(), &line, candidates, duration, windows)
            .ok_or_else(|| Failure::check("the line's rate is unknown: no queue can be chosen"))?;
        let run = crate::shape::lab_run(
            changes,
            None,
            &args.place,
            args.guest.clone(),
            Json { json: true },
        );
        let (finished, experiment) = carried_out(&run)?;
        let results = crate::results::results_of(&finished, &experiment)?;
        let mut trials = trials(&results, candidates);
        if trials.first().is_none_or(|first| first.candidate.is_some()) {
            return Err(Failure::check("the line as it is could not be measured"));
        }
        let as_it_is = trials.remove(0);
        args.purpose.rank(&line, &mut trials);
        Ok((as_it_is, trials))
    };
    let series = [(&line.up, true), (&line.down, false)];
    let [up, down] = series.map(|(way, is_up)| series_of(&args.line, way, is_up));
    let follow = follow(&line, [up?, down?]);
    // Each window of a series is its start.
    let lengths = if follow.is_some() { (20, 60, 1) } else { (9, 20, WINDOWS) };
    let (_, first) = tried(&Candidate::all(), lengths.0, 1)?;
    let finalists: Vec<Candidate> =
        first.iter().filter_map(|trial| trial.candidate).take(FINALISTS).collect();
    let (as_it_is, trials) = tried(&finalists, lengths.1, lengths.2)?;
    let best = trials.first().and_then(|best| Some((best, best.candidate?)));
    let Some((best, candidate)) = best else {
        return Err(Failure::check("no candidate could be measured"));
    };
    let mut policy = candidate.policy(&line).unwrap_or_default();
    let mut step = next_step(&first, candidate);
    if let Some(follow) = follow {
        let (floor, ceiling) = (String::from(follow.floor), String::from(follow.ceiling));
        step = format!(" Its rate varies: the policy follows it between {floor} and {ceiling}.");
        policy = LinePolicy { follow: Some(follow), up: None, down: None, ..policy };
    }
    let policy = toml::to_string(&policy).map_err(Failure::system)?;
    if let Some(output) = &args.output {
        write(output, policy.as_bytes())?;
    }
    if args.json.json {
        let row = |trial: &Trial| {
            json!({
                "policy": trial.candidate.map(|one| one.policy),
                "percent": trial.candidate.map(|one| one.percent),
                "up_mbps": trial.up_mbps,
                "down_mbps": trial.down_mbps,
                "wait_p99_ms": trial.wait_ms,
                "page_s": trial.page_s,
            })
        };
        let trials: Vec<_> = trials.iter().map(row).collect();
        let all = json!({"as_it_is": row(&as_it_is), "best_first": trials, "policy": policy});
        println!("{}", document(&all));
        return Ok(ExitCode::SUCCESS);
    }
    print(&as_it_is, &trials, (best, candidate), &step);
    match &args.output {
        Some(output) => {
            let output = shown(output);
            say(&format!("\n{output}\nquell shape apply --dev DEVICE --file {output}\n"));
        }
        None => say(&format!("\n{policy}")),
    }
    Ok(ExitCode::SUCCESS)
}

/// What the next larger part of the rates costs, by the first round; nothing where it carries no more.
fn next_step(first: &[Trial], candidate: Candidate) -> String {
    let found = |percent| {
        let one = Some(Candidate { percent, ..candidate });
        first.iter().find(|trial| trial.candidate == one)
    };
    let percents = first.iter().filter_map(|trial| trial.candidate).map(|one| one.percent);
    let above = percents.filter(|percent| *percent > candidate.percent).min();
    let trials =
        above.and_then(|percent| Some((percent, found(percent)?, found(candidate.percent)?)));
    let Some((percent, next, own)) = trials else { return String::new() };
    let more = 100.0 * (next.carried_mbps() / own.carried_mbps() - 1.0);
    let longer_ms = next.wait_ms - own.wait_ms;
    match more > 0.05 && longer_ms > 0.0 {
        true => format!(
            " At {percent} % it carries {more:.1} % more, and a ping waits {} ms longer.",
            fmt::ms(longer_ms)
        ),
        false => String::new(),
    }
}

fn print(as_it_is: &Trial, trials: &[Trial], (best, candidate): (&Trial, Candidate), step: &str) {
    let share = 100.0 * best.carried_mbps() / as_it_is.carried_mbps();
    let said = format!(
        "{} at {} % of the measured rates: beside full load a ping waits {} ms instead of {} ms (p99), and the line carries {share:.1} % of what it \
         does as it is.",
        candidate.policy.name(),
        candidate.percent,
        fmt::ms(best.wait_ms),
        fmt::ms(as_it_is.wait_ms),
    ) + step;
    say(&format!("{}\n\n", wrapped(&said, columns()).join("\n")));
    say(&format!("{:16} {:>9} {:>9} {:>10} {:>8}\n", "", "up", "down", "wait p99", "1 MB"));
    say(&format!("{:16} {:>9} {:>9} {:>10} {:>8}\n", "", "Mbit/s", "Mbit/s", "ms", "s"));
    for trial in std::iter::once(as_it_is).chain(trials) {
        let name = trial.candidate.map_or("as it is".to_owned(), |one| {
            format!("{} {} %", one.policy.name(), one.percent)
        });
        say(&format!(
            "{name:16} {:>9.2} {:>9.2} {:>10.1} {:>8.2}\n",
            trial.up_mbps, trial.down_mbps, trial.wait_ms, trial.page_s
        ));
    }
}
