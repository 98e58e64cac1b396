//! What the other end of a path tells, and what is made of it.

mod host;

use host::host;
use quell_doctor::peer::{Peer, Probed, hops};
use quell_doctor::{Facts, Stalls, examine, named};
use quell_finding::{Finding, Outcome};
use std::collections::BTreeMap;

const NAMES: [&str; 4] = ["ecn-bleached", "ecmp-member", "asymmetric-path", "class-changed"];

/// 20 flows over 3 hops each way, four of them with a class or an offer of ECN; each packet comes back as it was sent.
fn flows() -> Vec<Probed> {
    let class = |at: u16| match at {
        0 => 0x02,
        1 => 0xb8,
        2 => 0xba,
        3 => 0x88,
        _ => 0,
    };
    let one = |at: u16| Probed {
        port: 40_000 + at,
        tos: class(at),
        sent: 20,
        answered: 20,
        returned: BTreeMap::from([(class(at), 20)]),
        ttl_there: Some(61),
        ttl_here: Some(61),
    };
    (0..20).map(one).collect()
}

fn found(flows: Vec<Probed>) -> Vec<Finding> {
    let (stalls, owners, now) = (Stalls::default(), BTreeMap::new(), host());
    let peer = Peer { host: "192.0.2.7:5201".to_owned(), flows };
    let facts = Facts {
        before: None,
        now: &now,
        stalls: &stalls,
        owners: &owners,
        quiet_switches: None,
        peer: Some(&peer),
    };
    let checks = NAMES.map(|name| named(name).expect("a check"));
    let verdicts = examine(&facts, checks);
    assert!(verdicts.iter().all(|v| matches!(v.outcome, Outcome::Found(_) | Outcome::Fine)));
    verdicts.iter().flat_map(|verdict| verdict.outcome.findings().to_vec()).collect()
}

fn ids(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.id.as_str()).collect()
}

#[test]
fn a_path_that_leaves_packets_as_they_are_has_no_finding() {
    assert_eq!(found(flows()), []);
    // One that loses a few of each flow has no bad member either.
    let lossy = flows().into_iter().map(|flow| Probed { answered: 17, ..flow }).collect();
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
    let cleared = flows().into_iter().map(|flow| Probed { returned: [(0, 20)].into(), ..flow });
    let findings = found(cleared.collect());
    assert_eq!(ids(&findings), ["ecn-bleached", "class-changed", "class-changed"]);
    // Only the offers are cleared.
    let bare = |flow: Probed| Probed { returned: [(flow.tos & !3, 20)].into(), ..flow };
    assert_eq!(ids(&found(flows().into_iter().map(bare).collect())), ["ecn-bleached"]);
    // Marks are what ECN is for.
    let marked = |flow: Probed| {
        let came = if flow.tos & 3 == 0 { flow.tos } else { flow.tos | 3 };
        Probed { returned: [(came, 20)].into(), ..flow }
    };
    assert_eq!(found(flows().into_iter().map(marked).collect()), []);
}

#[test]
fn ways_of_different_lengths_are_a_note() {
    let longer = |flow: Probed| Probed { ttl_here: Some(58), ..flow };
    let findings = found(flows().into_iter().map(longer).collect());
    assert_eq!(ids(&findings), ["asymmetric-path"]);
    assert_eq!((hops(61), hops(128), hops(250), hops(0)), (3, 0, 5, 64));
}
