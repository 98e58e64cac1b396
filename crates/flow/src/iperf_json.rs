//! A test in the words of `iperf3 -J` (3.12): for scripts that read those.

use crate::LaneCounts;
use crate::datagram_counts::DatagramCounts;
use crate::report;
use crate::{Amount, FlowMeasurement, Interval, Senders, StreamMeasurement, Transport};
use quell_units::time::http_date;
use serde_json::{Map, Value, json};
use std::time::UNIX_EPOCH;

/// The whole document. With an `error` where the test broke.
pub fn document(outcome: &FlowMeasurement) -> Value {
    let mut all = Map::new();
    all.insert("start".into(), start(outcome));
    all.insert(
        "intervals".into(),
        outcome.intervals.iter().map(|i| interval(outcome, i)).collect(),
    );
    all.insert("end".into(), end(outcome));
    let theirs = outcome.theirs.as_ref();
    let said = [
        ("server_output_text", theirs.and_then(|t| t.server_output_text.clone()).map(Value::from)),
        ("server_output_json", theirs.and_then(|t| t.server_output_json.clone())),
        ("extra_data", outcome.plan.extra_data.clone().map(Value::from)),
    ];
    all.extend(said.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    if let Some(broke) = &outcome.broke {
        all.insert("error".into(), broke.clone().into());
    } else if !outcome.doubts.is_empty() {
        let doubts = outcome.doubts.join("; ");
        all.insert("error".into(), format!("unknown: {doubts}").into());
    }
    all.into()
}

fn udp(outcome: &FlowMeasurement) -> bool {
    outcome.plan.transport == Transport::Udp
}

fn start(outcome: &FlowMeasurement) -> Value {
    let plan = &outcome.plan;
    let connected = outcome.lanes.iter().map(|lane| {
        json!({
            "socket": lane.number,
            "local_host": lane.local.ip().to_string(),
            "local_port": lane.local.port(),
            "remote_host": lane.remote.ip().to_string(),
            "remote_port": lane.remote.port(),
        })
    });
    let seconds = outcome.started.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let buffers = outcome.lanes.first().map_or((None, None), |lane| lane.buffers);
    let uname = nix::sys::utsname::uname().map_or_else(
        |_| String::new(),
        |u| {
            let parts = [u.sysname(), u.nodename(), u.release(), u.version(), u.machine()];
            parts.map(|part| part.to_string_lossy().into_owned()).join(" ")
        },
    );
    let mut start = json!({
        "connected": connected.collect::<Value>(),
        "version": concat!("quell ", env!("CARGO_PKG_VERSION")),
        "system_info": uname,
        "timestamp": { "time": http_date(outcome.started), "timesecs": seconds },
        "connecting_to": { "host": plan.host, "port": plan.control.port() },
        "cookie": outcome.cookie,
    });
    if !udp(outcome) {
        start["tcp_mss_default"] = outcome.control_mss.into();
    }
    start["target_bitrate"] = plan.rate.unwrap_or(0).into();
    start["sock_bufsize"] = plan.window.unwrap_or(0).into();
    start["sndbuf_actual"] = buffers.0.into();
    start["rcvbuf_actual"] = buffers.1.into();
    start["test_start"] = json!({
        "protocol": plan.transport.name(),
        "num_streams": plan.streams,
        "blksize": outcome.block,
        "omit": plan.omit.nanos() / 1_000_000_000,
        "duration": match plan.amount { Amount::Time(time) => time.as_secs_f64(), Amount::Bytes(_) => 0.0 } as u64,
        "bytes": match plan.amount { Amount::Bytes(bytes) => bytes, Amount::Time(_) => 0 },
        "blocks": 0,
        "reverse": u8::from(plan.direction == Senders::Down),
        "tos": plan.tos,
        "target_bitrate": plan.rate.unwrap_or(0),
    });
    start
}

fn row(start: f64, end: f64, bytes: u64) -> Value {
    let seconds = (end - start).max(0.0);
    json!({
        "start": start,
        "end": end,
        "seconds": seconds,
        "bytes": bytes,
        "bits_per_second": if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 },
    })
}

fn percent(lost: u64, all: u64) -> f64 {
    if all > 0 { lost as f64 * 100.0 / all as f64 } else { 0.0 }
}

fn interval(outcome: &FlowMeasurement, interval: &Interval) -> Value {
    let shift = outcome.plan.omit.as_secs_f64();
    // Theirs begin at 0 with the time that does not count, and again at 0 with the one that does.
    let (from, to) = match interval.omitted {
        true => (interval.start_s + shift, interval.end_s + shift),
        false => (interval.start_s, interval.end_s),
    };
    let streams = interval.lanes.iter().map(|lane| {
        let m = &lane.mark.moment;
        let mut value = row(from, to, m.bytes);
        let number = outcome.lanes.iter().find(|l| l.id == lane.id).map_or(0, |l| l.number);
        value["socket"] = number.into();
        if udp(outcome) {
            datagrams(&mut value, &lane.mark, lane.sends);
        } else if lane.sends {
            value["retransmits"] = m.retransmits.into();
            value["snd_cwnd"] = m.cwnd.into();
            value["snd_wnd"] = m.window.into();
            value["rtt"] = m.srtt_us.into();
            value["rttvar"] = m.rttvar_us.into();
            value["pmtu"] = m.pmtu.into();
        }
        value["omitted"] = interval.omitted.into();
        value["sender"] = lane.sends.into();
        value
    });
    let mut value = json!({ "streams": streams.collect::<Value>() });
    for (name, sends) in sums(outcome, "sum", "sum_bidir_reverse") {
        let lanes: Vec<_> = interval.lanes.iter().filter(|l| l.sends == sends).collect();
        let total = lanes.iter().fold(LaneCounts::default(), |sum, l| add(&sum, &l.mark));
        let mut sum = row(from, to, total.moment.bytes);
        if udp(outcome) {
            datagrams(&mut sum, &average(total, lanes.len()), sends);
        } else if sends {
            sum["retransmits"] = total.moment.retransmits.into();
        }
        sum["omitted"] = interval.omitted.into();
        sum["sender"] = sends.into();
        value[name] = sum;
    }
    value
}

fn datagrams(value: &mut Value, mark: &LaneCounts, sends: bool) {
    if sends {
        value["packets"] = mark.moment.packets.into();
        return;
    }
    value["jitter_ms"] = (mark.rfc_jitter_ns as f64 / 1e6).into();
    value["lost_packets"] = mark.moment.lost.into();
    value["packets"] = mark.expected.into();
    value["lost_percent"] = percent(mark.moment.lost, mark.expected).into();
}

fn add(sum: &LaneCounts, more: &LaneCounts) -> LaneCounts {
    let mut all = *sum;
    all.moment.bytes += more.moment.bytes;
    all.moment.packets += more.moment.packets;
    all.moment.lost += more.moment.lost;
    all.moment.retransmits += more.moment.retransmits;
    all.expected += more.expected;
    all.reordered += more.reordered;
    all.rfc_jitter_ns += more.rfc_jitter_ns;
    all
}

fn average(mut sum: LaneCounts, streams: usize) -> LaneCounts {
    sum.rfc_jitter_ns /= streams.max(1) as u64;
    sum
}

/// Names of sums: of the first direction, and of the other where there are two.
fn sums(
    outcome: &FlowMeasurement,
    first: &'static str,
    second: &'static str,
) -> Vec<(&'static str, bool)> {
    match outcome.plan.direction {
        Senders::Up => vec![(first, true)],
        Senders::Down => vec![(first, false)],
        Senders::Both => vec![(first, true), (second, false)],
    }
}

/// Bytes, none where they are not known; and seconds, none where there is no such time.
type Counted = Option<(u64, Option<f64>)>;

fn sum(all: impl Iterator<Item = Counted>) -> Counted {
    let mut sum = (0, None);
    for one in all {
        let (bytes, seconds) = one?;
        sum = (sum.0 + bytes, [sum.1, seconds].into_iter().flatten().reduce(f64::max));
    }
    Some(sum)
}

/// The row of one; null for what is not known.
fn counted_row(counted: Counted) -> Value {
    match counted {
        Some((bytes, Some(seconds))) => row(0.0, seconds, bytes),
        other => json!({
            "start": 0.0,
            "end": null,
            "seconds": null,
            "bytes": other.map(|(bytes, _)| bytes),
            "bits_per_second": null,
        }),
    }
}

/// Both ends of a stream: sender's and receiver's bytes and seconds.
fn both(outcome: &FlowMeasurement, lane: &StreamMeasurement) -> (Counted, Counted) {
    let told = outcome.their_stream(lane.id);
    let received = report::received_in(outcome, lane);
    if lane.sends {
        let sent = (lane.mark.moment.bytes, lane.seconds.or(Some(outcome.seconds)));
        (Some(sent), told.map(|t| (t.bytes, received)))
    } else {
        // The server tells how long the test took: an amount may have been through before it. A Quell knows for how long it sent datagrams.
        let quell = outcome.theirs.as_ref().is_some_and(|theirs| theirs.quell.is_some());
        let own = received.filter(|_| {
            matches!(outcome.plan.amount, Amount::Bytes(_)) && !(quell && udp(outcome))
        });
        let sent = told.map(|t| (t.bytes, own.or(Some(t.end_time - t.start_time))));
        (sent, Some((lane.mark.moment.bytes, received)))
    }
}

fn end(outcome: &FlowMeasurement) -> Value {
    let mut value = json!({
        "streams": outcome.lanes.iter().map(|lane| stream_end(outcome, lane)).collect::<Value>(),
    });
    if udp(outcome) {
        udp_sums(outcome, &mut value);
    } else {
        let all = sums(outcome, "sum_sent", "sum_sent_bidir_reverse").into_iter().zip(sums(
            outcome,
            "sum_received",
            "sum_received_bidir_reverse",
        ));
        for ((sent, sends), (received, _)) in all {
            let lanes = || outcome.lanes.iter().filter(|l| l.sends == sends);
            let total = |sender: bool| {
                let each = lanes().map(|lane| {
                    let (s, r) = both(outcome, lane);
                    if sender { s } else { r }
                });
                sum(each)
            };
            let (from, to) = (total(true), total(false));
            value[sent] = counted_row(from);
            value[sent]["retransmits"] =
                lanes().map(|l| retransmits(outcome, l)).sum::<u64>().into();
            value[sent]["sender"] = sends.into();
            value[received] = counted_row(to);
            value[received]["sender"] = sends.into();
        }
    }
    let there = outcome.theirs.as_ref();
    value["cpu_utilization_percent"] = json!({
        "host_total": outcome.ours.cpu_util_total,
        "host_user": outcome.ours.cpu_util_user,
        "host_system": outcome.ours.cpu_util_system,
        "remote_total": there.and_then(|t| t.cpu_util_total),
        "remote_user": there.and_then(|t| t.cpu_util_user),
        "remote_system": there.and_then(|t| t.cpu_util_system),
    });
    if !udp(outcome) {
        let here = outcome.ours.congestion_used.clone();
        let there = there.and_then(|t| t.congestion_used.clone());
        let reverse = outcome.plan.direction == Senders::Down;
        let (sender, receiver) = if reverse { (there, here) } else { (here, there) };
        value["sender_tcp_congestion"] = sender.into();
        value["receiver_tcp_congestion"] = receiver.into();
    }
    value
}

fn retransmits(outcome: &FlowMeasurement, lane: &StreamMeasurement) -> u64 {
    match lane.sends {
        true => lane.mark.moment.retransmits,
        false => {
            outcome.their_stream(lane.id).map_or(0, |t| u64::try_from(t.retransmits).unwrap_or(0))
        }
    }
}

fn stream_end(outcome: &FlowMeasurement, lane: &StreamMeasurement) -> Value {
    let (sent, received) = both(outcome, lane);
    if udp(outcome) {
        let udp = udp_end(outcome, lane);
        let mut value = counted_row(sent);
        value["socket"] = lane.number.into();
        value["jitter_ms"] = udp.jitter_ms.into();
        value["lost_packets"] = udp.lost.into();
        value["packets"] = udp.packets.into();
        value["lost_percent"] = udp.lost.map(|lost| percent(lost, udp.packets)).into();
        value["out_of_order"] = lane.mark.reordered.into();
        value["sender"] = lane.sends.into();
        return json!({ "udp": value });
    }
    let mut sender = counted_row(sent);
    sender["socket"] = lane.number.into();
    sender["retransmits"] = retransmits(outcome, lane).into();
    // A sender's own view: theirs has zeros where the other end sends.
    let counted = || lane.moments.iter().filter(|m| lane.sends && m.t_ns >= 0 && m.srtt_us > 0);
    let rtts: Vec<u64> = counted().map(|m| m.srtt_us).collect();
    sender["max_snd_cwnd"] = counted().map(|m| m.cwnd).max().unwrap_or(0).into();
    sender["max_snd_wnd"] = counted().map(|m| m.window).max().unwrap_or(0).into();
    sender["max_rtt"] = rtts.iter().copied().max().unwrap_or(0).into();
    sender["min_rtt"] = rtts.iter().copied().min().unwrap_or(0).into();
    sender["mean_rtt"] = (rtts.iter().sum::<u64>() / rtts.len().max(1) as u64).into();
    sender["sender"] = lane.sends.into();
    let mut receiver = counted_row(received);
    receiver["socket"] = lane.number.into();
    receiver["sender"] = lane.sends.into();
    json!({ "sender": sender, "receiver": receiver })
}

struct UdpEnd {
    /// None where nobody knows.
    jitter_ms: Option<f64>,
    /// None where nobody knows.
    lost: Option<u64>,
    packets: u64,
    /// Those that were sent, of which the sender's bytes are.
    sent: u64,
}

fn udp_end(outcome: &FlowMeasurement, lane: &StreamMeasurement) -> UdpEnd {
    let told = outcome.their_stream(lane.id).filter(|_| !lane.sends);
    let sent = told
        .and_then(|t| u64::try_from(t.packets.saturating_sub(t.omitted_packets.unwrap_or(0))).ok());
    let sent = sent.unwrap_or(lane.mark.moment.packets);
    match DatagramCounts::of(outcome, lane) {
        Some(counts) => UdpEnd {
            sent,
            jitter_ms: counts.rfc_jitter_ms,
            lost: Some(counts.lost),
            packets: counts.lost + counts.arrived,
        },
        None => UdpEnd { jitter_ms: None, lost: None, packets: lane.mark.moment.packets, sent },
    }
}

fn udp_sums(outcome: &FlowMeasurement, value: &mut Value) {
    let groups = match outcome.plan.direction {
        Senders::Both => vec![
            (["sum", "sum_sent", "sum_received"], true),
            (["sum_bidir_reverse", "sum_sent_bidir_reverse", "sum_received_bidir_reverse"], false),
        ],
        direction => vec![(["sum", "sum_sent", "sum_received"], direction == Senders::Up)],
    };
    for ([sum, sent, received], sends) in groups {
        let lanes: Vec<_> = outcome.lanes.iter().filter(|l| l.sends == sends).collect();
        let ends: Vec<_> = lanes.iter().map(|lane| udp_end(outcome, lane)).collect();
        let lost: Option<u64> = ends.iter().map(|e| e.lost).sum();
        let packets: u64 = ends.iter().map(|e| e.packets).sum();
        let all: u64 = ends.iter().map(|e| e.sent).sum();
        let jitter: Option<f64> = ends.iter().map(|e| e.jitter_ms).sum();
        let jitter = jitter.map(|sum| sum / ends.len().max(1) as f64);
        let total = |sender: bool| {
            let each = lanes.iter().map(|lane| {
                let (s, r) = both(outcome, lane);
                if sender { s } else { r }
            });
            self::sum(each)
        };
        let (from, to) = (total(true), total(false));
        // What came here has one time.
        let over = match (from, to) {
            (Some((bytes, _)), Some((_, seconds))) if !sends => Some((bytes, seconds)),
            _ => from,
        };
        for (name, counted, of_sender, jitter, lost) in [
            (sum, over, true, jitter, lost),
            (sent, from, true, Some(0.0), Some(0)),
            (received, to, false, jitter, lost),
        ] {
            let mut row = counted_row(counted);
            row["jitter_ms"] = jitter.into();
            row["lost_packets"] = lost.into();
            row["packets"] = if name == sent { all } else { packets }.into();
            row["lost_percent"] = lost.map(|lost| percent(lost, packets)).into();
            row["sender"] = (of_sender && name != sum || name == sum && sends).into();
            value[name] = row;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_wire::iperf3::Moment;

    #[test]
    fn of_an_amount_each_directions_sender_has_its_own_time() {
        use quell_wire::iperf3::{Results, StreamResult};
        let mark = LaneCounts::default();
        let lane = |sends, id, seconds| StreamMeasurement {
            id,
            seconds: Some(seconds),
            ..StreamMeasurement::example(sends, LaneCounts::default(), mark)
        };
        let told = |id| StreamResult { id, bytes: 1000, end_time: 8.0, ..StreamResult::default() };
        let end = |amount| {
            let plan = crate::FlowPlan {
                direction: Senders::Both,
                amount,
                ..crate::FlowPlan::new("there", ([127, 0, 0, 1], 5201).into())
            };
            let theirs = Results { streams: vec![told(1), told(3)], ..Results::default() };
            let lanes = vec![lane(true, 1, 8.0), lane(false, 3, 2.0)];
            document(&FlowMeasurement::example(plan, lanes, Some(theirs)))["end"].clone()
        };
        let bytes = end(Amount::Bytes(1000));
        assert_eq!(bytes["sum_sent"]["seconds"], 8.0, "{bytes:#}");
        assert_eq!(bytes["sum_sent_bidir_reverse"]["seconds"], 2.0, "{bytes:#}");
        assert_eq!(bytes["sum_sent_bidir_reverse"]["bits_per_second"], 4000.0, "{bytes:#}");
        let timed = end(Amount::Time(quell_units::Span::from_secs(8)));
        assert_eq!(timed["sum_sent_bidir_reverse"]["seconds"], 8.0, "{timed:#}");
    }

    #[test]
    fn datagrams_that_waited_in_a_queue_came_for_longer_than_they_were_sent() {
        use quell_wire::iperf3::{Results, StreamResult};
        let moment = Moment { bytes: 100_000, packets: 100, ..Moment::default() };
        let mark = LaneCounts { moment, expected: 100, ..LaneCounts::default() };
        let lane = StreamMeasurement {
            id: 1,
            seconds: Some(5.0),
            ..StreamMeasurement::example(false, LaneCounts::default(), mark)
        };
        let told = StreamResult {
            id: 1,
            bytes: 100_000,
            packets: 100,
            end_time: 4.0,
            ..StreamResult::default()
        };
        let plan = crate::FlowPlan {
            direction: Senders::Down,
            transport: Transport::Udp,
            amount: Amount::Time(quell_units::Span::from_secs(4)),
            ..crate::FlowPlan::new("there", ([127, 0, 0, 1], 5201).into())
        };
        let theirs = Results { streams: vec![told], ..Results::default() };
        let mut outcome = FlowMeasurement::example(plan, vec![lane], Some(theirs));
        outcome.seconds = 4.0;
        let end = document(&outcome)["end"].clone();
        let seconds = ["sum_sent", "sum", "sum_received"].map(|sum| end[sum]["seconds"].clone());
        assert_eq!(seconds, [4.0, 5.0, 5.0].map(Value::from), "{end:#}");
    }

    #[test]
    fn of_an_amount_of_datagrams_a_quell_server_has_its_own_time() {
        use quell_wire::iperf3::{Part, Results, StreamResult};
        let moment = Moment { bytes: 800_000, packets: 800, ..Moment::default() };
        let mark = LaneCounts { moment, expected: 800, ..LaneCounts::default() };
        let sent_for = |direction, quell: Option<Part>| {
            let lane = StreamMeasurement {
                seconds: Some(3.117),
                ..StreamMeasurement::example(false, LaneCounts::default(), mark)
            };
            let plan = crate::FlowPlan {
                direction,
                transport: Transport::Udp,
                amount: Amount::Bytes(800_000),
                ..crate::FlowPlan::new("there", ([127, 0, 0, 1], 5201).into())
            };
            let told = StreamResult {
                id: 1,
                bytes: 800_000,
                packets: 800,
                end_time: 1.6,
                ..StreamResult::default()
            };
            let theirs = Results { streams: vec![told], quell, ..Results::default() };
            let end =
                document(&FlowMeasurement::example(plan, vec![lane], Some(theirs)))["end"].clone();
            let name =
                if direction == Senders::Both { "sum_sent_bidir_reverse" } else { "sum_sent" };
            (end[name]["seconds"].clone(), end[name]["bits_per_second"].clone())
        };
        for direction in [Senders::Down, Senders::Both] {
            let quell = sent_for(direction, Some(Part::default()));
            assert_eq!(quell, (1.6.into(), 4e6.into()));
            // An iperf3 tells how long the test took.
            assert_eq!(sent_for(direction, None).0, 3.117);
        }
    }
}
