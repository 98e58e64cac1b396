//! A `quell serve` beside a test, and its clients.

// Each test binary uses its part of this.
#![allow(dead_code)]

use crate::support::left_out;
use crate::support::{Said, program, said};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Longest that is waited for what has to come: a busy machine has no CPU for either end for seconds, again and again.
pub const NEVER: Duration = Duration::from_secs(60);

/// A server at a free port of loopback, ended with the test.
pub struct Served {
    child: Child,
    /// Where it serves.
    pub at: SocketAddr,
    told: Arc<(Mutex<Vec<Value>>, Condvar)>,
}

impl Served {
    /// With these options.
    pub fn new(options: &[&str]) -> Self {
        Self::of(program(&[&["serve", "--port", "0", "--json"], options].concat()))
    }

    /// The same by a command that ends in a server with `--port 0 --json`.
    pub fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let out = child.stdout.take().expect("it is piped");
        let told = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let to = Arc::clone(&told);
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).expect("each line is JSON");
                to.0.lock().expect("no panic").push(event);
                to.1.notify_all();
            }
        });
        let mut served = Self { child, at: ([0, 0, 0, 0], 0).into(), told };
        let started = served.event("started", "");
        served.at = started["address"].as_str().and_then(|a| a.parse().ok()).expect("an address");
        served
    }

    /// The first event of this name that has this word in it; fails when none comes within a minute.
    #[track_caller]
    pub fn event(&self, name: &str, word: &str) -> Value {
        let find = |all: &Vec<Value>| {
            all.iter().find(|e| e["event"] == name && e.to_string().contains(word)).cloned()
        };
        let (all, more) = &*self.told;
        let all = all.lock().expect("no panic");
        let (all, _) =
            more.wait_timeout_while(all, NEVER, |all| find(all).is_none()).expect("no panic");
        find(&all).unwrap_or_else(|| panic!("no `{name}` with `{word}` among {all:?}"))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let signal: Signal = format!("SIG{name}").parse().expect("a signal's name");
        kill(Pid::from_raw(self.pid() as i32), signal).expect("it runs");
    }

    /// Waits for its end; its exit code.
    pub fn end(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }

    /// A TCP connection to it, in which reading takes at most a minute.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).expect("it listens");
        stream.set_read_timeout(Some(NEVER)).expect("a limit");
        stream
    }

    /// A client's connection that has said which test it is and been asked for its parameters.
    pub fn begin(&self, cookie: u8) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(&cookie_of(cookie)).expect("sent");
        assert_eq!(byte(&mut stream), Some(9), "it asks for parameters");
        stream
    }

    /// Calls of `quell rr` are answered, as a sign that all is well.
    #[track_caller]
    pub fn is_well(&self) {
        self.rr(&[]).fine();
    }

    /// `quell rr` against it.
    pub fn rr(&self, more: &[&str]) -> Said {
        let at = self.at.to_string();
        let arguments = [&["rr", &at, "--calls", "3", "--sizes", "64", "--nodelay"], more].concat();
        said(program(&arguments), &arguments)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The cookie of 36 times this letter.
pub fn cookie_of(letter: u8) -> [u8; 37] {
    let mut cookie = [letter; 37];
    cookie[36] = 0;
    cookie
}

/// Parameters with their length before them.
pub fn parameters(json: &str) -> Vec<u8> {
    [&u32::try_from(json.len()).expect("short").to_be_bytes()[..], json.as_bytes()].concat()
}

/// The next byte; none when the connection ends.
pub fn byte(stream: &mut TcpStream) -> Option<u8> {
    let mut byte = [0];
    match stream.read(&mut byte) {
        Ok(0) => None,
        Ok(_) => Some(byte[0]),
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => None,
        Err(e) => panic!("the server neither answers nor ends the connection: {e}"),
    }
}

/// What is left to read until the server ends the connection.
pub fn rest(stream: &mut TcpStream) -> Vec<u8> {
    std::iter::from_fn(|| byte(stream)).collect()
}

/// `iperf3 -c` with options: its exit code and all it says.
pub fn iperf3_says(served: &Served, options: &[&str]) -> (bool, String) {
    let mut command = Command::new("iperf3");
    command.args(["-c", &served.at.ip().to_string(), "-p", &served.at.port().to_string()]);
    let output = command.args(options).stdin(Stdio::null()).output().expect("iperf3 starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

/// The same, ending well; gives its output.
#[track_caller]
pub fn iperf3(served: &Served, options: &[&str]) -> String {
    let (good, text) = iperf3_says(served, options);
    assert!(good, "iperf3 {options:?}: {text}");
    text
}

/// What a client of an iperf3 says, asked again for a minute while that is not through with the client before: on a busy machine it still
/// tests then, or listens to nobody for a moment.
pub fn once_free(mut ask: impl FnMut() -> Said) -> Said {
    let begun = Instant::now();
    loop {
        let said = ask();
        let told = |word: &&str| said.error.contains(*word) || said.out.contains(*word);
        let refused = ["is busy", "Connection refused", "nobody listens"].iter().any(told);
        // An iperf3 that prints JSON ends well all the same.
        if !refused || begun.elapsed() > NEVER {
            return said;
        }
    }
}

/// Whether there is no iperf3 here to talk to; says so.
pub fn lacks_iperf3() -> bool {
    let lacks = Command::new("iperf3").arg("--version").output().is_err();
    if lacks {
        left_out::for_want_of("there is no iperf3 on this machine (package iperf3)");
    }
    lacks
}
