//! The lab's own site: a page as pages are, made from nothing but numbers, the same each time.
//!
//! ```text
//!   https://www.page.test/        the document, 24 kB
//!      ├── static.page.test       3 style sheets, 7 scripts: those in the head hold up the first paint
//!      └── img.page.test          46 pictures of 0.7 to 60 kB
//!   app.js, the last script, asks www.page.test for 4 pieces of data more
//! ```
//!
//! 60 objects of 3 hosts beside the document, 0.6 MB: their sizes are spread as sizes of such objects are, many small, few large
//! (log-normal).

use std::fmt::Write;

/// All its hosts are below this one (RFC 6761 keeps `.test` for such uses).
pub const DOMAIN: &str = "page.test";

pub const HOSTS: [&str; 3] = ["www.page.test", "static.page.test", "img.page.test"];

const DOCUMENT: usize = 24_000;
const STYLES: [usize; 3] = [12_000, 8_000, 5_000];
/// Bytes of the scripts, the last of which asks for data.
const SCRIPTS: [usize; 7] = [30_000, 18_000, 12_000, 9_000, 6_000, 4_000, 3_000];
const DATA: [usize; 4] = [4_000, 2_500, 1_500, 900];
/// Number of pictures, and the median of their bytes.
const PICTURES: usize = 46;
const MEDIAN: f64 = 6_000.0;
/// Spread of their sizes: the standard deviation of their logarithm.
const SPREAD: f64 = 1.0;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub media: &'static str,
    /// Whether a browser may keep it for a while.
    pub keeps: bool,
    pub body: Vec<u8>,
}

/// The object at a path; on each host each is there.
pub fn object(path: &str, port: u16) -> Option<Object> {
    let object = |media, body| Some(Object { media, keeps: true, body });
    if path == "/" {
        return Some(Object {
            media: "text/html; charset=utf-8",
            keeps: false,
            body: document(port),
        });
    }
    let number = |kind: &str, end: &str| {
        let number = path.strip_prefix(kind)?.strip_suffix(end)?;
        number.parse::<usize>().ok().filter(|_| number.len() == 1 || !number.starts_with('0'))
    };
    if let Some(n) = number("/style-", ".css") {
        return object("text/css", filled(style(n), *STYLES.get(n)?, "/*", "*/"));
    }
    if let Some(n) = number("/script-", ".js") {
        return object("text/javascript", filled(script(n), *SCRIPTS.get(n)?, "/*", "*/"));
    }
    if let Some(n) = number("/data-", ".json") {
        return object("application/json", filled("{\"fill\":\"".into(), *DATA.get(n)?, "", "\"}"));
    }
    let n = number("/picture-", ".bmp").filter(|n| *n < PICTURES)?;
    object("image/bmp", picture(n))
}

/// The first one's text, with the script of these bytes.
fn document(port: u16) -> Vec<u8> {
    let mut text = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>A page of the lab</title>\n",
    );
    let host = |at: usize| format!("https://{}:{port}", HOSTS[at]);
    for n in 0..2 {
        let _ = writeln!(text, "<link rel=\"stylesheet\" href=\"{}/style-{n}.css\">", host(1));
    }
    let _ = writeln!(text, "<script src=\"{}/script-0.js\"></script>", host(1));
    for n in 1..SCRIPTS.len() {
        let _ = writeln!(text, "<script defer src=\"{}/script-{n}.js\"></script>", host(1));
    }
    text += "<link rel=\"icon\" href=\"data:,\"></head><body>\n<h1>A page of the lab</h1>\n";
    for n in 0..PICTURES {
        let (width, height) = shape(n);
        let _ = writeln!(
            text,
            "<img src=\"{}/picture-{n}.bmp\" width=\"{width}\" height=\"{height}\" alt=\"\">",
            host(2)
        );
        if n % 6 == 0 {
            text += "<p>Text between pictures, of the sort that people read.</p>\n";
        }
    }
    let _ = writeln!(text, "<link rel=\"stylesheet\" href=\"{}/style-2.css\">", host(1));
    filled(text, DOCUMENT, "<!--", "--></body></html>\n")
}

fn style(n: usize) -> String {
    format!("body {{ font: {}px sans-serif; margin: 8px }}\nimg {{ border: 0 }}\n", 14 + n)
}

/// The last one asks for data; the page's load waits for that, since the first piece is asked for while it is parsed.
fn script(n: usize) -> String {
    if n + 1 < SCRIPTS.len() {
        return format!("window.part{n} = [{n}];\n");
    }
    let mut text = String::new();
    for n in 0..DATA.len() {
        let _ = writeln!(
            text,
            "{{ const x = new XMLHttpRequest(); x.open('GET', '/data-{n}.json'); x.send(); }}"
        );
    }
    text
}

/// Text that is brought to a size.
fn filled(mut text: String, size: usize, open: &str, close: &str) -> Vec<u8> {
    text += open;
    let room = size.saturating_sub(text.len() + close.len());
    let words = (0..).flat_map(|n: usize| {
        format!("{:x} ", n.wrapping_mul(2_654_435_761) & 0xffff_ffff).into_bytes()
    });
    let mut bytes = text.into_bytes();
    bytes.extend(words.take(room));
    bytes.extend_from_slice(close.as_bytes());
    bytes
}

/// Width and height of a picture, so that its bytes are those of its place among the sizes.
fn shape(n: usize) -> (usize, usize) {
    // The sizes' quantiles, large and small in turn, as they stand on a page.
    let place = (n * 17) % PICTURES;
    let p = (place as f64 + 0.5) / PICTURES as f64;
    let bytes = MEDIAN * (SPREAD * quantile(p)).exp();
    let pixels = (bytes - HEAD as f64) / 3.0;
    let width = ((pixels * 1.5).sqrt() / 4.0).round().max(1.0) * 4.0;
    (width as usize, (pixels / width).round().max(1.0) as usize)
}

/// The normal distribution's quantile, as far as a page needs it: the logistic one, brought to its spread.
fn quantile(p: f64) -> f64 {
    (p / (1.0 - p)).ln() / 1.702
}

/// Bytes before a picture's pixels: a file's head and that of a bitmap.
const HEAD: usize = 54;

/// A picture without compression, as each browser reads it (BITMAPINFOHEADER, 24 bits a pixel, rows of whole words).
fn picture(n: usize) -> Vec<u8> {
    let (width, height) = shape(n);
    let size = HEAD + width * height * 3;
    let mut bytes = Vec::with_capacity(size);
    let word = |value: usize| (value as u32).to_le_bytes();
    bytes.extend_from_slice(b"BM");
    for value in [size, 0, HEAD, 40, width, height] {
        bytes.extend(word(value));
    }
    bytes.extend([1, 0, 24, 0]);
    for value in [0, width * height * 3, 2835, 2835, 0, 0] {
        bytes.extend(word(value));
    }
    for y in 0..height {
        for x in 0..width {
            bytes.extend([(x * 7 + n * 31) as u8, (y * 5) as u8, ((x ^ y) * 3 + n) as u8]);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(String, Object)> {
        let paths = (0..3).map(|n| format!("/style-{n}.css"));
        let paths = paths.chain((0..7).map(|n| format!("/script-{n}.js")));
        let paths = paths.chain((0..4).map(|n| format!("/data-{n}.json")));
        let paths = paths.chain((0..46).map(|n| format!("/picture-{n}.bmp")));
        paths.map(|path| (path.clone(), object(&path, 443).expect(&path))).collect()
    }

    #[test]
    fn the_page_has_sixty_objects_of_sizes_as_they_are_many_small_and_few_large() {
        let all = all();
        assert_eq!(all.len(), 60);
        let mut sizes: Vec<usize> = all.iter().map(|(_, o)| o.body.len()).collect();
        sizes.sort_unstable();
        let sum: usize = sizes.iter().sum();
        assert!((500_000..700_000).contains(&sum), "{sum}");
        assert!((4_000..8_000).contains(&sizes[30]), "the median is {}", sizes[30]);
        assert!(sizes[0] < 1_000 && sizes[59] > 40_000, "{sizes:?}");
    }

    #[test]
    fn the_document_names_each_object_but_the_data_that_its_script_asks_for() {
        let document = object("/", 5201).expect("the document");
        let text = String::from_utf8(document.body).expect("text");
        assert_eq!(text.len(), DOCUMENT);
        for (path, _) in all().iter().filter(|(path, _)| !path.contains("data")) {
            assert_eq!(text.matches(&format!(".page.test:5201{path}\"")).count(), 1, "{path}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_made_up() {
        for path in
            ["/x", "/style-3.css", "/picture-46.bmp", "/picture-01.bmp", "/script--1.js", ""]
        {
            assert_eq!(object(path, 443), None, "{path}");
        }
    }
}
