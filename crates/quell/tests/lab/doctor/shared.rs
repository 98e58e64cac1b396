//! Faults in what all namespaces of a kernel share. Nothing may come after them but each other, and most are asked for by name.

use super::Story;
use super::net::{Net, THERE, connected, evidence, finds, first, listener, pass, set};
use std::io::Write;
use std::net::UdpSocket;
use std::time::Duration;

pub const STORIES: &[Story] = &[
    Story { name: "more connections that nobody holds than may be", tell: orphans },
    Story { name: "TCP has all the memory that it may have", tell: memory },
    Story { name: "the table of neighbours is full", tell: neighbours },
    Story { name: "packet processing has a budget of one", tell: squeeze },
    Story { name: "a backlog of two packets", tell: softnet },
];

/// Changes a setting that all share while something is done.
fn with_setting<T>(key: &str, value: &str, work: impl FnOnce() -> T) -> T {
    let first = first();
    let was = first.run(|| quell_netlink::sysctl::read(key)).expect("it is there");
    set(&first, key, value);
    let done = work();
    set(&first, key, &was);
    done
}

fn orphans(net: &Net) {
    let listener = listener(&net.there);
    // What is closed with data that nobody reads stays with the kernel, and belongs to no program.
    let close_two = || {
        for _ in 0..2 {
            let mut stream = connected(&net.here, &listener);
            let (unread, _) = listener.accept().expect("it came");
            stream.set_write_timeout(Some(Duration::from_millis(200))).expect("it can be");
            let _ = stream.write(&[7; 8_000_000]);
            std::mem::forget(unread);
        }
        // They are counted ten times a second.
        pass(500);
    };
    with_setting("net/ipv4/tcp_max_orphans", "1", || (0..3).for_each(|_| close_two()));
    let found = super::net::examined(&net.here, &[]);
    assert!(evidence(&found, "memory-aborts").contains("TCPAbortOnMemory"), "{found:#?}");
    // Those that were let be still wait for a window, and ask for it with what was acknowledged.
    let brings = ["memory-aborts", "receiver-window", "spurious-retransmissions"];
    let named = |f: &serde_json::Value| f["id"].as_str().is_some_and(|id| brings.contains(&id));
    assert!(found.iter().all(named), "{found:#?}");
}

fn squeeze(net: &Net) {
    let reads = net.there.run(|| UdpSocket::bind((THERE, 0)).expect("a free port"));
    let to = reads.local_addr().expect("it has one");
    with_setting("net/core/netdev_budget", "1", || {
        let sender = net.here.run(|| {
            std::thread::spawn(move || {
                let socket = UdpSocket::bind("10.0.0.1:0").expect("a free port");
                for _ in 0..300 {
                    socket.send_to(&[7; 10], to).expect("it is sent");
                    pass(10);
                }
            })
        });
        finds(&net.here, &["time-squeeze"], &["--only", "time-squeeze", "--severity", "note"]);
        sender.join().expect("it ends");
    });
}

fn memory(net: &Net) {
    let listener = listener(&net.there);
    let mut stream = connected(&net.here, &listener);
    let (unread, _) = listener.accept().expect("it came");
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("it can be");
    let _ = stream.write(&[7; 500_000]);
    with_setting("net/ipv4/tcp_mem", "2 4 100000", || finds(&first(), &["tcp-memory"], &[]));
    drop((stream, unread));
}

fn neighbours(net: &Net) {
    let first = first();
    let keys =
        ["gc_thresh1", "gc_thresh2", "gc_thresh3"].map(|k| format!("net/ipv4/neigh/default/{k}"));
    let was = keys
        .clone()
        .map(|key| first.run(|| quell_netlink::sysctl::read(&key)).expect("it is there"));
    for (key, value) in keys.iter().zip(["2", "4", "8"]) {
        set(&first, key, value);
    }
    net.here.run(|| {
        let socket = UdpSocket::bind("10.0.0.1:0").expect("a free port");
        (50..150).for_each(|host| drop(socket.send_to(&[7; 10], format!("10.0.0.{host}:9"))));
    });
    // The table is everybody's, and is shown in the first namespace only.
    let found = finds(&first, &["neighbour-table"], &["--only", "neighbour-table"]);
    assert!(evidence(&found, "neighbour-table").contains("table_fulls"), "{found:#?}");
    for (key, value) in keys.iter().zip(was) {
        set(&first, key, &value);
    }
}

fn softnet(net: &Net) {
    net.queue("a0", "{ kind = \"netem\", delay = \"5ms\", limit = 100000 }");
    let reads = net.there.run(|| UdpSocket::bind((THERE, 0)).expect("a free port"));
    let to = reads.local_addr().expect("it has one");
    with_setting("net/core/netdev_max_backlog", "2", || {
        net.here.run(|| {
            let socket = UdpSocket::bind("10.0.0.1:0").expect("a free port");
            (0..200).for_each(|_| drop(socket.send_to(&[7; 10], to)));
        });
        pass(100);
    });
    finds(&net.here, &["softnet-drops"], &["--only", "softnet-drops"]);
}
