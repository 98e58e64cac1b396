//! What a run shows, in the sentences that open it.
//!
//! ```text
//!   scenarios NAME and NAME-shaped ──► Your call lost 85 % of its packets while the line was flooded, and none with the queue: ping 457 → 23 ms.
//!   else, claims                   ──► All 5 expectations held: loss of voip in alone was 0 % …
//! ```
//!
//! Pure: from results over repeats to text. Every figure is the run's.

use crate::analysis::{Summary, SummaryRow};
use quell_model::manifest::ExpectationRecord;
use quell_model::{CellId, Manifest, Metric};

/// What the name of a scenario ends in that is another with the queue.
const SHAPED: [&str; 2] = ["-shaped", " shaped"];

/// Most claims that are told.
const MOST_TOLD: usize = 3;

/// The sentences: a pair of scenarios each, the one that the queue changed most first; else how the claims came out.
pub fn opening(manifest: &Manifest, summary: &Summary) -> Vec<String> {
    let mut scenarios: Vec<&str> = Vec::new();
    for CellId { scenario, .. } in manifest.cells.iter().map(|cell| &cell.id) {
        if !scenarios.contains(&&**scenario) {
            scenarios.push(scenario);
        }
    }
    let twin = |name: &str| {
        let with = SHAPED.map(|end| format!("{name}{end}"));
        scenarios.iter().copied().find(|other| with.iter().any(|with| with == other))
    };
    let pairs = scenarios.iter().filter_map(|name| Some((*name, twin(name)?)));
    let mut pairs: Vec<Pair> = pairs.map(|(name, twin)| Pair::of(summary, name, twin)).collect();
    pairs.sort_by(|a, b| b.change().total_cmp(&a.change()));
    let sentences: Vec<String> = pairs.iter().filter_map(Pair::sentence).collect();
    match sentences.is_empty() {
        true => claims(&manifest.expectations),
        false => sentences,
    }
}

/// Figures of a scenario and of its twin with the queue.
#[derive(Debug, Clone, Default, PartialEq)]
struct Pair {
    scenario: String,
    /// Loss, 0 to 1, of a stream of packets as a call has it.
    call_loss: Option<(f64, f64)>,
    /// Median round trip in milliseconds.
    ping_ms: Option<(f64, f64)>,
    /// Until a page was there, in milliseconds; none where no page came.
    page_ms: Option<(Option<f64>, Option<f64>)>,
    /// Goodput of a flow in Mbit/s.
    goodput_mbps: Option<(f64, f64)>,
}

impl Pair {
    fn of(summary: &Summary, scenario: &str, twin: &str) -> Self {
        let rows = |scenario: &str| -> Vec<&SummaryRow> {
            let own = |r: &&SummaryRow| r.stream == r.probe || r.probe == CellId::TOGETHER;
            summary.rows.iter().filter(own).filter(|r| r.scenario == scenario).collect()
        };
        let (without, with) = (rows(scenario), rows(twin));
        let both = |is: fn(&SummaryRow) -> bool, of: fn(&SummaryRow) -> Option<f64>| {
            without.iter().filter(|r| is(r)).find_map(|a| {
                let b = with.iter().find(|b| (&b.stream, &b.probe) == (&a.stream, &a.probe))?;
                Some((of(a)?, of(b)?))
            })
        };
        let is_call = |r: &SummaryRow| r.jitter_up_ms.is_some() && r.loss.is_some();
        let is_page = |r: &SummaryRow| r.page_load_ms.is_some();
        let page = |rows: &[&SummaryRow]| rows.iter().find_map(|r| Some(r.page_load_ms?.value));
        Self {
            scenario: scenario.to_owned(),
            call_loss: both(is_call, |r| Some(r.loss?.value)),
            // A stream of echoes measures it best; a call's own will do.
            ping_ms: both(|r| r.jitter_up_ms.is_none(), |r| Some(r.rtt_p50_ms?.value))
                .or_else(|| both(|_| true, |r| Some(r.rtt_p50_ms?.value))),
            page_ms: with.iter().any(|r| is_page(r)).then(|| (page(&without), page(&with))),
            goodput_mbps: both(|_| true, |r| Some(r.goodput_mbps?.value)),
        }
    }

    /// How much the queue changed, to put the greatest first: loss before delay.
    fn change(&self) -> f64 {
        let loss = self.call_loss.map_or(0.0, |(without, with)| (without - with).abs() * 1e3);
        let delay = self.ping_ms.map_or(0.0, |(without, with)| (without / with.max(1e-3)).ln());
        loss + delay.abs()
    }

    fn sentence(&self) -> Option<String> {
        let when = when(&self.scenario);
        let ping = self.ping_ms.map(|pair| format!("ping {}", change(pair, "ms")));
        let pages = self.page_ms.map(|(without, with)| match (without, with) {
            (Some(without), Some(with)) => format!("a page {}", change((without, with), "ms")),
            (None, Some(with)) => {
                format!("no page came without it, with it one took {} ms", figure(with))
            }
            _ => "no page came".to_owned(),
        });
        let goodput = self.goodput_mbps.map(|pair| format!("an upload {}", change(pair, "Mbit/s")));
        let rest: Vec<String> = [ping, pages].into_iter().flatten().collect();
        let rest = if rest.is_empty() { Vec::from_iter(goodput) } else { rest };
        let figures = rest.join(", ");
        let tail = if figures.is_empty() { ".".to_owned() } else { format!(": {figures}.") };
        match self.call_loss.map(|(without, with)| (lost(without), lost(with))) {
            Some((without, with)) if without == with => {
                Some(format!("Your call lost {without} {when}, with the queue and without{tail}"))
            }
            Some((without, with)) => {
                let packets =
                    if without == "nothing" { without } else { without + " of its packets" };
                let with = if with == "nothing" { "none".to_owned() } else { with };
                Some(format!("Your call lost {packets} {when}, and {with} with the queue{tail}"))
            }
            None if figures.is_empty() => None,
            None => {
                let mut first = when.chars();
                let start = first.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
                Some(format!("{start}{}, without the queue and with it{tail}", first.as_str()))
            }
        }
    }
}

fn when(scenario: &str) -> String {
    match scenario {
        "unloaded" => "on the idle line".to_owned(),
        "bulk" => "while uploads filled the line".to_owned(),
        "flood" => "while the line was flooded".to_owned(),
        other => format!("in {other}"),
    }
}

fn lost(loss: f64) -> String {
    match loss * 100.0 {
        percent if percent < 0.05 => "nothing".to_owned(),
        percent => format!("{} %", figure(percent)),
    }
}

/// Two figures of one unit, as `457 → 23 ms`.
fn change((without, with): (f64, f64), unit: &str) -> String {
    format!("{} → {} {unit}", figure(without), figure(with))
}

/// As many digits as a person reads.
fn figure(value: f64) -> String {
    match value {
        v if v >= 9.95 => format!("{v:.0}"),
        v if v >= 0.095 => format!("{v:.1}"),
        v => format!("{v:.3}"),
    }
}

/// How the claims came out, those that did not hold first.
fn claims(all: &[ExpectationRecord]) -> Vec<String> {
    let told = |record: &ExpectationRecord| {
        let held = if record.held { "held" } else { "did not hold" };
        format!("{} {held}: {}.", in_words(&record.claim), record.found)
    };
    let failed: Vec<_> = all.iter().filter(|record| !record.held).collect();
    let first = match (all.len(), failed.len()) {
        (0, _) => return Vec::new(),
        (1, 0) => "The expectation held.".to_owned(),
        (count, 0) => format!("All {count} expectations held."),
        (count, failed) => format!("{failed} of {count} expectations did not hold."),
    };
    let some = if failed.is_empty() { all.iter().collect() } else { failed };
    std::iter::once(first).chain(some.into_iter().take(MOST_TOLD).map(told)).collect()
}

/// A claim with its sources in words: `fifo.voip.up.p50 > 100ms` is `up.p50 of voip in fifo > 100ms`.
fn in_words(claim: &str) -> String {
    let word = |word: &str| -> Option<String> {
        let (scenario, rest) = word.split_once('.')?;
        let (probe, metric) = rest.split_once('.')?;
        Metric::parse(metric)?;
        let scenario = if scenario == "*" { "every scenario" } else { scenario };
        Some(format!("{metric} of {probe} in {scenario}"))
    };
    let words = claim.split(' ').map(|part| word(part).unwrap_or_else(|| part.to_owned()));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(scenario: &str) -> Pair {
        Pair { scenario: scenario.to_owned(), ..Pair::default() }
    }

    #[test]
    fn a_flooded_line_opens_with_the_call_that_it_broke() {
        let flood = Pair {
            call_loss: Some((0.848, 0.0)),
            ping_ms: Some((457.3, 22.9)),
            goodput_mbps: Some((0.001, 1.06)),
            ..pair("flood")
        };
        let wanted = "Your call lost 85 % of its packets while the line was flooded, and none with the queue: ping 457 → 23 ms.";
        assert_eq!(flood.sentence().as_deref(), Some(wanted));
        let bulk =
            Pair { call_loss: Some((0.0, 0.0)), ping_ms: Some((449.0, 20.0)), ..pair("bulk") };
        let wanted = "Your call lost nothing while uploads filled the line, with the queue and without: ping 449 → 20 ms.";
        assert_eq!(bulk.sentence().as_deref(), Some(wanted));
        assert!(flood.change() > bulk.change() && bulk.change() > pair("unloaded").change());
    }

    #[test]
    fn a_pair_of_any_name_is_told_by_what_was_measured_of_it() {
        let pages = Pair { page_ms: Some((None, Some(380.5))), ..pair("flood") };
        let wanted = "While the line was flooded, without the queue and with it: no page came without it, with it one took 380 ms.";
        assert_eq!(pages.sentence().as_deref(), Some(wanted));
        let upload = Pair { goodput_mbps: Some((0.6, 1.2)), ..pair("evening") };
        let wanted = "In evening, without the queue and with it: an upload 0.6 → 1.2 Mbit/s.";
        assert_eq!(upload.sentence().as_deref(), Some(wanted));
        assert_eq!(pair("evening").sentence(), None);
    }

    #[test]
    fn what_has_no_pairs_opens_with_its_claims() {
        let record = |claim: &str, held, found: &str| ExpectationRecord {
            claim: claim.into(),
            held,
            found: found.into(),
        };
        let good = [record("fifo.voip.up.p50 > 100ms", true, "211.400000 ms")];
        let wanted =
            ["The expectation held.", "up.p50 of voip in fifo > 100ms held: 211.400000 ms."];
        assert_eq!(claims(&good), wanted);
        let bad = [good[0].clone(), record("*.tcp.goodput > 0.5 * a.tcp.goodput", false, "none")];
        let wanted = [
            "1 of 2 expectations did not hold.",
            "goodput of tcp in every scenario > 0.5 * goodput of tcp in a did not hold: none.",
        ];
        assert_eq!(claims(&bad), wanted);
        assert_eq!(claims(&[]), Vec::<String>::new());
    }
}
