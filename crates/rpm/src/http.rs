//! HTTP/1.1 as this client needs it: a connection, a request, the head of the answer, and how long each took.

use crate::plan::RpmPlan;
use nix::errno::Errno;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::exchange::{Exchange, ExchangeError};
use quell_sys::socket::preface::{self, PrefaceError};
use quell_sys::socket::stream::{Connected, StreamOptions, TcpSocket};
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_tls::trust::TrustError;
use quell_web::head::{self, Body};
use quell_web::nq::{self, BadConfig, NqConfig};
use quell_web::url::Url;
use quell_wire::auth::Secret;
use quell_wire::text::printable;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

/// Longest that a connection and its answer may take.
pub const PATIENCE_NS: u64 = 20_000_000_000;

/// How far a server came that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoke {
    /// It agreed on HTTP/2 and said nothing in it.
    Nothing,
    /// It spoke HTTP/2.
    Http2,
}

impl Spoke {
    /// Of one of which so many bytes came through TLS. The first of them are its settings (RFC 9113, section 3.4), or h2 tells of an error.
    pub fn of(bytes: u64) -> Self {
        if bytes > 0 { Self::Http2 } else { Self::Nothing }
    }
}

impl std::fmt::Display for Spoke {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "agreed on HTTP/2 over TLS, said nothing in it",
            Self::Http2 => "speaks HTTP/2",
        })
    }
}

/// Why there is no figure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpmError {
    #[error("no answer from {0} within 20 s")]
    NoAnswer(SocketAddr),
    /// It ends connections before it answers.
    #[error(
        "{0} closed the connection before it answered: is it an HTTP server? Quell's is `quell serve --web`"
    )]
    Closed(SocketAddr),
    /// It answers some requests, and closes the connection of another.
    #[error("{0} closed a connection before it answered there, though it answered on others")]
    ClosedOne(SocketAddr),
    /// What it sends as a load comes to its end.
    #[error(
        "the download of {path} from {to} ended after {bytes} bytes: the draft wants 8 GB at least, and no end while it is measured"
    )]
    Ended {
        to: SocketAddr,
        path: String,
        /// What came before the end.
        bytes: u64,
    },
    /// It answers a load before that is there.
    #[error(
        "{to} answered the upload to {path} before it was over: it does not take one that goes on"
    )]
    Early { to: SocketAddr, path: String },
    /// It does not take a load any more.
    #[error("{to} broke off the upload to {path} while it went on")]
    Broke { to: SocketAddr, path: String },
    /// It answers, and with something else.
    #[error("{to} answers {status} to {path}{words}")]
    Refused { to: SocketAddr, status: u16, path: String, words: String },
    #[error("what {0} answers is no HTTP/1.1: {1}")]
    NotHttp(SocketAddr, String),
    /// Its configuration is none.
    #[error("{0}")]
    NqConfig(#[from] BadConfig),
    /// TLS does not come to be.
    #[error("no TLS with {to}: {why}{}", advice(why))]
    NoTls { to: SocketAddr, why: String },
    /// Nobody can be believed.
    #[error("{0}")]
    Trust(#[from] TrustError),
    /// It speaks TLS, and leaves before it answers.
    #[error("{to} {spoke} and closed the connection before it answered")]
    Left { to: SocketAddr, spoke: Spoke },
    /// It speaks TLS, and does not answer.
    #[error("{to} {spoke} and did not answer the request within 20 s")]
    Mute { to: SocketAddr, spoke: Spoke },
    /// It ends an HTTP/2 connection, and says why.
    #[error("{to} ended the HTTP/2 connection (GOAWAY): {why}")]
    GoneAway { to: SocketAddr, why: String },
    /// It will not have a request of HTTP/2, and says why.
    #[error("{to} broke off the request (RST_STREAM): {why}")]
    CalledOff { to: SocketAddr, why: String },
    /// What it speaks over TLS is no HTTP/2.
    #[error("what {0} says over TLS is no HTTP/2: {1}")]
    NotHttp2(SocketAddr, String),
    /// Some of its addresses are over TLS.
    #[error("the server names addresses over http and over https: the draft wants one server")]
    Mixed,
    /// Its addresses are of several ports, over TLS.
    #[error(
        "the server names several ports: over https the small download has to be had within the connection of the large one and of the upload"
    )]
    Ports,
    #[error("the server names the host `{0}`, which has no address here")]
    Unknown(String),
    #[error("{0}")]
    Secret(#[from] PrefaceError),
    #[error("it was stopped before there was a figure")]
    Stopped,
    /// The kernel refused something.
    #[error("{0}")]
    System(#[from] SysError),
}

/// Where load and probes go.
#[derive(Debug, Clone)]
pub struct HttpTarget {
    /// Where probes go; see [`HttpTarget::at`].
    pub to: SocketAddr,
    pub large: Url,
    pub small: Url,
    pub upload: Url,
    pub secret: Option<Secret>,
    /// Over TLS; none over plain HTTP.
    pub secured: Option<Secured>,
}

/// What TLS needs to know.
#[derive(Debug, Clone)]
pub struct Secured {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
}

impl Secured {
    pub fn of(plan: &RpmPlan, url: &Url) -> Result<Self, RpmError> {
        let name = ServerName::try_from(url.host.clone())
            .map_err(|_| RpmError::Unknown(printable(&url.host, 100)))?;
        Ok(Self { config: quell_tls::trust::client(&plan.trust)?, name })
    }
}

/// What helps against an unknown certificate.
fn advice(why: &str) -> &'static str {
    match why.contains("certificate") {
        true => {
            "\n  Who knows this server takes its certificate with --ca FILE, or whatever it shows with --insecure"
        }
        false => "",
    }
}

impl HttpTarget {
    /// What a server's configuration says, seen from where it was asked.
    pub fn of(plan: &RpmPlan, config: &NqConfig) -> Result<Self, RpmError> {
        let small = &config.small;
        if small.tls != config.large.tls || small.tls != config.upload.tls {
            return Err(RpmError::Mixed);
        }
        if small.tls && (small.port != config.large.port || small.port != config.upload.port) {
            return Err(RpmError::Ports);
        }
        let name = config.endpoint.as_deref().unwrap_or(&small.host);
        let asked = Url::parse(&format!("http://{}", plan.authority));
        let to = match name.parse::<IpAddr>() {
            Ok(ip) => SocketAddr::new(ip, small.port),
            // The host that was asked is where it was found, whatever a resolver says the second time.
            Err(_) if asked.is_some_and(|asked| asked.host == name) => at_port(plan.to, small.port),
            Err(_) => {
                let unknown = || RpmError::Unknown(printable(name, 100));
                let mut all = (name, small.port).to_socket_addrs().map_err(|_| unknown())?;
                all.next().ok_or_else(unknown)?
            }
        };
        Ok(Self {
            to,
            large: config.large.clone(),
            small: small.clone(),
            upload: config.upload.clone(),
            secret: plan.secret.clone(),
            secured: if small.tls { Some(Secured::of(plan, small)?) } else { None },
        })
    }
}

impl HttpTarget {
    /// Where this is to be had: all are of one host, each has its own port.
    pub fn at(&self, url: &Url) -> SocketAddr {
        at_port(self.to, url.port)
    }
}

fn at_port(mut to: SocketAddr, port: u16) -> SocketAddr {
    to.set_port(port);
    to
}

/// A connection that stands; what its handshake took.
pub fn connect(
    to: SocketAddr,
    secret: Option<&Secret>,
    stop: &Bell,
) -> Result<(TcpSocket, f64), RpmError> {
    let stream = TcpSocket::new(to.is_ipv6(), &StreamOptions::default())?;
    let began = monotonic_ns();
    let deadline = began.saturating_add(PATIENCE_NS);
    match stream.connect(to, deadline, stop)? {
        Connected::Yes => {}
        Connected::NoAnswer => return Err(RpmError::NoAnswer(to)),
        Connected::Stopped => return Err(RpmError::Stopped),
    }
    let took_ms = (monotonic_ns() - began) as f64 / 1e6;
    if let Some(secret) = secret {
        preface::prove(&mut Exchange::new(&stream, Some(deadline), stop)?, secret)?;
    }
    Ok((stream, took_ms))
}

pub fn say(stream: &TcpSocket, to: SocketAddr, text: &str, stop: &Bell) -> Result<(), RpmError> {
    let deadline = monotonic_ns().saturating_add(PATIENCE_NS);
    Exchange::new(stream, Some(deadline), stop)?.write(text.as_bytes()).map_err(|error| match error
    {
        ExchangeError::Closed => RpmError::Closed(to),
        ExchangeError::Late => RpmError::NoAnswer(to),
        ExchangeError::Stopped => RpmError::Stopped,
        ExchangeError::System(error) => error.into(),
    })
}

/// The head of the answer, and what came of its body with it.
pub fn answer(
    stream: &TcpSocket,
    to: SocketAddr,
    stop: &Bell,
) -> Result<(head::ResponseHead, Vec<u8>), RpmError> {
    let mut alarm = Alarm::new()?;
    alarm.set(Some(monotonic_ns().saturating_add(PATIENCE_NS)))?;
    let mut bytes = Vec::new();
    loop {
        match head::answer(&bytes) {
            Ok(Some((answer, length))) => return Ok((answer, bytes.split_off(length))),
            Ok(None) => {}
            Err(bad) => return Err(RpmError::NotHttp(to, bad.to_string())),
        }
        more(stream, to, &mut bytes, &alarm, stop)?;
    }
}

/// Takes what comes next, at least a byte.
fn more(
    stream: &TcpSocket,
    to: SocketAddr,
    bytes: &mut Vec<u8>,
    alarm: &Alarm,
    stop: &Bell,
) -> Result<(), RpmError> {
    let mut piece = [0; 4096];
    loop {
        match stream.read_now(&mut piece) {
            Ok(0) | Err(Errno::ECONNRESET) => return Err(RpmError::Closed(to)),
            Ok(got) => {
                bytes.extend_from_slice(&piece[..got]);
                return Ok(());
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let mut fds = [readable(stream), readable(stop), readable(alarm)];
                wait(&mut fds)?;
                match () {
                    () if came(&fds[1]) => return Err(RpmError::Stopped),
                    () if came(&fds[0]) => {}
                    () => return Err(RpmError::NoAnswer(to)),
                }
            }
            Err(errno) => return Err(SysError::new(format!("read from {to}"), errno).into()),
        }
    }
}

pub fn body(
    stream: &TcpSocket,
    to: SocketAddr,
    answer: &head::ResponseHead,
    mut bytes: Vec<u8>,
    stop: &Bell,
) -> Result<Vec<u8>, RpmError> {
    let mut alarm = Alarm::new()?;
    alarm.set(Some(monotonic_ns().saturating_add(PATIENCE_NS)))?;
    let length = match answer.body {
        Some(Body::Bytes(length)) => usize::try_from(length).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    while bytes.len() < length.min(nq::LONGEST + 1) {
        match more(stream, to, &mut bytes, &alarm, stop) {
            Ok(()) => {}
            // Without a length it ends with the connection.
            Err(RpmError::Closed(_)) if length == usize::MAX => break,
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// So many bytes that nothing on the way makes fewer: no two near each other are alike.
pub fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

pub fn get(url: &Url, keeps: bool) -> String {
    let connection = if keeps { "keep-alive" } else { "close" };
    format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nAccept-Encoding: identity\r\nUser-Agent: quell/{}\r\nConnection: {connection}\r\n\r\n",
        url.path,
        url.authority(),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Posts a small thing to a path of a `quell serve --web`; errors when it does not take it.
///
/// # Errors
/// When there is no such server, or it refuses.
pub fn post(
    to: SocketAddr,
    secret: Option<&Secret>,
    path: &str,
    json: &str,
    stop: &Bell,
) -> Result<(), RpmError> {
    let (stream, _) = connect(to, secret, stop)?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {to}\r\nX-Quell: 1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{json}",
        json.len()
    );
    say(&stream, to, &request, stop)?;
    let (said, bytes) = answer(&stream, to, stop)?;
    let bytes = body(&stream, to, &said, bytes, stop)?;
    match said.status {
        200 => Ok(()),
        status => Err(refused(to, status, path, &bytes)),
    }
}

/// That it answers with something else, in its own words.
pub fn refused(to: SocketAddr, status: u16, path: &str, words: &[u8]) -> RpmError {
    let words = printable(String::from_utf8_lossy(words).trim(), 200);
    let words = if words.is_empty() { words } else { format!(": {words}") };
    RpmError::Refused { to, status, path: path.to_owned(), words }
}
