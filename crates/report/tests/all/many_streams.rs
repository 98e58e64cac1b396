//! Runs of thousands of streams: what they are worked out for takes time by their number, and not by its square.

use crate::common::{SECOND, packets, run};
use nix::time::{ClockId, clock_gettime};
use quell_model::{Fact, FlowSample, Side, Subject, Told, When};
use quell_report::Results;
use quell_report::analysis::{Summary, series};
use quell_report::compare::{Comparison, MeasuredRun, Wanted};
use quell_store::{CellData, EchoSeries, FlowSeries, Run};

/// So many streams, half of packets and half flows, each with its facts.
fn with_streams(count: usize) -> Run {
    let cell = |_: u32| {
        let mut data = CellData::default();
        for n in 0..count / 2 {
            let (probe, load) = (format!("probe{n:05}"), format!("load{n:05}"));
            for stream in [&probe, &load] {
                let told = [(Told::Way, "dsl up"), (Told::Waits, "3000000000")];
                let fact =
                    |(what, value)| Fact::new(When::After, Subject::stream(stream, what), value);
                data.facts.extend(told.map(fact));
            }
            let samples = packets(&[Some((1.0, 2.0)), Some((1.5, 2.0))]);
            data.echoes.push(EchoSeries { stream: probe, samples });
            let at = |s: i64| FlowSample {
                t_ns: s * SECOND,
                side: Side::Receiver,
                bytes: 1000 * s as u64,
                packets: 0,
                tcp: None,
            };
            let samples = vec![at(0), at(10)];
            data.flows.push(FlowSeries { stream: load, side: Side::Receiver, samples });
        }
        data
    };
    run(vec![("one", "all", 0, cell(0)), ("two", "all", 0, cell(1))])
}

/// CPU time that work takes, in seconds; in this process there is no other.
fn cpu_s(work: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
        time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
    };
    let before = now();
    work();
    now() - before
}

/// How many times as long four times as many streams take.
fn growth(work: impl Fn(&Run)) -> f64 {
    let of = |count| {
        let run = with_streams(count);
        cpu_s(|| work(&run))
    };
    of(250);
    of(4000) / of(1000)
}

/// A part of the work, and what does it.
type Part = (&'static str, fn(&Run));

#[test]
fn four_times_as_many_streams_take_about_four_times_as_long() {
    let parts: [Part; 4] = [
        ("results", |run| drop(Results::from(run))),
        ("summary", |run| drop(Summary::of(&Results::from(run), &run.manifest))),
        ("series", |run| {
            let which = series::Which::Named;
            drop((
                series::delays(run, which),
                series::one_way(run, which),
                series::gaps(run, which),
            ));
            drop((series::goodput(run, 0), series::tcp(run, which)));
        }),
        ("compare", |run| {
            let results = Results::from(run);
            let sources = [MeasuredRun { run, results: &results }];
            assert!(Comparison::of(&sources, &Wanted::default()).is_ok());
        }),
    ];
    for (part, work) in parts {
        // CPU time is longer where caches are shared with others, which the smaller part may have been spared; 16 times by the square.
        let tries: Vec<f64> =
            (0..10).map(|_| growth(work)).take_while(|growth| *growth >= 8.0).collect();
        println!("{part}: {tries:.1?}");
        assert!(tries.len() < 10, "{part}: {tries:.1?} times as long");
    }
}
