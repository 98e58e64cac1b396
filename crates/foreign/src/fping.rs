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
use target::Target;

/// Time between packets to one target, where nothing tells it: fping's own default (`-p`).
const USUAL_INTERVAL_NS: u64 = 1_000_000_000;

/// Bytes of the ICMP header, which fping counts into the size that it prints.
const HEADER: u32 = 8;

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

/// Whether a line is one of those.
pub(crate) fn is_line(line: &str) -> bool {
    said(line).is_some()
}

fn said(line: &str) -> Option<Said<'_>> {
    let line = line.trim();
    let (stamp, line) = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((stamp, rest)) => (Some(stamp.parse::<f64>().ok().filter(|s| s.is_finite())?), rest),
        None => (None, line),
    };
    let (host, rest) = line.split_once(" : ")?;
    let (host, rest) = (host.trim(), rest.trim());
    if host.is_empty() || host.contains(char::is_whitespace) {
        return None;
    }
    if let Some(sums) = rest.strip_prefix("xmt/rcv/%") {
        let mut numbers = sums.split_once("= ")?.1.split(['/', ',', '%']);
        let mut number = || numbers.next()?.trim().parse::<u64>().ok();
        return Some(Said::Summary { host, sent: number()?, received: number()? });
    }
    let (again, rest) = match rest.strip_prefix("duplicate for ") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    if let Some((seq, rest)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let seq = seq.parse().ok()?;
        let rest = rest.trim_start_matches(',').trim();
        if rest.starts_with("timed out") {
            return Some(Said::TimedOut { host, seq, stamp });
        }
        let (bytes, rest) = rest.split_once(" bytes, ")?;
        let (ms, _) = rest.split_once(" ms")?;
        let (bytes, ms) = (bytes.parse().ok()?, ms.trim().parse().ok()?);
        return Some(match again {
            true => Said::Again { host, seq, bytes, ms, stamp },
            false => Said::Answer { host, seq, bytes, ms, stamp },
        });
    }
    let time = |word: &str| match word {
        "-" => Some(None),
        _ => word.parse::<f64>().ok().filter(|ms| ms.is_finite()).map(Some),
    };
    let words = rest.split_whitespace().take(MOST_SAMPLES + 1);
    let times: Vec<Option<f64>> = words.map(time).collect::<Option<_>>()?;
    (!times.is_empty()).then_some(Said::All { host, times })
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
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let Some(said) = said(line) else {
            unknown.0 += 1;
            unknown.1.get_or_insert((index + 1, line));
            continue;
        };
        let wrong = |why: String| ForeignError::Text { line: index + 1, why };
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

    #[test]
    fn each_kind_of_line_is_told_apart() {
        let answer = said("[1700000000.5] a.example : [3], 64 bytes, 12.3 ms (12.1 avg, 0% loss)");
        let wanted = Said::Answer {
            host: "a.example",
            seq: 3,
            bytes: 64,
            ms: 12.3,
            stamp: Some(1_700_000_000.5),
        };
        assert_eq!(answer, Some(wanted));
        let lost = said("::1 : [4], timed out (NaN avg, 100% loss)");
        assert_eq!(lost, Some(Said::TimedOut { host: "::1", seq: 4, stamp: None }));
        let again = said("a : duplicate for [3], 64 bytes, 0.07 ms");
        assert_eq!(
            again,
            Some(Said::Again { host: "a", seq: 3, bytes: 64, ms: 0.07, stamp: None })
        );
        let all = said("192.0.2.7 : 12.3 - 12.4");
        assert_eq!(
            all,
            Some(Said::All { host: "192.0.2.7", times: vec![Some(12.3), None, Some(12.4)] })
        );
        let sums = said("192.0.2.7   : xmt/rcv/%loss = 5/4/20%, min/avg/max = 12.1/12.2/12.4");
        assert_eq!(sums, Some(Said::Summary { host: "192.0.2.7", sent: 5, received: 4 }));
        for other in [
            "",
            "hello",
            "ICMP Host Unreachable from a for ICMP Echo sent to b",
            "a : b",
            "[x] a : [1], 1 bytes, 1 ms",
        ] {
            assert_eq!(said(other), None, "{other}");
        }
    }
}
