//! What `quell page` prints for a person, as it comes.

use crate::text::{Column, Columns, WIDEST, fitted, lines};
use quell_grade::Assessment;
use quell_model::page::{PageEnd, PageLoad, PageRequest};
use quell_page::{PageReport, ScriptSpeed};
use quell_stats::{mean, sd};
use quell_wire::text::{line, printable};
use std::collections::BTreeMap;

/// Of a browser whose compiler makes scripts less than this much faster, it may as well have none.
const SLOW: f64 = 1.5;

/// The sentences that answer, and the working of the grade.
pub(super) fn opening(m: &PageReport, width: usize) -> String {
    let mut text: String = m.opening().iter().map(|said| lines("", said, width)).collect();
    for line in m.grade.iter().flat_map(Assessment::figures) {
        text += &lines("  ", &line, width);
    }
    if text.is_empty() { text } else { text + "\n" }
}

/// What it was measured with.
pub(super) fn headline(m: &PageReport, width: usize) -> String {
    let mut text = line(&m.browser);
    if !m.sandbox {
        text += " · as root without its sandbox (--no-sandbox): load only pages that you trust";
    }
    text.push('\n');
    if m.no_jit {
        text += "scripts run without the browser's compiler (--no-jit): what is beyond \"net ms\" is more than it would be\n";
    }
    if m.insecure {
        text += "any certificate is taken (--insecure)\n";
    }
    if let Some(http) = m.http {
        text += &format!("pages are asked for by HTTP/{} alone (--http)\n", http.number());
    }
    if m.is_virtual {
        text += "virtual time: this is the network's share of a page load; programs, the browser too, take none\n";
    }
    fitted(&text, width)
}

/// Of the table of loads. What is given up first is what others of a load come close to.
fn columns(width: usize) -> Columns {
    let all = vec![
        Column::right("load", 4, 4),
        Column::left("cache", 1, 5),
        Column::right("doc ms", 10, 8).given_up(2),
        Column::right("paint ms", 10, 9).given_up(3),
        Column::right("FCP ms", 10, 8),
        Column::right("LCP ms", 10, 8),
        Column::right("total ms", 10, 9),
        Column::right("net ms", 10, 8),
        Column::right("requests", 9, 6).or("reqs"),
        Column::right("kB", 9, 8).given_up(1),
        // By as many protocols as there are.
        Column::left("by", 2, 0).at_least(10),
    ];
    Columns::fitting(all, width)
}

/// The page's name and the table's head.
pub(super) fn page_head(url: &str, width: usize) -> String {
    let (url, head) = (printable(url, width), columns(width).head());
    format!("\n{url}\n{}\n{}\n", head, "─".repeat(width))
}

/// Its times.
fn times(load: &PageLoad) -> [Option<f64>; 6] {
    [load.doc_ms, load.paint_ms, load.fcp_ms, load.lcp_ms, load.load_ms, load.network_ms()]
}

/// A load.
pub(super) fn row(load: &PageLoad, width: usize) -> String {
    let cache = if load.warm { "warm" } else { "cold" };
    let mut cells = vec![(load.number + 1).to_string(), cache.to_owned()];
    cells.extend(times(load).map(figure));
    cells.push(load.requests.len().to_string());
    cells.push(format!("{:.1}", load.bytes() as f64 / 1e3));
    cells.push(protocols(load));
    let text = fitted(&(columns(width).row(&cells) + "\n"), width);
    text + &moves(load, width) + &failures(load, width) + &end(load, width)
}

/// What of a page did not come, though the page did.
fn failures(load: &PageLoad, width: usize) -> String {
    let failed: Vec<_> = load.failed_requests().collect();
    let Some((first, trouble)) = failed.first().and_then(|r| Some((r, r.trouble()?))) else {
        return String::new();
    };
    // The page's own request stands below, with what became of it.
    if matches!(load.end, PageEnd::Failed(_)) {
        return String::new();
    }
    let as_the_first = if failed.len() == 1 { ":" } else { ", the first" };
    let said = format!(
        "{} of {} requests failed{as_the_first} {}: {}",
        failed.len(),
        load.requests.len(),
        printable(&first.url, 200),
        line(&trouble)
    );
    wrapped("     ! ", &said, width)
}

/// Where it went by itself.
fn moves(load: &PageLoad, width: usize) -> String {
    let Some(last) = load.moved.last() else { return String::new() };
    let often = match load.moved.len() {
        1 => String::new(),
        count => format!("{count} times, last "),
    };
    let which = match times(load).iter().any(Option::is_some) {
        true => ": the times are those of that page, counted from the first one's start",
        false => "",
    };
    let said = format!(
        "went on by itself (a script, or a meta refresh) {often}to {} after {:.1} ms{which}",
        printable(&last.url, 200),
        last.at_ms
    );
    wrapped("     ! ", &said, width)
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
fn end(load: &PageLoad, width: usize) -> String {
    let said = match &load.end {
        PageEnd::Loaded => return String::new(),
        PageEnd::TimedOut | PageEnd::Unfinished => {
            format!("not there when its time was over (--timeout): {}", open(load))
        }
        PageEnd::Failed(why) => match advice(why) {
            Some(advice) => format!("{}: {advice}", line(why)),
            None => line(why),
        },
        PageEnd::Answered(status) => format!(
            "the server answered {status}: what came is its page for that, which counts in no mean"
        ),
    };
    wrapped("     ✗ ", &said, width)
}

/// What a load that is not there waits for.
fn open(load: &PageLoad) -> String {
    let open = load.requests.iter().filter(|r| r.end_ms.is_none()).collect::<Vec<_>>();
    match (open.first(), load.requests.len()) {
        (Some(first), all) => {
            let url = printable(&first.url, 200);
            format!("{} of {all} requests have no end, as {url}", open.len())
        }
        (None, 0) => "the browser had asked for nothing yet".to_owned(),
        (None, _) => "all its requests have an end, but its load event did not come, as where a page stops itself".to_owned(),
    }
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
            "ERR_QUIC",
            "nothing speaks HTTP/3 there, or what does broke off; without --http 3 the browser takes what the server has",
        ),
        (
            "ERR_SSL",
            "what answers there does not speak TLS as it should; is it http: that is meant?",
        ),
        ("ERR_NAME_NOT_RESOLVED", "there is no host of this name, or no name server that knows it"),
        ("ERR_CONNECTION_REFUSED", "nobody listens there"),
        ("ERR_CONNECTION_TIMED_OUT", "nobody answers there"),
        ("ERR_ADDRESS_UNREACHABLE", "there is no way to it"),
        ("ERR_INTERNET_DISCONNECTED", "this machine has no network"),
        ("ERR_CONTENT_LENGTH_MISMATCH", "the server broke off: less came than it announced"),
        ("ERR_INCOMPLETE_CHUNKED_ENCODING", "the server broke off before the page's end"),
        ("ERR_INVALID_CHUNKED_ENCODING", "what the server sends is no HTTP"),
        ("ERR_ABORTED", "it is no page: a download, or a page without content"),
    ];
    words.into_iter().find(|(word, _)| why.contains(word)).map(|(_, advice)| advice)
}

/// Means, and what the first load waited for.
pub(super) fn page_foot(loads: &[PageLoad], waterfall: bool, width: usize) -> String {
    let mut text = String::new();
    for warm in [false, true] {
        let whole = loads.iter().filter(|l| l.warm == warm && l.end == PageEnd::Loaded);
        let whole: Vec<_> = whole.map(times).collect();
        // Of each of the times those that there are; of the fifth, how long it took, there are as many as loads.
        let of = |at: usize| whole.iter().filter_map(|times| times[at]).collect::<Vec<f64>>();
        if of(4).len() < 2 {
            continue;
        }
        let cache = if warm { "warm" } else { "cold" };
        for (name, over) in [("mean", mean as fn(&[f64]) -> Option<f64>), ("sd", sd)] {
            let mut cells = vec![name.to_owned(), cache.to_owned()];
            cells.extend((0..6).map(|at| figure(over(&of(at)))));
            text += &(columns(width).row(&cells) + "\n");
        }
    }
    if let Some(load) = loads.first().filter(|_| waterfall) {
        text += &requests(load, width);
    }
    text
}

/// The waterfall of a load: a line a request.
fn requests(load: &PageLoad, width: usize) -> String {
    /// Columns of a request's name, most and least, with the blank before it.
    const NAME: (usize, usize) = (23, 13);
    let all = vec![
        Column::right("from ms", 9, 8),
        Column::right("queue", 9, 7).given_up(3),
        Column::right("DNS", 8, 7),
        Column::right("connect", 9, 8),
        Column::right("TLS", 8, 7).given_up(1),
        Column::right("wait", 9, 7),
        Column::right("receive", 9, 8),
        Column::right("kB", 9, 8).given_up(2),
        Column::left("by", 2, 5),
    ];
    let columns = Columns::fitting(all, if width < WIDEST { width - NAME.1 } else { width });
    let room = width.saturating_sub(columns.width()).clamp(NAME.1, NAME.0) - 1;
    let mut text = format!("\n{} what\n{}\n", columns.head(), "─".repeat(width));
    for request in &load.requests {
        let PageRequest { queued_ms, dns_ms, connect_ms, tls_ms, wait_ms, receive_ms, .. } =
            request;
        let mut cells = vec![format!("{:.1}", request.start_ms)];
        let parts = [queued_ms, dns_ms, connect_ms, tls_ms, wait_ms, receive_ms];
        cells.extend(parts.map(|ms| figure(*ms)));
        cells.push(format!("{:.1}", request.bytes as f64 / 1e3));
        let by = if request.from_cache { "cache" } else { short(&request.protocol) };
        cells.push(by.to_owned());
        let what = match (request.trouble().or(request.failed.clone()), request.end_ms) {
            (Some(why), _) => line(&why),
            (None, None) => "no end".to_owned(),
            (None, Some(_)) => String::new(),
        };
        let name = name(&request.url, room.saturating_sub(what.chars().count().min(12)).max(4));
        let what = what.chars().take(22).collect::<String>();
        let row = format!("{} {}\n", columns.row(&cells), [name, what].join(" ").trim_end());
        text += &fitted(&row, width);
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
pub(super) fn closing(m: &PageReport, width: usize) -> String {
    let Some(ScriptSpeed { with_compiler: with, without_compiler: without }) = &m.scripts else {
        return String::new();
    };
    let ratio = with.score / without.score;
    let said = format!(
        "scripts: {:.0} runs/s, {:.0} without the compiler (--jitless), {ratio:.1} times fewer",
        with.score, without.score
    );
    let mut text = fitted(&format!("\n{said}\n"), width);
    if ratio < SLOW {
        text += &wrapped(
            "  ! ",
            "this browser's scripts are hardly faster than without a compiler: it has none, or may not use it. What a page takes \
             beyond \"net ms\" is the browser's own work, and no network's.",
            width,
        );
    }
    text
}

fn figure(ms: Option<f64>) -> String {
    ms.map_or("–".to_owned(), |ms| format!("{ms:.1}"))
}

/// Lines behind a mark, a column less than there are.
fn wrapped(mark: &str, said: &str, width: usize) -> String {
    lines(mark, said, width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::WIDEST;
    use quell_model::page::PageMove;

    fn request(failed: Option<&str>) -> PageRequest {
        let ms = |ms: f64| Some(ms);
        PageRequest {
            url: "https://example.org/a/picture-with-a-long-name.webp".into(),
            kind: "Image".into(),
            protocol: "h2".into(),
            status: Some(200),
            start_ms: 12_345.6,
            queued_ms: ms(1234.5),
            dns_ms: ms(123.4),
            connect_ms: ms(1234.6),
            tls_ms: ms(123.5),
            wait_ms: ms(1234.7),
            receive_ms: ms(1234.8),
            end_ms: failed.is_none().then_some(14_000.0),
            bytes: 12_345_678,
            from_cache: false,
            failed: failed.map(str::to_owned),
        }
    }

    fn load() -> PageLoad {
        let mut requests = vec![request(None), request(Some("net::ERR_CONNECTION_REFUSED"))];
        requests.extend(
            ["http/1.1", "h3"]
                .map(|protocol| PageRequest { protocol: protocol.into(), ..request(None) }),
        );
        PageLoad {
            number: 122,
            warm: false,
            t_ns: 0,
            end: PageEnd::Loaded,
            doc_ms: Some(1001.1),
            paint_ms: Some(1002.2),
            fcp_ms: Some(1003.3),
            lcp_ms: Some(11_004.4),
            load_ms: Some(12_005.5),
            moved: Vec::new(),
            requests,
        }
    }

    fn all(width: usize) -> String {
        let timed_out = PageLoad { end: PageEnd::TimedOut, ..load() };
        let loads = [load(), load(), timed_out];
        let rows: String = loads.iter().map(|load| row(load, width)).collect();
        page_head("https://example.org/", width) + &rows + &page_foot(&loads, true, width)
    }

    #[test]
    fn of_a_page_that_is_not_there_that_is_said_which_is_known() {
        let said = |requests: Vec<PageRequest>, moved: Vec<PageMove>| {
            let (doc_ms, paint_ms, fcp_ms, lcp_ms, load_ms) = (None, None, None, None, None);
            let end = PageEnd::TimedOut;
            let load = PageLoad {
                end,
                doc_ms,
                paint_ms,
                fcp_ms,
                lcp_ms,
                load_ms,
                moved,
                requests,
                ..load()
            };
            row(&load, WIDEST).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let open = PageRequest { end_ms: None, ..request(None) };
        let text = said(vec![request(None), open], Vec::new());
        assert!(text.contains("1 of 2 requests have no end, as https://example.org/"), "{text}");
        let text = said(vec![request(None)], Vec::new());
        assert!(text.contains("its load event did not come") && !text.contains("0 of"), "{text}");
        let text = said(Vec::new(), Vec::new());
        assert!(text.contains("asked for nothing") && !text.contains("0 of"), "{text}");
        let moved = PageMove { at_ms: 50.0, url: "http://a.test/x".into() };
        let text = said(Vec::new(), vec![moved]);
        assert!(text.contains("after 50.0 ms") && !text.contains("the times are"), "{text}");
    }

    #[test]
    fn in_a_pipe_the_tables_are_as_wide_as_ever() {
        let text = all(WIDEST);
        let head = "load cache    doc ms  paint ms    FCP ms    LCP ms  total ms    net ms requests       kB  by\n";
        let document = include_str!("../../../../docs/pages.md");
        assert!(document.contains(head), "docs/pages.md shows these columns");
        assert!(text.contains(head), "{text}");
        let row = " 123 cold     1001.1    1002.2    1003.3   11004.4   12005.5";
        assert!(text.contains(row), "{text}");
        let waterfall =
            "  from ms    queue     DNS  connect     TLS     wait  receive       kB  by    what\n";
        assert!(text.contains(waterfall), "{text}");
        let request = "  12345.6   1234.5   123.4   1234.6   123.5   1234.7   1234.8  12345.7  h2    …with-a-long-name.webp\n";
        assert!(text.contains(request), "{text}");
    }

    #[test]
    fn on_a_narrow_terminal_they_give_up_what_others_come_close_to_and_cut_no_figure() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let wide = words(&all(WIDEST));
        for (width, gone) in [(80, &["1002.2"][..]), (60, &["1002.2", "1001.1", "123.5"])] {
            let text = all(width);
            assert!(text.lines().all(|l| l.chars().count() <= width), "{width}: {text}");
            for figure in ["1003.3", "11004.4", "12005.5", "12345.6", "1234.7", "1234.8"] {
                assert!(words(&text).contains(&figure.to_owned()), "{figure}: {text}");
            }
            let figures = |w: &&String| w.parse::<f64>().is_ok();
            assert!(words(&text).iter().filter(figures).all(|w| wide.contains(w)), "{text}");
            assert!(gone.iter().all(|g| !words(&text).contains(&(*g).to_owned())), "{text}");
        }
    }
}
