//! What is told about a capture: the one description from which text and JSON come.

use crate::advice;
use crate::connection::{EndSummary, Ending, Handshake, RttSummary, Summary, Tally};
use crate::found::{self, Found};
use crate::remark::{Cause, Held, Need, Remark, Side};
use crate::time::{Time, millis, millis_or_null};
use quell_finding::to_do;
use quell_units::Span;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a capture told. As JSON its keys are a promise: more may join them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Format of the file.
    pub format: &'static str,
    /// Packets that were read.
    pub packets: u64,
    /// Those of TCP.
    pub tcp_packets: u64,
    /// When the first packet passed, in nanoseconds since 1970.
    #[serde(rename = "begin_unix_ns")]
    pub begin: Time,
    /// From the first packet to the last: at least, if the clock was set back once; none if more often.
    #[serde(rename = "duration_ms", serialize_with = "millis_or_null")]
    pub duration: Option<Span>,
    /// How often the clock was set back by more than captures swap packets. The time until each is not known, and left out everywhere.
    pub clock_steps: u64,
    /// Packets of which not all was captured. Lengths are still right.
    pub cut_packets: u64,
    /// Packets whose time is before that of the one before.
    pub clock_set_back: u64,
    /// Packets for which the file tells no time; they take that of the one before.
    pub without_time: u64,
    /// TCP packets that are in it before: captured on two devices, or doubled by the network. The first look counts.
    pub captured_twice: u64,
    /// TCP packets that were read out of a tunnel, by the outermost.
    pub tunnels: BTreeMap<&'static str, u64>,
    /// What was passed over.
    pub skipped: Skipped,
    /// Packets that are no TCP, by what they are.
    pub other_protocols: BTreeMap<String, u64>,
    /// Why reading ended early, if it did.
    pub stopped: Option<String>,
    /// Connections in all.
    pub connections_seen: u64,
    /// Connections that were still open when they were given up for others, to bound memory.
    pub connections_given_up: u64,
    /// Connections that are only counted, to bound memory.
    pub connections_not_listed: u64,
    /// The connections, in the order of their first packets.
    pub connections: Vec<ConnectionReport>,
}

/// Packets that were passed over, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Skipped {
    /// Neither IPv4 nor IPv6.
    pub not_ip: u64,
    /// Not TCP.
    pub not_tcp: u64,
    /// Fragments of IP packets, which are not put together.
    pub fragments: u64,
    /// Too little was captured for the headers.
    pub cut_short: u64,
    /// They contradict themselves.
    pub malformed: u64,
    /// Of a kind of link that is not read.
    pub unknown_link: u64,
    /// The last such link's number in the list of link types.
    pub link_type: Option<u32>,
}

/// A connection.
#[derive(Debug, Clone, Serialize)]
pub struct ConnectionReport {
    /// Its number, from 1.
    pub number: u64,
    /// Who opened it, or was seen first.
    pub client: String,
    /// The other one.
    pub server: String,
    /// Its opening was captured. If not, windows are not scaled and who is the client is a guess.
    pub opened: bool,
    /// How it ended.
    pub ending: Ending,
    /// Its first packet, from the capture's first.
    #[serde(rename = "begin_ms", serialize_with = "millis")]
    pub begin: Span,
    /// Whether the file has a time of each packet: else nothing is known of waits that are not there.
    #[serde(skip)]
    pub(crate) timed: bool,
    /// From its first packet to its last, as far as that of the capture is known.
    #[serde(rename = "duration_ms", serialize_with = "millis_or_null")]
    pub duration: Option<Span>,
    /// Round trip of the opening, both parts together.
    #[serde(rename = "handshake_rtt_ms", serialize_with = "millis_or_null")]
    pub handshake_rtt: Option<Span>,
    /// The opening's parts, as seen from where the capture was made.
    pub handshake: Handshake,
    /// What the client sent.
    pub client_to_server: EndSummary,
    /// What the server sent.
    pub server_to_client: EndSummary,
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// Marks by cause, all of them.
    pub tallies: BTreeMap<Cause, Tally>,
    /// Packets whose numbers belong to no sense of this connection.
    pub strange_packets: u64,
    /// Marks that are only counted.
    pub marks_not_listed: u64,
    /// Marks in order of time.
    pub marks: Vec<MarkReport>,
    /// What they come to: those of one kind and direction are one finding.
    pub findings: Vec<Found>,
}

/// A mark, with what shows it and what to do, in the words of its finding.
#[derive(Debug, Clone, Serialize)]
pub struct MarkReport {
    /// When, from the capture's first packet.
    #[serde(rename = "at_ms", serialize_with = "millis")]
    pub at: Span,
    /// Whose data it is about.
    pub side: Side,
    /// Why.
    pub cause: Cause,
    /// How long was waited.
    #[serde(rename = "waited_ms", serialize_with = "millis_or_null")]
    pub waited: Option<Span>,
    /// Payload of the segment that it is about, in bytes.
    pub length: u32,
    /// For a full window: what it was while it was full, all but the smallest and the largest for a tenth of the time each; half of the time
    /// it was no larger than `length`.
    pub windows: Option<[u32; 2]>,
    /// The packets that show it, as tcpdump counts.
    pub packets: Vec<u64>,
    /// What was held.
    pub held: Option<Held>,
    /// The other end had the data already.
    pub spurious: bool,
    /// It had the data before this or before another retransmission of it.
    pub perhaps_spurious: bool,
    /// It lasted until the end.
    pub open: bool,
    /// In a few words.
    pub text: String,
    /// What shows it.
    pub evidence: String,
    /// Who waited, and for what.
    pub who: String,
    /// What to change.
    pub advice: Option<String>,
}

impl ConnectionReport {
    /// Takes out what a file without times can't tell.
    pub(crate) fn forget_times(&mut self) {
        (self.duration, self.handshake_rtt) = (None, None);
        self.handshake = Handshake::default();
        for end in [&mut self.client_to_server, &mut self.server_to_client] {
            end.rtt = RttSummary::default();
        }
    }

    /// Describes a connection of a capture that began at `begin`.
    pub(crate) fn new(number: u64, begin: Time, summary: Summary) -> Self {
        let (client, server) = (summary.client.to_string(), summary.server.to_string());
        let finding = |mark: &Remark| match mark.side {
            Side::Client => advice::finding(mark, &client, &server),
            Side::Server => advice::finding(mark, &server, &client),
        };
        let mark = |mark: &Remark| {
            let told = finding(mark);
            MarkReport {
                at: mark.time.since(begin),
                side: mark.side,
                cause: mark.cause,
                waited: mark.waited,
                length: mark.length,
                windows: mark.windows,
                packets: mark.packets.iter().flatten().copied().collect(),
                held: mark.held,
                spurious: mark.need.is_needless(),
                perhaps_spurious: mark.need == Need::OneOfSeveral,
                open: mark.open,
                text: advice::text(mark),
                evidence: told.evidence.first().map(ToString::to_string).unwrap_or_default(),
                advice: to_do(&told),
                who: told.says,
            }
        };
        let marks: Vec<_> = summary.marks.iter().map(mark).collect();
        let each = summary.marks.iter().map(|mark| (mark, finding(mark), mark.time.since(begin)));
        let findings = found::of(each, number);
        let all: u64 = summary.tallies.values().map(|tally| tally.count).sum();
        let again = summary.tallies.iter().filter(|(cause, _)| cause.is_retransmission());
        ConnectionReport {
            number,
            opened: summary.opened,
            ending: summary.ending,
            timed: true,
            begin: summary.times.0.since(begin),
            duration: Some(summary.times.1.since(summary.times.0)),
            handshake_rtt: summary.handshake.rtt(),
            handshake: summary.handshake,
            retransmissions: again.map(|(_, tally)| tally.count).sum(),
            client_to_server: summary.up,
            server_to_client: summary.down,
            tallies: summary.tallies,
            strange_packets: summary.strange,
            marks_not_listed: all - marks.len() as u64,
            marks,
            findings,
            client,
            server,
        }
    }
}
