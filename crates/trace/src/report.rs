//! What is told about a capture: the one description from which text and JSON come.

use crate::connection::{ConnectionSummary, EndSummary, Ending, EventCount, Handshake, RttSummary};
use crate::moment::{ConnectionEnd, TcpEvent, TcpMoment};
use crate::time::{Time, millis, millis_or_null};
use quell_cause::calls::{EndFinding, Endpoint};
use quell_cause::capture::costliest_first;
use quell_units::Span;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a capture told. As JSON its keys are a promise: more may join them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TraceReport {
    pub format: &'static str,
    pub packets: u64,
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
    pub skipped: Skipped,
    /// Packets that are no TCP, by what they are.
    pub other_protocols: BTreeMap<String, u64>,
    pub stopped: Option<String>,
    pub connections_seen: u64,
    /// Connections that were still open when they were given up for others, to bound memory.
    pub connections_given_up: u64,
    /// Connections that are only counted, to bound memory.
    pub connections_not_listed: u64,
    pub connections: Vec<ConnectionReport>,
}

/// Packets that were passed over, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Skipped {
    pub not_ip: u64,
    pub not_tcp: u64,
    /// Fragments of IP packets, which are not put together.
    pub fragments: u64,
    /// Too little was captured for the headers.
    pub cut_short: u64,
    pub malformed: u64,
    /// Of a kind of link that is not read.
    pub unknown_link: u64,
    /// The last such link's number in the list of link types.
    pub link_type: Option<u32>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ConnectionReport {
    /// From 1, in the order of their first packets.
    pub number: u64,
    /// Who opened it, or was seen first.
    pub client: String,
    pub server: String,
    /// Its opening was captured. If not, windows are not scaled and who is the client is a guess.
    pub opened: bool,
    pub ending: Ending,
    /// Its first packet, from the capture's first.
    #[serde(rename = "begin_ms", serialize_with = "millis")]
    pub begin: Span,
    /// The file has a time of each packet: else nothing is known of waits that are not there.
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
    pub client_to_server: EndSummary,
    pub server_to_client: EndSummary,
    pub retransmissions: u64,
    pub events: BTreeMap<TcpEvent, EventCount>,
    /// Packets whose numbers belong to no sense of this connection.
    pub strange_packets: u64,
    /// Moments that are only counted.
    pub moments_not_listed: u64,
    pub moments: Vec<MomentReport>,
    /// The causes of both directions, the costliest first.
    pub findings: Vec<EndFinding>,
    /// For how long the findings were waited for.
    #[serde(rename = "waited_ms")]
    pub waited_ms: f64,
}

/// A moment, with its place in the capture.
#[derive(Debug, Clone, Serialize)]
pub struct MomentReport {
    /// From the capture's first packet.
    #[serde(rename = "at_ms", serialize_with = "millis")]
    pub at: Span,
    #[serde(flatten)]
    pub moment: TcpMoment,
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
    pub(crate) fn new(number: u64, begin: Time, summary: ConnectionSummary) -> Self {
        let (client, server) = (summary.client.to_string(), summary.server.to_string());
        let subject = format!("connection {number}");
        let [up, down] = summary.ends;
        let mut findings = up.facts.findings(&subject, Endpoint::Client, &client, &server);
        findings.extend(down.facts.findings(&subject, Endpoint::Server, &server, &client));
        costliest_first(&mut findings);
        let waited_ms = findings.iter().map(|(_, ms)| ms).sum();
        let again = summary.events.iter().filter(|(event, _)| event.is_retransmission());
        let all: u64 = summary.events.values().map(|counted| counted.count).sum();
        let at = |moment: TcpMoment| MomentReport { at: moment.time.since(begin), moment };
        let moments: Vec<_> = summary.moments.into_iter().map(at).collect();
        Self {
            number,
            client,
            server,
            opened: summary.opened,
            ending: summary.ending,
            timed: true,
            begin: summary.times.0.since(begin),
            duration: Some(summary.times.1.since(summary.times.0)),
            handshake_rtt: summary.handshake.rtt(),
            handshake: summary.handshake,
            retransmissions: again.map(|(_, counted)| counted.count).sum(),
            client_to_server: up,
            server_to_client: down,
            events: summary.events,
            strange_packets: summary.strange,
            moments_not_listed: all - moments.len() as u64,
            moments,
            findings: findings.into_iter().map(|(found, _)| found).collect(),
            waited_ms,
        }
    }

    /// What an end is called: its address.
    pub(crate) fn name(&self, end: ConnectionEnd) -> &str {
        match end {
            ConnectionEnd::Client => &self.client,
            ConnectionEnd::Server => &self.server,
        }
    }
}
