//! Any text as an experiment: it is planned, or refused in lines for a person; never a panic, never a plan without end.
//!
//! ```text
//!   text ──► changes (--set) ──► parse ──► check ──► plans of the cells
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_experiment::spec::{check, load_file, set};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A first line `#set a=b` is a change, as a person would type it.
    let change = text.lines().next().and_then(|line| line.strip_prefix("#set "));
    let changed = match change {
        Some(change) => match set::apply(text, &[change.to_owned()]) {
            Ok(changed) => changed,
            Err(error) => return said(&error.to_string()),
        },
        None => text.to_owned(),
    };
    match load_file::parse("some.toml", &changed) {
        Err(error) => said(&error.to_string()),
        Ok(experiment) => {
            if let Err(error) = check::check(&experiment) {
                said(&error.told("some.toml", &changed));
            }
        }
    }
});

/// What a person is told says something, and can't steer a terminal.
fn said(words: &str) {
    assert!(!words.trim().is_empty());
    assert!(words.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()), "{words:?}");
}
