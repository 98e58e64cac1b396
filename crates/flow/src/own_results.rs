//! What this end tells the server of a test, when it is over.

use crate::measurement::StreamMeasurement;
use crate::sampler::StreamSampler;
use crate::{FlowPlan, Transport};
use quell_host::cpu_time::CpuShare;
use quell_wire::iperf3::{
    DatagramLog, Host, HostCounters, Part, PartStream, Results, StreamResult,
};

/// All of it: the streams as they were looked at, the CPU time, and what the host counted before and after.
pub(crate) fn results(
    plan: &FlowPlan,
    watch: &StreamSampler<'_>,
    cpu: CpuShare,
    before: &HostCounters,
    after: &HostCounters,
) -> Results {
    let lanes = watch.outcomes();
    let sends = lanes.iter().any(|lane| lane.sends);
    let tcp = plan.transport == Transport::Tcp;
    let host = Host {
        quell: env!("CARGO_PKG_VERSION").into(),
        kernel: nix::sys::utsname::uname()
            .map(|uname| uname.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        cpu_busy: cpu.host_busy,
    };
    let streams = lanes.iter().map(|lane| stream_result(plan, lane, watch.seconds())).collect();
    let parts = lanes.iter().map(part).collect();
    Results {
        cpu_util_total: Some(cpu.user + cpu.system),
        cpu_util_user: Some(cpu.user),
        cpu_util_system: Some(cpu.system),
        sender_has_retransmits: if sends { i32::from(tcp) } else { -1 },
        congestion_used: lanes.first().and_then(|lane| lane.congestion.clone()),
        streams,
        quell: (!plan.plain).then_some(Part {
            version: 1,
            host,
            before: Some(*before),
            after: Some(*after),
            streams: parts,
        }),
        ..Results::default()
    }
}

fn stream_result(plan: &FlowPlan, lane: &StreamMeasurement, seconds: f64) -> StreamResult {
    let udp = plan.transport == Transport::Udp;
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    // As iperf3 has it: all of them, with those that do not count beside them.
    let omitted = if lane.sends { lane.omitted.moment.packets } else { lane.omitted.expected };
    let packets = if lane.sends { lane.mark.moment.packets } else { lane.mark.expected };
    StreamResult {
        id: lane.id,
        bytes: lane.mark.moment.bytes,
        retransmits: if lane.sends && !udp { signed(lane.mark.moment.retransmits) } else { -1 },
        jitter: Some(lane.mark.rfc_jitter_ns as f64 / 1e9),
        errors: signed(lane.mark.moment.lost),
        omitted_errors: udp.then_some(0),
        packets: signed(if udp { omitted + packets } else { packets }),
        omitted_packets: udp.then(|| signed(omitted)),
        start_time: 0.0,
        end_time: seconds,
    }
}

/// What this end tells a Quell of a stream. Its states over time stay here: the server has its own.
fn part(lane: &StreamMeasurement) -> PartStream {
    let gaps = lane.gaps.as_ref().map(|gaps| {
        gaps.counts().map(|(bucket, n)| (quell_stats::log_histogram::highest(bucket), n)).collect()
    });
    PartStream {
        id: lane.id,
        congestion: lane.congestion.clone().filter(|_| lane.sends),
        mss: lane.mss,
        send_buffer: lane.buffers.0,
        receive_buffer: lane.buffers.1,
        toil: lane.toil,
        held_back: None,
        out_of_order: lane.mark.reordered,
        duplicates: lane.mark.duplicates,
        socket_dropped: lane.mark.socket_dropped,
        foreign: lane.mark.foreign,
        longest_gap_ns: lane.longest_gap_ns.filter(|_| !lane.sends),
        gaps: gaps.unwrap_or_default(),
        losses: None,
        log: DatagramLog::default(),
        moments: Vec::new(),
    }
}
