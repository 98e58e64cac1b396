//! The rate and the burst of a policer, by how the datagrams of one stream at a constant rate came through it: a token bucket (RFC 2697, section 3).
//!
//! ```text
//!   tokens   burst ┬─╲
//!                  │   ╲   a packet passes where the bucket holds its bytes
//!        one packet┤     ╲  ╱│ ╱│ ╱│
//!                  0       ╲╱ │╱ │╱ │      what comes behind losses is the rate, to within one packet
//!                     before │ behind
//! ```
//!
//! A line that is full loses at a steady rate too, but what it does not lose has waited in its queue; random loss is no steady rate.

use crate::Cause;
use crate::calls::{Diagnosis, Endpoint};
use crate::sender::LOSSES;
use quell_finding::Evidence;
use quell_units::fmt;
use serde::Serialize;

/// What the receiver of the one stream saw, from its first packet on.
#[derive(Debug, Clone, Copy, Default)]
pub struct DatagramFacts<'a> {
    /// Bytes of a packet, IP's header among them.
    pub packet: f64,
    /// Seconds from one that is sent to the next.
    pub apart_s: f64,
    pub lost: u64,
    /// Packets that came before the first that was lost, and for how many seconds.
    pub before: u64,
    pub before_s: f64,
    /// Some of those that came behind a loss: at which second, and how many had come by then.
    pub behind: &'a [(f64, u64)],
    /// By how much the fastest of the first of these took longer than the fastest before; none where a clock was set.
    pub longer_s: Option<f64>,
    pub jitter_s: f64,
    /// Bytes a second of pings, which took tokens too.
    pub pings: f64,
    /// So long nothing was sent before, that a bucket could fill.
    pub quiet_s: f64,
}

/// Both ends of what a policer's rate and burst can be; of IP packets, and without what others' packets took meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TokenBucket {
    pub low_bits_per_second: f64,
    pub high_bits_per_second: f64,
    pub low_burst_bytes: f64,
    /// None where the bucket may not have been full.
    pub high_burst_bytes: Option<f64>,
}

impl DatagramFacts<'_> {
    /// Errors with why the facts leave it unknown.
    pub fn bucket(&self) -> Result<TokenBucket, &'static str> {
        let size = self.packet;
        let (&(begun_s, first), &(end_s, last)) = match self.behind {
            _ if self.lost < LOSSES => return Err("fewer than 10 datagrams were lost"),
            [first, .., last] if last.0 > first.0 => (first, last),
            _ => return Err("too little came behind losses"),
        };
        let (seconds, came) = (end_s - begun_s, last.saturating_sub(first) as f64 * size);
        let rate = came / seconds;
        // Behind a loss there is less than one packet's worth of tokens; a clock of the path adds what it varies by.
        let slack = self.apart_s.max(0.0) * rate + self.jitter_s * rate;
        let off = |(at_s, count): &(f64, u64)| {
            let even = rate * (at_s - begun_s);
            (count.saturating_sub(first) as f64 * size - even).abs()
        };
        if self.behind.iter().any(|point| off(point) > size.max(slack)) {
            return Err("what arrived was no steady rate");
        }
        if self.before == 0 {
            return Err("the first datagram was lost");
        }
        if self.longer_s.ok_or("a clock was set meanwhile")? > size / rate / 2.0 {
            return Err("datagrams waited before others were lost: a queue was full");
        }
        let (low, mut high) =
            ((came - slack).max(0.0) / seconds, (came + slack) / seconds + self.pings);
        let least = |rate: f64| self.before as f64 * size - rate * self.before_s;
        if least(high) < size + self.apart_s * rate {
            // So shallow a bucket overflows while it waits for one packet's worth: what comes may be less than its rate.
            let waited = (size / self.apart_s / rate - 1e-3).ceil();
            high = high.max(size / self.apart_s / (waited - 1.0).max(1.0));
        }
        let jitter = self.jitter_s * rate;
        let most = (self.before + 1) as f64 * size - low * (self.before_s + self.apart_s) + jitter;
        Ok(TokenBucket {
            low_bits_per_second: low * 8.0,
            high_bits_per_second: high * 8.0,
            low_burst_bytes: (least(high) - jitter).max(size),
            high_burst_bytes: Some(most.max(size)).filter(|most| most / rate <= self.quiet_s),
        })
    }
}

impl TokenBucket {
    /// Nothing else drops so evenly without a queue. `end` is where it is, if that is known.
    pub fn diagnosis(end: Option<Endpoint>) -> Diagnosis {
        Diagnosis { cause: Cause::Policer, end, sure: true }
    }

    pub fn evidence(&self) -> Vec<Evidence> {
        let Self { low_bits_per_second: low, high_bits_per_second: high, .. } = *self;
        let told = |name: &str, from: String, to: Option<String>| match to {
            Some(to) if to == from => format!("{name} {to}"),
            Some(to) => format!("{name} {from} to {to}"),
            None => format!("{name} {from} or more"),
        };
        let rates = told("rate", fmt::rate(low), Some(fmt::rate(high)));
        let [from, to] = [Some(self.low_burst_bytes), self.high_burst_bytes]
            .map(|bytes| bytes.map(|bytes| fmt::bytes(bytes as u64)));
        let bursts = told("burst", from.unwrap_or_default(), to) + " (IP packets)";
        let source = "arrivals, by the receiver";
        vec![
            Evidence::number("rate", (low + high) / 2.0, "bit/s", source).in_words(rates),
            Evidence::number("burst", self.low_burst_bytes, "bytes", source).in_words(bursts),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of ten seconds of packets, each of which is sent when its time has come and passes as `passes` says, after so long on its way.
    fn sent(size: f64, load: f64, mut passes: impl FnMut(f64) -> Option<f64>) -> Arrivals {
        let apart_s = size / load;
        let mut seen = Arrivals { size, apart_s, ..Arrivals::default() };
        let (mut came, mut least, mut is_behind) = (0, [f64::MAX; 2], false);
        for number in 0..(10.0 / apart_s) as u64 {
            let at_s = number as f64 * apart_s;
            let Some(took_s) = passes(at_s) else {
                seen.lost += 1;
                is_behind = true;
                continue;
            };
            came += 1;
            let at_s = at_s + took_s;
            match (is_behind, seen.behind.is_empty()) {
                (false, true) => {
                    (seen.before, seen.before_s) = (came, at_s);
                    least[0] = least[0].min(took_s);
                }
                (true, _) => {
                    seen.behind.push((at_s, came));
                    if seen.behind.len() < 9 {
                        least[1] = least[1].min(took_s);
                    }
                }
                _ => {}
            }
            is_behind = false;
        }
        seen.longer_s = least[1] - least[0];
        seen
    }

    #[derive(Default)]
    struct Arrivals {
        size: f64,
        apart_s: f64,
        lost: u64,
        before: u64,
        before_s: f64,
        behind: Vec<(f64, u64)>,
        longer_s: f64,
    }

    impl Arrivals {
        fn facts(&self) -> DatagramFacts<'_> {
            DatagramFacts {
                packet: self.size,
                apart_s: self.apart_s,
                lost: self.lost,
                before: self.before,
                before_s: self.before_s,
                behind: &self.behind,
                longer_s: Some(self.longer_s),
                jitter_s: 0.0,
                pings: 0.0,
                quiet_s: 60.0,
            }
        }
    }

    /// A token bucket, full at first; bytes and bytes a second.
    fn policed(size: f64, load: f64, rate: f64, burst: f64) -> Arrivals {
        let (mut tokens, mut then_s) = (burst, 0.0);
        sent(size, load, |at_s| {
            tokens = burst.min(tokens + rate * (at_s - then_s));
            then_s = at_s;
            let is_enough = tokens + 1e-6 >= size;
            tokens -= if is_enough { size } else { 0.0 };
            is_enough.then_some(0.0)
        })
    }

    /// A line of this rate with room for so many packets.
    fn full(size: f64, load: f64, rate: f64, room: f64) -> Arrivals {
        let mut free_s: f64 = 0.0;
        sent(size, load, |at_s| {
            let waits_s = (free_s - at_s).max(0.0);
            let goes = waits_s * rate / size <= room;
            free_s += if goes { (at_s - free_s).max(0.0) + size / rate } else { 0.0 };
            goes.then_some(waits_s + size / rate)
        })
    }

    #[test]
    fn rate_and_burst_of_an_exact_token_bucket_are_within_what_is_told() {
        for (size, rate, over) in [
            (1028.0, 1.25e6, 2.0),
            (1028.0, 1.25e6, 1.03),
            (1500.0, 125e3, 1.3),
            (228.0, 2.5e6, 3.7),
            (1500.0, 12.5e6, 1.1),
        ] {
            for burst in [1.0, 1.4, 2.0, 3.5, 8.0, 30.0, 200.0].map(|packets| packets * size) {
                let seen = policed(size, rate * over, rate, burst);
                let story = format!("{size} bytes, {rate} bytes/s, {over} times, {burst} bytes");
                // 1.03 times the rate leaves a deep bucket some tokens for ten seconds.
                let Ok(told) = seen.facts().bucket() else {
                    assert!(seen.lost < LOSSES, "{story}: {:?}", seen.facts().bucket());
                    continue;
                };
                let [low, high] = [told.low_bits_per_second, told.high_bits_per_second];
                assert!((low..=high).contains(&(rate * 8.0)), "{story}: {told:?}");
                let most = told.high_burst_bytes.expect("it was full");
                assert!(
                    told.low_burst_bytes <= burst + 1e-6 && burst <= most + 1e-6,
                    "{story}: {told:?}"
                );
                let width = most - told.low_burst_bytes;
                assert!(width < (2.0 * size).max(0.04 * burst), "{story}: {told:?}");
                // Nothing tells how often a bucket of less than two packets overflows.
                if burst >= 2.0 * size {
                    assert!(high / low < 1.03, "{story}: {told:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_policer_is_unknown_with_its_reason() {
        let mut random = 7_u64;
        let mut draw = |part: f64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((random >> 33) as f64 / f64::from(1_u32 << 31) < part).then_some(0.0)
        };
        let policer = || policed(1028.0, 2.5e6, 1.25e6, 25e3);
        let queue = "datagrams waited before others were lost: a queue was full";
        for (seen, why, story) in [
            (full(1028.0, 2.5e6, 1.25e6, 2.0), queue, "room for two packets"),
            (full(1028.0, 2.5e6, 1.25e6, 100.0), queue, "a drop-tail buffer"),
            (sent(1028.0, 1e6, |_| draw(0.99)), "what arrived was no steady rate", "1 % lost"),
            (sent(1028.0, 1e6, |_| draw(0.5)), "what arrived was no steady rate", "half lost"),
            (policed(1028.0, 1.2e6, 1.25e6, 25e3), "fewer than 10 datagrams were lost", "less"),
            (Arrivals { before: 0, ..policer() }, "the first datagram was lost", "an empty bucket"),
        ] {
            assert_eq!(seen.facts().bucket(), Err(why), "{story}");
        }
        let seen = policer();
        let facts = DatagramFacts { longer_s: None, ..seen.facts() };
        assert_eq!(facts.bucket(), Err("a clock was set meanwhile"));
        let used = DatagramFacts { quiet_s: 0.01, ..seen.facts() }.bucket().expect("a policer");
        assert_eq!(used.high_burst_bytes, None, "25 kB take 20 ms to fill");
        assert!(used.evidence()[1].to_string().contains("or more"), "{used:?}");
    }
}
