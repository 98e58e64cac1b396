//! `quell shape try`: the six scenarios of `home-link` on a line like the person's, in the lab, as it is and with the queues that would be applied.

use super::chosen::choose_here;
use super::wanted::LineArgs;
use crate::failure::Failure;
use crate::options::{Backend, Guest, Json, Place};
use crate::results::{self, Told};
use crate::run::{RunArgs, carried_out, run};
use crate::text::say;
use clap::Args;
use quell_shaper::{BothWays, DeviceTraits, LineRates, PolicyName, PrefixText, Tell};
use quell_units::{Rate, Span};
use std::process::ExitCode;
use toml::{Table, Value};

/// Options of `quell shape try`.
#[derive(Debug, Args)]
pub struct TryArgs {
    #[command(flatten)]
    pub line: LineArgs,
    #[command(flatten)]
    pub how: How,
    #[command(flatten)]
    pub json: Json,
}

/// How it is tried.
#[derive(Debug, Args)]
pub struct How {
    /// How long each measurement takes
    #[arg(long, default_value = "10s")]
    pub duration: Span,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub guest: Guest,
}

/// The addresses of home-link's hosts, which stand in for whoever shares the line.
const STAND_INS: [[&str; 2]; 2] = [["10.0.0.1", "fd00::1"], ["10.0.1.1", "fd00:0:0:1::1"]];

/// The scenarios with queues.
const SHAPED: [&str; 3] = ["unloaded-shaped", "bulk-shaped", "flood-shaped"];

/// `quell shape try`.
pub fn try_it(args: &TryArgs) -> Result<ExitCode, Failure> {
    let all = args.line.both_ways()?;
    if all.tree.is_some() {
        return Err(Failure::usage("a tree of one's own is tried as a `queue` of an experiment"));
    }
    // What this machine would be given. The lab's own kernel has all of it.
    let (policy, mut remarks) = choose_here(&all);
    let (changes, said) = changes(&all, policy)?;
    remarks.extend(said);
    if !args.json.json {
        say(&format!("{}, in the lab\n", all.words(policy)));
        remarks.iter().for_each(|remark| say(&format!("{remark}\n")));
        println!();
    }
    run(&args.how.run_args(changes, args.json))
}

/// The same for who wants the results and not the print: what there is to say, and what was found.
pub fn rehearse(
    all: &BothWays,
    policy: PolicyName,
    how: &How,
    width: usize,
) -> Result<(Vec<String>, Told), Failure> {
    let (changes, remarks) = changes(all, policy)?;
    let (finished, experiment) = carried_out(&how.run_args(changes, Json { json: false }))?;
    Ok((remarks, results::told(&finished, &experiment, width)?))
}

impl How {
    fn run_args(&self, changes: Vec<String>, json: Json) -> RunArgs {
        RunArgs {
            experiment: "home-link".into(),
            changes,
            duration: Some(self.duration),
            repeat: None,
            seed: None,
            jobs: None,
            only: Vec::new(),
            place: Place { base: self.place.base.clone() },
            kernel: Some(Backend::Guest),
            guest: self.guest.clone(),
            report: None,
            json,
        }
    }
}

/// home-link with the person's line and queues.
pub(super) struct Network {
    /// The line.
    pub line: LineRates,
    /// What of home-link is otherwise.
    pub changes: Vec<String>,
    /// The queues' names, as a list in TOML.
    pub names: String,
    /// What there is to say.
    pub remarks: Vec<String>,
}

/// Faster lines take the lab minutes for each measurement, or are more than it can load.
const FASTEST: Rate = Rate::from_bps(1_000_000_000);

/// The person's line, and the queues at both its ways.
pub(super) fn network(all: &BothWays, policy: PolicyName) -> Result<Network, Failure> {
    let (up, down) = all.rates();
    let mut remarks = Vec::new();
    let line = all.line.unwrap_or_else(|| {
        let line = |shaped: Option<Rate>, usual: u64| {
            shaped.map_or(Rate::from_bps(usual), |rate| Rate::from_bps(rate.bps() / 95 * 100))
        };
        let line = LineRates { up: line(up, 2_500_000), down: line(down, 8_000_000) };
        let text = String::from(line);
        remarks
            .push(format!("the line is taken to be {text}, of which 95 % are used; --line tells"));
        line
    });
    if line.up.max(line.down) > FASTEST {
        return Err(Failure::usage(format!(
            "a line of {} Mbit/s is more than the lab tries in a person's time: take --line with at most {FASTEST} each way, where the \
             same subscribers, hosts and tiers share less",
            String::from(line)
        )));
    }
    let all = stand_in(all, policy, &mut remarks);
    let mut queues = Vec::new();
    let ways = [("up", "out", Tell::Source, up), ("down", "in", Tell::Destination, down)];
    for (name, direction, tell, rate) in ways {
        let Some(rate) = rate else { continue };
        let policy = all.policy(policy, tell, rate, DeviceTraits::default());
        let policy = Value::try_from(policy).map_err(Failure::system)?;
        queues.push(Value::Table(Table::from_iter([
            ("name".to_owned(), Value::from(name)),
            ("on".to_owned(), Value::from("router:wan")),
            ("direction".to_owned(), Value::from(direction)),
            ("policy".to_owned(), policy),
        ])));
    }
    let names: Vec<Value> = queues.iter().map(|queue| queue["name"].clone()).collect();
    let changes = vec![
        format!("topology.link.dsl.up.rate=\"{}\"", line.up),
        format!("topology.link.dsl.down.rate=\"{}\"", line.down),
        format!("queue={}", Value::Array(queues)),
    ];
    Ok(Network { line, changes, names: Value::Array(names).to_string(), remarks })
}

/// What of home-link is otherwise: the line, the queues, the flood, what others published of another line. And what there is to say.
fn changes(all: &BothWays, policy: PolicyName) -> Result<(Vec<String>, Vec<String>), Failure> {
    let Network { line, mut changes, names, remarks } = network(all, policy)?;
    let flood = Rate::from_bps(line.up.bps() / 10 * 32);
    changes.extend([
        "name=shape-try".to_owned(),
        format!("title=\"A line of {}: as it is and shaped\"", String::from(line)),
        "about=\"What `quell shape try` was asked for; the network is that of home-link.\"".into(),
        "expect=[]".into(),
        format!("load.flood.rate=\"{flood}\""),
        format!("scenario.flood.title=\"UDP flood from A, {flood}\""),
        format!("scenario.flood-shaped.title=\"UDP flood from A, {flood}, shaped\""),
    ]);
    for scenario in SHAPED {
        changes.push(format!("scenario.{scenario}.queues={names}"));
        let plain = scenario.trim_end_matches("-shaped");
        changes.extend([scenario, plain].map(|name| format!("scenario.{name}.published={{}}")));
    }
    Ok((changes, remarks))
}

/// The lab's hosts in the place of those who are named.
fn stand_in(all: &BothWays, policy: PolicyName, said: &mut Vec<String>) -> BothWays {
    let mut all = all.clone();
    if policy != PolicyName::Subscribers {
        return all;
    }
    if all.is_lazy(policy) && all.subscribers.len() > STAND_INS.len() {
        let others = all.subscribers.len() - STAND_INS.len();
        said.push(format!("the {others} others are not there, and so have no classes"));
        all.subscribers.truncate(STAND_INS.len());
    }
    for ((one, with), name) in all.subscribers.iter_mut().zip(STAND_INS).zip(["a", "b"]) {
        said.push(format!("host {name} stands for {}", one.name));
        let prefixes = with.iter().filter_map(|text| (*text).to_owned().try_into().ok());
        one.prefixes = prefixes.collect();
    }
    // Somebody else's may be the lab's.
    let here = STAND_INS.len().min(all.subscribers.len());
    let (stand_ins, others) = all.subscribers.split_at_mut(here);
    let lab: Vec<PrefixText> = stand_ins.iter().flat_map(|one| one.prefixes.clone()).collect();
    others.iter_mut().for_each(|one| one.prefixes.retain(|prefix| !lab.contains(prefix)));
    all.subscribers.retain(|one| !one.prefixes.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_experiment::builtin;
    use quell_experiment::spec::{check, load_file, set};

    fn tried(all: &BothWays, policy: PolicyName) -> Vec<quell_lab::cell::CellPlan> {
        let (changes, _) = changes(all, policy).expect("changes");
        let text = builtin::find("home-link").expect("the built-in one");
        let text = set::apply(text, &changes).expect("fields that are there");
        let experiment = load_file::parse("try", &text).expect("an experiment");
        assert!(experiment.published().is_empty(), "others measured another line");
        check::check(&experiment).expect("it fits together")
    }

    #[test]
    fn what_is_tried_is_what_would_be_applied() {
        let line = Some("10/50".parse().expect("rates"));
        let all = BothWays { line, ..BothWays::default() };
        for policy in [PolicyName::Cake, PolicyName::Tiers] {
            let plans = tried(&all, policy);
            let shaped = plans.iter().find(|p| p.id.scenario == "bulk-shaped").expect("a cell");
            let (up, down) = all.rates();
            for (incoming, tell, rate) in
                [(false, Tell::Source, up), (true, Tell::Destination, down)]
            {
                let rate = rate.expect("both are known");
                let wanted = all.tree(policy, tell, rate, DeviceTraits::default()).expect("a tree");
                let queue = shaped.queues.iter().find(|q| q.incoming == incoming).expect("a queue");
                assert_eq!(queue.tree, wanted);
            }
        }
    }

    #[test]
    fn the_lab_has_stand_ins_for_whoever_shares_the_line() {
        let text = "up = \"2.3Mbit\"\ndown = \"18Mbit\"\nhosts = [[\"192.0.2.7\"]]";
        assert_eq!(tried(&toml::from_str(text).expect("a file"), PolicyName::HostFair).len(), 18);
        let one = "line = \"10/50\"\n[[subscriber]]\nname = \"ann\"\nprefixes = [\"192.0.2.0/29\"]\n\
                   up = { floor = \"1Mbit\", ceiling = \"4Mbit\" }\ndown = { floor = \"1Mbit\", ceiling = \"9Mbit\" }";
        assert_eq!(tried(&toml::from_str(one).expect("a file"), PolicyName::Subscribers).len(), 18);
    }

    #[test]
    fn of_thousands_two_are_there_and_a_line_that_takes_too_long_is_refused() {
        let one = |n: u32| {
            format!(
                "[[subscriber]]\nname = \"s{n}\"\nprefixes = [\"{}\"]\n\
                 up = {{ floor = \"10kbit\", ceiling = \"4Mbit\" }}\n\
                 down = {{ floor = \"10kbit\", ceiling = \"9Mbit\" }}\n",
                std::net::Ipv4Addr::from_bits(0x0a00_0003 - n)
            )
        };
        let of = |count: u32, line: &str| -> BothWays {
            let all: String = (0..count).map(one).collect();
            toml::from_str(&format!("line = \"{line}\"\n{all}")).expect("a policy")
        };
        // The third has 10.0.0.1, which in the lab is the first's.
        for count in [3, 1000] {
            let all = of(count, "100/100");
            assert_eq!(tried(&all, PolicyName::Subscribers).len(), 18);
            let (_, said) = changes(&all, PolicyName::Subscribers).expect("changes");
            let others = said.iter().any(|line| line.contains("the 998 others are not there"));
            assert_eq!(others, count == 1000, "{said:?}");
        }
        let Err(why) = changes(&of(3, "10000/10000"), PolicyName::Subscribers) else {
            panic!("the lab would take minutes for each second")
        };
        assert!(why.to_string().contains("at most 1Gbit"), "{why}");
    }
}
