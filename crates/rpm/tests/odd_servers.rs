//! Servers that do what the draft allows and few do, and what it does not allow: over HTTP/1.1 on loopback.

use quell_rpm::{LoadDirection, RpmError, RpmPlan, measure};
use quell_sys::wait::Bell;
use quell_tls::identity::{Identity, Name};
use quell_tls::trust::{self, Trust};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::spawn;

/// What it was asked for.
type Log = Arc<Mutex<Vec<String>>>;

/// What broke off each direction.
type Broke = Result<[Option<String>; 2], RpmError>;

/// How a server behaves as load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    Endless,
    /// Its large download is nothing.
    Empty,
    /// It answers an upload at once.
    Early,
    /// It names another server.
    Lying(SocketAddr),
}

fn server(load: Load) -> (SocketAddr, Log) {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = port.local_addr().expect("an address");
    let log = Log::default();
    let asked = Arc::clone(&log);
    spawn(move || {
        for stream in port.incoming().flatten() {
            let log = Arc::clone(&asked);
            spawn(move || drop(serve(&stream, load, at, &log)));
        }
    });
    (at, log)
}

fn serve(stream: &TcpStream, load: Load, at: SocketAddr, log: &Log) -> std::io::Result<()> {
    let (mut lines, mut out) = (BufReader::new(stream), stream);
    let mut request = String::new();
    lines.read_line(&mut request)?;
    let mut line = String::new();
    while lines.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    log.lock().expect("nobody panics").push(path.to_owned());
    let mut answer = |length: u64, body: &str| {
        write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    match path {
        "/.well-known/nq" => {
            let at = if let Load::Lying(other) = load { other } else { at };
            let urls = format!(
                r#"{{"version":1,"test_endpoint":"{}","urls":{{"large_download_url":"http://{at}/l","small_download_url":"http://{at}/s",
                "upload_url":"http://{at}/u"}}}}"#,
                at.ip()
            );
            answer(urls.len() as u64, &urls)
        }
        "/s" => answer(1, "x"),
        "/l" if load == Load::Empty => {
            answer(0, "")?;
            // It keeps the connection.
            lines.read(&mut [0]).map(drop)
        }
        "/l" => {
            answer(1 << 40, "")?;
            loop {
                out.write_all(&[7; 65_536])?;
            }
        }
        _ if load == Load::Early => {
            answer(2, "ok")?;
            std::io::copy(&mut lines, &mut std::io::sink()).map(drop)
        }
        _ => std::io::copy(&mut lines, &mut std::io::sink()).map(drop),
    }
}

/// So many seconds each way.
fn measured(load: Load, most: usize) -> (Broke, Vec<String>) {
    let (to, log) = server(load);
    let plan = RpmPlan {
        to,
        authority: to.to_string(),
        tls: false,
        trust: Trust::System,
        secret: None,
        most,
    };
    let stop = Bell::new().expect("a bell");
    let outcome = measure(&plan, &stop, &mut |_: LoadDirection, _| {});
    let broke = outcome
        .map(|outcome| [outcome.down, outcome.up].map(|way| way.and_then(|figures| figures.broke)));
    let mut asked = log.lock().expect("nobody panics").clone();
    asked.sort();
    asked.dedup();
    (broke, asked)
}

#[test]
fn a_server_is_loaded_as_it_says() {
    // A load of which nothing came in two seconds was never asked for more: what was asked is known all the same.
    let (_, asked) = measured(Load::Endless, 2);
    assert_eq!(asked, ["/.well-known/nq", "/l", "/s", "/u"]);
}

#[test]
fn a_server_that_names_another_turns_nobody_against_it() {
    let (third, untouched) = server(Load::Endless);
    let (told, asked) = measured(Load::Lying(third), 2);
    let told = told.expect_err("there is no figure of another").to_string();
    assert!(told.contains("names another server") && told.contains(&third.to_string()), "{told}");
    assert_eq!(asked, ["/.well-known/nq"]);
    assert!(untouched.lock().expect("nobody panics").is_empty(), "not a request");
}

#[test]
fn what_ends_a_load_is_told_as_it_was() {
    for (load, words) in [
        (Load::Empty, &["/l from", "ended after 0 bytes"][..]),
        (Load::Early, &["answered the upload to /u before it was over"]),
    ] {
        // It ends by itself, however long that takes.
        let told = match measured(load, 100).0 {
            Ok(_) if load == Load::Empty => "there is a load".to_owned(),
            Ok([_, broke]) => broke.unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        assert!(words.iter().all(|word| told.contains(word)), "{load:?}: {told}");
    }
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, 0], &stream.to_be_bytes(), payload].concat()
}

/// A server over TLS that says this when it has heard something, and leaves; what its client tells.
fn over_tls(says: Vec<u8>) -> String {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = port.local_addr().expect("an address");
    let shown = Identity::new("odd", &[Name::Ip(to.ip())], &[7; 32]).shown();
    let config = trust::server(&shown).expect("it shows something");
    let serves = spawn(move || -> std::io::Result<()> {
        let (stream, _) = port.accept()?;
        let tls = rustls::ServerConnection::new(config).expect("it begins");
        let mut stream = rustls::StreamOwned::new(tls, stream);
        // What begins HTTP/2, its settings, and the request: all that comes before the answer.
        let mut heard = Vec::new();
        while !heard.windows(9).any(|bytes| bytes[3] == 1 && bytes[5..] == [0, 0, 0, 1]) {
            let mut piece = [0; 4096];
            let got = stream.read(&mut piece)?;
            heard.extend_from_slice(&piece[..got]);
        }
        stream.write_all(&says)?;
        stream.conn.send_close_notify();
        stream.flush()
    });
    let plan = RpmPlan {
        to,
        authority: to.to_string(),
        tls: true,
        trust: Trust::Anyone,
        secret: None,
        most: 2,
    };
    let stop = Bell::new().expect("a bell");
    let told =
        measure(&plan, &stop, &mut |_: LoadDirection, _| {}).expect_err("there is no answer");
    serves.join().expect("no panic").expect("it is heard");
    told.to_string()
}

#[test]
fn how_a_server_over_tls_ends_is_told_in_clean_words() {
    let settings = frame(4, 0, b"");
    let with = |more: &[u8]| [&settings, more].concat();
    let goes = |reason: u32, words: &[u8]| {
        with(&frame(7, 0, &[&[0; 4][..], &reason.to_be_bytes(), words].concat()))
    };
    for (says, told) in [
        (vec![], "speaks TLS and closed the connection before it answered"),
        (with(b""), "speaks TLS and closed the connection before it answered"),
        (goes(0, b""), "ended the HTTP/2 connection (GOAWAY): "),
        (goes(11, "m\u{fc}de \"x\"\x1b[2J".as_bytes()), "load generating behavior"),
        (goes(4_000_000, b""), "ended the HTTP/2 connection (GOAWAY): "),
        (with(&frame(3, 1, &[0, 0, 0, 7])), "broke off the request (RST_STREAM): "),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "is no HTTP/2"),
    ] {
        let said = over_tls(says);
        assert!(said.contains(told), "{said}\n{told}");
        assert!(!said.contains('\x1b') && !said.contains("HTTP server?"), "{said}");
    }
}
