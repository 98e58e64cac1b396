//! What the server tells while it runs: an event a line, for people and as JSON.

use crate::limits::SERVER;
use quell_units::fmt;
use quell_units::fmt::plural;
use quell_web::sent::SentResult;
use quell_wire::text::printable;
use serde::Serialize;
use std::fmt::{Display, Formatter, Result};
use std::net::SocketAddr;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ServeEvent {
    Started {
        /// Where: TCP and UDP.
        address: SocketAddr,
        secret: bool,
        /// The user that it runs as now, where it gave up root's rights.
        user: Option<String>,
        /// Where browsers of other machines find the page.
        pages: Vec<String>,
    },
    Began {
        /// Its number since the start.
        session: u64,
        client: SocketAddr,
        #[serde(flatten)]
        test: Test,
    },
    Ended {
        session: u64,
        client: SocketAddr,
        why: Option<String>,
        #[serde(flatten)]
        result: TestResult,
    },
    Measured {
        session: u64,
        client: SocketAddr,
        #[serde(flatten)]
        result: SentResult,
    },
    Called {
        session: u64,
        client: SocketAddr,
        calls: u64,
        why: Option<String>,
    },
    /// Somebody was told how this end sees the path.
    Told {
        session: u64,
        client: SocketAddr,
        why: Option<String>,
    },
    Refused {
        client: SocketAddr,
        why: String,
    },
    /// More happened meanwhile than there is use in telling of.
    Silenced {
        refused: u64,
        sessions: u64,
    },
    /// Whoever reads this log was too slow: events are missing here.
    Missing {
        events: u64,
    },
    Stopped {
        sessions: u64,
        reflected: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Test {
    pub protocol: &'static str,
    /// `up` (the client sends), `down` or `both`.
    pub direction: &'static str,
    pub streams: u32,
    /// Seconds, where the client says how long.
    pub seconds: Option<f64>,
    /// Who the client says it is, as `iperf3 3.12` or `quell`.
    pub program: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct TestResult {
    /// Seconds without the omitted ones.
    pub seconds: f64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_bits_per_second: f64,
    pub sent_bits_per_second: f64,
    /// Segments that this end sent again, where it sent over TCP.
    pub retransmits: Option<u64>,
    pub packets: Option<u64>,
    /// Datagrams that should have come and did not.
    pub lost_packets: Option<u64>,
    /// Their jitter in milliseconds, as RFC 3550 has it; of several streams the mean, each weighing as many datagrams as came.
    pub jitter_ms: Option<f64>,
}

/// A reason as it may stand in a log: on one line, without what steers a terminal, and not endless.
pub fn reason(why: &impl ToString) -> String {
    printable(&why.to_string(), SERVER.reason)
}

/// Holds back events beyond what a person can use, so that a flood of strangers fills no disk: twenty refusals and a hundred sessions at once, and
/// one and five a second after that. Pure.
#[derive(Debug)]
pub struct Quiet {
    refused: Allowance,
    sessions: Allowance,
    held: Allowance,
}

#[derive(Debug)]
struct Allowance {
    most: u64,
    every_ns: u64,
    left: u64,
    filled_ns: u64,
    held: u64,
}

impl Allowance {
    fn new(now_ns: u64, most: u64, a_second: u64) -> Self {
        Self { most, every_ns: 1_000_000_000 / a_second, left: most, filled_ns: now_ns, held: 0 }
    }

    fn ask(&mut self, now_ns: u64) -> bool {
        let more = now_ns.saturating_sub(self.filled_ns) / self.every_ns;
        self.filled_ns += more * self.every_ns;
        self.left = self.left.saturating_add(more).min(self.most);
        let may = self.left > 0;
        self.left -= u64::from(may);
        self.held += u64::from(!may);
        may
    }
}

impl Quiet {
    pub fn new(now_ns: u64) -> Self {
        Self {
            refused: Allowance::new(now_ns, 20, 1),
            sessions: Allowance::new(now_ns, 100, 5),
            held: Allowance::new(now_ns, 1, 1),
        }
    }

    /// Whether to tell of this, and what of before was held back.
    pub fn ask(&mut self, event: &ServeEvent, now_ns: u64) -> (bool, Option<ServeEvent>) {
        let may = match event {
            ServeEvent::Refused { .. } => self.refused.ask(now_ns),
            _ => self.sessions.ask(now_ns),
        };
        let holds = self.refused.held + self.sessions.held > 0;
        (may, if may && holds && self.held.ask(now_ns) { self.rest() } else { None })
    }

    pub fn rest(&mut self) -> Option<ServeEvent> {
        let refused = std::mem::take(&mut self.refused.held);
        let sessions = std::mem::take(&mut self.sessions.held);
        (refused + sessions > 0).then_some(ServeEvent::Silenced { refused, sessions })
    }
}

fn behind(why: &Option<String>) -> String {
    why.as_ref().map_or_else(String::new, |why| format!("; {why}"))
}

impl Display for ServeEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Started { address, secret, user, .. } => {
                write!(f, "serving at {address}, TCP and UDP")?;
                if *secret {
                    write!(f, ", for those who know the secret")?;
                }
                match user {
                    Some(user) => write!(f, "; now as user {user}, without rights"),
                    None => Ok(()),
                }
            }
            Self::Began { session, client, test } => {
                let Test { protocol, direction, streams, seconds, program } = test;
                let way = match *direction {
                    "up" => "to us",
                    "down" => "to them",
                    _ => "both ways",
                };
                if *streams == 0 {
                    return write!(f, "#{session} {client}: {program} measures");
                }
                let protocol = protocol.to_uppercase();
                write!(
                    f,
                    "#{session} {client} ({program}): {protocol}, {} {way}",
                    plural(*streams, "stream")
                )?;
                match seconds {
                    Some(seconds) => write!(f, ", {seconds} s"),
                    None => Ok(()),
                }
            }
            Self::Ended { session, client, why, result } => {
                write!(f, "#{session} {client}: {result}{}", behind(why))
            }
            Self::Measured { session, client, result } => {
                let SentResult { up_mbit, down_mbit, idle_ms, loaded_ms, what, .. } = result;
                let known = |value: &Option<f64>, unit: &str| match value {
                    Some(value) => format!("{value:.1} {unit}"),
                    None => "unknown".to_owned(),
                };
                write!(
                    f,
                    "#{session} {client}: down {}, up {}, ping {} idle, {} loaded; {what}",
                    known(down_mbit, "Mbit/s"),
                    known(up_mbit, "Mbit/s"),
                    known(idle_ms, "ms"),
                    known(loaded_ms, "ms"),
                )
            }
            Self::Called { session, client, calls, why } => {
                write!(f, "#{session} {client}: {calls} calls answered{}", behind(why))
            }
            Self::Told { session, client, why } => {
                write!(f, "#{session} {client}: asked how this end sees the path{}", behind(why))
            }
            Self::Refused { client, why } => write!(f, "refused {client}: {why}"),
            Self::Silenced { refused, sessions: 0 } => {
                write!(f, "{refused} more were refused meanwhile")
            }
            Self::Silenced { refused: 0, sessions } => {
                write!(f, "{sessions} more tests or connections of calls meanwhile")
            }
            Self::Silenced { refused, sessions } => write!(
                f,
                "{sessions} more tests or connections of calls meanwhile, and {refused} more were refused"
            ),
            Self::Missing { events } => write!(f, "{events} events not written"),
            Self::Stopped { sessions, reflected } => {
                let sessions = plural(*sessions, "session");
                write!(f, "stopped after {sessions} and {}", plural(*reflected, "reflected packet"))
            }
        }
    }
}

impl Display for TestResult {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut parts = Vec::new();
        for (bytes, rate, word) in [
            (self.received_bytes, self.received_bits_per_second, "received"),
            (self.sent_bytes, self.sent_bits_per_second, "sent"),
        ] {
            if bytes > 0 {
                parts.push(format!("{} {word}, {}/s", fmt::bytes(bytes), fmt::bits(rate)));
            }
        }
        if parts.is_empty() {
            parts.push("nothing came".into());
        }
        if let Some(retransmits) = self.retransmits {
            parts.push(format!("{retransmits} segments sent again"));
        }
        if let (Some(packets), Some(lost)) = (self.packets, self.lost_packets) {
            let share = 100.0 * lost as f64 / (packets + lost).max(1) as f64;
            parts.push(format!("{lost} of {} packets lost ({share:.2} %)", packets + lost));
        }
        if let Some(jitter) = self.jitter_ms {
            parts.push(format!("jitter {jitter:.3} ms"));
        }
        write!(f, "{:.1} s: {}", self.seconds, parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> SocketAddr {
        "192.0.2.1:4000".parse().unwrap()
    }

    #[test]
    fn a_line_says_what_a_person_wants_to_know() {
        let test = Test {
            protocol: "udp",
            direction: "up",
            streams: 2,
            seconds: Some(10.0),
            program: "iperf3 3.12".into(),
        };
        let began = ServeEvent::Began { session: 3, client: client(), test };
        assert_eq!(
            began.to_string(),
            "#3 192.0.2.1:4000 (iperf3 3.12): UDP, 2 streams to us, 10 s"
        );
        let result = TestResult {
            seconds: 10.0,
            received_bytes: 12_500_000,
            received_bits_per_second: 1e7,
            packets: Some(99),
            lost_packets: Some(1),
            jitter_ms: Some(0.25),
            ..TestResult::default()
        };
        let ended = ServeEvent::Ended { session: 3, client: client(), why: None, result };
        assert_eq!(
            ended.to_string(),
            "#3 192.0.2.1:4000: 10.0 s: 12.5 MB received, 10.0 Mbit/s, 1 of 100 packets lost (1.00 %), jitter 0.250 ms"
        );
    }

    #[test]
    fn an_event_is_one_flat_line_of_json() {
        let result = TestResult { sent_bytes: 5, ..TestResult::default() };
        let ended =
            ServeEvent::Ended { session: 1, client: client(), why: Some("x".into()), result };
        let json = serde_json::to_value(&ended).unwrap();
        assert_eq!(json["event"], "ended");
        assert_eq!(json["sent_bytes"], 5);
        assert_eq!(json["client"], "192.0.2.1:4000");
    }

    #[test]
    fn a_client_can_not_forge_a_line_of_the_log() {
        assert_eq!(reason(&"x\n#9 forged\u{1b}[2J"), "x\\x0a#9 forged\\x1b[2J");
        assert_eq!(reason(&"x".repeat(5000)).chars().count(), SERVER.reason + 1);
    }

    #[test]
    fn a_flood_of_events_becomes_a_count() {
        let mut quiet = Quiet::new(0);
        let refused = ServeEvent::Refused { client: client(), why: "x".into() };
        let ask = |quiet: &mut Quiet, now| quiet.ask(&refused, now);
        assert_eq!((0..1000).filter(|_| ask(&mut quiet, 1).0).count(), 20);
        let told = ServeEvent::Silenced { refused: 980, sessions: 0 };
        assert_eq!(ask(&mut quiet, 1_100_000_000), (true, Some(told)));
        assert_eq!(ask(&mut quiet, 1_100_000_000), (false, None));
        assert_eq!(quiet.rest(), Some(ServeEvent::Silenced { refused: 1, sessions: 0 }));
        assert_eq!(quiet.rest(), None);
        assert!(ask(&mut quiet, 2_000_000_000).0, "what is left of a second is not lost");
    }
}
