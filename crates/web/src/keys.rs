//! What shows that a browser may: a key that this server signed, for one address and a time. Nothing is kept of those that were given out.
//!
//! ```text
//!   page ──► a nonce, please        server ──► nonce = time, random, HMAC(own, "nonce", address, time, random)
//!   page ──► nonce, HMAC(secret, "web", nonce)      the secret itself never travels
//!                                   server ──► key  = time, HMAC(own, "key", address, time)
//! ```
//!
//! The server's own key is drawn when it starts: what an earlier one gave out is worth nothing.

use quell_wire::auth::Secret;
use std::net::IpAddr;

const NONCE_S: u64 = 60;
pub const KEY_S: u64 = 3600;
/// Hexadecimal digits of a signature that travel: 128 bits.
const DIGITS: usize = 32;

#[derive(Debug)]
pub struct Keys {
    own: Secret,
}

impl Keys {
    pub fn new(own: Secret) -> Self {
        Self { own }
    }

    /// A question for one who is to prove a secret. `random` is to be another each time; times are seconds of any clock that runs on.
    pub fn nonce(&self, ip: IpAddr, now_s: u64, random: u64) -> String {
        let said = format!("{now_s:x}.{random:016x}");
        format!("{said}.{}", self.sign(b"nonce", ip, &said))
    }

    /// Whether this proves the secret, in answer to a question of ours that is not too old.
    pub fn proves(
        &self,
        secret: &Secret,
        ip: IpAddr,
        now_s: u64,
        nonce: &str,
        proof: &str,
    ) -> bool {
        let Some((said, signed)) = nonce.rsplit_once('.') else { return false };
        let Some((began, _)) = said.split_once('.') else { return false };
        let known =
            secret_eq(&self.sign(b"nonce", ip, said), signed) && is_within(began, now_s, NONCE_S);
        let proof_due = hex(&secret.sign(&[b"web", nonce.as_bytes()]));
        secret_eq(&proof_due, proof) && known
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
    let differ = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differ) == 0
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
        let proof = |secret: &Secret| hex(&secret.sign(&[b"web", nonce.as_bytes()]));
        assert!(keys().proves(&ours, ONE, 1010, &nonce, &proof(&ours)));
        assert!(!keys().proves(&ours, ONE, 1061, &nonce, &proof(&ours)), "too late");
        assert!(!keys().proves(&ours, OTHER, 1010, &nonce, &proof(&ours)), "another's question");
        let wrong = secret("correct horse battery stable");
        assert!(!keys().proves(&ours, ONE, 1010, &nonce, &proof(&wrong)));
        let own = "3e8.0000000000000007.00000000000000000000000000000000";
        let answer = hex(&ours.sign(&[b"web", own.as_bytes()]));
        assert!(!keys().proves(&ours, ONE, 1010, own, &answer), "a question that we never put");
    }
}
