//! The running kernel, in a namespace of the test's own: what else than queues is changed and comes back.

use quell_act::{
    DeviceGoal, FileGoal, Goal, Kernel, LinkGoal, Machine, OffloadGoal, SysctlGoal, steps, try_it,
};
use quell_netlink::Stack;
use quell_netlink::link::VethEnd;
use quell_sys::netns::NetNs;
use quell_tc::{Places, Tree};
use std::os::unix::fs::PermissionsExt;

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
fn links_offloads_settings_and_files_come_and_go_with_the_queues() {
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
                offloads: vec![OffloadGoal {
                    device: "a0".into(),
                    feature: "tx-tcp-segmentation".into(),
                    on: false,
                }],
                sysctls: vec![SysctlGoal { key: "net/ipv4/ip_forward".into(), value: "1".into() }],
                files: vec![
                    FileGoal { path: file.clone(), content: Some((b"ours\n".to_vec(), 0o600)) },
                    FileGoal { path: other.clone(), content: Some((b"new\n".to_vec(), 0o644)) },
                ],
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
