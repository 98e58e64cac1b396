//! This machine's facts, and a million sockets that no machine here has.

use quell_host::capture::{Depth, take};
use quell_host::sockets::owners;
use quell_host::sockets::{Fold, KEPT};
use quell_netlink::sock_diag::{DiagSocket, TcpInfo, TcpState};
use quell_sys::wait::{readable, wait};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{TcpListener, TcpStream};

#[test]
fn a_snapshot_that_was_written_is_the_one_that_is_read() {
    let taken = take(Depth::Full);
    assert!(taken.counter("Tcp.RetransSegs").is_ok(), "{:?}", taken.counter("Tcp.RetransSegs"));
    assert!(taken.devices().unwrap().contains_key("lo"));
    assert!(taken.uptime().unwrap() > 0.0 && taken.texts.memory().unwrap() > 1 << 20);
    assert!(taken.kernel().unwrap().0 >= 3);
    // Drivers may lack a topic; a kernel that refuses the question was asked wrongly.
    assert!(taken.hardware_unseen.iter().all(|why| !why.contains("EINVAL")), "{taken:#?}");
    let text = serde_json::to_string(&taken).unwrap();
    let mut read: quell_host::Snapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(read, taken);
    // Without one of its files, whoever asks is told.
    read.texts.0.remove("/proc/net/netstat");
    let why = read.counter("TcpExt.ListenOverflows").unwrap_err();
    assert_eq!(why, "/proc/net/netstat was not read");
}

#[test]
fn a_connection_is_seen_with_the_process_that_holds_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    // What waits is kept, and what moved most: however many connections other tests have meanwhile.
    let (mut other, _) = listener.accept().unwrap();
    other.write_all(&[0; 60_000]).unwrap();
    stream.peek(&mut [0]).unwrap();
    let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    wait(&mut [readable(&listener)]).unwrap();
    let sockets = take(Depth::Moving).sockets.unwrap();
    let own = stream.local_addr().unwrap();
    let found = sockets.tcp.iter().find(|socket| socket.local == own).expect("it is listed");
    assert!(found.info.is_some() && found.memory.is_some_and(|m| m.receive_buffer > 0));
    let owners = owners(&BTreeSet::from([found.inode]));
    assert_eq!(owners[&found.inode].pid, std::process::id());
    let waits = sockets.listeners.iter().find(|l| l.local == listener.local_addr().unwrap());
    assert_eq!(waits.expect("nobody accepted it").receive_queue, 1);
}

#[test]
fn of_a_million_connections_the_busiest_are_kept_and_the_rest_is_counted() {
    let mut info = [0; 248];
    let mut fold = Fold::default();
    for number in 0u64..1_000_000 {
        info[120..128].copy_from_slice(&number.to_ne_bytes());
        fold.tcp(DiagSocket {
            local: "192.0.2.1:443".parse().unwrap(),
            remote: std::net::SocketAddr::from(([198, 51, 100, 7], (number % 60_000) as u16 + 1)),
            state: TcpState::Established,
            receive_queue: 0,
            send_queue: u32::from(number == 5),
            inode: 0,
            cookie: number,
            info: Some(TcpInfo::from_bytes(&info).unwrap()),
            congestion_control: None,
            memory: None,
        });
    }
    let sockets = fold.finish();
    assert_eq!(sockets.states["Established"], 1_000_000);
    assert_eq!(sockets.tcp.len(), KEPT);
    let kept: BTreeSet<u64> = sockets.tcp.iter().map(|socket| socket.cookie).collect();
    assert!(kept.contains(&5), "one that waits is kept, whatever it has moved");
    assert!(kept.contains(&999_999) && !kept.contains(&6));
    assert_eq!(sockets.busiest_destination.unwrap().1, 17);
}
