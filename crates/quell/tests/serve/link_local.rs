//! `quell serve` and its clients at the two ends of a cable, by the addresses that each end has by itself, and by others that no socket can be bound to.
//! In namespaces of the test's own.

use crate::server::{NEVER, Served, byte, in_time, parameters};
use crate::support::cable::Cable;
use crate::support::{left_out, program, said};
use quell_netlink::address::NewAddress;
use quell_netlink::{Stack, sysctl};
use quell_sys::netns::NetNs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
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
            let flow = in_time(|| ask().expect("a namespace"));
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

/// The cable with global addresses too, and a server at its other end.
fn served() -> (Cable, Served) {
    let cable = cable();
    up(&cable.here, "a0", "fd00::1");
    up(&cable.there, "b0", "fd00::2");
    let serve = ["serve", "--port", "0", "--json", "--bind", "::"];
    let mut served = cable.there.run(|| Served::of(program(&serve))).expect("a namespace");
    served.at.set_ip("fd00::2".parse::<IpAddr>().expect("an address"));
    (cable, served)
}

/// Parameters of a test that sends here over UDP, as iperf3 asks for it.
const UDP: &str =
    r#"{"udp":true,"time":1,"parallel":1,"reverse":true,"len":1000,"bandwidth":1000000}"#;

#[test]
fn a_strangers_hello_for_which_there_is_no_socket_ends_no_test_of_the_client_whose_address_it_has()
{
    let (cable, served) = served();
    let work = || {
        let mut control = served.begin(b'a');
        control.write_all(&parameters(UDP)).expect("sent");
        assert_eq!(byte(&mut control), Some(10), "it wants a stream");
        let own = || UdpSocket::bind("[fd00::1]:0").expect("a port");
        // To the address of the link, from one that is of none: the kernel does not say of which link it was.
        let index = Stack::open().expect("netlink").index_of(&"a0".parse().expect("a name"));
        let index = index.expect("it is there");
        let of_link = format!("[fe80::2%{index}]:{}", served.at.port());
        let forged = of_link.parse::<SocketAddr>().expect("an address");
        own().send_to(b"9876", forged).expect("sent");
        served.event("refused", "no socket for its UDP stream");
        let client = own();
        client.set_read_timeout(Some(NEVER)).expect("a limit");
        client.send_to(b"9876", served.at).expect("sent");
        let mut answer = [0; 2000];
        assert_eq!(client.recv(&mut answer).expect("an answer"), 4);
        assert_eq!([byte(&mut control), byte(&mut control)], [Some(1), Some(2)], "it runs");
    };
    cable.here.run(work).expect("a namespace");
}

#[test]
fn a_client_is_told_why_there_is_no_socket_for_its_stream() {
    if Command::new("ip").arg("-V").output().is_err() {
        return left_out::for_want_of("there is no ip on this machine (package iproute2)");
    }
    let (cable, served) = served();
    // Packets to it come in, and no device has it: connections can be taken, and no socket bound.
    for (namespace, route) in [
        (&cable.there, "-6 route add local fd09::9 dev b0"),
        (&cable.here, "-6 route add fd09::9 via fd00::2"),
    ] {
        let run = || Command::new("ip").args(route.split(' ')).status().expect("ip starts");
        assert!(namespace.run(run).expect("a namespace").success(), "{route}");
    }
    let port = served.at.port().to_string();
    let own = ["flow", "fd09::9", "-p", &port, "-u", "-t", "1"];
    let iperf3 = [&own[..], &["--iperf3"]].concat();
    for all in [&own[..], &iperf3] {
        let flow = cable.here.run(|| said(cable.dir.command(all), all)).expect("a namespace");
        println!("{all:?} {:?} {}", flow.code, flow.error);
        let why =
            "gave up: its system does not let it begin the test, its error 101, Cannot assign";
        assert!(flow.error.contains(why), "{all:?}: {}{}", flow.out, flow.error);
    }
}
