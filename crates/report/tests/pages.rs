//! Page loads in table, JSON and page: the document's figures beside each other, and whose time they are.
#![allow(missing_docs)]

mod common;

use common::run;
use quell_model::page::{PageEnd, PageLoad};
use quell_model::{Fact, Metric, Subject, Told, When};
use quell_report::{Results, html, json, table};
use quell_store::{CellData, Run};
use serde_json::Value;
use std::collections::BTreeMap;

/// A cell with loads that took so long; none did not come.
fn cell(totals: &[Option<f64>]) -> CellData {
    let facts = totals.iter().zip(0..).map(|(load_ms, number)| {
        let load = PageLoad {
            number,
            warm: false,
            t_ns: 0,
            end: if load_ms.is_some() { PageEnd::Loaded } else { PageEnd::TimedOut },
            doc_ms: Some(180.0),
            paint_ms: Some(200.0),
            fcp_ms: Some(200.0),
            lcp_ms: None,
            load_ms: *load_ms,
            requests: Vec::new(),
        };
        let text = serde_json::to_string(&load).expect("a load is JSON");
        Fact::new(When::During, Subject::stream("page", Told::PageLoad), text)
    });
    CellData { facts: facts.collect(), ..CellData::default() }
}

fn pages() -> Run {
    run(vec![
        ("unloaded", "page", 0, cell(&[Some(480.0), Some(500.0)])),
        ("flood", "page", 0, cell(&[None])),
    ])
}

#[test]
fn the_documents_table_is_a_row_a_scenario_and_says_whose_time_it_is() {
    let run = pages();
    let expected = "\
20261121T101503-home-link · seed 42 · guest kernel 6.1.0 · virtual time

scenario     loss      page      page      page      page
                        doc     paint     total        sd
          page, %  page, ms  page, ms  page, ms  page, ms
─────────────────────────────────────────────────────────
unloaded      0.0     180.0     200.0     490.0    14.142
flood       100.0         –         –         –         –

page: the network's share of a page load; in virtual time programs, the browser too, take none

! page (flood.page.0): 1 of 1 page loads did not come to their end: its time was over
";
    assert_eq!(table::render(&run.manifest, &Results::from(&run), &BTreeMap::new()), expected);
}

#[test]
fn where_time_is_real_it_is_all_of_a_page_load() {
    let mut run = pages();
    run.manifest.kernel.virtual_time = false;
    let text = table::render(&run.manifest, &Results::from(&run), &BTreeMap::new());
    assert!(!text.contains("share"), "{text}");
}

#[test]
fn json_and_page_have_the_same_figures_and_claims_find_them_in_seconds() {
    let run = pages();
    let results = Results::from(&run);
    let text = json::render(&run.manifest, &results).expect("JSON");
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    let row = &shown["results"][0];
    assert_eq!(row["pages"]["load_ms"], 490.0);
    assert_eq!((&row["sent"], &row["received"]), (&Value::from(2), &Value::from(2)));
    assert_eq!(shown["results"][1]["loss_ratio"], 1.0);
    let page = html::render(&run, &results, &BTreeMap::new());
    assert!(page.contains("the network&#39;s share") || page.contains("the network's share"));
    let values = |metric| -> Vec<Option<(f64, f64)>> {
        results.values(metric).into_iter().map(|(_, _, value)| value).collect()
    };
    assert_eq!(values(Metric::Load), [Some((0.49, 0.49)), None]);
    assert_eq!(values(Metric::Received), [Some((2.0, 2.0)), Some((0.0, 0.0))]);
    assert_eq!(values(Metric::Loss), [Some((0.0, 0.0)), Some((1.0, 1.0))]);
}
