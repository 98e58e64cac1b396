//! `quell twin`: a line measured as a whole, as a file that the lab can have a link like.

use crate::completion;
use crate::failure::Failure;
use crate::figure_options::{Format, Look, write_figure};
use crate::options::{Family, Json, Place, SecretFile, refused};
use crate::results::{folder_of, read as read_run, shown, write};
use crate::series::{print_files, write_line};
use crate::text::{columns, document, say};
use crate::twin_picture::picture;
use clap::Args;
use quell_finding::wrapped;
use quell_policy::LineRates;
use quell_report::analysis::Results;
use quell_series::measured_line::{Estimate, LineOverTime, MeasuredDirection, Property};
use quell_series::{LineSeries, MeasuredLine, SeriesFile};
use quell_sys::input::{self, Input};
use quell_twin::{
    LearnPlan, LearnProgress, LineObservations, TwinError, conclude, figures, from_results, learn,
    sentence,
};
use quell_units::{Bytes, fmt};
use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

/// Bytes of a file that is read.
const LARGEST_KEPT: u64 = 256 << 20;

#[derive(Debug, Args)]
pub struct LearnArgs {
    /// The other end, where `quell serve` runs: HOST, HOST:PORT, ADDRESS, [IPv6]:PORT
    host: String,
    /// Port of the server
    #[arg(short, long, default_value_t = quell_wire::iperf3::PORT)]
    port: u16,
    /// File to write
    #[arg(short, long, value_name = "FILE", default_value = "line.toml")]
    output: PathBuf,
    /// Most that is sent, both directions together [default: 150MB, beyond 100 Mbit/s as much more as the line is faster]
    #[arg(long, value_name = "BYTES")]
    budget: Option<Bytes>,
    /// The other end has this machine's clock (the lab): the delay of each direction is exact, and not half of the round trip
    #[arg(long)]
    one_clock: bool,
    /// Also keep all that was seen, up to 131,072 packets of each flood, for `quell twin from`
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    family: Family,
    #[command(flatten)]
    json: Json,
    #[command(flatten)]
    secret: SecretFile,
}

#[derive(Debug, Args)]
pub struct FromArgs {
    /// Runs, also imported ones: names or folders; or the file that `quell twin learn --keep` kept
    #[arg(required = true, value_name = "RUN", add = completion::runs())]
    runs: Vec<String>,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    json: Json,
}

#[derive(Debug, Args)]
pub struct TwinShowArgs {
    /// What `quell twin learn` wrote
    #[arg(default_value = "line.toml")]
    line: PathBuf,
    /// Also draw it: .png, .svg or .pdf
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    look: Look,
    #[command(flatten)]
    json: Json,
}

/// `quell twin learn`.
pub fn learn_line(args: &LearnArgs) -> Result<ExitCode, Failure> {
    // Told before anything is sent.
    can_be_written(&args.output)?;
    let found = args.family.server(&args.host, args.port)?;
    let plan = LearnPlan {
        host: args.host.clone(),
        to: found.to,
        secret: args.secret.read()?,
        budget: args.budget.map(Bytes::get),
        one_clock: args.one_clock,
    };
    let stop = crate::interrupt::bell()?;
    let most = plan.budget.map_or("150 MB for each 100 Mbit/s".into(), fmt::bytes);
    tell(&format!(
        "measures {} for some 75 s, 95 s where its rate varies, with at most {most}",
        args.host
    ));
    let (began, clock) = (SystemTime::now(), Instant::now());
    // The second direction takes about as long as the first, and both at once 2 s.
    let (mut directions, mut end_s) = (2.0, 75.0);
    let seen = learn(&plan, &stop, &mut |progress| match progress {
        LearnProgress::Ahead { seconds, bytes } => {
            end_s = clock.elapsed().as_secs_f64() + directions * seconds + 2.0;
            directions -= 1.0;
            tell(&format!("this direction takes {seconds:.0} s and {}", fmt::bytes(bytes as u64)));
        }
        LearnProgress::Step { name, seconds } => {
            let left = (end_s - clock.elapsed().as_secs_f64()).max(seconds);
            tell(&format!("{name}: {seconds:.1} s, about {left:.0} s left"));
        }
    });
    let seen = seen.map_err(|error| match error {
        TwinError::Stopped | TwinError::TooSlow(..) | TwinError::Budget { .. } => {
            Failure::check(error)
        }
        error => Failure::system(format!("{error}{}", found.hint())),
    })?;
    let seen = LineObservations {
        to: far_end(&args.host, found.to.port()),
        measured: quell_units::time::rfc3339(began),
        ..seen
    };
    if let Some(keep) = &args.keep {
        write(keep, &serde_json::to_vec(&seen).map_err(Failure::system)?)?;
    }
    let line = write_line(conclude(&seen), &args.output)?;
    print(&line, &args.json)?;
    if !args.json.json {
        print_files(&line, &args.output);
    }
    match seen.broke {
        Some(why) => {
            Err(Failure::check(format!("it broke off after {:.0} s: {why}", seen.seconds)))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

fn can_be_written(output: &Path) -> Result<(), Failure> {
    // Pipes and devices are written to as they are.
    if std::fs::metadata(output).is_ok_and(|of| !of.is_file() && !of.is_dir()) {
        return Ok(());
    }
    let folder = output.parent().filter(|path| !path.as_os_str().is_empty());
    nix::unistd::access(folder.unwrap_or(Path::new(".")), nix::unistd::AccessFlags::W_OK)
        .map_err(|error| refused(output, "-o", error.desc()))
}

/// As the file names it: with its port, where that is another than the usual one.
fn far_end(host: &str, port: u16) -> String {
    match host.trim_matches(['[', ']']).parse() {
        _ if port == quell_wire::iperf3::PORT => host.to_owned(),
        Ok(address) => SocketAddr::new(address, port).to_string(),
        Err(_) if host.ends_with(&format!(":{port}")) => host.to_owned(),
        Err(_) => format!("{host}:{port}"),
    }
}

/// `quell twin from`.
pub fn from(args: &FromArgs) -> Result<ExitCode, Failure> {
    let told = match &args.runs[..] {
        [file] if Path::new(file).is_file() => of_kept(file)?,
        runs => {
            let mut results = Vec::new();
            for run in runs {
                let run = read_run(&folder_of(&args.place, Some(run))?)?;
                results.push(Results::from(&run));
            }
            LineOverTime { line: from_results(&results), up: None, down: None }
        }
    };
    let line = match &args.output {
        Some(output) => write_line(told, output)?,
        None => told.line,
    };
    print(&line, &args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn of_kept(file: &str) -> Result<LineOverTime, Failure> {
    let bytes = input::bytes(Path::new(file), LARGEST_KEPT)
        .map_err(|e| Failure::usage(format!("{file} can't be read: {e}")))?;
    let seen: LineObservations = serde_json::from_slice(&bytes).map_err(|e| {
        Failure::unusable(format!(
            "{file} is nothing that `quell twin learn --keep` wrote: {e}. What another program measured becomes a run by `quell data import`"
        ))
    })?;
    if !seen.is_possible() {
        return Err(Failure::unusable(format!("{file} tells of packets that can't have been")));
    }
    Ok(conclude(&seen))
}

/// `quell twin show`.
pub fn show(args: &TwinShowArgs) -> Result<ExitCode, Failure> {
    let line = read(&args.line)?;
    if let Some(output) = &args.output {
        let figure = args.look.of(picture(&args.line, &line)?)?;
        write_figure(&figure, output, Format::of(output)?, args.look.dpi)?;
    }
    print(&line, &args.json)?;
    if let Some(output) = args.output.as_ref().filter(|_| !args.json.json) {
        println!("{}", shown(output));
    }
    Ok(ExitCode::SUCCESS)
}

pub fn tell(what: &str) {
    // Standard error may be closed; then nobody wants to know.
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// A measured line; the rate of a direction that only has a series is its mean.
pub fn read(path: &Path) -> Result<MeasuredLine, Failure> {
    let text = input::text(path, MeasuredLine::LONGEST).map_err(|e| {
        let path = path.display();
        Failure::usage(format!("{path} can't be read: {e}; `quell twin learn HOST` writes it"))
    })?;
    let mut line = MeasuredLine::parse(&text)
        .map_err(|e| Failure::unusable(format!("{} is no measured line: {e}", path.display())))?;
    for (way, up) in [(&mut line.up, true), (&mut line.down, false)] {
        let series = if way.passes().is_none() { series(path, way, up)? } else { None };
        if let Some(rate) = series.and_then(|series| series.rate) {
            way.rate = Some(Property::Measured(Estimate {
                value: rate.mean(),
                low: None,
                high: None,
                how: "the mean of its series".into(),
                when: String::new(),
            }));
        }
    }
    Ok(line)
}

/// What varies of a direction of the line that `path` holds.
pub fn series(
    path: &Path,
    way: &MeasuredDirection,
    up: bool,
) -> Result<Option<LineSeries>, Failure> {
    let Some(name) = &way.series else { return Ok(None) };
    let path = path.with_file_name(name);
    let file = Input::open(&path)
        .map_err(|e| Failure::usage(format!("{} can't be read: {e}", path.display())))?;
    let says = SeriesFile::read(BufReader::new(file), None)
        .map_err(|e| Failure::unusable(format!("{} is no series: {e}", path.display())))?;
    Ok(if up { says.up.or(says.down) } else { says.down.or(says.up) })
}

fn print(line: &MeasuredLine, json: &Json) -> Result<(), Failure> {
    if json.json {
        println!("{}", document(&serde_json::to_value(line).map_err(Failure::system)?));
        return Ok(());
    }
    say(&format!("{}\n\n", wrapped(&sentence(line), columns()).join("\n")));
    say(&figures(line));
    Ok(())
}

/// A line's rates, and the change that makes it home-link's line.
pub fn as_home_link(file: &Path) -> Result<(LineRates, String), Failure> {
    let line = read(file)?;
    let rates = line.up.passes().zip(line.down.passes());
    let (up, down) = rates.ok_or_else(|| {
        Failure::check(format!("{}: a rate is unknown, so nothing can be tried", file.display()))
    })?;
    let path = std::fs::canonicalize(file).map_err(Failure::system)?;
    let path = toml::Value::from(path.to_string_lossy().into_owned());
    Ok((LineRates { up, down }, format!("topology.link.dsl.line={path}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_end_is_named_with_a_port_that_is_not_the_usual_one() {
        for (host, port, named) in [
            ("192.0.2.7", 5201, "192.0.2.7"),
            ("192.0.2.7", 5300, "192.0.2.7:5300"),
            ("far.example.org:5300", 5300, "far.example.org:5300"),
            ("2001:db8::5300", 5300, "[2001:db8::5300]:5300"),
            ("[2001:db8::7]:5300", 5300, "[2001:db8::7]:5300"),
            ("[2001:db8::7]", 5300, "[2001:db8::7]:5300"),
        ] {
            assert_eq!(far_end(host, port), named);
        }
    }
}
