//! `quell series`: the rate, delay and loss of a line over time, in files of Quell and of others.

use crate::failure::Failure;
use crate::figure_options::{Format as Picture, Look, write_figure};
use crate::options::{Json, choice};
use crate::results::{shown, write};
use crate::text::{document, say};
use clap::Args;
use quell_chart::{Axis, Figure, Panel, Polyline};
use quell_series::access_class::{AccessClass, CLASSES};
use quell_series::measured_line::LineOverTime;
use quell_series::{Format, LineSeries, MeasuredLine, SeriesFile, Steps};
use quell_sys::input::Input;
use quell_units::{Rate, Ratio, Span, fmt};
use serde_json::json;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct SeriesFiles {
    /// Files of one line: what one lacks, as the delay, the next one brings
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the files are; by default it is found out
    #[arg(long = "as", value_name = "FORMAT", value_parser = formats())]
    format: Option<Format>,
}

#[derive(Debug, Args)]
pub struct SeriesShowArgs {
    #[command(flatten)]
    files: SeriesFiles,
    /// Also draw it: .png, .svg or .pdf
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    look: Look,
    #[command(flatten)]
    json: Json,
}

#[derive(Debug, Args)]
pub struct SeriesConvertArgs {
    #[command(flatten)]
    files: SeriesFiles,
    /// File to write; of both directions NAME-up.csv and NAME-down.csv where it is NAME.csv
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// What to write
    #[arg(long = "to", value_name = "FORMAT", default_value = "csv", value_parser = formats())]
    to: Format,
    /// Only this direction, where the files have both
    #[arg(long, value_name = "WAY", value_parser = choice([("up", "From here", true), ("down", "To here", false)]))]
    direction: Option<bool>,
}

#[derive(Debug, Args)]
pub struct SeriesMakeArgs {
    /// The kind of line
    #[arg(value_name = "KIND", value_parser = choice(CLASSES.each_ref().map(|class| (class.name, class.about, class.name))))]
    class: &'static str,
    /// File to write; of NAME.toml what varies is beside it, in NAME-up.csv and NAME-down.csv
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Another line for each
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// How long it is, where it varies; then it repeats
    #[arg(long, value_name = "TIME", default_value = "120s")]
    duration: Span,
}

fn formats() -> impl clap::builder::TypedValueParser<Value = Format> {
    choice(Format::ALL)
}

/// `quell series show`.
pub fn show(args: &SeriesShowArgs) -> Result<ExitCode, Failure> {
    let file = read(&args.files)?;
    if let Some(output) = &args.output {
        write_figure(&args.look.of(figure(&file))?, output, Picture::of(output)?, args.look.dpi)?;
    }
    if args.json.json {
        let way = |line: &Option<LineSeries>| line.as_ref().map(values);
        let told = json!({"up": way(&file.up), "down": way(&file.down), "notes": file.notes});
        println!("{}", document(&told));
        return Ok(ExitCode::SUCCESS);
    }
    for (way, line) in ways(&file) {
        say(&format!("{way}: {}\n", sentence(line)));
    }
    for note in &file.notes {
        say(&format!("! {note}\n"));
    }
    if let Some(output) = &args.output {
        println!("{}", shown(output));
    }
    Ok(ExitCode::SUCCESS)
}

/// `quell series convert`.
pub fn convert(args: &SeriesConvertArgs) -> Result<ExitCode, Failure> {
    let file = read(&args.files)?;
    let wanted = args.direction.map(|up| if up { "up" } else { "down" });
    let lines = ways(&file).filter(|(way, _)| wanted.is_none_or(|wanted| wanted == *way));
    let lines: Vec<_> = lines.collect();
    if let ([], Some(way)) = (&lines[..], wanted) {
        return Err(Failure::usage(format!("the files say nothing of the direction {way}")));
    }
    tell(&file.notes);
    for (way, line) in &lines {
        let mut output = args.output.clone();
        if lines.len() > 1 {
            let name = output.file_stem().unwrap_or_default().display();
            let end = output.extension().map(|end| format!(".{}", end.display()));
            output.set_file_name(format!("{name}-{way}{}", end.unwrap_or_default()));
        }
        tell(&save(line, args.to, &output)?);
        println!("{}", shown(&output));
    }
    Ok(ExitCode::SUCCESS)
}

/// `quell series make`.
pub fn make(args: &SeriesMakeArgs) -> Result<ExitCode, Failure> {
    if !(Span::from_secs(1)..=Span::from_secs(86_400)).contains(&args.duration) {
        return Err(Failure::usage("--duration is 1s to 24h"));
    }
    let class = CLASSES.iter().find(|class| class.name == args.class);
    let class: &AccessClass = class.expect("the choice is among them");
    let line = write_line(class.make(args.seed, args.duration), &args.output)?;
    print_files(&line, &args.output);
    Ok(ExitCode::SUCCESS)
}

/// Writes `NAME.toml`, and beside it what varies.
pub fn write_line(mut made: LineOverTime, output: &Path) -> Result<MeasuredLine, Failure> {
    let name = output.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for (way, series, line) in
        [("up", &made.up, &mut made.line.up), ("down", &made.down, &mut made.line.down)]
    {
        let Some(series) = series else { continue };
        let file = format!("{name}-{way}.csv");
        save(series, Format::Csv, &output.with_file_name(&file))?;
        line.series = Some(file);
    }
    write(output, made.line.to_string().as_bytes())?;
    Ok(made.line)
}

pub fn print_files(line: &MeasuredLine, output: &Path) {
    for series in [&line.up.series, &line.down.series].into_iter().flatten() {
        println!("{}", shown(&output.with_file_name(series)));
    }
    println!("{}", shown(output));
}

fn tell(notes: &[String]) {
    for note in notes {
        eprintln!("! {note}");
    }
}

fn save(line: &LineSeries, format: Format, output: &Path) -> Result<Vec<String>, Failure> {
    let mut bytes = Vec::new();
    let notes = format.write(line, &mut bytes).map_err(Failure::usage)?;
    write(output, &bytes)?;
    Ok(notes)
}

fn ways(file: &SeriesFile) -> impl Iterator<Item = (&'static str, &LineSeries)> {
    [("up", &file.up), ("down", &file.down)]
        .into_iter()
        .filter_map(|(way, line)| Some((way, line.as_ref()?)))
}

/// All files as one line: the first that tells a value holds.
fn read(args: &SeriesFiles) -> Result<SeriesFile, Failure> {
    let mut all = SeriesFile::default();
    for path in &args.files {
        let refused =
            |why: String| Failure::usage(format!("{} is no series: {why}", path.display()));
        let file = Input::open(path)
            .map_err(|e| Failure::usage(format!("{} can't be read: {e}", path.display())))?;
        let reader = BufReader::with_capacity(1 << 16, file);
        let read = SeriesFile::read(reader, args.format).map_err(|e| refused(e.to_string()))?;
        all.join(read);
    }
    Ok(all)
}

/// `20.3 Mbit/s on average, 4 to 36 Mbit/s, for 62 s; delay 24 to 60 ms; loss unknown`.
fn sentence(line: &LineSeries) -> String {
    let mut parts = Vec::new();
    parts.push(match &line.rate {
        Some(rate) => {
            let (low, high) = range(&averaged(rate));
            let mean = fmt::rate(rate.mean().bps() as f64);
            let end = rate.end();
            match low == high {
                true => format!("{mean} for {end}"),
                false => format!(
                    "{mean} on average, {} to {}, for {end}",
                    fmt::rate(low.bps() as f64),
                    fmt::rate(high.bps() as f64)
                ),
            }
        }
        None => "rate unknown".to_owned(),
    });
    parts.push(line.delay.as_ref().map_or("delay unknown".to_owned(), |delay| {
        let (low, high) = range(delay);
        match low == high {
            true => format!("delay {low}"),
            false => format!(
                "delay {} to {} ms",
                fmt::three_digits(low.as_millis_f64()),
                fmt::three_digits(high.as_millis_f64())
            ),
        }
    }));
    parts.push(line.loss.as_ref().map_or("loss unknown".to_owned(), |loss| {
        let (low, high) = range(loss);
        format!("loss {} to {}", fmt::percent(low.as_f64()), fmt::percent(high.as_f64()))
    }));
    if !line.trains.is_empty() {
        parts.push(format!(
            "{} at an idle line",
            fmt::plural(line.trains.len() as u64, "packet train")
        ));
    }
    parts.join("; ")
}

/// The mean of each 100 ms, where steps are shorter: opportunities of single packets tell a person nothing.
fn averaged(rate: &Steps<Rate>) -> Steps<Rate> {
    let window = Span::from_millis(100);
    let count = rate.end().nanos() / window.nanos();
    if count < 2 || (rate.count() as u64) <= count {
        return rate.clone();
    }
    let at = |index: u64| window.saturating_mul(index);
    let mut before = 0;
    let means = (0..).zip(rate.bits_at((1..=count).map(at))).map(|(index, passed)| {
        let bits = passed - std::mem::replace(&mut before, passed);
        (at(index), Rate::from_bps(10 * bits as u64))
    });
    Steps::new(means, at(count)).unwrap_or_else(|| rate.clone())
}

fn range<T: Copy + Ord>(steps: &Steps<T>) -> (T, T) {
    let mut all = steps.iter().map(|(.., value)| value);
    let first = all.next_back().expect("a series has at least one step");
    all.fold((first, first), |(low, high), value| (low.min(value), high.max(value)))
}

fn values(line: &LineSeries) -> serde_json::Value {
    fn of<T: Copy + Ord + PartialEq>(
        steps: &Option<Steps<T>>,
        value: impl Fn(T) -> f64,
    ) -> serde_json::Value {
        steps.as_ref().map_or(serde_json::Value::Null, |steps| {
            let (low, high) = range(steps);
            let mean = steps
                .iter()
                .map(|(from, to, v)| (to.nanos() - from.nanos()) as f64 * value(v))
                .sum::<f64>();
            json!({"mean": mean / steps.end().nanos() as f64, "min": value(low), "max": value(high),
                "duration_s": steps.end().as_secs_f64(), "steps": steps.count()})
        })
    }
    json!({
        "rate_bps": of(&line.rate, |rate: Rate| rate.bps() as f64),
        "delay_ms": of(&line.delay, Span::as_millis_f64),
        "loss": of(&line.loss, Ratio::as_f64),
        "trains": line.trains.len(),
    })
}

fn figure(file: &SeriesFile) -> Figure {
    let figure = Figure::new("The line over time").share_x();
    panels(file).into_iter().fold(figure, Figure::panel)
}

/// Rate, delay and loss over time, where they are known.
pub fn panels(file: &SeriesFile) -> Vec<Panel> {
    type Value = fn(&LineSeries) -> Option<Vec<(f64, f64)>>;
    let panels: [(&str, &str, Value); 3] = [
        ("Rate", "Mbit/s", |l| {
            l.rate.as_ref().map(|s| points(&averaged(s), |rate| rate.bps() as f64 / 1e6))
        }),
        ("Delay", "ms", |l| l.delay.as_ref().map(|s| points(s, Span::as_millis_f64))),
        ("Loss", "%", |l| l.loss.as_ref().map(|s| points(s, |loss| loss.as_f64() * 100.0))),
    ];
    let panel = |(name, unit, of): (&str, &str, Value)| {
        let lines =
            ways(file).filter_map(|(way, line)| Some(Polyline::new(way, of(line)?).stepped()));
        let lines: Vec<Polyline> = lines.collect();
        let axes = (Axis::time("Time"), Axis::linear(name).unit(unit).from(0.0));
        (!lines.is_empty()).then(|| Panel::new(axes.0, axes.1).marks(lines))
    };
    panels.into_iter().filter_map(panel).collect()
}

fn points<T: Copy + PartialEq>(steps: &Steps<T>, value: impl Fn(T) -> f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> =
        steps.iter().map(|(at, _, v)| (at.as_secs_f64(), value(v))).collect();
    let last = points.last().map_or(0.0, |(_, value)| *value);
    points.push((steps.end().as_secs_f64(), last));
    points
}
