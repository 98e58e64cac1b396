//! `/.well-known/nq` (draft-ietf-ippm-responsiveness, section "Responsiveness Test Server Discovery"): where a client finds what it loads.

use crate::url::Url;
use serde::{Deserialize, Serialize};

pub const PATH: &str = "/.well-known/nq";
pub const LONGEST: usize = 16 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NqConfig {
    pub large: Url,
    pub small: Url,
    pub upload: Url,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    #[error("its {PATH} is not as the draft has it: {0}")]
    Json(String),
    #[error("its {PATH} has version {0}, and only 1 is known")]
    Version(u64),
    #[error("its {PATH} names what is no address: `{0}`")]
    Url(String),
    #[error("its {PATH} names several servers, and the draft wants one")]
    Servers,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    version: u64,
    urls: Urls,
}

/// Each by the draft's name, and by that of earlier drafts, which clients in use ask for.
#[derive(Serialize, Deserialize)]
struct Urls {
    large_download_url: Option<String>,
    small_download_url: Option<String>,
    upload_url: Option<String>,
    large_https_download_url: Option<String>,
    small_https_download_url: Option<String>,
    https_upload_url: Option<String>,
}

impl NqConfig {
    /// Ours: below one folder of this host.
    pub fn below(tls: bool, authority: &str, folder: &str) -> Option<Self> {
        let scheme = if tls { "https" } else { "http" };
        let url = |name: &str| Url::parse(&format!("{scheme}://{authority}{folder}/{name}"));
        Some(Self { large: url("large")?, small: url("small")?, upload: url("upload")? })
    }

    pub fn json(&self) -> String {
        let wire = Wire {
            version: 1,
            urls: Urls {
                large_download_url: Some(self.large.to_string()),
                small_download_url: Some(self.small.to_string()),
                upload_url: Some(self.upload.to_string()),
                large_https_download_url: Some(self.large.to_string()),
                small_https_download_url: Some(self.small.to_string()),
                https_upload_url: Some(self.upload.to_string()),
            },
        };
        // Texts and numbers are always JSON.
        serde_json::to_string(&wire).unwrap_or_default()
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, BadConfig> {
        let json = |why: &dyn ToString| {
            BadConfig::Json(quell_wire::text::printable(&why.to_string(), 200))
        };
        if bytes.len() > LONGEST {
            return Err(json(&format!("more than {LONGEST} bytes")));
        }
        let wire: Wire = serde_json::from_slice(bytes).map_err(|e| json(&e))?;
        if wire.version != 1 {
            return Err(BadConfig::Version(wire.version));
        }
        let url = |name: &str, new: &Option<String>, old: &Option<String>| {
            let lacks = || BadConfig::Json(format!("there is no {name}"));
            let text = new.as_ref().or(old.as_ref()).ok_or_else(lacks)?;
            let shown = || BadConfig::Url(quell_wire::text::printable(text, 100));
            Url::parse(text).ok_or_else(shown)
        };
        let Urls { large_download_url: large, small_download_url: small, .. } = &wire.urls;
        let large = url("large_download_url", large, &wire.urls.large_https_download_url)?;
        let small = url("small_download_url", small, &wire.urls.small_https_download_url)?;
        let upload = url("upload_url", &wire.urls.upload_url, &wire.urls.https_upload_url)?;
        match large.server() == small.server() && small.server() == upload.server() {
            true => Ok(Self { large, small, upload }),
            false => Err(BadConfig::Servers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let config = NqConfig::below(false, "192.0.2.1:5201", "/nq/k").unwrap();
        assert_eq!(config.small.to_string(), "http://192.0.2.1:5201/nq/k/small");
        assert_eq!(NqConfig::parse(config.json().as_bytes()), Ok(config));
    }

    #[test]
    fn what_the_draft_forbids_is_refused() {
        let of = |version: &str, upload: &str| {
            format!(
                r#"{{"version":{version},"urls":{{"large_download_url":"https://a/l",
                "small_download_url":"https://a/s","upload_url":"{upload}"}},"more":1}}"#
            )
        };
        assert!(
            NqConfig::parse(of("1", "https://a/u").as_bytes()).is_ok(),
            "unknown names are ignored"
        );
        assert_eq!(NqConfig::parse(of("2", "https://a/u").as_bytes()), Err(BadConfig::Version(2)));
        for other in ["https://b/u", "https://a:8443/u", "http://a:443/u"] {
            let several = NqConfig::parse(of("1", other).as_bytes());
            assert_eq!(several, Err(BadConfig::Servers), "{other}");
        }
        assert!(matches!(NqConfig::parse(of("1", "a").as_bytes()), Err(BadConfig::Url(_))));
        assert!(matches!(NqConfig::parse(b"{}"), Err(BadConfig::Json(_))));
        let lacks = of("1", "https://a/u").replace("upload_url", "another_url");
        assert!(matches!(NqConfig::parse(lacks.as_bytes()), Err(BadConfig::Json(_))));
        let old = of("1", "https://a/u")
            .replace("_download", "_https_download")
            .replace("upload", "https_upload");
        assert!(NqConfig::parse(old.as_bytes()).is_ok(), "earlier drafts' names");
        let twice = of("1", "https://a/u").replace("\"more\"", "\"version\":1,\"more\"");
        assert!(
            matches!(NqConfig::parse(twice.as_bytes()), Err(BadConfig::Json(_))),
            "named twice"
        );
    }
}
