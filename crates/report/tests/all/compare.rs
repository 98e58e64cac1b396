//! Runs beside each other: what is said of differences whose truth is known.

use crate::common::{echo, flows, home_link, packets, pings, run, steady};
use quell_model::CellStatus;
use quell_model::metric::Metric;
use quell_report::Results;
use quell_report::compare::{
    self, Against, Basis, By, CompareError, Comparison, MeasuredRun, Towards, Value, Verdict,
    Wanted, Why,
};
use quell_stats::Rng;
use quell_store::Run;

/// Compares runs and hands the comparison on.
fn compared<T>(
    runs: &[Run],
    wanted: &Wanted,
    told: impl Fn(&Comparison) -> T,
) -> Result<T, CompareError> {
    let results: Vec<Results> = runs.iter().map(Results::from).collect();
    let sources: Vec<MeasuredRun> =
        runs.iter().zip(&results).map(|(run, results)| MeasuredRun { run, results }).collect();
    Comparison::of(&sources, wanted).map(|comparison| told(&comparison))
}

/// The one difference of a metric in a set.
fn difference(comparison: &Comparison, set: &str, metric: Metric) -> Against {
    let named = |s: &&compare::Set| s.name() == set;
    let names: Vec<String> = comparison.sets.iter().map(compare::Set::name).collect();
    let set = comparison.sets.iter().find(named).unwrap_or_else(|| panic!("no {set} in {names:?}"));
    let measure = set.measures.iter().find(|m| m.metric == metric).expect("it was measured");
    measure.against[0].clone()
}

/// A run of `repeats` pings: each 100 packets of so many milliseconds and a little more each repeat, of which some are lost.
fn pinged(ms: f64, repeats: u32, lost: usize) -> Run {
    let cell = |repeat: u32| {
        let wobble = f64::from(repeat * repeat % 7);
        let delays: Vec<_> = (0..100)
            .map(|n| (n % 100 >= lost).then_some((ms + wobble + (n % 10) as f64 / 100.0, 10.0)))
            .collect();
        ("idle", "ping", repeat, echo("ping", pings(&delays)))
    };
    let mut run = run((0..repeats).map(cell).collect());
    for record in &mut run.manifest.cells {
        record.seed = u64::from(record.id.repeat) + 100;
    }
    run
}

/// The same with other seeds.
fn reseeded(mut run: Run) -> Run {
    run.manifest.cells.iter_mut().for_each(|c| c.seed += 1000);
    run
}

#[test]
fn a_millisecond_more_is_seen_in_pairs_and_lost_among_repeats_that_differ_by_more() {
    let p50 = |c: &Comparison| difference(c, "idle · ping", Metric::RttP50);
    let pairs = compared(&[pinged(20.0, 5, 0), pinged(21.0, 5, 0)], &Wanted::default(), p50)
        .expect("two runs");
    assert_eq!((pairs.basis, pairs.verdict), (Basis::Pairs(5), Verdict::Surely(Towards::Worse)));
    assert!((pairs.difference.value - 1e-3).abs() < 1e-9, "{pairs:?}");
    let apart = [pinged(20.0, 5, 0), reseeded(pinged(21.0, 5, 0))];
    let apart = compared(&apart, &Wanted::default(), p50).expect("two runs");
    assert_eq!((apart.basis, apart.verdict), (Basis::Repeats, Verdict::NotSeen));
    assert!(apart.difference.low < Some(-1e-3) && apart.difference.high > Some(3e-3), "{apart:?}");
}

#[test]
fn a_run_is_equal_to_itself() {
    let verdict = |c: &Comparison| {
        assert_eq!(compare::worse(c), Vec::<String>::new());
        difference(c, "idle · ping", Metric::RttP50).verdict
    };
    for repeats in [1, 5] {
        let runs = [pinged(20.0, repeats, 0), pinged(20.0, repeats, 0)];
        assert_eq!(
            compared(&runs, &Wanted::default(), verdict),
            Ok(Verdict::Equal),
            "{repeats} repeats"
        );
    }
}

#[test]
fn more_loss_is_worse_and_more_goodput_better() {
    let runs = [pinged(20.0, 3, 0), pinged(20.0, 3, 30)];
    let of = |runs: &[Run]| {
        compared(runs, &Wanted::default(), |c| {
            (difference(c, "idle · ping", Metric::Loss), compare::worse(c))
        })
    };
    let (loss, sentences) = of(&runs).expect("two runs");
    assert_eq!((loss.basis, loss.verdict), (Basis::Repeats, Verdict::Surely(Towards::Worse)));
    assert!(loss.difference.low > Some(0.05) && loss.difference.high < Some(0.7), "{loss:?}");
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(
        sentences[0].starts_with("loss of idle · ping: worse, 0.0 % with A, 30.0 with B, +"),
        "{sentences:?}"
    );
    let tcp = |mbps: f64| {
        let cell = |repeat: u32| {
            ("bulk", "tcp", repeat, flows(vec![steady("tcp", mbps + f64::from(repeat) / 50.0, 0)]))
        };
        run((0..4).map(cell).collect())
    };
    let goodput = |c: &Comparison| difference(c, "bulk · tcp", Metric::Goodput).verdict;
    let found = compared(&[tcp(2.0), tcp(3.0)], &Wanted::default(), goodput);
    assert_eq!(found, Ok(Verdict::Surely(Towards::Better)));
    let found = compared(&[tcp(3.0), tcp(2.0)], &Wanted::default(), goodput);
    assert_eq!(found, Ok(Verdict::Surely(Towards::Worse)));
    let margin = Wanted { margin: 0.5, ..Wanted::default() };
    assert_eq!(compared(&[tcp(3.0), tcp(2.0)], &margin, goodput), Ok(Verdict::NotSeen));
}

#[test]
fn what_one_repeat_can_t_tell_is_not_known_and_no_check_passes_on_it() {
    let tcp = |mbps: f64| run(vec![("bulk", "tcp", 0, flows(vec![steady("tcp", mbps, 0)]))]);
    let shown =
        compared(&[tcp(3.0), tcp(3.01)], &Wanted::default(), |c| compare::text(100, c, false));
    let shown = shown.expect("two runs");
    assert!(shown.contains("1 of 1 figures are not known: there are fewer than three"), "{shown}");
    assert!(!shown.contains("no difference"), "{shown}");
    let (verdict, worse) = compared(&[tcp(3.0), tcp(2.0)], &Wanted::default(), |c| {
        assert!(compare::worse(c).is_empty() && compare::is_all_unknown(c));
        (difference(c, "bulk · tcp", Metric::Goodput).verdict, compare::unknown(c))
    })
    .expect("two runs");
    assert_eq!(verdict, Verdict::Unknown(Why::FewRepeats));
    assert!(
        worse.iter().any(|w| w.contains(
            "tcp: not known, since there are fewer than three repeats, 3.0 Mbit/s with A"
        )),
        "{worse:?}"
    );
    // Of single packets their number tells something, of these packets alone.
    let runs = [pinged(20.0, 1, 0), pinged(80.0, 1, 0)];
    let p50 = compared(&runs, &Wanted::default(), |c| difference(c, "idle · ping", Metric::RttP50))
        .expect("two runs");
    assert_eq!((p50.basis, p50.verdict), (Basis::Packets, Verdict::Surely(Towards::Worse)));
}

#[test]
fn scenarios_of_a_run_are_held_against_the_first_or_the_one_that_is_named_first() {
    let run = [home_link(3)];
    let groups = |c: &Comparison| {
        (c.by.clone(), c.groups.iter().map(|g| g.label.clone()).collect::<Vec<_>>())
    };
    let (by, labels) = compared(&run, &Wanted::default(), groups).expect("two scenarios");
    assert_eq!((by.as_str(), labels), ("scenario", vec!["unloaded".to_owned(), "bulk".to_owned()]));
    let reversed =
        Wanted { scenarios: vec!["bulk".into(), "unloaded".into()], ..Wanted::default() };
    let (_, labels) = compared(&run, &reversed, groups).expect("two scenarios");
    assert_eq!(labels, ["bulk", "unloaded"]);
    let verdict = |c: &Comparison| difference(c, "ping", Metric::RttP50).verdict;
    assert_eq!(compared(&run, &reversed, verdict), Ok(Verdict::Surely(Towards::Better)));
    let names = |c: &Comparison| c.sets.iter().map(compare::Set::name).collect::<Vec<_>>();
    assert_eq!(
        compared(&run, &reversed, names),
        Ok(vec!["udp".into(), "ping".into(), "tcp".into()]),
        "loads are left out"
    );
}

#[test]
fn probes_are_compared_by_what_both_measure() {
    let run = [home_link(3)];
    let by = Wanted { by: Some(By::Probe), ..Wanted::default() };
    let metrics = |c: &Comparison| {
        let measures = |s: &compare::Set| s.measures.iter().map(|m| m.metric).collect::<Vec<_>>();
        c.sets
            .iter()
            .map(|s| (s.name(), measures(s), s.measures[0].against.len()))
            .collect::<Vec<_>>()
    };
    let found = compared(&run, &by, metrics).expect("udp and ping have round trips");
    let (name, metrics, others) = &found[0];
    assert_eq!((name.as_str(), *others), ("unloaded", 1), "tcp has none of it");
    assert!(metrics.contains(&Metric::RttP50) && !metrics.contains(&Metric::UpP50), "{metrics:?}");
}

#[test]
fn a_field_tells_groups_apart_wherever_it_is_from() {
    let runs = [pinged(20.0, 3, 0), pinged(40.0, 3, 0), reseeded(pinged(41.0, 3, 0))];
    let value = |source: usize, scenario: &str| {
        let value = if source == 0 { "1Mbit" } else { "10Mbit" };
        Some(Value { value: value.into(), scenario: scenario.into() })
    };
    let by = Wanted { by: Some(By::Field("rate", &value)), ..Wanted::default() };
    let (labels, repeats) = compared(&runs, &by, |c| {
        let labels: Vec<String> = c.groups.iter().map(|g| g.label.clone()).collect();
        (labels, difference(c, "idle · ping", Metric::RttP50).repeats)
    })
    .expect("two values");
    assert_eq!((labels, repeats), (vec!["1Mbit".to_owned(), "10Mbit".to_owned()], 6));
    // The same seed in virtual time is the same packets.
    let twice = [pinged(20.0, 3, 0), pinged(40.0, 3, 0), pinged(40.0, 3, 0)];
    let (notes, repeats) = compared(&twice, &by, |c| {
        (c.notes.join("\n"), difference(c, "idle · ping", Metric::RttP50).repeats)
    })
    .expect("two values");
    assert!(repeats == 3 && notes.contains("count once"), "{repeats}: {notes}");
    // Unless something else differs between the runs: then none is left out, whichever is named first, and that they differ is said.
    let mixed = [&twice[0], &twice[1], &pinged(60.0, 3, 0)].map(Run::clone);
    let turned = [&mixed[0], &mixed[2], &mixed[1]].map(Run::clone);
    let of_mixed = |runs: &[Run]| {
        compared(runs, &by, |c| {
            let p50 = difference(c, "idle · ping", Metric::RttP50);
            (c.notes.join("\n"), p50.repeats, p50.basis, p50.figure.value)
        })
        .expect("two values")
    };
    let ((notes, repeats, basis, value), other) = (of_mixed(&mixed), of_mixed(&turned));
    assert_eq!((repeats, basis), (6, Basis::Repeats));
    assert!(notes.contains("differ in more than rate") && !notes.contains("once"), "{notes}");
    assert_eq!((other.1, other.3), (repeats, value));
    let none = |_: usize, _: &str| None;
    let by = Wanted { by: Some(By::Field("colour", &none)), ..Wanted::default() };
    assert!(matches!(compared(&runs, &by, |_| ()), Err(CompareError::NoField { .. })));
}

#[test]
fn what_can_t_be_compared_is_told_with_what_there_is() {
    let wanted = Wanted::default();
    let told = |runs: &[Run], wanted: &Wanted| {
        compared(runs, wanted, |_| ()).expect_err("nothing to compare").to_string()
    };
    let other = run(vec![("idle", "udp", 0, echo("udp", packets(&[Some((1.0, 1.0)); 9])))]);
    let common = told(&[pinged(20.0, 3, 0), other.clone()], &wanted);
    assert!(common.contains("A has idle.ping; B has idle.udp"), "{common}");
    let alone = told(&[pinged(20.0, 3, 0)], &wanted);
    assert!(alone.contains("nothing to compare idle with"), "{alone}");
    let units = run(vec![
        ("idle", "ping", 0, echo("ping", pings(&[Some((1.0, 1.0)); 9]))),
        ("idle", "tcp", 0, flows(vec![steady("tcp", 2.0, 0)])),
    ]);
    let units = told(&[units], &Wanted { by: Some(By::Probe), ..Wanted::default() });
    assert!(
        units.contains("ping has loss, rtt.p50") && units.contains("tcp has goodput"),
        "{units}"
    );
    let unknown = told(
        &[pinged(20.0, 3, 0), pinged(20.0, 3, 0)],
        &Wanted { scenarios: vec!["bulk".into()], ..Wanted::default() },
    );
    assert!(unknown.contains("no scenario \"bulk\"; there are idle"), "{unknown}");
    let mut broken = pinged(20.0, 3, 0);
    broken.manifest.cells.iter_mut().for_each(|c| c.status = CellStatus::Partial);
    broken.manifest.complete = false;
    let broken = told(&[pinged(20.0, 3, 0), broken], &wanted);
    assert!(
        broken.contains("no measurement of the run") && broken.contains("did not come to its end"),
        "{broken}"
    );
}

#[test]
fn cells_that_did_not_come_to_their_end_are_left_out_and_said_to_be() {
    let mut partial = pinged(20.0, 4, 0);
    partial.manifest.cells[3].status = CellStatus::Failed;
    partial.manifest.cells[3].reason = Some("the kernel went away".into());
    let (notes, repeats) = compared(&[pinged(20.0, 4, 0), partial], &Wanted::default(), |c| {
        (c.notes.join("\n"), difference(c, "idle · ping", Metric::RttP50).repeats)
    })
    .expect("three are left");
    assert_eq!(repeats, 3);
    assert!(
        notes.contains("1 of 4 measurements are left out")
            && notes.contains("the kernel went away"),
        "{notes}"
    );
}

#[test]
fn delays_of_a_minority_are_no_evidence() {
    let runs = [pinged(20.0, 3, 0), pinged(90.0, 3, 60)];
    let p50 = compared(&runs, &Wanted::default(), |c| difference(c, "idle · ping", Metric::RttP50));
    assert_eq!(p50.expect("two runs").verdict, Verdict::Unknown(Why::Minority));
}

#[test]
fn the_table_fits_and_says_by_how_much_and_how_sure() {
    let runs = [home_link(4), home_link(4), home_link(3)];
    for width in [80, 100] {
        for wanted in [Wanted::default(), Wanted { by: Some(By::Scenario), ..Wanted::default() }] {
            let text = compared(&runs[..2], &wanted, |c| compare::text(width, c, true))
                .expect("they can be compared");
            let widest = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
            assert!(widest <= width, "{widest} of {width}:\n{text}");
        }
    }
    // Long figures and few columns: the words become fewer, and none goes beyond the edge.
    let long = [pinged(20_000.0, 3, 30), pinged(20_000.001, 3, 28)];
    let text =
        compared(&long, &Wanted::default(), |c| compare::text(80, c, true)).expect("two runs");
    let widest = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    assert!(widest <= 80 && text.contains("none seen"), "{widest}:\n{text}");
    let text = compared(&runs[..1], &Wanted::default(), |c| compare::text(100, c, true))
        .expect("two scenarios");
    assert!(text.contains("unloaded") && text.contains("95 % interval"), "{text}");
    let line = text.lines().find(|l| l.contains("rtt.p50 ms")).expect("a row");
    assert!(line.contains('+') && line.contains(" to ") && line.ends_with("worse"), "{line}");
    let three =
        compared(&runs, &Wanted::default(), |c| compare::text(100, c, true)).expect("three runs");
    assert!(three.lines().any(|l| l.starts_with("C ")), "{three}");
}

#[test]
fn of_what_is_nothing_in_the_digits_shown_no_part_is_told() {
    let alike =
        |ms: f64| run(vec![("idle", "ping", 0, echo("ping", pings(&[Some((ms, 0.0)); 100])))]);
    let row = |before: f64, after: f64| {
        let runs = [alike(before), alike(after)];
        let text =
            compared(&runs, &Wanted::default(), |c| compare::text(100, c, true)).expect("two runs");
        text.lines().find(|line| line.contains("rtt.p50")).expect("a row").to_owned()
    };
    let (nothing, little, much) = (row(15e-6, 15e-6), row(15e-6, 10e-6), row(15.0, 10.0));
    assert!(nothing.contains(" 0.000 ") && !nothing.contains('%'), "{nothing}");
    // 15 and 10 ns: what is told to differ has the digits for it.
    assert!(little.contains(" 0.000015 ") && little.contains("−33 %"), "{little}");
    assert!(much.contains("−33 %"), "{much}");
}

#[test]
fn a_difference_that_is_told_is_seen_in_the_digits() {
    // 5 ns in each repeat: three digits after the point of a millisecond would show two equal figures, of which one is worse.
    let runs = [pinged(20.0, 3, 0), pinged(20.000_005, 3, 0)];
    let text =
        compared(&runs, &Wanted::default(), |c| compare::text(100, c, true)).expect("two runs");
    let row = text.lines().find(|line| line.contains("rtt.p50")).expect("a row");
    assert!(row.contains(" +0.000005 ") && row.ends_with("worse"), "{row}");
    // Of what nobody tells to differ three digits are enough.
    let runs = [pinged(20.0, 3, 0), pinged(20.0, 3, 0)];
    let text =
        compared(&runs, &Wanted::default(), |c| compare::text(100, c, true)).expect("two runs");
    let row = text.lines().find(|line| line.contains("rtt.p50")).expect("a row");
    assert!(row.contains(" 0.000 ") && row.ends_with("equal"), "{row}");
}

#[test]
fn json_has_the_units_of_the_table_and_null_where_nobody_knows() {
    let runs = [pinged(20.0, 3, 0), pinged(30.0, 3, 0)];
    let json = compared(&runs, &Wanted::default(), compare::json).expect("two runs");
    let rows = json["differences"].as_array().expect("rows");
    let p50 = rows.iter().find(|r| r["metric"] == "rtt.p50").expect("a median");
    assert_eq!(
        (&p50["unit"], &p50["basis"], &p50["pairs"]),
        (&"ms".into(), &"pairs".into(), &3.into())
    );
    let value = p50["difference"]["value"].as_f64().expect("a number");
    assert!((value - 10.0).abs() < 1e-6, "{p50}");
    let p99 = rows.iter().find(|r| r["metric"] == "rtt.p99").expect("a p99");
    assert!(p99["difference"]["high"].is_null(), "300 packets are too few: {p99}");
    assert_eq!(json["worse"].as_array().map(Vec::len), Some(1), "{}", json["worse"]);
}

#[test]
fn figures_lay_groups_over_each_other_and_the_page_has_table_and_figures() {
    let runs = [home_link(3), home_link(3)];
    let (figures, page) = compared(&runs, &Wanted::default(), |c| {
        let delays = compare::figures::Delays::of(c, (0.0, None));
        let draw = |name: &str| {
            delays.figure(name, quell_report::figures::PageWidth::Wide).map(|f| f.svg())
        };
        (compare::figures::NAMES.map(|n| draw(n.name)), compare::page(c))
    })
    .expect("two runs");
    for svg in figures.iter().flatten() {
        let is_named = svg.contains(">A</text>") || svg.contains("Quantiles of A ");
        assert!(is_named && svg.contains(">B</text>"), "both are named");
    }
    assert!(figures.iter().all(Option::is_some), "all can be drawn");
    assert!(
        page.contains("id=\"cdf\"")
            && page.contains("id=\"goodput\"")
            && page.contains("show no difference")
    );
    assert!(!page.contains("<script"), "it needs no script");
    // On a phone a row is several lines: each figure stands there with its column's name.
    for column in ["A", "B", "Difference", "95 % interval"] {
        assert!(page.contains(&format!("<td class=\"n\" data-of=\"{column}\">")), "{column}");
    }
    let pings = [pinged(20.0, 3, 0), pinged(30.0, 3, 0)];
    let none = compared(&pings, &Wanted::default(), |c| {
        compare::figures::Delays::of(c, (0.0, None))
            .figure("goodput", quell_report::figures::PageWidth::Wide)
            .is_none()
    });
    assert_eq!(none, Ok(true), "a figure without data is none");
}

/// Repeats with seeds of their own: nothing to pair.
fn transfers(rng: &mut Rng, of: impl Fn(f64) -> f64, repeats: u32) -> Run {
    let mut mbps = || {
        let normal =
            (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
        of(10.0 + normal)
    };
    let cell = |repeat| ("s", "tcp", repeat, flows(vec![steady("tcp", mbps(), 0)]));
    let mut run = run((0..repeats).map(cell).collect());
    for record in &mut run.manifest.cells {
        record.seed = rng.u64();
    }
    run
}

/// The table in docs/comparing.md: of a thousand comparisons, in percent, those that say that equal things differ, and those whose interval holds an effect
/// that is known.
#[test]
fn equal_things_differ_in_five_of_a_hundred_comparisons_and_a_known_effect_is_covered_in_95() {
    let trials = 1000;
    let goodput = |runs: [Run; 2]| {
        let of = |c: &Comparison| difference(c, "s · tcp", Metric::Goodput);
        compared(&runs, &Wanted::default(), of).expect("two runs")
    };
    for repeats in [3, 5, 10] {
        let mut rng = Rng::new(28);
        let (mut differ, mut covered) = (0, 0);
        for _ in 0..trials {
            let alike = [(); 2].map(|()| transfers(&mut rng, |v| v, repeats));
            let said = goodput(alike).verdict;
            differ += u32::from(matches!(said, Verdict::Perhaps(_) | Verdict::Surely(_)));
            let first = transfers(&mut rng, |v| v, repeats);
            let found = goodput([first, transfers(&mut rng, |v| v + 2.0, repeats)]).difference;
            let holds = found.low.is_some_and(|low| low <= 2e6)
                && found.high.is_some_and(|high| high >= 2e6);
            covered += u32::from(holds);
        }
        let [differ, covered] = [differ, covered].map(|n| f64::from(n) * 100.0 / f64::from(trials));
        println!("| {repeats} | {differ:.1} % | {covered:.1} % |");
        assert!((3.0..=7.0).contains(&differ), "{repeats} repeats: {differ} % differ");
        assert!((93.0..=97.0).contains(&covered), "{repeats} repeats: {covered} % covered");
    }
}
