//! Surveys of paths whose every link is known.

use super::*;

const SIZES: Sizes = Sizes { least: 68, small: 84, most: 1500 };

fn router(n: u8) -> IpAddr {
    [192, 0, 2, n].into()
}

/// Surveys a path whose link before hop n carries `links[n]` bytes; `mute[n]`: the router before it says nothing of what is too big;
/// `answers[n]`: the most that hop n answers. The hops, and how many packets it took.
fn survey(links: &[u32], mute: &[bool], answers: &[u32]) -> (Vec<HopSize>, usize) {
    let mut survey = Survey::new(SIZES, false, answers.iter().map(|a| *a > 0).collect());
    let mut asked = 0;
    while let Some(SurveyQuestion::Size { ttl, bytes, beside }) = survey.next() {
        asked += 1;
        assert!(asked < 400, "it ends");
        let hops = usize::from(ttl);
        let fate = |bytes: u32| match (0..hops).find(|n| links[*n] < bytes) {
            Some(n) if mute[n] => SizeAnswer::Silence,
            Some(0) => SizeAnswer::TooBig { by: None, mtu: links[0] },
            Some(n) => SizeAnswer::TooBig { by: Some(router(n as u8)), mtu: links[n] },
            None if answers[hops - 1] < bytes => SizeAnswer::Silence,
            None => SizeAnswer::Answered,
        };
        survey.take(match (fate(bytes), beside.map(fate)) {
            (SizeAnswer::Silence, Some(SizeAnswer::Answered)) => SizeAnswer::Beside,
            (outcome, _) => outcome,
        });
    }
    (survey.hops, asked)
}

fn bytes(hops: &[HopSize]) -> Vec<Option<u32>> {
    hops.iter().map(|hop| hop.bytes).collect()
}

const ALL: u32 = 9999;

#[test]
fn a_small_link_is_told_by_the_router_before_it() {
    let (hops, asked) = survey(&[1500, 1500, 1400, 1400], &[false; 4], &[ALL; 4]);
    assert_eq!(bytes(&hops), [Some(1500), Some(1500), Some(1400), Some(1400)]);
    let limits: Vec<_> = hops.iter().map(|hop| hop.limit).collect();
    assert_eq!(limits, [None, None, Some(SizeLimit::Said(router(2))), None]);
    assert_eq!(asked, 5);
}

#[test]
fn packets_that_vanish_are_told_to_the_byte_and_where() {
    let (hops, _) = survey(&[1500, 1500, 1400, 1400], &[false, false, true, true], &[ALL; 4]);
    assert_eq!(bytes(&hops), [Some(1500), Some(1500), Some(1400), Some(1400)]);
    assert_eq!(hops[2].limit, Some(SizeLimit::Vanish));
    assert_eq!(hops[3].limit, None);
    let (hops, _) = survey(&[1500, 1400], &[false, true], &[ALL; 2]);
    assert_eq!((hops[1].bytes, hops[1].limit), (Some(1400), Some(SizeLimit::Vanish)));
}

#[test]
fn a_hop_that_answers_no_large_packets_is_no_hole_in_the_path() {
    let (hops, _) = survey(&[1500; 4], &[false; 4], &[ALL, 600, ALL, ALL]);
    assert_eq!(bytes(&hops), [Some(1500), Some(600), Some(1500), Some(1500)]);
    assert!(hops[1].answers_less);
    assert!(hops.iter().all(|hop| hop.limit.is_none()), "{hops:?}");
}

#[test]
fn a_search_is_short() {
    for wanted in [1400, 1492, 1280, 1401, 1333, 700, 85] {
        let (hops, asked) = survey(&[wanted], &[true], &[ALL]);
        assert_eq!((hops[0].bytes, hops[0].limit), (Some(wanted), Some(SizeLimit::Vanish)));
        assert!(asked <= if USUAL.contains(&wanted) { 15 } else { 22 }, "{wanted}: {asked}");
    }
}

/// Pairs as the driver sends them to the last of hops that answer a packet each `limit` ms and are probed each `every` ms, by a path that loses one of
/// `loses` packets, if any.
fn limited(limit: u64, every: u64, phase: u64, loses: Option<u64>) -> Vec<HopSize> {
    let mut survey = Survey::new(SIZES, false, vec![true; 3]);
    let (mut now, mut due, mut probe, mut dice) = (phase % limit, 0, 0, phase);
    let mut lost = || {
        // Knuth's generator.
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        loses.is_some_and(|one_of| (dice >> 33) % one_of == 0)
    };
    for asked in 0.. {
        let Some(SurveyQuestion::Size { beside, .. }) = survey.next() else { break };
        while probe <= now {
            if probe >= due {
                due = probe + limit;
            }
            probe += every;
        }
        let mut answers = |now: u64| {
            let answers = !lost() && now >= due;
            if answers {
                due = now + limit;
            }
            answers && !lost()
        };
        let outcome = match (answers(now), beside.is_some_and(|_| answers(now + 2))) {
            (true, _) => SizeAnswer::Answered,
            (_, true) => SizeAnswer::Beside,
            _ => SizeAnswer::Silence,
        };
        survey.take(outcome);
        let pace = 1050 + asked % 5 * 70;
        // As the driver has it once the rounds are over, of which a probe a while is left here.
        now += match outcome {
            _ if survey.spares() => pace,
            SizeAnswer::Answered => pace / 4,
            _ => 300.max(pace / 4),
        };
    }
    survey.hops
}

#[test]
fn a_limit_of_answers_is_no_hole_whatever_its_beat_and_whatever_is_lost() {
    let mut stories = 0;
    for limit in [200, 500, 1000, 1050, 1120, 2000, 3000] {
        for every in [50, 150, 333, 1000, 1_000_000] {
            for loses in [None, Some(25), Some(5)] {
                for phase in 0..20 {
                    let hops = limited(limit, every, phase * 97, loses);
                    assert!(
                        hops.iter().all(|hop| hop.limit.is_none()),
                        "{limit} {every} {loses:?} {phase}: {hops:?}"
                    );
                    stories += 1;
                }
            }
        }
    }
    assert_eq!(stories, 2100);
}

#[test]
fn a_search_that_a_loss_led_astray_begins_anew() {
    let mut survey = Survey::new(SIZES, false, vec![true]);
    let (mut was_lost, mut most_astray) = (false, 0);
    while let Some(SurveyQuestion::Size { bytes, .. }) = survey.next() {
        let is_lost = bytes <= 1400 && !was_lost;
        was_lost |= is_lost;
        let fits = bytes <= 1400 && !is_lost;
        survey.take(if fits { SizeAnswer::Answered } else { SizeAnswer::Beside });
        most_astray = most_astray.max(survey.astray);
    }
    assert_eq!((survey.hops[0].bytes, most_astray), (Some(1400), 1));
    assert_eq!(survey.hops[0].limit, Some(SizeLimit::Vanish));
}

#[test]
fn a_hop_that_falls_silent_while_it_is_asked_leaves_its_size_unknown() {
    let mut survey = Survey::new(SIZES, false, vec![true]);
    survey.take(SizeAnswer::Silence);
    survey.take(SizeAnswer::Silence);
    assert_eq!(survey.next(), Some(SurveyQuestion::Size { ttl: 1, bytes: 1500, beside: Some(84) }));
    survey.take(SizeAnswer::Beside);
    while survey.next().is_some() {
        survey.take(SizeAnswer::Silence);
    }
    assert_eq!(survey.hops[0], HopSize::default());
}

#[test]
fn a_hop_is_asked_seldom_once_it_left_a_pair_without_an_answer() {
    let mut survey = Survey::new(SIZES, false, vec![true, true]);
    assert_eq!(survey.questions_left(), None, "nothing is searched");
    survey.take(SizeAnswer::Silence);
    survey.take(SizeAnswer::Silence);
    assert!(survey.searches() && !survey.spares(), "large ones may be too large");
    let first = survey.questions_left().expect("it searches");
    (0..4).for_each(|_| survey.take(SizeAnswer::Beside));
    assert!(survey.questions_left().is_some_and(|left| left < first));
    assert!(!survey.spares());
    survey.take(SizeAnswer::Silence);
    assert!(survey.spares());
    while survey.next().is_some_and(|ask| matches!(ask, SurveyQuestion::Size { ttl: 1, .. })) {
        survey.take(SizeAnswer::Beside);
    }
    assert!(!survey.spares(), "the next hop did nothing yet");
}

/// Somebody answers only what shows nothing: one small packet of a pair, and then none.
#[test]
fn a_survey_that_is_left_asks_nothing_more_and_keeps_what_it_knows() {
    let mut survey = Survey::new(SIZES, false, vec![true; 3]);
    survey.take(SizeAnswer::Answered);
    (0..5).for_each(|_| survey.take(SizeAnswer::Silence));
    assert_eq!((survey.leave(), survey.next()), (Some(2), None));
    assert_eq!(bytes(&survey.hops), [Some(1500), None, None]);
    assert_eq!(survey.leave(), None, "all was asked");
}

#[test]
fn a_silent_hop_is_left_out() {
    let (hops, asked) = survey(&[1500; 3], &[false; 3], &[ALL, 0, ALL]);
    assert_eq!(bytes(&hops), [Some(1500), None, Some(1500)]);
    assert_eq!(asked, 2);
}

#[test]
fn lies_about_sizes_lead_nowhere() {
    let mut survey = Survey::new(SIZES, false, vec![true]);
    for mtu in [0, 1, 67, 83, 1500, 65_535, u32::MAX] {
        survey.take(SizeAnswer::TooBig { by: Some(router(1)), mtu });
        assert!(matches!(
            survey.next(),
            Some(SurveyQuestion::Size { ttl: 1, bytes: 84..=1500, .. }) | None
        ));
    }
    // Somebody who always names one byte less can't keep us.
    let mut survey = Survey::new(SIZES, false, vec![true]);
    let mut asked = 0;
    while let Some(SurveyQuestion::Size { bytes, .. }) = survey.next() {
        asked += 1;
        survey.take(SizeAnswer::TooBig { by: Some(router(1)), mtu: bytes - 1 });
    }
    assert!(asked <= 40, "{asked}");
}

/// A router older than RFC 1191 names no size.
#[test]
fn a_size_that_nobody_names_is_searched_and_whose_link_it_is_is_told() {
    let mut survey = Survey::new(SIZES, false, vec![true; 2]);
    let mut asked = 0;
    while let Some(SurveyQuestion::Size { bytes, beside, .. }) = survey.next() {
        asked += 1;
        let fits = bytes <= 1400;
        if !fits {
            assert!(!survey.believes(0));
            survey.doubt(router(1));
        }
        survey.take(match beside {
            _ if fits => SizeAnswer::Answered,
            Some(_) => SizeAnswer::Beside,
            None => SizeAnswer::Silence,
        });
    }
    assert_eq!(bytes(&survey.hops), [Some(1400), Some(1400)]);
    assert_eq!(survey.hops[0].limit, Some(SizeLimit::Said(router(1))));
    assert!(asked < 25, "{asked}");
}

#[test]
fn marks_are_asked_for_first_and_silence_about_them_stops_nothing() {
    let mut survey = Survey::new(SIZES, true, vec![true, true]);
    assert_eq!(survey.next(), Some(SurveyQuestion::Marks { ttl: 1, beside: false }));
    survey.take(SizeAnswer::Silence);
    assert_eq!(survey.next(), Some(SurveyQuestion::Marks { ttl: 1, beside: false }));
    survey.take(SizeAnswer::Silence);
    assert_eq!(survey.next(), Some(SurveyQuestion::Size { ttl: 1, bytes: 1500, beside: None }));
    survey.take(SizeAnswer::Answered);
    assert_eq!(survey.next(), Some(SurveyQuestion::Marks { ttl: 2, beside: false }));
}

/// Surveys three hops; to marked packets and pairs of one the hop with this number gives that. How often each hop was asked for marks as pairs.
fn marks_of(mut survey: Survey, outcome: impl Fn(u8, bool) -> SizeAnswer) -> (Survey, [u32; 3]) {
    let mut pairs = [0; 3];
    while let Some(ask) = survey.next() {
        survey.take(match ask {
            SurveyQuestion::Marks { ttl, beside } => {
                pairs[usize::from(ttl) - 1] += u32::from(beside);
                assert!(pairs.iter().sum::<u32>() < 40, "it ends");
                outcome(ttl, beside)
            }
            SurveyQuestion::Size { .. } => SizeAnswer::Answered,
        });
    }
    (survey, pairs)
}

#[test]
fn marked_packets_without_an_answer_are_asked_for_again_beside_unmarked_ones() {
    let new = || Survey::new(SIZES, true, vec![true; 3]);
    // All were lost at first.
    let late = |_, beside| if beside { SizeAnswer::Answered } else { SizeAnswer::Silence };
    let (survey, pairs) = marks_of(new(), late);
    assert_eq!((pairs, survey.hops[0].marks_vanish), ([1, 1, 1], false));
    // What answers behind them lets them pass.
    let some = |ttl, _| if ttl == 2 { SizeAnswer::Answered } else { SizeAnswer::Silence };
    assert_eq!(marks_of(new(), some).1, [0, 0, 4]);
    let drops = |ttl, beside| match ttl {
        1 => SizeAnswer::Answered,
        _ if beside => SizeAnswer::Beside,
        _ => SizeAnswer::Silence,
    };
    let (survey, pairs) = marks_of(new(), drops);
    assert_eq!(pairs, [0, 4, 0]);
    let vanish: Vec<bool> = survey.hops.iter().map(|hop| hop.marks_vanish).collect();
    assert_eq!(vanish, [false, true, false]);
}

#[test]
fn an_end_that_turns_out_to_be_nearer_keeps_what_it_answered_farther_off() {
    // Its first probe was lost, so it answered at the fifth hop; the third was silent at first.
    let mut survey = Survey::new(SIZES, false, vec![true, true, false, false, true]);
    survey.take(SizeAnswer::Answered);
    survey.take(SizeAnswer::Answered);
    survey.take(SizeAnswer::TooBig { by: Some(router(2)), mtu: 1400 });
    survey.take(SizeAnswer::Answered);
    assert_eq!((survey.next(), survey.hops[4].bytes), (None, Some(1400)));
    assert!(!survey.ends_at(4), "nothing is asked");
    assert_eq!(survey.hops[3].limit, Some(SizeLimit::Said(router(2))));
    survey.answers(3);
    assert_eq!(survey.next(), Some(SurveyQuestion::Size { ttl: 3, bytes: 1500, beside: None }));
    survey.take(SizeAnswer::TooBig { by: Some(router(2)), mtu: 1400 });
    survey.take(SizeAnswer::Answered);
    assert_eq!(survey.next(), None);
    assert_eq!(bytes(&survey.hops[..4]), [Some(1500), Some(1500), Some(1400), Some(1400)]);
    let limits: Vec<_> = survey.hops[..4].iter().map(|hop| hop.limit).collect();
    assert_eq!(limits, [None, None, Some(SizeLimit::Said(router(2))), None]);
}

#[test]
fn a_question_to_an_end_that_is_nearer_is_asked_there() {
    let mut survey = Survey::new(SIZES, false, vec![false, false, true]);
    assert_eq!(survey.next(), Some(SurveyQuestion::Size { ttl: 3, bytes: 1500, beside: None }));
    survey.take(SizeAnswer::Silence);
    assert!(survey.ends_at(2));
    survey.answers(1);
    assert_eq!(survey.next(), Some(SurveyQuestion::Size { ttl: 2, bytes: 1500, beside: None }));
    survey.take(SizeAnswer::Answered);
    assert_eq!(survey.next(), Some(SurveyQuestion::Size { ttl: 1, bytes: 1500, beside: None }));
    survey.take(SizeAnswer::Answered);
    assert_eq!(survey.next(), None);
}

/// The end was searched before the hop ahead of it answered.
#[test]
fn packets_that_vanish_before_a_hop_that_is_asked_last_are_placed_there() {
    let mut survey = Survey::new(SIZES, false, vec![true, false, true]);
    let mut asked = 0;
    while let Some(SurveyQuestion::Size { ttl, bytes, beside }) = survey.next() {
        asked += 1;
        assert!(asked < 99, "it ends");
        survey.take(match beside {
            _ if ttl == 1 || bytes <= 1400 => SizeAnswer::Answered,
            Some(_) => SizeAnswer::Beside,
            None => SizeAnswer::Silence,
        });
        if survey.next().is_none() {
            survey.answers(2);
        }
    }
    assert_eq!(bytes(&survey.hops), [Some(1500), Some(1400), Some(1400)]);
    assert_eq!((survey.hops[1].limit, survey.hops[2].limit), (Some(SizeLimit::Vanish), None));
}

#[test]
fn an_end_that_was_silent_at_first_is_asked_once_it_answers() {
    let mut survey = Survey::new(SIZES, false, vec![true]);
    survey.take(SizeAnswer::Answered);
    assert_eq!(survey.next(), None);
    survey.answers(3);
    assert!(!survey.ends_at(3));
    assert_eq!(survey.next(), Some(SurveyQuestion::Size { ttl: 3, bytes: 1500, beside: None }));
    survey.take(SizeAnswer::Answered);
    assert_eq!(survey.next(), None);
    assert_eq!(bytes(&survey.hops), [Some(1500), None, Some(1500)]);
    survey.leave();
    survey.answers(2);
    assert_eq!(survey.next(), None, "it was left");
}
