//! What a test showed at this end: the results for the client, the line for the log, and the text that an iperf3 server would print.

use super::lane::ServedLane;
use super::measured::Measurement;
use super::plan::ServePlan;
use crate::event::TestResult;
use quell_host::counted;
use quell_host::cpu_time::CpuTimes;
use quell_load::lane::LaneCounts;
use quell_wire::iperf3::{Host, Part, PartStream, Results, StreamResult, stream_id};
use std::fmt::Write;

pub fn outcome(plan: &ServePlan, lanes: &[ServedLane], measured: &Measurement) -> TestResult {
    let of = |sends: bool| {
        let lanes = lanes.iter().filter(move |lane| lane.sends == sends);
        lanes.map(|lane| lasted(plan, lane, measured)).fold(0.0, f64::max)
    };
    let (sent_s, received_s) = (of(true), of(false));
    let seconds = sent_s.max(received_s);
    let mut outcome = TestResult { seconds, ..TestResult::default() };
    let mut came = Vec::new();
    for (lane, mark) in lanes.iter().zip(measured.counted()) {
        if lane.sends {
            outcome.sent_bytes += mark.moment.bytes;
            if !plan.udp {
                *outcome.retransmits.get_or_insert(0) += mark.moment.retransmits;
            }
        } else {
            outcome.received_bytes += mark.moment.bytes;
            if plan.udp {
                *outcome.packets.get_or_insert(0) += mark.moment.packets;
                *outcome.lost_packets.get_or_insert(0) += mark.moment.lost;
                came.push(mark);
            }
        }
    }
    outcome.jitter_ms = (!came.is_empty()).then(|| LaneCounts::jitter_of(&came) as f64 / 1e6);
    let rate =
        |bytes: u64, seconds: f64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    outcome.received_bits_per_second = rate(outcome.received_bytes, received_s);
    outcome.sent_bits_per_second = rate(outcome.sent_bytes, sent_s);
    outcome
}

pub fn results(plan: &ServePlan, lanes: &[ServedLane], measured: &mut Measurement) -> Results {
    let wall = measured.end_ns.saturating_sub(measured.start_ns) as f64 / 1e9;
    let (user, system) = measured.cpu.seconds();
    let percent = |seconds: f64| if wall > 0.0 { 100.0 * seconds / wall } else { 0.0 };
    let counted: Vec<LaneCounts> = measured.counted().collect();
    let streams = lanes
        .iter()
        .zip(&counted)
        .zip(&measured.last)
        .map(|((lane, mark), last)| StreamResult {
            id: lane.id,
            bytes: mark.moment.bytes,
            retransmits: if lane.sends && !plan.udp { signed(mark.moment.retransmits) } else { -1 },
            jitter: Some(mark.rfc_jitter_ns as f64 / 1e9),
            // Lost ones of the time that does not count are left out, and all packets are told with those that do not count beside them:
            // so versions that know the second key and versions that do not come to the same figures.
            errors: if lane.sends { 0 } else { signed(mark.moment.lost) },
            omitted_errors: None,
            packets: signed(if plan.udp { last.expected } else { 0 }),
            omitted_packets: None,
            start_time: 0.0,
            end_time: lasted(plan, lane, measured),
        })
        .map(|stream| omitted(stream, plan, lanes, measured))
        .collect();
    let sends = lanes.iter().any(|lane| lane.sends);
    Results {
        cpu_util_total: Some(percent(user + system)),
        cpu_util_user: Some(percent(user)),
        cpu_util_system: Some(percent(system)),
        sender_has_retransmits: if sends { i32::from(!plan.udp) } else { -1 },
        congestion_used: lanes.first().and_then(|lane| lane.congestion()),
        server_output_text: plan.output.then(|| text(plan, lanes, measured)),
        server_output_json: None,
        streams,
        quell: plan.quell.then(|| part(lanes, &counted, measured)),
    }
}

/// For how many seconds a stream's data was counted. A receiver's begin with the first data, not with what it takes to get here, and end with the
/// last, the word that it is over being late behind a queue; but they are no fewer than the client wanted to send for, which it did.
///
/// ```text
///   go ──── path ──── first ─────────── last ── the client's word
///                       └── counted ─────┘
/// ```
///
/// Datagrams take as long as `Arrivals::lasted_ns` says. An amount over TCP takes from the go to its last byte.
fn lasted(plan: &ServePlan, lane: &ServedLane, measured: &Measurement) -> f64 {
    let seconds = |ns: u64| ns as f64 / 1e9;
    // For as long as the client wanted to send, unless it ended sooner.
    let wanted = |begin: u64| plan.time_ns.unwrap_or(0).min(measured.end_ns.saturating_sub(begin));
    if let Some(arrivals) = lane.arrivals() {
        let place = (0..measured.base_arrivals.len()).find(|place| stream_id(*place) == lane.id);
        let before = place.and_then(|place| measured.base_arrivals[place]).unwrap_or_default();
        return match arrivals.lasted_ns(&before) {
            Some(lasted) => seconds(lasted.max(wanted(arrivals.first_ns.max(measured.count_ns)))),
            None => measured.seconds_counted(),
        };
    }
    // An amount is sent before the word of its end comes, which waits for what is on the path.
    if let (None, Some(sent)) = (plan.time_ns, lane.sent_for_ns()) {
        return seconds(sent);
    }
    if plan.udp {
        return plan.sent_datagrams_for(measured.seconds_counted());
    }
    let first = lane.first_ns().filter(|_| !lane.sends);
    match (first, plan.time_ns, lane.last_ns()) {
        // TCP's data comes until its end; a connection that is silent at the end was held up, and is no faster for it. Nor is one whose first segment
        // got lost, so that all came late: the client sent for its time, or for what lies between two words that take a round trip.
        (Some(first), Some(time), _) => {
            let round_trip = lane.info().and_then(|info| info.min_rtt).unwrap_or(0);
            let between = measured.end_ns.saturating_sub(measured.count_ns);
            let sent = between.saturating_sub(u64::from(round_trip).saturating_mul(1000)).min(time);
            seconds(measured.end_ns.saturating_sub(first.max(measured.count_ns)).max(sent))
        }
        (Some(_), None, Some(last)) => seconds(last.saturating_sub(measured.count_ns)),
        _ => measured.seconds_counted(),
    }
}

fn omitted(
    stream: StreamResult,
    plan: &ServePlan,
    lanes: &[ServedLane],
    measured: &Measurement,
) -> StreamResult {
    let place = lanes.iter().position(|lane| lane.id == stream.id);
    let Some(base) = place.and_then(|place| measured.base.get(place)) else { return stream };
    if plan.omit_ns == 0 || !plan.udp {
        return stream;
    }
    StreamResult { omitted_errors: Some(0), omitted_packets: Some(signed(base.expected)), ..stream }
}

fn part(lanes: &[ServedLane], counted: &[LaneCounts], measured: &mut Measurement) -> Part {
    let moments = std::mem::take(&mut measured.moments);
    let streams = lanes.iter().zip(counted).zip(moments);
    let after = measured.host.map(|_| counted::now(measured.device.as_deref()));
    let cpu = measured.host.map(|(_, cpu)| CpuTimes::now().since(&cpu));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let ran_ns = measured.end_ns.saturating_sub(measured.start_ns).max(1) as f64;
    let held_back = |lane: &ServedLane| (lane.held_back_ns() as f64 / ran_ns).min(1.0);
    let was_held_back = lanes.iter().any(|lane| !lane.takes_datagrams() && lane.held_back_ns() > 0);
    let cpus = quell_sys::affinity::allowed_cpus().map_or(0, |cpus| cpus.len());
    Part {
        version: 1,
        host: Host {
            quell: env!("CARGO_PKG_VERSION").into(),
            kernel: kernel.trim().into(),
            cpus: u32::try_from(cpus).unwrap_or(0),
            cpu_busy: cpu.and_then(|cpu| cpu.host_busy),
        },
        before: measured.host.map(|(counters, _)| counters),
        after,
        streams: streams
            .map(|((lane, mark), moments)| PartStream {
                held_back: was_held_back.then(|| held_back(lane)).filter(|_| !lane.sends),
                ..lane.part(mark, moments)
            })
            .collect(),
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

const LINE: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";

/// What `iperf3 -s` prints of a test, for clients that want to see it.
fn text(plan: &ServePlan, lanes: &[ServedLane], measured: &Measurement) -> String {
    let mut out = String::from("Server: Quell ");
    out += env!("CARGO_PKG_VERSION");
    out.push('\n');
    let receives = lanes.iter().any(|lane| !lane.sends);
    let head = match (plan.udp, receives) {
        (true, true) => {
            "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams"
        }
        (true, false) => "[ ID] Interval           Transfer     Bitrate         Total Datagrams",
        (false, true) => "[ ID] Interval           Transfer     Bitrate",
        (false, false) => "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd",
    };
    out += head;
    out.push('\n');
    let mut before = (measured.start_ns, vec![LaneCounts::default(); lanes.len()]);
    let end = (measured.end_ns, measured.last.clone());
    let rest = measured.seconds.iter().chain(std::iter::once(&end));
    for (now, marks) in rest {
        let span = now.saturating_sub(before.0);
        // What is left at the end is a line of its own when it is long enough to say something.
        if span < 100_000_000 {
            continue;
        }
        let counts = before.0.saturating_add(100_000_000) >= measured.count_ns;
        let zero = if counts { measured.count_ns } else { measured.start_ns };
        let from = before.0.saturating_sub(zero) as f64 / 1e9;
        let to = now.saturating_sub(zero) as f64 / 1e9;
        for ((lane, mark), old) in lanes.iter().zip(marks).zip(&before.1) {
            let note = if counts { "" } else { "(omitted)" };
            line(&mut out, plan, lane, (from, to), &mark.since(old), note);
        }
        before = (*now, marks.clone());
    }
    let _ = writeln!(out, "{LINE}\n{head}");
    for (lane, mark) in lanes.iter().zip(measured.counted()) {
        let seconds = lasted(plan, lane, measured);
        let who = if lane.sends { "sender" } else { "receiver" };
        line(&mut out, plan, lane, (0.0, seconds), &mark, who);
    }
    out
}

fn line(
    out: &mut String,
    plan: &ServePlan,
    lane: &ServedLane,
    (from, to): (f64, f64),
    mark: &LaneCounts,
    note: &str,
) {
    let rate = if to > from { mark.moment.bytes as f64 * 8.0 / (to - from) } else { 0.0 };
    let mut text = format!(
        "[{:>3}] {from:>6.2}-{to:<6.2} sec  {}  {}",
        lane.id,
        binary(mark.moment.bytes as f64, "Bytes", 1024.0),
        binary(rate, "bits/sec", 1000.0)
    );
    match (plan.udp, lane.sends) {
        (true, false) => {
            let (lost, all) = (mark.moment.lost, mark.expected);
            let share = 100.0 * lost as f64 / all.max(1) as f64;
            let jitter = mark.rfc_jitter_ns as f64 / 1e6;
            let _ = write!(text, "  {jitter:.3} ms  {lost}/{all} ({share:.2}%)");
        }
        (true, true) => {
            let _ = write!(text, "  {}", mark.moment.packets);
        }
        (false, true) => {
            let cwnd = binary(mark.moment.cwnd as f64, "Bytes", 1024.0);
            let _ = write!(text, "  {:>3}  {cwnd}", mark.moment.retransmits);
        }
        (false, false) => {}
    }
    let _ = writeln!(out, "{}", format!("{text}  {note}").trim_end());
}

/// As iperf3 writes amounts: four places, prefixes of 1024 for bytes and of 1000 for bits.
fn binary(value: f64, unit: &str, step: f64) -> String {
    let mut value = value;
    let mut prefix = "";
    for next in ["K", "M", "G", "T"] {
        if value < step {
            break;
        }
        value /= step;
        prefix = next;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:>4.digits$} {prefix}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_iperf3_does() {
        let said = [0.0, 131_072.0, 6_291_456.0].map(|v| binary(v, "Bytes", 1024.0));
        assert_eq!(said, ["0.00 Bytes", " 128 KBytes", "6.00 MBytes"]);
        assert_eq!(binary(50_300_000.0, "bits/sec", 1000.0), "50.3 Mbits/sec");
    }
}
