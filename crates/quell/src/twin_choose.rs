//! `quell twin choose`: the queues that serve a measured line best, tried on its twin in the lab.

use crate::failure::Failure;
use crate::options::{Guest, Json, Place};
use crate::results::{shown, write};
use crate::run::carried_out;
use crate::text::{columns, document, say};
use crate::twin::{read, series as series_of};
use clap::Args;
use quell_finding::wrapped;
use quell_policy::{FollowPolicy, LinePolicy};
use quell_series::MeasuredLine;
use quell_twin::choose::{Candidate, Purpose, Trial, Tryout, changes, follow, trials};
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
    /// Leave no candidate out of the long rounds
    #[arg(long, hide = true)]
    whole_grid: bool,
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

/// A round of halving: seconds and number of windows, and how many of the candidates come that far.
type Round = (u64, u32, usize);
const STEADY: &[Round] = &[(9, 1, usize::MAX), (20, 1, 8), (20, 2, 5)];
/// Each window of a series is its start.
const FOLLOWED: &[Round] = &[(20, 1, usize::MAX), (60, 1, 5)];

/// What the line did as it is, and the candidates of a round, the best first.
type Tried = (Trial, Vec<Trial>);

/// `quell twin choose`.
pub fn choose(args: &ChooseArgs) -> Result<ExitCode, Failure> {
    let line = read(&args.line)?;
    let series = [(&line.up, true), (&line.down, false)];
    let [up, down] = series.map(|(way, is_up)| series_of(&args.line, way, is_up));
    let bounds = follow(&line, [up?, down?]);
    let rounds = try_all(args, &line, bounds.as_ref())?;
    let last = rounds.last().and_then(|(as_it_is, trials)| {
        let best = trials.first()?;
        Some((as_it_is, trials, best, best.candidate?))
    });
    let Some((as_it_is, trials, best, candidate)) = last else {
        return Err(Failure::check("no candidate could be measured"));
    };
    let chosen = candidate.policy(&line, bounds.as_ref()).unwrap_or_default();
    let policy = toml::to_string(&chosen).map_err(Failure::system)?;
    if let Some(output) = &args.output {
        write(output, policy.as_bytes())?;
    }
    if args.json.json {
        let row = |trial: &Trial| json_of(trial, args.purpose);
        let trials: Vec<_> = trials.iter().map(row).collect();
        let all = json!({"as_it_is": row(as_it_is), "best_first": trials, "policy": policy});
        println!("{}", document(&all));
        return Ok(ExitCode::SUCCESS);
    }
    let said = sentence(as_it_is, best, &chosen, &rounds);
    say(&format!("{}\n\n", wrapped(&said, columns()).join("\n")));
    table(as_it_is, trials);
    match &args.output {
        Some(output) => {
            let (output, file) = (shown(output), shown(&args.line));
            let to = if line.to.is_empty() { "SERVER" } else { &line.to };
            say(&format!(
                "\n{output}\nquell shape apply --dev DEVICE --file {output}\nquell shape prove --dev DEVICE --to {to} --twin {file}\n"
            ));
        }
        None => say(&format!("\n{policy}")),
    }
    Ok(ExitCode::SUCCESS)
}

fn json_of(trial: &Trial, purpose: Purpose) -> serde_json::Value {
    json!({
        "policy": trial.candidate.map(|one| one.policy),
        "percent": trial.candidate.map(|one| one.percent),
        "up_mbps": trial.up_mbps,
        "down_mbps": trial.down_mbps,
        "wait_p95_ms": trial.wait_ms,
        "page_s": trial.page_s,
        "worth": purpose.worth(trial),
    })
}

/// Round by round, the last one with the best.
fn try_all(
    args: &ChooseArgs,
    line: &MeasuredLine,
    bounds: Option<&FollowPolicy>,
) -> Result<Vec<Tried>, Failure> {
    let file = std::fs::canonicalize(&args.line).map_err(Failure::system)?;
    let own = std::env::current_exe().map_err(Failure::system)?;
    let (file, quell) = (file.to_string_lossy(), own.to_string_lossy());
    let mut candidates = Candidate::all(bounds.is_some());
    let mut rounds: Vec<Tried> = Vec::new();
    let wanted = if bounds.is_some() { FOLLOWED } else { STEADY };
    for &(seconds, windows, count) in wanted {
        let count = if args.whole_grid { usize::MAX } else { count };
        if let Some((_, trials)) = rounds.last() {
            candidates = trials.iter().filter_map(|trial| trial.candidate).take(count).collect();
        }
        let duration = Span::from_secs(seconds);
        let (file, quell) = (&file, &quell);
        let tryout =
            Tryout { file, line, bounds, candidates: &candidates, duration, windows, quell };
        let changes = changes(&tryout)
            .ok_or_else(|| Failure::check("the line's rate is unknown: no queue can be chosen"))?;
        let json = Json { json: true };
        let run = crate::shape::lab_run(changes, None, &args.place, args.guest.clone(), json);
        let (finished, experiment) = carried_out(&run)?;
        let results = crate::results::results_of(&finished, &experiment)?;
        let mut trials = trials(&results, &candidates);
        if trials.first().is_none_or(|first| first.candidate.is_some()) {
            return Err(Failure::check("the line as it is could not be measured"));
        }
        let as_it_is = trials.remove(0);
        args.purpose.rank(&mut trials);
        rounds.push((as_it_is, trials));
    }
    Ok(rounds)
}

/// What was chosen, what it does, and what the next larger part of the rates would cost.
fn sentence(as_it_is: &Trial, best: &Trial, chosen: &LinePolicy, rounds: &[Tried]) -> String {
    let Some(candidate) = best.candidate else { return String::new() };
    let rates = match &chosen.follow {
        Some(follow) => format!(
            ", which follows the line between {} and {} Mbit/s",
            String::from(follow.floor),
            String::from(follow.ceiling)
        ),
        None => format!(" at {} % of the measured rates", candidate.percent),
    };
    format!(
        "{}{rates}: beside full load a ping waits {} ms instead of {} ms (p95), and the line carries {:.1} % of what it does as it is.{}",
        candidate.policy.name(),
        fmt::ms(best.wait_ms),
        fmt::ms(as_it_is.wait_ms),
        100.0 * best.carried_mbps() / as_it_is.carried_mbps(),
        next_step(rounds, candidate)
    )
}

/// What the next larger part of the rates costs, by the last round that has both; nothing where it carries no more.
fn next_step(rounds: &[Tried], candidate: Candidate) -> String {
    let tried = rounds.iter().flat_map(|(_, trials)| trials).filter_map(|trial| trial.candidate);
    let above = tried.map(|one| one.percent).filter(|percent| *percent > candidate.percent).min();
    let percent = above.unwrap_or(candidate.percent);
    let both = rounds.iter().rev().find_map(|(_, trials)| {
        let found = |one| trials.iter().find(|trial| trial.candidate == Some(one));
        Some((found(Candidate { percent, ..candidate })?, found(candidate)?))
    });
    let Some((next, own)) = both else { return String::new() };
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

fn table(as_it_is: &Trial, trials: &[Trial]) {
    say(&format!("{:16} {:>9} {:>9} {:>10} {:>8}\n", "", "up", "down", "wait p95", "1 MB"));
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
