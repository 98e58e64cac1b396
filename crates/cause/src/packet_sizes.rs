//! Whether a path swallows large packets, by which sizes arrive; `quell path` and `quell doctor --peer` supply the facts.

use crate::Cause;

/// Sizes of IP packets, in bytes, that were sent one way of a path, unfragmented and each several times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SizeFacts<'a> {
    pub sent: &'a [u32],
    /// Those of which one arrived, at least.
    pub arrived: &'a [u32],
    /// The least size that somebody on the path named as what fits.
    pub named: Option<u32>,
}

impl SizeFacts<'_> {
    /// The largest size that arrives and the smallest that does not, where all above some size are lost and nobody says so of the smallest: a tunnel's
    /// router names its own MTU, and knows nothing of a hop behind it that swallows less.
    pub fn gap(&self) -> Option<(u32, u32)> {
        let largest = *self.arrived.iter().max()?;
        let lost = *self.sent.iter().filter(|size| **size > largest).min()?;
        // A path that loses now and then loses small ones too.
        let steady = self.sent.iter().all(|size| *size > largest || self.arrived.contains(size));
        let is_told = self.named.is_some_and(|named| named < lost);
        (steady && !is_told).then_some((largest, lost))
    }

    pub fn cause(&self) -> Option<Cause> {
        self.gap().map(|_| Cause::MtuBlackHole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_where_all_above_a_size_are_lost_and_nobody_says_so_large_packets_vanish() {
        let facts = |arrived, named| SizeFacts { sent: &[576, 1280, 1500], arrived, named };
        assert_eq!(facts(&[576, 1280], None).gap(), Some((1280, 1500)));
        assert_eq!(facts(&[576, 1280], None).cause(), Some(Cause::MtuBlackHole));
        assert_eq!(facts(&[576, 1280], Some(1280)).cause(), None, "a hop says so");
        let tunnel = SizeFacts { sent: &[1280, 1400, 1420, 1440], ..facts(&[1280], Some(1420)) };
        assert_eq!(tunnel.gap(), Some((1280, 1400)), "a hop says so of larger ones");
        assert_eq!(facts(&[576, 1500], None).cause(), None, "one was lost by chance");
        assert_eq!(facts(&[], None).cause(), None, "nothing arrives");
        assert_eq!(facts(&[576, 1280, 1500], None).cause(), None);
    }
}
