//! Page loads as a run: each a fact of its page's stream, `stream/ADDRESS/page-load`, as those of an experiment's probe.
//!
//! ```text
//!   https://example.org/   ──► example.org         loads with an empty cache
//!                          └─► warm example.org    those after each, where --warm asks for them: their times are not of one kind
//! ```

use super::measured::MeasuredPage;
use crate::failure::Failure;
use quell_model::page::PageLoad;
use quell_model::{Event, Fact, Subject, Told, When};
use quell_store::{About, Keep, Origin, command_line};
use quell_wire::text::printable;
use std::path::Path;
use std::time::Duration;

/// Characters of a page's address by which its loads go.
const LONGEST: usize = 100;

/// Begins the run under `base`.
pub(super) fn begin(base: &Path, m: &MeasuredPage) -> Result<Keep, Failure> {
    let about = About {
        name: "page".into(),
        // One for all, so that runs with other options are held against each other.
        scenario: "page".into(),
        title: format!("{} by {}", command_line(), m.browser),
        task: "page".into(),
        clock: "CLOCK_MONOTONIC".into(),
        // Nothing of it is random but what the browser makes so.
        seed: 1,
        window_ns: None,
        origin: Origin::Here(Duration::ZERO),
    };
    Ok(Keep::begin(base, &about)?)
}

/// A load as an event.
pub(super) fn told(url: &str, load: &PageLoad) -> Event {
    let stream = name(url, load.warm);
    let value = serde_json::to_string(load).expect("a load is JSON: numbers, texts and lists");
    Fact::new(When::During, Subject::stream(stream, Told::PageLoad), value).into()
}

/// The stream of a page's loads: as short as tables want it, and no two pages' the same.
fn name(url: &str, warm: bool) -> String {
    let url = url.strip_prefix("https://").unwrap_or(url);
    let url = printable(url.strip_suffix('/').unwrap_or(url), LONGEST);
    if warm { format!("warm {url}") } else { url }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn a_page_goes_by_its_address_and_without_tls_that_is_said() {
        assert_eq!(name("https://example.org/", false), "example.org");
        assert_eq!(name("https://example.org", true), "warm example.org");
        assert_eq!(name("http://example.org/a/", false), "http://example.org/a");
    }
}
