//! `quell rpm`: responsiveness under working conditions.

use crate::failure::Failure;
use crate::host::{self, Usual};
use crate::options::{Family, Json};
use clap::Args;
use quell_rpm::{Figures, Outcome, RpmError, RpmPlan, Way, measure};
use quell_sys::wait::Bell;
use quell_web::rpm::{Confidence, word};
use quell_web::url::Url;
use std::fmt::Write;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

/// The port of `quell serve`.
const PORT: u16 = quell_wire::iperf3::PORT;

/// Options of `quell rpm`.
#[derive(Debug, Args)]
pub struct RpmArgs {
    /// The server: HOST, HOST:PORT, or http://HOST[:PORT]
    #[arg(value_name = "URL")]
    pub url: String,
    /// Most seconds for each direction
    #[arg(short, long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u16).range(4..=120))]
    pub time: u16,
    #[command(flatten)]
    pub family: Family,
    #[command(flatten)]
    pub json: Json,
    #[command(flatten)]
    pub secret: crate::secret::SecretFile,
}

/// `quell rpm`.
pub fn rpm(args: &RpmArgs) -> Result<ExitCode, Failure> {
    let (name, port) = server(&args.url)?;
    let usual = Usual { family: args.family, own: None, port: Some(port), device: None };
    let found = host::resolve(&name, usual).map_err(Failure::usage)?;
    let authority = authority(&name, found.to.port());
    let plan =
        RpmPlan { to: found.to, authority, secret: args.secret.read()?, most: args.time.into() };
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    crate::interrupt::listen(&stop)?;
    let mut shows = Progress { live: std::io::stderr().is_terminal() };
    let measured = measure(&plan, &stop, &mut |way, now| shows.tell(way, now));
    shows.clear();
    let outcome = measured.map_err(|error| match error {
        RpmError::Stopped => Failure::check(error),
        error => Failure::system(format!("{error}{}", found.hint())),
    })?;
    match args.json.json {
        true => println!("{}", json(&plan, &outcome)),
        false => print!("{}", text(&plan, &outcome)),
    }
    let broke = [&outcome.down, &outcome.up].into_iter().flatten().find_map(|f| f.broke.as_ref());
    match broke {
        Some(why) => Err(Failure::check(format!("a direction broke off: {why}"))),
        None if outcome.rpm().is_none() => Err(Failure::check("no probe came back: no figure")),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The host as `host::resolve` reads it, and the port where it names none.
fn server(text: &str) -> Result<(String, u16), Failure> {
    if !text.contains("://") {
        return Ok((text.trim_end_matches('/').to_owned(), PORT));
    }
    let url = Url::parse(text).ok_or_else(|| {
        Failure::usage(format!("`{text}` is no address; give http://HOST[:PORT] or HOST[:PORT]"))
    })?;
    if url.tls {
        return Err(Failure::usage(format!("`{text}`: only http is measured yet, not https")));
    }
    if url.path != "/" && url.path != quell_web::nq::PATH {
        return Err(Failure::usage(format!(
            "`{text}`: the draft has its words at {}, so name the host alone",
            quell_web::nq::PATH
        )));
    }
    Ok((url.authority(), url.port))
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
struct Progress {
    live: bool,
}

impl Progress {
    fn tell(&mut self, way: Way, now: &Figures) {
        if !self.live {
            return;
        }
        let rpm = now
            .responsiveness
            .map_or("…".into(), |r| format!("{:.0} round trips a minute", r.rpm));
        let line = format!(
            "{}: {} s, {} connections, {:.1} Mbit/s, {rpm}",
            name(way),
            now.intervals,
            now.connections,
            now.bits_per_second / 1e6
        );
        eprint!("\r{line:<78}");
    }

    fn clear(&self) {
        if self.live {
            eprint!("\r{:<78}\r", "");
        }
    }
}

fn name(way: Way) -> &'static str {
    match way {
        Way::Down => "down",
        Way::Up => "up",
    }
}

fn sure(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "stable",
        Confidence::Medium => "not stable in the time there was",
        Confidence::Low => "too short to say",
    }
}

fn text(plan: &RpmPlan, outcome: &Outcome) -> String {
    let mut out = format!("responsiveness to {} ({}), over http\n", plan.authority, plan.to.ip());
    let _ = writeln!(
        out,
        "idle: a connection takes {:.1} ms, a request {:.1} ms\n",
        outcome.idle_tcp_ms, outcome.idle_http_ms
    );
    if let Some(rpm) = outcome.rpm() {
        let _ =
            writeln!(out, "{rpm:.0} round trips a minute while the line is full: {}.\n", word(rpm));
    }
    for (way, figures) in [(Way::Down, &outcome.down), (Way::Up, &outcome.up)] {
        let Some(figures) = figures else { continue };
        let _ = writeln!(
            out,
            "{:<5} {:.2} Mbit/s ({}), {} connections, {} s",
            name(way),
            figures.bits_per_second / 1e6,
            sure(figures.goodput_confidence),
            figures.connections,
            figures.intervals
        );
        if let Some(r) = figures.responsiveness {
            let _ = writeln!(
                out,
                "      {:.0} round trips a minute ({})\n      {:.0} beside the load: connection {:.1} ms, request {:.1} ms ({} probes)\n      \
                 {:.0} within it: {:.1} ms, by TCP ({} looks)",
                r.rpm,
                sure(figures.confidence),
                r.foreign_rpm,
                r.tcp_ms,
                r.http_ms,
                figures.foreign_probes,
                r.loaded_rpm,
                r.loaded_ms,
                figures.self_probes
            );
        }
    }
    out
}

fn json(plan: &RpmPlan, outcome: &Outcome) -> String {
    let value = serde_json::json!({
        "server": plan.authority,
        "address": plan.to.to_string(),
        "rpm": outcome.rpm(),
        "word": outcome.rpm().map(word),
        "idle_tcp_ms": outcome.idle_tcp_ms,
        "idle_http_ms": outcome.idle_http_ms,
        "down": outcome.down,
        "up": outcome.up,
    });
    // Texts and numbers are always JSON.
    serde_json::to_string_pretty(&value).unwrap_or_default()
}
