//! A mesh whose parts are killed again and again, by a seed: nothing is lost, nothing is there twice, and each slot has one end.
//!
//! ```text
//!   broker, its disk wiped ─ collector ─ agents, many in a process ─ the network between        kill -9, or loopback down
//! ```
//!
//! All of it is in a network namespace of the test's own. What is killed is a process: this program again, as [`role`].

use crate::support::*;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use quell_mesh::collector::AgentStatus;
use quell_mesh::folder::{
    DroppedRecords, FolderCopy, MeshFolder, MeshReader, Pair, Select, SlotCount,
};
use quell_mesh::{AgentPlan, Journal, PlannedProbe, ProbeKind, RecordKind, SlotEnd};
use quell_netlink::Stack;
use quell_netlink::link::LinkChange;
use quell_probe::reflector::Reflector;
use quell_stats::Rng;
use quell_sys::clock::monotonic_ns;
use quell_sys::netns::NetNs;
use quell_sys::pidfd;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_sys::wall::realtime_ns;
use quell_units::{Span, Tos};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ROLE: &str = "QUELL_MESH_ROLE";

struct Size {
    agents: usize,
    /// Each has its part of the agents.
    processes: usize,
    peers: usize,
    interval: Span,
    lease: Span,
    kills: usize,
    /// Longest pause between two.
    pause: Duration,
    /// How long it runs untouched before, while the hub is looked at.
    quiet: Duration,
}

#[test]
fn a_mesh_whose_parts_are_killed_loses_nothing_and_has_nothing_twice() {
    killed(&Size {
        agents: 60,
        processes: 3,
        peers: 3,
        interval: Span::from_millis(500),
        lease: Span::from_secs(2),
        kills: 10,
        pause: Duration::from_millis(800),
        quiet: Duration::ZERO,
    });
}

/// `make test-long`: minutes.
#[test]
#[ignore = "a thousand agents"]
fn a_thousand_agents_whose_mesh_is_killed_a_hundred_times_lose_nothing() {
    killed(&Size {
        agents: 1000,
        processes: 10,
        peers: 30,
        interval: Span::from_secs(10),
        lease: Span::from_secs(20),
        kills: 100,
        pause: Duration::from_secs(5),
        quiet: Duration::from_secs(60),
    });
}

/// Programs that copy are such that never end, and say their number when they begin.
#[test]
fn a_killed_collector_leaves_no_program_behind_that_copies_for_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mesh, begun) = (folder.path().join("mesh"), folder.path().join("begun"));
    mkfifo(&begun, Mode::S_IRWXU).expect("a temporary folder");
    for (program, to) in [("rsync", "elsewhere:mesh"), ("rclone", "rclone:s3:mesh")] {
        let place = folder.path().join(program);
        let script = format!("#!/bin/sh\necho $$ >{}\nexec sleep 600\n", begun.display());
        std::fs::write(&place, script).expect("a temporary folder");
        std::fs::set_permissions(&place, Permissions::from_mode(0o755)).expect("it is ours");
        let own = std::env::current_exe().expect("this program has a path");
        let mut copier = Command::new(own);
        copier.args(["--exact", "kills::role", "--ignored"]);
        copier.env(ROLE, format!("copier {} {to}", mesh.display()));
        copier.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()));
        let mut copier = copier.stdout(Stdio::null()).spawn().expect("it starts");
        let number = std::fs::read_to_string(&begun).expect("it is told");
        let child = pidfd::open(number.trim().parse().expect("a number")).expect("it runs");
        copier.kill().expect("it runs");
        copier.wait().expect("it ends");
        let mut alarm = Alarm::new().expect("a timer");
        alarm.set(Some(monotonic_ns() + PATIENCE_NS)).expect("a time");
        let mut fds = [readable(&child), readable(&alarm)];
        wait(&mut fds).expect("waiting works");
        pidfd::kill(&child);
        assert!(came(&fds[0]), "{program} goes on");
    }
}

/// A part of the mesh, which ends when who started it lets go of its input.
#[test]
#[ignore = "what the others start"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let most = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit").1;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("up to the hard one it may go");
    let words: Vec<&str> = role.split(' ').collect();
    if words[0] == "copier" {
        let end = FolderCopy::open(Path::new(words[1]), words[2]).map(drop);
        panic!("its program goes on for ever: {end:?}");
    }
    let (port, folder) = (words[1].parse().expect("a port"), Path::new(words[2]));
    let mut all: Vec<Daemon> = match words[0] {
        "collector" => {
            let copy = words.get(3).map(|to| (*to).to_owned());
            let bus = config(port, "collector");
            vec![Daemon::collector_with(bus, &folder.join("mesh"), copy, None)]
        }
        _ => {
            let number = |at: usize| words[at].parse::<usize>().expect("a number");
            let agents = (number(3)..number(4)).map(name);
            agents.map(|a| Daemon::agent(&a, config(port, &a), &journal(folder, &a))).collect()
        }
    };
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("it is read to its end");
    all.iter().for_each(Daemon::ring);
    all.iter_mut().for_each(Daemon::end);
}

fn name(at: usize) -> String {
    format!("a{at}")
}

fn journal(folder: &Path, agent: &str) -> PathBuf {
    folder.join("journals").join(agent)
}

/// A process of this mesh.
pub struct MeshProcess {
    role: String,
    child: Child,
}

impl MeshProcess {
    fn start(role: String) -> Self {
        Self::start_in(role, &[])
    }

    /// With these variables of its environment.
    pub fn start_in(role: String, environment: &[(&str, String)]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.args(["--exact", "kills::role", "--ignored"]).env(ROLE, &role);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Self { role, child: child.expect("it starts") }
    }

    fn kill_and_start(&mut self) {
        self.kill();
        *self = Self::start(self.role.clone());
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn let_go(&mut self) {
        drop(self.child.stdin.take());
    }

    pub fn end(&mut self) {
        self.let_go();
        assert!(self.child.wait().expect("it ends").success(), "{} ended in order", self.role);
    }
}

impl Drop for MeshProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn plans(size: &Size, reflector: u16, revision: u64, has_probes: bool) -> Vec<AgentPlan> {
    let probe = |agent: usize, at: usize| PlannedProbe {
        class: "voice".into(),
        peer: name((agent + at + 1) % size.agents),
        to: format!("127.0.0.1:{reflector}"),
        kind: ProbeKind::Stamp { size: 64, tos: Tos::from_byte(0) },
        interval: size.interval,
        offset: Span::from_nanos(
            size.interval.nanos() * (agent * size.peers + at) as u64
                / (size.agents * size.peers) as u64,
        ),
    };
    let peers = if has_probes { size.peers } else { 0 };
    let plan = |agent: usize| AgentPlan {
        format: 1,
        agent: name(agent),
        revision,
        lease: size.lease,
        probes: (0..peers).map(|at| probe(agent, at)).collect(),
    };
    (0..size.agents).map(plan).collect()
}

/// Seconds of CPU that a process took, and its RSS in kB.
fn used(pid: u32) -> (f64, u64) {
    let read =
        |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let stat = read("stat");
    let fields: Vec<u64> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    let ticks = fields.get(11).zip(fields.get(12)).map_or(0, |(user, system)| user + system);
    let status = read("status");
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let rss = rss.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    (ticks as f64 / 100.0, rss.unwrap_or(0))
}

fn killed(size: &Size) {
    let space = match NetNs::new() {
        Ok(space) => space,
        Err(why) => return crate::left_out::kernel_lacks(why),
    };
    space.run(|| in_space(size)).expect("a thread");
}

fn in_space(size: &Size) {
    let network = |up| {
        let mut stack = Stack::open().expect("netlink is there");
        stack.change_link(1, &[LinkChange::Up(up)]).expect("loopback is ours");
    };
    network(true);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let Some(mut broker) = Broker::start(folder, "") else { return };
    let reflector = Reflector::prepare("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let at = reflector.local().expect("it is bound").port();
    let over = Bell::new().expect("a bell");
    std::thread::scope(|scope| {
        scope.spawn(|| reflector.run(&over));
        apply(broker.config("hub"), &plans(size, at, 1, true));
        let (port, place) = (broker.port, folder.display());
        let mut collector = MeshProcess::start(format!("collector {port} {place}"));
        let each = size.agents.div_ceil(size.processes);
        let part = |n: usize| {
            let until = size.agents.min((n + 1) * each);
            MeshProcess::start(format!("agents {port} {place} {} {until}", n * each))
        };
        let mut agents: Vec<MeshProcess> = (0..size.processes).map(part).collect();
        until_all(&broker, size, |one| one.plan == Some(1));
        let begun_ns = monotonic_ns();
        let hub = [broker.pid(), collector.child.id()];
        let before = hub.map(used);
        std::thread::sleep(size.quiet);
        let after = hub.map(used);
        let seconds = (monotonic_ns() - begun_ns) as f64 / 1e9;
        for (name, at) in [("broker", 0), ("collector", 1)] {
            let share = (after[at].0 - before[at].0) / seconds * 100.0;
            eprintln!("{name}: {share:.1} % of a core, {} kB", after[at].1);
        }
        let mut rng = Rng::new(29);
        for kill in 0..size.kills {
            match kill % 4 {
                0 => {
                    broker.kill(true);
                    broker.again();
                }
                1 => collector.kill_and_start(),
                2 => {
                    let at = rng.u64() as usize % agents.len();
                    agents[at].kill_and_start();
                }
                _ => {
                    network(false);
                    std::thread::sleep(size.pause.mul_f64(rng.f64()));
                    network(true);
                }
            }
            std::thread::sleep(size.pause.mul_f64(rng.f64()));
        }
        // Without a hub all are silent within a lease.
        broker.kill(true);
        let gone_ns = realtime_ns() as i64;
        let lease = Duration::from_nanos(size.lease.nanos());
        std::thread::sleep(lease.mul_f64(1.5));
        let back_ns = realtime_ns() as i64;
        broker.again();
        until_all(&broker, size, |one| one.plan == Some(1));
        apply(broker.config("hub"), &plans(size, at, 2, false));
        until_all(&broker, size, |one| one.plan == Some(2));
        let next = all_stored(&broker, size, folder, &mut agents);
        eprintln!("{} kills in {:.0} s", size.kills, (monotonic_ns() - begun_ns) as f64 / 1e9);
        collector.end();
        over.ring();
        account(&folder.join("mesh"), size, &next);
        let silent = Select::times(gone_ns + size.lease.nanos() as i64 + 500_000_000, back_ns);
        let reader = MeshReader::open(&folder.join("mesh")).expect("a collector made it");
        assert_eq!(reader.packets(&silent).expect("it can be read").len(), 0, "all were silent");
    });
}

/// Passes connections on to a port, upwards with so many bytes a second.
fn slow_relay(to: u16, rate: &Arc<AtomicU64>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    // What it has not passed on waits at the sender.
    setsockopt(&listener, RcvBuf, &4096).expect("it may be small");
    let port = listener.local_addr().expect("it is bound").port();
    let rate = Arc::clone(rate);
    std::thread::spawn(move || {
        while let Ok((agent, _)) = listener.accept() {
            let Ok(broker) = TcpStream::connect(("127.0.0.1", to)) else { return };
            let both = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
            let (mut down, mut up, rate) = (both(&broker), both(&agent), Arc::clone(&rate));
            let (mut to_agent, mut to_broker) = (agent, broker);
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut down, &mut to_agent);
                let _ = to_agent.shutdown(Shutdown::Both);
            });
            std::thread::spawn(move || {
                let mut piece = [0; 512];
                while let Ok(count @ 1..) = up.read(&mut piece) {
                    let rate = rate.load(Ordering::Relaxed) as f64;
                    std::thread::sleep(Duration::from_secs_f64(count as f64 / rate));
                    if to_broker.write_all(&piece[..count]).is_err() {
                        break;
                    }
                }
                let _ = to_broker.shutdown(Shutdown::Both);
            });
        }
    });
    port
}

/// What it has takes nine seconds: reports that are sent again meanwhile are not heaped up.
#[test]
fn behind_a_slow_connection_an_agent_stays_small_and_all_that_it_has_comes() {
    let size = Size {
        agents: 1,
        processes: 1,
        peers: 0,
        interval: Span::from_secs(1),
        lease: Span::from_secs(60),
        kills: 0,
        pause: Duration::ZERO,
        quiet: Duration::ZERO,
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let Some(broker) = Broker::start(folder, "") else { return };
    apply(broker.config("hub"), &plans(&size, 1, 1, false));
    let mut before = Journal::open(&journal(folder, &name(0)), 1 << 20).expect("it is new");
    let record = |number| {
        let end = SlotEnd::Failed("x".repeat(1000));
        ("ams".to_owned(), "voice".to_owned(), RecordKind::Slots { wall_ns: number, count: 1, end })
    };
    before.append((0..120).map(record).collect()).expect("there is room");
    drop(before);
    let rate = Arc::new(AtomicU64::new(14_000));
    let relay = slow_relay(broker.port, &rate);
    let place = folder.display();
    let mut collector = MeshProcess::start(format!("collector {} {place}", broker.port));
    let mut agent = MeshProcess::start(format!("agents {relay} {place} 0 1"));
    until_all(&broker, &size, |one| one.plan == Some(1));
    let (_, before_kb) = used(agent.child.id());
    until_all(&broker, &size, |one| one.stored >= 120);
    let (_, after_kb) = used(agent.child.id());
    assert!(after_kb < before_kb + 4_000, "{before_kb} kB, {after_kb} kB");
    rate.store(u64::MAX, Ordering::Relaxed);
    agent.end();
    collector.end();
    let mut numbers: Vec<i64> =
        slots(&folder.join("mesh")).into_iter().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..120).collect::<Vec<_>>(), "each once");
}

/// What the collector says of all agents, once it is true of each.
fn until_all(broker: &Broker, size: &Size, is: impl Fn(&AgentStatus) -> bool) {
    until_status(broker.config("looker"), |status| {
        status.agents.iter().filter(|one| is(one)).count() == size.agents
    });
}

/// Ends all agents, when the collector has all that their journals hold: the number of the next record of each.
fn all_stored(
    broker: &Broker,
    size: &Size,
    folder: &Path,
    agents: &mut Vec<MeshProcess>,
) -> BTreeMap<String, u64> {
    agents.iter_mut().for_each(MeshProcess::let_go);
    agents.iter_mut().for_each(MeshProcess::end);
    let next: BTreeMap<String, u64> = (0..size.agents)
        .map(|at| {
            let journal = Journal::open(&journal(folder, &name(at)), 1 << 20).expect("its own");
            (name(at), journal.next())
        })
        .collect();
    // The last message of an agent may have been lost with a connection.
    let roles: Vec<String> = agents.drain(..).map(|part| part.role.clone()).collect();
    agents.extend(roles.into_iter().map(MeshProcess::start));
    until_all(broker, size, |one| one.stored >= next[&one.name]);
    agents.iter_mut().for_each(MeshProcess::let_go);
    agents.iter_mut().for_each(MeshProcess::end);
    next
}

/// Each slot of each pair has one end: packets that are there once, and slots that were none.
fn account(mesh: &Path, size: &Size, next: &BTreeMap<String, u64>) {
    let (interval, all) = (size.interval.nanos() as i64, Select::times(i64::MIN, i64::MAX));
    let opened = MeshFolder::open(mesh).expect("nobody else has it");
    assert_eq!(opened.damage(), [""; 0]);
    for (agent, next) in next {
        assert!(opened.next(agent) >= *next, "{agent}");
    }
    drop(opened);
    let reader = MeshReader::open(mesh).expect("a collector made it");
    let mut ends: BTreeMap<Pair, (u64, BTreeSet<i64>)> = BTreeMap::new();
    let (mut rows, mut doubled) = (0, 0);
    for (pair, samples) in reader.packets(&all).expect("it can be read") {
        let (count, slots) = ends.entry(pair).or_default();
        for sample in samples {
            (rows, *count) = (rows + 1, *count + 1);
            doubled += u64::from(!slots.insert(sample.t_ns));
        }
    }
    let mut reasons = BTreeMap::<String, u64>::new();
    for row in reader.rows::<SlotCount>(&all).expect("it can be read") {
        *reasons.entry(format!("{:?}", row.what.end)).or_default() += row.what.count;
        let (count, slots) = ends.entry(row.pair).or_default();
        *count += row.what.count;
        slots.insert(row.wall_ns);
        slots.insert(row.wall_ns + (row.what.count as i64 - 1) * interval);
    }
    let (mut lost, mut more, mut total) = (0, 0, 0);
    for (count, slots) in ends.values() {
        let (first, last) = (slots.first().unwrap(), slots.last().unwrap());
        let planned = ((last - first + interval / 2) / interval + 1) as u64;
        // The first slot may have passed before anything could be sent: it has an end, of which no time is known.
        (lost, more) =
            (lost + planned.saturating_sub(*count), more + count.saturating_sub(planned + 1));
        total += count;
    }
    eprintln!("{reasons:#?}");
    eprintln!(
        "{rows} packets, {total} slots with an end; {lost} lost, {doubled} doubled, {more} more"
    );
    assert_eq!((ends.len(), lost, doubled, more), (size.agents * size.peers, 0, 0, 0));
    let dropped = reader.rows::<DroppedRecords>(&all).expect("it can be read");
    assert_eq!(dropped, []);
}
