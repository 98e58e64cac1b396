//! `quell rr`: request and response over TCP, and who waited for what.

use crate::failure::Failure;
use crate::host::{self, Usual};
use crate::options::{Family, Json};
use crate::text::{Column, Columns, WIDEST, columns, fitted};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quell_finding::{Finding, lines, worst_first, wrapped};
use quell_model::task::{QuickAck, RrPattern};
use quell_rr::{Cause, Cliff, Mended, Row, RrError, Shape, Spare, Stalls, cliffs, sweep_told};
use quell_sys::wait::Bell;
use quell_units::Span;
use quell_wire::auth::Secret;
use std::fmt::Write;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The port of the server, where none is named: that of `quell serve`, and iperf3's.
const PORT: u16 = 5201;

/// Most sizes of one sweep.
const MOST_SIZES: usize = 10_000;

/// Options of `quell rr`.
#[derive(Debug, Args)]
pub struct RrArgs {
    /// The server: HOST, HOST:PORT, ADDRESS, [IPv6]:PORT
    pub host: String,
    /// Bytes of each write and of the reply: a list, with ranges, as 1,64,700..740
    #[arg(long, default_value = "1,64,512,1448,4096")]
    pub sizes: Sizes,
    /// Calls of each size
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub calls: u32,
    /// How much longer than 5 s each all calls together may take
    #[arg(long, value_name = "TIME", default_value = "2min")]
    pub patience: Span,
    /// What a call looks like
    #[arg(long, value_enum, default_value_t = Pattern::RequestResponse)]
    pub pattern: Pattern,
    /// TCP_NODELAY at both ends
    #[arg(long)]
    pub nodelay: bool,
    /// One write of the same bytes instead of two
    #[arg(long)]
    pub one_write: bool,
    /// TCP_QUICKACK at both ends
    #[arg(long, value_enum)]
    pub quickack: Option<Quick>,
    /// Run again with this change, and show before and after
    #[arg(long, value_enum)]
    pub fix: Option<Fix>,
    #[command(flatten)]
    pub family: Family,
    #[command(flatten)]
    pub json: Json,
    #[command(flatten)]
    pub secret: crate::secret::SecretFile,
}

/// What a call looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// One write, then the reply
    RequestResponse,
    /// A connection for each call
    Connect,
    /// Two writes, then the reply
    WriteWriteRead,
}

/// When TCP_QUICKACK is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Quick {
    /// Once, when the connection stands
    Once,
    /// Again after each receive
    Rearmed,
}

/// What to change for the second run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fix {
    /// TCP_NODELAY
    Nodelay,
    /// One write of the same bytes
    OneWrite,
    /// TCP_QUICKACK, set again after each receive
    Quickack,
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

/// `quell rr`.
pub fn rr(args: &RrArgs) -> Result<ExitCode, Failure> {
    client(&args.host, args)
}

/// What to say to those who type `quell rr --serve`, with whatever options behind it, as they could once.
pub fn asks_to_serve(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let rr = arguments.nth(1).as_deref() == Some("rr");
    if rr && arguments.any(|argument| argument == "--serve") {
        return Err(Failure::usage(
            "`quell rr --serve` is gone: `quell serve` answers `quell rr` on the same port, with limits and without root's \
             rights; see `quell serve --help`",
        ));
    }
    Ok(())
}

fn client(host: &str, args: &RrArgs) -> Result<ExitCode, Failure> {
    let usual = Usual { family: args.family, own: None, port: Some(PORT), device: None };
    let found = host::resolve(host, usual).map_err(Failure::usage)?;
    let to = found.to;
    let shape = Shape {
        pattern: match args.pattern {
            Pattern::RequestResponse => RrPattern::RequestResponse,
            Pattern::Connect => RrPattern::Connect,
            Pattern::WriteWriteRead => RrPattern::WriteWriteRead,
        },
        size: 1,
        nodelay: args.nodelay,
        one_write: args.one_write,
        quickack: args.quickack.map(|quick| match quick {
            Quick::Once => QuickAck::Once,
            Quick::Rearmed => QuickAck::Rearmed,
        }),
    };
    let secret = args.secret.read()?;
    let secret = secret.as_ref();
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    crate::interrupt::listen(&stop)?;
    let before = all(to, secret, shape, args, &stop);
    let after = match (args.fix, &before.failed) {
        (Some(fix), None) if !stop.rings() => Some(all(to, secret, fixed(shape, fix), args, &stop)),
        _ => None,
    };
    if args.json.json {
        let text = json(to, args, &before, after.as_ref());
        println!("{}", quell_wire::text::json(&text));
    } else {
        print!("{}", text(to, args, &before, after.as_ref(), columns()));
    }
    if stop.rings() && before.rows.is_empty() {
        return Err(Failure::check("stopped before a call was over: nothing was measured"));
    }
    let failed = before.failed.or(after.and_then(|a| a.failed));
    match failed {
        Some(error) => Err(Failure::system(format!("{error}{}", found.hint()))),
        None => match before.rows.iter().map(|row| row.lost).sum::<u64>() {
            0 => Ok(ExitCode::SUCCESS),
            lost => Err(Failure::check(format!("{lost} calls had no reply"))),
        },
    }
}

fn fixed(shape: Shape, fix: Fix) -> Shape {
    match fix {
        Fix::Nodelay => Shape { nodelay: true, ..shape },
        Fix::OneWrite => Shape { one_write: true, ..shape },
        Fix::Quickack => Shape { quickack: Some(QuickAck::Rearmed), ..shape },
    }
}

/// What the sizes of one sweep showed.
struct Outcome {
    rows: Vec<Row>,
    /// Why it ended before its last size.
    failed: Option<RrError>,
    /// It was stopped before its last call.
    stopped: bool,
}

impl Outcome {
    fn cliffs(&self) -> Vec<Cliff> {
        cliffs(&self.rows.iter().filter_map(Row::times).collect::<Vec<_>>())
    }
}

/// How far it is, for who watches a terminal.
struct Making {
    bar: ProgressBar,
    shown: Option<Instant>,
}

/// How often that is drawn.
const DRAWN: Duration = Duration::from_millis(250);

impl Making {
    fn new(calls: u64) -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(calls), target);
        let template = "  {bar:40} {pos} of {len} calls  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self { bar, shown: None }
    }

    /// So many calls are made, the last of this size.
    fn at(&mut self, made: u64, size: u32) {
        if self.bar.is_hidden() || self.shown.is_some_and(|at| at.elapsed() < DRAWN) {
            return;
        }
        self.shown = Some(Instant::now());
        self.bar.set_message(format!("of {size} bytes"));
        self.bar.set_position(made);
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn all(
    to: SocketAddr,
    secret: Option<&Secret>,
    shape: Shape,
    args: &RrArgs,
    stop: &Bell,
) -> Outcome {
    let mut outcome = Outcome { rows: Vec::new(), failed: None, stopped: false };
    let sizes = args.sizes.0.len();
    let mut progress = Making::new(sizes as u64 * u64::from(args.calls));
    let mut spare = Spare::of(args.patience);
    for (place, &size) in args.sizes.0.iter().enumerate() {
        let mut tell =
            |made: usize| progress.at(place as u64 * u64::from(args.calls) + made as u64, size);
        let shape = Shape { size, ..shape };
        match sweep_told(to, secret, shape, args.calls, &mut spare, stop, &mut tell) {
            Ok(row) => {
                outcome.failed.clone_from(&row.failed);
                outcome.rows.push(row);
            }
            Err(RrError::Stopped) => break,
            Err(error) => {
                outcome.failed = Some(error);
                break;
            }
        }
        if stop.rings() || outcome.failed.is_some() {
            break;
        }
    }
    progress.end();
    let all = outcome.rows.len() == sizes
        && outcome.rows.iter().all(|row| row.calls == u64::from(args.calls));
    outcome.stopped = stop.rings() && !all;
    outcome
}

fn json(to: SocketAddr, args: &RrArgs, before: &Outcome, after: Option<&Outcome>) -> String {
    let one = |outcome: &Outcome| {
        serde_json::json!({
            "rows": outcome.rows,
            "cliffs": outcome.cliffs(),
            "stopped": outcome.stopped,
            "error": outcome.failed.as_ref().map(ToString::to_string),
        })
    };
    let value = serde_json::json!({
        "to": to.to_string(),
        "pattern": name(args.pattern),
        "fix": args.fix.map(name),
        "before": one(before),
        "after": after.map(one),
        "mended": after.map(|after| {
            let one = |(row, mended): (&Row, _)| serde_json::json!({"size": row.size, "mended": mended});
            mended(before, after).into_iter().map(one).collect::<Vec<_>>()
        }),
    });
    format!("{value:#}")
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
}

fn text(
    to: SocketAddr,
    args: &RrArgs,
    before: &Outcome,
    after: Option<&Outcome>,
    width: usize,
) -> String {
    let mut out = format!("{} against {to}, {} calls a size\n\n", name(args.pattern), args.calls);
    if before.rows.is_empty() {
        return String::new();
    }
    out += &match (after, args.fix) {
        (Some(after), Some(fix)) => compared(before, after, &name(fix), width),
        _ => table(before, width),
    };
    out += &needless(before, width);
    out += &[Some(before), after].into_iter().flatten().find_map(stopped).unwrap_or_default();
    for cliff in before.cliffs() {
        let _ = writeln!(
            out,
            "\ncliff: calls of {} bytes take {:.1} times as long as those of {}",
            cliff.slow, cliff.factor, cliff.fast
        );
    }
    out += &told(&findings(before), width);
    if let Some(after) = after {
        let left = findings(after);
        if !left.is_empty() {
            out += "\nwaits that are left:\n";
        }
        out += &told(&left, width);
        if let Some(fix) = args.fix {
            out += &changed(before, after, fix, width);
        }
    }
    fitted(&out, width)
}

/// The sizes of which calls waited before a change, and what it changed for them.
fn mended<'a>(before: &'a Outcome, after: &Outcome) -> Vec<(&'a Row, Mended)> {
    let of = |row: &'a Row| {
        let then = after.rows.iter().find(|then| then.size == row.size)?;
        Some((row, Mended::of(row, then)?))
    };
    before.rows.iter().filter_map(of).collect()
}

/// Whether a fix that changes nothing refutes a cause: where this end alone carries it out.
fn refutes(fix: Fix, cause: Cause) -> bool {
    match cause {
        Cause::NagleAndDelayedAck => matches!(fix, Fix::Nodelay | Fix::OneWrite),
        Cause::DelayedAckHere => fix == Fix::Quickack,
        _ => false,
    }
}

/// What the fix did, in a line or a few.
fn changed(before: &Outcome, after: &Outcome, fix: Fix, width: usize) -> String {
    let mended = mended(before, after);
    let waits = |outcome: &Outcome| outcome.rows.iter().any(|r| r.finding.is_some());
    let mut out = String::new();
    for (row, mended) in &mended {
        let cause = row.stalls.cause();
        let then = after.rows.iter().find(|then| then.size == row.size);
        let said = match mended {
            Mended::Nothing if cause.is_some_and(|cause| refutes(fix, cause)) => {
                "the fix changed nothing: it was not this".into()
            }
            Mended::Nothing => "the fix changed nothing".into(),
            Mended::Unknown => "too few calls waited to tell what the fix changed".into(),
            Mended::Some => "with the fix fewer calls are as slow".into(),
            Mended::Faster => faster(row, then),
            Mended::All => continue,
        };
        let _ = writeln!(out, "\n{} bytes: {said}", row.size);
    }
    let left = before.rows.iter().filter(|row| fix == Fix::Quickack && row.stalls.held_there > 0);
    for row in left {
        let then = after.rows.iter().find(|then| then.size == row.size);
        let gap = then.and_then(|then| then.stalls.round_trip_within_replies_ms());
        let _ = gap.map(|gap| writeln!(out, "\n{}", still_apart(row.size, gap, width)));
    }
    if out.is_empty() && !waits(after) && after.failed.is_none() {
        out += match (mended.is_empty(), waits(before)) {
            (true, false) => "\nnobody waited, with the fix or without\n",
            (true, true) if !only(before, Cause::Nagle) => "",
            (true, true) | (false, _) => "\nwith the fix nobody waited\n",
        };
    }
    out
}

/// What ACKs at once leave of replies that the server held for them.
fn still_apart(size: u32, gap_ms: f64, width: usize) -> String {
    let said = format!(
        "{size} bytes: with the fix the rest of the reply still comes {gap_ms:.1} ms after its beginning, a round trip or more: the server \
         holds it until the ACK is there (Nagle), or its program writes it no sooner; against the former TCP_NODELAY there, or one write, helps"
    );
    wrapped(&said, width).join("\n")
}

/// By how much calls are faster after a change.
fn faster(before: &Row, after: Option<&Row>) -> String {
    let (Some(before), Some(after)) = (before.latency_ms, after.and_then(|row| row.latency_ms))
    else {
        return "with the fix calls are faster".into();
    };
    let who = match after.max < before.min {
        true => "with the fix every call is faster",
        false => "with the fix calls are faster",
    };
    format!("{who}: in the median {:.1} ms instead of {:.1}", after.p50, before.p50)
}

/// Whether nothing else was found.
fn only(outcome: &Outcome, cause: Cause) -> bool {
    outcome.rows.iter().filter_map(|row| row.stalls.cause()).all(|found| found == cause)
}

/// What a run that was stopped has not measured.
fn stopped(outcome: &Outcome) -> Option<String> {
    let last = outcome.rows.last();
    let at = last.map_or("before its first call was over".into(), |row| {
        format!("after {} calls of {} bytes; larger sizes were not tried", row.calls, row.size)
    });
    outcome.stopped.then(|| format!("stopped {at}\n"))
}

fn table(outcome: &Outcome, width: usize) -> String {
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
    for row in &outcome.rows {
        let mut cells = vec![row.size.to_string(), format!("{:.1}", row.calls_per_s)];
        cells.extend(match &row.latency_ms {
            Some(l) => [l.p50, l.p90, l.p99, l.max].map(|value| format!("{value:.3}")),
            None => [(); 4].map(|()| "–".to_owned()),
        });
        // What it says that it took itself, in the median; nothing where it does not say.
        cells.push(row.stalls.server_ms.map_or("–".to_owned(), |ms| format!("{ms:.3}")));
        cells.extend([row.lost, row.stalls.count].map(|count| count.to_string()));
        let _ = writeln!(out, "{}", columns.row(&cells));
    }
    let why = |row: &Row| Some(format!("lost: {} bytes: {}\n", row.size, row.lost_why.as_ref()?));
    outcome.rows.iter().filter_map(why).for_each(|line| out += &line);
    out
}

/// What TCP sent again of which nothing was lost, but perhaps the answer to it, and why; and whether the path doubles packets, so that this is unknown.
fn needless(outcome: &Outcome, width: usize) -> String {
    let of = |row: &Row| {
        let Stalls { needless, needless_overtaken, needless_timer, .. } = row.stalls;
        let unknown = needless - needless_overtaken - needless_timer;
        let whys = [
            (
                needless_overtaken,
                "no timer ran out where it was sent again: packets overtook each other, and TCP took those that came late for lost",
            ),
            (
                needless_timer,
                "what TCP waited for took longer than its timer lasts, as behind a queue that fills, or was lost on the way back",
            ),
            (unknown, "whether a timer ran out or packets overtook each other is not known"),
        ];
        let text = |(calls, why): &(u64, &str)| {
            let (size, all) = (row.size, row.calls);
            let text = format!(
                "{size} bytes: in {calls} of {all} calls needlessly, the other end had it: {why}"
            );
            paragraph("sent again", &text, width)
        };
        let again = whys.iter().filter(|(calls, _)| *calls > 0).map(text).collect::<String>();
        again + &doubled(row, width)
    };
    let lines: String = outcome.rows.iter().map(of).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// What was sent again of which nobody knows whether it was needed, since what came twice may be copies of the path's.
fn doubled(row: &Row, width: usize) -> String {
    let Stalls { perhaps_needless, path_doubles, path_doubles_there, .. } = row.stalls;
    let (size, all) = (row.size, row.calls);
    let again = (perhaps_needless > 0).then(|| {
        let text = format!(
            "{size} bytes: in {perhaps_needless} of {all} calls, whether needed is unknown: as many segments came twice, as where the path doubles packets"
        );
        paragraph("sent again", &text, width)
    });
    let ways = [(path_doubles, "to"), (path_doubles_there, "from")];
    let doubled = ways.into_iter().filter(|(doubles, _)| *doubles).map(|(_, way)| {
        let text = format!(
            "{size} bytes: the path doubles packets on the way {way} the server: more came twice than had been sent again"
        );
        paragraph("doubled", &text, width)
    });
    again.into_iter().chain(doubled).collect()
}

fn compared(before: &Outcome, after: &Outcome, fix: &str, width: usize) -> String {
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
    let cells = |row: &Row| {
        let (p50, p99) = row.latency_ms.map_or((f64::NAN, f64::NAN), |l| (l.p50, l.p99));
        let rates = [format!("{:.1}", row.calls_per_s), format!("{p50:.3}"), format!("{p99:.3}")];
        one.row(&[&rates[..], &[row.stalls.count.to_string()]].concat())
    };
    for row in &before.rows {
        let then = after.rows.iter().find(|r| r.size == row.size).map(cells);
        let then = then.unwrap_or(" ".into());
        let _ = writeln!(out, "{:>BYTES$}{}{apart}{then}", row.size, cells(row));
    }
    out
}

/// One finding a cause: that of the size with the most stalls, and which others have it too.
fn findings(outcome: &Outcome) -> Vec<Finding> {
    let mut causes: Vec<_> = outcome.rows.iter().filter_map(|r| r.stalls.cause()).collect();
    causes.sort_unstable();
    causes.dedup();
    let one = |cause| {
        let rows: Vec<&Row> =
            outcome.rows.iter().filter(|r| r.stalls.cause() == Some(cause)).collect();
        let worst = rows.iter().max_by_key(|r| r.stalls.count)?;
        let mut finding = worst.finding.clone()?;
        if let [first, .., last] = rows[..] {
            let (count, from, to) = (rows.len(), first.size, last.size);
            finding.subject = format!(
                "calls of {count} sizes from {from} to {to} bytes (seen: of {})",
                worst.size
            );
        }
        Some(finding)
    };
    let mut found: Vec<Finding> = causes.into_iter().filter_map(one).collect();
    worst_first(&mut found);
    found
}

fn told(found: &[Finding], width: usize) -> String {
    let of = |finding| format!("\n{}\n", lines(finding, width).join("\n"));
    found.iter().map(of).collect()
}

/// A label and a text in lines of so many columns.
fn paragraph(label: &str, said: &str, width: usize) -> String {
    let head = format!("  {label:<9} ");
    let start = head.chars().count();
    let broken = wrapped(said, width - start);
    let first = |at: usize| if at == 0 { head.clone() } else { " ".repeat(start) };
    broken.iter().enumerate().map(|(at, line)| format!("{}{line}\n", first(at))).collect()
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

    #[test]
    fn paragraphs_keep_within_their_columns() {
        for width in [100, 80] {
            let text = paragraph("evidence", &"word ".repeat(60), width);
            assert!(text.lines().count() > 2 && text.lines().all(|l| l.chars().count() <= width));
        }
    }
}
