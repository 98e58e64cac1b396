//! What runs that measured something else tell of a line: pings over it, and flows beside pings.
//!
//! ```text
//!   a cell's rows ──► Cell: pings, and what flows carried each way ──► rate, delay, loss, buffer: each with wide bounds, or unknown
//! ```

use crate::bounded::Bounded;
use crate::conclude::{bounded, bytes, rate, ratio, span};
use quell_policy::FRAME;
use quell_report::analysis::{Clocks, EchoResult, FlowResult, Results};
use quell_series::MeasuredLine;
use quell_series::measured_line::{MeasuredDirection, MeasuredTogether, Property};
use quell_stats::{Batch, Interval};
use quell_units::Buffer;

/// A full packet of TCP on the wire, with Ethernet's header, to its payload.
const TCP_WIRE: f64 = FRAME as f64 / 1448.0;
/// What a flow may have left unused: its start, pings, an overhead of some 30 bytes a packet.
const UNUSED: f64 = 0.08;
/// An ACK to each packet of the other way.
const ACKS: f64 = 66.0 / FRAME as f64;
/// Bytes of a usual ping with its headers, and of the largest: a run does not tell.
const PING: (f64, f64) = (98.0, FRAME as f64);
/// Pings that waited so long beside a load waited for it, in ms.
const WAITED_MS: f64 = 3.0;

struct Cell<'a> {
    pings: Vec<&'a EchoResult>,
    flows: Vec<&'a FlowResult>,
}

/// What was seen of a line in runs of all kinds.
pub fn from_results(runs: &[Results]) -> MeasuredLine {
    let cells = runs.iter().flat_map(|run| run.rows.chunk_by(|a, b| a.cell == b.cell));
    let cells: Vec<Cell> = cells
        .map(|rows| Cell {
            // Datagrams of a load go one way.
            pings: rows
                .iter()
                .filter(|row| row.flow().is_none())
                .filter_map(|r| r.echo())
                .collect(),
            flows: rows.iter().filter_map(|row| row.flow()).collect(),
        })
        .collect();
    let shared = Property::unknown("runs do not tell whether both directions take turns");
    MeasuredLine {
        version: MeasuredLine::VERSION,
        up: direction(&cells, true),
        down: direction(&cells, false),
        both: MeasuredTogether { shared: Some(shared), thinned_acks: None },
        ..MeasuredLine::default()
    }
}

/// The quickest round trip, in ms.
fn base_ms(cells: &[Cell]) -> Option<f64> {
    let pings = cells.iter().flat_map(|cell| &cell.pings);
    pings.filter_map(|ping| Some(ping.rtt_ms.as_ref()?.min)).reduce(f64::min)
}

impl Cell<'_> {
    /// Mbit/s of TCP's payload.
    fn carried(&self, up: bool) -> f64 {
        let flows = || self.flows.iter().filter(|flow| flow.goes_down != up && flow.sent.is_none());
        let together = flows().find_map(|flow| flow.together_mbps);
        together.unwrap_or_else(|| flows().filter_map(|flow| flow.goodput_mbps).sum())
    }

    /// Whether pings beside its flows waited.
    fn is_full(&self, up: bool, base_ms: f64) -> bool {
        let mut rtts = self.pings.iter().filter_map(|ping| ping.rtt_ms.as_ref());
        self.carried(up) > 0.0 && rtts.any(|rtt| rtt.p50 > base_ms + WAITED_MS)
    }
}

fn direction(cells: &[Cell], up: bool) -> MeasuredDirection {
    let base_ms = base_ms(cells);
    let full = || cells.iter().filter(|cell| cell.is_full(up, base_ms.unwrap_or(f64::INFINITY)));
    let most = full().max_by(|a, b| a.carried(up).total_cmp(&b.carried(up)));
    let of_rate = most.map(|cell| {
        let wire = cell.carried(up) * TCP_WIRE * 1e6;
        let others = cell.carried(!up) * TCP_WIRE * 1e6 * ACKS;
        Bounded::new(wire, (wire * 0.99, wire * (1.0 + UNUSED) + others))
    });
    MeasuredDirection {
        rate: Some(match of_rate {
            Some(of) => bounded(of, rate, "payload of TCP and its headers", 0.0),
            None => Property::unknown("no flow of TCP filled the line, as far as pings tell"),
        }),
        delay: Some(delay(cells, up, of_rate)),
        loss: Some(loss(cells, up)),
        buffer: Some(match (of_rate, base_ms) {
            (Some(of_rate), Some(base_ms)) => buffer(full(), up, of_rate, base_ms),
            _ => Property::unknown("nothing filled the line beside pings"),
        }),
        queue: untold("when the queue drops"),
        fair: untold("whether flows are kept apart"),
        overhead: untold("what a packet costs beyond its Ethernet frame"),
        ..MeasuredDirection::default()
    }
}

fn untold<T>(what: &str) -> Option<Property<T>> {
    Some(Property::unknown(format!("pings and flows do not tell {what}")))
}

fn delay(cells: &[Cell], up: bool, of_rate: Option<Bounded>) -> Property<quell_units::Span> {
    let pings = || cells.iter().flat_map(|cell| &cell.pings);
    let of = |bytes: f64| of_rate.map_or(0.0, |rate| bytes * 8e3 / rate.value);
    let (bits_ms, most_bits_ms) = (of(PING.0), of(PING.1));
    let ways = pings().filter(|ping| ping.clocks == Clocks::Same);
    let ways = ways.filter_map(|ping| if up { ping.up_ms.as_ref() } else { ping.down_ms.as_ref() });
    let least = |a: &&quell_stats::Summary, b: &&quell_stats::Summary| a.min.total_cmp(&b.min);
    if let Some(way) = ways.min_by(least) {
        let value = way.min - bits_ms;
        let low = way.min - most_bits_ms;
        let of = Bounded::new(value / 1e3, (low / 1e3, way.min / 1e3));
        let how = "the quickest ping in this direction, less the time of its bits";
        return bounded(of, span, how, 0.0);
    }
    match pings().filter_map(|ping| ping.rtt_ms.as_ref()).min_by(least) {
        Some(rtt) => {
            let of = Bounded::new((rtt.min / 2.0 - bits_ms).max(0.0) / 1e3, (0.0, rtt.min / 1e3));
            let how = "half of the quickest round trip: no ping tells the directions apart";
            bounded(of, span, how, 0.0)
        }
        None => Property::unknown("no ping was answered"),
    }
}

fn loss(cells: &[Cell], up: bool) -> Property<quell_units::Ratio> {
    let idle = cells.iter().filter(|cell| cell.flows.is_empty()).flat_map(|cell| &cell.pings);
    let mut all = Batch::default();
    for ping in idle {
        let Some((lost_up, lost_down)) = ping.counts.lost_ways() else {
            return Property::unknown(
                "pings over the idle line do not tell in which direction they were lost",
            );
        };
        all.sent += ping.counts.sent as f64;
        all.lost += if up { lost_up } else { lost_down } as f64;
    }
    match Interval::of_loss(&[vec![all]]).filter(|_| all.sent >= 100.0) {
        Some(of) => {
            let of = Bounded::new(all.lost / all.sent, (of.low, of.high));
            bounded(of, ratio, "pings over the idle line", 0.0)
        }
        None => Property::unknown("fewer than 100 pings were sent over the idle line"),
    }
}

/// The longest wait beside a load of this direction alone, or its own wait, at the line's rate.
fn buffer<'a>(
    full: impl Iterator<Item = &'a Cell<'a>>,
    up: bool,
    of_rate: Bounded,
    base_ms: f64,
) -> Property<Buffer> {
    let waits = full.flat_map(|cell| {
        let alone = cell.carried(!up) == 0.0;
        cell.pings.iter().filter_map(move |ping| match ping.clocks {
            Clocks::Same if ping.up_ms.is_some() => {
                let way = if up { ping.up_ms.as_ref()? } else { ping.down_ms.as_ref()? };
                Some([way.p50, way.p99, way.max].map(|ms| ms - way.min))
            }
            _ if alone => {
                let rtt = ping.rtt_ms.as_ref()?;
                Some([rtt.p50, rtt.p99, rtt.max].map(|ms| ms - base_ms))
            }
            _ => None,
        })
    });
    let longest = waits.max_by(|a, b| a[1].total_cmp(&b[1])).filter(|wait| wait[1] > WAITED_MS);
    let Some([often, late, most]) = longest else {
        return Property::unknown("pings did not wait beside a load of this direction alone");
    };
    let stood = |ms: f64, bps: f64| ms / 1e3 * bps / 8.0;
    let high = stood(most, of_rate.high) + 2.0 * FRAME as f64;
    let of = Bounded::new(stood(late, of_rate.value), (stood(often, of_rate.low), high));
    let how = "the longest waits beside a load, at the line's rate; whether it counts packets or bytes is unknown";
    bounded(of, |size| Buffer::Bytes(bytes(size)), how, 0.0)
}
