//! The examination for a person: the worst first, then what could not be seen.

use super::args::DoctorArgs;
use crate::text::fitted;
use quell_cause::Row;
use quell_doctor::command::CommandReport;
use quell_doctor::packet_drops::DropReport;
use quell_doctor::watch::{WatchEnd, WatchEvent, WatchReport};
use quell_doctor::{Check, CheckOutcome, CheckVerdict, Report};
use quell_finding::{Finding, Severity, lines, wrapped};
use quell_host::drops::{CountedDrop, merged};
use quell_units::fmt::plural;
use std::collections::BTreeMap;

/// Rows of dropped packets that a person is shown.
const SHOWN: usize = 12;

pub(super) fn report(report: &Report, args: &DoctorArgs, width: usize) -> Vec<String> {
    let mut out = wrapped(&answer(report), width);
    if let Some(posted) = &report.posted {
        out.extend(posted.remarks.iter().flat_map(|remark| wrapped(remark, width)));
    }
    out.push(String::new());
    // A person who posted a text can't look again: what its counters leave open is shown.
    let is_open = |finding: &Finding| report.posted.is_some() && !finding.sure;
    let shown = |finding: &&Finding| finding.severity >= args.severity || is_open(finding);
    for finding in report.findings.iter().filter(shown) {
        out.extend(lines(finding, width));
        out.push(String::new());
    }
    if let Some(command) = &report.during {
        out.extend(during(command, width));
        out.push(String::new());
    }
    out.extend(wrapped(&counts(report, args), width));
    if args.all {
        out.push(String::new());
        out.extend(report.checks.iter().flat_map(|verdict| one(verdict, width)));
        return out;
    }
    let blind = report.checks.iter().filter_map(|verdict| match &verdict.outcome {
        CheckOutcome::CouldNotLook(why) => Some((verdict.check.as_str(), why.as_str())),
        _ => None,
    });
    match &report.posted {
        // What is not in a text is told by the command that would bring it.
        Some(posted) => {
            let count = blind.count();
            if count > 0 {
                let said = format!(
                    "Could not look: {} (--all names them). To see more, add what these print: {}",
                    plural(count, "check"),
                    posted.missing.join("; ")
                );
                out.extend(wrapped(&said, width));
            }
        }
        None => out.extend(unseen(blind, width)),
    }
    out
}

/// What is wrong, in a sentence.
fn answer(report: &Report) -> String {
    let count = |severity| report.findings.iter().filter(|f| f.severity == severity).count() as u64;
    let words = match (count(Severity::Serious), count(Severity::Warning)) {
        (0, 0) => {
            let mut open = report.findings.iter().filter(|finding| !finding.sure);
            let Some(first) = open.next().filter(|_| report.posted.is_some()) else {
                return nothing_wrong(&report.checks);
            };
            let count = plural(1 + open.count(), "possible fault");
            return format!("{count}. The first: {}: {}.", first.subject, first.says);
        }
        (0, n) => plural(n, "warning"),
        (n, 0) => format!("{n} serious"),
        (n, m) => format!("{n} serious, {}", plural(m, "warning")),
    };
    // The worst comes first.
    let worst = report.findings.first().map(|worst| format!("{}: {}", worst.subject, worst.says));
    format!("{words}. The worst: {}.", worst.unwrap_or_default())
}

/// Where most checks could not look, of how many that can be said.
fn nothing_wrong(checks: &[CheckVerdict]) -> String {
    let of = |is: fn(&CheckOutcome) -> bool| checks.iter().filter(|v| is(&v.outcome)).count();
    let blind = of(|outcome| matches!(outcome, CheckOutcome::CouldNotLook(_)));
    let idle = of(|outcome| matches!(outcome, CheckOutcome::NotApplicable(_)));
    let all = checks.len();
    match all - blind - idle {
        _ if blind * 2 <= all => "Nothing is wrong that can be seen from here.".to_owned(),
        0 => format!(
            "Too little was given to judge: none of {} could be made.",
            plural(all, "check")
        ),
        made => {
            format!(
                "Nothing is wrong in the {} of {all} that could be made.",
                plural(made, "check")
            )
        }
    }
}

/// How many notes there are, and what the other checks came to.
fn counts(report: &Report, args: &DoctorArgs) -> String {
    let notes = report.findings.iter().filter(|f| f.severity == Severity::Note).count() as u64;
    let mut words = String::new();
    if notes > 0 {
        words += &plural(notes, "note");
        words += if args.severity > Severity::Note { " (--severity note shows). " } else { ". " };
    }
    let of =
        |is: fn(&CheckOutcome) -> bool| report.checks.iter().filter(|v| is(&v.outcome)).count();
    let fine = of(|outcome| *outcome == CheckOutcome::Fine);
    let idle = of(|outcome| matches!(outcome, CheckOutcome::NotApplicable(_)));
    let all = report.checks.len();
    let took = match report.posted {
        Some(_) => String::new(),
        None => format!("; {:.1} s", report.seconds),
    };
    let are = if fine == 1 { "is" } else { "are" };
    words
        + &format!(
            "Of {} {fine} {are} fine, {idle} not applicable here{took}.",
            plural(all, "check")
        )
}

/// Checks that could not look, by the reason.
fn unseen<'a>(blind: impl Iterator<Item = (&'a str, &'a str)>, width: usize) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (check, why) in blind {
        reasons.entry(why).or_default().push(check);
    }
    let line = |(why, names): (&str, Vec<&str>)| {
        wrapped(&format!("Could not look ({}): {why}", names.join(", ")), width)
    };
    reasons.into_iter().flat_map(line).collect()
}

fn one(verdict: &CheckVerdict, width: usize) -> Vec<String> {
    let words = match &verdict.outcome {
        CheckOutcome::Found(findings) => plural(findings.len(), "finding"),
        CheckOutcome::Fine => "fine".to_owned(),
        CheckOutcome::NotApplicable(why) => format!("not applicable: {why}"),
        CheckOutcome::CouldNotLook(why) => format!("could not look: {why}"),
    };
    let broken = wrapped(&words, width - 28);
    let head = |at: usize| if at == 0 { verdict.check.as_str() } else { "" };
    broken.iter().enumerate().map(|(at, line)| format!("{:<27} {line}", head(at))).collect()
}

/// The catalogue by group, and causes that only other instruments find.
pub(super) fn list(checks: &[&Check], causes: &[&Row], width: usize) -> Vec<String> {
    let mut out = Vec::new();
    let mut group = None;
    let mut sorted = checks.to_vec();
    sorted.sort_by_key(|check| check.group);
    let checks = sorted.iter().map(|check| (check.group.name(), check.name, check.title));
    let causes = causes.iter().map(|row| ("causes that other commands find", row.name, row.title));
    for (belongs, name, title) in checks.chain(causes) {
        if group.replace(belongs) != Some(belongs) {
            if !out.is_empty() {
                out.push(String::new());
            }
            out.push(format!("{belongs}:"));
        }
        for (at, line) in wrapped(title, width - 28).iter().enumerate() {
            out.push(format!("  {:<25} {line}", if at == 0 { name } else { "" }));
        }
    }
    out
}

pub(super) fn explanation(check: &Check, width: usize) -> Vec<String> {
    let remedies = check.remedies.join("; or: ");
    let mut out = wrapped(&format!("{}: {}", check.name, check.title), width);
    let all = [
        ("group", check.group.name()),
        ("reads", check.evidence),
        ("speaks", check.rule),
        ("severity", check.severity.name()),
        ("why", check.why),
        ("do", &remedies),
        ("source", check.source),
    ];
    out.extend(rows(&all, width));
    out
}

/// A cause that no check finds.
pub(super) fn cause(row: &Row, width: usize) -> Vec<String> {
    let remedies = row.remedies.join("; or: ");
    let mut out = wrapped(&format!("{}: {}", row.name, row.title), width);
    let all = [
        ("speaks", row.rule),
        ("severity", row.severity.name()),
        ("why", row.why),
        ("do", &remedies),
        ("source", row.source),
    ];
    out.extend(rows(&all, width));
    out
}

fn rows(rows: &[(&str, &str)], width: usize) -> Vec<String> {
    let mut out = Vec::new();
    for (name, text) in rows.iter().filter(|(_, text)| !text.is_empty()) {
        for (at, line) in wrapped(text, width - 12).iter().enumerate() {
            out.push(format!("  {:<9} {line}", if at == 0 { name } else { "" }));
        }
    }
    out
}

fn during(report: &CommandReport, width: usize) -> Vec<String> {
    let command = quell_wire::text::line(&report.command);
    let head = format!("While `{command}` ran ({:.1} s, {} looks):", report.seconds, report.looks);
    let mut out = vec![fitted(&head, width)];
    if let Some(why) = &report.failed {
        let said = format!("  The command did not end well: {why}. What moved until then:");
        out.push(fitted(&said, width));
    }
    let mut places: Vec<(&str, Vec<String>)> = Vec::new();
    for one in &report.moved {
        let words = format!("{} {}", one.name, one.count);
        match places.iter_mut().find(|(place, _)| *place == one.place) {
            Some((_, all)) => all.push(words),
            None => places.push((&one.place, vec![words])),
        }
    }
    let mut paragraph = |name: &str, text: &str| {
        for (at, line) in wrapped(text, width - 30).iter().enumerate() {
            out.push(format!("  {:<27} {line}", if at == 0 { name } else { "" }));
        }
    };
    for (place, all) in &places {
        paragraph(place, &all.join(", "));
    }
    if let (Some(busy), Some(softirq)) = (report.cpu_busy_percent, report.softirq_percent) {
        let text = format!("{busy:.0} % busy, {softirq:.0} % in softirqs, of all CPUs");
        paragraph("CPU time", &text);
    }
    let queues = report.longest_queue_bytes.iter().filter(|(_, bytes)| **bytes > 0);
    let queues: Vec<String> =
        queues.map(|(device, bytes)| format!("{device} {bytes} bytes")).collect();
    if !queues.is_empty() {
        paragraph("longest queue", &queues.join(", "));
    }
    out.push(String::new());
    out.extend(match &report.dropped {
        Ok(dropped) => drops(dropped, width),
        Err(why) => wrapped(&format!("Why packets were dropped could not be seen: {why}"), width),
    });
    out
}

fn drops(report: &DropReport, width: usize) -> Vec<String> {
    let rows = merged(&report.rows);
    if rows.is_empty() && (report.not_told, report.times_without_room) == (0, 0) {
        return wrapped("The kernel dropped no packet, in none of its network namespaces.", width);
    }
    let title = "Packets that the kernel dropped, in all its network namespaces:";
    let mut out = wrapped(title, width);
    for CountedDrop { row, meaning, packets } in rows.iter().take(SHOWN) {
        let reason = row.reason.as_deref().unwrap_or("no reason told");
        let words = meaning.map(|words| format!(": {words}")).unwrap_or_default();
        let device = row.device.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let text = quell_wire::text::line(&format!(
            "{reason}{words}; in {}; {}{device}",
            row.place, row.flow
        ));
        for (at, line) in wrapped(&text, width - 11).iter().enumerate() {
            let count = if at == 0 { packets.to_string() } else { String::new() };
            out.push(format!("  {count:>7}  {line}"));
        }
    }
    let others =
        rows.iter().skip(SHOWN).map(|one| one.packets).sum::<u64>() + report.of_other_flows;
    if others > 0 {
        out.push(format!("  {others:>7}  of other flows (--json has more of them)"));
    }
    let (unheard, full) = (report.not_told, report.times_without_room);
    if unheard > 0 || full > 0 {
        let text = format!(
            "More were dropped than are shown: {unheard} at least, {full} times without room"
        );
        out.extend(wrapped(&text, width));
    }
    out
}

pub(super) fn event(at: &str, event: &WatchEvent, args: &DoctorArgs, width: usize) -> Vec<String> {
    match event {
        WatchEvent::Began { checks, could_not_look, .. } => {
            let words = format!(
                "{at} watching with {checks} checks, a look each {}; Ctrl-C ends it",
                args.every
            );
            let blind = could_not_look.iter().map(|(check, why)| (check.as_str(), why.as_str()));
            [wrapped(&words, width), unseen(blind, width)].concat()
        }
        WatchEvent::Appeared { finding } | WatchEvent::Grew { finding } => {
            let appeared = matches!(event, WatchEvent::Appeared { .. });
            let word = if appeared { "appeared" } else { "grew" };
            let mut out = vec![String::new(), format!("{at} {word}")];
            out.extend(lines(finding, width));
            out
        }
        WatchEvent::Went { finding } => {
            let what = format!("{}: {} [{}]", finding.subject, finding.says, finding.id);
            [vec![String::new()], wrapped(&format!("{at} went: {what}"), width)].concat()
        }
        WatchEvent::Ended(report) => ended(at, report, args, width),
    }
}

fn ended(at: &str, report: &WatchReport, args: &DoctorArgs, width: usize) -> Vec<String> {
    let reason = match report.why {
        WatchEnd::Stopped => "it was ended".to_owned(),
        WatchEnd::Limit => "--limit was reached".to_owned(),
        WatchEnd::Until => format!("{} was found", args.until.as_deref().unwrap_or_default()),
    };
    let words = format!(
        "{at} {reason}: {} looks in {:.0} s; {} appeared, {} there now",
        report.looks, report.seconds, report.appeared, report.present
    );
    [vec![String::new()], wrapped(&words, width)].concat()
}
