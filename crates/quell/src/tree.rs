//! `quell tree`: the queues, classes and filters of devices, here or as `tc` told of them elsewhere.

use crate::completion;
use crate::failure::Failure;
use crate::options::Json;
use crate::pace::Pace;
use crate::results;
use crate::screen::{self, Screen};
use crate::shape::StateArgs;
use crate::text::{WIDEST, hand_out, is_coloured};
use clap::Args;
use quell_chart::Theme;
use quell_hierarchy::{Hierarchy, PerSecond, ReadError, Reading, change, moved, read};
use quell_shaping::{classes_by_name, hosts_by_class};
use quell_sys::clock::monotonic_ns;
use quell_sys::input::Input;
use quell_treeview::live::LiveError;
use quell_treeview::{Look, View, document, dot, live, picture, text};
use quell_units::{Span, fmt};
use std::collections::BTreeMap;
use std::io::{BufWriter, ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Most that is read of a file.
const MOST: u64 = 64 << 20;
const SCALE: f32 = 2.0;

#[derive(Debug, Args)]
pub struct TreeArgs {
    /// A device, with the IFBs that it feeds; by default all devices
    #[arg(add = completion::devices())]
    pub device: Option<String>,
    /// What tc -s -d qdisc, class and filter show printed, as text or with -j; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["watch", "over"])]
    pub from: Option<PathBuf>,
    /// Of a device that the file tells of several times, what moved from the first reading to the last
    #[arg(long, requires = "from", conflicts_with_all = ["watch", "over"])]
    pub difference: bool,
    /// As the device alone: what tc calls it
    #[arg(long, value_name = "DEVICE", hide = true, conflicts_with = "device")]
    pub dev: Option<String>,
    /// Read repeatedly, and show amounts per second
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1s",
          conflicts_with_all = ["svg", "png", "dot", "over"])]
    pub watch: Option<Span>,
    /// Watch for this time first, and show amounts per second
    #[arg(long, value_name = "TIME")]
    pub over: Option<Span>,
    /// Show also the queues and classes that are alike
    #[arg(long)]
    pub all: bool,
    /// Show also options with their default values
    #[arg(long)]
    pub details: bool,
    /// Draw it as SVG; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Draw it as PNG
    #[arg(long, value_name = "FILE")]
    pub png: Option<PathBuf>,
    /// Width of the picture, in CSS pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 960, value_parser = clap::value_parser!(u32).range(200..=8000))]
    pub width: u32,
    /// Write it for Graphviz; by default to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub dot: Option<PathBuf>,
    #[command(flatten)]
    pub state: StateArgs,
    #[command(flatten)]
    pub json: Json,
}

impl TreeArgs {
    /// The device that is asked for.
    fn device(&self) -> Option<&str> {
        self.device.as_deref().or(self.dev.as_deref())
    }
}

pub fn tree(args: &TreeArgs) -> Result<ExitCode, Failure> {
    if let Some(every) = args.watch {
        return watch(args, every);
    }
    let found = match (&args.from, args.over) {
        (Some(file), _) => from_file(file, args)?,
        (None, Some(over)) => over_time(args, over)?,
        (None, None) => here(args)?,
    };
    let view = found.view(args);
    let mut written = false;
    if let Some(file) = &args.svg {
        let svg = picture(&view, args.width, Theme::Adaptive).svg;
        written |= write(file, svg.as_bytes())?;
    }
    if let Some(file) = &args.png {
        let png = picture(&view, args.width, Theme::Light).png(SCALE);
        let png =
            png.map_err(|e| Failure::usage(format!("{e}; leave --all away, or take --svg")))?;
        written |= write(file, &png)?;
    }
    if let Some(file) = &args.dot {
        written |= write(file, dot(&view).as_bytes())?;
    }
    if written {
        return Ok(ExitCode::SUCCESS);
    }
    if args.json.json {
        print_json(&view)?;
    } else {
        let lines = text(&view, &look());
        found.headline.iter().chain(&lines).for_each(|line| println!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, bytes: &[u8]) -> Result<bool, Failure> {
    if file == Path::new("-") {
        hand_out(bytes)?;
        return Ok(true);
    }
    quell_store::write_output(file, bytes)
        .map_err(|e| Failure::system(format!("writing {}: {e}", file.display())))?;
    println!("{}", results::shown(file));
    Ok(true)
}

fn from_file(file: &Path, args: &TreeArgs) -> Result<TreeSource, Failure> {
    let device = args.device();
    let name = if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    };
    let unreadable = |e: std::io::Error| Failure::usage(format!("cannot read {name}: {e}"));
    let mut bytes = Vec::new();
    let read_all =
        |from: &mut dyn Read, bytes: &mut Vec<u8>| from.take(MOST + 1).read_to_end(bytes).map(drop);
    if file == Path::new("-") {
        read_all(&mut std::io::stdin().lock(), &mut bytes).map_err(unreadable)?;
    } else {
        read_all(&mut Input::open(file).map_err(unreadable)?, &mut bytes).map_err(unreadable)?;
    }
    if bytes.len() as u64 > MOST {
        return Err(Failure::usage(format!(
            "{name} is longer than {} MiB: what tc prints is shorter",
            MOST >> 20
        )));
    }
    let reading = read(&String::from_utf8_lossy(&bytes), device).map_err(|error| {
        Failure::usage(match error {
            ReadError::Line { line, why } => format!("{name}:{line}: {why}"),
            ReadError::Nothing => format!("{name}: {error}"),
        })
    })?;
    for lost in reading.passed_over.iter().take(MOST_LOSSES) {
        let lines =
            if lost.count == 1 { "1 line".to_owned() } else { format!("{} lines", lost.count) };
        let below = lost.below.as_ref().map(|name| format!(" below {name}")).unwrap_or_default();
        eprintln!(
            "{name}:{}: {lines}{below} passed over, not what tc prints: {}",
            lost.line, lost.text
        );
    }
    if let more @ 1.. = reading.passed_over.len().saturating_sub(MOST_LOSSES) {
        eprintln!("{name}: lines in {more} more places were passed over");
    }
    let only = device.map(|device| named(&reading.hierarchy, device, &name)).transpose()?;
    if args.difference {
        return difference(reading, only, &name);
    }
    if !reading.repeated.is_empty() {
        let devices = reading.repeated.join(", ");
        eprintln!(
            "{name}: read several times, of which the last is shown: {devices}; --difference shows what moved"
        );
    }
    Ok(TreeSource { hierarchy: reading.hierarchy, only, rates: None, headline: Vec::new() })
}

/// Places of lines that were passed over, named one by one.
const MOST_LOSSES: usize = 4;

/// What moved from the first reading of each device to its last.
fn difference(reading: Reading, only: Option<usize>, name: &str) -> Result<TreeSource, Failure> {
    let Some(before) = &reading.before else {
        return Err(Failure::usage(format!(
            "{name} tells of each device once: --difference takes two readings of one, one after the other"
        )));
    };
    let hierarchy = moved(before, &reading.hierarchy);
    let time = reading.seconds.map(|s| format!(" in {s} s")).unwrap_or_default();
    let devices = hierarchy.devices.iter().filter(|d| reading.repeated.contains(&d.name));
    let headline = devices.map(|device| {
        let root = device.tops.first().and_then(|top| device.nodes[*top].counters);
        let Some(c) = root else {
            return format!("{}: its counters began again between the readings", device.name);
        };
        let marks = c.marks.map(|marks| format!(", {} marked", fmt::count(marks)));
        format!(
            "{}: {} packets sent{time} ({}), {} dropped{}; {} wait at the end",
            device.name,
            fmt::count(c.packets),
            fmt::bytes(c.bytes),
            fmt::count(c.drops),
            marks.unwrap_or_default(),
            fmt::count(c.backlog_packets)
        )
    });
    let headline = headline.chain([String::new()]).collect();
    let rates = reading.seconds.map(|seconds| change(before, &reading.hierarchy, seconds));
    Ok(TreeSource { hierarchy, only, rates, headline })
}

fn named(hierarchy: &Hierarchy, device: &str, name: &str) -> Result<usize, Failure> {
    hierarchy.device(device).ok_or_else(|| {
        let known: Vec<&str> =
            hierarchy.devices.iter().take(12).map(|device| device.name.as_str()).collect();
        Failure::usage(format!(
            "{name} has nothing of {device}; it has {}",
            if known.is_empty() { "no device".to_owned() } else { known.join(", ") }
        ))
    })
}

/// What was read, and what of it is asked for.
struct TreeSource {
    hierarchy: Hierarchy,
    only: Option<usize>,
    rates: Option<Vec<Vec<Option<PerSecond>>>>,
    /// What is said first.
    headline: Vec<String>,
}

impl TreeSource {
    fn view<'a>(&'a self, args: &TreeArgs) -> View<'a> {
        View {
            hierarchy: &self.hierarchy,
            only: self.only,
            rates: self.rates.as_deref(),
            all: args.all,
            details: args.details,
        }
    }
}

fn look() -> Look {
    let terminal = std::io::stdout().is_terminal();
    Look {
        width: if terminal { screen::size().0.min(WIDEST) } else { WIDEST },
        unicode: screen::unicode(),
        colour: is_coloured(),
    }
}

fn here(args: &TreeArgs) -> Result<TreeSource, Failure> {
    let named = classes_by_name(&args.state.logs());
    let read = live::read(args.device(), &mut |device, snapshot| {
        let own = named.iter().filter(|((name, _), _)| name == device);
        let mut whose: BTreeMap<_, _> =
            own.map(|((_, class), name)| (*class, name.clone())).collect();
        whose.extend(hosts_by_class(snapshot));
        whose
    });
    let (hierarchy, only) = read.map_err(|error| match error {
        LiveError::NoDevice { .. } => Failure::usage(error),
        _ => Failure::system(error),
    })?;
    Ok(TreeSource { hierarchy, only, rates: None, headline: Vec::new() })
}

/// JSON's strings come whole, or in pieces between escapes: what of them would command a terminal is written by its number. Each queue, class
/// and filter is written and forgotten: a chain of sixty thousand classes would take a gigabyte as a whole.
struct Printable<W>(W);

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.0.write_all(quell_wire::text::json(text).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn print_json(view: &View<'_>) -> Result<(), Failure> {
    let mut out = Printable(BufWriter::new(std::io::stdout().lock()));
    let written = serde_json::to_writer_pretty(&mut out, &document(view));
    let written = written.map_err(std::io::Error::from).and_then(|()| out.write_all(b"\n"));
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => quell_sys::reader::leave(),
        written => written.map_err(|e| Failure::system(format!("writing to standard output: {e}"))),
    }
}

fn json_line(view: &View<'_>) -> String {
    let mut out = Printable(Vec::new());
    // A `Vec` takes whatever is written, and every key is a string.
    let _ = serde_json::to_writer(&mut out, &document(view));
    String::from_utf8_lossy(&out.0).into_owned() + "\n"
}

/// Two readings, so far apart.
fn over_time(args: &TreeArgs, over: Span) -> Result<TreeSource, Failure> {
    let mut readings = Readings::new(args, over)?;
    readings.next()?;
    if !readings.pace.pause()? {
        return Err(Failure::check("it was stopped before the time was over"));
    }
    readings.next()
}

/// `--watch`: until Ctrl-C.
fn watch(args: &TreeArgs, every: Span) -> Result<ExitCode, Failure> {
    let mut readings = Readings::new(args, every)?;
    let mut picture = Screen::new();
    let in_place = screen::is_live() && !args.json.json;
    let mut found = readings.next()?;
    loop {
        if in_place {
            let (width, rows) = screen::size();
            let mut lines = text(&found.view(args), &look());
            if lines.len() >= rows.max(4) {
                let more = lines.len() + 2 - rows.max(4);
                lines.truncate(rows.max(4) - 2);
                lines
                    .push(format!("… {more} more lines: make the window higher, or name a device"));
            }
            Screen::show(&picture.frame(&lines, width));
        } else if found.rates.is_some() {
            // The first reading has nothing to be held against.
            let shown = match args.json.json {
                true => json_line(&found.view(args)),
                false => text(&found.view(args), &look()).join("\n") + "\n\n",
            };
            let written = quell_sys::reader::print(std::io::stdout().lock(), shown.as_bytes());
            written.map_err(|e| Failure::system(format!("writing to standard output: {e}")))?;
        }
        if !readings.pace.pause()? {
            return Ok(ExitCode::SUCCESS);
        }
        found = readings.next()?;
    }
}

/// Readings, each with what changed since the one before.
struct Readings<'a> {
    args: &'a TreeArgs,
    pace: Pace,
    before: Option<(u64, Hierarchy)>,
}

impl<'a> Readings<'a> {
    fn new(args: &'a TreeArgs, every: Span) -> Result<Self, Failure> {
        Ok(Readings { args, pace: Pace::new(every)?, before: None })
    }

    fn next(&mut self) -> Result<TreeSource, Failure> {
        let mut found = here(self.args)?;
        let now = monotonic_ns();
        if let Some((then, before)) = &self.before {
            found.rates =
                Some(change(before, &found.hierarchy, now.saturating_sub(*then) as f64 / 1e9));
        }
        self.before = Some((now, found.hierarchy.clone()));
        Ok(found)
    }
}
