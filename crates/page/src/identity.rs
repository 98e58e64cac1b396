//! The certificate of the lab's site, made on the spot from a seed: server and browser make the same one, so that the browser can be told
//! which single key to take, and takes no other.
//!
//! ```text
//!   seed ──► key (P-256) ──┬─► certificate (X.509, signed by itself; RFC 5280)      the server shows it
//!                          └─► SHA-256 of the public key (RFC 7469)                 the browser is told it
//! ```
//!
//! Its signature needs no randomness (RFC 6979): the same seed gives the same bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{DerSignature, SigningKey};
use p256::pkcs8::{EncodePrivateKey, EncodePublicKey};
use sha2::{Digest, Sha256};

/// Key and certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, in DER.
    pub certificate: Vec<u8>,
    /// The private key, PKCS #8 in DER.
    pub key: Vec<u8>,
    /// SHA-256 of the public key, in base64: what `--ignore-certificate-errors-spki-list` takes.
    pub pin: String,
}

impl Identity {
    /// Of a domain and all names right below it.
    pub fn new(domain: &str, seed: u64) -> Self {
        let key = key(seed);
        let public = key.verifying_key().to_public_key_der().expect("a point has an encoding");
        let private = key.to_pkcs8_der().expect("a number has an encoding");
        let certificate = certificate(domain, seed, public.as_bytes(), &key);
        let pin = STANDARD.encode(Sha256::digest(public.as_bytes()));
        Self { certificate, key: private.as_bytes().to_vec(), pin }
    }
}

/// The key of a seed. One number in four thousand million is none; then it is the next one's turn.
fn key(seed: u64) -> SigningKey {
    (0_u32..)
        .find_map(|turn| {
            let hash = Sha256::new_with_prefix("quell page")
                .chain_update(seed.to_be_bytes())
                .chain_update(turn.to_be_bytes())
                .finalize();
            SigningKey::from_slice(&hash).ok()
        })
        .expect("nearly every number is a key")
}

/// Object identifiers, encoded: ecdsa-with-SHA256 (RFC 5758), commonName and subjectAltName (RFC 5280).
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

fn certificate(domain: &str, seed: u64, public: &[u8], key: &SigningKey) -> Vec<u8> {
    let algorithm = der(0x30, &[&der(0x06, &[ECDSA_SHA256])]);
    let name = der(0x30, &[&der(0x06, &[COMMON_NAME]), &der(0x0c, &[domain.as_bytes()])]);
    let name = der(0x30, &[&der(0x31, &[&name])]);
    let validity = der(0x30, &[&der(0x17, &[b"200101000000Z"]), &der(0x17, &[b"491231235959Z"])]);
    let below = format!("*.{domain}");
    let names = der(0x30, &[&der(0x82, &[domain.as_bytes()]), &der(0x82, &[below.as_bytes()])]);
    let alt = der(0x30, &[&der(0x06, &[ALT_NAME]), &der(0x04, &[&names])]);
    let extensions = der(0xa3, &[&der(0x30, &[&alt])]);
    let version = der(0xa0, &[&der(0x02, &[&[2]])]);
    // Positive: its first byte is small.
    let serial = der(0x02, &[&[1], &seed.to_be_bytes()]);
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
        let of = |seed| Identity::new("page.test", seed);
        assert_eq!(of(7), of(7));
        assert_ne!(of(7).pin, of(8).pin);
        assert_eq!(STANDARD.decode(of(7).pin).map(|hash| hash.len()), Ok(32));
    }

    #[test]
    fn lengths_are_written_as_short_as_they_can_be() {
        let of = |n: usize| der(4, &[&vec![0; n]])[..4].to_vec();
        assert_eq!(of(127)[..2], [4, 127]);
        assert_eq!(of(200)[..3], [4, 0x81, 200]);
        assert_eq!(of(300), [4, 0x82, 1, 44]);
    }
}
