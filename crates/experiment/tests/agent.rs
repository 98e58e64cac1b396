//! An agent at the other end of two pipes, as the lab has it: tasks go in, events come out.

use quell_experiment::agent;
use quell_model::agent_message::AGENT_VERSION;
use quell_model::frame::{Decoder, encode};
use quell_model::task::{Direction, PingStream, TcpClient, UdpEcho, UdpSend};
use quell_model::{Command, EchoStatus, Event, FlowSample, Outcome, Said, Side, Task, TaskKind};
use quell_sys::clock::monotonic_ns;
use quell_units::{Bytes, Rate, Span, Tos};
use std::io::{Read, Write, pipe};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU8, Ordering};

/// The test's end of an agent.
struct AgentUnderTest {
    commands: std::io::PipeWriter,
    events: std::io::PipeReader,
    decoder: Decoder,
    /// Number of the next event.
    next: u64,
    /// The questions for its clock that it answered.
    answered: Vec<u64>,
    thread: std::thread::JoinHandle<Result<(), agent::AgentError>>,
}

impl AgentUnderTest {
    fn open() -> Self {
        let (agent_in, commands) = pipe().unwrap();
        let (events, agent_out) = pipe().unwrap();
        let thread = std::thread::spawn(move || agent::run(agent_in, agent_out));
        Self { commands, events, decoder: Decoder::new(), next: 0, answered: Vec::new(), thread }
    }

    fn tell(&mut self, command: &Command) {
        self.commands.write_all(&encode(command).unwrap()).unwrap();
    }

    fn hear(&mut self) -> Option<Event> {
        loop {
            match self.decoder.next_value::<Said>().unwrap() {
                Some(Said::Event { event, sequence }) => {
                    assert_eq!(sequence, self.next, "each event has the next number");
                    self.next += 1;
                    return Some(event);
                }
                Some(Said::Hello { version, .. }) => {
                    assert_eq!((version, self.next), (AGENT_VERSION, 0), "it greets, once");
                    continue;
                }
                Some(Said::Host(_)) => continue,
                Some(Said::Clock { asked_ns, .. }) => {
                    self.answered.push(asked_ns);
                    continue;
                }
                None => {}
            }
            let mut bytes = [0; 65536];
            match self.events.read(&mut bytes).unwrap() {
                0 => return None,
                got => self.decoder.push(&bytes[..got]),
            }
        }
    }

    /// Events until `count` of them fit.
    fn until(&mut self, count: usize, fits: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        let mut found = 0;
        while found < count {
            let event = self.hear().expect("the agent is there");
            found += usize::from(fits(&event));
            events.push(event);
        }
        events
    }

    /// Tells it to stop; the rest of its events.
    fn stop(mut self) -> Vec<Event> {
        self.tell(&Command::Stop);
        self.rest()
    }

    /// Events until it has ended.
    fn rest(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.hear() {
            events.push(event);
        }
        self.thread.join().unwrap().unwrap();
        events
    }
}

fn task(id: &str, kind: TaskKind) -> Task {
    Task {
        id: id.into(),
        host: "a".into(),
        start_ns: 0,
        duration: Span::from_millis(300),
        seed: 1,
        kind,
    }
}

/// A port that nobody takes before it is used: each has an address of the loopback interface for itself.
fn free_port() -> SocketAddr {
    static TAKEN: AtomicU8 = AtomicU8::new(0);
    let own = Ipv4Addr::new(127, 77, TAKEN.fetch_add(1, Ordering::Relaxed), 1);
    TcpListener::bind((own, 0)).unwrap().local_addr().unwrap()
}

fn tcp(stream: &str, to: SocketAddr, direction: Direction) -> TaskKind {
    TaskKind::Tcp(TcpClient {
        own_addresses: None,
        stream: stream.into(),
        to,
        connections: 1,
        direction,
        congestion: None,
        tos: Tos::from_byte(0),
        ecn: None,
        pacing: Some(Rate::from_bps(20_000_000)),
        window: Some(Bytes::new(200_000)),
        mss: None,
        bytes: None,
        report: Span::from_millis(50),
    })
}

fn ping(stream: &str, to: &str) -> TaskKind {
    TaskKind::Ping {
        streams: vec![PingStream {
            stream: stream.into(),
            to: to.parse().unwrap(),
            interval: Span::from_millis(5),
            size: 56,
            tos: Tos::from_byte(0),
            linger: Span::from_millis(500),
        }],
    }
}

fn outcome<'a>(events: &'a [Event], id: &str) -> &'a Outcome {
    let of = |e: &'a Event| match e {
        Event::Ended { task, outcome, .. } if task == id => Some(outcome),
        _ => None,
    };
    events.iter().find_map(of).unwrap_or_else(|| panic!("{id} did not end: {events:?}"))
}

fn reason<'a>(events: &'a [Event], id: &str) -> &'a str {
    match outcome(events, id) {
        Outcome::Failed(why) => why,
        Outcome::Done => panic!("{id} did not fail"),
    }
}

fn answered(events: &[Event], name: &str) -> usize {
    let of = |e: &Event| match e {
        Event::Echo { stream, samples } if stream == name => {
            samples.iter().filter(|s| s.status == EchoStatus::Ok).count()
        }
        _ => 0,
    };
    events.iter().map(of).sum()
}

/// The last report of this side, where there is one.
fn last(events: &[Event], name: &str, side: Side) -> Option<FlowSample> {
    let of = |e: &Event| match e {
        Event::Flow { stream, samples } if stream == name => {
            samples.iter().filter(|s| s.side == side).cloned().collect()
        }
        _ => Vec::new(),
    };
    events.iter().flat_map(of).max_by_key(|s| s.t_ns)
}

fn is_ready_or_ended(event: &Event) -> bool {
    matches!(event, Event::Ready { .. } | Event::Ended { .. })
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Ended { .. })
}

#[test]
fn one_agent_does_all_kinds_of_tasks_at_once_and_the_failing_ones_disturb_nobody() {
    // On a machine that has no CPU for seconds some task may have none in all of its time; then all have more.
    let lasts = [300, 300, 300, 5_000, 20_000];
    let done = |millis| all_kinds_for(Span::from_millis(millis)).map_err(|what| println!("{what}"));
    assert!(lasts.into_iter().any(|millis| done(millis).is_ok()), "no time is long enough");
}

/// All kinds of tasks for so long. An error is what a task lacks that had no CPU in that time.
fn all_kinds_for(duration: Span) -> Result<(), String> {
    let (up, down, reflector, sink) = (free_port(), free_port(), free_port(), free_port());
    let server = |bind| TaskKind::TcpServer {
        bind,
        report: Span::from_millis(50),
        window: None,
        congestion: None,
    };
    let echo = UdpEcho {
        stream: "udp".into(),
        to: reflector,
        interval: Span::from_millis(5),
        size: 200,
        tos: Tos::from_byte(0),
        linger: Span::from_millis(500),
        other_clock: false,
    };
    let send = UdpSend {
        stream: "oneway".into(),
        to: sink,
        rate: Rate::from_bps(320_000),
        size: 200,
        tos: Tos::from_byte(0),
        on_off: None,
        poisson: false,
        report: Span::from_millis(50),
        linger: Span::ZERO,
    };
    let command =
        |argv: &[&str]| TaskKind::Command { argv: argv.iter().map(|s| (*s).to_owned()).collect() };
    let tasks = vec![
        task("server/up", server(up)),
        task("server/down", server(down)),
        task("server/udp", TaskKind::UdpReflector { bind: reflector }),
        task("server/sink", TaskKind::UdpSink { bind: sink, report: Span::from_millis(50) }),
        task("probe/ping", ping("ping", "127.0.0.1")),
        task("probe/udp", TaskKind::UdpEcho(echo)),
        task("load/up", tcp("up", up, Direction::Up)),
        task("load/down", tcp("down", down, Direction::Down)),
        task("load/oneway", TaskKind::UdpSend(send)),
        task("load/command", command(&["echo", "hello"])),
        task("load/fails", command(&["sh", "-c", "exit 7"])),
        task("load/nowhere", tcp("nowhere", free_port(), Direction::Up)),
        task("sample/sockets", TaskKind::SampleSockets { interval: Span::from_millis(50) }),
        task(
            "sample/queues",
            TaskKind::SampleQueues { devices: Vec::new(), interval: Span::from_millis(50) },
        ),
    ];
    let tasks: Vec<Task> = tasks.into_iter().map(|task| Task { duration, ..task }).collect();
    let (all, servers) = (tasks.len(), 4);
    let mut tested = AgentUnderTest::open();
    tested.tell(&Command::Prepare { tasks });
    let mut events = tested.until(all, is_ready_or_ended);
    assert!(events.iter().all(|e| matches!(e, Event::Ready { .. })), "{events:?}");
    tested.tell(&Command::Start { at_monotonic_ns: monotonic_ns() + 10_000_000 });
    events.extend(tested.until(all - servers, is_end));
    events.extend(tested.stop());

    for id in ["server/up", "server/down", "server/udp", "server/sink", "probe/ping", "probe/udp"] {
        assert_eq!(*outcome(&events, id), Outcome::Done, "{id}");
    }
    for id in ["load/up", "load/down", "load/oneway", "load/command", "sample/sockets"] {
        assert_eq!(*outcome(&events, id), Outcome::Done, "{id}");
    }
    assert_eq!(*outcome(&events, "sample/queues"), Outcome::Done);
    for (id, wanted) in [("load/fails", "status 7"), ("load/nowhere", "ECONNREFUSED")] {
        match outcome(&events, id) {
            Outcome::Failed(why) => assert!(why.contains(wanted), "{id}: {why}"),
            Outcome::Done => return Err(format!("{id} did not fail: {events:?}")),
        }
    }
    // Each 5 ms; what was due while the machine had no CPU for it is not sent. How many exactly is for the lab to say.
    let most = duration.nanos() / 5_000_000;
    for stream in ["ping", "udp", "oneway"] {
        let answered = answered(&events, stream) as u64;
        assert!(answered <= most, "{stream}: {events:?}");
        if answered == 0 {
            return Err(format!("{stream}: {events:?}"));
        }
    }
    for flow in ["up", "down"] {
        let [sent, got] = [Side::Sender, Side::Receiver].map(|side| last(&events, flow, side));
        if [&sent, &got].iter().any(|end| end.as_ref().is_none_or(|last| last.bytes <= 50_000)) {
            return Err(format!("{flow}: {sent:?} {got:?}"));
        }
    }
    let said = Event::Output { task: "load/command".into(), stderr: false, line: "hello".into() };
    match events.contains(&said) {
        true => Ok(()),
        false => Err(format!("load/command: {events:?}")),
    }
}

#[test]
fn what_can_t_be_is_refused_before_the_start_with_its_reason() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let bind = taken.local_addr().unwrap();
    let TaskKind::Tcp(mut client) = tcp("x", bind, Direction::Up) else { unreachable!() };
    client.congestion = Some("nonesuch".into());
    let tasks = vec![
        task(
            "port",
            TaskKind::TcpServer {
                bind,
                report: Span::from_millis(50),
                window: None,
                congestion: None,
            },
        ),
        task("udp-port", TaskKind::UdpReflector { bind: taken_udp.local_addr().unwrap() }),
        task("congestion", TaskKind::Tcp(client)),
        task("program", TaskKind::Command { argv: vec!["no-such-program".into()] }),
        task("twice", ping("p", "127.0.0.1")),
        task("twice", ping("p", "127.0.0.1")),
    ];
    let mut tested = AgentUnderTest::open();
    tested.tell(&Command::Prepare { tasks });
    let mut events = tested.until(6, is_ready_or_ended);
    events.extend(tested.stop());
    assert!(reason(&events, "port").contains("EADDRINUSE"));
    assert!(reason(&events, "udp-port").contains("EADDRINUSE"));
    assert!(reason(&events, "congestion").contains("cubic"), "those that there are are named");
    assert!(reason(&events, "program").contains("no-such-program"));
    assert!(reason(&events, "twice").contains("same id"));
    assert!(events.contains(&Event::Ready { task: "twice".into() }), "the first of the two");
}

#[test]
fn the_end_of_the_commands_is_a_stop_and_clients_say_that_they_were_cut_short() {
    let mut tested = AgentUnderTest::open();
    let long = Task { duration: Span::from_secs(3600), ..task("ping", ping("p", "127.0.0.1")) };
    tested.tell(&Command::Prepare { tasks: vec![long] });
    tested.until(1, is_ready_or_ended);
    tested.tell(&Command::Start { at_monotonic_ns: monotonic_ns() });
    let AgentUnderTest { commands, mut events, mut decoder, thread, .. } = tested;
    drop(commands);
    let mut rest = Vec::new();
    events.read_to_end(&mut rest).unwrap();
    thread.join().unwrap().unwrap();
    decoder.push(&rest);
    let mut all = Vec::new();
    while let Some(said) = decoder.next_value().unwrap() {
        let Said::Event { event, .. } = said else { panic!("{said:?}") };
        all.push(event);
    }
    assert!(reason(&all, "ping").contains("stopped"), "{all:?}");
}

#[test]
fn when_nobody_reads_the_events_any_more_the_agent_ends() {
    let mut tested = AgentUnderTest::open();
    let tasks = vec![
        Task { duration: Span::from_secs(3600), ..task("ping", ping("p", "127.0.0.1")) },
        // Its end makes the agent speak.
        task("soon", ping("q", "127.0.0.1")),
    ];
    tested.tell(&Command::Prepare { tasks });
    tested.until(2, is_ready_or_ended);
    tested.tell(&Command::Start { at_monotonic_ns: monotonic_ns() });
    let AgentUnderTest { commands, events, thread, .. } = tested;
    drop(events);
    let result = thread.join().unwrap();
    assert!(matches!(result, Err(agent::AgentError::Output(_))), "{result:?}");
    drop(commands);
}

#[test]
fn commands_that_are_not_in_frames_end_the_agent_with_a_reason() {
    let mut tested = AgentUnderTest::open();
    tested.commands.write_all(&[0x55; 64]).unwrap();
    let AgentUnderTest { mut events, thread, .. } = tested;
    let mut rest = Vec::new();
    events.read_to_end(&mut rest).unwrap();
    assert!(matches!(thread.join().unwrap(), Err(agent::AgentError::Frame(_))));
}

#[test]
fn an_agent_whose_events_nobody_takes_hears_a_stop_all_the_same_and_loses_none() {
    const LINES: usize = 200_000;
    let fifo = std::env::temp_dir().join(format!("quell-agent-{}", std::process::id()));
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Some megabytes, more than any pipe holds; then it says that all was read, and holds on to the place where it did.
    let script = format!("seq {LINES}; exec 3>{}; exec sleep 1000", fifo.display());
    let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let long = Task { duration: Span::from_secs(3600), ..task("work", TaskKind::Command { argv }) };
    let mut tested = AgentUnderTest::open();
    tested.tell(&Command::Prepare { tasks: vec![long] });
    tested.until(1, is_ready_or_ended);
    tested.tell(&Command::Start { at_monotonic_ns: monotonic_ns() });
    let mut held = std::fs::File::open(&fifo).unwrap();
    std::fs::remove_file(&fifo).unwrap();
    tested.tell(&Command::Stop);
    assert_eq!(held.read(&mut [0]).unwrap(), 0, "the program was ended");
    let events = tested.rest();
    let lines = events.iter().filter_map(|event| match event {
        Event::Output { line, stderr: false, .. } => line.parse::<usize>().ok(),
        _ => None,
    });
    assert!(lines.eq(1..=LINES), "each line is told, in order");
    assert!(reason(&events, "work").contains("stopped"), "{:?}", events.last());
}

#[test]
fn an_agent_with_a_lease_tells_its_clock_and_ends_by_itself_when_nothing_is_said_to_it_any_more() {
    let mut tested = AgentUnderTest::open();
    let tasks =
        vec![Task { duration: Span::from_secs(3600), ..task("ping", ping("p", "127.0.0.1")) }];
    tested.tell(&Command::Prepare { tasks });
    for at_ns in [7, 8] {
        tested.tell(&Command::Ask { at_ns, lease: Span::from_millis(300) });
    }
    tested.tell(&Command::Start { at_monotonic_ns: monotonic_ns() });
    // Its commands stay open, as those of an ssh that hangs.
    let mut events = Vec::new();
    while let Some(event) = tested.hear() {
        events.push(event);
    }
    assert!(reason(&events, "ping").contains("stopped"), "{events:?}");
    assert_eq!(tested.answered, [7, 8]);
    assert!(tested.thread.join().unwrap().is_ok());
}
