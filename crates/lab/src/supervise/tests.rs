//! Cells in which things go wrong at moments that a seed chooses, in a simulated time; and agents that are real processes.
//!
//! ```text
//!   Supervisor ◄──► links to simulated agents: they die, fall silent, repeat themselves, lose a message, speak nonsense, read late
//!        └──► the store's journal, on a disk that is slow, or full from some moment on and perhaps for good
//! ```

use super::link::Came;
use super::machine::PATIENCE_NS;
use super::*;
use quell_model::agent_message::AGENT_VERSION;
use quell_model::{Outcome, Said, TaskKind, frame::Decoder};
use quell_stats::rng::Rng;
use quell_store::{JournalFile, WholeFrames};
use quell_units::Span;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;

const SECOND: u64 = 1_000_000_000;
const SEEDS: u64 = 2_000;

/// What goes wrong with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// It is gone from a moment on.
    Dies(u64),
    /// It says nothing from a moment on.
    Silent(u64),
    /// Each message may come again, at once or later.
    Repeats,
    Loses(u64),
    /// It says what is no message at a moment.
    Babbles(u64),
    Foreign,
    /// It reads each command seconds later.
    ReadsLate,
}

impl Fault {
    fn of(rng: &mut Rng) -> Self {
        let moment = rng.below(30 * SECOND);
        match rng.below(16) {
            0 => Self::Dies(moment),
            1 => Self::Silent(moment),
            2 => Self::Repeats,
            3 => Self::Loses(rng.below(20)),
            4 => Self::Babbles(moment),
            5 => Self::Foreign,
            6 => Self::ReadsLate,
            _ => Self::None,
        }
    }

    /// Whether its tasks must end as if nothing were wrong.
    fn is_harmless(self) -> bool {
        matches!(self, Self::None | Self::Repeats | Self::ReadsLate)
    }
}

enum Message {
    Said(Said),
    Over(&'static str),
}

/// A simulated agent, and the link to it.
struct Simulated {
    now: Rc<Cell<u64>>,
    rng: Rng,
    fault: Fault,
    tasks: Vec<Task>,
    /// By time, and in the order in which they were put.
    coming: BTreeMap<(u64, u64), Message>,
    puts: u64,
    sequence: u64,
    /// When the last event was said.
    last: u64,
    over: bool,
    /// When it was told to start, and for when.
    started: Option<(u64, u64)>,
}

impl Simulated {
    fn new(now: Rc<Cell<u64>>, rng: Rng, fault: Fault) -> Self {
        let (tasks, coming) = (Vec::new(), BTreeMap::new());
        let (puts, sequence, last) = (0, 0, 0);
        Self { now, rng, fault, tasks, coming, puts, sequence, last, over: false, started: None }
    }

    fn put(&mut self, at: u64, message: Message) {
        self.coming.insert((at, self.puts), message);
        self.puts += 1;
    }

    /// Events of different times; they are numbered in the order in which they are said.
    fn say(&mut self, mut events: Vec<(u64, Event)>) {
        events.sort_by_key(|(at, _)| *at);
        for (at, event) in events {
            let (at, sequence) = (at.max(self.last), self.sequence);
            self.last = at;
            self.sequence += 1;
            if self.fault == Fault::Loses(sequence) {
                continue;
            }
            let said = Said::Event { sequence, event };
            self.put(at, Message::Said(said.clone()));
            if self.fault == Fault::Repeats && self.rng.below(3) == 0 {
                let again = at + self.rng.below(2) * self.rng.below(SECOND);
                self.put(again, Message::Said(said));
            }
        }
    }

    fn next(&self) -> Option<u64> {
        self.coming.keys().next().map(|(at, _)| *at)
    }

    /// What a client says between its start and its end.
    fn report(task: &str, number: u64) -> Event {
        Event::Output { task: task.into(), stderr: false, line: number.to_string() }
    }
}

const REPORTS: u64 = 5;

impl Link for Simulated {
    fn send(&mut self, command: &Command) -> Result<(), frame::FrameError> {
        if self.over {
            return Ok(());
        }
        let slow = if self.fault == Fault::ReadsLate { self.rng.below(5 * SECOND) } else { 0 };
        let now = self.now.get() + slow + self.rng.below(SECOND / 100);
        match command {
            Command::Prepare { tasks } => {
                self.tasks.clone_from(tasks);
                let version = AGENT_VERSION + u32::from(self.fault == Fault::Foreign);
                self.put(now, Message::Said(Said::Hello { version, monotonic_ns: now }));
                let ready = |task: &Task, rng: &mut Rng| {
                    (now + rng.below(3 * SECOND), Event::Ready { task: task.id.clone() })
                };
                let ready = tasks.iter().map(|task| ready(task, &mut self.rng)).collect();
                self.say(ready);
            }
            Command::Start { at_monotonic_ns: start } => {
                self.started = Some((self.now.get(), *start));
                let mut events = Vec::new();
                for task in self.tasks.iter().filter(|task| !task.kind.about().is_server) {
                    let length = task.duration.nanos();
                    for number in 0..REPORTS {
                        events.push((
                            start + length * number / REPORTS,
                            Self::report(&task.id, number),
                        ));
                    }
                    let (task, outcome) = (task.id.clone(), Outcome::Done);
                    let end = start + length + self.rng.below(SECOND);
                    events.push((end, Event::Ended { task, t_ns: (end - start) as i64, outcome }));
                }
                self.say(events);
            }
            Command::Stop => {
                let ended = |task: &Task| {
                    let task = task.id.clone();
                    (now, Event::Ended { task, t_ns: 0, outcome: Outcome::Done })
                };
                let servers = self.tasks.iter().filter(|task| task.kind.about().is_server);
                let servers = servers.map(ended).collect();
                self.say(servers);
                self.put(now.max(self.last + SECOND), Message::Over("its agent ended before it"));
            }
            Command::Ask { at_ns, .. } => {
                let clock = Said::Clock { asked_ns: *at_ns, monotonic_ns: now };
                self.put(now, Message::Said(clock));
            }
        }
        match self.fault {
            Fault::Dies(at) => {
                self.coming.retain(|(time, _), _| *time < at);
                self.put(
                    at.max(self.now.get()),
                    Message::Over("its agent died: signal: 9 (SIGKILL)"),
                );
            }
            Fault::Silent(at) => self.coming.retain(|(time, _), _| *time < at),
            Fault::Babbles(at) => self.put(at, Message::Over("its agent can't be understood: …")),
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) {}

    fn attend(&mut self) -> Came {
        let mut came = Came::default();
        while let Some(first) = self.coming.first_entry() {
            if first.key().0 > self.now.get() || self.over {
                break;
            }
            match first.remove() {
                Message::Said(said) => came.said.push(said),
                Message::Over(why) => {
                    self.over = true;
                    self.coming.clear();
                    came.over = Some(why.into());
                }
            }
        }
        came
    }

    fn offset_ns(&self) -> i64 {
        0
    }
}

/// A file in memory, on a disk that may be slow, and full.
struct Disk {
    now: Rc<Cell<u64>>,
    rng: Rng,
    slow: bool,
    /// How many bytes it takes still.
    room: Rc<Cell<u64>>,
    bytes: Vec<u8>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.rng.below(20) == 0 {
            return Err(ErrorKind::Interrupted.into());
        }
        let room = self.room.get().min(1 + self.rng.below(200));
        let count = usize::try_from(room).unwrap().min(bytes.len());
        if count == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        self.room.set(self.room.get() - count as u64);
        self.bytes.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl JournalFile for Disk {
    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        self.bytes.truncate(usize::try_from(length).unwrap());
        Ok(())
    }
}

impl Journal for WholeFrames<Disk> {
    fn append(&mut self, frames: &[u8]) -> std::io::Result<()> {
        assert_eq!(frame::whole(frames), frames.len(), "an append is of whole frames");
        let disk = self.file();
        if disk.slow {
            let late = disk.rng.derive(&disk.now.get().to_string()).below(8 * SECOND);
            disk.now.set(disk.now.get() + late);
        }
        self.append(frames)
    }
}

fn task(id: &str, host: &str, seconds: u64) -> Task {
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let kind = match seconds {
        0 => TaskKind::TcpListener { bind: address },
        _ => TaskKind::Command { argv: vec!["true".into()] },
    };
    let (id, host, duration) = (id.into(), host.into(), Span::from_secs(seconds));
    Task { id, host, start_ns: 0, duration, seed: 1, kind }
}

/// A cell of this seed, carried out.
struct Story {
    seed: u64,
    faults: Vec<Fault>,
    hosts: Vec<(String, Vec<Task>)>,
    length: u64,
    changes: Vec<Span>,
    took: u64,
    starts: Vec<Option<(u64, u64)>>,
    is_slow: bool,
    was_full: bool,
    /// What can be read in the journal.
    events: Vec<Event>,
    result: Result<(), SuperviseError>,
}

fn story(seed: u64) -> Story {
    story_of(seed, None)
}

fn story_of(seed: u64, lease: Option<Lease>) -> Story {
    let mut rng = Rng::new(seed);
    let length = 1 + rng.below(10);
    let mut hosts = Vec::new();
    for host in 0..1 + rng.below(4) {
        let host = format!("h{host}");
        let tasks = (0..1 + rng.below(3)).map(|n| {
            let seconds = rng.below(3).min(1) * (1 + rng.below(length));
            task(&format!("{host}/{n}"), &host, seconds)
        });
        let tasks = tasks.collect();
        hosts.push((host, tasks));
    }
    let mut changes: Vec<Span> =
        (0..rng.below(3)).map(|_| Span::from_millis(rng.below(length * 1000))).collect();
    changes.sort();
    let faults: Vec<Fault> = hosts.iter().map(|_| Fault::of(&mut rng)).collect();
    let now = Rc::new(Cell::new(0));
    let is_slow = rng.below(8) == 0;
    let room = Rc::new(Cell::new(if rng.below(8) == 0 { rng.below(2_000) } else { u64::MAX }));
    let disk = Disk {
        now: Rc::clone(&now),
        rng: rng.derive("disk"),
        slow: is_slow,
        room: Rc::clone(&room),
        bytes: Vec::new(),
    };
    let mut journal = WholeFrames::new(disk, 0);
    let mut links: Vec<Simulated> = hosts
        .iter()
        .zip(&faults)
        .map(|((host, _), fault)| Simulated::new(Rc::clone(&now), rng.derive(host), *fault))
        .collect();
    let warm_up = Span::from_secs(rng.below(3));
    let all = Span::from_nanos(warm_up.nanos() + length * SECOND);
    let machine = Machine::new(hosts.clone(), changes.iter().copied(), warm_up, all, 0);
    let machine = match lease {
        Some(lease) => machine.of_machines(lease),
        None => machine,
    };
    let interrupted = RefCell::new(rng.derive("signals"));
    let waits = Cell::new(0);
    let mut wait = |links: &[Simulated], until: u64| {
        waits.set(waits.get() + 1);
        assert!(waits.get() < 10_000, "seed {seed}: it goes round and round");
        let due = |link: &Simulated| link.next().is_some_and(|at| at <= now.get());
        let next = links.iter().filter_map(Simulated::next).min().unwrap_or(u64::MAX).min(until);
        // A signal may come before anything else does.
        if interrupted.borrow_mut().below(10) > 0 {
            now.set(now.get().max(next));
        }
        Ok((0..links.len()).filter(|index| due(&links[*index])).collect())
    };
    let at = changes.clone();
    let mut change = |index: usize, _| {
        Ok(Some(Fact::new(When::During, Subject::Change(at[index]), index.to_string())))
    };
    let result = Supervisor {
        machine,
        links: &mut links,
        now: &|| now.get(),
        wait: &mut wait,
        change: &mut change,
        stops: &|| false,
    }
    .run(&mut journal)
    .and_then(|machine| match machine.failed() {
        [] => Ok(()),
        failed => Err(SuperviseError::Hosts(failed.to_vec())),
    });
    let starts = links.iter().map(|link| link.started).collect();
    let took = now.get();
    let was_full = matches!(result, Err(SuperviseError::Journal(_)));
    if was_full && rng.below(2) == 0 {
        // Somebody made room.
        room.set(u64::MAX);
    }
    let closed = close(&mut journal, &result, took);
    let mut decoder = Decoder::new();
    decoder.push(&journal.file().bytes);
    let mut events = Vec::new();
    while let Some(event) = decoder.next_value().unwrap_or_else(|e| panic!("seed {seed}: {e}")) {
        events.push(event);
    }
    assert_eq!(decoder.pending(), 0, "seed {seed}: nothing is there in part");
    if closed.is_ok() {
        let last = events.pop();
        assert!(
            matches!(last, Some(Event::End { .. } | Event::Abort { .. })),
            "seed {seed}: {last:?}"
        );
    }
    Story { seed, faults, hosts, length, changes, took, starts, is_slow, was_full, events, result }
}

impl Story {
    fn said(&self) -> String {
        format!("seed {}: {:?}, {:?}", self.seed, self.faults, self.result)
    }

    fn ended<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Outcome> {
        self.events.iter().filter_map(move |event| match event {
            Event::Ended { task, outcome, .. } if task == id => Some(outcome),
            _ => None,
        })
    }

    fn reports(&self, id: &str) -> Vec<u64> {
        let line = |event: &Event| match event {
            Event::Output { task, line, .. } if task == id => line.parse().ok(),
            _ => None,
        };
        self.events.iter().filter_map(line).collect()
    }
}

#[test]
fn whatever_goes_wrong_when_a_cell_ends_in_time_and_tells_the_truth() {
    let mut seen = BTreeSet::new();
    for story in (0..SEEDS).map(story) {
        let said = story.said();
        // Slowness of the disk comes on top.
        let most = (3 + story.length + 3 * 10 + 2) * SECOND;
        assert!(story.is_slow || story.took <= most, "{said}: took {} ns", story.took);
        for ((_, tasks), fault) in story.hosts.iter().zip(&story.faults) {
            for task in tasks {
                let ends: Vec<&Outcome> = story.ended(&task.id).collect();
                assert!(ends.len() <= 1, "{said}: {} ended {ends:?}", task.id);
                let reports = story.reports(&task.id);
                let in_order: Vec<u64> = (0..reports.len() as u64).collect();
                assert_eq!(reports, in_order, "{said}: {}, each once and in order", task.id);
                if story.result.is_err() {
                    continue;
                }
                let (client, silent) =
                    (!task.kind.about().is_server, matches!(fault, Fault::Silent(_)));
                assert!(ends.len() == 1 || silent && !client, "{said}: {} did not end", task.id);
                if fault.is_harmless() {
                    assert_eq!(ends, [&Outcome::Done], "{said}: {}", task.id);
                    assert_eq!(reports.len() as u64, if client { REPORTS } else { 0 }, "{said}");
                }
            }
        }
        match &story.result {
            Ok(()) => {
                let told: Vec<String> = story.events.iter().filter_map(changed).collect();
                let due: Vec<String> = (0..told.len()).map(|n| n.to_string()).collect();
                assert!(told == due && told.len() <= story.changes.len(), "{said}: {told:?}");
            }
            // Only what says nothing any more, or has no room, ends a cell; and the blame is on the right host.
            Err(SuperviseError::Agent { host, .. }) => {
                let index = story.hosts.iter().position(|(name, _)| name == host).unwrap();
                assert!(
                    matches!(story.faults[index], Fault::Silent(_) | Fault::Loses(_)),
                    "{said}"
                );
            }
            Err(SuperviseError::Journal(_)) => assert!(story.was_full, "{said}"),
            Err(_) => panic!("{said}"),
        }
        seen.insert(match &story.result {
            Ok(()) => "fine",
            Err(SuperviseError::Agent { .. }) => "silent",
            Err(_) => "full",
        });
        seen.extend(story.faults.iter().map(|fault| match fault {
            Fault::None => "none",
            Fault::Dies(_) => "dies",
            Fault::Silent(_) => "falls silent",
            Fault::Repeats => "repeats",
            Fault::Loses(_) => "loses",
            Fault::Babbles(_) => "babbles",
            Fault::Foreign => "foreign",
            Fault::ReadsLate => "reads late",
        }));
    }
    assert_eq!(seen.len(), 11, "all of it happened: {seen:?}");
}

#[test]
fn of_machines_one_that_is_lost_ends_it_for_all_or_for_itself_as_is_wanted() {
    let mut ends = BTreeMap::new();
    for goes_on in [false, true] {
        let lease = Lease { lost_after: Span::from_secs(30), goes_on, rehearses: false };
        // A disk that holds the supervisor up for longer than the lease loses hosts that are well, and those end by themselves.
        let stories = (0..SEEDS).map(|seed| story_of(seed, Some(lease)));
        for story in stories.filter(|s| !s.was_full && !s.is_slow) {
            let said = story.said();
            assert!(story.took <= 200 * SECOND, "{said}: took {} ns", story.took);
            let has_begun = story.starts.iter().any(Option::is_some);
            let fault = |host: &str| {
                let index = story.hosts.iter().position(|(name, _)| name == host);
                story.faults[index.expect("a host of it")]
            };
            match &story.result {
                Ok(()) if !goes_on => {
                    for task in story.hosts.iter().flat_map(|(_, tasks)| tasks) {
                        let is_client = !task.kind.about().is_server;
                        let good = story.ended(&task.id).all(|end| *end == Outcome::Done);
                        assert!(good || !is_client, "{said}: {}", task.id);
                    }
                }
                Ok(()) => {}
                Err(SuperviseError::Hosts(failed)) => {
                    assert!(failed.iter().all(|(host, _)| !fault(host).is_harmless()), "{said}");
                    assert!(!goes_on || !has_begun, "{said}: it was to go on");
                }
                Err(SuperviseError::Agent { host, .. }) => {
                    assert!(!fault(host).is_harmless(), "{said}");
                }
                Err(_) => panic!("{said}"),
            }
            *ends.entry((goes_on, story.result.is_ok(), has_begun)).or_insert(0) += 1;
        }
    }
    let some = |key| ends.get(&key).is_some_and(|count| *count > 50);
    let all = [(false, true, true), (false, false, true), (true, true, true)];
    assert!(all.into_iter().all(some) && some((true, false, false)), "{ends:?}");
}

fn changed(event: &Event) -> Option<String> {
    let Event::Fact(fact) = event else { return None };
    Some(fact.value.clone())
}

#[test]
fn all_begin_together_and_after_they_were_told() {
    for story in (0..SEEDS).map(story) {
        let said = story.said();
        let starts: Vec<(u64, u64)> = story.starts.iter().flatten().copied().collect();
        for (told, start) in &starts {
            assert!(story.is_slow || told < start, "{said}: told at {told} to start at {start}");
            assert_eq!(*start, starts[0].1, "{said}: one time for all");
        }
    }
}

#[test]
fn what_was_said_while_the_disk_was_slow_counts() {
    // One task, whose agent is ready at once; the journal takes longer than anybody's patience.
    let slow = (0..SEEDS).map(story).filter(|s| s.is_slow && !s.was_full);
    let harmless = slow.filter(|s| s.faults.iter().all(|f| f.is_harmless()));
    let all: Vec<Story> = harmless.collect();
    assert!(all.len() > 20, "{}", all.len());
    assert!(all.iter().any(|s| s.took > 60 * SECOND), "patience would have ended");
    for story in all {
        assert!(story.result.is_ok(), "{}", story.said());
    }
}

/// A child that runs this in a shell, its standard error in a pipe.
fn shell(script: &str) -> (Process, std::process::ChildStderr) {
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let errors = child.stderr.take().unwrap();
    (Process::new(child).unwrap(), errors)
}

fn until_over(link: Process) -> String {
    let (mut links, mut alarm) = ([link], Alarm::new().unwrap());
    loop {
        link::wait(&links, &mut alarm, None, monotonic_ns() + PATIENCE_NS).unwrap();
        if let Some(over) = links[0].attend().over {
            return over;
        }
    }
}

#[test]
fn an_agent_that_died_before_it_was_told_anything_is_told_of_with_its_status() {
    let (mut link, mut errors) = shell("exec <&-; echo closed >&2; exit 7");
    errors.read_exact(&mut [0; 7]).unwrap();
    link.send(&Command::Prepare { tasks: vec![task("work", "a", 1)] }).unwrap();
    assert_eq!(until_over(link), "its agent died: exit status: 7");
}

#[test]
fn an_agent_that_does_not_read_yet_holds_nobody_up_and_gets_all_of_it_later() {
    // More than a pipe holds: it comes back at once, and the rest goes when there is room.
    let (mut link, errors) = shell("wc -c >&2");
    let long = Task { id: "x".repeat(1 << 20), ..task("work", "a", 1) };
    let told = Command::Prepare { tasks: vec![long] };
    let length = frame::encode(&told).unwrap().len();
    link.send(&told).unwrap();
    link.finish();
    assert_eq!(until_over(link), "its agent ended before it");
    let counted = std::io::read_to_string(errors).unwrap();
    assert_eq!(counted.trim(), length.to_string());
}

#[test]
fn an_agent_whose_words_are_no_messages_is_over_with_the_reason() {
    let (link, _errors) = shell("printf 'a shell says hello to whoever is there'; cat");
    let why = until_over(link);
    assert!(why.starts_with("its agent can't be understood: a frame of"), "{why}");
}
