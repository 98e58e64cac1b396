//! From the replies that `ping` printed to all packets that were sent: a number that is missing is a lost packet.

use crate::document::Experiment;
use crate::{MOST_PACKETS, PickleError};

/// What became of one packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fate {
    /// Answered, after so many milliseconds.
    Answered(f64),
    /// A further reply to a packet that was answered already.
    Duplicate(f64),
    /// No reply.
    Lost,
}

/// One packet, or a further reply to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Packet {
    /// Its number, from 0.
    pub seq: u64,
    /// What became of it.
    pub fate: Fate,
}

/// Numbers of packets in ICMP have 16 bits.
const WRAP: u64 = 1 << 16;

impl Experiment {
    /// All packets in order of their numbers, further replies after the first. `planned` is how many were to be sent; it counts where
    /// the file has no summary of `ping` for this stream, so that packets lost at the end are counted too.
    ///
    /// # Errors
    /// [`PickleError::TooMany`] when the numbers stand for more packets than a file may.
    pub fn packets(&self, planned: Option<u64>) -> Result<Vec<Packet>, PickleError> {
        let sent = self.summary.map(|s| s.transmitted).or(planned).unwrap_or(0);
        let numbers = self.numbers(sent);
        let highest = numbers.iter().max().map_or(0, |n| n + 1);
        let count = usize::try_from(sent.max(highest)).unwrap_or(usize::MAX);
        if count > MOST_PACKETS {
            return Err(PickleError::TooMany);
        }
        let mut replies: Vec<(u64, f64)> =
            numbers.into_iter().zip(self.replies.iter().map(|r| r.rtt_ms)).collect();
        // Stable: of several replies to one packet, the one that ping printed first is its answer.
        replies.sort_by_key(|(seq, _)| *seq);
        let mut replies = replies.into_iter().peekable();
        let mut packets = Vec::with_capacity(count);
        for seq in 0..count as u64 {
            let mut next = || replies.next_if(|(number, _)| *number == seq);
            let Some((_, ms)) = next() else {
                packets.push(Packet { seq, fate: Fate::Lost });
                continue;
            };
            packets.push(Packet { seq, fate: Fate::Answered(ms) });
            while let Some((_, ms)) = next() {
                packets.push(Packet { seq, fate: Fate::Duplicate(ms) });
            }
        }
        Ok(packets)
    }

    /// Numbers of the replies from 0. `ping` counts from 1, and from 0 in old versions; a number beyond 16 bits begins anew.
    fn numbers(&self, sent: u64) -> Vec<u64> {
        let wraps = sent >= WRAP;
        let from_0 =
            self.replies.iter().take(if wraps { 1 } else { usize::MAX }).any(|r| r.seq == 0);
        let first = u64::from(!from_0);
        let mut begun = 0;
        let mut last = 0;
        let number = |seq: u64| {
            if wraps && seq < WRAP {
                // Replies may overtake each other, but not by half of all numbers.
                if seq + WRAP / 2 < last {
                    begun += WRAP;
                }
                last = seq;
                return (begun + seq).saturating_sub(first);
            }
            seq.saturating_sub(first)
        };
        self.replies.iter().map(|r| r.seq).map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Reply, Summary};

    fn stream(replies: &[(u64, f64)], sent: Option<u64>) -> Experiment {
        Experiment {
            id: "a".into(),
            host: "h".into(),
            tos: None,
            replies: replies
                .iter()
                .map(|(seq, rtt_ms)| Reply { seq: *seq, ttl: None, rtt_ms: *rtt_ms })
                .collect(),
            summary: sent.map(|transmitted| Summary { transmitted, received: 0 }),
        }
    }

    fn told(packets: &[Packet]) -> String {
        let fate = |p: &Packet| match p.fate {
            Fate::Answered(ms) => format!("{}:{ms}", p.seq),
            Fate::Duplicate(ms) => format!("{}:{ms}again", p.seq),
            Fate::Lost => format!("{}:lost", p.seq),
        };
        packets.iter().map(fate).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn missing_numbers_are_lost_up_to_the_last_packet_sent() {
        let replies = [(2, 20.0), (1, 21.0), (4, 22.0), (4, 30.0)];
        let packets = stream(&replies, Some(6)).packets(None).unwrap();
        assert_eq!(told(&packets), "0:21 1:20 2:lost 3:22 3:30again 4:lost 5:lost");
        // Without ping's summary the planned count tells it, without either the last reply.
        assert_eq!(stream(&replies, None).packets(Some(5)).unwrap().len(), 6);
        assert_eq!(told(&stream(&[(3, 1.0)], None).packets(None).unwrap()), "0:lost 1:lost 2:1");
        assert_eq!(stream(&[], Some(3)).packets(None).unwrap().len(), 3);
    }

    #[test]
    fn an_old_ping_counts_from_0() {
        let packets = stream(&[(0, 1.0), (2, 3.0)], Some(3)).packets(None).unwrap();
        assert_eq!(told(&packets), "0:1 1:lost 2:3");
    }

    #[test]
    fn numbers_that_begin_anew_go_on() {
        let replies: Vec<(u64, f64)> =
            (1..=70_000_u64).filter(|n| n % 1000 != 0).map(|n| (n % WRAP, 1.0)).collect();
        let packets = stream(&replies, Some(70_000)).packets(None).unwrap();
        assert_eq!(packets.len(), 70_000);
        let lost: Vec<u64> =
            packets.iter().filter(|p| p.fate == Fate::Lost).map(|p| p.seq).collect();
        assert_eq!(lost, (1..=70).map(|n| n * 1000 - 1).collect::<Vec<_>>());
    }

    #[test]
    fn counts_that_can_not_be_are_refused() {
        for stream in [stream(&[], Some(1 << 40)), stream(&[(1 << 50, 1.0)], Some(3))] {
            assert_eq!(stream.packets(None), Err(PickleError::TooMany));
        }
        assert_eq!(stream(&[], None).packets(Some(1 << 50)), Err(PickleError::TooMany));
    }
}
