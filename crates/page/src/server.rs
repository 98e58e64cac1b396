//! The server of the lab's site: HTTP/1.1 (RFC 9112) or HTTP/2 over TLS, connections that stay, a thread each.
//!
//! ```text
//!   listener ──► connection ──► head ──► site::object ──► answer ──► head …      HTTP/1.1
//!                          └──► http2: many heads and answers at once            HTTP/2
//!      bell ──► all connections are shut, and their threads end
//! ```
//!
//! It serves one site to a browser in a lab, no one else: GET alone, no bodies. What a client can make it keep is bounded.

mod answer;
mod http2;

use crate::PageError;
use crate::identity::identity;
use crate::limits::LIMITS;
use answer::SiteAnswer;
use quell_model::page::HttpVersion;
use quell_sys::SysError;
use quell_sys::wait::{Bell, came, readable, wait};
use quell_tls::trust::server_of;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

pub struct SiteServer {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    port: u16,
    http: HttpVersion,
}

impl SiteServer {
    /// Listens, and speaks this version of HTTP; its certificate is that of the seed.
    pub fn prepare(bind: SocketAddr, seed: u64, http: HttpVersion) -> Result<Self, PageError> {
        let alpn: &[u8] = match http {
            HttpVersion::One => b"http/1.1",
            HttpVersion::Two => quell_tls::trust::HTTP2,
            HttpVersion::Three => {
                let why = "the lab's page comes by HTTP/1.1 or HTTP/2, and not by HTTP/3";
                return Err(PageError::Parameter(why.into()));
            }
        };
        let failed = |what: &str, e: &std::io::Error| SysError::io(format!("{what} TCP {bind}"), e);
        let listener = TcpListener::bind(bind).map_err(|e| failed("listen on", &e))?;
        listener.set_nonblocking(true).map_err(|e| failed("listen on", &e))?;
        let port = listener.local_addr().map_err(|e| failed("listen on", &e))?.port();
        let tls = server_of(&identity(seed).shown(), alpn)
            .map_err(|e| PageError::Parameter(e.to_string()))?;
        Ok(Self { listener, tls: Arc::new(tls), port, http })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn run(self, stop: &Bell) -> Result<(), PageError> {
        let done = Bell::new()?;
        std::thread::scope(|scope| {
            let mut open = Vec::new();
            let result = loop {
                let mut fds = [readable(&self.listener), readable(stop), readable(&done)];
                if let Err(error) = wait(&mut fds) {
                    break Err(error.into());
                }
                if came(&fds[1]) {
                    break Ok(());
                }
                if came(&fds[2]) {
                    done.silence();
                    open.retain(
                        |(_, thread): &(TcpStream, std::thread::ScopedJoinHandle<'_, ()>)| {
                            !thread.is_finished()
                        },
                    );
                }
                match self.listener.accept() {
                    Ok((stream, _)) if open.len() < LIMITS.connections => {
                        let Ok(ours) = stream.try_clone() else { continue };
                        let (tls, port, done) = (Arc::clone(&self.tls), self.port, &done);
                        let speak = match self.http {
                            HttpVersion::Two => http2::converse,
                            _ => converse,
                        };
                        let thread = scope.spawn(move || {
                            // Whoever breaks off has his reasons.
                            let _ = speak(stream, tls, port);
                            done.ring();
                        });
                        open.push((ours, thread));
                    }
                    // A connection too many is closed.
                    Ok(_) => {}
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    // What was there is gone again.
                    Err(e)
                        if matches!(
                            e.kind(),
                            ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                        ) => {}
                    Err(e) => break Err(SysError::io("take a connection", &e).into()),
                }
            };
            for (stream, _) in &open {
                let _ = stream.shutdown(Shutdown::Both);
            }
            result
        })
    }
}

fn converse(stream: TcpStream, tls: Arc<ServerConfig>, port: u16) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let connection = ServerConnection::new(tls).map_err(std::io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    while let Some(request) = request(&mut stream)? {
        let (bytes, stays) = answer(&request, port);
        stream.get_mut().write_all(&bytes)?;
        stream.get_mut().flush()?;
        if !stays {
            break;
        }
    }
    stream.get_mut().conn.send_close_notify();
    stream.get_mut().flush()
}

#[derive(Debug, PartialEq, Eq)]
struct Request {
    method: String,
    path: String,
    stays: bool,
}

/// The next request; none at the end of the connection, or where it is no request.
fn request(stream: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut head = stream.take(LIMITS.head);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_ascii_whitespace();
    let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return Ok(None);
    };
    let mut found =
        Request { method: method.to_owned(), path: path.to_owned(), stays: version == "HTTP/1.1" };
    loop {
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            return Ok(None);
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            return Ok(Some(found));
        }
        if line.strip_prefix("connection:").is_some_and(|value| value.trim() == "close") {
            found.stays = false;
        }
    }
}

/// Head and body, and whether the connection stays.
fn answer(request: &Request, port: u16) -> (Vec<u8>, bool) {
    let answer = SiteAnswer::to(&request.method, &request.path, port);
    // A request that is not known may have a body, which nobody reads.
    let stays = request.stays && answer.status != 405;
    let connection = if stays { "keep-alive" } else { "close" };
    let mut bytes = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: {}\r\n\
         Access-Control-Allow-Origin: *\r\nTiming-Allow-Origin: *\r\nConnection: {connection}\r\n\r\n",
        answer.status,
        answer.reason,
        answer.object.media,
        answer.object.body.len(),
        answer.keeps(),
    )
    .into_bytes();
    if request.method != "HEAD" {
        bytes.extend_from_slice(&answer.object.body);
    }
    (bytes, stays)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Request> {
        request(&mut text.as_bytes()).expect("memory can be read")
    }

    #[test]
    fn a_connection_stays_as_its_client_wants() {
        let stays = |text: &str| read(text).map(|r| r.stays);
        assert_eq!(stays("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Some(true));
        assert_eq!(stays("GET / HTTP/1.1\r\nConnection: Close\r\n\r\n"), Some(false));
        assert_eq!(stays("GET / HTTP/1.0\r\n\r\n"), Some(false));
    }

    #[test]
    fn what_is_no_request_or_has_no_end_is_the_end_of_a_connection() {
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(1 << 20));
        for bad in ["", "\r\n", "GET /\r\n", "GET / HTTP/1.1\r\nHost: a", &endless] {
            assert_eq!(read(bad), None, "{:?}", &bad[..bad.len().min(40)]);
        }
    }

    #[test]
    fn an_answer_has_its_length_and_a_missing_object_keeps_the_connection() {
        let text = |path: &str, method: &str| {
            let request = Request { method: method.into(), path: path.into(), stays: true };
            let (bytes, stays) = answer(&request, 443);
            (String::from_utf8_lossy(&bytes).into_owned(), stays)
        };
        let (found, stays) = text("/style-0.css?v=1", "GET");
        let (head, body) = found.split_once("\r\n\r\n").expect("a head and a body");
        assert!(stays && head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert!(text("/none", "GET").0.starts_with("HTTP/1.1 404") && text("/none", "GET").1);
        assert!(!text("/", "POST").1 && text("/", "HEAD").0.ends_with("\r\n\r\n"));
    }
}
