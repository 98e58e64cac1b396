//! A field at several values, each with every scenario: `sweep = { "topology.link.dsl.up.rate" = ["1Mbit", "10Mbit"] }`. Several guest kernels
//! (`kernels = ["6.1", "6.12"]`) are one more such field, called `kernel`.
//!
//! ```text
//!   text ──set, once a point──► texts ──parse, check──► plans ──named after scenario and value──► one run
//! ```
//!
//! A cell has the seed that its scenario has without a sweep: what differs between two values of a repeat is the field alone.

use crate::line_files::LineFilesRead;
use crate::spec::check::{self, CheckError};
use crate::spec::{Experiment, Scenario, load_file, set};
use quell_lab::cell::CellPlan;
use std::collections::{HashMap, HashSet};

/// Values of the swept fields that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Each field's path, and its value as it stands in the file, a text without its quotes.
    pub values: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error("sweep, {point}: {why}")]
    Point { point: String, why: String },
    #[error("sweep: {field} has no values; give some, as in [\"1Mbit\", \"10Mbit\"]")]
    NoValues { field: String },
    #[error(
        "sweep: two scenarios would be called `{name}`; give each value once, and shorter names to scenarios where it is cut"
    )]
    SameName { name: String },
}

pub const KERNEL: &str = "kernel";

fn is_swept(experiment: &Experiment) -> bool {
    !experiment.sweep.is_empty() || experiment.kernels.len() > 1
}

const LONGEST: usize = 40;

fn count(experiment: &Experiment) -> u64 {
    let kernels = experiment.kernels.len().max(1);
    let lengths = experiment.sweep.values().map(Vec::len).chain([kernels]);
    lengths.fold(1, |count: u64, length| count.saturating_mul(length as u64))
}

/// All combinations of the values, the first field's slowest.
fn points(experiment: &Experiment) -> Vec<Point> {
    let none = vec![Point { values: Vec::new() }];
    let kernels =
        (experiment.kernels.len() > 1).then(|| (KERNEL.to_owned(), experiment.kernels.clone()));
    let text =
        |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let swept = experiment.sweep.iter();
    let swept = swept.map(|(field, values)| (field.clone(), values.iter().map(text).collect()));
    swept.chain(kernels).fold(none, |points: Vec<Point>, (field, values): (String, Vec<String>)| {
        let with = |point: &Point, value: &String| {
            let mut values = point.values.clone();
            values.push((field.clone(), value.clone()));
            Point { values }
        };
        points.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect()
    })
}

/// What a scenario is called at a point: its name and the values, with what no name may have as `_`.
fn name_at(scenario: &str, point: &Point) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let values = point.values.iter().map(|(_, value)| value.chars().map(fit).collect::<String>());
    let name = std::iter::once(scenario.to_owned()).chain(values).collect::<Vec<_>>().join("-");
    name.chars().take(LONGEST).collect()
}

/// The scenarios of a swept run: what each is in the file, and its values. They are made once for all that is asked.
#[derive(Debug, Clone, Default)]
pub struct Places(HashMap<String, (String, Point)>);

impl Places {
    /// Those of an experiment; none where nothing is swept.
    pub fn of(experiment: &Experiment) -> Self {
        let mut places = HashMap::new();
        // Whose run it is may be a stranger: no more are made than an experiment may have.
        if !is_swept(experiment) || check::count(experiment, count(experiment)).is_err() {
            return Self(places);
        }
        let points = points(experiment);
        for scenario in &experiment.scenario {
            for point in &points {
                let place = || (scenario.name.clone(), point.clone());
                places.entry(name_at(&scenario.name, point)).or_insert_with(place);
            }
        }
        Self(places)
    }

    /// The scenario as it stands in the file, and the values, of a scenario of the run; none where it is none of these.
    pub fn get(&self, scenario: &str) -> Option<(&str, &Point)> {
        self.0.get(scenario).map(|(base, point)| (base.as_str(), point))
    }
}

/// Checks an experiment, and gives it with its scenarios at each point, and the plans of the cells. `text` is what it was parsed from.
///
/// # Errors
/// When it, or what a value makes of it, can't be run.
pub fn spread(
    text: &str,
    experiment: &Experiment,
) -> Result<(Experiment, Vec<CellPlan>), SweepError> {
    if !is_swept(experiment) {
        return Ok((experiment.clone(), check::check(experiment)?));
    }
    if let Some((field, _)) = experiment.sweep.iter().find(|(_, values)| values.is_empty()) {
        return Err(SweepError::NoValues { field: field.clone() });
    }
    check::count(experiment, count(experiment))?;
    let points = points(experiment);
    let unswept = changed(text, &["sweep={}".to_owned(), "expect=[]".to_owned()])
        .map_err(|why| SweepError::Point { point: "[]".to_owned(), why })?;
    let planned = (points.iter())
        .map(|point| at(&unswept, point, &experiment.line_files))
        .collect::<Result<Vec<_>, _>>()?;
    let mut whole = experiment.clone();
    whole.scenario.clear();
    let mut names = HashSet::new();
    let mut plans = Vec::new();
    for scenario in &experiment.scenario {
        for (point, cells) in points.iter().zip(&planned) {
            let name = name_at(&scenario.name, point);
            if !names.insert(name.clone()) {
                return Err(SweepError::SameName { name });
            }
            for cell in cells.iter().filter(|cell| cell.id.scenario == scenario.name) {
                let mut cell = cell.clone();
                cell.id.scenario.clone_from(&name);
                plans.push(cell);
            }
            let against = scenario.against.as_ref().map(|of| name_at(of, point));
            whole.scenario.push(Scenario { name, against, ..scenario.clone() });
        }
    }
    // Changes of the timeline name scenarios as they stand in the file; they are in the plans already.
    let claimed = Experiment { timeline: Vec::new(), ..whole.clone() };
    check::whole(&claimed)?;
    Ok((whole, plans))
}

fn changed(text: &str, changes: &[String]) -> Result<String, String> {
    set::apply(text, changes).map_err(|e| e.why)
}

/// The plans at one point; the text has neither a sweep nor claims.
fn at(text: &str, point: &Point, files: &LineFilesRead) -> Result<Vec<CellPlan>, SweepError> {
    let said: Vec<String> =
        point.values.iter().map(|(field, value)| format!("{field}={value}")).collect();
    let refused = |why: String| SweepError::Point { point: said.join(", "), why };
    let kernel = |(field, value): &(String, String)| {
        (field == KERNEL).then(|| format!("kernels=[{value:?}]"))
    };
    let changes: Vec<String> = (point.values.iter().zip(&said))
        .map(|(value, said)| kernel(value).unwrap_or_else(|| said.clone()))
        .collect();
    let text = changed(text, &changes).map_err(refused)?;
    let experiment = load_file::parse("sweep", &text).map_err(|e| match e {
        load_file::ReadError::Text { why, .. } => refused(why),
        other => refused(other.to_string()),
    })?;
    let experiment = experiment.with_line_files(files).map_err(refused)?;
    check::check(&experiment).map_err(|e| refused(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const TEXT: &str = r#"
name = "rates"
duration = "1s"
sweep = { "topology.link.dsl.up.rate" = ["1Mbit", "2.5Mbit"] }
expect = ["shaped-2_5Mbit.ping.rtt.p50 < 25ms"]
[topology]
hosts = ["a", "b"]
[[topology.link]]
name = "dsl"
ends = ["a", "b"]
up = { rate = "5Mbit", delay = "10ms" }
[[queue]]
name = "shaper"
on = "a:dsl"
queue = { kind = "tbf", rate = "96% of link dsl.up", burst = 3000, limit = 100000 }
[[scenario]]
name = "plain"
[[scenario]]
name = "shaped"
queues = ["shaper"]
[[probe]]
kind = "ping"
name = "ping"
from = "a"
to = "b"
"#;

    fn spread_of(text: &str) -> Result<(Experiment, Vec<CellPlan>), SweepError> {
        spread(text, &load_file::parse("x", text).expect("it can be read"))
    }

    #[test]
    fn each_scenario_is_planned_at_each_value_and_its_shaper_follows_the_line() {
        let (experiment, plans) = spread_of(TEXT).expect("it can be run");
        let names: Vec<&str> = plans.iter().map(|p| &*p.id.scenario).collect();
        assert_eq!(names, ["plain-1Mbit", "plain-2_5Mbit", "shaped-1Mbit", "shaped-2_5Mbit"]);
        assert_eq!(experiment.scenario.iter().map(|s| &*s.name).collect::<Vec<_>>(), names);
        let rate = |plan: &CellPlan| plan.topology.link[0].up.as_ref().and_then(|l| l.rate);
        assert_eq!(rate(&plans[3]).map(|r| r.bps()), Some(2_500_000));
        let tree = format!("{:?}", plans[3].queues);
        assert!(tree.contains("2400000"), "96 % of 2.5 Mbit: {tree}");
    }

    #[test]
    fn values_of_a_repeat_share_the_seed_of_their_scenario() {
        let (_, plans) = spread_of(TEXT).expect("it can be run");
        let alone = TEXT.replace("sweep = {", "# {").replace("expect = [", "# [");
        let (_, without) = spread_of(&alone).expect("it can be run");
        let seeds: Vec<u64> = plans.iter().map(|p| p.seed).collect();
        assert_eq!(seeds, [without[0].seed, without[0].seed, without[1].seed, without[1].seed]);
        assert_eq!(seeds.iter().collect::<BTreeSet<_>>().len(), 2);
    }

    #[test]
    fn a_swept_scenario_tells_its_values() {
        let experiment = load_file::parse("x", TEXT).expect("it can be read");
        let places = Places::of(&experiment);
        let (base, point) = places.get("shaped-2_5Mbit").expect("it is one");
        assert_eq!(base, "shaped");
        assert_eq!(point.values, [("topology.link.dsl.up.rate".into(), "2.5Mbit".into())]);
        assert_eq!(places.get("shaped"), None);
    }

    #[test]
    fn all_scenarios_of_the_largest_sweep_are_asked_for_without_making_them_anew() {
        let rates = (1..=5000).map(|n| format!("\"{n}kbit\"")).collect::<Vec<_>>().join(",");
        let text = TEXT.replace("\"1Mbit\", \"2.5Mbit\"", &rates).replace("expect = [", "# [");
        let experiment = load_file::parse("x", &text).expect("it can be read");
        let places = Places::of(&experiment);
        // Nothing of what was made is made again: each answer is a part of it.
        for n in 1..=5000 {
            let (_, point) = places.get(&format!("shaped-{n}kbit")).expect("it is one");
            let (_, again) = places.get(&format!("shaped-{n}kbit")).expect("it is one");
            assert!(std::ptr::eq(point, again) && point.values[0].1 == format!("{n}kbit"));
        }
    }

    #[test]
    fn two_fields_give_each_pair_of_their_values() {
        let text = TEXT
            .replace(
                "[\"1Mbit\", \"2.5Mbit\"] }",
                "[\"1Mbit\", \"2.5Mbit\"], \"seed\" = [1, 2, 3] }",
            )
            .replace("expect = [", "# [");
        let (_, plans) = spread_of(&text).expect("it can be run");
        assert_eq!(plans.len(), 12);
    }

    #[test]
    fn too_many_combinations_are_refused_before_they_are_made() {
        let many = (100..3100).map(|n| format!("\"{n}kbit\"")).collect::<Vec<_>>().join(",");
        let fields = ["link.dsl.up.rate", "link.dsl.down.rate", "link.dsl.both.rate"];
        let swept = fields.map(|field| format!("\"topology.{field}\" = [{many}]")).join(", ");
        let values = "\"topology.link.dsl.up.rate\" = [\"1Mbit\", \"2.5Mbit\"]";
        let text = TEXT.replace(values, &swept);
        let wrong = spread_of(&text).expect_err("54,000,000,000 of them").to_string();
        assert_eq!(
            wrong,
            "54000000000 measurements (scenarios × probes × repeats, at each value of a sweep) are too many; at most 10000"
        );
        let experiment = load_file::parse("x", &text).expect("it can be read");
        assert_eq!(Places::of(&experiment).get("plain-100kbit-100kbit-100kbit"), None);
    }

    #[test]
    fn each_scenario_is_planned_for_each_kernel() {
        let text = TEXT
            .replace("sweep = {", "kernels = [\"6.1\", \"6.12\"] # {")
            .replace("expect = [\"shaped-2_5Mbit.", "expect = [\"shaped-6_12.");
        let (experiment, plans) = spread_of(&text).expect("it can be run");
        let told: Vec<(&str, Option<&str>)> =
            plans.iter().map(|p| (&*p.id.scenario, p.kernel.as_deref())).collect();
        let (old, new) = (Some("6.1"), Some("6.12"));
        let wanted =
            [("plain-6_1", old), ("plain-6_12", new), ("shaped-6_1", old), ("shaped-6_12", new)];
        assert_eq!(told, wanted);
        assert_eq!(plans[0].seed, plans[1].seed, "what differs is the kernel alone");
        let written = load_file::parse("x", &text).expect("it can be read");
        let places = Places::of(&written);
        let (base, point) = places.get("shaped-6_12").expect("it is one");
        assert_eq!(
            (base, &point.values[..]),
            ("shaped", &[(KERNEL.to_owned(), "6.12".to_owned())][..])
        );
        // One is no factor.
        let one =
            TEXT.replace("sweep = {", "kernels = [\"6.12\"] # {").replace("expect = [", "# [");
        let (_, plans) = spread_of(&one).expect("it can be run");
        assert!(plans.iter().all(|p| p.kernel.as_deref() == Some("6.12")));
        assert_eq!((experiment.scenario.len(), &*plans[0].id.scenario), (4, "plain"));
        let wrong = spread_of(&text.replace("\"6.1\"", "\"5.10\"")).expect_err("none is known");
        assert!(wrong.to_string().contains("6.1 and 6.12"), "{wrong}");
    }

    #[test]
    fn what_can_t_be_swept_is_told_with_its_value() {
        let why =
            |from: &str, to: &str| spread_of(&TEXT.replace(from, to)).expect_err(to).to_string();
        let wrong = why("\"2.5Mbit\"]", "\"fast\"]");
        assert!(
            wrong.contains("topology.link.dsl.up.rate=fast") && wrong.contains("Mbit"),
            "{wrong}"
        );
        let nothing = why("link.dsl.up.rate\" =", "link.dls.up.rate\" =");
        assert!(nothing.contains("did you mean `dsl`?"), "{nothing}");
        assert!(why("[\"1Mbit\", \"2.5Mbit\"]", "[]").contains("has no values"));
        assert!(why("[\"1Mbit\", \"2.5Mbit\"]", "[\"1Mbit\", \"1Mbit\"]").contains("plain-1Mbit"));
        let claim = why("shaped-2_5Mbit.ping", "shaped.ping");
        assert!(claim.contains("no scenario `shaped`"), "{claim}");
    }
}
