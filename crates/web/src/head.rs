//! Heads of HTTP/1.1 (RFC 9112), read with bounds: what a request asks for, what an answer says of its body.

use httparse::{EMPTY_HEADER, Header, Status};

/// Longest head. Cookies of other servers of the same host may be in it.
pub const LONGEST: usize = 16 << 10;
const MOST_LINES: usize = 64;
const LONGEST_PATH: usize = 512;
const OPENMETRICS: &str = "application/openmetrics-text";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    Get,
    Head,
    Post,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: HttpMethod,
    pub path: String,
    pub query: String,
    pub host: Option<String>,
    /// The page whose script asks.
    pub origin: Option<String>,
    /// `Sec-Fetch-Site`: how that page stands to us.
    pub site: Option<String>,
    /// `X-Quell`: only our own page may send it, and there its key is in it.
    pub key: Option<String>,
    /// Whether it takes OpenMetrics (`Accept`).
    pub takes_openmetrics: bool,
    pub body: Body,
    pub stays: bool,
    /// Whether it waits for a word before it sends its body.
    pub waits: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    Bytes(u64),
    Chunks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    #[error("it is no HTTP: {0}")]
    NotHttp(#[from] httparse::Error),
    #[error("its head has more than {LONGEST} bytes")]
    Long,
    #[error("its path has more than {LONGEST_PATH} bytes")]
    LongPath,
    #[error("its head contradicts itself")]
    Contradiction,
}

/// The request at the beginning of `bytes`, and how long its head is; none while it is not whole.
pub fn request(bytes: &[u8]) -> Result<Option<(Request, usize)>, BadHead> {
    let mut lines = [EMPTY_HEADER; MOST_LINES];
    let mut read = httparse::Request::new(&mut lines);
    let Status::Complete(length) = read.parse(bytes)? else {
        return if bytes.len() >= LONGEST { Err(BadHead::Long) } else { Ok(None) };
    };
    if length > LONGEST {
        return Err(BadHead::Long);
    }
    let target = read.path.unwrap_or_default();
    if target.len() > LONGEST_PATH {
        return Err(BadHead::LongPath);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let lines = HeaderLines(read.headers);
    let stays = read.version == Some(1) && !lines.has_word("connection", "close")?;
    let request = Request {
        method: match read.method {
            Some("GET") => HttpMethod::Get,
            Some("HEAD") => HttpMethod::Head,
            Some("POST") => HttpMethod::Post,
            _ => HttpMethod::Other,
        },
        path: path.to_owned(),
        query: query.to_owned(),
        host: lines.one("host")?,
        origin: lines.one("origin")?,
        site: lines.one("sec-fetch-site")?,
        key: lines.one("x-quell")?,
        takes_openmetrics: lines.one("accept")?.is_some_and(|kinds| kinds.contains(OPENMETRICS)),
        body: lines.body()?,
        stays,
        waits: lines.has_word("expect", "100-continue")?,
    };
    Ok(Some((request, length)))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: u16,
    /// Bytes of its body; none where it ends with the connection.
    pub body: Option<Body>,
    pub stays: bool,
}

/// The answer at the beginning of `bytes`, and how long its head is; none while it is not whole.
pub fn answer(bytes: &[u8]) -> Result<Option<(ResponseHead, usize)>, BadHead> {
    let mut lines = [EMPTY_HEADER; MOST_LINES];
    let mut read = httparse::Response::new(&mut lines);
    let Status::Complete(length) = read.parse(bytes)? else {
        return if bytes.len() >= LONGEST { Err(BadHead::Long) } else { Ok(None) };
    };
    if length > LONGEST {
        return Err(BadHead::Long);
    }
    let lines = HeaderLines(read.headers);
    let tells = lines.one("content-length")?.is_some() || lines.one("transfer-encoding")?.is_some();
    let answer = ResponseHead {
        status: read.code.unwrap_or(0),
        body: if tells { Some(lines.body()?) } else { None },
        stays: read.version == Some(1) && !lines.has_word("connection", "close")?,
    };
    Ok(Some((answer, length)))
}

struct HeaderLines<'a>(&'a [Header<'a>]);

impl HeaderLines<'_> {
    /// What the lines of this name say, all the same.
    fn one(&self, name: &str) -> Result<Option<String>, BadHead> {
        let mut found: Option<&[u8]> = None;
        for line in self.0.iter().filter(|line| line.name.eq_ignore_ascii_case(name)) {
            match found {
                Some(other) if other != line.value => return Err(BadHead::Contradiction),
                _ => found = Some(line.value),
            }
        }
        Ok(found.map(|value| String::from_utf8_lossy(value).trim().to_owned()))
    }

    fn has_word(&self, name: &str, word: &str) -> Result<bool, BadHead> {
        let said = self.one(name)?.unwrap_or_default();
        Ok(said.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    }

    fn body(&self) -> Result<Body, BadHead> {
        // Both would let two readers see two ends (RFC 9112, section 6.3).
        match (self.one("transfer-encoding")?, self.one("content-length")?) {
            (None, None) => Ok(Body::Bytes(0)),
            (Some(_), None) => Ok(Body::Chunks),
            (Some(_), Some(_)) => Err(BadHead::Contradiction),
            (None, Some(length)) => {
                let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
                let length = length.parse().ok().filter(|_| digits);
                length.map(Body::Bytes).ok_or(BadHead::Contradiction)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Option<(Request, usize)>, BadHead> {
        request(text.as_bytes())
    }

    #[test]
    fn a_head_is_read_when_it_is_whole_and_what_follows_is_left() {
        let text = "POST /web/up?t=7 HTTP/1.1\r\nHost: 192.0.2.1:5201\r\nX-Quell: k\r\n\
                    Content-Length: 12\r\nOrigin: http://192.0.2.1:5201\r\n\r\nhello";
        for cut in 0..text.len() - 5 {
            assert_eq!(read(&text[..cut]), Ok(None), "{cut}");
        }
        let (request, length) = read(text).unwrap().unwrap();
        assert_eq!(&text[length..], "hello");
        assert_eq!(
            (request.method, &*request.path, &*request.query),
            (HttpMethod::Post, "/web/up", "t=7")
        );
        assert_eq!((request.body, request.stays), (Body::Bytes(12), true));
        assert_eq!(request.key.as_deref(), Some("k"));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for lines in [
            "Content-Length: 1\r\nContent-Length: 2\r\n",
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 99999999999999999999999\r\n",
            "Host: a\r\nHost: b\r\n",
        ] {
            let text = format!("GET / HTTP/1.1\r\n{lines}\r\n");
            assert_eq!(read(&text), Err(BadHead::Contradiction), "{lines}");
        }
    }

    #[test]
    fn a_head_without_end_is_refused_and_a_long_path_too() {
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(LONGEST));
        assert_eq!(read(&endless), Err(BadHead::Long));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(65));
        assert!(matches!(read(&many), Err(BadHead::NotHttp(_))));
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(600));
        assert_eq!(read(&long), Err(BadHead::LongPath));
    }

    #[test]
    fn an_answer_tells_how_long_its_body_is() {
        let of = |text: &str| answer(text.as_bytes()).unwrap().unwrap().0;
        let sized = of("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
        assert_eq!(sized, ResponseHead { status: 200, body: Some(Body::Bytes(1)), stays: true });
        let whole = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(LONGEST));
        assert_eq!(answer(whole.as_bytes()), Err(BadHead::Long));
        let open = of("HTTP/1.0 404 no\r\n\r\n");
        assert_eq!(open, ResponseHead { status: 404, body: None, stays: false });
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = request(&bytes);
            let _ = answer(&bytes);
        }
    }
}
