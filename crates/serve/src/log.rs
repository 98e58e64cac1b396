//! The log: lines that are written one after another, while nobody who has them waits for that.
//!
//! ```text
//!   sessions ──put──► at most 1,000 lines ──► one thread ──► pipe, file, terminal
//!                          └── full: counted, and told as soon as there is room
//! ```
//!
//! A reader who does not read stops that thread, and nothing else: neither a session nor the server's end.

use crate::ServeEvent;
use crate::limits::{SERVER, lock};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

#[derive(Debug)]
pub struct Log {
    lines: SyncSender<ServeEvent>,
    shared: Arc<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    missing: AtomicU64,
    written: Mutex<bool>,
    done: Condvar,
}

impl Log {
    /// Writes to `to` from a thread of its own, each event as `line` has it, at once. Errors when there can't be one more thread.
    pub fn start(
        to: impl Write + Send + 'static,
        line: impl Fn(&ServeEvent) -> String + Send + 'static,
    ) -> std::io::Result<Self> {
        let (lines, news) = sync_channel(SERVER.log_lines);
        let shared = Arc::new(LogState::default());
        let theirs = Arc::clone(&shared);
        // Nobody joins it: it may be blocked in its pipe when the process ends.
        std::thread::Builder::new().name("log".into()).spawn(move || {
            write(to, &line, &news, &theirs.missing);
            *lock(&theirs.written) = true;
            theirs.done.notify_all();
        })?;
        Ok(Self { lines, shared })
    }

    /// Adds an event, or counts it as missing. Never blocks.
    pub fn put(&self, event: &ServeEvent) {
        if self.lines.try_send(event.clone()).is_err() {
            self.shared.missing.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn finish(self, most: Duration) {
        let Self { lines, shared } = self;
        drop(lines);
        let written = lock(&shared.written);
        drop(shared.done.wait_timeout_while(written, most, |written| !*written));
    }
}

fn write(
    mut to: impl Write,
    line: &dyn Fn(&ServeEvent) -> String,
    news: &Receiver<ServeEvent>,
    missing: &AtomicU64,
) {
    let mut put = |event: &ServeEvent| {
        let text = line(event) + "\n";
        // A log that can't be written is no reason to end the tests of others.
        let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    };
    let tell_missing = |put: &mut dyn FnMut(&ServeEvent)| {
        let events = missing.swap(0, Ordering::Relaxed);
        if events > 0 {
            put(&ServeEvent::Missing { events });
        }
    };
    while let Ok(event) = news.recv() {
        put(&event);
        tell_missing(&mut put);
    }
    tell_missing(&mut put);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn event(sessions: u64) -> ServeEvent {
        ServeEvent::Stopped { sessions, reflected: 0 }
    }

    fn line(event: &ServeEvent) -> String {
        event.to_string()
    }

    #[test]
    fn a_log_that_nobody_reads_holds_nobody_up_and_what_is_missing_is_counted() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let log = Log::start(writer, line).unwrap();
        // Far more than a pipe and the queue hold.
        let all = 50_000;
        (0..all).for_each(|n| log.put(&event(n)));
        log.finish(Duration::from_millis(1));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let missing: u64 = text
            .lines()
            .filter_map(|line| line.strip_suffix(" events not written"))
            .map(|count| count.parse::<u64>().unwrap())
            .sum();
        let written = text.lines().filter(|line| line.starts_with("stopped after")).count();
        assert!(missing > 0);
        assert_eq!(written as u64 + missing, all);
    }

    #[test]
    fn what_was_told_before_the_end_is_written() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let log = Log::start(writer, line).unwrap();
        (0..20).for_each(|n| log.put(&event(n)));
        log.finish(Duration::from_secs(60));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count(), 20);
    }

    #[test]
    fn a_reader_that_is_gone_ends_nothing() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let log = Log::start(writer, line).unwrap();
        (0..20).for_each(|n| log.put(&event(n)));
        log.finish(Duration::from_secs(60));
    }
}
