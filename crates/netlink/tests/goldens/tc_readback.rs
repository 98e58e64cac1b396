//! Puts every tree of `tests/goldens/cases.toml` on an interface, reads it back, and prints one line each.
//!
//! ```text
//!   tc_readback DEVICE            needs CAP_NET_ADMIN over DEVICE's namespace; ends with 1 on any difference
//!   tc_readback --commands DEVICE prints name, tab, tc command for each step; touches nothing
//! ```
//!
//! What the running kernel was built without is reported as lacking, and counted apart: `--all` makes that a failure.

use std::collections::BTreeMap;
use std::process::ExitCode;

use quell_netlink::core::{Protocol, Socket};
use quell_netlink::tc::{self, ApplyError};
use quell_tc::{Places, Thing, Tree, changes, seen};

const CASES: &str = include_str!("cases.toml");

/// What takes every tree's place in between.
const OTHER: &str = r#"
    clsact = {}
    [queue]
    kind = "htb"
    handle = "7777:"
    class = [ { id = "7777:1", rate = "1Mbit" } ]
"#;

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut option = |name: &str| {
        let before = words.len();
        words.retain(|word| word != name);
        words.len() != before
    };
    let (commands, all) = (option("--commands"), option("--all"));
    let [device] = words.as_slice() else {
        eprintln!("usage: tc_readback [--commands] [--all] DEVICE");
        return ExitCode::from(2);
    };
    let cases: BTreeMap<String, Tree> = match toml::from_str(CASES) {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("cases.toml: {error}");
            return ExitCode::from(2);
        }
    };
    let done = if commands { print(&cases, device) } else { read_back(&cases, device, all) };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

type Outcome = Result<bool, Box<dyn std::error::Error>>;

fn print(cases: &BTreeMap<String, Tree>, device: &str) -> Outcome {
    for (name, tree) in cases {
        let plan = tree.plan().map_err(|error| format!("{name}: {error}"))?;
        for (index, command) in quell_tc::commands(&plan, device).iter().enumerate() {
            println!("{name}/{index}\t{command}");
        }
    }
    Ok(true)
}

fn read_back(cases: &BTreeMap<String, Tree>, device: &str, all: bool) -> Outcome {
    let index = nix::net::if_::if_nametoindex(device)
        .map_err(|errno| format!("there is no device {device}: {errno}"))?;
    let mut socket = Socket::open(Protocol::Route)?;
    let (mut same, mut lacking, mut different) = (0, 0, 0);
    for (name, tree) in cases {
        tc::delete_root(&mut socket, index)?;
        tc::delete_ingress(&mut socket, index)?;
        match one(&mut socket, index, tree) {
            Ok(differences) if differences.is_empty() => {
                same += 1;
                println!("ok       {name}");
            }
            Ok(differences) => {
                different += 1;
                println!("DIFFERS  {name}: {}", differences.join("; "));
            }
            Err(error) if lacks(&error) => {
                lacking += 1;
                println!("lacking  {name}: {error}");
            }
            Err(error) => {
                different += 1;
                println!("FAILED   {name}: {error}");
            }
        }
    }
    tc::delete_root(&mut socket, index)?;
    tc::delete_ingress(&mut socket, index)?;
    let ways = ways_back(cases, &mut socket, index)?;
    different += ways;
    println!("{same} as wanted, {different} not, {lacking} lacking in this kernel");
    Ok(different == 0 && same > 0 && !(all && lacking > 0))
}

/// Applied, read back; then changed in place to the same, and read back again.
fn one(socket: &mut Socket, index: u32, tree: &Tree) -> Result<Vec<String>, ApplyError> {
    tc::apply(socket, index, tree)?;
    let plan = tree.plan()?;
    let left = |socket: &mut Socket| {
        let there = tc::snapshot(socket, index).map_err(ApplyError::Left)?;
        let left = changes(&plan.things(), Places::of(&plan), &there);
        Ok::<Vec<String>, ApplyError>(left.iter().map(ToString::to_string).collect())
    };
    let differences = left(socket)?;
    if differences.is_empty() {
        tc::update(socket, index, None, tree)?;
        return left(socket);
    }
    Ok(differences)
}

/// Each tree taken off by another, and made again from what the kernel showed of it, byte for byte. How many were not as before then,
/// without the kernel having shown that it hides something.
fn ways_back(
    cases: &BTreeMap<String, Tree>,
    socket: &mut Socket,
    index: u32,
) -> Result<usize, Box<dyn std::error::Error>> {
    let other: Tree = toml::from_str(OTHER)?;
    let other = other.plan()?.things();
    let mut wrong = 0;
    for (name, tree) in cases {
        let wanted = tree.plan()?.things();
        tc::delete_root(socket, index)?;
        tc::delete_ingress(socket, index)?;
        if let Err(error) = tc::lead_to(socket, index, &wanted, Places::ALL) {
            if !error.proves_kernel_lacks_feature() {
                wrong += 1;
                println!("FAILED   {name}, step by step: {error}");
            }
            continue;
        }
        let before = tc::snapshot(socket, index)?;
        let again = changes(&wanted, Places::ALL, &before);
        if !again.is_empty() {
            wrong += 1;
            println!("RESTLESS {name}: {again:?}");
        }
        tc::lead_to(socket, index, &other, Places::ALL)?;
        let things = seen(&before);
        let hidden = things.iter().find_map(|thing| match thing {
            Thing::Seen(seen) => seen.raw.hidden.clone(),
            Thing::Step(_) => None,
        });
        let back = tc::lead_to(socket, index, &things, Places::ALL);
        let now = tc::snapshot(socket, index)?;
        let same = seen(&now) == things && changes(&wanted, Places::ALL, &now).is_empty();
        match (back, hidden) {
            (Ok(_), None) if same => println!("back     {name}"),
            (Ok(_), None) => {
                wrong += 1;
                println!("OTHER    {name}: {things:?}, then {:?}", seen(&now));
            }
            (_, Some(hidden)) => println!("hides    {name}: {hidden}"),
            (Err(error), None) => println!("one way  {name}: {error}"),
        }
    }
    tc::delete_root(socket, index)?;
    tc::delete_ingress(socket, index)?;
    Ok(wrong)
}

fn lacks(error: &ApplyError) -> bool {
    match error {
        ApplyError::Kernel(error) | ApplyError::Left(error) => error.proves_kernel_lacks_feature(),
        ApplyError::Tree(_) => false,
    }
}
