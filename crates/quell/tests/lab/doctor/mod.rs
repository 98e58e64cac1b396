//! `quell doctor` against faults that were made: it finds each, and nothing else; and against networks of all shapes in which nothing is wrong.
//!
//! The faults happen in one guest, the others in a second, each in namespaces of its own, whose counters begin at zero:
//!
//! ```text
//!   this test ── quell lab exec ──► guest: this program again, `inside` ── for each story: two namespaces and a cable
//!                                                                            a0 10.0.0.1 ══════ 10.0.0.2 b0
//! ```

mod connections;
mod counted;
mod drops;
mod firewall;
mod healthy;
mod net;
mod peer;
mod settings;
mod shapes;
mod shared;
mod watching;

use super::support::TestFolder;
use net::Net;
use std::collections::BTreeSet;

/// A fault and what the doctor has to say about it, or a network in which nothing is wrong.
struct Story {
    name: &'static str,
    tell: fn(&Net),
}

/// Faults, in this order: those at the end leave traces in counters that all namespaces share.
const FAULTS: [&[Story]; 4] =
    [settings::STORIES, connections::STORIES, counted::STORIES, shared::STORIES];
/// Where nothing is wrong; and what is told while the doctor keeps looking. In a guest of their own: it is young, so that little counts
/// as often, and no fault was there before.
const WELL: [&[Story]; 4] = [healthy::STORIES, watching::STORIES, peer::STORIES, drops::STORIES];

#[test]
fn every_fault_is_found_and_nothing_else() {
    let seen = told("doctor::inside_with_faults", &FAULTS);
    let faults = faults(&seen);
    table("faults of a host and its connections", &faults);
    said_in_the_page(faults.len(), "faults of a host and its connections");
}

#[test]
fn nothing_is_found_where_nothing_is_wrong_and_a_watch_tells_what_changes() {
    let seen = told("doctor::inside_and_well", &WELL);
    let (ends, others): (Vec<_>, Vec<_>) =
        seen.iter().cloned().partition(|(story, _)| story.starts_with("both ends: "));
    let faults = faults(&ends);
    table("faults of a path that both ends look at", &faults);
    said_in_the_page(faults.len(), "of a path that both ends look at");
    let well: Vec<_> =
        others.into_iter().filter(|(story, _)| story.starts_with("well: ")).collect();
    table("networks in which nothing is wrong", &well);
    assert!(well.iter().all(|(_, found)| found.is_empty()), "{well:#?}");
    said_in_the_page(well.len(), "networks in which nothing is wrong");
}

/// A story's name, and the names of the checks that found something in it.
type Seen = (&'static str, BTreeSet<String>);

/// Those in which something was found.
fn faults(seen: &[Seen]) -> Vec<Seen> {
    seen.iter().filter(|(_, found)| !found.is_empty()).cloned().collect()
}

/// Prints what was found in each story, and how much that is.
fn table(title: &str, seen: &[Seen]) {
    for (story, found) in seen {
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        println!(
            "{story:<64}  {}",
            if found.is_empty() { "nothing".into() } else { found.join(", ") }
        );
    }
    let checks: BTreeSet<&String> = seen.iter().flat_map(|(_, found)| found).collect();
    println!("{} {title}, found by {} checks\n", seen.len(), checks.len());
}

/// The page says the same figure, before these words. Of a single story nothing is counted.
fn said_in_the_page(count: usize, words: &str) {
    if std::env::var_os("QUELL_STORY").is_some() {
        return;
    }
    let page = include_str!("../../../../../docs/diagnosing.md");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = format!("{count} {words}");
    assert!(page.contains(&said), "docs/diagnosing.md does not say \"{said}\"");
}

/// Starts a guest in which these stories are told, and reads there that each came out as told; gives what was found in each.
fn told(inside: &str, stories: &[&[Story]]) -> Vec<Seen> {
    let own = std::env::current_exe().expect("this program has a file");
    let own = own.to_string_lossy();
    let inside = ["--exact", inside, "--ignored", "--nocapture", "--test-threads=1"];
    let only = std::env::var("QUELL_STORY").ok();
    let pass_on: &[&str] = if only.is_some() { &["--env", "QUELL_STORY"] } else { &[] };
    let lab = [&["lab", "exec", "home-link", "b"], pass_on, &["--", own.as_ref()], &inside];
    let output = TestFolder::new().quell(&lab.concat());
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    for story in stories.iter().copied().flatten() {
        let line = format!("story {}: as told\n", story.name);
        let left_out = only.as_ref().is_some_and(|only| only != story.name);
        assert!(
            left_out || said.contains(&line),
            "{} came out otherwise:\n{said}{error}",
            story.name
        );
    }
    assert!(output.status.success(), "{said}{error}");
    let mut seen = Vec::new();
    let mut found = BTreeSet::new();
    for line in said.lines() {
        // What the harness prints before it has no end of its own.
        if let Some((_, ids)) = line.split_once(net::LOOKED) {
            found.extend(ids.split(", ").filter(|id| !id.is_empty()).map(str::to_owned));
        }
        let story = stories.iter().copied().flatten();
        let story = story.map(|story| story.name);
        if let Some(name) =
            story.into_iter().find(|n| line.ends_with(&format!("story {n}: as told")))
        {
            seen.push((name, std::mem::take(&mut found)));
        }
    }
    seen
}

#[test]
#[ignore = "happens in a guest, where `every_fault_is_found_and_nothing_else` starts it"]
fn inside_with_faults() {
    tell(&FAULTS);
}

#[test]
#[ignore = "happens in a guest, where the test of what is well starts it"]
fn inside_and_well() {
    tell(&WELL);
}

/// What happens in the guest. All stories are told, also where one comes out otherwise; QUELL_STORY names one to tell alone.
fn tell(stories: &[&[Story]]) {
    let only = std::env::var("QUELL_STORY").ok();
    let mut wrong = Vec::new();
    for story in stories.iter().copied().flatten() {
        if only.as_ref().is_some_and(|only| only != story.name) {
            continue;
        }
        let told = std::panic::catch_unwind(|| (story.tell)(&Net::new()));
        match told {
            Ok(()) => println!("story {}: as told", story.name),
            Err(_) => wrong.push(story.name),
        }
    }
    assert!(wrong.is_empty(), "came out otherwise: {}", wrong.join(", "));
}
