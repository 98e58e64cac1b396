//! What a line that varies is followed by: bounds, signals, and the rate where no signal can be believed.
//!
//! ```text
//!   follow = { floor = "2/5", ceiling = "20/60", signals = ["stamp:server.example.net"], lost = "last-good" }
//! ```

use crate::{Bounds, LineRates};
use quell_tc::{ClassKind, Qdisc, Step, Tree};
use quell_units::Rate;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Far ends that are probed at once, at most.
const MOST_SIGNALS: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenFollow")]
pub struct FollowPolicy {
    pub floor: LineRates,
    pub ceiling: LineRates,
    pub signals: Vec<Signal>,
    pub lost: WhenLost,
    /// The secret of the far ends, for the loads of a test.
    #[serde(rename = "secret-file", skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
}

/// What tells of the line's queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Signal {
    /// STAMP to a `quell serve` beyond it, by HOST or HOST:PORT.
    Stamp(String),
    /// Pings to a host beyond it, which need nobody's leave.
    Ping(String),
    /// Round trips of the TCP flows that carry much.
    Flows,
}

/// The rate while no signal that sees the line's queue is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenLost {
    /// The least of the last ten seconds in which all was well.
    #[default]
    LastGood,
    Floor,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFollow {
    floor: LineRates,
    ceiling: LineRates,
    signals: Vec<Signal>,
    #[serde(default)]
    lost: WhenLost,
    #[serde(default, rename = "secret-file")]
    secret_file: Option<PathBuf>,
}

impl TryFrom<WrittenFollow> for FollowPolicy {
    type Error = String;

    fn try_from(written: WrittenFollow) -> Result<Self, String> {
        let WrittenFollow { floor, ceiling, signals, lost, secret_file } = written;
        for (way, low, high) in [("up", floor.up, ceiling.up), ("down", floor.down, ceiling.down)] {
            if low >= high {
                return Err(format!(
                    "`follow`: the floor {way}, {low}, is not below the ceiling, {high}"
                ));
            }
        }
        if signals.is_empty() || signals.len() > MOST_SIGNALS {
            return Err(format!(
                "`follow`: {} signals; name 1 to {MOST_SIGNALS}, as signals = [\"stamp:HOST\", \"flows\"], \
                 where HOST is a `quell serve` beyond the line",
                signals.len()
            ));
        }
        if let Some(twice) =
            signals.iter().enumerate().find(|(at, one)| signals[..*at].contains(one))
        {
            return Err(format!("`follow`: the signal {} is there twice", twice.1));
        }
        // It is read by a process that was started elsewhere.
        if let Some(file) = secret_file.as_ref().filter(|file| !file.is_absolute()) {
            return Err(format!(
                "`follow`: secret-file = \"{}\" needs a whole path",
                file.display()
            ));
        }
        Ok(FollowPolicy { floor, ceiling, signals, lost, secret_file })
    }
}

impl FromStr for Signal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("stamp", host)) if !host.trim().is_empty() => {
                Ok(Signal::Stamp(host.trim().to_owned()))
            }
            Some(("ping", host)) if !host.trim().is_empty() => {
                Ok(Signal::Ping(host.trim().to_owned()))
            }
            None if text == "flows" => Ok(Signal::Flows),
            _ => Err(format!(
                "`{text}` is no signal; there are stamp:HOST, a `quell serve` beyond the line, ping:HOST, anyone there who answers pings, and flows, the TCP flows themselves"
            )),
        }
    }
}

impl TryFrom<String> for Signal {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Signal> for String {
    fn from(signal: Signal) -> String {
        signal.to_string()
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Signal::Stamp(host) => write!(f, "stamp:{host}"),
            Signal::Ping(host) => write!(f, "ping:{host}"),
            Signal::Flows => write!(f, "flows"),
        }
    }
}

impl FollowPolicy {
    /// What it does, for who is about to apply it.
    pub fn words(&self) -> String {
        let signals: Vec<String> = self.signals.iter().map(ToString::to_string).collect();
        format!(
            "the rates begin at the floor, and follow the line once one of these was tested and sees its queue: {}",
            signals.join(", ")
        )
    }

    /// Bounds up and down.
    pub fn bounds(&self) -> [Bounds; 2] {
        let LineRates { up, down } = self.floor;
        [
            Bounds { floor: up, ceiling: self.ceiling.up },
            Bounds { floor: down, ceiling: self.ceiling.down },
        ]
    }
}

/// Holds a tree that was planned for one rate to another. All else in it stays: it is right for the faster one.
pub(crate) fn hold_tree(tree: &mut Tree, planned: Rate, rate: Rate) {
    let Some(root) = &mut tree.queue else { return };
    hold_queue(&mut root.qdisc, rate);
    if let Some(class) = root.classes.first_mut() {
        hold_class(&mut class.kind, planned, rate);
    }
}

/// The step that holds a tree to the line's rate: CAKE itself, or the one class of HTB in which packets wait for the line.
pub fn line_step(tree: &Tree) -> Option<Step> {
    let steps = tree.plan().ok()?.steps;
    steps.into_iter().find(|step| match step {
        Step::Qdisc { qdisc: Qdisc::Cake(cake), .. } => cake.bandwidth.is_some(),
        Step::Class { kind: ClassKind::Htb(_), .. } => true,
        _ => false,
    })
}

/// The same step at another rate.
pub fn hold_step(step: &mut Step, planned: Rate, rate: Rate) {
    match step {
        Step::Qdisc { qdisc, .. } => hold_queue(qdisc, rate),
        Step::Class { kind, .. } => hold_class(kind, planned, rate),
        _ => {}
    }
}

fn hold_queue(qdisc: &mut Qdisc, rate: Rate) {
    if let Qdisc::Cake(cake) = qdisc {
        cake.bandwidth = Some(rate);
    }
}

fn hold_class(kind: &mut ClassKind, planned: Rate, rate: Rate) {
    if let ClassKind::Htb(class) = kind {
        // HTB's own rate may be less than the line's, where that has 64/65 framing.
        let scaled = |was: Option<Rate>| {
            let was = u128::from(was.unwrap_or(planned).bps());
            let now = was * u128::from(rate.bps()) / u128::from(planned.bps().max(1));
            Some(Rate::from_bps(now as u64))
        };
        (class.rate, class.ceil) = (scaled(class.rate), scaled(class.ceil));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinePolicy, PolicyName, Tell};

    fn read(follow: &str) -> Result<LinePolicy, toml::de::Error> {
        toml::from_str(&format!("link = \"ethernet\"\nfollow = {follow}\n"))
    }

    const FOLLOW: &str =
        r#"{ floor = "2/5", ceiling = "20/60", signals = ["stamp:192.0.2.9:5201", "flows"] }"#;

    #[test]
    fn it_is_read_and_written_again_the_same_and_what_can_not_be_is_refused_with_its_line() {
        let policy = read(FOLLOW).expect("a policy");
        let follow = policy.follow.clone().expect("it is followed");
        assert_eq!(
            (follow.lost, &follow.signals[..]),
            (WhenLost::LastGood, &[Signal::Stamp("192.0.2.9:5201".to_owned()), Signal::Flows][..])
        );
        let written = toml::to_string(&policy).expect("text");
        assert_eq!(toml::from_str::<LinePolicy>(&written).expect("again"), policy);
        for (from, to, words) in [
            ("\"2/5\"", "\"30/5\"", "the floor up, 30Mbit, is not below the ceiling, 20Mbit"),
            ("[\"stamp:192.0.2.9:5201\", \"flows\"]", "[]", "0 signals; name 1 to 4"),
            ("stamp:192.0.2.9:5201", "flows", "the signal flows is there twice"),
            ("stamp:192", "pong:192", "`pong:192.0.2.9:5201` is no signal"),
            ("floor", "flor", "unknown field `flor`"),
            ("\"] }", "\"], secret-file = \"key\" }", "secret-file = \"key\" needs a whole path"),
        ] {
            let error = read(&FOLLOW.replace(from, to)).expect_err(words);
            let at = error.span().expect("a place");
            assert!(error.message().contains(words) && at.start > 17, "{error}");
        }
    }

    #[test]
    fn a_tree_begins_at_the_floor_and_one_step_holds_it_to_any_rate() {
        let policy = read(FOLLOW).expect("a policy");
        let (ceiling, rate) = (policy.rates().0.expect("up"), Rate::from_bps(7_000_000));
        for (name, link) in [(PolicyName::Cake, "ethernet"), (PolicyName::HostFair, "pppoe-ptm")] {
            let policy = LinePolicy {
                link: crate::LineType::all().into_iter().find(|l| l.name() == link),
                ..policy.clone()
            };
            let tree =
                policy.tree(name, Tell::Source, ceiling, Default::default()).expect("a tree");
            let at = |step: &Step| match step {
                Step::Qdisc { qdisc: Qdisc::Cake(cake), .. } => cake.bandwidth,
                Step::Class { kind: ClassKind::Htb(class), .. } => class.ceil,
                _ => None,
            };
            let framed = |bps: u64| if name == PolicyName::Cake { bps } else { bps * 64 / 65 };
            let mut step = line_step(&tree).expect("a step");
            assert_eq!(at(&step).map(|r| r.bps() / 10), Some(framed(2_000_000) / 10));
            hold_step(&mut step, policy.follow.clone().expect("it is").floor.up, rate);
            assert_eq!(at(&step).map(|r| r.bps() / 10), Some(framed(7_000_000) / 10), "{name:?}");
        }
    }
}
