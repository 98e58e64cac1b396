//! Times as RFC 3339 and Python's `isoformat` write them.

/// `2017-05-30T15:42:47.075621Z` as seconds since 1970; without `Z` as if it were UTC. None for what is no such time.
pub fn seconds(text: &str) -> Option<f64> {
    let text = text.trim().trim_end_matches('Z').trim_end_matches("+00:00");
    let (date, time) = text.split_once(['T', ' '])?;
    let number = |part: &str| -> Option<i64> {
        (part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit())).then(|| part.parse().ok())?
    };
    let mut parts = date.split('-').map(number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = time.split(':').map(number);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let fits = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second)
        && (1..=12).contains(&fraction.len())
        && fraction.bytes().all(|b| b.is_ascii_digit());
    if !fits {
        return None;
    }
    let whole = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(whole as f64 + format!("0.{fraction}").parse::<f64>().ok()?)
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, counted by years that start in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, wanted) in [
            ("1970-01-01T00:00:00Z", Some(0.0)),
            ("2000-02-29T00:00:00", Some(951_782_400.0)),
            ("2017-05-30T15:42:47.5Z", Some(1_496_158_967.5)),
            ("2017-05-30 15:42:47.500000", Some(1_496_158_967.5)),
            ("2017-13-30T15:42:47Z", None),
            ("2017-05-30T15:42", None),
            ("yesterday", None),
            ("99999-05-30T15:42:47Z", None),
        ] {
            assert_eq!(seconds(text), wanted, "{text}");
        }
    }
}
