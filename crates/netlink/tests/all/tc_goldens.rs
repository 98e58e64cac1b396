//! What we send is what the real `tc` sends, byte for byte, and the commands that we show mean the same.
//!
//! `goldens/cases.toml` holds trees. `goldens/record.sh` had our commands for them carried out by tc, and recorded what it
//! sent: `goldens/recorded.txt`. Here the same trees are encoded by us.

use std::collections::BTreeMap;

use quell_netlink::core::flags;
use quell_netlink::tc;
use quell_tc::Tree;

const CASES: &str = include_str!("../goldens/cases.toml");
const RECORDED: &str = include_str!("../goldens/recorded.txt");

/// name/step, the command that was run, and what tc sent.
fn recorded() -> Vec<(String, String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut command = "";
    for line in RECORDED.lines() {
        match line.strip_prefix("# ") {
            Some(text) => command = text,
            None => {
                let (name, hex) = line.split_once(' ').expect("lines are: name, blank, hex");
                let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
                let bytes = (0..hex.len()).step_by(2).map(byte).collect();
                found.push((name.to_owned(), command.to_owned(), bytes));
            }
        }
    }
    found
}

fn ours() -> BTreeMap<String, (String, Vec<u8>)> {
    let cases: BTreeMap<String, Tree> = toml::from_str(CASES).unwrap();
    let names = tc::fixed_names(&[(1, "lo")]);
    let mut found = BTreeMap::new();
    for (name, tree) in &cases {
        let plan = tree.plan().unwrap_or_else(|error| panic!("{name}: {error}"));
        let commands = quell_tc::commands(&plan, "lo");
        let messages = tc::messages(&plan, 1, &names).unwrap();
        for (index, (command, message)) in commands.into_iter().zip(&messages).enumerate() {
            let mut bytes = message.to_bytes(0);
            // The socket adds the flag that asks for an answer; tc always has it.
            let flags = message.flags() | flags::ACK;
            bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
            found.insert(format!("{name}/{index}"), (command, bytes));
        }
    }
    found
}

/// The message without its sequence number and port.
fn masked(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[8..16].fill(0);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    let words = bytes.chunks(4).map(|word| word.iter().map(|b| format!("{b:02x}")).collect());
    words.collect::<Vec<String>>().join(" ")
}

#[test]
fn every_message_is_the_one_that_tc_sends() {
    let mut ours = ours();
    let mut wrong = Vec::new();
    for (name, command, theirs) in recorded() {
        let Some((_, bytes)) = ours.remove(&name) else {
            wrong.push(format!("{name} was recorded, but is no case any more"));
            continue;
        };
        let (mine, theirs) = (masked(&bytes), masked(&theirs));
        if mine != theirs {
            // Rate tables make messages of two kilobytes: show where they part, not all.
            let agree = mine.iter().zip(&theirs).position(|(a, b)| a != b);
            let from = agree.unwrap_or(mine.len().min(theirs.len())).saturating_sub(40) & !3;
            let part = |bytes: &[u8]| hex(&bytes[from..bytes.len().min(from + 120)]);
            let lengths = format!("{} and {} bytes", theirs.len(), mine.len());
            wrong.push(format!(
                "{name}: {command}\n from byte {from} of {lengths}\n  tc: {}\n  we: {}",
                part(&theirs),
                part(&mine)
            ));
        }
    }
    wrong.extend(ours.into_keys().map(|name| format!("{name} is not recorded: run record.sh")));
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_commands_shown_are_the_commands_recorded() {
    let ours = ours();
    for (name, command, _) in recorded() {
        assert_eq!(ours.get(&name).map(|(mine, _)| mine.as_str()), Some(command.as_str()));
    }
}

#[test]
fn every_kind_of_queue_class_and_filter_has_a_golden() {
    let commands: Vec<String> = recorded().into_iter().map(|(_, command, _)| command).collect();
    let has = |word: &str| commands.iter().any(|command| command.contains(word));
    // mq needs a device with several queues to mean anything; it has no options to get wrong.
    let qdiscs = quell_tc::Qdisc::KINDS.iter().filter(|kind| **kind != "mq");
    let missing: Vec<String> = qdiscs
        .map(|kind| format!("tc qdisc replace dev lo root handle 1: {kind}"))
        .filter(|words| !has(words))
        .chain(
            // Of the classifier there is no command: its program is loaded by Quell.
            quell_tc::FilterKind::KINDS
                .iter()
                .filter(|kind| **kind != "classify")
                .map(|kind| format!(" {kind}"))
                .filter(|w| !has(w)),
        )
        .chain(
            ["htb rate", "hfsc ls", "drr quantum"]
                .map(str::to_owned)
                .into_iter()
                .filter(|w| !has(w)),
        )
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}
