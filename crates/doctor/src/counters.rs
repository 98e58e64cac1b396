//! What moved while something ran: counters, in plain words and by their place.

use quell_host::Snapshot;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CounterMove {
    /// Where: "sent again", "connections", "dropped: socket", "dropped: queue eth0 fq" ….
    pub place: String,
    /// What, by its name where it was read.
    pub name: String,
    pub count: u64,
}

/// Counters of the stack that say something, and their place.
pub(crate) const COUNTERS: [(&str, &[&str]); 6] = [
    (
        "sent again",
        &[
            "Tcp.RetransSegs",
            "TcpExt.TCPFastRetrans",
            "TcpExt.TCPSlowStartRetrans",
            "TcpExt.TCPTimeouts",
            "TcpExt.TCPLossProbes",
            "TcpExt.TCPSynRetrans",
            "TcpExt.TCPDSACKRecv",
            "TcpExt.TCPSpuriousRtxHostQueues",
        ],
    ),
    (
        "dropped: socket",
        &[
            "TcpExt.ListenOverflows",
            "TcpExt.ListenDrops",
            "TcpExt.TCPBacklogDrop",
            "TcpExt.TCPRcvQDrop",
            "TcpExt.PruneCalled",
            "TcpExt.RcvPruned",
            "TcpExt.TCPRcvCollapsed",
            "TcpExt.TCPReqQFullDrop",
            "Udp.RcvbufErrors",
            "Udp.SndbufErrors",
            "Udp6RcvbufErrors",
            "Udp6SndbufErrors",
            "Udp.NoPorts",
        ],
    ),
    (
        "dropped: IP",
        &[
            "Ip.InDiscards",
            "Ip.OutDiscards",
            "Ip.OutNoRoutes",
            "Ip.ReasmFails",
            "Ip.FragFails",
            "Icmp.InTimeExcds",
            "Ip6InDiscards",
            "Ip6OutDiscards",
            "Ip6OutNoRoutes",
            "TcpExt.IPReversePathFilter",
        ],
    ),
    ("damaged", &["Tcp.InCsumErrors", "Udp.InCsumErrors", "Tcp.InErrs", "TcpExt.PAWSEstab"]),
    (
        "stalls",
        &[
            "TcpExt.DelayedACKs",
            "TcpExt.TCPToZeroWindowAdv",
            "TcpExt.TCPFromZeroWindowAdv",
            "TcpExt.TCPMemoryPressures",
            "TcpExt.TCPSACKReorder",
        ],
    ),
    ("traffic", &["Tcp.OutSegs", "Tcp.InSegs", "Udp.OutDatagrams", "Udp.InDatagrams"]),
];

/// What moved between two snapshots, by place. A counter that went back was reset and counts from zero.
pub fn moved(before: &Snapshot, after: &Snapshot) -> Vec<CounterMove> {
    let mut all = Vec::new();
    let mut add = |place: &str, name: &str, was: u64, now: u64| {
        let count = if now >= was { now - was } else { now };
        if count > 0 {
            let (place, name) = (place.to_owned(), name.to_owned());
            all.push(CounterMove { place, name, count });
        }
    };
    for (place, counters) in COUNTERS {
        for counter in counters {
            let Ok(now) = after.counter(counter) else { continue };
            let name = counter.rsplit('.').next().unwrap_or(counter);
            add(place, name, before.counter(counter).unwrap_or(0), now);
        }
    }
    if let (Ok(was), Ok(now)) = (before.softnet(), after.softnet()) {
        for (name, of) in [
            ("dropped", (|cpu: &quell_host::cpu::Softnet| cpu.dropped) as fn(&_) -> u64),
            ("time_squeeze", |cpu| cpu.squeezed),
        ] {
            let sum = |cpus: &[quell_host::cpu::Softnet]| cpus.iter().map(of).sum();
            add("dropped: softnet", name, sum(&was), sum(&now));
        }
    }
    if let (Ok(was), Ok(now)) = (before.queues(), after.queues()) {
        for queue in now.iter().filter(|queue| queue.root) {
            let same = |other: &&quell_host::QueueCounters| {
                other.device == queue.device && other.root && other.kind == queue.kind
            };
            let earlier = was.iter().find(same);
            let place = format!("dropped: queue {} {}", queue.device, queue.kind);
            add(&place, "drops", earlier.map_or(0, |q| q.drops), queue.drops);
            let marks = earlier.and_then(|q| q.marks).unwrap_or(0);
            let place = format!("marked: queue {} {}", queue.device, queue.kind);
            add(&place, "marks", marks, queue.marks.unwrap_or(0));
        }
    }
    if let (Ok(was), Ok(now)) = (before.devices(), after.devices()) {
        for (name, device) in now {
            let Some(earlier) = was.get(name) else { continue };
            let (now, was) = (&device.link.stats, &earlier.link.stats);
            let place = format!("dropped: device {name}");
            for (counter, was, now) in [
                ("rx_dropped", was.rx_dropped, now.rx_dropped),
                ("tx_dropped", was.tx_dropped, now.tx_dropped),
                ("rx_errors", was.rx_errors, now.rx_errors),
                ("tx_errors", was.tx_errors, now.tx_errors),
                ("rx_missed_errors", was.rx_missed_errors, now.rx_missed_errors),
            ] {
                add(&place, counter, was, now);
            }
        }
    }
    if let (Ok(was), Ok(now)) = (before.switches(), after.switches()) {
        add("CPU", "context switches", was, now);
    }
    all
}

/// The share of all CPUs' time that was not idle, and the share in softirqs, in percent.
pub fn cpu(before: &Snapshot, after: &Snapshot) -> Option<(f64, f64)> {
    let (was, now) = (before.cpus().ok()?, after.cpus().ok()?);
    let sum = |cpus: &[quell_host::cpu::CpuTicks], of: fn(&quell_host::cpu::CpuTicks) -> u64| {
        cpus.iter().map(of).sum::<u64>()
    };
    let went = |of| sum(&now, of).saturating_sub(sum(&was, of)) as f64;
    let all = went(|cpu| cpu.all);
    (all > 0.0).then(|| {
        (100.0 - went(|cpu| cpu.idle) / all * 100.0, went(|cpu| cpu.softirq) / all * 100.0)
    })
}
