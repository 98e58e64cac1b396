//! What docs/from-flent.md and docs/comparing.md show is what the program prints.

use crate::measured::measured;
use crate::support::TestFolder;

const FROM_FLENT: &str = include_str!("../../../../docs/from-flent.md");
const COMPARING: &str = include_str!("../../../../docs/comparing.md");

/// What a document shows below a command, up to the next one or the end of the block.
#[track_caller]
fn shown(document: &str, command: &str) -> String {
    let (_, rest) = document.split_once(&format!("$ {command}\n")).expect("it is shown");
    let end = ["\n```", "\n$ "].iter().filter_map(|end| rest.find(end)).min();
    lines(&rest[..end.expect("a block ends")])
}

/// Without the blanks at the ends of lines and of the text.
fn lines(text: &str) -> String {
    text.trim_matches('\n').lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[test]
fn an_old_file_of_flents_is_shown_in_the_document_as_it_is_shown_here() {
    let dir = TestFolder::new();
    dir.write("home.flent.gz", include_bytes!("../../../foreign/tests/data/ping.flent.gz"));
    for command in ["data import home.flent.gz", "show home"] {
        let said = dir.quell(&command.split(' ').collect::<Vec<_>>()).fine();
        // Where the document ends in an ellipsis, its beginning is shown.
        let document = shown(FROM_FLENT, &format!("quell {command}"));
        let (beginning, said) = (document.trim_end_matches("…\n"), lines(&said));
        assert!(said.starts_with(beginning), "{command}: {said}");
        assert!(beginning != document || said == document, "{command}: {said}");
    }
}

#[test]
fn a_comparison_is_shown_in_the_document_in_the_shape_that_it_has_here() {
    let dir = TestFolder::new();
    measured(&dir, "\"6.1\", \"6.12\"");
    let said = lines(&dir.quell(&["show", "--by", "kernel", "--metric", "rtt.p50,goodput"]).fine());
    let document = shown(COMPARING, "quell show --by kernel --metric rtt.p50,goodput");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let head = |text: &str| text.lines().next().map(words);
    assert_eq!(head(&said), head(&document), "{said}");
    // Sets have names of their own lines, figures are set in, and the last line says what the intervals rest on.
    let last = |text: &str| text.lines().last().map(str::to_owned);
    assert_eq!(last(said.trim_end()), last(&document), "{said}");
    let row = |text: &str| -> Vec<String> {
        let row = text.lines().skip_while(|l| *l != "bulk · ping").nth(1).expect("a row");
        words(row)
    };
    let (here, there) = (row(&said), row(&document));
    // rtt.p50 ms, two figures, the difference, its part, the interval, and what it says.
    assert_eq!(here[..2], there[..2]);
    for place in [2, 3, 4, 5, 7, 9] {
        let is_number =
            |words: &[String]| words[place].trim_matches(['+', '−']).parse::<f64>().is_ok();
        assert!(is_number(&here) && is_number(&there), "{here:?} {there:?}");
    }
    assert_eq!((&*here[6], &*there[6], &*here[8], &*there[8]), ("%", "%", "to", "to"));
    assert_eq!(here[10..].join(" "), "better");
}
