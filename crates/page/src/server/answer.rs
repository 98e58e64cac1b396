//! What the site answers, by whatever version of HTTP it is asked.

use crate::site::{self, Object};

pub(super) struct SiteAnswer {
    pub status: u16,
    pub reason: &'static str,
    /// What it is about; its body goes to who asked by GET.
    pub object: Object,
}

impl SiteAnswer {
    pub fn to(method: &str, path: &str, port: u16) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        let (status, reason, object) = match (method, site::object(path, port)) {
            ("GET" | "HEAD", Some(object)) => (200, "OK", object),
            ("GET" | "HEAD", None) => (404, "Not Found", note("There is no such object.\n")),
            _ => (405, "Method Not Allowed", note("GET alone is answered here.\n")),
        };
        Self { status, reason, object }
    }

    /// For how long a browser may keep it.
    pub fn keeps(&self) -> &'static str {
        if self.object.keeps { "public, max-age=86400, immutable" } else { "no-cache" }
    }
}

fn note(text: &str) -> Object {
    Object { media: "text/plain", keeps: false, body: text.into() }
}
