//! Classes that come and go beside a change, in a namespace of the test's own.

use quell_act::{
    ApplyRequest, DeviceGoal, DynamicClasses, Goal, Kernel, Leave, Machine, OffRequest, Watchdog,
    apply, off, plan,
};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkKind, NewLink};
use quell_netlink::{Stack, tc};
use quell_sys::netns::NetNs;
use quell_tc::{Handle, Place, Places, Thing, Tree};
use std::path::Path;
use std::process::Command;

/// An HTB with two classes of its own, at this rate; and one of a guest.
fn tree(rate: &str, guest: bool) -> Vec<Thing> {
    let class = |id: &str, rate: &str, queue: &str| {
        format!(
            r#"{{ id = "{id}", rate = "{rate}", queue = {{ kind = "pfifo", handle = "{queue}" }} }}, "#
        )
    };
    let guest = if guest { class("1:17", "1Mbit", "17:") } else { String::new() };
    let text = format!(
        r#"queue = {{ kind = "htb", handle = "1:", default = "1:fffe", class = [
            {{ id = "1:1", rate = "{rate}", class = [ {} {} {guest} ] }} ] }}"#,
        class("1:fffe", "1Mbit", "fffe:"),
        class("1:20", "2Mbit", "20:"),
    );
    toml::from_str::<Tree>(&text.replace('\n', " ")).unwrap().plan().unwrap().things()
}

fn goal(index: u32, rate: &str) -> Goal {
    let things = tree(rate, false);
    let places = Places { root: true, ingress: false };
    let device = DeviceGoal { name: "a0".into(), index: Some(index), places, things };
    let dynamic = DynamicClasses { device: "a0".into(), queue: 1, from: 0x10, to: 0xfeff };
    Goal { devices: vec![device], dynamic: vec![dynamic], ..Goal::default() }
}

fn nobody(_: &quell_act::Log, _: u64) -> Result<Watchdog, quell_act::ActError> {
    // It ends with the pipe, as one that has nothing to do.
    let mut command = Command::new("sh");
    command.args(["-c", "printf !; exec cat >/dev/null"]);
    Watchdog::start(command)
}

fn asked<'a>(folder: &'a Path, goal: Goal, recipe: &str) -> ApplyRequest<'a> {
    ApplyRequest {
        folder,
        device: "a0".into(),
        goal,
        wanted: recipe.into(),
        recipe: recipe.into(),
        command: "quell shape apply".into(),
        replace: false,
        no_way_back: false,
        confirm_within: None,
        trial: true,
        watchdog: &nobody,
    }
}

fn classes(kernel: &mut Kernel, index: u32) -> Vec<u16> {
    let device = goal(index, "9Mbit");
    let now = kernel.read(&device).unwrap();
    let mut minors: Vec<u16> = now.queues[&index].classes.iter().map(|c| c.id.minor).collect();
    minors.sort_unstable();
    minors
}

#[test]
fn a_guest_stays_through_a_change_is_no_stranger_and_goes_with_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    NetNs::new()
        .unwrap()
        .run(|| {
            let mut stack = Stack::open().unwrap();
            stack.create_link(&NewLink::new("a0".parse().unwrap(), LinkKind::Ifb)).unwrap();
            let index = stack.index_of(&"a0".parse().unwrap()).unwrap();
            let mut kernel = Kernel::open().unwrap();
            let first = asked(folder.path(), goal(index, "9Mbit"), "first");
            assert_eq!(apply(&mut kernel, &first).unwrap().steps.len(), 1 + 3 + 2);
            // Somebody makes a guest's class.
            let mut socket = Socket::open(Protocol::Route).unwrap();
            let made = tc::lead_to(&mut socket, index, &tree("9Mbit", true), Places::ALL).unwrap();
            assert_eq!(made.len(), 2);
            let is = |change: &&quell_tc::Change| {
                matches!(change.place(), Place::Class { id, .. } if id == Handle::class(1, 0x17))
            };
            assert!(made.iter().any(|change| is(&change)));
            let again = plan(&mut kernel, folder.path(), "a0", &goal(index, "9Mbit"), true).unwrap();
            assert_eq!((again.steps, again.foreign), (vec![], vec![]));
            let second = asked(folder.path(), goal(index, "8Mbit"), "second");
            let done = apply(&mut kernel, &second).unwrap();
            assert_eq!(done.steps, ["a0: change htb class 1:1 under 1:"]);
            // What only dynamic are about is in force too.
            let third = asked(folder.path(), goal(index, "8Mbit"), "third");
            assert_eq!(apply(&mut kernel, &third).unwrap().steps, [""; 0]);
            let namespace = NetNs::current().unwrap().inode();
            let logs = quell_act::list(folder.path(), namespace).unwrap();
            assert_eq!(logs[0].begun.recipe, "third");
            assert_eq!(classes(&mut kernel, index), [1, 0x17, 0x20, 0xfffe]);
            let asked = OffRequest {
                folder: folder.path(),
                device: "a0",
                command: "quell shape off",
                leave: Leave::Ask,
                watchdog: &nobody,
            };
            off(&mut kernel, &asked).unwrap();
            assert_eq!(classes(&mut kernel, index), [0; 0]);
        })
        .unwrap();
}
