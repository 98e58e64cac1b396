//! One connection of HTTP/2 (RFC 9113) over TLS, to its end: all that was asked for is under way at once, in frames by turns.
//!
//! ```text
//!   TLS ──► h2 ──► request ──► answer ──► head, body ──┐
//!            ▲                                         │ as the browser's windows let it
//!            └─────────────────────────────────────────┘
//! ```
//!
//! One thread drives it ([`quell_tls::drive`]), without a runtime.

use super::answer::SiteAnswer;
use crate::limits::LIMITS;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, Request, Response};
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::stream::TcpSocket;
use quell_tls::drive::{Drive, DriveStep};
use quell_tls::socket::TlsSocket;
use rustls::ServerConfig;
use std::io::{Error, Result};
use std::net::TcpStream;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

pub(super) fn converse(stream: TcpStream, tls: Arc<ServerConfig>, port: u16) -> Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let socket = TlsSocket::server(TcpSocket::accepted(stream.into()), &tls, &[]);
    let mut socket = socket.map_err(Error::other)?;
    let mut drive = Drive::new(Rc::clone(socket.line())).map_err(Error::other)?;
    let shaken = drive.run(&[], |context| step(socket.poll_handshake(context)));
    shaken.map_err(Error::other)??;
    let mut builder = Builder::new();
    builder.max_concurrent_streams(LIMITS.at_once);
    let mut connection = {
        let mut begun = pin!(builder.handshake::<_, Bytes>(socket));
        let begun = drive.run(&[], |context| step(begun.as_mut().poll(context)));
        begun.map_err(Error::other)?.map_err(Error::other)?
    };
    let ended = drive.run(&[], |context| {
        loop {
            match connection.poll_accept(context) {
                Poll::Pending => return DriveStep::Until(monotonic_ns() + LIMITS.long_ns),
                Poll::Ready(None) => return DriveStep::Done(Ok(())),
                Poll::Ready(Some(Err(error))) => return DriveStep::Done(Err(error)),
                Poll::Ready(Some(Ok((request, respond)))) => answer(&request, respond, port),
            }
        }
    });
    ended.map_err(Error::other)?.map_err(Error::other)
}

fn step<T>(poll: Poll<T>) -> DriveStep<T> {
    match poll {
        Poll::Ready(done) => DriveStep::Done(done),
        Poll::Pending => DriveStep::Until(monotonic_ns() + LIMITS.long_ns),
    }
}

/// Answers a request. Whoever does not want it any more gets nothing.
fn answer(request: &Request<RecvStream>, mut respond: SendResponse<Bytes>, port: u16) {
    let answer = SiteAnswer::to(request.method().as_str(), request.uri().path(), port);
    let body = match *request.method() {
        Method::HEAD => Bytes::new(),
        _ => Bytes::from(answer.object.body.clone()),
    };
    let head = Response::builder()
        .status(answer.status)
        .header(CONTENT_TYPE, answer.object.media)
        .header(CONTENT_LENGTH, answer.object.body.len())
        .header(CACHE_CONTROL, answer.keeps())
        .header("access-control-allow-origin", "*")
        .header("timing-allow-origin", "*")
        .body(())
        .expect("these are a head");
    let begun = respond.send_response(head, body.is_empty());
    if let (Ok(mut stream), false) = (begun, body.is_empty()) {
        let _ = stream.send_data(body, true);
    }
}
