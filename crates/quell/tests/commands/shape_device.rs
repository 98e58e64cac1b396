//! What `quell shape` says of an interface before it shapes it, of interfaces that are hard to tell apart, and of logs that nobody may read.

use crate::support::cable::Cable;
use crate::support::{Said, TestFolder, said, says};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkKind, NewLink, VethEnd};
use quell_netlink::{Stack, tc};
use quell_sys::netns::NetNs;
use quell_tc::qdisc::{Mq, Pfifo};
use quell_tc::{Handle, Places, Step, Thing};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What is said beside the steps.
fn remarks(cable: &Cable, options: &[&str]) -> String {
    let said = cable.shape(&[&["plan", "--dev", "a0", "--json"], options].concat()).fine();
    let plan: serde_json::Value = serde_json::from_str(&said).unwrap();
    plan["remarks"].to_string()
}

/// The queues of an interface, whoever made them, in the kernel's order.
fn queues(cable: &Cable, name: &str) -> Vec<(String, Handle, Handle)> {
    let look = || {
        let index = Stack::open().unwrap().index_of(&name.parse().unwrap()).unwrap();
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let all = tc::snapshot(&mut socket, index).unwrap().qdiscs;
        all.into_iter().map(|queue| (queue.kind, queue.parent, queue.handle)).collect()
    };
    cable.here.run(look).unwrap()
}

const NEVER: [&str; 2] = ["--confirm-within", "never"];

#[test]
fn where_an_interface_has_several_transmit_queues_that_one_takes_their_place_is_said_and_off_gives_them_back()
 {
    let cable = Cable::of(4);
    let up = ["--up", "10Mbit", "--policy", "tiers"];
    let plan = || cable.shape(&[&["plan", "--dev", "a0"], &up[..]].concat()).fine();
    assert!(!plan().contains("in place of"), "a cable's have no queue at all");
    // What the kernel gives a device by itself: mq, with a queue for each.
    let make = || {
        let mut stack = Stack::open().unwrap();
        let link =
            NewLink { tx_queues: Some(4), ..NewLink::new("many".parse().unwrap(), LinkKind::Ifb) };
        stack.create_link(&link).unwrap();
        let index = stack.index_of(&link.name).unwrap();
        stack.up(index).unwrap();
    };
    cable.here.run(make).unwrap();
    let default = queues(&cable, "many");
    assert_eq!(default.iter().filter(|(kind, ..)| kind == "mq").count(), 1, "{default:?}");
    assert_eq!(default.len(), 5, "{default:?}");
    let many = ["--dev", "many"];
    let told = cable.shape(&[&["apply"], &many[..], &up, &NEVER].concat()).fine();
    says(&told, &["one queue in place of 4: many"]);
    assert!(queues(&cable, "many").iter().all(|(kind, ..)| kind != "mq"));
    cable.shape(&[&["off"], &many[..]].concat()).fine();
    assert_eq!(queues(&cable, "many"), default);
    // One that somebody made, with something of his own in it.
    let step = |parent, handle, qdisc| Thing::Step(Step::Qdisc { parent, handle, qdisc });
    let theirs = [
        step(Handle::ROOT, Handle::qdisc(7), Mq {}.into()),
        step(Handle::class(7, 2), Handle::qdisc(0x70), Pfifo { limit: Some(77) }.into()),
    ];
    let put = || {
        let index = Stack::open().unwrap().index_of(&"a0".parse().unwrap()).unwrap();
        let mut socket = Socket::open(Protocol::Route).unwrap();
        tc::lead_to(&mut socket, index, &theirs, Places::ALL).unwrap();
    };
    cable.here.run(put).unwrap();
    says(&plan(), &["one queue in place of 4: a0 has 4 transmit queues"]);
    let (before, things) = (queues(&cable, "a0"), cable.things());
    let replace = [&["apply", "--dev", "a0", "--replace"], &up[..], &NEVER].concat();
    cable.shape(&replace).fine();
    cable.shape(&["off", "--dev", "a0"]).fine();
    assert_eq!((queues(&cable, "a0"), cable.things()), (before, things));
}

#[test]
fn what_is_above_the_interfaces_own_speed_or_above_the_line_is_said() {
    // A cable's driver says 10 Gbit/s.
    let cable = Cable::new();
    let said = remarks(&cable, &["--up", "12Gbit", "--down", "9Gbit", "--policy", "tiers"]);
    says(&said, &["up 12Gbit is above the 10Gbit that a0 itself carries"]);
    let said = remarks(&cable, &["--up", "10Gbit", "--policy", "tiers"]);
    assert!(!said.contains("above"), "{said}");
    let file = "lazy = true\nup = \"20Mbit\"\ndown = \"40Mbit\"\n[[subscriber]]\nname = \"ann\"\nprefixes = [\"192.0.2.0/29\"]\n\
                up = { floor = \"1Mbit\", ceiling = \"20Mbit\" }\ndown = { floor = \"1Mbit\", ceiling = \"90Mbit\" }\n";
    cable.dir.write("s.toml", file);
    let said = remarks(&cable, &["--file", "s.toml"]);
    says(&said, &["down, `ann` can't have 90Mbit: the line has 40Mbit"]);
    assert!(!said.contains("up, `ann`"), "{said}");
    let told = cable.shape(&[&["apply", "--dev", "a0", "--file", "s.toml"], &NEVER[..]].concat());
    says(&told.fine(), &["down, `ann` can't have 90Mbit"]);
}

/// Calls `quell shape` in a namespace that has cables of these names, with the test's folder for logs.
fn with_cables(names: &[&str], test: impl FnOnce(&TestFolder, &dyn Fn(&[&str]) -> Said) + Send) {
    let work = || {
        let mut stack = Stack::open().unwrap();
        for (number, name) in names.iter().enumerate() {
            let other = format!("b{number}");
            let [here, there] =
                [name, other.as_str()].map(|end| VethEnd::new(end.parse().unwrap()));
            stack.create_veth(&here, &there).unwrap();
            let index = stack.index_of(&here.name).unwrap();
            stack.up(index).unwrap();
        }
        let folder = TestFolder::new();
        let shape = |arguments: &[&str]| {
            let all = [&["shape"], arguments, &["--state", "state"]].concat();
            said(folder.command(&all), &all)
        };
        test(&folder, &shape);
    };
    NetNs::new().unwrap().run(work).unwrap();
}

fn links() -> Vec<String> {
    let links = Stack::open().unwrap().links().unwrap();
    links.into_iter().filter(|link| link.kind.as_deref() == Some("ifb")).map(|l| l.name).collect()
}

const LINE: [&str; 6] = ["--line", "10/50", "--policy", "tiers", "--confirm-within", "never"];

#[test]
fn two_adapters_that_are_alike_in_their_first_letters_have_an_ifb_each() {
    let names = ["enx020000000001", "enx020000000002"];
    with_cables(&names, |_, shape| {
        for name in names {
            shape(&[&["apply", "--dev", name], &LINE[..]].concat()).fine();
        }
        assert_eq!(links().len(), 2);
        shape(&["status"]).fine();
        for name in names {
            shape(&["off", "--dev", name]).fine();
        }
        assert_eq!(links(), [""; 0]);
    });
}

#[test]
fn who_may_not_read_the_logs_is_told_that_root_may() {
    with_cables(&["a0"], |folder, _| {
        std::fs::create_dir(folder.path("state")).unwrap();
        let none = std::os::unix::fs::PermissionsExt::from_mode(0o000);
        std::fs::set_permissions(folder.path("state"), none).unwrap();
        for what in [&["plan", "--dev", "a0", "--line", "1/1"][..], &["status"]] {
            let all = [&["shape"], what, &["--state", "state"]].concat();
            let mut command: Command = folder.command(&all);
            // SAFETY: system calls alone.
            unsafe {
                command.pre_exec(|| {
                    // CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, by which root reads all.
                    for capability in [1, 2] {
                        nix::libc::prctl(nix::libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
                    }
                    Ok(())
                });
            }
            let told = said(command, &all).refused(3);
            says(&told, &["root's alone", "`sudo`"]);
        }
    });
}
