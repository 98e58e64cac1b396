//! `quell shape prove`: whether the queues in force do what they are there for, with a `quell serve` beyond the line.
//!
//! ```text
//!   counters ─► flow up ─► counters ─► flow down ─► counters
//!                  └─────────── verdicts ───────────┘
//! ```
//!
//! A verdict needs evidence: more arrived than the rate allows, or more than was counted where it must pass; a queue that had to drop, or in
//! which something waited whenever it was looked at.

use super::around::ways_around;
use super::in_lab;
use super::kept;
use super::parts::{self, Places};
use super::report::roots;
use super::state::{State, open};
use crate::failure::Failure;
use crate::host::{self, Found, Usual};
use crate::options::{Family, Guest, Json, Place};
use crate::secret::SecretFile;
use crate::text::say;
use clap::Args;
use quell_act::{Kernel, Log, Machine};
use quell_flow::{Amount, Findings, FlowError, FlowPlan, Outcome, Progress, Senders};
use quell_sys::wait::Bell;
use quell_tc::observed::Stats;
use quell_units::{Rate, Span};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

/// Options of `quell shape prove`.
#[derive(Debug, Args)]
pub struct ProveArgs {
    /// The interface
    #[arg(long = "dev", value_name = "DEV")]
    pub device: String,
    /// A `quell serve` beyond the line: HOST, HOST:PORT
    #[arg(long, value_name = "HOST", required_unless_present = "in_lab")]
    pub to: Option<String>,
    /// What can't be measured from here, in the lab on a line like this one: shares of hosts, order of tiers, floors and ceilings
    #[arg(long, conflicts_with = "to")]
    pub in_lab: bool,
    /// How long each way is loaded
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub time: Span,
    #[command(flatten)]
    pub family: Family,
    #[command(flatten)]
    pub secret: SecretFile,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub guest: Guest,
    #[command(flatten)]
    pub state: State,
    #[command(flatten)]
    pub json: Json,
}

/// What was found out of one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Fail,
    Unknown,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::Unknown => "unknown",
        }
    }
}

/// A claim, how it came out, and the figures: in words, and for a program.
#[derive(Clone)]
struct Row {
    claim: &'static str,
    verdict: Verdict,
    says: String,
    figures: Value,
}

/// One way, loaded.
struct Loaded {
    /// Payload that arrived.
    bytes: u64,
    /// In how many seconds.
    seconds: f64,
    /// What the queue counted meanwhile: bytes and drops.
    counted: u64,
    dropped: u32,
    looks: Looks,
}

/// Looks at a queue while it was loaded.
#[derive(Debug, Clone, Copy, Default)]
struct Looks {
    all: u32,
    /// Those that found something waiting. A sender on this host is held back at so little that an AQM need not drop
    /// (`tcp_small_queue_check`, net/ipv4/tcp_output.c).
    waiting: u32,
}

/// Between two looks.
const LOOK: Span = Span::from_millis(250);

/// `quell shape prove`.
pub fn prove(args: &ProveArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open()?;
    let device = args.device.as_str();
    let log = args.state.log_of(&mut kernel, device)?;
    let all = kept::read(&log).map_err(Failure::system)?;
    if args.in_lab {
        let Some(policy) = all.named() else {
            return Err(Failure::check(format!(
                "{} is no policy, and promises nothing that could be proven in the lab",
                log.begun.wanted
            )));
        };
        return in_lab::prove(&all, policy, &args.place, &args.guest, args.json);
    }
    let to = args.to.as_deref().unwrap_or_default();
    let usual = Usual {
        family: args.family.or_that_of(None),
        own: None,
        port: Some(quell_wire::iperf3::PORT),
        device: None,
    };
    let mut found = host::resolve(to, usual).map_err(Failure::usage)?;
    let (up, down) = all.rates();
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    crate::interrupt::listen(&stop)?;
    let ways = [
        ("up", Senders::Up, up, device.to_owned()),
        ("down", Senders::Down, down, super::wanted::ifb_of(device)),
    ];
    if !args.json.json {
        say(&format!("{device}: {}; to {to}\n", log.begun.wanted));
    }
    let (mut failed, mut documents) = (false, Vec::new());
    for (name, senders, rate, queue) in ways {
        let Some(rate) = rate else { continue };
        let before = counters(&mut kernel, &log)?;
        let had = places(&mut kernel, &log, &queue)?;
        let mut looks = Looks::default();
        let mut look = || {
            if let Some(stats) = counters(&mut kernel, &log)?.get(&queue) {
                looks.all += 1;
                looks.waiting += u32::from(stats.backlog_packets > 0);
            }
            Ok(())
        };
        let outcome = load(args, to, &mut found, senders, &stop, &mut look)?;
        let after = counters(&mut kernel, &log)?;
        if outcome.stopped {
            return Err(Failure::check("stopped before it was over"));
        }
        let findings = Findings::of(&outcome);
        let counted = (before.get(&queue), after.get(&queue));
        let loaded = loaded(name, &findings, counted, looks)?;
        let mut rows = judged(rate, &loaded, || ways_around(device, found.to.ip())).to_vec();
        rows.push(of_waiting(rate, &rows[1], &findings));
        rows.extend(places(&mut kernel, &log, &queue)?.map(|has| of_places(had.as_ref(), &has)));
        failed |= rows.iter().any(|row| row.verdict == Verdict::Fail);
        documents.push(document(name, &queue, rate, &rows, &findings));
        if !args.json.json {
            println!("{name}, by {queue}:");
            for Row { claim, verdict, says, .. } in &rows {
                say(&format!("  {:<7}  {claim}: {says}\n", verdict.word()));
            }
        }
    }
    if documents.is_empty() {
        return Err(Failure::check(format!(
            "{} has no rate that could be proven; look at it with quell tree {device}",
            log.begun.wanted
        )));
    }
    if args.json.json {
        let wanted = &log.begun.wanted;
        println!(
            "{}",
            crate::text::document(
                &json!({ "device": device, "wanted": wanted, "ways": documents })
            )
        );
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// Loads one way, and looks meanwhile.
fn load(
    args: &ProveArgs,
    to: &str,
    found: &mut Found,
    direction: Senders,
    stop: &Bell,
    look: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let plan = FlowPlan {
        direction,
        amount: Amount::Time(args.time),
        interval: LOOK,
        latency: true,
        secret: args.secret.read()?,
        ..FlowPlan::new(to, found.to)
    };
    let mut blind = None;
    let mut tell = |progress: Progress<'_>| {
        if let Progress::Interval(_) = progress {
            blind = look().err().or(blind.take());
        }
    };
    let outcome = found
        .reached(FlowError::is_nobody, |to| {
            quell_flow::run(&FlowPlan { to, control: to, ..plan.clone() }, stop, &mut tell)
        })
        .map_err(Failure::system)?;
    if let Some(failure) = blind {
        return Err(failure);
    }
    match &outcome.broke {
        Some(broke) => Err(Failure::system(format!("the load broke off: {broke}"))),
        None => Ok(outcome),
    }
}

/// What the root queues have counted, by interface.
fn counters(kernel: &mut Kernel, log: &Log) -> Result<BTreeMap<String, Stats>, Failure> {
    let now = kernel.read(&(&log.begun.before).into()).map_err(Failure::system)?;
    Ok(roots(log, &now).into_iter().map(|(name, _, root)| (name, root.stats)).collect())
}

/// The places of hosts that are found at run time, on one interface.
fn places(kernel: &mut Kernel, log: &Log, queue: &str) -> Result<Option<Places>, Failure> {
    let now = kernel.read(&(&log.begun.before).into()).map_err(Failure::system)?;
    let of_queue = roots(log, &now).into_iter().find(|(name, ..)| name == queue);
    Ok(of_queue.and_then(|(_, snapshot, _)| parts::places(snapshot)))
}

/// Whether hosts had to share a place meanwhile.
fn of_places(had: Option<&Places>, has: &Places) -> Row {
    // The program counts anew where it was made anew.
    let before = had.map_or(0, |had| had.sharing).min(has.sharing);
    let shared = has.sharing - before;
    let verdict = match (&has.unknown, shared) {
        (Some(_), _) => Verdict::Unknown,
        (None, 0) => Verdict::Pass,
        (None, _) => Verdict::Fail,
    };
    let says = match &has.unknown {
        Some(why) => why.clone(),
        None => format!(
            "{} of {} places are taken; {shared} packets were of hosts that share one",
            has.held.len(),
            has.count
        ),
    };
    let mut figures = has.document();
    figures["shared_packets"] = json!(shared);
    Row { claim: "each host has a place of its own", verdict, says, figures }
}

fn loaded(
    name: &str,
    findings: &Findings,
    counted: (Option<&Stats>, Option<&Stats>),
    looks: Looks,
) -> Result<Loaded, Failure> {
    let way = if name == "up" { &findings.up } else { &findings.down };
    let arrived = way.as_ref().and_then(|way| Some((way.received_bytes?, way.seconds?)));
    let Some((bytes, seconds)) = arrived else {
        return Err(Failure::system(format!("how much arrived {name} is unknown")));
    };
    let (Some(before), Some(after)) = counted else {
        return Err(Failure::check(format!(
            "the queue for what goes {name} is not there any more; quell shape status tells"
        )));
    };
    // They start again where somebody made the queue anew.
    let counted = after.bytes.saturating_sub(before.bytes);
    let dropped = after.drops.wrapping_sub(before.drops);
    Ok(Loaded { bytes, seconds, counted, dropped, looks })
}

/// `around` tells why packets may go around the queue.
fn judged(rate: Rate, loaded: &Loaded, around: impl FnOnce() -> Vec<String>) -> [Row; 3] {
    let Loaded { bytes, seconds, counted, dropped, looks } = *loaded;
    let reached = bytes as f64 * 8.0 / seconds;
    // Payload alone is less than what the rate counts, so that above it there is no doubt.
    let bounded = if reached <= rate.bps() as f64 { Verdict::Pass } else { Verdict::Fail };
    let passed = if counted >= bytes { Verdict::Pass } else { Verdict::Fail };
    let waited = match passed {
        Verdict::Pass if dropped > 0 || 2 * looks.waiting > looks.all => Verdict::Pass,
        _ => Verdict::Unknown,
    };
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let (payload, all) = (megabytes(bytes), megabytes(counted));
    let Looks { all: looks, waiting } = looks;
    let causes = if passed == Verdict::Fail { around() } else { Vec::new() };
    let because: String = causes.iter().map(|cause| format!("; {cause}")).collect();
    [
        Row {
            claim: "the rate holds",
            verdict: bounded,
            says: format!("{:.3} Mbit/s of payload arrived, {rate} may", reached / 1e6),
            figures: json!({ "received_bits_per_second": reached, "rate_bits_per_second": rate.bps() }),
        },
        Row {
            claim: "all of it passes here",
            verdict: passed,
            says: format!("{payload:.2} MB of payload arrived, {all:.2} MB passed{because}"),
            figures: json!({ "received_bytes": bytes, "passed_bytes": counted, "causes": causes }),
        },
        Row {
            claim: "packets wait here",
            verdict: waited,
            says: format!(
                "some did at {waiting} of {looks} looks; {dropped} were dropped to slow senders down"
            ),
            figures: json!({ "looks": looks, "looks_with_waiting": waiting, "dropped_packets": dropped }),
        },
    ]
}

/// How much longer a round trip may take beside the load than without: what the queues here hold a packet for, by their target (of fq_codel
/// and CAKE 5 ms, or the time of one and a half packets where that is more), and the packet that is just being sent.
fn allowed_ms(rate: Rate) -> f64 {
    let packet = rate.time_for(FULL_PACKET).nanos() as f64 / 1e6;
    f64::max(5.0, 1.5 * packet) + packet
}

/// A full Ethernet frame without its checksum.
const FULL_PACKET: u64 = 1514;

/// How far above what is allowed a median must be, so that neither a busy machine nor what else is under way explains it.
const CLEARLY: (f64, f64) = (2.0, 5.0);

/// Whether packets wait as long as the queues here let them, and no longer; `passes`: whether they pass here at all.
fn of_waiting(rate: Rate, passes: &Row, findings: &Findings) -> Row {
    let claim = "packets wait no longer than these queues let them";
    let allowed = allowed_ms(rate);
    let (Some(idle), Some(loaded)) = (&findings.idle, &findings.loaded) else {
        let says = "round trips are unknown, nothing answered".to_owned();
        let figures = json!({ "allowed_ms": allowed });
        return Row { claim, verdict: Verdict::Unknown, says, figures };
    };
    let more = loaded.p50_ms - idle.p50_ms;
    let verdict = match passes.verdict {
        Verdict::Pass => of_delay(more, allowed),
        // It is not these queues' doing.
        _ => Verdict::Unknown,
    };
    let elsewhere = match verdict {
        Verdict::Fail => "; they wait elsewhere too, as where the rate is above the line's",
        _ => "",
    };
    let says = format!(
        "{more:.1} ms more than idle, {allowed:.1} ms expected at most{elsewhere} (round trips: idle {:.1} ms, beside the load {:.1} ms median, \
         {:.1} ms 99 %)",
        idle.p50_ms, loaded.p50_ms, loaded.p99_ms
    );
    let figures = json!({ "more_ms": more, "allowed_ms": allowed });
    Row { claim, verdict, says, figures }
}

fn of_delay(more_ms: f64, allowed_ms: f64) -> Verdict {
    let (times, ms) = CLEARLY;
    if more_ms <= allowed_ms {
        Verdict::Pass
    } else if more_ms > times * allowed_ms + ms {
        Verdict::Fail
    } else {
        Verdict::Unknown
    }
}

fn document(name: &str, queue: &str, rate: Rate, rows: &[Row], findings: &Findings) -> Value {
    let one = |Row { claim, verdict, says, figures }: &Row| {
        let verdict = verdict.word().to_lowercase();
        json!({ "check": claim, "verdict": verdict, "says": says, "figures": figures })
    };
    let checks: Vec<Value> = rows.iter().map(one).collect();
    json!({
        "way": name,
        "queue": queue,
        "rate_bps": rate.bps(),
        "checks": checks,
        "idle": findings.idle,
        "loaded": findings.loaded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(bytes: u64, counted: u64, dropped: u32, waiting: u32) -> [Verdict; 3] {
        let looks = Looks { all: 40, waiting };
        let loaded = Loaded { bytes, seconds: 10.0, counted, dropped, looks };
        judged(Rate::from_bps(8_000_000), &loaded, || vec!["because".into()]).map(|row| {
            let named = row.says.ends_with("; because");
            assert_eq!(named, row.claim == "all of it passes here" && row.verdict == Verdict::Fail);
            row.verdict
        })
    }

    #[test]
    fn a_wait_that_these_queues_do_not_explain_fails_and_one_that_is_near_is_unknown() {
        // A packet takes 12 ms at 1 Mbit/s and 0.1 ms at 100.
        let (slow, fast) =
            (allowed_ms(Rate::from_bps(1_000_000)), allowed_ms(Rate::from_bps(100_000_000)));
        assert!((30.0..31.0).contains(&slow) && (5.1..5.2).contains(&fast), "{slow} {fast}");
        for (more, verdict) in [
            (-1.0, Verdict::Pass),
            (5.0, Verdict::Pass),
            (9.0, Verdict::Unknown),
            (16.0, Verdict::Fail),
        ] {
            assert_eq!(of_delay(more, fast), verdict, "{more}");
        }
    }

    #[test]
    fn hosts_that_shared_a_place_while_the_line_was_loaded_fail() {
        let places = |sharing| Places { count: 4, sharing, ..Places::default() };
        let verdict = |had: Option<&Places>, sharing| of_places(had, &places(sharing)).verdict;
        assert_eq!(verdict(Some(&places(7)), 7), Verdict::Pass, "those were before");
        assert_eq!(verdict(Some(&places(7)), 9), Verdict::Fail);
        assert_eq!(verdict(None, 9), Verdict::Fail);
        let blind = Places { unknown: Some("not root".into()), ..Places::default() };
        assert_eq!(of_places(None, &blind).verdict, Verdict::Unknown);
    }

    #[test]
    fn more_than_the_rate_or_than_what_was_counted_fails_and_a_queue_where_nothing_waits_is_unknown()
     {
        use Verdict::{Fail, Pass, Unknown};
        assert_eq!(verdicts(9_500_000, 9_900_000, 12, 0), [Pass, Pass, Pass]);
        assert_eq!(verdicts(9_500_000, 9_900_000, 0, 39), [Pass, Pass, Pass]);
        assert_eq!(verdicts(9_500_000, 9_900_000, 0, 2), [Pass, Pass, Unknown]);
        // Offloads, another device, a hardware path.
        assert_eq!(verdicts(9_500_000, 90_000, 0, 40), [Pass, Fail, Unknown]);
        assert_eq!(verdicts(30_000_000, 31_000_000, 0, 0), [Fail, Pass, Unknown]);
    }
}
