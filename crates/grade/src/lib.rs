//! How well a call, a game and a page work beside a load: one rule for all that measures a loaded delay. docs/grade.md explains it.
//!
//! ```text
//!   idle delay, loaded delay (p50, p95), loss ──► Assessment ──┬─► a sentence and a grade, A to F
//!                                                              ├─► what it costs each use
//!                                                              └─► Quality of Outcome (draft-ietf-ippm-qoo), 0 to 100
//! ```
//!
//! Pure: figures in, figures and a sentence out.

use quell_units::fmt::{ms, percent};
use serde::{Deserialize, Serialize};

/// Fewer answers than this have no 95th percentile.
pub const LEAST_SAMPLES: usize = 20;

/// Milliseconds that an idle path to a server may take, where a use asks for round trips and not for what a load adds.
pub const IDLE_ALLOWANCE_MS: f64 = 50.0;

/// Round trips that a page takes one after the other.
pub const PAGE_ROUND_TRIPS: f64 = 10.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    Call,
    Game,
    Page,
}

/// What a use bears: it works up to the first of each pair, and breaks from the second on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct UseRequirement {
    #[serde(rename = "use")]
    pub of: Use,
    /// Milliseconds that a load adds to 95 % of round trips.
    pub added_ms: [f64; 2],
    /// Loss, 0 to 1.
    pub loss: [f64; 2],
}

/// The rule. A game wants moves within two frames; a call bears what its jitter buffer holds (ITU-T G.114 names 400 ms of one way as the end);
/// a page waits ten times.
pub const REQUIREMENTS: [UseRequirement; 3] = [
    UseRequirement { of: Use::Call, added_ms: [60.0, 400.0], loss: [0.01, 0.05] },
    UseRequirement { of: Use::Game, added_ms: [30.0, 200.0], loss: [0.01, 0.05] },
    UseRequirement { of: Use::Page, added_ms: [200.0, 1000.0], loss: [0.02, 0.1] },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UseOutcome {
    Works,
    Suffers,
    Breaks,
}

/// A: all works. B: games suffer. C: calls suffer too. D: pages suffer too. F: calls break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Grade {
    A,
    B,
    C,
    D,
    F,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LoadedDelay {
    /// Median round trip without the load, in milliseconds; the least that was seen where nothing else is known.
    pub idle_ms: f64,
    /// Median beside the load.
    pub p50_ms: f64,
    /// 95 of 100 took at most this.
    pub p95_ms: f64,
    /// Part that had no answer, 0 to 1.
    pub loss: f64,
    /// The lower end of its interval, which decides: one packet of fifty is no verdict.
    pub least_loss: f64,
    /// Mean difference between one round trip and the next, where it is known.
    pub jitter_ms: Option<f64>,
    pub samples: usize,
    /// Beside what, as `beside a full upload`; empty of a line of which nobody knows what it carries.
    pub load: String,
    /// Connections that made the load.
    pub connections: u32,
    pub seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UseResult {
    #[serde(rename = "use")]
    pub of: Use,
    pub outcome: UseOutcome,
    /// What the load costs: milliseconds until the other hears, or a move counts; of a page until it is there.
    pub cost_ms: f64,
    /// Quality of Outcome, 0 to 100.
    pub quality_of_outcome: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    pub grade: Grade,
    pub sentence: String,
    /// What the load adds to 95 % of round trips, in milliseconds.
    pub added_ms: f64,
    pub idle_ms: f64,
    pub loaded_p50_ms: f64,
    pub loaded_p95_ms: f64,
    pub loss_ratio: f64,
    pub jitter_ms: Option<f64>,
    pub uses: [UseResult; 3],
    pub samples: usize,
    pub load: String,
    pub connections: u32,
    pub seconds: f64,
}

impl Assessment {
    /// None of too few answers.
    pub fn of(measured: &LoadedDelay) -> Option<Self> {
        let LoadedDelay { idle_ms, p50_ms, p95_ms, loss, least_loss, samples, .. } = *measured;
        if samples < LEAST_SAMPLES {
            return None;
        }
        let added_ms = (p95_ms - idle_ms).max(0.0);
        let uses = REQUIREMENTS.map(|use_of| UseResult {
            of: use_of.of,
            outcome: use_of.outcome(added_ms, least_loss),
            cost_ms: match use_of.of {
                Use::Page => (p50_ms - idle_ms).max(0.0) * PAGE_ROUND_TRIPS,
                Use::Call | Use::Game => added_ms,
            },
            quality_of_outcome: use_of.quality_of_outcome(p95_ms, loss),
        });
        Some(Self {
            grade: grade(uses.map(|of| of.outcome)),
            sentence: sentence(&uses, added_ms, measured),
            added_ms,
            idle_ms,
            loaded_p50_ms: p50_ms,
            loaded_p95_ms: p95_ms,
            loss_ratio: loss,
            jitter_ms: measured.jitter_ms,
            uses,
            samples,
            load: measured.load.clone(),
            connections: measured.connections,
            seconds: measured.seconds,
        })
    }
}

impl UseRequirement {
    fn outcome(&self, added_ms: f64, loss: f64) -> UseOutcome {
        let of = |value: f64, [works, breaks]: [f64; 2]| match value {
            v if v >= breaks => UseOutcome::Breaks,
            v if v >= works => UseOutcome::Suffers,
            _ => UseOutcome::Works,
        };
        of(added_ms, self.added_ms).max(of(loss, self.loss))
    }

    /// `QoO = min(QoO_latency, QoO_loss)` (draft-ietf-ippm-qoo, "Calculating QoO"), with one percentile, the 95th, of round trips; what is asked of
    /// the throughput is nothing.
    fn quality_of_outcome(&self, p95_ms: f64, loss: f64) -> f64 {
        let score = |value: f64, [optimal, unacceptable]: [f64; 2]| {
            ((1.0 - (value - optimal) / (unacceptable - optimal)) * 100.0).clamp(0.0, 100.0)
        };
        let round_trip_ms = self.added_ms.map(|ms| ms + IDLE_ALLOWANCE_MS);
        score(p95_ms, round_trip_ms).min(score(loss, self.loss))
    }
}

fn grade([call, game, page]: [UseOutcome; 3]) -> Grade {
    match (call, game, page) {
        (UseOutcome::Breaks, ..) => Grade::F,
        (.., UseOutcome::Suffers | UseOutcome::Breaks) => Grade::D,
        (UseOutcome::Suffers, ..) => Grade::C,
        (_, UseOutcome::Suffers | UseOutcome::Breaks, _) => Grade::B,
        _ => Grade::A,
    }
}

fn sentence(uses: &[UseResult; 3], added_ms: f64, measured: &LoadedDelay) -> String {
    let those = |outcome: UseOutcome, verb: &str| {
        let names = uses.iter().filter(|of| of.outcome == outcome).map(|of| match of.of {
            Use::Call => "calls",
            Use::Game => "games",
            Use::Page => "pages",
        });
        let names: Vec<&str> = names.collect();
        (!names.is_empty()).then(|| format!("{} {verb}", listed(&names)))
    };
    let parts = [
        those(UseOutcome::Works, "work"),
        those(UseOutcome::Suffers, "suffer"),
        those(UseOutcome::Breaks, "break"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let said = parts.join(", ");
    let (first, rest) = said.split_at(1);
    let beside = match &*measured.load {
        "" => String::new(),
        load => format!(" {load}"),
    };
    let added = match added_ms {
        added if added < 1.0 => "less than 1 ms added (p95)".to_owned(),
        added if added < 10.0 => format!("{added:.1} ms added (p95)"),
        added => format!("{added:.0} ms added (p95)"),
    };
    let lost = match measured.loss {
        loss if loss > 0.0 => format!(", {} % lost", percent(loss)),
        _ => String::new(),
    };
    format!("{}{rest}{beside}: {added}{lost}.", first.to_uppercase())
}

/// `calls, games and pages`.
fn listed(names: &[&str]) -> String {
    match names {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => names.concat(),
    }
}

impl Assessment {
    /// The sentence and the grade.
    pub fn said(&self) -> String {
        format!("{} Grade {:?}.", self.sentence, self.grade)
    }

    /// The figures behind the sentence, a line each: what each use bears, and how it was measured.
    pub fn figures(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.uses.iter().map(UseResult::line).collect();
        let Self { idle_ms, loaded_p50_ms, loaded_p95_ms, samples, connections, seconds, .. } =
            self;
        let by = match connections {
            0 => String::new(),
            1 => ", 1 connection".to_owned(),
            many => format!(", {many} connections"),
        };
        lines.push(format!(
            "ping {} ms idle, {} ms loaded, 95 % within {} ms ({samples} answers{by}, {seconds:.0} s)",
            ms(*idle_ms),
            ms(*loaded_p50_ms),
            ms(*loaded_p95_ms),
        ));
        lines
    }
}

impl UseResult {
    fn line(&self) -> String {
        let (name, cost) = match self.of {
            Use::Call => ("call", "until the other hears"),
            Use::Game => ("game", "until a move counts"),
            Use::Page => ("page", "for ten round trips"),
        };
        let outcome = match self.outcome {
            UseOutcome::Works => "works",
            UseOutcome::Suffers => "suffers",
            UseOutcome::Breaks => "breaks",
        };
        let cost = format!("+{:.0} ms {cost}", self.cost_ms);
        format!(
            "{name}  {outcome:<7}  {cost:<32}  quality of outcome {:.0} %",
            self.quality_of_outcome
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(added_ms: f64, loss: f64) -> LoadedDelay {
        LoadedDelay {
            idle_ms: 20.0,
            p50_ms: 20.0 + added_ms / 2.0,
            p95_ms: 20.0 + added_ms,
            loss,
            least_loss: loss,
            jitter_ms: Some(1.0),
            samples: 180,
            load: "beside a full upload".into(),
            connections: 1,
            seconds: 10.0,
        }
    }

    fn of(added_ms: f64, loss: f64) -> Assessment {
        Assessment::of(&measured(added_ms, loss)).expect("there are enough answers")
    }

    #[test]
    fn the_grade_says_what_suffers_first() {
        for (added_ms, loss, grade, says) in [
            (
                0.3,
                0.0,
                Grade::A,
                "Calls, games and pages work beside a full upload: less than 1 ms added (p95).",
            ),
            (
                14.2,
                0.0,
                Grade::A,
                "Calls, games and pages work beside a full upload: 14 ms added (p95).",
            ),
            (
                30.0,
                0.0,
                Grade::B,
                "Calls and pages work, games suffer beside a full upload: 30 ms added (p95).",
            ),
            (
                60.0,
                0.0,
                Grade::C,
                "Pages work, calls and games suffer beside a full upload: 60 ms added (p95).",
            ),
            (
                200.0,
                0.0,
                Grade::D,
                "Calls and pages suffer, games break beside a full upload: 200 ms added (p95).",
            ),
            (
                400.0,
                0.0,
                Grade::F,
                "Pages suffer, calls and games break beside a full upload: 400 ms added (p95).",
            ),
            (
                5.0,
                0.012,
                Grade::C,
                "Pages work, calls and games suffer beside a full upload: 5.0 ms added (p95), 1.2 % lost.",
            ),
            (
                5.0,
                0.25,
                Grade::F,
                "Calls, games and pages break beside a full upload: 5.0 ms added (p95), 25.0 % lost.",
            ),
        ] {
            let got = of(added_ms, loss);
            assert_eq!((got.grade, &*got.sentence), (grade, says), "{added_ms} ms, {loss}");
        }
    }

    #[test]
    fn a_loss_that_may_be_chance_takes_no_grade() {
        // Of 1 of 50, 20 of 1000 and 25 of 50, with the lower ends of Clopper and Pearson.
        let graded = |loss: f64, least_loss: f64| {
            Assessment::of(&LoadedDelay { least_loss, ..measured(5.0, loss) }).unwrap()
        };
        assert_eq!(graded(0.02, 0.0005).grade, Grade::A);
        assert!(graded(0.02, 0.0005).sentence.contains("2.0 % lost"), "it is told all the same");
        assert_eq!([graded(0.02, 0.0123).grade, graded(0.5, 0.355).grade], [Grade::C, Grade::F]);
    }

    #[test]
    fn fewer_answers_than_a_percentile_needs_have_no_grade() {
        assert_eq!(Assessment::of(&LoadedDelay { samples: 19, ..measured(5.0, 0.0) }), None);
    }

    #[test]
    fn a_grade_never_gets_better_when_more_is_added_or_lost() {
        let mut before = Grade::A;
        for added in 0..2000 {
            let grade = of(f64::from(added), 0.0).grade;
            assert!(grade >= before, "{added} ms");
            before = grade;
        }
        before = Grade::A;
        for lost in 0..1000 {
            let grade = of(0.0, f64::from(lost) / 1000.0).grade;
            assert!(grade >= before, "{lost}");
            before = grade;
        }
    }

    #[test]
    fn quality_of_outcome_falls_from_optimal_to_unacceptable() {
        let game = |added_ms: f64, loss: f64| of(added_ms, loss).uses[1].quality_of_outcome;
        // 80 ms of a round trip are optimal for a game, 250 ms unacceptable; 1 % and 5 % of loss.
        assert_eq!([game(60.0, 0.0), game(230.0, 0.0)], [100.0, 0.0]);
        assert_eq!(game(145.0, 0.0), 50.0);
        assert_eq!((game(0.0, 0.03) * 10.0).round(), 500.0, "the worse of both");
    }

    #[test]
    fn a_page_pays_ten_times() {
        assert_eq!(of(40.0, 0.0).uses[2].cost_ms, 200.0);
    }

    #[test]
    fn what_a_run_keeps_of_it_is_read_again() {
        let kept = serde_json::to_string(&of(14.0, 0.0)).unwrap();
        assert_eq!(serde_json::from_str::<Assessment>(&kept).unwrap(), of(14.0, 0.0));
    }
}
