//! `quell serve` against clients that vanish, wait, lie and forge: it gives little, ends them, and serves on.

use crate::server::{Served, byte, cookie_of, parameters, rest};
use crate::support::{Said, program, said};
use nix::fcntl::{FcntlArg, fcntl};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

const UDP: &str =
    r#"{"udp":true,"time":1,"parallel":1,"reverse":true,"len":1000,"bandwidth":1000000}"#;
const TCP: &str = r#"{"tcp":true,"time":30,"parallel":1,"reverse":true,"len":1000}"#;

/// A socket that takes it for silence when nothing comes for a moment.
fn udp(from: &str, served: &Served) -> UdpSocket {
    let socket = UdpSocket::bind(from).expect("a port");
    socket.connect(served.at).expect("an address");
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
    socket
}

/// What is given by one of five clients, each with a cookie of its own: one that had no CPU for a step's time is given up.
fn of_one_of_five<T>(talk: impl FnMut(u8) -> Option<T>) -> T {
    (b'a'..=b'e').find_map(talk).expect("one of five clients is served")
}

#[test]
fn half_a_handshake_and_silence_are_ended_and_others_are_served_meanwhile() {
    let served = Served::new(&[]);
    let mut silent = served.connect();
    let mut half = served.connect();
    half.write_all(&cookie_of(b'a')[..20]).expect("sent");
    let mut slow = served.begin(b'b');
    slow.write_all(&[0, 0]).expect("sent");
    let mut promising = served.begin(b'c');
    promising.write_all(&parameters(TCP)).expect("sent");
    assert_eq!(byte(&mut promising), Some(10), "it wants the streams, which never come");
    served.is_well();
    for stream in [&mut silent, &mut half] {
        assert!(rest(stream).is_empty(), "not a byte to whom said nothing");
    }
    for stream in [&mut slow, &mut promising] {
        assert_eq!(rest(stream), [11], "the server goes away");
    }
    served.is_well();
}

#[test]
fn a_client_that_vanishes_in_the_middle_is_noticed_and_what_was_measured_is_told() {
    let served = Served::new(&[]);
    let mut control = served.begin(b'a');
    control.write_all(&parameters(TCP)).expect("sent");
    assert_eq!(byte(&mut control), Some(10));
    let mut data = served.connect();
    data.write_all(&cookie_of(b'a')).expect("sent");
    assert_eq!([byte(&mut control), byte(&mut control)], [Some(1), Some(2)]);
    assert!(byte(&mut data).is_some(), "data flows");
    drop((control, data));
    let ended = served.event("ended", "went away");
    assert!(ended["sent_bytes"].as_u64().expect("it is counted") > 0, "{ended}");
    served.is_well();
}

#[test]
fn lengths_that_lie_and_tests_that_can_not_be_are_refused() {
    let served = Served::new(&[]);
    for (letter, bytes, first) in [
        (b'a', vec![0xff; 4], 0xfe),
        (b'b', parameters("{]"), 0xfe),
        (b'c', parameters(r#"{"tcp":true,"parallel":4000000000,"len":1000}"#), 0xfe),
        (b'd', parameters(r#"{"sctp":true,"parallel":1,"len":1000}"#), 0xfe),
        (b'e', parameters(&"[".repeat(60_000)), 0xfe),
    ] {
        let mut stream = served.begin(letter);
        stream.write_all(&bytes).expect("sent");
        let answer = rest(&mut stream);
        assert_eq!((answer.first(), answer.len()), (Some(&first), 9), "an error of iperf3's");
    }
    served.is_well();
}

#[test]
fn udp_data_goes_only_to_who_has_a_connection_and_asked() {
    let served = Served::new(&[]);
    // No test waits for it.
    let stranger = udp("127.0.0.1:0", &served);
    stranger.send(b"9876").expect("sent");
    assert!(stranger.recv(&mut [0; 100]).is_err(), "no answer to a stranger");
    let control = of_one_of_five(|cookie| {
        let mut control = served.begin(cookie);
        control.write_all(&parameters(UDP)).expect("sent");
        assert_eq!(byte(&mut control), Some(10));
        // As if somebody forged that address to have it flooded.
        let forged = udp("127.0.0.2:0", &served);
        forged.send(b"9876").expect("sent");
        assert!(forged.recv(&mut [0; 100]).is_err(), "no answer to another address");
        let own = udp("127.0.0.1:0", &served);
        own.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
        own.send(b"9876").expect("sent");
        let mut bytes = [0; 2000];
        let got = own.recv(&mut bytes).ok()?;
        assert_eq!(bytes[..got], *b"6789");
        assert_eq!([byte(&mut control), byte(&mut control)], [Some(1), Some(2)]);
        assert_eq!(own.recv(&mut bytes).expect("data flows"), 1000);
        Some(control)
    });
    // A late hello, or a replayed one, opens nothing more.
    stranger.send(b"9876").expect("sent");
    assert!(stranger.recv(&mut [0; 100]).is_err(), "the test has its stream");
    drop(control);
    served.event("ended", "went away");
    served.is_well();
}

#[test]
fn a_test_with_a_token_answers_hellos_that_carry_it_and_no_others() {
    let asked = r#"{"udp":true,"time":1,"parallel":1,"reverse":true,"len":1000,
        "bandwidth":1000000,"quell":{"version":1,"token":"00112233445566778899aabbccddeeff"}}"#;
    let served = Served::new(&[]);
    let token: Vec<u8> = (0..16).map(|n| n * 0x11).collect();
    let [right, wrong] = [0, 1].map(|bit| {
        let mut hello = [b"9876", &token[..]].concat();
        hello[19] ^= bit;
        hello
    });
    of_one_of_five(|cookie| {
        let mut control = served.begin(cookie);
        control.write_all(&parameters(asked)).expect("sent");
        assert_eq!(byte(&mut control), Some(81), "streams with the token");
        let own = udp("127.0.0.1:0", &served);
        for hello in [&b"9876"[..], &wrong, &right[..19], &[&right[..], &[0]].concat()] {
            own.send(hello).expect("sent");
            assert!(own.recv(&mut [0; 100]).is_err(), "{} bytes of a stranger", hello.len());
        }
        own.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
        own.send(&right).expect("sent");
        let mut bytes = [0; 2000];
        let got = own.recv(&mut bytes).ok()?;
        assert_eq!(bytes[..got], [b"6789", &token[..]].concat(), "as long as the question");
        assert_eq!([byte(&mut control), byte(&mut control)], [Some(1), Some(2)]);
        assert_eq!(own.recv(&mut bytes).expect("data flows"), 1000);
        Some(())
    });
    served.is_well();
}

#[test]
fn any_bytes_leave_it_well() {
    let served = Served::new(&["--max-tests", "200", "--max-tests-per-client", "200"]);
    let mut runner = TestRunner::new(Config { cases: 60, ..Config::default() });
    let prefix = prop_oneof![
        Just(Vec::new()),
        Just(b"QUELAUT1".to_vec()),
        Just(b"QUELLRR1".to_vec()),
        Just(cookie_of(b'z').to_vec()),
        Just([&cookie_of(b'y')[..], &[0, 0, 0, 50]].concat()),
    ];
    let any = (prefix, prop::collection::vec(any::<u8>(), 0..200));
    runner
        .run(&any, |(prefix, bytes)| {
            let mut stream = served.connect();
            // The server may have ended it before all is written.
            let _ = stream.write_all(&prefix).and_then(|()| stream.write_all(&bytes));
            let socket = udp("127.0.0.1:0", &served);
            socket.send(&bytes).expect("sent");
            Ok(())
        })
        .expect("the server takes all of it");
    served.is_well();
    let mut served = served;
    served.signal("TERM");
    assert_eq!(served.end(), Some(0), "it has not panicked");
}

/// What a server of one test of TCP upwards says and hears until it has both connections: of control and of data.
fn greeted(listener: &std::net::TcpListener) -> (TcpStream, TcpStream) {
    let accept = || listener.accept().expect("it comes").0;
    let mut control = accept();
    control.read_exact(&mut [0; 37]).expect("a cookie");
    control.write_all(&[9]).expect("sent");
    let mut length = [0; 4];
    control.read_exact(&mut length).expect("a length");
    let mut text = vec![0; u32::from_be_bytes(length) as usize];
    control.read_exact(&mut text).expect("parameters");
    control.write_all(&[10]).expect("sent");
    let mut data = accept();
    data.read_exact(&mut [0; 37]).expect("a cookie");
    (control, data)
}

/// A server of one test of TCP upwards that says what is due until data flows, and then what it likes; what `quell flow` says of it.
fn against(arguments: &[&str], mut then: impl FnMut(TcpStream, TcpStream) + Send) -> Said {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut control, data) = greeted(&listener);
            control.write_all(&[1, 2]).expect("sent");
            then(control, data);
        });
        let arguments = [&["flow", "127.0.0.1", "-p", &port][..], arguments].concat();
        said(program(&arguments), &arguments)
    })
}

#[test]
fn a_client_whose_server_hangs_up_says_so() {
    let said = against(&["-t", "5", "-Z"], |_, mut data| {
        data.read_exact(&mut [0; 4096]).expect("data flows");
    });
    assert!(matches!(said.code, Some(1..=3)), "{:?}: {}{}", said.code, said.out, said.error);
    assert_ne!(said.error, "");
}

/// A program that goes with its test, whatever becomes of that.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_log_that_nobody_reads_holds_up_neither_clients_nor_the_end() {
    let mut command = program(&["serve", "--port", "0", "--json"]);
    let mut server = Ended(command.stdout(Stdio::piped()).spawn().expect("the program starts"));
    let mut out = BufReader::new(server.0.stdout.take().expect("it is piped"));
    let mut started = String::new();
    out.read_line(&mut started).expect("its first line");
    let started: serde_json::Value = serde_json::from_str(&started).expect("JSON");
    let at: SocketAddr = started["address"].as_str().and_then(|a| a.parse().ok()).expect("one");
    // The smallest pipe there is: one page.
    fcntl(out.get_ref(), FcntlArg::F_SETPIPE_SZ(4096)).expect("a pipe's size can be set");
    let call = || {
        let at = at.to_string();
        let arguments = ["rr", &at, "--calls", "1", "--sizes", "64"];
        said(program(&arguments), &arguments).fine();
    };
    for _ in 0..120 {
        let mut stream = TcpStream::connect(at).expect("it listens");
        stream.write_all(b"a stranger's nonsense, as long as a cookie").expect("sent");
        rest(&mut stream);
    }
    (0..40).for_each(|_| call());
    let pid = nix::unistd::Pid::from_raw(server.0.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it is ours");
    assert_eq!(server.0.wait().expect("it ends").code(), Some(0));
    drop(out);
}
