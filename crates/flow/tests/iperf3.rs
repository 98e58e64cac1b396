//! Against an unmodified `iperf3 -s`, over the loopback interface. Where none is installed the tests say so; that is proven by trying to
//! start it. What depends on times is in the lab's tests.

mod peer;

use peer::Server;
use quell_flow::{Amount, FlowError, FlowMeasurement, FlowPlan, Progress, Senders, run};
use quell_sys::wait::Bell;
use quell_units::Span;
use std::net::TcpListener;

fn plan(server: &Server) -> FlowPlan {
    FlowPlan {
        amount: Amount::Time(Span::from_millis(600)),
        interval: Span::from_millis(200),
        latency: false,
        ..FlowPlan::new("loopback", server.at)
    }
}

/// Tries on a machine that may have no CPU for either end for most of a test.
const TRIES: usize = 20;

fn measured(plan: &FlowPlan) -> FlowMeasurement {
    let outcome = run(plan, &Bell::new().unwrap(), &mut |_| {}).unwrap();
    assert_eq!(outcome.broke, None);
    outcome
}

/// What a test with a server of its own showed that is as it must be where there is time for it; none where there is no server.
#[track_caller]
fn measured_until(
    make: impl Fn(FlowPlan) -> FlowPlan,
    is_so: impl Fn(&FlowMeasurement) -> bool,
) -> Option<FlowMeasurement> {
    for _ in 0..TRIES {
        let server = Server::start()?;
        let outcome = measured(&make(plan(&server)));
        if is_so(&outcome) {
            return Some(outcome);
        }
        println!("{outcome:?}");
    }
    panic!("not in {TRIES} tries");
}

fn near(one: u64, other: u64) -> bool {
    one.abs_diff(other) * 10 <= one.max(other)
}

#[test]
fn tcp_goes_up_and_both_ends_tell_about_the_same_bytes() {
    let is_whole = |outcome: &FlowMeasurement| {
        let lane = &outcome.lanes[0];
        let (sent, came) =
            (lane.mark.moment.bytes, outcome.theirs.as_ref().unwrap().streams[0].bytes);
        // 80 Mbit/s for 0.6 s, give or take what a busy machine does.
        let is_rate = (1_000_000..9_000_000).contains(&sent);
        near(sent, came) && is_rate && outcome.intervals.len() >= 2 && lane.moments.len() >= 3
    };
    let up = |plan: FlowPlan| FlowPlan { rate: Some(80_000_000), ..plan };
    let Some(outcome) = measured_until(up, is_whole) else { return };
    assert!(!outcome.quell_server() && outcome.theirs.as_ref().unwrap().quell.is_none());
    assert!(outcome.lanes[0].mark.moment.srtt_us > 0);
}

#[test]
fn tcp_comes_down_over_several_connections() {
    let down = |plan: FlowPlan| FlowPlan {
        direction: Senders::Down,
        streams: 3,
        rate: Some(20_000_000),
        plain: true,
        ..plan
    };
    let all_came =
        |outcome: &FlowMeasurement| outcome.lanes.iter().all(|l| l.mark.moment.bytes > 0);
    let Some(outcome) = measured_until(down, all_came) else { return };
    let theirs = outcome.theirs.as_ref().unwrap();
    for (ours, theirs) in outcome.lanes.iter().zip(&theirs.streams) {
        assert_eq!(ours.id, theirs.id);
        assert!(!ours.sends);
        assert!(theirs.retransmits >= 0, "the sender knows");
    }
}

#[test]
fn both_directions_at_once_have_their_streams_in_order() {
    let both =
        |plan: FlowPlan| FlowPlan { direction: Senders::Both, rate: Some(20_000_000), ..plan };
    let is_whole = |outcome: &FlowMeasurement| {
        let came = outcome.theirs.as_ref().unwrap().streams[0].bytes;
        let all = outcome.lanes.iter().all(|lane| lane.mark.moment.bytes > 100_000);
        all && near(outcome.lanes[0].mark.moment.bytes, came)
    };
    let Some(outcome) = measured_until(both, is_whole) else { return };
    let ids: Vec<_> = outcome.lanes.iter().map(|lane| (lane.id, lane.sends)).collect();
    assert_eq!(ids, [(1, true), (3, false)]);
}

#[test]
fn so_many_bytes_are_sent_and_no_more() {
    let Some(server) = Server::start() else { return };
    let plan = FlowPlan { amount: Amount::Bytes(5_000_001), streams: 2, ..plan(&server) };
    let outcome = measured(&plan);
    let sent: u64 = outcome.lanes.iter().map(|lane| lane.mark.moment.bytes).sum();
    let came: u64 = outcome.theirs.unwrap().streams.iter().map(|stream| stream.bytes).sum();
    assert_eq!(sent, 5_000_001, "acknowledged by its kernel");
    // What that kernel has and the program did not read yet when it hears of the end, an iperf3 leaves.
    assert!((1..=sent).contains(&came), "{came}");
}

#[test]
fn a_busy_server_says_so() {
    for _ in 0..TRIES {
        let Some(server) = Server::start() else { return };
        if keeps_a_second_out(&server) {
            return;
        }
    }
    panic!("whoever stops gets no results in {TRIES} tries");
}

/// Two tests with one server, of which the first is stopped: whether it had the server's results, which who stops does not wait for long.
fn keeps_a_second_out(server: &Server) -> bool {
    let long = FlowPlan {
        amount: Amount::Time(Span::from_secs(300)),
        rate: Some(1_000_000),
        ..plan(server)
    };
    let stop = Bell::new().unwrap();
    std::thread::scope(|scope| {
        let (started, runs) = std::sync::mpsc::channel();
        let (long, bell) = (&long, &stop);
        let first = scope.spawn(move || {
            run(long, bell, &mut |progress| {
                if matches!(progress, Progress::Started { .. }) {
                    started.send(()).unwrap();
                }
            })
        });
        runs.recv().unwrap();
        let second = run(&plan(server), &Bell::new().unwrap(), &mut |_| {});
        assert!(matches!(second, Err(FlowError::Busy(_))), "{second:?}");
        stop.ring();
        let first = first.join().unwrap().unwrap();
        assert!(first.stopped && first.broke.is_none());
        first.theirs.is_some()
    })
}

#[test]
fn a_server_that_is_killed_leaves_what_was_measured() {
    let Some(mut server) = Server::start() else { return };
    let long = FlowPlan {
        amount: Amount::Time(Span::from_secs(300)),
        rate: Some(8_000_000),
        ..plan(&server)
    };
    let mut flowed = 0;
    let at = server.at;
    let outcome = run(&long, &Bell::new().unwrap(), &mut |progress| {
        if matches!(progress, Progress::Interval(i) if i.rate(true) > Some(0.0)) {
            flowed += 1;
            if flowed == 2 {
                server.child.kill().unwrap();
                server.child.wait().unwrap();
            }
        }
    })
    .unwrap();
    let broke = outcome.broke.unwrap();
    assert!(broke.contains(&at.to_string()) || broke.contains("broke"), "{broke}");
    assert!(outcome.lanes[0].mark.moment.bytes > 0 && outcome.theirs.is_none());
    assert!(outcome.seconds < 150.0);
}

#[test]
fn a_port_where_nobody_listens_is_named() {
    // A port that was free a moment ago may be another test's by now; port 1 is nobody's.
    let nobody = "127.0.0.1:1".parse().unwrap();
    let error =
        run(&FlowPlan::new("loopback", nobody), &Bell::new().unwrap(), &mut |_| {}).unwrap_err();
    assert_eq!(error, FlowError::Refused(nobody));
}

#[test]
fn a_server_that_speaks_something_else_is_foreign() {
    use std::io::{Read, Write};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap();
            // Until the client hangs up.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let plan = FlowPlan { latency: false, ..FlowPlan::new("loopback", at) };
        let error = run(&plan, &Bell::new().unwrap(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("does not speak"), "{error}");
    });
}
