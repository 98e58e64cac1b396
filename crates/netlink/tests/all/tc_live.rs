//! Queues on real interfaces, in namespaces of the tests' own.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::namespace::{Namespace, cable, ip, name};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::tc::{self, ApplyError};
use quell_netlink::{NetlinkError, Stack};
use quell_tc::observed::{ObservedClass, ObservedQdisc};
use quell_tc::qdisc::Htb;
use quell_tc::{Bpf, BpfProgram, Class, Filter, Handle, HtbClass, Places, Queue, Tree, changes};
use quell_units::Rate;

const CASES: &str = include_str!("../goldens/cases.toml");

fn tree(text: &str) -> Tree {
    toml::from_str(text).unwrap()
}

/// Works with a socket and the interface `a0`, whose other end is in a namespace of its own.
fn on_cable<T: Send>(work: impl FnOnce(&mut Socket, u32, &Namespace) -> T + Send) -> T {
    let (here, there) = cable();
    here.run(|| {
        let index = Stack::open().unwrap().index_of(&name("a0")).unwrap();
        let mut socket = Socket::open(Protocol::Route).unwrap();
        work(&mut socket, index, &there)
    })
}

fn refusal(error: ApplyError) -> Option<NetlinkError> {
    match error {
        ApplyError::Kernel(error) | ApplyError::Left(error) => Some(error),
        ApplyError::Tree(_) => None,
    }
}

/// The steps from what is there to a tree.
fn left_to_do(socket: &mut Socket, index: u32, tree: &Tree) -> Vec<String> {
    let plan = tree.plan().unwrap();
    let there = tc::snapshot(socket, index).unwrap();
    let left = changes(&plan.things(), Places::of(&plan), &there);
    left.iter().map(ToString::to_string).collect()
}

fn root(socket: &mut Socket, index: u32) -> ObservedQdisc {
    let queues = tc::dump_qdiscs(socket, index).unwrap();
    queues.into_iter().find(|queue| queue.parent == Handle::ROOT).expect("a device has a root")
}

#[test]
fn the_kernel_reads_back_every_tree_as_it_was_asked_for() {
    let cases: BTreeMap<String, Tree> = toml::from_str(CASES).unwrap();
    on_cable(|socket, index, _| {
        let mut in_force = Vec::new();
        for (case, tree) in &cases {
            tc::delete_root(socket, index).unwrap();
            tc::delete_ingress(socket, index).unwrap();
            match tc::apply(socket, index, tree) {
                Ok(()) => {
                    assert_eq!(left_to_do(socket, index, tree), [""; 0], "{case}");
                    tc::update(socket, index, None, tree).unwrap_or_else(|e| panic!("{case}: {e}"));
                    assert_eq!(left_to_do(socket, index, tree), [""; 0], "{case}, changed");
                    in_force.push(case.as_str());
                }
                Err(error) => {
                    let said = error.to_string();
                    let lacks = refusal(error).is_some_and(|e| e.proves_kernel_lacks_feature());
                    assert!(lacks, "{case}: {said}");
                    println!("{case}: {said}");
                }
            }
        }
        // Every kernel with queues has these.
        assert!(in_force.contains(&"pfifo") && in_force.contains(&"bfifo"), "{in_force:?}");
    });
}

#[test]
fn a_change_in_place_is_in_force_and_the_queue_is_the_same_one() {
    let text = |rate| {
        format!(
            r#"queue = {{ kind = "htb", default = "1:1", class = [
                {{ id = "1:1", rate = "{rate}", queue = {{ kind = "pfifo", limit = 7 }} }} ] }}"#
        )
    };
    let (slow, fast) = (tree(&text("1Mbit")), tree(&text("9Mbit")));
    on_cable(|socket, index, _| {
        tc::apply(socket, index, &slow).unwrap();
        let outbox = UdpSocket::bind((ip("10.0.0.1"), 0)).unwrap();
        outbox.send_to(&[0; 100], (ip("10.0.0.2"), 9)).unwrap();
        tc::update(socket, index, None, &fast).unwrap();
        assert_eq!(left_to_do(socket, index, &fast), [""; 0]);
        assert_eq!(left_to_do(socket, index, &slow), ["change htb class 1:1 under 1:"]);
        assert!(root(socket, index).stats.packets > 0, "a new queue would have counted nothing");
    });
}

#[test]
fn a_tree_that_the_kernel_refuses_half_way_leaves_the_default_queue() {
    // mq takes the root only.
    let bad = tree(
        r#"queue = { kind = "htb", class = [ { id = "1:1", rate = "1Mbit", queue = "mq" } ] }"#,
    );
    on_cable(|socket, index, _| {
        let before = root(socket, index);
        let error = tc::apply(socket, index, &bad).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("make queue 2: (mq) in class 1:1 on a0"), "{said}");
        assert!(said.contains("back at its default queue"), "{said}");
        let after = root(socket, index);
        assert_eq!((after.kind, after.handle), (before.kind, before.handle));
        assert_eq!(tc::dump_classes(socket, index).unwrap(), []);
    });
}

#[test]
fn a_tree_that_breaks_a_rule_touches_nothing() {
    on_cable(|socket, index, _| {
        tc::apply(socket, index, &tree(r#"queue = { kind = "pfifo", limit = 5 }"#)).unwrap();
        let bad = tree(r#"queue = { kind = "htb", default = "1:5" }"#);
        assert!(matches!(tc::apply(socket, index, &bad), Err(ApplyError::Tree(_))));
        let nowhere = tree(
            r#"queue = { kind = "htb", filter = { kind = "u32", match = "u32 0 0 at 0", action = { redirect = "ifb9" } } }"#,
        );
        let said = tc::apply(socket, index, &nowhere).unwrap_err().to_string();
        assert!(said.contains("there is no device `ifb9`"), "{said}");
        let now = root(socket, index);
        assert_eq!((now.kind.as_str(), now.handle), ("pfifo", Handle::qdisc(1)));
    });
}

#[test]
fn taking_off_what_is_not_there_is_no_error_but_a_missing_device_is() {
    on_cable(|socket, index, _| {
        tc::delete_root(socket, index).unwrap();
        tc::delete_ingress(socket, index).unwrap();
        let error = tc::delete_root(socket, 9999).unwrap_err();
        assert_eq!(error.errno(), Some(nix::errno::Errno::ENODEV));
    });
}

/// The classes once they have counted so many packets, each of 1:1, 1:2 …: another CPU that is at the queue just now takes them out, and in its
/// own time.
fn classes_with(socket: &mut Socket, index: u32, wanted: &[u64]) -> Vec<ObservedClass> {
    let mut looks = (0..60_000).map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        tc::dump_classes(socket, index).unwrap()
    });
    let have = |classes: &[ObservedClass], minor, packets: u64| {
        let class = classes.iter().find(|seen| seen.id == Handle::class(1, minor));
        class.is_some_and(|class| class.stats.packets >= packets)
    };
    let counted = |classes: &Vec<ObservedClass>| {
        (1..).zip(wanted).all(|(minor, packets)| have(classes, minor, *packets))
    };
    looks.find(counted).expect("they are counted")
}

#[test]
fn filters_send_packets_to_their_class_and_the_counters_say_so() {
    let tree = tree(
        r#"
        [queue]
        kind = "htb"
        default = "1:3"
        class = [ { id = "1:1", rate = "10Mbit" }, { id = "1:2", rate = "10Mbit" }, { id = "1:3", rate = "10Mbit" } ]
        filter = [
            { kind = "u32", protocol = "ip", match = ["ip dport 7000", "ip protocol udp"], class = "1:1" },
            { kind = "u32", protocol = "ip", match = ["ip dport 7001", "ip protocol udp"], class = "1:2" },
        ]
        "#,
    );
    on_cable(|socket, index, _| {
        tc::apply(socket, index, &tree).unwrap();
        let outbox = UdpSocket::bind((ip("10.0.0.1"), 0)).unwrap();
        // What the kernel sends by itself, such as its groups over IPv6, is in the third class.
        for port in [7000, 7000, 7000, 7001] {
            outbox.send_to(&[0; 58], (ip("10.0.0.2"), port)).unwrap();
        }
        let classes = classes_with(socket, index, &[3, 1]);
        let of = |minor| {
            let class = classes.iter().find(|class| class.id == Handle::class(1, minor)).unwrap();
            class.stats
        };
        // 58 bytes, and 8, 20 and 14 of headers.
        assert_eq!((of(1).packets, of(1).bytes, of(1).drops), (3, 300, 0));
        assert_eq!((of(2).packets, of(2).bytes), (1, 100));
    });
}

/// Length of the frames that the classifier takes for its class.
const CLASSIFIED: u64 = 500;

/// What Ethernet, IPv4 and UDP put before a payload.
const HEADERS: usize = 14 + 20 + 8;

/// Loads `return len == CLASSIFIED ? -1 : 0` as a classifier: BPF_PROG_LOAD of `include/uapi/linux/bpf.h`, by hand.
fn load_classifier() -> std::io::Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        kind: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        rest: [u64; 3],
    }
    const PROG_LOAD: libc::c_long = 5;
    const SCHED_CLS: u32 = 3;
    // r2 = skb->len; r0 = -1; if r2 == CLASSIFIED goto end; r0 = 0; end: exit
    let code: [u64; 5] = [0x1261, 0xffff_ffff_0000_00b7, (CLASSIFIED << 32) | 0x1_0215, 0xb7, 0x95];
    let load = Load {
        kind: SCHED_CLS,
        instruction_count: 5,
        instructions: code.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        rest: [0; 3],
    };
    // SAFETY: `load` and what it points to live through the call; a result of 0 or more is a descriptor of ours.
    unsafe {
        let fd = libc::syscall(libc::SYS_bpf, PROG_LOAD, &raw const load, size_of::<Load>());
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

#[test]
fn a_loaded_bpf_program_becomes_a_filter_and_outlives_its_descriptor() {
    let program = match load_classifier() {
        Ok(program) => program,
        Err(error) => {
            let lacks = error.raw_os_error() == Some(libc::ENOSYS);
            assert!(lacks, "loading a BPF program: {error}");
            return println!("this kernel has no bpf(2)");
        }
    };
    let class = Handle::class(1, 1);
    let filter = |program| {
        let bpf = Bpf { program, direct_action: false };
        let leaf = HtbClass { rate: Some(Rate::from_bps(1_000_000)), ..HtbClass::default() };
        let queue = Queue::from(Htb::default())
            .with_class(Class::new(class, leaf))
            .with_filter(Filter::new(bpf, Some(class)));
        Tree::from(queue)
    };
    let name = "classifier".to_owned();
    let loaded = filter(BpfProgram::Loaded { fd: program.as_raw_fd(), name: name.clone() });
    on_cable(|socket, index, _| {
        match tc::apply(socket, index, &loaded) {
            Err(error) => {
                let said = error.to_string();
                let lacks = refusal(error).is_some_and(|e| e.proves_kernel_lacks_feature());
                assert!(lacks, "{said}");
                return println!("{said}");
            }
            Ok(()) => drop(program),
        }
        assert_eq!(left_to_do(socket, index, &loaded), [""; 0]);
        let outbox = UdpSocket::bind((ip("10.0.0.1"), 0)).unwrap();
        // The kernel sends packets of its own here, such as its groups over IPv6: what is not for the class is let by.
        for payload in [58, CLASSIFIED as usize - HEADERS, 59] {
            outbox.send_to(&vec![0; payload], (ip("10.0.0.2"), 7000)).unwrap();
        }
        let classes = classes_with(socket, index, &[1]);
        assert_eq!(classes[0].stats.packets, 1, "-1 means: to the filter's own class");

        let pinned = filter(BpfProgram::Pinned("/sys/fs/bpf/not-there".into()));
        let said = tc::apply(socket, index, &pinned).unwrap_err().to_string();
        assert!(said.contains("pinned at /sys/fs/bpf/not-there"), "{said}");
        assert_eq!(left_to_do(socket, index, &loaded), [""; 0], "nothing was touched");
    });
}
