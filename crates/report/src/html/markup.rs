//! How pages are written: text made harmless, lists, tables, figures, the document around them.

use quell_chart::Figure;
use std::fmt::Write;

/// A page with this title around a body: one file that needs no network. `scripts` are elements of their own, if any.
pub fn document(title: &str, body: &str, scripts: &str) -> String {
    let allowed = if scripts.is_empty() { "" } else { "script-src 'unsafe-inline'" };
    document_with(title, body, scripts, allowed, "")
}

/// The same with what its scripts are allowed beside nothing, and with styles of its own.
pub fn document_with(
    title: &str,
    body: &str,
    scripts: &str,
    allowed: &str,
    styles: &str,
) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; {allowed}\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{}{}{styles}</style>\n</head>\n<body>\n{body}{scripts}</body>\n</html>\n",
        escape(title),
        include_str!("page.css"),
        quell_chart::style_sheet()
    )
}

/// One of the page's parts, of which one is seen at a time.
pub fn tab(id: &str, content: &str) -> String {
    format!("<section class=\"tab\" id=\"{id}\">\n{content}</section>\n")
}

/// Text for HTML, in elements and in quoted attributes alike. Characters that would turn the direction of reading, or that HTML does not
/// allow, are shown by their number.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            c => quell_wire::text::put(&mut safe, c),
        }
    }
    safe
}

/// Sentences as a list; nothing of none.
pub fn list(sentences: &[String]) -> String {
    let items: String = sentences.iter().map(|s| format!("<li>{}</li>\n", escape(s))).collect();
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}

/// What is folded away until it is asked for.
pub fn details(summary: &str, content: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{content}</details>\n", escape(summary))
}

/// A table with a column for each head, `class` being that of its box.
pub fn table(
    class: &str,
    caption: &str,
    heads: &[String],
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let rows: String = rows.map(|cells| format!("<tr>{}</tr>\n", cells.concat())).collect();
    format!(
        "<div class=\"{class}\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table>\n<caption><span>{0}</span></caption>\n\
         <thead><tr>{1}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n",
        escape(caption),
        heads.concat()
    )
}

/// A table that scrolls where a screen is narrow.
pub fn scrolling(
    caption: &str,
    heads: &[String],
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    table("wide", caption, heads, rows)
}

/// The head of a column of texts.
pub fn head(text: &str) -> String {
    format!("<th scope=\"col\">{}</th>", escape(text))
}

/// The head of a column of figures; their unit, or what else is to be said of them, stands below.
pub fn head_of_figures(text: &str, unit: &str) -> String {
    let unit = if unit.is_empty() {
        String::new()
    } else {
        format!("<br><small>{}</small>", escape(unit))
    };
    format!("<th scope=\"col\" class=\"n\">{}{unit}</th>", escape(text))
}

/// The cell that names a row.
pub fn row_name(text: &str) -> String {
    format!("<th scope=\"row\">{}</th>", escape(text))
}

pub fn cell(class: &str, text: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<td{class}>{}</td>", escape(text))
}

/// A figure, and below it its interval.
pub fn figure(value: String, interval: Option<String>) -> String {
    let below = interval.map_or(String::new(), |i| format!("<br><small>{}</small>", escape(&i)));
    format!("<td class=\"n\">{}{below}</td>", escape(&value))
}

/// A figure twice, laid out for either width, unless it has one shape only and scrolls.
pub fn figure_of_both(id: &str, shows: &str, wide: &Figure, narrow: &Figure) -> String {
    let style = format!("<style>{}</style>", quell_chart::style_sheet());
    let [wide, narrow] = [wide, narrow].map(|figure| figure.svg().replacen(&style, "", 1));
    let both = wide != narrow;
    let class = if both { "wide desk" } else { "wide" };
    let label = escape(shows);
    let mut text = format!(
        "<figure id=\"{}\">\n<div class=\"{class}\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">{wide}</div>\n",
        escape(id)
    );
    if both {
        let _ = writeln!(text, "<div class=\"phone\">{narrow}</div>");
    }
    text + "</figure>\n"
}
