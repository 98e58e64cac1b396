//! Marks of one kind, in one direction of a connection, make one finding.

use crate::advice::{self, CAPTURE, spoken};
use crate::remark::{Cause, Remark, Side};
use crate::stretches::Stretches;
use quell_finding::{Evidence, Finding};
use quell_units::Span;
use serde::{Serialize, Serializer};

/// A finding about a connection, with how long all of its marks were waited for.
#[derive(Debug, Clone)]
pub struct Found {
    /// What was found.
    pub finding: Finding,
    /// Whether it is something that is waited for.
    pub(crate) is_wait: bool,
    /// How long, in all.
    pub(crate) waited: Span,
}

/// To programs it is the finding alone.
impl Serialize for Found {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.finding.serialize(serializer)
    }
}

/// Marks of one kind.
struct Kind {
    of: (Cause, Side, bool, bool),
    finding: Finding,
    count: u64,
    /// When somebody waited; stretches that overlap count once.
    waited: Stretches,
    longest: Span,
}

/// What the marks of a connection come to, each with its finding, its text and when it was.
pub(crate) fn of<'a>(
    marks: impl Iterator<Item = (&'a Remark, Finding, Span)>,
    number: u64,
) -> Vec<Found> {
    let mut kinds: Vec<Kind> = Vec::new();
    for (mark, finding, at) in marks {
        let late = mark.held.is_some_and(|held| held.perhaps_delayed);
        let of = (mark.cause, mark.side, mark.need.is_needless(), late);
        let waited = mark.waited.unwrap_or_default();
        let stretch = mark.stretch();
        match kinds.iter_mut().find(|kind| kind.of == of) {
            Some(kind) => {
                kind.count += 1;
                stretch.into_iter().for_each(|(from, to)| kind.waited.add(from, to));
                kind.longest = kind.longest.max(waited);
                for remedy in finding.remedies {
                    if !kind.finding.remedies.contains(&remedy) {
                        kind.finding.remedies.push(remedy);
                    }
                }
            }
            None => {
                let mut finding = finding;
                finding.subject = format!("connection {number}");
                let ms = at.nanos() as f64 / 1e6;
                let words = format!("at +{}: {}", spoken(at), advice::text(mark));
                let at = Evidence::number("at", ms, "ms", CAPTURE).in_words(words);
                finding.evidence.insert(0, at);
                let mut all = Stretches::default();
                stretch.into_iter().for_each(|(from, to)| all.add(from, to));
                kinds.push(Kind { of, finding, count: 1, waited: all, longest: waited });
            }
        }
    }
    kinds.into_iter().map(Kind::found).collect()
}

impl Kind {
    fn found(self) -> Found {
        let Kind { of: (cause, ..), mut finding, count, waited, longest } = self;
        let waited = waited.total();
        if count > 1 {
            let more = format!("and {} more of the kind", count - 1);
            let words = match waited.is_zero() {
                true => more,
                false => {
                    format!("{more}: {} in all, the longest {}", spoken(waited), spoken(longest))
                }
            };
            finding = finding.saw(Evidence::count("of the kind", count, CAPTURE).in_words(words));
            for (name, span) in [("waited in all", waited), ("the longest", longest)] {
                let ms = span.nanos() as f64 / 1e6;
                finding = finding.saw(Evidence::number(name, ms, "ms", CAPTURE).told_above());
            }
        }
        Found { finding, is_wait: cause.is_wait(), waited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remark::Need;
    use quell_finding::{Value, seen, to_do};

    #[test]
    fn marks_of_one_kind_are_one_finding_that_tells_how_long_all_took_and_every_remedy() {
        let again = |packet, ms, need| Remark {
            time: crate::time::Time(packet as i64 * 1_000_000_000),
            side: Side::Client,
            cause: Cause::Timeout,
            waited: Some(Span::from_millis(ms)),
            length: 100,
            packets: [Some(packet), Some(packet + 1), None],
            held: None,
            need,
            is_missing: false,
            open: false,
            busy: None,
            windows: None,
        };
        let marks = [
            again(5, 200, Need::Needed),
            again(9, 400, Need::Needed),
            again(20, 210, Need::FirstAnswered),
            again(30, 220, Need::FirstArrived),
        ];
        let each = marks.iter().map(|mark| (mark, advice::finding(mark, "a", "b"), Span::ZERO));
        let found = of(each, 3);
        assert_eq!(found.len(), 2, "lost and needless: {found:?}");
        let first = &found[0].finding;
        assert_eq!((&*first.id, &*first.subject), ("timeout", "connection 3"));
        let said = seen(first);
        for part in [
            "stall, 200 ms, retransmission timeout of 100 bytes; packet 5, and again packet 6",
            "and 1 more of the kind: 600 ms in all, the longest 400 ms (the capture)",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        let all = first.evidence.iter().find(|seen| seen.name == "waited in all");
        assert_eq!(all.map(|seen| &seen.value), Some(&Value::Number(600.0)));
        let needless = to_do(&found[1].finding).unwrap_or_default();
        for part in ["delay that varies between a and b", "ACKs that are lost"] {
            assert!(needless.contains(part), "{part} in {needless}");
        }
    }
}
