//! The confusion table: what each instrument says of worlds whose cause of waiting is known, since they are made so (worlds.rs).
//!
//! ```text
//!   seed ──► worlds ──► a guest each: every instrument in turn, --json ──► right, wrong, unknown, none ──► Markdown
//! ```
//!
//! `make confusion` prints the whole table, as docs/diagnosing.md has it. Variables: QUELL_CONFUSION_SEED, QUELL_CONFUSION_WORLDS (of each cause), QUELL_CONFUSION_ONLY (a
//! cause), QUELL_CONFUSION_KEEP (a folder for what each world said).

mod worlds;

use super::support::TestFolder;
use crate::left_out;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use worlds::{Instrument, MAKERS, Maker, World};

/// The seed of the table in docs/diagnosing.md.
const SEED: u64 = 26;
/// Worlds of each cause there; every third sends from the server to the client.
const WORLDS: usize = 12;

#[test]
fn of_a_few_worlds_no_instrument_names_a_cause_that_is_not_there() {
    if let Some(missing) = missing() {
        return left_out::for_want_of(missing);
    }
    let numbers: Vec<_> = MAKERS.iter().flat_map(|maker| [(maker, 0), (maker, 2)]).collect();
    let judged = judge(SEED, &numbers);
    println!("{}", table(&judged));
    let tally = Tally::of(judged.iter());
    assert_eq!(tally.wrong, 0, "{}", table(&judged));
    assert!(tally.right * 3 >= tally.visible * 2, "{}", table(&judged));
}

#[test]
#[ignore = "takes minutes: `make confusion`"]
fn the_whole_table() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let seed = number("QUELL_CONFUSION_SEED").unwrap_or(SEED);
    let worlds = number("QUELL_CONFUSION_WORLDS").map_or(WORLDS, |worlds| worlds as usize);
    let only = std::env::var("QUELL_CONFUSION_ONLY").ok();
    let makers = MAKERS.iter().filter(|maker| only.as_ref().is_none_or(|only| only == maker.cause));
    let numbers: Vec<_> =
        makers.flat_map(|maker| (0..worlds).map(move |number| (maker, number))).collect();
    let judged = judge(seed, &numbers);
    println!(
        "seed {seed}, {} worlds, {} verdicts\n\n{}",
        numbers.len(),
        judged.len(),
        table(&judged)
    );
}

/// A program that worlds need, if this machine has it not.
fn missing() -> Option<&'static str> {
    let runs = |program: &str, option: &str| Command::new(program).arg(option).output().is_ok();
    let tc = ["tc", "/usr/sbin/tc", "/sbin/tc"].iter().any(|tc| runs(tc, "-V"));
    match (tc, runs("tcpdump", "--version")) {
        (false, _) => Some("there is no tc on this machine (package iproute2)"),
        (_, false) => Some("there is no tcpdump on this machine (package tcpdump)"),
        _ => None,
    }
}

/// What an instrument said of a world.
struct Verdict {
    maker: &'static Maker,
    number: usize,
    instrument: Instrument,
    names: BTreeSet<String>,
}

/// How that compares with the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Judgement {
    Right,
    Unknown,
    /// Nothing was said, or only what the cause brings with it.
    Silent,
    Wrong,
}

impl Verdict {
    fn judgement(&self) -> Judgement {
        let true_too = |name: &String| self.maker.also.contains(&name.as_str());
        let mut others =
            self.names.iter().filter(|name| *name != self.maker.cause && !true_too(name));
        let healthy = self.maker.cause == "healthy" && self.names.is_empty();
        if others.clone().any(|name| name != "unknown") {
            Judgement::Wrong
        } else if healthy || self.names.contains(self.maker.cause) {
            Judgement::Right
        } else if others.next().is_some() {
            Judgement::Unknown
        } else {
            Judgement::Silent
        }
    }

    fn is_visible(&self) -> bool {
        self.maker.seen_by.contains(&self.instrument)
    }
}

#[derive(Default)]
struct Tally {
    /// Verdicts of instruments that can see the cause; of these are `right`, `unknown` and `silent`.
    visible: usize,
    right: usize,
    unknown: usize,
    silent: usize,
    /// Of all verdicts.
    wrong: usize,
    all: usize,
}

impl Tally {
    fn of<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Self {
        let mut tally = Tally::default();
        for verdict in verdicts {
            let visible = usize::from(verdict.is_visible());
            tally.all += 1;
            tally.visible += visible;
            match verdict.judgement() {
                Judgement::Right => tally.right += visible,
                Judgement::Unknown => tally.unknown += visible,
                Judgement::Silent => tally.silent += visible,
                Judgement::Wrong => tally.wrong += 1,
            }
        }
        tally
    }
}

/// Lets each world happen in a guest of its own, as many at a time as there are CPUs.
fn judge(seed: u64, numbers: &[(&'static Maker, usize)]) -> Vec<Verdict> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(maker, number)) = numbers.get(at) else { break };
                    let verdicts = happen(maker, seed, number);
                    done.lock().expect("nobody panics with it").insert(at, verdicts);
                }
            });
        }
    });
    done.into_inner().expect("nobody panics with it").into_values().flatten().collect()
}

fn happen(maker: &'static Maker, seed: u64, number: usize) -> Vec<Verdict> {
    let world = World::of(maker, seed, number);
    let instruments = world.instruments(maker);
    let dir = TestFolder::new();
    let file = dir.file("world.toml", &world.network());
    let file = file.to_string_lossy();
    let with = world.with();
    let with: Vec<&str> = with.iter().flat_map(|with| ["--with", with.as_str()]).collect();
    let script = world.script(&instruments);
    let lab = [&["lab", "exec", &*file, "a"][..], &with, &["--", "sh", "-c", &script]].concat();
    let output = dir.quell(&lab);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let name = format!("{}-{number}", maker.cause);
    if let Some(folder) = std::env::var_os("QUELL_CONFUSION_KEEP") {
        let kept = format!("{}\n{with:?}\n{script}\n== said\n{said}\n{error}", world.network());
        std::fs::write(std::path::Path::new(&folder).join(&name), kept).expect("it can be kept");
    }
    let verdict = |instrument: Instrument| {
        let mark = format!("== {}\n", instrument.name());
        let (_, json) = said.split_once(&mark).unwrap_or_else(|| panic!("{name}: {said}{error}"));
        let json = serde_json::Deserializer::from_str(json).into_iter::<Value>().next();
        let json = json.and_then(Result::ok).unwrap_or_else(|| panic!("{name}: {said}{error}"));
        Verdict { maker, number, instrument, names: names(instrument, &world, &json) }
    };
    instruments.iter().map(|instrument| verdict(*instrument)).collect()
}

/// The causes that an instrument names.
fn names(instrument: Instrument, world: &World, json: &Value) -> BTreeSet<String> {
    let ids = |findings: &Value| -> Vec<String> {
        let findings = findings.as_array().into_iter().flatten();
        findings
            .filter_map(|found| found["id"].as_str().or(found["kind"].as_str()))
            .map(str::to_owned)
            .collect()
    };
    let said = match instrument {
        Instrument::Flow => {
            let way = &json[if world.down { "down" } else { "up" }];
            vec![way["cause"].as_str().unwrap_or("unknown").to_owned()]
        }
        Instrument::Calls => {
            let row = &json["before"]["rows"][0];
            row["finding"]["id"].as_str().map(str::to_owned).into_iter().collect()
        }
        Instrument::Trace => {
            // The connection that carried most.
            let bytes = |connection: &Value| {
                ["client_to_server", "server_to_client"]
                    .map(|way| connection[way]["bytes"].as_u64().unwrap_or(0))
                    .iter()
                    .sum::<u64>()
            };
            let connections = json["connections"].as_array().into_iter().flatten();
            let most = connections.max_by_key(|connection| bytes(connection));
            most.and_then(|connection| ids(&connection["findings"]).into_iter().next())
                .into_iter()
                .collect()
        }
        Instrument::Doctor | Instrument::Path => ids(&json["findings"]),
    };
    said.into_iter().filter(|name| quell_cause::named(name).is_some()).collect()
}

/// Markdown: a row a cause, a column an instrument, `right of worlds` in each cell; below it what was wrong, with the number of its world.
fn table(verdicts: &[Verdict]) -> String {
    let percent =
        |part: usize, whole: usize| format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64);
    let row = |first: &str, cell: &dyn Fn(Instrument) -> String| {
        let cells: Vec<String> = Instrument::ALL.into_iter().map(cell).collect();
        format!("| {first} | {} |\n", cells.join(" | "))
    };
    let of = |instrument| verdicts.iter().filter(move |verdict| verdict.instrument == instrument);
    let tally = |instrument| Tally::of(of(instrument));
    let mut text = row("true cause", &|instrument| format!("`{}`", instrument.name()));
    text += &row("---", &|_| "---".into()).replace(' ', "");
    for maker in MAKERS {
        text += &row(maker.cause, &|instrument| {
            let of_cause = of(instrument).filter(|verdict| std::ptr::eq(verdict.maker, maker));
            let found: Vec<Judgement> = of_cause.map(Verdict::judgement).collect();
            let count = |judgement| found.iter().filter(|found| **found == judgement).count();
            if found.is_empty() || !maker.seen_by.contains(&instrument) {
                return "–".into();
            }
            let others = [(Judgement::Unknown, "unknown"), (Judgement::Silent, "silent")];
            let others = others.map(|(judgement, word)| (count(judgement), word));
            let others = others.iter().filter(|(count, _)| *count > 0);
            let others: String = others.map(|(count, word)| format!(", {count} {word}")).collect();
            format!("{} of {}{others}", count(Judgement::Right), found.len())
        });
    }
    text += &row("**wrong**", &|of| percent(tally(of).wrong, tally(of).all));
    text += &row("**unknown or silent**", &|of| {
        percent(tally(of).unknown + tally(of).silent, tally(of).visible)
    });
    text.push('\n');
    for verdict in verdicts.iter().filter(|verdict| verdict.judgement() == Judgement::Wrong) {
        let said: Vec<&str> = verdict.names.iter().map(String::as_str).collect();
        let (name, number) = (verdict.instrument.name(), verdict.number);
        let _ = writeln!(
            text,
            "- wrong: `quell {name}` said {} of {} (world {number})",
            said.join(" + "),
            verdict.maker.cause
        );
    }
    text
}
