//! Subscribers whose classes are made when they are there, in namespaces of the tests' own.
//!
//! ```text
//!   here: a0 ══════ b0 :there        quell runs here; packets of subscribers leave by a0, with whatever source
//! ```

mod support;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrIn, bind, sendto, setsockopt, socket,
    sockopt::IpTransparent,
};
use nix::unistd::Pid;
use quell_netlink::address::NewAddress;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::VethEnd;
use quell_netlink::{Stack, tc};
use quell_sys::clock::{monotonic_ns, sleep_until};
use quell_sys::netns::NetNs;
use quell_tc::observed::Snapshot;
use quell_tc::{ClassKind, HtbClass};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;
use support::{Said, TestFolder, said, says};

/// A cable with addresses, and a folder for the logs.
struct Cable {
    here: NetNs,
    _there: NetNs,
    dir: TestFolder,
}

const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

impl Cable {
    /// None where the kernel lets nobody load BPF programs, which is said.
    fn new() -> Option<Self> {
        if !can() {
            return None;
        }
        let (here, there) = (NetNs::new().unwrap(), NetNs::new().unwrap());
        let end = |name: &str| name.parse().unwrap();
        here.run(|| {
            let mut stack = Stack::open().unwrap();
            let a = VethEnd::new(end("a0"));
            let b = VethEnd { namespace: Some(there.as_fd()), ..VethEnd::new(end("b0")) };
            stack.create_veth(&a, &b).unwrap();
            let index = stack.index_of(&end("a0")).unwrap();
            stack.up(index).unwrap();
            stack.add_address(index, &NewAddress::new("192.0.2.1/24".parse().unwrap())).unwrap();
            let lo = stack.index_of(&end("lo")).unwrap();
            stack.up(lo).unwrap();
        })
        .unwrap();
        there
            .run(|| {
                let mut stack = Stack::open().unwrap();
                let index = stack.index_of(&end("b0")).unwrap();
                stack.up(index).unwrap();
                stack
                    .add_address(index, &NewAddress::new("192.0.2.2/24".parse().unwrap()))
                    .unwrap();
            })
            .unwrap();
        Some(Cable { here, _there: there, dir: TestFolder::new() })
    }

    /// Calls `quell shape`, in the namespace, with the test's folder for logs.
    fn shape(&self, arguments: &[&str]) -> Said {
        let all = [&["shape"], arguments, &["--state", "state"]].concat();
        self.here.run(|| said(self.dir.command(&all), &all)).unwrap()
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

    /// Waits until something holds, since another process is to do it: five seconds at most. How long that took, in ms.
    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) -> u128 {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed().as_secs() < 5, "{what}: not within 5 s");
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
        for name in self.files(".hold") {
            let file = std::fs::File::open(self.dir.path("state").join(name)).unwrap();
            drop(Flock::lock(file, FlockArg::LockShared).map_err(|(_, errno)| errno).unwrap());
        }
    }

    fn files(&self, ending: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.dir.path("state")) else { return Vec::new() };
        let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(ending)).collect()
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
            eprintln!("skipped: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn who_shows_up_has_his_rates_both_ways_and_who_does_not_costs_nothing() {
    let Some(cable) = Cable::new() else { return };
    cable.dir.write("p.toml", policy(300, &[(7, 5)], ""));
    let plan = cable.shape(&["plan", "--dev", "a0", "--file", "p.toml"]).fine();
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
    // Its next packet is in its own class.
    cable.sends([10, 0, 0, 8]);
    let passed = |c: &Cable| -> Vec<u64> {
        let classes = c.on("a0").classes;
        let guests = classes.iter().filter(|class| !matches!(class.id.minor, 1 | 0xfffe));
        guests.map(|class| class.stats.packets).collect()
    };
    cable.until("it passed", |c| passed(c).iter().sum::<u64>() == 1);
    let status = cable.shape(&["status"]).fine();
    says(&status, &["2 of 300 subscribers are here", "makes classes for those who come", "s8"]);
    cable.shape(&["off", "--dev", "a0"]).fine();
    let left = cable.on("a0");
    assert!(left.qdiscs.iter().all(|queue| !queue.is_made()) && left.filters.is_empty());
    assert_eq!(cable.files(".hold"), [""; 0]);
    assert_eq!(cable.files(".undo"), [""; 0]);
}

#[test]
fn one_more_ceiling_is_no_step_for_who_is_not_there_and_one_class_for_who_is() {
    let Some(cable) = Cable::new() else { return };
    cable.dir.write("p.toml", policy(300, &[], ""));
    cable.apply(&[]).fine();
    cable.sends([10, 0, 0, 7]);
    cable.until("s7 has its classes", |c| c.here("i-a0") == [40]);
    cable.dir.write("p.toml", policy(300, &[(9, 6)], ""));
    let json = |out: String| serde_json::from_str::<Value>(&out).unwrap()["steps"].clone();
    let steps = json(cable.apply(&["--json"]).fine());
    assert_eq!(steps[0], "a0: other figures, of subscribers who are not here");
    assert_eq!(steps.as_array().map(Vec::len), Some(1));
    assert_eq!(json(cable.apply(&["--json"]).fine()), Value::Array(vec![]), "it is known now");
    cable.sends([10, 0, 0, 9]);
    cable.until("s9 has its new rates", |c| c.here("i-a0") == [12, 40]);
    cable.dir.write("p.toml", policy(300, &[(9, 6), (7, 3)], ""));
    let steps = json(cable.apply(&["--json"]).fine());
    let steps: Vec<&str> = steps.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(steps.iter().all(|step| step.contains("change htb class")), "{steps:?}");
    assert_eq!((cable.here("a0"), cable.here("i-a0")), (vec![3, 6], vec![6, 12]));
    // Who is named no more has no class.
    cable.dir.write("p.toml", policy(299, &[(9, 6)], "").replace("\"s7\"", "\"zoe\""));
    cable.apply(&[]).fine();
    assert_eq!(cable.here("a0"), [6]);
    cable.sends([10, 0, 0, 7]);
    cable.until("the new one has", |c| c.here("a0") == [6, 20]);
    cable.shape(&["status"]).fine();
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
    for last in [7, 8, 9] {
        cable.sends([10, 0, 0, last]);
    }
    cable.until("two of three", |c| c.here("i-a0").len() == 2);
    cable.until("they went", |c| c.here("i-a0").is_empty());
    cable.sends([10, 0, 0, 9]);
    cable.until("there is room", |c| c.here("i-a0").len() == 1);
}

#[test]
fn of_a_change_that_is_not_confirmed_rates_come_back_too() {
    let Some(cable) = Cable::new() else { return };
    cable.dir.write("p.toml", policy(300, &[], ""));
    cable.apply(&[]).fine();
    cable.sends([10, 0, 0, 7]);
    cable.until("s7 has its classes", |c| c.here("i-a0") == [40]);
    cable.dir.write("p.toml", policy(300, &[(7, 3)], "").replace("10.0.0.8\"", "10.9.0.8\""));
    let out = cable.shape(&["apply", "--dev", "a0", "--file", "p.toml", "--confirm-within", "1s"]);
    says(&out.fine(), &["quell shape confirm"]);
    assert_eq!(cable.here("a0"), [3]);
    cable.until("it was taken back", |c| c.here("a0") == [20]);
    cable.sends([10, 0, 0, 8]);
    cable.until("so was the table", |c| c.here("a0") == [20, 20]);
}

#[test]
fn all_at_once_is_had_by_an_option_and_led_from_and_to() {
    let Some(cable) = Cable::new() else { return };
    cable.dir.write("p.toml", policy(300, &[], ""));
    cable.apply(&["--eager"]).fine();
    assert_eq!(cable.here("a0").len(), 300);
    assert!(cable.status()["shaped"][0]["subscribers"].is_null());
    cable.apply(&[]).fine();
    // Whoever had a class when it was led here keeps it until he is silent for long.
    assert_eq!(cable.here("a0").len(), 300);
    cable.shape(&["status"]).fine();
    cable.apply(&["--eager"]).fine();
    assert_eq!(cable.here("a0").len(), 300);
    cable.shape(&["status"]).fine();
    cable.until("nobody makes classes any more", |c| {
        c.files(".hold").is_empty() || c.holder().is_none()
    });
    cable.shape(&["off", "--dev", "a0"]).fine();
}

#[test]
fn ten_thousand_are_applied_both_ways_and_one_shows_up() {
    let Some(cable) = Cable::new() else { return };
    cable.dir.write("p.toml", policy(10_000, &[], ""));
    let begun = Instant::now();
    cable.apply(&[]).fine();
    println!("apply: {:?}", begun.elapsed());
    cable.sends([10, 0, 39, 15]);
    let took = cable.until("the last one has his classes", |c| c.here("i-a0") == [40]);
    println!("from its packet to its classes: {took} ms");
    cable.dir.write("p.toml", policy(10_000, &[(9999, 7)], ""));
    let begun = Instant::now();
    cable.apply(&[]).fine();
    println!("another ceiling for one: {:?}", begun.elapsed());
    assert_eq!(cable.here("i-a0"), [14]);
    let begun = Instant::now();
    cable.shape(&["off", "--dev", "a0"]).fine();
    println!("off: {:?}", begun.elapsed());
}
