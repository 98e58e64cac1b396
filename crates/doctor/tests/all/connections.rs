//! What holds connections up, from recorded facts: what no lab here can make, or where the kernel's own clocks do not tell.

use crate::host::{findings, findings_of, host, later, only, outcome, text};
use quell_doctor::{CheckOutcome, ConnectionLooks};
use quell_finding::{Finding, Severity};
use quell_host::{QueueCounters, Snapshot};
use quell_netlink::sock_diag::{DiagSocket, SocketMemory, TcpInfo, TcpState};
use std::collections::BTreeMap;

/// The third figure of tcp_wmem that kernels come with.
const WMEM: u32 = 4_194_304;

/// A connection to another machine that has sent nothing yet.
fn connection(cookie: u64) -> DiagSocket {
    let mut info = TcpInfo::from_bytes(&[0; 248]).unwrap();
    // Timestamps, SACK and window scaling.
    (info.options, info.snd_mss, info.pmtu, info.snd_cwnd) = (7, 1448, 1500, 10);
    (info.rtt, info.min_rtt, info.snd_wnd) = (100_000, Some(100_000), Some(8_000_000));
    DiagSocket {
        local: "192.0.2.1:40000".parse().unwrap(),
        remote: "198.51.100.7:443".parse().unwrap(),
        state: TcpState::Established,
        receive_queue: 0,
        send_queue: 0,
        inode: 0,
        cookie,
        info: Some(info),
        congestion_control: None,
        memory: Some(SocketMemory {
            send_buffer: 87_040,
            receive_buffer: 131_072,
            ..SocketMemory::default()
        }),
    }
}

/// A host with these connections.
fn holding(connections: &[DiagSocket]) -> Snapshot {
    let mut snapshot = host();
    for (key, value) in [("tcp_rmem", "4096 131072 6291456"), ("tcp_wmem", "4096 16384 4194304")] {
        snapshot.texts.0.insert(format!("/proc/sys/net/ipv4/{key}"), Ok(value.to_owned()));
    }
    snapshot.sockets.as_mut().unwrap().tcp = connections.to_vec();
    snapshot
}

/// A connection with figures of its own.
fn with(mut socket: DiagSocket, change: impl FnOnce(&mut TcpInfo)) -> DiagSocket {
    change(socket.info.as_mut().unwrap());
    socket
}

fn seen(finding: &Finding, name: &str) -> f64 {
    let found = finding.evidence.iter().find(|seen| seen.name == name);
    let found = found.unwrap_or_else(|| panic!("no {name}: {finding:#?}"));
    serde_json::to_value(found).unwrap()["value"].as_f64().unwrap()
}

#[test]
fn one_flow_that_fills_a_cpu_is_told_and_two_that_share_are_not() {
    let sent = |cookie, bytes| {
        with(connection(cookie), |info| {
            (info.bytes_acked, info.busy_time) = (Some(bytes), Some(bytes));
        })
    };
    let before = holding(&[sent(1, 0), sent(2, 0)]);
    let busy = |first, second| {
        let mut now = later(holding(&[sent(1, first), sent(2, second)]));
        text(
            &mut now,
            "/proc/stat",
            "cpu1 100 0 100 9000 0 0 10 0",
            "cpu1 190 0 105 9002 0 0 13 0",
        );
        now
    };
    // 300 MB in a second are 2.4 Gbit/s.
    let finding = only("core-full-of-one-flow", Some(&before), &busy(300_000_000, 10_000_000));
    assert!((seen(&finding, "the connection") - 2.4).abs() < 0.01, "{finding:#?}");
    assert!((seen(&finding, "CPU 1 busy") - 98.0).abs() < 0.1, "{finding:#?}");
    assert_eq!(findings(Some(&before), &busy(300_000_000, 300_000_000)), []);
    assert_eq!(findings(Some(&before), &busy(60_000_000, 0)), []);
    let idle = later(holding(&[sent(1, 300_000_000), sent(2, 0)]));
    assert_eq!(findings(Some(&before), &idle), []);
    assert!(matches!(outcome("core-full-of-one-flow", &idle), CheckOutcome::NotApplicable(_)));
}

#[test]
fn packets_that_found_a_connection_busy_are_told() {
    let dropped = |counts: &str| {
        let mut snapshot = host();
        let names = "DelayedACKs TCPBacklogDrop TCPRcvQDrop\n";
        text(&mut snapshot, "/proc/net/netstat", "DelayedACKs\n", names);
        text(&mut snapshot, "/proc/net/netstat", " 0 10\n", &format!(" 0 10 {counts}\n"));
        snapshot
    };
    assert_eq!(findings(None, &dropped("0 0")), []);
    assert_eq!(seen(&only("backlog-drops", None, &dropped("40 0")), "TCPBacklogDrop"), 40.0);
    assert_eq!(seen(&only("backlog-drops", None, &dropped("0 40")), "TCPRcvQDrop"), 40.0);
    // In a year that is nothing; while we watch, one is enough.
    let year = |counts: &str| {
        let mut snapshot = dropped(counts);
        text(&mut snapshot, "/proc/uptime", "3600.00", "31536000.00");
        snapshot
    };
    assert_eq!(findings(Some(&year("40 0")), &later(year("40 0"))), []);
    let finding = only("backlog-drops", Some(&year("40 0")), &later(year("41 0")));
    assert_eq!(seen(&finding, "of these"), 1.0);
}

#[test]
fn a_program_with_nothing_more_to_send_is_a_note() {
    let sent = |bytes, busy| {
        with(connection(1), |info| (info.bytes_acked, info.busy_time) = (Some(bytes), Some(busy)))
    };
    let before = holding(&[sent(0, 0)]);
    let finding = only("sender-idle", Some(&before), &later(holding(&[sent(2_000_000, 200_000)])));
    assert_eq!(finding.severity, Severity::Note);
    assert_eq!((seen(&finding, "sent"), seen(&finding, "idle")), (2_000_000.0, 80.0));
    // It had something to send for most of the time; next to nothing was sent; it stays on this machine.
    for quiet in [sent(2_000_000, 400_000), sent(20_000, 200_000)] {
        assert_eq!(findings(Some(&before), &later(holding(&[quiet]))), []);
    }
    let local =
        |bytes, busy| DiagSocket { remote: "127.0.0.1:443".parse().unwrap(), ..sent(bytes, busy) };
    let now = later(holding(&[local(2_000_000, 200_000)]));
    assert_eq!(findings(Some(&holding(&[local(0, 0)])), &now), []);
}

/// A sender whose buffer is full of what is in flight, and which has sent so much.
fn full(buffer: u32, sent: u64) -> DiagSocket {
    let mut socket = connection(1);
    let memory = socket.memory.as_mut().unwrap();
    (memory.send_buffer, memory.queued, socket.send_queue) = (buffer, buffer + 2000, buffer / 2);
    with(socket, |info| {
        (info.unacked, info.snd_cwnd, info.notsent_bytes) =
            (buffer / 2 / 1448, buffer / 1448, Some(0));
        (info.bytes_acked, info.busy_time) = (Some(sent), Some(sent));
    })
}

#[test]
fn a_buffer_at_its_maximum_is_told_with_the_setting_that_bounds_it() {
    let counted = |sent| with(full(WMEM, sent), |info| info.sndbuf_limited = Some(sent / 10 * 9));
    let finding = only("send-buffer", None, &holding(&[counted(1_000_000)]));
    assert_eq!(seen(&finding, "net/ipv4/tcp_wmem"), f64::from(WMEM));
    // A large buffer that holds nothing up.
    let well = with(full(WMEM, 1_000_000), |info| info.sndbuf_limited = Some(10_000));
    assert_eq!(findings(None, &holding(&[well])), []);
    // One that is larger than TCP's own may become was fixed by its program.
    let fixed = with(full(WMEM * 2, 1_000_000), |info| info.sndbuf_limited = Some(900_000));
    let finding = only("send-buffer", None, &holding(&[fixed]));
    assert!(finding.evidence.iter().all(|seen| seen.name != "net/ipv4/tcp_wmem"), "{finding:#?}");
}

#[test]
fn a_receive_buffer_at_its_maximum_that_is_read_in_a_round_trip_is_told() {
    let read = |received, space| {
        let mut socket = connection(1);
        socket.memory.as_mut().unwrap().receive_buffer = 6_291_456;
        with(socket, |info| {
            (info.bytes_received, info.rcv_space, info.rcv_rtt) = (Some(received), space, 100_000);
        })
    };
    let before = holding(&[read(0, 3_200_000)]);
    let now = |received, space| later(holding(&[read(received, space)]));
    let finding = only("receiver-window", Some(&before), &now(30_000_000, 3_200_000));
    assert_eq!(seen(&finding, "net/ipv4/tcp_rmem"), 6_291_456.0);
    assert!(finding.says.starts_with("the other end waited for this end"), "{finding:#?}");
    assert_eq!(findings(Some(&before), &now(30_000_000, 1_000_000)), []);
    assert_eq!(findings(Some(&before), &now(1_000_000, 3_200_000)), []);
}

#[test]
fn a_buffer_full_of_what_is_in_flight_holds_up_though_the_kernels_clock_stands() {
    let told = |change: &dyn Fn(&mut TcpInfo), times: u64| {
        let socket = with(full(16_384, 2_000_000), change);
        let now = later(holding(std::slice::from_ref(&socket)));
        let mut looks = ConnectionLooks::default();
        for look in 0..6 {
            let socket = if look < times { socket.clone() } else { connection(1) };
            let sockets = holding(&[socket]).sockets.unwrap();
            looks.look(look, &sockets, &BTreeMap::new());
        }
        let found = findings_of(Some(&holding(&[full(16_384, 1_000_000)])), &now, &looks);
        found.into_iter().map(|finding| finding.id).collect::<Vec<_>>()
    };
    assert_eq!(told(&|_| (), 5), ["send-buffer"]);
    // Half of the looks prove nothing.
    assert_eq!(told(&|_| (), 3), [""; 0]);
    // The congestion window is full; the other end's is; something waits to be sent.
    assert_eq!(told(&|info| info.snd_cwnd = info.unacked, 6), [""; 0]);
    assert_eq!(told(&|info| info.snd_wnd = Some(8192), 6), [""; 0]);
    assert_eq!(told(&|info| info.notsent_bytes = Some(5000), 6), [""; 0]);
}

#[test]
fn a_download_that_fills_the_path_is_told_and_one_that_comes_in_bursts_is_not() {
    // Milliseconds that a round trip takes, and since data came, of a path of 100 ms.
    let told = |rtt_ms: u32, since_ms: u32, timestamps: u8| {
        let came = |look: u32| {
            with(connection(1), |info| {
                (info.rcv_mss, info.rcv_rtt, info.last_data_recv) = (1448, rtt_ms * 1000, since_ms);
                info.options = 6 | timestamps;
                info.bytes_received = Some(u64::from(look) * 100_000);
                (info.data_segs_in, info.data_segs_out) = (Some(look * 70), Some(1));
            })
        };
        let mut looks = ConnectionLooks::default();
        for look in 1..=6 {
            let sockets = holding(&[came(look)]).sockets.unwrap();
            looks.look(u64::from(look) * 160_000_000, &sockets, &BTreeMap::new());
        }
        let found = findings_of(Some(&holding(&[came(0)])), &later(holding(&[came(6)])), &looks);
        found.into_iter().map(|finding| (finding.id, finding.says)).collect::<Vec<_>>()
    };
    let full = told(200, 1, 1);
    assert!(
        matches!(&full[..], [(id, says)] if id == "path-queue" && says.contains("the other end filled")),
        "{full:?}"
    );
    // No queue; 100 ms from burst to burst; a clock of the window.
    for none in [told(120, 1, 1), told(200, 90, 1), told(200, 1, 0)] {
        assert_eq!(none, []);
    }
}

#[test]
fn packets_that_die_on_the_way_are_told_where_connections_fail_too() {
    let host = |died: u32, failed: u32, ttl: &str| {
        let mut snapshot = host();
        let udp = "Udp: RcvbufErrors";
        let icmp = format!("Icmp: InTimeExcds\nIcmp: {died}\n{udp}");
        text(&mut snapshot, "/proc/net/snmp", udp, &icmp);
        text(
            &mut snapshot,
            "/proc/net/snmp",
            "InCsumErrors\nTcp:",
            "InCsumErrors AttemptFails\nTcp:",
        );
        text(&mut snapshot, "/proc/net/snmp", "100 5 0\n", &format!("100 5 0 {failed}\n"));
        snapshot.texts.0.insert("/proc/sys/net/ipv4/ip_default_ttl".into(), Ok(ttl.into()));
        snapshot
    };
    let before = host(100, 10, "64");
    let finding = only("hop-limit", Some(&before), &later(host(106, 11, "64")));
    assert_eq!((seen(&finding, "of these"), seen(&finding, "AttemptFails")), (6.0, 1.0));
    // A trace of a path opens no connection; who is refused was there.
    for none in [host(106, 10, "64"), host(100, 16, "64")] {
        assert_eq!(findings(Some(&before), &later(none)), []);
    }
    assert!(only("hop-limit", None, &host(0, 0, "16")).says.contains("too small"));
}

#[test]
fn connections_that_found_no_room_in_the_table_are_told() {
    let tracked = |drop: &str, early: &str| {
        let mut snapshot = host();
        for (path, value) in [
            ("/proc/sys/net/netfilter/nf_conntrack_max", "65536\n".to_owned()),
            ("/proc/sys/net/netfilter/nf_conntrack_count", "2000\n".to_owned()),
            // Two CPUs; the figures are hexadecimal.
            (
                "/proc/net/stat/nf_conntrack",
                format!(
                    "entries drop early_drop\n000007d0 {drop} {early}\n000007d0 00000000 00000001\n"
                ),
            ),
        ] {
            snapshot.texts.0.insert(path.to_owned(), Ok(value));
        }
        snapshot
    };
    assert_eq!(findings(None, &tracked("00000000", "00000000")), []);
    let finding = only("conntrack-full", None, &tracked("00000020", "00000000"));
    assert_eq!(seen(&finding, "drop"), 32.0);
    assert!(finding.says.contains("turned away"), "{finding:#?}");
    let finding = only("conntrack-full", None, &tracked("00000000", "00000010"));
    assert_eq!(seen(&finding, "early_drop"), 17.0);
}

#[test]
fn a_program_is_named_where_its_own_socket_dropped_packets() {
    let socket = |drops| {
        let mut snapshot = host();
        text(&mut snapshot, "/proc/net/snmp", "Udp: 0 0", "Udp: 900 0");
        let mut socket = connection(1);
        socket.memory.as_mut().unwrap().drops = drops;
        snapshot.sockets.as_mut().unwrap().udp = vec![socket];
        only("udp-receive-buffer", None, &snapshot).subject
    };
    assert_eq!((socket(0).as_str(), socket(7).as_str()), ("this host", "UDP at 192.0.2.1:40000"));
}

#[test]
fn a_queue_that_stands_is_ones_own_or_the_paths() {
    let waits = with(connection(1), |info| {
        (info.rtt, info.min_rtt, info.unacked) = (180_000, Some(20_000), 40);
        info.delivery_rate = Some(1_000_000);
    });
    let standing = |packets| {
        let mut snapshot = holding(std::slice::from_ref(&waits));
        snapshot.queues = Ok(vec![QueueCounters {
            device: "eth0".into(),
            kind: "fq".into(),
            parent: "root".into(),
            root: true,
            packets: 1000,
            drops: 0,
            backlog_packets: packets,
            backlog_bytes: packets * 1500,
            marks: None,
            limit_drops: None,
            options: None,
            troubles: Vec::new(),
        }]);
        snapshot
    };
    only("path-queue", Some(&standing(0)), &later(standing(30)));
    only("own-queue", Some(&standing(20)), &later(standing(30)));
}
