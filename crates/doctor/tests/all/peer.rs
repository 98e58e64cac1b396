//! What the other end of a path tells, and what is made of it.

use crate::host::host;
use quell_doctor::CheckOutcome;
use quell_doctor::peer::{BothEnds, PacketSizes, PeerReport, StampFlow, hops};
use quell_doctor::{ConnectionLooks, Facts, examine, named};
use quell_finding::Finding;
use quell_wire::ends::{EndView, Offers};
use std::collections::BTreeMap;
use std::net::SocketAddr;

const NAMES: [&str; 4] = ["ecn-bleached", "ecmp-member", "asymmetric-path", "class-changed"];

/// 20 flows over 3 hops each way, four of them with a class or an offer of ECN; each packet comes back as it was sent.
fn flows() -> Vec<StampFlow> {
    let class = |at: u16| match at {
        0 => 0x02,
        1 => 0xb8,
        2 => 0xba,
        3 => 0x88,
        _ => 0,
    };
    let one = |at: u16| StampFlow {
        port: 40_000 + at,
        tos: class(at),
        sent: 20,
        answered: 20,
        returned: BTreeMap::from([(class(at), 20)]),
        ttl_there: Some(61),
        ttl_here: Some(61),
        before_first: 0,
        arrived: Some((20, 20)),
        unanswered: Some(0),
    };
    (0..20).map(one).collect()
}

fn found(flows: Vec<StampFlow>) -> Vec<Finding> {
    let ends = Err("not asked".to_owned());
    looked(PeerReport { host: "192.0.2.7:5201".to_owned(), flows, ends }, &NAMES)
}

/// What these checks find of a path, of which each has found out what it looks for.
fn looked(peer: PeerReport, names: &[&str]) -> Vec<Finding> {
    let outcomes = outcomes(peer, names);
    assert!(
        outcomes.iter().all(|o| matches!(o, CheckOutcome::Found(_) | CheckOutcome::Fine)),
        "{outcomes:?}"
    );
    outcomes.iter().flat_map(|outcome| outcome.findings().to_vec()).collect()
}

/// What these checks come to.
fn outcomes(peer: PeerReport, names: &[&str]) -> Vec<CheckOutcome> {
    let (looks, owners, now) = (ConnectionLooks::default(), BTreeMap::new(), host());
    let facts = Facts {
        before: None,
        now: &now,
        looks: &looks,
        owners: &owners,
        quiet_switches: None,
        peer: Some(&peer),
        drops: None,
        reported: &[],
    };
    let checks = names.iter().map(|name| named(name).expect("a check"));
    examine(&facts, checks).into_iter().map(|verdict| verdict.outcome).collect()
}

fn ids(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.id.as_str()).collect()
}

#[test]
fn a_path_that_leaves_packets_as_they_are_has_no_finding() {
    assert_eq!(found(flows()), []);
    // One that loses a few of each flow has no bad member either.
    let lossy = flows().into_iter().map(|flow| StampFlow { answered: 17, ..flow }).collect();
    assert_eq!(found(lossy), []);
}

#[test]
fn ports_that_lose_beside_ports_that_do_not_are_a_bad_member() {
    let mut some = flows();
    for flow in some.iter_mut().step_by(3) {
        flow.answered = 0;
        flow.returned.clear();
    }
    let findings = found(some);
    assert_eq!(ids(&findings), ["ecmp-member"]);
    let seen = format!("{:?}", findings[0].evidence);
    assert!(seen.contains("40000 40003") && seen.contains("100"), "{seen}");
}

#[test]
fn what_a_hop_clears_is_told_of_ecn_and_of_classes() {
    let cleared = flows().into_iter().map(|flow| StampFlow { returned: [(0, 20)].into(), ..flow });
    let findings = found(cleared.collect());
    assert_eq!(ids(&findings), ["ecn-bleached", "class-changed", "class-changed"]);
    // Only the offers are cleared.
    let bare = |flow: StampFlow| StampFlow { returned: [(flow.tos & !3, 20)].into(), ..flow };
    assert_eq!(ids(&found(flows().into_iter().map(bare).collect())), ["ecn-bleached"]);
    // Marks are what ECN is for.
    let marked = |flow: StampFlow| {
        let came = if flow.tos & 3 == 0 { flow.tos } else { flow.tos | 3 };
        StampFlow { returned: [(came, 20)].into(), ..flow }
    };
    assert_eq!(found(flows().into_iter().map(marked).collect()), []);
}

#[test]
fn loss_is_told_by_the_way_on_which_it_is() {
    let said = |answered: u32, arrived: Option<(u32, u32)>| {
        let flows = flows().into_iter().map(|flow| StampFlow { answered, arrived, ..flow });
        let ends = Err("not asked".to_owned());
        let peer = PeerReport { host: OTHER.to_owned(), flows: flows.collect(), ends };
        looked(peer, &["path-loss"]).into_iter().map(|finding| finding.says).next()
    };
    let told = |way: &str| Some(format!("packets are lost {way}"));
    assert_eq!(said(20, Some((20, 20))), None);
    assert_eq!(said(18, Some((20, 18))), told("on the way to the host"));
    assert_eq!(said(18, Some((20, 20))), told("on the way from the host"));
    assert_eq!(said(16, Some((20, 18))), told("in both directions"));
    for strange in [None, Some((20, 900))] {
        assert!(said(18, strange).is_some_and(|says| says.contains("is unknown")), "{strange:?}");
    }
    // What was never on the path is no loss of it: the first four of each flow waited on this host for a neighbour's address.
    let late = |answered: u32, arrived: (u32, u32)| {
        let (before_first, arrived) = (4, Some(arrived));
        let late = |flow| StampFlow { before_first, answered, arrived, ..flow };
        let flows = flows().into_iter().map(late).collect();
        let ends = Err("not asked".to_owned());
        let found = looked(PeerReport { host: OTHER.to_owned(), flows, ends }, &["path-loss"]);
        found.into_iter().map(|finding| finding.says).next()
    };
    assert_eq!(late(16, (16, 16)), None);
    assert_eq!(late(14, (16, 16)), told("on the way from the host"));
    // Where all flows lose most, no member of equal paths is the bad one.
    assert_eq!(said(0, None), Some("packets are lost; the direction is unknown".to_owned()));
    assert_eq!(said(4, Some((20, 4))), told("on the way to the host"));
    // Some flows that lose all are another check's; and one packet of 400 is nothing.
    let mut member = flows();
    member[3].answered = 0;
    let peer =
        PeerReport { host: OTHER.to_owned(), flows: member, ends: Err("not asked".to_owned()) };
    assert_eq!(looked(peer, &["path-loss"]), []);
    let mut few = flows();
    few[3].answered = 19;
    let peer = PeerReport { host: OTHER.to_owned(), flows: few, ends: Err("not asked".to_owned()) };
    assert_eq!(looked(peer, &["path-loss"]), []);
}

#[test]
fn ways_of_different_lengths_are_a_note() {
    let longer = |flow: StampFlow| StampFlow { ttl_here: Some(58), ..flow };
    let findings = found(flows().into_iter().map(longer).collect());
    assert_eq!(ids(&findings), ["asymmetric-path"]);
    assert_eq!((hops(61), hops(128), hops(250), hops(0)), (3, 0, 5, 64));
}

/// An end of a connection over Ethernet: SACK, timestamps and window scaling are on at both.
fn end(local: &str, remote: &str) -> EndView {
    let address = |text: &str| Some(text.parse::<SocketAddr>().expect("an address"));
    EndView {
        local: address(local),
        remote: address(remote),
        options: 7,
        snd_mss: 1448,
        advmss: 1460,
        pmtu: 1500,
        told_scale: 7,
        got_scale: 7,
        offers: Some(Offers { sack: true, window_scaling: true, timestamps: true }),
        device_mtu: Some(1500),
        link_mbit: Some(1000),
    }
}

fn way() -> PacketSizes {
    let sizes = vec![576, 1280, 1400, 1500];
    let (came, sent) = (sizes.clone(), sizes);
    PacketSizes { came, sent, bulk: Some(true), segment: 1500, ..PacketSizes::default() }
}

const OWN: &str = "192.0.2.1:40000";
const OTHER: &str = "192.0.2.7:5201";

/// What both ends tell of a path.
fn told(change: impl FnOnce(&mut BothEnds)) -> PeerReport {
    let socket: SocketAddr = "192.0.2.1:50000".parse().expect("an address");
    let mut ends = BothEnds {
        here: end(OWN, OTHER),
        there: end(OTHER, OWN),
        udp: Some((socket, socket)),
        to_there: way(),
        to_here: way(),
        echo: None,
    };
    change(&mut ends);
    PeerReport { host: OTHER.to_owned(), flows: flows(), ends: Ok(ends) }
}

/// What is found of a path of which both ends tell this.
fn seen(change: impl FnOnce(&mut BothEnds)) -> Vec<Finding> {
    let names = [
        "faster-than-receiver",
        "path-mtu",
        "mtu-black-hole",
        "clamped-mss",
        "address-translation",
        "options-refused",
    ];
    looked(told(change), &names)
}

fn seen_as(change: impl FnOnce(&mut BothEnds)) -> Vec<String> {
    seen(change).into_iter().map(|finding| finding.id).collect()
}

#[test]
fn ends_that_see_the_same_have_no_finding() {
    assert_eq!(seen(|_| {}), []);
    // One that names IPv4 addresses as IPv6 ones, and one without a route's own figures.
    let mapped = "[::ffff:192.0.2.1]:40000".parse().ok();
    assert_eq!(seen_as(|ends| ends.there.remote = mapped), [""; 0]);
}

#[test]
fn what_a_middlebox_does_to_a_handshake_is_told_by_what_arrived() {
    assert_eq!(seen_as(|ends| ends.there.snd_mss = 888), ["clamped-mss"]);
    // A tunnel that carries no more is clamped rightly.
    let tunnel = |ends: &mut BothEnds| {
        ends.there.snd_mss = 1248;
        ends.to_here.came.truncate(2);
        ends.to_here.too_big = vec![1300];
        ends.to_here.segment = 1300;
    };
    assert_eq!(seen_as(tunnel), [""; 0]);
    let stripped = seen(|ends| (ends.here.options, ends.there.options) = (5, 5));
    assert_eq!(ids(&stripped), ["options-refused"]);
    let told = format!("{:?}", stripped[0].evidence);
    assert!(told.contains("SACK (not in force here and there)"), "{told}");
    // Who does not offer it has none: nobody stripped it.
    let off = Offers { window_scaling: true, timestamps: true, ..Offers::default() };
    let own = |ends: &mut BothEnds| {
        ends.there.offers = Some(off);
        (ends.here.options, ends.there.options) = (5, 5);
    };
    assert_eq!(seen_as(own), [""; 0]);
    assert_eq!(seen_as(|ends| ends.there.got_scale = 2), ["options-refused"]);
}

#[test]
fn sizes_that_vanish_are_told_by_way_and_protocol() {
    let swallows = |ends: &mut BothEnds| {
        ends.to_here.came.truncate(2);
        ends.to_here.bulk = Some(false);
    };
    let hole = seen(swallows);
    assert_eq!(ids(&hole), ["mtu-black-hole"]);
    assert!(hole[0].subject.contains("the way back"), "{}", hole[0].subject);
    // TCP is small enough, and datagrams are not.
    let small = |ends: &mut BothEnds| {
        ends.to_there.came.truncate(2);
        ends.to_there.segment = 1280;
    };
    assert_eq!(seen(small)[0].severity, quell_finding::Severity::Warning);
    // A hop that says so is no hole; nor is what comes and goes by chance.
    let narrow = |ends: &mut BothEnds| {
        ends.to_there.came.truncate(2);
        (ends.to_there.too_big, ends.to_there.segment) = (vec![1300], 1300);
    };
    assert_eq!(seen_as(narrow), [""; 0]);
    assert_eq!(seen_as(|ends| ends.to_there.came = vec![576, 1400]), [""; 0]);
    assert_eq!(seen_as(|ends| ends.to_there.bulk = Some(false)), ["path-mtu"]);
    assert_eq!(seen_as(|ends| ends.to_there.came.truncate(3)), ["path-mtu"]);
}

#[test]
fn echoes_that_fare_otherwise_than_datagrams_are_told() {
    let echo = |came: usize, udp: usize| {
        seen_as(|ends| {
            let mut echo = PacketSizes { bulk: None, ..way() };
            echo.came.truncate(came);
            ends.echo = Some(echo);
            ends.to_here.came.truncate(udp);
            ends.to_here.segment = 1280;
        })
    };
    assert_eq!(echo(4, 4), [""; 0]);
    assert_eq!(echo(2, 4), ["path-mtu"]);
    assert_eq!(echo(2, 2), ["mtu-black-hole"], "alike, and a hole");
    assert_eq!(echo(4, 2), ["path-mtu", "mtu-black-hole"]);
    assert_eq!(echo(0, 4), [""; 0], "whoever answers no echo at all");
    // A hop that names its MTU does so for echoes too.
    let named = |ends: &mut BothEnds| {
        ends.echo =
            Some(PacketSizes { came: vec![576, 1280], too_big: vec![1300], bulk: None, ..way() });
        ends.to_there.came.truncate(2);
        (ends.to_there.too_big, ends.to_there.segment) = (vec![1300], 1300);
    };
    assert_eq!(seen_as(named), [""; 0]);
}

#[test]
fn translation_and_speeds_are_told() {
    let outside: SocketAddr = "198.51.100.9:1024".parse().expect("an address");
    assert_eq!(seen_as(|ends| ends.there.remote = Some(outside)), ["address-translation"]);
    assert_eq!(
        seen_as(|ends| ends.udp = ends.udp.map(|(own, _)| (own, outside))),
        ["address-translation"]
    );
    assert_eq!(seen_as(|ends| ends.there.link_mbit = Some(100)), ["faster-than-receiver"]);
}

#[test]
fn what_the_other_end_did_not_send_or_was_never_sent_is_no_loss_of_the_path() {
    let of_large = |sent: &[u32], came: &[u32]| {
        let to_here =
            PacketSizes { bulk: Some(true), segment: 1280, ..PacketSizes::of(sent, came) };
        seen_as(|ends| ends.to_here = to_here)
    };
    let small = [576, 1280];
    assert_eq!(of_large(&[576, 576, 1280, 1400, 1500], &small), ["mtu-black-hole"]);
    assert_eq!(of_large(&small, &small), [""; 0]);
    assert_eq!(of_large(&[], &[]), [""; 0]);
    assert_eq!(of_large(&[576, 1280, 1400], &[576, 1280, 1281]), ["mtu-black-hole"]);
}

#[test]
fn what_the_other_end_left_unanswered_is_no_loss_of_the_path() {
    let said = |answered: u32, unanswered: Option<u32>| {
        let one = |flow| StampFlow { answered, unanswered, arrived: Some((20, 20)), ..flow };
        let flows = flows().into_iter().map(one).collect();
        let peer = PeerReport { host: OTHER.to_owned(), flows, ends: Err("not asked".to_owned()) };
        outcomes(peer, &["path-loss", "ecmp-member"])
    };
    assert_eq!(said(12, Some(8)), [CheckOutcome::Fine, CheckOutcome::Fine]);
    assert_eq!(said(2, Some(18)), [CheckOutcome::Fine, CheckOutcome::Fine]);
    let some = said(12, Some(4));
    assert_eq!(some[0].findings()[0].says, "packets are lost on the way from the host");
    // It does not know how many.
    let unknown = said(12, None);
    assert!(unknown[0].findings().is_empty(), "{unknown:?}");
    assert!(format!("{:?}", unknown[0]).contains("left unanswered"), "{unknown:?}");
    // More than came there can't be.
    let lies = said(12, Some(9));
    assert!(lies[0].findings().is_empty() || lies[0].findings()[0].says.contains("is unknown"));
}
