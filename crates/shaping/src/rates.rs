//! Who has how much of a line just now: two readings, and what went between them.
//!
//! ```text
//!   reading ─┐
//!            ├─ by second ─► rate, drops, marks;  what waits as it is;  how long that takes: CAKE says, else what waits ÷ what went
//!   reading ─┘
//! ```

use crate::class_report::{self, HostSlots, LineClass, roots};
use crate::{CommandError, UndoLogs};
use quell_act::{Kernel, Log, Machine};
use quell_sys::clock::monotonic_ns;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

pub struct Reading {
    at_ns: u64,
    lines: Vec<ShapedLine>,
}

struct ShapedLine {
    device: String,
    wanted: String,
    queues: Vec<ReadQueue>,
}

/// One root queue, with all of it first and then its classes.
struct ReadQueue {
    device: String,
    kind: String,
    classes: Vec<LineClass>,
    hosts: Option<HostSlots>,
}

/// Two hosts may have one name.
type ClassKey<'a> = (&'a str, Option<&'a str>, &'a str, Option<u16>);

#[derive(Debug, Serialize)]
pub struct RatesReport {
    pub seconds: f64,
    pub shaped: Vec<LineRatesNow>,
}

#[derive(Debug, Serialize)]
pub struct LineRatesNow {
    pub device: String,
    pub wanted: String,
    pub queues: Vec<QueueRates>,
}

#[derive(Debug, Serialize)]
pub struct QueueRates {
    pub device: String,
    pub kind: String,
    pub hosts: Option<HostSlots>,
    /// All of it first.
    pub parts: Vec<ClassRates>,
}

/// What went in a second, and what waits. Rates are unknown where there is nothing to compare with, or the queue was made anew.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassRates {
    pub name: String,
    pub host: Option<String>,
    pub place: Option<u16>,
    pub addresses: Vec<IpAddr>,
    pub mac: Option<String>,
    pub bits_per_second: Option<f64>,
    pub packets_per_second: Option<f64>,
    pub dropped_per_second: Option<f64>,
    pub marked_per_second: Option<f64>,
    pub backlog_packets: u64,
    pub backlog_bytes: u64,
    pub delay_us: Option<f64>,
    pub delay_is_reckoned: bool,
}

impl ClassRates {
    fn between(before: Option<&LineClass>, now: &LineClass, seconds: f64) -> Self {
        let whole = before.filter(|before| before.sent_bytes <= now.sent_bytes);
        let rate =
            |of: fn(&LineClass) -> u64| Some(of(now).checked_sub(of(whole?))? as f64 / seconds);
        let bits = rate(|class| class.sent_bytes).map(|bytes| 8.0 * bytes);
        let waiting = 8.0 * now.backlog_bytes as f64;
        let delay_us = bits.and_then(|bits| match now.delay_us {
            Some(told) => Some(told as f64),
            None if waiting == 0.0 => Some(0.0),
            // What waits while nothing goes will wait nobody knows how long.
            None => (bits > 0.0).then(|| waiting / bits * 1e6),
        });
        ClassRates {
            name: now.name.clone(),
            host: now.host.clone(),
            place: now.place,
            addresses: now.addresses.clone(),
            mac: now.mac.clone(),
            bits_per_second: bits,
            packets_per_second: rate(|class| class.sent_packets),
            dropped_per_second: rate(|class| class.dropped_packets),
            marked_per_second: rate(|class| class.marked_packets),
            backlog_packets: now.backlog_packets,
            backlog_bytes: now.backlog_bytes,
            delay_us,
            delay_is_reckoned: now.delay_us.is_none(),
        }
    }

    pub fn is_moving(&self) -> bool {
        let moved = [self.packets_per_second, self.dropped_per_second];
        self.backlog_packets > 0 || moved.into_iter().flatten().sum::<f64>() > 0.0
    }
}

impl Reading {
    /// Reads all that is in force, or what is on one interface.
    pub fn take(
        logs: &UndoLogs,
        device: Option<&str>,
        kernel: &mut Kernel,
    ) -> Result<Self, CommandError> {
        let mut lines = Vec::new();
        let meant = |log: &Log| device.is_none_or(|device| device == log.begun.device);
        for log in logs.all()?.into_iter().filter(meant) {
            let now = kernel.read(&(&log.begun.before).into()).map_err(CommandError::system)?;
            let queue = |(device, snapshot, root): (String, _, _)| {
                let mut classes = vec![class_report::whole(snapshot, root)];
                classes.extend(class_report::parts(&log, snapshot, root));
                let hosts = class_report::places(snapshot);
                ReadQueue { device, kind: root.kind.clone(), classes, hosts }
            };
            let queues = roots(&log, &now).into_iter().map(queue).collect();
            lines.push(ShapedLine { device: log.begun.device, wanted: log.begun.wanted, queues });
        }
        Ok(Reading { at_ns: monotonic_ns(), lines })
    }

    pub fn since(self, before: &Reading) -> (RatesReport, Reading) {
        let seconds = self.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let known = before.by_key();
        let queue = |queue: &ReadQueue| QueueRates {
            device: queue.device.clone(),
            kind: queue.kind.clone(),
            hosts: queue.hosts.clone(),
            parts: queue
                .classes
                .iter()
                .map(|class| {
                    ClassRates::between(known.get(&key(queue, class)).copied(), class, seconds)
                })
                .collect(),
        };
        let line = |line: &ShapedLine| LineRatesNow {
            device: line.device.clone(),
            wanted: line.wanted.clone(),
            queues: line.queues.iter().map(queue).collect(),
        };
        (RatesReport { seconds, shaped: self.lines.iter().map(line).collect() }, self)
    }

    fn by_key(&self) -> BTreeMap<ClassKey<'_>, &LineClass> {
        let queues = self.lines.iter().flat_map(|line| &line.queues);
        let classes =
            queues.flat_map(|queue| queue.classes.iter().map(move |c| (key(queue, c), c)));
        classes.collect()
    }
}

fn key<'a>(queue: &'a ReadQueue, class: &'a LineClass) -> ClassKey<'a> {
    (&queue.device, class.host.as_deref(), &class.name, class.place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(sent: u64, waiting: u64, delay_us: Option<u64>) -> LineClass {
        LineClass {
            name: "ann".into(),
            sent_packets: sent / 1500,
            sent_bytes: sent,
            dropped_packets: sent / 15_000,
            backlog_packets: waiting / 1500,
            backlog_bytes: waiting,
            delay_us,
            ..LineClass::default()
        }
    }

    #[test]
    fn how_long_packets_wait_is_told_by_cake_and_reckoned_of_others() {
        let delay =
            |now: LineClass| ClassRates::between(Some(&class(0, 0, None)), &now, 2.0).delay_us;
        // 1.5 MB in 2 s are 6 Mbit/s; 15 kB take 20 ms of them.
        assert_eq!(delay(class(1_500_000, 15_000, None)), Some(20_000.0));
        assert_eq!(delay(class(1_500_000, 15_000, Some(7_000))), Some(7_000.0));
        assert_eq!(delay(class(1_500_000, 0, None)), Some(0.0));
        assert_eq!(delay(class(0, 15_000, None)), None, "nothing goes: nobody knows");
        let anew = ClassRates::between(Some(&class(3_000, 0, None)), &class(1_500, 0, None), 1.0);
        assert_eq!((anew.bits_per_second, anew.packets_per_second), (None, None), "made anew");
    }
}
