//! What `quell serve` answers over UDP, and what it never answers: an answer, its own or another server's. Two real servers on loopback, with the
//! test as the network between them.

use crate::server::{NEVER, Served, byte, cookie_of, parameters};
use crate::support::{Said, TestFolder, program, said};
use quell_sys::socket::{Arrival, Inbox, Udp};
use quell_sys::wait::{readable, wait};
use quell_wire::stamp::{Presence, ReflectorPacket, SenderPacket};
use serde_json::Value;
use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a datagram goes there and back before that counts as for ever.
const FOR_EVER: usize = 100;

/// The way between two servers: what one says to the other arrives there, as if the other's address were its own.
struct Way {
    ends: [UdpSocket; 2],
}

impl Way {
    fn between(servers: [&Served; 2]) -> Self {
        let ends = servers.map(|server| {
            let end = UdpSocket::bind("127.0.0.1:0").expect("a port");
            end.connect(server.at).expect("an address");
            end
        });
        Self { ends }
    }

    /// One forged datagram; how many answers it sets off, counted up to what is for ever. Those that have to come are waited for, however
    /// busy the machine is.
    fn answers_to(&self, forged: &[u8], at_least: usize) -> usize {
        let mut datagram = forged.to_vec();
        for count in 0..FOR_EVER {
            let end = &self.ends[count % 2];
            let patience = if count < at_least { NEVER } else { Duration::from_millis(500) };
            end.set_read_timeout(Some(patience)).expect("a limit");
            end.send(&datagram).expect("sent");
            let mut answer = [0; 2000];
            match end.recv(&mut answer) {
                Ok(got) => {
                    assert!(got <= datagram.len(), "an answer is never larger than its question");
                    datagram = answer[..got].to_vec();
                }
                Err(_) => return count,
            }
        }
        FOR_EVER
    }
}

fn stamp(size: usize) -> Vec<u8> {
    let mut packet = SenderPacket::template(size);
    SenderPacket { seq: 7, sent_ns: 1_763_719_200_000_000_000, ssid: 9 }.write(&mut packet);
    packet
}

#[test]
fn two_servers_do_not_answer_each_others_answers_whatever_is_forged_between_them() {
    let servers = [Served::new(&[]), Served::new(&[])];
    let way = Way::between([&servers[0], &servers[1]]);
    assert_eq!(way.answers_to(&stamp(44), 1), 1, "one packet, one answer");
    assert_eq!(way.answers_to(&stamp(600), 1), 1);
    let mut answered = stamp(44);
    ReflectorPacket::reflect(&mut answered, 1, 2_000_000_000, 3_000_000_000, 64);
    for (forged, what) in [
        (&answered[..], "an answer"),
        (&[0xff; 44][..], "no STAMP packet"),
        (&[0x5a; 1400], "data of a test"),
        (b"9876", "a hello where no test waits"),
        (b"6789", "a hello's answer"),
    ] {
        assert_eq!(way.answers_to(forged, 0), 0, "{what}");
    }
    servers.iter().for_each(Served::is_well);
}

/// A test that waits for this many UDP streams of this host, in either direction.
fn waiting(server: &Served, cookie: u8, keys: &str) -> TcpStream {
    let mut talk = server.begin(cookie);
    let all = format!(r#"{{"udp":true,"time":5,"len":1000,{keys}}}"#);
    talk.write_all(&parameters(&all)).expect("sent");
    assert_eq!(byte(&mut talk), Some(10), "it waits for streams");
    talk
}

#[test]
fn two_servers_that_wait_for_streams_of_each_other_do_not_greet_each_other_for_ever() {
    for hello in
        [&b"9876"[..], b"6789", &123_456_789u32.to_le_bytes(), &987_654_321u32.to_le_bytes()]
    {
        let servers = [Served::new(&[]), Served::new(&[])];
        // Of two streams the forged one is the first, so that the second is awaited on and on.
        let talks = [0, 1].map(|n| waiting(&servers[n], b'a', r#""parallel":2"#));
        let answers = Way::between([&servers[0], &servers[1]]).answers_to(hello, 2);
        assert!((2..FOR_EVER).contains(&answers), "{hello:?}: {answers}");
        drop(talks);
        servers.iter().for_each(Served::is_well);
    }
}

/// The next datagram, with what the kernel knows of it.
fn next(socket: &Udp) -> (Arrival, Vec<u8>) {
    wait(&mut [readable(socket)]).expect("it can be waited for");
    let mut inbox = Inbox::new(1, 2000);
    assert_eq!(inbox.receive(socket.as_fd()), Ok(1));
    inbox.iter().next().map(|(arrival, bytes)| (*arrival, bytes.to_vec())).expect("one came")
}

#[test]
fn an_ipv4_packet_to_a_server_of_both_families_is_answered_in_its_class_and_with_its_ttl() {
    let both = Served::new(&["--bind", "::"]);
    let to = SocketAddr::from(([127, 0, 0, 1], both.at.port()));
    // One that listens is told the TOS byte of what comes, and chooses that of what goes.
    let client = Udp::listening("127.0.0.1:0".parse().expect("an address")).expect("a port");
    client.reply(&stamp(44), to, None, 0xb8).expect("sent");
    let (arrival, answer) = next(&client);
    let answer = ReflectorPacket::read(&answer).expect("it is one");
    assert_eq!((arrival.tos, arrival.from), (Some(0xb8), Some(to)));
    assert_eq!(answer.sender_ttl, 64, "with which it came");
}

#[test]
fn udp_may_go_another_way_than_the_talk_about_it_and_then_comes_from_another_address() {
    let both = Served::new(&["--bind", "::"]);
    let port = both.at.port();
    let (to, control) = (format!("127.0.0.1:{port}"), format!("[::1]:{port}"));
    for (way, names) in WAYS {
        let options = ["flow", &to, "--control", &control, "-u", "-b", "2M"];
        let arguments = [&options[..], &["-l", "1000", "-n", "100K", "--json"], way].concat();
        all_arrives(said(program(&arguments), &arguments), names, 103);
    }
}

/// Options of `quell flow`, and the ways that it then tells of.
const WAYS: [(&[&str], &[&str]); 3] =
    [(&[], &["up"]), (&["-R"], &["down"]), (&["--bidir"], &["up", "down"])];

/// What `quell flow --json` said is of so many datagrams in each of these ways, none of which was lost.
#[track_caller]
fn all_arrives(said: Said, names: &[&str], amount: u64) {
    let json: Value = serde_json::from_str(&said.fine()).expect("JSON");
    for name in names {
        let datagrams = &json[*name]["datagrams"];
        let told = ["sent", "arrived", "lost", "unseen"].map(|key| datagrams[key].as_u64());
        assert_eq!(told, [amount, amount, 0, 0].map(Some), "{name}: {datagrams:#}");
    }
}

#[test]
fn nobody_gets_data_at_an_address_that_did_not_prove_itself() {
    let both = Served::new(&["--bind", "::"]);
    let v4 = SocketAddr::from(([127, 0, 0, 1], both.at.port()));
    let v6: SocketAddr = format!("[::1]:{}", both.at.port()).parse().expect("an address");
    let mut asked = both;
    asked.at = v6;
    let keys = r#""parallel":1,"reverse":true,"quell":{"version":1,"elsewhere":true}"#;
    let talk = waiting(&asked, b'a', keys);
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    client.connect(v4).expect("an address");
    client.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
    client.send(b"9876").expect("sent");
    let mut answer = [0; 2000];
    assert!(client.recv(&mut answer).is_err(), "it could be forged");
    let mut proof = TcpStream::connect(v4).expect("it listens");
    proof.write_all(&cookie_of(b'a')).expect("sent");
    assert_eq!(byte(&mut proof), Some(10), "it knows where streams come from");
    client.set_read_timeout(Some(NEVER)).expect("a limit");
    client.send(b"9876").expect("sent");
    let got = client.recv(&mut answer).expect("an answer");
    assert_eq!(answer[..got], *b"6789");
    drop(talk);
}

/// Says hello from eight ports of the client's address, as one who forges it does, alone and with a token of its own, until it is over; whether
/// anybody answered.
fn forge(at: SocketAddr, over: &AtomicBool) -> bool {
    let strangers: Vec<UdpSocket> = (0..8)
        .map(|_| {
            let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
            stranger.connect(at).expect("an address");
            // What paces it, too.
            stranger.set_read_timeout(Some(Duration::from_micros(200))).expect("a limit");
            stranger
        })
        .collect();
    let mut answered = false;
    while !over.load(Ordering::Relaxed) {
        for stranger in &strangers {
            // Errors are of datagrams before.
            let _ = stranger
                .send(b"9876")
                .and_then(|_| stranger.send(&[&b"9876"[..], &[7; 16]].concat()));
            answered |= stranger.recv(&mut [0; 2000]).is_ok();
        }
    }
    answered
}

#[test]
fn strangers_who_forge_a_clients_address_take_the_place_of_none_of_its_streams() {
    let folder = TestFolder::new();
    folder.write("key", "correct horse battery staple");
    let key = folder.path("key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let key = key.to_str().expect("a name");
    let served = Served::new(&["--secret-file", key]);
    let at = served.at.to_string();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stranger = scope.spawn(|| forge(served.at, &over));
        let ended = Ended(&over);
        for (way, names) in WAYS {
            let options = ["flow", &at, "--secret-file", key, "-u", "-P", "12", "-b", "500k"];
            let arguments = [&options[..], &["-l", "1000", "-n", "600K", "--json"], way].concat();
            all_arrives(said(program(&arguments), &arguments), names, 615);
        }
        drop(ended);
        assert!(!stranger.join().expect("no panic"), "a stranger was answered");
    });
}

/// Says that it is over when it goes, whatever a test came to: a scope waits for its threads.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn who_asks_for_little_is_answered_beside_one_who_floods() {
    let server = Served::new(&["--max-rate", "2Mbit"]);
    let ask = |from: &UdpSocket| {
        from.set_read_timeout(Some(NEVER)).expect("a limit");
        from.send_to(&stamp(56), server.at).expect("sent");
        let mut answer = [0; 100];
        let got = from.recv(&mut answer).expect("an answer");
        Presence::read(&answer[..got]).expect("it tells").unanswered
    };
    let flood = UdpSocket::bind("127.0.0.2:0").expect("a port");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for _ in 0..20 {
        // One client may have half of a tenth, and 200 ms of that at once: 2.5 kB.
        for _ in 0..100 {
            flood.send_to(&stamp(1000), server.at).expect("sent");
        }
        // What its socket had no room for may have been its packets, as far as the server knows.
        assert!(ask(&client) <= Some(dropped(&server)));
    }
    server.is_well();
}

/// How many datagrams the server's socket had no room for.
fn dropped(server: &Served) -> u32 {
    let at = format!("{:08X}:{:04X}", u32::from_ne_bytes([127, 0, 0, 1]), server.at.port());
    // The list may leave one out while others come and go.
    let drops = (0..1000).find_map(|_| {
        let sockets = std::fs::read_to_string(format!("/proc/{}/net/udp", server.pid()));
        let sockets = sockets.expect("it runs");
        let socket = sockets.lines().find(|line| line.split_whitespace().nth(1) == Some(&at))?;
        socket.split_whitespace().last()?.parse().ok()
    });
    drops.expect("its socket is among them")
}
