//! The page's own files, as they are served. Nothing of it is elsewhere.
//!
//! ```text
//!   index.html ◄── style.css, put into it    all that the first paint needs: one answer
//!   app.js ──► measure.js, figures.js …      modules, which run once the document is read and hold no paint up
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    pub path: &'static str,
    pub kind: &'static str,
    pub text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($path:literal, $kind:expr, $name:literal;)*) => {
        const FILES: &[File] = &[
            $(File { path: $path, kind: $kind, text: include_str!(concat!("../page/", $name)) },)*
        ];
    };
}

files! {
    "/app.js", SCRIPT, "app.js";
    "/measure.js", SCRIPT, "measure.js";
    "/figures.js", SCRIPT, "figures.js";
    "/picture.js", SCRIPT, "picture.js";
    "/history.js", SCRIPT, "history.js";
    "/secret.js", SCRIPT, "secret.js";
    "/share.js", SCRIPT, "share.js";
    "/icon.svg", "image/svg+xml", "icon.svg";
}

const STYLE: &str = include_str!("../page/style.css");

const STYLE_HERE: &str = "<!-- style -->";

static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    include_str!("../page/index.html").replacen(STYLE_HERE, &format!("<style>{STYLE}</style>"), 1)
});

pub fn file(path: &str) -> Option<File> {
    match path {
        "/" => Some(File { path: "/", kind: HTML, text: &DOCUMENT }),
        _ => FILES.iter().find(|file| file.path == path).copied(),
    }
}

static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; script-src 'self'; style-src 'sha256-{style}'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// What the page may do, as its browser is told (`Content-Security-Policy`): its own files, its own style and this server, nothing else.
pub fn policy() -> &'static str {
    &POLICY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> File {
        file("/").expect("there is a document")
    }

    fn all() -> impl Iterator<Item = File> {
        FILES.iter().copied().chain([document()])
    }

    #[test]
    fn the_page_is_small() {
        let all: usize = all().map(|file| file.text.len()).sum();
        assert!(all < 150_000, "{all} bytes");
    }

    #[test]
    fn the_first_paint_waits_for_the_document_and_for_nothing_else() {
        let text = document().text;
        let (style, rest) = text
            .split_once("<style>")
            .expect("the style is in it")
            .1
            .split_once("</style>")
            .expect("all of it");
        assert_eq!(style, STYLE);
        assert!(
            !style.contains("@import") && !style.contains("url("),
            "a style that asks for more"
        );
        assert!(!text.contains("stylesheet"), "a style sheet that is waited for");
        for script in text.split("<script").skip(1) {
            let tag = script.split('>').next().unwrap_or_default();
            assert!(tag.contains("type=\"module\"") && !tag.contains("blocking"), "<script{tag}>");
        }
        assert!(rest.contains("<h1>"), "and there is something to paint");
        let hash = STANDARD.encode(Sha256::digest(style));
        assert!(policy().contains(&format!("style-src 'sha256-{hash}';")), "{}", policy());
    }

    #[test]
    fn the_page_needs_no_other_host_and_nothing_within_its_html() {
        for file in all() {
            for part in file.text.split("://").skip(1) {
                assert!(part.starts_with("www.w3.org/2000/svg"), "{}: ://{:.40}", file.path, part);
            }
            for word in [
                "innerHTML",
                "eval(",
                "document.write",
                "insertAdjacentHTML",
                " style=\"",
                " onclick",
            ] {
                assert!(!file.text.contains(word), "{}: {word}", file.path);
            }
        }
    }
}
