//! Interarrival jitter as RTP receivers report it.

/// The estimator of RFC 3550 section 6.4.1, in the floating form of its appendix A.8:
/// J += (|D| - J) / 16, where D is the change of transit time from one arriving packet to the next.
///
/// Transit time is arrival minus sending time; the clocks need not agree, a constant offset cancels.
/// Push in order of arrival; lost packets are left out. The unit is the caller's.
///
/// J starts at 0 and comes up by a sixteenth a packet: after n changes of a steady stream it is 1 - (15/16)^n of what it tells in
/// the end, 61 % after 15. That is what an RTP receiver reports ([`Jitter::last`]). Of a whole stream [`Jitter::mean`] gives the mean
/// of |D| itself, which J swings around: it has no start-up, so that streams of any length can be compared.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Jitter {
    transit: Option<f64>,
    estimate: f64,
    sum: f64,
    pairs: u64,
}

impl Jitter {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn of(transits: impl IntoIterator<Item = f64>) -> Self {
        let mut jitter = Self::new();
        transits.into_iter().for_each(|transit| jitter.push(transit));
        jitter
    }

    /// Takes the transit time of the next packet to arrive. NaN and infinity count as a lost packet.
    pub fn push(&mut self, transit: f64) {
        if !transit.is_finite() {
            return;
        }
        if let Some(previous) = self.transit.replace(transit) {
            let change = (transit - previous).abs();
            self.estimate += (change - self.estimate) / 16.0;
            self.sum += change;
            self.pairs += 1;
        }
    }

    /// The next transit time can't be compared with the last one: a clock was set. The estimate stays.
    pub fn interrupt(&mut self) {
        self.transit = None;
    }

    /// The running estimate after the last packet: what an RTP receiver would report now. `None` before
    /// the second packet.
    pub fn last(&self) -> Option<f64> {
        (self.pairs > 0).then_some(self.estimate)
    }

    /// The running estimate without its start-up: see [`without_start`]. `None` before the second packet.
    pub fn settled(&self) -> Option<f64> {
        self.last().map(|estimate| without_start(estimate, self.pairs))
    }

    /// The mean of |D| over the whole stream. The running estimate forgets all but some thirty packets.
    pub fn mean(&self) -> Option<f64> {
        (self.pairs > 0).then(|| self.sum / self.pairs as f64)
    }
}

/// What the estimate of RFC 3550 tells after so many changes of transit time, its start from 0 left out: the mean of |D| in which each change weighs
/// 15/16 of the one behind it, which is the estimate ÷ (1 − (15/16)^n).
pub fn without_start(estimate: f64, changes: u64) -> f64 {
    let started = 1.0 - (15.0f64 / 16.0).powf(changes as f64);
    if changes == 0 { 0.0 } else { estimate / started }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn the_estimate_moves_a_sixteenth_of_the_way() {
        // By hand: |D| = 16, 16, 0. J = 0 + 16/16 = 1; 1 + 15/16 = 1.9375;
        // 1.9375 - 1.9375/16 = 1.81640625. Mean of |D|: 32 / 3.
        let jitter = Jitter::of([100.0, 116.0, 100.0, 100.0]);
        assert_eq!(jitter.last(), Some(1.816_406_25));
        assert_eq!(jitter.mean(), Some(32.0 / 3.0));
    }

    #[test]
    fn few_packets_of_a_steady_swing_tell_all_of_it() {
        for packets in [2, 3, 10, 1000] {
            let jitter = Jitter::of((0..packets).map(|i| if i % 2 == 0 { 20.0 } else { 22.0 }));
            let settled = jitter.settled().expect("two packets");
            assert!((settled - 2.0).abs() < 1e-9, "{packets}: {settled}");
        }
        assert_eq!((Jitter::of([5.0]).settled(), without_start(0.0, 0)), (None, 0.0));
    }

    #[test]
    fn the_jitter_of_a_short_stream_is_that_of_a_long_one() {
        // Delays are even over 10 ms: two of them differ by 10/3 ms in the mean. 400 streams of each length.
        let mut rng = Rng::new(7);
        for packets in [5, 20, 100] {
            let streams = (0..400).map(|_| {
                let transits = (0..packets).map(|_| 15.0 + 10.0 * rng.f64());
                Jitter::of(transits.collect::<Vec<_>>()).mean().expect("packets")
            });
            let mean = streams.sum::<f64>() / 400.0;
            assert!((mean - 10.0 / 3.0).abs() < 0.2, "{packets} packets: {mean}");
        }
    }

    #[test]
    fn it_is_the_code_of_rfc_3550_appendix_a_8() {
        // d = transit - s->transit; s->transit = transit; if (d < 0) d = -d;
        // s->jitter += (1./16.) * ((double)d - s->jitter);
        let transits: Vec<f64> = (0..200).map(|i: i32| f64::from((i * 37) % 101)).collect();
        let (mut transit, mut estimate) = (transits[0], 0.0);
        for next in &transits[1..] {
            let mut d = next - transit;
            transit = *next;
            if d < 0.0 {
                d = -d;
            }
            estimate += (1.0 / 16.0) * (d - estimate);
        }
        assert_eq!(Jitter::of(transits).last(), Some(estimate));
    }

    #[test]
    fn a_steady_swing_of_two_milliseconds_is_a_jitter_of_two_milliseconds() {
        let jitter = Jitter::of((0..1000).map(|i| if i % 2 == 0 { 20.0 } else { 22.0 }));
        assert!((jitter.last().expect("packets") - 2.0).abs() < 1e-12);
    }

    #[test]
    fn clock_offset_does_not_matter_and_constant_delay_has_no_jitter() {
        assert_eq!(Jitter::of([20.0; 50]).last(), Some(0.0));
        assert_eq!(
            Jitter::of([1.0, 3.0, 2.0]),
            Jitter { transit: Some(2.0), ..Jitter::of([1e6 + 1.0, 1e6 + 3.0, 1e6 + 2.0]) }
        );
    }

    #[test]
    fn a_clock_that_was_set_between_two_packets_is_no_jitter() {
        let mut jitter = Jitter::of([20.0, 21.0]);
        jitter.interrupt();
        jitter.push(3_600_021.0);
        assert_eq!(jitter.last(), Some(1.0 / 16.0));
    }

    #[test]
    fn one_packet_has_no_jitter_yet() {
        assert_eq!(Jitter::new().last(), None);
        assert_eq!(Jitter::of([20.0]).last(), None);
        assert_eq!(Jitter::of([20.0, f64::NAN]).mean(), None);
    }
}
