//! A finding for a person: what, evidence, why, what to do.
//!
//! ```text
//!   lines   SERIOUS   port 8080: connections come faster than the program takes them
//!             seen    ListenOverflows 37 since the start (/proc/net/netstat)
//!             why     ... [listen-overflow]
//!             do      ...
//!   seen, to_do       the second and the last of these, for who tells them in lines of its own
//! ```

use crate::{Evidence, Finding};

/// Columns that a line takes at most, and where nobody knows of fewer.
pub const WIDEST: usize = 100;
const INDENT: usize = 10;

/// The lines of a finding, each of at most so many columns.
pub fn lines(finding: &Finding, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let what = format!("{}: {}", finding.subject, finding.says);
    let paragraph = |first: &str, text: &str| paragraph(first, text, width);
    lines.extend(paragraph(&format!("{:<8}  ", finding.severity.name().to_uppercase()), &what));
    lines.extend(paragraph("  seen    ", &seen(finding)));
    lines.extend(paragraph("  why     ", &format!("{} [{}]", finding.why, finding.id)));
    // Where only a person could do something, and nobody knows what, there is no such line.
    lines.extend(to_do(finding).iter().flat_map(|text| paragraph("  do      ", text)));
    lines
}

/// What was seen, with where it was read.
pub fn seen(finding: &Finding) -> String {
    grouped(finding).join("; ")
}

/// What to do; none where nobody knows.
pub fn to_do(finding: &Finding) -> Option<String> {
    let remedies: Vec<String> = finding.remedies.iter().map(ToString::to_string).collect();
    (!remedies.is_empty()).then(|| remedies.join("; or: "))
}

/// Evidence from one place names it once.
fn grouped(finding: &Finding) -> Vec<String> {
    let mut groups: Vec<(String, &str)> = Vec::new();
    let told = |evidence: &&Evidence| evidence.words.as_ref().is_none_or(|words| !words.is_empty());
    for evidence in finding.evidence.iter().filter(told) {
        match groups.last_mut() {
            Some((text, source)) if *source == evidence.source => {
                // What is a sentence by itself is set apart as one.
                text.push_str(if evidence.words.is_some() { "; " } else { ", " });
                text.push_str(&evidence.to_string());
            }
            _ => groups.push((evidence.to_string(), &evidence.source)),
        }
    }
    groups.into_iter().map(|(text, source)| format!("{text} ({source})")).collect()
}

fn paragraph(first: &str, text: &str, width: usize) -> Vec<String> {
    let broken = wrapped(text, width.saturating_sub(INDENT).max(1));
    let rest = " ".repeat(INDENT);
    let head = |at: usize| if at == 0 { first } else { &rest };
    broken.iter().enumerate().map(|(at, line)| format!("{}{line}", head(at))).collect()
}

/// Breaks a text between words into lines of at most `width` columns; a longer word is cut.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().filter(|c| !c.is_control()).collect();
        let space = usize::from(used > 0);
        if used > 0 && used + space + rest.len() > width {
            lines.push(String::new());
            used = 0;
        }
        while rest.len() > width {
            let tail = rest.split_off(width);
            if let Some(line) = lines.last_mut() {
                line.extend(rest);
            }
            lines.push(String::new());
            rest = tail;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            used += rest.len();
            line.extend(rest);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Remedy, Severity, worst_first};

    fn finding() -> Finding {
        Finding {
            id: "listen-overflow".into(),
            subject: "this host".into(),
            severity: Severity::Serious,
            sure: true,
            says: "connections come faster than a program takes them".into(),
            evidence: vec![
                Evidence::count("ListenOverflows", 37, "/proc/net/netstat"),
                Evidence::count("ListenDrops", 40, "/proc/net/netstat"),
                Evidence::number("share", 0.25, "%", "calculated"),
            ],
            why: "each is a client that waits a second or more for its second try, and then perhaps for its third and its fourth".into(),
            remedies: vec![
                Remedy::sysctl("net/core/somaxconn", "4096"),
                Remedy::advice("raise the backlog that the program gives to listen(2)"),
            ],
            source: "a test".into(),
        }
    }

    #[test]
    fn a_finding_says_what_was_seen_why_it_matters_and_what_to_do() {
        let lines = lines(&finding(), WIDEST);
        assert_eq!(
            lines[..2],
            [
                "SERIOUS   this host: connections come faster than a program takes them",
                "  seen    ListenOverflows 37, ListenDrops 40 (/proc/net/netstat); share 0.250 % (calculated)",
            ]
        );
        assert!(lines[2].starts_with("  why     each is a client"), "{lines:?}");
        let cure = "  do      sysctl -w net.core.somaxconn=4096; or: ";
        assert!(lines.iter().any(|line| line.starts_with(cure)), "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDEST), "{lines:?}");
        for width in [80, 60, 20, 1] {
            let narrow = super::lines(&finding(), width);
            let most = narrow.iter().map(|line| line.chars().count()).max();
            assert!(most <= Some(width.max(INDENT + 1)), "{width}: {narrow:#?}");
        }
    }

    #[test]
    fn words_wider_than_a_line_are_cut_and_nothing_reaches_the_terminal_as_its_command() {
        let long = format!("{} end\u{1b}[2J", "x".repeat(25));
        assert_eq!(wrapped(&long, 10), ["xxxxxxxxxx", "xxxxxxxxxx", "xxxxx", "end[2J"]);
        assert_eq!(wrapped("", 10), [""]);
    }

    #[test]
    fn figures_that_say_little_by_themselves_are_told_in_a_sentence_and_stay_figures() {
        let calls = Evidence::part("stalled", 20, 30, "calls", "quell rr");
        let took = Evidence::number("took", 44.1, "ms", "quell rr").in_words("");
        let told = calls.clone().in_words("20 of 30 calls stalled and took 44.1 ms");
        let mut finding = Finding { evidence: vec![told, took], ..finding() };
        assert_eq!(seen(&finding), "20 of 30 calls stalled and took 44.1 ms (quell rr)");
        let json = serde_json::to_value(&finding.evidence).unwrap();
        assert_eq!((&json[0]["value"]["part"], &json[0]["value"]["of"]), (&20.into(), &30.into()));
        assert_eq!((&json[1]["value"], &json[1]["says"]), (&44.1.into(), &serde_json::Value::Null));
        finding = Finding { evidence: vec![calls], remedies: vec![], ..finding };
        assert_eq!(seen(&finding), "stalled 20 of 30 calls (quell rr)");
        assert_eq!(to_do(&finding), None);
        assert!(
            !lines(&finding, WIDEST).iter().any(|line| line.starts_with("  do")),
            "nobody knows"
        );
    }

    #[test]
    fn the_worst_comes_first() {
        let mut all = vec![finding(), finding(), finding()];
        all[0].severity = Severity::Note;
        all[1].severity = Severity::Warning;
        worst_first(&mut all);
        assert!(all[0].severity == Severity::Serious && all[2].severity == Severity::Note);
    }

    #[test]
    fn a_program_reads_figures_as_figures() {
        let json = serde_json::to_value(finding()).unwrap();
        assert_eq!(json["evidence"][0]["value"], 37);
        assert_eq!(json["evidence"][2]["unit"], "%");
        assert_eq!(json["remedies"][0]["key"], "net/core/somaxconn");
        assert_eq!(json["severity"], "serious");
        // What was kept is read as it was.
        let share = Evidence::part("stalled", 2, 3, "calls", "quell rr").in_words("two of three");
        let kept = finding().saw(share).saw(Evidence::text("queue", "htb", "tc"));
        let json = serde_json::to_string(&kept).unwrap();
        assert_eq!(serde_json::from_str::<Finding>(&json).unwrap(), kept);
    }

    #[test]
    fn an_interface_with_a_dot_in_its_name_stays_one_part_of_a_setting() {
        let remedy = Remedy::sysctl("net/ipv4/conf/eth0.7/rp_filter", "2");
        assert_eq!(remedy.to_string(), "sysctl -w net/ipv4/conf/eth0.7/rp_filter=2");
    }
}
