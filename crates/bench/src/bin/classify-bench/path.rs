//! Packets through an HTB, with filters and without: what a filter adds to the CPU time of whoever sends.
//!
//! ```text
//!   packet socket ──► q0, an ifb: HTB ─ filter ─► class 1:1 … ──► dropped
//! ```
//!
//! Each filter does the like: it tells the flow, or the host, by which the class is chosen. `u32` can't hash in a chain of matches, so it
//! asks for one source address after the other, of which the last is the packet's.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::time::{ClockId, clock_gettime};
use quell_classify::{Classifier, Config, Keys, Parts, catch_all};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkKind, LinkName, NewLink};
use quell_netlink::tc::{self, ApplyError};
use quell_netlink::{NetlinkError, Stack};
use quell_sys::netns::NetNs;
use quell_tc::{Filter, Handle, Tree};

use crate::{alone, summed_up};

/// Packets of a round.
const PACKETS: usize = 50_000;
/// Classes, and so sources that u32 asks for.
const CLASSES: u16 = 16;

pub fn run(rounds: usize) -> Result<(), String> {
    let place = NetNs::new().map_err(|e| e.to_string())?;
    place.run(|| measure(rounds)).map_err(|e| e.to_string())?
}

/// A device with a queue and one way of choosing its class.
struct Way {
    name: &'static str,
    socket: OwnedFd,
    index: u32,
}

fn measure(rounds: usize) -> Result<(), String> {
    let config = Config::new(Parts { keys: Keys::OUTER, ..Parts::flows(1, CLASSES) });
    let classifier =
        Classifier::load(&config.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    let rest = Handle::class(1, 1);
    let ours = classifier.filters(Some(rest));
    let flow = r#"{ kind = "flow", handle = 1, mode = "hash", keys = ["src", "dst", "proto", "proto-src", "proto-dst"], divisor = 16, baseclass = "1:1" }"#;
    let mut u32s = Vec::new();
    for host in (1..=CLASSES).rev() {
        u32s.push(filter(&format!(
            r#"{{ kind = "u32", protocol = "ip", match = "ip src 192.0.2.{host}", class = "1:{host:x}" }}"#
        ))?);
    }
    u32s.push(catch_all(rest));
    let ways = [
        ("no filter", vec![]),
        ("ours, five keys", ours),
        ("flow, five keys", vec![filter(flow)?, catch_all(rest)]),
        ("u32, the 1st of 16 sources", one_of(&u32s, 1)),
        ("u32, the 16th of 16 sources", u32s),
    ];
    let mut there = Vec::new();
    for (at, (name, filters)) in ways.into_iter().enumerate() {
        match way(at, name, filters) {
            Ok(way) => there.push(way),
            Err(error) if error.proves_kernel_lacks_feature() => {
                println!("left out: {name}: {error}");
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    println!(
        "\nin the path of a packet through HTB, ns of CPU: median [quartiles] of {rounds} rounds of {PACKETS} packets"
    );
    let packets = alone::packets();
    for (what, frame, _) in packets.iter().filter(|p| ["plain, IPv4", "IP in IP"].contains(&p.0)) {
        let mut taken = vec![Vec::new(); there.len()];
        for _ in 0..rounds {
            // What is compared is compared within a round: what else the machine does is the same.
            for (taken, way) in taken.iter_mut().zip(&there) {
                taken.push(send(way, frame)?);
            }
        }
        println!("{what}");
        let base = taken[0].clone();
        for (at, (way, taken)) in there.iter().zip(&taken).enumerate() {
            let values = match at {
                0 => taken.clone(),
                _ => taken.iter().zip(&base).map(|(with, without)| with - without).collect(),
            };
            let added = if at == 0 { "" } else { " more" };
            println!("  {:<28} {}{added}", way.name, summed_up(values));
        }
    }
    Ok(())
}

/// The filters with the one that matches in the first place.
fn one_of(filters: &[Filter], first: usize) -> Vec<Filter> {
    let mut filters = filters.to_vec();
    let last = filters.len() - 1 - first;
    filters.swap(0, last);
    filters
}

fn filter(text: &str) -> Result<Filter, String> {
    #[derive(serde::Deserialize)]
    struct One {
        f: Filter,
    }
    toml::from_str::<One>(&format!("f = {text}")).map(|one| one.f).map_err(|e| e.to_string())
}

fn way(at: usize, name: &'static str, filters: Vec<Filter>) -> Result<Way, NetlinkError> {
    let link: LinkName = format!("q{at}").parse().expect("it is a name");
    let mut stack = Stack::open()?;
    stack.create_link(&NewLink::new(link.clone(), LinkKind::Ifb))?;
    let index = stack.index_of(&link)?;
    stack.up(index)?;
    let classes: Vec<String> = (1..=CLASSES)
        .map(|minor| format!(r#"{{ id = "1:{minor:x}", rate = "100Gbit" }}"#))
        .collect();
    let text = format!(
        r#"queue = {{ kind = "htb", handle = "1:", default = "1:1", class = [ {} ] }}"#,
        classes.join(",")
    );
    let mut tree: Tree = toml::from_str(&text).expect("it is a tree");
    tree.queue.as_mut().expect("it has a queue").filters = filters;
    tc::apply(&mut Socket::open(Protocol::Route)?, index, &tree).map_err(|error| match error {
        ApplyError::Kernel(error) | ApplyError::Left(error) => error,
        ApplyError::Tree(error) => panic!("{error}"),
    })?;
    // SAFETY: a call without pointers; a result of 0 or more is a descriptor of ours.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0, "a packet socket: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    };
    Ok(Way { name, socket, index })
}

/// Sends the packets of a round: ns of this thread's CPU time for each.
fn send(way: &Way, frame: &[u8]) -> Result<f64, String> {
    let to = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: u16::from_ne_bytes([frame[12], frame[13]]),
        sll_ifindex: way.index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0; 8],
    };
    let before = cpu();
    for _ in 0..PACKETS {
        // SAFETY: frame and address live through the call, and the sizes are theirs.
        let sent = unsafe {
            libc::sendto(
                way.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const to).cast(),
                size_of_val(&to) as u32,
            )
        };
        if sent < 0 {
            return Err(format!(
                "sending through {}: {}",
                way.name,
                std::io::Error::last_os_error()
            ));
        }
    }
    Ok((cpu() - before) / PACKETS as f64)
}

fn cpu() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every kernel has this clock");
    now.tv_sec() as f64 * 1e9 + now.tv_nsec() as f64
}
