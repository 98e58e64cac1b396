//! Which queues serve a measured line best: candidates are tried on its twin in the lab, each beside full load in both directions.
//!
//! ```text
//!   a: 4 uploads, 4 downloads ──┐
//!                               ├── router ── modem ═══ server      the candidate's queues are the router's
//!   b: pings, downloads of 1 MB ┘        wan      line
//!
//!   candidates ─► changes of home-link ─► results ─► trials ─► best ─► a policy
//! ```

use quell_policy::{
    DeviceTraits, FRAME, FollowPolicy, LinePolicy, LineRates, PolicyName, Signal, Tell, WhenLost,
};
use quell_report::analysis::{OwnTime, Results};
use quell_series::measured_line::{MeasuredDirection, value};
use quell_series::{LineSeries, MeasuredLine, Steps};
use quell_units::{Rate, Span};
use std::fmt::Display;
use toml::{Table, Value};

/// Parts of the measured rates that are tried, in percent; on a line whose rate varies the lower ones matter.
const PERCENTS: [u64; 12] = [100, 99, 98, 97, 96, 94, 92, 90, 85, 80, 65, 50];

/// B's downloads begin so long after the measurement, in seconds.
const PAGES: [u64; 3] = [0, 3, 6];

/// In which a rate that varies is told.
const WINDOW: Span = Span::from_millis(100);

const IDLE: &str = "idle";
const AS_IT_IS: &str = "as-it-is";

/// What the line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The shortest wait, and what the line carries then.
    Call,
    /// The fastest megabyte beside load.
    Page,
    /// The most that is carried, and the shortest wait then.
    Bulk,
    /// What is carried where a call waits hardly longer than it must.
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
    /// The 99th percentile of what a ping waits beyond the idle line's least, in the worst window.
    pub wait_ms: f64,
    /// The median of what a download of 1 MB takes.
    pub page_s: f64,
}

impl Candidate {
    pub fn all() -> Vec<Self> {
        let of = |policy| PERCENTS.map(|percent| Self { policy, percent });
        [PolicyName::HostFair, PolicyName::Cake].into_iter().flat_map(of).collect()
    }

    fn scenario(self) -> String {
        format!("{}-{}", self.policy.name(), self.percent)
    }

    /// The queues for the line; none where a rate is unknown.
    pub fn policy(self, line: &MeasuredLine) -> Option<LinePolicy> {
        let rate = |way: &MeasuredDirection| {
            Some(Rate::from_bps(way.passes()?.bps() / 100 * self.percent))
        };
        let overhead = [&line.up, &line.down].map(|way| value(&way.overhead));
        let overhead = overhead.into_iter().flatten().map(|bytes| bytes.get()).max();
        Some(LinePolicy {
            policy: Some(self.policy),
            up: Some(rate(&line.up)?),
            down: Some(rate(&line.down)?),
            overhead: u16::try_from(overhead.unwrap_or(0)).ok()?,
            ..LinePolicy::default()
        })
    }
}

/// Between what rates a line whose rate varies is followed: from what it carries nine tenths of the time to the most; a direction that keeps its rate
/// a little below it. None where neither varies.
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
            Some([0.1, 1.0].map(|part| quell_stats::quantile(&all, part).unwrap_or(0.0)))
        }
        _ => way.passes().map(|rate| rate.bps() as f64).map(|bps| [bps * 0.9, bps]),
    };
    let ([up_floor, up], [down_floor, down]) =
        (of(&rates[0], &line.up)?, of(&rates[1], &line.down)?);
    let rates = |up: f64, down: f64| {
        let [up, down] = [up, down].map(|bps| Rate::from_bps((bps / 1e3).max(1.0) as u64 * 1000));
        LineRates { up, down }
    };
    let stamp = if line.to.is_empty() { "SERVER".to_owned() } else { line.to.clone() };
    varies.then(|| FollowPolicy {
        floor: rates(up_floor, down_floor),
        ceiling: rates(up, down),
        signals: vec![Signal::Stamp(stamp)],
        lost: WhenLost::default(),
    })
}

/// What of home-link is otherwise, to try these on the twin whose file this is. None where the line's rate is unknown.
pub fn changes(
    file: &str,
    line: &MeasuredLine,
    candidates: &[Candidate],
    duration: Span,
    windows: u32,
) -> Option<Vec<String>> {
    let mut queues = Vec::new();
    let mut scenarios =
        vec![format!("{{ name = \"{IDLE}\" }}"), scenario(AS_IT_IS, &[] as &[String])];
    for candidate in candidates {
        let wanted = candidate.policy(line)?;
        let ways = [
            ("up", "out", Tell::Source, wanted.up),
            ("down", "in", Tell::Destination, wanted.down),
        ];
        let mut names = Vec::new();
        for (way, direction, tell, rate) in ways {
            let policy = wanted.policy(candidate.policy, tell, rate?, DeviceTraits::default());
            let name = format!("{}-{way}", candidate.scenario());
            queues.push(Value::Table(Table::from_iter([
                ("name".to_owned(), Value::from(name.clone())),
                ("on".to_owned(), Value::from("router:wan")),
                ("direction".to_owned(), Value::from(direction)),
                ("policy".to_owned(), Value::try_from(policy).ok()?),
            ])));
            names.push(name);
        }
        scenarios.push(scenario(&candidate.scenario(), &names));
    }
    let bulk = ["up", "down"].map(|way| {
        format!("{{ name = \"{way}\", kind = \"tcp\", from = \"a\", to = \"server\", direction = \"{way}\", connections = 4 }}")
    });
    let pages = PAGES.map(|start| {
        format!("{{ name = \"page-{start}\", kind = \"tcp\", from = \"b\", to = \"server\", direction = \"down\", bytes = \"1MB\", start = \"{start}s\" }}")
    });
    let loads: Vec<String> = bulk.into_iter().chain(pages).collect();
    Some(vec![
        "name=twin-choose".into(),
        "title=\"A measured line: as it is, and with each candidate's queues\"".into(),
        "about=\"What `quell twin choose` was asked for.\"".into(),
        "expect=[]".into(),
        "probes-run=together".into(),
        "warm-up=3s".into(),
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

fn scenario(name: &str, queues: &[impl Display]) -> String {
    let queues: Vec<String> = queues.iter().map(|name| format!("\"{name}\"")).collect();
    let pages = PAGES.map(|start| format!("\"page-{start}\""));
    format!(
        "{{ name = \"{name}\", loads = [\"up\", \"down\", {}], queues = [{}] }}",
        pages.join(", "),
        queues.join(", ")
    )
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
    let waits = of(results, scenario).filter_map(|row| Some(row.echo()?.rtt_ms.as_ref()?.p99));
    let waits: Vec<f64> = waits.collect();
    let windows = waits.len() as f64;
    let carried = |down: bool| {
        let flows = of(results, scenario).filter_map(|row| row.flow());
        let carried = flows.filter(|flow| flow.goes_down == down).filter_map(|f| f.carried_mbps);
        carried.sum::<f64>() / windows
    };
    let mut pages: Vec<f64> = of(results, scenario)
        .filter(|row| row.stream.starts_with("page-"))
        .filter_map(|row| match row.flow()?.time {
            OwnTime::Part(from, to) => Some(to - from),
            _ => None,
        })
        .collect();
    pages.sort_by(f64::total_cmp);
    Some(Trial {
        candidate,
        up_mbps: carried(false),
        down_mbps: carried(true),
        wait_ms: waits.into_iter().reduce(f64::max)? - idle_ms,
        page_s: *pages.get(pages.len() / 2)?,
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

    /// Sorts trials, the best first. Figures within a twentieth of the best count as equal. So do waits where nobody hears the difference: 10 ms, and a
    /// full packet's time each way.
    pub fn rank(self, line: &MeasuredLine, trials: &mut [Trial]) {
        let packet_ms = [&line.up, &line.down]
            .map(|way| way.passes().map_or(0.0, |rate| rate.time_for(FRAME).as_millis_f64()));
        let least = |of: fn(&Trial) -> f64| trials.iter().map(of).fold(f64::INFINITY, f64::min);
        let (wait, page) = (least(|t| t.wait_ms), least(|t| t.page_s));
        let most = trials.iter().map(Trial::carried_mbps).fold(0.0, f64::max);
        let unheard_ms = 10.0 + packet_ms[0] + packet_ms[1];
        let waits = |t: &Trial| (t.wait_ms - wait * 1.05 - unheard_ms).max(0.0);
        let loads = |t: &Trial| (t.page_s - page * 1.05).max(0.0);
        let key = |t: &Trial| match self {
            Purpose::Call => [waits(t), 0.0, -t.carried_mbps()],
            Purpose::Page => [loads(t), waits(t), -t.carried_mbps()],
            Purpose::Bulk => [(most * 0.99 - t.carried_mbps()).max(0.0), t.wait_ms, 0.0],
            Purpose::All => [waits(t), loads(t), -t.carried_mbps()],
        };
        trials.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            let order = a.iter().zip(&b).map(|(a, b)| a.total_cmp(b));
            order.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
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
        let mut trials = vec![
            trial(100, 100.0, 190.0, 1.5),
            trial(99, 99.5, 60.0, 0.9),
            trial(94, 94.0, 12.0, 0.6),
            trial(90, 90.0, 5.0, 0.49),
            trial(80, 80.0, 4.0, 0.49),
        ];
        for (purpose, best) in
            [(Purpose::Call, 94), (Purpose::Page, 90), (Purpose::Bulk, 99), (Purpose::All, 90)]
        {
            purpose.rank(&MeasuredLine::default(), &mut trials);
            let first = trials[0].candidate.expect("one");
            assert_eq!(first.percent, best, "{purpose:?}");
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
        assert_eq!((text(follow.floor), text(follow.ceiling)), ("3/18".into(), "21/20".into()));
        assert_eq!(follow.signals[0].to_string(), "stamp:far");
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
        let policy = candidate.policy(&line).expect("both rates are known");
        let rates = (policy.up.map(Rate::bps), policy.down.map(Rate::bps), policy.overhead);
        assert_eq!(rates, (Some(9_000_000), Some(45_000_000), 22));
        let unknown = MeasuredLine { down: MeasuredDirection::default(), ..line };
        assert_eq!(candidate.policy(&unknown), None);
    }
}
