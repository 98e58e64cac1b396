//! `quell tune` on this kernel, in network namespaces of the tests' own, whose settings are theirs; files are below a folder of the test's.

use crate::support::{Said, TestFolder, said, says};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use nix::sched::CloneFlags;
use quell_netlink::address::NewAddress;
use quell_netlink::link::VethEnd;
use quell_netlink::route::NewRoute;
use quell_netlink::{Stack, sysctl};
use quell_sys::clock::{monotonic_ns, sleep_until};
use quell_sys::netns::NetNs;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A namespace, and a folder that stands for `/`.
struct Host {
    space: NetNs,
    dir: TestFolder,
}

/// The role whose settings every namespace has for itself.
const LATENCY: [&str; 3] = ["apply", "--role", "latency"];
const TRANSFER: [&str; 8] =
    ["apply", "--role", "transfer", "--rate", "10Gbit", "--rtt", "100ms", "--partly"];
const CONF: &str = "root/etc/sysctl.d/60-quell-tune.conf";
const RECORD: &str = "root/var/lib/quell/tune.toml";

impl Host {
    fn new() -> Self {
        Host { space: NetNs::new().unwrap(), dir: TestFolder::new() }
    }

    fn with_places<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        [&["tune"], arguments, &["--root", "root", "--state", "state"]].concat()
    }

    fn tune(&self, arguments: &[&str]) -> Said {
        let all = self.with_places(arguments);
        self.space.run(|| said(self.dir.command(&all), &all)).unwrap()
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let all = self.with_places(arguments);
        let mut command = self.dir.command(&all);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.space.run(|| command.spawn().unwrap()).unwrap()
    }

    fn get(&self, key: &str) -> String {
        self.space.run(|| sysctl::read(key).unwrap()).unwrap()
    }

    fn set(&self, key: &str, value: &str) {
        self.space.run(|| sysctl::write(key, value).unwrap()).unwrap();
    }

    /// All settings that are touched, and the files.
    fn state(&self) -> BTreeMap<String, Option<String>> {
        let keys = [
            "net/ipv4/tcp_rmem",
            "net/ipv4/tcp_wmem",
            "net/ipv4/tcp_slow_start_after_idle",
            "net/ipv4/tcp_notsent_lowat",
        ];
        let settings = keys.map(|key| (key.to_owned(), Some(self.get(key))));
        let file =
            |name: &str| (name.to_owned(), std::fs::read_to_string(self.dir.path(name)).ok());
        settings.into_iter().chain([file(CONF), file(RECORD)]).collect()
    }

    fn until_no_watchdog_lives(&self) {
        for name in self.names(".watch") {
            let Ok(file) = std::fs::File::open(self.dir.path("state").join(name)) else { continue };
            drop(Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno).unwrap());
        }
    }

    fn names(&self, ending: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.dir.path("state")) else { return Vec::new() };
        let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(ending)).collect()
    }

    /// What a boot leaves: a kernel with its own values, the files, and no log.
    fn boot(self) -> Self {
        let booted = Host { space: NetNs::new().unwrap(), dir: self.dir };
        // A namespace has buffers from the first one; what is tried here is what the file sets.
        let conf = std::fs::read_to_string(booted.dir.path(CONF)).unwrap_or_default();
        for line in conf.lines().filter(|line| !line.starts_with('#')) {
            if let Some((key, value)) = line.split_once('=') {
                booted.set(&key.trim().replace('.', "/"), value.trim());
            }
        }
        drop(std::fs::remove_dir_all(booted.dir.path("state")));
        booted
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("it is JSON")
}

#[test]
fn a_plan_says_of_each_line_why_and_from_where_and_touches_nothing() {
    let host = Host::new();
    let before = host.state();
    let plan = ["plan", "--role", "transfer", "--rate", "10Gbit", "--rtt", "100ms"];
    let out = host.tune(&plan).fine();
    let first = out.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("transfer, 10Gbit, 100ms: ") && first.ends_with(" would change"),
        "{out}"
    );
    says(
        &out,
        &["one transfer: ", "held up by", "→ 4096 131072 250609664", "reasons and sources: --all"],
    );
    let out = host.tune(&[&plan[..], &["--all"]].concat()).fine();
    says(
        &out,
        &["net.ipv4.tcp_rmem = ", "  default  ", "  why      ", "  source   ", "125MB under way"],
    );
    says(&out, &["nothing was touched", "held up by"]);
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    let document = json(&host.tune(&[&plan[..], &["--json"]].concat()).fine());
    let lines = document["lines"].as_array().unwrap();
    assert!(lines.iter().all(|l| l["why"].is_string() && l["source"].is_string()), "{document:#}");
    assert_eq!(host.state(), before);
    assert_eq!(host.names(""), [""; 0], "no log, no lock");
    says(&host.tune(&["plan", "--role", "transfer", "--rate", "1Gbit"]).refused(2), &["--rtt"]);
    says(&host.tune(&["plan", "--role", "transfers"]).refused(2), &["did you mean `transfer`?"]);
}

#[test]
fn what_is_applied_is_in_force_and_revert_brings_back_exactly_what_was_there() {
    let host = Host::new();
    host.set("net/ipv4/tcp_notsent_lowat", "777");
    let before = host.state();
    let out = host.tune(&LATENCY).fine();
    says(&out, &["set net/ipv4/tcp_notsent_lowat to 131072", "latency: as wanted, by 4 steps"]);
    assert_eq!(host.get("net/ipv4/tcp_slow_start_after_idle"), "0");
    let conf = host.state()[CONF].clone().expect("it is for the next boot too");
    says(&conf, &["net.ipv4.tcp_notsent_lowat = 131072", "# ip-sysctl.rst"]);
    says(&host.tune(&["status"]).fine(), &["latency; in force", "sets it at the next boot"]);
    // Again: nothing differs. Then for another role: what only the first one set is as it was.
    says(&host.tune(&LATENCY).fine(), &["latency: all was as wanted"]);
    host.tune(&TRANSFER).fine();
    assert_eq!(host.get("net/ipv4/tcp_notsent_lowat"), "777");
    assert!(host.get("net/ipv4/tcp_rmem").ends_with("\t250609664"));
    says(&host.tune(&["revert"]).fine(), &["all is as it was before"]);
    assert_eq!(host.state(), before);
    says(&host.tune(&["status"]).fine(), &["nothing of `quell tune` is in force"]);
    says(&host.tune(&["revert"]).refused(1), &["nothing of `quell tune` is in force"]);
    host.until_no_watchdog_lives();
    assert_eq!(host.names(".undo"), [""; 0]);
}

#[test]
fn after_a_boot_it_is_in_force_and_can_still_be_taken_back() {
    let host = Host::new();
    host.set("net/ipv4/tcp_notsent_lowat", "777");
    host.tune(&LATENCY).fine();
    host.until_no_watchdog_lives();
    let host = host.boot();
    says(&host.tune(&["status"]).fine(), &["latency; in force since the boot"]);
    says(&host.tune(&LATENCY).fine(), &["all was as wanted"]);
    // Another role in this boot: the first values are still those from before Quell.
    host.tune(&TRANSFER).fine();
    assert_eq!(host.get("net/ipv4/tcp_notsent_lowat"), "777");
    host.tune(&LATENCY).fine();
    host.tune(&["revert"]).fine();
    assert_eq!(host.get("net/ipv4/tcp_notsent_lowat"), "777");
    assert_eq!(host.get("net/ipv4/tcp_slow_start_after_idle"), "1");
    assert_eq!((&host.state()[CONF], &host.state()[RECORD]), (&None, &None));
}

#[test]
fn what_somebody_changed_since_is_said_and_not_overwritten_unasked() {
    let host = Host::new();
    host.tune(&LATENCY).fine();
    host.set("net/ipv4/tcp_notsent_lowat", "555");
    let said = host.tune(&["status", "--json"]);
    assert_eq!(said.code, Some(1));
    let document = json(&said.out);
    assert_eq!(document["in_order"], false);
    let lowat = document["settings"].as_array().unwrap().iter();
    let lowat = lowat.clone().find(|s| s["key"] == "net.ipv4.tcp_notsent_lowat").unwrap();
    assert_eq!((&lowat["state"], &lowat["now"]), (&"changed".into(), &"555".into()));
    let said = host.tune(&["revert"]).refused(1);
    says(&said, &["net.ipv4.tcp_notsent_lowat = 555, set to 131072", "--keep-changed", "--all"]);
    assert_eq!(host.get("net/ipv4/tcp_slow_start_after_idle"), "0", "nothing was changed");
    says(&host.tune(&["revert", "--keep-changed"]).fine(), &["is left as somebody set it"]);
    assert_eq!(host.get("net/ipv4/tcp_notsent_lowat"), "555");
    assert_eq!(host.get("net/ipv4/tcp_slow_start_after_idle"), "1");
}

#[test]
fn a_file_that_comes_later_at_boot_is_named() {
    let host = Host::new();
    std::fs::create_dir_all(host.dir.path("root/etc/sysctl.d")).unwrap();
    host.dir.write("root/etc/sysctl.d/99-site.conf", "net.ipv4.tcp_notsent_lowat = 9\n");
    let wanted = ["99-site.conf sets net.ipv4.tcp_notsent_lowat to 9 at boot, after ours"];
    let on_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    says(&on_one_line(&host.tune(&LATENCY).fine()), &wanted);
    let said = host.tune(&["status"]);
    assert_eq!(said.code, Some(1));
    says(&on_one_line(&said.out), &wanted);
}

#[test]
fn a_file_of_somebody_elses_with_our_name_is_left_alone() {
    let host = Host::new();
    std::fs::create_dir_all(host.dir.path("root/etc/sysctl.d")).unwrap();
    host.dir.write(CONF, "net.ipv4.tcp_sack = 1\n");
    let before = host.state();
    says(&host.tune(&LATENCY).refused(1), &["Quell did not write it", "nothing was changed"]);
    assert_eq!(host.state(), before);
}

/// In a mount namespace of its own, `/proc/sys` is as in a container.
fn in_a_container(host: &Host, arguments: &[&str]) -> Said {
    let all = host.with_places(arguments);
    let call = || {
        let mut command = host.dir.command(&all);
        let seal = || {
            nix::sched::unshare(CloneFlags::CLONE_NEWNS)?;
            let none = None::<&str>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
            mount(Some("/proc/sys"), "/proc/sys", none, MsFlags::MS_BIND, none)?;
            let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
            Ok(mount(none, "/proc/sys", none, flags, none)?)
        };
        // SAFETY: these are system calls.
        unsafe { command.pre_exec(seal) };
        said(command, &all)
    };
    host.space.run(call).unwrap()
}

#[test]
fn in_a_container_with_read_only_settings_nothing_is_changed_and_it_is_said() {
    let host = Host::new();
    let before = host.state();
    let said = in_a_container(&host, &LATENCY).refused(3);
    says(&said, &["read-only", "nothing was changed", "outside of the container"]);
    assert_eq!(host.state(), before);
    let plan = in_a_container(&host, &["plan", "--role", "latency"]).fine();
    says(&plan, &["can't be set here", "read-only, as in containers"]);
}

#[test]
fn wherever_it_is_killed_all_is_as_it_was_or_as_it_was_wanted() {
    let host = Host::new();
    let before = host.state();
    let begun = monotonic_ns();
    host.tune(&TRANSFER).fine();
    let mut whole = monotonic_ns() - begun;
    let wanted = host.state();
    host.tune(&["revert"]).fine();
    let times = std::env::var("QUELL_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(10u64);
    let mut cut = 0;
    for time in 0..times {
        let mut applier = host.start(&TRANSFER);
        // The trial and the looks come first: most of these hit the second half.
        let instant = whole / 3 + whole * 2 / 3 * time / times;
        sleep_until(monotonic_ns() + instant).unwrap();
        applier.kill().unwrap();
        applier.wait().unwrap();
        host.until_no_watchdog_lives();
        host.tune(&["recover"]).fine();
        let mut there = host.state();
        if there[CONF].is_some() {
            // The record has the time at which it was written.
            there.insert(RECORD.into(), wanted[RECORD].clone());
            assert_eq!(there, wanted, "killed after {instant} of {whole} ns");
            host.tune(&["revert"]).fine();
            if cut == 0 {
                // The one that was measured may have waited for a busy CPU.
                whole = whole.min(instant);
            }
        } else {
            cut += 1;
        }
        assert_eq!(host.state(), before, "killed after {instant} of {whole} ns");
    }
    assert!(cut > 0, "none of {times} was killed before its end");
}

#[test]
fn a_record_that_somebody_damaged_is_refused_and_named() {
    let host = Host::new();
    host.tune(&LATENCY).fine();
    host.dir.write(RECORD, "version = 1\nnonsense");
    for command in [&["status"][..], &["revert"], &LATENCY] {
        says(&host.tune(command).refused(3), &["tune.toml", "no record of `quell tune apply`"]);
    }
    assert_eq!(host.get("net/ipv4/tcp_slow_start_after_idle"), "0");
}

/// A cable to 192.0.2.0/24, behind which a router leads to 198.51.100.0/24.
fn cable() {
    let mut stack = Stack::open().unwrap();
    let [a, b] = ["a0", "b0"].map(|name| VethEnd::new(name.parse().unwrap()));
    stack.create_veth(&a, &b).unwrap();
    let index = stack.index_of(&a.name).unwrap();
    stack.add_address(index, &NewAddress::new("192.0.2.1/24".parse().unwrap())).unwrap();
    stack.up(index).unwrap();
    let router = "192.0.2.9".parse().unwrap();
    stack.add_route(&NewRoute::via("198.51.100.0/24".parse().unwrap(), router, index)).unwrap();
}

/// The routes of the main table of IPv4, as the kernel shows them.
fn routes(host: &Host) -> Vec<quell_netlink::route::Route> {
    host.space.run(|| Stack::open().unwrap().routes().unwrap()).unwrap()
}

#[test]
fn a_route_comes_with_the_settings_and_goes_with_them_and_somebodys_own_is_left_alone() {
    let host = Host::new();
    host.space.run(cable).unwrap();
    let before = routes(&host);
    let apply = ["apply", "--role", "latency", "--reply", "30kB", "--route"];
    let theirs = host.tune(&[&apply[..], &["198.51.100.0/24"]].concat()).refused(3);
    says(&theirs, &["has a route of its own", "ip route replace 198.51.100.0/24"]);
    assert_eq!(routes(&host), before);
    // Part of theirs, by the same way; and again, which changes nothing.
    let part = [&apply[..], &["198.51.100.7/32"]].concat();
    let own = "route 198.51.100.7/32 via 192.0.2.9 dev a0 quickack 1 features ecn initcwnd 21";
    says(&host.tune(&part).fine(), &[own]);
    says(&host.tune(&part).fine(), &["all was as wanted"]);
    let there = routes(&host);
    let route = there.iter().find(|route| route.to.to_string() == "198.51.100.7/32").unwrap();
    let metrics = &route.metrics;
    assert_eq!(
        (metrics.quick_ack, metrics.ecn, metrics.initial_cwnd),
        (Some(true), Some(true), Some(21))
    );
    says(&host.tune(&["status"]).fine(), &[own]);
    says(&host.tune(&["revert"]).fine(), &["take the route to 198.51.100.7/32 away"]);
    assert_eq!(routes(&host), before);
    // What waits to be confirmed has it too, and keeps it when it is.
    host.tune(&[&part[..], &["--confirm-within", "5min"]].concat()).fine();
    host.tune(&["confirm"]).fine();
    assert_eq!(routes(&host).len(), before.len() + 1);
    // Without the option it is as it was before.
    host.tune(&apply[..5]).fine();
    assert_eq!(routes(&host), before);
    host.tune(&["revert"]).fine();
}

#[test]
fn without_root_nothing_is_changed_and_it_is_said_what_to_do() {
    let apply = ["tune", "apply", "--role", "latency", "--state", "/nonexistent/state"];
    // Where others may look too, which the folders above the program's own need not allow.
    let dir = TestFolder::new();
    std::fs::set_permissions(dir.path("."), Permissions::from_mode(0o755)).unwrap();
    // Copied by another process: what this one has open for writing, a child of another test may still hold when it is to be run.
    let copied =
        Command::new("cp").arg(env!("CARGO_BIN_EXE_quell")).arg(dir.path("quell")).status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(dir.path("quell"));
    command.args(apply).stdin(Stdio::null());
    if nix::unistd::geteuid().is_root() {
        // Who owns nothing here.
        command.uid(65_534).gid(65_534);
    }
    let said = said(command, &apply).refused(3);
    says(
        &said,
        &["can't be written: Permission denied", "nothing was changed", "sudo quell tune apply"],
    );
}

#[test]
fn the_handbook_is_answered_line_by_line() {
    let host = Host::new();
    let call = |what: &str| {
        host.space.run(|| said(host.dir.command(&["tune", "explain", what]), &[what])).unwrap()
    };
    let out = call("handbook").fine();
    says(
        &out,
        &[
            "tcp_mem = 150000000",
            "572 GiB",
            "PAWS",
            "2.6.26",
            "300000",
            "87380",
            "tso off",
            "txqueuelen",
        ],
    );
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    says(
        &call("others").fine(),
        &["ESnet, transfer, 10G to 100 ms", "tuned, network-throughput", "defaults here"],
    );
    says(&call("tcp_rmem").fine(), &["net.ipv4.tcp_rmem", "default  4096"]);
    says(&call("tcp_rmen").refused(2), &["nothing is known of `tcp_rmen`"]);
}
