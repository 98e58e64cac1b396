//! Findings over time: of many looks, what changed from one to the next.
//!
//! ```text
//!   look ─ findings ─┐            not known ──► appeared
//!   look ─ findings ─┼─► Watch ─┬ known ──────► grew, where it is twice as much, worse, or moves again after it stood; else nothing
//!   look ─ findings ─┘          └ gone ───────► went
//! ```
//!
//! Pure: whoever looks says what was found. What is remembered is bounded: of each finding that is there a few words, of at most [`MOST`].

use quell_finding::{Finding, Severity, Value};
use serde::Serialize;
use std::collections::BTreeMap;

/// Most findings that are followed at a time.
pub const MOST: usize = 1024;

/// What happened to a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It was not there at the last look.
    Appeared,
    /// There is more of it than when it was told last.
    Grew,
    /// It is not there any more.
    Went,
}

/// A change of a finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// What happened.
    pub change: Change,
    /// To which: as it is now, or as it was told last where it went.
    pub finding: Finding,
}

/// What is known from the looks so far.
#[derive(Debug, Default)]
pub struct Watch {
    present: BTreeMap<(String, String), Known>,
    /// The worst that was found at any look.
    pub worst: Option<Severity>,
    /// Findings that were not followed, since there were too many.
    pub left_out: u64,
}

/// A finding that is there.
#[derive(Debug)]
struct Known {
    /// As it was told last.
    told: Finding,
    /// Whether it moved at the last look.
    moving: bool,
}

impl Watch {
    /// Takes what a look found; gives what changed, the worst first as it came.
    pub fn take(&mut self, findings: Vec<Finding>) -> Vec<Event> {
        let mut events = Vec::new();
        let mut gone = std::mem::take(&mut self.present);
        for finding in findings {
            self.worst = self.worst.max(Some(finding.severity));
            let key = (finding.id.clone(), finding.subject.clone());
            let moving = moves(&finding);
            let known = match gone.remove(&key) {
                None if self.present.len() + gone.len() >= MOST => {
                    self.left_out += 1;
                    continue;
                }
                None => {
                    events.push(Event { change: Change::Appeared, finding: finding.clone() });
                    Known { told: finding, moving }
                }
                Some(known) if grew(&known, &finding) => {
                    events.push(Event { change: Change::Grew, finding: finding.clone() });
                    Known { told: finding, moving }
                }
                Some(known) => Known { moving, ..known },
            };
            self.present.insert(key, known);
        }
        let went = gone.into_values().map(|known| known.told);
        events.extend(went.map(|finding| Event { change: Change::Went, finding }));
        events
    }

    /// How many findings are there now.
    pub fn present(&self) -> usize {
        self.present.len()
    }
}

/// Whether a counter that it is about moved since the look before.
fn moves(finding: &Finding) -> bool {
    let moved = |evidence: &quell_finding::Evidence| {
        evidence.unit.ends_with("while watching") && amount(&evidence.value) > 0.0
    };
    finding.evidence.iter().any(moved)
}

fn grew(known: &Known, now: &Finding) -> bool {
    let first = |finding: &Finding| finding.evidence.first().map_or(0.0, |e| amount(&e.value));
    let (was, is) = (first(&known.told), first(now));
    now.severity > known.told.severity
        || (was > 0.0 && is >= 2.0 * was)
        || (!known.moving && moves(now))
}

fn amount(value: &Value) -> f64 {
    match value {
        Value::Count(count) => *count as f64,
        Value::Number(number) => *number,
        Value::Part { part, .. } => *part as f64,
        Value::Text(_) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_finding::Evidence;

    fn drops(total: u64, moved: u64) -> Finding {
        let mut finding = Finding {
            id: "queue-drops".into(),
            subject: "eth0".into(),
            severity: Severity::Warning,
            sure: true,
            says: "a queue was full".into(),
            evidence: vec![Evidence::amount("dropped", total, "since the start", "rtnetlink")],
            why: String::new(),
            remedies: Vec::new(),
            source: String::new(),
        };
        if moved > 0 {
            finding =
                finding.saw(Evidence::amount("of these", moved, "while watching", "rtnetlink"));
        }
        finding
    }

    /// What a look changes, in words.
    fn changes(watch: &mut Watch, findings: Vec<Finding>) -> Vec<Change> {
        watch.take(findings).into_iter().map(|event| event.change).collect()
    }

    #[test]
    fn a_fault_of_one_night_is_told_when_it_comes_and_when_it_is_gone() {
        let mut watch = Watch::default();
        assert_eq!(changes(&mut watch, vec![]), []);
        assert_eq!(changes(&mut watch, vec![drops(10, 10)]), [Change::Appeared]);
        assert_eq!(changes(&mut watch, vec![drops(15, 5)]), []);
        assert_eq!(changes(&mut watch, vec![drops(21, 6)]), [Change::Grew], "twice as many");
        assert_eq!(changes(&mut watch, vec![drops(41, 20)]), [], "not twice what was told last");
        assert_eq!(changes(&mut watch, vec![]), [Change::Went]);
        assert_eq!(changes(&mut watch, vec![]), []);
        assert_eq!(watch.worst, Some(Severity::Warning));
    }

    #[test]
    fn what_stood_and_moves_again_is_told_again() {
        let mut watch = Watch::default();
        assert_eq!(changes(&mut watch, vec![drops(1000, 0)]), [Change::Appeared]);
        assert_eq!(changes(&mut watch, vec![drops(1000, 0)]), []);
        assert_eq!(changes(&mut watch, vec![drops(1003, 3)]), [Change::Grew]);
        assert_eq!(changes(&mut watch, vec![drops(1006, 3)]), [], "it still moves");
    }

    #[test]
    fn what_gets_worse_is_told() {
        let mut watch = Watch::default();
        watch.take(vec![drops(5, 5)]);
        let worse = Finding { severity: Severity::Serious, ..drops(6, 1) };
        assert_eq!(changes(&mut watch, vec![worse]), [Change::Grew]);
        assert_eq!(watch.worst, Some(Severity::Serious));
    }

    #[test]
    fn very_many_findings_take_no_more_than_their_room() {
        let mut watch = Watch::default();
        let one = |at: usize| Finding { subject: format!("device {at}"), ..drops(5, 5) };
        let many: Vec<Finding> = (0..MOST + 10).map(one).collect();
        assert_eq!(watch.take(many.clone()).len(), MOST);
        assert_eq!((watch.present(), watch.left_out), (MOST, 10));
        // Those that were followed stay so, whatever comes before them.
        assert_eq!(watch.take(many.into_iter().rev().collect()).len(), 0);
        assert_eq!(watch.present(), MOST);
    }
}
