//! Values that can't be, and values that are missing: refused with their place, left out by name or not known. None is a zero, or a loss.

mod flent;
mod iperf3;
mod irtt;

use quell_foreign::{Imported, read};

#[track_caller]
fn imported(text: &str) -> Imported {
    read(text.as_bytes(), None).expect("it is read")
}

/// The document with one thing in it otherwise.
#[track_caller]
fn with(document: &str, old: &str, new: &str) -> String {
    assert_eq!(document.matches(old).count(), 1, "{old}");
    document.replace(old, new)
}

/// The document is read; with one thing in it otherwise, each on its own, it is refused in these words.
#[track_caller]
fn refused(document: &str, each: &[(&str, &str, &str)]) {
    imported(document);
    let mut missed = Vec::new();
    for (old, new, words) in each {
        match read(with(document, old, new).as_bytes(), None) {
            Err(error) if error.to_string().contains(words) => {}
            Err(error) => missed.push(format!("{new}: {error}")),
            Ok(_) => missed.push(format!("{new} was read")),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
