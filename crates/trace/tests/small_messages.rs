//! A post of 1999 about delayed ACKs, by its packets: 723 bytes gave 47 calls a second, 724 gave 279.
//!
//! Each call opens a connection, sends 4 bytes, gets the message and closes. Linux 2.2 took segments of less than half
//! the MSS as a reason to delay its ACK; the server's FIN waited for that ACK. The packets below are the post's two dumps:
//! times in µs, sequence numbers, lengths and options as published.

mod common;

use common::From::{Client, Server};
use common::{ACK, FIN, PSH, SYN, Told, raw, report, texts, told};
use quell_finding::WIDEST;
use quell_trace::{Cause, Side, overview_text};
use quell_units::Span;

/// Initial sequence numbers and timestamps of a dump's client and server.
struct Dump {
    client: u32,
    server: u32,
    client_clock: u32,
    server_clock: u32,
    port: u16,
}

impl Dump {
    fn client(&self, us: u64, flags: u8, seq: u32, ack: u32, length: u16, clock: [u32; 2]) -> Told {
        let (seq, ack) = (self.client.wrapping_add(seq), self.server.wrapping_add(ack));
        let [own, echo] = clock;
        told(us, Client, flags, seq, ack, length)
            .stamps(self.client_clock + own, self.server_clock + echo)
            .port(self.port)
    }

    fn server(&self, us: u64, flags: u8, seq: u32, ack: u32, length: u16, clock: [u32; 2]) -> Told {
        let (seq, ack) = (self.server.wrapping_add(seq), self.client.wrapping_add(ack));
        let [own, echo] = clock;
        told(us, Server, flags, seq, ack, length)
            .stamps(self.server_clock + own, self.client_clock + echo)
            .port(self.port)
    }

    fn opening(&self) -> Vec<Told> {
        let syn = told(0, Client, SYN, self.client, 0, 0).mss(1460).stamps(self.client_clock, 0);
        let answer = told(0, Server, SYN | ACK, self.server, self.client.wrapping_add(1), 0)
            .mss(1460)
            .stamps(self.server_clock, self.client_clock);
        vec![
            syn.port(self.port),
            answer.port(self.port),
            self.client(0, ACK, 1, 1, 0, [0, 0]),
            self.client(0, PSH | ACK, 1, 1, 4, [0, 0]),
        ]
    }
}

fn first_dump() -> Vec<Told> {
    let dump = Dump {
        client: 2590564679,
        server: 2307198861,
        client_clock: 2523810,
        server_clock: 1259949129,
        port: 1033,
    };
    let mut story = dump.opening();
    story.extend([
        dump.server(977, PSH | ACK, 1, 5, 723, [0, 0]),
        dump.client(20528, ACK, 5, 724, 0, [21, 0]),
        dump.server(20528, FIN | ACK, 724, 5, 0, [20, 21]),
        dump.client(20528, ACK, 5, 725, 0, [21, 20]),
        dump.client(20528, FIN | ACK, 5, 725, 0, [21, 20]),
        dump.server(20528, ACK, 725, 6, 0, [21, 21]),
    ]);
    story
}

fn second_dump() -> Vec<Told> {
    let dump = Dump {
        client: 2584748716,
        server: 2311722158,
        client_clock: 2527417,
        server_clock: 1259952736,
        port: 1034,
    };
    let mut story = dump.opening();
    story.extend([
        dump.server(977, PSH | ACK, 1, 5, 724, [0, 0]),
        dump.client(977, ACK, 5, 725, 0, [1, 0]),
        dump.server(977, FIN | ACK, 725, 5, 0, [1, 1]),
        dump.client(977, ACK, 5, 726, 0, [1, 1]),
        dump.client(977, FIN | ACK, 5, 726, 0, [1, 1]),
        dump.server(977, ACK, 726, 6, 0, [1, 1]),
    ]);
    story
}

#[test]
fn the_first_dump_stalls_for_an_ack_that_was_delayed() {
    let report = report(&raw(&first_dump()));
    assert_eq!(texts(&report), ["stall, 19.6 ms, delayed ACK after a 723-byte segment"]);
    let mark = &report.connections[0].marks[0];
    assert_eq!((mark.cause, mark.side), (Cause::DelayedAck, Side::Server));
    assert_eq!(mark.waited, Some(Span::from_micros(20528 - 977)));
    assert_eq!(mark.packets, [5, 6, 7]);
    assert!(mark.held.is_some_and(|held| held.fin && held.bytes == 0), "{:?}", mark.held);
    assert!(mark.who.starts_with("10.0.0.2:7890 held"), "{}", mark.who);
    let advice = mark.advice.as_deref().unwrap_or_default();
    assert!(advice.contains("at 10.0.0.2:7890: TCP_NODELAY"), "{advice}");
    assert!(advice.contains("at 10.0.0.1:1033: TCP_QUICKACK"), "{advice}");
    // As the doctor would say it: one type, with figures.
    let json = serde_json::to_value(&report.connections[0]).expect("it is JSON");
    let finding = &json["findings"][0];
    assert_eq!((&finding["id"], &finding["severity"]), (&"delayed-ack".into(), &"serious".into()));
    let figures = finding["evidence"].as_array().expect("a list");
    let waited = figures.iter().find(|figure| figure["name"] == "waited");
    assert_eq!(waited.map(|figure| &figure["value"]), Some(&19.551.into()), "{finding:#}");
    assert_eq!(finding["remedies"].as_array().map(Vec::len), Some(2), "{finding:#}");
}

#[test]
fn the_second_dump_is_clean() {
    let report = report(&raw(&second_dump()));
    assert_eq!(texts(&report), Vec::<String>::new());
    assert_eq!(report.connections[0].server_to_client.bytes, 724);
    assert!(overview_text(&report, WIDEST).contains("Nobody waited"));
}

#[test]
fn in_one_capture_the_two_are_told_apart() {
    let second = second_dump().into_iter().map(|p| Told { us: p.us + 30_000, ..p });
    let report = report(&raw(&first_dump().into_iter().chain(second).collect::<Vec<_>>()));
    let marks: Vec<_> =
        report.connections.iter().map(|c| (c.client.as_str(), c.marks.len())).collect();
    assert_eq!(marks, [("10.0.0.1:1033", 1), ("10.0.0.1:1034", 0)]);
}

#[test]
fn the_overview_says_it_in_a_hundred_columns() {
    let text = overview_text(&report(&raw(&first_dump())), WIDEST);
    assert!(text.contains("stall, 19.6 ms, delayed ACK after a 723-byte segment"), "{text}");
    assert!(text.contains("packet 6 acknowledged it alone 19.6 ms later"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn a_capture_that_begins_late_is_judged_by_what_it_holds() {
    // Without the opening, what the path takes is not known from it.
    let report = report(&raw(&first_dump()[3..]));
    assert_eq!(texts(&report), ["stall, 19.6 ms, delayed ACK after a 723-byte segment"]);
    assert!(!report.connections[0].opened);
}
