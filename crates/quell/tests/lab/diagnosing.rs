//! The slow networks of docs/diagnosing.md: each line that is told there finds what is told there.

use super::support::{TestFolder, path};

/// What the page says of labs: a line that starts one, and the names of the checks that its output has in brackets.
fn labs() -> Vec<(Vec<String>, Vec<&'static str>)> {
    let page = include_str!("../../../../docs/diagnosing.md");
    let section = page.split("\n## Five slow networks\n").nth(1).expect("the page has its labs");
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut labs: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for line in section.lines() {
        if let Some(arguments) = line.strip_prefix("    quell ") {
            labs.push((shlex::split(arguments).expect("no quote is open"), Vec::new()));
        } else if let (Some((_, found)), Some(name)) = (labs.last_mut(), in_brackets(line)) {
            found.push(name);
        }
    }
    labs
}

fn in_brackets(line: &'static str) -> Option<&'static str> {
    line.starts_with("    ")
        .then_some(line)?
        .strip_suffix(']')?
        .rsplit_once('[')
        .map(|(_, name)| name)
}

#[test]
fn a_neighbours_flood_shows_by_what_it_does_to_an_own_transfer() {
    let flood = "a: quell flow {server} --udp -b 2.6Mbit -t 30";
    let serve = "server: quell serve --bind 0.0.0.0";
    let lab = ["lab", "exec", "home-link", "b", "--with", serve, "--with", flood, "--after", "2s"];
    let doctor = ["--", "quell", "doctor", "--during", "flow:{server}"];
    let output =
        TestFolder::new().command(&[&lab[..], &doctor].concat()).env("PATH", path()).output();
    let output = output.expect("quell can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let cause = ["[fast-retransmit]", "[retransmission-timeout]"];
    assert!(cause.iter().any(|cause| said.contains(cause)), "{said}");
}

#[test]
fn the_cause_of_each_slow_network_of_the_page_is_found() {
    let labs = labs();
    assert_eq!(labs.len(), 5);
    for (arguments, names) in labs {
        assert!(!names.is_empty(), "{arguments:?} has an output");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = TestFolder::new().command(&arguments).env("PATH", path()).output();
        let output = output.expect("quell can be started");
        let said = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}{error}");
        for name in names {
            assert!(said.contains(&format!("[{name}]")), "{arguments:?}: no {name}: {said}{error}");
        }
    }
}
