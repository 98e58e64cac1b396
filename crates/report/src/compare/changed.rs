//! What one group changed against the first, in sentences: for who does not ask for the table.

use super::comparison::Comparison;
use super::measure::{Against, Measure, Verdict};
use super::text;
use quell_wire::text::line;

const TOLD: usize = 8;

/// What differs between the first group and each of the others, with its 95 % interval: first what does beyond what chance gives, then what may, and
/// of the rest how much it is at most.
pub fn sentences(comparison: &Comparison) -> Vec<String> {
    let first = line(&comparison.groups[0].label);
    let others = comparison.groups.iter().enumerate().skip(1);
    others
        .flat_map(|(number, group)| of_group(comparison, &first, number, &line(&group.label)))
        .collect()
}

struct ChangedFact<'a> {
    name: String,
    measure: &'a Measure,
    against: &'a Against,
}

impl ChangedFact<'_> {
    fn range(&self) -> String {
        let metric = self.measure.metric;
        let digits = text::digits(metric, self.against);
        let range = text::interval(metric, self.against, digits);
        format!("{range} {}", text::unit(metric).0).trim_end().to_owned()
    }

    fn differs(&self, first: &str, group: &str) -> String {
        let metric = self.measure.metric;
        let (unit, digits) = (text::unit(metric).0, text::digits(metric, self.against));
        let figure = |value: f64| text::figure(metric, value, digits);
        let (before, after) = (figure(self.measure.first.value), figure(self.against.figure.value));
        let word = text::word(self.against.verdict);
        format!(
            "{}: {word}, {before} {unit} with {first}, {after} with {group}, {}",
            self.name,
            self.range()
        )
    }
}

fn of_group(comparison: &Comparison, first: &str, number: usize, group: &str) -> Vec<String> {
    let mut all: Vec<ChangedFact> = Vec::new();
    for set in &comparison.sets {
        for measure in &set.measures {
            let against = measure.against.iter().filter(|a| a.group == number);
            all.extend(against.map(|against| {
                let name = format!("{} of {}", measure.metric.name(), line(&set.name()));
                ChangedFact { name, measure, against }
            }));
        }
    }
    let with = |is: fn(Verdict) -> bool| all.iter().filter(move |t| is(t.against.verdict));
    let surely = with(|v| matches!(v, Verdict::Surely(_)));
    let perhaps = with(|v| matches!(v, Verdict::Perhaps(_)));
    let differ: Vec<String> = surely.chain(perhaps).map(|t| t.differs(first, group)).collect();
    let of = all.len();
    let mut said = Vec::new();
    if differ.is_empty() {
        said.push(format!("{group} against {first}: no difference is seen in {of} figures"));
    } else {
        let count = differ.len();
        said.push(format!(
            "{group} against {first}: {count} of {of} figures differ, with their 95 % intervals"
        ));
        let more = count.saturating_sub(TOLD);
        said.extend(differ.into_iter().take(TOLD));
        if more > 0 {
            said.push(format!("and {more} more"));
        }
    }
    let equal = with(|v| v == Verdict::Equal).count();
    if equal > 0 {
        said.push(format!("{equal} are equal in every repeat"));
    }
    let alike: Vec<String> =
        with(|v| v == Verdict::NotSeen).map(|t| format!("{} {}", t.name, t.range())).collect();
    if !alike.is_empty() {
        let more = match alike.len().saturating_sub(TOLD) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let alike = alike[..alike.len().min(TOLD)].join("; ");
        said.push(format!("no difference seen, which may still be: {alike}{more}"));
    }
    let unknown = with(|v| matches!(v, Verdict::Unknown(_)));
    let unknown: Vec<&ChangedFact> = unknown.collect();
    if let Some(Verdict::Unknown(why)) = unknown.first().map(|t| t.against.verdict) {
        said.push(format!("of {} nobody knows, as since {}", unknown.len(), why.words()));
    }
    said
}
