//! One echo stream, packet by packet: what a live view, a summary and the report's tables ask for figures.
//!
//! ```text
//!   samples ──► take ──► counts, lateness                                   each packet once, when its fate is known
//!   facts   ──► tell └──► answered packets ──► Orders: delays, jitter, order  ──► result, at any moment
//! ```
//!
//! State: [`EchoFold::exact`] keeps of each packet some hundred bytes, and each figure is exact. [`EchoFold::bounded`] keeps half a megabyte whatever
//! comes, and at most three more where tens of thousands of packets were lost: it is as exact up to 4,096 packets, and beyond that as
//! `orders.rs` says; it has no batches.

use super::orders::{Keep, Orders};
use super::result::{Counts, EchoResult, Transit, Way};
use crate::analysis::flow::BATCHES;
use crate::analysis::lateness::{self, Lateness};
use crate::analysis::one_way::Clocks;
use crate::analysis::stream_facts::Facts;
use quell_model::{EchoSample, EchoStatus, Told};
use quell_stats::{Batch, Running};
use quell_store::EchoSeries;
use std::collections::BTreeMap;

/// Packets said to be lost of which it is remembered, should they come after all: as many as the probers know again.
const GIVEN_UP: usize = 1 << 16;

/// Time of a packet that does not count any more.
const NEVER: i64 = i64::MIN;

/// One stream so far. Packets may come in any order; one that was late may come twice, first as lost.
#[derive(Debug, Clone)]
pub struct EchoFold {
    counts: Counts,
    /// What is known of losses by their number alone, by way.
    losses: Option<BTreeMap<String, u64>>,
    /// Packets that the server left unanswered, or may have.
    unanswered: Option<u64>,
    given_up: BTreeMap<u64, GivenUp>,
    /// When each packet was sent, and what became of it; none where that is not kept.
    fates: Option<Vec<(i64, PacketFate)>>,
    lateness: Lateness,
    seen: Lateness,
    left: Lateness,
    queued: Running,
    orders: Orders,
    apart: Option<bool>,
    first_ns: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketFate {
    Answered,
    Lost,
    Unsure,
}

#[derive(Debug, Clone, Copy)]
struct GivenUp {
    status: EchoStatus,
    late: Option<u64>,
    place: usize,
}

impl EchoFold {
    pub fn exact() -> Self {
        Self { fates: Some(Vec::new()), ..Self::keeping(Keep::All) }
    }

    pub fn bounded() -> Self {
        Self::keeping(Keep::Recent)
    }

    fn keeping(keep: Keep) -> Self {
        Self {
            counts: Counts::default(),
            losses: None,
            unanswered: None,
            given_up: BTreeMap::new(),
            fates: None,
            lateness: Lateness::default(),
            seen: Lateness::default(),
            left: Lateness::default(),
            queued: keep.running(),
            orders: Orders::new(keep),
            apart: None,
            first_ns: None,
        }
    }

    /// A stream of the cell that these facts are of, each packet kept.
    pub fn of(facts: &Facts, series: &EchoSeries) -> Self {
        let mut fold = Self::exact();
        facts.of_stream(&series.stream).iter().for_each(|(what, value)| fold.tell(what, value));
        series.samples.iter().for_each(|s| fold.take(s));
        fold
    }

    /// Takes what became of a packet. Those sent while the loads warmed up don't count, but tell of clocks.
    pub fn take(&mut self, sample: &EchoSample) {
        self.first_ns = Some(self.first_ns.map_or(sample.t_ns, |first| first.min(sample.t_ns)));
        if sample.status.is_answered() {
            self.orders.take(sample, self.is_apart());
        }
        if sample.t_ns < 0 {
            return;
        }
        match sample.status {
            EchoStatus::Unfinished => {
                self.counts.unfinished += 1;
                self.take_back(sample.seq);
                return;
            }
            EchoStatus::NotSent => {
                self.counts.not_sent += 1;
                return;
            }
            EchoStatus::Duplicate => self.counts.duplicates += 1,
            EchoStatus::Ok => {
                self.counts.received += 1;
                let times = (sample.rtt_ns, sample.up_ns, sample.down_ns);
                self.counts.untimed += u64::from(times == (None, None, None));
                self.sent(sample, PacketFate::Answered);
            }
            EchoStatus::Unsure => {
                self.take_back(sample.seq);
                self.counts.unsure += 1;
                self.sent(sample, PacketFate::Unsure);
            }
            EchoStatus::Late => self.late(sample),
            EchoStatus::Error => {
                self.counts.errors += 1;
                self.sent(sample, PacketFate::Lost);
            }
            status @ (EchoStatus::Lost | EchoStatus::LostUp | EchoStatus::LostDown) => {
                self.counts.lose(status);
                let place = self.fates.as_ref().map_or(0, Vec::len);
                self.sent(sample, PacketFate::Lost);
                let late = lateness::latest_ns(sample);
                self.given_up.insert(sample.seq, GivenUp { status, late, place });
                if self.given_up.len() > GIVEN_UP {
                    self.given_up.pop_first();
                }
            }
        }
        self.lateness.take(lateness::latest_ns(sample));
        if sample.status.is_answered() {
            self.seen.take(sample.seen_late_ns);
        }
    }

    fn sent(&mut self, sample: &EchoSample, fate: PacketFate) {
        self.counts.sent += 1;
        self.left.take(sample.sent_late_ns);
        if let Some(queued) = sample.queued_ns {
            self.queued.push(queued);
        }
        if let Some(fates) = &mut self.fates {
            fates.push((sample.t_ns, fate));
        }
    }

    /// A packet that was said to be lost was answered after all; or it is of a run that was kept, which holds only this.
    fn late(&mut self, sample: &EchoSample) {
        self.counts.received_late += 1;
        let Some(before) = self.given_up.remove(&sample.seq) else {
            return self.sent(sample, PacketFate::Answered);
        };
        self.counts.find(before.status);
        self.lateness.take_back(before.late);
        if let Some(fate) = self.fates.as_mut().and_then(|f| f.get_mut(before.place)) {
            fate.1 = PacketFate::Answered;
        }
    }

    /// That a packet is lost is known no more, if it was said: that counts as nothing.
    fn take_back(&mut self, seq: u64) {
        let Some(before) = self.given_up.remove(&seq) else { return };
        self.counts.find(before.status);
        self.counts.sent -= 1;
        self.lateness.take_back(before.late);
        if let Some(fate) = self.fates.as_mut().and_then(|f| f.get_mut(before.place)) {
            fate.0 = NEVER;
        }
    }

    /// Takes what the probe tells of the stream beside its packets: the first that is told of a subject. What is of no known kind is left.
    pub fn tell(&mut self, what: &Told, value: &str) {
        match what {
            Told::Clocks => _ = self.apart.get_or_insert(value == "apart"),
            Told::Losses if self.losses.is_none() => self.losses = serde_json::from_str(value).ok(),
            Told::Unanswered if self.unanswered.is_none() => self.unanswered = value.parse().ok(),
            _ => {}
        }
    }

    pub fn is_apart(&self) -> bool {
        self.apart == Some(true)
    }

    pub fn counts(&self) -> Counts {
        let counts = self.losses.as_ref().map_or(self.counts, |told| self.counts.with_losses(told));
        counts.with_unanswered(self.unanswered.unwrap_or(0))
    }

    pub fn left(&self) -> Lateness {
        self.left
    }

    pub fn seen(&self) -> Lateness {
        self.seen
    }

    pub fn round_trip(&self) -> Way {
        self.orders.round_trip(self.counts.unsure)
    }

    /// When each packet was sent and its time on this way in nanoseconds, in the order of arrival; of a fold that is exact.
    pub(crate) fn transits(&self, of: Transit) -> Vec<(i64, i64)> {
        self.orders.transits(of, self.is_apart())
    }

    /// What [`EchoResult::jitter_of`] says, without all else.
    pub(crate) fn jitter_of(&self) -> Transit {
        if self.orders.all_up(self.is_apart()) { Transit::Up } else { Transit::RoundTrip }
    }

    pub fn result(&self) -> EchoResult {
        let (ways, offset) = self.orders.figures(self.is_apart(), self.counts.unsure);
        let [up, down, rtt] = ways.by_transit;
        let clocks = match (self.is_apart(), offset) {
            (true, None) if ways.some_up => Clocks::Unsteady,
            (false, _) | (_, None) => Clocks::Same,
            (true, Some(offset)) => Clocks::Apart { offset, at_ns: self.first_ns.unwrap_or(0) },
        };
        let one_way = ways.all_up;
        let jitter_of = if one_way { Transit::Up } else { Transit::RoundTrip };
        let batches_of = |is_lost: fn(PacketFate) -> bool| {
            self.fates.as_deref().map_or(Vec::new(), |fates| batches(fates, is_lost))
        };
        let counts = self.counts();
        let mut least = batches_of(|fate| fate == PacketFate::Lost);
        // Which of those without an answer were left unanswered is not known: all stretches alike.
        let all = (counts.lost + counts.errors + counts.unanswered) as f64;
        if counts.unanswered > 0 {
            least.iter_mut().for_each(|b| b.lost *= 1.0 - counts.unanswered as f64 / all);
        }
        EchoResult {
            counts,
            batches: least,
            batches_at_most: batches_of(|fate| fate != PacketFate::Answered),
            reordered: rtt.reordered,
            reordered_up: ways.numbered_up.then_some(up.reordered),
            reordered_down: ways.numbered_down.then_some(down.reordered),
            jitter_up_ms: up.jitter_ms.filter(|_| one_way),
            jitter_down_ms: down.jitter_ms.filter(|_| one_way),
            jitter_rtt_ms: rtt.jitter_ms,
            jitter_last_ms: if one_way { up.jitter_last_ms } else { rtt.jitter_last_ms },
            jitter_of,
            ipdv_ms: if one_way { ways.ipdv_up_ms } else { ways.ipdv_rtt_ms },
            rtt_ms: rtt.delays_ms,
            rtt_at_most_ms: rtt.delays_at_most_ms,
            rtt_each_ms: rtt.each_ms,
            up_ms: up.delays_ms,
            down_ms: down.delays_ms,
            clocks,
            lateness: self.lateness,
            queued_ms: self.queued.summary(1e6),
            seen: self.seen,
            left: self.left,
        }
    }
}

/// Packets sent and lost by stretches of time of the same length, from the first packet to the last.
fn batches(fates: &[(i64, PacketFate)], is_lost: fn(PacketFate) -> bool) -> Vec<Batch> {
    let fates = || fates.iter().filter(|(t_ns, _)| *t_ns != NEVER);
    let times = || fates().map(|(t_ns, _)| *t_ns);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return Vec::new() };
    let mut batches = vec![Batch::default(); BATCHES as usize];
    let length = i128::from(last) - i128::from(first) + 1;
    for (t_ns, fate) in fates() {
        let part = (i128::from(*t_ns) - i128::from(first)) * i128::from(BATCHES) / length;
        let batch = &mut batches[part as usize];
        batch.sent += 1.0;
        batch.lost += f64::from(u8::from(is_lost(*fate)));
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use EchoStatus::{
        Duplicate, Error, Late, Lost, LostDown, LostUp, NotSent, Ok, Unfinished, Unsure,
    };
    use quell_stats::Rng;

    /// A packet of a stream with one every 200 ms.
    fn sample(seq: u64, rtt_ms: Option<u64>, status: EchoStatus) -> EchoSample {
        EchoSample {
            rtt_ns: rtt_ms.map(|ms| ms * 1_000_000),
            ..EchoSample::new((seq * 200_000_000) as i64, seq, 56, status)
        }
    }

    fn taken(mut fold: EchoFold, samples: impl IntoIterator<Item = EchoSample>) -> EchoFold {
        samples.into_iter().for_each(|s| fold.take(&s));
        fold
    }

    fn exact(samples: impl IntoIterator<Item = EchoSample>) -> EchoResult {
        taken(EchoFold::exact(), samples).result()
    }

    #[test]
    fn what_a_server_left_unanswered_is_no_loss_for_certain() {
        let fate = |n| match n % 10 {
            0 => sample(n, Some(20), Ok),
            1 => sample(n, None, LostUp),
            _ => sample(n, None, Lost),
        };
        for (told, least) in [("300", 0.6), ("800", 0.1), ("5000", 0.1), ("0", 0.9)] {
            let mut fold = taken(EchoFold::exact(), (0..1000).map(fate));
            fold.tell(&Told::Unanswered, told);
            let got = fold.result();
            let (at_least, at_most) = got.counts.loss_range().unwrap();
            assert!((at_least - least).abs() < 1e-9 && at_most == 0.9, "{told}: {at_least}");
            assert_eq!(got.counts.loss_ratio().is_none(), least < 0.9);
            let lost: f64 = got.batches.iter().map(|batch| batch.lost).sum();
            assert!((lost - 1000.0 * least).abs() < 1e-6, "{told}: {lost}");
            assert_eq!(got.counts.sent, 1000);
        }
    }

    #[test]
    fn each_fate_is_counted_once_and_what_was_not_awaited_not_at_all() {
        let fates = [Ok, Ok, Lost, LostUp, LostDown, LostDown, Error, Unfinished];
        let fate = |(n, s): (usize, &EchoStatus)| sample(n as u64, (*s == Ok).then_some(20), *s);
        let mut samples: Vec<_> = fates.iter().enumerate().map(fate).collect();
        samples.push(sample(1, Some(30), Duplicate));
        let got = exact(samples);
        let counts = got.counts;
        assert_eq!((counts.sent, counts.received, counts.lost, counts.unfinished), (7, 2, 4, 1));
        assert_eq!((counts.lost_up, counts.lost_down), (1, 2));
        assert_eq!((counts.errors, counts.duplicates), (1, 1));
        assert_eq!(counts.loss_ratio(), Some(5.0 / 7.0));
        assert_eq!(got.rtt_ms.map(|r| r.max), Some(20.0), "a duplicate's time is not the packet's");
    }

    #[test]
    fn where_it_is_not_known_whether_some_are_lost_the_loss_is_a_range_and_what_was_not_sent_is_not_lost()
     {
        let fates = [Ok, Unsure, Lost, NotSent, Ok, Unsure, NotSent, Ok, Ok, Ok];
        let fate = |(n, s): (usize, &EchoStatus)| sample(n as u64, (*s == Ok).then_some(20), *s);
        let got = exact(fates.iter().enumerate().map(fate));
        let counts = got.counts;
        assert_eq!((counts.sent, counts.received, counts.unsure, counts.not_sent), (8, 5, 2, 2));
        assert_eq!((counts.loss_ratio(), counts.loss_range()), (None, Some((0.125, 0.375))));
        let lost = |batches: &[Batch]| batches.iter().map(|b| b.lost).sum::<f64>();
        assert_eq!((lost(&got.batches), lost(&got.batches_at_most)), (1.0, 3.0));
        let (least, most) = (got.rtt_ms.expect("answers"), got.rtt_at_most_ms.expect("bounds"));
        assert_eq!((least.p50, most.p50, most.min), (20.0, 20.0, 20.0), "five of seven");
        assert_eq!((least.max, most.max, most.p90), (20.0, f64::INFINITY, f64::INFINITY));
        let said = got.unsure().expect("two are unsure");
        assert!(said.contains("at least 12.5 %, at most 37.5 %"), "{said}");
        assert!(got.not_sent().expect("two were not sent").starts_with("2 packets beside the 8"));
    }

    #[test]
    fn a_packet_that_nobody_could_wait_for_is_no_longer_lost() {
        let unsure = exact([Lost, Unsure].map(|status| sample(0, None, status))).counts;
        assert_eq!((unsure.sent, unsure.lost, unsure.unsure), (1, 0, 1));
        let rows = [(0, None, Lost), (1, None, Lost), (0, Some(2000), Late), (1, None, Unfinished)];
        let got = exact(rows.map(|(seq, rtt, status)| sample(seq, rtt, status)));
        let counts = got.counts;
        assert_eq!(
            (counts.sent, counts.received_late, counts.lost, counts.unfinished),
            (1, 1, 0, 1)
        );
        assert_eq!(counts.loss_ratio(), Some(0.0));
        assert_eq!(
            got.batches
                .iter()
                .map(|b| (b.sent, b.lost))
                .fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1)),
            (1.0, 0.0)
        );
    }

    #[test]
    fn a_packet_that_comes_after_it_was_given_up_is_late_and_no_longer_lost() {
        let live =
            [(0, Some(20), Ok), (1, None, LostDown), (2, None, LostDown), (1, Some(5000), Late)];
        let kept = [(0, Some(20), Ok), (1, Some(5000), Late), (2, None, LostDown)];
        let [live, kept] = [&live[..], &kept[..]].map(|rows| {
            exact(rows.iter().map(|(seq, rtt, status)| EchoSample {
                sent_late_ns: Some(9_000_000),
                ..sample(*seq, *rtt, *status)
            }))
        });
        assert_eq!(live, kept, "as it happened, and as it was kept");
        let counts = live.counts;
        assert_eq!((counts.sent, counts.received, counts.received_late), (3, 1, 1));
        assert_eq!((counts.lost, counts.lost_down), (1, 1));
        assert_eq!(live.rtt_ms.map(|r| r.max), Some(5000.0), "it is known how long it took");
        assert_eq!((live.lateness.late, live.lateness.of), (3, 3), "each packet once");
    }

    #[test]
    fn figures_of_few_packets_are_known_to_be_of_few() {
        let fate = |n: u64, answered: u64| match n < answered {
            true => sample(n, Some(20), Ok),
            false => sample(n, None, Lost),
        };
        let minority = |answered| exact((0..100).map(|n| fate(n, answered))).counts.minority();
        assert_eq!((minority(15), minority(50)), (Some(0.15), None));
        assert_eq!(minority(0), None, "there are no figures");
    }

    #[test]
    fn losses_that_are_known_by_count_only_are_told_at_the_end() {
        for (told, found) in [
            (r#"{"up":3,"down":1}"#, (5, 3, 1)),
            // Never more than were lost.
            (r#"{"up":9,"down":9}"#, (5, 5, 0)),
            ("three", (5, 0, 0)),
        ] {
            let mut fold = taken(EchoFold::bounded(), (0..5).map(|n| sample(n, None, Lost)));
            fold.tell(&Told::Losses, told);
            let got = fold.counts();
            assert_eq!((got.lost, got.lost_up, got.lost_down), found, "{told}");
        }
    }

    #[test]
    fn a_reply_behind_one_to_a_later_packet_is_out_of_order() {
        let order = |seqs: &[u64]| {
            exact(seqs.iter().enumerate().map(|(n, seq)| EchoSample {
                down_order: Some(n as u64),
                ..sample(*seq, Some(20), Ok)
            }))
        };
        assert_eq!(order(&[0, 1, 4, 2, 3, 5]).reordered, 2);
        assert_eq!(order(&[0, 1, 4, 7]).reordered, 0);
    }

    #[test]
    fn jitter_of_the_round_trip_and_of_the_way_there_are_two_figures() {
        let swing = |n: u64| sample(n, Some(20 + n % 2), Ok);
        let pings = exact((0..20).map(swing));
        assert_eq!((pings.jitter_rtt_ms, pings.jitter_up_ms), (Some(1.0), None));
        let steady = |n: u64| EchoSample { up_ns: Some(10), ..swing(n) };
        let stamp = exact((0..20).map(steady));
        assert_eq!((stamp.jitter_rtt_ms, stamp.jitter_up_ms), (Some(1.0), Some(0.0)));
    }

    #[test]
    fn clocks_of_a_host_that_never_answered_are_not_said_to_be_unsteady() {
        let mut fold = taken(EchoFold::exact(), (0..5).map(|n| sample(n, None, Lost)));
        fold.tell(&Told::Clocks, "apart");
        assert_eq!(fold.result().clocks, Clocks::Same);
    }

    /// Packets of an hour, one each 20 ms, that overtake each other and get lost, between clocks that drift by 40 millionths.
    fn an_hour() -> Vec<EchoSample> {
        let mut rng = Rng::new(7);
        let mut packet = |seq: u64| {
            let t_ns = (seq * 20_000_000) as i64;
            let delay = |rng: &mut Rng| 10_000_000 + rng.below(30_000_000) as i64;
            let (up, down, theta) = (delay(&mut rng), delay(&mut rng), t_ns / 25_000);
            let answered = EchoSample {
                rtt_ns: Some((up + down) as u64),
                up_ns: Some(up + theta),
                down_ns: Some(down - theta),
                ..EchoSample::new(t_ns, seq, 56, Ok)
            };
            let lost = EchoSample::new(t_ns, seq, 56, Lost);
            (t_ns + up, t_ns + up + down, if rng.below(50) == 0 { lost } else { answered })
        };
        let mut packets: Vec<_> = (0..180_000).map(&mut packet).collect();
        packets.sort_by_key(|p| p.0);
        for (n, packet) in packets.iter_mut().enumerate() {
            packet.2.up_order = packet.2.status.is_answered().then_some(n as u64);
        }
        packets.sort_by_key(|p| p.1);
        for (n, packet) in packets.iter_mut().enumerate() {
            packet.2.down_order = packet.2.status.is_answered().then_some(n as u64);
        }
        packets.into_iter().map(|p| p.2).collect()
    }

    fn fold_of(mut fold: EchoFold, samples: &[EchoSample]) -> EchoResult {
        fold.tell(&Told::Clocks, "apart");
        samples.iter().for_each(|s| fold.take(s));
        fold.result()
    }

    #[test]
    fn a_short_stream_has_the_same_figures_whether_all_is_kept_or_not_and_in_whatever_order_it_came()
     {
        let hour = an_hour();
        let live = &hour[..3000];
        let mut stored = live.to_vec();
        stored.sort_by_key(|s| s.seq);
        let exact = fold_of(EchoFold::exact(), &stored);
        assert!(exact.reordered > 100 && exact.ipdv_ms.is_some(), "{exact:?}");
        assert_eq!(fold_of(EchoFold::exact(), live).reordered_up, exact.reordered_up);
        let bounded = fold_of(EchoFold::bounded(), live);
        let batches = exact.batches.clone();
        // How deviations add up depends on the order in the last digit.
        for (bounded, exact) in [(bounded.rtt_ms, exact.rtt_ms), (bounded.up_ms, exact.up_ms)] {
            let (bounded, exact) = (bounded.expect("answers"), exact.expect("answers"));
            assert_eq!((bounded.n, bounded.p50, bounded.p99), (exact.n, exact.p50, exact.p99));
            assert!((bounded.mean / exact.mean - 1.0).abs() < 1e-12);
        }
        assert_eq!(bounded.jitter_up_ms, exact.jitter_up_ms);
        assert_eq!((bounded.clocks, bounded.counts), (exact.clocks, exact.counts));
        assert_eq!(batches.len(), BATCHES as usize);
    }

    #[test]
    fn an_hour_in_bounded_memory_has_nearly_the_figures_of_an_hour_that_was_kept() {
        let hour = an_hour();
        let exact = fold_of(EchoFold::exact(), &hour);
        let bounded = fold_of(EchoFold::bounded(), &hour);
        assert_eq!(bounded.counts, exact.counts);
        assert_eq!(
            (bounded.reordered, bounded.reordered_up, bounded.reordered_down),
            (exact.reordered, exact.reordered_up, exact.reordered_down)
        );
        assert_eq!(bounded.jitter_rtt_ms, exact.jitter_rtt_ms);
        let near = |got: Option<f64>, wanted: Option<f64>, most: f64| {
            let (got, wanted) = (got.expect("a figure"), wanted.expect("a figure"));
            assert!((got - wanted).abs() <= most, "{got} is not {wanted}");
        };
        near(bounded.jitter_up_ms, exact.jitter_up_ms, 0.01);
        let points: [fn(quell_stats::Summary) -> f64; 4] =
            [|s| s.min, |s| s.p50, |s| s.p99, |s| s.max];
        for of in points {
            near(bounded.rtt_ms.map(of), exact.rtt_ms.map(of), 0.2);
            // The drift of the first minutes is not that of the hour to the last millionth.
            near(bounded.up_ms.map(of), exact.up_ms.map(of), 4.0);
            near(bounded.down_ms.map(of), exact.down_ms.map(of), 4.0);
        }
        assert!(bounded.batches.is_empty());
    }
}
