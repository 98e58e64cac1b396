//! The examination for a person: the worst first, then what could not be seen.

use super::args::DoctorArgs;
use super::during;
use super::seen::Examination;
use quell_doctor::{Check, Verdict};
use quell_finding::{Finding, Outcome, Severity, lines, wrapped};
use std::collections::BTreeMap;

/// All lines.
pub(super) fn report(
    seen: &Examination,
    findings: &[Finding],
    verdicts: &[Verdict],
    args: &DoctorArgs,
    width: usize,
) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(watched) = &seen.watched {
        out.extend(during::lines(watched, width));
        out.push(String::new());
    }
    for finding in findings.iter().filter(|finding| finding.severity >= args.severity) {
        out.extend(lines(finding, width));
        out.push(String::new());
    }
    out.extend(summary(seen, findings, verdicts, args, width));
    if args.all {
        out.push(String::new());
        out.extend(verdicts.iter().flat_map(|verdict| one(verdict, width)));
    } else {
        out.extend(unseen(verdicts, width));
    }
    out
}

fn summary(
    seen: &Examination,
    findings: &[Finding],
    verdicts: &[Verdict],
    args: &DoctorArgs,
    width: usize,
) -> Vec<String> {
    let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let (serious, warnings, notes) =
        (count(Severity::Serious), count(Severity::Warning), count(Severity::Note));
    let mut words = match (serious, warnings) {
        (0, 0) => "Nothing is wrong that can be seen from here".to_owned(),
        (0, n) => plural(n, "warning"),
        (n, 0) => format!("{n} serious"),
        (n, m) => format!("{n} serious, {}", plural(m, "warning")),
    };
    if notes > 0 {
        words += &format!("; {}", plural(notes, "note"));
        if args.severity > Severity::Note {
            words += " (--severity note shows)";
        }
    }
    let fine = verdicts.iter().filter(|v| v.outcome == Outcome::Fine).count();
    let idle = verdicts.iter().filter(|v| matches!(v.outcome, Outcome::NotApplicable(_))).count();
    words += &format!(
        ". Of {} checks {fine} are fine, {idle} not applicable here; {:.1} s.",
        verdicts.len(),
        seen.seconds
    );
    wrapped(&words, width)
}

fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// What could not be looked at, by its reason.
pub(super) fn unseen(verdicts: &[Verdict], width: usize) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for verdict in verdicts {
        if let Outcome::CouldNotLook(why) = &verdict.outcome {
            reasons.entry(why).or_default().push(&verdict.check);
        }
    }
    let line = |(why, names): (&str, Vec<&str>)| {
        wrapped(&format!("Could not look ({}): {why}", names.join(", ")), width)
    };
    reasons.into_iter().flat_map(line).collect()
}

fn one(verdict: &Verdict, width: usize) -> Vec<String> {
    let words = match &verdict.outcome {
        Outcome::Found(findings) => plural(findings.len(), "finding"),
        Outcome::Fine => "fine".to_owned(),
        Outcome::NotApplicable(why) => format!("not applicable: {why}"),
        Outcome::CouldNotLook(why) => format!("could not look: {why}"),
    };
    let broken = wrapped(&words, width - 28);
    let head = |at: usize| if at == 0 { verdict.check.as_str() } else { "" };
    broken.iter().enumerate().map(|(at, line)| format!("{:<27} {line}", head(at))).collect()
}

/// The catalogue, by group.
pub(super) fn list(checks: &[&Check], width: usize) -> Vec<String> {
    let mut out = Vec::new();
    let mut group = None;
    let mut sorted = checks.to_vec();
    sorted.sort_by_key(|check| (check.group, check.number));
    for check in sorted {
        if group.replace(check.group) != Some(check.group) {
            if !out.is_empty() {
                out.push(String::new());
            }
            out.push(format!("{}:", check.group.name()));
        }
        let broken = wrapped(check.title, width - 31);
        for (at, line) in broken.iter().enumerate() {
            out.push(match at {
                0 => format!("{:>3} {:<26} {line}", check.number, check.name),
                _ => format!("{:31}{line}", ""),
            });
        }
    }
    out
}

/// All about one check.
pub(super) fn explanation(check: &Check, width: usize) -> Vec<String> {
    let mut out = wrapped(&format!("{}: {}", check.name, check.title), width);
    let number = format!("check {} of {}", check.number, check.group.name());
    for (name, text) in [
        ("place", number.as_str()),
        ("reads", check.evidence),
        ("speaks", check.rule),
        ("severity", check.severity.name()),
        ("why", check.why),
        ("do", check.fix),
        ("source", check.source),
    ] {
        let broken = wrapped(text, width - 12);
        for (at, line) in broken.iter().enumerate() {
            out.push(format!("  {:<9} {line}", if at == 0 { name } else { "" }));
        }
    }
    out
}
