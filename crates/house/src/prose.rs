//! Plain English: no sentence of a document is longer than people read in one breath, and none has a word of our own dialect.
//!
//! ```text
//!   *.md ──► paragraphs, items, cells of tables ─┐
//!   *.rs ──► strings and help that users read ───┴─► sentences ──► too long? a word of the list?
//! ```
//!
//! What stands in blocks of code is no prose: programs printed it. A span of code counts as one word; a cell that is mostly such spans is a list of names, and as long as that is.

use crate::tree::File;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

pub const MOST: usize = 30;

/// Words of our dialect, and what English has in their place. Blanks count; `told ` in `untold ` is none.
const DIALECT: [(&str, &str); 16] = [
    (" told ", "said, reported, shown"),
    (" stands ", "is"),
    ("nobody knows", "unknown"),
    ("nobody can know", "unknown"),
    ("nobody can tell", "unknown"),
    (" each way ", "in each direction"),
    (" both ways ", "in both directions"),
    (" either way ", "in either direction"),
    (" which way ", "which direction"),
    (" one way ", "in one direction"),
    ("on the way there", "up"),
    ("on the way back", "down"),
    ("on the way in", "incoming"),
    ("on the way out", "outgoing"),
    (", as `", "for example"),
    (" there and back ", "up and down"),
];

/// A sentence with the line of its paragraph.
pub struct Sentence {
    /// The line on which its paragraph begins, from 1.
    pub line: usize,
    /// Its text, a span of code as `` `…` ``.
    pub text: String,
}

impl Sentence {
    pub fn words(&self) -> usize {
        let word = |w: &&str| w.chars().any(|c| c.is_alphanumeric() || c == '`');
        self.text.split_whitespace().filter(word).count()
    }

    fn fault(&self) -> Option<String> {
        let words = self.words();
        let start: String = self.text.chars().take(60).collect();
        if words > MOST {
            return Some(format!("{words} words, at most {MOST}: {start}…"));
        }
        let plain: String = self
            .text
            .to_lowercase()
            .chars()
            .map(|c| if ".,;:()[]*?!\n\"".contains(c) { ' ' } else { c })
            .collect();
        let (plain, text) = (format!(" {plain} "), &self.text);
        let found = DIALECT.iter().find(|(word, _)| plain.contains(word) || text.contains(word));
        found.map(|(word, instead)| format!("“{}” ({instead}): {start}…", word.trim()))
    }
}

/// Documents with sentences that are too long, or words of our dialect. Decisions (`docs/adr`) stay as they were
/// written.
pub fn problems(files: &[File]) -> Vec<String> {
    let documents = files.iter().filter(|f| is_document(&f.path));
    documents.filter_map(|file| faults(file, of_markdown(&file.text))).collect()
}

pub fn problems_of_strings(files: &[File]) -> Vec<String> {
    let sources = files.iter().filter(|f| is_product(&f.path));
    let sentences = |file: &File| {
        let strings = strings(&file.text);
        let lines = strings.iter().flat_map(|text| text.lines());
        lines.flat_map(|line| sentences(line, 0)).collect()
    };
    sources.filter_map(|file| faults(file, sentences(file))).collect()
}

fn faults(file: &File, sentences: Vec<Sentence>) -> Option<String> {
    let found: Vec<String> = sentences
        .iter()
        .filter_map(|sentence| Some(format!("{}: {}", sentence.line, sentence.fault()?)))
        .collect();
    (!found.is_empty()).then(|| format!("{}\n    {}", file.path, found.join("\n    ")))
}

fn is_document(path: &str) -> bool {
    // The list of the book's pages has titles of decisions.
    let titles = path.starts_with("docs/adr/") || path == "docs/SUMMARY.md";
    path.ends_with(".md") && (path.starts_with("docs/") || path == "README.md") && !titles
}

pub fn of_markdown(text: &str) -> Vec<Sentence> {
    let (mut found, mut paragraph, mut begins) = (Vec::new(), String::new(), 1);
    let (mut in_code, mut after_blank) = (false, true);
    let mut end = |paragraph: &mut String, line| {
        found.extend(sentences(&std::mem::take(paragraph), line));
    };
    for (number, line) in (1..).zip(text.lines()) {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        let printed = in_code || fence || line.starts_with("    ") && after_blank;
        if printed || line.trim().is_empty() || line.starts_with('#') {
            end(&mut paragraph, begins);
            after_blank = !in_code && !line.starts_with('#');
            continue;
        }
        after_blank = false;
        if let Some(row) = line.trim().strip_prefix('|') {
            end(&mut paragraph, begins);
            for cell in row.split(" | ").filter(|cell| !is_list_of_names(cell)) {
                end(&mut cell.replace('|', " "), number);
            }
            continue;
        }
        let begun = line.trim_start();
        let is_item = begun.starts_with("- ")
            || begun.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        if is_item {
            end(&mut paragraph, begins);
        }
        if paragraph.is_empty() {
            begins = number;
        }
        paragraph += begun.trim_start_matches("- ");
        paragraph.push('\n');
    }
    end(&mut paragraph, begins);
    found
}

fn is_list_of_names(cell: &str) -> bool {
    let names = cell.matches('`').count() / 2;
    names > 3 && 4 * names > cell.split_whitespace().count()
}

/// Cuts a paragraph: behind `.`, `?` and `!` with a blank, and before a picture or a list. Targets of links are none of its words.
fn sentences(paragraph: &str, line: usize) -> Vec<Sentence> {
    let mut plain = String::new();
    let mut in_span = false;
    for piece in paragraph.split('`') {
        plain += if in_span { "`…`" } else { piece };
        in_span = !in_span;
    }
    while let Some((at, end)) =
        plain.find("](").and_then(|at| Some((at, at + plain[at..].find(')')?)))
    {
        plain.replace_range(at..=end, "");
    }
    let mut found = Vec::new();
    let mut rest = &*plain;
    while !rest.trim().is_empty() {
        let stops = [". ", "? ", "! ", ".\n", "?\n", "!\n", ".) ", ".)\n", ".** ", ":** "];
        let end = stops.iter().filter_map(|stop| Some(rest.find(stop)? + stop.len())).min();
        let (sentence, behind) = rest.split_at(end.unwrap_or(rest.len()));
        found.push(Sentence { line, text: sentence.trim().to_owned() });
        rest = behind;
    }
    found
}

fn is_product(path: &str) -> bool {
    let test =
        path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs");
    let own = path.starts_with("crates/house/") || path.starts_with("crates/bench/");
    // Its strings are programs in JavaScript.
    let own = own || path == "crates/page/src/script.rs" || path.contains("/examples/");
    path.starts_with("crates/") && path.ends_with(".rs") && !test && !own
}

/// Macros and functions whose text nobody reads who uses the program.
const FOR_US: [&str; 8] = [
    "expect",
    "panic",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "unreachable",
    "include_str",
];

/// The strings that users read: literals of four words and more, and what stands above the options of commands.
fn strings(source: &str) -> Vec<String> {
    let product = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = Vec::new();
    if let Ok(tokens) = product.parse::<TokenStream>() {
        walk(tokens, false, &mut found);
    }
    found.retain(|text| text.split_whitespace().count() >= 4);
    found
}

fn walk(tokens: TokenStream, is_options: bool, found: &mut Vec<String>) {
    let (mut name, mut hash, mut of_options) = (String::new(), false, false);
    for token in tokens {
        match token {
            TokenTree::Group(group) if hash && group.delimiter() == Delimiter::Bracket => {
                let text = group.stream().to_string();
                of_options |= text.starts_with("derive")
                    && (text.contains("Args") || text.contains("Parser"));
                if is_options && text.starts_with("doc") {
                    walk(group.stream(), true, found);
                }
            }
            TokenTree::Group(group) => {
                if !FOR_US.contains(&&*name) {
                    walk(group.stream(), is_options || of_options, found);
                }
                of_options &= group.delimiter() != Delimiter::Brace;
            }
            TokenTree::Literal(literal) => {
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    found.push(text.value());
                }
            }
            TokenTree::Ident(ident) => name = ident.to_string(),
            TokenTree::Punct(punct) => {
                // `#[…]` or `#![…]`.
                hash = punct.as_char() == '#' || hash && punct.as_char() == '!';
                if punct.as_char() != '!' {
                    name.clear();
                }
                continue;
            }
        }
        hash = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(text: &str) -> Vec<String> {
        problems(&[File::new("docs/a.md", text)])
    }

    #[test]
    fn a_sentence_of_31_words_is_found_with_its_line_and_one_of_30_is_not() {
        let words = |n: usize| format!("# A heading\n\nFine. {}.\n", ["word"; 40][..n].join(" "));
        assert_eq!(found_in(&words(30)), Vec::<String>::new());
        let found = found_in(&words(31));
        assert!(found.len() == 1 && found[0].contains("\n    3: 31 words"), "{found:?}");
    }

    #[test]
    fn lines_of_a_paragraph_are_one_sentence_and_items_cells_and_code_are_their_own() {
        let ten = "w w w w w w w w w w";
        assert_eq!(found_in(&format!("{ten}\n{ten}\n{ten}\n{ten}\n")).len(), 1);
        let apart =
            format!("- {ten}\n- {ten}\n- {ten}\n- {ten}\n\n| {ten} | {ten} | {ten} | {ten} |\n");
        assert_eq!(found_in(&apart), Vec::<String>::new());
        let code =
            format!("```\n{ten} {ten} {ten} {ten}\n```\n\n    {ten} {ten} {ten} {ten} told\n");
        assert_eq!(found_in(&code), Vec::<String>::new());
        let span = "It is [told](a-b.md) `told told`.";
        assert_eq!(found_in(span).len(), 1, "{:?}", found_in(span));
    }

    #[test]
    fn words_of_the_dialect_are_found_in_documents_but_for_decisions() {
        for text in ["So it is told.", "It stands there.", "A name, as `x`.", "Loss, each way"] {
            assert_eq!(found_in(text).len(), 1, "{text}");
        }
        assert_eq!(found_in("It is understood, as iperf3 has it."), Vec::<String>::new());
        let decision = [File::new("docs/adr/1.md", "It is told.")];
        assert_eq!(problems(&decision), Vec::<String>::new());
    }

    #[test]
    fn a_string_that_users_read_is_found_and_one_for_us_is_not() {
        let source = "fn f() { say(\"nothing is told here\"); x.expect(\"nothing is told here\") }\n\
                      #[derive(Args)]\nstruct A {\n    /// What is told to you\n    a: u8,\n}\n\
                      /// What is told to us\nstruct B;\n";
        let found = problems_of_strings(&[File::new("crates/a/src/lib.rs", source)]);
        assert!(found.len() == 1 && found[0].matches("“told”").count() == 2, "{found:?}");
    }
}
