//! What shows that a browser may: a key that this server signed, for one address and a time. Nothing is kept of those that were given out, and of nonces
//! only those that were answered, for their minute.
//!
//! ```text
//!   page ──► a nonce, please        server ──► nonce = time, random, HMAC(own, "nonce", address, time, random)
//!   page ──► nonce, HMAC(secret, "web", host, nonce)      the secret itself never travels; it counts once
//!                                   server ──► key  = time, HMAC(own, "key", address, time)
//! ```
//!
//! The server's own key is drawn when it starts: what an earlier one gave out is worth nothing.

use quell_wire::auth::{self, Secret, Side};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

const NONCE_S: u64 = 60;
pub const KEY_S: u64 = 3600;
/// Hexadecimal digits of a signature that travel: 128 bits.
const DIGITS: usize = 32;

#[derive(Debug)]
pub struct Keys {
    own: Secret,
    /// Nonces that were answered, and when.
    used: Mutex<HashMap<String, u64>>,
}

impl Keys {
    pub fn new(own: Secret) -> Self {
        Self { own, used: Mutex::default() }
    }

    /// A question for one who is to prove a secret. `random` is to be another each time; times are seconds of any clock that runs on.
    pub fn nonce(&self, ip: IpAddr, now_s: u64, random: u64) -> String {
        let said = format!("{now_s:x}.{random:016x}");
        format!("{said}.{}", self.sign(b"nonce", ip, &said))
    }

    /// Whether this proves the secret to the server of this host, in answer to a question of ours that is not too old and was not answered before.
    pub fn proves(
        &self,
        (secret, host): (&Secret, &str),
        ip: IpAddr,
        now_s: u64,
        nonce: &str,
        proof: &str,
    ) -> bool {
        let Some((said, signed)) = nonce.rsplit_once('.') else { return false };
        let Some((began, _)) = said.split_once('.') else { return false };
        let known =
            secret_eq(&self.sign(b"nonce", ip, said), signed) && is_within(began, now_s, NONCE_S);
        let due = hex(&auth::proof(secret, Side::Page, host, &[nonce.as_bytes()]));
        if !secret_eq(&due, proof) || !known {
            return false;
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, answered_s| now_s.saturating_sub(*answered_s) <= NONCE_S);
        used.insert(nonce.to_owned(), now_s).is_none()
    }

    pub fn key(&self, ip: IpAddr, now_s: u64) -> String {
        let said = format!("{now_s:x}");
        format!("{said}-{}", self.sign(b"key", ip, &said))
    }

    /// Whether this is a key of ours for this address that is good still.
    pub fn is_good(&self, ip: IpAddr, now_s: u64, key: &str) -> bool {
        let Some((said, signed)) = key.split_once('-') else { return false };
        secret_eq(&self.sign(b"key", ip, said), signed) && is_within(said, now_s, KEY_S)
    }

    fn sign(&self, what: &[u8], ip: IpAddr, said: &str) -> String {
        let ip = ip.to_canonical().to_string();
        let mut signed = hex(&self.own.sign(&[what, b"|", ip.as_bytes(), b"|", said.as_bytes()]));
        signed.truncate(DIGITS);
        signed
    }
}

/// Whether a time in hexadecimal digits is at most so long past.
fn is_within(began: &str, now_s: u64, most_s: u64) -> bool {
    let began = u64::from_str_radix(began, 16).ok().filter(|began| *began <= now_s);
    began.is_some_and(|began| now_s - began <= most_s)
}

/// Whether two texts are the same, found out in a time that does not tell where they differ.
fn secret_eq(one: &str, other: &str) -> bool {
    auth::same(one.as_bytes(), other.as_bytes())
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::parse(text.as_bytes()).unwrap()
    }

    fn keys() -> Keys {
        Keys::new(secret("the server's own, drawn at its start"))
    }

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn a_key_is_good_for_its_address_and_its_time_and_no_other() {
        let key = keys().key(ONE, 1000);
        assert!(keys().is_good(ONE, 1000, &key) && keys().is_good(ONE, 1000 + KEY_S, &key));
        assert!(!keys().is_good(ONE, 1001 + KEY_S, &key), "too old");
        assert!(!keys().is_good(ONE, 999, &key), "from the future");
        assert!(!keys().is_good(OTHER, 1000, &key), "another's");
        let theirs = Keys::new(secret("another server's, or an earlier one's"));
        assert!(!theirs.is_good(ONE, 1000, &key));
        for forged in ["", "-", "3e8-", &key[..key.len() - 1], &key.replace("3e8", "3e9")] {
            assert!(!keys().is_good(ONE, 1001, forged), "{forged}");
        }
    }

    #[test]
    fn a_secret_is_proven_by_an_answer_to_our_own_question() {
        let ours = secret("correct horse battery staple");
        let nonce = keys().nonce(ONE, 1000, 7);
        let proof = |secret: &Secret, host: &str, nonce: &str| {
            hex(&auth::proof(secret, Side::Page, host, &[nonce.as_bytes()]))
        };
        let (keys, host) = (keys(), "192.0.2.7:5201");
        let proves = |ip, now_s, nonce: &str, proof: &str| {
            keys.proves((&ours, host), ip, now_s, nonce, proof)
        };
        let good = proof(&ours, host, &nonce);
        assert!(!proves(ONE, 1061, &nonce, &good), "too late");
        assert!(!proves(OTHER, 1010, &nonce, &good), "another's question");
        let wrong = secret("correct horse battery stable");
        assert!(!proves(ONE, 1010, &nonce, &proof(&wrong, host, &nonce)));
        let elsewhere = proof(&ours, "192.0.2.9:5201", &nonce);
        assert!(!proves(ONE, 1010, &nonce, &elsewhere), "meant for another server");
        let own = "3e8.0000000000000007.00000000000000000000000000000000";
        assert!(!proves(ONE, 1010, own, &proof(&ours, host, own)), "that we never put");
        assert!(proves(ONE, 1010, &nonce, &good));
        assert!(!proves(ONE, 1010, &nonce, &good), "it counts once");
    }
}
