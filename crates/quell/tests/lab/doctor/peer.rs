//! `quell doctor --peer`: what a server at the other end tells of the path.

use super::Story;
use super::net::{Namespace, QUELL, evidence, finds, pass, queue_at, set};
use super::shapes::{Row, multipath, plug, up};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

pub const STORIES: &[Story] = &[
    Story { name: "both ends: a path of three hops is well", tell: well },
    Story { name: "both ends: one of two equal paths loses all", tell: member },
    Story { name: "both ends: the way back is shorter", tell: asymmetric },
    Story { name: "both ends: a router that clears the TOS byte", tell: cleared },
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
    let only =
        "path-mtu,address-translation,ecn-bleached,ecmp-member,asymmetric-path,class-changed";
    ["--severity", "note", "--only", only, "--peer", address]
}

fn well(_: &super::Net) {
    let row = Row::new(4);
    let server = Server::new(row.last(), &row.address());
    finds(row.first(), &[], &asked(&row.address()));
    drop(server);
}

fn member(_: &super::Net) {
    let (here, there) = (Namespace::new(), Namespace::new());
    for path in 0..2 {
        plug(&here, &there, (&format!("a{path}"), &format!("b{path}")));
        up(&here, &format!("a{path}"), &[&format!("10.3.{path}.1/24")]);
        up(&there, &format!("b{path}"), &[&format!("10.3.{path}.2/24")]);
    }
    up(&there, "lo", &["10.3.9.2/32"]);
    up(&here, "lo", &["10.3.8.1/32"]);
    set(&here, "net/ipv4/fib_multipath_hash_policy", "1");
    multipath(&here, "10.3.9.2", &[("10.3.0.2", "a0"), ("10.3.1.2", "a1")]);
    queue_at(&here, "a1", "{ kind = \"netem\", loss = \"100%\" }");
    let server = Server::new(&there, "10.3.9.2");
    let found = finds(&here, &["ecmp-member"], &asked("10.3.9.2"));
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
    let clear = "tc qdisc add dev right clsact && tc filter add dev right egress protocol ip u32 match u32 0 0 \
                 action pedit ex munge ip tos set 0 pipe action csum ip";
    let status = row.hosts[1].run(|| Command::new("sh").args(["-c", clear]).status());
    if !Command::new("tc").arg("-V").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no tc on this machine (package iproute2)");
        return;
    }
    assert!(status.is_ok_and(|status| status.success()), "tc does it");
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
