//! Any bytes as what an iperf3 peer or a stranger sends: cookies, parameters, results, datagrams, the preface of a shared secret.
//!
//! ```text
//!   bytes ──► cookie  parameters  results  hello and datagram  preface        the first byte says which
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_wire::auth::{self, Nonces, Secret, Side};
use quell_wire::iperf3::{self, Cookie, Datagram, Greeting, Parameters, Results, State};
use serde::{Serialize, de::DeserializeOwned};
use std::net::SocketAddr;

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 5 {
        0 => control(bytes),
        1 => json::<Parameters>(bytes),
        2 => json::<Results>(bytes),
        3 => datagram(bytes),
        _ => preface(bytes),
    }
});

fn control(bytes: &[u8]) {
    if let Some(cookie) = Cookie::read(bytes) {
        assert_eq!(Cookie::read(cookie.bytes()), Some(cookie));
        assert!(cookie.text().is_ascii() && !cookie.text().contains(char::is_control));
    }
    for state in bytes.iter().filter_map(|byte| State::read(*byte)) {
        assert_eq!(State::read(state.byte()), Some(state));
    }
    if let Some(length) = bytes.first_chunk() {
        assert!(iperf3::length(*length, 100).is_none_or(|length| length <= 100));
    }
}

/// What was read can be sent on, and is read again.
fn json<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(value) = iperf3::read::<T>(bytes) else { return };
    let frame = iperf3::frame(&value).expect("what was read can be written");
    let (length, text) = frame.split_first_chunk().expect("a frame has a length");
    assert_eq!(iperf3::length(*length, usize::MAX), Some(text.len()));
    // Names of a few letters become no more than themselves: an answer can't be blown up by what is asked.
    assert!(text.len() <= bytes.len() * 8 + 4096, "{} bytes became {}", bytes.len(), text.len());
    if let Err(error) = iperf3::read::<T>(text) {
        panic!("{error}: {}", String::from_utf8_lossy(text));
    }
}

fn datagram(bytes: &[u8]) {
    if let Some(greeting) = Greeting::read(bytes) {
        let again = greeting.bytes();
        assert_eq!(again.len(), bytes.len());
        assert_eq!(Greeting::read(&again).map(|g| g.token), Some(greeting.token));
    }
    for wide in [false, true] {
        let Some(datagram) = Datagram::read(bytes, wide) else { continue };
        assert!(bytes.len() >= iperf3::header_size(wide));
        // The microseconds may be a million and more on the wire; then they carry.
        let mut again = vec![0; bytes.len()];
        datagram.write(&mut again, wide);
        let again = Datagram::read(&again, wide).expect("it has the same size");
        assert_eq!(again.number, datagram.number);
        assert_eq!(again.sent_ns, datagram.sent_ns % ((1 << 32) * 1_000_000_000));
    }
}

fn preface(bytes: &[u8]) {
    let Some((client, rest)) = bytes.split_first_chunk() else { return };
    if let Ok(secret) = Secret::parse(rest) {
        let nonces = Nonces { client: *client, server: [7; auth::NONCE] };
        let server = SocketAddr::from(([192, 0, 2, 1], 5201));
        let proof = nonces.proof(&secret, Side::Client, server);
        assert!(!auth::same(&nonces.proof(&secret, Side::Server, server), &proof));
        assert!(!auth::same(&proof, rest) || rest == proof);
    }
}
