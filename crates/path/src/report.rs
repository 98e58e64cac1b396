//! The whole result, for programs.

use crate::findings::{PathFinding, findings};
use crate::hops::{Hop, MplsLabel, PathHops, Responder};
use crate::session::{PathSession, ProbeMethod};
use quell_report::analysis::{Counts, EchoFold, Spread};
use quell_units::Tos;
use serde::Serialize;
use std::net::IpAddr;

#[derive(Debug, Serialize)]
pub struct PathReport<'a> {
    host: &'a str,
    address: IpAddr,
    port: Option<u16>,
    method: ProbeMethod,
    bytes: u32,
    tos: u8,
    interval_ms: f64,
    reached: bool,
    mtu: Option<u32>,
    sees_marks: bool,
    unmatched: u64,
    run: Option<&'a str>,
    flows: Vec<HopFlowReport>,
    hops: Vec<HopReport>,
    findings: Vec<PathFinding>,
}

#[derive(Debug, Serialize)]
struct HopFlowReport {
    /// From 1.
    flow: usize,
    port: u16,
    hops: Option<u8>,
    sent: u64,
    answered: u64,
    unsure: u64,
    loss_ratio: Option<f64>,
}

#[derive(Debug, Default, Serialize)]
struct HopReport {
    hop: usize,
    addresses: Vec<ResponderReport>,
    mtu: Option<u32>,
    mtu_said_by: Option<IpAddr>,
    larger_vanish: bool,
    answers_less: bool,
    marked_vanish: bool,
    sent: u64,
    received: u64,
    received_late: u64,
    lost: u64,
    errors: u64,
    unsure: u64,
    duplicates: u64,
    loss_ratio: Option<f64>,
    loss_at_least: Option<f64>,
    loss_at_most: Option<f64>,
    rtt_ms: Option<RttReport>,
    rtt_at_least_ms: Option<RttReport>,
    rtt_at_most_ms: Option<RttReport>,
    jitter_ms: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct RttReport {
    min: f64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

#[derive(Debug, Serialize)]
struct ResponderReport {
    address: IpAddr,
    /// From 1.
    flows: Vec<u16>,
    answer_ttl: Option<u8>,
    hops_back: Option<u8>,
    arrived: bool,
    unreachable_code: Option<u8>,
    marks: Vec<MarkReport>,
    mpls: Vec<MplsLabel>,
}

#[derive(Debug, Serialize)]
struct MarkReport {
    sent: TosReport,
    arrived: TosReport,
}

#[derive(Debug, Serialize)]
struct TosReport {
    tos: u8,
    dscp: u8,
    ecn: String,
}

impl<'a> PathReport<'a> {
    pub fn new(session: &'a PathSession, hops: &PathHops, run: Option<&'a str>) -> Self {
        let to = session.to.ip();
        let flow = |(flow, port): (usize, &u16)| {
            let end = hops.shape.ends.get(flow).copied().flatten();
            let counts = hops.counts(flow, end.map_or(hops.length().max(1), usize::from));
            HopFlowReport {
                flow: flow + 1,
                port: *port,
                hops: end,
                sent: counts.sent,
                answered: counts.answered,
                unsure: counts.unsure,
                loss_ratio: counts.loss_ratio(),
            }
        };
        Self {
            host: &session.host,
            address: to,
            port: Some(session.to.port()).filter(|port| *port > 0),
            method: session.method,
            bytes: session.size,
            tos: session.tos,
            interval_ms: session.interval_ns as f64 / 1e6,
            reached: hops.reached(to),
            mtu: hops.mtu(to),
            sees_marks: session.sees_marks,
            unmatched: hops.shape.unmatched,
            run,
            flows: session.ports.iter().enumerate().map(flow).collect(),
            hops: hops
                .hops()
                .map(|(number, hop, counts)| {
                    HopReport::new(number, hop, &counts, hops.figures.get(number - 1))
                })
                .collect(),
            findings: findings(session, hops),
        }
    }
}

impl HopReport {
    fn new(hop: usize, known: &Hop, counts: &Counts, figures: Option<&EchoFold>) -> Self {
        let way = figures.map(EchoFold::round_trip);
        let least = way.as_ref().and_then(|way| way.delays_ms);
        let most = way.as_ref().and_then(|way| way.delays_at_most_ms).or(least);
        let of = |of: Spread| RttReport {
            min: of.min,
            mean: of.mean,
            p50: of.p50,
            p90: of.p90,
            p99: of.p99,
            max: of.max,
        };
        let (least, most) = (least.map(of), most.map(of));
        Self {
            hop,
            addresses: known.responders.iter().map(ResponderReport::new).collect(),
            mtu: known.mtu,
            mtu_said_by: known.mtu_said_by,
            larger_vanish: known.larger_vanish,
            answers_less: known.answers_less,
            marked_vanish: known.marked_vanish,
            sent: counts.sent,
            received: counts.received,
            received_late: counts.received_late,
            lost: counts.lost,
            errors: counts.errors,
            unsure: counts.unsure,
            duplicates: counts.duplicates,
            loss_ratio: counts.loss_ratio(),
            loss_at_least: counts.loss_range().map(|(least, _)| least),
            loss_at_most: counts.loss_range().map(|(_, most)| most),
            rtt_ms: least.filter(|_| least == most),
            rtt_at_least_ms: least,
            rtt_at_most_ms: most,
            jitter_ms: way.and_then(|way| way.jitter_ms),
        }
    }
}

impl ResponderReport {
    fn new(of: &Responder) -> Self {
        let tos = |byte: u8| {
            let tos = Tos::from_byte(byte);
            TosReport { tos: byte, dscp: tos.dscp().value(), ecn: tos.ecn().to_string() }
        };
        let mark =
            |(sent, arrived): &(u8, u8)| MarkReport { sent: tos(*sent), arrived: tos(*arrived) };
        Self {
            address: of.address,
            flows: of.flows.iter().map(|flow| flow + 1).collect(),
            answer_ttl: of.answer_ttl,
            hops_back: of.hops_back(),
            arrived: of.arrived,
            unreachable_code: of.unreachable_code,
            marks: of.marks.iter().map(mark).collect(),
            mpls: of.mpls.clone(),
        }
    }
}
