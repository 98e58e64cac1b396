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
    use crate::{command, commands};

    #[test]
    fn ping_and_flow_take_the_same_marks_and_refuse_the_same() {
        for command in [&["quell", "ping", "host"][..], &["quell", "flow", "host", "--udp"]] {
            let with = |mark| {
                let typed = command.iter().copied().chain(["--ecn", mark]);
                command::parser(commands::COMMANDS).try_get_matches_from(typed)
            };
            for mark in ["ect0", "ect1", "ce"] {
                assert!(with(mark).is_ok(), "{command:?} {mark}");
            }
            let said = with("not-ect").expect_err("that is no mark").to_string();
            assert!(said.contains("[possible values: ect0, ect1, ce]"), "{said}");
        }
    }
}
