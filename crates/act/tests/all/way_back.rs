//! The way back on a model of a machine: whatever is wanted, and wherever it ends, all is as it was.

use crate::model::{Model, Scene};
use proptest::prelude::*;
use quell_act::{
    ActError, ApplyRequest, Change, FileGoal, Goal, Leave, Log, Machine, OffRequest, Standing,
};
use quell_act::{SysctlGoal, Watchdog, apply, confirm, off, recover, roll_back, steps, take_off};
use quell_sys::clock::monotonic_ns;
use quell_tc::Tree;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// One that watches over nothing: the model is in this process.
fn idle(_: &Log, _: u64) -> Result<Watchdog, ActError> {
    let mut command = Command::new("sh");
    command.args(["-c", "printf x; cat"]);
    Watchdog::start(command)
}

fn asked(folder: &Path, goal: Goal) -> ApplyRequest<'_> {
    ApplyRequest {
        folder,
        device: "eth0".into(),
        goal,
        wanted: "a test".into(),
        recipe: String::new(),
        command: "quell shape apply".into(),
        replace: true,
        no_way_back: false,
        confirm_within: None,
        trial: false,
        watchdog: &idle,
    }
}

fn gone(folder: &Path) -> OffRequest<'_> {
    OffRequest { folder, device: "eth0", command: "test", leave: Leave::Ask, watchdog: &idle }
}

fn scene() -> impl Strategy<Value = Scene> {
    (0..crate::model::TREES.len(), any::<bool>(), 0u8..3, 0u8..3)
        .prop_map(|(tree, download, sysctl, file)| Scene { tree, download, sysctl, file })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn from_wherever_it_was_cut_the_way_back_leads_to_what_was_there(
        first in scene(),
        second in scene(),
        there_was in 0usize..4,
    ) {
        let mut machine = Model::new(there_was);
        let untouched = machine.clone();
        let lead = |machine: &mut Model, goal: &Goal, most: usize| {
            let now = machine.read(goal).unwrap();
            let before = now.before(goal);
            for step in steps(goal, &now).iter().take(most) {
                machine.carry_out(step).unwrap();
            }
            before
        };
        let mut goal = first.goal();
        let origin = lead(&mut machine, &goal, usize::MAX);
        prop_assert_eq!(steps(&goal, &machine.read(&goal).unwrap()), []);
        let between = machine.clone();
        goal = second.goal();
        goal.cover(&origin);
        let whole = steps(&goal, &machine.read(&goal).unwrap()).len();
        for most in 0..=whole {
            let mut machine = between.clone();
            let before = lead(&mut machine, &goal, most);
            lead(&mut machine, &Goal::from(&before), usize::MAX);
            prop_assert_eq!(machine.state(), between.state(), "after {} of {} steps", most, whole);
            // All of ours off, in one go.
            let mut machine = between.clone();
            let before = lead(&mut machine, &goal, most);
            let all = origin.clone().and(&before);
            lead(&mut machine, &Goal::from(&all), usize::MAX);
            prop_assert_eq!(machine.state(), untouched.state(), "off after {} of {}", most, whole);
        }
    }

    #[test]
    fn a_step_that_is_refused_leaves_all_as_it_was_and_is_named(
        scene in scene(),
        there_was in 0usize..4,
        at in 0usize..30,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut machine = Model::new(there_was);
        let untouched = machine.clone();
        let whole = steps(&scene.goal(), &machine.read(&scene.goal()).unwrap());
        machine.refuse_step(at);
        let wanted = ApplyRequest { no_way_back: true, ..asked(folder.path(), scene.goal()) };
        match apply(&mut machine, &wanted) {
            Ok(applied) => prop_assert!(applied.steps.len() <= at, "the step was never reached"),
            Err(ActError::Refused { number, of, step, why }) => {
                prop_assert_eq!((number, of), (at + 1, whole.len()));
                prop_assert_eq!(step, whole[at].to_string());
                prop_assert_eq!(why, "the model would not");
                prop_assert_eq!(machine.state(), untouched.state());
                prop_assert_eq!(names(folder.path()), Vec::<String>::new(), "the log is gone");
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

/// The logs in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name());
    let names = entries.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".undo")).collect()
}

fn whole_scene() -> Scene {
    Scene { tree: 1, download: true, sysctl: 1, file: 1 }
}

fn only_log(folder: &Path) -> Log {
    let name = names(folder).pop().expect("a log");
    Log::read(&folder.join(name)).unwrap().expect("a whole one")
}

#[test]
fn what_was_applied_and_confirmed_stays_and_off_takes_all_of_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(1);
    let untouched = machine.clone();
    let mut wanted = asked(folder.path(), whole_scene().goal());
    wanted.confirm_within = Some(60_000_000_000);
    let applied = apply(&mut machine, &wanted).unwrap();
    assert!(applied.steps.len() > 5, "{:?}", applied.steps);
    assert!(matches!(only_log(folder.path()).standing, Standing::Awaiting(_)));
    // Until it is confirmed there is no second one.
    let said = apply(&mut machine, &wanted).unwrap_err().to_string();
    assert!(said.contains("still waits"), "{said}");
    assert_eq!(confirm(folder.path(), None, "test").unwrap(), ["eth0"]);
    assert!(confirm(folder.path(), None, "test").is_err(), "nothing waits any more");
    assert_eq!(only_log(folder.path()).standing, Standing::Confirmed);
    // Again: nothing to do. Then another: only what differs.
    wanted.confirm_within = None;
    wanted.replace = false;
    assert_eq!(apply(&mut machine, &wanted).unwrap().steps, [""; 0]);
    let second = Scene { tree: 2, download: false, sysctl: 2, file: 0 };
    apply(&mut machine, &asked(folder.path(), second.goal())).unwrap();
    off(&mut machine, &gone(folder.path())).unwrap();
    assert_eq!(machine.state(), untouched.state());
    assert_eq!(names(folder.path()), [""; 0]);
    assert!(off(&mut machine, &gone(folder.path())).is_err());
}

#[test]
fn whoever_confirms_too_late_is_told_what_becomes_of_it_and_what_is_in_time_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(0);
    for (device, value, within) in [("eth0", "1", 1), ("eth1", "2", 60_000_000_000)] {
        let goal = Goal { files: Vec::new(), ..settings_and_files(value) };
        let confirm_within = Some(within);
        let wanted =
            ApplyRequest { device: device.into(), confirm_within, ..asked(folder.path(), goal) };
        apply(&mut machine, &wanted).unwrap();
    }
    let confirmed =
        || confirm(folder.path(), None, "quell shape confirm").map_err(|e| e.to_string());
    // Its watchdog is none.
    let late = confirmed().unwrap_err();
    assert!(
        late.contains("eth0: not confirmed in time") && late.contains("quell shape recover"),
        "{late}"
    );
    assert!(late.ends_with("eth1: what is in force stays"), "{late}");
    assert_eq!(recover(&mut machine, folder.path(), "test").unwrap().len(), 1);
    assert!(confirmed().unwrap_err().contains("not confirmed in time was taken back"));
    // Another change that waits is what is confirmed, and nothing is told of the one before.
    let goal = Goal { files: Vec::new(), ..settings_and_files("3") };
    let wanted =
        ApplyRequest { confirm_within: Some(60_000_000_000), ..asked(folder.path(), goal) };
    apply(&mut machine, &wanted).unwrap();
    assert_eq!(confirmed().unwrap(), ["eth0"]);
    assert!(confirmed().unwrap_err().starts_with("no change waits"));
}

#[test]
fn others_queues_are_shown_and_not_touched_unless_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(1);
    let untouched = machine.clone();
    let mut wanted = asked(folder.path(), whole_scene().goal());
    wanted.replace = false;
    let said = apply(&mut machine, &wanted).unwrap_err().to_string();
    assert!(said.contains("eth0: root queue 8001: (odd)") && said.contains("--replace"), "{said}");
    assert_eq!(machine.state(), untouched.state());
    // One that hides something needs more than that.
    let mut machine = Model::new(3);
    wanted.replace = true;
    let said = apply(&mut machine, &wanted).unwrap_err().to_string();
    assert!(said.contains("never shows its secret") && said.contains("--no-way-back"), "{said}");
    wanted.no_way_back = true;
    let done = apply(&mut machine, &wanted).unwrap();
    assert!(done.said[0].contains("can't be brought back"), "{:?}", done.said);
}

#[test]
fn an_applier_that_died_is_found_and_what_it_began_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(2);
    let untouched = machine.clone();
    // A watchdog that fails to start leaves a log when the applier dies just then.
    machine.die_at_step(4);
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        apply(&mut machine, &asked(folder.path(), whole_scene().goal()))
    }));
    assert!(died.is_err());
    assert_ne!(machine.state(), untouched.state());
    assert_eq!(only_log(folder.path()).standing, Standing::Unfinished);
    let said = apply(&mut machine, &asked(folder.path(), whole_scene().goal())).unwrap_err();
    assert!(said.to_string().contains("quell shape recover"), "{said}");
    let done = recover(&mut machine, folder.path(), "test").unwrap();
    assert_eq!(done[0].0, "eth0");
    assert_eq!(machine.state(), untouched.state());
    assert_eq!(recover(&mut machine, folder.path(), "test").unwrap(), []);
}

#[test]
fn a_queue_that_somebody_put_there_since_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(0);
    let scene = Scene { tree: 1, download: false, sysctl: 0, file: 0 };
    apply(&mut machine, &asked(folder.path(), scene.goal())).unwrap();
    machine.put_root("eth0", r#"queue = { kind = "sfq", handle = "77:" }"#);
    let theirs = machine.state();
    let done = off(&mut machine, &gone(folder.path())).unwrap();
    assert!(
        done.said[0].contains("root queue 77: (sfq), which somebody has put there since, stays"),
        "{:?}",
        done.said
    );
    assert_eq!(machine.state(), theirs);
}

#[test]
fn what_changes_between_the_look_and_the_lock_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(0);
    machine.at_second_look(r#"queue = { kind = "sfq", handle = "77:" }"#);
    let done = apply(&mut machine, &asked(folder.path(), whole_scene().goal()));
    assert_eq!(done.unwrap_err(), ActError::Changed);
    assert_eq!(names(folder.path()), [""; 0]);
}

/// A goal of settings and files alone, the second file of which leans on the first.
fn settings_and_files(value: &str) -> Goal {
    let file = |path: &str, text: &str| FileGoal {
        path: path.into(),
        content: Some((text.as_bytes().to_vec(), 0o644)),
    };
    Goal {
        sysctls: vec![SysctlGoal { key: "a/b".into(), value: value.into() }],
        files: vec![file("/var/record", "what was"), file("/etc/boot", "what is to be")],
        ..Goal::default()
    }
}

#[test]
fn files_go_in_the_reverse_of_the_order_in_which_they_came() {
    let mut machine = Model::new(0);
    let goal = settings_and_files("1");
    let now = machine.read(&goal).unwrap();
    let words = |goal: &Goal, machine: &mut Model| -> Vec<String> {
        let todo = steps(goal, &machine.read(goal).unwrap());
        todo.iter().for_each(|step| machine.carry_out(step).unwrap());
        todo.iter().map(ToString::to_string).collect()
    };
    let there = words(&goal, &mut machine);
    assert_eq!(there, ["set a/b to 1", "write /var/record", "write /etc/boot"]);
    let back = words(&Goal::from(&now.before(&goal)), &mut machine);
    assert_eq!(back, ["set a/b to 0", "take /etc/boot away", "take /var/record away"]);
}

#[test]
fn a_value_with_tabs_is_the_same_as_one_with_blanks() {
    let mut machine = Model::new(0);
    machine.carry_out(&settings_step("1\t2\t3")).unwrap();
    let goal = Goal { files: Vec::new(), ..settings_and_files("1 2 3") };
    assert_eq!(steps(&goal, &machine.read(&goal).unwrap()), []);
    let goal = Goal { files: Vec::new(), ..settings_and_files("1 23") };
    assert_eq!(steps(&goal, &machine.read(&goal).unwrap()).len(), 1);
}

fn settings_step(value: &str) -> Change {
    Change::Sysctl(SysctlGoal { key: "a/b".into(), value: value.into() })
}

#[test]
fn what_somebody_kept_over_a_boot_is_brought_back_though_no_log_knows_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(0);
    let goal = settings_and_files("1");
    let before = machine.read(&goal).unwrap().before(&goal);
    let untouched = machine.clone();
    apply(&mut machine, &asked(folder.path(), goal)).unwrap();
    only_log(folder.path()).over().unwrap();
    let kept = |log: Option<&Log>| {
        assert!(log.is_none(), "the boot took it");
        Ok(before.clone())
    };
    let done = take_off(&mut machine, folder.path(), "eth0", "test", &idle, &kept).unwrap();
    assert_eq!(done.steps.len(), 3, "{:?}", done.steps);
    assert_eq!(machine.state(), untouched.state());
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn one_who_changes_things_is_named_to_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let space = quell_sys::netns::NetNs::current().unwrap().inode();
    let _held = quell_act::Lock::take(folder.path(), space, "`quell tune` (process 7)").unwrap();
    let mut machine = Model::new(0);
    let said = apply(&mut machine, &asked(folder.path(), whole_scene().goal())).unwrap_err();
    assert!(said.to_string().contains("`quell tune` (process 7) is changing"), "{said}");
}

#[test]
fn a_log_with_a_torn_end_counts_up_to_there_and_one_that_can_not_be_written_stops_all() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(1);
    let untouched = machine.clone();
    let mut wanted = asked(folder.path(), whole_scene().goal());
    wanted.confirm_within = Some(60_000_000_000);
    apply(&mut machine, &wanted).unwrap();
    let log = only_log(folder.path());
    let whole = std::fs::read(log.path()).unwrap();
    for cut in 1..12 {
        std::fs::write(log.path(), &whole[..whole.len() - cut]).unwrap();
        let torn = log.again().unwrap().expect("the first record is whole");
        assert_eq!(torn.standing, Standing::Unfinished, "without its last {cut} bytes");
    }
    // Cut anywhere in its first record, which can't be, it is refused and nothing is taken for granted.
    std::fs::write(log.path(), &whole[..20]).unwrap();
    assert!(log.again().is_err());
    std::fs::write(log.path(), &whole[..whole.len() - 1]).unwrap();
    roll_back(&mut machine, log.again().unwrap().unwrap()).unwrap();
    assert_eq!(machine.state(), untouched.state());
    // Where a folder should be is a file.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let said = apply(&mut machine, &asked(&file, whole_scene().goal())).unwrap_err().to_string();
    assert!(said.contains("file"), "{said}");
    assert_eq!(machine.state(), untouched.state());
}

#[test]
fn an_empty_log_is_not_taken_for_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(1);
    apply(&mut machine, &asked(folder.path(), whole_scene().goal())).unwrap();
    let path = only_log(folder.path()).path().to_owned();
    std::fs::write(&path, "").unwrap();
    let said = off(&mut machine, &gone(folder.path())).unwrap_err().to_string();
    assert!(said.contains("it is empty") && said.contains("tc qdisc del"), "{said}");
}

#[test]
fn when_a_second_change_is_refused_the_first_is_in_force_with_all_that_is_known_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(0);
    let first =
        ApplyRequest { recipe: "first".into(), ..asked(folder.path(), whole_scene().goal()) };
    apply(&mut machine, &first).unwrap();
    let ours = machine.state();
    let goal = Scene { tree: 2, download: false, sysctl: 2, file: 0 }.goal();
    let second =
        ApplyRequest { recipe: "second".into(), replace: false, ..asked(folder.path(), goal) };
    machine.refuse_step(2);
    apply(&mut machine, &second).unwrap_err();
    assert_eq!(machine.state(), ours);
    assert_eq!(only_log(folder.path()).begun.recipe, "first");
    // It is still known to be ours.
    apply(&mut machine, &second).unwrap();
}

#[test]
fn what_a_watchdog_left_that_was_killed_is_swept_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(0);
    let space = quell_sys::netns::NetNs::current().unwrap().inode();
    let file = |pid| folder.path().join(format!("{space}-eth0.{pid}.watch"));
    std::fs::write(file(7), "").unwrap();
    let alive = std::fs::File::create(file(8)).unwrap();
    alive.try_lock().unwrap();
    apply(&mut machine, &asked(folder.path(), whole_scene().goal())).unwrap();
    assert!(!file(7).exists() && file(8).exists());
}

#[test]
fn without_a_watchdog_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Model::new(1);
    let untouched = machine.clone();
    let dies = |_: &Log, _: u64| Watchdog::start(Command::new("true"));
    let wanted = ApplyRequest { watchdog: &dies, ..asked(folder.path(), whole_scene().goal()) };
    let said = apply(&mut machine, &wanted).unwrap_err().to_string();
    assert!(said.contains("without a watchdog nothing was changed"), "{said}");
    assert_eq!(machine.state(), untouched.state());
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn thousands_of_steps_have_more_time_than_a_few() {
    let folder = tempfile::tempdir().unwrap();
    let class = |n: u16| format!(r#"{{ id = "1:{n:x}", rate = "1Mbit" }}, "#);
    let classes: String = (1..=3000).map(class).collect();
    let tree = format!(r#"queue = {{ kind = "htb", handle = "1:", class = [ {classes} ] }}"#);
    let mut goal = Scene { tree: 0, download: false, sysctl: 0, file: 0 }.goal();
    goal.devices[0].things = toml::from_str::<Tree>(&tree).unwrap().plan().unwrap().things();
    // The limit, and what was left of it: a machine that is busy takes some of that.
    static LIMIT_NS: AtomicU64 = AtomicU64::new(0);
    static LEFT_NS: AtomicU64 = AtomicU64::new(0);
    let watchdog = |log: &Log, limit: u64| {
        LIMIT_NS.store(limit, Ordering::Relaxed);
        LEFT_NS.store(limit - monotonic_ns(), Ordering::Relaxed);
        idle(log, limit)
    };
    let wanted = ApplyRequest { watchdog: &watchdog, ..asked(folder.path(), goal) };
    let begun = monotonic_ns();
    apply(&mut Model::new(0), &wanted).unwrap();
    let had = LIMIT_NS.load(Ordering::Relaxed) - begun;
    let left = LEFT_NS.load(Ordering::Relaxed);
    let is_so = had >= 75_000_000_000 && left < 76_000_000_000;
    assert!(is_so, "a minute and 5 ms for each of 3001 steps: {had} ns, of which {left} were left");
}
