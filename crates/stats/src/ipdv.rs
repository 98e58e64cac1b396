//! Delay variation between consecutive packets.

/// IP packet delay variation (RFC 3393 section 2.4) of consecutive packets in the order of sending:
/// the delay of the second minus that of the first.
///
/// `delays` holds the one-way delay of every packet sent, `None` for a lost one. Element `i` of the
/// answer belongs to packets `i` and `i+1`, and is `None` where one of them was lost: the variation is
/// undefined then, and is not taken across the gap. Clocks need not agree.
pub fn ipdv(delays: &[Option<f64>]) -> Vec<Option<f64>> {
    delays.windows(2).map(|pair| Some(pair[1]? - pair[0]?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_the_second_delay_minus_the_first() {
        let delays = [Some(20.0), Some(25.0), Some(22.0)];
        assert_eq!(ipdv(&delays), [Some(5.0), Some(-3.0)]);
    }

    #[test]
    fn a_lost_packet_breaks_both_its_pairs() {
        let delays = [Some(20.0), None, Some(22.0), Some(23.0)];
        assert_eq!(ipdv(&delays), [None, None, Some(1.0)]);
    }

    #[test]
    fn fewer_than_two_packets_have_no_variation() {
        assert!(ipdv(&[]).is_empty());
        assert!(ipdv(&[Some(20.0)]).is_empty());
    }
}
