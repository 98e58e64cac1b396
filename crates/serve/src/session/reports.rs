//! What a Quell client is told while data flows: what its lines show of this end.
//!
//! ```text
//!   every quarter of a line's time ──► state byte, length, a few sums ──► as much as the connection takes now
//!                                                                         │ what it does not take
//!                                                                         └── waits; until it is gone there is no other report
//! ```
//!
//! Nobody is waited for: a client that does not read its reports gets fewer.

use super::lane::ServedLane;
use super::plan::ServePlan;
use quell_load::lane::LaneCounts;
use quell_sys::socket::stream::TcpSocket;
use quell_wire::iperf3::{Report, State, frame};

/// The reports of one test.
#[derive(Debug)]
pub struct Reports {
    every_ns: u64,
    /// When the next one is due.
    pub next_ns: u64,
    /// Of the last one, what was not sent yet.
    unsaid: Vec<u8>,
}

impl Reports {
    /// For a test whose data begins to flow now.
    pub fn new(plan: &ServePlan, start_ns: u64) -> Self {
        let every_ns = plan.reports_ns.unwrap_or(u64::MAX);
        Self { every_ns, next_ns: start_ns.saturating_add(every_ns), unsaid: Vec::new() }
    }

    /// Tells how it stands, if it is time.
    pub fn say(&mut self, now: u64, lanes: &[ServedLane], client: &TcpSocket) {
        if now < self.next_ns {
            return;
        }
        let late = now - self.next_ns;
        self.next_ns = now.saturating_add(self.every_ns - late % self.every_ns);
        self.write(client);
        if self.unsaid.is_empty() {
            self.unsaid = said(&report(lanes));
            self.write(client);
        }
    }

    fn write(&mut self, client: &TcpSocket) {
        if !self.unsaid.is_empty() {
            // An error comes again where the connection is read.
            let sent = client.write_now(&self.unsaid).unwrap_or(0);
            self.unsaid.drain(..sent);
        }
    }

    /// What has to be said before anything else can be.
    pub fn unsaid(self) -> Vec<u8> {
        self.unsaid
    }
}

/// A report as it is sent.
pub fn said(report: &Report) -> Vec<u8> {
    // Whole numbers are always JSON.
    let frame = frame(report).unwrap_or_default();
    [&[State::Report.byte()][..], &frame].concat()
}

/// How the streams stand.
fn report(lanes: &[ServedLane]) -> Report {
    let mut report = Report::default();
    let mut came = Vec::new();
    for lane in lanes {
        let counted = lane.counted(0);
        match lane.sends {
            true => {
                report.retransmits += counted.moment.retransmits;
                report.srtt_us = report.srtt_us.max(counted.moment.srtt_us);
                report.cwnd = report.cwnd.saturating_add(counted.moment.cwnd);
            }
            false => {
                report.packets += counted.moment.packets;
                report.expected = report.expected.saturating_add(counted.expected);
                came.push(counted);
            }
        }
    }
    report.jitter_ns = LaneCounts::jitter_of(&came);
    report
}
