//! A broker of the test's own, agents and collectors on it, and what became of what they measured.

// Each test binary uses its part of this.
#![allow(dead_code)]

use crate::left_out;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use quell_bus::{Bus, BusConfig, BusCredentials, BusEvent, Subscriptions};
use quell_mesh::AgentPlan;
use quell_mesh::agent::{self, AgentConfig};
use quell_mesh::collect::{self, CollectConfig};
use quell_mesh::collector::MeshStatus;
use quell_mesh::folder::{DroppedRecords, MeshReader, Pair, Select, SlotCount};
use quell_mesh::messages::{STATUS, SlotCounts};
use quell_metrics::MetricsEndpoint;
use quell_model::EchoSample;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use quell_sys::wall::realtime_ns;
use quell_units::Span;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Far more than anything here takes.
pub const PATIENCE_NS: u64 = 20_000_000_000;

/// A program of a Debian package that `make test` unpacks; none where that could not be.
pub fn unpacked(program: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/unpacked");
    let found = Some(target.join(program)).filter(|found| found.exists());
    if found.is_none() {
        left_out::for_want_of(format!("{program}, which make test unpacks"));
    }
    found
}

pub struct Broker {
    program: PathBuf,
    pub port: u16,
    pub folder: PathBuf,
    extra: String,
    child: Option<Child>,
}

impl Broker {
    /// Started, with JetStream and these lines of configuration; none where there is no nats-server.
    pub fn start(folder: &Path, extra: &str) -> Option<Self> {
        let store = folder.join("broker");
        Self::begin(folder, &format!("jetstream {{ store_dir: {store:?} }}\n{extra}"))
    }

    /// With this configuration alone.
    pub fn begin(folder: &Path, extra: &str) -> Option<Self> {
        let program = unpacked("usr/sbin/nats-server")?;
        let free = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
        let port = free.local_addr().expect("it is bound").port();
        let (folder, extra) = (folder.join("broker"), extra.to_owned());
        let mut broker = Self { program, port, folder, extra, child: None };
        broker.again();
        Some(broker)
    }

    pub fn again(&mut self) {
        std::fs::create_dir_all(&self.folder).expect("a temporary folder");
        let config = self.folder.with_extension("conf");
        let text = format!("listen: 127.0.0.1:{}\n{}", self.port, self.extra);
        std::fs::write(&config, text).expect("a temporary folder");
        let log = File::create(self.folder.with_extension("log")).expect("a temporary folder");
        let child = Command::new(&self.program)
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("nats-server starts"));
    }

    /// kill -9; and its disk is gone too.
    pub fn kill(&mut self, wipe: bool) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if wipe {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    pub fn config(&self, name: &str) -> BusConfig {
        config(self.port, name)
    }
}

pub fn config(port: u16, name: &str) -> BusConfig {
    BusConfig {
        url: format!("nats://127.0.0.1:{port}"),
        ca: None,
        credentials: None,
        name: name.into(),
        subscriptions: Subscriptions::default(),
    }
}

pub fn config_of(port: u16, name: &str, who: &BusCredentials) -> BusConfig {
    BusConfig { credentials: Some(who.clone()), ..config(port, name) }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill(false);
    }
}

/// Waits for an event of this kind.
pub fn until<T>(bus: &mut Bus, mut is: impl FnMut(BusEvent) -> Option<T>) -> T {
    let end_ns = monotonic_ns() + PATIENCE_NS;
    let mut others = Vec::new();
    loop {
        let event = bus.await_next(end_ns).expect("waiting works");
        let event = event.unwrap_or_else(|| panic!("in 20 s only {others:?}"));
        others.push(format!("{event:?}"));
        others.truncate(20);
        if let Some(found) = is(event) {
            return found;
        }
    }
}

/// Writes plans as `quell mesh apply` does.
pub fn apply(broker: BusConfig, plans: &[AgentPlan]) {
    let mut config = broker;
    config.subscriptions.keys = true;
    let mut bus = Bus::start(config).expect("a thread");
    let mut revisions = BTreeMap::new();
    until(&mut bus, |event| match event {
        BusEvent::Key { key, revision, .. } => {
            revisions.insert(key, revision);
            None
        }
        BusEvent::AllKeys => Some(()),
        _ => None,
    });
    for plan in plans {
        let revision = revisions.get(&plan.agent).copied().unwrap_or(0);
        bus.put(&plan.agent, Some(serde_json::to_vec(plan).expect("a plan is JSON")), revision);
        until(&mut bus, |event| match event {
            BusEvent::Written { result, .. } => Some(result),
            _ => None,
        })
        .expect("nobody else writes");
    }
}

pub fn packets(folder: &Path) -> BTreeMap<Pair, Vec<EchoSample>> {
    let reader = MeshReader::open(folder).expect("a collector made it");
    reader.packets(&Select::times(i64::MIN, i64::MAX)).expect("it can be read")
}

/// Slots that were no packets: when the first of each row was due, and how many.
pub fn slots(folder: &Path) -> Vec<(i64, u64)> {
    let reader = MeshReader::open(folder).expect("a collector made it");
    let slots =
        reader.rows::<SlotCount>(&Select::times(i64::MIN, i64::MAX)).expect("it can be read");
    slots.iter().map(|row| (row.wall_ns, row.what.count)).collect()
}

/// Records that an agent had no room for.
pub fn dropped(folder: &Path) -> Vec<u64> {
    let reader = MeshReader::open(folder).expect("a collector made it");
    let rows =
        reader.rows::<DroppedRecords>(&Select::times(i64::MIN, i64::MAX)).expect("it can be read");
    rows.iter().map(|row| row.what.0).collect()
}

/// Waits until the collector says that so many slots of an agent ended.
pub fn until_stored(broker: BusConfig, agent: &str, count: u64) {
    until_slots(broker, agent, |slots| slots.all() >= count);
}

/// Waits until the collector says this of an agent's slots.
pub fn until_slots(broker: BusConfig, agent: &str, is: impl Fn(&SlotCounts) -> bool) {
    until_status(broker, |status| {
        status.agents.iter().any(|one| one.name == agent && is(&one.slots))
    });
}

/// Waits until what the collector says is so.
pub fn until_status(broker: BusConfig, is: impl Fn(&MeshStatus) -> bool) {
    let mut bus = Bus::start(broker).expect("a thread");
    until(&mut bus, |event| matches!(event, BusEvent::Connected { .. }).then_some(()));
    let end_ns = monotonic_ns() + 3 * PATIENCE_NS;
    let mut seen = None;
    while monotonic_ns() < end_ns {
        bus.ask(STATUS);
        let payload = until(&mut bus, |event| match event {
            BusEvent::Answer { payload, .. } => Some(payload),
            _ => None,
        });
        let status: Option<MeshStatus> = payload.ok().and_then(|p| serde_json::from_slice(&p).ok());
        seen = status.or(seen);
        if seen.as_ref().is_some_and(&is) {
            return;
        }
        // One question after the other would keep the hub busy.
        let _ = bus.await_next(monotonic_ns() + 100_000_000);
    }
    panic!("{seen:?}");
}

/// An agent or a collector in threads of this process.
pub struct Daemon {
    stop: Arc<Bell>,
    lines: Receiver<String>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Daemon {
    pub fn collector(bus: BusConfig, folder: &Path) -> Self {
        Self::collector_with(bus, folder, None, None)
    }

    pub fn collector_with(
        bus: BusConfig,
        folder: &Path,
        copy: Option<String>,
        web: Option<MetricsEndpoint>,
    ) -> Self {
        let sync_each = Span::from_millis(50);
        let config = CollectConfig { bus, folder: folder.into(), copy, sync_each, web };
        Self::start(move |stop, tell| {
            collect::run(config, stop, tell).map_err(|error| error.to_string())
        })
    }

    pub fn agent(name: &str, bus: BusConfig, journal: &Path) -> Self {
        Self::agent_with(name, bus, journal, "none")
    }

    /// Whose clock is this one.
    pub fn agent_by(name: &str, bus: BusConfig, journal: &Path, wall: fn() -> u64) -> Self {
        Self::agent_as(name, bus, journal, "none", wall)
    }

    /// With this program for what children measure.
    pub fn agent_with(name: &str, bus: BusConfig, journal: &Path, program: &str) -> Self {
        Self::agent_as(name, bus, journal, program, realtime_ns)
    }

    fn agent_as(
        name: &str,
        bus: BusConfig,
        journal: &Path,
        program: &str,
        wall: fn() -> u64,
    ) -> Self {
        let config = AgentConfig {
            name: name.into(),
            host: "here".into(),
            bus,
            journal: journal.into(),
            most_bytes: 1 << 20,
            wall,
            program: program.into(),
        };
        Self::start(move |stop, tell| {
            agent::run(config, stop, &|_| Vec::new(), tell).map_err(|error| error.to_string())
        })
    }

    fn start(
        run: impl FnOnce(&Bell, &mut dyn FnMut(&str)) -> Result<(), String> + Send + 'static,
    ) -> Self {
        let stop = Arc::new(Bell::new().expect("a bell"));
        let (send, lines) = channel();
        let bell = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            run(&bell, &mut |line: &str| drop(send.send(line.to_owned())))
        });
        Self { stop, lines, thread: Some(thread) }
    }

    /// Waits until it says something that begins so.
    pub fn until(&self, beginning: &str) {
        self.until_says(beginning, |line| line.starts_with(beginning));
    }

    /// Waits until it says something that has this in it.
    pub fn until_has(&self, part: &str) {
        self.until_says(part, |line| line.contains(part));
    }

    fn until_says(&self, what: &str, is: impl Fn(&str) -> bool) {
        let mut others = Vec::new();
        loop {
            match self.lines.recv_timeout(Duration::from_nanos(PATIENCE_NS)) {
                Ok(line) if is(&line) => return,
                Ok(line) => others.push(line),
                Err(_) => panic!("it said {others:?} and not `{what}`"),
            }
        }
    }

    pub fn ended(&mut self) -> Result<(), String> {
        self.thread.take().map_or(Ok(()), |thread| thread.join().expect("it does not panic"))
    }

    pub fn ring(&self) {
        self.stop.ring();
    }

    pub fn end(&mut self) {
        self.ring();
        self.ended().expect("it ends in order");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.ring();
    }
}

/// A folder of so many bytes that this thread, and those that it starts, alone see. None where the kernel does not let us.
pub fn small_disk(folder: &Path, bytes: u64) -> Option<SmallDisk> {
    std::fs::create_dir_all(folder).expect("a temporary folder");
    let (none, size) = (None::<&str>, format!("size={bytes}"));
    let made = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))
        .and_then(|()| mount(Some("small"), folder, Some("tmpfs"), MsFlags::empty(), Some(&*size)));
    made.map_err(left_out::kernel_lacks).ok()?;
    Some(SmallDisk(folder.into()))
}

pub struct SmallDisk(PathBuf);

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// Takes what is left of a disk.
pub fn fill(path: &Path) {
    let mut file = File::create(path).expect("the disk has room for a name");
    let full = std::io::copy(&mut std::io::repeat(0), &mut file);
    assert!(full.is_err(), "it is full");
}

/// What a web server answers to GET.
pub fn get(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\n\r\n").expect("it reads");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("it answers");
    said
}

/// Who connects to this port reads this, and then the end.
pub fn says(text: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(3).flatten() {
            let mut stream = stream;
            let _ = stream.write_all(text.as_bytes());
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    port
}

/// One that speaks NATS' protocol by itself, and so names what subject it likes for answers.
pub struct RawClient {
    stream: TcpStream,
}

impl RawClient {
    pub fn login(port: u16, user: &str, password: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        let mut client = Self { stream };
        let connect = format!(
            "CONNECT {{\"verbose\":false,\"headers\":true,\"user\":\"{user}\",\"pass\":\"{password}\"}}\r\n"
        );
        client.says(connect.as_bytes());
        client
    }

    /// What the broker says until it has done all of this.
    pub fn says(&mut self, lines: &[u8]) -> String {
        self.stream.write_all(&[lines, b"PING\r\n"].concat()).expect("it takes it");
        let mut said = Vec::new();
        while !said.ends_with(b"PONG\r\n") {
            let mut piece = [0; 4096];
            let count = self.stream.read(&mut piece).expect("it answers");
            assert!(count > 0, "it closed: {}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&piece[..count]);
        }
        String::from_utf8_lossy(&said).into_owned()
    }
}
