//! How fast a browser's scripts are: a fixed set of small kernels, so that a slow browser is not taken for a slow network.
//!
//! ```text
//!   numbers   strings   objects   sorting   typed arrays   regular expressions
//!       each over and over for 150 ms ──► runs a second in its fastest 5 ms ──► their geometric mean: the score
//! ```
//!
//! What else runs on a machine makes stretches slower and none faster, so that the fastest tells of the browser.
//!
//! With its compiler and without (`--jitless`): a browser that has none, or may not use it, scores like the second.

use crate::PageError;
use crate::browser::{Browser, BrowserOptions};
use crate::limits::LIMITS;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::Bell;
use serde_json::Value;

/// The kernels. Each gives a number that depends on all that it did, so that nothing can be left out. Changed kernels are another score.
const SCRIPT: &str = r#"
(() => {
  const kernels = {
    numbers() { let x = 1, s = 0; for (let i = 1; i < 20000; i++) { x = (x * 16807) % 2147483647; s += Math.sqrt(x) / i; } return s; },
    strings() { let s = "", n = 0; for (let i = 0; i < 1500; i++) { s += String.fromCharCode(97 + i % 26); n += s.indexOf("z", i - 20); } return n + s.split("a").length; },
    objects() { let list = null, n = 0; for (let i = 0; i < 3000; i++) list = { value: i, next: list, name: "n" + i % 10 }; for (let p = list; p; p = p.next) n += p.value + p.name.length; return n; },
    sorting() { const a = []; let x = 7; for (let i = 0; i < 1000; i++) { x = (x * 48271) % 2147483647; a.push(x); } a.sort((p, q) => p - q); return a[500]; },
    arrays() { const a = new Float64Array(4096); for (let i = 0; i < a.length; i++) a[i] = i; for (let r = 0; r < 8; r++) for (let i = 1; i < a.length - 1; i++) a[i] = (a[i - 1] + a[i] + a[i + 1]) / 3; return a[2048]; },
    words() { const text = "the quick brown fox jumps over the lazy dog 1234 ".repeat(20); let n = 0; for (const m of text.matchAll(/([a-z]+) (\w+)/g)) n += m[1].length; return n + text.replace(/o(.)/g, "$1o").length; },
  };
  const runs = {};
  for (const [name, kernel] of Object.entries(kernels)) {
    for (let i = 0; i < 20; i++) kernel();
    const end = performance.now() + 150;
    let best = 0;
    for (let begun = performance.now(); begun < end; begun = performance.now()) {
      let count = 0, took = 0;
      do { kernel(); count++; took = performance.now() - begun; } while (took < 5 && count < 1e6);
      if (took > 0) best = Math.max(best, count * 1000 / took);
    }
    runs[name] = best;
  }
  return runs;
})()
"#;

#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// The geometric mean of the runs a second.
    pub score: f64,
    pub kernels: Vec<(String, f64)>,
}

pub fn score(options: &BrowserOptions, stop: &Bell) -> Result<Score, PageError> {
    let options = BrowserOptions { compiles_at_once: true, ..options.clone() };
    let mut browser = Browser::start(&options, stop)?;
    let deadline_ns = monotonic_ns().saturating_add(LIMITS.scripts_ns);
    let runs = browser.evaluate(SCRIPT, deadline_ns, stop)?;
    Score::of(&runs).ok_or_else(|| PageError::Nonsense("kernels without runs".into()))
}

impl Score {
    fn of(runs: &Value) -> Option<Self> {
        let runs = runs.as_object()?.iter();
        let kernels: Vec<(String, f64)> =
            runs.map(|(name, runs)| Some((name.clone(), runs.as_f64()?))).collect::<Option<_>>()?;
        let fine = !kernels.is_empty() && kernels.iter().all(|(_, n)| n.is_finite() && *n > 0.0);
        let logs: f64 = kernels.iter().map(|(_, n)| n.ln()).sum();
        fine.then(|| Self { score: (logs / kernels.len() as f64).exp(), kernels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_score_is_the_geometric_mean_and_a_kernel_without_runs_gives_none() {
        let score = Score::of(&json!({ "a": 100.0, "b": 400.0 })).expect("two kernels");
        assert!((score.score - 200.0).abs() < 1e-9, "{score:?}");
        for bad in [json!({}), json!({ "a": 0 }), json!({ "a": "x" }), json!(3)] {
            assert_eq!(Score::of(&bad), None, "{bad}");
        }
    }
}
