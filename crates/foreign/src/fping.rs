//! What fping prints: lines of `-c` and `-l` with or without the times of `-D`, lists of `-C`, and the summary.
//!
//! ```text
//!   [1700000000.123456] 192.0.2.7 : [3], 64 bytes, 12.3 ms (12.1 avg, 0% loss)      -D -c
//!   192.0.2.7 : [4], timed out (12.1 avg, 20% loss)
//!   192.0.2.7 : duplicate for [3], 64 bytes, 0.07 ms
//!   192.0.2.7 : 12.3 12.1 - 12.4                                                    -C: the packets of the lines once more; with -q alone
//!   192.0.2.7 : xmt/rcv/%loss = 5/4/20%, min/avg/max = 12.1/12.2/12.4               summary
//! ```

mod target;

use crate::bounds::{MOST_SAMPLES, MOST_STREAMS};
use crate::error::ForeignError;
use crate::imported::{Hints, Imported, Stream, Tool, from_ms, from_s};
use quell_model::{EchoSample, EchoStatus};
use std::collections::HashMap;
use target::{Sum, Target};

/// Time between packets to one target, where nothing tells it: fping's own default (`-p`).
const USUAL_INTERVAL_NS: u64 = 1_000_000_000;

/// Bytes of the ICMP header, which fping counts into the size that it prints.
const HEADER: u32 = 8;

/// Most bytes that IP carries in a packet.
const LARGEST: u32 = 65_535;

/// What a line says.
#[derive(Debug, PartialEq)]
enum Said<'a> {
    /// A packet's answer; the time at which it came.
    Answer { host: &'a str, seq: u64, bytes: u32, ms: f64, stamp: Option<f64> },
    /// A packet without one.
    TimedOut { host: &'a str, seq: u64, stamp: Option<f64> },
    /// A further answer.
    Again { host: &'a str, seq: u64, bytes: u32, ms: f64, stamp: Option<f64> },
    /// All packets of a target, by number.
    All { host: &'a str, times: Vec<Option<f64>> },
    /// The sums of a target.
    Summary { host: &'a str, sent: u64, received: u64 },
}

/// Whether a line is one of those, be it damaged.
pub(crate) fn is_line(line: &str) -> bool {
    !matches!(said(line), Ok(None))
}

/// What a line says; none where it is none of these.
///
/// # Errors
/// Where it is one of these and a value in it can't be read: what it tells of would pass for lost.
fn said(line: &str) -> Result<Option<Said<'_>>, String> {
    let line = line.trim();
    let (stamp, line) = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((stamp, rest)) => (Some(stamp), rest),
        None => (None, line),
    };
    let Some((host, rest)) = line.split_once(" : ") else { return Ok(None) };
    let (host, rest) = (host.trim(), rest.trim());
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Ok(None);
    }
    if let Some(sums) = rest.strip_prefix("xmt/rcv/%") {
        return summary(host, sums).map(Some);
    }
    let (again, rest) = match rest.strip_prefix("duplicate for ") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    if let Some((seq, rest)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let rest = rest.trim_start_matches(',').trim();
        let timed_out = rest.starts_with("timed out");
        let answer = rest.split_once(" bytes, ");
        if !timed_out && answer.is_none() {
            return Ok(None);
        }
        let seq = seq.parse().map_err(|_| unreadable(seq, "number of a packet"))?;
        let stamp = stamp.map(|stamp| {
            let s = stamp.parse::<f64>().ok().filter(|s| s.is_finite());
            s.ok_or_else(|| unreadable(stamp, "time"))
        });
        let stamp = stamp.transpose()?;
        let Some((bytes, rest)) = answer.filter(|_| !timed_out) else {
            return Ok(Some(Said::TimedOut { host, seq, stamp }));
        };
        let size = bytes.parse().ok().filter(|bytes| *bytes <= LARGEST);
        let bytes = size.ok_or_else(|| unreadable(bytes, "size of a packet"))?;
        let ms = rest.split_once(" ms").map_or(rest, |(ms, _)| ms).trim();
        let ms = ms.parse().map_err(|_| unreadable(ms, "round-trip time"))?;
        return Ok(Some(match again {
            true => Said::Again { host, seq, bytes, ms, stamp },
            false => Said::Answer { host, seq, bytes, ms, stamp },
        }));
    }
    let time = |word: &str| match word {
        "-" => Some(None),
        _ => word.parse::<f64>().ok().filter(|ms| ms.is_finite()).map(Some),
    };
    let words = rest.split_whitespace().take(MOST_SAMPLES + 1);
    let count = words.clone().count();
    let times: Vec<Option<f64>> = words.clone().filter_map(time).collect();
    match count - times.len() {
        0 if count > 0 => Ok(Some(Said::All { host, times })),
        wrong if count > 2 && wrong * 2 < count => {
            let word = words.clone().find(|word| time(word).is_none()).unwrap_or_default();
            Err(unreadable(word, "round-trip time"))
        }
        _ => Ok(None),
    }
}

fn unreadable(word: &str, what: &str) -> String {
    format!("`{}` is no {what}", word.escape_debug().take(40).collect::<String>())
}

/// `loss = 5/4/20%, …`, or `return = 5/6/120%` where more came than was sent.
fn summary<'a>(host: &'a str, sums: &str) -> Result<Said<'a>, String> {
    let numbers = sums.split_once("= ").map_or("", |(_, numbers)| numbers);
    let numbers = numbers.split([',', '%']).next().unwrap_or_default().trim();
    let wrong = || unreadable(numbers, "sum of packets sent and received");
    let mut each = numbers.split('/').map(|number| number.trim().parse::<i64>());
    let mut number = || each.next().and_then(Result::ok).ok_or_else(wrong);
    let (sent, received, percent) = (number()?, number()?, number()?);
    let is_loss = sums.starts_with("loss");
    let counted = if is_loss { sent.saturating_sub(received) } else { received };
    // As fping cuts it; older ones round.
    let wanted = if sent > 0 { counted as f64 * 100.0 / sent as f64 } else { percent as f64 };
    if sent < 0
        || received < 0
        || is_loss && received > sent
        || (wanted - percent as f64).abs() > 1.0
    {
        return Err(wrong());
    }
    Ok(Said::Summary { host, sent: sent.cast_unsigned(), received: received.cast_unsigned() })
}

/// The targets by their place in the file.
#[derive(Default)]
struct Targets {
    all: Vec<Target>,
    places: HashMap<String, usize>,
    /// Packets that lines tell of, and those in lists.
    count: [usize; 2],
}

impl Targets {
    fn of(&mut self, host: &str) -> Result<&mut Target, ForeignError> {
        let place = match self.places.get(host) {
            Some(place) => *place,
            None if self.all.len() == MOST_STREAMS => return Err(ForeignError::TooMany),
            None => {
                self.places.insert(host.to_owned(), self.all.len());
                let names = self.all.iter().map(|target| &*target.stream.name);
                let name = crate::imported::unused(names, host);
                let stream = Stream { name, ..Stream::default() };
                self.all.push(Target { stream, ..Target::default() });
                self.all.len() - 1
            }
        };
        Ok(&mut self.all[place])
    }

    fn count(&mut self, of: usize, more: usize) -> Result<(), ForeignError> {
        self.count[of] = self.count[of].saturating_add(more);
        if self.count[of] > MOST_SAMPLES { Err(ForeignError::TooMany) } else { Ok(()) }
    }
}

pub(crate) fn read(text: &str, hints: Hints) -> Result<Imported, ForeignError> {
    let mut imported = Imported::new(Tool::Fping);
    let mut targets = Targets::default();
    let mut unknown: (usize, Option<(usize, &str)>) = (0, None);
    let interval = hints.interval_ns.unwrap_or(USUAL_INTERVAL_NS);
    let mut zero: Option<f64> = None;
    let count = text.lines().count();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |why: String| ForeignError::Text { line: index + 1, why };
        let said = match said(line) {
            Ok(Some(said)) => said,
            // Where fping was ended its last line may be cut off.
            Err(why) if index + 1 < count || text.ends_with('\n') => return Err(wrong(why)),
            Ok(None) | Err(_) => {
                unknown.0 += 1;
                unknown.1.get_or_insert((index + 1, line));
                continue;
            }
        };
        let rtt =
            |ms: f64| from_ms(ms).ok_or_else(|| wrong(format!("{ms} ms is no round-trip time")));
        // An answer stands at the time at which it came.
        let mut at = |stamp: f64, rtt: u64| -> Result<i64, ForeignError> {
            let zero = *zero.get_or_insert(stamp - rtt as f64 / 1e9);
            let since = from_s(stamp - zero)
                .ok_or_else(|| wrong(format!("{stamp} is no time of this file")))?;
            Ok(since - i64::try_from(rtt).unwrap_or(0))
        };
        let (host, seq, bytes, ms, stamp, status) = match said {
            Said::Answer { host, seq, bytes, ms, stamp } => {
                (host, seq, bytes, Some(ms), stamp, EchoStatus::Ok)
            }
            Said::Again { host, seq, bytes, ms, stamp } => {
                (host, seq, bytes, Some(ms), stamp, EchoStatus::Duplicate)
            }
            Said::TimedOut { host, seq, stamp } => (host, seq, 0, None, stamp, EchoStatus::Lost),
            Said::All { host, times } => {
                targets.count(1, times.len())?;
                let target = targets.of(host)?;
                if target.list.is_some() {
                    let why = "it lists the packets of this target a second time; each run of fping needs a file of its own";
                    return Err(wrong(why.to_owned()));
                }
                let list: Result<_, _> =
                    times.into_iter().map(|ms| ms.map(rtt).transpose()).collect();
                target.list = Some(list?);
                continue;
            }
            Said::Summary { host, sent, received } => {
                let target = targets.of(host)?;
                target.sent = target.sent.max(Some(sent));
                let many = target.sum.is_some();
                target.sum = Some(Sum { line: index + 1, sent, received, many });
                target.stream.facts =
                    vec![("transmitted", sent.to_string()), ("received", received.to_string())];
                continue;
            }
        };
        targets.count(0, 1)?;
        let rtt_ns = ms.map(rtt).transpose()?;
        let t_ns = stamp.map_or(Ok(0), |stamp| at(stamp, rtt_ns.unwrap_or(0)))?;
        let packet = EchoSample::new(t_ns, seq, bytes.saturating_sub(HEADER), status);
        let packet = EchoSample { rtt_ns, ..packet };
        let target = targets.of(host)?;
        match (stamp, rtt_ns) {
            (None, _) => target.timeless.push(packet),
            (Some(_), Some(_)) => target.stamped.push(packet),
            (Some(_), None) => {
                target.sent = target.sent.max(Some(seq.saturating_add(1)));
                target.late.push(packet);
            }
        }
    }
    let mut left = MOST_SAMPLES;
    // Targets of which there is anything but sums.
    let told = |target: &&Target| {
        target.has_times() || !target.timeless.is_empty() || target.list.is_some()
    };
    let (with, without): (Vec<_>, Vec<_>) =
        targets.all.iter().filter(told).partition(|target| target.has_times());
    let whose_times = match (with.is_empty(), without.is_empty()) {
        (_, true) => None,
        (true, false) => Some(("The lines", "packets")),
        (false, false) => Some(("The lines of some targets", "their packets")),
    };
    for target in targets.all {
        imported.streams.push(target.stream(interval, &mut left)?);
    }
    imported.started_s = zero;
    if let Some((lines, packets)) = whose_times {
        let whose = if hints.interval_ns.is_some() {
            "as told"
        } else {
            "fping's default; --interval tells another"
        };
        imported.notes.push(format!(
            "{lines} have no times (-D): {packets} stand in the order of their numbers, every {} s ({whose}).",
            interval as f64 / 1e9
        ));
    }
    let nothing = imported.streams.iter().all(|s| s.packets.is_empty());
    if let Some((line, text)) = unknown.1 {
        let shown: String = text.escape_debug().take(80).collect();
        if nothing {
            let why = format!("`{shown}` is no line that fping prints of a packet");
            return Err(ForeignError::Text { line, why });
        }
        imported.left_out.push(format!(
            "{} lines that tell of no packet sent, the first in line {line}: {shown}",
            unknown.0
        ));
    }
    let empty = imported.streams.iter().filter(|s| s.packets.is_empty()).count();
    if empty > 0 && !nothing {
        imported.left_out.push(format!("{empty} targets with sums and no packets."));
        imported.streams.retain(|s| !s.packets.is_empty());
    }
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn of(line: &str) -> Option<Said<'_>> {
        said(line).expect("it can be read")
    }

    #[test]
    fn each_kind_of_line_is_told_apart() {
        let answer = of("[1700000000.5] a.example : [3], 64 bytes, 12.3 ms (12.1 avg, 0% loss)");
        let wanted = Said::Answer {
            host: "a.example",
            seq: 3,
            bytes: 64,
            ms: 12.3,
            stamp: Some(1_700_000_000.5),
        };
        assert_eq!(answer, Some(wanted));
        let lost = of("::1 : [4], timed out (NaN avg, 100% loss)");
        assert_eq!(lost, Some(Said::TimedOut { host: "::1", seq: 4, stamp: None }));
        let again = of("a : duplicate for [3], 64 bytes, 0.07 ms");
        assert_eq!(
            again,
            Some(Said::Again { host: "a", seq: 3, bytes: 64, ms: 0.07, stamp: None })
        );
        let all = of("192.0.2.7 : 12.3 - 12.4");
        assert_eq!(
            all,
            Some(Said::All { host: "192.0.2.7", times: vec![Some(12.3), None, Some(12.4)] })
        );
        let sums = of("192.0.2.7   : xmt/rcv/%loss = 5/4/20%, min/avg/max = 12.1/12.2/12.4");
        assert_eq!(sums, Some(Said::Summary { host: "192.0.2.7", sent: 5, received: 4 }));
        for other in [
            "",
            "hello",
            "ICMP Host Unreachable from a for ICMP Echo sent to b",
            "a : b",
            "a : [1], unreachable",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
