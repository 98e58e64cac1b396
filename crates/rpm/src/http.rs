//! HTTP/1.1 as this client needs it: a connection, a request, the head of the answer, and how long each took.

use crate::limits::LIMITS;
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
use quell_web::url::Url;
use quell_web::well_known::{self, BadConfig, NqConfig};
use quell_wire::auth::Secret;
use quell_wire::text::printable;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpmError {
    #[error("no answer from {0} within 20 s")]
    NoAnswer(SocketAddr),
    #[error(
        "{0} closed the connection before it answered: is it an HTTP server? Quell's is `quell serve --web`"
    )]
    Closed(SocketAddr),
    #[error("{0} closed a connection before it answered there, though it answered on others")]
    ClosedOne(SocketAddr),
    #[error(
        "the download of {path} from {to} ended after {bytes} bytes: the draft wants 8 GB at least, and no end while it is measured"
    )]
    Ended {
        to: SocketAddr,
        path: String,
        /// What came before the end.
        bytes: u64,
    },
    #[error(
        "{to} answered the upload to {path} before it was over: it does not take one that goes on"
    )]
    Early { to: SocketAddr, path: String },
    #[error("{to} broke off the upload to {path} while it went on")]
    Broke { to: SocketAddr, path: String },
    #[error("{to} answers {status} to {path}{words}")]
    Refused { to: SocketAddr, status: u16, path: String, words: String },
    #[error("what {0} answers is no HTTP/1.1: {1}")]
    NotHttp(SocketAddr, String),
    #[error("{0}")]
    NqConfig(#[from] BadConfig),
    #[error("no TLS with {to}: {why}{}", advice(why))]
    NoTls { to: SocketAddr, why: String },
    #[error("{0}")]
    Trust(#[from] TrustError),
    #[error("{0} speaks TLS and closed the connection before it answered")]
    Left(SocketAddr),
    #[error("{0} speaks TLS and did not answer the request within 20 s")]
    Mute(SocketAddr),
    #[error("{to} ended the HTTP/2 connection (GOAWAY): {why}")]
    GoneAway { to: SocketAddr, why: String },
    #[error("{to} broke off the request (RST_STREAM): {why}")]
    CalledOff { to: SocketAddr, why: String },
    #[error("what {0} says over TLS is no HTTP/2: {1}")]
    NotHttp2(SocketAddr, String),
    #[error(
        "{named} names another server, {other}, to be loaded in its place\n  Only the server that you name is loaded. If you mean the other: quell flow --rpm {other}"
    )]
    Other { named: String, other: String },
    #[error("`{0}` is no name of a server")]
    Unknown(String),
    #[error("{0}")]
    Secret(#[from] PrefaceError),
    #[error("it was stopped before there was a figure")]
    Stopped,
    #[error("{0}")]
    System(#[from] SysError),
}

/// The server that the user named, and what of it is asked for.
#[derive(Debug, Clone)]
pub struct HttpTarget {
    pub to: SocketAddr,
    pub large: Url,
    pub small: Url,
    pub upload: Url,
    pub secret: Option<Secret>,
    pub secured: Option<Secured>,
}

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
    /// As the user named it, for its word of itself.
    pub fn named(plan: &RpmPlan) -> Result<Self, RpmError> {
        let scheme = if plan.tls { "https" } else { "http" };
        let url = Url::parse(&format!("{scheme}://{}{}", plan.authority, well_known::PATH))
            .ok_or_else(|| RpmError::Unknown(printable(&plan.authority, 100)))?;
        let secured = plan.tls.then(|| Secured::of(plan, &url)).transpose()?;
        let (large, upload, secret) = (url.clone(), url.clone(), plan.secret.clone());
        Ok(Self { to: plan.to, large, small: url, upload, secret, secured })
    }

    /// With what the server says of itself: a host that another names is not loaded, or anybody's word would turn a client against it.
    pub fn with(self, config: NqConfig) -> Result<Self, RpmError> {
        if config.small.server() != self.small.server() {
            let shown = |url: &Url| {
                let path = String::new();
                printable(&Url { path, ..url.clone() }.to_string(), 100)
            };
            let (named, other) = (shown(&self.small), shown(&config.small));
            return Err(RpmError::Other { named, other });
        }
        let NqConfig { large, small, upload } = config;
        Ok(Self { large, small, upload, ..self })
    }
}

/// A connection that stands; what its handshake took.
pub fn connect(
    to: SocketAddr,
    secret: Option<&Secret>,
    stop: &Bell,
) -> Result<(TcpSocket, f64), RpmError> {
    let stream = TcpSocket::new(to.is_ipv6(), &StreamOptions::default())?;
    let began = monotonic_ns();
    let deadline = began.saturating_add(LIMITS.patience_ns);
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
    let deadline = monotonic_ns().saturating_add(LIMITS.patience_ns);
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
    alarm.set(Some(monotonic_ns().saturating_add(LIMITS.patience_ns)))?;
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

fn body(
    stream: &TcpSocket,
    to: SocketAddr,
    answer: &head::ResponseHead,
    mut bytes: Vec<u8>,
    stop: &Bell,
) -> Result<Vec<u8>, RpmError> {
    let mut alarm = Alarm::new()?;
    alarm.set(Some(monotonic_ns().saturating_add(LIMITS.patience_ns)))?;
    let length = match answer.body {
        Some(Body::Bytes(length)) => usize::try_from(length).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    while bytes.len() < length.min(well_known::LONGEST + 1) {
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

pub fn fetch(
    stream: &TcpSocket,
    to: SocketAddr,
    request: &str,
    stop: &Bell,
) -> Result<(u16, Vec<u8>), RpmError> {
    say(stream, to, request, stop)?;
    let (said, bytes) = answer(stream, to, stop)?;
    Ok((said.status, body(stream, to, &said, bytes, stop)?))
}

/// Posts a small thing to a path of a `quell serve --web`; errors when it does not take it.
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
    match fetch(&stream, to, &request, stop)? {
        (200, _) => Ok(()),
        (status, bytes) => Err(refused(to, status, path, &bytes)),
    }
}

/// That it answers with something else, in its own words.
pub fn refused(to: SocketAddr, status: u16, path: &str, words: &[u8]) -> RpmError {
    let words = printable(String::from_utf8_lossy(words).trim(), 200);
    let words = if words.is_empty() { words } else { format!(": {words}") };
    RpmError::Refused { to, status, path: path.to_owned(), words }
}
