//! What `ping` prints, of iputils (with and without -D), BusyBox, BSD, macOS and Windows, as people post it.
//!
//! ```text
//!   $ ping -i 0.2 example.net                                                the interval
//!   PING example.net (192.0.2.1) 56(84) bytes of data.                       a test begins
//!   [1700000000.25] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=55 time=9.5 ms (DUP!)
//!   From 192.0.2.9 icmp_seq=2 Destination Host Unreachable
//!   3 packets transmitted, 1 received, +1 errors, 66% packet loss, time 402ms
//!   rtt min/avg/max/mdev = 9.5/9.5/9.5/0.0 ms
//! ```
//!
//! It is read word by word, so that it does not matter where a mail broke its lines, or what stands before each.

use crate::bounds::{MOST_SAMPLES, MOST_SECONDS};
use crate::error::ForeignError;
use crate::imported::{Imported, Stream, Tool, cut};
use crate::replies::{self, PacketCounts, PingReply};
use quell_model::EchoStatus;
use quell_units::fmt::plural;

/// `ping`'s own time between packets.
const USUAL_INTERVAL_S: f64 = 1.0;

/// Words of a header up to `data`.
const HEADER: usize = 12;

pub(crate) fn read(text: &str, left: &mut usize) -> Result<Vec<Imported>, ForeignError> {
    if !["seq", "transmitted", "Reply from"].iter().any(|word| text.contains(word)) {
        return Ok(Vec::new());
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut tests = vec![PingText::default()];
    let mut interval_s = None;
    for at in 0..words.len() {
        let mut test = tests.pop().unwrap_or_default();
        if test.begins_another(&words, at) {
            let mut next = PingText { interval_s: interval_s.take(), ..PingText::default() };
            std::mem::swap(&mut test, &mut next);
            tests.extend(Some(next).filter(PingText::is_something));
        }
        if words[at] == "-i" || words[at] == "ping" {
            interval_s = interval_of(&words[at..]).or(interval_s);
        }
        test.word(&words, at);
        if test.replies.len() > MOST_SAMPLES {
            return Err(ForeignError::TooMany);
        }
        tests.push(test);
    }
    let tests = tests.into_iter().filter(PingText::is_something);
    tests.map(|test| test.imported(left)).collect()
}

/// `ping … -i 0.2 …`, typed before what it printed.
fn interval_of(words: &[&str]) -> Option<f64> {
    let at = words.iter().take(HEADER).position(|word| *word == "-i")?;
    number(words.get(at + 1)?).filter(|s| (1e-6..=86_400.0).contains(s))
}

/// A number, as `9,53` too, without what stands around it.
fn number(word: &str) -> Option<f64> {
    let bare = word.trim_matches(|c: char| !c.is_ascii_digit() && c != '-' && c != '+');
    let value: f64 = bare.replace(',', ".").parse().ok()?;
    Some(value).filter(|value| value.is_finite())
}

fn whole(word: &str) -> Option<u64> {
    number(word).filter(|n| *n >= 0.0 && n.fract() == 0.0 && *n < 1e12).map(|n| n as u64)
}

/// One test, as far as its words were read.
#[derive(Default)]
struct PingText {
    host: Option<String>,
    address: Option<String>,
    has_header: bool,
    interval_s: Option<f64>,
    replies: Vec<PingReply>,
    /// The record that is being read: its number and status may still come.
    record: Option<PingRecord>,
    /// The time in brackets before a record (-D).
    stamp_s: Option<f64>,
    transmitted: Option<u64>,
    received: Option<u64>,
    errors: Option<u64>,
    duplicates: Option<u64>,
    took_ms: Option<f64>,
    /// `min/avg/max/mdev`, and the values.
    spread: Option<(String, String)>,
    impossible: u64,
    /// Its records have numbers.
    is_numbered: bool,
}

#[derive(Default)]
struct PingRecord {
    seq: Option<u64>,
    ttl: Option<u64>,
    rtt_ms: Option<f64>,
    /// It says that a packet was not answered, or why it can't be.
    failed: Option<EchoStatus>,
    stamp_s: Option<f64>,
}

impl PingText {
    fn is_something(&self) -> bool {
        !self.replies.is_empty() || self.record.is_some() || self.transmitted.is_some()
    }

    /// A header, replies behind a summary, or the summary of another host.
    fn begins_another(&self, words: &[&str], at: usize) -> bool {
        let rest = &words[at..];
        if is_header(rest) {
            return self.has_header || self.is_something();
        }
        let is_known = |host: &&str| self.host.as_deref() == Some(host);
        // Without a header the host is the replies', which may have another name than what was asked.
        let is_other = at > 0
            && (self.has_header || self.transmitted.is_some())
            && rest.starts_with(&["ping", "statistics"])
            && self.host.is_some()
            && !is_known(&words[at - 1])
            && self.address.as_deref() != Some(words[at - 1]);
        is_other || self.transmitted.is_some() && is_reply(rest)
    }

    fn word(&mut self, words: &[&str], at: usize) {
        let word = words[at];
        let next = |n: usize| words.get(at + n).copied().unwrap_or_default();
        let before = |n: usize| at.checked_sub(n).map_or("", |at| words[at]);
        if is_header(&words[at..]) {
            self.push();
            self.has_header = true;
            let host = next(1).split('(').next().unwrap_or_default();
            self.host = Some(host.to_owned()).filter(|host| !host.is_empty());
            let address =
                words[at + 1..].iter().take(4).find_map(|w| Some(w.split_once(['(', '['])?.1));
            self.address = address.map(bare).map(str::to_owned);
            return;
        }
        if let Some(stamp) = word.strip_prefix('[').and_then(|w| w.strip_suffix(']')) {
            self.stamp_s = stamp.parse().ok().filter(|s| (0.0..1e11).contains(s));
            return;
        }
        let unanswered = match (word, next(1)) {
            ("Request", "timeout" | "timed") | ("no", "answer") => Some(EchoStatus::Lost),
            ("From", from) if !from.is_empty() => Some(EchoStatus::Error),
            _ => None,
        };
        if is_reply(&words[at..]) || unanswered.is_some() {
            self.push();
            let stamp_s = self.stamp_s.take();
            self.record = Some(PingRecord { failed: unanswered, stamp_s, ..PingRecord::default() });
            if unanswered.is_none() && self.host.is_none() {
                self.host = Some(bare(next(2)).to_owned()).filter(|host| !host.is_empty());
            }
            return;
        }
        if word == "packets" && (next(1).starts_with("transmitted") || next(1).starts_with("sent"))
        {
            self.push();
            self.transmitted = whole(before(1));
            return;
        }
        if word == "Packets:" && next(1) == "Sent" {
            self.push();
            self.transmitted = whole(next(3));
            self.received = whole(next(6));
            return;
        }
        if self.transmitted.is_some() && self.word_of_summary(word, next(1), next(2), before(1)) {
            return;
        }
        if word == "statistics" && before(1) == "ping" && self.host.is_none() {
            self.push();
            self.host = Some(before(2).to_owned()).filter(|host| !host.is_empty());
            return;
        }
        self.word_of_record(word, next(1));
    }

    /// Of what stands behind `packets transmitted`.
    fn word_of_summary(&mut self, word: &str, next: &str, behind: &str, before: &str) -> bool {
        let kind = word.trim_end_matches(',');
        match kind {
            "received" if self.received.is_none() => {
                let count = if before == "packets" { None } else { whole(before) };
                self.received = self.received.or(count);
            }
            "packets" if next.trim_end_matches(',') == "received" => self.received = whole(before),
            "duplicates" => self.duplicates = whole(before),
            "errors" => self.errors = whole(before),
            "time" if next.ends_with("ms") => self.took_ms = number(next),
            _ if word.contains("min/avg/") => {
                let values = if next == "=" { behind } else { next };
                let is_values = values.split('/').all(|value| number(value).is_some());
                self.spread = is_values.then(|| (word.to_owned(), bare(values).to_owned()));
            }
            _ => return false,
        }
        true
    }

    fn word_of_record(&mut self, word: &str, next: &str) {
        let Some(record) = &mut self.record else { return };
        let bare_word = word.trim_end_matches([':', ',']);
        // `time<1ms` is no round trip.
        if let Some((key, value)) = bare_word.split_once('=') {
            match key {
                "icmp_seq" | "seq" => record.seq = whole(value),
                "ttl" | "hlim" | "TTL" => record.ttl = whole(value),
                "time" => {
                    record.rtt_ms =
                        number(value).filter(|ms| (0.0..=MOST_SECONDS * 1e3).contains(ms));
                    self.impossible += u64::from(record.rtt_ms.is_none());
                }
                _ => {}
            }
        } else if bare_word == "icmp_seq" {
            record.seq = whole(next);
        }
    }

    /// The record is over.
    fn push(&mut self) {
        let Some(record) = self.record.take() else { return };
        // Windows tells no numbers.
        let next = self.replies.last().map_or(1, |last| last.seq + 1);
        let is_one = record.failed != Some(EchoStatus::Error) && !self.is_numbered;
        let Some(seq) = record.seq.or(is_one.then_some(next)) else { return };
        self.is_numbered |= record.seq.is_some();
        let status = record.failed.unwrap_or(EchoStatus::Ok);
        let (ttl, rtt_ms, printed_s) = (record.ttl, record.rtt_ms, record.stamp_s);
        self.replies.push(PingReply { seq, ttl, rtt_ms, status, printed_s });
    }

    fn imported(mut self, left: &mut usize) -> Result<Imported, ForeignError> {
        self.push();
        let mut imported = Imported::new(Tool::Ping);
        imported.tell("host", self.host.clone());
        imported.tell("address", self.address.clone());
        let sent = self.transmitted.unwrap_or(0);
        let told = self.took_ms.filter(|ms| sent > 1 && *ms > 0.0);
        let measured = told.map(|ms| ms / 1e3 / (sent - 1) as f64);
        let stamps: Vec<f64> = self.replies.iter().filter_map(|r| r.printed_s).collect();
        let every = measured.or(self.interval_s).unwrap_or(USUAL_INTERVAL_S);
        let step_ns = (every.clamp(1e-6, 86_400.0) * 1e9).round() as i64;
        let is_excerpt = !self.has_header && self.transmitted.is_none();
        let answered = self.replies.iter().filter(|r| r.status.is_answered()).count();
        let received = self.received.filter(|received| *received <= sent);
        let counts = PacketCounts { sent, received, is_excerpt };
        let packets = replies::packets(&self.replies, &counts, step_ns, left)?;
        imported.started_s = stamps.first().copied();
        imported.window_ns =
            (packets.last()).and_then(|last| u64::try_from(last.t_ns.saturating_add(step_ns)).ok());
        let name = self.host.clone().or(self.address.clone()).map(cut);
        let mut stream =
            Stream { name: name.unwrap_or_else(|| "ping".into()), packets, ..Stream::default() };
        let fact = |key, value: Option<u64>| value.map(|n| (key, n.to_string()));
        stream.facts.extend(fact("transmitted", self.transmitted));
        stream.facts.extend(fact("received", received));
        stream.facts.extend(fact("duplicates", self.duplicates));
        stream.facts.extend(fact("errors", self.errors));
        if let Some((names, values)) = &self.spread {
            stream.facts.push(("summary", cut(format!("{names} = {values} ms"))));
        }
        if stamps.is_empty() {
            let whose = match (measured, self.interval_s) {
                (Some(_), _) => "by its summary",
                (None, Some(_)) => "by -i",
                (None, None) => "ping's usual time",
            };
            imported
                .notes
                .push(format!("ping printed no times: a packet every {every:.3} s, {whose}."));
        }
        if self.transmitted.is_none() {
            imported
                .notes
                .push("It has no summary: what was lost after the last line is unknown.".into());
        }
        let untimed =
            stream.packets.iter().filter(|p| p.status.is_answered() && p.rtt_ns.is_none());
        let untimed = untimed.count();
        if untimed > 0 {
            imported
                .left_out
                .push(format!("Round trips of {}: the text has none.", plural(untimed, "answer")));
        }
        if received.unwrap_or(0) > answered as u64 {
            imported.notes.push("Which packets were lost is unknown: the text counts answers that it does not list.".into());
        }
        if let Some(more) = self.received.filter(|more| *more > sent) {
            imported.left_out.push(format!(
                "received is unknown: {more} of {} can't be.",
                plural(sent, "packet")
            ));
        }
        if self.impossible > 0 {
            imported.left_out.push(plural(self.impossible, "round trip") + " that can't be.");
        }
        imported.streams.push(stream);
        Ok(imported)
    }
}

fn is_header(words: &[&str]) -> bool {
    matches!(words[0].trim_start_matches(|c: char| !c.is_alphanumeric()), "PING" | "Pinging")
        && words.iter().take(HEADER).any(|word| word.starts_with("data"))
}

fn is_reply(words: &[&str]) -> bool {
    matches!(words, ["bytes", "from", _, ..] | ["Reply", "from", _, ..])
}

/// A host or address without the punctuation around it.
fn bare(word: &str) -> &str {
    let word = word.trim_end_matches(':');
    word.trim_matches(|c: char| !c.is_alphanumeric() && c != ':' && c != '%').trim_end_matches(':')
}
