//! Those who ask how the server sees the path (`quell doctor --peer`), and stop in the middle, lie, or come again and again.
//!
//! ```text
//!   hello ─ half a question ─ flows that never come ─ Hear ─ Say, unread ─ Give, unread ─ Take, half of it ─ After ─ Later
//! ```

use crate::client::{NEVER, Test, at_last, from, reset, served};
use crate::{PATIENT, Siege, State, is_soon};
use quell_wire::ends::{self, Answer, Ask, HELLO, LARGEST, LENGTH, LONGEST_HEARING_MS};
use quell_wire::ends::{LONGEST_IDLE_MS, MOST_BYTES, MOST_DATAGRAMS, MOST_FLOWS};
use quell_wire::iperf3::{Greeting, Hello, HelloToken};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// What the server answers next; none where it has hung up.
fn answer(test: &mut Test) -> Option<Answer> {
    let mut head = [0; LENGTH];
    test.control.read_exact(&mut head).ok()?;
    let mut text = vec![0; ends::length(head)?];
    test.control.read_exact(&mut text).ok()?;
    ends::read(&text)
}

/// Said hello.
fn asker(from: Ipv4Addr, to: SocketAddr, number: u64) -> Option<Test> {
    let mut test = Test::new(from, to, number);
    test.control.write_all(HELLO).ok()?;
    Some(test)
}

/// Asked this, after hello; with the answer where there is to be one.
fn asked(mut test: Test, ask: &Ask, answered: bool) -> Option<Test> {
    test.control.write_all(&ends::framed(ask)).ok()?;
    if answered {
        answer(&mut test).filter(|answer| !matches!(answer, Answer::Refused { .. }))?;
    }
    Some(test)
}

/// With a flow of datagrams.
fn flow(from: Ipv4Addr, to: SocketAddr, number: u64) -> Option<Test> {
    let token = HelloToken::new([7; 16]);
    let socket = UdpSocket::bind((from, 0)).expect("a port");
    socket.connect(to).expect("an address");
    let mut test = asked(asker(from, to, number)?, &Ask::Flows { token, count: 1 }, false)?;
    // The test waits for it once the server has read the question.
    let hello = Greeting { hello: Hello::Client, token: Some(token) }.bytes();
    test.control.set_read_timeout(Some(std::time::Duration::from_millis(50))).expect("a limit");
    let mut head = [0];
    let is_there = is_soon(|| {
        socket.send(&hello).expect("sent");
        match test.control.peek(&mut head) {
            Ok(_) => true,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    });
    test.control.set_read_timeout(Some(NEVER)).expect("a limit");
    let flows = answer(&mut test).filter(|_| is_there)?;
    assert!(!matches!(flows, Answer::Refused { .. }), "{flows:?}");
    test.sockets.push(socket);
    Some(test)
}

const STATES: [State; 9] = [
    ("a hello and no question", asker),
    ("half a question", |from, to, n| {
        let mut test = asker(from, to, n)?;
        let question = ends::framed(&Ask::View);
        test.control.write_all(&question[..question.len() / 2]).ok()?;
        Some(test)
    }),
    ("flows that never come", |from, to, n| {
        let token = HelloToken::new([8; 16]);
        asked(asker(from, to, n)?, &Ask::Flows { token, count: MOST_FLOWS }, false)
    }),
    ("it hears", |from, to, n| {
        asked(flow(from, to, n)?, &Ask::Hear { wait_ms: LONGEST_HEARING_MS }, true)
    }),
    ("it speaks and nobody reads", |from, to, n| {
        let sizes = vec![LARGEST; MOST_DATAGRAMS];
        asked(flow(from, to, n)?, &Ask::Say { sizes, wait_ms: LONGEST_HEARING_MS }, false)
    }),
    ("it gives and nobody reads", |from, to, n| {
        asked(asker(from, to, n)?, &Ask::Give { bytes: MOST_BYTES }, true)
    }),
    ("it takes, and half of it came", |from, to, n| {
        let mut test = asked(asker(from, to, n)?, &Ask::Take { bytes: MOST_BYTES }, false)?;
        test.control.write_all(&vec![7; MOST_BYTES as usize / 2]).ok()?;
        Some(test)
    }),
    ("a connection that rests", |from, to, n| {
        asked(asker(from, to, n)?, &Ask::After { ms: LONGEST_IDLE_MS }, true)
    }),
    ("flows that rest", |from, to, n| {
        asked(flow(from, to, n)?, &Ask::Later { after_ms: vec![LONGEST_IDLE_MS] }, true)
    }),
];

#[test]
fn in_each_state_whatever_one_who_asks_of_the_path_does_others_are_served() {
    let mut siege = Siege::new();
    siege.meets(&STATES, 70);
    siege.is_small();
}

#[test]
fn questions_that_lie_are_refused_and_the_next_is_answered() {
    let mut siege = Siege::of(PATIENT);
    let at = siege.at();
    let mut test = at_last("a place", |number| asker(from(1, 1), at, number));
    let token = HelloToken::new([7; 16]);
    for lie in [
        Ask::Give { bytes: u32::MAX },
        Ask::Take { bytes: MOST_BYTES + 1 },
        Ask::Flows { token, count: u32::MAX },
        Ask::Flows { token, count: 0 },
        Ask::Say { sizes: vec![1; MOST_DATAGRAMS + 1], wait_ms: 0 },
        Ask::Say { sizes: vec![u32::MAX], wait_ms: 0 },
        Ask::Hear { wait_ms: u32::MAX },
        Ask::After { ms: u32::MAX },
        Ask::Later { after_ms: vec![1; MOST_FLOWS as usize + 1] },
    ] {
        test.control.write_all(&ends::framed(&lie)).expect("sent");
        let said = answer(&mut test);
        assert!(matches!(said, Some(Answer::Refused { .. })), "{lie:?}: {said:?}");
    }
    // Without a flow there is nothing to say, and nothing to hear.
    for empty in [Ask::Say { sizes: vec![100], wait_ms: 5_000 }, Ask::Later { after_ms: vec![1] }] {
        test = asked(test, &empty, true).expect("an answer");
    }
    for length in [65_537_u32, u32::MAX] {
        let number = siege.next();
        let mut test = asker(from(1, 2), siege.at(), number).expect("a place");
        test.control.write_all(&length.to_be_bytes()).expect("sent");
        assert_eq!(answer(&mut test), None, "a length of {length}");
    }
    siege.serves("questions that lie");
    siege.is_small();
}

#[test]
fn all_that_the_server_may_give_and_take_at_once_is_little() {
    let mut siege = Siege::new();
    for (state, bring) in STATES {
        let numbers: Vec<u64> = (0..48).map(|_| siege.next()).collect();
        let at = siege.at();
        // Of six networks, and more than there are places.
        let all = std::thread::scope(|scope| {
            let all = numbers.iter().zip(0u8..).map(|(number, n)| {
                scope.spawn(move || bring(from(80 + n % 6, n / 6), at, *number))
            });
            let all: Vec<_> = all.collect();
            all.into_iter().filter_map(|one| one.join().expect("no panic")).collect::<Vec<_>>()
        });
        assert!(all.len() >= 16, "{state}: {} got so far", all.len());
        siege.serves(&format!("{state}, in all places"));
        siege.is_small();
        all.iter().flat_map(Test::connections).for_each(reset);
    }
}

#[test]
fn whoever_asks_and_goes_leaves_no_thread_behind() {
    let mut siege = Siege::new();
    siege.serves("nothing");
    let before = siege.attacked.threads();
    // As many as there are places, and those that are about to end.
    let most = before + 48;
    for (state, bring) in STATES {
        // A busy machine has not run all of them yet to their ends; who is waited for stays 5 s. One that stands still for longer than that does
        // so in five tries but one.
        let is_over = (0..5).any(|_| {
            for n in 0..120u8 {
                let number = siege.next();
                if let Some(test) = bring(from(90 + n % 12, n / 12), siege.at(), number) {
                    test.connections().for_each(reset);
                }
            }
            let gone = Instant::now();
            while siege.attacked.threads() > most && gone.elapsed() < Duration::from_secs(3) {
                served(siege.at(), siege.next());
            }
            siege.attacked.threads() <= most
        });
        assert!(is_over, "{state}: {} threads of those who have gone", siege.attacked.threads());
    }
    siege.serves("questions of those who have gone");
    siege.is_small();
}
