//! Whether the settings help, measured.
//!
//! ```text
//!   lab    here ═══ rate, RTT ═══ there     one transfer over seeds: with the settings as they are, with those planned
//!   HOST   as it is, set, as it is, set …   `quell flow` to a `quell serve` there, up and down each time
//! ```

use crate::Settings;
use crate::{FRESH, HostFacts, Path, Tuning, dotted};
use quell_stats::{Interval, mean};
use quell_units::Span;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq)]
pub struct DirectionMeasurement {
    pub way: &'static str,
    /// Bits a second with the settings as they are.
    pub now: Vec<f64>,
    pub then: Vec<f64>,
    pub predicted: Option<[f64; 2]>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Proof {
    pub place: String,
    pub ways: Vec<DirectionMeasurement>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofVerdict {
    Faster,
    Slower,
    Unknown,
}

/// What settings are worth at least: a hundredth. In virtual time repeats differ by less than that, and intervals of nothing do not touch either.
const WORTH: f64 = 1.01;

impl DirectionMeasurement {
    /// More or less only where the intervals are a hundredth apart.
    pub fn verdict(&self) -> ProofVerdict {
        match (Interval::of_mean(&self.now), Interval::of_mean(&self.then)) {
            (Some(now), Some(then)) if then.low > now.high * WORTH => ProofVerdict::Faster,
            (Some(now), Some(then)) if then.high * WORTH < now.low => ProofVerdict::Slower,
            _ => ProofVerdict::Unknown,
        }
    }

    /// Mean and interval of what was measured, as it is and as planned.
    pub fn means(&self) -> [(f64, Option<Interval>); 2] {
        [&self.now, &self.then]
            .map(|values| (mean(values).unwrap_or(0.0), Interval::of_mean(values)))
    }
}

impl Proof {
    /// Whether one direction is faster and none slower.
    pub fn helped(&self) -> bool {
        let verdicts: Vec<ProofVerdict> =
            self.ways.iter().map(DirectionMeasurement::verdict).collect();
        verdicts.contains(&ProofVerdict::Faster) && !verdicts.contains(&ProofVerdict::Slower)
    }
}

impl Serialize for Proof {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let interval = |values: &[f64]| Interval::of_mean(values).map(|i| [i.low, i.high]);
        let way = |m: &DirectionMeasurement| {
            json!({
                "way": m.way,
                "now_bits_per_second": m.now,
                "then_bits_per_second": m.then,
                "now_interval": interval(&m.now),
                "then_interval": interval(&m.then),
                "predicted_bits_per_second": m.predicted,
            })
        };
        let ways: Vec<Value> = self.ways.iter().map(way).collect();
        json!({ "place": self.place, "ways": ways, "helped": self.helped() }).serialize(serializer)
    }
}

/// Round trips in which a transfer finds its speed beside those in which it doubles.
const SETTLING_TRIPS: u64 = 8;

/// Bytes that a connection sends first: ten segments (RFC 6928).
const FIRST_WINDOW: u64 = 14_480;

const MEASURED_TRIPS: u64 = 10;

/// What a guest's TCP takes of its memory at most is 1/16 (`tcp_mem`), both ends' buffers together.
const MEMORY_PER_BYTE: u64 = 80;

/// The lab's path, the memory that each guest needs for it, and the experiment.
pub struct LabProof {
    pub path: Path,
    pub memory: u64,
    pub experiment: String,
}

/// The same transfer over a path of that rate and time, with the settings as they are and as planned; `rounds` seeds.
pub fn in_lab(plan: &Tuning, host: &HostFacts, rounds: u32) -> Result<LabProof, String> {
    let (Some(rate), Some(rtt)) = (plan.wish.rate, plan.wish.rtt) else {
        return Err("the lab's path needs --rate and --rtt".into());
    };
    let path = Path { rate, rtt, mtu: plan.wish.mtu, overhead: 14 };
    let needed = 256 + (path.product().saturating_mul(MEMORY_PER_BYTE) >> 20);
    if needed > (host.memory >> 20).min(65_536) {
        return Err(format!(
            "the lab would need {needed} MiB of memory for {rate} over {rtt}, and this machine has {}; try a lower rate",
            host.memory >> 20
        ));
    }
    let experiment = experiment(plan, host, &path, rounds);
    Ok(LabProof { path, memory: needed, experiment })
}

/// The path, a transfer, and both kinds of settings: those that a host of the lab has of its own.
fn experiment(plan: &Tuning, host: &HostFacts, path: &Path, seeds: u32) -> String {
    let own = |key: &str| {
        FRESH.contains(&key) || matches!(key, "net/ipv4/tcp_rmem" | "net/ipv4/tcp_wmem")
    };
    let now: Settings =
        host.now.iter().filter(|(key, _)| own(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let mut then = now.clone();
    for (key, value) in plan.settings().filter(|(key, _)| own(key)) {
        then.insert(key.to_owned(), value.to_owned());
    }
    let table = |settings: &Settings| {
        let lines: Vec<String> = settings
            .iter()
            .map(|(key, value)| {
                let value: Vec<&str> = value.split_whitespace().collect();
                format!("\"{}\" = \"{}\"", dotted(key), value.join(" "))
            })
            .collect();
        let table = lines.join(", ");
        format!("{{ here = {{ {table} }}, there = {{ {table} }} }}")
    };
    let trips = |count: u64| {
        Span::from_nanos(path.rtt.nanos().saturating_mul(count)).nanos().max(1_000_000_000)
    };
    let doublings = (path.product() / FIRST_WINDOW).checked_ilog2().unwrap_or(0) + 1;
    // A product of buffer, as routers of long paths have it.
    let packets = (path.product() / u64::from(path.mtu)).max(100);
    format!(
        "name = \"tune-proof\"\nseed = 1\nrepeat = {seeds}\nwarm-up = \"{}\"\nduration = \"{}\"\nprobes-run = \"together\"\n\
         [topology]\nhosts = [\"here\", \"there\"]\n\
         [[topology.link]]\nname = \"path\"\nends = [\"here\", \"there\"]\nmtu = {}\n\
         both = {{ rate = \"{}\", delay = \"{}\", buffer = \"{packets}p\" }}\n\
         [[load]]\nname = \"transfer\"\nkind = \"tcp\"\nfrom = \"here\"\nto = \"there\"\n\
         [[scenario]]\nname = \"now\"\nloads = [\"transfer\"]\nsysctl = {}\n\
         [[scenario]]\nname = \"then\"\nloads = [\"transfer\"]\nsysctl = {}\n\
         [[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"here\"\nto = \"there\"\ninterval = \"100ms\"\n",
        Span::from_nanos(trips(SETTLING_TRIPS + u64::from(doublings))),
        Span::from_nanos(trips(MEASURED_TRIPS)),
        path.mtu,
        path.rate,
        Span::from_nanos(path.rtt.nanos() / 2),
        table(&now),
        table(&then),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(now: [f64; 3], then: [f64; 3]) -> DirectionMeasurement {
        DirectionMeasurement { way: "up", now: now.to_vec(), then: then.to_vec(), predicted: None }
    }

    #[test]
    fn a_gain_is_one_only_where_the_intervals_part() {
        let gain = way([1e6, 1.01e6, 0.99e6], [2e6, 2.01e6, 1.99e6]);
        let loss = way([2e6, 2.01e6, 1.99e6], [1e6, 1.01e6, 0.99e6]);
        let noise = way([1e6, 2e6, 1.5e6], [1.6e6, 2.1e6, 1.4e6]);
        let trifle = way([5.19e6, 5.1901e6, 5.1899e6], [5.193e6, 5.1931e6, 5.1929e6]);
        let helped = |ways: &[&DirectionMeasurement]| {
            let ways = ways.iter().map(|w| (*w).clone()).collect();
            Proof { place: String::new(), ways }.helped()
        };
        assert!(helped(&[&gain]) && helped(&[&gain, &noise]));
        assert!(
            !helped(&[&trifle]) && !helped(&[&gain, &loss]) && !helped(&[&noise]) && !helped(&[])
        );
    }
}
