//! Expectations: claims that stand in an experiment file and are checked against the results.
//!
//! ```text
//!   unloaded.ping.rtt.max = 20ms ± 1us          a value with a tolerance (± or +-; absolute or in %)
//!   flood.udp.loss > 50%
//!   bulk-shaped.udp.jitter < 0.5 * bulk.udp.jitter
//!   *.tcp.goodput > 1Mbit
//!
//!   scenario . probe [ / stream ] . metric
//! ```
//!
//! `*` stands for every scenario. A claim must hold in every repeat; comparisons between two measured values pair the repeats.
//! Where a probe has several streams, name one, or the claim must hold for each.

use quell_model::metric::{Metric, MetricRange, MetricUnit};
use quell_units::Ratio;
use std::fmt;

/// Where a value comes from: `scenario.probe[/stream].metric`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimSource {
    /// The scenario; none means every one.
    pub scenario: Option<String>,
    pub probe: String,
    /// The stream; none means every one of the probe.
    pub stream: Option<String>,
    pub metric: Metric,
}

impl fmt::Display for ClaimSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.scenario.as_deref().unwrap_or("*"), self.probe)?;
        if let Some(stream) = &self.stream {
            write!(f, "/{stream}")?;
        }
        write!(f, ".{}", self.metric.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
}

#[derive(Debug, Clone, PartialEq)]
enum Bound {
    Value { value: f64, tolerance: f64 },
    Measured { factor: f64, source: ClaimSource, tolerance: f64 },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    text: String,
    left: ClaimSource,
    relation: Relation,
    bound: Bound,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expect \"{claim}\": {why}")]
pub struct ClaimError {
    pub claim: String,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub scenario: String,
    pub stream: String,
    pub repeat: u32,
    /// The value: seconds, bits per second, a ratio or a count; none where there was nothing to measure.
    pub value: Option<MetricRange>,
}

pub trait Evidence {
    /// All values of this metric for this probe; of this scenario and stream, where given.
    fn values(&self, source: &ClaimSource) -> Vec<Measured>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimVerdict {
    pub claim: String,
    pub held: bool,
    /// What was measured, for a person: the worst case.
    pub found: String,
}

impl Claim {
    pub fn parse(text: &str) -> Result<Claim, ClaimError> {
        let fail = |why: String| ClaimError { claim: text.escape_debug().to_string(), why };
        if text.chars().any(char::is_control) {
            return Err(fail("an expectation is one line of plain text".into()));
        }
        let relations = [
            ("<=", Relation::AtMost),
            ("≤", Relation::AtMost),
            (">=", Relation::AtLeast),
            ("≥", Relation::AtLeast),
            ("<", Relation::Less),
            (">", Relation::Greater),
            ("=", Relation::Equal),
        ];
        let (at, sign, relation) = relations
            .iter()
            .filter_map(|(sign, r)| text.find(sign).map(|at| (at, *sign, *r)))
            .min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()))
            .ok_or_else(|| fail("write a comparison: <, <=, >, >= or = with ± tolerance".into()))?;
        let left = source(text[..at].trim()).map_err(fail)?;
        let right = text[at + sign.len()..].trim();
        let (bound, tolerance) = match right.split_once('±').or_else(|| right.split_once("+-")) {
            Some((bound, tolerance)) => (bound.trim(), Some(tolerance.trim())),
            None => (right, None),
        };
        if relation == Relation::Equal
            && tolerance.is_none()
            && left.metric.unit() != MetricUnit::Count
        {
            let why =
                "a measured value is never exactly equal: give a tolerance, as in `= 20ms ± 1us`";
            return Err(fail(why.into()));
        }
        let bound = read_bound(bound, tolerance, &left).map_err(fail)?;
        Ok(Claim { text: text.into(), left, relation, bound })
    }

    pub fn sources(&self) -> Vec<&ClaimSource> {
        match &self.bound {
            Bound::Value { .. } => vec![&self.left],
            Bound::Measured { source, .. } => vec![&self.left, source],
        }
    }

    /// Checks it against results. A claim about something that was not measured does not hold.
    pub fn check(&self, evidence: &dyn Evidence) -> ClaimVerdict {
        let unit = self.left.metric.unit();
        let values = evidence.values(&self.left);
        let mut worst: Option<(f64, String, &Measured)> = None;
        for measured in &values {
            let (margin, found) = match measured.value {
                None => (f64::NEG_INFINITY, "nothing was measured".to_string()),
                Some(ends) => self.margin(ends, measured, evidence, unit),
            };
            if worst.as_ref().is_none_or(|(least, _, _)| margin < *least) {
                worst = Some((margin, found, measured));
            }
        }
        let held = worst.as_ref().is_some_and(|(margin, _, _)| *margin >= 0.0);
        let found = match worst {
            Some((_, found, _)) if values.len() == 1 => found,
            Some((_, found, at)) => format!(
                "{found} in {} (stream {}, repeat {}), the worst of {}",
                at.scenario,
                at.stream,
                at.repeat,
                values.len()
            ),
            None => format!("nothing was measured for {}", self.left),
        };
        ClaimVerdict { claim: self.text.clone(), held, found }
    }

    /// How far the claim is from failing (negative: it failed), and what was found. Where something is not known exactly, of the worst that it
    /// can be.
    fn margin(
        &self,
        ends: MetricRange,
        at: &Measured,
        evidence: &dyn Evidence,
        unit: MetricUnit,
    ) -> (f64, String) {
        let worst = |bounds: MetricRange, tolerance: f64| {
            let pairs =
                [(ends.0, bounds.0), (ends.0, bounds.1), (ends.1, bounds.0), (ends.1, bounds.1)];
            let margins = pairs.map(|(value, bound)| self.relation.margin(value, bound, tolerance));
            // Of what has no bound nobody knows how far it is from another such.
            margins.into_iter().fold(f64::INFINITY, |least, margin| match margin.is_nan() {
                true => f64::NEG_INFINITY,
                false => least.min(margin),
            })
        };
        match &self.bound {
            Bound::Value { value: bound, tolerance } => {
                (worst((*bound, *bound), *tolerance), unit.show(ends))
            }
            Bound::Measured { factor, source, tolerance } => {
                let mut source = source.clone();
                source.scenario.get_or_insert_with(|| at.scenario.clone());
                let others = evidence.values(&source);
                let other = others.iter().filter(|o| o.repeat == at.repeat).find_map(|o| o.value);
                match other {
                    None => (f64::NEG_INFINITY, format!("nothing was measured for {source}")),
                    Some(other) => (
                        worst((factor * other.0, factor * other.1), *tolerance),
                        format!("{} against {}", unit.show(ends), unit.show(other)),
                    ),
                }
            }
        }
    }
}

impl Relation {
    fn margin(self, value: f64, bound: f64, tolerance: f64) -> f64 {
        // Values carry nanoseconds at best; the slack keeps binary fractions from deciding.
        let slack = 1e-12 * bound.abs().max(1e-3);
        let strict = |m: f64| if m > 0.0 { m } else { m.min(-f64::MIN_POSITIVE) };
        match self {
            Relation::Less => strict(bound + tolerance - value),
            Relation::AtMost => bound + tolerance - value + slack,
            Relation::Greater => strict(value - (bound - tolerance)),
            Relation::AtLeast => value - (bound - tolerance) + slack,
            Relation::Equal => tolerance - (value - bound).abs() + slack,
        }
    }
}

fn read_bound(text: &str, tolerance: Option<&str>, left: &ClaimSource) -> Result<Bound, String> {
    let unit = left.metric.unit();
    let factor_and_path = match text.split_once(['*', '×']) {
        Some((factor, path)) if !factor.trim().is_empty() => {
            let factor: f64 =
                factor.trim().parse().ok().filter(|f: &f64| f.is_finite()).ok_or_else(|| {
                    format!("`{}` is not a factor; write as in `0.5 * …`", factor.trim())
                })?;
            Some((factor, path.trim()))
        }
        _ if text.starts_with('*') || text.chars().next().is_some_and(char::is_alphabetic) => {
            Some((1.0, text))
        }
        _ => None,
    };
    match factor_and_path {
        Some((factor, path)) => {
            let source = source(path)?;
            if source.metric.unit() != unit {
                return Err(format!("{left} and {source} don't have the same unit"));
            }
            let tolerance = match tolerance {
                None => 0.0,
                Some(t) if t.ends_with('%') && unit != MetricUnit::Ratio => {
                    return Err("a tolerance in % needs a fixed value on the right".into());
                }
                Some(t) => unit.parse(t)?,
            };
            Ok(Bound::Measured { factor, source, tolerance })
        }
        None => {
            let value = unit.parse(text)?;
            let tolerance = match tolerance {
                None => 0.0,
                Some(t) if t.ends_with('%') && unit != MetricUnit::Ratio => {
                    value * t.parse::<Ratio>().map_err(|e| e.to_string())?.as_f64()
                }
                Some(t) => unit.parse(t)?,
            };
            Ok(Bound::Value { value, tolerance })
        }
    }
}

fn source(text: &str) -> Result<ClaimSource, String> {
    let form = "write scenario.probe.metric, as in `bulk.ping.rtt.p99`";
    let mut parts = text.splitn(3, '.');
    let (Some(scenario), Some(probe), Some(metric)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(format!("`{text}` does not say what is meant; {form}"));
    };
    let metric = Metric::parse(metric).ok_or_else(|| {
        let names = Metric::NAMES.map(|(n, ..)| n);
        format!("`{metric}` is not measured{}", crate::nearest::hint(metric, &names))
    })?;
    let (probe, stream) = match probe.split_once('/') {
        Some((probe, stream)) => (probe, Some(stream.to_string())),
        None => (probe, None),
    };
    if scenario.is_empty() || probe.is_empty() {
        return Err(format!("`{text}` does not say what is meant; {form}"));
    }
    let scenario = (scenario != "*").then(|| scenario.to_string());
    Ok(ClaimSource { scenario, probe: probe.into(), stream, metric })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Table(Vec<(&'static str, &'static str, Metric, u32, Option<f64>)>);

    impl Evidence for Table {
        fn values(&self, source: &ClaimSource) -> Vec<Measured> {
            self.0
                .iter()
                .filter(|(s, p, m, _, _)| {
                    source.scenario.as_deref().is_none_or(|x| x == *s)
                        && source.probe == *p
                        && source.metric == *m
                })
                .map(|(s, p, _, repeat, value)| Measured {
                    scenario: (*s).into(),
                    stream: (*p).into(),
                    repeat: *repeat,
                    value: value.map(|v| match (*s, source.metric) {
                        ("hazy", Metric::RttMax) => (v, f64::INFINITY),
                        ("hazy", _) => (v, v + 0.2),
                        _ => (v, v),
                    }),
                })
                .collect()
        }
    }

    fn table() -> Table {
        Table(vec![
            ("quiet", "ping", Metric::RttMax, 0, Some(0.020_000_9)),
            ("quiet", "ping", Metric::RttMax, 1, Some(0.020_000_1)),
            ("full", "udp", Metric::Loss, 0, Some(0.69)),
            ("full", "udp", Metric::Jitter, 0, Some(0.004)),
            ("calm", "udp", Metric::Jitter, 0, Some(0.001_9)),
            ("dead", "tcp", Metric::Goodput, 0, None),
            ("hazy", "connect", Metric::Loss, 0, Some(0.05)),
            ("hazy", "connect", Metric::RttMax, 0, Some(1.0)),
        ])
    }

    fn held(claim: &str) -> bool {
        Claim::parse(claim).expect("a good claim").check(&table()).held
    }

    #[test]
    fn a_value_within_its_tolerance_in_every_repeat_holds() {
        assert!(held("quiet.ping.rtt.max = 20ms ± 1us"));
        assert!(held("quiet.ping.rtt.max = 20ms +- 1us"));
        assert!(!held("quiet.ping.rtt.max = 20ms ± 500ns"), "repeat 0 is 900 ns off");
    }

    #[test]
    fn bounds_are_strict_where_they_say_so() {
        assert!(held("full.udp.loss > 50%"));
        assert!(!held("full.udp.loss > 69%"));
        assert!(held("full.udp.loss >= 69%"));
    }

    #[test]
    fn what_is_not_known_exactly_holds_only_if_all_that_it_can_be_does() {
        for (claim, holds) in [
            ("hazy.connect.loss < 12%", false),
            ("hazy.connect.loss < 26%", true),
            ("hazy.connect.loss > 12%", false),
            ("hazy.connect.loss > 4%", true),
            ("hazy.connect.loss = 15% ± 9%", false),
            ("hazy.connect.loss = 15% ± 11%", true),
            ("full.udp.loss > 2 * hazy.connect.loss", true),
            ("full.udp.loss > 3 * hazy.connect.loss", false),
            ("hazy.connect.rtt.max > 900ms", true),
            ("hazy.connect.rtt.max < 60s", false),
            ("hazy.connect.rtt.max >= 0.5 * hazy.connect.rtt.max", false),
        ] {
            assert_eq!(held(claim), holds, "{claim}");
        }
        for (claim, found) in [
            ("hazy.connect.loss < 12%", "between 5 % and 25 %"),
            ("hazy.connect.rtt.max < 60s", "at least 1000 ms"),
        ] {
            let verdict = Claim::parse(claim).expect("fine").check(&table());
            assert_eq!(verdict.found, format!("not measured exactly: {found}"));
        }
    }

    #[test]
    fn two_scenarios_can_be_compared() {
        assert!(held("calm.udp.jitter < 0.5 * full.udp.jitter"));
        assert!(!held("calm.udp.jitter < 0.4 * full.udp.jitter"));
        assert!(held("calm.udp.jitter < full.udp.jitter"));
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        assert!(!held("dead.tcp.goodput < 1Mbit"));
        assert!(!held("absent.tcp.goodput < 1Mbit"));
        let verdict = Claim::parse("absent.tcp.goodput < 1Mbit").expect("fine").check(&table());
        assert!(verdict.found.contains("absent.tcp.goodput"), "{}", verdict.found);
    }

    #[test]
    fn a_star_means_every_scenario_and_the_worst_is_shown() {
        let verdict = Claim::parse("*.udp.jitter < 3ms").expect("fine").check(&table());
        assert!(!verdict.held);
        assert!(verdict.found.contains("full"), "{}", verdict.found);
        assert!(verdict.found.starts_with("4 ms"), "{}", verdict.found);
    }

    #[test]
    fn claims_that_can_not_be_meant_are_refused_with_the_right_form() {
        for (claim, part) in [
            ("quiet.ping.rtt.max", "comparison"),
            ("quiet.ping.rtt.max = 20ms", "tolerance"),
            ("quiet.ping.rtt.mx < 20ms", "rtt.max"),
            ("quiet.udp.lost-up = 0", "`lost.up`"),
            ("quiet.udp.lost-down = 0", "`lost.down`"),
            ("quiet.rtt < 20ms", "scenario.probe.metric"),
            ("quiet.ping.rtt.max < 20Mbit", "20Mbit"),
            ("a.udp.jitter < 0.5 * b.udp.loss", "unit"),
            ("a.udp.jitter < x * b.udp.jitter", "factor"),
        ] {
            let error = Claim::parse(claim).expect_err(claim).to_string();
            assert!(error.contains(part), "{claim}: {error}");
        }
    }
}
