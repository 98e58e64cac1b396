//! How evenly something is shared.

/// Jain's fairness index: (sum x)^2 / (n * sum x^2) (Jain, Chiu and Hawe 1984, DEC-TR-301; RFC 5166
/// section 2.3.1). 1 where all shares are equal, 1/n where one has everything.
///
/// `None` if there are no shares, if one is negative, NaN or infinite, or if all are zero: nothing was
/// shared then.
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    if !shares.iter().all(|share| share.is_finite() && *share >= 0.0) {
        return None;
    }
    let largest = shares.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return None;
    }
    // Relative to the largest share, so that no square overflows.
    let sum: f64 = shares.iter().map(|share| share / largest).sum();
    let squares: f64 = shares.iter().map(|share| (share / largest).powi(2)).sum();
    Some(sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_fair_and_a_monopoly_is_not() {
        assert_eq!(jain_index(&[5.0, 5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain_index(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[7.0]), Some(1.0));
    }

    #[test]
    fn k_of_n_served_equally_score_k_over_n() {
        // The paper's own reading: an index of 0.2 means fair to 20 % of the users.
        assert_eq!(jain_index(&[10.0, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]), Some(0.2));
    }

    #[test]
    fn uneven_shares_by_hand() {
        // 1, 3: (1+3)^2 / (2 * (1+9)) = 16/20.
        let index = jain_index(&[1.0, 3.0]).expect("shares");
        assert!((index - 0.8).abs() < 1e-12, "{index}");
        let scaled = jain_index(&[1e300, 3e300]).expect("shares");
        assert!((scaled - 0.8).abs() < 1e-12, "{scaled}");
    }

    #[test]
    fn nothing_shared_has_no_index() {
        for shares in [&[][..], &[0.0, 0.0], &[1.0, -1.0], &[1.0, f64::NAN], &[f64::INFINITY]] {
            assert_eq!(jain_index(shares), None);
        }
    }
}
