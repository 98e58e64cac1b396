//! Packets by number: what is missing between two numbers is lost, what is there twice is a further answer.

use crate::error::ForeignError;
use quell_model::{EchoSample, EchoStatus};

/// Puts packets in the order of their numbers, and adds those that are missing as lost, at the times between their neighbours. Numbers
/// begin at the least that is there. Of all streams of a file there may be so many `left`.
pub(crate) fn by_number(
    mut packets: Vec<EchoSample>,
    left: &mut usize,
) -> Result<Vec<EchoSample>, ForeignError> {
    // Stable: of several answers to one packet the first that the file tells is its answer, unless the file says that it is another's second.
    packets.sort_by_key(|p| (p.seq, p.status == EchoStatus::Duplicate));
    let Some((first, last)) = packets.first().zip(packets.last()) else { return Ok(packets) };
    let (first, numbers) = (first.seq, last.seq - first.seq);
    let again = packets.windows(2).filter(|two| two[0].seq == two[1].seq).count();
    let most = usize::try_from(numbers).unwrap_or(usize::MAX).saturating_add(again + 1);
    *left = left.checked_sub(most).ok_or(ForeignError::TooMany)?;
    let mut all: Vec<EchoSample> = Vec::with_capacity(packets.len());
    for mut packet in packets {
        packet.seq -= first;
        let before = all.last().filter(|before| before.seq == packet.seq);
        if before.is_none() && packet.status == EchoStatus::Duplicate {
            // The only answer that the file tells of.
            packet.status = EchoStatus::Ok;
        }
        if let Some(before) = before {
            let is_known = before.status != EchoStatus::Unsure && !before.status.is_lost();
            if packet.status.is_answered() && !is_known {
                // It was said to be lost, and came all the same.
                all.pop();
            } else if packet.status.is_answered() {
                packet.status = EchoStatus::Duplicate;
            } else if packet.status != EchoStatus::Duplicate {
                continue;
            }
        }
        if let Some(before) = all.last() {
            let (t, seq, bytes) = (before.t_ns, before.seq, before.bytes);
            let steps = packet.seq.saturating_sub(seq).max(1);
            for step in 1..steps {
                let at = t + ((packet.t_ns - t) as f64 * step as f64 / steps as f64) as i64;
                all.push(EchoSample::new(at, seq + step, bytes, EchoStatus::Lost));
            }
        }
        all.push(packet);
    }
    *left += most - all.len();
    Ok(all)
}

/// Numbers the answers in the order in which they came, by when each one did.
pub(crate) fn arrivals(packets: &mut [EchoSample]) {
    let mut came: Vec<(i64, usize)> = packets
        .iter()
        .enumerate()
        .filter_map(|(at, p)| Some((p.t_ns.saturating_add(i64::try_from(p.rtt_ns?).ok()?), at)))
        .collect();
    came.sort_unstable();
    for (order, (_, at)) in came.into_iter().enumerate() {
        packets[at].down_order = Some(order as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: u64, ms: u64) -> EchoSample {
        let t_ns = seq as i64 * 100;
        EchoSample { rtt_ns: Some(ms), ..EchoSample::new(t_ns, seq, 56, EchoStatus::Ok) }
    }

    #[test]
    fn gaps_are_lost_packets_and_second_answers_are_duplicates() {
        let packets = vec![packet(7, 1), packet(3, 2), packet(4, 3), packet(4, 9)];
        let all = by_number(packets, &mut 100).unwrap();
        let told: Vec<_> = all.iter().map(|p| (p.seq, p.t_ns, p.status.name())).collect();
        let wanted = [
            (0, 300, "ok"),
            (1, 400, "ok"),
            (1, 400, "duplicate"),
            (2, 500, "lost"),
            (3, 600, "lost"),
            (4, 700, "ok"),
        ];
        assert_eq!(told, wanted);
    }

    #[test]
    fn as_many_packets_as_there_may_be_are_no_more_than_that() {
        let packets: Vec<_> = (0..50).map(|seq| packet(seq, 1)).collect();
        let mut left = 50;
        assert_eq!(by_number(packets, &mut left).map(|all| all.len()), Ok(50));
        assert_eq!(left, 0);
        assert_eq!(by_number(vec![packet(0, 1)], &mut left), Err(ForeignError::TooMany));
    }

    #[test]
    fn a_number_far_away_is_refused_before_there_is_room_for_it() {
        assert_eq!(
            by_number(vec![packet(0, 1), packet(u64::MAX / 200, 1)], &mut 1000),
            Err(ForeignError::TooMany)
        );
    }
}
