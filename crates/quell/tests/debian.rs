//! A real Debian machine: its own kernel, systemd, reboots, interfaces that come and go, and type information for BPF; emulated
//! (`tools/debian`), since no namespace has these.
//!
//! It is started three times; what happened on each day is in a folder, a file for each command, and each story reads its own.
//! Where the machine can't be had (no QEMU, no way to make it) the stories are left out, which is said.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// What each day's commands begin with: `told NAME COMMAND...` keeps what a command says and its code; `until_so COMMAND...` waits for
/// what another process does, a minute at most.
const WORDS: &str = r#"
told() { name=$1; shift; "$@" >"$day/$name" 2>&1; echo "code $?" >>"$day/$name"; }
until_so() { timeout 60 sh -c 'until eval "$0"; do sleep 0.1; done' "$*"; }
"#;

/// A new machine: queues that stay, queues that nobody confirmed, values that stay.
const FIRST: &str = r#"
cp quell /usr/local/bin/quell
ip link set eth0 up
told healthy quell doctor
told found tc qdisc show dev eth0
told applied quell shape apply --dev eth0 --line 10/50 --confirm-within 60s
told confirmed quell shape confirm --dev eth0
told persists quell shape persist --dev eth0
told in_force tc qdisc show dev eth0
told tried quell shape apply --dev eth0 --line 1/5 --confirm-within 600s
told tried_queue tc qdisc show dev eth0

ip link add cable0 type veth peer name cable1
told cable_applied quell shape apply --dev cable0 --line 5/5 --confirm-within 60s
told cable_confirmed quell shape confirm --dev cable0
told cable_persists quell shape persist --dev cable0

sysctl -n net.ipv4.tcp_rmem net.ipv4.tcp_wmem >$day/values_found
told tuned quell tune apply --role transfer --rate 1Gbit --rtt 100ms
sysctl -n net.ipv4.tcp_rmem net.ipv4.tcp_wmem >$day/values_tuned
"#;

/// After a reboot: what was kept is there, comes with its cable, and goes when it is told to.
const SECOND: &str = r#"
ip link set eth0 up
until_so '[ "$(systemctl is-active quell-shape@eth0)" = active ]'
told status quell shape status
told in_force tc qdisc show dev eth0
sysctl -n net.ipv4.tcp_rmem net.ipv4.tcp_wmem >$day/values

told no_cable tc qdisc show dev cable0
for time in first second; do
    ip link add cable0 type veth peer name cable1
    ip link set cable0 up
    until_so '[ "$(systemctl is-active quell-shape@cable0)" = active ]'
    told cable_$time tc qdisc show dev cable0
    ip link del cable0
    until_so '[ "$(systemctl is-active quell-shape@cable0)" = inactive ]'
done

told off quell shape off --dev eth0
told after_off tc qdisc show dev eth0
told cable_off quell shape off --dev cable0
told reverted quell tune revert
sysctl -n net.ipv4.tcp_rmem net.ipv4.tcp_wmem >$day/values_reverted
told left find /etc/quell /etc/systemd/system /etc/sysctl.d /run/quell /var/lib/quell -name '*quell*'

ip link set lo up
nft add table ip t
nft add chain ip t c '{ type filter hook input priority 0; }'
nft add rule ip t c udp dport 4000 drop
told drops quell doctor --during "bash -c 'for i in {1..20}; do echo x >/dev/udp/127.0.0.1/4000; done'"
"#;

/// After one more reboot: nothing of it comes back.
const THIRD: &str = r#"
ip link set eth0 up
told queue tc qdisc show dev eth0
told failed systemctl --failed --no-legend
sysctl -n net.ipv4.tcp_rmem net.ipv4.tcp_wmem >$day/values
told status quell shape status

told hosts quell shape apply --dev eth0 --line 10/50 --policy host-fair --confirm-within never
told hosts_filters tc filter show dev eth0 parent 2:
told hosts_again quell shape apply --dev eth0 --line 10/50 --policy host-fair --confirm-within never
told hosts_off quell shape off --dev eth0
told hosts_after tc qdisc show dev eth0
"#;

/// The machine, when its three days are over.
struct Machine {
    folder: PathBuf,
    _kept: tempfile::TempDir,
}

static MACHINE: LazyLock<Option<Machine>> = LazyLock::new(|| {
    let kept = tempfile::Builder::new().prefix("debian").tempdir().expect("a folder");
    // What the machine sees; the disk lies beside it.
    let folder = kept.path().join("share");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::copy(env!("CARGO_BIN_EXE_quell"), folder.join("quell")).expect("the program is there");
    for (day, commands) in [("first", FIRST), ("second", SECOND), ("third", THIRD)] {
        let script = format!("day={day}; mkdir $day\n{WORDS}{commands}");
        std::fs::write(folder.join("day"), script).expect("the day's commands");
        let disk = kept.path().join("disk");
        let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/debian");
        let mut command = Command::new(tool);
        command.arg("--disk").arg(disk).args(["--limit", "900"]).arg(&folder).args(["bash", "day"]);
        let output = command.stdin(Stdio::null()).output().expect("tools/debian can be started");
        let error = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(3) && day == "first" {
            eprintln!("skipped: {error}");
            return None;
        }
        assert!(output.status.success(), "the {day} day: {:?}: {error}", output.status);
    }
    Some(Machine { folder, _kept: kept })
});

impl Machine {
    fn get() -> Option<&'static Self> {
        MACHINE.as_ref()
    }

    /// What a command said, or was kept of values.
    #[track_caller]
    fn file(&self, day: &str, name: &str) -> String {
        let path = self.folder.join(day).join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// What a command said that ended well.
    #[track_caller]
    fn fine(&self, day: &str, name: &str) -> String {
        let said = self.file(day, name);
        let (said, code) = said.rsplit_once("code ").expect("a code at the end");
        assert_eq!(code.trim(), "0", "{day}, {name}: {said}");
        said.to_owned()
    }
}

/// The rate of CAKE in what `tc qdisc show` says, as it writes it.
fn cake_rate(shown: &str) -> Option<&str> {
    let cake = shown.lines().find(|line| line.contains(" cake ") && line.contains(" root "))?;
    cake.split_once("bandwidth ")?.1.split_whitespace().next()
}

#[test]
fn a_healthy_debian_machine_gives_no_finding() {
    let Some(machine) = Machine::get() else { return };
    let said = machine.fine("first", "healthy");
    assert!(said.contains("Nothing is wrong that can be seen from here"), "{said}");
}

#[test]
fn what_is_kept_is_there_after_a_reboot_and_what_nobody_confirmed_is_not() {
    let Some(machine) = Machine::get() else { return };
    for name in ["applied", "confirmed", "persists", "tried"] {
        machine.fine("first", name);
    }
    assert_eq!(cake_rate(&machine.fine("first", "in_force")), Some("9500Kbit"));
    assert_eq!(cake_rate(&machine.fine("first", "tried_queue")), Some("950Kbit"));
    assert_eq!(cake_rate(&machine.fine("second", "in_force")), Some("9500Kbit"));
    let status = machine.fine("second", "status");
    assert!(status.contains("up 9.5Mbit") && status.contains("; in force\n"), "{status}");
}

#[test]
fn queues_come_with_their_cable_each_time_that_it_is_plugged_in() {
    let Some(machine) = Machine::get() else { return };
    for name in ["cable_applied", "cable_confirmed", "cable_persists"] {
        machine.fine("first", name);
    }
    assert!(machine.file("second", "no_cable").contains("Cannot find device"));
    for name in ["cable_first", "cable_second"] {
        assert_eq!(cake_rate(&machine.fine("second", name)), Some("4750Kbit"), "{name}");
    }
}

#[test]
fn off_leaves_the_machine_as_it_was_found_and_nothing_comes_back_at_the_next_boot() {
    let Some(machine) = Machine::get() else { return };
    let found = machine.fine("first", "found");
    assert!(!found.contains("cake"), "{found}");
    machine.fine("second", "off");
    machine.fine("second", "cable_off");
    assert_eq!(machine.fine("second", "after_off"), found);
    assert_eq!(machine.fine("third", "queue"), found);
    assert_eq!(machine.fine("third", "failed"), "", "no service failed");
    assert!(!machine.fine("third", "status").contains("eth0"));
}

#[test]
fn a_tuning_holds_across_a_reboot_until_it_is_reverted() {
    let Some(machine) = Machine::get() else { return };
    let (found, tuned) =
        (machine.file("first", "values_found"), machine.file("first", "values_tuned"));
    machine.fine("first", "tuned");
    assert_ne!(found, tuned, "1 Gbit/s over 100 ms needs more than the defaults");
    assert_eq!(machine.file("second", "values"), tuned);
    machine.fine("second", "reverted");
    assert_eq!(machine.file("second", "values_reverted"), found);
    assert_eq!(machine.file("third", "values"), found);
    let left = machine.file("second", "left");
    assert!(!left.contains("60-quell") && !left.contains("quell-shape"), "{left}");
}

#[test]
fn the_kernel_names_why_it_dropped_twenty_packets() {
    let Some(machine) = Machine::get() else { return };
    let said = machine.file("second", "drops");
    assert!(said.contains("NETFILTER_DROP") && said.contains("20"), "{said}");
}

#[test]
fn the_classifier_finds_hosts_on_debians_kernel_and_goes_without_a_trace() {
    let Some(machine) = Machine::get() else { return };
    machine.fine("third", "hosts");
    let filters = machine.fine("third", "hosts_filters");
    assert!(filters.contains("bpf"), "{filters}");
    let again = machine.fine("third", "hosts_again");
    assert!(again.contains("all was as wanted"), "{again}");
    machine.fine("third", "hosts_off");
    assert_eq!(machine.fine("third", "hosts_after"), machine.fine("third", "queue"));
}
