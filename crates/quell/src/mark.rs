//! The ECN marks that a person may ask for.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use quell_units::Ecn;

/// Reads `--ecn`: every codepoint but the one that says "no ECN".
pub fn ecn() -> impl TypedValueParser<Value = Ecn> {
    let marks = [("ect0", "ECT(0)"), ("ect1", "ECT(1)"), ("ce", "Congestion experienced")];
    let words = marks.map(|(word, meaning)| PossibleValue::new(word).help(meaning));
    PossibleValuesParser::new(words).try_map(|word| word.parse::<Ecn>())
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn ping_and_flow_take_the_same_marks_and_refuse_the_same() {
        for command in [&["quell", "ping", "host"][..], &["quell", "flow", "host", "--udp"]] {
            let with = |mark| Cli::try_parse_from(command.iter().copied().chain(["--ecn", mark]));
            for mark in ["ect0", "ect1", "ce"] {
                assert!(with(mark).is_ok(), "{command:?} {mark}");
            }
            let said = with("not-ect").expect_err("that is no mark").to_string();
            assert!(said.contains("[possible values: ect0, ect1, ce]"), "{said}");
        }
    }
}
