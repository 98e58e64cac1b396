//! Any bytes as a capture: no panic, no line that is too long, no memory that the bytes do not justify.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_trace::{TraceLimits, TraceOptions, analyse, connection_text, overview_text};

/// As wide as a pipe's lines.
const WIDEST: usize = 100;

fuzz_target!(|bytes: &[u8]| {
    let limits = TraceLimits { live: 8, listed: 8, moments: 16, all_moments: 64 };
    let Ok(outcome) = analyse(bytes, &TraceOptions { only: None, limits }) else { return };
    let report = &outcome.report;
    assert!(report.packets * 12 <= bytes.len() as u64);
    let fits = |text: &str| text.lines().all(|line| line.chars().count() <= WIDEST);
    assert!(fits(&overview_text(report, WIDEST)));
    assert!(report.connections.iter().all(|c| fits(&connection_text(c, WIDEST))));
});
