//! The running kernel, in a namespace of the test's own: what else than queues is changed and comes back.

use quell_act::{
    ActError, Applied, ApplyRequest, Change, DeviceGoal, FileGoal, Goal, Kernel, Leave, LinkGoal,
    Log, Machine, Now, OffRequest, Refusal, Standing, SysctlGoal, Watchdog, apply, off, roll_back,
    steps, try_it,
};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkChange, LinkName, VethEnd};
use quell_netlink::{Stack, tc};
use quell_sys::netns::NetNs;
use quell_tc::{Bpf, BpfProgram, FilterKind, Handle, Places, Seen, Step, Thing, Tree};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Leads there, and says by which steps.
fn lead(kernel: &mut Kernel, goal: &Goal) -> Vec<String> {
    let now = kernel.read(goal).unwrap();
    let todo = steps(goal, &now);
    for step in &todo {
        kernel.carry_out(step).unwrap_or_else(|why| panic!("{step}: {why}"));
    }
    assert_eq!(steps(goal, &kernel.read(goal).unwrap()), [], "it is reached");
    todo.iter().map(ToString::to_string).collect()
}

fn things(text: &str) -> Vec<quell_tc::Thing> {
    toml::from_str::<Tree>(text).unwrap().plan().unwrap().things()
}

#[test]
fn links_settings_and_files_come_and_go_with_the_queues() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuned.conf");
    std::fs::write(&file, "theirs\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let other = folder.path().join("new.conf");
    NetNs::new()
        .unwrap()
        .run(|| {
            let mut stack = Stack::open().unwrap();
            let [a, b] = ["a0", "b0"].map(|name| VethEnd::new(name.parse().unwrap()));
            stack.create_veth(&a, &b).unwrap();
            let index = stack.index_of(&a.name).unwrap();
            let root = Places { root: true, ingress: false };
            let redirect = r#"
                queue = { kind = "htb", class = [ { id = "1:1", rate = "1Mbit" } ] }
                ingress = { filter = [ { kind = "u32", match = "u32 0 0 at 0", action = { redirect = "i-a0" } } ] }
            "#;
            let goal = Goal {
                links: vec![LinkGoal { name: "i-a0".into(), mac: [2, 0, 0, 0, 0, 7], there: true }],
                devices: vec![
                    DeviceGoal {
                        name: "i-a0".into(),
                        index: None,
                        places: root,
                        things: things(r#"queue = { kind = "tbf", rate = "1Mbit", burst = "5kB", limit = "9000" }"#),
                    },
                    DeviceGoal {
                        name: "a0".into(),
                        index: Some(index),
                        places: Places::ALL,
                        things: things(redirect),
                    },
                ],
                sysctls: vec![SysctlGoal { key: "net/ipv4/ip_forward".into(), value: "1".into() }],
                routes: Vec::new(),
                files: vec![
                    FileGoal { path: file.clone(), content: Some((b"ours\n".to_vec(), 0o600)) },
                    FileGoal { path: other.clone(), content: Some((b"new\n".to_vec(), 0o644)) },
                ],
                ..Goal::default()
            };
            let mut kernel = Kernel::open().unwrap();
            let first = kernel.read(&goal).unwrap();
            let before = first.before(&goal);
            let said = lead(&mut kernel, &goal);
            assert_eq!(said[0], "make the IFB i-a0");
            assert_eq!(said[1], "i-a0: make root queue 1: (tbf)");
            let hook = said.iter().position(|s| s == "a0: make u32 filter 1 at ingress").unwrap();
            assert!(hook > 4, "packets are sent there when all is ready: {said:?}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "ours\n");
            let said = lead(&mut kernel, &Goal::from(&before));
            assert!(said.contains(&"delete the IFB i-a0".to_owned()), "{said:?}");
            let mut after = kernel.read(&goal).unwrap();
            // Nothing but counters may differ.
            after.queues = first.queues.clone();
            assert_eq!(after, first);
            assert_eq!(first.before(&goal), kernel.read(&goal).unwrap().before(&goal));
            let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
            assert_eq!((std::fs::read_to_string(&file).unwrap().as_str(), mode), ("theirs\n", 0o640));
            assert!(!other.exists());
        })
        .unwrap();
}

#[test]
fn an_ifb_that_is_not_ours_stays() {
    NetNs::new()
        .unwrap()
        .run(|| {
            let mut kernel = Kernel::open().unwrap();
            let ours =
                |last| LinkGoal { name: "i-a0".into(), mac: [2, 0, 0, 0, 0, last], there: true };
            let goal = |link| Goal { links: vec![link], ..Goal::default() };
            lead(&mut kernel, &goal(ours(1)));
            let gone = goal(LinkGoal { there: false, ..ours(2) });
            assert_eq!(lead(&mut kernel, &gone), [""; 0], "its address is another");
            let gone = goal(LinkGoal { there: false, ..ours(1) });
            assert_eq!(lead(&mut kernel, &gone), ["delete the IFB i-a0"]);
        })
        .unwrap();
}

#[test]
fn a_value_that_the_kernel_would_refuse_is_found_out_before_anything_is_touched() {
    NetNs::new()
        .unwrap()
        .run(|| {
            let mut kernel = Kernel::open().unwrap();
            let mut tried = |key: &str, value: &str| {
                let key = key.to_owned();
                let sysctls = vec![SysctlGoal { key, value: value.into() }];
                let goal = Goal { sysctls, ..Goal::default() };
                let now = kernel.read(&goal).unwrap();
                let said = try_it(&now.before(&goal), &goal, &now).map_err(|e| e.to_string());
                assert_eq!(kernel.read(&goal).unwrap(), now, "nothing was touched");
                said
            };
            assert_eq!(tried("net/ipv4/tcp_rmem", "4096 131072 40000000"), Ok(vec![]));
            let said = tried("net/ipv4/tcp_rmem", "4096 131072 many").unwrap_err();
            assert!(said.contains("set net/ipv4/tcp_rmem to 4096 131072 many"), "{said}");
            let said = tried("net/ipv4/tcp_congestion_control", "nobody").unwrap_err();
            assert!(said.contains("this kernel does not take"), "{said}");
        })
        .unwrap();
}

/// One that watches over nothing: the kernel is told from this process.
fn idle(_: &Log, _: u64) -> Result<Watchdog, ActError> {
    let mut command = Command::new("sh");
    command.args(["-c", "printf x; cat"]);
    Watchdog::start(command)
}

/// One that is there before there is anything to watch over.
fn first(log: &Log, limit: u64) -> Result<Watchdog, ActError> {
    assert_ne!(Log::read(log.path()).unwrap().as_ref(), Some(log), "nothing is begun yet");
    idle(log, limit)
}

/// A namespace with a cable, a0 to b0; its queues, and a folder for logs.
struct Home {
    kernel: Kernel,
    folder: tempfile::TempDir,
    index: u32,
}

const OURS: &str = r#"
    [queue]
    kind = "htb"
    handle = "1:"
    default = "1:2"
    class = [ { id = "1:2", rate = "1Mbit", queue = { kind = "bfifo", handle = "20:", limit = "9000" } } ]
"#;

impl Home {
    fn within(test: impl FnOnce(Home) + Send) {
        let work = || {
            let mut stack = Stack::open().unwrap();
            let [a, b] = ["a0", "b0"].map(|name| VethEnd::new(name.parse().unwrap()));
            stack.create_veth(&a, &b).unwrap();
            let index = stack.index_of(&a.name).unwrap();
            let folder = tempfile::tempdir().unwrap();
            test(Home { kernel: Kernel::open().unwrap(), folder, index });
        };
        NetNs::new().unwrap().run(work).unwrap();
    }

    /// A tree for what leaves; and for what comes an IFB with the same, where that is wanted.
    fn goal(&self, tree: &str, download: bool) -> Goal {
        let root = Places { root: true, ingress: false };
        let mut goal = Goal::default();
        let mut a0 = DeviceGoal {
            name: "a0".into(),
            index: Some(self.index),
            places: root,
            things: things(tree),
        };
        if download {
            goal.links.push(LinkGoal { name: "i-a0".into(), mac: [2, 0, 0, 0, 0, 7], there: true });
            let (name, things_of) = ("i-a0".into(), things(tree));
            goal.devices.push(DeviceGoal { name, index: None, places: root, things: things_of });
            a0.places.ingress = true;
            a0.things.extend(things(ALL_TO_IFB));
        }
        goal.devices.push(a0);
        goal
    }

    fn asked(&self, tree: &str, download: bool) -> ApplyRequest<'_> {
        ApplyRequest {
            folder: self.folder.path(),
            device: "a0".into(),
            goal: self.goal(tree, download),
            wanted: "a test".into(),
            recipe: tree.to_owned(),
            command: "test".into(),
            replace: false,
            no_way_back: false,
            confirm_within: None,
            trial: true,
            watchdog: &first,
        }
    }

    fn apply(&mut self, tree: &str, download: bool, replace: bool) -> Result<Applied, ActError> {
        let mut kernel = Kernel::open().unwrap();
        apply(&mut kernel, &ApplyRequest { replace, ..self.asked(tree, download) })
    }

    fn off(&mut self, leave: Leave) -> Result<Applied, ActError> {
        let (folder, device, command) = (self.folder.path(), "a0", "test");
        off(&mut self.kernel, &OffRequest { folder, device, command, leave, watchdog: &idle })
    }

    /// Somebody else makes these queues, without a word to us.
    fn somebody_puts(&mut self, tree: &str, places: Places) -> Vec<Seen> {
        let (index, wanted) = (self.index, things(tree));
        let mut socket = Socket::open(Protocol::Route).unwrap();
        tc::lead_to(&mut socket, index, &[], places).unwrap();
        tc::lead_to(&mut socket, index, &wanted, places).unwrap();
        self.there()
    }

    fn there(&mut self) -> Vec<Seen> {
        self.all_of("a0", Some(self.index))
    }

    /// What another interface has.
    fn on(&mut self, name: &str) -> Vec<Seen> {
        self.all_of(name, None)
    }

    fn all_of(&mut self, name: &str, index: Option<u32>) -> Vec<Seen> {
        let goal = Goal {
            devices: vec![DeviceGoal {
                name: name.into(),
                index,
                places: Places::ALL,
                things: Vec::new(),
            }],
            ..Goal::default()
        };
        self.kernel.read(&goal).unwrap().before(&goal).devices.remove(0).things
    }
}

/// A kernel in which somebody else does something right before the steps of a change, behind its last look.
struct Meanwhile {
    kernel: Kernel,
    somebody: Option<Box<dyn FnOnce()>>,
}

impl Machine for Meanwhile {
    fn read(&mut self, goal: &Goal) -> Result<Now, Refusal> {
        self.kernel.read(goal)
    }

    fn carry_out(&mut self, change: &Change) -> Result<(), Refusal> {
        self.kernel.carry_out(change)
    }

    fn carry_all_out(&mut self, changes: &[Change]) -> Result<(), (usize, Refusal)> {
        self.somebody.take().into_iter().for_each(|somebody| somebody());
        self.kernel.carry_all_out(changes)
    }
}

impl Home {
    /// The same kernel, in which somebody makes these queues on a0 right before the next steps.
    fn meanwhile(&mut self, tree: &str, places: Places) -> Meanwhile {
        let (index, wanted) = (self.index, things(tree));
        let somebody = move || {
            let mut socket = Socket::open(Protocol::Route).unwrap();
            tc::lead_to(&mut socket, index, &[], places).unwrap();
            tc::lead_to(&mut socket, index, &wanted, places).unwrap();
        };
        Meanwhile { kernel: Kernel::open().unwrap(), somebody: Some(Box::new(somebody)) }
    }
}

#[test]
fn what_comes_right_before_the_steps_is_nobodys_to_take() {
    // A root queue of another name, and of the very name and kind that ours are to have; what filters hang on.
    let hook = Places { root: false, ingress: true };
    for (theirs, places) in [
        ("queue = { kind = \"bfifo\", handle = \"7:\", limit = \"9000\" }", ROOT),
        ("queue = { kind = \"htb\", handle = \"1:\" }", ROOT),
        ("ingress = {}", hook),
    ] {
        Home::within(|mut home| {
            let mut machine = home.meanwhile(theirs, places);
            let refused = apply(&mut machine, &home.asked(OURS, true)).unwrap_err();
            assert!(matches!(refused, ActError::Refused { .. }), "{refused}");
            let there = home.there();
            assert_ne!(there, [], "{theirs}");
            assert_eq!(there, home.somebody_puts(theirs, places), "{theirs}");
            let names = std::fs::read_dir(home.folder.path()).unwrap().map(|e| e.unwrap().path());
            assert_eq!(
                names.filter(|path| path.extension().is_some_and(|e| e == "undo")).count(),
                0
            );
        });
    }
}

#[test]
fn a_root_queue_that_comes_while_ours_is_taken_off_stays() {
    let theirs = "queue = { kind = \"bfifo\", handle = \"7:\", limit = \"9000\" }";
    for (download, leave) in [(false, Leave::Ask), (true, Leave::All), (true, Leave::Nothing)] {
        Home::within(|mut home| {
            home.apply(OURS, download, false).unwrap();
            let mut machine = home.meanwhile(theirs, ROOT);
            let (folder, device, command) = (home.folder.path(), "a0", "test");
            let asked = OffRequest { folder, device, command, leave, watchdog: &idle };
            let done = off(&mut machine, &asked).unwrap();
            let there = home.there();
            if leave == Leave::Nothing {
                assert_eq!(there, []);
                return;
            }
            assert!(done.said[0].contains("root queue 7: (bfifo) there since; it stays"));
            assert_eq!(there, home.somebody_puts(theirs, ROOT));
            let ifb = Stack::open().unwrap().index_of(&"i-a0".parse().unwrap());
            assert!(ifb.is_err(), "all else is off");
        });
    }
}

const ALL_TO_IFB: &str = r#"
    ingress = { filter = [ { kind = "u32", match = "u32 0 0 at 0", action = { redirect = "i-a0" } } ] }
"#;

const ROOT: Places = Places { root: true, ingress: false };

#[test]
fn a_strangers_queue_with_the_name_of_ours_is_not_taken_for_ours() {
    for (theirs, why) in [
        (OURS.replace("1:2", "1:7"), "htb class 1:7 under 1: is new"),
        ("queue = { kind = \"htb\", handle = \"1:\" }".to_owned(), "is gone"),
        // The very same, but for a figure.
        (OURS.replace("1Mbit", "3Mbit"), "htb class 1:2 under 1: has other options"),
    ] {
        Home::within(|mut home| {
            home.apply(OURS, false, false).unwrap();
            let theirs = home.somebody_puts(&theirs, ROOT);
            let said = home.apply(OURS, false, false).unwrap_err().to_string();
            assert!(said.contains("root queue 1: (htb) is not as Quell left it"), "{said}");
            assert!(said.contains(why) && said.contains("--replace"), "{said}");
            let said = home.off(Leave::Ask).unwrap_err().to_string();
            assert!(said.contains(why) && said.contains("off --replace"), "{said}");
            assert_eq!(home.there(), theirs, "nothing of it was touched");
            let done = home.off(Leave::All).unwrap();
            assert!(done.said[0].contains("it stays"), "{:?}", done.said);
            assert_eq!(home.there(), theirs);
            assert_eq!(
                home.off(Leave::All).unwrap_err().to_string(),
                "nothing on a0 was made by Quell"
            );
        });
    }
}

#[test]
fn what_a_stranger_put_in_the_place_of_ours_comes_back_and_a_figure_that_was_tried_does_not() {
    for (theirs, comes_back) in
        [(OURS.replace("1:2", "1:7"), true), (OURS.replace("1Mbit", "3Mbit"), false)]
    {
        Home::within(|mut home| {
            home.apply(OURS, false, false).unwrap();
            let theirs = home.somebody_puts(&theirs, ROOT);
            home.apply(OURS, false, true).unwrap();
            assert_ne!(home.there(), theirs);
            home.off(Leave::Ask).unwrap();
            assert_eq!(home.there(), if comes_back { theirs } else { Vec::new() });
        });
    }
}

#[test]
fn what_is_not_as_it_was_left_is_taken_off_where_that_is_asked_for() {
    Home::within(|mut home| {
        home.apply(OURS, true, false).unwrap();
        home.somebody_puts(&OURS.replace("1Mbit", "3Mbit"), ROOT);
        home.off(Leave::Nothing).unwrap();
        assert_eq!(home.there(), []);
    });
}

#[test]
fn a_change_that_was_cut_off_takes_back_its_own_and_no_strangers() {
    for (tree, stays) in [(OURS.replace("1:2", "1:7"), true), (OURS.to_owned(), false)] {
        Home::within(|mut home| {
            home.apply(OURS, false, false).unwrap();
            let space = NetNs::current().unwrap().inode();
            let mut log = quell_act::list(home.folder.path(), space).unwrap().remove(0);
            log.standing = Standing::Unfinished;
            let there = home.somebody_puts(&tree, ROOT);
            let done = roll_back(&mut home.kernel, log).unwrap();
            assert_eq!(home.there(), if stays { there } else { Vec::new() }, "{done:?}");
        });
    }
}

#[test]
fn an_ifb_that_somebody_deleted_is_made_again() {
    Home::within(|mut home| {
        let theirs = home.somebody_puts(&OURS.replace("1:2", "1:7"), ROOT);
        home.apply(OURS, true, true).unwrap();
        let whole = home.there();
        let mut stack = Stack::open().unwrap();
        let ifb = stack.index_of(&"i-a0".parse().unwrap()).unwrap();
        stack.delete_link(ifb).unwrap();
        assert!(home.there().iter().any(|seen| seen.raw.aims_at_nothing), "packets are lost there");
        // Nobody's leave is needed: it is ours.
        let done = home.apply(OURS, true, false).unwrap();
        assert_eq!(done.steps[0], "make the IFB i-a0");
        assert!(done.said[0].contains("interface that was deleted"), "{:?}", done.said);
        let places = |things: &[Seen]| {
            let mut all: Vec<_> = things.iter().map(|s| s.kind.clone()).collect();
            all.sort();
            all
        };
        assert_eq!(places(&home.there()), places(&whole));
        // Deleted once more, and off.
        let ifb = stack.index_of(&"i-a0".parse().unwrap()).unwrap();
        stack.delete_link(ifb).unwrap();
        home.off(Leave::Ask).unwrap();
        assert_eq!(home.there(), theirs);
    });
}

#[test]
fn a_filter_that_a_stranger_hung_beside_ours_outlives_ours() {
    Home::within(|mut home| {
        home.apply(OURS, true, false).unwrap();
        let both = r#"
            [[ingress.filter]]
            kind = "u32"
            match = "u32 0 0 at 0"
            action = { redirect = "i-a0" }
            [[ingress.filter]]
            kind = "u32"
            prio = 77
            match = "ip dst 10.0.0.9/32"
            action = { redirect = "b0" }
        "#;
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let hooks = Places { root: false, ingress: true };
        tc::lead_to(&mut socket, home.index, &things(both), hooks).unwrap();
        let said = home.apply(OURS, true, false).unwrap_err().to_string();
        assert!(said.contains("u32 filter 77"), "{said}");
        let done = home.off(Leave::Ask).unwrap();
        assert!(done.said[0].contains("u32 filter 77") && done.said.len() == 1, "{:?}", done.said);
        let left: Vec<String> =
            home.there().into_iter().map(|seen| quell_tc::Thing::Seen(seen).to_string()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left[1].starts_with("u32 filter 77"), "{left:?}");
    });
}

#[test]
fn an_interface_is_known_by_its_number_when_it_gets_another_name() {
    Home::within(|mut home| {
        home.apply(OURS, true, false).unwrap();
        let mut stack = Stack::open().unwrap();
        let name = |text: &str| text.parse::<LinkName>().unwrap();
        stack.change_link(home.index, &[LinkChange::Name(name("wan0"))]).unwrap();
        // A new one that takes the old name has nothing of ours.
        let [a, b] = ["a0", "c0"].map(|name| VethEnd::new(name.parse().unwrap()));
        stack.create_veth(&a, &b).unwrap();
        assert_eq!(
            home.off(Leave::Ask).unwrap_err().to_string(),
            "nothing on a0 was made by Quell"
        );
        let folder = home.folder.path().to_owned();
        let asked = OffRequest {
            folder: &folder,
            device: "wan0",
            command: "test",
            leave: Leave::Ask,
            watchdog: &idle,
        };
        off(&mut home.kernel, &asked).unwrap();
        assert_eq!(home.there(), []);
        assert!(stack.index_of(&name("i-a0")).is_err(), "its IFB is gone too");
    });
}

#[test]
fn an_ifb_that_got_another_name_is_ours_and_not_taken_from_under_what_was_in_force() {
    Home::within(|mut home| {
        home.apply(OURS, true, false).unwrap();
        let mut stack = Stack::open().unwrap();
        let name = |text: &str| text.parse::<LinkName>().unwrap();
        let ifb = stack.index_of(&name("i-a0")).unwrap();
        stack.change_link(ifb, &[LinkChange::Name(name("other0"))]).unwrap();
        let there = home.there();
        // A second change that is not confirmed: what comes in goes to the one with the other name again.
        home.apply(&OURS.replace("1Mbit", "2Mbit"), true, false).unwrap();
        assert_ne!(home.there(), there);
        let space = NetNs::current().unwrap().inode();
        let mut log = quell_act::list(home.folder.path(), space).unwrap().remove(0);
        log.standing = Standing::Unfinished;
        roll_back(&mut home.kernel, log).unwrap();
        assert_eq!(home.there(), there);
        assert_eq!(stack.index_of(&name("other0")).unwrap(), ifb);
        assert!(stack.index_of(&name("i-a0")).is_err());
        // All of ours goes, whatever it is called.
        home.apply(&OURS.replace("1Mbit", "2Mbit"), true, false).unwrap();
        home.off(Leave::Ask).unwrap();
        assert_eq!(home.there(), []);
        assert!(["i-a0", "other0"].iter().all(|ifb| stack.index_of(&name(ifb)).is_err()));
    });
}

#[test]
fn an_ifb_that_a_change_deleted_which_is_taken_back_comes_back_with_its_queues() {
    Home::within(|mut home| {
        home.apply(OURS, true, false).unwrap();
        let kinds = |seen: Vec<Seen>| {
            let mut all: Vec<_> =
                seen.into_iter().map(|seen| Thing::Seen(seen).to_string()).collect();
            all.sort();
            all
        };
        let (there, beyond) = (kinds(home.there()), home.on("i-a0"));
        home.apply(OURS, false, false).unwrap();
        assert_ne!(kinds(home.there()), there);
        let space = NetNs::current().unwrap().inode();
        let mut log = quell_act::list(home.folder.path(), space).unwrap().remove(0);
        log.standing = Standing::Unfinished;
        roll_back(&mut home.kernel, log).unwrap();
        assert_eq!(kinds(home.there()), there);
        assert_eq!(home.on("i-a0"), beyond);
        assert!(!home.there().iter().any(|seen| seen.raw.aims_at_nothing));
        assert_eq!(home.apply(OURS, true, false).unwrap().steps, [""; 0], "it is in force");
        home.off(Leave::Ask).unwrap();
        assert_eq!(home.there(), []);
    });
}

#[test]
fn an_interface_that_went_and_came_back_has_nothing_of_before() {
    Home::within(|mut home| {
        home.apply(OURS, true, false).unwrap();
        let mut stack = Stack::open().unwrap();
        stack.delete_link(home.index).unwrap();
        let [a, b] = ["a0", "b0"].map(|name| VethEnd::new(name.parse().unwrap()));
        stack.create_veth(&a, &b).unwrap();
        home.index = stack.index_of(&a.name).unwrap();
        home.apply(OURS, true, false).unwrap();
        assert_ne!(home.there(), []);
        home.off(Leave::Ask).unwrap();
        assert_eq!(home.there(), []);
    });
}

/// A queue as anybody makes one, here by the name that another interface's had before us.
const THEIRS: &str = r#"queue = { kind = "bfifo", handle = "7:", limit = "9000" }"#;

impl Home {
    /// The interface goes, and another one comes that has its name; somebody puts a queue there.
    fn another_takes_the_name(&mut self, tree: &str) -> Vec<Seen> {
        let mut stack = Stack::open().unwrap();
        stack.delete_link(self.index).unwrap();
        let [a, b] = ["a0", "b0"].map(|name| VethEnd::new(name.parse().unwrap()));
        stack.create_veth(&a, &b).unwrap();
        self.index = stack.index_of(&a.name).unwrap();
        self.somebody_puts(tree, ROOT)
    }

    /// The one log that there is, as that of a change that waits to be confirmed.
    fn log_of_one_that_waits(&self) -> Log {
        let space = NetNs::current().unwrap().inode();
        let mut log = quell_act::list(self.folder.path(), space).unwrap().remove(0);
        log.standing = Standing::Awaiting(1);
        log
    }
}

#[test]
fn an_interface_that_took_the_name_of_one_that_went_has_nothing_of_ours_to_take_back() {
    // What was there before us, on the one that went; ours and what is in the place of ours on the other one may be alike.
    for (before, after) in [(None, THEIRS), (Some(THEIRS), THEIRS), (Some(THEIRS), OURS)] {
        Home::within(|mut home| {
            let before = before.map(|tree| home.somebody_puts(tree, ROOT));
            home.apply(OURS, true, before.is_some()).unwrap();
            let theirs = home.another_takes_the_name(after);
            let mut stack = Stack::open().unwrap();
            let log = home.log_of_one_that_waits();
            roll_back(&mut home.kernel, log).unwrap();
            assert_eq!(home.there(), theirs);
            assert!(stack.index_of(&"i-a0".parse().unwrap()).is_err(), "its IFB is gone");
        });
    }
}

#[test]
fn a_second_change_that_waits_takes_nothing_from_another_of_the_name_and_neither_does_off() {
    Home::within(|mut home| {
        home.apply(OURS, true, false).unwrap();
        home.apply(&OURS.replace("1Mbit", "2Mbit"), true, false).unwrap();
        let theirs = home.another_takes_the_name(OURS);
        let log = home.log_of_one_that_waits();
        roll_back(&mut home.kernel, log).unwrap();
        assert_eq!(home.there(), theirs);
        // Whatever is asked for: the first one's are gone with it.
        home.off(Leave::Nothing).unwrap();
        assert_eq!(home.there(), theirs);
        assert!(Stack::open().unwrap().index_of(&"i-a0".parse().unwrap()).is_err());
    });
}

#[test]
fn a_step_that_the_kernel_refuses_among_hundreds_is_named_and_all_is_as_it_was() {
    Home::within(|mut home| {
        let theirs = home.somebody_puts(&OURS.replace("1:2", "1:7"), ROOT);
        let class = |n: u16| format!(r#"{{ id = "5:{n:x}", rate = "1Mbit", queue = "pfifo" }}, "#);
        let classes: String = (1..=300).map(class).collect();
        let tree = format!(
            "[queue]\nkind = \"htb\"\nhandle = \"5:\"\ndefault = \"5:1\"\nclass = [ {classes} ]"
        );
        let mut goal = home.goal(&tree, true);
        let wanted = Handle::class(5, 150);
        for thing in &mut goal.devices[0].things {
            if let Thing::Step(Step::Class { parent, id, .. }) = thing
                && *id == wanted
            {
                // Under a queue that nobody makes.
                *parent = Handle::qdisc(9);
            }
        }
        let asked = ApplyRequest {
            folder: home.folder.path(),
            device: "a0".into(),
            goal,
            wanted: "a test".into(),
            recipe: String::new(),
            command: "test".into(),
            replace: true,
            no_way_back: false,
            confirm_within: None,
            trial: false,
            watchdog: &first,
        };
        let refused = apply(&mut home.kernel, &asked).unwrap_err();
        let ActError::Refused { number, step, why, .. } = refused else { panic!("{refused}") };
        // The IFB, its root, then a class and its queue each.
        let words = "i-a0: make htb class 5:96 under 9:";
        assert_eq!((number, step.as_str()), (301, words), "{why}");
        assert_eq!(home.there(), theirs);
        let left = std::fs::read_dir(home.folder.path()).unwrap();
        let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|n| n.to_string_lossy().ends_with(".undo")), "{names:?}");
    });
}

/// Two hosts that are found at run time, and one class for the rest.
const FOUND: &str = r#"
    [queue]
    kind = "htb"
    handle = "1:"
    default = "1:1"
    class = [ { id = "1:1", rate = "1Mbit", queue = { kind = "htb", handle = "2:", default = "2:3", class = [
        { id = "2:1", rate = "1Gbit" }, { id = "2:2", rate = "1Gbit" }, { id = "2:3", rate = "1Gbit" } ], filter = [
        { kind = "classify", base = "2:1", host = "src", hosts = 2, other = "2:3", prio = 1 },
        { kind = "u32", match = "u32 0 0 at 0", class = "2:3", prio = 2 } ] } } ]
"#;

/// Whether this process may load the program; says so where it may not.
fn may_classify() -> bool {
    use quell_classify::{Classifier, Config, HostKey};
    match Classifier::load(&Config::cake(HostKey::Src).unwrap()) {
        Ok(_) => true,
        Err(error) if error.proves_no_program_loads() => {
            crate::left_out::kernel_lacks(error);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

impl Home {
    /// The numbers of the programs that are filters here.
    fn programs(&mut self) -> Vec<u32> {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let there = tc::snapshot(&mut socket, self.index).unwrap();
        there.filters.iter().filter_map(|filter| filter.program).collect()
    }
}

#[test]
fn hosts_keep_their_classes_whatever_else_is_changed() {
    if !may_classify() {
        return;
    }
    Home::within(|mut home| {
        home.apply(FOUND, true, false).unwrap();
        let programs = home.programs();
        assert_eq!(programs.len(), 1);
        assert_eq!(home.apply(FOUND, true, false).unwrap().steps, [""; 0]);
        let done = home.apply(&FOUND.replace("1Mbit", "2Mbit"), true, false).unwrap();
        assert_eq!(
            done.steps,
            ["i-a0: change htb class 1:1 under 1:", "a0: change htb class 1:1 under 1:"]
        );
        assert_eq!(home.programs(), programs, "it is the same one, with what it knows");
        // Other hosts are another program, which is there before the old one goes.
        let other = FOUND.replace("\"src\"", "\"dst\"").replace("1Mbit", "2Mbit");
        let done = home.apply(&other, true, false).unwrap();
        let ours: Vec<&str> =
            done.steps.iter().filter_map(|step| step.strip_prefix("a0: ")).collect();
        assert_eq!(ours, ["make classify filter 1 at 2:", "take bpf filter 1 (0x1) at 2: off"]);
        assert_ne!(home.programs(), programs);
        home.off(Leave::Ask).unwrap();
        assert_eq!(home.there(), []);
    });
}

#[test]
fn a_classifier_that_was_replaced_comes_back_by_its_name() {
    if !may_classify() {
        return;
    }
    Home::within(|mut home| {
        home.apply(FOUND, false, false).unwrap();
        let before = home.there();
        home.apply(OURS, false, false).unwrap();
        let space = NetNs::current().unwrap().inode();
        let mut log = quell_act::list(home.folder.path(), space).unwrap().remove(0);
        log.standing = Standing::Unfinished;
        roll_back(&mut home.kernel, log).unwrap();
        assert_eq!(home.there(), before, "byte for byte, and its program's hash");
        assert_eq!(home.apply(FOUND, false, false).unwrap().steps, [""; 0]);
    });
}

#[test]
fn a_program_of_somebody_else_is_not_taken_for_ours_and_cannot_come_back() {
    if !may_classify() {
        return;
    }
    Home::within(|mut home| {
        let mut tree: Tree = toml::from_str(FOUND).unwrap();
        let programs = quell_classify::ready_tree(&mut tree).unwrap();
        let named = |step: &mut Step| {
            if let Step::Filter { filter, .. } = step
                && let FilterKind::Bpf(Bpf { program: BpfProgram::Loaded { name, .. }, .. }) =
                    &mut filter.kind
            {
                "theirs".clone_into(name);
            }
        };
        let mut steps = tree.plan().unwrap().steps;
        steps.iter_mut().for_each(named);
        let theirs: Vec<Thing> = steps.into_iter().map(Thing::Step).collect();
        let mut socket = Socket::open(Protocol::Route).unwrap();
        tc::lead_to(&mut socket, home.index, &theirs, ROOT).unwrap();
        drop(programs);
        let said = home.apply(FOUND, false, false).unwrap_err().to_string();
        assert!(said.contains("root queue 1: (htb)") && said.contains("--replace"), "{said}");
        let said = home.apply(OURS, false, true).unwrap_err().to_string();
        assert!(said.contains("never shows its program"), "{said}");
    });
}
