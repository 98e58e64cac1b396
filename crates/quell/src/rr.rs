//! `quell rr`: request and response over TCP, and who waited for what.

use crate::failure::Failure;
use crate::options::{Family, Json, choice};
use crate::progress::bar;
use crate::text::{Column, Columns, WIDEST, columns};
use clap::Args;
use indicatif::ProgressBar;
use nix::errno::Errno;
use quell_cause::calls::{CallEffect, CallExperiment};
use quell_finding::{lines, wrapped};
use quell_model::task::{QuickAck, RrPattern};
use quell_rr::run::FixEffect;
use quell_rr::{CallShape, CallSink, Fix, RrError, RrPlan, RrReport, SizeResult, SizeSweep};
use quell_units::Span;
use quell_units::fmt::ms;
use std::fmt::Write;
use std::process::ExitCode;

const MOST_SIZES: usize = 10_000;

#[derive(Debug, Args)]
pub struct RrArgs {
    /// The server: HOST, HOST:PORT, ADDRESS, [IPv6]:PORT
    pub host: String,
    /// Port of the server
    #[arg(short, long, default_value_t = quell_wire::iperf3::PORT)]
    pub port: u16,
    /// Bytes of each write and of the reply: a list, with ranges: 1,64,700..740
    #[arg(long, default_value = "1,64,512,1448,4096")]
    pub sizes: Sizes,
    /// Calls of each size
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub calls: u32,
    /// How much longer than 5 s each all calls together may take
    #[arg(long, value_name = "TIME", default_value = "2min")]
    pub patience: Span,
    /// What a call looks like
    #[arg(long, default_value = "request-response", value_parser = choice([
        ("request-response", "One write, then the reply", RrPattern::RequestResponse),
        ("connect", "A connection for each call", RrPattern::Connect),
        ("write-write-read", "Two writes, then the reply", RrPattern::WriteWriteRead),
    ]))]
    pub pattern: RrPattern,
    /// TCP_NODELAY at both ends
    #[arg(long)]
    pub nodelay: bool,
    /// One write of the same bytes instead of two
    #[arg(long)]
    pub one_write: bool,
    /// TCP_QUICKACK at both ends
    #[arg(long, value_parser = choice([
        ("once", "Once, when there is a connection", QuickAck::Once),
        ("rearmed", "Again after each receive", QuickAck::Rearmed),
    ]))]
    pub quickack: Option<QuickAck>,
    /// Run again with this change, and show before and after
    #[arg(long, value_parser = choice([
        ("nodelay", "TCP_NODELAY", Fix::Nodelay),
        ("one-write", "One write of the same bytes", Fix::OneWrite),
        ("quickack", "TCP_QUICKACK, set again after each receive", Fix::Quickack),
    ]))]
    pub fix: Option<Fix>,
    #[command(flatten)]
    pub family: Family,
    #[command(flatten)]
    pub json: Json,
    #[command(flatten)]
    pub secret: crate::options::SecretFile,
}

/// Sizes to try, ascending, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(Vec<u32>);

impl std::str::FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |n: &str| match n.trim().parse::<u32>() {
            Ok(size) if (1..=quell_rr::client::LARGEST).contains(&size) => Ok(size),
            _ => Err(format!(
                "`{n}` is no size; give bytes from 1 to {}, as 1,64,700..740",
                quell_rr::client::LARGEST
            )),
        };
        let mut sizes = std::collections::BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once("..") {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last < first {
                return Err(format!("`{part}` ends before it begins"));
            }
            if (last - first) as usize + sizes.len() >= MOST_SIZES {
                return Err(format!("more than {MOST_SIZES} sizes; give fewer"));
            }
            sizes.extend(first..=last);
        }
        Ok(Self(sizes.into_iter().collect()))
    }
}

pub fn rr(args: &RrArgs) -> Result<ExitCode, Failure> {
    let found = args.family.server(&args.host, args.port)?;
    let plan = RrPlan {
        to: found.to,
        secret: args.secret.read()?,
        shape: CallShape {
            pattern: args.pattern,
            size: 1,
            nodelay: args.nodelay,
            one_write: args.one_write,
            quickack: args.quickack,
        },
        sizes: args.sizes.0.clone(),
        calls: args.calls,
        patience: args.patience,
        fix: args.fix,
    };
    let stop = crate::interrupt::bell()?;
    let calls = plan.sizes.len() as u64 * u64::from(plan.calls);
    let mut progress = Making(bar(calls, 4, "  {bar:40} {pos} of {len} calls  {msg}"));
    let report = quell_rr::run(&plan, &stop, &mut progress);
    progress.0.finish_and_clear();
    if args.json.json {
        let json = serde_json::to_value(&report).map_err(Failure::system)?;
        println!("{}", quell_wire::text::json(&format!("{json:#}")));
    } else {
        print!("{}", text(args, &report, columns()));
    }
    if stop.rings() && report.before.rows.is_empty() {
        return Err(Failure::check("stopped before a call was over: nothing was measured"));
    }
    let lost = report.before.rows.iter().map(|row| row.lost).sum::<u64>();
    match report.before.failed.or(report.after.and_then(|after| after.failed)) {
        Some(RrError::System(error)) if error.errno == Errno::ECONNREFUSED => {
            Err(Failure::system(format!(
                "nobody listens at TCP {}: start `quell serve --bind ADDRESS` there, or name its port with -p{}",
                found.to,
                found.hint()
            )))
        }
        Some(error) => Err(Failure::system(format!("{error}{}", found.hint()))),
        None if lost > 0 => Err(Failure::check(format!("{lost} calls had no reply"))),
        None => Ok(ExitCode::SUCCESS),
    }
}

struct Making(ProgressBar);

impl CallSink for Making {
    fn made(&mut self, calls: u64, size: u32) {
        self.0.set_message(format!("of {size} bytes"));
        self.0.set_position(calls);
    }
}

/// As it is typed.
fn name(value: impl serde::Serialize) -> String {
    serde_json::json!(value).as_str().unwrap_or_default().to_owned()
}

fn text(args: &RrArgs, report: &RrReport, width: usize) -> String {
    let RrReport { to, before, after, .. } = report;
    if before.rows.is_empty() {
        return String::new();
    }
    let mut out = wrapped(&answer(before), width).join("\n") + "\n\n";
    let _ = writeln!(out, "{} against {to}, {} calls a size\n", name(args.pattern), args.calls);
    out += &match (after, args.fix) {
        (Some(after), Some(fix)) => compared(before, after, &name(fix), width),
        _ => table(before, width),
    };
    out +=
        &[Some(before), after.as_ref()].into_iter().flatten().find_map(stopped).unwrap_or_default();
    let tell = |out: &mut String, said: &str| {
        let _ = writeln!(out, "\n{}", wrapped(said, width).join("\n"));
    };
    for row in before.rows.iter().filter(|row| row.facts.early > 0) {
        let said = format!(
            "{} bytes: the server answered {} of {} calls before it had the whole request: these times are no round trips",
            row.size, row.facts.early, row.calls
        );
        tell(&mut out, &said);
    }
    for cliff in &before.cliffs {
        let _ = writeln!(
            out,
            "\ncliff: calls of {} bytes take {:.1} times as long as those of {}",
            cliff.slow, cliff.factor, cliff.fast
        );
    }
    for found in &report.findings {
        let _ = writeln!(out, "\n{}", lines(&found.finding, width).join("\n"));
    }
    for effect in report.mended.iter().flatten() {
        tell(&mut out, &mended(effect));
    }
    out
}

/// What is said first: what calls take, and what the slowest that waited waited for.
fn answer(sweep: &SizeSweep) -> String {
    let times = || sweep.rows.iter().filter_map(|row| Some((row, row.latency_ms?.p50)));
    let waited = times().filter(|(row, _)| row.cause.is_some());
    let (first, last) = (times().next(), times().next_back());
    match (waited.max_by(|(_, a), (_, b)| a.total_cmp(b)), first.zip(last)) {
        (Some((row, p50)), _) => {
            let says = row.finding.as_ref().map_or("", |found| &found.finding.says);
            let tried = [row.facts.no_delay, row.facts.quick_ack_here];
            let cured = tried.into_iter().find(|tried| tried.effect == CallEffect::Sooner);
            let cured = cured
                .map_or(String::new(), |it| format!(", without the wait {} ms", ms(it.median_ms)));
            format!("Calls of {} bytes take {} ms{cured}: {says}.", row.size, ms(p50))
        }
        (None, Some(((a, fast), (b, slow)))) if a.size != b.size => {
            let (fast, slow) = (ms(fast), ms(slow));
            format!(
                "Calls of {} bytes take {fast} ms, of {} bytes {slow} ms: none waits.",
                a.size, b.size
            )
        }
        (None, Some(((row, p50), _))) => {
            format!("Calls of {} bytes take {} ms: none waits.", row.size, ms(p50))
        }
        (None, None) => "No call had a reply.".into(),
    }
}

fn mended(effect: &FixEffect) -> String {
    let FixEffect { size, before_ms, after } = effect;
    let CallExperiment { median_ms, effect, .. } = after;
    let said = match effect {
        CallEffect::Sooner => "the fix helps",
        CallEffect::Same => "the fix changed nothing",
        CallEffect::Unknown => "the calls don't tell whether the fix helps",
    };
    format!(
        "{size} bytes: {said}: the median call took {median_ms:.1} ms instead of {before_ms:.1}"
    )
}

fn stopped(sweep: &SizeSweep) -> Option<String> {
    let last = sweep.rows.last();
    let at = last.map_or("before its first call was over".into(), |row| {
        format!("after {} calls of {} bytes; larger sizes were not tried", row.calls, row.size)
    });
    sweep.stopped.then(|| format!("stopped {at}\n"))
}

fn table(sweep: &SizeSweep, width: usize) -> String {
    let columns = vec![
        Column::right("bytes", 8, 7),
        Column::right("calls/s", 12, 10),
        Column::right("p50 ms", 11, 9),
        Column::right("p90 ms", 11, 9).given_up(1),
        Column::right("p99 ms", 11, 9),
        Column::right("max ms", 11, 9),
        Column::right("server ms", 11, 10).given_up(2),
        Column::right("lost", 7, 5),
        Column::right("stalls", 7, 7),
    ];
    let columns = Columns::fitting(columns, width);
    let mut out = format!("{}\n{}\n", columns.head(), "─".repeat(columns.width()));
    for row in &sweep.rows {
        let mut cells = vec![row.size.to_string(), format!("{:.1}", row.calls_per_s)];
        cells.extend(match &row.latency_ms {
            Some(l) => [l.p50, l.p90, l.p99, l.max].map(|value| format!("{value:.3}")),
            None => [(); 4].map(|()| "–".to_owned()),
        });
        // What it says that it took itself, in the median; nothing where it does not say.
        cells.push(row.facts.server_ms.map_or("–".to_owned(), |ms| format!("{ms:.3}")));
        cells.extend([row.lost, row.stalls].map(|count| count.to_string()));
        let _ = writeln!(out, "{}", columns.row(&cells));
    }
    let why =
        |row: &SizeResult| Some(format!("lost: {} bytes: {}\n", row.size, row.lost_why.as_ref()?));
    sweep.rows.iter().filter_map(why).for_each(|line| out += &line);
    out
}

fn compared(before: &SizeSweep, after: &SizeSweep, fix: &str, width: usize) -> String {
    // The bytes stand once, before both.
    const BYTES: usize = 8;
    let one = vec![
        Column::right("calls/s", 12, 10).given_up(2),
        Column::right("p50 ms", 11, 9),
        Column::right("p99 ms", 11, 9).given_up(1),
        Column::right("stalls", 7, 7),
    ];
    let apart = "  ";
    let each = if width >= WIDEST { width } else { (width - BYTES - apart.len()) / 2 };
    let one = Columns::fitting(one, each);
    let (room, head) = (one.width(), one.head());
    let mut out =
        format!("{:>BYTES$}{:>room$}{apart}{:>room$}\n", "", "as it is", format!("with {fix}"));
    let _ = writeln!(out, "{:>BYTES$}{head}{apart}{head}", "bytes");
    let _ = writeln!(out, "{}", "─".repeat(BYTES + 2 * room + 1));
    let cells = |row: &SizeResult| {
        let (p50, p99) = row.latency_ms.map_or((f64::NAN, f64::NAN), |l| (l.p50, l.p99));
        let rates = [format!("{:.1}", row.calls_per_s), format!("{p50:.3}"), format!("{p99:.3}")];
        one.row(&[&rates[..], &[row.stalls.to_string()]].concat())
    };
    for row in &before.rows {
        let then = after.rows.iter().find(|r| r.size == row.size).map(cells);
        let then = then.unwrap_or(" ".into());
        let _ = writeln!(out, "{:>BYTES$}{}{apart}{then}", row.size, cells(row));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_lists_with_ranges_and_each_is_tried_once() {
        assert_eq!("1448,1,64..66,65".parse(), Ok(Sizes(vec![1, 64, 65, 66, 1448])));
        for bad in ["", "0", "a", "5..1", "1..", "1,,2", "1..20000", "1048577", "-1"] {
            assert!(bad.parse::<Sizes>().is_err(), "{bad}");
        }
    }
}
