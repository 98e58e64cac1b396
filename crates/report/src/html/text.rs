//! Text that came from elsewhere, made harmless in HTML.

/// Text for HTML, in elements and in quoted attributes alike. Characters that would turn
/// the direction of reading, or that HTML does not allow, are shown by their number.
pub(crate) fn escape(text: &str) -> String {
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
