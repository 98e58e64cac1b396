//! Every kind's table is whole: each option has a name, `tc`'s word, a place, and a line for people.

use std::collections::BTreeSet;

use quell_tc::{At, ClassKind, Field, Qdisc, Unit, Word};

const MANUAL: &str = include_str!("../../../../docs/experiments.md");

/// What is wrong with a kind's table, and with its row in the manual.
fn faults(kind: &str, table: &[Field], row: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut attributes = BTreeSet::new();
    let mut words = BTreeSet::new();
    for field in table {
        let mut fault = |what: &str| found.push(format!("{kind}: {}: {what}", field.name));
        if field.doc.trim().is_empty() {
            fault("it is not said what it means");
        }
        match field.word {
            Word::Name(word) | Word::Flag(word, _) if word.is_empty() => fault("it has no word"),
            Word::Name(word) | Word::Flag(word, _) if !words.insert(word) => {
                fault("another option has its word");
            }
            _ => {}
        }
        match field.at {
            At::Attr(0) => fault("0 is no attribute"),
            At::Attr(number) if !attributes.insert(number) => {
                fault("another option has its attribute")
            }
            At::Derived if field.reported && field.name != "latency" => {
                fault("the kernel can't show what it is not told");
            }
            _ => {}
        }
        if !row.contains(&format!("`{}`", field.name)) {
            fault("docs/experiments.md does not name it");
        }
    }
    found
}

/// The manual's row of a kind, in the table of queues or that of classes.
fn row<'a>(part: &str, kind: &str) -> &'a str {
    let from = MANUAL.find(part).expect("the manual has this part");
    let mut rows = MANUAL[from..].lines().filter(|line| line.starts_with('|'));
    let names =
        |line: &&str| line.split('|').nth(1).is_some_and(|n| n.contains(&format!("`{kind}`")));
    rows.find(names).unwrap_or_else(|| panic!("docs/experiments.md has no row for {kind}"))
}

#[test]
fn every_option_of_every_kind_has_a_word_a_place_and_a_meaning() {
    let mut found = Vec::new();
    for kind in Qdisc::KINDS {
        let qdisc = Qdisc::from_kind(kind).expect("it is one of ours");
        found.extend(faults(kind, qdisc.table(), row("## Queue disciplines", kind)));
        if let Some(class) = ClassKind::under(&qdisc).filter(|class| *class != ClassKind::Band) {
            found.extend(faults(kind, class.table(), row("## Classes", kind)));
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_table_with_holes_is_told_from_a_whole_one() {
    let field =
        |name, doc, word, at| Field { name, doc, word, at, unit: Unit::Count, reported: true };
    let good = field("limit", " Packets.", Word::Name("limit"), At::Attr(2));
    assert_eq!(faults("toy", &[good], "| `toy` | `limit` |"), Vec::<String>::new());
    let bad = [
        good,
        field("flows", "", Word::Name("limit"), At::Attr(2)),
        field("ecn", " Marks.", Word::Flag("", "noecn"), At::Attr(0)),
        field("burst", " Bytes.", Word::Bare, At::Derived),
    ];
    let found = faults("toy", &bad, "| `toy` | `limit`, `flows`, `ecn` |");
    assert_eq!(
        found,
        [
            "toy: flows: it is not said what it means",
            "toy: flows: another option has its word",
            "toy: flows: another option has its attribute",
            "toy: ecn: it has no word",
            "toy: ecn: 0 is no attribute",
            "toy: burst: the kernel can't show what it is not told",
            "toy: burst: docs/experiments.md does not name it",
        ]
    );
}
