//! Addresses that nobody has take no host's place: those that one host makes up, and those of a home's network that somebody outside tries.
//!
//! ```text
//!   a, as 300 others ──┐
//!                      ├── router ──── modem ════ server, to all of a's network
//!              b ──────┘        wan           dsl
//! ```

use super::found_apart::{SERVER, home, lacks_ip, load, on_the_router};
use super::support::near;
use nix::libc;
use nix::sys::socket::{MsgFlags, SockaddrIn, sendto};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A program of `quell lab exec`: UDP of so many bytes from so many addresses, beginning with one, to so many, beginning with another, in turn; with so
/// many microseconds between two, for a minute.
#[test]
#[ignore = "a program for other tests"]
fn sender() {
    let told: Vec<String> = std::env::args().skip_while(|a| !a.ends_with("::sender")).collect();
    let Some([from, sources, to, goals, bytes, pause]) = told.get(1..7) else {
        return;
    };
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let address = |text: &str| text.parse::<Ipv4Addr>().expect("an address").to_bits();
    // SAFETY: socket(2) has no memory arguments; a non-negative result is a descriptor that nobody else owns.
    let socket = unsafe {
        let fd =
            libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_RAW);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    };
    let pause = Duration::from_micros(number(pause).into());
    let minute = Duration::from_secs(60).as_micros() / pause.as_micros();
    for n in 0..u32::try_from(minute).expect("not so many") {
        let source = Ipv4Addr::from_bits(address(from) + n % number(sources));
        let goal = Ipv4Addr::from_bits(address(to) + n % number(goals));
        // IPv4 without options, UDP from port 9 to port 9; the kernel fills in length and checksum, and UDP's is left out.
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend(source.octets());
        packet.extend(goal.octets());
        let length = 8 + u16::try_from(number(bytes)).expect("a packet");
        packet.extend([9u16, 9, length, 0].map(u16::to_be_bytes).as_flattened());
        packet.resize(20 + usize::from(length), 0);
        let goal = SockaddrIn::from(SocketAddrV4::new(goal, 0));
        // A queue that is full is no matter here.
        let _ = sendto(socket.as_raw_fd(), &packet, &goal, MsgFlags::empty());
        std::thread::sleep(pause);
    }
}

/// The words that start it on a host.
fn sends(host: &str, what: &str) -> String {
    let own = std::env::current_exe().expect("a test has a file");
    format!("{host}: {} --ignored --exact found_strangers::sender {what}", own.display())
}

/// The same as [`load`] a little later.
fn later(host: &str, options: &str) -> String {
    load(host, options).replace("'until", "'sleep 4; until")
}

/// What the router counted in 10 s of load, and what `status` said then.
struct Counted {
    said: String,
}

impl Counted {
    fn with(programs: &[&str], before: &str, apply: &str) -> Self {
        let script = format!(
            "count() {{ awk -v when=$1 '/:/ {{ print when, $1, $2, $10 }}' /proc/net/dev; }}; {before} \
             $Q shape apply --dev wan --line 10/10 --policy host-fair {apply} --confirm-within never; \
             sleep 10; count early; sleep 10; count late; $Q shape status; $Q shape off --dev wan"
        );
        Counted { said: on_the_router(&home(false), programs, &script) }
    }

    /// Bytes of an interface in both directions: what came, what left.
    fn bytes(&self, device: &str) -> [f64; 2] {
        let at = |when: &str| {
            let begin = format!("{when} {device}: ");
            let line = self.said.lines().find_map(|line| line.strip_prefix(&begin));
            let mut numbers = line.expect("it was counted").split(' ');
            [(); 2].map(|()| numbers.next().and_then(|n| n.parse::<f64>().ok()).expect("bytes"))
        };
        let (early, late) = (at("early"), at("late"));
        [late[0] - early[0], late[1] - early[1]]
    }

    #[track_caller]
    fn says(&self, words: &str) {
        assert!(self.said.contains(words), "`{words}` in: {}", self.said);
    }
}

#[test]
fn a_host_that_sends_from_300_addresses_has_no_more_than_the_one_that_comes_later() {
    if lacks_ip() {
        return;
    }
    // 2000 packets of 1028 bytes a second are 16 Mbit/s, on a line of 10.
    let attack = sends("a", "10.8.0.10 300 {server} 1 1000 500");
    // All of them are of a network that a is in.
    let network = "ip addr add 10.8.0.1/22 dev lan-a;";
    let counted = Counted::with(&[SERVER, &attack, &later("b", "")], network, "");
    let ([of_b, _], [_, all]) = (counted.bytes("lan-b"), counted.bytes("wan"));
    near(of_b / all, 0.5, 0.03);
    counted.says("strangers: 300 addresses that no machine on this side has, in one place");
    counted.says("\n    strangers ");
}

#[test]
fn a_scan_from_outside_takes_nobody_the_place() {
    // Each address of a's network that neither a nor the router has, every half second, with 64 bytes.
    let attack = sends("server", "192.0.2.1 1 10.0.0.3 252 36 2000");
    let loads = [&later("a", "-R -P 4"), &later("b", "-R")];
    // One for the scan, one for each host; the hash would have both hosts share one if the scan had all.
    let counted = Counted::with(&[SERVER, &attack, loads[0], loads[1]], "", "--places 3");
    let ([_, of_a], [_, of_b]) = (counted.bytes("lan-a"), counted.bytes("lan-b"));
    near(of_b / (of_a + of_b), 0.5, 0.03);
    counted.says("strangers: 252 addresses that no machine on this side has, in one place");
    assert!(!counted.said.contains("packets of hosts that share one"), "{}", counted.said);
}
