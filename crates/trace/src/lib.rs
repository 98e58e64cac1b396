//! What captured packets tell about TCP connections: who waited, for what, and what to change.
//!
//! ```text
//!   stream ──capture── Frame ──packet── TcpPacket ──connections── connection: state machines ── counts and moments
//!             pcap,                Ethernet … TCP       one of many, the quietest given up └─ report ── findings, text, JSON
//!             pcapng
//! ```
//!
//! One pass, in memory that does not grow with the capture. A capture that breaks off or lies gives an error with its
//! place, and what was read until then. No clock, no network: only a stream of bytes.

#![allow(missing_docs)]

pub mod capture;
pub mod connection;
mod connections;
pub mod moment;
pub mod packet;
mod report;
mod sighting;
mod text;
mod time;

pub use capture::CaptureError;
pub use connections::TraceLimits;
pub use moment::{ConnectionEnd, TcpEvent, TcpMoment};
pub use report::{ConnectionReport, MomentReport, Skipped, TraceReport};
pub use text::{connection as connection_text, overview as overview_text};
pub use time::Time;

use capture::Capture;
use connections::ConnectionTable;
use packet::{NotTcp, Skip, TcpPacket};
use std::collections::BTreeMap;
use std::io::Read;
use time::CaptureClock;

/// What to look for.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceOptions {
    /// Only the connection with this number, from 1, in the order of their first packets.
    pub only: Option<u64>,
    /// What is kept in memory.
    pub limits: TraceLimits,
}

/// What was found, and why reading ended if it was not the end of the capture.
#[derive(Debug)]
pub struct TraceOutcome {
    /// All that was found until then.
    pub report: TraceReport,
    /// Why it ended early.
    pub broke_off: Option<CaptureError>,
}

/// Reads a capture to its end.
///
/// # Errors
///
/// If it is no capture at all. One that can be read in part gives a [`TraceOutcome`] with that part.
pub fn analyse(reader: impl Read, options: &TraceOptions) -> Result<TraceOutcome, CaptureError> {
    let mut capture = Capture::open(reader)?;
    let mut table = ConnectionTable::new(options.limits, options.only);
    let mut report = TraceReport { format: capture.format(), ..TraceReport::default() };
    let mut first = None;
    let mut now = Time::default();
    let mut clock = CaptureClock::default();
    let mut others: BTreeMap<NotTcp, u64> = BTreeMap::new();
    let broke_off = loop {
        let frame = match capture.packet() {
            Ok(Some(frame)) => frame,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        report.packets += 1;
        report.cut_packets += u64::from((frame.bytes.len() as u64) < u64::from(frame.length));
        match frame.time {
            Some(time) => {
                first.get_or_insert(time);
                now = clock.read(time);
            }
            None => report.without_time += 1,
        }
        let number = frame.number;
        match TcpPacket::read(&frame) {
            Ok(packet) => {
                report.tcp_packets += 1;
                if let Some(tunnel) = packet.tunnel {
                    *report.tunnels.entry(tunnel.name()).or_default() += 1;
                }
                table.packet(now, number, &packet);
            }
            Err(skip) => {
                report.skipped.count(skip);
                if let Skip::NotIp(what) | Skip::NotTcp(what) = skip
                    && (others.len() < MOST_KINDS || others.contains_key(&what))
                {
                    *others.entry(what).or_default() += 1;
                }
            }
        }
    };
    let begin = first.unwrap_or_default();
    report.begin = begin;
    (report.clock_set_back, report.clock_steps) = (clock.earlier, clock.steps);
    report.duration = first.and_then(|begin| clock.known(now.since(begin)));
    report.stopped = broke_off.as_ref().map(ToString::to_string);
    let skipped = report.skipped.not_ip + report.skipped.not_tcp;
    let beyond = skipped - others.values().sum::<u64>();
    let named = others.into_iter().map(|(what, count)| (what.to_string(), count));
    let beyond = (beyond > 0).then(|| ("further kinds".to_owned(), beyond));
    report.other_protocols = named.chain(beyond).collect();
    let listed = table.finish();
    report.connections_seen = table.begun;
    report.connections_given_up = table.given_up;
    report.captured_twice = table.twice;
    let told = |(number, summary)| {
        let mut connection = ConnectionReport::new(number, begin, summary);
        connection.duration = connection.duration.and_then(|span| clock.known(span));
        connection.timed = report.without_time == 0;
        if first.is_none() {
            connection.forget_times();
        }
        connection
    };
    report.connections = listed.into_iter().map(told).collect();
    if options.only.is_none() {
        report.connections_not_listed = table.begun - report.connections.len() as u64;
    }
    Ok(TraceOutcome { report, broke_off })
}

/// Kinds of packets that are named; of a capture of nonsense there are more than anybody reads.
const MOST_KINDS: usize = 64;

impl Skipped {
    fn count(&mut self, skip: Skip) {
        let place = match skip {
            Skip::Link(number) => {
                self.link_type = Some(number);
                &mut self.unknown_link
            }
            Skip::NotIp(_) => &mut self.not_ip,
            Skip::NotTcp(_) => &mut self.not_tcp,
            Skip::Fragment => &mut self.fragments,
            Skip::CutShort => &mut self.cut_short,
            Skip::Malformed => &mut self.malformed,
        };
        *place += 1;
    }
}
