//! A server in a process of its own, so that its memory is its own: this test program once more.

use crate::client::NEVER;
use quell_serve::{Limits, ServeConfig, ServeEvent, Server};
use quell_sys::wait::Bell;
use quell_wire::auth::Secret;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// By this the program knows that it is to be the server.
const MARK: &str = "QUELL_HOSTILE_SERVER";

/// With what a line of the server begins; the test harness prints others.
const LINE: &str = "server: ";

/// The secret of those that have one.
pub const SECRET: &[u8] = b"correct horse battery staple";

/// A server that runs until it is dropped.
pub struct Served {
    child: Child,
    /// Where it listens.
    pub at: SocketAddr,
    /// What it told so far.
    pub log: Arc<Log>,
}

/// Lines that a server told.
#[derive(Default)]
pub struct Log {
    pub lines: Mutex<Vec<String>>,
    came: Condvar,
}

impl Log {
    /// Whether a line holds this word, or one that comes within a minute.
    pub fn will_hold(&self, word: &str) -> bool {
        let lines = self.lines.lock().expect("no panic");
        let lacks = |lines: &mut Vec<String>| !lines.iter().any(|line| line.contains(word));
        let waited = self.came.wait_timeout_while(lines, NEVER, lacks);
        !waited.expect("no panic").1.timed_out()
    }
}

impl Served {
    /// `limits` are words such as `rate=10000000` and `secret`.
    pub fn new(limits: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("it runs"))
            .args(["the_server_itself", "--exact", "--ignored", "--nocapture"])
            .env(MARK, limits)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts again");
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut lines = out
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.split_once(LINE).map(|(_, line)| line.to_owned()));
        let at = lines.next().expect("it says where it listens").parse().expect("an address");
        let log = Arc::new(Log::default());
        let to = Arc::clone(&log);
        std::thread::spawn(move || {
            lines.for_each(|line| {
                to.lines.lock().expect("no panic").push(line);
                to.came.notify_all();
            });
        });
        Self { child, at, log }
    }

    /// The most memory that it ever held at once, in bytes (`VmHWM`, proc(5)).
    pub fn most_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// The memory that it holds now, in bytes (`VmRSS`).
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// CPU time of each of its threads so far, by their ids (proc(5), `/proc/PID/task/TID/stat`: fields 14 and 15 in hundredths of a second).
    pub fn cpu_of_threads(&self) -> HashMap<OsString, Duration> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let tasks = tasks.expect("it runs still").filter_map(Result::ok);
        let time = |task: std::fs::DirEntry| {
            // A thread may be gone meanwhile.
            let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
            let fields = stat.rsplit_once(')')?.1.split_whitespace();
            let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
            Some((task.file_name(), Duration::from_millis(10 * ticks.sum::<u64>())))
        };
        tasks.filter_map(time).collect()
    }

    fn status(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs still");
        let line = status.lines().find_map(|l| l.strip_prefix(key)).expect("it has memory");
        let kib = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
        kib * 1024
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may be gone already, which the test has found out otherwise.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server's process.
pub fn serve() {
    let Ok(words) = std::env::var(MARK) else { return };
    // A thread that breaks off would serve nobody and be missed by nobody.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        std::process::abort();
    }));
    let mut limits = Limits::default();
    let mut secret = None;
    let mut web = None;
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("rate", bits)) => limits.rate = Some(bits.parse().expect("a rate")),
            Some(("handshake_ms", ms)) => {
                limits.handshake_ns = ms.parse::<u64>().expect("a time") * 1_000_000;
            }
            Some(("rate_of_one", bits)) => {
                limits.rate_of_one = Some(bits.parse().expect("a rate"));
            }
            Some(("time_ms", ms)) => {
                limits.time_ns = ms.parse::<u64>().expect("a time") * 1_000_000;
            }
            None if word == "web" => web = Some(quell_serve::WebConfig::default()),
            None if word == "secret" => secret = Secret::parse(SECRET).ok(),
            _ => panic!("no limit is `{word}`"),
        }
    }
    let bind = ([127, 0, 0, 1], 0).into();
    let config = ServeConfig {
        bind,
        limits,
        secret,
        reached_at: Vec::new(),
        one_off: false,
        time_ns: None,
        home: false,
        web,
    };
    let mut server = Server::prepare(config).expect("a port");
    server.give_up_rights("nobody").expect("rights can be given up");
    let say = |text: &dyn std::fmt::Display| {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{LINE}{text}").and_then(|()| out.flush());
    };
    say(&server.local());
    let tell = |event: &ServeEvent| say(event);
    server.run(&Bell::new().expect("a bell"), &tell, None).expect("it serves");
}
