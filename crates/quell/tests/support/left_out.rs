//! Tests that leave themselves out here say so by this alone: Cargo hides what a passing test prints.
//!
//! ```text
//!   a test ──► why it can't be run here ──► the file that QUELL_TESTS_LEFT_OUT names ──► `make test` counts and tells (tools/left-out)
//! ```
//!
//! Tests of other crates have this file by its path.
#![allow(dead_code)]

use std::fmt::Display;
use std::io::Write;

/// A program, or a package, is missing that `make test` installs.
pub fn for_want_of(what: impl Display) {
    tell("program", &what);
}

/// The kernel of this machine, or this user's rights, don't let it; the kernel's own answer says so.
pub fn kernel_lacks(what: impl Display) {
    tell("kernel", &what);
}

fn tell(kind: &str, why: &dyn Display) {
    let why = why.to_string();
    eprintln!("left out: {}", why.trim_end());
    let Some(file) = std::env::var_os("QUELL_TESTS_LEFT_OUT") else { return };
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(std::path::Path::file_stem).unwrap_or_default();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a part of one").to_owned();
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = format!("{kind}\t{}\t{test}\t{why}\n", program.to_string_lossy());
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(&file);
    // In one piece: others write to it, too.
    let told = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    // A test that became another user may not write there.
    if let Err(error) = told {
        eprintln!("{}: {error}", file.to_string_lossy());
    }
}
