//! Wall time as text, by jiff. It stands in manifests and in what is exchanged with other programs, and nowhere else.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::time::SystemTime;

/// RFC 3339 in UTC to the second, as `2026-11-21T10:15:03Z`. Times that no calendar has are given as 1970.
pub fn rfc3339(time: SystemTime) -> String {
    formatted(time, "%Y-%m-%dT%H:%M:%SZ")
}

/// As HTTP writes a time (RFC 9110, section 5.6.7): `Sat, 21 Nov 2026 10:15:03 GMT`.
pub fn http_date(time: SystemTime) -> String {
    formatted(time, "%a, %d %b %Y %H:%M:%S GMT")
}

/// As the name of a run's folder begins, `20261121T101503`, from RFC 3339; none for what is no such time.
pub fn stamp(rfc3339: &str) -> Option<String> {
    let time: Timestamp = rfc3339.parse().ok()?;
    Some(time.strftime("%Y%m%dT%H%M%S").to_string())
}

/// Seconds since 1970 of RFC 3339 or Python's `isoformat`; without a zone as if it were UTC. None for what is no such time.
pub fn unix_seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let time = text
        .parse::<Timestamp>()
        .or_else(|_| text.parse::<DateTime>().and_then(|civil| TimeZone::UTC.to_timestamp(civil)));
    time.ok().map(|time| time.as_nanosecond() as f64 / 1e9)
}

fn formatted(time: SystemTime, format: &str) -> String {
    let whole = Timestamp::try_from(time).ok().filter(|time| *time >= Timestamp::UNIX_EPOCH);
    whole.unwrap_or(Timestamp::UNIX_EPOCH).strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn times_are_read_as_they_are_written() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
            assert_eq!(unix_seconds(text), Some(seconds as f64));
        }
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(5)), "1970-01-01T00:00:00Z");
        let python = ["2017-05-30T15:42:47.5Z", "2017-05-30 15:42:47.500000"];
        assert_eq!(python.map(unix_seconds), [Some(1_496_158_967.5); 2]);
        for wrong in ["2017-13-30T15:42:47Z", "yesterday", "", "99999-05-30T15:42:47Z"] {
            assert_eq!((unix_seconds(wrong), stamp(wrong)), (None, None), "{wrong}");
        }
        assert_eq!(stamp("2026-11-21T10:15:03.25Z").as_deref(), Some("20261121T101503"));
        let date = http_date(UNIX_EPOCH + Duration::from_secs(951_782_400));
        assert_eq!(date, "Tue, 29 Feb 2000 00:00:00 GMT");
    }
}
