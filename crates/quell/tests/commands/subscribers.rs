//! Subscribers whose classes are made when they are there, in namespaces of the tests' own.
//!
//! ```text
//!   here: a0 ══════ b0 :there        quell show --list here; packets of subscribers leave by a0, with whatever source
//! ```

use crate::support::cable;
use crate::support::{Said, left_out, said, says};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrIn, bind, sendto, setsockopt, socket,
    sockopt::IpTransparent,
};
use nix::unistd::Pid;
use quell_netlink::address::NewAddress;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::{Stack, tc};
use quell_sys::clock::{monotonic_ns, sleep_until};
use quell_tc::observed::{ObservedQdisc, Snapshot, Stats};
use quell_tc::{ClassKind, HtbClass};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::time::Instant;

/// A cable with addresses.
struct Cable(cable::Cable);

impl std::ops::Deref for Cable {
    type Target = cable::Cable;

    fn deref(&self) -> &cable::Cable {
        &self.0
    }
}

const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

impl Cable {
    /// None where the kernel lets nobody load BPF programs, which is said.
    fn new() -> Option<Self> {
        can().then(|| {
            let cable = cable::Cable::new();
            for (end, name, address) in
                [(&cable.here, "a0", "192.0.2.1/24"), (&cable.there, "b0", "192.0.2.2/24")]
            {
                let set = || {
                    let mut stack = Stack::open().unwrap();
                    let index = stack.index_of(&name.parse().unwrap()).unwrap();
                    stack.up(index).unwrap();
                    stack.add_address(index, &NewAddress::new(address.parse().unwrap())).unwrap();
                    let lo = stack.index_of(&"lo".parse().unwrap()).unwrap();
                    stack.up(lo).unwrap();
                };
                end.run(set).unwrap();
            }
            Cable(cable)
        })
    }

    fn apply(&self, more: &[&str]) -> Said {
        let all = ["apply", "--dev", "a0", "--file", "p.toml", "--confirm-within", "never"];
        self.shape(&[&all[..], more].concat())
    }

    /// What is on an interface.
    fn on(&self, device: &str) -> Snapshot {
        let look = || {
            let index = Stack::open().unwrap().index_of(&device.parse().unwrap()).unwrap();
            tc::snapshot(&mut Socket::open(Protocol::Route).unwrap(), index).unwrap()
        };
        self.here.run(look).unwrap()
    }

    /// Ceilings of the classes that came, in Mbit/s.
    fn here(&self, device: &str) -> Vec<u64> {
        let snapshot = self.on(device);
        let guests = snapshot.classes.iter().filter(|c| !matches!(c.id.minor, 1 | 0xfffe));
        let ceiling = |kind: &Option<ClassKind>| match kind {
            Some(ClassKind::Htb(HtbClass { ceil: Some(ceil), .. })) => ceil.bps() / 1_000_000,
            _ => 0,
        };
        let mut ceilings: Vec<u64> = guests.map(|class| ceiling(&class.options)).collect();
        ceilings.sort_unstable();
        ceilings
    }

    /// A subscriber sends a packet to the far end.
    fn sends(&self, from: [u8; 4]) {
        let work = || {
            let fd = socket(
                AddressFamily::Inet,
                SockType::Datagram,
                SockFlag::empty(),
                None::<SockProtocol>,
            )
            .unwrap();
            setsockopt(&fd, IpTransparent, &true).unwrap();
            let from = SockaddrIn::from(SocketAddrV4::new(from.into(), 0));
            bind(fd.as_raw_fd(), &from).unwrap();
            let to = SockaddrIn::from(SocketAddrV4::new(FAR, 9));
            sendto(fd.as_raw_fd(), &[0; 100], &to, nix::sys::socket::MsgFlags::empty()).unwrap();
        };
        self.here.run(work).unwrap();
    }

    /// Waits until something holds, since another process is to do it: two minutes at most, where it has no CPU. How long that took, in ms.
    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) -> u128 {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed().as_secs() < 120, "{what}: not within 120 s");
            sleep_until(monotonic_ns() + 1_000_000).unwrap();
        }
        begun.elapsed().as_millis()
    }

    fn status(&self) -> Value {
        let text = self.shape(&["status", "--json"]).out;
        serde_json::from_str(&text).unwrap()
    }

    fn holder(&self) -> Option<i32> {
        self.status()["shaped"][0]["subscribers"]["holder"].as_i64().map(|pid| pid as i32)
    }

    /// Kills the one who makes classes, and waits until the kernel has let his lock go.
    fn kill_holder(&self) {
        kill(Pid::from_raw(self.holder().expect("there is one")), Signal::SIGKILL).unwrap();
        for name in self.logs(".hold") {
            let file = std::fs::File::open(self.dir.path("state").join(name)).unwrap();
            drop(Flock::lock(file, FlockArg::LockShared).map_err(|(_, errno)| errno).unwrap());
        }
    }
}

impl Drop for Cable {
    /// Nobody is left over, whatever became of the test.
    fn drop(&mut self) {
        let _ = self.shape(&["off", "--dev", "a0", "--replace"]);
    }
}

/// `count` subscribers, s0 with 10.0.0.0, s1 with 10.0.0.1 …; each may have 20 Mbit/s up and 40 down, but for these.
fn policy(count: u32, others: &[(u32, u32)], more: &str) -> String {
    let one = |n: u32| {
        let ceiling = others.iter().find(|(of, _)| *of == n).map_or(20, |(_, ceiling)| *ceiling);
        let address = Ipv4Addr::from_bits(0x0a00_0000 + n);
        format!(
            "[[subscriber]]\nname = \"s{n}\"\nprefixes = [\"{address}\"]\n\
             up = {{ floor = \"10kbit\", ceiling = \"{ceiling}Mbit\" }}\n\
             down = {{ floor = \"10kbit\", ceiling = \"{}Mbit\" }}\n",
            2 * ceiling
        )
    };
    let all: String = (0..count).map(one).collect();
    format!("up = \"10Gbit\"\ndown = \"10Gbit\"\n{more}\n{all}")
}

/// Whether the kernel lets this process load BPF programs; says so where it does not.
fn can() -> bool {
    match quell_classify::roster::RosterProgram::load(quell_tc::Side::From) {
        Ok(_) => true,
        Err(error) if error.proves_no_program_loads() => {
            left_out::kernel_lacks(error);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn who_shows_up_has_his_rates_both_ways_and_who_does_not_costs_nothing() {
    let Some(cable) = Cable::new() else { return };
    cable.dir.write("p.toml", policy(300, &[(7, 5)], ""));
    let plan = cable.shape(&["plan", "--dev", "a0", "--file", "p.toml", "--steps"]).fine();
    says(&plan, &["a0: enter 300 prefixes of subscribers", "i-a0: enter 300 prefixes"]);
    let out = cable.apply(&["--json"]).fine();
    says(&out, &["i-a0: make roster filter", "a0: enter 300 prefixes of subscribers"]);
    assert_eq!((cable.here("a0"), cable.here("i-a0")), (vec![], vec![]));
    cable.sends([10, 0, 0, 7]);
    let took = cable.until("s7 has its classes", |c| c.here("i-a0") == [10]);
    assert_eq!(cable.here("a0"), [5]);
    println!("from its packet to its classes: {took} ms");
    let leaves = cable.on("a0").qdiscs.len();
    assert_eq!(leaves, 4, "the root, what leads to the IFB, all others, s7");
    cable.sends([10, 0, 0, 8]);
    cable.until("s8 has its classes", |c| c.here("i-a0") == [10, 40]);
    // Its next packet is in its own class, once that is noted for those to come.
    let passed = |c: &Cable| -> Vec<u64> {
        let classes = c.on("a0").classes;
        let guests = classes.iter().filter(|class| !matches!(class.id.minor, 1 | 0xfffe));
        guests.map(|class| class.stats.packets).collect()
    };
    cable.until("it passed", |c| {
        c.sends([10, 0, 0, 8]);
        passed(c).iter().sum::<u64>() > 0
    });
    let status = cable.shape(&["status"]).fine();
    says(&status, &["2 of 300 subscribers are here", "makes classes for those who come", "s8"]);
    cable.shape(&["off", "--dev", "a0"]).fine();
    let left = cable.on("a0");
    assert!(left.qdiscs.iter().all(|queue| !queue.is_made()) && left.filters.is_empty());
    assert_eq!(cable.logs(".hold"), [""; 0]);
    assert_eq!(cable.logs(".undo"), [""; 0]);
}

#[test]
fn when_the_holder_dies_nothing_is_lost_and_apply_starts_another() {
    let Some(cable) = Cable::new() else { return };
    cable.dir.write("p.toml", policy(300, &[], ""));
    cable.apply(&[]).fine();
    cable.sends([10, 0, 0, 7]);
    cable.until("s7 has its classes", |c| c.here("i-a0") == [40]);
    let said = cable.shape(&["hold", "--dev", "a0"]).refused(1);
    let first = cable.holder().unwrap().to_string();
    says(&said, &[&format!("process {first} does that already")]);
    cable.kill_holder();
    let said = cable.shape(&["status"]);
    assert_eq!(said.code, Some(1));
    says(&said.out, &["1 of 300 subscribers have classes", "quell shape hold --dev a0"]);
    cable.sends([10, 0, 0, 8]);
    assert_eq!(cable.here("i-a0"), [40], "s7 keeps his, s8 is among all others");
    cable.apply(&[]).fine();
    cable.until("s8 was seen when nobody looked", |c| c.here("i-a0") == [40, 40]);
    assert_ne!(cable.holder().unwrap().to_string(), first);
}

#[test]
fn who_is_silent_goes_and_more_than_so_many_are_never_there() {
    let Some(cable) = Cable::new() else { return };
    cable.dir.write("p.toml", policy(300, &[], "lazy-idle = \"1s\"\nlazy-most = 2"));
    cable.apply(&[]).fine();
    // They send until they are seen: whoever looks a second late finds nobody any more.
    let are_here = |c: &Cable, who: &[u8]| {
        who.iter().for_each(|last| c.sends([10, 0, 0, *last]));
        let here = c.here("i-a0").len();
        assert!(here <= 2, "more than so many: {here}");
        here
    };
    cable.until("two of three", |c| are_here(c, &[7, 8, 9]) == 2);
    cable.until("they went", |c| c.here("i-a0").is_empty());
    cable.until("there is room", |c| are_here(c, &[9]) == 1);
}

#[test]
fn one_is_changed_by_name_and_nobody_else_is_touched() {
    let Some(cable) = Cable::new() else { return };
    cable.dir.write("p.toml", policy(300, &[], ""));
    cable.apply(&[]).fine();
    cable.sends([10, 0, 0, 7]);
    cable.sends([10, 0, 0, 8]);
    cable.until("both have their classes", |c| c.here("i-a0") == [40, 40]);
    let document = |out: String| serde_json::from_str::<Value>(&out).unwrap();
    let change = |more: &[&str]| cable.shape(&[&["change"], more, &["--json"]].concat());
    let done = document(change(&["s7", "--up", "3Mbit", "--down", "6Mbit"]).fine());
    assert_eq!(done["was"]["up"]["ceiling_bps"], 20_000_000);
    assert_eq!(done["now"]["down"]["ceiling_bps"], 6_000_000);
    let steps: Vec<&str> =
        done["steps"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(steps.iter().all(|step| step.contains("change htb class")), "{steps:?}");
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert_eq!((cable.here("a0"), cable.here("i-a0")), (vec![3, 20], vec![6, 40]));
    // Who is not here has it when he comes.
    let done = document(change(&["s9", "--up", "5Mbit", "--dev", "a0"]).fine());
    assert_eq!(done["steps"].as_array().map(Vec::len), Some(0));
    says(&done["remarks"].to_string(), &["has that when it comes"]);
    cable.sends([10, 0, 0, 9]);
    cable.until("s9 has its classes", |c| c.here("a0") == [3, 5, 20]);
    says(&cable.shape(&["change", "s9", "--up", "5Mbit"]).fine(), &["it has that already"]);
    cable.shape(&["status", "--dev", "a0"]).fine();
    says(&cable.shape(&["status", "--dev", "b7"]).refused(1), &["nothing of Quell's", "b7"]);
    let tree = ["tree", "a0", "--all", "--state", "state"];
    let tree = cable.here.run(|| said(cable.dir.command(&tree), &tree)).unwrap().fine();
    says(&tree, &[" s7", " s8", " s9", " all others"]);
    // What can't be is refused, and nothing is changed.
    says(&change(&["s77777", "--up", "5Mbit"]).refused(2), &["none of the 300 subscribers"]);
    says(
        &change(&["s9", "--up-floor", "6Mbit"]).refused(2),
        &["a floor of 6Mbit above its ceiling"],
    );
    says(&change(&["s9", "--down", "11kbit"]).refused(2), &["a full packet a second"]);
    says(&change(&["s9"]).refused(2), &["what rate?"]);
    assert_eq!(cable.here("a0"), [3, 5, 20]);
    // The same from a file is known; what the file says else counts.
    let all =
        policy(300, &[(7, 3), (9, 5)], "").replace("ceiling = \"10Mbit\"", "ceiling = \"40Mbit\"");
    cable.dir.write("p.toml", all);
    let steps = document(cable.apply(&["--json"]).fine())["steps"].clone();
    assert_eq!(steps, Value::Array(vec![]));
    cable.dir.write("p.toml", policy(300, &[(9, 5)], ""));
    let steps = document(cable.apply(&["--json"]).fine())["steps"].clone();
    assert_eq!(steps.as_array().map(Vec::len), Some(3), "{steps}");
    assert_eq!(cable.here("a0"), [5, 20, 20]);
    cable.shape(&["off", "--dev", "a0"]).fine();
    says(&cable.shape(&["change", "s7", "--up", "5Mbit"]).refused(1), &["nothing of Quell's"]);
}

#[test]
fn what_waits_in_a_class_stays_when_its_rates_are_changed() {
    let Some(cable) = Cable::new() else { return };
    cable.dir.write("p.toml", policy(300, &[(7, 1)], ""));
    cable.apply(&[]).fine();
    cable.sends([10, 0, 0, 7]);
    cable.until("s7 has its classes", |c| c.here("i-a0") == [2]);
    let own = |c: &Cable| {
        let leaf = |q: &ObservedQdisc| q.parent.major == 1 && !matches!(q.parent.minor, 0 | 0xfffe);
        c.on("a0").qdiscs.into_iter().find(leaf).expect("its queue").stats
    };
    cable.shape(&["change", "s7", "--up", "200kbit"]).fine();
    // 142 bytes each at 200 kbit/s: two seconds. A machine that is busy may take longer for a change, and then none waits: once more.
    let (mut sent, mut waited) = (0, 0);
    for number in 0..60 {
        (0..400).for_each(|_| cable.sends([10, 0, 0, 7]));
        sent += 400;
        let before = own(&cable).backlog_packets;
        cable.shape(&["change", "s7", "--up", &format!("{}kbit", 199 - number)]).fine();
        let after = own(&cable).backlog_packets;
        println!("{before} waited before a change, and {after} behind it");
        waited += u32::from(before > 50 && after > 0);
        if waited == 3 {
            break;
        }
    }
    assert_eq!(waited, 3, "some waited all the time");
    cable.shape(&["change", "s7", "--up", "3Mbit"]).fine();
    cable.until("all went", |c| own(c).backlog_packets == 0);
    // Those that the queue itself dropped, since they were too many or waited for long, are counted there.
    let Stats { packets, drops, .. } = own(&cable);
    assert_eq!(packets + u64::from(drops), sent, "none went with a change");
}

#[test]
fn whoever_is_killed_in_a_change_leaves_it_done_or_not_begun() {
    let Some(cable) = Cable::new() else { return };
    cable.dir.write("p.toml", policy(300, &[], ""));
    cable.apply(&[]).fine();
    cable.sends([10, 0, 0, 7]);
    cable.until("s7 has its classes", |c| c.here("i-a0") == [40]);
    let begun = Instant::now();
    cable.shape(&["change", "s7", "--up", "19Mbit", "--down", "38Mbit"]).fine();
    let whole = begun.elapsed().as_nanos() as u64;
    let kills: u64 = std::env::var("QUELL_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let (mut was, mut changed) = (19, 0);
    for round in 0..kills {
        let up = 1 + round % 18;
        let [one, two] = [format!("{up}Mbit"), format!("{}Mbit", 2 * up)];
        let all = ["shape", "change", "s7", "--up", &one, "--down", &two, "--state", "state"];
        let mut child = cable.here.run(|| cable.dir.command(&all).spawn().unwrap()).unwrap();
        sleep_until(monotonic_ns() + whole * (round + 1) / kills).unwrap();
        let _ = child.kill();
        child.wait().unwrap();
        let same = ["change", "s7", "--up-floor", "10kbit", "--json"];
        let told: Value = serde_json::from_str(&cable.shape(&same).fine()).unwrap();
        let now = told["now"]["up"]["ceiling_bps"].as_u64().unwrap() / 1_000_000;
        assert!(now == was || now == up, "round {round}: {told}");
        // Whoever makes classes leads to what the log says.
        let led = |c: &Cable| (c.here("a0"), c.here("i-a0")) == (vec![now], vec![2 * now]);
        cable.until("it is as the log says", led);
        cable.shape(&["status"]).fine();
        changed += u64::from(now == up);
        was = now;
    }
    println!("{changed} of {kills} were done");
    let left = cable.logs("");
    let known = |name: &String| {
        [".undo", ".hold", ".lock", ".classes"].iter().any(|ending| name.ends_with(ending))
    };
    let other: Vec<&String> = left.iter().filter(|name| !known(name)).collect();
    assert!(other.len() <= 1, "at most what the last one was writing: {other:?}");
}

#[test]
fn subscribers_are_read_from_a_table_and_kept_in_one() {
    let Some(cable) = Cable::new() else { return };
    let one = |n: u32| {
        let address = Ipv4Addr::from_bits(0x0a00_0000 + n);
        format!(
            "s{n},{address},10kbit,20Mbit,10kbit,40Mbit,{}\n",
            if n == 7 { "north" } else { "" }
        )
    };
    let table: String = (0..300).map(one).collect();
    std::fs::create_dir(cable.dir.path("books")).unwrap();
    let head = "name,prefixes,up-floor,up-ceiling,down-floor,down-ceiling,group\n";
    cable.dir.write("books/all.csv", format!("{head}{table}"));
    let all = "up = \"10Gbit\"\ndown = \"10Gbit\"\nsubscribers = \"books/all.csv\"\n\
               [[group]]\nname = \"north\"\nup = \"15Mbit\"\ndown = \"30Mbit\"\n";
    cable.dir.write("p.toml", all);
    cable.apply(&[]).fine();
    cable.sends([10, 0, 0, 8]);
    cable.sends([10, 0, 0, 7]);
    // Both, and the class of the group.
    cable.until("both have their classes", |c| c.here("a0") == [15, 15, 20]);
    std::fs::create_dir_all(cable.dir.path("root/etc")).unwrap();
    cable.shape(&["persist", "--dev", "a0", "--root", "root"]).fine();
    let kept = std::fs::read_to_string(cable.dir.path("root/etc/quell/shape/a0.csv")).unwrap();
    says(&kept, &["s7,10.0.0.7/32,10kbit,20Mbit,10kbit,40Mbit,north"]);
    let file = "root/etc/quell/shape/a0.toml";
    let again = ["apply", "--dev", "a0", "--file", file, "--confirm-within", "never", "--json"];
    let out = cable.shape(&again).fine();
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["steps"], Value::Array(vec![]));
    let out = cable.shape(&["change", "s8", "--up", "9Mbit", "--root", "root"]).fine();
    says(&out, &["after a reboot it is as it was", "quell shape persist --dev a0"]);
    cable.dir.write("books/all.csv", format!("{head}{table}").replacen("20Mbit", "fast", 1));
    let said = cable.apply(&[]).refused(2);
    says(&said, &["books/all.csv, line 2: `fast` is no rate"]);
    cable.shape(&["off", "--dev", "a0", "--root", "root"]).fine();
    assert!(!cable.dir.path("root/etc/quell").exists());
}
