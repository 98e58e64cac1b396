//! Figures of a test as people read them: three digits that count, and a unit.

use std::sync::OnceLock;

/// A unit of rates, as iperf3's letters for `-f` name them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// Bits a second of one.
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

/// What a column of rates says that it shows.
pub fn column_unit() -> &'static str {
    ASKED.get().map_or("Mbit/s", |unit| unit.name)
}

/// A rate in the unit of a column.
pub fn in_column(bits: f64) -> String {
    match ASKED.get() {
        Some(unit) => in_unit(bits, *unit),
        None => mbit(bits),
    }
}

fn in_unit(bits: f64, unit: Unit) -> String {
    let value = bits / unit.bits;
    if value >= 100.0 { format!("{value:.0}") } else { three(value) }
}

/// Bits a second for people.
pub fn rate(bits: f64) -> String {
    if let Some(unit) = ASKED.get() {
        return format!("{} {}", in_unit(bits, *unit), unit.name);
    }
    let (value, unit) = match bits {
        b if b >= 999.5e6 => (b / 1e9, "Gbit/s"),
        b if b >= 999.5e3 => (b / 1e6, "Mbit/s"),
        b if b >= 999.5 => (b / 1e3, "kbit/s"),
        b => (b, "bit/s"),
    };
    format!("{} {unit}", three(value))
}

/// Megabits a second, without the unit.
pub fn mbit(bits: f64) -> String {
    let value = bits / 1e6;
    if value >= 100.0 { format!("{value:.0}") } else { three(value) }
}

/// Three digits that count.
fn three(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Bytes, in powers of 1000.
pub fn bytes(bytes: u64) -> String {
    let (value, unit) = match bytes as f64 {
        b if b >= 999.5e6 => (b / 1e9, "GB"),
        b if b >= 999.5e3 => (b / 1e6, "MB"),
        b if b >= 999.5 => (b / 1e3, "kB"),
        _ => return format!("{bytes} B"),
    };
    format!("{} {unit}", three(value))
}

/// Milliseconds.
pub fn ms(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A part of one; never 0 for what is only nearly so.
pub fn percent(part: f64) -> String {
    match part * 100.0 {
        p if p > 0.0 && p < 0.01 => "less than 0.01 %".into(),
        p if p < 1.0 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_three_digits() {
        assert_eq!(rate(94_149_000.0), "94.1 Mbit/s");
        assert_eq!(rate(26_700_000_000.0), "26.7 Gbit/s");
        assert_eq!(rate(0.0), "0.00 bit/s");
        assert_eq!((bytes(117_600_000), bytes(12)), ("118 MB".into(), "12 B".into()));
        assert_eq!([0.0123, 1.5, 48.04, 480.4].map(ms), ["0.012", "1.50", "48.0", "480"]);
        assert_eq!(percent(0.00001), "less than 0.01 %");
        assert_eq!((percent(0.0), percent(0.021)), ("0.00 %".into(), "2.1 %".into()));
    }

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
