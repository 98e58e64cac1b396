//! `quell shape` on real interfaces, in namespaces of the tests' own.
//!
//! ```text
//!   here: a0 ══════ b0 :there        quell show --list here; its logs are in a folder of the test's
//! ```

use crate::support::cable::{Cable, THEIRS, wide};
use crate::support::{TestFolder, said, says};
use nix::mount::{MsFlags, mount};
use nix::sched::CloneFlags;
use quell_netlink::Stack;
use quell_netlink::link::LinkChange;
use std::io::Write;
use std::os::unix::process::CommandExt;

#[test]
fn a_plan_says_in_two_lines_what_it_would_do_or_every_step_and_touches_nothing() {
    let cable = Cable::new();
    cable.dir.write("t.toml", wide(2, "1Mbit"));
    let plan = ["plan", "--dev", "a0", "--tree", "t.toml"];
    let out = cable.shape(&plan).fine();
    assert_eq!(out.lines().count(), 2, "{out}");
    says(&out, &["a0: the tree t.toml", "6 steps would put it in force; nothing was touched"]);
    let out = cable.shape(&[&plan[..], &["--steps", "--tc"]].concat()).fine();
    let wanted = [
        "wanted:\n  a0\n    htb 1: default 2\n      class 1:2 htb rate 1Mbit",
        "6 steps:",
        "a0: make root queue 1: (htb)",
        "tc qdisc replace dev a0 root handle 1: htb default 2",
        "tc class replace dev a0 parent 1: classid 1:3 htb rate 1Mbit",
    ];
    says(&out, &wanted);
    assert_eq!(cable.things(), []);
    assert_eq!(cable.logs(""), [""; 0], "no log, no lock");
    let said = cable.shape(&["plan", "--dev", "a9", "--tree", "t.toml"]).refused(2);
    says(&said, &["no interface `a9`", "a0"]);
}

#[test]
fn what_somebody_took_away_is_not_said_to_be_in_force() {
    let cable = Cable::new();
    cable.dir.write("t.toml", wide(2, "1Mbit"));
    let apply = ["apply", "--dev", "a0", "--tree", "t.toml"];
    cable.shape(&apply).fine();
    says(&cable.shape(&["status", "--json"]).fine(), &["\"in_order\": true"]);
    cable.put("[queue]\nkind = \"pfifo\"\nhandle = \"9:\"\nlimit = 7\n");
    let said = cable.shape(&["status", "--json"]);
    assert_eq!(said.code, Some(1), "{}", said.out);
    says(
        &said.out,
        &["\"in_order\": false", "no longer as it was applied", "apply --replace, or off"],
    );
}

#[test]
fn what_is_applied_is_in_force_and_off_brings_back_what_was_there() {
    let cable = Cable::new();
    let theirs = cable.put(THEIRS);
    cable.dir.write("t.toml", wide(3, "1Mbit"));
    let apply = ["apply", "--dev", "a0", "--tree", "t.toml"];
    let said = cable.shape(&apply).refused(1);
    says(&said, &["somebody else's queues", "a0: root queue 1: (htb)", "--replace", "off"]);
    assert_eq!(cable.things(), theirs);
    let out = cable.shape(&[&apply[..], &["--replace"]].concat()).fine();
    says(&out, &["a0: as wanted, by 9 steps", "take it off: quell shape off --dev a0"]);
    assert!(out.lines().count() <= 5, "{out}");
    says(&cable.shape(&["status"]).fine(), &["a0: the tree t.toml; in force", "htb 1:"]);
    // Once more: nothing differs, and nobody's leave is needed. Then one rate: one change.
    says(&cable.shape(&apply).fine(), &["a0: all was as wanted"]);
    says(&cable.shape(&[&apply[..], &["--json"]].concat()).fine(), &["\"changed\": false"]);
    let metrics = cable.shape(&["status", "--metrics"]).fine();
    says(&metrics, &["quell_shape_in_order{device=\"a0\"} 1", "direction=\"up\",host=\"\""]);
    cable.dir.write("t.toml", wide(3, "1Mbit").replacen("1Mbit", "2Mbit", 1));
    let out = cable.shape(&apply).fine();
    says(&out, &["  a0: change htb class 1:2 under 1:\na0: as wanted, by 1 step"]);
    let out = cable.shape(&["off", "--dev", "a0"]).fine();
    says(&out, &["a0: as it was before"]);
    assert_eq!(cable.things(), theirs);
    says(&cable.shape(&["status"]).fine(), &["nothing of Quell's is in force"]);
    says(&cable.shape(&["off", "--dev", "a0"]).refused(1), &["nothing on a0 was made by Quell"]);
    cable.until_no_watchdog_lives();
    assert_eq!(cable.logs(".undo"), [""; 0]);
}

#[test]
fn what_was_renamed_is_found_by_its_new_name() {
    let cable = Cable::new();
    let rename = |from: &str, to: &str| {
        let work = || {
            let mut stack = Stack::open().unwrap();
            let index = stack.index_of(&from.parse().unwrap()).unwrap();
            stack.change_link(index, &[LinkChange::Up(false)]).unwrap();
            stack.change_link(index, &[LinkChange::Name(to.parse().unwrap())]).unwrap();
            stack.up(index).unwrap();
        };
        cable.here.run(work).unwrap();
    };
    let apply = ["apply", "--dev", "a0", "--line", "10/50", "--policy", "tiers"];
    cable.shape(&apply).fine();
    rename("a0", "a9");
    let said = cable.shape(&["off", "--dev", "a0"]).refused(1);
    says(&said, &["a0 is named a9 now", "--dev a9"]);
    let said = cable.shape(&["status"]);
    assert_eq!(said.code, Some(1));
    says(&said.out, &["its interface is named a9 now", "off --dev a9"]);
    // The IFB is known by its address.
    rename("i-a0", "ifbx");
    cable.shape(&["off", "--dev", "a9"]).fine();
    let links = cable.here.run(|| Stack::open().unwrap().links().unwrap()).unwrap();
    assert!(links.iter().all(|link| link.kind.as_deref() != Some("ifb")), "{links:?}");
}

#[test]
fn what_nobody_confirms_is_taken_back_and_what_is_confirmed_stays() {
    let cable = Cable::new();
    let theirs = cable.put(THEIRS);
    cable.dir.write("t.toml", wide(3, "1Mbit"));
    let apply = ["apply", "--dev", "a0", "--tree", "t.toml", "--replace", "--confirm-within"];
    let out = cable.shape(&[&apply[..], &["1s"]].concat()).fine();
    says(&out, &["in force for 1s", "to keep it: quell shape confirm --state state"]);
    cable.until_no_watchdog_lives();
    assert_eq!(cable.things(), theirs, "a second later all is as it was, with nobody there");
    for confirm in [&["confirm"][..], &["confirm", "--dev", "a0"]] {
        says(&cable.shape(confirm).refused(1), &["not confirmed in time was taken back"]);
    }
    says(&cable.shape(&["confirm", "--dev", "a1"]).refused(1), &["no change of a1 waits"]);
    let out = cable.shape(&[&apply[..], &["1h"]].concat()).fine();
    says(&out, &["in force for 1h"]);
    says(&cable.shape(&["status"]).fine(), &["unless: quell shape confirm"]);
    let ours = cable.things();
    assert_ne!(ours, theirs);
    says(&cable.shape(&["confirm"]).fine(), &["a0: what is in force stays"]);
    // It sees the word in the log and ends, an hour early.
    cable.until_no_watchdog_lives();
    assert_eq!(cable.things(), ours);
    says(&cable.shape(&["confirm"]).refused(1), &["no change waits"]);
}

#[test]
fn a_tree_that_the_kernel_refuses_is_found_out_before_anything_is_touched() {
    let cable = Cable::new();
    let theirs = cable.put(THEIRS);
    cable.dir.write(
        "t.toml",
        r#"queue = { kind = "htb", class = [ { id = "1:1", rate = "1Mbit", queue = "mq" } ] }"#,
    );
    for what in [&["plan"][..], &["apply", "--replace"]] {
        let all = [what, &["--dev", "a0", "--tree", "t.toml"]].concat();
        says(
            &cable.shape(&all).refused(3),
            &["this kernel does not take", "queue 2: (mq) in class 1:1", "nothing was changed"],
        );
    }
    assert_eq!(cable.things(), theirs);
    assert_eq!(cable.logs(".undo"), [""; 0]);
}

#[test]
fn what_is_planned_is_what_is_applied_and_a_kernel_that_lacks_something_is_told_what() {
    let cable = Cable::new();
    let hosts = ["--line", "10/50", "--host", "192.0.2.7,2001:db8::7", "--host", "192.0.2.8"];
    for asked in [&["--line", "10/50"][..], &["--line", "10/50", "--policy", "tiers"], &hosts] {
        let with = |what: &'static str| [&[what, "--dev", "a0", "--json"], asked].concat();
        let steps = |text: String| {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            (value["steps"].clone(), value["remarks"].clone())
        };
        let plan = cable.shape(&with("plan"));
        if plan.code != Some(0) {
            says(&plan.refused(3), &["this kernel lacks", "load or build", "CONFIG_NET_"]);
            assert_eq!(asked, hosts, "the others need less");
            continue;
        }
        let planned = steps(plan.fine());
        let mut applied = steps(
            cable.shape(&[&with("apply")[..], &["--confirm-within", "never"]].concat()).fine(),
        );
        if let Some(remarks) = applied.1.as_array_mut() {
            remarks.retain(|remark| !remark.as_str().unwrap().starts_with("in force for"));
        }
        assert_eq!(planned, applied, "{asked:?}");
        says(&cable.shape(&["status", "--json"]).fine(), &["\"in_order\": true"]);
        cable.shape(&["off", "--dev", "a0"]).fine();
        assert_eq!(cable.things(), []);
    }
}

#[test]
fn who_may_not_change_queues_is_told_so_at_once() {
    let cable = Cable::new();
    cable.dir.write("t.toml", wide(2, "1Mbit"));
    for what in [
        &["apply", "--dev", "a0", "--tree", "t.toml"][..],
        &["off", "--dev", "a0"],
        &["confirm"],
        &["recover"],
    ] {
        let all = [&["shape"], what, &["--state", "state"]].concat();
        let powerless = || {
            let mut command = cable.dir.command(&all);
            // SAFETY: one system call.
            unsafe {
                command.pre_exec(|| {
                    // CAP_NET_ADMIN; who is not root has it not anyway.
                    nix::libc::prctl(nix::libc::PR_CAPBSET_DROP, 12, 0, 0, 0);
                    Ok(())
                });
            }
            said(command, &all)
        };
        let said = cable.here.run(powerless).unwrap().refused(3);
        says(&said, &["CAP_NET_ADMIN", "nothing was changed", "sudo"]);
    }
    assert_eq!(cable.logs(""), [""; 0]);
}

#[test]
fn on_a_full_disk_queues_still_go_off() {
    let cable = Cable::new();
    let theirs = cable.put(THEIRS);
    cable.dir.write("t.toml", wide(3, "1Mbit"));
    let state = cable.dir.path("state");
    std::fs::create_dir(&state).unwrap();
    // A mount that this thread and its children see.
    std::thread::scope(|scope| {
        let work = || {
            nix::sched::unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).unwrap();
            let none = None::<&str>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            mount(
                Some("tmpfs"),
                &state,
                Some("tmpfs"),
                MsFlags::empty(),
                Some("size=64k,mode=700"),
            )
            .unwrap();
            let apply = [
                "apply",
                "--dev",
                "a0",
                "--tree",
                "t.toml",
                "--replace",
                "--confirm-within",
                "never",
            ];
            cable.shape(&apply).fine();
            assert_ne!(cable.things(), theirs);
            // The log fills its pages to the end as well.
            let log = state.join(cable.logs(".undo").pop().unwrap());
            let mut full = std::fs::File::create(state.join("big")).unwrap();
            while full.write(&[0; 4096]).is_ok() {}
            let mut log = std::fs::OpenOptions::new().append(true).open(log).unwrap();
            while log.write(&[0; 1]).is_ok() {}
            let out = cable.shape(&["off", "--dev", "a0"]).fine();
            says(&out, &["a0: as it was before", "nobody watched over this", "No space left"]);
            assert_eq!(cable.things(), theirs);
            assert_eq!(cable.logs(".undo"), [""; 0]);
        };
        scope.spawn(work).join().unwrap();
    });
}

#[test]
fn wherever_it_is_killed_all_is_as_it_was() {
    let cable = Cable::new();
    let theirs = cable.put(THEIRS);
    cable.dir.write("t.toml", wide(60, "1Mbit"));
    let times = std::env::var("QUELL_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(12u64);
    let apply = ["apply", "--dev", "a0", "--tree", "t.toml", "--replace"];
    cable.killed_anywhere(&apply, &theirs, times);
}

#[test]
fn off_that_is_killed_anywhere_was_not_begun_or_is_ended_by_who_watches() {
    let cable = Cable::new();
    let theirs = cable.put(THEIRS);
    cable.dir.write("t.toml", wide(60, "1Mbit"));
    let times = std::env::var("QUELL_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(10u64);
    let apply =
        ["apply", "--dev", "a0", "--tree", "t.toml", "--replace", "--confirm-within", "never"];
    cable.off_killed_anywhere(&apply, &theirs, times);
}

#[test]
fn a_recipe_or_a_word_that_can_not_find_hosts_says_so() {
    let cable = Cable::new();
    let recipe = ["recipe", "--line", "10/50", "--for", "tc", "--policy", "host-fair"];
    let said = cable.dir.quell(&[&["shape"], &recipe[..]].concat()).refused(2);
    says(&said, &["program that Quell loads", "--host", "--policy cake"]);
    let said =
        cable.shape(&["plan", "--dev", "a0", "--line", "10/50", "--hosts-by", "marks"]).refused(2);
    says(&said, &["`marks` tells no hosts apart", "mark"]);
}

#[test]
fn what_persists_is_a_file_that_applies_the_same_and_off_takes_it_away() {
    let cable = Cable::new();
    cable.dir.write("t.toml", wide(3, "1Mbit"));
    let persist = ["persist", "--dev", "a0", "--root", "root"];
    std::fs::create_dir_all(cable.dir.path("root/etc")).unwrap();
    says(&cable.shape(&persist).refused(1), &["nothing of Quell's is in force on a0", "apply"]);
    let apply = ["apply", "--dev", "a0", "--tree", "t.toml", "--confirm-within"];
    cable.shape(&[&apply[..], &["1h"]].concat()).fine();
    says(&cable.shape(&persist).refused(1), &["waits to be confirmed", "quell shape confirm"]);
    cable.shape(&["confirm"]).fine();
    let ours = cable.things();
    let slip = ["persist", "--dev", "a0", "--root", "rooot"];
    says(&cable.shape(&slip).refused(2), &["there is no folder rooot/etc", "--root"]);
    assert!(!cable.dir.path("rooot").exists());
    says(&cable.shape(&persist).fine(), &["root/etc/quell/shape/a0.toml", "daemon-reload"]);
    let units = cable.dir.path("root/etc/systemd/system");
    let wants = units.join("sys-subsystem-net-devices-a0.device.wants/quell-shape@a0.service");
    let unit = std::fs::read_to_string(wants).expect("the link leads to the unit");
    says(&unit, &["shape apply --dev %I --file /etc/quell/shape/%I.toml --confirm-within never"]);
    // The interface went and came back: what the unit does then.
    says(
        &cable.shape(&["off", "--dev", "a0", "--root", "root", "--for-now"]).fine(),
        &["as it was"],
    );
    assert_eq!(cable.things(), []);
    let file = "root/etc/quell/shape/a0.toml";
    let again = ["apply", "--dev", "a0", "--file", file, "--confirm-within", "never"];
    cable.shape(&again).fine();
    assert_eq!(cable.things(), ours);
    let out = cable.shape(&["off", "--dev", "a0", "--root", "root"]).fine();
    says(&out, &["a0.toml is gone", "quell-shape@.service is gone"]);
    assert!(!cable.dir.path("root/etc/quell").exists(), "as it was found");
    assert_eq!(cable.things(), []);
}

#[test]
fn a_policy_file_with_an_unknown_key_is_refused_with_its_line() {
    let cable = Cable::new();
    cable.dir.write("p.toml", "line = \"10/50\"\nlinks = \"docsis\"\n");
    let said = cable.shape(&["plan", "--dev", "a0", "--file", "p.toml"]).refused(2);
    says(&said, &["p.toml", "line 2", "links"]);
    let said = cable.shape(&["plan", "--dev", "a0", "--line", "10/50", "--policy", "cakes"]);
    says(&said.refused(2), &["`cakes` is no policy", "did you mean `cake`?"]);
    says(&cable.shape(&["plan", "--dev", "a0"]).refused(2), &["what rate?"]);
}

#[test]
fn a_recipe_for_openwrt_is_read_back_as_what_plan_wants() {
    let cable = Cable::new();
    let line = ["--line", "10/50", "--link", "pppoe-ptm", "--overhead", "4"];
    let recipe = ["shape", "recipe", "--for", "openwrt", "--dev", "a0", "--json"];
    let out = cable.dir.quell(&[&recipe[..], &line].concat()).fine();
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["lab"], serde_json::Value::Null);
    assert_eq!(told["pieces"][0]["place"], "/etc/config/sqm");
    cable.dir.write("sqm", told["pieces"][0]["text"].as_str().unwrap());
    let read = cable.dir.quell(&["shape", "import", "sqm", "sqm"]).fine();
    assert!(!read.contains("left out"), "{read}");
    cable.dir.write("p.toml", read);
    // Of another policy, since not every kernel has CAKE: the line is the same.
    let plan = ["plan", "--dev", "a0", "--policy", "tiers", "--steps"];
    let asked = cable.shape(&[&plan[..], &line].concat()).fine();
    let imported = cable.shape(&[&plan[..], &["--file", "p.toml"]].concat()).fine();
    says(&asked, &["i-a0: make root queue 1: (htb)", "a0: make root queue 1: (htb)"]);
    assert_eq!(imported, asked);
}

#[test]
fn a_recipe_says_what_its_target_can_not_and_is_for_names_that_mean_themselves() {
    let dir = TestFolder::new();
    let recipe = |more: &[&str]| {
        dir.quell(&[&["shape", "recipe", "--line", "10/50", "--for"], more].concat())
    };
    let out = recipe(&["networkd"]).fine();
    let lines = [
        "# eth0 is taken for the interface that leads to the internet there",
        "# ── /etc/systemd/network/25-i-eth0.netdev",
        "can't feed it, having no filters",
        "ExecStart=tc filter add dev eth0",
    ];
    says(&out, &lines);
    says(&recipe(&["openwrt"]).fine(), &["option interface 'wan'", "option download '47500'"]);
    says(&recipe(&["tc", "--policy", "tiers"]).fine(), &["not tried", "htb", "ip link del i-eth0"]);
    let tiers = ["networkd", "--policy", "tiers"];
    says(&recipe(&tiers).refused(2), &["tiers can't be said for networkd", "--for tc"]);
    says(&recipe(&["tc", "--dev", "a;reboot"]).refused(2), &["`a;reboot`", "letters, digits"]);
    says(&recipe(&["iptables"]).refused(2), &["openwrt", "networkd", "tc"]);
    assert_eq!(dir.names(), [""; 0], "nothing is kept of what was not tried");
}
