//! A server's identity, made on the spot from a seed: its key and its certificate, signed by itself.
//!
//! ```text
//!   seed ──► key (P-256) ──┬─► certificate (X.509, signed by itself; RFC 5280)      the server shows it
//!                          └─► SHA-256 of the public key (RFC 7469)                 a client can be told it
//! ```
//!
//! Its signature needs no randomness (RFC 6979): the same seed gives the same bytes. Who wants a key that nobody knows takes a seed that
//! nobody knows.

use crate::trust::ServerCertificate;
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{DerSignature, SigningKey};
use p256::pkcs8::{EncodePrivateKey, EncodePublicKey};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};
use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// As DNS has it; `*.` before it stands for all names right below.
    Dns(String),
    Ip(IpAddr),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub certificate: Vec<u8>,
    /// The private key, PKCS #8 in DER.
    pub key: Vec<u8>,
    pub pin: [u8; 32],
}

impl Identity {
    /// Of all these names; the first word is what a person is shown.
    pub fn new(called: &str, names: &[Name], seed: &[u8]) -> Self {
        let key = key(seed);
        let public = key.verifying_key().to_public_key_der().expect("a point has an encoding");
        let private = key.to_pkcs8_der().expect("a number has an encoding");
        let certificate = certificate(called, names, seed, public.as_bytes(), &key);
        let pin = Sha256::digest(public.as_bytes()).into();
        Self { certificate, key: private.as_bytes().to_vec(), pin }
    }

    pub fn shown(self) -> ServerCertificate {
        ServerCertificate {
            certificates: vec![CertificateDer::from(self.certificate)],
            key: PrivatePkcs8KeyDer::from(self.key).into(),
        }
    }
}

/// The key of a seed. One number in four thousand million is none; then it is the next one's turn.
fn key(seed: &[u8]) -> SigningKey {
    (0_u32..)
        .find_map(|turn| {
            let hash = Sha256::new_with_prefix("quell identity")
                .chain_update(turn.to_be_bytes())
                .chain_update(seed)
                .finalize();
            SigningKey::from_slice(&hash).ok()
        })
        .expect("nearly every number is a key")
}

/// Object identifiers, encoded: ecdsa-with-SHA256 (RFC 5758), commonName and subjectAltName (RFC 5280).
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

fn certificate(
    called: &str,
    names: &[Name],
    seed: &[u8],
    public: &[u8],
    key: &SigningKey,
) -> Vec<u8> {
    let algorithm = der(0x30, &[&der(0x06, &[ECDSA_SHA256])]);
    let name = der(0x30, &[&der(0x06, &[COMMON_NAME]), &der(0x0c, &[called.as_bytes()])]);
    let name = der(0x30, &[&der(0x31, &[&name])]);
    let validity = der(0x30, &[&der(0x17, &[b"200101000000Z"]), &der(0x17, &[b"491231235959Z"])]);
    let names: Vec<Vec<u8>> = names
        .iter()
        .map(|name| match name {
            Name::Dns(name) => der(0x82, &[name.as_bytes()]),
            Name::Ip(IpAddr::V4(ip)) => der(0x87, &[&ip.octets()]),
            Name::Ip(IpAddr::V6(ip)) => der(0x87, &[&ip.octets()]),
        })
        .collect();
    let names = der(0x30, &[&names.concat()]);
    let alt = der(0x30, &[&der(0x06, &[ALT_NAME]), &der(0x04, &[&names])]);
    let extensions = der(0xa3, &[&der(0x30, &[&alt])]);
    let version = der(0xa0, &[&der(0x02, &[&[2]])]);
    // Positive: its first byte is small. Another key has another number, or a browser complains.
    let serial = Sha256::new_with_prefix("quell serial").chain_update(seed).finalize();
    let serial = der(0x02, &[&[1], &serial[..8]]);
    let parts: [&[u8]; 8] =
        [&version, &serial, &algorithm, &name, &validity, &name, public, &extensions];
    let signed = der(0x30, &parts);
    let signature: DerSignature = key.sign(&signed);
    let signature = der(0x03, &[&[0], signature.as_bytes()]);
    der(0x30, &[&signed, &algorithm, &signature])
}

/// A value of this tag out of parts (X.690, definite lengths).
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut all = vec![tag];
    match length {
        0..0x80 => all.push(length as u8),
        0x80..0x100 => all.extend([0x81, length as u8]),
        _ => all.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    parts.iter().for_each(|part| all.extend_from_slice(part));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_certificate_and_another_one_another() {
        let names = [Name::Dns("page.test".into()), Name::Ip([192, 0, 2, 7].into())];
        let of = |seed: u64| Identity::new("page.test", &names, &seed.to_be_bytes());
        assert_eq!(of(7), of(7));
        assert_ne!(of(7).pin, of(8).pin);
        assert_ne!(of(7).certificate, of(8).certificate);
    }

    #[test]
    fn lengths_are_written_as_short_as_they_can_be() {
        let of = |n: usize| der(4, &[&vec![0; n]])[..4].to_vec();
        assert_eq!(of(127)[..2], [4, 127]);
        assert_eq!(of(200)[..3], [4, 0x81, 200]);
        assert_eq!(of(300), [4, 0x82, 1, 44]);
    }
}
