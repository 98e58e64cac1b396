//! Answers GET /metrics, and GET / where there is a page for people, over HTTP/1.1: one thread, which waits in the kernel.
//!
//! ```text
//!   scraper ──► head, at most 16 kB ──► page, made at that moment ──► closed
//!               └── within 10 s; 16 at once, the oldest gives way ──┘
//! ```

use crate::{MetricsFormat, MetricsPage};
use nix::errno::Errno;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::stream::{TcpSocket, accept, listen};
use quell_sys::wait::{Alarm, Bell, came, readable, wait, writable};
use quell_web::head::{self, HttpMethod};
use std::net::{SocketAddr, TcpListener};

const AT_ONCE: usize = 16;
/// How long Prometheus waits where nothing else is set (`scrape_timeout`).
const PATIENCE_NS: u64 = 10_000_000_000;

#[derive(Debug)]
pub struct MetricsEndpoint {
    listener: TcpListener,
    local: SocketAddr,
}

impl MetricsEndpoint {
    /// Listens there; with port 0 on any that is free.
    pub fn bind(at: SocketAddr) -> Result<Self, SysError> {
        let listener = listen(at)?;
        let failed = |e| SysError::io("read a listener's address", &e);
        let local = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, local })
    }

    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Answers until the bell rings. `page` is called for each scrape, in this thread.
    pub fn serve(&self, stop: &Bell, page: &dyn Fn() -> MetricsPage) -> Result<(), SysError> {
        self.serve_pages(stop, page, None)
    }

    /// The same, with a page in HTML at `/`, called for each request, in this thread.
    pub fn serve_pages(
        &self,
        stop: &Bell,
        page: &dyn Fn() -> MetricsPage,
        html: Option<&dyn Fn() -> String>,
    ) -> Result<(), SysError> {
        let mut alarm = Alarm::new()?;
        let mut scrapes: Vec<Scrape> = Vec::new();
        let mut closed_until_ns = 0;
        loop {
            let now = monotonic_ns();
            scrapes.retain(|s| s.end_ns > now);
            let is_open = closed_until_ns <= now;
            let ends = scrapes.iter().map(|s| s.end_ns);
            alarm.set(ends.chain((closed_until_ns > now).then_some(closed_until_ns)).min())?;
            let mut fds = vec![readable(stop), readable(&alarm)];
            fds.extend(scrapes.iter().map(Scrape::awaited));
            fds.extend(is_open.then(|| readable(&self.listener)));
            wait(&mut fds)?;
            if came(&fds[0]) {
                return Ok(());
            }
            let came: Vec<bool> = fds[2..].iter().map(came).collect();
            drop(fds);
            let asks = is_open && came.last() == Some(&true);
            let mut due = came.into_iter();
            scrapes.retain_mut(|s| due.next() != Some(true) || s.go_on(page, html));
            if asks {
                match accept(&self.listener) {
                    Ok(Some((stream, _))) => {
                        if scrapes.len() >= AT_ONCE {
                            scrapes.remove(0);
                        }
                        scrapes.push(Scrape::new(stream));
                    }
                    Ok(None) => {}
                    // No descriptor is left, and the listener stays readable.
                    Err(_) => closed_until_ns = monotonic_ns().saturating_add(PATIENCE_NS),
                }
            }
        }
    }
}

#[derive(Debug)]
struct Scrape {
    stream: TcpSocket,
    end_ns: u64,
    asked: Vec<u8>,
    /// What is still to be sent.
    answer: Option<Vec<u8>>,
    sent: usize,
}

impl Scrape {
    fn new(stream: TcpSocket) -> Self {
        let end_ns = monotonic_ns().saturating_add(PATIENCE_NS);
        Self { stream, end_ns, asked: Vec::new(), answer: None, sent: 0 }
    }

    fn awaited(&self) -> nix::poll::PollFd<'_> {
        match self.answer {
            Some(_) => writable(&self.stream),
            None => readable(&self.stream),
        }
    }

    /// Does what can be done at once; whether anything is left to do.
    fn go_on(&mut self, page: &dyn Fn() -> MetricsPage, html: Option<&dyn Fn() -> String>) -> bool {
        while self.answer.is_none() {
            let mut piece = [0; head::LONGEST];
            match self.stream.read_now(&mut piece) {
                Ok(got @ 1..) => self.asked.extend_from_slice(&piece[..got]),
                Err(Errno::EAGAIN | Errno::EINTR) => return true,
                Ok(_) | Err(_) => return false,
            }
            self.answer = answer(&self.asked, page, html);
        }
        let answer = self.answer.as_deref().unwrap_or_default();
        while self.sent < answer.len() {
            match self.stream.write_now(&answer[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(Errno::EAGAIN | Errno::EINTR) => return true,
                Err(_) => return false,
            }
        }
        false
    }
}

/// What is said to a request; none while its head is not whole.
fn answer(
    asked: &[u8],
    page: &dyn Fn() -> MetricsPage,
    html: Option<&dyn Fn() -> String>,
) -> Option<Vec<u8>> {
    let mut more = "";
    let plain = MetricsFormat::Text.content_type();
    let (status, kind, body) = match head::request(asked) {
        Ok(None) => return None,
        Err(bad) => ("400 Bad Request", plain, format!("{bad}\n")),
        Ok(Some((request, _)))
            if request.path != "/metrics" && (request.path != "/" || html.is_none()) =>
        {
            ("404 Not Found", plain, "metrics are at /metrics\n".into())
        }
        Ok(Some((request, _))) if request.method != HttpMethod::Get => {
            more = "Allow: GET\r\n";
            ("405 Method Not Allowed", plain, "metrics are read with GET\n".into())
        }
        Ok(Some((request, _))) if request.path == "/" => {
            let body = html.map_or(String::new(), |html| html());
            ("200 OK", "text/html; charset=utf-8", body)
        }
        Ok(Some((request, _))) => {
            let format = match request.takes_openmetrics {
                true => MetricsFormat::OpenMetrics,
                false => MetricsFormat::Text,
            };
            ("200 OK", format.content_type(), page().text(format))
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{more}Connection: close\r\n\r\n",
        kind,
        body.len()
    );
    Some((head + &body).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MetricKind;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn page() -> MetricsPage {
        let mut page = MetricsPage::default();
        let filler = "x".repeat(100_000);
        for n in 0..20 {
            let labels = [("n", &*n.to_string()), ("filler", &*filler)];
            page.family("q_up", MetricKind::Gauge, "", "Up.").sample(&labels, 1.0);
        }
        page
    }

    fn with_endpoint(test: impl FnOnce(SocketAddr)) {
        let endpoint = MetricsEndpoint::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let stop = Bell::new().unwrap();
        std::thread::scope(|scope| {
            let served = scope.spawn(|| endpoint.serve(&stop, &page));
            test(endpoint.local());
            stop.ring();
            served.join().unwrap().unwrap();
        });
    }

    fn ask(at: SocketAddr, text: &str) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    }

    #[test]
    fn only_metrics_are_answered_and_the_form_is_the_readers() {
        let cases = [
            ("GET /metrics HTTP/1.1\r\n\r\n", "200 OK", "text/plain; version=0.0.4"),
            (
                "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n",
                "200 OK",
                "application/openmetrics-text",
            ),
            ("GET / HTTP/1.1\r\n\r\n", "404 Not Found", "at /metrics"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method", "Allow: GET"),
            ("\u{1}\r\n\r\n", "400 Bad Request", "no HTTP"),
        ];
        with_endpoint(|at| {
            for (asked, status, has) in cases {
                let said = ask(at, asked);
                let (head, body) = said.split_once("\r\n\r\n").unwrap();
                assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{asked}: {head}");
                assert!(said.contains(has), "{asked}: {head}");
                assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
            }
        });
    }

    #[test]
    fn those_who_ask_nothing_or_do_not_read_hold_up_nobody_who_does() {
        with_endpoint(|at| {
            let silent: Vec<_> = (0..AT_ONCE).map(|_| TcpStream::connect(at).unwrap()).collect();
            let deaf: Vec<_> = (0..AT_ONCE)
                .map(|_| {
                    let mut stream = TcpStream::connect(at).unwrap();
                    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
                    stream
                })
                .collect();
            assert!(ask(at, "GET /metrics HTTP/1.1\r\n\r\n").len() > 2_000_000);
            drop((silent, deaf));
        });
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(head::LONGEST));
        let said = answer(long.as_bytes(), &page, None).unwrap();
        assert!(said.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&said));
    }
}
