//! The empirical distribution function, thinned out for drawing.

use crate::Sample;

/// One corner of the step function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub value: f64,
    /// The share of all values that are at most this one; 1 at the last step.
    pub share: f64,
}

/// The steps of the distribution function, ascending, at most `max_points` of them.
///
/// Each step is exact. Where there are more distinct values than points, the steps kept are spread
/// evenly over the distinct values, the first and the last among them (the last alone if only one is
/// asked for), so that the tail keeps its end.
pub fn ecdf(sample: &Sample, max_points: usize) -> Vec<Step> {
    let n = sample.count() as f64;
    let mut steps: Vec<Step> = Vec::new();
    for (index, value) in sample.values().iter().copied().enumerate() {
        let step = Step { value, share: (index + 1) as f64 / n };
        match steps.last_mut() {
            Some(last) if last.value == value => *last = step,
            _ => steps.push(step),
        }
    }
    let last = steps.len() - 1;
    match max_points {
        _ if steps.len() <= max_points => steps,
        0 => Vec::new(),
        1 => vec![steps[last]],
        points => (0..points).map(|point| steps[point * last / (points - 1)]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(values: &[f64], max_points: usize) -> Vec<(f64, f64)> {
        let sample = Sample::new(values.iter().copied()).expect("values");
        ecdf(&sample, max_points).iter().map(|step| (step.value, step.share)).collect()
    }

    #[test]
    fn equal_values_make_one_step() {
        // By hand: one of four values is at most 10, three are at most 20, all are at most 30.
        assert_eq!(pairs(&[20.0, 10.0, 30.0, 20.0], 10), [(10.0, 0.25), (20.0, 0.75), (30.0, 1.0)]);
        assert_eq!(pairs(&[5.0], 10), [(5.0, 1.0)]);
    }

    #[test]
    fn few_points_keep_both_ends() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(pairs(&values, 4), [(1.0, 0.01), (34.0, 0.34), (67.0, 0.67), (100.0, 1.0)]);
        assert_eq!(pairs(&values, 1), [(100.0, 1.0)]);
        assert_eq!(pairs(&values, 0), []);
    }

    proptest! {
        #[test]
        fn each_step_is_the_true_share_and_they_rise(
            values in proptest::collection::vec(0u8..60, 1..200),
            max_points in 1usize..80,
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let steps = pairs(&values, max_points);
            prop_assert!(steps.len() <= max_points);
            prop_assert!(steps.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1));
            prop_assert_eq!(steps[steps.len() - 1].1, 1.0);
            for (value, share) in steps {
                let at_most = values.iter().filter(|other| **other <= value).count();
                prop_assert_eq!(share, at_most as f64 / values.len() as f64);
            }
        }
    }
}
