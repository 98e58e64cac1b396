//! What fping prints: lines of `-c` and `-l` with or without the times of `-D`, lists of `-C`, and the summary.
//!
//! ```text
//!   [1700000000.123456] 192.0.2.7 : [3], 64 bytes, 12.3 ms (12.1 avg, 0% loss)      -D -c
//!   192.0.2.7 : [4], timed out (12.1 avg, 20% loss)
//!   192.0.2.7 : duplicate for [3], 64 bytes, 0.07 ms
//!   192.0.2.7 : 12.3 12.1 - 12.4                                                    -C
//!   192.0.2.7 : xmt/rcv/%loss = 5/4/20%, min/avg/max = 12.1/12.2/12.4               summary
//! ```

use crate::bounds::{MOST_SAMPLES, MOST_STREAMS};
use crate::error::ForeignError;
use crate::imported::{Hints, Imported, Stream, Tool, from_ms, from_s};
use crate::order;
use quell_model::{EchoSample, EchoStatus};
use std::collections::HashMap;

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
    streams: Vec<Stream>,
    places: HashMap<String, usize>,
    /// Packets sent, by their summary or the last that had no answer.
    sent: Vec<Option<u64>>,
    /// Packets without an answer whose lines tell when that was certain.
    late: Vec<Vec<EchoSample>>,
    count: usize,
}

impl Targets {
    fn of(&mut self, host: &str) -> Result<usize, ForeignError> {
        if let Some(place) = self.places.get(host) {
            return Ok(*place);
        }
        if self.streams.len() == MOST_STREAMS {
            return Err(ForeignError::TooMany);
        }
        let name = crate::imported::unused(&self.streams, host);
        self.places.insert(host.to_owned(), self.streams.len());
        self.streams.push(Stream { name, ..Stream::default() });
        self.sent.push(None);
        self.late.push(Vec::new());
        Ok(self.streams.len() - 1)
    }

    fn push(&mut self, host: &str, packet: EchoSample) -> Result<(), ForeignError> {
        let place = self.of(host)?;
        self.count += 1;
        if self.count > MOST_SAMPLES {
            return Err(ForeignError::TooMany);
        }
        self.streams[place].packets.push(packet);
        Ok(())
    }
}

pub(crate) fn read(text: &str, hints: Hints) -> Result<Imported, ForeignError> {
    let mut imported = Imported::new(Tool::Fping);
    let mut targets = Targets::default();
    let mut unknown: (usize, Option<(usize, &str)>) = (0, None);
    let interval = hints.interval_ns.unwrap_or(USUAL_INTERVAL_NS);
    let mut stamped = true;
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
        let mut at = |seq: u64, stamp: Option<f64>, rtt: u64| -> Result<i64, ForeignError> {
            let Some(stamp) = stamp else {
                stamped = false;
                let ns = u128::from(seq) * u128::from(interval);
                return i64::try_from(ns)
                    .map_err(|_| wrong(format!("packet {seq} is too far away")));
            };
            let zero = *zero.get_or_insert(stamp - rtt as f64 / 1e9);
            let since = from_s(stamp - zero)
                .ok_or_else(|| wrong(format!("{stamp} is no time of this file")))?;
            Ok(since - i64::try_from(rtt).unwrap_or(0))
        };
        let size = |bytes: u32| bytes.saturating_sub(HEADER);
        match said {
            Said::Answer { host, seq, bytes, ms, stamp } => {
                let rtt = rtt(ms)?;
                let packet =
                    EchoSample::new(at(seq, stamp, rtt)?, seq, size(bytes), EchoStatus::Ok);
                targets.push(host, EchoSample { rtt_ns: Some(rtt), ..packet })?;
            }
            Said::Again { host, seq, bytes, ms, stamp } => {
                let rtt = rtt(ms)?;
                let packet =
                    EchoSample::new(at(seq, stamp, rtt)?, seq, size(bytes), EchoStatus::Duplicate);
                targets.push(host, EchoSample { rtt_ns: Some(rtt), ..packet })?;
            }
            Said::TimedOut { host, seq, stamp } => {
                let packet = EchoSample::new(at(seq, stamp, 0)?, seq, 0, EchoStatus::Lost);
                if stamp.is_none() {
                    targets.push(host, packet)?;
                    continue;
                }
                // The line came when the wait was over. When the packet was sent, its neighbours tell.
                let place = targets.of(host)?;
                targets.count += 1;
                if targets.count > MOST_SAMPLES {
                    return Err(ForeignError::TooMany);
                }
                targets.sent[place] = targets.sent[place].max(Some(seq.saturating_add(1)));
                targets.late[place].push(packet);
            }
            Said::All { host, times } => {
                for (seq, ms) in (0..).zip(times) {
                    let sent = at(seq, None, 0)?;
                    let packet = match ms {
                        None => EchoSample::new(sent, seq, 0, EchoStatus::Lost),
                        Some(ms) => EchoSample {
                            rtt_ns: Some(rtt(ms)?),
                            ..EchoSample::new(sent, seq, 0, EchoStatus::Ok)
                        },
                    };
                    targets.push(host, packet)?;
                }
            }
            Said::Summary { host, sent, received } => {
                let place = targets.of(host)?;
                targets.sent[place] = targets.sent[place].max(Some(sent));
                let facts = &mut targets.streams[place].facts;
                *facts =
                    vec![("transmitted", sent.to_string()), ("received", received.to_string())];
            }
        }
    }
    let mut left = MOST_SAMPLES;
    let ends = targets.sent.iter().zip(&mut targets.late);
    for (stream, (sent, late)) in targets.streams.iter_mut().zip(ends) {
        if stream.packets.is_empty() {
            stream.packets.append(late);
        }
        let first = stream.packets.iter().map(|p| p.seq).min().unwrap_or(0);
        stream.packets = order::by_number(std::mem::take(&mut stream.packets), &mut left)?;
        if stamped {
            order::arrivals(&mut stream.packets);
        }
        let step = if stamped { step(&stream.packets) } else { interval };
        complete(stream, first, *sent, step, &mut left)?;
    }
    imported.streams = targets.streams;
    imported.started_s = zero.filter(|_| stamped);
    if !stamped {
        let whose = if hints.interval_ns.is_some() {
            "as told"
        } else {
            "fping's default; --interval tells another"
        };
        imported.notes.push(format!(
            "The lines have no times (-D): packets stand in the order of their numbers, every {} s ({whose}).",
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

/// The usual time between packets in nanoseconds, from the first and the last; fping's own where there are fewer than two.
fn step(packets: &[EchoSample]) -> u64 {
    let ends = packets.first().zip(packets.last()).filter(|(first, last)| last.seq > first.seq);
    let step = ends.map(|(a, b)| (b.t_ns - a.t_ns) as f64 / (b.seq - a.seq) as f64);
    step.filter(|ns| *ns > 0.0).map_or(USUAL_INTERVAL_NS, |ns| ns as u64)
}

/// What the summary says was sent and no line tells was lost: before the first packet that a line tells of, or after the last.
fn complete(
    stream: &mut Stream,
    first: u64,
    sent: Option<u64>,
    interval: u64,
    left: &mut usize,
) -> Result<(), ForeignError> {
    let Some(sent) = sent else { return Ok(()) };
    let told = order::sent(&stream.packets) as u64;
    let more = usize::try_from(sent.saturating_sub(told)).unwrap_or(usize::MAX);
    *left = left.checked_sub(more).ok_or(ForeignError::TooMany)?;
    let step = i64::try_from(interval).unwrap_or(i64::MAX);
    let before = first.min(sent.saturating_sub(told));
    let Some(start) = stream.packets.first().map(|p| p.t_ns) else { return Ok(()) };
    for packet in &mut stream.packets {
        packet.seq += before;
    }
    let lost = |t_ns, seq| EchoSample::new(t_ns, seq, 0, EchoStatus::Lost);
    let early = (0..before)
        .map(|seq| lost(start.saturating_sub(step.saturating_mul((before - seq) as i64)), seq));
    let early: Vec<EchoSample> = early.collect();
    stream.packets.splice(0..0, early);
    let end = stream.packets.iter().map(|p| (p.t_ns, p.seq)).max_by_key(|(_, seq)| *seq);
    let Some((t_ns, last)) = end else { return Ok(()) };
    for seq in last + 1..sent {
        stream
            .packets
            .push(lost(t_ns.saturating_add(step.saturating_mul((seq - last) as i64)), seq));
    }
    Ok(())
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
