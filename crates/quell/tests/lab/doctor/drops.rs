//! What the kernel's drop monitor tells: packets that are dropped at a known place for a known reason, counted exactly.
//!
//! ```text
//!   doctor --during 'sleep 4': a quiet second ─ monitor on ─ 100 packets ─ monitor off ─► reason, place, flow, 100
//! ```

use super::Story;
use super::firewall::{Hook, Refused, refuse};
use super::net::{Net, QUELL, THERE, pass};
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

pub const STORIES: &[Story] = &[
    Story { name: "dropped: a socket whose buffer is full", tell: full_buffer },
    Story { name: "dropped: nobody listens", tell: nobody },
    Story { name: "dropped: a rule of the firewall", tell: firewall },
    Story { name: "dropped: a queue that is full", tell: queue },
    Story { name: "dropped: nothing", tell: nothing },
];

/// A port that the stories' packets go to, and whence.
const PORT: u16 = 4000;
const FROM: &str = "10.0.0.1:4001";

/// What the doctor says was dropped, while somebody does this.
fn dropped(net: &Net, work: impl FnOnce() + Send) -> Vec<Value> {
    // Until interfaces that came up have told of their groups: nobody listens to that.
    pass(10_000);
    let output = std::thread::scope(|scope| {
        let doctor = scope.spawn(|| {
            net.here.run(|| {
                let mut command = Command::new(QUELL);
                command.args(["doctor", "--json", "--during", "sleep 4"]).stdin(Stdio::null());
                command.output().expect("quell can be started")
            })
        });
        // The quiet second is over, and the command runs.
        pass(3000);
        net.here.run(work);
        doctor.join().expect("the doctor ends")
    });
    let said = String::from_utf8_lossy(&output.stdout);
    let json: Value = serde_json::from_str(&said)
        .unwrap_or_else(|e| panic!("{e}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    let seen = &json["during"]["dropped"];
    assert_eq!((&seen["not_told"], &seen["of_other_flows"]), (&0.into(), &0.into()), "{seen:#}");
    seen["rows"].as_array().unwrap_or_else(|| panic!("{seen:#}")).clone()
}

/// It is these rows and no other: reason, place, how many; all of the story's flow.
#[track_caller]
fn tells(rows: &[Value], wanted: &[(&str, &str, u64)]) {
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            assert_eq!(row["flow"], format!("UDP {FROM} to {THERE}:{PORT}"), "{rows:#?}");
            let text = |name: &str| row[name].as_str().unwrap_or_default();
            (text("reason"), text("place"), row["packets"].as_u64().unwrap_or(0))
        })
        .collect();
    assert_eq!(told, wanted, "{rows:#?}");
}

fn send(count: usize) {
    let socket = UdpSocket::bind(FROM).expect("a free port");
    // Where nobody listens each second call tells of that, and sends nothing.
    (0..count).for_each(|_| drop(socket.send_to(&[7; 100], (THERE, PORT))));
}

fn full_buffer(net: &Net) {
    let unread = net.there.run(|| UdpSocket::bind((THERE, PORT)).expect("a free port"));
    setsockopt(&unread, sockopt::RcvBuf, &4096).expect("a size");
    net.here.run(|| send(100));
    let rows = dropped(net, || send(100));
    tells(&rows, &[("SOCKET_RCVBUFF", "udp_queue_rcv_one_skb", 100)]);
}

fn nobody(net: &Net) {
    let rows = dropped(net, || send(100));
    tells(&rows, &[("NO_SOCKET", "__udp4_lib_rcv", 100)]);
}

fn firewall(net: &Net) {
    let reads = net.there.run(|| UdpSocket::bind((THERE, PORT)).expect("a free port"));
    refuse(&net.there, Hook::In, &[Refused::Port(PORT)]);
    let rows = dropped(net, || send(100));
    tells(&rows, &[("NETFILTER_DROP", "nft_do_chain", 100)]);
    drop(reads);
}

fn queue(net: &Net) {
    let reads = net.there.run(|| UdpSocket::bind((THERE, PORT)).expect("a free port"));
    net.queue("a0", "{ kind = \"netem\", delay = \"100ms\", limit = 10 }");
    let rows = dropped(net, || send(100));
    tells(&rows, &[("QDISC_DROP", "kfree_skb_list_reason", 90)]);
    drop(reads);
}

fn nothing(net: &Net) {
    let reads = net.there.run(|| UdpSocket::bind((THERE, PORT)).expect("a free port"));
    let rows = dropped(net, || send(100));
    tells(&rows, &[]);
    drop(reads);
}
