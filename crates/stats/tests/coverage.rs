//! How often 95 % intervals hold the truth, by simulation: seeded, so that the figures are the same each time.
//!
//! Over 20,000 trials a coverage of 95 % is measured to ± 0.3 points (two standard deviations).
#![allow(missing_docs)]

use quell_stats::{Batch, Interval, Rng, quantile};

const TRIALS: u32 = 20_000;

/// Numbers of repeats that people have.
const REPEATS: [usize; 8] = [3, 4, 5, 7, 9, 10, 20, 30];

fn normal(rng: &mut Rng) -> f64 {
    // Box and Muller (1958).
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// The part of the trials, in percent, whose interval holds the truth.
fn held(seed: u64, truth: f64, mut interval: impl FnMut(&mut Rng) -> Interval) -> f64 {
    let mut rng = Rng::new(seed);
    let held = (0..TRIALS).filter(|_| interval(&mut rng).contains(truth)).count();
    held as f64 * 100.0 / f64::from(TRIALS)
}

fn of_means(truth: f64, draw: impl Fn(&mut Rng) -> f64) -> Vec<(usize, f64)> {
    let coverage = |n: usize| {
        held(n as u64, truth, |rng| {
            let values: Vec<f64> = (0..n).map(|_| draw(rng)).collect();
            Interval::of_mean(&values).expect("values")
        })
    };
    REPEATS.iter().map(|n| (*n, coverage(*n))).collect()
}

fn within(what: &str, found: &[(usize, f64)], low: f64, high: f64) {
    println!("{what:<32} {found:.1?}");
    for (n, coverage) in found {
        assert!((low..=high).contains(coverage), "{what}, {n} repeats: {coverage:.1} %");
    }
}

#[test]
fn intervals_of_means_hold_the_truth_in_94_to_96_of_100_cases_where_values_spread_evenly() {
    within("normal, sd 1/10 of the mean", &of_means(10.0, |r| 10.0 + normal(r)), 94.0, 96.0);
    within("normal, sd 1/5 of the mean", &of_means(5.0, |r| 5.0 + normal(r)), 94.0, 96.0);
    let uniform = of_means(15.0, |r| 10.0 + 10.0 * r.f64());
    // Student's t itself holds 93 % here with three repeats.
    within("even from 10 to 20", &uniform, 92.5, 96.0);
    let lognormal = of_means((0.25f64.powi(2) / 2.0).exp(), |r| (0.25 * normal(r)).exp());
    within("lognormal, sigma 1/4", &lognormal, 94.0, 96.0);
}

/// A few repeats far above the others: the intervals are wider than they need to be rather than too narrow.
#[test]
fn intervals_of_means_hold_the_truth_in_94_or_more_of_100_cases_where_a_few_values_are_far_above() {
    let lognormal =
        |sigma: f64| of_means((sigma * sigma / 2.0).exp(), move |r| (sigma * normal(r)).exp());
    within("lognormal, sigma 1/2", &lognormal(0.5), 94.0, 97.0);
    within("lognormal, sigma 1", &lognormal(1.0), 94.0, 97.0);
    within("exponential", &of_means(1.0, |r| r.exp(1.0)), 94.0, 98.5);
}

/// Packets that hang together (each keeps 95 % of the last one's deviation) say no more than their repeats.
#[test]
fn packets_that_hang_together_make_no_interval_narrower() {
    for repeats in [3, 10] {
        let coverage = held(7, 20.0, |rng| {
            let means: Vec<f64> = (0..repeats)
                .map(|_| {
                    let mut deviation = normal(rng);
                    let delays = (0..100).map(|_| {
                        deviation = 0.95 * deviation + (1.0 - 0.95f64.powi(2)).sqrt() * normal(rng);
                        20.0 + deviation
                    });
                    delays.sum::<f64>() / 100.0
                })
                .collect();
            Interval::of_mean(&means).expect("values")
        });
        within("packets that hang together", &[(repeats, coverage)], 94.0, 96.0);
    }
}

/// Of each repeat the quantile of so many packets whose delays are exponential, and of these the interval of the mean: the path's own
/// quantile is in it.
fn of_quantiles(p: f64, packets: usize, repeats: usize) -> f64 {
    let (truth, trials) = (-(1.0 - p).ln(), 2_000);
    let mut rng = Rng::new(packets as u64);
    let held = (0..trials).filter(|_| {
        let mut delays = || (0..packets).map(|_| rng.exp(1.0)).collect::<Vec<_>>();
        let quantiles: Vec<f64> =
            (0..repeats).map(|_| quantile(&delays(), p).expect("delays")).collect();
        Interval::of_mean(&quantiles).expect("values").contains(truth)
    });
    held.count() as f64 * 100.0 / f64::from(trials)
}

#[test]
fn intervals_of_a_median_hold_the_paths_in_94_to_96_of_100_cases() {
    for repeats in [3, 10] {
        within("median of 100 packets", &[(repeats, of_quantiles(0.5, 100, repeats))], 94.0, 96.5);
    }
}

/// The 99th percentile of few packets is below the path's in the mean, and more repeats of it make the interval narrower, not truer.
#[test]
fn too_few_packets_in_a_repeat_are_the_limit_of_what_an_interval_of_a_p99_can_tell() {
    within("p99 of 1000 packets", &[(10, of_quantiles(0.99, 1000, 10))], 91.0, 95.0);
    within("p99 of 100 packets", &[(10, of_quantiles(0.99, 100, 10))], 66.0, 74.0);
}

/// Batches of a stream of `packets`. A loss begins with probability `ratio` ÷ `burst` and lasts for `burst` packets in the mean
/// (Gilbert 1960).
fn stream(rng: &mut Rng, packets: u32, ratio: f64, burst: f64) -> Vec<Batch> {
    let stop = 1.0 / burst;
    let start = ratio * stop / (1.0 - ratio);
    let mut losing = rng.f64() < ratio;
    let batch = |_| {
        let mut batch = Batch { sent: f64::from(packets / 16), lost: 0.0 };
        for _ in 0..packets / 16 {
            batch.lost += f64::from(u8::from(losing));
            losing = if losing { rng.f64() >= stop } else { rng.f64() < start };
        }
        batch
    };
    (0..16).map(batch).collect()
}

fn of_losses(what: &str, packets: u32, ratio: f64, burst: f64) -> Vec<(usize, f64)> {
    let trials = 2_000_000 / packets;
    let coverage = |repeats: usize| {
        let mut rng = Rng::new(packets.into());
        let held = (0..trials).filter(|_| {
            let streams: Vec<_> =
                (0..repeats).map(|_| stream(&mut rng, packets, ratio, burst)).collect();
            Interval::of_loss(&streams).expect("packets").contains(ratio)
        });
        (repeats, held.count() as f64 * 100.0 / f64::from(trials))
    };
    let found = [3, 10].map(coverage).to_vec();
    println!("{packets} packets, {:.1} % lost {what:<10} {found:.1?}", ratio * 100.0);
    found
}

#[test]
fn intervals_of_a_loss_hold_it_in_94_or_more_of_100_cases_alone_and_in_bursts() {
    for (packets, ratio) in [(1_000, 0.001), (1_000, 0.01), (1_000, 0.1), (4_000, 0.001)] {
        let alone = of_losses("alone", packets, ratio, 1.0 / (1.0 - ratio));
        within("alone", &alone, 94.0, 100.0);
    }
    for (packets, ratio) in [(1_000, 0.01), (1_000, 0.1), (4_000, 0.01)] {
        within("by fives", &of_losses("by fives", packets, ratio, 5.0), 94.0, 100.0);
    }
}

/// Of 10,000 packets with two bursts in the mean, one time in seven none is seen: then nothing tells that losses come in bursts.
#[test]
fn bursts_too_rare_to_be_seen_are_the_limit_of_what_an_interval_of_a_loss_can_tell() {
    let found = of_losses("by fives", 1_000, 0.001, 5.0);
    within("by fives", &found[..1], 94.0, 100.0);
    within("by fives", &found[1..], 84.0, 94.0);
}

#[test]
fn no_loss_in_three_repeats_is_no_proof_that_none_is_lost() {
    let clean = vec![vec![Batch { sent: 1000.0, lost: 0.0 }]; 3];
    let interval = Interval::of_loss(&clean).expect("packets");
    assert!(interval.low == 0.0 && interval.contains(0.001), "{interval:?}");
}
