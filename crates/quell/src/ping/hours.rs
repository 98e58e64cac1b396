//! `quell show` of a `quell ping --keep`: when the line was bad.

use crate::failure::Failure;
use crate::options::Json;
use crate::text::document;
use quell_grade::Grade;
use quell_ping::Hour;
use quell_sys::wall::{realtime_ns, time_text};
use quell_units::fmt::{ms, percent, plural};
use serde_json::json;
use std::fmt::Write;
use std::path::Path;

/// The worst hours of the days kept under this name, all of them in the order of time, or a document; none where no days are kept there.
pub fn shown(base: &Path, name: &str, form: Json, all: bool) -> Result<Option<String>, Failure> {
    let folders = [base.join(name), name.into()];
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else { return Ok(None) };
    let Some(minutes) = quell_ping::reread(&folder).map_err(Failure::unreadable)? else {
        return Ok(None);
    };
    let now = i64::try_from(realtime_ns() / 1_000_000_000).unwrap_or(i64::MAX);
    // As +0530.
    let zone: i64 = time_text(now, "%z").parse().unwrap_or(0);
    let hours = quell_ping::hours(&minutes, (zone / 100 * 60 + zone % 100) * 60);
    Ok(Some(match form.json {
        true => document(&json!({"folder": folder, "hours": hours})) + "\n",
        false => text(name, hours, all),
    }))
}

fn text(name: &str, mut hours: Vec<Hour>, all: bool) -> String {
    let mut out = String::new();
    let bad = hours.iter().filter(|hour| hour.grade >= Some(Grade::C)).count();
    let sent: u64 = hours.iter().map(|hour| hour.sent).sum();
    let lost: f64 = hours.iter().map(|hour| hour.loss_ratio * hour.sent as f64).sum();
    let of = plural(hours.len() as u64, "hour");
    // A `String` takes whatever is written.
    let _ = writeln!(out, "Calls suffered or broke in {bad} of {of}.");
    let loss = percent(lost / (sent as f64).max(1.0));
    let _ = writeln!(out, "\n{name}: {}, {loss} % lost", plural(sent, "packet"));
    if !all {
        let rank = |hour: &Hour| {
            let thousandths = |of: f64| (of * 1000.0) as u64;
            let delay = hour.p99_ms.map_or(u64::MAX, thousandths);
            (hour.grade, thousandths(hour.loss_ratio), delay)
        };
        hours.sort_by_key(|hour| std::cmp::Reverse(rank(hour)));
        hours.truncate(10);
    }
    let _ = writeln!(out, "\n  {:<17}  loss %   p50 ms   p99 ms   grade", "hour");
    let many = hours.iter().any(|hour| hour.stream != hours[0].stream);
    for hour in &hours {
        let at = time_text(hour.at_s as i64, "%a %d %b %H:%M");
        let delay = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), ms);
        let (p50, p99, loss) = (delay(hour.p50_ms), delay(hour.p99_ms), percent(hour.loss_ratio));
        let grade = hour.grade.map_or_else(|| "unknown".to_owned(), |grade| format!("{grade:?}"));
        let mut more = String::new();
        if hour.lost_up + hour.lost_down > 0 {
            more += &format!("  lost up {}, down {}", hour.lost_up, hour.lost_down);
        }
        if many {
            more += &format!("  {}", hour.stream);
        }
        let _ = writeln!(out, "  {at:<17}  {loss:<7}  {p50:<7}  {p99:<7}  {grade}{more}");
    }
    out
}
