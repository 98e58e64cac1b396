//! Loads over the loopback interface: what the two ends say must fit together, whatever the machine is busy with.

use quell_load::LoadError;
use quell_load::command::PreparedCommand;
use quell_load::sample::{QueueSampler, SocketSampler};
use quell_load::sink::Sink;
use quell_load::tcp::{Client, Server};
use quell_load::udp::Sender;
use quell_model::task::{Direction, OnOff, TcpClient, UdpSend};
use quell_model::{EchoSample, EchoStatus, Event, FlowSample, Side};
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::pidfd;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_units::{Bytes, Rate, Span, Tos};
use std::net::SocketAddr;
use std::sync::Mutex;

const LOOPBACK: &str = "127.0.0.1:0";

/// Tries on a machine that may be too busy to be in time; each is checked for what holds on any.
const TRIES: usize = 50;

fn window(millis: u64) -> Window {
    let start = monotonic_ns() + 5_000_000;
    Window { origin_ns: start, start_ns: start, duration_ns: millis * 1_000_000 }
}

/// What was reported.
#[derive(Default)]
struct Log(Mutex<Vec<Event>>);

impl Log {
    fn put(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }

    fn flow(&self, name: &str, side: Side) -> Vec<FlowSample> {
        let mut samples = Vec::new();
        for event in self.0.lock().unwrap().iter() {
            if let Event::Flow { stream, samples: more } = event
                && stream == name
            {
                samples.extend(more.iter().filter(|s| s.side == side).cloned());
            }
        }
        samples.sort_by_key(|s| s.t_ns);
        samples
    }

    fn echoes(&self, name: &str) -> Vec<EchoSample> {
        let mut rows = Vec::new();
        for event in self.0.lock().unwrap().iter() {
            if let Event::Echo { stream, samples } = event
                && stream == name
            {
                rows.extend(samples.iter().cloned());
            }
        }
        rows
    }

    fn lines(&self) -> Vec<(String, bool)> {
        let lines = self.0.lock().unwrap();
        let of = |e: &Event| match e {
            Event::Output { line, stderr, .. } => Some((line.clone(), *stderr)),
            _ => None,
        };
        lines.iter().filter_map(of).collect()
    }
}

fn grows(samples: &[FlowSample]) {
    for pair in samples.windows(2) {
        assert!(pair[0].t_ns <= pair[1].t_ns && pair[0].bytes <= pair[1].bytes, "{pair:?}");
    }
}

fn tcp(to: SocketAddr, direction: Direction) -> TcpClient {
    TcpClient {
        own_addresses: None,
        stream: "bulk".into(),
        to,
        connections: 1,
        direction,
        congestion: Some("reno".into()),
        tos: Tos::from_byte(0x20),
        ecn: None,
        // Bounded: a loopback interface takes all the CPU there is.
        pacing: Some(Rate::from_bps(40_000_000)),
        window: None,
        mss: Some(1400),
        bytes: None,
        report: Span::from_millis(20),
    }
}

/// A client against a server; what both said and how the client ended.
fn transfer(make: impl Fn(SocketAddr) -> TcpClient, millis: u64) -> (Log, Result<(), LoadError>) {
    let log = Log::default();
    let server =
        Server::prepare("server", LOOPBACK.parse().unwrap(), Span::from_millis(20), None, None)
            .unwrap();
    let spec = make(server.local().unwrap());
    let client = Client::prepare("client", &spec, 1).unwrap();
    let window = window(millis);
    let (stop, never) = (Bell::new().unwrap(), Bell::new().unwrap());
    let result = std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&window, &stop, &|event| log.put(event)));
        let result = client.run(&window, &never, &|event| log.put(event));
        stop.ring();
        serving.join().unwrap().unwrap();
        result
    });
    (log, result)
}

#[test]
fn bulk_in_either_direction_ends_at_its_time_and_both_ends_report() {
    for direction in [Direction::Up, Direction::Down] {
        let transfers = || {
            let before = monotonic_ns();
            let (log, result) = transfer(|to| tcp(to, direction), 1000);
            assert_eq!(result, Ok(()));
            assert!(monotonic_ns() - before < 60_000_000_000);
            let (sent, received) =
                (log.flow("bulk", Side::Sender), log.flow("bulk", Side::Receiver));
            grows(&sent);
            grows(&received);
            (sent, received)
        };
        // 50 reports, where nothing else runs: a busy machine leaves some out, or has no CPU for either end for all of its second. What
        // is acknowledged has arrived; the receiver may not have read all of it.
        let moved = |samples: &[FlowSample]| samples.last().is_some_and(|s| s.bytes > 100_000);
        let both = |(sent, received): &(Vec<FlowSample>, Vec<FlowSample>)| {
            sent.len() >= 4 && received.len() >= 4 && moved(sent) && moved(received)
        };
        let (sent, received) =
            (0..TRIES).map(|_| transfers()).find(both).expect("the machine has time for it");
        assert!(sent[0].bytes == 0 && received[0].bytes == 0);
        let last = sent.last().unwrap();
        let state = last.tcp.expect("the kernel's view");
        assert!(state.cwnd > 0 && state.srtt_us > 0, "{state:?}");
        assert!(state.pacing_rate <= 5_000_000, "{state:?}");
    }
}

#[test]
fn a_number_of_bytes_is_sent_exactly_and_then_the_connections_end_by_themselves() {
    for direction in [Direction::Up, Direction::Down] {
        let (log, result) = transfer(
            |to| TcpClient {
                bytes: Some(Bytes::new(300_000)),
                connections: 3,
                ..tcp(to, direction)
            },
            // They end by themselves, long before that.
            60_000,
        );
        assert_eq!(result, Ok(()));
        for name in ["bulk-1", "bulk-2", "bulk-3"] {
            for side in [Side::Sender, Side::Receiver] {
                let samples = log.flow(name, side);
                grows(&samples);
                assert_eq!(samples.last().unwrap().bytes, 300_000, "{name} {side:?}");
            }
        }
        assert_eq!(log.lines(), []);
    }
}

#[test]
fn a_server_that_is_not_there_is_a_failure_with_its_reason() {
    let gone = Server::prepare("s", LOOPBACK.parse().unwrap(), Span::from_millis(20), None, None)
        .unwrap()
        .local()
        .unwrap();
    let client = Client::prepare("client", &tcp(gone, Direction::Up), 1).unwrap();
    let log = Log::default();
    let error = client.run(&window(60_000), &Bell::new().unwrap(), &|e| log.put(e)).unwrap_err();
    assert!(error.to_string().contains("ECONNREFUSED"), "{error}");
}

#[test]
fn a_server_that_goes_away_breaks_the_flow_and_says_when() {
    let log = Log::default();
    let server =
        Server::prepare("server", LOOPBACK.parse().unwrap(), Span::from_millis(20), None, None)
            .unwrap();
    let client =
        Client::prepare("client", &tcp(server.local().unwrap(), Direction::Up), 1).unwrap();
    let window = window(60_000);
    let (stop, never) = (Bell::new().unwrap(), Bell::new().unwrap());
    let result = std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            server.run(&window, &stop, &|event| {
                // As soon as it reports a flow, its host goes down.
                stop.ring();
                log.put(event);
            })
        });
        let log = &log;
        let (flowing, stop) = (Mutex::new(false), &stop);
        let result = client.run(&window, &never, &|event| {
            *flowing.lock().unwrap() = true;
            stop.ring();
            log.put(event);
        });
        serving.join().unwrap().unwrap();
        result
    });
    assert!(matches!(result, Err(LoadError::Broken { .. } | LoadError::System(_))), "{result:?}");
}

#[test]
fn a_stranger_at_the_servers_port_is_sent_away_and_the_server_goes_on() {
    use std::io::{Read, Write};
    let log = Log::default();
    let server =
        Server::prepare("server", LOOPBACK.parse().unwrap(), Span::from_millis(20), None, None)
            .unwrap();
    let to = server.local().unwrap();
    let (window, stop) = (window(1000), Bell::new().unwrap());
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&window, &stop, &|event| log.put(event)));
        let mut stranger = std::net::TcpStream::connect(to).unwrap();
        stranger.write_all(&[b'x'; 128]).unwrap();
        let mut rest = Vec::new();
        let _ = stranger.read_to_end(&mut rest);
        assert!(rest.is_empty());
        stop.ring();
        serving.join().unwrap().unwrap();
    });
    assert!(log.lines()[0].0.contains("does not speak"), "{:?}", log.lines());
}

#[test]
fn a_server_that_can_t_do_what_it_is_asked_fails_with_its_reason() {
    use std::io::{Read, Write};
    let log = Log::default();
    let server =
        Server::prepare("server", LOOPBACK.parse().unwrap(), Span::from_millis(20), None, None)
            .unwrap();
    let to = server.local().unwrap();
    let (window, stop) = (window(1000), Bell::new().unwrap());
    // A client of another machine, whose kernel has what this one lacks.
    let hello = quell_wire::hello::Hello {
        name: "bulk".into(),
        down: true,
        tos: 0,
        bytes: None,
        pacing: None,
        report_ns: 1_000_000,
        congestion: Some("hybridla".into()),
    };
    let result = std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&window, &stop, &|event| log.put(event)));
        let mut client = std::net::TcpStream::connect(to).unwrap();
        client.write_all(&hello.write().unwrap()).unwrap();
        let _ = client.read_to_end(&mut Vec::new());
        stop.ring();
        serving.join().unwrap()
    });
    let said = result.unwrap_err().to_string();
    assert!(said.contains("`bulk`") && said.contains("hybridla"), "{said}");
}

#[test]
fn a_client_that_receives_knows_the_congestion_controls_of_its_kernel() {
    let mut client = tcp("127.0.0.1:9".parse().unwrap(), Direction::Down);
    client.congestion = Some("hybridla".into());
    let said = Client::prepare("load", &client, 1).unwrap_err().to_string();
    assert!(said.contains("hybridla") && said.contains("cubic"), "{said}");
}

fn udp(to: SocketAddr) -> UdpSend {
    UdpSend {
        stream: "flood".into(),
        to,
        rate: Rate::from_bps(1_000_000),
        size: 250,
        tos: Tos::from_byte(0),
        on_off: None,
        poisson: false,
        report: Span::from_millis(50),
        linger: Span::ZERO,
    }
}

fn datagrams(make: impl Fn(SocketAddr) -> UdpSend, millis: u64) -> Log {
    let log = Log::default();
    let sink = Sink::prepare("sink", LOOPBACK.parse().unwrap(), Span::from_millis(50)).unwrap();
    let sender = Sender::prepare(&make(sink.local().unwrap()), 1).unwrap();
    let window = window(millis);
    let (stop, never) = (Bell::new().unwrap(), Bell::new().unwrap());
    std::thread::scope(|scope| {
        let sinking = scope.spawn(|| sink.run(&window, &stop, &|event| log.put(event)));
        sender.run(&window, &never, &|event| log.put(event)).unwrap();
        stop.ring();
        sinking.join().unwrap().unwrap();
    });
    log
}

#[test]
fn a_constant_rate_sends_exactly_its_number_and_all_arrive() {
    // What a sender is too late for it leaves out, so it has to be in time once.
    let mut logs = (0..4 * TRIES).map(|_| datagrams(udp, 400));
    let counts = |log: &Log| {
        [Side::Sender, Side::Receiver].map(|side| log.flow("flood", side).last().unwrap().packets)
    };
    let whole = |log: &Log| {
        let [sent, received] = counts(log);
        if received != sent {
            // A kernel that is busy may hand the last one over when the sink has ended: not where that waits.
            let linger = Span::from_secs(5);
            let [sent, received] = counts(&datagrams(|to| UdpSend { linger, ..udp(to) }, 400));
            assert_eq!(received, sent);
        }
        received == 200
    };
    let log = logs.find(whole).expect("the machine has time for it");
    let (sent, received) = (log.flow("flood", Side::Sender), log.flow("flood", Side::Receiver));
    grows(&sent);
    grows(&received);
    // 1 Mbit/s of 250 bytes: one each 2 ms.
    let last = (sent.last().unwrap(), received.last().unwrap());
    assert_eq!((last.0.packets, last.0.bytes), (200, 50_000));
    assert_eq!((last.1.packets, last.1.bytes), (200, 50_000));
    let ticks = &sent[1..sent.len() - 1];
    assert!(ticks.iter().all(|s| s.t_ns % 50_000_000 == 0), "reports are of round times: {sent:?}");
    let rows = log.echoes("flood");
    assert_eq!(rows.len(), 200);
    for (n, row) in rows.iter().enumerate() {
        assert_eq!((row.seq, row.status, row.bytes), (n as u64, EchoStatus::Ok, 250));
        assert_eq!(row.up_order, Some(n as u64));
        assert!(row.up_ns.unwrap() > 0 && row.t_ns >= n as i64 * 2_000_000);
    }
    let lines = log.lines();
    assert!(lines[0].0.contains("200 of 200 datagrams arrived, 0 reordered"), "{lines:?}");
}

#[test]
fn an_on_off_load_is_silent_between_its_periods() {
    let on_off = Some(OnOff { on: Span::from_millis(50), off: Span::from_millis(100) });
    let mut logs = (0..4 * TRIES).map(|_| datagrams(|to| UdpSend { on_off, ..udp(to) }, 300));
    // Nothing is sent while it is off, but for what is late by a little.
    let held = logs.any(|log| {
        let sent = log.flow("flood", Side::Sender).last().unwrap().packets;
        assert!(sent <= 50, "{sent}");
        sent == 50 && log.echoes("flood").iter().all(|row| row.t_ns / 1_000_000 % 150 < 50 + 40)
    });
    assert!(held);
}

#[test]
fn a_size_that_can_t_hold_the_name_is_refused() {
    let to = "127.0.0.1:9".parse().unwrap();
    let error = Sender::prepare(&UdpSend { size: 20, ..udp(to) }, 1).unwrap_err().to_string();
    assert!(error.contains("at least 29"), "{error}");
}

/// Milliseconds that a program has which ends by itself, however late it begins.
const MINUTE: u64 = 60_000;

fn command(argv: &[&str], millis: u64) -> (Log, Result<(), LoadError>) {
    let log = Log::default();
    let argv: Vec<String> = argv.iter().map(|s| (*s).to_owned()).collect();
    let program = PreparedCommand::prepare("command", &argv).unwrap();
    let result = program.run(&window(millis), &Bell::new().unwrap(), &|event| log.put(event));
    (log, result)
}

#[test]
fn a_programs_lines_are_told_apart_by_where_they_came_from() {
    let (log, result) = command(&["sh", "-c", "echo one; echo two >&2; printf three"], MINUTE);
    assert_eq!(result, Ok(()));
    let mut lines = log.lines();
    lines.sort();
    let wanted = [("one", false), ("three", false), ("two", true)];
    assert_eq!(lines, wanted.map(|(l, e)| (l.to_owned(), e)));
}

#[test]
fn a_program_that_fails_or_is_killed_says_how_and_with_its_last_words() {
    let (_, result) = command(&["sh", "-c", "echo no such thing; exit 3"], MINUTE);
    let said = result.unwrap_err().to_string();
    assert!(said.contains("status 3") && said.contains("no such thing"), "{said}");
    let (_, result) = command(&["sh", "-c", "kill -USR1 $$"], MINUTE);
    assert!(result.unwrap_err().to_string().contains("SIGUSR1"));
}

#[test]
fn a_program_is_ended_at_its_time_with_all_that_it_started() {
    // Its time may be over before a busy machine has begun with it; then it has more.
    let ended = |millis| {
        let before = monotonic_ns();
        let (log, result) = command(&["sh", "-c", "sleep 600 & echo $!; sleep 600"], millis);
        assert_eq!(result, Ok(()));
        let took = monotonic_ns() - before;
        assert!(took < 120_000_000_000, "it did not wait for the sleepers");
        log.lines().first().map(|(line, _)| line.parse::<u32>().unwrap())
    };
    let child = [3000, 10_000, 60_000].into_iter().find_map(ended).expect("it says a number");
    // It was ended, which takes it a moment; where it is gone there is nothing to wait for.
    let Ok(sleeper) = pidfd::open(child) else { return };
    let mut alarm = Alarm::new().unwrap();
    alarm.set(Some(monotonic_ns() + 60_000_000_000)).unwrap();
    let mut fds = [readable(&sleeper), readable(&alarm)];
    wait(&mut fds).unwrap();
    assert!(came(&fds[0]), "process {child} was left behind");
}

#[test]
fn a_program_that_is_not_there_is_refused_before_the_start() {
    let error = PreparedCommand::prepare("c", &["no-such-program".into()]).unwrap_err().to_string();
    assert!(error.contains("no-such-program"), "{error}");
}

#[test]
fn a_sampler_leaves_out_what_this_process_reports_itself() {
    let listener = std::net::TcpListener::bind(LOOPBACK).unwrap();
    let _own = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _other_end = listener.accept().unwrap();
    let port = format!(":{}", listener.local_addr().unwrap().port());
    let log = Log::default();
    let sampler = SocketSampler::prepare(Span::from_millis(10)).unwrap();
    sampler.run(&window(50), &Bell::new().unwrap(), &|event| log.put(event)).unwrap();
    for event in log.0.lock().unwrap().iter() {
        if let Event::Flow { stream, .. } = event {
            assert!(!stream.contains(&port) || !stream.contains("127.0.0.1"), "{stream}");
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_named_with_those_that_are() {
    let error = QueueSampler::prepare("a", &["eth99".into()], Span::from_millis(10)).err().unwrap();
    assert!(error.to_string().contains("eth99") && error.to_string().contains("lo"), "{error}");
}
