//! Nothing sleeps and looks again: the calls with which a program would, and the places where nothing else is possible.

use crate::tree::File;

/// Calls that end when a time is over, whatever has happened.
const CALLS: [&str; 4] = ["thread::sleep(", "sleep_until(", "recv_timeout(", "wait_timeout("];

/// Where the rule is held by this test.
const WHERE: [&str; 2] = ["crates/lab/src/", "crates/experiment/src/"];

/// Files that may, how often, and why; ARCHITECTURE.md tells it.
const MAY: [(&str, usize, &str); 5] = [
    ("crates/experiment/src/run/inside.rs", 1, "a guest's clock is wrong in its first ticks"),
    ("crates/experiment/src/run/mod.rs", 1, "what a person watches is drawn ten times a second"),
    ("crates/lab/src/build/mod.rs", 1, "what the kernel says by itself once a link carries"),
    ("crates/lab/src/build/tunnels.rs", 1, "whether a tunnel has shaken hands"),
    (
        "crates/lab/src/exec.rs",
        2,
        "the head start of companions; an end to patience for last words",
    ),
];

/// Files in which something waits for a time instead of for the thing itself. Tests at a file's end are left out.
pub fn problems(files: &[File]) -> Vec<String> {
    let sources = files.iter().filter(|f| WHERE.iter().any(|w| f.path.starts_with(w)));
    let found = sources.filter_map(|file| {
        let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        let count: usize = CALLS.iter().map(|call| code.matches(call).count()).sum();
        let may = MAY.iter().find(|(path, ..)| *path == file.path).map_or(0, |(_, most, _)| *most);
        (count > may).then(|| format!("{}: {count} waits for a time, where {may} may", file.path))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_sleeps_is_found_and_a_test_that_does_is_not() {
        let sleeps = File::new("crates/lab/src/a.rs", "loop { std::thread::sleep(LOOK); }");
        let tests = File::new("crates/lab/src/b.rs", "#[cfg(test)]\nstd::thread::sleep(LOOK);");
        let wanted = ["crates/lab/src/a.rs: 1 waits for a time, where 0 may"];
        assert_eq!(problems(&[sleeps, tests]), wanted);
    }
}
