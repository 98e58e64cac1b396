//! Which queues serve a measured line best: candidates are tried on its twin in the lab, each beside full load in both directions.
//!
//! ```text
//!   a: 4 uploads, 4 downloads ──┐
//!                               ├── router ── modem ═══ server      the candidate's queues are the router's
//!   b: pings, downloads of 1 MB ┘        wan      line
//!
//!   candidates ─► changes of home-link ─► results ─► trials ─► best ─► a policy
//! ```
//!
//! On a line whose rate varies each candidate is followed there by `quell shape follow`, as its policy says.

use quell_policy::{
    DeviceTraits, FollowPolicy, LinePolicy, LineRates, PolicyName, Signal, Tell, WhenLost,
};
use quell_report::analysis::Results;
use quell_series::measured_line::{MeasuredDirection, value};
use quell_series::{LineSeries, MeasuredLine, Steps};
use quell_units::{Rate, Span};
use toml::{Table, Value};

/// Parts of the measured rates that are tried, in percent.
const PERCENTS: [u64; 11] = [99, 98, 97, 96, 94, 92, 90, 85, 80, 65, 50];
/// Parts of the most that a line carries whose rate varies: its ceiling.
const CEILINGS: [u64; 4] = [100, 85, 70, 50];

const PAGE_BYTES: u64 = 1_000_000;
/// B's downloads begin so long after the measurement, in seconds.
const PAGES: [u64; 3] = [0, 3, 6];

/// A follower tests its signals before anything is measured, for so long at most.
const TEST: Span = Span::from_secs(25);

/// A wait that costs nothing: games and calls work beside it (docs/grade.md).
const FREE_WAIT_MS: f64 = 30.0;
/// Each millisecond more costs half a per cent of what is carried.
const COST_A_MS: f64 = 0.005;
/// Candidates that are so near to the best are as good; then the shortest wait decides.
const EQUAL: f64 = 0.99;

/// In which a rate that varies is told.
const WINDOW: Span = Span::from_millis(100);

const IDLE: &str = "idle";
const AS_IT_IS: &str = "as-it-is";

/// What the line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Most is carried, waits count.
    Call,
    /// The quickest download beside load, waits count.
    Page,
    /// Most is carried.
    Bulk,
    /// All three.
    All,
}

/// Queues that may be the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub policy: PolicyName,
    pub percent: u64,
}

/// What a candidate did; none is the line without any.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    pub candidate: Option<Candidate>,
    /// Payload of all, in Mbit/s.
    pub up_mbps: f64,
    pub down_mbps: f64,
    /// The 95th percentile of what a ping waits beyond the idle line's least, in the worst window.
    pub wait_ms: f64,
    /// What the slowest tenth of downloads of 1 MB take at least.
    pub page_s: f64,
}

impl Candidate {
    /// For a line that keeps its rates, or for one that is followed.
    pub fn all(is_followed: bool) -> Vec<Self> {
        let percents = if is_followed { &CEILINGS[..] } else { &PERCENTS };
        let of = |policy| percents.iter().map(move |&percent| Self { policy, percent });
        [PolicyName::HostFair, PolicyName::Cake].into_iter().flat_map(of).collect()
    }

    fn scenario(self) -> String {
        format!("{}-{}", self.policy.name(), self.percent)
    }

    /// The part of a rate, in whole kbit/s.
    fn part(self, rate: Rate) -> Rate {
        Rate::from_bps((rate.bps() * self.percent / 100_000).max(1) * 1000)
    }

    /// The queues for the line, which is followed between these bounds or keeps its rates; none where a rate is unknown.
    pub fn policy(self, line: &MeasuredLine, bounds: Option<&FollowPolicy>) -> Option<LinePolicy> {
        let overhead = [&line.up, &line.down].map(|way| value(&way.overhead));
        let overhead = overhead.into_iter().flatten().map(|bytes| bytes.get()).max();
        let policy = LinePolicy {
            policy: Some(self.policy),
            overhead: u16::try_from(overhead.unwrap_or(0)).ok()?,
            ..LinePolicy::default()
        };
        let Some(bounds) = bounds else {
            let [up, down] = [line.up.passes()?, line.down.passes()?].map(|rate| self.part(rate));
            return Some(LinePolicy { up: Some(up), down: Some(down), ..policy });
        };
        // The floor stays below it.
        let part =
            |ceiling: Rate, floor: Rate| self.part(ceiling).max(Rate::from_bps(floor.bps() + 1000));
        let (LineRates { up, down }, floor) = (bounds.ceiling, bounds.floor);
        let ceiling = LineRates { up: part(up, floor.up), down: part(down, floor.down) };
        Some(LinePolicy { follow: Some(FollowPolicy { ceiling, ..bounds.clone() }), ..policy })
    }
}

/// Between what rates a line whose rate varies is followed: from a tenth below what it carries nine tenths of the time to the most; a direction that
/// keeps its rate from a tenth below it. None where neither varies.
pub fn follow(line: &MeasuredLine, series: [Option<LineSeries>; 2]) -> Option<FollowPolicy> {
    let rates = series.map(|series| series.and_then(|series| series.rate));
    let varies = rates.iter().flatten().any(|rate| rate.count() > 1);
    let of = |rate: &Option<Steps<Rate>>, way: &MeasuredDirection| match rate {
        Some(rate) if rate.count() > 1 => {
            let count = (rate.end().nanos() / WINDOW.nanos()).max(1);
            let bits = rate.bits_at((0..=count).map(|at| WINDOW.saturating_mul(at)));
            let bits: Vec<u128> = bits.collect();
            let bps = |pair: &[u128]| (pair[1] - pair[0]) as f64 / WINDOW.as_secs_f64();
            let all: Vec<f64> = bits.windows(2).map(bps).collect();
            let [low, most] =
                [0.1, 1.0].map(|part| quell_stats::quantile(&all, part).unwrap_or(0.0));
            Some([low * 0.9, most])
        }
        _ => way.passes().map(|rate| rate.bps() as f64).map(|bps| [bps * 0.9, bps]),
    };
    let ([up_floor, up], [down_floor, down]) =
        (of(&rates[0], &line.up)?, of(&rates[1], &line.down)?);
    let rates = |up: f64, down: f64| {
        let [up, down] = [up, down].map(|bps| Rate::from_bps((bps / 1e3).max(1.0) as u64 * 1000));
        LineRates { up, down }
    };
    // Flows see a queue that hides from pings, and need nobody.
    let stamp = Some(line.to.clone()).filter(|to| !to.is_empty()).map(Signal::Stamp);
    varies.then(|| FollowPolicy {
        floor: rates(up_floor, down_floor),
        ceiling: rates(up, down),
        signals: stamp.into_iter().chain([Signal::Flows]).collect(),
        lost: WhenLost::default(),
        secret_file: None,
    })
}

/// What is tried, and how.
pub struct Tryout<'a> {
    /// Of the line.
    pub file: &'a str,
    pub line: &'a MeasuredLine,
    /// Where its rate varies.
    pub bounds: Option<&'a FollowPolicy>,
    pub candidates: &'a [Candidate],
    pub duration: Span,
    pub windows: u32,
    /// The program that follows.
    pub quell: &'a str,
}

/// What of home-link is otherwise, to try these on the line's twin. None where the line's rate is unknown.
pub fn changes(tryout: &Tryout<'_>) -> Option<Vec<String>> {
    let Tryout { file, line, bounds, candidates, duration, windows, quell } = *tryout;
    let (mut queues, mut loads) = (Vec::new(), Vec::new());
    let mut scenarios = vec![format!("{{ name = \"{IDLE}\" }}"), scenario(AS_IT_IS, &[], &[])];
    if bounds.is_some() {
        loads.push(command("serve", "server", &[quell, "serve", "--bind", "::", "--port", "5301"]));
    }
    for candidate in candidates {
        let (wanted, name) = (candidate.policy(line, bounds)?, candidate.scenario());
        if bounds.is_some() {
            loads.push(command(&name, "router", &followed(wanted, quell)?));
            scenarios.push(scenario(&name, &["serve", &name], &[]));
            continue;
        }
        let names = ["up", "down"].map(|way| format!("{name}-{way}"));
        queues.extend(queues_of(candidate.policy, &wanted, &names)?);
        scenarios.push(scenario(&name, &[], &names.each_ref().map(String::as_str)));
    }
    let (warm_up, start) = match bounds {
        Some(_) => (TEST, ", start = \"0s\""),
        None => (Span::from_secs(3), ""),
    };
    let tcp = |name: &str, from, direction, more: &str| {
        format!(
            "{{ name = \"{name}\", kind = \"tcp\", from = \"{from}\", to = \"server\", direction = \"{direction}\"{more} }}"
        )
    };
    let four = format!(", connections = 4{start}");
    loads.extend(["up", "down"].map(|way| tcp(way, "a", way, &four)));
    loads.extend(PAGES.map(|start| {
        let more = format!(", bytes = \"{PAGE_BYTES}B\", start = \"{start}s\"");
        tcp(&format!("page-{start}"), "b", "down", &more)
    }));
    Some(vec![
        "name=twin-choose".into(),
        "title=\"A measured line: as it is, and with each candidate's queues\"".into(),
        "about=\"What `quell twin choose` was asked for.\"".into(),
        "expect=[]".into(),
        "probes-run=together".into(),
        format!("warm-up={warm_up}"),
        format!("duration={duration}"),
        format!("repeat={windows}"),
        format!(
            "topology={{ hosts = [\"a\", \"b\", \"server\"], routers = [\"router\", \"modem\"], link = [{}, {}, {}, \
             {{ name = \"line\", ends = [\"modem\", \"server\"], line = {} }}] }}",
            "{ name = \"lan-a\", ends = [\"a\", \"router\"] }",
            "{ name = \"lan-b\", ends = [\"b\", \"router\"] }",
            "{ name = \"wan\", ends = [\"router\", \"modem\"] }",
            Value::from(file)
        ),
        format!("load=[{}]", loads.join(", ")),
        "probe=[{ name = \"ping\", kind = \"ping\", from = \"b\", to = \"server\", interval = \"20ms\" }]".into(),
        format!("queue={}", Value::Array(queues)),
        format!("scenario=[{}]", scenarios.join(", ")),
    ])
}

/// What a policy that keeps its rates has on the router, up and down.
fn queues_of(policy: PolicyName, wanted: &LinePolicy, names: &[String; 2]) -> Option<[Value; 2]> {
    let queue = |name: &String, direction, tell, rate: Option<Rate>| {
        let policy = wanted.policy(policy, tell, rate?, DeviceTraits::default());
        Some(Value::Table(Table::from_iter([
            ("name".to_owned(), Value::from(name.clone())),
            ("on".to_owned(), Value::from("router:wan")),
            ("direction".to_owned(), Value::from(direction)),
            ("policy".to_owned(), Value::try_from(policy).ok()?),
        ])))
    };
    let up = queue(&names[0], "out", Tell::Source, wanted.up)?;
    Some([up, queue(&names[1], "in", Tell::Destination, wanted.down)?])
}

fn scenario(name: &str, commands: &[&str], queues: &[&str]) -> String {
    let mut loads: Vec<String> =
        ["up", "down"].iter().chain(commands).map(|one| one.to_string()).collect();
    loads.extend(PAGES.map(|start| format!("page-{start}")));
    format!("{{ name = \"{name}\", loads = {loads:?}, queues = {queues:?} }}")
}

fn command(name: &str, on: &str, run: &[impl AsRef<str>]) -> String {
    let run: Vec<Value> = run.iter().map(|word| Value::from(word.as_ref())).collect();
    format!(
        "{{ name = \"{name}\", kind = \"command\", on = \"{on}\", run = {} }}",
        Value::Array(run)
    )
}

/// The words that put a policy in force on the router and follow the line. The lab's far end stands aside of the ports of its loads.
fn followed(mut policy: LinePolicy, quell: &str) -> Option<[String; 5]> {
    policy.follow.as_mut()?.signals =
        vec![Signal::Stamp("{server}:5301".to_owned()), Signal::Flows];
    let policy = toml::to_string(&policy).ok()?;
    let script = "printf %s \"$1\" >/tmp/policy.toml && \"$0\" shape apply --dev wan --file /tmp/policy.toml --confirm-within never";
    Some(["sh", "-c", script, quell, &policy].map(str::to_owned))
}

/// What the line did as it is, and each candidate; those of which a figure lacks are left out.
pub fn trials(results: &Results, candidates: &[Candidate]) -> Vec<Trial> {
    let idle = of(results, IDLE).filter_map(|row| Some(row.echo()?.rtt_ms.as_ref()?.min));
    let idle_ms = idle.fold(f64::INFINITY, f64::min);
    let each = candidates.iter().map(|one| (Some(*one), one.scenario()));
    let all = std::iter::once((None, AS_IT_IS.to_owned())).chain(each);
    all.filter_map(|(candidate, scenario)| trial(results, candidate, &scenario, idle_ms)).collect()
}

fn of<'a>(
    results: &'a Results,
    scenario: &'a str,
) -> impl Iterator<Item = &'a quell_report::analysis::StreamResult> {
    results.rows.iter().filter(move |row| row.cell.scenario == scenario)
}

fn trial(
    results: &Results,
    candidate: Option<Candidate>,
    scenario: &str,
    idle_ms: f64,
) -> Option<Trial> {
    let waits = of(results, scenario).filter_map(|row| Some(row.echo()?.rtt_ms.as_ref()?.p95));
    let waits: Vec<f64> = waits.collect();
    let windows = waits.len() as f64;
    let carried = |down: bool| {
        let flows = of(results, scenario).filter_map(|row| row.flow());
        let carried = flows.filter(|flow| flow.goes_down == down).filter_map(|f| f.carried_mbps);
        carried.sum::<f64>() / windows
    };
    // One that did not come to its end would have gone on so.
    let mut pages: Vec<f64> = of(results, scenario)
        .filter(|row| row.stream.starts_with("page-"))
        .filter_map(|row| Some(PAGE_BYTES as f64 * 8e-6 / row.flow()?.goodput_mbps?))
        .collect();
    pages.sort_by(f64::total_cmp);
    Some(Trial {
        candidate,
        up_mbps: carried(false),
        down_mbps: carried(true),
        wait_ms: waits.into_iter().reduce(f64::max)? - idle_ms,
        page_s: *pages.get(pages.len() * 9 / 10)?,
    })
}

impl Trial {
    pub fn carried_mbps(&self) -> f64 {
        self.up_mbps + self.down_mbps
    }
}

impl Purpose {
    pub const ALL: [Purpose; 4] = [Purpose::Call, Purpose::Page, Purpose::Bulk, Purpose::All];

    pub fn name(self) -> &'static str {
        match self {
            Purpose::Call => "call",
            Purpose::Page => "page",
            Purpose::Bulk => "bulk",
            Purpose::All => "all",
        }
    }

    /// What a trial is worth: what is carried, the pace of a download or both, less what its wait costs.
    pub fn worth(self, trial: &Trial) -> f64 {
        let carried = trial.carried_mbps();
        let calm = (-COST_A_MS * (trial.wait_ms - FREE_WAIT_MS).max(0.0)).exp();
        match self {
            Purpose::Call => carried * calm,
            Purpose::Page => calm / trial.page_s,
            Purpose::Bulk => carried,
            Purpose::All => carried * calm / trial.page_s,
        }
    }

    /// Sorts trials, the best first.
    pub fn rank(self, trials: &mut [Trial]) {
        let best = trials.iter().map(|trial| self.worth(trial)).fold(0.0, f64::max);
        let key = |trial: &Trial| match self.worth(trial) {
            worth if worth >= EQUAL * best => (false, trial.wait_ms),
            worth => (true, -worth),
        };
        trials.sort_by(|a, b| {
            let ((a, a_by), (b, b_by)) = (key(a), key(b));
            a.cmp(&b).then(a_by.total_cmp(&b_by))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purpose_has_its_best_and_what_nobody_notices_decides_nothing() {
        let trial = |percent, carried, wait_ms, page_s| Trial {
            candidate: Some(Candidate { policy: PolicyName::Cake, percent }),
            up_mbps: carried,
            down_mbps: 0.0,
            wait_ms,
            page_s,
        };
        let mut fast = vec![
            trial(99, 99.5, 60.0, 0.9),
            trial(94, 94.0, 19.0, 0.6),
            trial(90, 90.0, 12.0, 0.49),
            trial(80, 80.0, 4.0, 0.485),
        ];
        // Where a packet takes 6 ms, a third of the rate for some of them is no bargain.
        let mut slow = vec![
            trial(94, 8.3, 41.0, 2.6),
            trial(90, 8.04, 39.7, 2.55),
            trial(80, 7.11, 39.7, 2.81),
            trial(65, 5.93, 30.7, 4.03),
            trial(50, 4.3, 18.3, 7.6),
        ];
        for (purpose, best, on_slow) in [
            (Purpose::Call, 94, 94),
            (Purpose::Page, 80, 90),
            (Purpose::Bulk, 99, 94),
            (Purpose::All, 90, 90),
        ] {
            for (trials, best) in [(&mut fast, best), (&mut slow, on_slow)] {
                purpose.rank(trials);
                let first = trials[0].candidate.expect("one");
                assert_eq!(first.percent, best, "{purpose:?}");
            }
        }
    }

    #[test]
    fn a_rate_that_varies_is_followed_between_what_it_carries_as_a_rule_and_the_most() {
        let line = MeasuredLine::parse(
            "version = 1\nto = \"far\"\n[up]\nrate = { value = \"10 Mbit/s\" }\n[down]\nrate = { value = \"20 Mbit/s\" }\n",
        );
        let line = line.expect("a line");
        let step = |n: u64| (Span::from_millis(100 * n), Rate::from_bps((1 + n) * 1_000_000));
        let rate = Steps::new((0..21).map(step), Span::from_millis(2100));
        let varies = LineSeries { rate, ..LineSeries::default() };
        let follow = follow(&line, [Some(varies), None]).expect("it varies");
        let text = |rates| String::from(rates);
        assert_eq!((text(follow.floor), text(follow.ceiling)), ("2.7/18".into(), "21/20".into()));
        assert_eq!(follow.signals, [Signal::Stamp("far".into()), Signal::Flows]);
        let candidate = Candidate { policy: PolicyName::Cake, percent: 50 };
        let policy = candidate.policy(&line, Some(&follow)).expect("bounds");
        let ceiling = policy.follow.expect("it is followed").ceiling;
        assert_eq!(text(ceiling), "10.5/18.001");
        assert_eq!(super::follow(&line, [None, None]), None);
    }

    #[test]
    fn a_candidates_rates_are_parts_of_the_measured_ones_and_none_follows_from_an_unknown_rate() {
        let line = MeasuredLine::parse(
            "version = 1\n[up]\nrate = { value = \"10 Mbit/s\" }\noverhead = { value = \"22 B\" }\n\
             [down]\nqueue = { value = \"policer\" }\npolice-rate = { value = \"50 Mbit/s\" }\n",
        );
        let line = line.expect("a line");
        let candidate = Candidate { policy: PolicyName::HostFair, percent: 90 };
        let policy = candidate.policy(&line, None).expect("both rates are known");
        let rates = (policy.up.map(Rate::bps), policy.down.map(Rate::bps), policy.overhead);
        assert_eq!(rates, (Some(9_000_000), Some(45_000_000), 22));
        let unknown = MeasuredLine { down: MeasuredDirection::default(), ..line };
        assert_eq!(candidate.policy(&unknown, None), None);
    }
}
