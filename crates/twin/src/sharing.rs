//! Whether both directions take turns on one medium: half duplex.

/// Of what each direction carried with both full at once, as a part of what it carries alone.
pub fn shared(parts: [f64; 2]) -> Result<bool, String> {
    let (least, most) = (parts[0].min(parts[1]), parts[0].max(parts[1]));
    match parts[0] + parts[1] {
        _ if least > 0.9 => Ok(false),
        sum if sum < 1.2 && most < 0.9 => Ok(true),
        sum => Err(format!(
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
        assert_eq!(shared([0.995, 0.99]), Ok(false));
        assert_eq!(shared([0.51, 0.49]), Ok(true));
        assert!(shared([0.8, 0.75]).is_err());
        assert!(shared([1.0, 0.1]).is_err(), "one of them became slower");
    }
}
