//! Runs made by hand, whose truth is known.
#![allow(dead_code)]

use quell_chart::Figure;
use quell_model::manifest::FORMAT_VERSION;
use quell_model::{
    Backend, CellId, CellRecord, CellStatus, EchoSample, EchoStatus, Fact, FlowSample,
    KernelRecord, Manifest, Side, Subject, TcpState, Told, When,
};
use quell_report::figures::{self, NoFigure};
use quell_report::{Results, html};
use quell_store::{CellData, EchoSeries, FlowSeries, QueuePoint, QueueSeries, Run};
use std::collections::BTreeMap;

pub const MS: i64 = 1_000_000;
pub const SECOND: i64 = 1000 * MS;

/// A run of these cells; each lasts ten seconds.
pub fn run(cells: Vec<(&str, &str, u32, CellData)>) -> Run {
    let (mut records, mut data) = (Vec::new(), Vec::new());
    for (scenario, probe, repeat, cell) in cells {
        records.push(CellRecord {
            id: CellId { scenario: scenario.into(), probe: probe.into(), repeat },
            seed: 1,
            status: CellStatus::Complete,
            reason: None,
            wall_s: None,
            virtual_s: Some(12.0),
            window_ns: Some(10 * SECOND as u64),
            tasks: vec![],
        });
        data.push(cell);
    }
    let manifest = Manifest {
        format: FORMAT_VERSION,
        quell: "0.1.0".into(),
        run: "20261121T101503-home-link".into(),
        experiment: "home-link".into(),
        title: "A home link".into(),
        experiment_text: "duration = \"10s\"\n".into(),
        seed: 42,
        started: "2026-11-21T10:15:03Z".into(),
        kernel: KernelRecord {
            backend: Backend::Guest,
            version: "6.1.0".into(),
            virtual_time: true,
            key: String::new(),
        },
        clock: "virtual".into(),
        cells: records,
        complete: true,
        wall_s: Some(1.5),
        virtual_s: Some(12.0),
        ..Manifest::default()
    };
    Run { folder: "runs/x".into(), manifest, cells: data }
}

/// One packet each 100 ms with these delays up and back in milliseconds; none is lost on the way up.
pub fn packets(delays: &[Option<(f64, f64)>]) -> Vec<EchoSample> {
    let mut answered = 0;
    let packet = |(seq, delays): (usize, &Option<(f64, f64)>)| {
        let ns = |ms: f64| (ms * 1e6).round() as i64;
        let order = delays.map(|_| answered);
        answered += u64::from(delays.is_some());
        EchoSample {
            t_ns: seq as i64 * 100 * MS,
            seq: seq as u64,
            rtt_ns: delays.map(|(up, down)| ns(up + down) as u64),
            up_ns: delays.map(|(up, _)| ns(up)),
            down_ns: delays.map(|(_, down)| ns(down)),
            up_order: order,
            down_order: order,
            seen_late_ns: None,
            queued_ns: None,
            sent_late_ns: None,
            bytes: 500,
            status: if delays.is_some() { EchoStatus::Ok } else { EchoStatus::LostUp },
        }
    };
    delays.iter().enumerate().map(packet).collect()
}

/// The same as ICMP echoes give it: without one-way delays.
pub fn pings(delays: &[Option<(f64, f64)>]) -> Vec<EchoSample> {
    let strip = |p: EchoSample| EchoSample {
        up_ns: None,
        down_ns: None,
        up_order: None,
        status: if p.status.is_lost() { EchoStatus::Lost } else { p.status },
        ..p
    };
    packets(delays).into_iter().map(strip).collect()
}

pub fn echo(stream: &str, samples: Vec<EchoSample>) -> CellData {
    let series = EchoSeries { stream: stream.into(), samples };
    CellData { echoes: vec![series], ..CellData::default() }
}

/// A flow whose receiver tells its counter at these times.
pub fn flow(stream: &str, counters: &[(i64, u64)]) -> Vec<FlowSeries> {
    let series = |side, tcp: Option<TcpState>| FlowSeries {
        stream: stream.into(),
        side,
        samples: counters
            .iter()
            .map(|&(t_ns, bytes)| FlowSample { t_ns, side, bytes, packets: 0, tcp })
            .collect(),
    };
    let tcp = Some(TcpState::default());
    vec![series(Side::Sender, tcp), series(Side::Receiver, None)]
}

/// A flow of `mbps` megabits per second from `start` to ten seconds, reported each 100 ms.
pub fn steady(stream: &str, mbps: f64, start: i64) -> Vec<FlowSeries> {
    let times = (start..=10 * SECOND).step_by(100 * MS as usize);
    let counters: Vec<(i64, u64)> =
        times.map(|t| (t, ((t - start) as f64 / 1e9 * mbps * 125_000.0).round() as u64)).collect();
    flow(stream, &counters)
}

pub fn flows(all: Vec<Vec<FlowSeries>>) -> CellData {
    CellData { flows: all.concat(), ..CellData::default() }
}

/// Tells which line streams share: of each its way, and that of its answers where it has some.
pub fn on_ways(mut data: CellData, ways: &[(&str, &str, Option<&str>)]) -> CellData {
    let mut fact = |stream: &str, what, value: &str| {
        data.facts.push(Fact::new(When::Before, Subject::stream(stream, what), value));
    };
    for (stream, there, back) in ways {
        fact(stream, Told::Way, there);
        if let Some(back) = back {
            fact(stream, Told::WayBack, back);
        }
    }
    data
}

pub fn queue(device: &str, backlog: &[u64]) -> QueueSeries {
    let point = |(n, bytes): (usize, &u64)| QueuePoint {
        t_ns: n as i64 * SECOND,
        backlog_bytes: *bytes,
        backlog_packets: bytes / 1500,
        drops: 0,
        marks: 0,
        packets: 0,
        bytes: 0,
    };
    QueueSeries {
        device: device.into(),
        handle: "1:".into(),
        kind: "pfifo".into(),
        points: backlog.iter().enumerate().map(point).collect(),
    }
}

/// Two scenarios, three probes, `repeats` repeats, as `home-link` has them.
pub fn home_link(repeats: u32) -> Run {
    let mut cells = Vec::new();
    for (scenario, delay, losses, tcp, load) in
        [("unloaded", 10.0, 0, 2.4, None), ("bulk", 230.0, 5, 0.6, Some(1.8))]
    {
        for (probe, repeat) in
            ["udp", "ping", "tcp"].into_iter().flat_map(|p| (0..repeats).map(move |r| (p, r)))
        {
            let wobble = f64::from(repeat) * 0.5;
            let delays: Vec<_> = (0..100)
                .map(|n| (n >= losses).then_some((delay + wobble + f64::from(n % 2), 10.0)))
                .collect();
            let mut data = match probe {
                "udp" => echo(probe, packets(&delays)),
                "ping" => echo(probe, pings(&delays)),
                _ => flows(vec![steady(probe, tcp + wobble / 100.0, 0)]),
            };
            if let Some(load) = load {
                data.flows.extend(steady("bulk-1", load, -2 * SECOND));
            }
            data.queues.push(queue("modem:wan", &[0, 1500, 150_000]));
            let (up, down) = ("dsl up", Some("dsl down"));
            let data = on_ways(
                data,
                &[("udp", up, down), ("ping", up, down), ("tcp", up, None), ("bulk", up, None)],
            );
            cells.push((scenario, probe, repeat, data));
        }
    }
    run(cells)
}

/// The page of a run without what an experiment's file tells.
pub fn page_of(run: &Run, published: &BTreeMap<String, String>) -> String {
    let given = html::Given { published, about: "", swept: &[], capacities: &[], changed: &[] };
    html::render(run, &Results::from(run), &given)
}

/// A figure of the streams that are named.
pub fn figure_of(run: &Run, name: &str, streams: &[String]) -> Result<Figure, NoFigure> {
    let wanted = figures::Wanted { streams, ..figures::Wanted::default() };
    figures::figure_with(run.clone(), name, &wanted)
}

/// A figure of the usual streams, as SVG.
pub fn picture_of(run: &Run, name: &str) -> String {
    figure_of(run, name, &[]).expect("it has something to show").svg()
}
