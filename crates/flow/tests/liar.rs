//! Against a server that speaks iperf3's protocol and lies in its results, or says nothing, over the loopback interface.

#[path = "peer/played.rs"]
mod played;

use played::{DISPLAY_RESULTS, EXCHANGE_RESULTS, framed, take_up};
use quell_flow::{Amount, FlowMeasurement, FlowPlan, FlowReport, Progress, run};
use quell_sys::wait::Bell;
use quell_units::Span;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Takes one test of one TCP stream up, and tells these results, each of its words so much after it is due; where there are none, it says nothing
/// until the client hangs up.
fn serve(listener: &TcpListener, results: Option<&str>, late: Duration) -> std::io::Result<()> {
    let (_never, nothing) = std::sync::mpsc::channel::<()>();
    let dawdle = || assert!(nothing.recv_timeout(late).is_err());
    let (mut talk, mut streams) = take_up(listener, 1)?;
    // Until the client hangs up.
    let sink = std::thread::spawn(move || std::io::copy(&mut streams[0], &mut std::io::sink()));
    talk.read_exact(&mut [0])?;
    let Some(results) = results else {
        // A client that gives up resets its connections.
        let _ = std::io::copy(&mut talk, &mut std::io::sink());
        let _ = sink.join();
        return Ok(());
    };
    dawdle();
    talk.write_all(&[EXCHANGE_RESULTS])?;
    framed(&mut talk)?;
    dawdle();
    talk.write_all(&u32::try_from(results.len()).unwrap_or(0).to_be_bytes())?;
    dawdle();
    talk.write_all(results.as_bytes())?;
    talk.write_all(&[DISPLAY_RESULTS])?;
    // The client aborts the stream; that is no fault.
    let _ = sink.join();
    Ok(())
}

/// What comes of a test of 0.3 s with a server that tells this, in which more was sent than it says came. A busy machine may have no time for that.
fn told(results: &str) -> FlowMeasurement {
    let mut tries = (0..50).map(|_| told_once(results));
    let much = |outcome: &FlowMeasurement| outcome.lanes[0].mark.moment.bytes > 500_000;
    tries.find(much).expect("the machine has time for it")
}

fn told_once(results: &str) -> FlowMeasurement {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = FlowPlan {
        amount: Amount::Time(Span::from_millis(300)),
        rate: Some(80_000_000),
        latency: false,
        ..FlowPlan::new("loopback", listener.local_addr().unwrap())
    };
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, Some(results), Duration::ZERO).unwrap());
        run(&plan, &Bell::new().unwrap(), &mut |_| {}).unwrap()
    })
}

#[test]
fn a_server_that_counts_what_can_not_be_makes_no_headline() {
    let results = |stream: &str, cpu: &str| {
        format!(
            r#"{{"cpu_util_total":{cpu},"cpu_util_system":0,"sender_has_retransmits":-1,
            "streams":[{{"id":1,"retransmits":-1,"jitter":0,"errors":0,"packets":0,"start_time":0,{stream}}}]}}"#
        )
    };
    for stream in [
        r#""bytes":1000000000000000,"end_time":0.3"#,
        r#""bytes":-1,"end_time":0.3"#,
        r#""bytes":18446744073709551615,"end_time":0.3"#,
    ] {
        let outcome = told(&results(stream, r#"1,"cpu_util_user":1"#));
        assert_eq!(outcome.broke, None, "{stream}");
        let report = FlowReport::of(&outcome);
        let up = report.up.unwrap();
        assert_eq!((up.by_receiver, up.received_bytes), (false, None), "{stream}");
        assert_eq!(report.doubts.len(), 1, "{:?}", report.doubts);
        let sent = outcome.lanes[0].mark.moment.bytes;
        assert!(sent > 0 && up.sent_bytes == Some(sent), "{stream}: {sent}");
    }
    // A test takes about as long there as here.
    for end_time in ["1e-9", "1e308"] {
        let stream = format!(r#""bytes":100000,"end_time":{end_time}"#);
        let report = FlowReport::of(&told(&results(&stream, r#"1,"cpu_util_user":1"#)));
        let seconds = report.up.unwrap().seconds.unwrap();
        assert!((0.2..60.0).contains(&seconds), "{end_time}: {seconds}");
    }
}

#[test]
fn who_stops_a_test_does_not_wait_for_a_server_that_says_nothing() {
    // While the results are awaited, and while data flows.
    let awaited = |progress: &Progress<'_>| matches!(progress, Progress::Ending);
    let flowing = |progress: &Progress<'_>| matches!(progress, Progress::Interval(i) if i.rate(true) > Some(0.0));
    let (some, minute) = (Amount::Bytes(1_000_000), Amount::Time(Span::from_secs(60)));
    for (when, amount) in [(&awaited as &dyn Fn(&Progress<'_>) -> bool, some), (&flowing, minute)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let plan = FlowPlan {
            amount,
            interval: Span::from_millis(100),
            rate: Some(80_000_000),
            latency: false,
            ..FlowPlan::new("loopback", listener.local_addr().unwrap())
        };
        let stop = Bell::new().unwrap();
        let mut rung = None;
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| serve(&listener, None, Duration::ZERO).unwrap());
            let mut tell = |progress: Progress<'_>| {
                if rung.is_none() && when(&progress) {
                    stop.ring();
                    rung = Some(Instant::now());
                }
            };
            run(&plan, &stop, &mut tell).unwrap()
        });
        // A server may take a minute for its results; this takes at most a second where the CPU is free.
        let took = rung.expect("it was stopped").elapsed();
        assert!(took < Duration::from_secs(30), "{took:?}");
        assert!(outcome.stopped && outcome.broke.is_none(), "{:?}", outcome.broke);
        let up = FlowReport::of(&outcome).up.unwrap();
        assert!(
            !up.by_receiver && up.bits_per_second.or(up.sent_bits_per_second) > Some(0.0),
            "{up:?}"
        );
    }
}

#[test]
fn a_server_that_says_a_word_now_and_then_is_waited_for_no_longer_than_a_silent_one() {
    // Of a client that stands still meanwhile all words may be there at once.
    assert!((0..5).any(|_| stopped_beside_a_slow_one().theirs.is_none()), "it was waited for");
}

/// A test that is stopped, and whose server then says its words one by one.
fn stopped_beside_a_slow_one() -> FlowMeasurement {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = FlowPlan {
        amount: Amount::Time(Span::from_secs(60)),
        interval: Span::from_millis(100),
        rate: Some(80_000_000),
        latency: false,
        ..FlowPlan::new("loopback", listener.local_addr().unwrap())
    };
    let stop = Bell::new().unwrap();
    // Who stops it waits 0.7 s; three words of 0.4 s each come within that one by one, and not together.
    let late = Duration::from_millis(400);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            // It may find that the client has hung up.
            let _ = serve(&listener, Some(r#"{"streams":[{"id":1,"bytes":1}]}"#), late);
        });
        run(&plan, &stop, &mut |progress| {
            if matches!(progress, Progress::Interval(_)) {
                stop.ring();
            }
        })
        .unwrap()
    });
    assert!(outcome.stopped && outcome.broke.is_none(), "{:?}", outcome.broke);
    outcome
}
