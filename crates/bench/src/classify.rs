//! What classifying a packet costs.
//!
//! ```text
//!   alone     the program by itself, on one packet again and again (BPF_PROG_TEST_RUN)
//!   in path   packets through HTB without a filter, with ours, with `flow` where the kernel has it, with u32, and with TCP's round trips watched
//! ```
//!
//! Rounds alternate between what is compared; printed are medians and quartiles.

use crate::options::BenchOptions;
use crate::stats::spread;
use nix::time::{ClockId, clock_gettime};
use quell_classify::{
    Classifier, ClassifyError, Config, HostKey, Keys, Parts, RoundTrips, catch_all,
};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkKind, LinkName, NewLink};
use quell_netlink::tc::{self, ApplyError};
use quell_netlink::{NetlinkError, Stack};
use quell_sys::netns::NetNs;
use quell_tc::{Filter, Handle, Tree};
use quell_wire::layers::{Layer, packet};
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    // Asked first, so that a machine that lets nobody load programs goes on with other benches.
    if let Some(error) = refusal().filter(ClassifyError::proves_no_program_loads) {
        println!("left out: {error}");
        return Ok(());
    }
    alone(options.rounds)?;
    in_path(options.rounds)
}

/// Why the classifier can't be loaded here.
fn refusal() -> Option<ClassifyError> {
    Classifier::load(&Config::flows(1, 1).expect("one flow fits")).err()
}

fn summed_up(values: &[f64]) -> String {
    spread(values, 1.0, 1)
}

/// Runs of the program on one packet in a round: few enough to be over, mostly, before another program gets the CPU.
const REPEAT: u32 = 5_000;
/// So many more rounds than of what takes longer.
const MORE: usize = 20;

fn v6(last: u16) -> Layer {
    let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
    Layer::v6(address(last), address(0xffff))
}

fn v4(last: u8) -> Layer {
    Layer::v4([192, 0, 2, last], [198, 51, 100, 1])
}

/// The packets, by name; the goal in ns where there is one.
fn packets() -> Vec<(&'static str, Vec<u8>, Option<u32>)> {
    let tcp = || vec![Layer::Tcp { src: 40000, dst: 443 }, Layer::payload(1200)];
    let frame = |tunnel: &[Layer], inner: Layer| {
        packet(&[&[Layer::Ethernet], tunnel, &[inner], &tcp()[..]].concat())
    };
    let gre = Layer::Gre { checksum: false, key: true, sequence: false };
    let vxlan =
        [v4(9), Layer::Udp { src: 50000, dst: 4789 }, Layer::Vxlan { network: 7 }, Layer::Ethernet];
    vec![
        ("plain, IPv4", frame(&[], v4(1)), Some(60)),
        ("plain, IPv6", frame(&[], v6(1)), Some(60)),
        ("IP in IP", frame(&[v4(9)], v4(1)), Some(120)),
        ("IPv4 in IPv6", frame(&[v6(9)], v4(1)), Some(120)),
        ("IPv6 in IPv6", frame(&[v6(9)], v6(1)), Some(120)),
        ("GRE with a key", frame(&[v4(9), gre], v4(1)), Some(120)),
        ("VXLAN", frame(&vxlan, v4(1)), Some(120)),
        ("IP in IP in IP", frame(&[v4(9), v4(8)], v4(1)), None),
    ]
}

/// What it is told to do, by name.
fn tasks() -> Result<Vec<(&'static str, Config)>, String> {
    let flows = |keys| Config::new(Parts { keys, ..Parts::flows(1, 1024) });
    let all = [
        ("flow of five keys", flows(Keys::OUTER)),
        ("flow of ten keys", flows(Keys::ALL_FLOWS)),
        ("host and flow, for CAKE", Config::cake(HostKey::TunnelSrc)),
    ];
    all.into_iter().map(|(name, c)| Ok((name, c.map_err(|e| e.to_string())?))).collect()
}

fn alone(rounds: usize) -> Result<(), String> {
    let rounds = rounds * MORE;
    println!(
        "\nthe program alone, ns a packet: median [quartiles] of {rounds} rounds of {REPEAT} runs"
    );
    let tasks = tasks()?;
    let mut loaded = Vec::new();
    for (name, config) in &tasks {
        loaded.push((name, Classifier::load(config).map_err(|e| e.to_string())?));
    }
    for (what, frame, goal) in packets() {
        let mut taken = vec![Vec::new(); loaded.len()];
        for _ in 0..rounds {
            for (at, (_, classifier)) in loaded.iter().enumerate() {
                let run = classifier.test_run(&frame, 0, REPEAT).map_err(|e| e.to_string())?;
                taken[at].push(run.took.as_nanos() as f64);
            }
        }
        let goal = goal.map_or(String::new(), |goal| format!("   (goal: under {goal})"));
        println!("{what}{goal}");
        for ((name, _), taken) in loaded.iter().zip(taken) {
            // The least is what it takes where nobody else has the CPU's other half.
            let least = taken.iter().copied().fold(f64::INFINITY, f64::min);
            println!("  {name:<26} {}, least {least:.1}", summed_up(&taken));
        }
    }
    Ok(())
}

/// Packets of a round.
const PACKETS: usize = 50_000;
/// Classes, and so sources that u32 asks for.
const CLASSES: u16 = 16;

/// Packets through an HTB, with filters and without: what a filter adds to the CPU time of whoever sends.
///
/// ```text
///   packet socket ──► q0, an ifb: HTB ─ filter ─► class 1:1 … ──► dropped
/// ```
///
/// Each filter does the like: it tells the flow, or the host, by which the class is chosen. `u32` can't hash in a chain of matches, so it
/// asks for one source address after the other, of which the last is the packet's.
fn in_path(rounds: usize) -> Result<(), String> {
    let place = NetNs::new().map_err(|e| e.to_string())?;
    place.run(|| measure_path(rounds)).map_err(|e| e.to_string())?
}

/// A device without a filter, whose round trips of TCP are taken as packets leave.
const WATCHED: &str = "round trips, no filter";

/// A device with a queue and one way of choosing its class.
struct FilteredDevice {
    name: &'static str,
    socket: OwnedFd,
    index: u32,
}

fn measure_path(rounds: usize) -> Result<(), String> {
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
        (WATCHED, vec![]),
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
    let watched = there.iter().find(|device| device.name == WATCHED).map(|device| device.index);
    let mut trips = RoundTrips::load().map_err(|e| e.to_string())?;
    trips.watch(watched.unwrap_or_default()).map_err(|e| e.to_string())?;
    let packets = packets();
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
            println!("  {:<28} {}{added}", way.name, summed_up(&values));
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

fn way(
    at: usize,
    name: &'static str,
    filters: Vec<Filter>,
) -> Result<FilteredDevice, NetlinkError> {
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
    Ok(FilteredDevice { name, socket, index })
}

/// Sends the packets of a round: ns of this thread's CPU time for each.
fn send(way: &FilteredDevice, frame: &[u8]) -> Result<f64, String> {
    let to = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: u16::from_ne_bytes([frame[12], frame[13]]),
        sll_ifindex: way.index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0; 8],
    };
    let mut frame = frame.to_vec();
    let is_tcp = frame[23] == 6;
    let before = cpu();
    for seq in 0..PACKETS as u32 {
        if is_tcp {
            frame[38..42].copy_from_slice(&(seq * 1200).to_be_bytes());
        }
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
