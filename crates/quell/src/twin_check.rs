//! `quell twin check`: loads that nothing was learnt from, on a line and through its twin, beside each other.

use crate::failure::Failure;
use crate::options::{Backend, Family, Json, SecretFile};
use crate::text::{columns, document, say};
use crate::twin::{read, tell};
use clap::Args;
use quell_finding::wrapped;
use quell_flow::FlowPlan;
use quell_series::MeasuredLine;
use quell_twin::held_out::{Comparison, LoadFigures, compare, measure, verdict};
use quell_twin::{TwinError, USUAL_BUDGET};
use quell_units::{Bytes, Span, fmt};
use serde_json::json;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// What `quell twin learn` wrote
    #[arg(default_value = "line.toml")]
    line: PathBuf,
    /// The other end, where `quell serve` runs [default: the one that the file names]
    host: Option<String>,
    /// Most that is sent [default: 150MB, beyond 100 Mbit/s as much more as the line is faster]
    #[arg(long, value_name = "BYTES")]
    budget: Option<Bytes>,
    /// What carries the twin's traffic: the guest kernel, or this machine's in real time
    #[arg(long, value_enum, default_value_t = Backend::Guest)]
    kernel: Backend,
    /// Print what the loads get, single flows with this congestion control
    #[arg(long, value_name = "NAME", hide = true)]
    alone: Option<String>,
    #[command(flatten)]
    family: Family,
    #[command(flatten)]
    json: Json,
    #[command(flatten)]
    secret: SecretFile,
}

/// How long each of five loads takes where what is sent is to stay within the budget, and how many bytes that is.
fn time(line: &MeasuredLine, budget: Option<Bytes>) -> Option<(Span, u64)> {
    let [up, down] = [line.up.passes()?, line.down.passes()?].map(|rate| rate.bps() as f64);
    let usual = USUAL_BUDGET * (up.max(down) / 1e8).max(1.0);
    let a_second = (2.0 * up + 3.0 * down) / 8.0;
    let seconds = (budget.map_or(usual, |bytes| bytes.get() as f64) / a_second).min(10.0);
    let time = Span::from_micros((seconds * 1e6) as u64);
    (seconds >= 1.0).then_some((time, (a_second * seconds) as u64))
}

/// `quell twin check`.
pub fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let line = read(&args.line)?;
    let host = args.host.as_ref().unwrap_or(&line.to);
    if host.is_empty() {
        return Err(Failure::usage("the file names no other end: give its HOST"));
    }
    let (time, bytes) = time(&line, args.budget).ok_or_else(|| {
        Failure::usage("a rate is unknown, or --budget is less than a second of each load")
    })?;
    let found = args.family.server(host, quell_wire::iperf3::PORT)?;
    let stop = crate::interrupt::bell()?;
    let mut plan = FlowPlan {
        congestion: vec![args.alone.clone().unwrap_or("bbr".into())],
        secret: args.secret.read()?,
        ..FlowPlan::new(host, found.to)
    };
    let seconds = 5.0 * time.as_secs_f64();
    tell(&format!("loads {host} for {seconds:.0} s with at most {}", fmt::bytes(bytes)));
    let mut progress = |load: &str, left: f64| tell(&format!("{load}: {left:.0} s left"));
    let mut loads = 0;
    let mut real = measure(&plan, time, &stop, &mut |load, left| {
        loads += 1;
        progress(load, left);
    });
    // The kernel of either end may lack BBR, which the first two loads have.
    if matches!(real, Err(TwinError::Flow(_))) && loads <= 2 && args.alone.is_none() {
        plan.congestion = vec!["cubic".to_owned()];
        real = measure(&plan, time, &stop, &mut progress);
    }
    let real = real.map_err(|error| match error {
        TwinError::Stopped => Failure::check(error),
        error => Failure::system(format!("{error}{}", found.hint())),
    })?;
    if args.alone.is_some() {
        println!("{}", document(&json!(real)));
        return Ok(ExitCode::SUCCESS);
    }
    tell("the same through its twin, in the lab");
    let all = compare(&line, &real, &through_twin(args, &plan)?);
    let holds = !all.iter().any(|one| one.errs() || one.is_open());
    let said = verdict(&all);
    if args.json.json {
        println!("{}", document(&json!({"holds": holds, "says": said, "figures": all})));
    } else {
        say(&format!("{}\n\n{}", wrapped(&said, columns()).join("\n"), table(&all)));
    }
    Ok(ExitCode::from(u8::from(!holds)))
}

fn table(all: &[Comparison]) -> String {
    let heads = format!("{:>40} {:>9} {:>9} {:>9}\n", "measured", "twin", "error", "allowed");
    let row = |one: &Comparison| {
        let [measured, twin] = [one.measured, one.twin].map(fmt::three_digits);
        let [error, allowed] = [one.error, one.allowed].map(|share| share * 100.0);
        let load = if one.figure.starts_with("goodput") {
            format!("{}\n", one.load)
        } else {
            String::new()
        };
        let errs = match (one.errs(), one.is_open()) {
            (true, _) => "  errs",
            (_, true) => "  unknown",
            _ => "",
        };
        format!(
            "{load}    {:24} {measured:>11} {twin:>9} {error:>+7.1} % {allowed:>7.1} %{errs}\n",
            one.figure
        )
    };
    heads + &all.iter().map(row).collect::<String>()
}

/// The same loads between two hosts of the lab, by this very program.
fn through_twin(args: &CheckArgs, plan: &FlowPlan) -> Result<Vec<LoadFigures>, Failure> {
    let failed = |why: String| Failure::system(format!("the loads through the twin: {why}"));
    let own = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let path = own.to_string_lossy();
    let quoted = shlex::try_quote(&path).map_err(|e| failed(e.to_string()))?;
    let line = std::fs::canonicalize(&args.line).map_err(|e| failed(e.to_string()))?;
    let budget = args.budget.map(|bytes| format!("--budget={}B", bytes.get()));
    let output = Command::new(&own)
        .args(["lab", "exec"])
        .arg(&line)
        .args(["a", "--kernel", if args.kernel == Backend::Guest { "guest" } else { "host" }])
        .args(["--with", &format!("b: {quoted} serve --bind ::"), "--", &path, "twin", "check"])
        .arg(&line)
        .args([if plan.to.is_ipv6() { "{b/6}" } else { "{b}" }, "--alone", &plan.congestion[0]])
        .args(budget)
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| failed(e.to_string()))
}
