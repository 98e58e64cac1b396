//! One connection of HTTP to its end; over TLS that is HTTP/2 ([`super::http2`]), else HTTP/1.1: heads, answers, one after the other. While it moves no data it counts as one of which nothing is
//! known, and goes when others come.

use super::http1::{ConnectionEnd, Http1Connection};
use super::route::{Routed, WebAnswer, route, wants_body};
use super::{Web, carry, control, http2};
use crate::hub::{Accepted, HalfOpen};
use crate::limits::WEB;
use quell_web::head::{Body, HttpMethod};

/// Whether these first bytes of a connection begin a request, or the handshake before one.
pub fn begins(first: &[u8]) -> bool {
    http2::begins(first)
        || ["GET /", "HEAD /", "POST /", "PUT /", "OPTIONS "].iter().any(|word| {
            let some = word.len().min(first.len());
            first[..some] == word.as_bytes()[..some]
        })
}

pub fn converse<'x, 'h: 'x>(
    web: &Web<'h>,
    guest: &Accepted,
    first: &[u8],
    trusted: bool,
    half_open: HalfOpen<'x>,
) {
    let ended = match http2::begins(first) {
        true => http2::converse(web, guest, first, trusted, half_open),
        false => requests(web, guest, first, trusted, half_open),
    };
    if ended.is_err() {
        // After an end in order what was said still gets there, however full the way is.
        guest.stream.abort();
    }
    if let Err(
        end @ (ConnectionEnd::Bad(_)
        | ConnectionEnd::Late
        | ConnectionEnd::Crowded
        | ConnectionEnd::System(_)),
    ) = ended
    {
        web.hub.refuse(guest.peer, end);
    }
}

fn requests<'x, 'h: 'x>(
    web: &Web<'h>,
    guest: &Accepted,
    first: &[u8],
    trusted: bool,
    half_open: HalfOpen<'x>,
) -> Result<(), ConnectionEnd> {
    let _ = crate::hub::at_once(&guest.stream);
    let mut talk = Http1Connection::new(web, guest, first)?;
    let mut half_open = Some(half_open);
    for number in 0..WEB.requests {
        let (request, length) = match talk.head(number == 0) {
            Ok(read) => read,
            Err(ConnectionEnd::Bad(why)) => {
                let status = if why.contains("more than") { 431 } else { 400 };
                talk.answer(&WebAnswer::text(status, &why).last(), false)?;
                talk.part();
                web.hub.refuse(guest.peer, why);
                return Ok(());
            }
            Err(end) => return Err(end),
        };
        if half_open.as_ref().is_some_and(HalfOpen::lost) {
            return Err(ConnectionEnd::Crowded);
        }
        talk.take_unread(length);
        let mut body = Vec::new();
        if wants_body(&request) {
            match request.body {
                Body::Bytes(length) if length <= WEB.body => body = talk.body(length as usize)?,
                _ => {
                    talk.answer(&WebAnswer::text(413, "more than is read here").last(), false)?;
                    talk.part();
                    return Ok(());
                }
            }
        }
        match route(web, guest, &request, &body, (trusted, false))? {
            Routed::Now(mut answer) => {
                // What it may have sent behind its head is nobody's.
                let left = !wants_body(&request) && request.body != Body::Bytes(0);
                answer.last |= !request.stays || left;
                talk.answer(&answer, request.method == HttpMethod::Head)?;
                if answer.last {
                    talk.part();
                    return Ok(());
                }
            }
            Routed::Control => {
                return control::test(&mut talk, half_open.take());
            }
            Routed::Down(test, bytes) => {
                drop(half_open.take());
                carry::down(&mut talk, &test, bytes)?;
            }
            Routed::Up(test, bytes) => {
                drop(half_open.take());
                if request.waits {
                    talk.send(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                }
                carry::up(&mut talk, &test, bytes)?;
                drop(test);
                talk.answer(&WebAnswer::text(200, "taken"), false)?;
                if !request.stays {
                    return Ok(());
                }
            }
        }
        if half_open.is_none() {
            half_open = web.hub.half_open(guest.peer.ip(), &guest.stream);
            if half_open.is_none() {
                return Err(ConnectionEnd::Crowded);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_a_request_from_all_else() {
        for first in [
            &b"GET / HT"[..],
            b"POST /we",
            b"HEAD /. ",
            b"OPTIONS ",
            b"PUT /abc",
            b"\x16\x03\x01\x02\0\x01\0\x01",
        ] {
            assert!(begins(first), "{first:?}");
        }
        for first in [
            &b"QUELAUT1"[..],
            b"QUELLRR1",
            b"getabcde",
            b"abcdefgh",
            b"GETABCDE",
            b"\x16\x09\x01\x02\0\x01\0\x01",
        ] {
            assert!(!begins(first), "{first:?}");
        }
    }
}
