//! The page's own files, as they are served. Nothing of it is elsewhere.

/// A file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its path.
    pub path: &'static str,
    /// Its media type.
    pub kind: &'static str,
    /// What is in it.
    pub text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($path:literal, $kind:expr, $name:literal;)*) => {
        /// All of them.
        pub const FILES: &[File] = &[
            $(File { path: $path, kind: $kind, text: include_str!(concat!("../page/", $name)) },)*
        ];
    };
}

files! {
    "/", HTML, "index.html";
    "/style.css", "text/css; charset=utf-8", "style.css";
    "/app.js", SCRIPT, "app.js";
    "/measure.js", SCRIPT, "measure.js";
    "/figures.js", SCRIPT, "figures.js";
    "/picture.js", SCRIPT, "picture.js";
    "/history.js", SCRIPT, "history.js";
    "/secret.js", SCRIPT, "secret.js";
    "/icon.svg", "image/svg+xml", "icon.svg";
}

/// The file at this path.
pub fn file(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

/// What the page may do, as its browser is told (`Content-Security-Policy`): its own files and this server, nothing else.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small() {
        let all: usize = FILES.iter().map(|file| file.text.len()).sum();
        assert!(all < 150_000, "{all} bytes");
    }

    #[test]
    fn the_page_needs_no_other_host_and_nothing_within_its_html() {
        for file in FILES {
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
