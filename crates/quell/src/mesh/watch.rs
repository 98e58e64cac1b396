//! `quell mesh watch`: holds a mesh's last five minutes against expectations, and calls a program when one begins or ends to be broken.
//!
//! ```text
//!   each minute: folder ──► pairs ──► claim ──► broken by any? ──begins, ends──► CMD, with QUELL_… in its environment
//! ```

use super::show;
use crate::failure::Failure;
use crate::interrupt;
use crate::options::words;
use crate::text::say;
use clap::Args;
use quell_experiment::expect::{Claim, ClaimSource, Evidence, Measured};
use quell_mesh::common_cause::{Directions, Observation, common_cause, only_class};
use quell_mesh::events::located;
use quell_mesh::folder::Pair;
use quell_mesh::history::MeshHistory;
use quell_model::metric::Metric;
use quell_model::sketch::Sketch;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, came, readable, wait};
use quell_units::Span;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The folder that `quell mesh collect` writes
    pub folder: PathBuf,
    /// What must hold of each pair: p99 < 40ms, loss <= 1%, loss.up, p50, max …
    #[arg(long, value_name = "CLAIM", required = true)]
    pub expect: Vec<String>,
    /// Program to call when a claim begins or ends to be broken
    #[arg(long, value_name = "CMD")]
    pub exec: String,
    /// How often it is looked at
    #[arg(long, value_name = "TIME", default_value = "1min")]
    pub every: Span,
}

/// Of which time each claim must hold: the last of what was measured.
const OVER: Duration = Duration::from_secs(300);

struct Expectation {
    text: String,
    claim: Claim,
    directions: Directions,
    /// Since when it is broken, and what was said of it.
    broken: Option<String>,
}

impl Expectation {
    fn parse(text: &str) -> Result<Self, Failure> {
        let text = text.trim();
        let short = ["min", "mean", "max", "p50", "p90", "p99"];
        let is_short =
            short.iter().any(|s| text.strip_prefix(s).is_some_and(|r| !r.starts_with('.')));
        let source = if is_short { "*.mesh.rtt." } else { "*.mesh." };
        let claim = Claim::parse(&format!("{source}{text}"));
        let claim = claim.map_err(|e| Failure::usage(format!("--expect \"{text}\": {}", e.why)))?;
        let directions = match claim.sources()[0].metric {
            Metric::LossUp => Directions::Up,
            Metric::LossDown => Directions::Down,
            _ => Directions::Both,
        };
        for source in claim.sources() {
            if value(&Sketch::default(), source.metric).is_none() {
                let why = format!(
                    "{} of a mesh is not kept; p99, loss and their like are",
                    source.metric.name()
                );
                return Err(Failure::usage(format!("--expect \"{text}\": {why}")));
            }
        }
        Ok(Self { text: text.to_owned(), claim, directions, broken: None })
    }
}

/// A metric of packets; none of what is no metric of them, and within it none where nothing was measured.
fn value(sketch: &Sketch, metric: Metric) -> Option<Option<f64>> {
    let share = |lost: u64| (sketch.sent > 0).then(|| lost as f64 / sketch.sent as f64);
    let seconds = |share: f64| sketch.quantile(share).map(|ns| ns / 1e9);
    Some(match metric {
        Metric::Loss => share(sketch.lost()),
        Metric::LossUp => share(sketch.lost_up),
        Metric::LossDown => share(sketch.lost_down),
        Metric::RttMin => sketch.min_ns.map(|ns| ns as f64 / 1e9),
        Metric::RttMax => sketch.max_ns.map(|ns| ns as f64 / 1e9),
        Metric::RttP50 => seconds(0.5),
        Metric::RttP90 => seconds(0.9),
        Metric::RttP99 => seconds(0.99),
        _ => return None,
    })
}

struct OfPair<'a>(&'a Sketch);

impl Evidence for OfPair<'_> {
    fn values(&self, source: &ClaimSource) -> Vec<Measured> {
        let value = value(self.0, source.metric).flatten().map(|v| (v, v));
        vec![Measured { scenario: "*".into(), stream: "mesh".into(), repeat: 0, value }]
    }
}

pub fn watch(args: &WatchArgs) -> Result<ExitCode, Failure> {
    let parsed = args.expect.iter().map(|text| Expectation::parse(text));
    let mut expectations: Vec<Expectation> = parsed.collect::<Result<_, _>>()?;
    let program = words(&format!("--exec \"{}\"", args.exec), &args.exec)?;
    let stop = interrupt::bell()?;
    let mut alarm = Alarm::new().map_err(Failure::system)?;
    loop {
        // Who fell silent is known by the hour.
        let hour = show::read(&args.folder, Span::from(Duration::from_secs(3600)))?;
        let now = show::read(&args.folder, Span::from(OVER))?;
        for expectation in &mut expectations {
            look(expectation, &hour, &now, &program)?;
        }
        let next = monotonic_ns().saturating_add(args.every.nanos());
        alarm.set(Some(next)).map_err(Failure::system)?;
        let mut fds = [readable(&*stop), readable(&alarm)];
        wait(&mut fds).map_err(Failure::system)?;
        if came(&fds[0]) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn look(
    expectation: &mut Expectation,
    hour: &MeshHistory,
    now: &MeshHistory,
    program: &[String],
) -> Result<(), Failure> {
    let mut broken: Vec<&Pair> = Vec::new();
    let mut observations = Vec::new();
    let nothing = Sketch::default();
    for pair in hour.pairs.keys() {
        let sketch = now.pairs.get(pair).map_or(&nothing, |history| &history.last_hour);
        let bad = !expectation.claim.check(&OfPair(sketch)).held;
        broken.extend(bad.then_some(pair));
        observations.push(Observation {
            agent: pair.agent.to_string(),
            peer: pair.peer.to_string(),
            class: pair.class.to_string(),
            directions: expectation.directions,
            bad,
        });
    }
    match (&expectation.broken, broken.is_empty()) {
        (None, false) => {
            let cause = common_cause(&observations, &hour.topology((now.from_ns, now.to_ns)));
            let place = located(&cause, only_class(&observations), broken.first().copied());
            let says = format!("Broken {place}: {}", expectation.text);
            call(program, expectation, "begin", &says, &broken)?;
            expectation.broken = Some(says);
        }
        (Some(_), true) => {
            let says = format!("Holds again: {}", expectation.text);
            call(program, expectation, "end", &says, &broken)?;
            expectation.broken = None;
        }
        _ => {}
    }
    Ok(())
}

/// Starts the program and waits for its end: a second change is not told before the first.
fn call(
    program: &[String],
    expectation: &Expectation,
    change: &str,
    says: &str,
    broken: &[&Pair],
) -> Result<(), Failure> {
    say(&format!("{says}\n"));
    let pairs: Vec<String> =
        broken.iter().map(|pair| format!("{},{},{}", pair.agent, pair.peer, pair.class)).collect();
    let status = Command::new(&program[0])
        .args(&program[1..])
        .env("QUELL_CHANGE", change)
        .env("QUELL_EXPECT", &expectation.text)
        .env("QUELL_SAYS", says)
        .env("QUELL_PAIRS", pairs.join("\n"))
        .stdin(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => eprintln!("--exec: {} ended with {status}", program[0]),
        Err(e) => return Err(Failure::system(format!("--exec: starting {}: {e}", program[0]))),
    }
    Ok(())
}
