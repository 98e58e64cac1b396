//! Numbers as iperf3's users type them, and as Quell's.

use quell_units::{Bytes, Rate, Span};

/// Bits a second: `100M` (thousands, as iperf3), `0` for no limit, or with a unit as `2.5Gbit`.
pub fn bits(text: &str) -> Result<u64, String> {
    if let Some(number) = scaled(text, 1000.0) {
        return Ok(number);
    }
    text.parse::<Rate>().map(Rate::bps).map_err(|e| format!("{e}; or as iperf3: 100M"))
}

/// The same, with a burst behind it: `100M/10`.
pub fn bits_in_bursts(text: &str) -> Result<(u64, Option<u32>), String> {
    let Some((rate, burst)) = text.split_once('/') else { return Ok((bits(text)?, None)) };
    let burst = burst.parse().map_err(|_| format!("`{burst}` is no number of datagrams"))?;
    Ok((bits(rate)?, Some(burst)))
}

pub fn milliseconds(text: &str) -> Result<Span, String> {
    match text.parse::<u64>() {
        Ok(ms) if ms < 1_000_000_000 => Ok(Span::from_millis(ms)),
        Ok(_) => Err("no time; give milliseconds, or as 500ms, 2s".into()),
        Err(_) => text.parse().map_err(|e| format!("{e}")),
    }
}

/// Bytes: `128K` (1024, as iperf3), or with a unit as `64KiB`, `1MB`.
pub fn size(text: &str) -> Result<u64, String> {
    if let Some(number) = scaled(text, 1024.0) {
        return Ok(number);
    }
    text.parse::<Bytes>().map(Bytes::get).map_err(|e| format!("{e}; or as iperf3: 128K"))
}

pub fn seconds(text: &str) -> Result<Span, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && (0.0..1e9).contains(&seconds) => {
            Ok(Span::from_nanos((seconds * 1e9).round() as u64))
        }
        Ok(_) => Err("no time; give seconds, or as 500ms, 2min".into()),
        Err(_) => text.parse().map_err(|e| format!("{e}")),
    }
}

fn scaled(text: &str, step: f64) -> Option<u64> {
    let (number, power) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1),
        (at, 'm' | 'M') => (&text[..at], 2),
        (at, 'g' | 'G') => (&text[..at], 3),
        (at, 't' | 'T') => (&text[..at], 4),
        _ => (text, 0),
    };
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let number: f64 = number.parse().ok()?;
    let all = number * step.powi(power);
    (all.is_finite() && all < 1e18).then_some(all.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_mean_what_they_mean_in_iperf3() {
        assert_eq!(bits("100M"), Ok(100_000_000));
        assert_eq!(bits("2.5Gbit"), Ok(2_500_000_000));
        assert_eq!(bits("0"), Ok(0));
        assert_eq!(bits_in_bursts("10M/5"), Ok((10_000_000, Some(5))));
        assert_eq!(bits_in_bursts("10M"), Ok((10_000_000, None)));
        assert!(bits_in_bursts("10M/").is_err() && bits_in_bursts("10M/x").is_err());
        assert_eq!(milliseconds("500"), Ok(Span::from_millis(500)));
        assert_eq!(milliseconds("2s"), Ok(Span::from_secs(2)));
        assert_eq!(size("128K"), Ok(131_072));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("1MB"), Ok(1_000_000));
        assert_eq!(seconds("0.5"), Ok(Span::from_millis(500)));
        assert_eq!(seconds("2min"), Ok(Span::from_secs(120)));
        for bad in ["", "M", "-5", "infM", "nan", "1e400", "5 apples"] {
            assert!(bits(bad).is_err() && size(bad).is_err(), "{bad}");
        }
        assert!(seconds("-1").is_err() && seconds("inf").is_err() && seconds("x").is_err());
    }
}
