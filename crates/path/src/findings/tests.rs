//! What is told of paths whose every packet is known.

use super::*;
use quell_model::{EchoSample, EchoStatus};
use quell_probe::path::{HopAnswer, HopSize, News, SizeLimit};
use quell_wire::icmp_error::Meaning;

fn session(flows: u16) -> PathSession {
    PathSession {
        host: "b".into(),
        to: ([192, 0, 2, 99], 0).into(),
        others: Vec::new(),
        method: ProbeMethod::Icmp,
        ports: (0..flows).collect(),
        interval_ns: 1_000_000_000,
        size: 56,
        tos: 0,
        survey: true,
        sees_marks: true,
    }
}

/// Whether this one of so many probes is among those that are answered, which no limit chose.
fn is_answered(answered: u64, sent: u64, hop: usize, seq: u64) -> bool {
    let order = |seq: u64| {
        let mut z = ((hop as u64) << 32 | seq).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ z >> 27, seq)
    };
    (0..sent).filter(|other| order(*other) < order(seq)).count() < answered as usize
}

/// Hops of which so many of so many probes of each flow were answered; each flow's hops have addresses of this network.
fn known(flows: &[(u8, &[(u64, u64)])]) -> PathHops {
    let mut known = PathHops::new(flows.len() as u16);
    for (flow, (network, hops)) in flows.iter().enumerate() {
        let flow = flow as u16;
        for (index, (answered, sent)) in hops.iter().enumerate() {
            let ttl = index as u8 + 1;
            for seq in 0..*sent {
                let status = match is_answered(*answered, *sent, index, seq) {
                    true => EchoStatus::Ok,
                    false => EchoStatus::Lost,
                };
                let rtt_ns = status.is_answered().then_some(1_000_000);
                let t_ns = seq as i64 * 1_000_000_000 + i64::from(flow) * 300_000_000;
                let sample = EchoSample { rtt_ns, ..EchoSample::new(t_ns, seq, 56, status) };
                known.sample(flow, ttl, &sample);
            }
            let last = index + 1 == hops.len();
            let from = if last { [192, 0, 2, 99] } else { [192, 0, *network, ttl] };
            if *answered > 0 {
                known.take(&answer(flow, ttl, from.into(), None));
            }
        }
        known.take(&News::Ends { flow, ttl: Some(hops.len() as u8) });
    }
    known
}

fn answer(flow: u16, ttl: u8, from: IpAddr, marks: Option<(u8, u8)>) -> News {
    News::Answer(HopAnswer {
        flow,
        ttl,
        from,
        said: (from != session(1).to.ip()).then_some(Meaning::Expired),
        back_ttl: None,
        marks: marks.map(|(sent, came)| (Tos::from_byte(sent), Tos::from_byte(came))),
        labels: Vec::new(),
    })
}

fn found(known: &PathHops) -> Vec<(&'static str, Option<usize>)> {
    findings(&session(known.flows.len() as u16), known).iter().map(|f| (f.id, f.hop)).collect()
}

#[test]
fn less_answers_of_a_hop_than_of_one_behind_it_are_no_loss() {
    let limited = known(&[(3, &[(100, 100), (40, 100), (100, 100)])]);
    assert_eq!(found(&limited), [("answers-limited", Some(2))]);
    let lossy = known(&[(3, &[(100, 100), (70, 100), (68, 100)])]);
    assert_eq!(found(&lossy), [("loss", Some(2))]);
    let both = known(&[(3, &[(100, 100), (10, 100), (70, 100), (70, 100)])]);
    // The loss shows at the third, and may be before the second.
    assert_eq!(found(&both), [("answers-limited", Some(2)), ("loss", Some(3))]);
    let text = findings(&session(1), &both).remove(1).text;
    assert!(text.contains("begins behind hop 1"), "{text}");
}

/// One router answers all, the others and the end one a second.
#[test]
fn hops_that_limit_their_answers_otherwise_than_one_before_them_place_no_loss() {
    let often = |method| PathSession { method, interval_ns: 100_000_000, ..session(1) };
    let limited = known(&[(3, &[(25, 200), (200, 200), (25, 200), (23, 200)])]);
    let kinds = |session: &PathSession, known: &PathHops| -> Vec<_> {
        findings(session, known).iter().map(|f| (f.id, f.hop)).collect()
    };
    assert_eq!(
        kinds(&often(ProbeMethod::Udp), &limited),
        [("answers-limited", Some(1)), ("loss-or-limit", Some(4))]
    );
    let text = findings(&often(ProbeMethod::Udp), &limited).remove(1).text;
    assert!(text.contains("88.5 % to hop 4 have no answer, 0.0 % to hop 2"), "{text}");
    // What TCP answers no limit holds back; the router before it answers one a second, and tells nothing of where SYNs are lost.
    let behind = known(&[(3, &[(200, 200), (200, 200), (25, 200), (160, 200)])]);
    assert_eq!(
        kinds(&often(ProbeMethod::Tcp), &behind),
        [("answers-limited", Some(3)), ("loss", Some(4))]
    );
    let text = findings(&often(ProbeMethod::Tcp), &behind).remove(1).text;
    assert!(text.contains("begins behind hop 2"), "{text}");
    // A path of which the end keeps silent: the last hop that answers is a router.
    let mut silent = known(&[(3, &[(60, 60), (60, 60), (20, 60)])]);
    silent.shape.hops[2].responders[0].address = [192, 0, 3, 3].into();
    assert_eq!(kinds(&session(1), &silent), [("loss-or-limit", Some(3))]);
}

#[test]
fn what_nobody_knows_of_is_no_loss() {
    let unsure = |answered: u64, unsure: u64, lost: u64| {
        let whole = (60, 60);
        let mut known = known(&[(3, &[whole, whole, (answered, answered + lost)])]);
        for seq in 0..unsure {
            let t_ns = (1000 + seq as i64) * 1_000_000_000;
            let sample = EchoSample::new(t_ns, 1000 + seq, 56, EchoStatus::Unsure);
            known.sample(0, 3, &sample);
        }
        let tcp = PathSession { method: ProbeMethod::Tcp, ..session(1) };
        (found(&known), findings(&tcp, &known))
    };
    let (kinds, said) = unsure(20, 40, 0);
    assert_eq!(kinds, [("loss-unknown", Some(3))]);
    assert!(said[0].text.starts_with("of 40 of 60 probes to hop 3 it is unknown"));
    // One that is lost places no others.
    assert_eq!(unsure(20, 39, 1).0, [("loss-or-limit", Some(3))]);
    let (kinds, said) = unsure(20, 10, 30);
    assert_eq!(kinds, [("loss-or-limit", Some(3))]);
    assert_eq!((said[0].id, said[0].hop, said[0].sure), ("loss", Some(3), true));
    assert!(said[0].text.starts_with("50.0 to 66.7 % are lost to hop 3"), "{said:?}");
}

#[test]
fn a_loss_that_grows_does_not_begin_there() {
    let text = |hops| findings(&session(1), &known(&[(3, hops)])).remove(0).text;
    let once = text(&[(400, 400), (400, 400), (340, 400), (340, 400)]);
    assert!(once.contains("loss begins between hop 2 and hop 3"), "{once}");
    let twice = text(&[(400, 400), (378, 400), (379, 400), (338, 400), (338, 400)]);
    assert!(twice.contains("loss grows between hop 3 and hop 4"), "{twice}");
}

#[test]
fn an_end_that_answers_seldom_need_not_lose_what_it_does_not_answer() {
    let often = |method, flows| PathSession { method, interval_ns: 500_000_000, ..session(flows) };
    let seldom = known(&[(3, &[(100, 100), (100, 100), (20, 100)])]);
    let kinds = |session: &PathSession, known: &PathHops| -> Vec<_> {
        findings(session, known).iter().map(|f| (f.id, f.hop)).collect()
    };
    for method in [ProbeMethod::Udp, ProbeMethod::Icmp] {
        let slowly = PathSession { method, ..session(1) };
        for session in [&often(method, 1), &slowly] {
            assert_eq!(kinds(session, &seldom), [("loss-or-limit", Some(3))]);
            assert!(!findings(session, &seldom)[0].sure);
        }
    }
    assert_eq!(kinds(&often(ProbeMethod::Tcp, 1), &seldom), [("loss", Some(3))]);
    // One flow has no answers, and goes where the others go.
    let whole: &[(u64, u64)] = &[(50, 50), (50, 50), (50, 50)];
    let none: &[(u64, u64)] = &[(50, 50), (50, 50), (1, 50)];
    let one_way = known(&[(3, whole), (3, none)]);
    assert_eq!(kinds(&often(ProbeMethod::Udp, 2), &one_way), [("loss-or-limit", Some(3))]);
    assert!(kinds(&often(ProbeMethod::Tcp, 2), &one_way).contains(&("bad-member", None)));
    // A limit of one echo reply a round falls on the same flow each time.
    assert_eq!(kinds(&often(ProbeMethod::Icmp, 2), &one_way), [("loss-or-limit", Some(3))]);
}

/// Packets of one flow take two hops or three, one by one.
#[test]
fn an_end_that_answered_was_reached_wherever_the_path_ended_last() {
    let (mut known, to) = (PathHops::new(1), session(1).to.ip());
    known.take(&answer(0, 1, [192, 0, 3, 1].into(), None));
    for who in [to, [192, 0, 3, 2].into()] {
        known.take(&answer(0, 2, who, None));
    }
    known.take(&News::Ends { flow: 0, ttl: Some(2) });
    known.take(&News::Ends { flow: 0, ttl: None });
    assert!(known.reached(to));
    assert!(!known.reached([192, 0, 2, 98].into()));
}

#[test]
fn a_router_that_sends_no_further_is_not_the_end_to_which_packets_get() {
    let (mut known, to) = (PathHops::new(1), session(1).to.ip());
    let size = HopSize { bytes: Some(1500), ..HopSize::default() };
    known.take(&answer(0, 1, [192, 0, 3, 1].into(), None));
    known.take(&News::Ends { flow: 0, ttl: Some(1) });
    known.take(&News::Sizes(vec![size]));
    assert_eq!((known.mtu(to), known.shape.hops[0].mtu), (None, Some(1500)));
}

#[test]
fn who_says_of_probes_that_they_are_too_big_is_named_with_what_is_wrong_in_that() {
    let mut known = known(&[(3, &[(3, 3)])]);
    let by: IpAddr = [192, 0, 3, 1].into();
    let text = |known: &PathHops| findings(&session(1), known).remove(0).text;
    known.take(&News::TooBig { by, mtu: 68 });
    let said = text(&known);
    assert!(said.starts_with("192.0.3.1 says that probes of 84 bytes don't fit"), "{said}");
    assert!(said.contains("where 68 do: a smaller -s may"), "{said}");
    known.shape.too_big = Some((by, 1400));
    assert!(text(&known).contains("names 1400 bytes as what does, which"));
}

#[test]
fn of_few_probes_nothing_is_claimed() {
    assert_eq!(found(&known(&[(3, &[(3, 3), (2, 3), (3, 3)])])), []);
    // One of three has no answer of the end: that is told, and that nobody knows whether it was lost.
    let one = [("loss-or-limit", Some(3))];
    assert_eq!(found(&known(&[(3, &[(3, 3), (3, 3), (2, 3)])])), one);
    assert_eq!(found(&known(&[(3, &[(3, 3), (3, 3), (3, 3)])])), []);
}

#[test]
fn a_change_of_marks_is_placed_behind_the_last_hop_that_saw_them_whole() {
    let mut known = known(&[(3, &[(3, 3), (3, 3), (3, 3), (3, 3)])]);
    for (ttl, came) in [(1, 0xba), (3, 0xb8), (4, 0x00)] {
        known.take(&answer(0, ttl, [192, 0, 3, ttl].into(), Some((0xba, came))));
    }
    // The end has another address here than its answers: two at one hop are a finding of their own.
    known.shape.hops[3] =
        Hop { responders: known.shape.hops[3].responders.split_off(1), ..Hop::default() };
    assert_eq!(found(&known), [("ecn-changed", Some(3)), ("dscp-changed", Some(4))]);
    let texts: Vec<String> = findings(&session(1), &known).into_iter().map(|f| f.text).collect();
    assert!(texts[0].contains("between hop 1 and hop 3: ECN ect0 becomes not-ect"), "{texts:?}");
    assert!(texts[1].contains("DSCP EF becomes CS0"), "{texts:?}");
}

#[test]
fn marks_that_vary_at_a_hop_are_placed_before_it_and_not_between_it_and_itself() {
    let mut known = known(&[(2, &[(3, 3), (3, 3)])]);
    for came in [0x11, 0x22, 0x33] {
        known.take(&answer(0, 1, [192, 0, 2, 1].into(), Some((0xba, came))));
    }
    let found = findings(&session(1), &known);
    let texts: Vec<String> = found.into_iter().map(|f| f.text).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts.iter().all(|text| text.contains("changed before hop 1:")), "{texts:?}");
}

#[test]
fn flows_that_lose_more_than_others_name_the_address_that_only_they_pass() {
    let good: &[(u64, u64)] = &[(50, 50), (50, 50), (50, 50)];
    let bad: &[(u64, u64)] = &[(50, 50), (50, 50), (25, 50)];
    let known = known(&[(3, good), (4, bad), (3, good)]);
    let found = findings(&PathSession { method: ProbeMethod::Tcp, ..session(3) }, &known);
    let found: Vec<_> = found.iter().map(|f| (f.id, f.hop)).collect();
    assert!(found.contains(&("bad-member", Some(1))), "{found:?}");
    assert!(found.contains(&("several-ways", Some(1))), "{found:?}");
}

#[test]
fn a_ttl_that_is_over_at_the_ends_address_is_no_arrival() {
    let (mut known, to) = (PathHops::new(1), session(1).to.ip());
    let expired = |ttl, from| {
        let News::Answer(answer) = answer(0, ttl, from, None) else { unreachable!() };
        News::Answer(HopAnswer { said: Some(Meaning::Expired), ..answer })
    };
    known.take(&expired(1, [192, 0, 3, 1].into()));
    known.take(&expired(2, to));
    assert!(!known.reached(to));
    assert_eq!(found(&known), [("router-with-the-end's-address", Some(2))]);
    known.take(&answer(0, 2, to, None));
    assert!(known.reached(to));
    assert_eq!(found(&known), []);
}

#[test]
fn a_router_that_sends_no_further_is_contradicted_by_hops_behind_it() {
    let told = |behind: bool| {
        let mut known = known(&[(3, if behind { &[(3, 3); 4] } else { &[(3, 3); 2] })]);
        let stop = HopAnswer {
            flow: 0,
            ttl: 2,
            from: [192, 0, 3, 2].into(),
            said: Some(Meaning::Unreachable(0)),
            back_ttl: None,
            marks: None,
            labels: Vec::new(),
        };
        if !behind {
            known.shape.hops[1].responders.clear();
        }
        known.take(&News::Answer(stop));
        let found = findings(&session(1), &known).remove(0);
        (found.id, found.text, known.reached(session(1).to.ip()))
    };
    let (kind, text, reached) = told(true);
    assert_eq!((kind, reached), ("unreachable-contradicted", true));
    assert!(text.contains("hop 3 behind it answers"), "{text}");
    let (kind, text, reached) = told(false);
    assert_eq!((kind, reached), ("unreachable", false));
    assert_eq!(text, "192.0.3.2 (hop 2) has no route there (!N, code 0).");
}

#[test]
fn answers_that_come_more_than_once_are_told() {
    let mut known = known(&[(3, &[(3, 3), (3, 3)])]);
    for _ in 0..7 {
        known.sample(0, 1, &EchoSample::new(0, 0, 56, EchoStatus::Duplicate));
    }
    assert_eq!(found(&known), [("duplicates", Some(1))]);
    let text = findings(&session(1), &known).remove(0).text;
    assert!(text.contains(": 7 of hop 1; the first ones"), "{text}");
}

#[test]
fn who_names_a_size_that_can_not_be_is_told_without_it() {
    let mut known = known(&[(3, &[(3, 3)])]);
    let by: IpAddr = [192, 0, 3, 1].into();
    for mtu in [0, 67] {
        known.shape.too_big = Some((by, mtu));
        let text = findings(&session(1), &known).remove(0).text;
        assert!(text.ends_with("don't fit behind it, and names no size that can be."), "{text}");
    }
    let six = PathSession { to: "[2001:db8::1]:0".parse().unwrap(), size: 2000, ..session(1) };
    known.shape.too_big = Some((by, 1279));
    assert!(findings(&six, &known)[0].text.contains("names no size"));
}

#[test]
fn a_size_that_is_unknown_once_all_was_asked_is_told() {
    let mut known = known(&[(3, &[(3, 3), (3, 3)])]);
    assert_eq!(found(&known), []);
    known.take(&News::Surveyed);
    assert_eq!(found(&known), [("sizes-unknown", None)]);
    let size = HopSize { bytes: Some(1500), ..HopSize::default() };
    known.take(&News::Sizes(vec![size; 2]));
    assert_eq!(found(&known), []);
}

#[test]
fn routers_that_answer_by_turns_are_a_loop() {
    let path = |hops: &[u8]| {
        let mut known = PathHops::new(1);
        for (ttl, who) in (1..).zip(hops).filter(|(_, who)| **who > 0) {
            known.take(&answer(0, ttl, [192, 0, 3, *who].into(), None));
        }
        found(&known)
    };
    assert_eq!(path(&[1, 2, 3, 2, 3, 2, 3]), [("routing-loop", Some(2))]);
    assert_eq!(path(&[1, 2, 3, 4, 2, 3, 4, 2, 0, 4]), [("routing-loop", Some(2))]);
    for other in [&[1, 2, 3, 4, 5][..], &[1, 2, 2, 2, 2], &[1, 2, 3, 2, 3, 4], &[1, 2, 3, 2]] {
        assert_eq!(path(other), [], "{other:?}");
    }
    let mut known = PathHops::new(1);
    for (ttl, who) in (1..).zip([2, 3, 2, 3]) {
        known.take(&answer(0, ttl, [192, 0, 3, who].into(), None));
    }
    let text = findings(&session(1), &known).remove(0).text;
    assert!(text.contains("from hop 1 on 192.0.3.2 and 192.0.3.3 answer by turns"), "{text}");
}

#[test]
fn answers_about_no_packet_of_ours_are_told() {
    let mut known = known(&[(3, &[(3, 3), (3, 3)])]);
    known.take(&News::Unmatched(2));
    assert_eq!(found(&known), [("unmatched", None)]);
}

/// The cause is the table's; what is said is where, in one plain sentence.
#[test]
fn a_black_hole_is_named_as_in_the_table_of_causes() {
    let mut known = known(&[(3, &[(3, 3), (3, 3)])]);
    let small = HopSize { bytes: Some(1400), limit: Some(SizeLimit::Vanish), ..HopSize::default() };
    let whole = HopSize { bytes: Some(1500), ..HopSize::default() };
    known.take(&News::Sizes(vec![whole, small]));
    let finding = findings(&session(1), &known).remove(0);
    assert_eq!((finding.id, finding.hop, finding.sure), ("mtu-black-hole", Some(2), true));
    assert!(finding.text.contains("above 1400 bytes vanish between hop 1 and hop 2"));
}
