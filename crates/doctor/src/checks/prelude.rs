//! What most checks use.

pub(super) use crate::check::{Check, CheckGroup, CheckOutcome};
pub(super) use crate::facts::{
    Connection, CounterReading, Facts, ReceiveLimit, Threshold, is_at_most,
};
pub(super) use crate::peer::{BothEnds, PacketSizes, StampFlow};
pub(super) use quell_cause::{Cause, ConnectionFacts, LossFacts};
pub(super) use quell_finding::{Evidence, Finding, Remedy, Severity};
pub(super) use quell_host::Device;
use quell_host::counters::file_of;
pub(super) use quell_netlink::sock_diag::DiagSocket;

pub(super) type CheckResult = Result<CheckOutcome, String>;

/// Judges the sum of counters: beyond the limit it is one finding about this host, with every counter as evidence.
pub(super) fn rising(
    facts: &Facts<'_>,
    check: &Check,
    counters: &[&str],
    limit: Threshold,
    finish: impl FnOnce(Finding, CounterReading) -> Finding,
) -> CheckResult {
    let (moved, evidence) = facts.counters(counters)?;
    if !facts.is_over(moved, limit) {
        return Ok(CheckOutcome::Fine);
    }
    let mut finding = check.finding("this host", check.title);
    finding.evidence = evidence;
    Ok(CheckOutcome::Found(vec![advised(check, finish(finding, moved))]))
}

/// A finding that names nothing to do gets the check's general advice.
pub(super) fn advised(check: &Check, mut finding: Finding) -> Finding {
    if finding.remedies.is_empty() {
        finding.remedies = check.remedies.iter().map(|text| Remedy::advice(*text)).collect();
    }
    finding
}

/// All of them with advice, or fine.
pub(super) fn outcome(check: &Check, findings: impl IntoIterator<Item = Finding>) -> CheckResult {
    Ok(CheckOutcome::of(findings.into_iter().map(|finding| advised(check, finding)).collect()))
}

/// Looks at each device that is up, as it is and as it was before; none where nothing is wrong with it.
pub(super) fn each_device(
    facts: &Facts<'_>,
    check: &Check,
    look: impl Fn(&Device, Option<&Device>) -> Option<Finding>,
) -> CheckResult {
    outcome(check, facts.devices()?.filter_map(|(device, before)| look(device, before)))
}

/// The same of devices whose counters are known, of which `has` looks at those that are needed.
pub(super) fn each_counted(
    facts: &Facts<'_>,
    check: &Check,
    has: impl Fn(&Device) -> bool,
    look: impl Fn(&Device, Option<&Device>) -> Option<Finding>,
) -> CheckResult {
    let (counted, others): (Vec<_>, Vec<_>) = facts.devices()?.partition(|(now, _)| has(now));
    if counted.is_empty() && !others.is_empty() {
        return Err("ip -s -s link is not in the text".to_owned());
    }
    let one = |(now, before): (_, Option<&Device>)| look(now, before.filter(|before| has(before)));
    outcome(check, counted.into_iter().filter_map(one))
}

/// The same of hardware that tells of what is looked at, which `told` gives.
pub(super) fn each_card<T>(
    facts: &Facts<'_>,
    check: &Check,
    told: impl Fn(&Device) -> Option<T>,
    look: impl Fn(&Device, T) -> Option<Finding>,
) -> CheckResult {
    let cards = facts.devices()?.filter(|(device, _)| device.is_hardware());
    let told: Vec<_> = cards.filter_map(|(device, _)| Some((device, told(device)?))).collect();
    match told.is_empty() {
        true => unseen(facts),
        false => outcome(check, told.into_iter().filter_map(|(device, told)| look(device, told))),
    }
}

/// A share in percent, of nothing is nothing.
pub(super) fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 * 100.0 }
}

/// Where no hardware told of it: why it could not be asked, or that none has it.
pub(super) fn unseen(facts: &Facts<'_>) -> CheckResult {
    match facts.now.hardware_unseen.first() {
        Some(why) if facts.devices()?.any(|(device, _)| device.is_hardware()) => Err(why.clone()),
        _ => Ok(CheckOutcome::NotApplicable("no device here reports it".to_owned())),
    }
}

pub(super) fn needs_peer() -> CheckResult {
    Ok(CheckOutcome::NotApplicable("needs --peer: both ends have to be looked at".to_owned()))
}

/// Adds what both ends told each other of the path, where they did, to what was seen of connections.
pub(super) fn on_path(
    facts: &Facts<'_>,
    connections: CheckResult,
    look: impl FnOnce(&BothEnds, &str) -> Vec<Finding>,
) -> CheckResult {
    let Some(Ok(ends)) = facts.peer.map(|peer| &peer.ends) else { return connections };
    let path = facts.peer.map(|peer| format!("the path to {}", peer.host)).unwrap_or_default();
    let mut findings = look(ends, &path);
    if let Ok(CheckOutcome::Found(found)) = connections {
        findings.extend(found);
    }
    Ok(CheckOutcome::of(findings))
}

/// Looks at what both ends told each other, and names the path.
pub(super) fn with_ends(
    facts: &Facts<'_>,
    look: impl FnOnce(&BothEnds, &str) -> CheckResult,
) -> CheckResult {
    let Some(peer) = facts.peer else { return needs_peer() };
    match &peer.ends {
        Ok(ends) => look(ends, &format!("the path to {}", peer.host)),
        Err(why) => Err(why.clone()),
    }
}

/// A socket that TCP dropped so much for; single duplicates count there too.
const SOCKET_DROPS: Threshold = Threshold { least: 11, per_hour: 60.0 };

/// Findings of one cause.
const MOST: usize = 5;

/// The connections whose wait this check's cause explains, the worst first: rate, round trip, and what else was seen.
pub(super) fn waiting(
    facts: &Facts<'_>,
    check: &Check,
    saw: impl Fn(&Connection<'_>, &ConnectionFacts) -> Vec<Evidence>,
) -> CheckResult {
    let mut findings = Vec::new();
    for c in facts.connections()?.iter().filter(|c| !c.is_local()) {
        let seen = facts.of_connection(c);
        let Some(cause) = seen.cause().filter(|cause| Some(*cause) == check.cause()) else {
            continue;
        };
        let (here, there) = ("this end", "the other end");
        let ends = if seen.is_sender_there() { (there, here) } else { (here, there) };
        let rate = match seen.receives {
            true => Some(64.0 * f64::from(c.info.rcv_mss) / seen.eight_segments_us.max(1) as f64),
            false => c.info.delivery_rate.map(|rate| rate as f64 * 8.0 / 1e6),
        };
        let mut finding = cause.finding(facts.name(c.now), ends.0, ends.1);
        // That answers came whole but late, this end can't see.
        finding.sure = !(cause == Cause::DelayedAck && seen.is_sender_there());
        finding.evidence = saw(c, &seen);
        finding
            .evidence
            .extend(rate.map(|rate| Evidence::number("rate", rate, "Mbit/s", "TCP_INFO")));
        let finding = finding.saw(Evidence::number(
            "round trip",
            f64::from(c.info.rtt) / 1e3,
            "ms",
            "TCP_INFO",
        ));
        findings.push((c.went(|info| info.busy_time), finding));
    }
    findings.sort_by_key(|(busy, _)| std::cmp::Reverse(*busy));
    Ok(CheckOutcome::of(findings.into_iter().take(MOST).map(|(_, finding)| finding).collect()))
}

pub(super) fn round_trips(c: &Connection<'_>, seen: &ConnectionFacts) -> Vec<Evidence> {
    let least = f64::from(c.info.min_rtt.unwrap_or(0)) / 1e3;
    let late = seen.queueing_us as f64 / 1e3;
    vec![
        Evidence::number("least round trip", least, "ms", "TCP_INFO"),
        match seen.receives {
            true => Evidence::number("longer while data comes", late, "ms", "TCP_INFO: rcv_rtt"),
            false => Evidence::amount("in flight", c.info.unacked.into(), "segments", "TCP_INFO"),
        },
    ]
}

/// Whether a counter is known now and, where something was read before, then too.
fn is_known(facts: &Facts<'_>, counter: &str) -> bool {
    facts.now.counter(counter).is_ok()
        && facts.before.is_none_or(|before| before.counter(counter).is_ok())
}

/// Segments that were sent for the first time, and the counter's name: without pure acknowledgements, where that is known.
pub(super) fn segments_sent(facts: &Facts<'_>) -> Result<(&'static str, CounterReading), String> {
    let known = ["TcpExt.TCPOrigDataSent", "Tcp.OutSegs"].into_iter();
    match known.into_iter().find(|counter| is_known(facts, counter)) {
        Some(counter) => Ok((counter, facts.counter(counter)?)),
        None => Err("share unknown: neither TCPOrigDataSent nor OutSegs is there".to_owned()),
    }
}

const BY_WHAT_UNKNOWN: &str = "packets were lost and sent again; by a timer or at once is unknown";

/// Where only connections tell what was sent again, as `ss` does: which ones lost much. Timers are unknown then.
fn sent_again_on_connections(facts: &Facts<'_>, check: &Check, why: String) -> CheckResult {
    let mut found = Vec::new();
    let mut known = false;
    for c in facts.connections().unwrap_or_default().iter().filter(|c| !c.is_local()) {
        known |= c.info.data_segs_out.is_some();
        let all = c.went(|info| Some(info.total_retrans.into()));
        let sent = c.went(|info| info.data_segs_out.map(u64::from)).saturating_sub(all);
        let again = all.saturating_sub(c.went(|info| info.dsack_dups.map(u64::from)));
        let cause = LossFacts { sent, again, timers: 0 }.cause();
        let Some(cause) = cause.filter(|cause| sent > 0 && Some(*cause) == check.cause()) else {
            continue;
        };
        let mut finding = cause.finding(facts.name(c.now), "this end", "the other end");
        (finding.sure, finding.says) = (false, BY_WHAT_UNKNOWN.to_owned());
        finding.severity = Severity::Warning;
        let count = |name, value| Evidence::count(name, value, "ss -tinm");
        finding.evidence = vec![count("sent again", again), count("sent", sent)];
        found.push((again, finding));
    }
    found.sort_by_key(|(again, _)| std::cmp::Reverse(*again));
    let found = found.into_iter().take(MOST).map(|(_, finding)| finding).collect();
    if known { Ok(CheckOutcome::of(found)) } else { Err(why) }
}

/// Where no counter tells it: the sockets that dropped what came, as `ss -m` does.
pub(super) fn or_dropped_at<'a>(
    counted: CheckResult,
    facts: &Facts<'_>,
    check: &Check,
    sockets: impl Iterator<Item = &'a DiagSocket>,
) -> CheckResult {
    let drops = |socket: &DiagSocket| socket.memory.map_or(0, |memory| memory.drops);
    let (counted, mut all) = match counted {
        Err(why) => (why, sockets.filter(|s| s.memory.is_some()).collect::<Vec<_>>()),
        counted => return counted,
    };
    if all.is_empty() {
        return Err(counted);
    }
    all.sort_by_key(|socket| std::cmp::Reverse(drops(socket)));
    let over = |total| facts.is_over(CounterReading { total, watched: 0 }, SOCKET_DROPS);
    let found = all.into_iter().filter(|socket| over(drops(socket).into())).take(MOST);
    outcome(
        check,
        found.map(|socket| {
            let mut finding = check.finding(facts.name(socket), check.title);
            finding.sure = false;
            finding.saw(Evidence::count("dropped", drops(socket).into(), "ss -tinm"))
        }),
    )
}

/// What this host had to send again, where this check's cause explains that.
pub(super) fn sent_again(facts: &Facts<'_>, check: &Check) -> CheckResult {
    let again = match facts.counter("Tcp.RetransSegs") {
        Ok(again) => again,
        Err(why) => return sent_again_on_connections(facts, check, why),
    };
    let (base, sent) = segments_sent(facts)?;
    let timeouts = facts.counter("TcpExt.TCPTimeouts").unwrap_or_default();
    let probes = facts.counter("TcpExt.TCPLossProbes").unwrap_or_default();
    let syns = facts.counter("TcpExt.TCPSynRetrans").unwrap_or_default();
    // What came twice was not lost (RFC 2883). A block may tell of many segments; older kernels count blocks alone.
    let segments = facts.counter("TcpExt.TCPDSACKRecvSegs");
    let twice = segments.or_else(|_| facts.counter("TcpExt.TCPDSACKRecv")).unwrap_or_default();
    let loss = |of: fn(CounterReading) -> u64| LossFacts {
        sent: of(sent),
        again: of(again).saturating_sub(of(syns) + of(twice)),
        timers: of(timeouts).saturating_sub(of(syns)) + of(probes),
    };
    let all = loss(|c| c.total);
    let watched = loss(|c| c.watched);
    let (cause, share) = match watched.cause() {
        Some(cause) => (Some(cause), percent(watched.again, watched.sent)),
        None => (all.cause(), percent(all.again, all.sent)),
    };
    let Some(cause) = cause.filter(|cause| Some(*cause) == check.cause()) else {
        return Ok(CheckOutcome::Fine);
    };
    let mut finding = cause.finding("this host", "this end", "the other end");
    // That much is more than an accident of one connection.
    finding.severity = Severity::Warning;
    let timers = ["TcpExt.TCPTimeouts", "TcpExt.TCPLossProbes"];
    if cause == Cause::FastRetransmit && !timers.iter().all(|timer| is_known(facts, timer)) {
        (finding.sure, finding.says) = (false, BY_WHAT_UNKNOWN.to_owned());
    }
    finding.evidence = facts.counters(&["Tcp.RetransSegs", base])?.1;
    finding.evidence.push(Evidence::number("share", share, "%", "calculated"));
    for timer in timers {
        if let Ok(count) = facts.counter(timer) {
            let name = timer.trim_start_matches("TcpExt.");
            finding.evidence.push(Evidence::count(name, count.total, file_of(timer)));
        }
    }
    Ok(CheckOutcome::Found(vec![finding]))
}
