//! What `quell page` prints for a person, as it comes.

use super::measured::Measured;
use quell_model::page::{PageEnd, PageLoad, PageRequest};
use quell_stats::{mean, sd};
use quell_wire::text::{line, printable};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Widest line.
const WIDTH: usize = 100;

/// Of a browser whose compiler makes scripts less than this much faster, it may as well have none.
const SLOW: f64 = 1.5;

/// What it was measured with.
pub(super) fn headline(m: &Measured) -> String {
    let mut text = line(&m.browser);
    if m.without_sandbox {
        text += " · as root without its sandbox (--no-sandbox): load only pages that you trust";
    }
    text.push('\n');
    if m.no_jit {
        text += "scripts run without the browser's compiler (--no-jit): what is beyond \"net ms\" is more than it would be\n";
    }
    if m.insecure {
        text += "any certificate is taken (--insecure)\n";
    }
    if m.is_virtual {
        text += "virtual time: this is the network's share of a page load; programs, the browser too, take none\n";
    }
    text
}

/// The page's name and the table's head.
pub(super) fn page_head(url: &str) -> String {
    format!(
        "\n{}\n{:>4} {:<5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}  {}\n{}\n",
        printable(url, WIDTH),
        "load",
        "cache",
        "doc ms",
        "paint ms",
        "FCP ms",
        "LCP ms",
        "total ms",
        "net ms",
        "requests",
        "kB",
        "by",
        "─".repeat(WIDTH)
    )
}

/// A load.
pub(super) fn row(load: &PageLoad) -> String {
    let cache = if load.warm { "warm" } else { "cold" };
    let mut text = format!("{:>4} {cache:<5}", load.number + 1);
    for ms in
        [load.doc_ms, load.paint_ms, load.fcp_ms, load.lcp_ms, load.load_ms, load.network_ms()]
    {
        let _ = write!(text, " {:>9}", figure(ms));
    }
    let kb = load.bytes() as f64 / 1e3;
    let _ = writeln!(text, " {:>8} {kb:>8.1}  {}", load.requests.len(), protocols(load));
    text + &moves(load) + &end(load)
}

/// Where it went by itself.
fn moves(load: &PageLoad) -> String {
    let Some(last) = load.moved.last() else { return String::new() };
    let often = match load.moved.len() {
        1 => String::new(),
        count => format!("{count} times, last "),
    };
    let said = format!(
        "went on by itself (a script, or a meta refresh) {often}to {} after {:.1} ms: the times are those of that page, counted from the first one's start",
        printable(&last.url, 200),
        last.at_ms
    );
    wrapped("     ! ", &said)
}

/// Which protocols its answers came by, the most used first.
fn protocols(load: &PageLoad) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for request in load.requests.iter().filter(|r| !r.protocol.is_empty() && !r.from_cache) {
        *counts.entry(short(&request.protocol)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let names: Vec<String> = counts.into_iter().map(|(name, _)| line(name)).collect();
    names.join(" ")
}

/// `h1` for HTTP/1.1, as its successors are called.
fn short(protocol: &str) -> &str {
    if protocol == "http/1.1" { "h1" } else { protocol }
}

/// Why a load did not come to its end.
fn end(load: &PageLoad) -> String {
    let said = match &load.end {
        PageEnd::Loaded => return String::new(),
        PageEnd::TimedOut | PageEnd::Unfinished => {
            let open = load.requests.iter().filter(|r| r.end_ms.is_none()).collect::<Vec<_>>();
            let first = open.first().map(|r| format!(", as {}", printable(&r.url, 200)));
            format!(
                "not there when its time was over (--timeout): {} of {} requests have no end{}",
                open.len(),
                load.requests.len(),
                first.unwrap_or_default()
            )
        }
        PageEnd::Failed(why) => match advice(why) {
            Some(advice) => format!("{}: {advice}", line(why)),
            None => line(why),
        },
    };
    wrapped("     ✗ ", &said)
}

/// What a browser's word means, and what to do.
fn advice(why: &str) -> Option<&'static str> {
    let words = [
        (
            "ERR_CERT_AUTHORITY_INVALID",
            "nobody whom the browser knows vouches for the certificate; --insecure takes it all the same",
        ),
        ("ERR_CERT_COMMON_NAME_INVALID", "the certificate is one of another name"),
        (
            "ERR_CERT_DATE_INVALID",
            "the certificate is too old or too young; is this machine's clock right?",
        ),
        ("ERR_CERT", "the certificate is not valid"),
        (
            "ERR_SSL",
            "what answers there does not speak TLS as it should; is it http: that is meant?",
        ),
        ("ERR_NAME_NOT_RESOLVED", "there is no host of this name, or no name server that knows it"),
        ("ERR_CONNECTION_REFUSED", "nobody listens there"),
        ("ERR_CONNECTION_TIMED_OUT", "nobody answers there"),
        ("ERR_ADDRESS_UNREACHABLE", "there is no way to it"),
        ("ERR_INTERNET_DISCONNECTED", "this machine has no network"),
        ("ERR_ABORTED", "it is no page: a download, or a page without content"),
    ];
    words.into_iter().find(|(word, _)| why.contains(word)).map(|(_, advice)| advice)
}

/// Means, and what the first load waited for.
pub(super) fn page_foot(loads: &[PageLoad], waterfall: bool) -> String {
    let mut text = String::new();
    for warm in [false, true] {
        let of = |ms: fn(&PageLoad) -> Option<f64>| {
            let whole = loads.iter().filter(|l| l.warm == warm && l.end == PageEnd::Loaded);
            whole.filter_map(ms).collect::<Vec<f64>>()
        };
        if of(|l| l.load_ms).len() < 2 {
            continue;
        }
        let cache = if warm { "warm" } else { "cold" };
        for (name, over) in [("mean", mean as fn(&[f64]) -> Option<f64>), ("sd", sd)] {
            let _ = write!(text, "{name:>4} {cache:<5}");
            for ms in [
                of(|l| l.doc_ms),
                of(|l| l.paint_ms),
                of(|l| l.fcp_ms),
                of(|l| l.lcp_ms),
                of(|l| l.load_ms),
                of(|l| l.network_ms()),
            ] {
                let _ = write!(text, " {:>9}", figure(over(&ms)));
            }
            text.push('\n');
        }
    }
    if let Some(load) = loads.first().filter(|_| waterfall) {
        text += &requests(load);
    }
    text
}

/// The waterfall of a load: a line a request.
fn requests(load: &PageLoad) -> String {
    let mut text = format!(
        "\n{:>9} {:>8} {:>7} {:>8} {:>7} {:>8} {:>8} {:>8}  {:<5} what\n{}\n",
        "from ms",
        "queue",
        "DNS",
        "connect",
        "TLS",
        "wait",
        "receive",
        "kB",
        "by",
        "─".repeat(WIDTH)
    );
    for request in &load.requests {
        let PageRequest { queued_ms, dns_ms, connect_ms, tls_ms, wait_ms, receive_ms, .. } =
            request;
        let _ = write!(text, "{:>9.1}", request.start_ms);
        let parts = [
            (queued_ms, 8),
            (dns_ms, 7),
            (connect_ms, 8),
            (tls_ms, 7),
            (wait_ms, 8),
            (receive_ms, 8),
        ];
        for (ms, width) in parts {
            let _ = write!(text, " {:>width$}", figure(*ms));
        }
        let kb = request.bytes as f64 / 1e3;
        let by = if request.from_cache { "cache" } else { short(&request.protocol) };
        let what = match (&request.failed, request.end_ms) {
            (Some(why), _) => line(why),
            (None, None) => "no end".to_owned(),
            (None, Some(_)) => String::new(),
        };
        let name = name(&request.url, 22 - what.chars().count().min(12));
        let what = what.chars().take(22).collect::<String>();
        let _ = writeln!(text, " {kb:>8.1}  {by:<5} {}", [name, what].join(" ").trim_end());
    }
    text
}

/// The end of an address, which tells it from its neighbours.
fn name(url: &str, most: usize) -> String {
    let url = line(url);
    let path = url.split('?').next().unwrap_or_default().trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or_default();
    let count = last.chars().count();
    match count > most {
        true => format!("…{}", last.chars().skip(count + 1 - most).collect::<String>()),
        false => last.to_owned(),
    }
}

/// How fast scripts are, and what that says.
pub(super) fn closing(m: &Measured) -> String {
    let Some([with, without]) = &m.scripts else { return String::new() };
    let ratio = with.score / without.score;
    let said = format!(
        "scripts: {:.0} runs/s, {:.0} without the compiler (--jitless), {ratio:.1} times fewer",
        with.score, without.score
    );
    let mut text = format!("\n{said}\n");
    if ratio < SLOW {
        text += &wrapped(
            "  ! ",
            "this browser's scripts are hardly faster than without a compiler: it has none, or may not use it. What a page takes \
             beyond \"net ms\" is the browser's own work, and no network's.",
        );
    }
    text
}

fn figure(ms: Option<f64>) -> String {
    ms.map_or("–".to_owned(), |ms| format!("{ms:.1}"))
}

/// Lines of at most 100 columns behind a mark.
fn wrapped(mark: &str, said: &str) -> String {
    let indent = mark.chars().count();
    let mut text = String::new();
    let mut current = mark.to_owned();
    let mut room = WIDTH - indent;
    for word in said.split(' ') {
        let length = word.chars().count() + 1;
        if length > room && room < WIDTH - indent {
            text += current.trim_end();
            text.push('\n');
            (current, room) = (" ".repeat(indent), WIDTH - indent);
        }
        current += word;
        current.push(' ');
        room = room.saturating_sub(length);
    }
    text + current.trim_end() + "\n"
}
