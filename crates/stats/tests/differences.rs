//! How often 95 % intervals of differences hold the truth, by simulation, as `coverage.rs` does it for the figures themselves.
#![allow(missing_docs)]

use quell_stats::{Batch, Difference, Interval, Ranged, Rng};

const TRIALS: u32 = 10_000;
const TAIL: f64 = 0.025;

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// The part of the trials, in percent, whose interval holds the truth.
fn held(what: &str, truth: f64, mut difference: impl FnMut(&mut Rng) -> Difference) -> f64 {
    let mut rng = Rng::new(11);
    let holds =
        |d: Difference| d.low.is_some_and(|l| l <= truth) && d.high.is_some_and(|h| h >= truth);
    let held = (0..TRIALS).filter(|_| holds(difference(&mut rng))).count();
    let coverage = held as f64 * 100.0 / f64::from(TRIALS);
    println!("{what:<60} {coverage:.1}");
    coverage
}

fn mean(n: usize, rng: &mut Rng, tail: f64, draw: impl Fn(&mut Rng) -> f64) -> Ranged {
    let values: Vec<f64> = (0..n).map(|_| draw(rng)).collect();
    let mean = values.iter().sum::<f64>() / n as f64;
    Ranged::new(mean, Interval::of_mean_beyond(&values, tail).expect("values"))
}

#[test]
fn differences_of_repeats_that_share_their_seed_hold_in_94_to_96_of_100_cases() {
    for n in [3, 5, 10, 30] {
        // What a seed does to both is ten times what is left.
        let coverage = held(&format!("pairs, {n} repeats"), 1.0, |rng| {
            let pair = |rng: &mut Rng| {
                let common = 100.0 + 10.0 * normal(rng);
                (common + normal(rng), common + 1.0 + normal(rng))
            };
            let pairs: Vec<_> = (0..n).map(|_| pair(rng)).collect();
            Difference::of_pairs(&pairs, TAIL).expect("pairs")
        });
        assert!((94.0..=96.0).contains(&coverage), "{n} repeats: {coverage:.1} %");
    }
}

#[test]
fn differences_of_means_measured_apart_hold_in_94_or_more_of_100_cases() {
    for (a, b) in [(3, 3), (3, 10), (5, 5), (10, 10), (30, 30)] {
        let even = held(&format!("normal, {a} and {b} repeats"), 1.0, |rng| {
            let first = mean(a, rng, TAIL, |r| 10.0 + normal(r));
            Difference::of_two(first, mean(b, rng, TAIL, |r| 11.0 + 2.0 * normal(r)))
        });
        assert!(even >= 94.0, "normal, {a} and {b}: {even:.1} %");
        let skewed =
            held(&format!("lognormal and exponential, {a} and {b}"), 1.0 - 0.5f64.exp(), |rng| {
                let first = mean(a, rng, TAIL, |r| normal(r).exp());
                Difference::of_two(first, mean(b, rng, TAIL, |r| r.exp(1.0)))
            });
        assert!(skewed >= 94.0, "skewed, {a} and {b}: {skewed:.1} %");
    }
}

/// Of many figures some differ by chance: what counts beyond that has a hundredth of the cases beyond its ends.
#[test]
fn differences_that_count_among_a_hundred_are_wrong_in_one_of_two_thousand_cases() {
    for n in [3, 5, 10] {
        let coverage = held(&format!("lognormal, {n} repeats, a hundredth"), 0.0, |rng| {
            let first = mean(n, rng, TAIL / 100.0, |r| normal(r).exp());
            Difference::of_two(first, mean(n, rng, TAIL / 100.0, |r| normal(r).exp()))
        });
        assert!(coverage >= 99.85, "{n} repeats: {coverage:.2} %");
    }
}

#[test]
fn differences_of_losses_hold_in_94_or_more_of_100_cases() {
    for (first, second) in [(0.001, 0.001), (0.01, 0.02), (0.0, 0.005), (0.1, 0.1)] {
        let coverage = held(&format!("losses of {first} and {second}"), second - first, |rng| {
            let loss = |rng: &mut Rng, ratio: f64| {
                let batch = |rng: &mut Rng| {
                    let lost = (0..20).filter(|_| rng.f64() < ratio).count();
                    Batch { sent: 20.0, lost: lost as f64 }
                };
                let repeats: Vec<Vec<Batch>> =
                    (0..3).map(|_| (0..16).map(|_| batch(rng)).collect()).collect();
                let lost: f64 = repeats.iter().flatten().map(|b| b.lost).sum();
                Ranged::new(
                    lost / 960.0,
                    Interval::of_loss_beyond(&repeats, TAIL).expect("packets"),
                )
            };
            let first = loss(rng, first);
            Difference::of_two(first, loss(rng, second))
        });
        assert!(coverage >= 94.0, "{first}, {second}: {coverage:.1} %");
    }
}
