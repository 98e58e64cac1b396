//! A host whose facts are well, for tests that make them otherwise.

#![allow(dead_code, reason = "each test program uses its own part")]

use quell_doctor::CheckOutcome;
use quell_doctor::{CATALOGUE, ConnectionLooks, Facts, examine, named};
use quell_finding::Finding;
use quell_host::sockets::Sockets;
use quell_host::{Device, Snapshot, Texts};
use quell_netlink::ethtool::{Channels, Coalescing, Hardware, LinkModes, Pause, Rings};
use quell_netlink::link::{Link, LinkStats};
use quell_netlink::offload::Features;
use std::collections::{BTreeMap, BTreeSet};

/// A host with one good card, up for an hour.
pub fn host() -> Snapshot {
    let mut snapshot = Snapshot {
        at_ns: 1_000_000_000,
        texts: Texts::default(),
        first_address_cs: None,
        devices: Ok(BTreeMap::from([("eth0".to_owned(), card())])),
        queues: Ok(Vec::new()),
        hardware_unseen: Vec::new(),
        sockets: Ok(Sockets::default()),
    };
    for (path, text) in [
        ("/proc/uptime", "3600.00 7000.00\n"),
        ("/proc/meminfo", "MemTotal:       16384000 kB\n"),
        (
            "/proc/stat",
            "cpu  0 0 0 0 0 0 0 0\ncpu0 100 0 100 9000 0 0 10 0\ncpu1 100 0 100 9000 0 0 10 0\nctxt 1000\n",
        ),
        ("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1\n"),
        (
            "/proc/net/snmp",
            "Tcp: ActiveOpens RetransSegs InCsumErrors\nTcp: 100 5 0\nUdp: RcvbufErrors InCsumErrors\nUdp: 0 0\nIp: ReasmReqds ReasmFails\nIp: 0 0\n",
        ),
        (
            "/proc/net/netstat",
            "TcpExt: TCPOrigDataSent TCPTimeouts TCPSynRetrans PAWSEstab TCPSACKReneging TCPAbortOnMemory TCPSACKReorder TCPDSACKRecv ListenOverflows DelayedACKs\nTcpExt: 100000 2 0 0 0 0 0 0 0 10\n",
        ),
        ("/proc/net/softnet_stat", "000f4240 00000000 00000000 0\n"),
        ("/proc/sys/kernel/osrelease", "6.12.48-amd64\n"),
        ("/proc/sys/net/ipv4/ip_forward", "0\n"),
        ("/proc/sys/net/ipv4/tcp_mtu_probing", "0\n"),
    ] {
        snapshot.texts.0.insert(path.to_owned(), Ok(text.to_owned()));
    }
    snapshot
}

/// A card of 1 Gbit/s at an equal switch, with all that a good driver sets.
fn card() -> Device {
    let modes = names(&["100baseT/Full", "1000baseT/Full", "Autoneg"]);
    let wanted = ["tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro", "rx-checksum"];
    Device {
        link: Link {
            index: 2,
            name: "eth0".to_owned(),
            kind: None,
            mtu: 1500,
            flags: 0x1_1043,
            mac: None,
            parent: None,
            master: None,
            carrier: Some(true),
            carrier_changes: Some(2),
            tx_queue_len: Some(1000),
            tx_queues: Some(1),
            qdisc: Some("fq_codel".to_owned()),
            gso_max_segs: None,
            gso_max_size: None,
            stats: LinkStats {
                rx_packets: 1_000_000,
                tx_packets: 1_000_000,
                ..LinkStats::default()
            },
        },
        hardware: Hardware {
            modes: Some(LinkModes {
                speed: Some(1000),
                duplex: Some(1),
                autonegotiation: Some(true),
                supported: modes.clone(),
                advertised: modes.clone(),
                peer: modes,
            }),
            rings: Some(Rings {
                rx: Some(256),
                rx_max: Some(4096),
                tx: Some(256),
                tx_max: Some(4096),
            }),
            channels: Some(Channels { rx: 1, rx_max: 1 }),
            coalescing: Some(Coalescing { adaptive_rx: Some(true), rx_usecs: Some(3) }),
            pause: Some(Pause {
                rx: Some(true),
                tx: Some(true),
                rx_frames: Some(0),
                tx_frames: Some(0),
            }),
            uncorrectable: Some(0),
            features: Some(Features {
                active: names(&wanted),
                changeable: names(&wanted),
                wanted: names(&wanted),
            }),
        },
        counters: BTreeMap::new(),
        bus: BTreeMap::from([("path".to_owned(), "/sys/class/net/eth0/device".to_owned())]),
        known_stats: None,
    }
}

/// A set of names.
pub fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

/// That host with another card.
pub fn with(change: impl FnOnce(&mut Device)) -> Snapshot {
    let mut snapshot = host();
    change(snapshot.devices.as_mut().unwrap().get_mut("eth0").unwrap());
    snapshot
}

/// All findings.
pub fn findings(before: Option<&Snapshot>, now: &Snapshot) -> Vec<Finding> {
    findings_of(before, now, &ConnectionLooks::default())
}

/// All findings, with what looks in between showed.
pub fn findings_of(
    before: Option<&Snapshot>,
    now: &Snapshot,
    looks: &ConnectionLooks,
) -> Vec<Finding> {
    let owners = BTreeMap::new();
    let facts = Facts {
        before,
        now,
        looks,
        owners: &owners,
        quiet_switches: None,
        peer: None,
        drops: None,
        reported: &[],
    };
    let verdicts = examine(&facts, CATALOGUE.iter().copied());
    verdicts.iter().flat_map(|verdict| verdict.outcome.findings().to_vec()).collect()
}

/// Exactly one finding, of this check.
#[track_caller]
pub fn only(id: &str, before: Option<&Snapshot>, now: &Snapshot) -> Finding {
    let found = findings(before, now);
    let ids: Vec<&str> = found.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, [id], "{found:#?}");
    found.into_iter().next().unwrap()
}

/// What one check comes to.
pub fn outcome(id: &str, now: &Snapshot) -> CheckOutcome {
    let (looks, owners) = (ConnectionLooks::default(), BTreeMap::new());
    let facts = Facts {
        before: None,
        now,
        looks: &looks,
        owners: &owners,
        quiet_switches: None,
        peer: None,
        drops: None,
        reported: &[],
    };
    examine(&facts, named(id)).remove(0).outcome
}

/// A second later.
pub fn later(mut snapshot: Snapshot) -> Snapshot {
    snapshot.at_ns += 1_000_000_000;
    snapshot
}

/// Changes the text of a file, in which `from` has to stand.
pub fn text(snapshot: &mut Snapshot, path: &str, from: &str, to: &str) {
    let text = snapshot.texts.0.get_mut(path).unwrap().as_mut().unwrap();
    assert!(text.contains(from), "{text}");
    *text = text.replace(from, to);
}
