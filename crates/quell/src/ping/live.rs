//! The live view: a line a stream, made of its state and nothing else.
//!
//! ```text
//!   ICMP every 200ms, RTT in ms, 7.9 s                               Ctrl-C sums up
//!   stream   sent lost%    min    p50    p99    max jitter  last 5 s, 0 to 40.00 ms
//!   voip       40   2.5  20.00  20.00  32.40  40.00  1.053  ▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅×█▅
//! ```

use super::text::{self, ms_or_dash};
use crate::live_view::{self, ChartColumn, TerminalSize, cut};
use quell_ping::{Bucket, PingSession, Tally};
use quell_report::analysis::Counts;
use quell_stats::Summary;
use quell_units::fmt::{ms, percent};
use std::fmt::Write;

/// Marks from low to high, and what stands for a loss.
struct Marks {
    bars: &'static [char],
    lost: char,
}

const BLOCKS: Marks =
    Marks { bars: &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'], lost: '×' };
const ASCII: Marks = Marks { bars: &['_', '.', ':', '-', '=', '+', '*', '#'], lost: 'x' };

const FIGURES: usize = 49;
const NAME: usize = 24;
/// A picture narrower than this is none.
const PICTURE: usize = 4;

/// The view as lines, none wider than the place and fewer than its height.
pub fn lines(
    session: &PingSession,
    tallies: &[Tally],
    elapsed_ns: u64,
    place: TerminalSize,
) -> Vec<String> {
    let room = place.height.saturating_sub(4).max(1);
    let streams = session.targets.len();
    let shown = if streams <= room { streams } else { room.saturating_sub(1).max(1) };
    let longest = session.targets.iter().map(|t| t.name.chars().count()).max().unwrap_or(0);
    let wanted = longest.clamp("stream".len(), NAME);
    // Names come before the picture where there is no room for both.
    let picture = place.width.saturating_sub(wanted + FIGURES + 2);
    let picture = if picture < PICTURE { 0 } else { picture };
    let spare = place.width.saturating_sub(FIGURES + if picture > 0 { 2 + picture } else { 0 });
    let name = wanted.min(spare.max("stream".len()));
    let pictures: Vec<Vec<Bucket>> =
        tallies.iter().take(shown).map(|t| t.recent.last(picture, elapsed_ns)).collect();
    let worst = pictures.iter().flatten().filter_map(|b| b.worst_ns).max().unwrap_or(0);

    let mut out = vec![headline(session, elapsed_ns, place.width)];
    let mut head = format!("{:<name$}", "stream");
    for (title, width) in COLUMNS {
        let _ = write!(head, " {title:>width$}");
    }
    if picture > 0 {
        head += &legend(tallies, worst, picture);
    }
    out.push(head);
    let marks = if place.unicode { BLOCKS } else { ASCII };
    for ((target, tally), picture) in session.targets.iter().zip(tallies).zip(&pictures) {
        let mut line = format!("{:<name$}", cut(&target.name, name));
        for (cell, (_, width)) in cells(tally).into_iter().zip(COLUMNS) {
            let _ = write!(line, " {cell:>width$}");
        }
        line += "  ";
        line.extend(picture.iter().map(|bucket| mark(bucket, worst, &marks)));
        out.push(line.trim_end().to_owned());
    }
    if shown < streams {
        out.push(format!("... and {} more; a higher window shows them", streams - shown));
    }
    if let Some(note) = note(tallies) {
        out.push(note);
    }
    out.iter().map(|line| cut(line, place.width.saturating_sub(1).max(1))).collect()
}

const COLUMNS: [(&str, usize); 7] =
    [("sent", 6), ("lost%", 5), ("min", 6), ("p50", 6), ("p99", 6), ("max", 6), ("jitter", 6)];

fn cells(tally: &Tally) -> [String; 7] {
    let (counts, way) = (tally.fold.counts(), tally.fold.round_trip());
    let rtt = |of: fn(&Summary) -> f64| {
        let [least, most] = [&way.delays_ms, &way.delays_at_most_ms].map(|s| s.as_ref().map(of));
        let mark = if most.is_some() && most != least { "≥" } else { "" };
        least.map_or("-".into(), |least| format!("{mark}{}", ms(least)))
    };
    [
        counts.sent.to_string(),
        loss(&counts),
        rtt(|s| s.min),
        rtt(|s| s.p50),
        rtt(|s| s.p99),
        rtt(|s| s.max),
        ms_or_dash(way.jitter_ms),
    ]
}

/// The loss in five places, or the most that it can be.
fn loss(counts: &Counts) -> String {
    let mark = if counts.unsure > 0 { "≤" } else { "" };
    counts.loss_range().map_or("-".into(), |(_, most)| format!("{mark}{}", percent(most)))
}

fn headline(session: &PingSession, elapsed_ns: u64, width: usize) -> String {
    let (method, every) = (session.method.name(), session.interval);
    let seconds = elapsed_ns as f64 / 1e9;
    live_view::headline(format!("{method} every {every}, RTT in ms, {seconds:.1} s"), width)
}

/// The stream whose last round trips were longest, as a chart in the rows that these lines leave.
pub fn chart(tallies: &[Tally], elapsed_ns: u64, place: TerminalSize, used: usize) -> Vec<String> {
    let last = |tally: &Tally| tally.recent.last(place.chart_columns(), elapsed_ns);
    let worst = |tally: &&Tally| last(tally).iter().filter_map(|bucket| bucket.worst_ns).max();
    let Some(tally) = tallies.iter().max_by_key(worst) else { return Vec::new() };
    let column = |bucket: Bucket| ChartColumn {
        value: bucket.worst_ns.map(|ns| ns as f64 / 1e6),
        lost: bucket.lost,
    };
    let columns: Vec<ChartColumn> = last(tally).into_iter().map(column).collect();
    place.chart(used, &columns, |top| format!("{} ms", ms(top)))
}

/// What the picture shows, as long as there is room to say it.
fn legend(tallies: &[Tally], worst_ns: u64, width: usize) -> String {
    let bucket_ns = tallies.first().map_or(0, |t| t.recent.bucket_ns());
    let span = bucket_ns as f64 * width as f64 / 1e9;
    let top = ms(worst_ns as f64 / 1e6);
    let texts = [
        format!("worst of each {:.1} s, from 0 to {top} ms", bucket_ns as f64 / 1e9),
        format!("last {span:.0} s, 0 to {top} ms"),
        format!("0 to {top} ms"),
        format!("to {top}"),
    ];
    let fits = texts.into_iter().find(|t| t.chars().count() <= width);
    fits.map_or(String::new(), |text| format!("  {text}"))
}

fn mark(bucket: &Bucket, worst_ns: u64, marks: &Marks) -> char {
    match bucket {
        Bucket { lost: true, .. } => marks.lost,
        Bucket { worst_ns: None, .. } => ' ',
        Bucket { worst_ns: Some(ns), .. } => {
            let top = marks.bars.len() - 1;
            let share = *ns as f64 / worst_ns.max(1) as f64;
            marks.bars[((share * top as f64).round() as usize).min(top)]
        }
    }
}

fn note(tallies: &[Tally]) -> Option<String> {
    let errors: u64 = tallies.iter().map(|t| t.fold.counts().errors).sum();
    let mut notes = Vec::new();
    if errors > 0 {
        let were = if errors == 1 { "packet was" } else { "packets were" };
        notes.push(format!("{errors} {were} refused, or answered by an error"));
    }
    if text::starved(tallies.iter().map(|tally| &tally.fold)).is_some() {
        notes.push("this machine is short of CPU".to_owned());
    }
    (!notes.is_empty()).then(|| format!("! {}", notes.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::{EchoSample, EchoStatus};
    use quell_ping::{Method, Target};
    use quell_units::{Span, Tos};

    fn session(names: &[&str]) -> PingSession {
        let target = |name: &&str| Target {
            name: (*name).into(),
            host: (*name).into(),
            to: ([192, 0, 2, 7], 0).into(),
            others: Vec::new(),
            tos: Tos::from_byte(0),
            size: 56,
        };
        PingSession {
            targets: names.iter().map(target).collect(),
            method: Method::Icmp,
            interval: Span::from_millis(200),
            count: None,
            duration: None,
            wait: None,
            way: quell_sys::socket::Way::default(),
            one_clock: false,
            seed: 1,
        }
    }

    /// A packet of a stream with one every 200 ms.
    fn sample(seq: u64, rtt_ms: Option<u64>, status: EchoStatus) -> EchoSample {
        EchoSample {
            rtt_ns: rtt_ms.map(|ms| ms * 1_000_000),
            seen_late_ns: Some(1),
            ..EchoSample::new((seq * 200_000_000) as i64, seq, 56, status)
        }
    }

    /// 40 packets of 20 ms, the 38th lost, the 39th after 40 ms.
    fn tally() -> Tally {
        let mut tally = Tally::new(200_000_000);
        for n in 0..40 {
            tally.take(&match n {
                37 => sample(n, None, EchoStatus::Lost),
                38 => sample(n, Some(40), EchoStatus::Ok),
                _ => sample(n, Some(20), EchoStatus::Ok),
            });
        }
        tally
    }

    const NOW: u64 = 7_900_000_000;

    fn view(names: &[&str], width: usize, height: usize, unicode: bool) -> Vec<String> {
        let session = session(names);
        let tallies: Vec<Tally> = names.iter().map(|_| tally()).collect();
        lines(&session, &tallies, NOW, TerminalSize { width, height, unicode })
    }

    #[test]
    fn a_stream_has_its_figures_and_its_last_stretch_in_a_line() {
        let got = view(&["voip"], 80, 24, true);
        let wanted = [
            "ICMP every 200ms, RTT in ms, 7.9 s                               Ctrl-C sums up",
            "stream   sent lost%    min    p50    p99    max jitter  last 5 s, 0 to 40.00 ms",
            "voip       40   2.5  20.00  20.00  32.40  40.00  1.053  ▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅×█▅",
        ];
        assert_eq!(got, wanted);
        let ascii = view(&["voip"], 80, 24, false);
        assert!(ascii[2].ends_with("=====x#="), "{ascii:#?}");
        assert!(ascii.iter().all(|l| l.is_ascii()), "{ascii:#?}");
    }

    #[test]
    fn it_fits_every_terminal() {
        let long = "a-name-that-is-much-longer-than-a-column-of-a-table-can-be";
        let names: Vec<String> = (0..30).map(|n| format!("{long}{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (width, height) in
            [(80, 24), (100, 30), (120, 40), (300, 100), (40, 10), (5, 2), (1, 1)]
        {
            let got = view(&names, width, height, true);
            assert!(got.len() < height.max(5), "{width}x{height}: {} lines", got.len());
            for line in &got {
                assert!(line.chars().count() < width.max(2), "{width}x{height}: {line}");
            }
            if width >= 80 {
                assert!(got[1].contains("jitter") && got[2].contains("32.40"), "{got:#?}");
            }
        }
        let hidden = view(&names, 100, 24, true);
        assert!(hidden.iter().any(|l| l.contains("and 11 more")), "{hidden:#?}");
    }

    #[test]
    fn nothing_measured_is_a_dash_and_not_a_zero() {
        let session = session(&["a"]);
        let place = TerminalSize { width: 80, height: 24, unicode: true };
        let got = lines(&session, &[Tally::new(1)], 0, place);
        assert_eq!(got[2], "a           0     -      -      -      -      -      -");
    }

    #[test]
    fn errors_and_a_starved_machine_are_noted_below() {
        let mut tally = tally();
        tally.take(&sample(41, None, EchoStatus::Error));
        for n in 42..72 {
            let late =
                EchoSample { seen_late_ns: Some(6_000_000), ..sample(n, Some(20), EchoStatus::Ok) };
            tally.take(&late);
        }
        let place = TerminalSize { width: 100, height: 24, unicode: true };
        let got = lines(&session(&["a"]), &[tally], NOW, place);
        let note = got.last().expect("there are lines");
        assert!(note.contains("1 packet was refused") && note.contains("short of CPU"), "{note}");
    }
}
