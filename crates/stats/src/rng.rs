//! The random numbers of a run: from a seed, the same on every machine and in every version.
//!
//! xoshiro256++ (Blackman and Vigna, 2019, prng.di.unimi.it) filled by splitmix64. Only integer
//! arithmetic and exact float operations are used, no mathematics library, so that the same seed gives
//! the same bits everywhere. Not for secrets.

/// A seeded stream of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    seed: u64,
    state: [u64; 4],
}

impl Rng {
    pub fn new(seed: u64) -> Self {
        let mut counter = seed;
        Self { seed, state: std::array::from_fn(|_| splitmix64(&mut counter)) }
    }

    /// The stream with the name `label` under this one's seed, independent of it and of other labels.
    ///
    /// It depends on seed and label only, not on how many numbers were drawn before: a new consumer of
    /// randomness does not change what the others get.
    pub fn derive(&self, label: &str) -> Self {
        // FNV-1a over the label, started from the scrambled seed and scrambled again at the end.
        let mut hash = splitmix64(&mut { self.seed }) ^ 0xcbf2_9ce4_8422_2325;
        for byte in label.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self::new(splitmix64(&mut hash))
    }

    pub fn u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub fn f64(&mut self) -> f64 {
        (self.u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform among 0, 1, … n-1 without bias (Lemire 2019, "Fast random integer generation in an
    /// interval"). Zero when `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        let rejected = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.u64()) * u128::from(n);
            if product as u64 >= rejected {
                return (product >> 64) as u64;
            }
        }
    }

    /// Exponentially distributed with this mean: the gaps of a Poisson stream.
    ///
    /// By von Neumann's comparison method (1951, "Various techniques used in connection with random
    /// digits"), because a logarithm's last bit differs between mathematics libraries. Draws 4.3 numbers
    /// on average.
    pub fn exp(&mut self, mean: f64) -> f64 {
        let mut whole = 0.0;
        loop {
            let first = self.f64();
            let mut previous = first;
            let mut drawn = 1;
            // A descending run from x has even length, the riser included, with probability e^-x.
            loop {
                let next = self.f64();
                drawn += 1;
                if next > previous {
                    break;
                }
                previous = next;
            }
            if drawn % 2 == 0 {
                return mean * (whole + first);
            }
            whole += 1.0;
        }
    }
}

/// One step of splitmix64 (Steele, Lea and Flood, 2014).
fn splitmix64(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*counter ^ (*counter >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_the_published_numbers() {
        // The first outputs for seed 1234567, as on rosettacode.org, "Pseudo-random numbers/Splitmix64".
        let mut counter = 1_234_567;
        let got: [u64; 5] = std::array::from_fn(|_| splitmix64(&mut counter));
        assert_eq!(
            got,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn xoshiro_gives_the_numbers_of_its_reference() {
        // The reference C code from state 1, 2, 3, 4; the first two also by hand:
        // rotl(1 + 4, 23) + 1 = 5 * 2^23 + 1 = 41,943,041.
        let mut rng = Rng { seed: 0, state: [1, 2, 3, 4] };
        let got: [u64; 6] = std::array::from_fn(|_| rng.u64());
        assert_eq!(
            got,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386,
                9_228_616_714_210_784_205,
                9_973_669_472_204_895_162
            ]
        );
    }

    #[test]
    fn the_streams_of_a_seed_never_change() {
        // Runs are repeated from their seed: these numbers may not change in any version. They were
        // calculated by a second implementation, written in Python.
        fn draw<T, const N: usize>(draw: impl Fn(&mut Rng) -> T) -> [T; N] {
            let mut rng = Rng::new(42);
            std::array::from_fn(|_| draw(&mut rng))
        }
        assert_eq!(
            draw(Rng::u64),
            [
                15_021_278_609_987_233_951,
                5_881_210_131_331_364_753,
                18_149_643_915_985_481_100,
                12_933_668_939_759_105_464
            ]
        );
        assert_eq!(draw(Rng::f64), [0.8143051451229099, 0.3188210400616611]);
        assert_eq!(draw(|rng| rng.below(1000)), [814, 318, 983, 701, 793, 588]);
        assert_eq!(
            draw(|rng| rng.exp(20.0)),
            [34.02271196269511, 24.15434343246643, 11.190789453722692, 30.920076783810376]
        );
        let mut derived = Rng::new(42).derive("udp");
        assert_eq!(
            [derived.u64(), derived.u64()],
            [4_286_818_264_249_977_266, 3_336_340_412_347_679_964]
        );
    }

    #[test]
    fn derived_streams_depend_on_seed_and_label_only() {
        let fresh = Rng::new(7);
        let mut used = fresh.clone();
        used.u64();
        assert_eq!(fresh.derive("udp"), used.derive("udp"));
        assert_ne!(fresh.derive("udp"), fresh.derive("ping"));
        assert_ne!(fresh.derive(""), fresh);
        assert_ne!(fresh.derive("udp"), Rng::new(8).derive("udp"));
        assert_ne!(fresh.derive("a").derive("b"), fresh.derive("b").derive("a"));
    }

    #[test]
    fn below_is_even_and_stays_below() {
        let mut rng = Rng::new(1);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[rng.below(6) as usize] += 1;
        }
        // sd of each count: sqrt(60000 * 1/6 * 5/6) = 91; five of those.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 456), "{counts:?}");
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
        assert!((0..1000).all(|_| rng.below(u64::MAX) < u64::MAX));
    }

    #[test]
    fn f64_fills_the_half_open_unit_interval() {
        let mut rng = Rng::new(2);
        let values: Vec<f64> = (0..100_000).map(|_| rng.f64()).collect();
        assert!(values.iter().all(|value| (0.0..1.0).contains(value)));
        // Mean 1/2, sd of the mean 0.2887 / sqrt(100000) = 0.0009; five of those.
        let mean = values.iter().sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.0046, "{mean}");
    }

    #[test]
    fn exponential_gaps_have_the_distribution_of_their_name() {
        let mut rng = Rng::new(3);
        let gaps: Vec<f64> = (0..100_000).map(|_| rng.exp(20.0)).collect();
        // Mean 20, its sd 20 / sqrt(100000) = 0.063; five of those.
        let mean = gaps.iter().sum::<f64>() / 1e5;
        assert!((mean - 20.0).abs() < 0.32, "{mean}");
        // P(X > k * mean) = e^-k, within five sd of a share (at most 0.0016).
        for k in [0.5, 1.0, 2.0, 3.0] {
            let share = gaps.iter().filter(|gap| **gap > 20.0 * k).count() as f64 / 1e5;
            assert!((share - (-k).exp()).abs() < 0.008, "{k}: {share}");
        }
    }
}
