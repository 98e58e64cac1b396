//! The certificate of the lab's site, made on the spot from a seed: server and browser make the same one, so that the browser can be told
//! which single key to take, and takes no other.

use crate::site::DOMAIN;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
pub use quell_tls::identity::Identity;
use quell_tls::identity::Name;

/// Of the site and all names right below it.
pub fn identity(seed: u64) -> Identity {
    let names = [Name::Dns(DOMAIN.into()), Name::Dns(format!("*.{DOMAIN}"))];
    Identity::new(DOMAIN, &names, &seed.to_be_bytes())
}

/// What `--ignore-certificate-errors-spki-list` takes: the hash of its public key, in base64.
pub fn pin(seed: u64) -> String {
    STANDARD.encode(identity(seed).pin)
}
