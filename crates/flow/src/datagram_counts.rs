//! What became of one stream's datagrams, all counts being of the same ones: those with numbers above the last one that the **receiver** left
//! out. Pure.
//!
//! ```text
//!   numbers   1 ────────── base │ base + 1 ──────────── the last that arrived │ ──── the last that was sent
//!             omitted           │ arrived, lost                               │ unseen
//! ```
//!
//! Where the receiver waited for the rest as long as the path shows to be needed, none are unseen: it counts those as lost too.

use crate::{FlowMeasurement, StreamMeasurement};
use quell_stats::jitter::without_start;
use quell_wire::iperf3::StreamResult;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct DatagramCounts {
    pub sent: u64,
    pub arrived: u64,
    pub lost: u64,
    /// RFC 3550's estimate without its start from 0; none where the receiver told none that can be.
    pub jitter_ms: Option<f64>,
    /// The estimate itself, as iperf3 tells it.
    pub rfc_jitter_ms: Option<f64>,
    /// The receiver alone told what was sent, and knows of none behind the last one that arrived.
    pub tail_unknown: bool,
    /// The omitted time is in it: the receiver does not tell it apart.
    pub whole: bool,
}

/// Changes of transit time that a receiver's jitter is of: it counts those of the omitted time too.
pub(crate) fn changes(told: &StreamResult) -> u64 {
    let known = |n: i64| u64::try_from(n).unwrap_or(0);
    known(told.packets).saturating_sub(known(told.errors)).saturating_sub(1)
}

impl DatagramCounts {
    /// None where the receiver did not tell.
    pub fn of(outcome: &FlowMeasurement, lane: &StreamMeasurement) -> Option<Self> {
        let told = outcome.their_stream(lane.id);
        if lane.sends {
            Some(Self::up(outcome, lane, told?))
        } else {
            Some(Self::down(outcome, lane, told))
        }
    }

    fn up(outcome: &FlowMeasurement, lane: &StreamMeasurement, told: &StreamResult) -> Self {
        let known = |n: i64| u64::try_from(n).unwrap_or(0);
        // iperf3 3.12 counts all and does not say how many were omitted.
        let whole = outcome.plan.omit.nanos() > 0 && told.omitted_packets.is_none();
        let base = known(told.omitted_packets.unwrap_or(0));
        let last = known(told.packets);
        let lost = known(told.errors).saturating_sub(known(told.omitted_errors.unwrap_or(0)));
        let sent = (lane.omitted.moment.packets + lane.mark.moment.packets).max(last);
        let rfc_jitter_ms = told.jitter.map(|seconds| seconds * 1e3);
        Self {
            sent: sent.saturating_sub(base),
            arrived: last.saturating_sub(base).saturating_sub(lost),
            lost,
            jitter_ms: rfc_jitter_ms.map(|jitter| without_start(jitter, changes(told))),
            rfc_jitter_ms,
            tail_unknown: false,
            whole,
        }
    }

    fn down(
        outcome: &FlowMeasurement,
        lane: &StreamMeasurement,
        told: Option<&StreamResult>,
    ) -> Self {
        let (arrived, lost) = (lane.mark.moment.packets, lane.mark.moment.lost);
        let tail_unknown = told.is_none();
        let last = told.and_then(|told| u64::try_from(told.packets).ok()).unwrap_or(0);
        // An iperf3 sends on until it hears that the amount has come.
        let last = last.min(outcome.plan.datagrams_of(lane.id, outcome.block).unwrap_or(u64::MAX));
        Self {
            sent: last.saturating_sub(lane.omitted.expected).max(arrived + lost),
            arrived,
            lost,
            jitter_ms: Some(lane.mark.jitter_ns as f64 / 1e6),
            rfc_jitter_ms: Some(lane.mark.rfc_jitter_ns as f64 / 1e6),
            tail_unknown,
            whole: false,
        }
    }

    /// Of several streams; jitter is the mean of theirs, each weighing as many datagrams as arrived: a few that came tell of a few.
    /// Where one of which some arrived is not known, the mean isn't.
    pub fn sum(each: impl IntoIterator<Item = Self>) -> Self {
        let none = Self { jitter_ms: Some(0.0), rfc_jitter_ms: Some(0.0), ..Self::default() };
        each.into_iter().fold(none, |sum, one| Self {
            sent: sum.sent + one.sent,
            arrived: sum.arrived + one.arrived,
            lost: sum.lost + one.lost,
            jitter_ms: sum.mean(&one, |counts| counts.jitter_ms),
            rfc_jitter_ms: sum.mean(&one, |counts| counts.rfc_jitter_ms),
            tail_unknown: sum.tail_unknown || one.tail_unknown,
            whole: sum.whole || one.whole,
        })
    }

    fn mean(&self, other: &Self, of: fn(&Self) -> Option<f64>) -> Option<f64> {
        let all = self.arrived + other.arrived;
        let part = |counts: &Self| match counts.arrived {
            0 => Some(0.0),
            arrived => of(counts).map(|jitter| jitter * arrived as f64),
        };
        Some((part(self)? + part(other)?) / all.max(1) as f64)
    }

    /// Part of those up to the last one that arrived; 1 where none did.
    pub fn loss(&self) -> f64 {
        match (self.arrived, self.sent) {
            (0, 0) => 0.0,
            (0, _) => 1.0,
            _ => self.lost as f64 / (self.lost + self.arrived) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LaneCounts;
    use crate::{FlowPlan, FlowReport, Transport};
    use quell_units::Span;
    use quell_wire::iperf3::{Moment, Results};

    fn counted(packets: u64, lost: u64) -> LaneCounts {
        let moment = Moment { packets, lost, bytes: packets * 1000, ..Moment::default() };
        LaneCounts { moment, expected: packets + lost, ..LaneCounts::default() }
    }

    /// 3 s that do not count and 5 s that do.
    fn outcome(
        sends: bool,
        omitted: LaneCounts,
        mark: LaneCounts,
        told: StreamResult,
    ) -> FlowMeasurement {
        let plan = FlowPlan {
            transport: Transport::Udp,
            direction: if sends { crate::Senders::Up } else { crate::Senders::Down },
            omit: Span::from_secs(3),
            ..FlowPlan::new("there", ([127, 0, 0, 1], 5201).into())
        };
        let theirs = Results { streams: vec![told], ..Results::default() };
        FlowMeasurement::example(
            plan,
            vec![StreamMeasurement::example(sends, omitted, mark)],
            Some(theirs),
        )
    }

    #[test]
    fn a_servers_estimate_of_few_datagrams_is_told_without_its_start() {
        // Three came, of which two differ from the one before by 1.6 ms: J is 0.1, then 0.19375 ms.
        let told = StreamResult {
            id: 1,
            packets: 4,
            errors: 1,
            jitter: Some(193.75e-6),
            ..StreamResult::default()
        };
        let outcome = outcome(true, LaneCounts::default(), counted(4, 0), told);
        let counts = DatagramCounts::of(&outcome, &outcome.lanes[0]).expect("told");
        assert!((counts.jitter_ms.unwrap() - 1.6).abs() < 1e-9, "{counts:?}");
        assert!((counts.rfc_jitter_ms.unwrap() - 0.19375).abs() < 1e-9, "{counts:?}");
    }

    /// What Quell's server tells of 1340 omitted datagrams and 2232 that count, of which 23 are lost.
    fn quell() -> StreamResult {
        StreamResult {
            id: 1,
            bytes: 2_209_000,
            errors: 23,
            omitted_errors: Some(0),
            packets: 3572,
            omitted_packets: Some(1340),
            end_time: 5.0,
            ..StreamResult::default()
        }
    }

    #[test]
    fn loss_is_of_the_same_datagrams_as_its_counts_with_a_time_that_does_not_count() {
        let outcome = outcome(true, counted(1340, 0), counted(2232, 0), quell());
        let datagrams = FlowReport::of(&outcome).up.unwrap().datagrams.unwrap();
        assert_eq!((datagrams.sent, datagrams.arrived, datagrams.lost), (2232, 2209, 23));
        assert_eq!((datagrams.unseen, datagrams.omitted_included), (0, false));
        assert!((datagrams.loss - 23.0 / 2232.0).abs() < 1e-9, "{}", datagrams.loss);
        let iperf = crate::iperf_json::document(&outcome);
        assert_eq!(iperf["end"]["sum"]["packets"], 2232);
        let percent = iperf["end"]["sum"]["lost_percent"].as_f64().unwrap();
        assert!((percent - 2300.0 / 2232.0).abs() < 1e-9, "{percent}");
    }

    /// One got 864 datagrams over and another 17, of which each came behind a drop.
    #[test]
    fn a_stream_of_which_next_to_nothing_arrived_hardly_tells_of_the_jitter_of_all() {
        let unknown = |arrived| DatagramCounts { sent: 864, arrived, ..DatagramCounts::default() };
        let stream = |arrived, ms| DatagramCounts { jitter_ms: Some(ms), ..unknown(arrived) };
        let told =
            |streams: &[DatagramCounts]| DatagramCounts::sum(streams.iter().copied()).jitter_ms;
        let near = |told: Option<f64>, truth: f64| told.is_some_and(|t| (t - truth).abs() < 1e-9);
        let all = told(&[stream(864, 2.0), stream(17, 90.0), stream(0, 500.0), unknown(0)]);
        assert!(near(all, (864.0 * 2.0 + 17.0 * 90.0) / 881.0), "{all:?}");
        let alike = told(&[stream(500, 1.0), stream(500, 2.0), stream(500, 6.0)]);
        assert!(near(alike, 3.0), "iperf3's mean over streams: {alike:?}");
        assert_eq!(told(&[stream(0, 500.0)]), Some(0.0));
        assert_eq!(told(&[stream(500, 1.0), unknown(1)]), None);
    }

    #[test]
    fn where_the_server_is_gone_nobody_knows_what_it_sent_last() {
        let told = outcome(
            false,
            counted(0, 0),
            counted(213, 0),
            StreamResult { id: 1, packets: 415, ..StreamResult::default() },
        );
        let gone = FlowMeasurement {
            theirs: None,
            ..outcome(false, counted(0, 0), counted(213, 0), quell())
        };
        let datagrams = |outcome| FlowReport::of(&outcome).down.unwrap().datagrams.unwrap();
        let told = datagrams(told);
        assert_eq!((told.sent, told.unseen, told.tail_unknown), (415, 202, false));
        let gone = datagrams(gone);
        assert_eq!((gone.sent, gone.lost, gone.tail_unknown), (213, 0, true));
    }

    #[test]
    fn a_receiver_that_began_to_count_earlier_is_asked_of_its_own_datagrams() {
        // Counting began there a round trip of 40 datagrams before it did here.
        let told = StreamResult { omitted_packets: Some(1300), ..quell() };
        let outcome = outcome(true, counted(1340, 0), counted(2232, 0), told);
        let counts = DatagramCounts::of(&outcome, &outcome.lanes[0]).unwrap();
        assert_eq!((counts.sent, counts.arrived, counts.lost), (2272, 2249, 23));
        // Of 1000 bytes: both ends' bytes are of the same ones.
        let sent = FlowReport::of(&outcome).up.unwrap().sent_bytes;
        assert_eq!(sent, Some(2_272_000));
    }

    #[test]
    fn where_nothing_arrives_all_is_lost_though_no_later_one_tells_so() {
        let told = StreamResult { packets: 0, omitted_packets: Some(0), errors: 0, ..quell() };
        let outcome = outcome(true, counted(0, 0), counted(235, 0), told);
        let datagrams = FlowReport::of(&outcome).up.unwrap().datagrams.unwrap();
        assert_eq!((datagrams.sent, datagrams.arrived, datagrams.loss), (235, 0, 1.0));
        assert_eq!((datagrams.lost, datagrams.unseen), (0, 235));
    }

    #[test]
    fn what_an_old_iperf3_does_not_tell_apart_is_counted_whole_and_said() {
        let told =
            StreamResult { omitted_errors: None, omitted_packets: None, errors: 36, ..quell() };
        let outcome = outcome(true, counted(1340, 0), counted(2232, 0), told);
        let datagrams = FlowReport::of(&outcome).up.unwrap().datagrams.unwrap();
        assert_eq!((datagrams.sent, datagrams.arrived, datagrams.lost), (3572, 3536, 36));
        assert!(datagrams.omitted_included);
    }

    #[test]
    fn datagrams_of_the_time_that_does_not_count_are_not_missed_on_the_way_down() {
        let told = StreamResult { errors: 0, ..quell() };
        let outcome = outcome(false, counted(1340, 0), counted(2232, 0), told);
        let datagrams = FlowReport::of(&outcome).down.unwrap().datagrams.unwrap();
        assert_eq!((datagrams.sent, datagrams.arrived, datagrams.unseen), (2232, 2232, 0));
    }
}
