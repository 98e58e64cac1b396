//! Running the program `quell` as a person does, each test in a folder of its own.

// Each test binary uses its part of this.
#![allow(dead_code)]

pub mod cable;
pub mod left_out;
pub mod sshd;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// What the program said, and how it ended.
pub struct Said {
    /// Exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub error: String,
    asked: String,
}

impl Said {
    /// It ended well, and without a word of complaint; gives its output.
    #[track_caller]
    pub fn fine(self) -> String {
        assert_eq!(self.code, Some(0), "{}: {}", self.asked, self.error);
        assert_eq!(self.error, "", "{}: no complaint", self.asked);
        self.out
    }

    /// It ended with this code, printed nothing but an error, and did not panic; gives the error.
    #[track_caller]
    pub fn refused(self, code: i32) -> String {
        let Said { out, error, asked, .. } = self;
        assert_eq!(self.code, Some(code), "{asked}: {out}{error}");
        assert_eq!(out, "", "{asked}: only an error is printed");
        assert!(!error.contains("panicked"), "{asked}: {error}");
        assert!(error.len() < 4_000, "{asked}: an error that a person reads: {error}");
        error
    }
}

/// An empty folder to call the program in.
pub struct TestFolder {
    folder: tempfile::TempDir,
}

impl TestFolder {
    /// A new one.
    pub fn new() -> Self {
        TestFolder { folder: tempfile::tempdir().expect("the test needs a folder") }
    }

    /// A place in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).expect("a file can be written");
    }

    /// What is in it, by name.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("the folder can be read");
        let mut names: Vec<String> = entries
            .map(|e| e.expect("an entry can be read").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The program with arguments, to be started in the folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(arguments);
        command.current_dir(self.folder.path());
        command
    }

    /// Calls the program.
    pub fn quell(&self, arguments: &[&str]) -> Said {
        said(self.command(arguments), arguments)
    }

    /// Calls `quell run` on a file, with a kernel that is not there: what is accepted ends with exit code 3, and nothing ever starts.
    pub fn run(&self, file: &str, more: &[&str]) -> Said {
        let none = ["run", file, "--out", "runs", "--kernel-file", "no-such-kernel"];
        self.quell(&[&none, more].concat())
    }
}

/// The program with arguments.
pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Calls a command to its end.
pub fn said(mut command: Command, arguments: &[&str]) -> Said {
    answer(&mut command, arguments)
}

/// The same of one that may be called again.
pub fn answer(command: &mut Command, arguments: &[&str]) -> Said {
    let output = command.output().expect("the program can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("all it prints is UTF-8");
    Said {
        code: output.status.code(),
        out: text(output.stdout),
        error: text(output.stderr),
        asked: format!("quell {}", arguments.join(" ")),
    }
}

/// A program that was started; it does not outlive its test, and is not waited for without end.
pub struct Running {
    child: Child,
    out: Receiver<Vec<u8>>,
    error: Receiver<Vec<u8>>,
    asked: String,
}

/// How long a program is waited for. Those of tests take seconds.
const PATIENCE: Duration = Duration::from_secs(600);

fn all_of(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (all, taken) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        // Nobody waits for it where a test is over.
        let _ = all.send(bytes);
    });
    taken
}

impl Running {
    pub fn start(command: &mut Command, arguments: &[&str]) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program can be started");
        let out = all_of(child.stdout.take().expect("it is piped"));
        let error = all_of(child.stderr.take().expect("it is piped"));
        Running { child, out, error, asked: format!("quell {}", arguments.join(" ")) }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(mut self) -> Said {
        let until = Instant::now() + PATIENCE;
        let asked = self.asked.clone();
        let text = |pipe: &Receiver<Vec<u8>>| {
            let bytes = pipe.recv_timeout(until.saturating_duration_since(Instant::now()));
            let bytes = bytes.unwrap_or_else(|_| panic!("{asked}: no end after {PATIENCE:?}"));
            String::from_utf8(bytes).expect("all it prints is UTF-8")
        };
        let (out, error) = (text(&self.out), text(&self.error));
        let code = self.child.wait().expect("it was started").code();
        Said { code, out, error, asked }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Mostly it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An error says all that it should.
#[track_caller]
pub fn says(error: &str, words: &[&str]) {
    // What is wrapped says the same.
    let line = error.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(error.contains(word) || line.contains(word), "`{word}` should be in: {error}");
    }
}

/// Whether a file is there, for messages that name one.
#[track_caller]
pub fn nothing_at(path: &Path) {
    assert!(!path.exists(), "{} should not be there", path.display());
}

/// A file of irtt with these round trips: when each was sent, in milliseconds since 1970, and how many milliseconds it took.
pub fn irtt(trips: impl Iterator<Item = (u64, u64)>) -> String {
    let trip = |(seq, (at, ms)): (usize, (u64, u64))| {
        serde_json::json!({
            "seqno": seq, "lost": "false", "timestamps": {"client": {"send": {"wall": at * 1_000_000}}},
            "delay": {"rtt": ms * 1_000_000},
        })
    };
    let trips: Vec<_> = trips.enumerate().map(trip).collect();
    serde_json::json!({"round_trips": trips, "stats": {}}).to_string()
}
