//! What the server reported, held against what this end sent: nobody receives more than that. Pure.

use crate::{StreamMeasurement, Transport};
use quell_wire::iperf3::{Results, StreamResult};

/// The report without the streams of which more is told to have come than was sent, or fewer datagrams to have been sent than came; each such goes
/// into `doubts`, and what it counted is unknown.
pub(crate) fn checked(
    mut report: Results,
    transport: Transport,
    lanes: &[StreamMeasurement],
    doubts: &mut Vec<String>,
) -> Results {
    let streams = std::mem::take(&mut report.streams);
    for lane in lanes {
        let told = streams.iter().find(|stream| stream.id == lane.id);
        match told.map(|told| (told, impossible(told, transport, lane))) {
            Some((told, None)) => report.streams.push(told.clone()),
            Some((_, Some(why))) => doubts
                .push(format!("the server's count of stream {} is impossible: {why}", lane.id)),
            None => doubts.push(format!(
                "the server's count of stream {} is missing or can't be read",
                lane.id
            )),
        }
    }
    report
}

fn impossible(
    told: &StreamResult,
    transport: Transport,
    lane: &StreamMeasurement,
) -> Option<String> {
    let (sent, numbered) = lane.moved;
    if lane.sends && told.bytes > sent {
        return Some(format!("{} bytes received, {sent} sent", told.bytes));
    }
    if transport == Transport::Tcp {
        return None;
    }
    let packets = u64::try_from(told.packets).ok();
    let came = lane.omitted.expected + lane.mark.expected;
    match packets {
        Some(packets) if lane.sends && packets > numbered => {
            Some(format!("{packets} datagrams received, {numbered} sent"))
        }
        Some(packets) if !lane.sends && packets < came => {
            Some(format!("{packets} datagrams sent, number {came} received"))
        }
        Some(_) if (0..=told.packets).contains(&told.errors) => None,
        _ => Some(format!("{} datagrams, {} lost", told.packets, told.errors)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LaneCounts;
    use quell_wire::iperf3::Moment;

    #[test]
    fn nobody_receives_more_than_was_sent() {
        use Transport::{Tcp, Udp};
        // 4 datagrams of 1000 bytes.
        let moment = Moment { bytes: 4000, packets: 4, ..Moment::default() };
        let mark = LaneCounts { moment, expected: 4, ..LaneCounts::default() };
        let told = |bytes, packets, errors| StreamResult {
            id: 1,
            bytes,
            packets,
            errors,
            ..StreamResult::default()
        };
        for (story, transport, sends, told, is_believed) in [
            ("all of it", Tcp, true, told(4000, 0, 0), true),
            ("more than was sent", Tcp, true, told(4001, 0, 0), false),
            ("it sent less than it says", Tcp, false, told(1, 0, 0), true),
            ("all datagrams", Udp, true, told(4000, 4, 0), true),
            ("one is lost", Udp, true, told(3000, 4, 1), true),
            ("a datagram more", Udp, true, told(4000, 5, 1), false),
            ("twice the bytes", Udp, true, told(8000, 4, 0), false),
            ("more lost than sent", Udp, true, told(0, 4, 5), false),
            ("less than none", Udp, true, told(4000, 4, -5), false),
            ("sent as many as came", Udp, false, told(4000, 4, 0), true),
            ("sent fewer than came", Udp, false, told(3000, 3, 0), false),
        ] {
            let lanes = [StreamMeasurement::example(sends, LaneCounts::default(), mark)];
            let report = Results { streams: vec![told], ..Results::default() };
            let mut doubts = Vec::new();
            let report = checked(report, transport, &lanes, &mut doubts);
            assert_eq!(report.streams.len(), usize::from(is_believed), "{story}: {doubts:?}");
            assert_eq!(doubts.is_empty(), is_believed, "{story}: {doubts:?}");
        }
    }
}
