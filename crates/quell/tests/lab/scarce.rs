//! What is scarce at a server, held by those who do nothing with it: here in virtual time, where no thread waits for a CPU.

use super::support::{PING, QUELL, QUIET, TestFolder, two_hosts};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
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

/// A call of 64 bytes that is over, on a connection that stays.
fn called(network: u8) -> Option<TcpStream> {
    let mut stream = TcpStream::from(idle(network).ok()?);
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    let hello = [&b"QUELLRR1"[..], &[0, 0, 0, 64, 0, 0, 0, 64], &[0; 16], &[1; 64]].concat();
    stream.write_all(&hello).ok()?;
    stream.read_exact(&mut [0; 64]).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

/// 40 connections of calls of one client, each made anew half a second after it was sent away; run in the lab beside the server.
#[test]
#[ignore = "a program for other tests"]
fn forty_connections_of_calls_at_rest() {
    let mut held: Vec<Option<TcpStream>> = (0..40).map(|_| None).collect();
    loop {
        for held in &mut held {
            let there = held.as_mut().is_some_and(|stream| {
                let nothing = stream.read(&mut [0]).map_err(|e| e.kind());
                nothing == Err(ErrorKind::WouldBlock)
            });
            if !there {
                *held = called(1);
            }
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// A test that has come to its end: the server waits for its results.
fn ending() -> TcpStream {
    let connected = || loop {
        match idle(1) {
            Ok(stream) => return TcpStream::from(stream),
            // The server has just been started.
            Err(nix::Error::ECONNREFUSED) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => panic!("{error}"),
        }
    };
    let cookie = [&[b'a'; 36][..], &[0]].concat();
    let parameters = br#"{"tcp":true,"time":1,"parallel":1,"len":1000}"#;
    let mut control = connected();
    let mut hears = |words: &[u8], say: &[u8]| {
        control.write_all(say).expect("sent");
        let mut heard = vec![0; words.len()];
        control.read_exact(&mut heard).expect("the server's word");
        assert_eq!(heard, words);
    };
    // Asked for parameters, then for streams.
    hears(&[9], &cookie);
    hears(&[10], &[&[0, 0, 0, parameters.len() as u8], &parameters[..]].concat());
    let mut stream = connected();
    stream.write_all(&cookie).expect("sent");
    // It starts, runs, and is over.
    hears(&[1, 2], &[]);
    stream.write_all(&[7; 1000]).expect("sent");
    hears(&[13], &[4]);
    // Its stream lasts as long as this program.
    std::mem::forget(stream);
    control
}

/// A client that sends its results 4 s after it was asked for them, and never says that it has the server's; run in the lab beside the server.
#[test]
#[ignore = "a program for other tests"]
fn a_test_that_stands_still_in_its_end() {
    let mut control = ending();
    std::thread::sleep(Duration::from_secs(4));
    control.write_all(&[0, 0, 0, 2, b'{', b'}']).expect("sent");
    loop {
        std::thread::park();
    }
}

/// A client whose results come a byte a second; run in the lab beside the server.
#[test]
#[ignore = "a program for other tests"]
fn a_test_whose_results_trickle() {
    let mut control = ending();
    control.write_all(&[0, 0, 3, 0]).expect("sent");
    while control.write_all(b" ").is_ok() {
        std::thread::sleep(Duration::from_secs(1));
    }
    loop {
        std::thread::park();
    }
}

#[test]
fn a_test_that_stands_still_in_its_end_gives_way_after_five_seconds() {
    // The server waits 5 s from 4 s on for its last word.
    gives_way("a_test_that_stands_still_in_its_end", 7);
}

#[test]
fn a_test_whose_results_trickle_keeps_nobody_out() {
    gives_way("a_test_whose_results_trickle", 12);
}

/// Who has the only place of a server with this program of ours does not give it to a newcomer after 3 s, and has not got it any more after
/// so many.
#[track_caller]
fn gives_way(holder: &str, seconds: u64) {
    let dir = TestFolder::new();
    let line = "both = { delay = \"5ms\" }";
    let file = dir.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let file = file.to_string_lossy();
    let serve = format!("b: {QUELL} serve --bind 0.0.0.0 --max-tests 1");
    let own = std::env::current_exe().expect("a test has a file");
    let held = format!("b: {} --ignored --exact scarce::{holder}", own.display());
    let rr = format!("{QUELL} rr {{b}} --calls 1 --sizes 64");
    let newcomer = format!("sleep 3; {rr} && exit 9; sleep {}; {rr}", seconds - 3);
    let exec = ["lab", "exec", &*file, "a", "--with", &serve, "--with", &held];
    let output = dir.quell(&[&exec[..], &["--", "sh", "-c", &newcomer]].concat());
    let said = [&output.stdout[..], &output.stderr].concat();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn idle_connections_keep_nobody_out_where_descriptors_are_few() {
    nobody_is_kept_out_by("two_hundred_idle_connections");
}

#[test]
fn calls_at_rest_keep_nobody_out_where_descriptors_are_few() {
    nobody_is_kept_out_by("forty_connections_of_calls_at_rest");
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
