//! `quell shape prove`: whether the queues in force do what they are there for, with a `quell serve` beyond the line.
//!
//! ```text
//!   counters ─► flow up ─► counters ─► flow down ─► counters
//!                  └─────────── verdicts ───────────┘
//! ```
//!
//! A verdict needs evidence: more arrived than the rate allows, or more than was counted where it must pass; a queue that had to drop, or in
//! which something waited whenever it was looked at.

use crate::class_report::{self, HostSlots, roots};
use crate::follow::controller::aimed_ms;
use crate::follow::{FollowState, FollowedDirection, word};
use crate::interface::ways_around;
use crate::{CommandError, UndoLogs, ifb_of, open, policy_of_log};
use quell_act::{Kernel, Log, Machine, Now};
use quell_policy::FRAME;
use quell_tc::observed::{Snapshot, Stats};
use quell_units::Rate;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

#[derive(Debug, Clone, Default)]
pub struct LoadResult {
    pub received_bytes: u64,
    pub seconds: f64,
    /// Medians of round trips in ms: without the load, and beside it, of which the 99 % quantile too.
    pub idle_ms: Option<f64>,
    pub loaded_ms: Option<(f64, f64)>,
    /// The same as whoever measured tells them.
    pub idle: Value,
    pub loaded: Value,
}

/// Loads a line one way, up or down, and calls what it is given several times a second. What it says where it could not is shown as it is.
pub type Loader<'a> = dyn FnMut(bool, &mut dyn FnMut()) -> Result<LoadResult, CommandError> + 'a;

/// Each way, as soon as it was measured.
pub type TellWay<'a> = dyn FnMut(&DirectionProof) + 'a;

#[derive(Debug, Serialize)]
pub struct ProofReport {
    pub device: String,
    pub wanted: String,
    pub ways: Vec<DirectionProof>,
}

#[derive(Debug, Serialize)]
pub struct DirectionProof {
    pub way: &'static str,
    pub queue: String,
    pub rate_bps: u64,
    pub checks: Vec<ProofCheck>,
    pub idle: Value,
    pub loaded: Value,
}

/// What was found out of one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckVerdict {
    Pass,
    Fail,
    Unknown,
}

/// A claim, how it came out, and the figures: in words, and for a program.
#[derive(Debug, Clone, Serialize)]
pub struct ProofCheck {
    pub check: &'static str,
    pub verdict: CheckVerdict,
    pub says: String,
    pub figures: Value,
}

struct Loaded {
    bytes: u64,
    seconds: f64,
    /// What the queue counted meanwhile: bytes and drops.
    counted: u64,
    dropped: u32,
    looks: BacklogSamples,
}

#[derive(Debug, Clone, Copy, Default)]
struct BacklogSamples {
    all: u32,
    /// Those that found something waiting. A sender on this host is held back at so little that an AQM need not drop
    /// (`tcp_small_queue_check`, net/ipv4/tcp_output.c).
    waiting: u32,
}

/// Loads each way that has a rate, and judges what the queues counted meanwhile; `to` is who is beyond the line.
pub fn prove(
    logs: &UndoLogs,
    device: &str,
    to: IpAddr,
    load: &mut Loader<'_>,
    tell: &mut TellWay<'_>,
) -> Result<ProofReport, CommandError> {
    let mut kernel = open()?;
    let log = logs.of(&mut kernel, device)?;
    let (up, down) = policy_of_log(&log)?.rates();
    let mut ways = Vec::new();
    for (way, rate, queue) in [("up", up, device.to_owned()), ("down", down, ifb_of(device))] {
        let Some(rate) = rate else { continue };
        let before = counters(&mut kernel, &log)?;
        let now = queues(&mut kernel, &log)?;
        let had = snapshot(&log, &now, &queue).and_then(class_report::places);
        let (mut looks, mut blind) = (BacklogSamples::default(), None);
        let mut look = || match counters(&mut kernel, &log) {
            Ok(all) => {
                if let Some(stats) = all.get(&queue) {
                    looks.all += 1;
                    looks.waiting += u32::from(stats.backlog_packets > 0);
                }
            }
            Err(why) => blind = Some(why),
        };
        let result = load(way == "up", &mut look)?;
        if let Some(why) = blind {
            return Err(why);
        }
        let after = counters(&mut kernel, &log)?;
        let (Some(before), Some(after)) = (before.get(&queue), after.get(&queue)) else {
            return Err(CommandError::check(format!(
                "the queue for what goes {way} is gone; see quell shape status"
            )));
        };
        let loaded = Loaded {
            bytes: result.received_bytes,
            seconds: result.seconds,
            // They start again where somebody made the queue anew.
            counted: after.bytes.saturating_sub(before.bytes),
            dropped: after.drops.wrapping_sub(before.drops),
            looks,
        };
        let mut checks = judged(rate, &loaded, || ways_around(device, to)).to_vec();
        let now = queues(&mut kernel, &log)?;
        let here = snapshot(&log, &now, &queue);
        let kinds = here.into_iter().flat_map(|here| &here.qdiscs);
        let plain = without_aqm(kinds.map(|qdisc| qdisc.kind.as_str()));
        let state = FollowState::of(&log);
        let mut followed = state.iter().flat_map(|state| &state.directions);
        let followed = followed.find(|one| word(one.direction) == way);
        let allowed = followed.map_or(allowed_ms(rate), |one| {
            let least = Rate::from_bps(one.rate_bps.min(one.good_bps));
            allowed_ms(least) + aimed_ms(least)
        });
        checks.push(of_waiting(allowed, &checks[1], &result, plain));
        checks.extend(followed.map(of_follow));
        let has = here.and_then(class_report::places);
        checks.extend(has.map(|has| of_places(had.as_ref(), &has)));
        let LoadResult { idle, loaded, .. } = result;
        let proof = DirectionProof { way, queue, rate_bps: rate.bps(), checks, idle, loaded };
        tell(&proof);
        ways.push(proof);
    }
    let wanted = log.begun.wanted;
    if ways.is_empty() {
        return Err(CommandError::check(format!(
            "{wanted} has no rate that could be proven; look at it with quell tree {device}"
        )));
    }
    Ok(ProofReport { device: device.to_owned(), wanted, ways })
}

impl ProofReport {
    pub fn failed(&self) -> bool {
        let mut checks = self.ways.iter().flat_map(|way| &way.checks);
        checks.any(|check| check.verdict == CheckVerdict::Fail)
    }
}

fn counters(kernel: &mut Kernel, log: &Log) -> Result<BTreeMap<String, Stats>, CommandError> {
    let now = queues(kernel, log)?;
    Ok(roots(log, &now).into_iter().map(|(name, _, root)| (name, root.stats)).collect())
}

fn queues(kernel: &mut Kernel, log: &Log) -> Result<Now, CommandError> {
    kernel.read(&(&log.begun.before).into()).map_err(CommandError::system)
}

/// All that is on one interface; nothing where its root queue is gone.
fn snapshot<'a>(log: &Log, now: &'a Now, queue: &str) -> Option<&'a Snapshot> {
    let found = roots(log, now).into_iter().find(|(name, ..)| name == queue);
    found.map(|(_, snapshot, _)| snapshot)
}

/// The kind of queue in which packets wait, where it lets them wait for as long as there is room: none has an AQM.
fn without_aqm<'a>(kinds: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut plain = None;
    for kind in kinds {
        match kind {
            "cake" | "fq_codel" | "codel" | "pie" | "fq_pie" | "dualpi2" => return None,
            "pfifo" | "bfifo" | "sfq" | "pfifo_fast" => plain = Some(kind),
            _ => {}
        }
    }
    plain
}

/// Whether hosts had to share a place meanwhile.
fn of_places(had: Option<&HostSlots>, has: &HostSlots) -> ProofCheck {
    // The program counts anew where it was made anew.
    let before = had.map_or(0, |had| had.sharing).min(has.sharing);
    let shared = has.sharing - before;
    let verdict = match (&has.unknown, shared) {
        (Some(_), _) => CheckVerdict::Unknown,
        (None, 0) => CheckVerdict::Pass,
        (None, _) => CheckVerdict::Fail,
    };
    let says = match &has.unknown {
        Some(why) => why.clone(),
        None => format!(
            "{} of {} places are taken; {shared} packets were of hosts that share one",
            has.held.len(),
            has.count
        ),
    };
    let mut figures = json!(has);
    figures["shared_packets"] = json!(shared);
    ProofCheck { check: "each host has a place of its own", verdict, says, figures }
}

/// `around` tells why packets may go around the queue.
fn judged(rate: Rate, loaded: &Loaded, around: impl FnOnce() -> Vec<String>) -> [ProofCheck; 3] {
    let Loaded { bytes, seconds, counted, dropped, looks } = *loaded;
    let reached = bytes as f64 * 8.0 / seconds;
    // Payload alone is less than what the rate counts, so that above it there is no doubt.
    let bounded =
        if reached <= rate.bps() as f64 { CheckVerdict::Pass } else { CheckVerdict::Fail };
    let passed = if counted >= bytes { CheckVerdict::Pass } else { CheckVerdict::Fail };
    let waited = match passed {
        CheckVerdict::Pass if dropped > 0 || 2 * looks.waiting > looks.all => CheckVerdict::Pass,
        _ => CheckVerdict::Unknown,
    };
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let (payload, all) = (megabytes(bytes), megabytes(counted));
    let BacklogSamples { all: looks, waiting } = looks;
    let causes = if passed == CheckVerdict::Fail { around() } else { Vec::new() };
    let because: String = causes.iter().map(|cause| format!("; {cause}")).collect();
    [
        ProofCheck {
            check: "the rate holds",
            verdict: bounded,
            says: format!("{:.3} Mbit/s of payload arrived, {rate} may", reached / 1e6),
            figures: json!({ "received_bits_per_second": reached, "rate_bits_per_second": rate.bps() }),
        },
        ProofCheck {
            check: "all of it passes here",
            verdict: passed,
            says: format!("{payload:.2} MB of payload arrived, {all:.2} MB passed{because}"),
            figures: json!({ "received_bytes": bytes, "passed_bytes": counted, "causes": causes }),
        },
        ProofCheck {
            check: "packets wait here",
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
    let packet = rate.time_for(FRAME).nanos() as f64 / 1e6;
    f64::max(5.0, 1.5 * packet) + packet
}

/// How far above what is allowed a median must be, so that neither a busy machine nor what else is under way explains it.
const CLEARLY: (f64, f64) = (2.0, 5.0);

/// Whether a rate that follows the line is between its bounds, led by a signal.
fn of_follow(one: &FollowedDirection) -> ProofCheck {
    let FollowedDirection { rate_bps, floor_bps, ceiling_bps, .. } = *one;
    let verdict = match (floor_bps..=ceiling_bps).contains(&rate_bps) {
        false => CheckVerdict::Fail,
        true if one.signal.is_none() => CheckVerdict::Unknown,
        true => CheckVerdict::Pass,
    };
    let [rate, floor, ceiling] =
        [rate_bps, floor_bps, ceiling_bps].map(|bps| Rate::from_bps(bps / 1000 * 1000));
    let led = one.signal.as_ref().map_or_else(|| one.why.clone(), |name| format!("led by {name}"));
    ProofCheck {
        check: "the rate follows the line between its bounds",
        verdict,
        says: format!("{rate} of {floor} to {ceiling}, {led}"),
        figures: json!(one),
    }
}

/// Whether packets wait as long as the queues here let them, and no longer; `passes`: whether they pass here at all.
/// `plain` is this machine's own queue, where it has no AQM.
fn of_waiting(
    allowed: f64,
    passes: &ProofCheck,
    result: &LoadResult,
    plain: Option<&str>,
) -> ProofCheck {
    let claim = "packets wait no longer than these queues let them";
    let (Some(idle), Some((loaded, late))) = (result.idle_ms, result.loaded_ms) else {
        let says = "round trips are unknown, nothing answered".to_owned();
        let figures = json!({ "allowed_ms": allowed });
        return ProofCheck { check: claim, verdict: CheckVerdict::Unknown, says, figures };
    };
    let more = loaded - idle;
    let verdict = match passes.verdict {
        CheckVerdict::Pass => of_delay(more, allowed),
        // It is not these queues' doing.
        _ => CheckVerdict::Unknown,
    };
    let elsewhere = match verdict {
        CheckVerdict::Fail => match plain {
            Some(kind) => format!(
                "; they wait in this machine's own {kind}, which has no AQM: modprobe sch_cake, then quell shape apply again"
            ),
            None => "; they wait elsewhere too, for example because the rate is above the line's"
                .to_owned(),
        },
        _ => String::new(),
    };
    let says = format!(
        "{more:.1} ms more than idle, {allowed:.1} ms expected at most{elsewhere} (round trips: idle {idle:.1} ms, beside the load {loaded:.1} ms median, \
         {late:.1} ms 99 %)"
    );
    let figures = json!({ "more_ms": more, "allowed_ms": allowed, "own_queue_without_aqm": plain });
    ProofCheck { check: claim, verdict, says, figures }
}

fn of_delay(more_ms: f64, allowed_ms: f64) -> CheckVerdict {
    let (times, ms) = CLEARLY;
    if more_ms <= allowed_ms {
        CheckVerdict::Pass
    } else if more_ms > times * allowed_ms + ms {
        CheckVerdict::Fail
    } else {
        CheckVerdict::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(bytes: u64, counted: u64, dropped: u32, waiting: u32) -> [CheckVerdict; 3] {
        let looks = BacklogSamples { all: 40, waiting };
        let loaded = Loaded { bytes, seconds: 10.0, counted, dropped, looks };
        judged(Rate::from_bps(8_000_000), &loaded, || vec!["because".into()]).map(|row| {
            let named = row.says.ends_with("; because");
            assert_eq!(
                named,
                row.check == "all of it passes here" && row.verdict == CheckVerdict::Fail
            );
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
            (-1.0, CheckVerdict::Pass),
            (5.0, CheckVerdict::Pass),
            (9.0, CheckVerdict::Unknown),
            (16.0, CheckVerdict::Fail),
        ] {
            assert_eq!(of_delay(more, fast), verdict, "{more}");
        }
    }

    #[test]
    fn where_no_queue_here_keeps_delay_short_the_own_one_is_named_and_not_the_line() {
        let passes = ProofCheck {
            check: "all of it passes here",
            verdict: CheckVerdict::Pass,
            says: String::new(),
            figures: Value::Null,
        };
        let result = LoadResult {
            idle_ms: Some(20.0),
            loaded_ms: Some((400.0, 450.0)),
            ..LoadResult::default()
        };
        let says = |kinds: &[&str]| {
            let plain = without_aqm(kinds.iter().copied());
            of_waiting(allowed_ms(Rate::from_bps(2_000_000)), &passes, &result, plain).says
        };
        let own = says(&["htb", "pfifo", "ingress"]);
        assert!(own.contains("this machine's own pfifo") && own.contains("sch_cake"), "{own}");
        assert!(says(&["htb", "pfifo", "fq_codel"]).contains("above the line's"));
    }

    #[test]
    fn a_followed_rate_is_proven_where_a_signal_leads_it_between_its_bounds() {
        let one = |rate_bps, signal: Option<&str>| FollowedDirection {
            direction: quell_model::task::Direction::Up,
            floor_bps: 2_000_000,
            ceiling_bps: 25_000_000,
            rate_bps,
            good_bps: rate_bps,
            load_bps: 0,
            wait_ms: None,
            signal: signal.map(str::to_owned),
            changes: 0,
            reason: crate::follow::controller::RateReason::Unseen,
            why: "no signal sees it".into(),
            changed_at: 0,
        };
        let verdict = |rate, signal| of_follow(&one(rate, signal)).verdict;
        assert_eq!(verdict(9_000_000, Some("flows")), CheckVerdict::Pass);
        assert_eq!(verdict(2_000_000, None), CheckVerdict::Unknown);
        assert_eq!(verdict(26_000_000, Some("flows")), CheckVerdict::Fail);
        let says = of_follow(&one(9_000_000, Some("flows"))).says;
        assert_eq!(says, "9Mbit of 2Mbit to 25Mbit, led by flows");
    }

    #[test]
    fn hosts_that_shared_a_place_while_the_line_was_loaded_fail() {
        let places = |sharing| HostSlots { count: 4, sharing, ..HostSlots::default() };
        let verdict = |had: Option<&HostSlots>, sharing| of_places(had, &places(sharing)).verdict;
        assert_eq!(verdict(Some(&places(7)), 7), CheckVerdict::Pass, "those were before");
        assert_eq!(verdict(Some(&places(7)), 9), CheckVerdict::Fail);
        assert_eq!(verdict(None, 9), CheckVerdict::Fail);
        let blind = HostSlots { unknown: Some("not root".into()), ..HostSlots::default() };
        assert_eq!(of_places(None, &blind).verdict, CheckVerdict::Unknown);
    }

    #[test]
    fn more_than_the_rate_or_than_what_was_counted_fails_and_a_queue_where_nothing_waits_is_unknown()
     {
        use CheckVerdict::{Fail, Pass, Unknown};
        assert_eq!(verdicts(9_500_000, 9_900_000, 12, 0), [Pass, Pass, Pass]);
        assert_eq!(verdicts(9_500_000, 9_900_000, 0, 39), [Pass, Pass, Pass]);
        assert_eq!(verdicts(9_500_000, 9_900_000, 0, 2), [Pass, Pass, Unknown]);
        // Offloads, another device, a hardware path.
        assert_eq!(verdicts(9_500_000, 90_000, 0, 40), [Pass, Fail, Unknown]);
        assert_eq!(verdicts(30_000_000, 31_000_000, 0, 0), [Fail, Pass, Unknown]);
    }
}
