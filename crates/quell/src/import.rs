//! `quell data import`: what other programs measured, as runs of Quell.
//!
//! ```text
//!   FILE … ──quell_foreign──► streams, what is known beside them, what is left out ──► a run each, for show, plot, compare, view
//! ```

use crate::failure::Failure;
use crate::options::{Json, Place, choice};
use crate::text::{columns, lines, say};
use clap::Args;
use quell_foreign::{FlowDirection, Imported, MOST_BYTES, Stream, Tool};
use quell_model::{Event, Fact, Side, Subject, Told, When};
use quell_store::{About, End, Keep, Origin};
use quell_sys::input::Input;
use quell_units::fmt::plural;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Packets in one event: a frame stays small.
const BATCH: usize = 4096;

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The files; each test in them becomes a run
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Which program wrote them; by default it is found out
    #[arg(long, value_name = "PROGRAM", value_parser = choice([
        ("flent", "Flent (.flent.gz): pings become packets, rates become flows", Tool::Flent),
        ("irtt", "irtt's client (-o)", Tool::Irtt),
        ("iperf3", "iperf3 (-J or --json-stream)", Tool::Iperf3),
        ("pingexp", "ping-exp (-w); nothing in it is executed", Tool::PingExp),
        ("ping", "What ping printed: Linux, BusyBox, BSD, macOS", Tool::Ping),
        ("mtr", "mtr's report (-r), JSON (-j) or CSV (-C)", Tool::Mtr),
    ]))]
    pub from: Option<Tool>,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub json: Json,
}

/// `quell data import`.
///
/// Imports each file. One that is refused does not keep the others out, and is told at the end.
pub fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let (mut documents, mut refused) = (Vec::new(), Vec::new());
    for file in &args.files {
        let read = contents(file, MOST_BYTES).and_then(|bytes| {
            quell_foreign::read(&bytes, args.from)
                .map_err(|e| Failure::usage(format!("{} is not imported: {e}", file.display())))
        });
        let tests = match read {
            Ok(tests) => tests,
            Err(failure) => {
                refused.push(failure.to_string());
                continue;
            }
        };
        for imported in &tests {
            let folder = keep(&args.place.base, file, imported)?;
            match args.json.json {
                true => documents.push(document(file, imported, &folder)),
                false => tell(file, imported, &folder),
            }
        }
    }
    if args.json.json && !documents.is_empty() {
        let document = serde_json::json!({ "imported": documents });
        println!("{}", crate::text::document(&document));
    }
    match refused.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::usage(refused.join("\n"))),
    }
}

/// Its title, else the file's name without the endings that such files have.
fn run_name(file: &Path, title: &str) -> String {
    let name = file.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let endings = [".gz", ".flent", ".json", ".pickle", ".txt", ".log"];
    let stem = endings.iter().fold(&*name, |name, end| name.strip_suffix(end).unwrap_or(name));
    // As a run's name has it, without signs that would stand there by their number.
    let plain = |text: &str| {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let words = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
        words.chars().take(60).collect::<String>()
    };
    let names = [title, stem, &name].map(plain);
    names.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "imported".to_owned())
}

fn keep(base: &Path, file: &Path, imported: &Imported) -> Result<PathBuf, Failure> {
    let word = imported.tool.word();
    let name = file.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let mut text =
        format!("# imported from a file of {}: {}\n", imported.tool, name.escape_debug());
    for (key, value) in &imported.about {
        text.push_str(&format!("# {key}: {}\n", value.escape_debug()));
    }
    let of =
        if imported.test.is_empty() { String::new() } else { format!("{} by ", imported.test) };
    let what =
        if imported.title.is_empty() { String::new() } else { format!("{}: ", imported.title) };
    let about = About {
        name: run_name(file, &imported.title),
        scenario: if imported.test.is_empty() { word.to_owned() } else { imported.test.clone() },
        title: format!("{what}{of}{}, from {name}", imported.tool),
        // Analysis would take the other streams for loads.
        task: unlike(word, imported.streams.iter().map(|s| &*s.name)),
        clock: format!("times as {} wrote them", imported.tool),
        seed: 0,
        window_ns: imported.window_ns,
        origin: Origin::Elsewhere {
            started: imported.started_s.and_then(time),
            text,
            program: word,
        },
    };
    let mut keep = Keep::begin(base, &about)?;
    for stream in &imported.streams {
        for (what, value) in facts(stream) {
            let subject = Subject::stream(&*stream.name, what);
            keep.event(&Fact::new(When::Before, subject, value).into())?;
        }
        for samples in stream.packets.chunks(BATCH) {
            let samples = samples.to_vec();
            keep.event(&Event::Echo { stream: stream.name.clone(), samples })?;
        }
        for samples in stream.flow.chunks(BATCH) {
            let samples = samples.to_vec();
            keep.event(&Event::Flow { stream: stream.name.clone(), samples })?;
        }
    }
    Ok(keep.finish(End::of(imported.failed.as_deref(), false))?)
}

fn facts(stream: &Stream) -> Vec<(Told, String)> {
    let way = stream.way.map(|way| (Told::Way, way.word().to_owned()));
    let clocks = stream.two_clocks.then(|| (Told::Clocks, "apart".to_owned()));
    let other = |(key, value): &(&'static str, String)| (Told::Other((*key).into()), value.clone());
    way.into_iter().chain(clocks).chain(stream.facts.iter().map(other)).collect()
}

/// The same as [`tell`] for a program; what the file does not say is null.
fn document(file: &Path, imported: &Imported, folder: &Path) -> serde_json::Value {
    let one = |stream: &Stream| {
        let counts = stream.counts();
        let packets = !stream.packets.is_empty();
        let arrived = stream.flow.iter().any(|sample| sample.side == Side::Receiver);
        serde_json::json!({
            "stream": stream.name,
            "way": stream.way.map(FlowDirection::word),
            "packets": packets.then_some(counts.sent),
            "answered": (packets && counts.unsure < counts.sent).then_some(counts.answered),
            "duplicates": packets.then_some(counts.again),
            "bytes": (!packets).then_some(counts.bytes),
            "arrived": (!packets && arrived).then_some(counts.bytes),
            "summary": stream.facts.iter().find(|(key, _)| *key == "summary").map(|(_, said)| said),
            "seconds": (!packets).then_some(counts.seconds),
        })
    };
    let about: serde_json::Map<String, serde_json::Value> =
        imported.about.iter().map(|(k, v)| ((*k).to_owned(), v.clone().into())).collect();
    serde_json::json!({
        "file": file,
        "program": imported.tool.word(),
        "test": (!imported.test.is_empty()).then_some(&imported.test),
        "run": folder.file_name().map(|n| n.to_string_lossy()),
        "folder": folder,
        "started": imported.started_s.and_then(time).map(quell_units::time::rfc3339),
        "about": about,
        "streams": imported.streams.iter().map(one).collect::<Vec<_>>(),
        "notes": imported.notes,
        "left_out": imported.left_out,
        "broke_off": imported.failed,
    })
}

fn tell(file: &Path, imported: &Imported, folder: &Path) {
    let test =
        if imported.test.is_empty() { String::new() } else { format!(" ({})", imported.test) };
    let from = plain(&file.display().to_string());
    say(&format!("{from}: a file of {}{}\n", imported.tool, plain(&test)));
    for stream in &imported.streams {
        let counts = stream.counts();
        let name = quell_wire::text::printable(&stream.name, 50);
        if stream.packets.is_empty() {
            let way = stream.way.map_or("direction unknown", FlowDirection::word);
            let arrived = stream.flow.iter().any(|sample| sample.side == Side::Receiver);
            let (mb, s) = (counts.bytes as f64 / 1e6, counts.seconds);
            let end = if arrived { "" } else { " sent, what arrived is unknown" };
            say(&format!("  {name}: {way}, {mb:.2} MB in {s:.1} s{end}\n"));
        } else {
            let more =
                if counts.again > 0 { format!(", {} again", counts.again) } else { String::new() };
            let (answered, sent) = (counts.answered, counts.sent);
            let summary = stream.facts.iter().find(|(key, _)| *key == "summary");
            let summary = summary.map_or(String::new(), |(_, said)| format!("; {}", plain(said)));
            let told = match counts.unsure == sent && sent > 0 {
                true => {
                    format!("{} sent, how many were answered is unknown", plural(sent, "packet"))
                }
                false => format!("{answered} of {} answered", plural(sent, "packet")),
            };
            say(&format!("  {name}: {told}{more}{summary}\n"));
        }
    }
    let sentence = |said: &str| {
        print!("{}", lines("", &quell_wire::text::printable(said, 1000), columns()));
    };
    if let Some(why) = &imported.failed {
        sentence(&format!("It broke off: {why}"));
    }
    imported.notes.iter().for_each(|note| sentence(note));
    imported.left_out.iter().for_each(|left| sentence(&format!("Left out: {left}")));
    if imported.started_s.and_then(time).is_none() {
        sentence("It has no starting time that could be read; the run is dated 1970.");
    }
    println!("run     {}", folder.display());
    let name = folder.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    println!("next    quell show {name}\n");
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

/// A name from a file, without what would command the terminal.
fn plain(text: &str) -> String {
    quell_wire::text::printable(text, 200)
}
