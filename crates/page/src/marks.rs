//! What a page itself knows of its times: asked by a script, read from its answer.

use crate::limits::LIMITS;
use serde_json::Value;

/// Half a second after the `load` event, or at once where it does not come, tells what was painted and when. A busy browser paints later: as
/// long as a paint of text or pictures is missing it is asked again, for three seconds at most. The browser hands out times to the tenth of a millisecond.
pub(crate) const SCRIPT: &str = r#"
new Promise(done => {
  let largest = null;
  try {
    new PerformanceObserver(list => { for (const e of list.getEntries()) largest = e.startTime; })
      .observe({ type: "largest-contentful-paint", buffered: true });
  } catch (e) {}
  let looks = 0;
  const tell = () => {
    looks += 1;
    const painted = name => performance.getEntriesByName(name, "paint").length > 0;
    if (looks < 6 && !(painted("first-contentful-paint") && largest !== null)) return setTimeout(tell, 500);
    const page = performance.getEntriesByType("navigation")[0] || {};
    const paint = name => (performance.getEntriesByName(name, "paint")[0] || {}).startTime;
    done({
      now: performance.now(),
      doc: page.domContentLoadedEventEnd, load: page.loadEventEnd,
      paint: paint("first-paint"), fcp: paint("first-contentful-paint"), lcp: largest,
    });
  };
  setTimeout(tell, 500);
})
"#;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Marks {
    pub doc_ms: Option<f64>,
    pub paint_ms: Option<f64>,
    pub fcp_ms: Option<f64>,
    pub lcp_ms: Option<f64>,
    pub load_ms: Option<f64>,
}

impl Marks {
    /// Out of the answer to `Runtime.evaluate`. What has not happened is 0 or absent there; what can't have happened, as later than now, is
    /// unknown.
    pub fn of(answer: &Value) -> Self {
        let value = &answer["result"]["value"];
        let ms = |name: &str| value.get(name).and_then(Value::as_f64).filter(|ms| ms.is_finite());
        let now = ms("now").filter(|now| *now < LIMITS.longest_ms).unwrap_or(0.0);
        let at = |name: &str| ms(name).filter(|ms| *ms > 0.0 && *ms <= now);
        Self {
            doc_ms: at("doc"),
            paint_ms: at("paint"),
            fcp_ms: at("fcp"),
            lcp_ms: at("lcp"),
            load_ms: at("load"),
        }
    }

    /// The same counted from this long before.
    pub fn later(self, by_ms: f64) -> Self {
        // As finely as the browser tells.
        let later = |ms: Option<f64>| ms.map(|ms| ((ms + by_ms) * 10.0).round() / 10.0);
        match by_ms > 0.0 {
            true => Self {
                doc_ms: later(self.doc_ms),
                paint_ms: later(self.paint_ms),
                fcp_ms: later(self.fcp_ms),
                lcp_ms: later(self.lcp_ms),
                load_ms: later(self.load_ms),
            },
            false => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_has_not_happened_yet_has_no_time() {
        let value = json!({ "now": 900.0, "doc": 182.5, "load": 0, "paint": 201.0, "lcp": null });
        let marks = Marks::of(&json!({ "result": { "type": "object", "value": value } }));
        let wanted = Marks { doc_ms: Some(182.5), paint_ms: Some(201.0), ..Marks::default() };
        assert_eq!(marks, wanted);
        assert_eq!(Marks::of(&json!({ "exceptionDetails": {} })), Marks::default());
    }
    #[test]
    fn what_can_not_have_happened_is_unknown() {
        let of = |value: Value| Marks::of(&json!({ "result": { "value": value } }));
        let marks =
            of(json!({ "now": 900.0, "doc": -5e300, "load": 1e301, "paint": 900.1, "fcp": 899.9 }));
        assert_eq!(marks, Marks { fcp_ms: Some(899.9), ..Marks::default() });
        assert_eq!(of(json!({ "now": 1e301, "load": 1e300 })), Marks::default());
        assert_eq!(of(json!({ "load": 1.0 })), Marks::default(), "without a now nothing is known");
    }
}
