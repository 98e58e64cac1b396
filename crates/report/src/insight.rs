//! What a run shows, in the sentences that open it.
//!
//! ```text
//!   scenarios that belong together ──► Uploads beside your call: ping 457 → 23 ms, loss 1.7 % → 0.
//!   else, claims                   ──► loss of voip in alone = 0% holds: 0 %.
//! ```
//!
//! Pure: from results over repeats to text. Every figure is the run's.

use crate::analysis::{Summary, SummaryRow};
use quell_model::manifest::ExpectationRecord;
use quell_model::{CellId, Manifest, Metric};
use quell_units::fmt::short;
use std::collections::BTreeMap;

/// Two scenarios that belong together: a line as it is, and the same with something done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub before: String,
    pub after: String,
}

/// What the name of a scenario ends in that is another one, shaped.
const SHAPED: [&str; 2] = ["-shaped", " shaped"];

impl Pair {
    /// The pairs of a run: NAME and NAME-shaped, and those that the experiment names (`against`, by scenario), in the order of the second.
    pub fn all(manifest: &Manifest, against: &BTreeMap<String, String>) -> Vec<Self> {
        let scenarios = manifest.scenarios();
        let before = |after: &str| {
            let stem = SHAPED.iter().find_map(|end| after.strip_suffix(end));
            let named = against.get(after).map(String::as_str).or(stem)?;
            scenarios.contains(&named).then(|| named.to_owned())
        };
        let pair = |after: &&str| Some(Self { before: before(after)?, after: (*after).to_owned() });
        scenarios.iter().filter_map(pair).collect()
    }

    fn is_shaped(&self) -> bool {
        SHAPED.iter().any(|end| self.after.strip_suffix(end) == Some(&self.before))
    }

    /// What was done, in a word.
    pub fn word(&self) -> &str {
        if self.is_shaped() { "shaped" } else { &self.after }
    }

    /// What both are of.
    pub fn name(&self) -> String {
        match self.is_shaped() {
            true => self.before.clone(),
            false => format!("{} → {}", self.before, self.after),
        }
    }

    /// The same in words, where the scenario's name says what went on.
    fn in_words(&self) -> String {
        match (self.is_shaped(), &*self.before) {
            (true, "unloaded") => "The idle line".to_owned(),
            (true, "bulk") => "Uploads beside your call".to_owned(),
            (true, "flood") => "A flood beside your call".to_owned(),
            _ => self.name(),
        }
    }
}

/// The sentences: a pair of scenarios each, the one that changed most first, or some claims where there is none; and claims that do not hold.
pub fn opening(manifest: &Manifest, summary: &Summary, pairs: &[Pair]) -> Vec<String> {
    let mut changes: Vec<PairChange> = pairs.iter().map(|p| PairChange::of(summary, p)).collect();
    changes.sort_by(|a, b| b.size().total_cmp(&a.size()));
    let mut said: Vec<String> = changes.iter().filter_map(PairChange::sentence).collect();
    if said.is_empty() || manifest.expectations.iter().any(|record| !record.held) {
        said.extend(claims(&manifest.expectations));
    }
    said
}

/// Figures before and after.
#[derive(Debug, Clone, Default, PartialEq)]
struct PairChange {
    name: String,
    /// Median round trip in milliseconds.
    ping_ms: Option<(f64, f64)>,
    /// Loss, 0 to 1, of a stream of packets as a call has it, else of pings.
    loss: Option<(f64, f64)>,
    /// Until a page was there, in milliseconds; none where no page came.
    page_ms: Option<(Option<f64>, Option<f64>)>,
    /// Goodput of a flow in Mbit/s.
    goodput_mbps: Option<(f64, f64)>,
}

impl PairChange {
    fn of(summary: &Summary, pair: &Pair) -> Self {
        let rows = |scenario: &str| -> Vec<&SummaryRow> {
            let own = |r: &&SummaryRow| r.stream == r.probe || r.probe == CellId::TOGETHER;
            summary.rows.iter().filter(own).filter(|r| r.scenario == scenario).collect()
        };
        let (before, after) = (rows(&pair.before), rows(&pair.after));
        let both = |is: fn(&SummaryRow) -> bool, of: fn(&SummaryRow) -> Option<f64>| {
            before.iter().filter(|r| is(r)).find_map(|a| {
                let b = after.iter().find(|b| (&b.stream, &b.probe) == (&a.stream, &a.probe))?;
                Some((of(a)?, of(b)?))
            })
        };
        let is_call = |r: &SummaryRow| r.jitter_up_ms.is_some();
        let is_page = |r: &SummaryRow| r.page_load_ms.is_some();
        let page = |rows: &[&SummaryRow]| rows.iter().find_map(|r| Some(r.page_load_ms?.value));
        // A stream of echoes measures it best; a call's own will do.
        let ping = |r: &SummaryRow| Some(r.rtt_p50_ms?.value);
        let loss = |r: &SummaryRow| Some(r.loss?.value);
        Self {
            name: pair.in_words(),
            ping_ms: both(|r| r.jitter_up_ms.is_none(), ping).or_else(|| both(|_| true, ping)),
            loss: both(is_call, loss).or_else(|| both(|r| r.rtt_p50_ms.is_some(), loss)),
            page_ms: after.iter().any(|r| is_page(r)).then(|| (page(&before), page(&after))),
            goodput_mbps: both(|_| true, |r| Some(r.goodput_mbps?.value)),
        }
    }

    /// How much was changed, to put the greatest first: loss before delay.
    fn size(&self) -> f64 {
        let loss = self.loss.map_or(0.0, |(before, after)| (before - after).abs() * 1e3);
        let delay = self.ping_ms.map_or(0.0, |(before, after)| (before / after.max(1e-3)).ln());
        loss + delay.abs()
    }

    fn sentence(&self) -> Option<String> {
        let lost = |part: f64| match part * 100.0 {
            percent if percent < 0.05 => "0".to_owned(),
            percent => format!("{} %", short(percent)),
        };
        let ping = self.ping_ms.map(|pair| format!("ping {}", change(pair, "ms")));
        let loss = self.loss.map(|(before, after)| (lost(before), lost(after)));
        let loss = loss.filter(|(before, after)| [before, after].iter().any(|l| **l != "0"));
        let loss = loss.map(|(before, after)| format!("loss {before} → {after}"));
        let page = self.page_ms.map(|pages| match pages {
            (Some(before), Some(after)) => format!("a page {}", change((before, after), "ms")),
            (None, Some(after)) => format!("a page never → {} ms", short(after)),
            _ => "no page came".to_owned(),
        });
        let goodput = self.goodput_mbps.map(|pair| format!("goodput {}", change(pair, "Mbit/s")));
        let figures: Vec<String> = [ping, loss, page, goodput].into_iter().flatten().collect();
        (!figures.is_empty()).then(|| format!("{}: {}.", self.name, figures.join(", ")))
    }
}

/// Two figures of one unit, as `457 → 23 ms`.
fn change((before, after): (f64, f64), unit: &str) -> String {
    format!("{} → {} {unit}", short(before), short(after))
}

/// How the claims came out, in a sentence; none where nothing was claimed.
pub fn verdict(all: &[ExpectationRecord]) -> Option<String> {
    let held = all.iter().filter(|record| record.held).count();
    match all.len() {
        0 => None,
        1 if held == 1 => Some("The expectation holds.".to_owned()),
        count if held == count => Some(format!("All {count} expectations hold.")),
        count => Some(format!("{held} of {count} expectations hold.")),
    }
}

/// Some claims in words, those that did not hold first.
fn claims(all: &[ExpectationRecord]) -> Vec<String> {
    let said = |record: &ExpectationRecord| {
        let held = if record.held { "holds" } else { "does not hold" };
        format!("{} {held}: {}.", in_words(&record.claim), record.found)
    };
    let failed: Vec<_> = all.iter().filter(|record| !record.held).collect();
    let some = if failed.is_empty() { all.iter().collect() } else { failed };
    some.into_iter().take(3).map(said).collect()
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

    fn change(name: &str) -> PairChange {
        PairChange { name: name.to_owned(), ..PairChange::default() }
    }

    #[test]
    fn a_pair_is_told_by_what_was_measured_of_it_before_and_after() {
        let flood = PairChange {
            loss: Some((0.848, 0.0)),
            ping_ms: Some((457.3, 22.9)),
            ..change("A flood beside your call")
        };
        let wanted = "A flood beside your call: ping 457 → 23 ms, loss 85 % → 0.";
        assert_eq!(flood.sentence().as_deref(), Some(wanted));
        let bulk =
            PairChange { loss: Some((0.0, 0.0)), ping_ms: Some((449.0, 20.0)), ..change("bulk") };
        assert_eq!(bulk.sentence().as_deref(), Some("bulk: ping 449 → 20 ms."));
        let pages = PairChange { page_ms: Some((None, Some(380.5))), ..change("bulk") };
        assert_eq!(pages.sentence().as_deref(), Some("bulk: a page never → 380 ms."));
        let upload = PairChange { goodput_mbps: Some((0.6, 1.2)), ..change("evening") };
        let wanted = "evening: goodput 0.6 → 1.2 Mbit/s.";
        assert_eq!(upload.sentence().as_deref(), Some(wanted));
        assert_eq!(change("evening").sentence(), None);
        assert!(flood.size() > bulk.size() && bulk.size() > change("unloaded").size());
    }

    #[test]
    fn what_has_no_pairs_opens_with_its_claims() {
        let record = |claim: &str, held, found: &str| ExpectationRecord {
            claim: claim.into(),
            held,
            found: found.into(),
        };
        let good = [record("fifo.voip.up.p50 > 100ms", true, "211.4 ms")];
        assert_eq!(claims(&good), ["up.p50 of voip in fifo > 100ms holds: 211.4 ms."]);
        assert_eq!(verdict(&good).as_deref(), Some("The expectation holds."));
        let bad = [good[0].clone(), record("*.tcp.goodput > 0.5 * a.tcp.goodput", false, "none")];
        let wanted =
            "goodput of tcp in every scenario > 0.5 * goodput of tcp in a does not hold: none.";
        assert_eq!(claims(&bad), [wanted]);
        assert_eq!(verdict(&bad).as_deref(), Some("1 of 2 expectations hold."));
        assert_eq!((claims(&[]), verdict(&[])), (Vec::new(), None));
    }
}
