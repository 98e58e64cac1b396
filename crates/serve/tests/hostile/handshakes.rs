//! Handshakes of TLS, again and again: each costs a stranger a recorded message, and the server a signature.

use crate::Siege;
use crate::client::{connect, from, in_time};
use crate::secure::secure;
use quell_tls::trust::{self, Trust};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The first message of a handshake, as whoever heard it can send it again.
fn recorded() -> Vec<u8> {
    let tls = trust::client(&Trust::Anyone).expect("nobody needs to be believed");
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let mut client = ClientConnection::new(tls, name).expect("it begins");
    let mut message = Vec::new();
    client.write_tls(&mut message).expect("a message");
    message
}

/// A stranger sends it on one connection after the other, until told; how often it had keys and a signature for it.
fn again_and_again(to: SocketAddr, message: &[u8], over: &AtomicBool) -> u64 {
    let mut answered = 0;
    while !over.load(Ordering::Relaxed) {
        let mut stream = connect(from(1, 1), to);
        let _ = stream.write_all(message);
        answered += u64::from(matches!(stream.read(&mut [0; 16]), Ok(1..)));
    }
    answered
}

#[test]
fn a_stranger_who_shakes_hands_again_and_again_has_a_part_of_a_cpu_and_others_have_theirs() {
    // A fiftieth: 100 a second of the cheapest that are thinkable, and a burst of 50.
    let mut siege = Siege::of("web handshakes_cpu_ms=20");
    let at = siege.at();
    let (message, over, begun) = (recorded(), AtomicBool::new(false), Instant::now());
    let tls = trust::client(&Trust::Anyone).expect("nobody needs to be believed");
    let (answered, good) = std::thread::scope(|scope| {
        let strangers: Vec<_> =
            (0..2).map(|_| scope.spawn(|| again_and_again(at, &message, &over))).collect();
        let good = (0..10).filter(|n| in_time(|| secure(&tls, from(2, *n), at)).is_some());
        let good = good.count();
        loop {
            siege.serves("handshakes without end");
            if begun.elapsed() > Duration::from_secs(2) {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        (strangers.into_iter().map(|one| one.join().expect("no panic")).sum::<u64>(), good)
    });
    let lasted = begun.elapsed().as_secs_f64();
    println!("{answered} in {lasted:.1} s, {:.2} s of CPU", siege.attacked.cpu_s());
    assert!(answered as f64 <= 50.0 + 100.0 * lasted, "{answered} in {lasted} s");
    assert_eq!(good, 10, "others may shake hands meanwhile");
}
