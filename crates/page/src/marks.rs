//! What a page itself knows of its times: asked by a script, read from its answer.

use serde_json::Value;

/// Half a second after the `load` event, or at once where it does not come, tells what was painted and when. The browser hands out times to
/// the tenth of a millisecond.
pub(crate) const SCRIPT: &str = r#"
new Promise(done => {
  let largest = null;
  try {
    new PerformanceObserver(list => { for (const e of list.getEntries()) largest = e.startTime; })
      .observe({ type: "largest-contentful-paint", buffered: true });
  } catch (e) {}
  const tell = () => {
    const page = performance.getEntriesByType("navigation")[0] || {};
    const paint = name => (performance.getEntriesByName(name, "paint")[0] || {}).startTime;
    done({
      doc: page.domContentLoadedEventEnd, load: page.loadEventEnd,
      paint: paint("first-paint"), fcp: paint("first-contentful-paint"), lcp: largest,
    });
  };
  setTimeout(tell, 500);
})
"#;

/// A page's times, in milliseconds from its start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Marks {
    pub doc_ms: Option<f64>,
    pub paint_ms: Option<f64>,
    pub fcp_ms: Option<f64>,
    pub lcp_ms: Option<f64>,
    pub load_ms: Option<f64>,
}

impl Marks {
    /// Out of the answer to `Runtime.evaluate`. What has not happened is 0 or absent there.
    pub fn of(answer: &Value) -> Self {
        let value = &answer["result"]["value"];
        let at = |name: &str| {
            value.get(name).and_then(Value::as_f64).filter(|ms| ms.is_finite() && *ms > 0.0)
        };
        Self {
            doc_ms: at("doc"),
            paint_ms: at("paint"),
            fcp_ms: at("fcp"),
            lcp_ms: at("lcp"),
            load_ms: at("load"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_has_not_happened_yet_has_no_time() {
        let value = json!({ "doc": 182.5, "load": 0, "paint": 201.0, "lcp": null });
        let marks = Marks::of(&json!({ "result": { "type": "object", "value": value } }));
        let wanted = Marks { doc_ms: Some(182.5), paint_ms: Some(201.0), ..Marks::default() };
        assert_eq!(marks, wanted);
        assert_eq!(Marks::of(&json!({ "exceptionDetails": {} })), Marks::default());
    }
}
