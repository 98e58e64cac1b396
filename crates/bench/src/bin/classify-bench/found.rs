//! The program where it finds hosts among the addresses of a network: one that it knows, and one that it never saw.
//!
//! ```text
//!   a router's interface, 10.0.0.1/8, on which no neighbour is known;   packets from there, run by BPF_PROG_TEST_RUN
//! ```

use quell_classify::{Classifier, Config, HostKey, Hosts, Parts, Way};
use quell_netlink::address::NewAddress;
use quell_netlink::link::{LinkKind, LinkName, NewLink};
use quell_netlink::{NetlinkError, Stack, sysctl};
use quell_sys::netns::NetNs;
use quell_tc::Handle;
use quell_wire::layers::{Layer, packet};

use crate::summed_up;

/// Runs on one packet in a round.
const REPEAT: u32 = 5_000;
/// Addresses that a round brings up.
const NEW: u32 = 2_000;

pub fn run(rounds: usize) -> Result<(), String> {
    let place = NetNs::new().map_err(|e| e.to_string())?;
    place.run(|| measure(rounds)).map_err(|e| e.to_string())?
}

fn router() -> Result<u32, NetlinkError> {
    let link: LinkName = "lan".parse().expect("it is a name");
    let mut stack = Stack::open()?;
    stack.create_link(&NewLink::new(link.clone(), LinkKind::Ifb))?;
    let index = stack.index_of(&link)?;
    stack.up(index)?;
    stack.add_address(index, &NewAddress::new("10.0.0.1/8".parse().expect("a prefix")))?;
    sysctl::write("net/ipv4/ip_forward", "1")?;
    Ok(index)
}

fn from(address: u32) -> Vec<u8> {
    let [_, a, b, c] = address.to_be_bytes();
    let ip = Layer::v4([10, a, b, c], [198, 51, 100, 1]);
    packet(&[Layer::Ethernet, ip, Layer::Tcp { src: 40000, dst: 443 }, Layer::payload(1200)])
}

fn measure(rounds: usize) -> Result<(), String> {
    let from_lan = Way { from: router().map_err(|e| e.to_string())?, on: 1 };
    let hosts = Hosts { neighbours: true, ..Hosts::new(HostKey::Src, 128) };
    let parts = Parts::hosts(1, 1, hosts, 1, Handle::class(1, 0xfff));
    let config = Config::new(parts).map_err(|e| e.to_string())?;
    let classifier = Classifier::load(&config).map_err(|e| e.to_string())?;
    let run = |frame: &[u8], repeat| {
        let run = classifier.test_run_on(frame, 0, from_lan, repeat);
        run.map(|run| run.took.as_nanos() as f64).map_err(|e| e.to_string())
    };
    println!(
        "\nhosts found among a network's addresses, ns a packet: median [quartiles] of {rounds} rounds"
    );
    let (mut known, mut new, mut next) = (Vec::new(), Vec::new(), 1000);
    for _ in 0..rounds {
        known.push(run(&from(7), REPEAT)?);
        let mut each = Vec::new();
        for _ in 0..NEW {
            each.push(run(&from(next), 1)?);
            next += 1;
        }
        // What another program took of the CPU meanwhile is no packet's.
        each.sort_by(f64::total_cmp);
        new.push(each[each.len() / 2]);
    }
    println!("  one address, {REPEAT} packets         {}", summed_up(known));
    println!("  {NEW} new addresses, one each     {}", summed_up(new));
    Ok(())
}
