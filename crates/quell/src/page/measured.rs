//! What `quell page` measured: its text and its JSON are made of it.

use quell_model::page::{HttpVersion, PageLoad};
use quell_page::script::Score;

/// What was measured.
pub(super) struct MeasuredPage {
    /// The browser, in its own words.
    pub browser: String,
    /// Whether it ran without its sandbox.
    pub without_sandbox: bool,
    /// Whether time is virtual.
    pub is_virtual: bool,
    /// Whether it ran without its compiler.
    pub no_jit: bool,
    /// Whether it took any certificate.
    pub insecure: bool,
    /// The version of HTTP that was asked for.
    pub http: Option<HttpVersion>,
    /// Each page with its loads.
    pub pages: Vec<(String, Vec<PageLoad>)>,
    /// How fast its scripts are: as it loaded pages, and without its compiler.
    pub scripts: Option<[Score; 2]>,
}
