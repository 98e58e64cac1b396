//! `quell shape` where its logs are gone or nobody's to read, and where interfaces are hard to tell apart.

use crate::support::{Said, TestFolder, said, says};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::VethEnd;
use quell_netlink::{Stack, tc};
use quell_sys::netns::NetNs;
use quell_tc::{Place, Places, Thing, Tree, seen};
use std::os::unix::process::CommandExt;
use std::process::Command;

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
fn queues_whose_log_was_lost_are_quells_again_once_they_are_applied() {
    with_cables(&["a0"], |folder, shape| {
        let apply = [&["apply", "--dev", "a0"], &LINE[..]].concat();
        let off = ["off", "--dev", "a0"];
        shape(&apply).fine();
        std::fs::remove_dir_all(folder.path("state")).unwrap();
        says(&shape(&off).refused(1), &["the log was lost", "quell shape apply", "tc qdisc del"]);
        // Other options would take them for somebody's whose queues are to come back.
        let other = ["apply", "--dev", "a0", "--line", "5/5", "--policy", "tiers"];
        says(&shape(&other).refused(1), &["--replace", "the options of then"]);
        says(&shape(&apply).fine(), &["from now on they are Quell's", "quell shape off"]);
        says(&shape(&["status"]).fine(), &["tiers", "in force"]);
        shape(&off).fine();
        assert_eq!(links(), [""; 0]);
        says(&shape(&["plan", "--dev", "a0", "--line", "5/5"]).fine(), &["make root queue 1:"]);
    });
}

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

#[test]
fn where_the_kernel_numbers_somebodys_filter_anew_that_is_said() {
    with_cables(&["a0"], |_, shape| {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let index = Stack::open().unwrap().index_of(&"a0".parse().unwrap()).unwrap();
        let theirs = r#"ingress = { filter = [{ kind = "u32", prio = 10, match = "ip src 192.0.2.9/32", action = { redirect = "lo" } }] }"#;
        let theirs = toml::from_str::<Tree>(theirs).unwrap().plan().unwrap().things();
        tc::lead_to(&mut socket, index, &theirs, Places::ALL).unwrap();
        let mut handles = || -> Vec<u32> {
            let all = seen(&tc::snapshot(&mut socket, index).unwrap());
            let handle = |thing: &Thing| match thing.place() {
                Place::Filter { handle, .. } => Some(handle),
                _ => None,
            };
            all.iter().filter_map(handle).collect()
        };
        let before = handles();
        assert_eq!(before.len(), 1);
        shape(&[&["apply", "--dev", "a0", "--replace"], &LINE[..]].concat()).fine();
        let told = shape(&["off", "--dev", "a0"]).fine();
        // Which kernels count on, and which begin anew, is theirs to say.
        assert_eq!(told.contains("has another number"), handles() != before, "{told}");
        println!("{told}");
    });
}
