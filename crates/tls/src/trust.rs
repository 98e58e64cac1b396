//! What a server shows, and whose certificates a client believes: those that the system's authorities vouch for, those of a file, or anybody's.

use crate::socket::LIMITS;
use quell_sys::input;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme,
};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    System,
    /// Who is named: authorities, or servers themselves.
    Named(Vec<CertificateDer<'static>>),
    Anyone,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    #[error(
        "this system lists no certificate authorities (looked at {0}): install ca-certificates, or name a file"
    )]
    NoList(String),
    #[error("{path} can't be read as certificates or a key in PEM: {why}")]
    File { path: String, why: String },
    #[error("TLS can't be set up: {0}")]
    Tls(String),
}

/// Where systems list whom they believe: Debian and Alpine; Fedora; SUSE.
const LISTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

pub const HTTP2: &[u8] = b"h2";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn tls(error: Error) -> TrustError {
    TrustError::Tls(error.to_string())
}

fn unread(path: &Path, why: impl ToString) -> TrustError {
    TrustError::File { path: path.display().to_string(), why: why.to_string() }
}

fn contents(path: &Path) -> Result<Vec<u8>, TrustError> {
    input::bytes(path, LIMITS.pem).map_err(|e| unread(path, e))
}

pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let text = contents(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|e| unread(path, e))?;
    if all.is_empty() { Err(unread(path, "there is none in it")) } else { Ok(all) }
}

/// How a client of HTTP/2 begins. Each handshake is a whole one: nothing is remembered of the one before.
pub fn client(trust: &Trust) -> Result<Arc<ClientConfig>, TrustError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(tls)?;
    let named = match trust {
        Trust::Anyone => None,
        Trust::Named(certificates) => Some(certificates.clone()),
        Trust::System => {
            let found = LISTS.iter().map(Path::new).find(|path| path.exists());
            Some(certificates(found.ok_or_else(|| TrustError::NoList(LISTS.join(", ")))?)?)
        }
    };
    let mut config = match named {
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Believes {
                named: None,
                provider: provider(),
            }))
            .with_no_client_auth(),
        Some(named) => {
            let mut roots = RootCertStore::empty();
            // An old system lists what no TLS takes any more.
            roots.add_parsable_certificates(named.iter().cloned());
            let named = NamedRoots { certificates: named, roots };
            let believes = Believes { named: Some(named), provider: provider() };
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(believes))
                .with_no_client_auth()
        }
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(Arc::new(config))
}

/// What a server shows, and the key with which it proves that this is its own.
#[derive(Debug, PartialEq, Eq)]
pub struct ServerCertificate {
    /// Its certificate first, then those between it and an authority.
    pub certificates: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

impl Clone for ServerCertificate {
    fn clone(&self) -> Self {
        Self { certificates: self.certificates.clone(), key: self.key.clone_key() }
    }
}

impl ServerCertificate {
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TrustError> {
        Ok(Self {
            certificates: certificates(certificate)?,
            key: PrivateKeyDer::from_pem_slice(&contents(key)?).map_err(|e| unread(key, e))?,
        })
    }
}

/// How a server of HTTP/2 begins, with this identity.
pub fn server(identity: &ServerCertificate) -> Result<Arc<ServerConfig>, TrustError> {
    let mut config = server_of(identity, HTTP2)?;
    // Who measures handshakes wants whole ones, and no bytes behind them.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(Arc::new(config))
}

pub fn server_of(identity: &ServerCertificate, alpn: &[u8]) -> Result<ServerConfig, TrustError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(tls)?
        .with_no_client_auth()
        .with_single_cert(identity.certificates.clone(), identity.key.clone_key())
        .map_err(tls)?;
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

pub fn key_pin(certificate: &CertificateDer<'_>) -> Result<[u8; 32], TrustError> {
    let parsed = ParsedCertificate::try_from(certificate).map_err(tls)?;
    Ok(Sha256::digest(parsed.subject_public_key_info().as_ref()).into())
}

/// Believes who is named, or anybody. That the other end has the key of its certificate is always looked at.
#[derive(Debug)]
struct Believes {
    named: Option<NamedRoots>,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
struct NamedRoots {
    certificates: Vec<CertificateDer<'static>>,
    roots: RootCertStore,
}

impl ServerCertVerifier for Believes {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(named) = &self.named else { return Ok(ServerCertVerified::assertion()) };
        // Named itself, it is its own authority, whatever it says of its name.
        if named.certificates.iter().any(|one| one.as_ref() == shown.as_ref()) {
            return Ok(ServerCertVerified::assertion());
        }
        let parsed = ParsedCertificate::try_from(shown)?;
        let all = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &named.roots, between, now, all)?;
        rustls::client::verify_server_name(&parsed, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let all = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, all)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let all = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, all)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
