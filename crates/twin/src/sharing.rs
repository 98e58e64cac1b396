//! Whether both directions take turns on one medium: half duplex.

use crate::bounded::Bounded;

/// Of the packets a second that came in each direction alone, and of those with both directions full at once.
pub fn shared(alone: [Bounded; 2], together: [f64; 2]) -> Result<bool, String> {
    let parts = [0, 1].map(|way| together[way] / alone[way].value);
    match (parts[0] + parts[1], parts[0].min(parts[1])) {
        (_, least) if least > 0.9 => Ok(false),
        (sum, _) if sum < 1.2 => Ok(true),
        (sum, _) => Err(format!(
            "both at once carried {:.0} % of what each carries alone, together",
            sum * 100.0
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_half_duplex_and_wholes_are_not() {
        let alone = [1000.0, 200.0].map(|rate| Bounded::new(rate, (rate, rate)));
        assert_eq!(shared(alone, [995.0, 198.0]), Ok(false));
        assert_eq!(shared(alone, [510.0, 98.0]), Ok(true));
        assert!(shared(alone, [800.0, 150.0]).is_err());
    }
}
