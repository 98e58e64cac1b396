//! `-F FILE`: a file whose content is sent, or to which what comes is written.
//!
//! ```text
//!   up     FILE ──► each stream, from its start ──► the server           over at its end, after -t, or after -n
//!   down   the server ──► a file without a name ──► FILE, when it is over: what broke off leaves what was there
//! ```

use crate::failure::Failure;
use nix::fcntl::OFlag;
use quell_flow::{Amount, Disk, Outcome, Senders};
use quell_store::Growing;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// The file of a test.
pub struct Filed {
    pub disk: Arc<Disk>,
    /// What comes; none where it is sent.
    growing: Option<Growing>,
}

impl Filed {
    /// Opens what is to be sent, or, `receives`, what comes. Only regular files: pipes and devices have no length, and some never end.
    pub fn open(path: &Path, receives: bool) -> Result<Self, Failure> {
        let name = path.display().to_string();
        if receives {
            let open = || {
                let growing = Growing::new(path)?;
                Ok((growing.file()?, growing))
            };
            let (file, growing) = open().map_err(|error| refused(&name, &error))?;
            let disk = Arc::new(Disk::new(file, name, 0));
            return Ok(Self { disk, growing: Some(growing) });
        }
        let open = || -> std::io::Result<(File, std::fs::Metadata)> {
            let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
            let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
            let what = file.metadata()?;
            Ok((file, what))
        };
        let (file, what) = open().map_err(|error| refused(&name, &error))?;
        if !what.is_file() {
            return Err(Failure::unusable(format!(
                "-F {name}: it is no regular file, and only these are sent"
            )));
        }
        if what.len() == 0 {
            return Err(Failure::unusable(format!(
                "-F {name}: the file is empty: there is nothing to send"
            )));
        }
        Ok(Self { disk: Arc::new(Disk::new(file, name, what.len())), growing: None })
    }

    /// Gives what came its name, if the test went well. The error where it could not be sent or written.
    pub fn close(self, outcome: &Outcome) -> Result<(), Failure> {
        let (name, receives) = (self.disk.name(), self.growing.is_some());
        let as_it_was = if receives {
            format!("; nothing is at {name} that was not there before")
        } else {
            String::new()
        };
        if let Some(error) = self.disk.failed() {
            return Err(Failure::unreadable(format!(
                "{error}{as_it_was}; what was measured until then is above"
            )));
        }
        match self.growing.filter(|_| outcome.broke.is_none()) {
            Some(growing) => growing.keep().map_err(|error| {
                Failure::unreadable(format!(
                    "-F {name}: it could not be written: {error}{as_it_was}"
                ))
            }),
            None => Ok(()),
        }
    }
}

fn refused(name: &str, error: &std::io::Error) -> Failure {
    let said = format!("-F {name}: {error}");
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::Other => Failure::unusable(said),
        _ => Failure::unreadable(said),
    }
}

/// Its name for a terminal.
pub fn shown(file: &Disk) -> String {
    quell_wire::text::printable(file.name(), 200)
}

/// How much of it went.
struct Gone {
    /// Bytes that were acknowledged, or that came.
    bytes: u64,
    /// What all streams together would have sent of it; none where it is written.
    all: Option<u64>,
    /// Whether it was sent to its end.
    whole: bool,
}

fn gone(outcome: &Outcome, file: &Disk) -> Gone {
    let plan = &outcome.plan;
    if plan.direction == Senders::Down {
        let bytes = outcome.lanes.iter().map(|lane| lane.moved.0).sum();
        return Gone { bytes, all: None, whole: false };
    }
    let bytes = outcome.lanes.iter().map(|lane| lane.mark.moment.bytes).sum();
    let all = file.length().saturating_mul(plan.streams.into());
    Gone { bytes, all: Some(all), whole: bytes >= all }
}

/// What became of it, in a sentence; none without one, and of a test that broke off.
pub fn sentence(outcome: &Outcome, received: Option<u64>, seconds: Option<f64>) -> Option<String> {
    let file = outcome.plan.file.as_ref().filter(|_| outcome.broke.is_none())?;
    let (name, gone) = (shown(file), gone(outcome, file));
    let time = seconds.map_or(String::new(), |seconds| format!(" in {seconds:.2} s"));
    let Some(all) = gone.all else {
        return Some(format!("{} bytes are written to {name}", gone.bytes));
    };
    let each = match outcome.plan.streams {
        1 => String::new(),
        streams => format!(" by each of {streams} streams"),
    };
    let sent = match gone.whole {
        true => format!("all {} bytes of {name} were sent{each}{time}", file.length()),
        false => {
            let why = match (outcome.stopped, outcome.plan.amount) {
                (true, _) => "it was stopped",
                (_, Amount::Time(_)) => "its time was over (-t)",
                _ => "no more was asked for (-n, -k)",
            };
            let part = super::figures::percent(gone.bytes as f64 / all as f64);
            format!("{} of {all} bytes of {name} ({part}) were sent{each}{time}; {why}", gone.bytes)
        }
    };
    // An iperf3 server reads no further when it hears of the end.
    let unread = received.filter(|received| *received < gone.bytes).map(|received| {
        format!(
            "; all of them were acknowledged, but the server's program had read {received} of them when the test ended, and may not have the rest"
        )
    });
    Some(sent + &unread.unwrap_or_default())
}

/// The same for programs.
pub fn json(outcome: &Outcome) -> Value {
    let Some(file) = &outcome.plan.file else { return Value::Null };
    let gone = gone(outcome, file);
    let (sent, written) = match gone.all {
        Some(_) => (Some(gone.bytes), None),
        None => (None, Some(gone.bytes)),
    };
    json!({
        "name": file.name(),
        "size_bytes": gone.all.map(|_| file.length()),
        "sent_bytes": sent,
        "sent_whole": gone.all.map(|_| gone.whole),
        "written_bytes": written,
        "error": file.failed().map(ToString::to_string),
    })
}
