//! The roster's programs in this kernel, beside their twin in plain Rust.

use crate::kernel::skipped;
use crate::twin::{Packet, RosterTwin};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use quell_classify::roster::{NewcomerRing, Roster, RosterProgram, RosterTables, Side};
use quell_tc::{Handle, Prefix};
use quell_units::Span;
use quell_wire::layers::{Layer, packet};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The programs, unless this process may load nothing here.
fn load(side: Side) -> Option<RosterProgram> {
    match RosterProgram::load(side) {
        Ok(program) => Some(program),
        Err(error) if error.proves_no_program_loads() => {
            let test = std::thread::current();
            skipped(test.name().unwrap_or("a test of the roster"), &error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn roster(entries: &[(&str, u16)]) -> Roster {
    let one = |(prefix, minor): &(&str, u16)| (prefix.parse().unwrap(), Handle::class(1, *minor));
    entries.iter().map(one).collect()
}

fn v4(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::from(from), Ipv4Addr::from(to));
    packet(&[
        Layer::Ethernet,
        Layer::Ipv4 { src, dst, tos: 0, options: 0, fragment: 0 },
        Layer::Udp { src: 9, dst: 9 },
    ])
}

fn v6(from: &str, to: &str) -> Vec<u8> {
    let [src, dst]: [Ipv6Addr; 2] = [from, to].map(|address| address.parse().unwrap());
    packet(&[
        Layer::Ethernet,
        Layer::Ipv6 { src, dst, class: 0, label: 0 },
        Layer::Udp { src: 9, dst: 9 },
    ])
}

impl Story {
    fn new(side: Side, roster: &Roster, got_counts: bool) -> Option<Self> {
        let mut program = load(side)?;
        program.tables().lead_to(roster, got_counts).unwrap();
        let arrivals = program.tables().arrivals().unwrap();
        let twin = RosterTwin::new(roster.clone(), got_counts);
        Some(Story { side, program, arrivals, twin, waited: 0, begun: RosterTables::now() })
    }

    /// Whether so much time has gone by without being waited for that it may be what somebody was told by.
    fn was_held_up(&self) -> bool {
        RosterTables::now() - self.begun > 500_000_000
    }

    /// The class's minor, and who was told of; program and twin agree.
    fn sees(&mut self, frame: &[u8]) -> (u16, Vec<u16>) {
        // The program's clock, as it would be had we waited.
        let now = RosterTables::now() + self.waited;
        let run = self.program.test_run(frame, 1).unwrap();
        let packet = Packet::of_frame(frame).expect("a frame");
        let (class, tells) = self.twin.classify(self.side, &packet, now);
        assert_eq!(run.class, class, "{frame:02x?}");
        let told: Vec<u16> = std::iter::from_fn(|| self.arrivals.next_arrival()).collect();
        let minor = class as u16;
        if !self.was_held_up() {
            assert_eq!(told, if tells { vec![minor] } else { vec![] }, "{frame:02x?}");
        }
        (minor, told)
    }

    fn mark(&mut self, minor: u16, has_class: bool) {
        self.program.tables().mark(minor, has_class).unwrap();
        self.twin.mark(minor, has_class);
    }

    fn wait(&mut self, minors: &[u16], time: Span) {
        minors.iter().for_each(|minor| self.program.tables().age(*minor, time).unwrap());
        self.waited += time.nanos();
    }

    fn last(&mut self, minor: u16) -> u64 {
        self.program.tables().state(minor).unwrap().last.expect("it was heard")
    }
}

/// The program of a side and its twin, and who is told of.
struct Story {
    side: Side,
    program: RosterProgram,
    arrivals: NewcomerRing,
    twin: RosterTwin,
    waited: u64,
    begun: u64,
}

#[test]
fn a_packets_class_is_that_of_the_longest_prefix_of_its_own_family_each_way() {
    let all = roster(&[
        ("10.0.0.0/8", 0x20),
        ("10.0.0.0/24", 0x30),
        ("10.0.0.7/32", 0x40),
        ("::/0", 0x50),
        ("2001:db8::/48", 0x60),
        ("2001:db8::/64", 0x70),
    ]);
    let Some(mut up) = Story::new(Side::From, &all, false) else { return };
    let mut down = Story::new(Side::To, &all, true).expect("the other one was loaded");
    let elsewhere = [192, 0, 2, 1];
    for (address, minor) in
        [([10, 9, 0, 1], 0x20), ([10, 0, 0, 1], 0x30), ([10, 0, 0, 7], 0x40), ([9, 0, 0, 1], 0)]
    {
        assert_eq!(up.sees(&v4(address, elsewhere)).0, minor);
        assert_eq!(down.sees(&v4(elsewhere, address)).0, minor);
        assert_eq!(down.sees(&v4(address, elsewhere)).0, 0);
    }
    let far = "2001:db9::2";
    for (address, minor) in
        [("2001:db9::1", 0x50), ("2001:db8:0:1::1", 0x60), ("2001:db8::1", 0x70)]
    {
        assert_eq!(up.sees(&v6(address, far)).0, minor);
        assert_eq!(down.sees(&v6(far, address)).0, minor);
    }
    let mut arp = v4(elsewhere, elsewhere);
    arp[12..14].copy_from_slice(&[8, 6]);
    assert_eq!(up.sees(&arp).0, 0);
}

const NEAR: [u8; 4] = [10, 0, 0, 1];
const FAR: [u8; 4] = [192, 0, 2, 1];

#[test]
fn who_sends_is_told_once_a_second_until_it_has_its_class_and_again_when_it_has_none() {
    let one = roster(&[("10.0.0.0/24", 0x30)]);
    let up = v4(NEAR, FAR);
    for _ in 0..50 {
        let Some(mut story) = Story::new(Side::From, &one, false) else { return };
        let [first, again] = [story.sees(&up), story.sees(&up)];
        story.wait(&[0x30], Span::from_secs(1));
        let later = story.sees(&up);
        story.mark(0x30, true);
        story.wait(&[0x30], Span::from_secs(2));
        let with_class = story.sees(&up);
        story.mark(0x30, false);
        let without = story.sees(&up);
        if story.was_held_up() {
            continue;
        }
        assert_eq!([first, again], [(0x30, vec![0x30]), (0x30, vec![])]);
        assert_eq!(later, (0x30, vec![0x30]), "nobody listened");
        assert_eq!([with_class, without], [(0x30, vec![]), (0x30, vec![0x30])]);
        return;
    }
    panic!("it was held up each time");
}

#[test]
fn who_only_gets_is_told_only_where_no_other_way_says_who_is_there() {
    let one = roster(&[("10.0.0.0/24", 0x30)]);
    let Some(mut beside) = Story::new(Side::To, &one, false) else { return };
    assert_eq!(beside.sees(&v4(FAR, NEAR)), (0x30, vec![]), "anybody sends to anybody");
    let mut alone = Story::new(Side::To, &one, true).expect("the other one was loaded");
    assert_eq!(alone.sees(&v4(FAR, NEAR)), (0x30, vec![0x30]));
}

#[test]
fn a_scanner_keeps_nobody_here_and_a_download_does() {
    let one = roster(&[("10.0.0.0/24", 0x30)]);
    let Some(mut story) = Story::new(Side::To, &one, false) else { return };
    story.mark(0x30, true);
    story.wait(&[0x30], Span::from_secs(600));
    let down = v4(FAR, NEAR);
    let silent = story.last(0x30);
    for _ in 0..40 {
        story.sees(&down);
    }
    let twins = story.twin.last(0x30);
    assert_eq!(story.last(0x30), silent);
    for _ in 0..24 {
        story.sees(&down);
    }
    assert_ne!(story.last(0x30), silent);
    assert_ne!(story.twin.last(0x30), twins);
}

#[test]
fn a_table_is_led_from_any_to_any_by_what_differs() {
    let Some(mut program) = load(Side::From) else { return };
    let all = |n: u16, shift: u16| -> Roster {
        let one = |i: u16| {
            let address = Ipv4Addr::new(10, 0, (i / 256) as u8, i as u8).into();
            (Prefix::new(address, 32).unwrap(), Handle::class(1, 0x10 + (i + shift) % n))
        };
        (0..n).map(one).collect()
    };
    let tables = program.tables();
    assert_eq!(tables.lead_to(&all(3000, 0), false).unwrap(), (3000, 0));
    assert_eq!(tables.lead_to(&all(3000, 0), false).unwrap(), (0, 0));
    assert_eq!(tables.read().unwrap(), all(3000, 0));
    assert!(tables.is(&all(3000, 0)).unwrap() && !tables.is(&all(3000, 1)).unwrap());
    assert_eq!(tables.lead_to(&all(2990, 1), false).unwrap(), (2990, 10));
    assert_eq!(tables.read().unwrap(), all(2990, 1));
}

#[test]
fn the_tables_are_found_again_by_a_programs_number_as_long_as_somebody_has_it() {
    let Some(mut program) = load(Side::From) else { return };
    let all = roster(&[("10.0.0.0/24", 0x30)]);
    program.tables().lead_to(&all, true).unwrap();
    let id = program.id().unwrap();
    let mut again = RosterTables::of_program(id).unwrap().expect("it is a roster's");
    assert!(again.is(&all).unwrap());
    again.mark(0x30, true).unwrap();
    assert!(program.tables().state(0x30).unwrap().has_class);
    drop((program, again));
    assert!(RosterTables::of_program(id).unwrap().is_none());
}

#[test]
fn programs_and_twin_agree_on_every_packet() {
    let prefix = prop_oneof![
        (0..4u8, 0..6u8, 8..=32u8)
            .prop_map(|(net, host, n)| Prefix::new(Ipv4Addr::new(192, 0, net, host).into(), n)),
        (0..3u16, 0..5u16, 0..=128u8).prop_map(|(net, host, n)| {
            Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, 0, host).into(), n)
        }),
    ];
    let entry = (prefix, 0x10..0x20u16)
        .prop_map(|(prefix, minor)| (prefix.expect("it is long enough"), Handle::class(1, minor)));
    let roster = prop::collection::vec(entry, 0..12).prop_map(Roster::from_iter);
    let frames = prop::collection::vec(crate::packets::frame(), 1..24);
    let side = prop::sample::select(Side::ALL.to_vec());
    let strategy = (side, roster, frames, any::<bool>());
    if load(Side::To).is_none() {
        return;
    }
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&strategy, |(side, roster, frames, got_counts)| {
            let mut story = Story::new(side, &roster, got_counts).expect("it was loaded before");
            for frame in frames {
                story.sees(&frame);
            }
            Ok(())
        })
        .unwrap();
}
