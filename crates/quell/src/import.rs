//! `quell import`: what other programs measured, as a run of Quell.
//!
//! ```text
//!   file of ping-exp ──► streams: numbers, round-trip times ──► a run, for show, plot, view and report
//!   files of Flent, irtt, iperf3, fping (foreign.rs) ─────────► a run each
//! ```

pub mod foreign;

use crate::failure::Failure;
use crate::keep::{About, End, Keep, Origin};
use crate::options::{Json, Place};
use crate::text::say;
use clap::Args;
use quell_model::{EchoSample, EchoStatus, Event, Fact, Subject, Told, When};
use quell_pingexp::{Experiment, Fate, MOST_BYTES, Packet, PingExp};
use quell_sys::input::Input;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Options of `quell import pingexp`.
#[derive(Debug, Args)]
pub struct PingExpArgs {
    /// The file
    pub file: PathBuf,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub json: Json,
}

/// Between packets, where the file does not say it: ping-exp's own default.
const USUAL_INTERVAL_S: f64 = 0.2;

/// Packets in one event: a frame stays small.
const BATCH: usize = 4096;

/// One stream with its packets.
struct ImportedStream<'a> {
    experiment: &'a Experiment,
    packets: Vec<Packet>,
}

/// `quell import pingexp`.
pub fn pingexp(args: &PingExpArgs) -> Result<ExitCode, Failure> {
    let refused = |e: &dyn std::fmt::Display| {
        Failure::usage(format!("{} is not imported: {e}", args.file.display()))
    };
    let bytes = contents(&args.file, MOST_BYTES)?;
    let file = quell_pingexp::read(&bytes).map_err(|e| refused(&e))?;
    let mut streams = Vec::new();
    let mut left = quell_pingexp::MOST_PACKETS;
    for experiment in &file.experiments {
        let packets = experiment.packets(file.count).map_err(|e| refused(&e))?;
        let too_many = quell_pingexp::PickleError::TooMany;
        left = left.checked_sub(packets.len()).ok_or_else(|| refused(&too_many))?;
        streams.push(ImportedStream { experiment, packets });
    }
    if streams.iter().all(|s| s.packets.is_empty()) {
        return Err(refused(&"it holds no packets"));
    }
    let interval = file.interval_s.filter(|s| (1e-6..=86_400.0).contains(s));
    let step_ns = (interval.unwrap_or(USUAL_INTERVAL_S) * 1e9).round() as i64;
    let started = file.started.and_then(time);
    let about = about(args, &file, &streams, step_ns, started);
    let folder = keep(&args.place.base, &about, &streams, step_ns)?;
    if args.json.json {
        let document = document(&streams, interval, started, &folder);
        println!("{}", crate::text::document(&document));
    } else {
        tell(&streams, interval, started, &folder);
    }
    Ok(ExitCode::SUCCESS)
}

/// What stands in a file, one byte more than is read at most: a longer file is refused by its reader, and not cut.
fn contents(path: &Path, most: usize) -> Result<Vec<u8>, Failure> {
    let failed = |e: std::io::Error| Failure::usage(format!("reading {}: {e}", path.display()));
    let mut bytes = Vec::new();
    let most = most as u64 + 1;
    Input::open(path).map_err(failed)?.take(most).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Seconds since 1970 as a time, where a run's name can hold it.
fn time(seconds: f64) -> Option<SystemTime> {
    // Up to the end of the year 9999.
    let seconds = Some(seconds).filter(|s| (0.0..253_402_300_799.0).contains(s))?;
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// A name for the task that is not that of a stream: analysis would take the other streams for loads.
fn unlike<'a>(name: &str, streams: impl Iterator<Item = &'a str> + Clone) -> String {
    let mut name = name.to_owned();
    while streams.clone().any(|stream| stream == name) {
        name.push('\'');
    }
    name
}

/// What was measured, and what the file does not say of it.
fn about(
    args: &PingExpArgs,
    file: &PingExp,
    streams: &[ImportedStream],
    step_ns: i64,
    started: Option<SystemTime>,
) -> About {
    let stem = args.file.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let name = args.file.file_name().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let sent = streams.iter().filter_map(|s| s.packets.last()).map(|p| p.seq + 1).max();
    let took_s = file.started.zip(file.ended).map(|(from, to)| to - from).filter(|s| *s >= 0.0);
    let mut text = format!("# imported from a file of ping-exp: {}\n", name.escape_debug());
    for stream in streams {
        let e = stream.experiment;
        let tos = e.tos.as_deref().unwrap_or("none");
        let line = format!("# -t {:?},{:?},{:?}\n", e.id, e.host, tos);
        text.push_str(&line);
    }
    About {
        name: if stem.is_empty() { "ping-exp".into() } else { stem },
        scenario: "ping-exp".into(),
        title: format!("Pings by ping-exp, from {name}"),
        task: unlike("ping-exp", streams.iter().map(|s| &*s.experiment.id)),
        clock: "round-trip times as ping printed them; sending times are number times interval, as ping-exp kept none".into(),
        seed: 0,
        window_ns: sent.and_then(|n| n.checked_mul(step_ns.unsigned_abs())),
        origin: Origin::Elsewhere { started, took_s, text, program: "ping-exp" },
    }
}

fn keep(
    base: &Path,
    about: &About,
    streams: &[ImportedStream],
    step_ns: i64,
) -> Result<PathBuf, Failure> {
    let mut keep = Keep::begin(base, about)?;
    for stream in streams {
        let e = stream.experiment;
        for (key, value) in facts(e) {
            let subject = Subject::stream(&*e.id, Told::Other(key.into()));
            keep.event(&Fact::new(When::Before, subject, value).into())?;
        }
        for packets in stream.packets.chunks(BATCH) {
            let samples = packets.iter().map(|p| sample(p, step_ns)).collect();
            keep.event(&Event::Echo { stream: e.id.clone(), samples })?;
        }
    }
    keep.finish(End::Done)
}

/// What the file says of a stream beside its packets.
fn facts(e: &Experiment) -> Vec<(&'static str, String)> {
    let mut facts = vec![("host", e.host.clone())];
    facts.extend(e.tos.clone().map(|tos| ("tos", tos)));
    let ttls = || e.replies.iter().filter_map(|r| r.ttl);
    if let Some((least, most)) = ttls().min().zip(ttls().max()) {
        let words = if least == most { least.to_string() } else { format!("{least} to {most}") };
        facts.push(("ttl", words));
    }
    if let Some(summary) = e.summary {
        facts.push(("transmitted", summary.transmitted.to_string()));
        facts.push(("received", summary.received.to_string()));
    }
    facts
}

fn sample(packet: &Packet, step_ns: i64) -> EchoSample {
    let (status, ms) = match packet.fate {
        Fate::Answered(ms) => (EchoStatus::Ok, Some(ms)),
        Fate::Duplicate(ms) => (EchoStatus::Duplicate, Some(ms)),
        Fate::Lost => (EchoStatus::Lost, None),
    };
    EchoSample {
        t_ns: i64::try_from(packet.seq).unwrap_or(i64::MAX).saturating_mul(step_ns),
        seq: packet.seq,
        rtt_ns: ms.map(|ms| (ms * 1e6).round() as u64),
        up_ns: None,
        down_ns: None,
        up_order: None,
        down_order: None,
        seen_late_ns: None,
        queued_ns: None,
        sent_late_ns: None,
        bytes: 0,
        status,
    }
}

impl ImportedStream<'_> {
    /// Packets that were answered, and answers that came again.
    fn counts(&self) -> (usize, usize) {
        let count = |is: fn(&Fate) -> bool| self.packets.iter().filter(|p| is(&p.fate)).count();
        (count(|f| matches!(f, Fate::Answered(_))), count(|f| matches!(f, Fate::Duplicate(_))))
    }
}

/// The same as [`tell`] for a program; what the file does not say is null.
fn document(
    streams: &[ImportedStream],
    interval: Option<f64>,
    started: Option<SystemTime>,
    folder: &Path,
) -> serde_json::Value {
    let one = |stream: &ImportedStream| {
        let (answered, again) = stream.counts();
        serde_json::json!({
            "stream": stream.experiment.id,
            "host": stream.experiment.host,
            "tos": stream.experiment.tos,
            "packets": stream.packets.len() - again,
            "answered": answered,
            "duplicates": again,
        })
    };
    serde_json::json!({
        "run": folder.file_name().map(|n| n.to_string_lossy()),
        "folder": folder,
        "started": started.map(quell_store::utc_rfc3339),
        "interval_s": interval,
        "streams": streams.iter().map(one).collect::<Vec<_>>(),
    })
}

fn tell(
    streams: &[ImportedStream],
    interval: Option<f64>,
    started: Option<SystemTime>,
    folder: &Path,
) {
    for stream in streams {
        let e = stream.experiment;
        let (answered, again) = stream.counts();
        let mut line = format!(
            "{}: {}, {} of {} packets answered",
            plain(&e.id),
            if e.host.is_empty() { "host unknown".into() } else { plain(&e.host) },
            answered,
            stream.packets.len() - again,
        );
        if let Some(tos) = &e.tos {
            line += &format!(", TOS {}", plain(tos));
        }
        if again > 0 {
            line += &format!(", {again} answered again");
        }
        say(&format!("{line}\n"));
    }
    let every = interval.unwrap_or(USUAL_INTERVAL_S);
    let whose = if interval.is_some() { "" } else { " (ping-exp's default; the file has none)" };
    println!();
    say("ping-exp kept no sending times: packets stand in the order of their numbers,\n");
    say(&format!("every {every} s{whose}.\n"));
    say("It kept neither sizes nor the direction of loss; missing numbers count as lost.\n");
    match started {
        Some(time) => println!("It was started at {}.", quell_store::utc_rfc3339(time)),
        None => say("It has no starting time that could be read; the run stands at 1970.\n"),
    }
    println!("\nrun     {}", folder.display());
    let name = folder.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    println!("next    quell show {name}");
}

/// A name from a file, without what would command the terminal.
fn plain(text: &str) -> String {
    quell_wire::text::printable(text, 200)
}
