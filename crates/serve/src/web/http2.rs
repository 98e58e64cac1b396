//! One connection of HTTP/2 over TLS to its end: the draft's addresses, for clients that insist on both, as the draft lets them.
//!
//! ```text
//!   TLS ──► HTTP/2 ──► route ──┬─► small answers, at once; many of them as the rates let them
//!                              └─► flows: data of a test, down or up, as its rates let it
//! ```
//!
//! One thread drives it all ([`quell_tls::drive`]). While no data of a test moves it counts as a connection of which nothing is known, and goes
//! when others come, as over plain HTTP. The page itself is served there alone: it measures with connections, and here all share one.

use super::Web;
use super::carry::{Budget, payload};
use super::http1::ConnectionEnd;
use super::measurement::{Carrying, WebTest};
use super::route::{Routed, WebAnswer, route};
use super::secure_clients::Member;
use crate::hub::{Accepted, HalfOpen};
use crate::limits::{Throttle, WEB};
use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Response, StatusCode};
use quell_load::bulk::Gate;
use quell_sys::clock::monotonic_ns;
use quell_sys::memory;
use quell_tls::drive::{Drive, DriveStep, Halt};
use quell_tls::socket::{Beneath, RECORD, TlsSocket, second};
use quell_web::head::{Body, HttpMethod, Request};
use quell_web::well_known;
use std::pin::pin;
use std::rc::Rc;
use std::sync::OnceLock;
use std::task::{Context, Poll};

/// Whether these first bytes of a connection begin a handshake of TLS (RFC 8446, section 5.1).
pub fn begins(first: &[u8]) -> bool {
    first.len() >= 3 && first[0] == 0x16 && first[1] == 3
}

pub fn converse<'x, 'h: 'x>(
    web: &Web<'h>,
    guest: &Accepted,
    first: &[u8],
    trusted: bool,
    half_open: HalfOpen<'x>,
) -> Result<(), ConnectionEnd> {
    let member = web.secure.enter(guest.peer.ip(), &guest.stream).map_err(|full| {
        bad(format!("no more connections over TLS may be there at once: {full}"))
    })?;
    let _ = crate::hub::at_once(&guest.stream);
    let throttle = Throttle::new(&web.hub.rates, guest.peer.ip(), 1);
    let deadline = guest.came_ns.saturating_add(web.hub.limits.handshake_ns);
    let mut socket = TlsSocket::server(second(&guest.stream)?, &web.tls, first).map_err(bad)?;
    let line = Rc::clone(socket.line());
    if throttle.most().is_some() {
        // What is read and not let through yet is ahead of the rates.
        line.reads_a_record();
    }
    let mut drive = Drive::new(Rc::clone(&line))?;
    let bells = [web.hub.stop];
    let shaken = drive.run(&bells, |context| match socket.poll_handshake(context) {
        Poll::Ready(done) => DriveStep::Done(done.map_err(bad)),
        Poll::Pending => in_time(deadline),
    });
    shaken??;
    if socket.speaks() != Some(quell_tls::trust::HTTP2) {
        return Err(ConnectionEnd::Bad("over TLS this server speaks HTTP/2 alone".into()));
    }
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(WEB.at_once)
        .max_header_list_size(WEB.head)
        .initial_window_size(WEB.window)
        .initial_connection_window_size(WEB.window)
        .data_frame_budget(WEB.small_pieces)
        .max_send_buffer_size(WEB.unsent);
    let connection = {
        let mut begun = pin!(builder.handshake::<_, Bytes>(socket));
        drive.run(&bells, |context| match begun.as_mut().poll(context) {
            Poll::Ready(done) => DriveStep::Done(done.map_err(bad)),
            Poll::Pending => in_time(deadline),
        })??
    };
    // Shaking hands goes deep; what comes after it waits, for the most part.
    memory::give_back_stack();
    let mut talk = Http2Connection {
        web,
        guest,
        member: &member,
        trusted,
        line,
        connection,
        half_open: Some(half_open),
        flows: Vec::new(),
        answers: Vec::new(),
        moved: 0,
        requests: 0,
        said: 0,
        throttle,
        quiet_since: monotonic_ns(),
        closes: false,
    };
    drive.run(&bells, |context| talk.step(context))?
}

fn in_time<T>(deadline: u64) -> DriveStep<Result<T, ConnectionEnd>> {
    match monotonic_ns() < deadline {
        true => DriveStep::Until(deadline),
        false => DriveStep::Done(Err(ConnectionEnd::Late)),
    }
}

fn bad(error: impl ToString) -> ConnectionEnd {
    ConnectionEnd::Bad(error.to_string())
}

impl From<Halt> for ConnectionEnd {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Rang(_) => Self::Stopped,
            Halt::System(error) => Self::System(error),
        }
    }
}

struct Http2Connection<'a, 'x, 'h> {
    web: &'a Web<'h>,
    guest: &'a Accepted,
    member: &'a Member<'a>,
    trusted: bool,
    line: Rc<Beneath>,
    connection: Connection<TlsSocket, Bytes>,
    half_open: Option<HalfOpen<'x>>,
    flows: Vec<Http2Flow<'h>>,
    /// Behind the connection, which tells the streams of all these that it ended: a stream that nobody holds, and that waits, it would forget.
    answers: Vec<Waiting>,
    moved: u64,
    requests: usize,
    /// Bytes of answers that the rates did not let through yet.
    said: usize,
    throttle: Throttle<'h>,
    quiet_since: u64,
    closes: bool,
}

struct Http2Flow<'h> {
    carrying: Carrying<'h>,
    left: u64,
    budget: Budget,
    stream: Stream,
}

enum Stream {
    Down(SendStream<Bytes>),
    Up(RecvStream, SendResponse<Bytes>),
}

/// An answer whose bytes wait for the other end's window.
struct Waiting {
    stream: SendStream<Bytes>,
    bytes: Bytes,
}

enum Goes {
    /// Its stream waits for the other end.
    On,
    /// The rates let it at this time.
    At(u64),
    Over,
    Said(Option<Waiting>),
}

impl<'x, 'h: 'x> Http2Connection<'_, 'x, 'h> {
    fn step(&mut self, context: &mut Context<'_>) -> DriveStep<Result<(), ConnectionEnd>> {
        match self.try_step(context) {
            Ok(step) => step,
            Err(end) => DriveStep::Done(Err(end)),
        }
    }

    fn try_step(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<DriveStep<Result<(), ConnectionEnd>>, ConnectionEnd> {
        let now = monotonic_ns();
        if self.flows.iter().any(|flow| now >= flow.carrying.test.end_ns) {
            return Err(ConnectionEnd::Gone);
        }
        let before = self.moved;
        // What came is taken as the rates let it, and before that no more is read: it waits at the other end, and not in our memory.
        if let Some(at) = self.go_on(context, now, true)? {
            self.stays(before)?;
            return Ok(DriveStep::Rest(at.min(self.ends())));
        }
        if let Some(at) = self.owes(now) {
            self.stays(before)?;
            return Ok(DriveStep::Rest(at.min(self.ends())));
        }
        loop {
            match self.connection.poll_accept(context) {
                Poll::Pending => break,
                Poll::Ready(None) => return Ok(DriveStep::Done(Ok(()))),
                // It broke off, which is its own affair, or it speaks something else.
                Poll::Ready(Some(Err(error))) if error.is_io() => return Err(ConnectionEnd::Gone),
                Poll::Ready(Some(Err(error))) => return Err(bad(error)),
                Poll::Ready(Some(Ok((request, respond)))) => {
                    self.hear(context, request, respond)?
                }
            }
        }
        if self.half_open.as_ref().is_some_and(HalfOpen::lost) {
            return Err(ConnectionEnd::Crowded);
        }
        self.go_out(context);
        let fits = self.line.fit(now);
        let at = self.go_on(context, now, false)?;
        self.stays(before)?;
        if !self.flows.is_empty() {
            return Ok(DriveStep::Until(at.unwrap_or(u64::MAX).min(fits).min(self.ends())));
        }
        self.is_quiet(context, now).map(DriveStep::Until)
    }

    /// When the rates let the answers through that were said; none when they did.
    fn owes(&mut self, now: u64) -> Option<u64> {
        while self.said > 0 {
            let piece = self.said.min(self.throttle.most().unwrap_or(usize::MAX));
            if let Err(at) = self.throttle.pass_answer(piece, now) {
                return Some(at);
            }
            self.said -= piece;
        }
        None
    }

    /// What moves nothing for long may lose its place to others, and hears of it here.
    fn stays(&self, before: u64) -> Result<(), ConnectionEnd> {
        if self.moved == before {
            let lost = self.flows.iter().any(|flow| flow.carrying.test.lost());
            return if lost { Err(ConnectionEnd::Crowded) } else { Ok(()) };
        }
        for flow in &self.flows {
            flow.carrying.test.moved().map_err(|_| ConnectionEnd::Crowded)?;
        }
        self.member.active().map_err(|_| ConnectionEnd::Crowded)
    }

    /// Moves on all flows of a way; when the rates let the next of them, where they hold one back.
    fn go_on(
        &mut self,
        context: &mut Context<'_>,
        now: u64,
        up: bool,
    ) -> Result<Option<u64>, ConnectionEnd> {
        let (mut next, mut index) = (None, 0);
        while let Some(flow) = self.flows.get_mut(index) {
            if flow.is_up() == up {
                let left = flow.left;
                let goes = flow.step(context, &self.line, now);
                self.moved += left.saturating_sub(flow.left);
                match goes {
                    Goes::On => {}
                    Goes::At(ns) => next = Some(next.unwrap_or(ns).min(ns)),
                    Goes::Over => {
                        self.flows.swap_remove(index);
                        continue;
                    }
                    Goes::Said(waiting) => {
                        self.flows.swap_remove(index);
                        self.answer(context, waiting);
                        continue;
                    }
                }
            }
            index += 1;
        }
        Ok(next)
    }

    fn answer(&mut self, context: &mut Context<'_>, waiting: Option<Waiting>) {
        self.said += WEB.answer + waiting.as_ref().map_or(0, |waiting| waiting.bytes.len());
        self.answers.extend(waiting);
        self.go_out(context);
    }

    /// What waits goes out as far as it may.
    fn go_out(&mut self, context: &mut Context<'_>) {
        self.answers.retain_mut(|waiting| !waiting.is_out(context));
    }

    fn ends(&self) -> u64 {
        self.flows.iter().map(|flow| flow.carrying.test.end_ns).min().unwrap_or(u64::MAX)
    }

    /// No data moves: it is an unknown connection, for so long as it may be one.
    fn is_quiet(&mut self, context: &mut Context<'_>, now: u64) -> Result<u64, ConnectionEnd> {
        if self.half_open.is_none() {
            self.half_open = self.web.hub.half_open(self.guest.peer.ip(), &self.guest.stream);
            if self.half_open.is_none() {
                return Err(ConnectionEnd::Crowded);
            }
            self.quiet_since = now;
        }
        let patience = WEB.idle_ns.min(self.web.hub.limits.time_ns);
        if now >= self.quiet_since.saturating_add(patience) {
            if self.closes {
                return Err(ConnectionEnd::Gone);
            }
            // It hears that nothing more is answered, and has as long again to hear it.
            self.closes = true;
            self.quiet_since = now;
            self.connection.graceful_shutdown();
            context.waker().wake_by_ref();
        }
        Ok(self.quiet_since.saturating_add(patience))
    }

    /// A request, with its answer or the flow that it begins.
    fn hear(
        &mut self,
        context: &mut Context<'_>,
        request: http::Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), ConnectionEnd> {
        self.requests += 1;
        self.member.active().map_err(|_| ConnectionEnd::Crowded)?;
        self.quiet_since = monotonic_ns();
        if self.requests > WEB.requests {
            return Err(ConnectionEnd::Bad(format!("it asked more than {} times", WEB.requests)));
        }
        let (head, body) = request.into_parts();
        let Some(asked) = read(&head) else {
            let why = "this request contradicts itself";
            self.answer(context, say(&mut respond, &WebAnswer::text(400, why)));
            return Ok(());
        };
        if asked.path != well_known::PATH && !asked.path.starts_with("/nq/") {
            let why = "over TLS there is the test of responsiveness alone; the page is at http://";
            self.answer(context, say(&mut respond, &WebAnswer::text(404, why)));
            return Ok(());
        }
        let (test, left, stream) =
            match route(self.web, self.guest, &asked, &[], (self.trusted, true))? {
                Routed::Now(answer) => {
                    self.answer(context, say(&mut respond, &answer));
                    return Ok(());
                }
                Routed::Control => return Err(ConnectionEnd::Bad("a page's test over TLS".into())),
                Routed::Down(test, bytes) => (test, bytes, None),
                Routed::Up(test, bytes) => (test, bytes, Some(body)),
            };
        let Some(carrying) = WebTest::line(&test, &self.guest.stream, stream.is_none()) else {
            let why = "its test has as many streams as it may";
            self.answer(context, say(&mut respond, &WebAnswer::text(503, why)));
            return Ok(());
        };
        drop(self.half_open.take());
        let stream = match stream {
            Some(body) => Stream::Up(body, respond),
            None => {
                let head = heading(200, "application/octet-stream", left);
                Stream::Down(respond.send_response(head, false).map_err(bad)?)
            }
        };
        self.flows.push(Http2Flow { carrying, left, budget: Budget::default(), stream });
        Ok(())
    }
}

impl Http2Flow<'_> {
    fn is_up(&self) -> bool {
        matches!(self.stream, Stream::Up(..))
    }

    /// Moves a piece down, or all up that came, where there is room and the rates let it.
    fn step(&mut self, context: &mut Context<'_>, line: &Beneath, now: u64) -> Goes {
        match self.stream {
            Stream::Down(_) => self.down(context, line, now),
            Stream::Up(..) => self.up(context, now),
        }
    }

    fn down(&mut self, context: &mut Context<'_>, line: &Beneath, now: u64) -> Goes {
        if let Some(at) = self.budget.held(&self.carrying.throttle, self.left, RECORD, now) {
            return Goes::At(at);
        }
        let Stream::Down(stream) = &mut self.stream else { return Goes::Over };
        if stream.poll_reset(context).is_ready() {
            return Goes::Over;
        }
        // What was given before is still here: small answers would wait behind more.
        if line.awaits_room() {
            return Goes::On;
        }
        let most = self.budget.allowed().min(line.piece());
        stream.reserve_capacity(most);
        let room = match stream.poll_capacity(context) {
            Poll::Pending => return Goes::On,
            Poll::Ready(Some(Ok(room))) => room,
            Poll::Ready(_) => return Goes::Over,
        };
        let piece = room.min(most);
        if piece > 0 {
            self.left -= piece as u64;
            if stream.send_data(bytes_of(piece), self.left == 0).is_err() {
                return Goes::Over;
            }
            self.budget.went(piece);
            self.carrying.add(piece);
        }
        if self.left == 0 { Goes::Over } else { Goes::On }
    }

    fn up(&mut self, context: &mut Context<'_>, now: u64) -> Goes {
        loop {
            if let Some(at) = self.budget.held(&self.carrying.throttle, self.left, RECORD, now) {
                return Goes::At(at);
            }
            let Stream::Up(stream, respond) = &mut self.stream else { return Goes::Over };
            match stream.poll_data(context) {
                Poll::Pending => return Goes::On,
                Poll::Ready(Some(Ok(bytes))) => {
                    let got = bytes.len();
                    // There is nothing to release where the stream was reset meanwhile.
                    let _ = stream.flow_control().release_capacity(got);
                    self.left = self.left.saturating_sub(got as u64);
                    self.budget.went(got);
                    self.carrying.add(got);
                    if self.left == 0 && !stream.is_end_stream() {
                        // It is over for the other end; here when what it owes has been let through.
                        respond.send_reset(Reason::ENHANCE_YOUR_CALM);
                    }
                }
                Poll::Ready(None) => {
                    return Goes::Said(say(respond, &WebAnswer::text(200, "taken")));
                }
                Poll::Ready(Some(Err(_))) => return Goes::Over,
            }
        }
    }
}

fn bytes_of(piece: usize) -> Bytes {
    static ALL: OnceLock<Bytes> = OnceLock::new();
    let all = ALL.get_or_init(|| Bytes::from_static(payload()));
    all.slice(..piece.min(all.len()))
}

/// Begins a whole answer; what is to follow its head. Whoever does not want it any more gets none.
fn say(respond: &mut SendResponse<Bytes>, answer: &WebAnswer) -> Option<Waiting> {
    let head = heading(answer.status, answer.kind, answer.body.len() as u64);
    let stream = respond.send_response(head, answer.body.is_empty()).ok()?;
    let bytes = Bytes::from(answer.body.to_vec());
    (!bytes.is_empty()).then_some(Waiting { stream, bytes })
}

impl Waiting {
    /// Sends what may be sent; whether that was all, or nobody wants the rest.
    fn is_out(&mut self, context: &mut Context<'_>) -> bool {
        if self.stream.poll_reset(context).is_ready() {
            return true;
        }
        while !self.bytes.is_empty() {
            self.stream.reserve_capacity(self.bytes.len());
            let room = match self.stream.capacity() {
                0 => match self.stream.poll_capacity(context) {
                    Poll::Pending => return false,
                    Poll::Ready(Some(Ok(room))) => room,
                    Poll::Ready(_) => return true,
                },
                room => room,
            };
            let piece = self.bytes.split_to(room.min(self.bytes.len()));
            if !piece.is_empty() && self.stream.send_data(piece, self.bytes.is_empty()).is_err() {
                return true;
            }
        }
        true
    }
}

/// As short as may be: the draft counts these bytes.
fn heading(status: u16, kind: &'static str, length: u64) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    head.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    head.headers_mut().insert(http::header::CONTENT_LENGTH, length.into());
    head
}

/// What of a request matters; none where it says two things of what there can be only one of.
fn read(head: &http::request::Parts) -> Option<Request> {
    let authority = head.uri.authority().map(|authority| authority.as_str().to_owned());
    let length = one(&head.headers, "content-length")?;
    let length = match length {
        Some(length) => length.parse().ok()?,
        // In HTTP/2 a body ends where it ends.
        None if head.method == http::Method::POST => WEB.large,
        None => 0,
    };
    let host = match authority {
        Some(host) => Some(host),
        None => one(&head.headers, "host")?,
    };
    Some(Request {
        method: match head.method {
            http::Method::GET => HttpMethod::Get,
            http::Method::HEAD => HttpMethod::Head,
            http::Method::POST => HttpMethod::Post,
            _ => HttpMethod::Other,
        },
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        host,
        origin: one(&head.headers, "origin")?,
        site: one(&head.headers, "sec-fetch-site")?,
        key: one(&head.headers, "x-quell")?,
        body: Body::Bytes(length),
        stays: true,
        takes_openmetrics: false,
        waits: false,
    })
}

/// A line of the head, if it stands there; none where it does twice or is no text.
fn one(lines: &HeaderMap, name: &str) -> Option<Option<String>> {
    let mut all = lines.get_all(name).iter();
    let first = all.next().map(|value| value.to_str().map(str::to_owned)).transpose().ok()?;
    if all.next().is_some() { None } else { Some(first) }
}

#[cfg(test)]
mod stories {
    use super::*;

    #[test]
    fn a_request_that_says_two_things_is_none_and_a_body_without_a_length_may_be_long() {
        let of = |lines: &[(&str, &str)]| {
            let mut request = http::Request::post("https://192.0.2.7:5201/nq/k/upload?bytes=1");
            for (name, value) in lines {
                request = request.header(*name, *value);
            }
            read(&request.body(()).expect("it is a request").into_parts().0)
        };
        let plain = of(&[]).expect("it is fine");
        assert_eq!((plain.body, plain.path.as_str()), (Body::Bytes(WEB.large), "/nq/k/upload"));
        assert_eq!(plain.host.as_deref(), Some("192.0.2.7:5201"));
        assert_eq!(of(&[("content-length", "7")]).map(|r| r.body), Some(Body::Bytes(7)));
        assert_eq!(of(&[("content-length", "7"), ("content-length", "8")]), None);
        assert_eq!(of(&[("origin", "http://a"), ("origin", "http://b")]), None);
    }

    #[test]
    fn the_first_bytes_tell_a_handshake_from_all_else() {
        assert!(begins(b"\x16\x03\x01\x02\0\x01\0\x01"));
        for other in [&b"QUELAUT1"[..], b"GET / HT", b"\x16\x04\0", b"\x16"] {
            assert!(!begins(other), "{other:?}");
        }
    }
}
