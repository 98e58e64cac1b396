//! Values that can't be, and values that are missing: unknown, and named with their place. None is a zero, or a loss, and none takes another with it.

mod flent;
mod iperf3;
mod irtt;

use quell_foreign::{Imported, read};

#[track_caller]
fn imported(text: &str) -> Imported {
    read(text.as_bytes(), None).expect("it is read").remove(0)
}

/// The document with one thing in it otherwise.
#[track_caller]
fn with(document: &str, old: &str, new: &str) -> String {
    assert_eq!(document.matches(old).count(), 1, "{old}");
    document.replace(old, new)
}

/// The document is read; with one thing in it otherwise, each on its own, it is read too, and says in these words what is unknown.
#[track_caller]
fn unknown(document: &str, each: &[(&str, &str, &str)]) {
    let sound = imported(document).left_out.join("\n");
    assert!(!sound.contains("unknown"), "{sound}");
    let mut missed = Vec::new();
    for (old, new, words) in each {
        match read(with(document, old, new).as_bytes(), None) {
            Ok(read) if read[0].left_out.join("\n").contains(words) => {}
            Ok(read) => missed.push(format!("{new}: {:?}", read[0].left_out)),
            Err(error) => missed.push(format!("{new}: {error}")),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
