//! Five numbers and the outliers: what a box plot draws.

use crate::Sample;
use crate::sample::quantile_of;

/// A box with Tukey's whiskers (Tukey 1977, "Exploratory Data Analysis").
#[derive(Debug, Clone, PartialEq)]
pub struct BoxSummary {
    /// The smallest value within 1.5 box heights below the box, or the box's edge if there is none.
    pub whisker_low: f64,
    /// The lower edge: the 0.25 quantile (type 7).
    pub q1: f64,
    pub median: f64,
    /// The upper edge: the 0.75 quantile (type 7).
    pub q3: f64,
    /// The largest value within 1.5 box heights above the box, or the box's edge if there is none.
    pub whisker_high: f64,
    /// The values beyond the whiskers' reach, ascending.
    pub outliers: Vec<f64>,
}

impl BoxSummary {
    pub fn new(sample: &Sample) -> Self {
        let values = sample.values();
        let [q1, median, q3] = [0.25, 0.5, 0.75].map(|p| quantile_of(values, p));
        let reach = 1.5 * (q3 - q1);
        let first = values.partition_point(|value| *value < q1 - reach);
        let end = values.partition_point(|value| *value <= q3 + reach);
        let inside = values.get(first..end).unwrap_or_default();
        Self {
            // Interpolated quartiles may lie outside all values that are no outliers.
            whisker_low: inside.first().map_or(q1, |low| low.min(q1)),
            q1,
            median,
            q3,
            whisker_high: inside.last().map_or(q3, |high| high.max(q3)),
            outliers: [&values[..first], &values[end..]].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn boxed(values: &[f64]) -> BoxSummary {
        BoxSummary::new(&Sample::new(values.iter().copied()).expect("values"))
    }

    #[test]
    fn whiskers_end_at_values_and_not_at_their_reach() {
        // By hand over 1..=8 and 30: positions 2, 4, 6 give 3, 5, 7; the reach is 6, so -3 to 13.
        let got = boxed(&[30.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let expected = BoxSummary {
            whisker_low: 1.0,
            q1: 3.0,
            median: 5.0,
            q3: 7.0,
            whisker_high: 8.0,
            outliers: vec![30.0],
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn a_box_without_height_calls_everything_else_an_outlier() {
        // The lab in virtual time: the same round trip every time, but for the first.
        let mut values = vec![20.0; 99];
        values.push(21.5);
        let got = boxed(&values);
        assert_eq!((got.whisker_low, got.q1, got.q3, got.whisker_high), (20.0, 20.0, 20.0, 20.0));
        assert_eq!(got.outliers, [21.5]);
    }

    #[test]
    fn one_value_is_the_whole_box() {
        let got = boxed(&[7.0]);
        assert_eq!((got.whisker_low, got.median, got.whisker_high), (7.0, 7.0, 7.0));
        assert!(got.outliers.is_empty());
    }

    proptest! {
        #[test]
        fn the_five_numbers_ascend_and_outliers_lie_beyond_them(
            values in proptest::collection::vec(0u8..100, 1..60)
        ) {
            let got = boxed(&values.into_iter().map(f64::from).collect::<Vec<_>>());
            let five = [got.whisker_low, got.q1, got.median, got.q3, got.whisker_high];
            prop_assert!(five.windows(2).all(|pair| pair[0] <= pair[1]), "{five:?}");
            for outlier in got.outliers {
                prop_assert!(outlier < got.whisker_low || outlier > got.whisker_high);
            }
        }
    }
}
