//! The preface of a TCP connection to a server with a shared secret: both ends prove that they know it, and the secret itself never travels.
//!
//! ```text
//!   client                                             server
//!     │  magic 8 │ nonce 32          ────────────────►   │
//!     │  ◄────────────────              nonce 32         │
//!     │  HMAC(secret, "client", both nonces) 32  ─────►  │   wrong: the connection ends here
//!     │  ◄──────  HMAC(secret, "server", both nonces) 32 │
//!     │  then the usual protocol: an iperf3 cookie, a hello of `quell rr` …
//! ```
//!
//! HMAC-SHA-256 (RFC 2104, FIPS 180-4). Both nonces go into both proofs, so that a recorded preface is worth nothing against a server that
//! draws a new nonce for each connection; the two labels differ, so that an end can't be made to answer its own question. What travels
//! after the preface is neither encrypted nor authenticated: the secret decides who may use a server, it doesn't hide what they do. One
//! who sees a preface can try secrets against it at leisure, which is why short ones are refused.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use subtle::ConstantTimeEq;

pub const MAGIC: &[u8; 8] = b"QUELAUT1";
pub const NONCE: usize = 32;
pub const PROOF: usize = 32;
pub const OPENING: usize = MAGIC.len() + NONCE;
pub const SHORTEST: usize = 16;
pub const LONGEST: usize = 4096;

/// What both ends know. Its bytes are not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error(
        "the secret has {0} bytes, and needs at least {SHORTEST}; a good one: head -c 32 /dev/urandom | base64"
    )]
    Short(usize),
    #[error("the secret has more than {LONGEST} bytes: is this the right file?")]
    Long,
}

impl Secret {
    /// The content of a file, without white space at its end.
    pub fn parse(content: &[u8]) -> Result<Self, SecretError> {
        let bytes = content.trim_ascii_end();
        match bytes.len() {
            n if n < SHORTEST => Err(SecretError::Short(n)),
            n if n > LONGEST => Err(SecretError::Long),
            _ => Ok(Self(bytes.to_vec())),
        }
    }

    /// HMAC-SHA-256 over all the parts, one after the other.
    pub fn sign(&self, parts: &[&[u8]]) -> [u8; PROOF] {
        let mut mac = self.begin();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }

    fn begin(&self) -> Hmac<Sha256> {
        // HMAC takes keys of any length (RFC 2104, section 2), so this is never the other case.
        Hmac::new_from_slice(&self.0).unwrap_or_else(|_| Hmac::new(&Default::default()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonces {
    pub client: [u8; NONCE],
    pub server: [u8; NONCE],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

impl Nonces {
    pub fn proof(&self, secret: &Secret, side: Side) -> [u8; PROOF] {
        let label: &[u8] = match side {
            Side::Client => b"client",
            Side::Server => b"server",
        };
        secret.sign(&[label, &self.client, &self.server])
    }

    /// Whether what came from that side proves that it knows the secret. Takes the same time wherever the first difference is.
    pub fn proven(&self, secret: &Secret, side: Side, proof: &[u8]) -> bool {
        self.proof(secret, side).ct_eq(proof).into()
    }
}

pub fn opening(nonce: &[u8; NONCE]) -> [u8; OPENING] {
    let mut bytes = [0; OPENING];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[MAGIC.len()..].copy_from_slice(nonce);
    bytes
}

/// The client's nonce; none when this is no opening.
pub fn read_opening(bytes: &[u8; OPENING]) -> Option<[u8; NONCE]> {
    bytes.strip_prefix(MAGIC)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCES: Nonces = Nonces { client: [1; NONCE], server: [2; NONCE] };

    fn secret(text: &str) -> Secret {
        Secret::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_mac_is_that_of_rfc_4231() {
        // Test cases 6 (a key longer than a block) and 7.
        let key = Secret::parse(&[0xaa; 131]).unwrap();
        let mac = key.sign(&[b"Test Using Larger Than Block-Size Key", b" - Hash Key First"]);
        let hex: String = mac.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn each_end_is_believed_with_the_secret_and_not_without() {
        let (ours, theirs) = (secret("correct horse battery"), secret("correct horse stapler"));
        for side in [Side::Client, Side::Server] {
            let proof = NONCES.proof(&ours, side);
            assert!(NONCES.proven(&ours, side, &proof));
            assert!(!NONCES.proven(&theirs, side, &proof));
            assert!(!NONCES.proven(&ours, side, &proof[..31]), "cut short");
            assert!(!NONCES.proven(&ours, side, &[]));
        }
    }

    #[test]
    fn a_proof_is_worth_nothing_for_other_nonces_or_the_other_side() {
        let secret = secret("correct horse battery");
        let proof = NONCES.proof(&secret, Side::Client);
        assert!(!NONCES.proven(&secret, Side::Server, &proof), "sent back");
        let later = Nonces { server: [3; NONCE], ..NONCES };
        assert!(!later.proven(&secret, Side::Client, &proof), "replayed");
    }

    #[test]
    fn a_secret_is_a_line_that_is_long_enough_and_never_shown() {
        assert_eq!(secret("correct horse battery\r\n"), secret("correct horse battery"));
        assert_eq!(Secret::parse(b"too short      \n"), Err(SecretError::Short(9)));
        assert_eq!(Secret::parse(&[b'x'; LONGEST + 1]), Err(SecretError::Long));
        assert_eq!(format!("{:?}", secret("correct horse battery")), "Secret(21 bytes)");
    }

    #[test]
    fn an_opening_is_told_from_everything_else() {
        let bytes = opening(&[7; NONCE]);
        assert_eq!(read_opening(&bytes), Some([7; NONCE]));
        for at in 0..MAGIC.len() {
            let mut bytes = bytes;
            bytes[at] ^= 1;
            assert_eq!(read_opening(&bytes), None, "byte {at}");
        }
    }
}
