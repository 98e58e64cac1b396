//! Two namespaces and a cable, and the doctor in either of them.

#[path = "../../../../netlink/tests/namespace/mod.rs"]
mod namespace;

pub use crate::support::QUELL;
pub use namespace::{Namespace, name};
use quell_netlink::{Stack, tc};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// With what a line begins that tells what a doctor found.
pub const LOOKED: &str = "looked: ";

/// Where `there` can be reached.
pub const THERE: &str = "10.0.0.2";

/// Two hosts: `a0` here, `b0` there.
pub struct Net {
    pub here: Namespace,
    pub there: Namespace,
}

impl Net {
    pub fn new() -> Self {
        let (here, there) = namespace::cable();
        Net { here, there }
    }

    /// Puts a queue at the root of `a0` (here) or `b0` (there), as an experiment file would name it.
    pub fn queue(&self, device: &str, queue: &str) {
        queue_at(if device == "a0" { &self.here } else { &self.there }, device, queue);
    }
}

/// Puts a queue at the root of a device, as an experiment file would name it.
pub fn queue_at(at: &Namespace, device: &str, queue: &str) {
    let tree = toml::from_str(&format!("queue = {queue}")).expect("the story names a queue");
    at.run(|| {
        let mut stack = Stack::open().expect("a namespace has a stack");
        let index = stack.index_of(&name(device)).expect("the device is there");
        tc::apply(stack.socket(), index, &tree).expect("the kernel takes the queue");
    });
}

/// Sets a kernel setting.
pub fn set(at: &Namespace, key: &str, value: &str) {
    at.run(|| quell_netlink::sysctl::write(key, value)).expect("the setting can be made");
}

/// The first namespace of the guest, where settings live that all share.
pub fn first() -> Namespace {
    Namespace::of("/proc/1/ns/net")
}

/// The findings of a doctor, from warnings on or with notes.
pub fn examined(at: &Namespace, more: &[&str]) -> Vec<Value> {
    let output = at.run(|| {
        let mut command = Command::new(QUELL);
        command.args(["doctor", "--json"]).args(more).stdin(Stdio::null());
        command.output().expect("quell can be started")
    });
    let said = String::from_utf8_lossy(&output.stdout);
    let json: Value = serde_json::from_str(&said)
        .unwrap_or_else(|e| panic!("{e}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    let findings = json["findings"].as_array().expect("a list of findings").clone();
    let wrong = findings.iter().any(|finding| finding["severity"] != "note");
    assert_eq!(output.status.code(), Some(i32::from(wrong)), "{findings:#?}");
    // Why a check was left out, where a story comes out otherwise.
    let unknown = json["checks"].as_array().into_iter().flatten();
    let unknown = unknown.filter(|check| check["outcome"] != "fine" && check["outcome"] != "found");
    let unknown: Vec<_> =
        unknown.map(|check| format!("{} {}", check["check"], check["detail"])).collect();
    println!("left out: {}", unknown.join("; "));
    // For the table of what was found.
    let ids: BTreeSet<&str> =
        findings.iter().filter_map(|finding| finding["id"].as_str()).collect();
    println!("{LOOKED}{}", ids.into_iter().collect::<Vec<_>>().join(", "));
    findings
}

/// The doctor finds these, and nothing else; gives the findings.
#[track_caller]
pub fn finds(at: &Namespace, wanted: &[&str], more: &[&str]) -> Vec<Value> {
    let findings = examined(at, more);
    let found: BTreeSet<&str> =
        findings.iter().filter_map(|finding| finding["id"].as_str()).collect();
    let wanted: BTreeSet<&str> = wanted.iter().copied().collect();
    assert_eq!(found, wanted, "{findings:#?}");
    findings
}

/// The text of a finding's evidence.
pub fn evidence(findings: &[Value], id: &str) -> String {
    let found = findings.iter().filter(|finding| finding["id"] == id);
    found.map(|finding| format!("{} {}", finding["subject"], finding["evidence"])).collect()
}

/// Somebody there who takes one connection and reads it to its end, or does what `serve` says.
pub fn served<T: Send + 'static>(
    at: &Namespace,
    listener: TcpListener,
    serve: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> JoinHandle<T> {
    at.run(|| std::thread::spawn(move || serve(listener.accept().expect("somebody comes").0)))
}

/// A listener there.
pub fn listener(at: &Namespace) -> TcpListener {
    listener_on(at, THERE)
}

/// A listener at an address.
pub fn listener_on(at: &Namespace, address: &str) -> TcpListener {
    at.run(|| TcpListener::bind((address, 0)).expect("a free port"))
}

/// A connection from here.
pub fn connected(at: &Namespace, listener: &TcpListener) -> TcpStream {
    let to = listener.local_addr().expect("it listens");
    at.run(|| TcpStream::connect(to).expect("it is answered"))
}

/// Reads to the end; how much it was.
pub fn read_all(mut stream: TcpStream) -> u64 {
    let mut bytes = vec![0; 65_536];
    let mut all = 0;
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        all += count as u64;
    }
    all
}

/// Sends so many bytes from here to there, to its end.
pub fn transfer(net: &Net, bytes: usize) {
    transfer_to(&net.here, &net.there, THERE, bytes);
}

/// Sends so many bytes from one host to an address of another, to its end.
pub fn transfer_to(from: &Namespace, to: &Namespace, address: &str, bytes: usize) {
    let listener = listener_on(to, address);
    let mut stream = connected(from, &listener);
    let reader = served(to, listener, read_all);
    stream.write_all(&vec![7; bytes]).expect("it is taken");
    drop(stream);
    assert_eq!(reader.join().expect("it reads"), bytes as u64);
}

/// Keeps a connection busy from here to there, until it is dropped.
pub struct Busy {
    stream: TcpStream,
    writer: Option<JoinHandle<()>>,
}

impl Busy {
    /// Writes as fast as the connection takes it.
    pub fn new(stream: TcpStream) -> Self {
        let mut writes = stream.try_clone().expect("a descriptor");
        let writer = std::thread::spawn(move || {
            let bytes = vec![7; 16_384];
            while writes.write_all(&bytes).is_ok() {}
        });
        Busy { stream, writer: Some(writer) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Lets the guest's time pass.
pub fn pass(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}
