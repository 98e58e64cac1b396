//! Figures for people: in few characters, as many digits as count.

/// `211 kB`, `1.20 GB`.
pub fn bytes(count: u64) -> String {
    scaled(count as f64, "B")
}

/// `2.30 Mbit`: of a second.
pub fn bits(rate: f64) -> String {
    scaled(rate, "bit")
}

/// `94.1 Mbit/s`.
pub fn rate(bits_per_second: f64) -> String {
    bits(bits_per_second) + "/s"
}

/// Three digits that count: `0.05`, `9.41`, `94.1`, `9415`.
pub fn three_digits(value: f64) -> String {
    let digits = match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// `12,345`, then `1.23 M`.
pub fn count(count: u64) -> String {
    if count >= 10_000_000 {
        return scaled(count as f64, "").trim_end().to_owned();
    }
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Of a second: with a digit behind the point where there are few.
pub fn frequency(rate: f64) -> String {
    match rate {
        r if r <= 0.0 => "0".into(),
        r if r < 0.1 => "<0.1".into(),
        r if r < 9.95 => format!("{r:.1}"),
        r => count(r.round() as u64),
    }
}

/// Milliseconds: four digits that count, at most six characters up to 1000 s.
pub fn ms(value: f64) -> String {
    let digits = match value.abs() {
        v if v < 9.9995 => 3,
        v if v < 99.995 => 2,
        v if v < 999.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// As many digits as are read at a glance: `457`, `2.3`, `0.041`.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 9.95 || v == 0.0 => format!("{value:.0}"),
        v if v >= 0.095 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// A part of 1 as percent, without the sign: one digit behind the point, and never 0 or 100 for what is only nearly so.
pub fn percent(ratio: f64) -> String {
    let text = format!("{:.1}", ratio * 100.0);
    match text.as_str() {
        "0.0" if ratio > 0.0 => "<0.1".into(),
        "100.0" if ratio < 1.0 => ">99.9".into(),
        "100.0" => "100".into(),
        _ => text,
    }
}

/// How many, and of what: `1 packet`, `2 packets`.
pub fn plural<N: PartialEq + From<u8> + std::fmt::Display>(n: N, what: &str) -> String {
    let s = if n == 1.into() { "" } else { "s" };
    format!("{n} {what}{s}")
}

fn scaled(value: f64, unit: &str) -> String {
    let (mut value, mut prefix) = (value, "");
    for next in ["k", "M", "G", "T", "P", "E"] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        prefix = next;
    }
    let figure = if prefix.is_empty() { format!("{value:.0}") } else { three_digits(value) };
    format!("{figure} {prefix}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_longer_than_nine_characters() {
        assert_eq!(
            (bytes(0), bytes(999), bytes(1000)),
            ("0 B".into(), "999 B".into(), "1.00 kB".into())
        );
        assert_eq!((bytes(211_000), bits(2_296_000.0)), ("211 kB".into(), "2.30 Mbit".into()));
        assert_eq!((rate(94_149_000.0), rate(0.0)), ("94.1 Mbit/s".into(), "0 bit/s".into()));
        assert_eq!((count(9_999_999), count(10_000_000)), ("9,999,999".into(), "10.0 M".into()));
        assert_eq!(
            (frequency(0.04), frequency(3.24), frequency(1234.6)),
            ("<0.1".into(), "3.2".into(), "1,235".into())
        );
        for n in 0..64 {
            let n = 1u64 << n;
            let longest = [bytes(n), count(n), frequency(n as f64)].iter().map(String::len).max();
            assert!(
                longest.is_some_and(|l| l <= 9),
                "{n}: {} {} {}",
                bytes(n),
                count(n),
                frequency(n as f64)
            );
        }
    }
}
