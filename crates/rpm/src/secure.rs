//! HTTP/2 over TLS as this client needs it: a session on a connection, its requests, and the one that makes load with small ones beside it.
//!
//! ```text
//!   connect ──► session ──┬─► get                a request and its whole answer
//!                         └─► Bulk ──► go_on     data without end; asked for it, a probe within
//! ```

use crate::broken::broken;
use crate::http::{self, HttpTarget, RpmError, Secured};
use crate::limits::LIMITS;
use crate::plan::LoadDirection;
use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http_types::{Method, Request};
use nix::libc::{IPPROTO_TCP, TCP_NODELAY};
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::option::set;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::Bell;
use quell_tls::drive::{Drive, DriveStep, Halt};
use quell_tls::socket::{Beneath, RECORD, TlsSocket, second};
use quell_web::url::Url;
use quell_web::well_known;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::OnceLock;
use std::task::{Context, Poll};

pub struct Http2Session {
    to: SocketAddr,
    drive: Drive,
    line: Rc<Beneath>,
    connection: Connection<TlsSocket, Bytes>,
    requests: SendRequest<Bytes>,
}

pub fn connect(
    to: SocketAddr,
    secured: &Secured,
    secret: Option<&quell_wire::auth::Secret>,
    stop: &Bell,
) -> Result<Http2Session, RpmError> {
    let (tcp, _) = http::connect(to, secret, stop)?;
    Ok(begin(tcp, to, secured, stop)?.0)
}

/// The same on a connection that stands; what a round trip of TLS's handshake took.
pub fn begin(
    tcp: TcpSocket,
    to: SocketAddr,
    secured: &Secured,
    stop: &Bell,
) -> Result<(Http2Session, f64), RpmError> {
    // What begins HTTP/2 and the first request are two writes: the second would wait until the first is acknowledged (RFC 1122, 4.2.3.4).
    set(tcp.as_fd(), IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY")?;
    let failed = |why: &dyn ToString| RpmError::NoTls { to, why: why.to_string() };
    let began = monotonic_ns();
    let deadline = began.saturating_add(LIMITS.patience_ns);
    let mut socket = TlsSocket::client(tcp, &secured.config, secured.name.clone())
        .map_err(|error| failed(&error))?;
    let line = Rc::clone(socket.line());
    let mut drive = Drive::new(Rc::clone(&line))?;
    drive
        .run(&[stop], |context| match socket.poll_handshake(context) {
            Poll::Ready(done) => DriveStep::Done(done.map_err(|error| failed(&error))),
            Poll::Pending => until(deadline, || failed(&"it did not answer within 20 s")),
        })
        .map_err(halted)??;
    let tls_ms = (monotonic_ns() - began) as f64 / 1e6 / f64::from(socket.round_trips());
    if socket.speaks() != Some(quell_tls::trust::HTTP2) {
        return Err(failed(&"it does not speak HTTP/2"));
    }
    let mut builder = h2::client::Builder::new();
    builder
        .initial_window_size(LIMITS.window)
        .initial_connection_window_size(LIMITS.window)
        .max_send_buffer_size(2 * RECORD)
        .enable_push(false);
    let (requests, connection) = {
        let mut begun = pin!(builder.handshake::<_, Bytes>(socket));
        drive
            .run(&[stop], |context| match begun.as_mut().poll(context) {
                Poll::Ready(done) => DriveStep::Done(done.map_err(|error| broken(to, &error))),
                Poll::Pending => until(deadline, || RpmError::Mute(to)),
            })
            .map_err(halted)??
    };
    let session = Http2Session { to, drive, line, connection, requests };
    Ok((session, tls_ms))
}

fn until<T>(deadline: u64, late: impl Fn() -> RpmError) -> DriveStep<Result<T, RpmError>> {
    match monotonic_ns() < deadline {
        true => DriveStep::Until(deadline),
        false => DriveStep::Done(Err(late())),
    }
}

fn halted(halt: Halt) -> RpmError {
    match halt {
        Halt::Rang(_) => RpmError::Stopped,
        Halt::System(error) => error.into(),
    }
}

/// A request for this; without a body's end, more follows.
fn request(method: Method, url: &Url) -> Result<Request<()>, RpmError> {
    let mut request = Request::builder()
        .method(method.clone())
        .uri(url.to_string())
        .header("accept-encoding", "identity")
        .header("user-agent", concat!("quell/", env!("CARGO_PKG_VERSION")));
    if method == Method::POST {
        request = request.header("content-type", "application/octet-stream");
    }
    request.body(()).map_err(|_| RpmError::Unknown(quell_wire::text::printable(&url.host, 100)))
}

/// A request under way, until its whole answer is there.
struct PendingRequest {
    began_ns: u64,
    answer: Waits,
    status: u16,
    words: Vec<u8>,
}

enum Waits {
    Head(ResponseFuture),
    Body(RecvStream),
}

impl PendingRequest {
    fn new(answer: ResponseFuture) -> Self {
        Self { began_ns: monotonic_ns(), answer: Waits::Head(answer), status: 0, words: vec![] }
    }

    /// Done, it took so many milliseconds.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<f64, h2::Error>> {
        loop {
            match &mut self.answer {
                Waits::Head(answer) => match Pin::new(answer).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Ready(Ok(answer)) => {
                        self.status = answer.status().as_u16();
                        self.answer = Waits::Body(answer.into_body());
                    }
                },
                Waits::Body(body) => match body.poll_data(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                    Poll::Ready(Some(Ok(bytes))) => {
                        let _ = body.flow_control().release_capacity(bytes.len());
                        let room = (well_known::LONGEST + 1).saturating_sub(self.words.len());
                        self.words.extend_from_slice(&bytes[..room.min(bytes.len())]);
                    }
                    Poll::Ready(None) => {
                        return Poll::Ready(Ok((monotonic_ns() - self.began_ns) as f64 / 1e6));
                    }
                },
            }
            let whole = match &self.answer {
                // All of it is there, or more than is looked at.
                Waits::Body(body) => body.is_end_stream() || self.words.len() > well_known::LONGEST,
                Waits::Head(_) => false,
            };
            if whole {
                return Poll::Ready(Ok((monotonic_ns() - self.began_ns) as f64 / 1e6));
            }
        }
    }
}

impl Http2Session {
    /// A request and its whole answer: status, body, milliseconds.
    pub fn get(&mut self, url: &Url, stop: &Bell) -> Result<(u16, Vec<u8>, f64), RpmError> {
        let to = self.to;
        let deadline = monotonic_ns().saturating_add(LIMITS.patience_ns);
        let (answer, _) = self
            .requests
            .send_request(request(Method::GET, url)?, true)
            .map_err(|error| broken(to, &error))?;
        let mut asked = PendingRequest::new(answer);
        let connection = &mut self.connection;
        let failed = |error: h2::Error| broken(to, &error);
        let took_ms = self
            .drive
            .run(&[stop], |context| {
                let over = Pin::new(&mut *connection).poll(context);
                match (asked.poll(context), over) {
                    (Poll::Ready(done), _) => DriveStep::Done(done.map_err(failed)),
                    (_, Poll::Ready(Err(error))) => DriveStep::Done(Err(failed(error))),
                    (_, Poll::Ready(Ok(()))) => DriveStep::Done(Err(RpmError::Left(to))),
                    _ => until(deadline, || RpmError::Mute(to)),
                }
            })
            .map_err(halted)??;
        Ok((asked.status, asked.words, took_ms))
    }

    pub fn second(&self) -> Result<TcpSocket, RpmError> {
        Ok(second(&self.line.tcp)?)
    }

    pub fn bulk(mut self, way: LoadDirection, at: &HttpTarget) -> Result<Bulk, RpmError> {
        let to = self.to;
        let (method, url) = match way {
            LoadDirection::Down => (Method::GET, &at.large),
            LoadDirection::Up => (Method::POST, &at.upload),
        };
        let (answer, stream) = self
            .requests
            .send_request(request(method, url)?, way == LoadDirection::Down)
            .map_err(|error| broken(to, &error))?;
        let probe = request(Method::GET, &at.small)?;
        let Self { to, drive, line, connection, requests } = self;
        let load = BulkLoad {
            to,
            line,
            connection,
            requests,
            path: url.path.clone(),
            bytes: 0,
            answer: Some(answer),
            down: None,
            up: (way == LoadDirection::Up).then_some(stream),
            probe,
            asked: Vec::new(),
            to_ask: 0,
        };
        Ok(Bulk { drive, load })
    }
}

pub struct Bulk {
    drive: Drive,
    load: BulkLoad,
}

struct BulkLoad {
    to: SocketAddr,
    line: Rc<Beneath>,
    connection: Connection<TlsSocket, Bytes>,
    requests: SendRequest<Bytes>,
    path: String,
    bytes: u64,
    answer: Option<ResponseFuture>,
    down: Option<RecvStream>,
    up: Option<SendStream<Bytes>>,
    probe: Request<()>,
    asked: Vec<PendingRequest>,
    to_ask: usize,
}

pub enum ResponsePart {
    Begun,
    /// So many bytes of it came.
    Bytes(usize),
    /// A probe within it took so many milliseconds.
    Probe(f64),
    /// So many bytes were given to TLS, and so many that made for the kernel.
    Written(u64, u64),
}

impl Bulk {
    /// One more probe within it; not where many are under way.
    pub fn ask(&mut self, probes: usize) {
        let load = &mut self.load;
        load.to_ask = (load.to_ask + probes).min(LIMITS.within.saturating_sub(load.asked.len()));
    }

    /// Goes on until one of the bells rings: which.
    pub fn go_on(
        &mut self,
        bells: &[&Bell],
        tell: &mut dyn FnMut(ResponsePart),
    ) -> Result<usize, RpmError> {
        let Self { drive, load } = self;
        let ended = drive.run(bells, |context| match load.step(context, tell) {
            Ok(until) => DriveStep::Until(until),
            Err(error) => DriveStep::Done(error),
        });
        match ended {
            Ok(error) => Err(error),
            Err(Halt::Rang(bell)) => Ok(bell),
            Err(Halt::System(error)) => Err(error.into()),
        }
    }
}

impl BulkLoad {
    /// Moves what can be moved; until when it waits at most.
    fn step(
        &mut self,
        context: &mut Context<'_>,
        tell: &mut dyn FnMut(ResponsePart),
    ) -> Result<u64, RpmError> {
        let to = self.to;
        if let Poll::Ready(over) = Pin::new(&mut self.connection).poll(context) {
            return Err(over.map_or_else(|error| broken(to, &error), |()| RpmError::Left(to)));
        }
        self.probes(context, tell)?;
        self.head(context, tell)?;
        if let Some(stream) = &mut self.down {
            while let Poll::Ready(came) = stream.poll_data(context) {
                let (path, bytes) = (&self.path, self.bytes);
                let ended = || RpmError::Ended { to, path: path.clone(), bytes };
                let came = came.ok_or_else(ended)?.map_err(|error| broken(to, &error))?.len();
                self.bytes += came as u64;
                let _ = stream.flow_control().release_capacity(came);
                tell(ResponsePart::Bytes(came));
            }
        }
        self.send(context, tell)
    }

    /// Puts requests into it, and hears their answers.
    fn probes(
        &mut self,
        context: &mut Context<'_>,
        tell: &mut dyn FnMut(ResponsePart),
    ) -> Result<(), RpmError> {
        let to = self.to;
        let failed = |error: h2::Error| broken(to, &error);
        while self.to_ask > 0 {
            match self.requests.poll_ready(context) {
                Poll::Ready(ready) => ready.map_err(failed)?,
                // It has as many under way as it may.
                Poll::Pending => break,
            }
            let probe = self.requests.send_request(self.probe.clone(), true);
            self.asked.push(PendingRequest::new(probe.map_err(failed)?.0));
            self.to_ask -= 1;
        }
        let mut index = 0;
        while let Some(one) = self.asked.get_mut(index) {
            match one.poll(context) {
                Poll::Pending => index += 1,
                Poll::Ready(took) => {
                    let (took, one) = (took.map_err(failed)?, self.asked.swap_remove(index));
                    if one.status != 200 || one.words.is_empty() {
                        let path = self.probe.uri().path();
                        return Err(http::refused(to, one.status, path, &one.words));
                    }
                    tell(ResponsePart::Probe(took));
                }
            }
        }
        Ok(())
    }

    /// Hears the answer's head.
    fn head(
        &mut self,
        context: &mut Context<'_>,
        tell: &mut dyn FnMut(ResponsePart),
    ) -> Result<(), RpmError> {
        let Some(waits) = &mut self.answer else { return Ok(()) };
        let Poll::Ready(said) = Pin::new(waits).poll(context) else { return Ok(()) };
        let said = said.map_err(|error| broken(self.to, &error))?;
        self.answer = None;
        if said.status() != 200 {
            return Err(http::refused(self.to, said.status().as_u16(), &self.path, b""));
        }
        if self.up.is_some() {
            // It answers before the end: it will not have it.
            return Err(RpmError::Early { to: self.to, path: self.path.clone() });
        }
        self.down = Some(said.into_body());
        tell(ResponsePart::Begun);
        Ok(())
    }

    /// Sends a piece, where it sends and there is room; until when it waits at most.
    fn send(
        &mut self,
        context: &mut Context<'_>,
        tell: &mut dyn FnMut(ResponsePart),
    ) -> Result<u64, RpmError> {
        let Some(stream) = &mut self.up else { return Ok(u64::MAX) };
        let until = self.line.fit(monotonic_ns());
        // What was given before is still here: a probe would wait behind more.
        if !self.line.awaits_room() {
            let most = self.line.piece();
            stream.reserve_capacity(most);
            if let Poll::Ready(room) = stream.poll_capacity(context) {
                let broke = || RpmError::Broke { to: self.to, path: self.path.clone() };
                let failed = |error: h2::Error| broken(self.to, &error);
                let piece = room.ok_or_else(broke)?.map_err(failed)?.min(most);
                if piece > 0 {
                    stream.send_data(data(piece), false).map_err(failed)?;
                }
            }
        }
        let (plain, made) = self.line.written();
        tell(ResponsePart::Written(plain, made));
        Ok(until)
    }
}

/// So many bytes, no two near each other alike.
fn data(piece: usize) -> Bytes {
    static ALL: OnceLock<Bytes> = OnceLock::new();
    ALL.get_or_init(|| http::payload(RECORD).into()).slice(..piece)
}
