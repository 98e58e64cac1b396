//! `quell import`: what other programs measured, as a run of Quell.
//!
//! ```text
//!   file of ping-exp ──► streams: numbers, round-trip times ──► a run, for show, plot, view and report
//! ```

use crate::args::Place;
use crate::failure::Failure;
use clap::{Args, Subcommand};
use quell_model::TaskRecord;
use quell_model::manifest::{FORMAT_VERSION, KernelRecord};
use quell_model::{
    CellId, CellRecord, CellStatus, EchoSample, EchoStatus, Event, Fact, Manifest, Outcome,
    Subject, Told, When,
};
use quell_pingexp::{Experiment, Fate, MOST_BYTES, Packet, PingExp};
use quell_store::RunWriter;
use quell_sys::input::Input;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `quell import`.
#[derive(Debug, Subcommand)]
pub enum Import {
    /// A file that ping-exp wrote with -w (a pickle; nothing in it is executed)
    #[command(after_help = "Example:
  quell import pingexp vpn-2009.pickle
  quell plot vpn-2009 --figure rtt-averages -o vpn.png
  quell view vpn-2009")]
    Pingexp(PingExpArgs),
}

/// Options of `quell import pingexp`.
#[derive(Debug, Args)]
pub struct PingExpArgs {
    /// The file
    pub file: PathBuf,
    #[command(flatten)]
    pub place: Place,
}

/// `quell import`.
pub fn import(command: &Import) -> Result<ExitCode, Failure> {
    match command {
        Import::Pingexp(args) => pingexp(args),
    }
}

/// Between packets, where the file does not say it: ping-exp's own default.
const USUAL_INTERVAL_S: f64 = 0.2;

/// Packets in one event: a frame stays small.
const BATCH: usize = 4096;

/// One stream with its packets.
struct Stream<'a> {
    experiment: &'a Experiment,
    packets: Vec<Packet>,
}

fn pingexp(args: &PingExpArgs) -> Result<ExitCode, Failure> {
    let refused = |e: &dyn std::fmt::Display| {
        Failure::usage(format!("{} is not imported: {e}", args.file.display()))
    };
    let file = quell_pingexp::read(&contents(&args.file)?).map_err(|e| refused(&e))?;
    let mut streams = Vec::new();
    let mut left = quell_pingexp::MOST_PACKETS;
    for experiment in &file.experiments {
        let packets = experiment.packets(file.count).map_err(|e| refused(&e))?;
        let too_many = quell_pingexp::PickleError::TooMany;
        left = left.checked_sub(packets.len()).ok_or_else(|| refused(&too_many))?;
        streams.push(Stream { experiment, packets });
    }
    if streams.iter().all(|s| s.packets.is_empty()) {
        return Err(refused(&"it holds no packets"));
    }
    let interval = file.interval_s.filter(|s| (1e-6..=86_400.0).contains(s));
    let step_ns = (interval.unwrap_or(USUAL_INTERVAL_S) * 1e9).round() as i64;
    let started = started(&file);
    let manifest = manifest(args, &file, &streams, step_ns, started);
    let folder = keep(&args.place.base, manifest, &streams, step_ns)?;
    tell(&streams, interval, started, &folder);
    Ok(ExitCode::SUCCESS)
}

fn contents(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |e: std::io::Error| Failure::usage(format!("reading {}: {e}", path.display()));
    let mut bytes = Vec::new();
    // One more than is read, so that a longer file is refused and not cut.
    let most = MOST_BYTES as u64 + 1;
    Input::open(path).map_err(failed)?.take(most).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// When it started, where the file says it and a run's name can hold it.
fn started(file: &PingExp) -> Option<SystemTime> {
    // Up to the end of the year 9999.
    let seconds = file.started.filter(|s| (0.0..253_402_300_799.0).contains(s))?;
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// The task's name must not be that of a stream: analysis would take the other streams for loads.
fn task_name(streams: &[Stream]) -> String {
    let mut name = "ping-exp".to_owned();
    while streams.iter().any(|s| s.experiment.id == name) {
        name.push('\'');
    }
    name
}

fn manifest(
    args: &PingExpArgs,
    file: &PingExp,
    streams: &[Stream],
    step_ns: i64,
    started: Option<SystemTime>,
) -> Manifest {
    let stem = args.file.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let name = args.file.file_name().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let probe = task_name(streams);
    let sent = streams.iter().filter_map(|s| s.packets.last()).map(|p| p.seq + 1).max();
    let window_ns = sent.and_then(|n| n.checked_mul(step_ns.unsigned_abs()));
    let took_s = file.started.zip(file.ended).map(|(from, to)| to - from).filter(|s| *s >= 0.0);
    let mut text = format!("# imported from a file of ping-exp: {}\n", name.escape_debug());
    for stream in streams {
        let e = stream.experiment;
        let tos = e.tos.as_deref().unwrap_or("none");
        let line = format!("# -t {:?},{:?},{:?}\n", e.id, e.host, tos);
        text.push_str(&line);
    }
    Manifest {
        format: FORMAT_VERSION,
        quell: env!("CARGO_PKG_VERSION").into(),
        run: String::new(),
        experiment: if stem.is_empty() { "ping-exp".into() } else { stem },
        title: format!("Pings by ping-exp, from {name}"),
        experiment_text: text,
        changes: Vec::new(),
        seed: 0,
        started: quell_store::utc_rfc3339(started.unwrap_or(UNIX_EPOCH)),
        kernel: KernelRecord {
            version: "(not kept by ping-exp)".into(),
            ..KernelRecord::default()
        },
        machine: BTreeMap::new(),
        clock: "round-trip times as ping printed them; sending times are number times interval, as ping-exp kept none".into(),
        cells: vec![CellRecord {
            id: CellId { scenario: "ping-exp".into(), probe: probe.clone(), repeat: 0 },
            seed: 0,
            status: CellStatus::Planned,
            reason: None,
            wall_s: took_s,
            virtual_s: None,
            window_ns,
            tasks: vec![TaskRecord { id: probe, host: "unknown".into(), outcome: None }],
        }],
        complete: false,
        wall_s: took_s,
        virtual_s: None,
        sysctls: BTreeMap::new(),
        queues: BTreeMap::new(),
        expectations: Vec::new(),
    }
}

fn keep(
    base: &Path,
    manifest: Manifest,
    streams: &[Stream],
    step_ns: i64,
) -> Result<PathBuf, Failure> {
    let cell = manifest.cells[0].id.clone();
    let window_ns = manifest.cells[0].window_ns.unwrap_or(0);
    let writer = RunWriter::create(base, manifest.clone()).map_err(Failure::system)?;
    let folder = writer.folder().to_path_buf();
    let mut journal = writer.journal(&cell).map_err(Failure::system)?;
    let mut event = |event: Event| journal.append(&event).map_err(Failure::system);
    event(Event::Begin { cell: cell.clone(), seed: 0, kernel: String::new() })?;
    for stream in streams {
        let e = stream.experiment;
        for (key, value) in facts(e) {
            let subject = Subject::stream(&*e.id, Told::Other(key.into()));
            event(Fact::new(When::Before, subject, value).into())?;
        }
        for packets in stream.packets.chunks(BATCH) {
            let samples = packets.iter().map(|p| sample(p, step_ns)).collect();
            event(Event::Echo { stream: e.id.clone(), samples })?;
        }
    }
    let t_ns = i64::try_from(window_ns).unwrap_or(i64::MAX);
    event(Event::Ended { task: cell.probe, t_ns, outcome: Outcome::Done })?;
    event(Event::End { virtual_ns: window_ns })?;
    writer.finish(manifest).map_err(Failure::system)?;
    Ok(folder)
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

fn tell(streams: &[Stream], interval: Option<f64>, started: Option<SystemTime>, folder: &Path) {
    for stream in streams {
        let e = stream.experiment;
        let count = |is: fn(&Fate) -> bool| stream.packets.iter().filter(|p| is(&p.fate)).count();
        let again = count(|f| matches!(f, Fate::Duplicate(_)));
        let mut line = format!(
            "{}: {}, {} of {} packets answered",
            plain(&e.id),
            if e.host.is_empty() { "host unknown".into() } else { plain(&e.host) },
            count(|f| matches!(f, Fate::Answered(_))),
            stream.packets.len() - again,
        );
        if let Some(tos) = &e.tos {
            line += &format!(", TOS {}", plain(tos));
        }
        if again > 0 {
            line += &format!(", {again} answered again");
        }
        println!("{line}");
    }
    let every = interval.unwrap_or(USUAL_INTERVAL_S);
    let whose = if interval.is_some() { "" } else { " (ping-exp's default; the file has none)" };
    println!();
    println!("ping-exp kept no sending times: packets stand in the order of their numbers,");
    println!("every {every} s{whose}.");
    println!("It kept neither sizes nor the direction of loss; missing numbers count as lost.");
    match started {
        Some(time) => println!("It was started at {}.", quell_store::utc_rfc3339(time)),
        None => println!("It has no starting time that could be read; the run stands at 1970."),
    }
    println!("\nrun     {}", folder.display());
    let name = folder.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    println!("next    quell show {name}");
}

/// A name from a file, without what would command the terminal.
fn plain(text: &str) -> String {
    quell_wire::text::printable(text, 200)
}
