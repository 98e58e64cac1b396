//! What holds single connections up.

use super::Story;
use super::net::{
    Busy, Net, THERE, connected, evidence, finds, listener, name, pass, read_all, served, set,
};
use nix::sys::socket::{setsockopt, sockopt};
use quell_netlink::Stack;
use quell_netlink::link::LinkChange;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub const STORIES: &[Story] = &[
    Story {
        name: "a program that does not read is named at its end, and its window at the other",
        tell: slow_reader,
    },
    Story { name: "a send buffer that was fixed too small", tell: send_buffer },
    Story { name: "a receive buffer that was fixed too small", tell: receive_buffer },
    Story { name: "a connection in a long queue of its own host", tell: queueing },
    Story { name: "a connection in a long queue of the path", tell: path_queue },
    Story {
        name: "a connection that waits in a long queue of the path for what comes",
        tell: download,
    },
    Story { name: "two small writes and a delayed acknowledgement", tell: stall },
    Story { name: "an answer's rest waits for an ACK that this host delays", tell: split_answers },
    Story { name: "large packets vanish", tell: black_hole },
    Story { name: "the other end takes small segments", tell: clamped },
    Story { name: "the other end refuses window scaling", tell: refused },
    Story { name: "nearly all local ports to one destination are taken", tell: ports },
    Story { name: "TCP waits so long for its own queue that it sends again", tell: own_queue },
    Story { name: "a program that has nothing to send between its bursts", tell: bursts },
    Story { name: "a path that is too long for the largest buffer", tell: largest_buffer },
];

fn slow_reader(net: &Net) {
    let listener = listener(&net.there);
    let stream = connected(&net.here, &listener);
    let (unread, _) = listener.accept().expect("it came");
    let busy = Busy::new(stream);
    pass(3000);
    let found = finds(&net.there, &["receiver-window"], &[]);
    // Its process is this one.
    let seen = evidence(&found, "receiver-window");
    assert!(seen.contains(&format!("({})", std::process::id())), "{seen}");
    finds(&net.here, &["receiver-window"], &[]);
    drop((unread, busy));
}

/// A busy connection over 20 ms each way, from here to somebody who reads.
fn far(net: &Net, prepare: impl FnOnce(&TcpStream), accepted: fn(&TcpStream)) -> Busy {
    for device in ["a0", "b0"] {
        net.queue(device, "{ kind = \"netem\", delay = \"20ms\", limit = 100000 }");
    }
    let listener = listener(&net.there);
    accepted_by(&listener, accepted);
    let stream = connected(&net.here, &listener);
    prepare(&stream);
    served(&net.there, listener, read_all);
    let busy = Busy::new(stream);
    pass(2000);
    busy
}

/// A receive buffer that a listener has is that of what it accepts.
fn accepted_by(listener: &std::net::TcpListener, prepare: fn(&TcpStream)) {
    use std::os::fd::AsFd;
    let twin = listener.as_fd().try_clone_to_owned().expect("a descriptor");
    prepare(&TcpStream::from(twin));
}

fn send_buffer(net: &Net) {
    let small = |stream: &TcpStream| setsockopt(stream, sockopt::SndBuf, &8192).expect("a size");
    let busy = far(net, small, |_| {});
    finds(&net.here, &["send-buffer"], &[]);
    drop(busy);
}

fn receive_buffer(net: &Net) {
    let small = |stream: &TcpStream| setsockopt(stream, sockopt::RcvBuf, &16_384).expect("a size");
    let busy = far(net, |_| {}, small);
    let found = finds(&net.there, &["receiver-window"], &[]);
    assert!(evidence(&found, "receiver-window").contains("SO_RCVBUF"), "{found:#?}");
    finds(&net.here, &["receiver-window"], &[]);
    drop(busy);
}

fn queueing(net: &Net) {
    net.queue("a0", "{ kind = \"netem\", rate = \"2Mbit\", limit = 2000 }");
    let listener = listener(&net.there);
    let stream = connected(&net.here, &listener);
    served(&net.there, listener, read_all);
    let busy = Busy::new(stream);
    pass(3000);
    finds(&net.here, &["own-queue"], &[]);
    drop(busy);
}

fn path_queue(_: &Net) {
    let row = super::shapes::Row::new(3);
    let narrow = "{ kind = \"netem\", rate = \"2Mbit\", limit = 2000 }";
    super::net::queue_at(&row.hosts[1], "right", narrow);
    let listener = super::net::listener_on(row.last(), &row.address());
    let stream = connected(row.first(), &listener);
    served(row.last(), listener, read_all);
    let busy = Busy::new(stream);
    pass(3000);
    finds(row.first(), &["path-queue"], &[]);
    drop(busy);
}

fn download(_: &Net) {
    let row = super::shapes::Row::new(3);
    let narrow = "{ kind = \"netem\", rate = \"2Mbit\", limit = 2000 }";
    super::net::queue_at(&row.hosts[1], "left", narrow);
    let listener = super::net::listener_on(row.last(), &row.address());
    let stream = connected(row.first(), &listener);
    let busy = Busy::new(listener.accept().expect("it came").0);
    let reader = std::thread::spawn(move || read_all(stream));
    pass(3000);
    let found = finds(row.first(), &["path-queue"], &[]);
    assert!(found[0]["says"].to_string().contains("the other end filled"), "{found:#?}");
    drop(busy);
    reader.join().expect("it ends");
}

/// A caller that never thinks, and a server that writes each answer in two pieces, with Nagle's rule or without.
fn split_answers(net: &Net) {
    for (no_delay, wanted) in [(false, &["delayed-ack"][..]), (true, &[])] {
        let listener = listener(&net.there);
        let mut stream = connected(&net.here, &listener);
        served(&net.there, listener, move |mut stream| {
            stream.set_nodelay(no_delay).expect("it can be");
            let mut call = [0; 100];
            while stream.read_exact(&mut call).is_ok()
                && stream.write_all(&[1; 50]).and_then(|()| stream.write_all(&[1; 50])).is_ok()
            {
            }
        });
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&stop);
        let caller = std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                stream.write_all(&[2; 100]).expect("a call");
                stream.read_exact(&mut [0; 100]).expect("an answer");
                // Who thinks for longer than an ACK is delayed delays each.
                pass(if no_delay { 90 } else { 0 });
            }
        });
        pass(2000);
        let found = finds(&net.here, wanted, &[]);
        assert!(found.iter().all(|found| found["sure"] == false), "{found:#?}");
        stop.store(true, Ordering::Relaxed);
        caller.join().expect("it ends");
    }
}

fn stall(net: &Net) {
    let listener = listener(&net.there);
    let mut stream = connected(&net.here, &listener);
    served(&net.there, listener, |mut stream| {
        let mut call = [0; 200];
        while stream.read_exact(&mut call).is_ok() && stream.write_all(&[1; 50]).is_ok() {}
    });
    let stop = Arc::new(AtomicBool::new(false));
    let caller = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut reply = [0; 50];
            while !stop.load(Ordering::Relaxed) {
                stream.write_all(&[2; 100]).expect("the head");
                stream.write_all(&[3; 100]).expect("the rest");
                stream.read_exact(&mut reply).expect("an answer");
            }
        })
    };
    pass(1000);
    finds(&net.here, &["delayed-ack"], &[]);
    stop.store(true, Ordering::Relaxed);
    caller.join().expect("it ends");
}

fn black_hole(net: &Net) {
    // A veth's MTU does not hold for packets that are still to be cut into segments.
    net.here.run(|| {
        let mut stack = Stack::open().expect("a stack");
        let index = stack.index_of(&name("a0")).expect("the cable");
        stack.change_link(index, &[LinkChange::GsoMaxSegs(1)]).expect("it is taken");
    });
    // Behind a queue TCP is not told of the drop, as it is not on a real path.
    net.queue("a0", "{ kind = \"netem\", delay = \"1ms\" }");
    let listener = listener(&net.there);
    let mut stream = connected(&net.here, &listener);
    let (mut other, _) = listener.accept().expect("it came");
    stream.write_all(b"small").expect("it is taken");
    other.read_exact(&mut [0; 5]).expect("it arrives");
    // From now on the far end of the cable drops what is larger, and nobody is told.
    net.there.run(|| {
        let mut stack = Stack::open().expect("a stack");
        let index = stack.index_of(&name("b0")).expect("the cable");
        stack.change_link(index, &[LinkChange::Mtu(1200)]).expect("it is taken");
    });
    stream.write_all(&[7; 20_000]).expect("it is taken");
    pass(6000);
    let found = finds(&net.here, &["mtu-black-hole"], &[]);
    assert_eq!(found[0]["severity"], "serious", "{found:#?}");
}

fn clamped(net: &Net) {
    let listener = listener(&net.there);
    setsockopt(&listener, sockopt::TcpMaxSeg, &900).expect("a size");
    let mut stream = connected(&net.here, &listener);
    served(&net.there, listener, read_all);
    stream.write_all(&vec![7; 300_000]).expect("it is taken");
    pass(1000);
    finds(&net.here, &["clamped-mss"], &["--severity", "note"]);
}

fn refused(net: &Net) {
    set(&net.there, "net/ipv4/tcp_window_scaling", "0");
    let listener = listener(&net.there);
    let mut stream = connected(&net.here, &listener);
    served(&net.there, listener, read_all);
    stream.write_all(&vec![7; 300_000]).expect("it is taken");
    pass(1000);
    finds(&net.here, &["options-refused"], &[]);
    finds(&net.there, &["tcp-options-off"], &[]);
}

fn ports(net: &Net) {
    set(&net.here, "net/ipv4/ip_local_port_range", "40000 40019");
    let listener = listener(&net.there);
    let all: Vec<_> = (0..18)
        .map(|_| (connected(&net.here, &listener), listener.accept().expect("it came")))
        .collect();
    let found = finds(&net.here, &["local-ports"], &[]);
    assert!(evidence(&found, "local-ports").contains(THERE), "{found:#?}");
    // This end closes first, and its ports wait for a minute.
    drop(all);
    pass(500);
    let found = finds(&net.here, &["local-ports"], &[]);
    assert!(evidence(&found, "local-ports").contains("TIME-WAIT"), "{found:#?}");
}

fn own_queue(net: &Net) {
    // 20 kbit/s: a full segment takes 600 ms, and the first timeout is after a second at most.
    net.queue("a0", "{ kind = \"tbf\", rate = \"20kbit\", burst = \"3kB\", limit = \"1MB\" }");
    let listener = listener(&net.there);
    let stream = connected(&net.here, &listener);
    served(&net.there, listener, read_all);
    let busy = Busy::new(stream);
    pass(20_000);
    finds(&net.here, &["own-queue"], &[]);
    drop(busy);
}

fn bursts(net: &Net) {
    net.queue("a0", "{ kind = \"netem\", delay = \"5ms\", limit = 100000 }");
    let listener = listener(&net.there);
    let mut stream = connected(&net.here, &listener);
    served(&net.there, listener, read_all);
    let writer = std::thread::spawn(move || {
        for _ in 0..60 {
            stream.write_all(&[7; 100_000]).expect("it is taken");
            pass(50);
        }
    });
    pass(1000);
    finds(&net.here, &["sender-idle"], &["--severity", "note"]);
    writer.join().expect("it ends");
}

fn largest_buffer(net: &Net) {
    for device in ["a0", "b0"] {
        net.queue(device, "{ kind = \"netem\", delay = \"100ms\", limit = 100000 }");
    }
    let listener = listener(&net.there);
    let stream = connected(&net.here, &listener);
    served(&net.there, listener, read_all);
    let busy = Busy::new(stream);
    pass(6000);
    // The send buffer would hold more than the receive buffer does.
    let found = finds(&net.there, &["receiver-window"], &[]);
    assert!(evidence(&found, "receiver-window").contains("tcp_rmem"), "{found:#?}");
    finds(&net.here, &["receiver-window"], &[]);
    drop(busy);
}
