//! `quell serve` and its clients at the two ends of a cable, by the addresses that each end has by itself, and by others that no socket can be bound to.
//! In namespaces of the test's own.

use crate::server::{NEVER, Served};
use crate::support::cable::Cable;
use crate::support::{program, said};
use quell_netlink::address::NewAddress;
use quell_netlink::{Stack, sysctl};
use quell_sys::netns::NetNs;
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

/// Brings an end of the cable up, with this address of its link, and waits until that can be used.
fn up(namespace: &NetNs, device: &str, address: &str) {
    let work = || {
        let mut stack = Stack::open().expect("netlink");
        let index = stack.index_of(&device.parse().expect("a name")).expect("it is there");
        // Addresses can be used at once.
        sysctl::write(&format!("net/ipv6/conf/{device}/accept_dad"), "0").expect("a sysctl");
        stack.up(index).expect("it goes up");
        let prefix = format!("{address}/64").parse().expect("a prefix");
        stack.add_address(index, &NewAddress::new(prefix)).expect("an address");
        let scope = if address.starts_with("fe80:") { index } else { 0 };
        let own: SocketAddr = format!("[{address}%{scope}]:0").parse().expect("an address");
        let begun = Instant::now();
        while let Err(error) = UdpSocket::bind(own) {
            assert!(begun.elapsed() < NEVER, "{own}: {error}");
            std::thread::yield_now();
        }
    };
    namespace.run(work).expect("the namespace can be entered");
}

fn cable() -> Cable {
    let cable = Cable::new();
    up(&cable.here, "a0", "fe80::1");
    up(&cable.there, "b0", "fe80::2");
    cable
}

#[test]
fn over_the_addresses_of_a_link_tests_go_each_way_by_tcp_and_udp() {
    let cable = cable();
    for bind in ["::", "fe80::2%b0"] {
        let serve = ["serve", "--port", "0", "--json", "--bind", bind];
        let served = cable.there.run(|| Served::of(program(&serve))).expect("a namespace");
        let port = served.at.port().to_string();
        for more in [&[][..], &["-u"], &["-u", "-R"], &["-u", "--bidir"], &["-u", "-P", "3"]] {
            let all = [&["flow", "fe80::2%a0", "-p", &port, "-t", "1"], more].concat();
            let ask = || cable.here.run(|| said(cable.dir.command(&all), &all));
            let flow = ask().expect("a namespace");
            assert_eq!(flow.code, Some(0), "{bind} {more:?}: {}{}", flow.out, flow.error);
        }
    }
}

#[test]
fn an_address_of_a_link_needs_its_device() {
    let cable = cable();
    for (bind, why) in [("fe80::2", "say of which"), ("fe80::2%nope", "there is no device `nope`")]
    {
        let all = ["serve", "--bind", bind];
        let serve = cable.there.run(|| said(cable.dir.command(&all), &all)).expect("a namespace");
        let said = serve.refused(2);
        assert!(said.contains(why), "{said}");
    }
}
