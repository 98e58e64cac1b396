//! A server of HTTP/3 on loopback: QUIC by quinn, with a certificate made on the spot. Over TCP it shows that certificate and hangs up: a page
//! that comes, comes over QUIC.

use bytes::Bytes;
use h3::server::RequestResolver;
use quell_tls::identity::{Identity, Name};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, ServerConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Its page: a document with a style sheet and three pictures.
const PAGE: &str = "<!doctype html><link rel=icon href=data:,><link rel=stylesheet href=/a.css><p>Words.</p>\
                    <img src=/1.svg><img src=/2.svg><img src=/3.svg>";

/// A server, ended with the test.
pub struct Http3 {
    /// Where it listens, on UDP.
    pub at: SocketAddr,
    over: Option<tokio::sync::oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Http3 {
    /// Listens at a free port.
    pub fn new() -> Self {
        let tls = Arc::new(tls());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        // What is free on TCP may be taken on UDP.
        let (listener, endpoint) = (0..100)
            .find_map(|_| {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
                let _within = runtime.enter();
                let quic = QuicServerConfig::try_from(Arc::clone(&tls)).expect("TLS for QUIC");
                let quic = ServerConfig::with_crypto(Arc::new(quic));
                let endpoint = Endpoint::server(quic, listener.local_addr().ok()?).ok()?;
                Some((listener, endpoint))
            })
            .expect("a port");
        let at = endpoint.local_addr().expect("it is bound");
        let (over, told) = tokio::sync::oneshot::channel::<()>();
        let over_tcp = told_to(&tls, listener);
        let over_quic = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(&endpoint) => {}
                    _ = told => {}
                }
            });
        });
        Self { at, over: Some(over), threads: vec![over_tcp, over_quic] }
    }
}

impl Drop for Http3 {
    fn drop(&mut self) {
        drop(self.over.take());
        // A connection that says nothing is the end.
        drop(TcpStream::connect(self.at));
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn tls() -> rustls::ServerConfig {
    let names = [Name::Dns("localhost".into()), Name::Ip(Ipv4Addr::LOCALHOST.into())];
    let made = Identity::new("localhost", &names, b"a server of HTTP/3");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(made.certificate)],
            PrivatePkcs8KeyDer::from(made.key).into(),
        )
        .expect("its own key");
    tls.alpn_protocols = vec![b"h3".to_vec()];
    tls
}

/// Shakes hands over TCP and hangs up, until somebody comes who does not want to.
fn told_to(tls: &rustls::ServerConfig, listener: TcpListener) -> JoinHandle<()> {
    let mut tls = tls.clone();
    tls.alpn_protocols.clear();
    let tls = Arc::new(tls);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut talk = rustls::ServerConnection::new(Arc::clone(&tls)).expect("TLS");
            while talk.is_handshaking() {
                if talk.complete_io(&mut stream).is_err() {
                    return;
                }
            }
            talk.send_close_notify();
            let _ = talk.complete_io(&mut stream).and_then(|_| stream.flush());
        }
    })
}

async fn serve(endpoint: &Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            let connection = h3_quinn::Connection::new(connection);
            let Ok(mut connection) = h3::server::Connection::new(connection).await else { return };
            while let Ok(Some(request)) = connection.accept().await {
                tokio::spawn(answer(request));
            }
        });
    }
}

/// Answers a request; who breaks off has his reasons.
async fn answer(request: RequestResolver<h3_quinn::Connection, Bytes>) {
    let Ok((request, mut stream)) = request.resolve_request().await else { return };
    let (status, kind, body) = match request.uri().path() {
        "/" => (200, "text/html", PAGE),
        "/a.css" => (200, "text/css", "p { color: #123 }"),
        "/1.svg" | "/2.svg" | "/3.svg" => (
            200,
            "image/svg+xml",
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"/>",
        ),
        _ => (404, "text/plain", "There is none."),
    };
    let head = http::Response::builder().status(status).header("content-type", kind);
    let Ok(head) = head.body(()) else { return };
    if stream.send_response(head).await.is_ok()
        && stream.send_data(Bytes::from_static(body.as_bytes())).await.is_ok()
    {
        let _ = stream.finish().await;
    }
}
