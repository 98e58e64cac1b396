//! What became worse, since when, and what is common to it.
//!
//! A pair's five minutes are held against its day before them:
//!
//! - **Loss** is worse where its interval lies above that of the day before, with one case in a million beyond either end.
//! - **Delay** (median or p99 of a minute) is worse where all five minutes are above 99 of 100 minutes before, and their median is
//!   a tenth and 1 ms above the median before.
//!
//! It ends where five minutes are as before again. Changes that begin within five minutes of each other are one event.

use crate::common_cause::{CommonCause, Directions, Observation, common_cause, only_class};
use crate::folder::{HOUR_NS, MINUTE_NS, Pair};
use crate::history::{Bin, MEDIAN, MeshHistory, P99, PairHistory};
use quell_model::sketch;
use quell_stats::{Batch, Interval};
use quell_units::fmt::{ms, percent};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};

const WINDOW: usize = 5;
const BEFORE_NS: i64 = 24 * HOUR_NS;
/// Of which there must be so many to be held against.
const FEWEST_BEFORE: usize = 2 * WINDOW;
const TAIL: f64 = 1e-6;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Worse {
    LossUp,
    LossDown,
    /// Nobody knows in which direction.
    Loss,
    Median,
    P99,
}

/// A pair that became worse. Shares or seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairChange {
    pub worse: Worse,
    pub from_ns: i64,
    /// None while it lasts.
    pub to_ns: Option<i64>,
    pub before: f64,
    pub after: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Incident {
    pub from_ns: i64,
    /// None while it lasts for any pair.
    pub to_ns: Option<i64>,
    pub loss: bool,
    /// The median of the pairs' own figures while it lasts, and before: shares or seconds.
    pub after: f64,
    pub before: f64,
    #[serde(skip)]
    pub pairs: BTreeSet<Pair>,
    /// The class that alone is bad, where others are not.
    pub class: Option<String>,
    pub cause: CommonCause,
}

impl Worse {
    pub fn is_loss(self) -> bool {
        matches!(self, Worse::LossUp | Worse::LossDown | Worse::Loss)
    }

    /// For a person, with its unit.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Worse::LossUp => ("Loss up", "%"),
            Worse::LossDown => ("Loss down", "%"),
            Worse::Loss => ("Loss, direction unknown,", "%"),
            Worse::Median => ("Median", "ms"),
            Worse::P99 => ("p99", "ms"),
        }
    }

    fn directions(self) -> Directions {
        match self {
            Worse::LossUp => Directions::Up,
            Worse::LossDown => Directions::Down,
            _ => Directions::Both,
        }
    }

    fn lost(self, bin: &Bin) -> f64 {
        f64::from(match self {
            Worse::LossUp => bin.lost_up,
            Worse::LossDown => bin.lost_down,
            _ => bin.lost_somewhere,
        })
    }
}

/// How bad some minutes of a pair are: a share or nanoseconds; none where nothing was sent or answered.
fn figure(worse: Worse, bins: &[Bin]) -> Option<f64> {
    let share = match worse {
        Worse::Median => MEDIAN,
        Worse::P99 => P99,
        _ => {
            let Batch { sent, lost } = batch(bins, worse);
            return (sent > 0.0).then(|| lost / sent);
        }
    };
    let mut all: Vec<u16> = bins.iter().filter_map(|bin| Some(bin.buckets?[share])).collect();
    all.sort_unstable();
    all.get(all.len() / 2).map(|bucket| sketch::value(*bucket))
}

fn batch(bins: &[Bin], worse: Worse) -> Batch {
    bins.iter().fold(Batch::default(), |sum, bin| Batch {
        sent: sum.sent + f64::from(bin.sent),
        lost: sum.lost + worse.lost(bin),
    })
}

/// Above what a figure is worse than it was before; none where these minutes are not.
fn limit(worse: Worse, before: &[Bin], recent: &[Bin]) -> Option<f64> {
    let now = figure(worse, recent)?;
    if worse.is_loss() {
        let low = |batch| Interval::of_loss_beyond(&[vec![batch]], TAIL).map(|i| i.low);
        if now == 0.0 || low(batch(recent, worse))? <= figure(worse, before)? {
            return None;
        }
        // Clumps as five minutes show them.
        let batches = before.chunks(WINDOW).map(|bins| batch(bins, worse)).collect();
        let high = Interval::of_loss_beyond(&[batches], TAIL)?.high;
        return (low(batch(recent, worse))? > high).then_some(high);
    }
    let of = |bin: &Bin| figure(worse, std::slice::from_ref(bin));
    let least = recent.iter().map(of).try_fold(f64::INFINITY, |least, v| Some(least.min(v?)))?;
    let may_be_above = before.len() / 100;
    if before.iter().rev().filter_map(of).filter(|v| *v >= least).nth(may_be_above).is_some() {
        return None;
    }
    let limit = figure(worse, before)? * 1.1 + 1e6;
    (now > limit).then_some(limit)
}

/// All that became worse for a pair.
pub fn changes(minutes: &[Bin]) -> Vec<PairChange> {
    let all = [Worse::LossUp, Worse::LossDown, Worse::Loss, Worse::Median, Worse::P99];
    all.into_iter().flat_map(|worse| changes_of(worse, minutes)).collect()
}

fn changes_of(worse: Worse, minutes: &[Bin]) -> Vec<PairChange> {
    let mut found = Vec::new();
    // Without what was worse: a second fault of a day is held against what is usual.
    let mut before: Vec<Bin> = Vec::new();
    let mut first = 0;
    let mut at = 0;
    while at + WINDOW <= minutes.len() {
        let recent = &minutes[at..at + WINDOW];
        first += before[first..]
            .iter()
            .take_while(|b| b.from_ns < recent[0].from_ns - BEFORE_NS)
            .count();
        let usual = &before[first..];
        let limit = (usual.len() >= FEWEST_BEFORE).then(|| limit(worse, usual, recent)).flatten();
        let Some(limit) = limit else {
            before.push(minutes[at]);
            at += 1;
            continue;
        };
        let is_above = |bins: &[Bin]| figure(worse, bins).is_some_and(|v| v > limit);
        let windows = minutes[at..].windows(WINDOW);
        let windows = windows.take_while(|bins| is_above(bins)).count().max(1);
        let during = &minutes[at..at + windows - 1 + WINDOW];
        let lasts = at + during.len() == minutes.len();
        let is_bad = |bin: &Bin| is_above(std::slice::from_ref(bin));
        let begin = during.iter().position(is_bad).unwrap_or(0);
        let end = during.iter().rposition(is_bad).unwrap_or(during.len() - 1);
        // In its first and last minute it was there for a part of them.
        let whole = if end - begin >= 2 { begin + 1..end } else { begin..end + 1 };
        let scale = if worse.is_loss() { 1.0 } else { 1e-9 };
        let of = |bins: &[Bin]| figure(worse, bins).unwrap_or(0.0) * scale;
        found.push(PairChange {
            worse,
            from_ns: during[begin].from_ns,
            to_ns: (!lasts).then(|| during[end].from_ns + during[end].length_ns as i64),
            before: of(usual),
            after: of(&during[whole]),
        });
        at += during.len();
    }
    found
}

/// What happened in a mesh.
#[derive(Debug, Clone, Default)]
pub struct MeshFindings {
    /// The latest first; what lasts before what is over.
    pub incidents: Vec<Incident>,
    pub changes: BTreeMap<Pair, Vec<PairChange>>,
}

impl MeshFindings {
    pub fn of(mesh: &MeshHistory) -> Self {
        let changes = mesh.pairs.iter().map(|(key, pair)| (key.clone(), changes(&pair.minutes)));
        let changes: BTreeMap<_, _> = changes.filter(|(_, changes)| !changes.is_empty()).collect();
        Self { incidents: incidents(mesh, &changes), changes }
    }
}

fn incidents(mesh: &MeshHistory, by_pair: &BTreeMap<Pair, Vec<PairChange>>) -> Vec<Incident> {
    let mut all: Vec<(&Pair, &PairChange)> =
        by_pair.iter().flat_map(|(key, changes)| changes.iter().map(move |c| (key, c))).collect();
    all.sort_by_key(|(_, change)| (change.worse.is_loss(), change.from_ns));
    let together = |a: &(&Pair, &PairChange), b: &(&Pair, &PairChange)| {
        let apart = b.1.from_ns - a.1.from_ns;
        a.1.worse.is_loss() == b.1.worse.is_loss() && apart <= WINDOW as i64 * MINUTE_NS
    };
    let mut found: Vec<(Incident, Vec<(&Pair, &PairChange)>)> = Vec::new();
    for changes in all.chunk_by(together) {
        let next = incident(mesh, changes);
        // What is noticed later, and has the cause of what lasts, is the same.
        if let Some((last, of_last)) = found.last_mut().filter(|(last, _)| last.goes_on_as(&next)) {
            of_last.extend(changes);
            *last = incident(mesh, of_last);
        } else {
            found.push((next, changes.to_vec()));
        }
    }
    let mut found: Vec<Incident> = found.into_iter().map(|(incident, _)| incident).collect();
    found.sort_by_key(|incident| (incident.to_ns.is_some(), -incident.from_ns));
    found
}

fn incident(mesh: &MeshHistory, changes: &[(&Pair, &PairChange)]) -> Incident {
    let loss = changes[0].1.worse.is_loss();
    // A packet lost by chance beside it moves the begin or the end of a pair, not that of most.
    let middle_of = |mut times: Vec<i64>| {
        times.sort_unstable();
        times[(times.len() - 1) / 2]
    };
    let from_ns = middle_of(changes.iter().map(|(_, c)| c.from_ns).collect());
    let ends: Option<Vec<i64>> = changes.iter().map(|(_, c)| c.to_ns).collect();
    let to_ns = ends.map(middle_of);
    let middle = |of: fn(&PairChange) -> f64| {
        let values: Vec<f64> = changes.iter().map(|(_, change)| of(change)).collect();
        quell_stats::median(&values).unwrap_or_default()
    };
    // While it is there for all of them.
    let last_from = changes.iter().map(|(_, c)| c.from_ns).max().unwrap_or(from_ns);
    let until = to_ns.unwrap_or(mesh.to_ns).min(last_from + HOUR_NS);
    let mut observations = Vec::new();
    for (key, pair) in &mesh.pairs {
        let own: Vec<&PairChange> =
            changes.iter().filter(|(of, _)| *of == key).map(|(_, change)| *change).collect();
        let observed = |directions, bad| Observation {
            agent: key.agent.to_string(),
            peer: key.peer.to_string(),
            class: key.class.to_string(),
            directions,
            bad,
        };
        let mut bad: Vec<Directions> = own.iter().map(|c| c.worse.directions()).collect();
        bad.sort_unstable();
        bad.dedup();
        observations.extend(bad.iter().map(|directions| observed(*directions, true)));
        // What is lost nobody knows where speaks for no direction; a delay is that of both.
        if bad.contains(&Directions::Both) {
            continue;
        }
        let ways: &[Worse] =
            if loss { &[Worse::LossUp, Worse::LossDown] } else { &[Worse::Median] };
        for worse in ways {
            let is_good = is_good(pair, *worse, (from_ns, until), middle(|c| c.after));
            if is_good && !bad.contains(&worse.directions()) {
                observations.push(observed(worse.directions(), false));
            }
        }
    }
    Incident {
        from_ns,
        to_ns,
        loss,
        after: middle(|c| c.after),
        before: middle(|c| c.before),
        pairs: changes.iter().map(|(key, _)| (*key).clone()).collect(),
        class: only_class(&observations).map(str::to_owned),
        cause: common_cause(&observations, &mesh.topology((from_ns, until))),
    }
}

/// Whether a pair can't have had half of what others had.
fn is_good(pair: &PairHistory, worse: Worse, (from, until): (i64, i64), others: f64) -> bool {
    let begin = pair.minutes.partition_point(|bin| bin.from_ns < from);
    let end = pair.minutes.partition_point(|bin| bin.from_ns < until);
    let during = &pair.minutes[begin..end];
    if !worse.is_loss() {
        return !during.is_empty();
    }
    let mut sum = batch(during, worse);
    sum.lost += batch(during, Worse::Loss).lost;
    let interval = Interval::of_loss(&[vec![sum]]);
    interval.is_some_and(|interval| interval.high < others / 2.0)
}

/// A wall time in UTC; without the day where it is that of another time.
pub fn clock(ns: i64, other_ns: i64) -> String {
    let text = |ns: i64| {
        let since = Duration::from_nanos(u64::try_from(ns).unwrap_or_default());
        quell_units::time::rfc3339(UNIX_EPOCH + since)
    };
    let (time, other) = (text(ns), text(other_ns));
    let day = if time[..10] == other[..10] { String::new() } else { format!("{} ", &time[..10]) };
    format!("{day}{} UTC", &time[11..16])
}

/// Where it is, as the end of a sentence; `class` is alone bad, `first` is one of the pairs that are.
pub fn located(cause: &CommonCause, class: Option<&str>, first: Option<&Pair>) -> String {
    let class = class.map_or(String::new(), |class| format!("in {class} "));
    match (cause, first) {
        (CommonCause::Nothing { bad: 1 }, Some(pair)) => {
            format!("{class}from {} to {} alone", pair.agent, pair.peer)
        }
        (cause, _) => format!("{class}{cause}"),
    }
}

impl Incident {
    fn goes_on_as(&self, next: &Incident) -> bool {
        let suspects = |incident: &Incident| match &incident.cause {
            CommonCause::Found(causes) => causes.first().map(|cause| cause.suspects.clone()),
            _ => None,
        };
        let overlap = self.to_ns.is_none_or(|to| next.from_ns < to);
        let same_cause = suspects(self).is_some() && suspects(self) == suspects(next);
        self.loss == next.loss
            && self.class == next.class
            && overlap
            && (same_cause || next.pairs.is_subset(&self.pairs))
    }

    /// One sentence; times without the day are of that of `now_ns`.
    pub fn sentence(&self, now_ns: i64) -> String {
        let since = match self.to_ns {
            None => format!("Since {}", clock(self.from_ns, now_ns)),
            Some(to) => {
                let from = clock(self.from_ns, now_ns);
                let short = from.strip_suffix(" UTC").unwrap_or(&from);
                format!("From {short} to {}", clock(to, self.from_ns))
            }
        };
        let what = match self.loss {
            true => format!("loss of {} %", percent(self.after)),
            false => {
                format!(
                    "a delay of {} ms instead of {} ms",
                    ms(self.after * 1e3),
                    ms(self.before * 1e3)
                )
            }
        };
        let place = located(&self.cause, self.class.as_deref(), self.pairs.first());
        format!("{since} {what} {place}.")
    }
}
