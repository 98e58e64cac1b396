//! What README says of the demo, and its picture, is what the demo measures.

use super::support::{Results, TestFolder};
use std::path::Path;

const PICTURE: [&str; 12] = [
    "plot",
    "--out",
    "runs",
    "--figure",
    "rtt-scatter",
    "--scenarios",
    "flood,flood-shaped",
    "--streams",
    "udp,ping",
    "--size",
    "760x300",
    "--title=A call (udp) and a ping while another host floods the line",
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).expect("it is part of the tree")
}

/// The picture without its small print, which names the run by its time.
fn lasting(svg: &str) -> Vec<&str> {
    svg.lines().filter(|line| !line.contains("-home-link")).collect()
}

#[test]
fn the_figures_and_the_picture_of_the_readme_are_those_of_the_demo() {
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
    let drawn =
        folder.command(&PICTURE).args(["-o", "demo.svg"]).output().expect("quell can be started");
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
    let drawn = std::fs::read_to_string(folder.path().join("demo.svg")).expect("it was drawn");
    assert!(lasting(&drawn).len() > 3, "the picture has lines");
    assert!(
        lasting(&drawn) == lasting(&text("docs/demo.svg")),
        "docs/demo.svg has to be drawn anew"
    );
}
