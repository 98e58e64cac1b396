//! What is printed: a line a packet in a pipe, and the summary.

use crate::text::{fitted, lines};
use crate::unanswered::left_unanswered;
use quell_grade::LEAST_SAMPLES;
use quell_model::{EchoSample, EchoStatus};
use quell_ping::{Method, PingSession, Retried, Tally, Target};
use quell_report::analysis::{Clocks, Counts, EchoFold, EchoResult, LATE_NS, Lateness};
use quell_stats::Summary;
use quell_units::fmt::{ms, percent, plural};
use std::fmt::Write;

pub fn ms_or_dash(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), ms)
}

/// What opens the output: where each stream goes, and how.
pub fn opening(session: &PingSession) -> String {
    let mut out = String::new();
    for target in &session.targets {
        let _ = writeln!(out, "{}", line_of(target, session));
    }
    out
}

/// A stream in a line: `voip: example.org (192.0.2.7), ICMP, 56 bytes, TOS EF, every 200ms`.
fn line_of(target: &Target, session: &PingSession) -> String {
    let mut line = String::new();
    if target.name != target.host {
        let _ = write!(line, "{}: ", target.name);
    }
    line += &target.host;
    let address = match session.method {
        Method::Icmp => target.to.ip().to_string(),
        Method::Udp | Method::Tcp => target.to.to_string(),
    };
    if address != target.host {
        let _ = write!(line, " ({address})");
    }
    let _ = write!(line, ", {}", session.method.name());
    if session.method != Method::Tcp {
        let _ = write!(line, ", {} bytes", target.size);
    }
    if target.tos.byte() != 0 {
        let _ = write!(line, ", TOS {}", target.tos);
    }
    let _ = write!(line, ", every {}", session.interval);
    line
}

/// What became of a packet, in a line: `voip  t=0.400 s  seq=2  rtt=20.012 ms`. One-way times are those of the stamps: where the other end may
/// have a clock of its own they are raw, since only all packets together tell how far the clocks are apart.
pub fn packet(stream: &str, width: usize, one_clock: bool, sample: &EchoSample) -> String {
    let mut line =
        format!("{stream:<width$}  t={:.3} s  seq={}", sample.t_ns as f64 / 1e9, sample.seq);
    let of = |ns: i64| ns as f64 / 1e6;
    if let Some(rtt) = sample.rtt_ns {
        let _ = write!(line, "  rtt={:.3} ms", of(rtt as i64));
    }
    if let (Some(up), Some(down)) = (sample.up_ns, sample.down_ns) {
        let raw = if one_clock { "" } else { "raw-" };
        let _ = write!(line, "  {raw}up={:.3} ms  {raw}down={:.3} ms", of(up), of(down));
    }
    line += match sample.status {
        EchoStatus::Ok => "",
        EchoStatus::Duplicate => "  duplicate",
        EchoStatus::Lost => "  lost",
        EchoStatus::LostUp => "  lost up",
        EchoStatus::LostDown => "  lost down",
        EchoStatus::Error => "  error",
        EchoStatus::Unfinished => "  not waited for",
        EchoStatus::Late => "  late, not lost",
        EchoStatus::Unsure => "  unsure: answered perhaps only when sent again, or late, or lost",
        EchoStatus::NotSent => "  not sent: no room in the own queue",
    };
    line
}

/// A moment as it stands before a line: seconds since 1970, as fping has it.
pub fn stamp(wall_ns: u64) -> String {
    format!("[{}.{:06}] ", wall_ns / 1_000_000_000, wall_ns % 1_000_000_000 / 1000)
}

/// What a stream showed in a time, in a line: `voip  5 sent, 5 received  min 20.1 mean 20.4 max 21.0 ms`.
pub fn period(stream: &str, width: usize, past: &Tally) -> String {
    let found = past.fold.result();
    let times = found.rtt_ms.as_ref().map_or_else(String::new, |rtt| {
        format!("  RTT min {} mean {} max {} ms", ms(rtt.min), ms(rtt.mean), ms(rtt.max))
    });
    format!("{stream:<width$}  {}{times}", counts(&found).join(", "))
}

/// The names of the streams that had an answer, or of those that had none, a line each.
pub fn names(session: &PingSession, tallies: &[Tally], alive: bool) -> String {
    let answered = |tally: &Tally| tally.fold.counts().answered() > 0;
    let wanted = session.targets.iter().zip(tallies).filter(|(_, tally)| answered(tally) == alive);
    wanted.map(|(target, _)| format!("{}\n", target.name)).collect()
}

/// For how long a stream had no answer: of each packet without one its interval, as fping counts it.
fn outage(session: &PingSession, tally: &Tally) -> String {
    let counts = tally.fold.counts();
    let silent = counts.sent.saturating_sub(counts.answered() + counts.unsure);
    let lasted = session.interval.nanos().saturating_mul(silent) as f64 / 1e9;
    format!(
        "  outage      {lasted:.3} s in all: {silent} without an answer, every {}\n",
        session.interval
    )
}

/// Why no stream has a grade.
fn no_grade(tallies: &[Tally]) -> String {
    match tallies.iter().any(|tally| tally.fold.counts().answered() >= LEAST_SAMPLES as u64) {
        true => "no grade: how long the answers took is not known\n".to_owned(),
        false => format!("no grade: fewer than {LEAST_SAMPLES} answers\n"),
    }
}

/// The figures of all streams, each under its name, in lines of so many columns.
pub fn summary(session: &PingSession, tallies: &[Tally], outages: bool, width: usize) -> String {
    let mut out = String::new();
    for (target, tally) in session.targets.iter().zip(tallies) {
        let Some(grade) = tally.grade() else { continue };
        let name = match session.targets.len() {
            1 => String::new(),
            _ => format!("{}: ", target.name),
        };
        out += &lines("", &format!("{name}{}", grade.said()), width);
    }
    if out.is_empty() {
        out += &no_grade(tallies);
    }
    for (target, tally) in session.targets.iter().zip(tallies) {
        if !out.is_empty() {
            out.push('\n');
        }
        let _ = writeln!(out, "{}", line_of(target, session));
        out += &figures(tally, width);
        if outages {
            out += &outage(session, tally);
        }
    }
    out += &clocks(session, tallies, width);
    if let Some(starved) = starved(tallies.iter().map(|tally| &tally.fold)) {
        out.push('\n');
        out += &lines("", &starved, width);
    }
    fitted(&out, width)
}

fn figures(tally: &Tally, width: usize) -> String {
    let wrap = |text: &str| lines("", text, width);
    let found = tally.fold.result();
    let mut out = lines("  packets     ", &counts(&found).join(", "), width);
    if let Some(retried) = &tally.retried {
        out += &wrap(&after_retry(retried));
    }
    let answered = tally.retried.map_or(0, |retried| retried.unsure);
    out += &not_waited_for(&found, answered).map(|said| wrap(&said)).unwrap_or_default();
    if let Some(words) = left_unanswered(found.counts.unanswered) {
        out += &wrap(&words);
    }
    for (kind, n) in &tally.kinds {
        let _ = writeln!(out, "  {:<10}  {n} × {kind}: {}", "errors", meaning(kind));
    }
    if let Some(rtt) = &found.rtt_ms {
        if let Some(part) = found.counts.minority() {
            let _ = writeln!(
                out,
                "              the times are those of the {} % that came back: p50 is their median",
                percent(part)
            );
        }
        match &found.rtt_at_most_ms {
            None => {
                let _ = writeln!(out, "  RTT, ms     {}", spread(rtt));
            }
            Some(most) => {
                let _ =
                    writeln!(out, "  RTT, ms  ≥  {}\n           ≤  {}", spread(rtt), spread(most));
            }
        }
        let jitter = ms_or_dash(found.jitter_rtt_ms);
        let there = found.jitter_up_ms.map_or(String::new(), |up| format!(", up {}", ms(up)));
        let _ = writeln!(
            out,
            "              mean {}   mdev {}   jitter {jitter}{there} (mean |D|, RFC 3550)",
            found.rtt_at_most_ms.map_or_else(|| ms(rtt.mean), |_| format!("≥{}", ms(rtt.mean))),
            ms_or_dash(rtt.sd),
        );
    }
    for (label, way) in [("up, ms    ", &found.up_ms), ("down, ms  ", &found.down_ms)] {
        if let Some(way) = way {
            let _ = writeln!(out, "  {label}  {}", spread(way));
        }
    }
    if let Some(queued) = found.queued_ms.filter(|q| q.p99 >= 1.0) {
        let _ = writeln!(out, "  own queue   {}", spread(&queued));
        out +=
            "              ms that packets waited in this host before they left; in the RTT too\n";
    }
    out + &clock_offset(&found.clocks).map(|said| wrap(&said)).unwrap_or_default()
}

fn after_retry(retried: &Retried) -> String {
    let lost = (retried.count > 0).then(|| lost_before_retry(retried));
    let unsure = (retried.unsure > 0).then(|| {
        format!(
            "{} answered after the kernel had sent the SYN again, and it can't be known whether the first exchange was lost: their round trips may be \
             a second or more.",
            if retried.unsure == 1 { "1 was".to_owned() } else { format!("{} were", retried.unsure) },
        )
    });
    [lost, unsure].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn lost_before_retry(retried: &Retried) -> String {
    let seconds = |ns: u64| format!("{:.2} s", ns as f64 / 1e9);
    let (least, most) = (seconds(retried.least_ns), seconds(retried.most_ns));
    let at =
        if least == most { format!("after {least}") } else { format!("after {least} to {most}") };
    format!(
        "{} of the lost {} when the kernel had sent its SYN again, {at}: the first SYN or its answer was lost, and no \
         round trip is known.",
        retried.count,
        if retried.count == 1 { "was answered" } else { "were answered" },
    )
}

/// What has to be said of packets without an answer that nobody waited for long enough, beside those that were answered after a retry.
fn not_waited_for(found: &EchoResult, answered: u64) -> Option<String> {
    match found.counts.unsure.saturating_sub(answered) {
        0 => None,
        n => Some(format!(
            "{} no answer when the waiting ended, and may be late or lost: an answer as slow as others were, or as is waited for, could not have \
             come.",
            if n == 1 { "1 had".to_owned() } else { format!("{n} had") },
        )),
    }
}

/// How far the two clocks are apart, and what that makes of one-way delays.
fn clock_offset(clocks: &Clocks) -> Option<String> {
    let offset = match clocks {
        Clocks::Same => return None,
        Clocks::Unsteady => {
            return Some(
                "The clocks of the two machines did not run at constant rates (one was set, perhaps): one-way delays are unknown."
                    .to_owned(),
            );
        }
        Clocks::Apart { offset, .. } => offset,
    };
    let bound = ms(offset.bound_ns / 1e6);
    Some(format!(
        "The other clock is {} ms from ours, ± {bound} ms, and gains {:.2} millionths. One-way delays are corrected by that, as if the \
         empty path took as long up as down; only ± {bound} ms is certain.",
        ms(offset.middle_ns() as f64 / 1e6),
        offset.drift_ppm(),
    ))
}

fn counts(found: &EchoResult) -> Vec<String> {
    let counts @ Counts { lost, lost_up, lost_down, errors, unsure, unanswered, .. } = found.counts;
    let mut sent = format!("{} sent, {} received", counts.sent, counts.received);
    if let Some((least, most)) = counts.loss_range() {
        let _ = match unsure + unanswered {
            0 => write!(sent, ": loss {} %", percent(most)),
            _ => write!(sent, ": loss at least {} %, at most {} %", percent(least), percent(most)),
        };
        let unknown = lost - lost_up - lost_down;
        // Where the direction of some loss is unknown, the others are the least.
        let [there, back] = match counts.lost_ways() {
            Some(_) => ["up", "down"],
            None => ["or more up", "or more down"],
        };
        let fates = [
            (lost_up, there),
            (lost_down, back),
            // That a loss is a loss needs to be said only beside others.
            (
                if unknown == counts.sent - counts.answered() { 0 } else { unknown },
                "without an answer",
            ),
            (errors, if errors == 1 { "error" } else { "errors" }),
            (unsure, "unsure"),
            (unanswered, "left unanswered by the server, or lost"),
        ];
        let fates: Vec<String> =
            fates.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        if !fates.is_empty() {
            let _ = write!(sent, " ({})", fates.join(", "));
        }
    }
    let mut parts = vec![sent];
    if counts.received_late > 0 {
        parts.push(format!("{} late (answered, after the wait)", counts.received_late));
    }
    if counts.not_sent > 0 {
        parts.push(format!("{} not sent: no room in the own queue", counts.not_sent));
    }
    if counts.unfinished > 0 {
        parts.push(format!("{} not waited for", counts.unfinished));
    }
    if counts.duplicates > 0 {
        parts.push(plural(counts.duplicates, "duplicate"));
    }
    if found.reordered > 0 {
        parts.push(format!("{} out of order", found.reordered));
    }
    parts
}

fn meaning(kind: &str) -> &str {
    match kind {
        "EHOSTUNREACH" => "no route to the host, or it does not answer on its link",
        "ENETUNREACH" => "no route to its network",
        "ECONNREFUSED" => "nobody listens there",
        "EMSGSIZE" => {
            "larger than the path takes (its MTU) and not to be cut up; take a smaller -s"
        }
        "EACCES" | "EPERM" => "forbidden, by a firewall as a rule",
        "EPROTO" => "the packet lived too short (TTL), or was malformed to somebody",
        "ENETDOWN" => "the device is down",
        _ => "an error",
    }
}

/// By which clocks times came about: once where that is the same for all.
fn clocks(session: &PingSession, tallies: &[Tally], width: usize) -> String {
    let mut told: Vec<(&str, Vec<&str>)> = Vec::new();
    for (target, tally) in session.targets.iter().zip(tallies) {
        let Some(clock) = tally.clock.as_deref().filter(|_| tally.fold.counts().received > 0)
        else {
            continue;
        };
        match told.iter_mut().find(|(c, _)| *c == clock) {
            Some((_, names)) => names.push(&target.name),
            None => told.push((clock, vec![&target.name])),
        }
    }
    let several = told.len() > 1;
    let line = |(clock, names): &(&str, Vec<&str>)| match several {
        true => lines("", &format!("Clocks of {}: {clock}", names.join(", ")), width),
        false => lines("", &format!("Clocks: {clock}"), width),
    };
    let text: String = told.iter().map(line).collect();
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn spread(of: &Summary) -> String {
    [("min", of.min), ("p50", of.p50), ("p90", of.p90), ("p99", of.p99), ("max", of.max)]
        .map(|(name, value)| {
            format!("{name} {:<7}", if value.is_finite() { ms(value) } else { "-".to_owned() })
        })
        .join(" ")
        .trim_end()
        .to_owned()
}

/// Says when this machine, and not the network, was slow: one packet in a hundred waited for the program.
pub fn starved<'a>(folds: impl Iterator<Item = &'a EchoFold> + Clone) -> Option<String> {
    let sum = |of: fn(&EchoFold) -> Lateness| {
        folds.clone().map(of).fold(Lateness::default(), Lateness::and)
    };
    let (seen, left) = (sum(EchoFold::seen), sum(EchoFold::left));
    let share = |of: Lateness| percent(of.late as f64 / of.of.max(1) as f64);
    let worst = |of: Lateness| ms(of.worst_ns as f64 / 1e6);
    let mut told = Vec::new();
    if seen.is_much() {
        told.push(format!(
            "{} % of the replies were seen more than {} ms after the kernel had them (the latest {} ms); round-trip times \
             use the kernel's stamps and are right",
            share(seen),
            LATE_NS / 1_000_000,
            worst(seen)
        ));
    }
    if left.is_much() {
        told.push(format!(
            "{} % of the packets left more than {} ms after their time (the latest {} ms)",
            share(left),
            LATE_NS / 1_000_000,
            worst(left)
        ));
    }
    (!told.is_empty()).then(|| format!("This machine was short of CPU: {}.", told.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_packet_has_what_is_known_of_it() {
        let mut sample = EchoSample {
            rtt_ns: Some(20_012_000),
            up_ns: Some(-5_000_000),
            down_ns: Some(25_012_000),
            ..EchoSample::new(400_000_000, 2, 56, EchoStatus::Ok)
        };
        assert_eq!(
            packet("a", 3, true, &sample),
            "a    t=0.400 s  seq=2  rtt=20.012 ms  up=-5.000 ms  down=25.012 ms"
        );
        assert_eq!(
            packet("a", 1, false, &sample),
            "a  t=0.400 s  seq=2  rtt=20.012 ms  raw-up=-5.000 ms  raw-down=25.012 ms"
        );
        sample = EchoSample { rtt_ns: None, up_ns: None, status: EchoStatus::LostUp, ..sample };
        assert_eq!(packet("a", 1, false, &sample), "a  t=0.400 s  seq=2  lost up");
    }

    #[test]
    fn without_a_grade_the_summary_says_why() {
        let mut tally = Tally::new(1);
        for n in 0..5 {
            let rtt_ns = Some(20_000_000);
            tally.take(&EchoSample { rtt_ns, ..EchoSample::new(n, 0, 56, EchoStatus::Ok) });
        }
        assert_eq!(no_grade(&[tally]), "no grade: fewer than 20 answers\n");
    }

    #[test]
    fn a_machine_short_of_cpu_is_told_and_one_slow_reply_in_a_thousand_is_not() {
        let mut tally = Tally::new(1);
        let mut sample =
            EchoSample { rtt_ns: Some(20_000_000), ..EchoSample::new(0, 0, 56, EchoStatus::Ok) };
        for n in 0..1000 {
            sample.seq = n;
            sample.seen_late_ns = Some(if n == 0 { 8_000_000 } else { 30_000 });
            tally.take(&sample);
        }
        assert_eq!(starved([&tally.fold].into_iter()), None);
        for _ in 0..100 {
            sample.seen_late_ns = Some(12_000_000);
            tally.take(&sample);
        }
        let said = starved([&tally.fold].into_iter()).expect("a tenth was late");
        assert!(said.contains("9.2 %") && said.contains("12.00 ms"), "{said}");
    }
}
