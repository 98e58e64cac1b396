//! What `quell page` measured, as JSON.

use super::measured::MeasuredPage;
use quell_model::page::{HttpVersion, PageEnd, PageLoad};
use quell_page::PageError;
use quell_page::script::Score;
use serde_json::{Value, json};
use std::path::Path;

/// All of it, with the reason where it broke off.
pub(super) fn render(
    m: &MeasuredPage,
    failed: Option<&PageError>,
    run: Option<&Path>,
) -> Result<String, serde_json::Error> {
    let pages = m.pages.iter().map(|(url, loads)| {
        let loads = loads.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        Ok(json!({ "url": url, "loads": loads }))
    });
    let value = json!({
        "browser": m.browser,
        "sandbox": !m.without_sandbox,
        "virtual_time": m.is_virtual,
        "no_jit": m.no_jit,
        "insecure": m.insecure,
        "http": m.http.map(HttpVersion::number),
        "pages": pages.collect::<Result<Vec<_>, serde_json::Error>>()?,
        "scripts": m.scripts.as_ref().map(|[with, without]| {
            json!({ "with_compiler": of_score(with), "without_compiler": of_score(without) })
        }),
        "error": failed.map(ToString::to_string),
        "run": run.map(|run| run.display().to_string()),
    });
    serde_json::to_string_pretty(&value)
}

/// A load, with its end in two keys and its sums.
fn load(load: &PageLoad) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(load)?;
    let end = match &load.end {
        PageEnd::Loaded => "loaded",
        PageEnd::TimedOut => "timed-out",
        PageEnd::Unfinished => "unfinished",
        PageEnd::Failed(_) => "failed",
        PageEnd::Answered(_) => "error-status",
    };
    value["end"] = end.into();
    value["why"] = match &load.end {
        PageEnd::Failed(_) | PageEnd::Answered(_) => load.end.why().into(),
        _ => Value::Null,
    };
    value["failed_requests"] = load.failed_requests().count().into();
    value["bytes"] = load.bytes().into();
    value["network_ms"] = load.network_ms().into();
    Ok(value)
}

fn of_score(score: &Score) -> Value {
    let kernels: serde_json::Map<String, Value> =
        score.kernels.iter().map(|(name, runs)| (name.clone(), (*runs).into())).collect();
    json!({ "runs_per_s": score.score, "kernels": kernels })
}
