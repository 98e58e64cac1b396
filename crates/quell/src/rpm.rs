//! `quell flow --rpm`: responsiveness under working conditions.

use crate::failure::Failure;
use crate::flow::{self, FlowArgs};
use crate::progress::StatusLine;
use crate::results;
use crate::text::say;
use clap::ArgMatches;
use clap::parser::ValueSource;
use quell_rpm::{Figures, LoadDirection, RpmError, RpmPlan, RpmReport, measure, sure};
use quell_store::End;
use quell_tls::trust::{Trust, certificates};
use quell_web::url::Url;
use std::fmt::Write;
use std::process::ExitCode;

/// Options of `quell flow` that mean something with `--rpm`.
const TAKEN: [&str; 15] = [
    "color",
    "rpm",
    "host",
    "port",
    "client",
    "time",
    "ca",
    "insecure",
    "save",
    "base",
    "ipv4",
    "ipv6",
    "json",
    "iperf3_json",
    "secret_file",
];

/// How long each direction takes at most, in seconds.
const USUAL: u16 = 20;
const LEAST: u16 = 4;
const MOST: u16 = 120;

/// `quell flow`, and what it becomes with `--rpm`.
pub fn flow_or_rpm(typed: &ArgMatches) -> Result<ExitCode, Failure> {
    let args: FlowArgs = crate::command::read(typed);
    if !args.rpm {
        return flow::flow(&args);
    }
    let is_typed = |name: &str| typed.value_source(name) == Some(ValueSource::CommandLine);
    // Beside options there are groups of them, named as types are.
    let mut names = typed.ids().map(clap::Id::as_str);
    let other =
        names.find(|n| !n.starts_with(char::is_uppercase) && is_typed(n) && !TAKEN.contains(n));
    if let Some(other) = other {
        let other = other.replace('_', "-");
        return Err(Failure::usage(format!("--rpm has no place for --{other}: leave one out")));
    }
    if args.iperf3_json {
        return Err(Failure::usage("iperf3 has no JSON for --rpm: give --json alone"));
    }
    let seconds = if is_typed("time") { args.time.as_secs_f64() } else { USUAL.into() };
    if !(f64::from(LEAST)..=f64::from(MOST)).contains(&seconds) {
        return Err(Failure::usage(format!(
            "--rpm measures each direction for {LEAST} to {MOST} s: give another --time"
        )));
    }
    rpm(&args, seconds.ceil() as u16)
}

fn rpm(args: &FlowArgs, seconds: u16) -> Result<ExitCode, Failure> {
    let url = args.host.as_ref().or(args.client.as_ref());
    let url = url.ok_or_else(|| Failure::usage("the server is missing: quell flow HOST --rpm"))?;
    let (name, port, tls) = server(url, args.port)?;
    let found = args.family.server(&name, port)?;
    let authority = authority(&name, found.to.port());
    let trust = match (&args.ca, args.insecure) {
        (Some(path), _) => Trust::Named(certificates(path).map_err(Failure::usage)?),
        (None, true) => Trust::Anyone,
        (None, false) => Trust::System,
    };
    let secret = args.secret.read()?;
    let plan = RpmPlan { to: found.to, authority, tls, trust, secret, most: seconds.into() };
    if args.save {
        args.place.can_be_written()?;
    }
    let stop = crate::interrupt::bell()?;
    let shows = StatusLine::default();
    let measured = measure(&plan, &stop, &mut |way, now| shows.show(&meanwhile(way, now)));
    drop(shows);
    let outcome = measured.map_err(|error| match error {
        RpmError::Stopped => Failure::check(error),
        error => Failure::system(format!("{error}{}", found.hint())),
    })?;
    let broke = [&outcome.down, &outcome.up].into_iter().flatten().find_map(|f| f.broke.as_ref());
    let run = match args.save {
        true => {
            let end = End::of(broke.map(String::as_str), stop.rings());
            Some(quell_rpm::save(&args.place.base, &plan, &outcome, end))
        }
        false => None,
    };
    // What was measured is told whether or not it could be kept.
    let (run, unkept) = match run {
        Some(Err(failure)) => (None, Some(failure)),
        kept => (kept.and_then(Result::ok), None),
    };
    match args.json {
        true => {
            println!("{}", crate::text::document(&outcome.document(&plan, run.as_deref())));
        }
        false => say(&text(&plan, &outcome)),
    }
    if let Some(failure) = unkept {
        return Err(failure.into());
    }
    if let Some(run) = run.filter(|_| !args.json) {
        say(&format!("\nkept as {}\n", results::shown(&run)));
    }
    match broke {
        _ if outcome.rpm().is_some() => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::check(format!("a direction broke off: {why}"))),
        None => Err(Failure::check("no probe came back: no figure")),
    }
}

/// The host as `host::resolve` reads it, the port where it names none, and whether it is asked over TLS.
fn server(text: &str, port: u16) -> Result<(String, u16, bool), Failure> {
    if !text.contains("://") {
        return Ok((text.trim_end_matches('/').to_owned(), port, false));
    }
    let url = Url::parse(text).ok_or_else(|| {
        Failure::usage(format!(
            "`{text}` is no address; give HOST[:PORT], http://HOST[:PORT] or https://HOST[:PORT]"
        ))
    })?;
    if url.path != "/" && url.path != quell_web::well_known::PATH {
        return Err(Failure::usage(format!(
            "`{text}`: the draft has its words at {}, so name the host alone",
            quell_web::well_known::PATH
        )));
    }
    Ok((url.authority(), url.port, url.tls))
}

/// As a request names the host: as the person did.
fn authority(name: &str, port: u16) -> String {
    let bare = match name.parse::<std::net::Ipv6Addr>() {
        Ok(ip) => format!("[{ip}]"),
        Err(_) => name.to_owned(),
    };
    let has_port =
        bare.rsplit_once(':').is_some_and(|(_, end)| end.bytes().all(|b| b.is_ascii_digit()));
    if has_port && !bare.ends_with(']') { bare } else { format!("{bare}:{port}") }
}

/// What a person sees meanwhile.
fn meanwhile(way: LoadDirection, now: &Figures) -> String {
    let rpm =
        now.responsiveness.map_or("…".into(), |r| format!("{:.0} round trips a minute", r.rpm));
    format!(
        "{}: {} s, {} connections, {:.1} Mbit/s, {rpm}",
        way.name(),
        now.intervals,
        now.connections,
        now.bits_per_second / 1e6
    )
}

fn text(plan: &RpmPlan, outcome: &RpmReport) -> String {
    let over = match outcome.idle_tls_ms {
        Some(_) => "over TLS and HTTP/2",
        None => "over http",
    };
    let mut out = outcome.grade().map_or_else(String::new, |grade| grade.said() + "\n");
    let _ = writeln!(out, "responsiveness to {} ({}), {over}", plan.authority, plan.to.ip());
    let tls = |ms: Option<f64>| ms.map(|ms| format!(" TLS {ms:.1} ms,")).unwrap_or_default();
    let _ = writeln!(
        out,
        "idle: a connection takes {:.1} ms,{} a request {:.1} ms\n",
        outcome.idle_tcp_ms,
        tls(outcome.idle_tls_ms),
        outcome.idle_http_ms
    );
    if let Some(headline) = outcome.headline() {
        let _ = writeln!(out, "{headline}\n");
    }
    for (way, figures) in [(LoadDirection::Down, &outcome.down), (LoadDirection::Up, &outcome.up)] {
        let Some(figures) = figures else { continue };
        let _ = writeln!(
            out,
            "{:<5} {:.2} Mbit/s ({}), {} connections, {} s",
            way.name(),
            figures.bits_per_second / 1e6,
            sure(figures.goodput_confidence),
            figures.connections,
            figures.intervals
        );
        if let Some(r) = figures.responsiveness {
            let most = if r.at_most { "at most " } else { "" };
            let _ = writeln!(
                out,
                "      {most}{:.0} round trips a minute ({})\n      {most}{:.0} beside the load: connection {:.1} ms,{} request {:.1} ms ({} probes)\n      \
                 {:.0} within it: {:.1} ms{} ({} {})",
                r.rpm,
                sure(figures.confidence),
                r.foreign_rpm,
                r.tcp_ms,
                tls(r.tls_ms),
                r.http_ms,
                figures.foreign_probes,
                r.loaded_rpm,
                r.loaded_ms,
                if r.tls_ms.is_some() { "" } else { ", by TCP" },
                figures.self_probes,
                if r.tls_ms.is_some() { "probes" } else { "looks" },
            );
        }
        // Without a figure it is what the command ends with.
        if let Some(why) = figures.broke.as_ref().filter(|_| outcome.rpm().is_some()) {
            let _ = writeln!(out, "      broke off then: {why}");
        }
        if let Some(unanswered) = unanswered(figures) {
            let _ = writeln!(out, "      {unanswered}");
        }
    }
    out
}

/// Of probes that had no answer.
fn unanswered(figures: &Figures) -> Option<String> {
    let (many, waited_s) = (figures.unanswered, figures.waited_s?);
    let probes = if many == 1 { "probe was" } else { "probes were" };
    let took = match figures.responsiveness {
        Some(r) if r.at_most => "each counts as if it had taken as long as it was waited for",
        // They are the longest of its seconds, or of seconds before.
        Some(_) => "the figure does not rest on them",
        None => "what one takes is not known",
    };
    Some(format!(
        "{many} {probes} closed by the server without an answer, after {waited_s:.1} s at most: {took}.\n      \
         The line's queue may hold a request for longer than the server waits for it"
    ))
}
