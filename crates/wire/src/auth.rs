//! The preface of a TCP connection to a server with a shared secret: both ends prove that they know it, and the secret itself never travels.
//!
//! ```text
//!   client                                             server
//!     │  magic 8 │ nonce 32          ────────────────►   │
//!     │  ◄────────────────              nonce 32         │
//!     │  HMAC(secret, "client", address, nonces) 32 ──►  │   wrong: the connection ends here
//!     │  ◄───  HMAC(secret, "server", address, nonces) 32│
//!     │  then the usual protocol: an iperf3 cookie, a hello of `quell rr` …
//! ```
//!
//! HMAC-SHA-256 (RFC 2104, FIPS 180-4). Both nonces go into both proofs, so that a recorded preface is worth nothing against a server that
//! draws a new nonce for each connection; the labels differ, so that an end can't be made to answer its own question. The address is the server's, as
//! the client dialled it: a server that hands a proof on to another is let in nowhere. A page proves the same, by the host in its address and the
//! server's question. What travels
//! after the preface is neither encrypted nor authenticated: the secret decides who may use a server, it doesn't hide what they do. One
//! who sees a preface can try secrets against it at leisure, which is why short ones are refused.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::net::SocketAddr;
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
    /// A browser's.
    Page,
}

/// What that side proves with: that it knows the secret, to or as this server, in answer to these nonces.
pub fn proof(secret: &Secret, side: Side, server: &str, nonces: &[&[u8]]) -> [u8; PROOF] {
    let label: &[u8] = match side {
        Side::Client => b"client",
        Side::Server => b"server",
        Side::Page => b"web",
    };
    secret.sign(&[&[label, b"\n", server.as_bytes(), b"\n"], nonces].concat())
}

/// Whether two proofs are the same. Takes the same time wherever the first difference is.
pub fn same(due: &[u8], proof: &[u8]) -> bool {
    due.ct_eq(proof).into()
}

/// A server by its address, however it is written: what both ends sign.
pub fn address(server: SocketAddr) -> String {
    SocketAddr::new(server.ip().to_canonical(), server.port()).to_string()
}

impl Nonces {
    pub fn proof(&self, secret: &Secret, side: Side, server: SocketAddr) -> [u8; PROOF] {
        proof(secret, side, &address(server), &[&self.client, &self.server])
    }
}

pub fn opening(nonce: &[u8; NONCE]) -> [u8; OPENING] {
    let mut bytes = [0; OPENING];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[MAGIC.len()..].copy_from_slice(nonce);
    bytes
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
    fn a_proof_is_worth_nothing_with_another_secret_side_server_or_nonce() {
        let (ours, theirs) = (secret("correct horse battery"), secret("correct horse stapler"));
        let at = |text: &str| text.parse().expect("an address");
        let here = at("192.0.2.1:5201");
        let due = NONCES.proof(&ours, Side::Client, here);
        assert!(same(&due, &NONCES.proof(&ours, Side::Client, at("[::ffff:192.0.2.1]:5201"))));
        let later = Nonces { server: [3; NONCE], ..NONCES };
        for other in [
            NONCES.proof(&theirs, Side::Client, here),
            NONCES.proof(&ours, Side::Server, here),
            NONCES.proof(&ours, Side::Client, at("192.0.2.9:5201")),
            NONCES.proof(&ours, Side::Client, at("192.0.2.1:5202")),
            later.proof(&ours, Side::Client, here),
        ] {
            assert!(!same(&due, &other));
        }
        assert!(!same(&due, &due[..31]) && !same(&due, &[]), "cut short");
    }

    #[test]
    fn a_secret_is_a_line_that_is_long_enough_and_never_shown() {
        assert_eq!(secret("correct horse battery\r\n"), secret("correct horse battery"));
        assert_eq!(Secret::parse(b"too short      \n"), Err(SecretError::Short(9)));
        assert_eq!(Secret::parse(&[b'x'; LONGEST + 1]), Err(SecretError::Long));
        assert_eq!(format!("{:?}", secret("correct horse battery")), "Secret(21 bytes)");
    }
}
