//! An interface that goes, or gets another name, between two steps of a change: the running kernel, in a namespace of the test's own.
//!
//! ```text
//!   step 1 ─ step 2 ─ … ─ step n        between any two: a0 or its IFB is deleted or renamed
//! ```

use quell_act::{
    ActError, ApplyRequest, Change, DeviceGoal, Goal, Kernel, Leave, LinkGoal, Log, Machine, Now,
    OffRequest, Refusal, Standing, Watchdog, apply, list, off, recover,
};
use quell_netlink::Stack;
use quell_netlink::link::{LinkChange, LinkName, VethEnd};
use quell_sys::netns::NetNs;
use quell_tc::{Places, Thing, Tree};
use std::process::Command;

/// A kernel in which something happens right before one of the steps.
struct Between {
    kernel: Kernel,
    /// Steps until then; none left, and it has happened.
    left: Option<usize>,
    happens: fn(),
}

impl Machine for Between {
    fn read(&mut self, goal: &Goal) -> Result<Now, Refusal> {
        self.kernel.read(goal)
    }

    fn carry_out(&mut self, change: &Change) -> Result<(), Refusal> {
        if self.left == Some(0) {
            (self.happens)();
        }
        self.left = self.left.and_then(|left| left.checked_sub(1));
        self.kernel.carry_out(change)
    }
}

fn things(text: &str) -> Vec<Thing> {
    toml::from_str::<Tree>(text).unwrap().plan().unwrap().things()
}

fn idle(_: &Log, _: u64) -> Result<Watchdog, ActError> {
    let mut command = Command::new("sh");
    command.args(["-c", "printf x; cat"]);
    Watchdog::start(command)
}

const SHAPER: &str = r#"
    queue = { kind = "htb", default = "1:2", class = [ { id = "1:2", rate = "1Mbit", queue = { kind = "bfifo", handle = "20:", limit = "9000" } } ] }
"#;
const TO_IFB: &str = r#"ingress = { filter = [ { kind = "u32", match = "u32 0 0 at 0", action = { redirect = "i-a0" } } ] }"#;

/// a0 shaped both ways.
fn goal(index: u32) -> Goal {
    let root = Places { root: true, ingress: false };
    let ifb = DeviceGoal { name: "i-a0".into(), index: None, places: root, things: things(SHAPER) };
    let both = [things(SHAPER), things(TO_IFB)].concat();
    let a0 =
        DeviceGoal { name: "a0".into(), index: Some(index), places: Places::ALL, things: both };
    Goal {
        links: vec![LinkGoal { name: "i-a0".into(), mac: [2, 0, 0, 0, 0, 7], there: true }],
        devices: vec![ifb, a0],
        ..Goal::default()
    }
}

fn number(name: &str) -> Option<u32> {
    Stack::open().unwrap().index_of(&name.parse().unwrap()).ok()
}

fn rename(from: &str, to: &str) {
    let to: LinkName = to.parse().unwrap();
    let mut stack = Stack::open().unwrap();
    let index = stack.index_of(&from.parse().unwrap()).unwrap();
    let up = stack.link_at(index).unwrap().is_up();
    // Before 6.5 one that is up keeps its name.
    stack.change_link(index, &[LinkChange::Up(false)]).unwrap();
    stack.change_link(index, &[LinkChange::Name(to), LinkChange::Up(up)]).unwrap();
}

fn delete(name: &str) {
    if let Some(index) = number(name) {
        Stack::open().unwrap().delete_link(index).unwrap();
    }
}

/// What happens, and what a0 is called then; nothing where it is gone.
type Happening = (&'static str, fn(), Option<&'static str>);

const HAPPENS: [Happening; 4] = [
    ("a0 is deleted", || delete("a0"), None),
    ("a0 is renamed", || rename("a0", "z0"), Some("z0")),
    ("the IFB is deleted", || delete("i-a0"), Some("a0")),
    (
        "the IFB is renamed",
        || {
            if number("i-a0").is_some() {
                rename("i-a0", "i-z0")
            }
        },
        Some("a0"),
    ),
];

/// What is there of ours: links that are neither the cable nor loopback, and what somebody made on a0.
fn left_over(name: Option<&str>) -> Vec<String> {
    let links = Stack::open().unwrap().links().unwrap();
    let mut found: Vec<String> =
        links.into_iter().filter(|l| l.kind.as_deref() == Some("ifb")).map(|l| l.name).collect();
    let Some(name) = name else { return found };
    let device = DeviceGoal {
        name: name.into(),
        index: number(name),
        places: Places::ALL,
        things: Vec::new(),
    };
    let all = Goal { devices: vec![device], ..Goal::default() };
    let now = Kernel::open().unwrap().read(&all).unwrap();
    found
        .extend(now.before(&all).devices.remove(0).things.iter().map(|thing| format!("{thing:?}")));
    found
}

/// Does something on a cable, before a step with each of the numbers from 0, until there are no more steps.
fn before_each_step(
    happens: fn(),
    test: impl Fn(Between, &std::path::Path, u32, usize) -> bool + Sync,
) {
    for step in 0.. {
        let work = || {
            let mut stack = Stack::open().unwrap();
            let [a, b] = ["a0", "b0"].map(|name| VethEnd::new(name.parse().unwrap()));
            stack.create_veth(&a, &b).unwrap();
            let index = stack.index_of(&a.name).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let machine = Between { kernel: Kernel::open().unwrap(), left: Some(step), happens };
            test(machine, folder.path(), index, step)
        };
        if !NetNs::new().unwrap().run(work).unwrap() {
            assert!(step > 4, "there are steps");
            return;
        }
    }
}

fn asked(folder: &std::path::Path, index: u32) -> ApplyRequest<'_> {
    ApplyRequest {
        folder,
        device: "a0".into(),
        goal: goal(index),
        wanted: "a test".into(),
        recipe: String::new(),
        command: "quell shape apply".into(),
        replace: false,
        no_way_back: false,
        confirm_within: None,
        trial: true,
        watchdog: &idle,
    }
}

fn off_as<'a>(folder: &'a std::path::Path, device: &'a str) -> OffRequest<'a> {
    OffRequest { folder, device, command: "quell shape off", leave: Leave::Ask, watchdog: &idle }
}

#[test]
fn an_interface_that_goes_or_is_renamed_between_two_steps_of_apply_leaves_nothing_half_done() {
    for (what, happens, name) in HAPPENS {
        before_each_step(happens, |mut machine, folder, index, step| {
            let said = format!("{what} before step {step}");
            let done = apply(&mut machine, &asked(folder, index));
            let happened = machine.left.is_none();
            let namespace = NetNs::current().unwrap().inode();
            let logs = list(folder, namespace).unwrap();
            let name = if happened { name } else { Some("a0") };
            match (done, name) {
                (Err(why), _) => {
                    assert!(matches!(why, ActError::Refused { .. }), "{said}: {why}");
                    assert_eq!(logs.len(), 0, "{said}: {why}");
                }
                // The interface is the same, whatever it is called.
                (Ok(_), name) => {
                    let standing: Vec<Standing> = logs.iter().map(|log| log.standing).collect();
                    assert_eq!(standing, [Standing::Confirmed], "{said}");
                    off(&mut machine, &off_as(folder, name.unwrap_or("a0"))).unwrap();
                }
            }
            assert_eq!(left_over(name), [""; 0], "{said}");
            assert_eq!(recover(&mut machine, folder, "quell shape recover").unwrap(), [], "{said}");
            happened
        });
    }
}

#[test]
fn an_interface_that_goes_or_is_renamed_between_two_steps_of_off_leaves_nothing_behind() {
    for (what, happens, name) in HAPPENS {
        before_each_step(happens, |mut machine, folder, index, step| {
            let said = format!("{what} before step {step}");
            apply(&mut machine.kernel, &asked(folder, index)).unwrap();
            let done = off(&mut machine, &off_as(folder, "a0"));
            let happened = machine.left.is_none();
            let name = if happened { name } else { Some("a0") };
            if let Err(why) = done {
                // What could not be done at once can be done afterwards.
                let namespace = NetNs::current().unwrap().inode();
                assert_eq!(list(folder, namespace).unwrap().len(), 1, "{said}: {why}");
                recover(&mut machine, folder, "quell shape recover").unwrap();
            }
            assert_eq!(left_over(name), [""; 0], "{said}");
            happened || step <= 4
        });
    }
}
