//! Wall time as RFC 3339 in UTC, and as the stamp of a run's folder. Wall time appears in manifests only.

use std::time::{SystemTime, UNIX_EPOCH};

/// A point in time as RFC 3339 in UTC to the second, as `2026-11-21T10:15:03Z`. Times before 1970 are given as 1970.
pub fn utc_rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Day of the proleptic Gregorian calendar from days since 1970-01-01: the well-known count by eras of 400 years that start in March,
/// so that the leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// `20261121T101503` from `2026-11-21T10:15:03Z` (a fraction of a second is dropped); none when it is not RFC 3339 in UTC.
pub(crate) fn stamp(rfc3339: &str) -> Option<String> {
    let rest = rfc3339.strip_suffix('Z')?;
    let (whole, fraction) = rest.split_once('.').unwrap_or((rest, "0"));
    let shape = "dddd-dd-ddTdd:dd:dd";
    let fits = whole.len() == shape.len()
        && whole.bytes().zip(shape.bytes()).all(|(byte, wanted)| match wanted {
            b'd' => byte.is_ascii_digit(),
            _ => byte == wanted,
        });
    let fraction_fits = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
    (fits && fraction_fits).then(|| whole.chars().filter(|c| !matches!(c, '-' | ':')).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc_rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_clock_before_1970_gives_1970() {
        assert_eq!(utc_rfc3339(UNIX_EPOCH - Duration::from_secs(5)), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn a_stamp_is_the_time_without_punctuation() {
        assert_eq!(stamp("2026-11-21T10:15:03Z").as_deref(), Some("20261121T101503"));
        assert_eq!(stamp("2026-11-21T10:15:03.25Z").as_deref(), Some("20261121T101503"));
        for wrong in ["", "yesterday", "2026-11-21", "2026-11-21T10:15:03", "2026-11-21T10:15:03.Z"]
        {
            assert_eq!(stamp(wrong), None, "{wrong}");
        }
    }
}
