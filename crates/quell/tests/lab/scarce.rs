//! What is scarce at a server, held by those who do nothing with it: here in virtual time, where no thread waits for a CPU.

use super::support::{PING, QUELL, QUIET, TestFolder, two_hosts};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// A connection from this network of the loopback interface to the server at the usual port.
fn idle(network: u8) -> nix::Result<OwnedFd> {
    let kind = (AddressFamily::Inet, SockType::Stream, SockFlag::empty());
    let stream = socket(kind.0, kind.1, kind.2, None)?;
    bind(stream.as_raw_fd(), &SockaddrIn::new(127, 77, network, 1, 0))?;
    let [a, b, c, d] = Ipv4Addr::LOCALHOST.octets();
    connect(stream.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 5201))?;
    Ok(stream)
}

/// 200 connections that say nothing, from as many networks; run in the lab beside the server.
#[test]
#[ignore = "a program for other tests"]
fn two_hundred_idle_connections() {
    let held = (0..200).map(|network| {
        loop {
            match idle(network) {
                Ok(stream) => return stream,
                // The server has just been started.
                Err(nix::Error::ECONNREFUSED) => std::thread::sleep(Duration::from_millis(10)),
                Err(error) => panic!("{error}"),
            }
        }
    });
    let held: Vec<OwnedFd> = held.collect();
    println!("{} connections are there", held.len());
    loop {
        std::thread::park();
    }
}

#[test]
fn idle_connections_keep_nobody_out_where_descriptors_are_few() {
    nobody_is_kept_out_by("two_hundred_idle_connections");
}

/// Calls and tests from elsewhere are served by a server with 64 descriptors while this program of ours attacks it.
#[track_caller]
fn nobody_is_kept_out_by(attack: &str) {
    let dir = TestFolder::new();
    let line = "both = { delay = \"5ms\" }";
    let file = dir.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let file = file.to_string_lossy();
    let few = dir.file("few", &format!("ulimit -n 64\nexec {QUELL} serve --bind 0.0.0.0\n"));
    let serve = format!("b: sh {}", few.display());
    let own = std::env::current_exe().expect("a test has a file");
    let idle = format!("b: {} --ignored --exact scarce::{attack}", own.display());
    let rr = format!("{QUELL} rr {{b}} --calls 3 --sizes 64");
    let flow = format!("{QUELL} flow {{b}} -t 1 -b 1M -P 4");
    let good = format!("sleep 2; for n in 1 2 3 4; do {rr} && {flow} || exit 1; done");
    let exec =
        ["lab", "exec", &*file, "a", "--with", &serve, "--with", &idle, "--", "sh", "-c", &good];
    let output = dir.quell(&exec);
    let said = [&output.stdout[..], &output.stderr].concat();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&said));
}
