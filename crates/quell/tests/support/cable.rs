//! A cable between two namespaces, with `quell shape` at one end.
//!
//! ```text
//!   here: a0 ══════ b0 :there        quell show --list here; its logs are in a folder of the test's
//! ```

use super::{Said, TestFolder, said};
use nix::fcntl::{Flock, FlockArg};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::VethEnd;
use quell_netlink::{Stack, tc};
use quell_sys::clock::{monotonic_ns, sleep_until};
use quell_sys::netns::NetNs;
use quell_tc::{Places, Thing, Tree, seen};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};

/// A cable, and a folder for the logs.
pub struct Cable {
    pub here: NetNs,
    pub there: NetNs,
    pub dir: TestFolder,
}

impl Cable {
    /// A new one.
    pub fn new() -> Self {
        Cable::of(1)
    }

    /// One whose end here has so many transmit queues.
    pub fn of(tx_queues: u32) -> Self {
        let (here, there) = (NetNs::new().unwrap(), NetNs::new().unwrap());
        here.run(|| {
            let mut stack = Stack::open().unwrap();
            let a = VethEnd { tx_queues, ..VethEnd::new("a0".parse().unwrap()) };
            let b =
                VethEnd { namespace: Some(there.as_fd()), ..VethEnd::new("b0".parse().unwrap()) };
            stack.create_veth(&a, &b).unwrap();
            let index = stack.index_of(&"a0".parse().unwrap()).unwrap();
            stack.up(index).unwrap();
        })
        .unwrap();
        Cable { here, there, dir: TestFolder::new() }
    }

    /// Calls `quell shape`, in the namespace, with the test's folder for logs.
    pub fn shape(&self, arguments: &[&str]) -> Said {
        let all = [&["shape"], arguments, &["--state", "state"]].concat();
        self.here.run(|| said(self.dir.command(&all), &all)).unwrap()
    }

    /// The same, and does not wait.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let all = [&["shape"], arguments, &["--state", "state"]].concat();
        let mut command = self.dir.command(&all);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.here.run(|| command.spawn().unwrap()).unwrap()
    }

    /// What somebody made on a0.
    pub fn things(&self) -> Vec<Thing> {
        let look = || {
            let index = Stack::open().unwrap().index_of(&"a0".parse().unwrap()).unwrap();
            let mut socket = Socket::open(Protocol::Route).unwrap();
            seen(&tc::snapshot(&mut socket, index).unwrap())
        };
        self.here.run(look).unwrap()
    }

    /// Applies so often and is killed each time, at instants spread over all that it takes: what was there is there again.
    pub fn killed_anywhere(&self, apply: &[&str], theirs: &[Thing], times: u64) {
        // How long it takes here and now; less, when it turns out to have been over before.
        let begun = monotonic_ns();
        self.shape(apply).fine();
        let mut whole = monotonic_ns() - begun;
        self.shape(&["off", "--dev", "a0"]).fine();
        assert_eq!(self.things(), theirs);
        let (mut cut, mut tries) = (0, 0);
        while cut < times {
            tries += 1;
            assert!(tries <= 12 * times, "killed in the middle only {cut} times of {tries}");
            let mut applier = self.start(apply);
            let begun = monotonic_ns();
            // Spread over all of it, whichever of them hit.
            let instant = whole / times * (tries % times);
            sleep_until(begun + instant).unwrap();
            applier.kill().unwrap();
            applier.wait().unwrap();
            // Steps are taken only while a watchdog watches: when there is none, it is over.
            self.until_no_watchdog_lives();
            // It may have been over, and said so in the log.
            if self.shape(&["status"]).out.contains("; in force") {
                assert_ne!(self.things(), theirs);
                self.shape(&["off", "--dev", "a0"]).fine();
                whole = instant.max(times);
            } else {
                cut += 1;
                assert_eq!(self.things(), theirs, "the watchdog alone brings it back");
            }
            self.shape(&["recover"]).fine();
            assert_eq!(self.things(), theirs, "killed after {instant} of {whole} ns");
        }
    }

    /// Takes it off so often and is killed each time, at instants spread over all that it takes: either nothing was done, or whoever watches
    /// ends it. Where all were on one side of its log, since the machine became busier or less busy, the instants are spread anew.
    pub fn off_killed_anywhere(&self, apply: &[&str], theirs: &[Thing], times: u64) {
        let off = ["off", "--dev", "a0"];
        self.shape(apply).fine();
        let ours = self.things();
        let begun = monotonic_ns();
        self.shape(&off).fine();
        let mut whole = monotonic_ns() - begun;
        let (mut begun_by_then, mut ended) = (0, 0);
        for number in 0..times * 8 {
            if number > 0 && number % times == 0 {
                match (begun_by_then, ended) {
                    (_, 0) => whole *= 2,
                    (0, _) => whole /= 2,
                    _ => break,
                }
            }
            self.shape(apply).fine();
            let mut killed = self.start(&off);
            let instant = whole * (number % times) / times;
            sleep_until(monotonic_ns() + instant).unwrap();
            killed.kill().unwrap();
            killed.wait().unwrap();
            self.until_no_watchdog_lives();
            let (status, there) = (self.shape(&["status"]).out, self.things());
            if status.contains("; in force") {
                assert_eq!(there, ours, "killed after {instant} of {whole} ns, nothing was done");
                self.shape(&off).fine();
                begun_by_then += 1;
            } else {
                assert!(status.contains("nothing of Quell's is in force"), "{instant}: {status}");
                ended += 1;
            }
            assert_eq!(self.things(), theirs, "killed after {instant} of {whole} ns");
        }
        assert!(
            begun_by_then > 0 && ended > 0,
            "{begun_by_then} and {ended}: on both sides of its log"
        );
    }

    /// Somebody else's queues.
    pub fn put(&self, tree: &str) -> Vec<Thing> {
        let things = toml::from_str::<Tree>(tree).unwrap().plan().unwrap().things();
        let work = || {
            let index = Stack::open().unwrap().index_of(&"a0".parse().unwrap()).unwrap();
            let mut socket = Socket::open(Protocol::Route).unwrap();
            tc::lead_to(&mut socket, index, &things, Places::ALL).unwrap();
        };
        self.here.run(work).unwrap();
        self.things()
    }

    /// Waits until no watchdog lives: it keeps a file locked as long as it does.
    pub fn until_no_watchdog_lives(&self) {
        for name in self.logs(".watch") {
            // It takes the file away when it ends.
            let Ok(file) = std::fs::File::open(self.dir.path("state").join(name)) else { continue };
            drop(Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno).unwrap());
        }
    }

    /// Files beside the logs, by their ending.
    pub fn logs(&self, ending: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.dir.path("state")) else { return Vec::new() };
        let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(ending)).collect()
    }
}

/// A tree of what every kernel with HTB has: many classes, so that it takes a while.
pub fn wide(classes: usize, rate: &str) -> String {
    let class = |n: usize| {
        format!(
            r#"{{ id = "1:{:x}", rate = "{rate}", queue = {{ kind = "pfifo", limit = {} }} }}"#,
            n + 2,
            n + 5
        )
    };
    let classes: Vec<String> = (0..classes).map(class).collect();
    format!(
        "[queue]\nkind = \"htb\"\nhandle = \"1:\"\ndefault = \"1:2\"\nclass = [ {} ]\n\
         filter = [ {{ kind = \"u32\", match = \"ip dst 10.0.0.2/32\", protocol = \"ip\", class = \"1:2\" }} ]\n",
        classes.join(",\n")
    )
}

/// Theirs: nothing of it has our handles' meaning, and all comes back.
pub const THEIRS: &str = r#"
    [queue]
    kind = "htb"
    handle = "1:"
    default = "1:7"
    class = [ { id = "1:7", rate = "3Mbit", queue = { kind = "bfifo", handle = "70:", limit = "9000" } } ]
    filter = [ { kind = "u32", match = "ip dst 10.0.0.9/32", protocol = "ip", class = "1:7" } ]
"#;
