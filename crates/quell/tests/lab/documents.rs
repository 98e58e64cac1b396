//! What README and the documents show is what the program says and draws: README's figures, the pictures, and what is shown below a command.
//!
//! `QUELL_DRAW=1` draws the pictures anew, and writes what is shown whole, without a mark of omission (…).

use super::support::{Results, TestFolder, path};
use std::path::Path;

/// Each picture of `docs/pictures`, the experiment whose run it shows, and how it is drawn.
const PICTURES: [(&str, &str, &str); 13] = [
    (
        "home",
        "home-link",
        "--figure rtt-scatter --scenarios flood,flood-shaped --streams udp,ping --size 760x300 '--title=A call (udp) and a ping while another host floods the line'",
    ),
    (
        "engineer",
        "home-link",
        "--figure rtt-cdf --scenarios bulk,bulk-shaped --streams ping --size 760x300 '--title=A ping beside uploads: as it is, and shaped'",
    ),
    (
        "admin",
        "window-bdp",
        "--figure totals --scenarios w32,w128,w1024 --size 760x360 '--title=One transfer over 100 ms, with windows of 32, 128 and 1024 kB'",
    ),
    (
        "scientist",
        "home-link",
        "--figure one-way --scenarios bulk,bulk-shaped --streams udp --size 760x440 '--title=A call beside uploads: its delay up and down'",
    ),
    (
        "developer",
        "small-messages",
        "--figure rtt-averages --scenarios default --size 760x320 '--title=Calls of two small writes, and what cures them'",
    ),
    ("figure-before-after", "home-link", "--figure before-after --scenarios bulk,bulk-shaped"),
    (
        "figure-before-after-cdf",
        "home-link",
        "--figure before-after-cdf --scenarios bulk,bulk-shaped --size 520x300",
    ),
    ("figure-totals", "home-link", "--figure totals --scenarios bulk,bulk-shaped --size 520x360"),
    (
        "figure-rtt-time",
        "home-link",
        "--figure rtt-time --scenarios bulk,bulk-shaped --size 520x260",
    ),
    ("figure-rtt-box", "home-link", "--figure rtt-box --size 520x300"),
    (
        "figure-goodput-time",
        "home-link",
        "--figure goodput-time --scenarios bulk,bulk-shaped --size 520x300",
    ),
    (
        "figure-queue-wait",
        "home-link",
        "--figure queue-wait --scenarios bulk,bulk-shaped --size 520x300",
    ),
    (
        "figure-jitter-gap",
        "home-link",
        "--figure jitter-gap --scenarios bulk,bulk-shaped --size 520x300",
    ),
];

/// Documents of which each command with its output is tried.
const SHOWN: [&str; 8] = [
    "start/home",
    "start/engineer",
    "start/admin",
    "start/developer",
    "flow",
    "path",
    "ping",
    "rr",
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).expect("it is part of the tree")
}

/// Whether documents are to be mended instead of judged.
fn is_drawing() -> bool {
    std::env::var_os("QUELL_DRAW").is_some()
}

fn words(line: &str) -> Vec<String> {
    shlex::split(line).expect("no quote is open")
}

#[test]
fn the_figures_of_the_readme_are_those_of_the_demo() {
    let folder = TestFolder::new();
    let (results, _): (Results, _) = folder.run_to(0, &text("experiments/home-link.toml"), &[]);
    let loss = |scenario| 100.0 * results.number(scenario, "udp", "loss_ratio");
    let ping = |scenario| results.number(scenario, "ping", "rtt_ms.p50");
    assert_eq!(loss("flood-shaped"), 0.0);
    let said = format!(
        "{:.1} % of the call's packets are lost, and a ping takes {:.0} ms. With the router's queue none is lost, and a ping takes {:.0} ms.",
        loss("flood"),
        ping("flood"),
        ping("flood-shaped"),
    );
    let readme = text("README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(readme.contains(&said), "README.md has to say: {said}");
}

#[test]
fn the_pictures_of_the_documents_are_those_of_runs() {
    let folder = TestFolder::new();
    for experiment in ["home-link", "window-bdp", "small-messages"] {
        assert!(folder.quell(&["run", experiment]).status.success(), "{experiment}");
    }
    for (name, experiment, options) in PICTURES {
        let options = words(options);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let plot = [&["plot", experiment, "-o", "drawn.svg"][..], &options].concat();
        let output = folder.command(&plot).output().expect("quell can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let drawn = std::fs::read_to_string(folder.path().join("drawn.svg")).expect("it was drawn");
        let kept = format!("docs/pictures/{name}.svg");
        if is_drawing() {
            std::fs::write(root().join(&kept), &drawn).expect("it can be written");
        }
        // The small print names the run by its time.
        let lasting = |svg: &str| -> Vec<String> {
            svg.lines()
                .filter(|l| !l.contains(&format!("-{experiment}")))
                .map(str::to_owned)
                .collect()
        };
        assert!(lasting(&drawn).len() > 3, "{name} has lines");
        assert!(lasting(&drawn) == lasting(&text(&kept)), "{kept} has to be drawn anew");
    }
}

#[test]
fn what_documents_show_below_a_command_is_what_it_prints() {
    for document in SHOWN {
        let page = text(&format!("docs/{document}.md"));
        let (folder, mut mended, mut commands) = (TestFolder::new(), page.clone(), 0);
        for block in page.split("\n```\n$ quell ").skip(1) {
            let (block, _) = block.split_once("\n```").expect("a block ends");
            for shown in block.split("\n$ quell ") {
                let (command, shown) = shown.split_once('\n').expect("it says something");
                let arguments = words(command);
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let output = folder.command(&arguments).env("PATH", path()).output();
                let output = output.expect("quell can be started");
                let said = String::from_utf8_lossy(&output.stdout);
                let error = String::from_utf8_lossy(&output.stderr);
                if is_drawing() && !shown.contains('…') {
                    mended = mended.replace(shown, said.trim_end());
                    continue;
                }
                // What is shown between two marks of omission is printed line by line, and in this order.
                let mut left = &*said;
                for part in shown.split("\n…").map(|part| part.trim_matches(['\n', '…'])) {
                    let Some(at) = left.find(part) else {
                        panic!(
                            "docs/{document}.md, quell {command}\nshows: {part}\nprinted: {said}{error}"
                        );
                    };
                    left = &left[at + part.len()..];
                }
                commands += 1;
            }
        }
        assert!(commands > 0 || is_drawing(), "docs/{document}.md shows a command");
        if mended != page {
            std::fs::write(root().join(format!("docs/{document}.md")), mended).expect("written");
        }
    }
}
