//! Any text as outputs of `tc`: a hierarchy that can be drawn or a refusal, and no word in it that steers a terminal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_treeview::{Look, View, dot, text};

fuzz_target!(|bytes: &[u8]| {
    let said = String::from_utf8_lossy(bytes);
    match quell_hierarchy::read(&said, None) {
        Ok(reading) => {
            let view = View { hierarchy: &reading.hierarchy, only: None, rates: None, all: bytes.len() % 2 == 0, details: true };
            let look = Look { width: 100, unicode: true, colour: false };
            for line in text(&view, &look) {
                assert!(!line.contains(char::is_control), "{line:?}");
            }
            dot(&view);
        }
        Err(error) => {
            let said = error.to_string();
            assert!(!said.is_empty() && !said.contains(char::is_control), "{said:?}");
        }
    }
});
