//! The lab's site as a client meets it: TLS by its certificate alone, connections that stay, an end when its server is told.

use quell_model::page::HttpVersion;
use quell_page::identity::identity;
use quell_page::server::SiteServer;
use quell_page::site;
use quell_sys::wait::Bell;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

/// Has a server of this seed while something happens.
fn serving<T>(seed: u64, happens: impl FnOnce(SocketAddr) -> T) -> T {
    let server = SiteServer::prepare((Ipv4Addr::LOCALHOST, 0).into(), seed, HttpVersion::One)
        .expect("it listens");
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
    let stop = Bell::new().expect("a bell");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| server.run(&stop));
        let result = happens(to);
        stop.ring();
        thread.join().expect("it does not panic").expect("it ends well");
        result
    })
}

/// A client that trusts the certificate of a seed, and nothing else.
fn client(
    to: SocketAddr,
    host: &'static str,
    seed: u64,
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    let certificate = identity(seed).certificate;
    roots.add(CertificateDer::from(certificate)).expect("it is a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host).expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    StreamOwned::new(connection, TcpStream::connect(to).expect("it listens"))
}

fn get(stream: &mut impl Write, path: &str, connection: &str) {
    let text = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\n\r\n");
    stream.write_all(text.as_bytes()).expect("it is taken");
}

#[test]
fn each_of_its_hosts_is_served_by_a_certificate_that_names_it_on_one_connection() {
    serving(7, |to| {
        for host in site::HOSTS {
            let mut stream = client(to, host, 7);
            get(&mut stream, "/picture-3.bmp", "keep-alive");
            get(&mut stream, "/style-1.css", "close");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("both come, and then the end");
            let wanted: usize = ["/picture-3.bmp", "/style-1.css"]
                .map(|path| site::object(path, 1).expect("it is there").body.len())
                .iter()
                .sum();
            let heads = bytes.windows(4).filter(|w| w == b"\r\n\r\n").count();
            assert!(heads >= 2 && bytes.len() > wanted && bytes.len() < wanted + 1000, "{host}");
        }
    });
}

#[test]
fn a_certificate_of_another_seed_is_not_taken() {
    serving(7, |to| {
        let mut stream = client(to, site::HOSTS[0], 8);
        let error = stream.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| {
            let mut byte = [0];
            stream.read_exact(&mut byte)
        });
        let error = error.expect_err("nobody vouches for it").to_string();
        assert!(error.contains("certificate"), "{error}");
    });
}

#[test]
fn a_server_that_is_told_to_stop_does_not_wait_for_idle_clients() {
    serving(7, |to| {
        let mut stream = client(to, site::HOSTS[0], 7);
        get(&mut stream, "/style-2.css", "keep-alive");
        let mut head = [0; 15];
        stream.read_exact(&mut head).expect("an answer");
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        let silent = TcpStream::connect(to).expect("it listens");
        // Both are open, and the server ends.
        (stream, silent)
    });
}
