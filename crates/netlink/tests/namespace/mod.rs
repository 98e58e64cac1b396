//! Namespaces for tests, and a cable between two of them.
//!
//! ```text
//!   here (a0, 10.0.0.1/24, fd00::1/64) ══════ (b0, 10.0.0.2/24, fd00::2/64) there
//! ```
//!
//! They need CAP_SYS_ADMIN: root, or `unshare --user --map-root-user cargo test`.

#![allow(dead_code, reason = "each test program uses its own part")]

// Some who have this file have that one too.
#[allow(clippy::duplicate_mod)]
#[path = "../../../quell/tests/support/left_out.rs"]
mod left_out;

use nix::sched::{CloneFlags, setns, unshare};
use quell_netlink::address::NewAddress;
use quell_netlink::link::{LinkName, Mac, VethEnd};
use quell_netlink::quiet::quiet;
use quell_netlink::{NetlinkError, Stack};
use std::fs::File;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

pub struct Namespace(File);

impl Namespace {
    pub fn new() -> Self {
        std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .expect("tests need root, or: unshare --user --map-root-user cargo test");
            Self(File::open("/proc/thread-self/ns/net").unwrap())
        })
        .join()
        .unwrap()
    }

    /// One that is there already, by its file.
    pub fn of(path: &str) -> Self {
        Self(File::open(path).unwrap())
    }

    /// Does something on a thread of its own in this namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(&self.0, CloneFlags::CLONE_NEWNET).unwrap();
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub fn name(text: &str) -> LinkName {
    text.parse().unwrap()
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Brings an interface up with addresses, quietly and without anything to wait for.
pub fn bring_up(link: &str, addresses: &[&str]) -> u32 {
    let mut stack = Stack::open().unwrap();
    let index = stack.index_of(&name(link)).unwrap();
    quiet(&name(link)).unwrap();
    stack.up(index).unwrap();
    for address in addresses {
        stack.add_address(index, &NewAddress::new(address.parse().unwrap())).unwrap();
    }
    index
}

/// Joins two namespaces by a veth pair `names` whose ends have MAC 02:…:01 and 02:…:02.
pub fn join(here: &Namespace, there: &Namespace, names: (&str, &str)) {
    here.run(|| {
        let a = VethEnd { mac: Some(Mac::local(1)), ..VethEnd::new(name(names.0)) };
        let b = VethEnd {
            mac: Some(Mac::local(2)),
            namespace: Some(there.fd()),
            ..VethEnd::new(name(names.1))
        };
        Stack::open().unwrap().create_veth(&a, &b).unwrap();
    });
}

/// Waits until an interface that was brought up carries packets. The kernel brings it to life a little later (`linkwatch_event`), and drops
/// without a word what is sent before; nothing but looking tells when.
pub fn wait_until_it_carries(link: &str) {
    let mut stack = Stack::open().unwrap();
    for _ in 0..20_000 {
        if stack.link(&name(link)).unwrap().can_carry() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{link} does not carry after 20 s");
}

/// The drawing above. Neighbours are entered by hand, so that the first packet is not held back.
pub fn cable() -> (Namespace, Namespace) {
    let (here, there) = (Namespace::new(), Namespace::new());
    join(&here, &there, ("a0", "b0"));
    let end = |link: &str, own: [&str; 2], other: [&str; 2], mac: Mac| {
        let index = bring_up(link, &own);
        let mut stack = Stack::open().unwrap();
        for address in other {
            stack.set_neighbour(index, ip(address), mac).unwrap();
        }
    };
    here.run(|| end("a0", ["10.0.0.1/24", "fd00::1/64"], ["10.0.0.2", "fd00::2"], Mac::local(2)));
    there.run(|| end("b0", ["10.0.0.2/24", "fd00::2/64"], ["10.0.0.1", "fd00::1"], Mac::local(1)));
    here.run(|| wait_until_it_carries("a0"));
    there.run(|| wait_until_it_carries("b0"));
    (here, there)
}

/// Sends one datagram from one namespace to an address in another, and says who the receiver thinks
/// has sent it.
pub fn sender_seen_by(receiver: &Namespace, to: &str, sender: &Namespace) -> SocketAddr {
    let inbox = receiver.run(|| UdpSocket::bind((ip(to), 0)).unwrap());
    // WireGuard ignores handshakes in a kernel's first 20 ms, which a guest in virtual time is
    // still in, and then tries again after 5 s.
    inbox.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    let address = inbox.local_addr().unwrap();
    let any = if ip(to).is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let outbox = sender.run(|| UdpSocket::bind(any).unwrap());
    let mut bytes = [0; 16];
    // A cable that just came up may lose one.
    let arrival = (0..3).find_map(|_| {
        outbox.send_to(b"hello", address).unwrap();
        inbox.recv_from(&mut bytes).ok()
    });
    let (length, from) = arrival.expect("the datagram arrives");
    assert_eq!(&bytes[..length], b"hello");
    from
}

/// True, and says so, when the kernel proved that it lacks a feature. Any other failure is the
/// test's.
pub fn lacking<T>(what: &str, result: Result<T, NetlinkError>) -> bool {
    match result {
        Ok(_) => false,
        Err(error) if error.proves_kernel_lacks_feature() => {
            left_out::kernel_lacks(format!("{what}: {error}"));
            true
        }
        Err(error) => panic!("{error}"),
    }
}
