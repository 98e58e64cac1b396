//! `quell doctor --peer`: what a server at the other end tells of the path.

use super::Story;
use super::firewall::{Hook, Refused, refuse};
use super::net::{Namespace, QUELL, evidence, finds, name, pass, queue_at, set};
use super::shapes::{FAR, Row, change, plug, two_paths, up};
use quell_netlink::link::LinkChange;
use quell_netlink::nat;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

pub const STORIES: &[Story] = &[
    Story { name: "both ends: a path of three hops is well", tell: well },
    Story { name: "both ends: one of two equal paths loses all", tell: member },
    Story { name: "both ends: the way back is shorter", tell: asymmetric },
    Story { name: "both ends: a router that clears the TOS byte", tell: cleared },
    Story { name: "both ends: a router that clamps the MSS", tell: clamped },
    Story { name: "both ends: a router that strips SACK", tell: no_sack },
    Story { name: "both ends: a router that strips window scaling", tell: no_scaling },
    Story { name: "both ends: large packets vanish on the way there", tell: swallowed_there },
    Story { name: "both ends: large packets vanish on the way back", tell: swallowed_back },
    Story { name: "both ends: large packets of TCP alone vanish", tell: tcp_alone },
    Story { name: "both ends: a narrow hop that says so", tell: narrow },
    Story { name: "both ends: a router translates addresses and forgets them", tell: forgets },
    Story { name: "both ends: nobody serves there", tell: nobody },
];

/// A server on a host, ended when it is dropped.
struct Server(Child);

impl Server {
    fn new(at: &Namespace, address: &str) -> Self {
        let mut child = at.run(|| {
            let mut command = Command::new(QUELL);
            command.args(["serve", "--bind", address]).stdin(Stdio::null());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("quell starts")
        });
        let (out, error) =
            (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        let (says, said) = std::sync::mpsc::channel();
        // Whichever it says it on; and nothing that it says may make it wait.
        for pipe in [Box::new(out) as Box<dyn std::io::Read + Send>, Box::new(error)] {
            let says = says.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let _ = says.send(line);
                }
            });
        }
        let first = said.recv().expect("it says where it serves");
        assert!(first.contains("serving at"), "{first}");
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `--peer` needs, in words of the doctor.
fn asked(address: &str) -> [&str; 6] {
    let only = "faster-than-receiver,path-mtu,mtu-black-hole,clamped-mss,address-translation,options-refused,\
                ecn-bleached,ecmp-member,asymmetric-path,class-changed,forgotten-state";
    ["--severity", "note", "--only", only, "--peer", address]
}

fn well(_: &super::Net) {
    for address in [Row::address, Row::address6] {
        let row = Row::new(4);
        let address = address(&row);
        let server = Server::new(row.last(), &address);
        let [a, b, c, d, e, f] = asked(&address);
        finds(row.first(), &[], &[a, b, c, d, e, f, "--idle", "20s"]);
        drop(server);
    }
}

/// What the doctor finds over a router in between that was made to do something.
#[track_caller]
fn over(make: impl FnOnce(&Row), wanted: &[&str], more: &[&str]) -> Vec<serde_json::Value> {
    let row = Row::new(3);
    make(&row);
    let server = Server::new(row.last(), &row.address());
    let found = finds(row.first(), wanted, &[&asked(&row.address())[..], more].concat());
    drop(server);
    found
}

/// Has the router rewrite what goes to the server: `tc` with these words behind the filter. None where there is no `tc`.
fn rewrite(row: &Row, words: &str) -> Option<()> {
    if !Command::new("tc").arg("-V").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no tc on this machine (package iproute2)");
        return None;
    }
    let line = format!(
        "tc qdisc add dev right clsact && tc filter add dev right egress protocol ip u32 {words}"
    );
    let status = row.hosts[1].run(|| Command::new("sh").args(["-c", &line]).status());
    assert!(status.is_ok_and(|status| status.success()), "tc does it");
    Some(())
}

/// Has the router change the options of SYNs to the server: so many bytes behind the header of IP.
fn change_syn(wanted: &str, change: &str) -> Option<Vec<serde_json::Value>> {
    let syn = "match ip protocol 6 0xff match u8 0x02 0x02 at 33 action pedit munge";
    let row = Row::new(3);
    rewrite(&row, &format!("{syn} {change} pipe action csum ip and tcp"))?;
    let server = Server::new(row.last(), &row.address());
    let found = finds(row.first(), &[wanted], &asked(&row.address()));
    drop(server);
    Some(found)
}

fn clamped(_: &super::Net) {
    let Some(found) = change_syn("clamped-mss", "offset 42 u16 set 900") else { return };
    let seen = evidence(&found, "clamped-mss");
    assert!(seen.contains("1460") && seen.contains("900"), "{seen}");
}

fn no_sack(_: &super::Net) {
    let Some(found) = change_syn("options-refused", "offset 44 u16 set 0x0101") else { return };
    let seen = evidence(&found, "options-refused");
    assert!(seen.contains("SACK") && !seen.contains("window"), "{seen}");
}

fn no_scaling(_: &super::Net) {
    let Some(found) = change_syn("options-refused", "offset 56 u32 set 0x01010101") else { return };
    let seen = evidence(&found, "options-refused");
    assert!(seen.contains("window scaling") && !seen.contains("SACK"), "{seen}");
}

/// The router drops what is larger than 1300 bytes and goes to this device.
fn swallowed(device: &'static str) -> Vec<serde_json::Value> {
    let make = |row: &Row| refuse(&row.hosts[1], Hook::Forward, &[Refused::Above(1300, device)]);
    let found = over(make, &["mtu-black-hole"], &[]);
    assert_eq!((found.len(), &found[0]["severity"]), (1, &"serious".into()), "{found:#?}");
    found
}

fn swallowed_there(_: &super::Net) {
    let seen = evidence(&swallowed("right"), "mtu-black-hole");
    assert!(seen.contains("the way there") && seen.contains("1280"), "{seen}");
}

fn swallowed_back(_: &super::Net) {
    let seen = evidence(&swallowed("left"), "mtu-black-hole");
    assert!(seen.contains("the way back") && seen.contains("1280"), "{seen}");
}

fn tcp_alone(_: &super::Net) {
    let refused = [Refused::TcpAbove(1300, "right")];
    let found = over(|row| refuse(&row.hosts[1], Hook::Forward, &refused), &["path-mtu"], &[]);
    let seen = evidence(&found, "path-mtu");
    assert!(seen.contains("the way there") && seen.contains("1500 bytes don't arrive"), "{seen}");
}

fn narrow(_: &super::Net) {
    let narrow = |row: &Row| {
        for (host, device) in [(1, "right"), (2, "left")] {
            change(&row.hosts[host], device, LinkChange::Mtu(1400));
        }
    };
    over(narrow, &[], &[]);
}

fn forgets(_: &super::Net) {
    let translates = |row: &Row| {
        let router = &row.hosts[1];
        router.run(|| nat::masquerade(&[name("right")])).expect("the guest has NAT");
        // A flow that was answered is a stream after two seconds.
        set(router, "net/netfilter/nf_conntrack_udp_timeout", "8");
        set(router, "net/netfilter/nf_conntrack_udp_timeout_stream", "8");
    };
    let found = over(translates, &["address-translation", "forgotten-state"], &["--idle", "30s"]);
    let seen = evidence(&found, "address-translation");
    assert!(seen.contains("10.1.0.1:") && seen.contains("10.1.1.1:"), "{seen}");
    let state = found.iter().find(|f| f["id"] == "forgotten-state").expect("found");
    assert_eq!(state["severity"], "warning", "{state:#}");
    let seconds = |at: usize| state["evidence"][at]["value"].as_f64().unwrap_or(f64::NAN);
    assert!(seconds(0) < 8.5 && seconds(1) > 7.5 && seconds(1) < 12.0, "{state:#}");
}

fn member(_: &super::Net) {
    let (here, there) = two_paths();
    up(&here, "lo", &["10.3.8.1/32"]);
    queue_at(&here, "a1", "{ kind = \"netem\", loss = \"100%\" }");
    let server = Server::new(&there, FAR);
    let found = finds(&here, &["ecmp-member"], &asked(FAR));
    assert_eq!(found[0]["severity"], "warning", "{found:#?}");
    drop(server);
}

fn asymmetric(_: &super::Net) {
    let row = Row::new(3);
    // Back it goes without the router.
    plug(row.last(), row.first(), ("short", "short"));
    up(row.last(), "short", &["10.8.0.2/24"]);
    up(row.first(), "short", &["10.8.0.1/24"]);
    pass(1000);
    super::shapes::reroute(row.last(), "10.1.0.0/24", "10.8.0.1", "short");
    let server = Server::new(row.last(), &row.address());
    let found = finds(row.first(), &["asymmetric-path"], &asked(&row.address()));
    let seen = evidence(&found, "asymmetric-path");
    assert!(seen.contains("\"value\":1") && seen.contains("\"value\":0"), "{seen}");
    drop(server);
}

fn cleared(_: &super::Net) {
    let row = Row::new(3);
    let clear = "match u32 0 0 action pedit ex munge ip tos set 0 pipe action csum ip";
    if rewrite(&row, clear).is_none() {
        return;
    }
    let server = Server::new(row.last(), &row.address());
    let found = finds(row.first(), &["class-changed", "ecn-bleached"], &asked(&row.address()));
    assert!(evidence(&found, "class-changed").contains("EF"), "{found:#?}");
    drop(server);
}

fn nobody(net: &super::Net) {
    let output = net.here.run(|| {
        let mut command = Command::new(QUELL);
        command.args(["doctor", "--peer", "10.0.0.2"]).stdin(Stdio::null());
        command.output().expect("quell can be started")
    });
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("no answer") && error.contains("quell serve --bind"), "{error}");
}
