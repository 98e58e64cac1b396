//! Whose file it is: by the names that only one program writes. A file that breaks off has them too.

use crate::imported::Tool;

/// The program that writes such files; none where no known one does.
pub(crate) fn tool(text: &str) -> Option<Tool> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    if has("round_trips") || has("system_info") && has("stats") {
        Some(Tool::Irtt)
    } else if has("raw_values") || has("x_values") || has("metadata") && has("results") {
        Some(Tool::Flent)
    } else if has("intervals") || has("start") || has("event") && has("data") {
        Some(Tool::Iperf3)
    } else {
        None
    }
}
