//! The unit of rates that `-f` asks for.

use quell_units::fmt;
use std::sync::OnceLock;

/// A unit of rates, as iperf3's letters for `-f` name them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    bits: f64,
    name: &'static str,
}

/// By letter: bits in powers of 1000, bytes in powers of 1024, as iperf3 has it.
const UNITS: [(char, Unit); 8] = [
    ('k', Unit { bits: 1e3, name: "kbit/s" }),
    ('m', Unit { bits: 1e6, name: "Mbit/s" }),
    ('g', Unit { bits: 1e9, name: "Gbit/s" }),
    ('t', Unit { bits: 1e12, name: "Tbit/s" }),
    ('K', Unit { bits: 8.0 * 1024.0, name: "KiB/s" }),
    ('M', Unit { bits: 8.0 * 1048576.0, name: "MiB/s" }),
    ('G', Unit { bits: 8.0 * 1073741824.0, name: "GiB/s" }),
    ('T', Unit { bits: 8.0 * 1099511627776.0, name: "TiB/s" }),
];

/// What all rates of this process are shown in, where somebody asked for one.
static ASKED: OnceLock<Unit> = OnceLock::new();

impl std::str::FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut letters = text.chars();
        let of = |letter| UNITS.iter().find(|(l, _)| *l == letter).map(|(_, unit)| *unit);
        match (letters.next().and_then(of), letters.next()) {
            (Some(unit), None) => Ok(unit),
            _ => Err("no unit: k, m, g, t are bits in powers of 1000, K, M, G, T bytes in powers of 1024".into()),
        }
    }
}

/// From now on rates are shown in this unit; the first one asked for stays.
pub fn show_in(unit: Unit) {
    let _ = ASKED.set(unit);
}

pub fn column_unit() -> &'static str {
    ASKED.get().map_or("Mbit/s", |unit| unit.name)
}

pub fn in_column(bits: f64) -> String {
    match ASKED.get() {
        Some(unit) => in_unit(bits, *unit),
        None => mbit(bits),
    }
}

fn in_unit(bits: f64, unit: Unit) -> String {
    fmt::three_digits(bits / unit.bits)
}

pub fn rate(bits: f64) -> String {
    if let Some(unit) = ASKED.get() {
        return format!("{} {}", in_unit(bits, *unit), unit.name);
    }
    fmt::rate(bits)
}

pub fn mbit(bits: f64) -> String {
    fmt::three_digits(bits / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_of_iperf3_names_a_unit() {
        let shown = |letter: &str| in_unit(94_149_000.0, letter.parse().unwrap());
        assert_eq!(
            ["k", "m", "g", "K", "M"].map(shown),
            ["94149", "94.1", "0.09", "11493", "11.2"]
        );
        assert!("x".parse::<Unit>().is_err() && "mm".parse::<Unit>().is_err());
    }
}
