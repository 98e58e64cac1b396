//! Which key a server shows over TLS, whoever vouches for it: Chromium takes an unknown certificate over QUIC only where it is told its key.
//!
//! ```text
//!   host:port ── TCP ── TLS ──► certificate ──► SHA-256 of its public key (RFC 7469), in base64
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quell_tls::trust::{HTTP2, Trust, client, key_pin};
use quell_units::Span;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Asks a server over TCP what it shows, and waits so long for each of its answers.
pub fn shown_pin(host: &str, port: u16, patience: Span) -> Result<String, String> {
    let patience = Some(Duration::from_nanos(patience.nanos()));
    // A browser's address has an IPv6 address in brackets.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
    let mut found = (host, port).to_socket_addrs().map_err(|e| e.to_string())?;
    let to = found.next().ok_or("there is no host of this name")?;
    let connect = |patience| TcpStream::connect_timeout(&to, patience);
    let mut stream = patience.map_or_else(|| TcpStream::connect(to), connect);
    let stream = stream.as_mut().map_err(|e| e.to_string())?;
    let waits = stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience));
    waits.map_err(|e| e.to_string())?;
    let mut config = (*client(&Trust::Anyone).map_err(|e| e.to_string())?).clone();
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    let tls = ClientConnection::new(Arc::new(config), name);
    let mut tls = tls.map_err(|e| e.to_string())?;
    while tls.is_handshaking() {
        tls.complete_io(stream).map_err(|e| e.to_string())?;
    }
    let first = tls.peer_certificates().and_then(|all| all.first());
    let pin = key_pin(first.ok_or("it shows no certificate")?).map_err(|e| e.to_string())?;
    Ok(STANDARD.encode(pin))
}
