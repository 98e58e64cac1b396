//! The rows of `quell tune` in the table of commands.

use crate::command::{Command, Fails, Group, Prints, calls};

/// `quell tune plan`.
pub const PLAN: Command = Command {
    name: "tune plan",
    about: "Show settings for a role, with reasons; touches nothing",
    group: Group::Act,
    prints: Prints::Report,
    examples: "\
quell tune plan --role transfer --rate 10Gbit --rtt 100ms
quell tune plan --role measure --rate 1Gbit --rtt-to far.example.org
quell tune plan --role latency --to 192.0.2.0/24 --reply 30kB
quell tune plan --role transfer --rate 1Gbit --rtt 100ms --prove lab",
    notes: "Values are computed, never below the running kernel's defaults. --prove lab measures a transfer in the lab over a path of \
            that rate and time, with the settings as they are and as planned.",
    fails: Fails::When("--prove shows no gain"),
    call: calls!(super::PlanArgs, super::plan),
};

/// `quell tune apply`.
pub const APPLY: Command = Command {
    name: "tune apply",
    about: "Set them, now and for the next boot, in one piece",
    group: Group::Act,
    prints: Prints::Report,
    examples: "\
quell tune apply --role transfer --rate 10Gbit --rtt 100ms
quell tune apply --role latency --confirm-within 5min
quell tune apply --role measure --rate 1Gbit --rtt 40ms --for-now
quell tune apply --role transfer --rate 1Gbit --rtt 100ms --prove 192.0.2.7",
    notes: "What was there is kept in /var/lib/quell; quell tune revert brings it back, after a reboot too. With --prove HOST it is \
            set and taken back in turn, a `quell serve` there measures, and it stays only if it helped.",
    fails: Fails::When("--prove shows no gain, or somebody is changing the same"),
    call: calls!(super::ApplyArgs, super::apply),
};

/// `quell tune confirm`.
pub const CONFIRM: Command = Command {
    name: "tune confirm",
    about: "Keep settings that wait for it, also for the next boot",
    group: Group::Act,
    prints: Prints::Report,
    examples: "quell tune confirm",
    notes: "",
    fails: Fails::When("nothing waits"),
    call: calls!(super::StatusArgs, super::confirm),
};

/// `quell tune status`.
pub const STATUS: Command = Command {
    name: "tune status",
    about: "Tell what is set, and what somebody has changed since",
    group: Group::Act,
    prints: Prints::Report,
    examples: "quell tune status\nquell tune status --json | jq .settings",
    notes: "",
    fails: Fails::When("something is no longer as it was set, or is unfinished"),
    call: calls!(super::StatusArgs, super::status),
};

/// `quell tune revert`.
pub const REVERT: Command = Command {
    name: "tune revert",
    about: "Bring back what was there before, after a reboot too",
    group: Group::Act,
    prints: Prints::Report,
    examples: "quell tune revert\nquell tune revert --keep-changed",
    notes: "",
    fails: Fails::When("nothing is set, or somebody has changed it since"),
    call: calls!(super::RevertArgs, super::revert),
};

/// `quell tune explain`.
pub const EXPLAIN: Command = Command {
    name: "tune explain",
    about: "Say why values that others publish are not taken",
    group: Group::Act,
    prints: Prints::Report,
    examples: "\
quell tune explain handbook
quell tune explain others
quell tune explain net.ipv4.tcp_rmem",
    notes: "",
    fails: Fails::Never,
    call: calls!(super::ExplainArgs, super::explain),
};

/// `quell tune recover`.
pub const RECOVER: Command = Command {
    name: "tune recover",
    about: "Bring back what was there before an unfinished change",
    group: Group::Act,
    prints: Prints::Report,
    examples: "quell tune recover",
    notes: "Needed only where a change was killed together with its watchdog.",
    fails: Fails::When("somebody is changing the same"),
    call: calls!(super::StatusArgs, super::recover),
};
