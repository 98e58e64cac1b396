//! `quell doctor --peer`: what a server at the other end tells of the path.

#[path = "../../../../netlink/tests/namespace/tun.rs"]
mod tun;

use super::Story;
use super::firewall::{Hook, Refused, refuse};
use super::net::{Namespace, QUELL, evidence, finds, name, pass, queue_at};
use super::shapes::{FAR, Row, change, plug, two_paths, up};
use crate::left_out;
use quell_netlink::link::{LinkChange, LinkKind, NewLink};
use quell_netlink::{Stack, nat};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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
    Story { name: "both ends: the own link takes smaller packets than come by it", tell: smaller },
    Story { name: "both ends: large packets of TCP alone vanish", tell: tcp_alone },
    Story { name: "both ends: large packets of ICMP alone vanish", tell: icmp_alone },
    Story { name: "both ends: a narrow hop that says so", tell: narrow },
    Story { name: "both ends: a router translates addresses", tell: translates },
    Story { name: "both ends: the receiver's link is slower", tell: slower },
    Story { name: "both ends: packets are lost on the way there", tell: lossy_there },
    Story { name: "both ends: packets are lost on the way back", tell: lossy_back },
    Story { name: "both ends: over IPv6 with a secret", tell: secret },
    Story { name: "both ends: nobody serves there", tell: nobody },
];

/// A server on a host, ended when it is dropped.
struct Server(Child);

impl Server {
    fn new(at: &Namespace, address: &str) -> Self {
        Self::with(at, address, &[])
    }

    fn with(at: &Namespace, address: &str, more: &[&str]) -> Self {
        let mut child = at.run(|| {
            let mut command = Command::new(QUELL);
            command.args(["serve", "--bind", address]).args(more).stdin(Stdio::null());
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
                ecn-bleached,ecmp-member,asymmetric-path,class-changed,path-loss";
    ["--severity", "note", "--only", only, "--peer", address]
}

fn well(_: &super::Net) {
    for address in [Row::address, Row::address6] {
        let row = Row::new(4);
        let address = address(&row);
        let server = Server::new(row.last(), &address);
        finds(row.first(), &[], &asked(&address));
        drop(server);
    }
}

/// What the doctor finds over a router in between that was made to do something.
#[track_caller]
fn over(make: impl FnOnce(&Row), wanted: &[&str]) -> Vec<serde_json::Value> {
    let row = Row::new(3);
    make(&row);
    let server = Server::new(row.last(), &row.address());
    let found = finds(row.first(), wanted, &asked(&row.address()));
    drop(server);
    found
}

/// Has the router rewrite what goes to the server: `tc` with these words behind the filter. None where there is no `tc`.
fn rewrite(row: &Row, words: &str) -> Option<()> {
    if !Command::new("tc").arg("-V").output().is_ok_and(|output| output.status.success()) {
        left_out::for_want_of("there is no tc on this machine (package iproute2)");
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
    let found = over(make, &["mtu-black-hole"]);
    assert_eq!((found.len(), &found[0]["severity"]), (1, &"serious".into()), "{found:#?}");
    found
}

fn swallowed_there(_: &super::Net) {
    let seen = evidence(&swallowed("right"), "mtu-black-hole");
    assert!(seen.contains("the way there") && seen.contains("1280"), "{seen}");
}

fn smaller(_: &super::Net) {
    let make = |row: &Row| change(row.first(), "right", LinkChange::Mtu(1400));
    let seen = evidence(&over(make, &["mtu-black-hole"]), "mtu-black-hole");
    assert!(seen.contains("the way back") && seen.contains("1420"), "{seen}");
}

fn swallowed_back(_: &super::Net) {
    let seen = evidence(&swallowed("left"), "mtu-black-hole");
    assert!(seen.contains("the way back") && seen.contains("1280"), "{seen}");
}

fn tcp_alone(_: &super::Net) {
    let refused = [Refused::TcpAbove(1300, "right")];
    let found = over(|row| refuse(&row.hosts[1], Hook::Forward, &refused), &["path-mtu"]);
    let seen = evidence(&found, "path-mtu");
    assert!(seen.contains("the way there") && seen.contains("1500 bytes don't arrive"), "{seen}");
}

fn icmp_alone(_: &super::Net) {
    let refused = [Refused::IcmpAbove(1300, "right")];
    let found = over(|row| refuse(&row.hosts[1], Hook::Forward, &refused), &["path-mtu"]);
    let seen = evidence(&found, "path-mtu");
    for part in ["ICMP echo up to", "1280", "1500"] {
        assert!(seen.contains(part), "{part} in {seen}");
    }
}

fn narrow(_: &super::Net) {
    let narrow = |row: &Row| {
        for (host, device) in [(1, "right"), (2, "left")] {
            change(&row.hosts[host], device, LinkChange::Mtu(1400));
        }
    };
    over(narrow, &[]);
}

fn translates(_: &super::Net) {
    let translates = |row: &Row| {
        row.hosts[1].run(|| nat::masquerade(&[name("right")])).expect("the guest has NAT");
    };
    let found = over(translates, &["address-translation"]);
    let seen = evidence(&found, "address-translation");
    assert!(seen.contains("10.1.0.1:") && seen.contains("10.1.1.1:"), "{seen}");
}

/// The router loses one packet in ten that it sends to this device.
fn lossy(device: &str, way: &str) {
    let loses = |row: &Row| {
        queue_at(&row.hosts[1], device, "{ kind = \"netem\", loss = \"10%\", limit = 1000 }");
    };
    let found = over(loses, &["path-loss"]);
    assert!(found[0]["says"].to_string().contains(way), "{found:#?}");
}

fn lossy_there(_: &super::Net) {
    lossy("right", "on the way to the host");
}

fn lossy_back(_: &super::Net) {
    lossy("left", "on the way from the host");
}

/// A bridge is as fast as its fastest port: beside the cable, of 10 Gbit/s, it has one of 40, which leads nowhere.
fn slower(_: &super::Net) {
    let (here, there) = (Namespace::new(), Namespace::new());
    plug(&here, &there, ("a0", "b0"));
    let tap = here.run(|| tun::device("fast", tun::Carries::Frames));
    let _tap = tap.expect("the guest's kernel has tun devices");
    let words = ["-s", "fast", "speed", "40000", "duplex", "full", "autoneg", "off"];
    match here.run(|| Command::new("ethtool").args(words).status()) {
        Ok(status) => assert!(status.success(), "ethtool sets a tap's speed"),
        Err(_) => {
            return left_out::for_want_of("there is no ethtool on this machine (package ethtool)");
        }
    }
    here.run(|| {
        let mut stack = Stack::open().expect("a stack");
        let bridge = NewLink::new(name("br0"), LinkKind::Bridge);
        stack.create_link(&bridge).expect("a bridge");
        let bridge = stack.index_of(&name("br0")).expect("it is there");
        for port in ["a0", "fast"] {
            let index = stack.index_of(&name(port)).expect("it is there");
            let change = [LinkChange::Master(Some(bridge)), LinkChange::Up(true)];
            stack.change_link(index, &change).expect("a port of the bridge");
        }
    });
    up(&here, "br0", &["10.9.0.1/24"]);
    up(&there, "b0", &["10.9.0.2/24"]);
    pass(3000);
    let server = Server::new(&there, "10.9.0.2");
    let found = finds(&here, &["faster-than-receiver"], &asked("10.9.0.2"));
    let seen = evidence(&found, "faster-than-receiver");
    assert!(seen.contains("40000") && seen.contains("10000"), "{seen}");
    drop(server);
    // From the other end all is well: the receiver is the faster one.
    let server = Server::new(&here, "10.9.0.1");
    finds(&there, &[], &asked("10.9.0.1"));
    drop(server);
}

/// What `--peer` tells of the path, all of it.
fn told(at: &Namespace, more: &[&str]) -> serde_json::Value {
    let output = at.run(|| {
        let mut command = Command::new(QUELL);
        command.args(["doctor", "--json"]).args(more).stdin(Stdio::null());
        command.output().expect("quell can be started")
    });
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

fn secret(_: &super::Net) {
    let row = Row::new(3);
    let address = row.address6();
    let folder = crate::support::TestFolder::new();
    let key = |file: &str, text: &str| {
        let path = folder.path().join(file);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("it is ours");
        path.to_string_lossy().into_owned()
    };
    let (right, wrong) = (key("right", &"right ".repeat(8)), key("wrong", &"wrong ".repeat(8)));
    let server = Server::with(row.last(), &address, &["--secret-file", &right]);
    let asked = asked(&address);
    let knowing = [&asked[..], &["--secret-file", &right]].concat();
    finds(row.first(), &[], &knowing);
    let json = told(row.first(), &knowing);
    let ends = &json["peer"]["ends"];
    let remote = ends["there"]["remote"].as_str().unwrap_or_default();
    assert!(remote.starts_with("[fd01:"), "the other end sees IPv6: {ends:#}");
    let most = |way: &str| ends[way]["came"].as_array().and_then(|came| came.last()).cloned();
    for way in ["to_there", "to_here", "echo"] {
        assert_eq!(most(way), Some(1500.into()), "{way} of {ends:#}");
    }
    for (more, why) in
        [(&[][..], "wants a secret"), (&["--secret-file", &wrong], "does not accept our secret")]
    {
        let json = told(row.first(), &[&asked[..], more].concat());
        let ends = json["peer"]["ends"]["could_not_look"].as_str().unwrap_or_default();
        assert!(ends.contains(why), "{json:#}");
        // What needs nobody's word is known all the same.
        assert_eq!(json["findings"], serde_json::json!([]), "{json:#}");
    }
    drop(server);
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

/// What `--peer` says where nothing answers, and how long that takes.
fn unanswered(at: &Namespace, address: &str) -> (String, Duration) {
    let begun = Instant::now();
    let output = at.run(|| {
        let mut command = Command::new(QUELL);
        command.args(["doctor", "--peer", address]).stdin(Stdio::null());
        command.output().expect("quell can be started")
    });
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{error}");
    (error, begun.elapsed())
}

fn nobody(net: &super::Net) {
    let (error, took) = unanswered(&net.here, "10.0.0.2");
    assert!(error.contains("nobody listens") && error.contains("quell serve --bind"), "{error}");
    assert!(took < Duration::from_millis(500), "{took:?}: {error}");
    // There is no such host: this one finds out that no neighbour answers, but answers may be lost, and it goes on. Its word to itself goes over
    // loopback.
    change(&net.here, "lo", LinkChange::Up(true));
    let (error, took) = unanswered(&net.here, "10.0.0.9");
    for word in ["is silent: asked again, for 4s", "no answer", "no neighbour of this host answers"]
    {
        assert!(error.contains(word), "{word} in {error}");
    }
    assert!(took < Duration::from_millis(5_500), "{took:?}: {error}");
    // Nor behind a router, which says so once it has asked for three seconds.
    let row = Row::new(3);
    let (error, took) = unanswered(row.first(), "10.1.1.9");
    assert!(error.contains("10.1.0.2 says \"unreachable\": it can't reach the host"), "{error}");
    assert!(took < Duration::from_millis(3_500), "{took:?}: {error}");
    // A router that knows no way says so at once; after so many words as just now it keeps silent for a while (`icmp_ratelimit`).
    pass(10_000);
    super::shapes::route(row.first(), "10.7.0.0/24", "10.1.0.2", "right");
    let (error, took) = unanswered(row.first(), "10.7.0.1");
    assert!(error.contains("has no route there"), "{error}");
    assert!(took < Duration::from_millis(500), "{took:?}: {error}");
}
