//! Text as people post it, made text as `tc` printed it: line by line, so that the numbers of lines stay.
//!
//! ```text
//!   > qdisc fq_codel 110: dev eth0 parent 1:12 limit 1001p flows 1024 quantum      quoted, indented, fenced: stripped
//!   > 300 target 14ms interval 109ms ecn                                           broken by a mail at 72: joined to the line before
//!   > Sent 19545 bytes 225 pkt (dropped 2, overlimits 0 requeues 0)                its blank lost: given back
//! ```

use super::context::command;

/// Where a line that was too long was broken: mail breaks between 65 and 80 columns.
const SHORTEST_BREAK: usize = 60;

/// The same text with as many lines; what was joined to another line is an empty one.
pub(crate) fn as_printed(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    // The line to which a broken one belongs, how the record is indented, and how long the last line was as it stood there.
    let (mut before, mut indent, mut length) = (None, String::new(), 0);
    for raw in text.trim_start_matches('\u{feff}').split('\n') {
        let line = stripped(raw);
        let trimmed = line.trim();
        if trimmed.is_empty() {
            before = None;
            lines.push(String::new());
            continue;
        }
        if begins(trimmed) {
            indent = line[..line.len() - line.trim_start().len()].to_owned();
            before = Some(lines.len());
            lines.push(trimmed.to_owned());
        } else {
            let own = dedented(&line, &indent);
            let joins =
                before.filter(|_| !own.starts_with([' ', '\t']) && command(trimmed).is_none());
            match joins {
                Some(_) if is_detail(trimmed) => {
                    before = Some(lines.len());
                    lines.push(format!(" {trimmed}"));
                }
                Some(at) if is_broken(&lines[at], length, trimmed) => {
                    lines[at] = format!("{} {trimmed}", lines[at].trim_end());
                    lines.push(String::new());
                }
                _ => {
                    before = own
                        .starts_with([' ', '\t'])
                        .then_some(lines.len())
                        .and(before.map(|_| lines.len()));
                    lines.push(own.to_owned());
                }
            }
        }
        length = trimmed.chars().count();
    }
    lines.join("\n")
}

/// A line without what a mail, a forum or Markdown put around it.
pub fn stripped(raw: &str) -> String {
    let mut line = raw.trim_end_matches('\r').replace('\u{a0}', " ");
    while let Some(rest) = [">", " >", "|"].iter().find_map(|mark| line.strip_prefix(mark)) {
        line = rest.strip_prefix(' ').unwrap_or(rest).to_owned();
    }
    match line.trim() {
        fence if fence.starts_with("```") || fence.starts_with("~~~") => String::new(),
        "[code]" | "[/code]" | "<pre>" | "</pre>" => String::new(),
        _ => line,
    }
}

/// Whether a line begins a record, wherever it stands: `qdisc KIND 1:`, `class KIND 1:10`, `filter` and what says where it is.
fn begins(line: &str) -> bool {
    let mut words = line.split_whitespace();
    match words.next() {
        Some("qdisc" | "class") => words.nth(1).is_some_and(|handle| {
            handle.split_once(':').is_some_and(|(major, minor)| {
                [major, minor].iter().all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
            })
        }),
        Some("filter") => matches!(
            words.next(),
            Some("parent" | "protocol" | "dev" | "block" | "ingress" | "egress" | "root" | "pref")
        ),
        _ => false,
    }
}

fn dedented<'a>(line: &'a str, indent: &str) -> &'a str {
    line.strip_prefix(indent).unwrap_or_else(|| {
        // Less than the record's own: what is left of it.
        let blank = line.len() - line.trim_start().len();
        &line[blank.min(indent.len())..]
    })
}

/// Whether a line is what `tc` prints below a record, so that only its blanks were lost.
fn is_detail(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    const WORDS: [&str; 39] = [
        "Sent",
        "backlog",
        "(dropped",
        "lended:",
        "borrowed:",
        "tokens:",
        "maxpacket",
        "new_flows_len",
        "ecn_mark",
        "count",
        "prob",
        "pkts_in",
        "pkts_in_c",
        "credit",
        "memory",
        "marked",
        "early",
        "earlydrop",
        "queues",
        "clockid",
        "base-time",
        "max-sdu",
        "prob_mark",
        "forced_mark",
        "match",
        "action",
        "index",
        "Action",
        "police",
        "eth_type",
        "ip_proto",
        "src_ip",
        "dst_ip",
        "src_port",
        "dst_port",
        "not_in_hw",
        "in_hw",
        "skip_sw",
        "offset",
    ];
    WORDS.contains(&first)
        || (first == "rate" && line.contains("requeues"))
        || ["queues:", "mode:", "shaper:"].iter().any(|word| first.starts_with(word))
}

/// Whether a line goes on where the one before was broken: its first word had no room there, or a bracket is open.
fn is_broken(before: &str, length: usize, line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default().chars().count();
    let is_option = |word: &str| {
        word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:/%+=()-,'".contains(&b))
            && !word.ends_with('.')
    };
    let open = before.matches('(').count() > before.matches(')').count();
    line.split_whitespace().all(is_option) && (open || length + 1 + first > SHORTEST_BREAK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_tc_printed_stays_as_it_is() {
        for text in [
            include_str!("../../tests/data/htb-u32.txt"),
            include_str!("../../tests/data/cake.txt"),
            include_str!("../../tests/data/ingress-ifb.txt"),
            include_str!("../../tests/data/clsact-flower-bpf.txt"),
        ] {
            let same = |line: &str| line.trim_end().to_owned();
            let made: Vec<String> = as_printed(text).lines().map(same).collect();
            assert_eq!(made, text.lines().map(same).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn any_text_keeps_the_number_of_its_lines(text in "[ -~\n\t>é\u{feff}]{0,200}") {
            prop_assert_eq!(as_printed(&text).split('\n').count(), text.split('\n').count());
        }
    }
}
