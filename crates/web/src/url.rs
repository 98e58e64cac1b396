//! Addresses of pages: `http://host:port/path`, and `https`.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub tls: bool,
    /// Name or address, brackets off.
    pub host: String,
    pub port: u16,
    pub path: String,
}

const LONGEST: usize = 1024;

impl Url {
    /// As it is written; none where it is no such address. Nothing but visible ASCII may be in it.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return None;
        }
        let (tls, rest) = match text.split_once("://")? {
            ("http", rest) => (false, rest),
            ("https", rest) => (true, rest),
            _ => return None,
        };
        let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let path = path.split('#').next().unwrap_or_default();
        let (host, port) = match authority.strip_prefix('[') {
            Some(inside) => {
                let (host, after) = inside.split_once(']')?;
                host.parse::<std::net::Ipv6Addr>().ok()?;
                (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() || host.contains(['@', '"', '<', '>', '\\', '[', ']']) {
            return None;
        }
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0)?,
            None if tls => 443,
            None => 80,
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Some(Self { tls, host: host.to_owned(), port, path })
    }

    /// Whether over TLS, host and port: what one is of another server by.
    pub fn server(&self) -> (bool, String, u16) {
        (self.tls, self.host.trim_end_matches('.').to_ascii_lowercase(), self.port)
    }

    pub fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.tls, self.port) {
            (false, 80) | (true, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_it_was_read() {
        for text in ["http://a.b/", "https://a:8443/x?y=1", "http://[2001:db8::1]:5201/nq"] {
            assert_eq!(Url::parse(text).unwrap().to_string(), text);
        }
        let bare = Url::parse("https://a").unwrap();
        assert_eq!((bare.port, &*bare.path), (443, "/"));
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in [
            "",
            "a.b",
            "ftp://a/",
            "http://",
            "http://a:0/",
            "http://a:99999/",
            "http://a b/",
            "http://u@h/",
            "http://[::1/",
            "http://[[]/",
            "http://[a.b]/",
            "http://a]/",
            "http://a\r\nb/",
        ] {
            assert_eq!(Url::parse(text), None, "{text}");
        }
    }
}
