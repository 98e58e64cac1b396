//! What a run shows, in the sentences that open it.
//!
//! ```text
//!   scenarios that belong together ──► Uploads beside your call: ping 457 → 23 ms, loss 1.7 % → 0; grade F → A.
//!   else, claims                   ──► loss of voip in alone = 0% holds: 0 %.
//! ```
//!
//! Pure: from results over repeats to text. Every figure is the run's.

use crate::analysis::{LoadsRow, Results, StreamResult, Summary, SummaryRow};
use quell_grade::{Assessment, Grade, LEAST_SAMPLES, LoadedDelay, REQUIREMENTS};
use quell_model::manifest::ExpectationRecord;
use quell_model::{CellId, Manifest, Metric};
use quell_stats::{Batch, Interval, Sample};
use quell_units::fmt::{plural, short};
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
    /// The pairs of a run: NAME and NAME-shaped, and those that its experiment names (`against`), in the order of the second.
    pub fn all(manifest: &Manifest) -> Vec<Self> {
        let scenarios = manifest.scenarios();
        let before = |after: &str| {
            let stem = SHAPED.iter().find_map(|end| after.strip_suffix(end));
            let named = manifest.against.get(after).map(String::as_str).or(stem)?;
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
    pub(crate) fn in_words(&self) -> String {
        match (self.is_shaped(), &*self.before) {
            (true, "unloaded") => "The idle line".to_owned(),
            (true, "bulk") => "Uploads beside your call".to_owned(),
            (true, "download") => "Downloads beside your call".to_owned(),
            (true, "flood") => "A flood beside your call".to_owned(),
            _ => self.name(),
        }
    }
}

/// The sentences: a pair of scenarios each, the one that changed most first, or some claims where there is none; and claims that do not hold.
pub fn opening(manifest: &Manifest, results: &Results, summary: &Summary) -> Vec<String> {
    if !manifest.headline.is_empty() {
        return manifest.headline.clone();
    }
    let pairs = Pair::all(manifest);
    let changes = changes(results, summary, &pairs).into_iter();
    let changes: Vec<PairChange> = changes.map(|(_, change)| change).collect();
    let mut said: Vec<String> = changes.iter().filter_map(PairChange::sentence).collect();
    if said.is_empty() || manifest.expectations.iter().any(|record| !record.held) {
        said.extend(claims(&manifest.expectations));
    }
    said
}

/// The pairs with what changed, that which changed most first.
fn changes<'p>(
    results: &Results,
    summary: &Summary,
    pairs: &'p [Pair],
) -> Vec<(&'p Pair, PairChange)> {
    let of = |pair| (pair, PairChange::of(results, summary, pair));
    let mut changes: Vec<_> = pairs.iter().map(of).collect();
    changes.sort_by(|(_, a), (_, b)| b.size().total_cmp(&a.size()));
    changes
}

/// The pairs, that which changed most first.
pub(crate) fn ranked(manifest: &Manifest, results: &Results, summary: &Summary) -> Vec<Pair> {
    let pairs = Pair::all(manifest);
    changes(results, summary, &pairs).into_iter().map(|(pair, _)| pair.clone()).collect()
}

/// How well a call, a game and a page work in a scenario, beside the idle line's delay, or of how few answers nobody can say; none where the run has no
/// scenario `unloaded`.
fn grade(results: &Results, scenario: &str) -> Option<Result<Grade, usize>> {
    let pings = |scenario: &str| -> Option<Vec<f64>> {
        let of = |r: &&StreamResult| {
            r.cell.scenario == scenario && r.echo().is_some_and(|e| !e.rtt_each_ms.is_empty())
        };
        let rows = results.rows.iter().filter(of);
        // A stream of echoes measures it best.
        let best = rows.max_by_key(|r| r.echo().is_some_and(|e| e.up_ms.is_none()))?;
        Some(best.echo()?.rtt_each_ms.clone())
    };
    let idle = Sample::new(pings("unloaded")?)?;
    let loaded = Sample::new(pings(scenario)?)?;
    let Loss { value: loss, least: least_loss } = Loss::of(results, scenario).unwrap_or_default();
    let measured = LoadedDelay {
        idle_ms: idle.quantile(0.5)?,
        p50_ms: loaded.quantile(0.5)?,
        p95_ms: loaded.quantile(0.95)?,
        loss,
        least_loss,
        jitter_ms: None,
        samples: loaded.count(),
        load: String::new(),
        connections: 0,
        seconds: 0.0,
    };
    // Of what is lost the few that came say nothing.
    let [call, ..] = REQUIREMENTS;
    let broken = (least_loss >= call.loss[1]).then_some(Grade::F);
    let grade = Assessment::of(&measured).map(|assessment| assessment.grade).or(broken);
    Some(grade.ok_or(measured.samples))
}

/// Of the packets of a probe, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Loss {
    value: f64,
    /// The lower end of its interval, on which the grade rests.
    least: f64,
}

impl Loss {
    /// Of a stream of packets as a call has it, else of any; of several, of the one that lost most for certain.
    fn of(results: &Results, scenario: &str) -> Option<Self> {
        let is_probe =
            |r: &&StreamResult| r.stream == r.cell.probe || r.cell.probe == CellId::TOGETHER;
        let rows = results.rows.iter().filter(is_probe);
        let mut streams: BTreeMap<&str, Vec<&StreamResult>> = BTreeMap::new();
        for row in rows.filter(|r| r.cell.scenario == scenario && r.echo().is_some()) {
            streams.entry(&row.stream).or_default().push(row);
        }
        let of = |repeats: Vec<&StreamResult>| {
            let ratios: Vec<f64> = repeats.iter().filter_map(|r| r.loss_ratio()).collect();
            let value = Sample::new(ratios)?.mean();
            let batches: Vec<Vec<Batch>> = repeats.iter().map(|r| r.batches().0.to_vec()).collect();
            Some(Self { value, least: Interval::of_loss(&batches)?.low })
        };
        let rank = |loss: &Self| (loss.least, loss.value);
        let more = |a: &Self, b: &Self| rank(a).partial_cmp(&rank(b));
        let is_call = |r: &&StreamResult| r.echo().is_some_and(|e| e.jitter_up_ms.is_some());
        let (calls, others): (Vec<_>, Vec<_>) =
            streams.into_values().partition(|repeats| repeats.iter().any(is_call));
        let all = if calls.is_empty() { others } else { calls };
        all.into_iter()
            .filter_map(of)
            .max_by(|a, b| more(a, b).unwrap_or(std::cmp::Ordering::Equal))
    }
}

/// Figures before and after.
#[derive(Debug, Clone, Default, PartialEq)]
struct PairChange {
    name: String,
    /// Median round trip in milliseconds.
    ping_ms: Option<(f64, f64)>,
    /// Loss, 0 to 1, on which the grade rests.
    loss: Option<(f64, f64)>,
    /// Until a page was there, in milliseconds; none where no page came.
    page_ms: Option<(Option<f64>, Option<f64>)>,
    /// Goodput in Mbit/s the way of the load: of the probe, or of the load itself where no probe goes that way.
    goodput_mbps: Option<Goodput>,
    /// How well it works, or of how few answers nobody can say.
    grade: Option<Result<(Grade, Grade), usize>>,
}

impl PairChange {
    fn of(results: &Results, summary: &Summary, pair: &Pair) -> Self {
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
        let is_page = |r: &SummaryRow| r.page_load_ms.is_some();
        let page = |rows: &[&SummaryRow]| rows.iter().find_map(|r| Some(r.page_load_ms?.value));
        // A stream of echoes measures it best; a call's own will do.
        let ping = |r: &SummaryRow| Some(r.rtt_p50_ms?.value);
        let loss = |scenario: &str| Some(Loss::of(results, scenario)?.value);
        Self {
            name: pair.in_words(),
            ping_ms: both(|r| r.jitter_up_ms.is_none(), ping).or_else(|| both(|_| true, ping)),
            loss: loss(&pair.before).zip(loss(&pair.after)),
            page_ms: after.iter().any(|r| is_page(r)).then(|| (page(&before), page(&after))),
            goodput_mbps: goodput(summary, pair),
            grade: grade(results, &pair.before)
                .zip(grade(results, &pair.after))
                .map(|(before, after)| Ok((before?, after?))),
        }
    }

    /// How much was changed, to put the greatest first: by what factor the delay was, of the few packets that a flood leaves last of all.
    fn size(&self) -> f64 {
        let delay = self.ping_ms.map_or(0.0, |(before, after)| (before / after.max(1e-3)).ln());
        match self.loss {
            Some((before, _)) if before > 0.5 => delay.abs() / 1e3 + 1e-3,
            _ => delay.abs(),
        }
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
        let goodput =
            self.goodput_mbps.map(|(of, pair)| format!("{of} {}", change(pair, "Mbit/s")));
        let figures: Vec<String> = [ping, loss, page, goodput].into_iter().flatten().collect();
        let grade = self.grade.map(|grade| match grade {
            Ok((before, after)) => format!("; grade {before:?} → {after:?}"),
            Err(answers) => {
                let answers = plural(answers as u64, "answer");
                format!("; no grade of {answers}, it needs {LEAST_SAMPLES}")
            }
        });
        let grade = grade.unwrap_or_default();
        (!figures.is_empty()).then(|| format!("{}: {}{grade}.", self.name, figures.join(", ")))
    }
}

/// Whose it is, and before and after.
type Goodput = (&'static str, (f64, f64));

/// Goodput before and after, of the first probe that goes the way of the load; else of what the loads carried, as the table has it.
fn goodput(summary: &Summary, pair: &Pair) -> Option<Goodput> {
    let loads = |scenario: &str| -> Vec<&LoadsRow> {
        summary.loads_shown().filter(|load| load.scenario == scenario).collect()
    };
    let (before, after) = (loads(&pair.before), loads(&pair.after));
    let goes_so = |r: &SummaryRow| {
        before.is_empty() || r.way.is_none() || before.iter().any(|load| load.way == r.way)
    };
    let probes = |scenario: &str| -> Vec<&SummaryRow> {
        let own = |r: &&SummaryRow| r.stream == r.probe || r.probe == CellId::TOGETHER;
        summary.rows.iter().filter(own).filter(|r| r.scenario == scenario && goes_so(r)).collect()
    };
    let shaped = probes(&pair.after);
    let of_a_probe = probes(&pair.before).into_iter().find_map(|a| {
        let b = shaped.iter().find(|b| (&b.stream, &b.probe) == (&a.stream, &a.probe))?;
        Some(("goodput", (a.goodput_mbps?.value, b.goodput_mbps?.value)))
    });
    of_a_probe.or_else(|| {
        let [load] = before[..] else { return None };
        let same = after.iter().find(|l| l.way == load.way)?;
        Some(("the loads' goodput", (load.carried_mbps.value, same.carried_mbps.value)))
    })
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
        format!("{} {held}: {}.", in_words(&record.claim), rounded(&record.found))
    };
    let failed: Vec<_> = all.iter().filter(|record| !record.held).collect();
    let some = if failed.is_empty() { all.iter().collect() } else { failed };
    some.into_iter().take(3).map(said).collect()
}

/// The same with three digits behind the point at most.
fn rounded(found: &str) -> String {
    let word = |word: &str| match word.split_once('.') {
        Some((_, digits)) if digits.len() > 3 => match word.parse::<f64>() {
            Ok(value) if value.abs() >= 0.001 => {
                format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            _ => word.to_owned(),
        },
        _ => word.to_owned(),
    };
    found.split(' ').map(word).collect::<Vec<_>>().join(" ")
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
    use crate::analysis::Estimate;

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
        let upload =
            PairChange { goodput_mbps: Some(("goodput", (0.6, 1.2))), ..change("evening") };
        let wanted = "evening: goodput 0.6 → 1.2 Mbit/s.";
        assert_eq!(upload.sentence().as_deref(), Some(wanted));
        assert_eq!(change("evening").sentence(), None);
        assert!(bulk.size() > flood.size() && flood.size() > change("unloaded").size());
    }

    #[test]
    fn where_there_is_no_grade_the_line_says_why_and_figures_are_as_everywhere() {
        let few = PairChange {
            ping_ms: Some((457.3, 22.9)),
            grade: Some(Err(12)),
            ..change("Uploads beside your call")
        };
        let wanted =
            "Uploads beside your call: ping 457 → 23 ms; no grade of 12 answers, it needs 20.";
        assert_eq!(few.sentence().as_deref(), Some(wanted));
        assert_eq!(rounded("23.456789 ms in 2 of 3"), "23.457 ms in 2 of 3");
        assert_eq!(rounded("0.000012 ms"), "0.000012 ms");
    }

    #[test]
    fn beside_downloads_the_goodput_is_the_downloads_and_not_the_upload_of_the_probe() {
        let exactly = |value| Estimate { value, interval: None };
        let row = |scenario: &str, mbps| SummaryRow {
            scenario: scenario.into(),
            probe: "tcp".into(),
            stream: "tcp".into(),
            way: Some("dsl up".into()),
            goodput_mbps: Some(exactly(mbps)),
            ..SummaryRow::default()
        };
        let load = |probe: &str, scenario: &str, way: &str, mbps| LoadsRow {
            scenario: scenario.into(),
            probe: probe.into(),
            way: Some(way.into()),
            carried_mbps: exactly(mbps),
        };
        for (name, way, wanted) in [
            ("download", "dsl down", ("the loads' goodput", (47.0, 45.0))),
            ("bulk", "dsl up", ("goodput", (8.6, 8.0))),
        ] {
            let shaped = format!("{name}-shaped");
            let summary = Summary {
                rows: vec![row(name, 8.6), row(&shaped, 8.0)],
                loads: vec![
                    // Beside a ping it is another measurement, which the table does not show.
                    load("ping", name, way, 41.0),
                    load("tcp", name, way, 47.0),
                    load("ping", &shaped, way, 44.0),
                    load("tcp", &shaped, way, 45.0),
                ],
            };
            let pair = Pair { before: name.into(), after: shaped };
            assert_eq!(goodput(&summary, &pair), Some(wanted), "{name}");
        }
        let pair = Pair { before: "download".into(), after: "download-shaped".into() };
        assert_eq!(pair.in_words(), "Downloads beside your call");
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
