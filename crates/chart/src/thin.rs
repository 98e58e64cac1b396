//! Fewer points, same picture.
//!
//! A line keeps, in each column of one pixel, its first, lowest, highest and last point (the M4 aggregation of
//! Jugel et al., VLDB 2014), so that a spike of a single sample survives.

use std::collections::BTreeSet;

/// A place in pixels; `None` is a gap.
pub(crate) type PixelPoint = Option<(f64, f64)>;

/// Indices to keep of a line, ascending. Of each visible gap, the index of one missing point is kept.
pub(crate) fn line(points: &[PixelPoint], width: f64) -> Vec<usize> {
    if points.len() as f64 <= 4.0 * width {
        return (0..points.len()).collect();
    }
    let mut kept = Vec::new();
    let mut column: Option<PixelColumn> = None;
    let mut gap = None;
    for (i, place) in points.iter().enumerate() {
        let Some((x, y)) = *place else {
            gap = gap.or(Some(i));
            continue;
        };
        let at = x.floor();
        match &mut column {
            // A gap that begins and ends within one pixel can't be seen.
            Some(c) if c.at == at => c.add(i, y),
            _ => {
                if let Some(c) = column.take() {
                    c.flush(&mut kept);
                }
                kept.extend(gap);
                column = Some(PixelColumn { at, first: i, last: i, low: (y, i), high: (y, i) });
            }
        }
        gap = None;
    }
    if let Some(c) = column {
        c.flush(&mut kept);
    }
    kept
}

struct PixelColumn {
    at: f64,
    first: usize,
    last: usize,
    low: (f64, usize),
    high: (f64, usize),
}

impl PixelColumn {
    fn add(&mut self, i: usize, y: f64) {
        self.last = i;
        if y < self.low.0 {
            self.low = (y, i);
        }
        if y > self.high.0 {
            self.high = (y, i);
        }
    }

    fn flush(self, kept: &mut Vec<usize>) {
        let all = BTreeSet::from([self.first, self.low.1, self.high.1, self.last]);
        kept.extend(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spike_among_a_million_survives() {
        let mut points: Vec<PixelPoint> =
            (0..1_000_000).map(|i| Some((f64::from(i) / 1_000_000.0 * 600.0, 100.0))).collect();
        points[654_321] = Some((392.6, 3.0));
        let kept = line(&points, 600.0);
        assert!(kept.contains(&654_321) && kept.len() <= 4 * 601, "{}", kept.len());
    }

    #[test]
    fn a_visible_gap_survives_thinning_and_an_invisible_one_does_not() {
        let mut points: Vec<PixelPoint> =
            (0..100_000).map(|i| Some((f64::from(i) / 1000.0, f64::from(i % 7)))).collect();
        points[40_200..45_300].fill(None);
        points[60_500] = None;
        let kept = line(&points, 100.0);
        assert_eq!(kept.iter().filter(|&&i| points[i].is_none()).count(), 1);
    }
}
