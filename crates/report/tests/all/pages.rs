//! Page loads in table, JSON and page: the document's figures beside each other, and whose time they are.

use crate::common::{figure_of, page_of, run};
use quell_model::page::{PageEnd, PageLoad, PageRequest};
use quell_model::{Fact, Metric, Subject, Told, When};
use quell_report::compare::{self, Comparison, MeasuredRun, Wanted};
use quell_report::figures::PageWidth;
use quell_report::{Results, json, table};
use quell_store::{CellData, Run};
use serde_json::Value;
use std::collections::BTreeMap;

/// Said of page loads in virtual time.
const SHARE: &str =
    "the network's share of a page load; in virtual time programs, the browser too, take none";

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
            moved: Vec::new(),
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
    assert_eq!(table::render(100, &run.manifest, &Results::from(&run), &BTreeMap::new()), expected);
}

/// A row for each request, of what it waited for; what a connection needed stands where it was made.
#[test]
fn a_waterfall_shows_what_each_request_waited_for() {
    let none = figure_of(&pages(), "page-waterfall", &[]).expect_err("no requests are told");
    assert!(none.to_string().contains("would be empty"), "{none}");
    let request = |url: &str, start_ms, connect_ms| PageRequest {
        url: url.into(),
        kind: "Image".into(),
        protocol: "http/1.1".into(),
        status: Some(200),
        start_ms,
        queued_ms: Some(5.0),
        dns_ms: None,
        connect_ms,
        tls_ms: None,
        wait_ms: Some(20.0),
        receive_ms: Some(10.0),
        end_ms: None,
        bytes: 1000,
        from_cache: false,
        failed: None,
    };
    let mut run = pages();
    let load = PageLoad {
        number: 0,
        warm: false,
        t_ns: 0,
        end: PageEnd::Loaded,
        doc_ms: Some(40.0),
        paint_ms: None,
        fcp_ms: None,
        lcp_ms: None,
        load_ms: Some(90.0),
        moved: Vec::new(),
        requests: vec![
            request("https://www.page.test/", 0.0, Some(10.0)),
            request("https://img.page.test/long/way/to/the/picture-with-a-name.webp", 45.0, None),
        ],
    };
    let text = serde_json::to_string(&load).expect("a load is JSON");
    let subject = Subject::stream("page", Told::PageLoad);
    run.cells[0].facts.insert(0, Fact::new(When::During, subject, text));
    let drawn = |run: &Run| {
        let figure = figure_of(run, "page-waterfall", &[]);
        figure.expect("there are requests").svg()
    };
    let svg = drawn(&run);
    let title = ">unloaded: 2 requests, all there after 90.0 ms, first of 3 loads<";
    for said in
        [title, ">queue<", ">connect<", ">wait<", ">receive<", ">www.page.test/<", ">document<"]
    {
        assert!(svg.contains(said), "{said}");
    }
    assert!(
        svg.contains("…") && !svg.contains(">DNS<"),
        "long addresses are cut, names were known"
    );
    let queues = svg.lines().filter(|l| l.starts_with("<rect") && l.contains("qf-s0"));
    assert_eq!(queues.count(), 3, "both stood in the queue; and the legend");
    let connects = svg.lines().filter(|l| l.starts_with("<rect") && l.contains("qf-s1"));
    assert_eq!(connects.count(), 2, "one made a connection; and the legend");
    assert!(words(&svg).contains(SHARE), "{svg}");
    run.manifest.kernel.virtual_time = false;
    assert!(!drawn(&run).contains("share"), "where time is real it is all of a page load");
}

/// What the words of a picture say, whatever lines they are broken into.
fn words(svg: &str) -> String {
    let texts = svg.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text.trim());
    let words = texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    words.replace("&#39;", "'")
}

#[test]
fn a_comparison_of_page_loads_says_whose_time_it_is_wherever_it_is_shown() {
    let loaded = |ms| run(vec![("unloaded", "page", 0, cell(&[Some(ms), Some(ms + 20.0)]))]);
    let said = |runs: &[Run]| {
        let results: Vec<Results> = runs.iter().map(Results::from).collect();
        let sources: Vec<MeasuredRun> =
            runs.iter().zip(&results).map(|(run, results)| MeasuredRun { run, results }).collect();
        let comparison = Comparison::of(&sources, &Wanted::default()).expect("both have loads");
        let bars =
            compare::figures::Delays::of(&comparison, (0.0, None)).figure("bar", PageWidth::Wide);
        [
            compare::text(100, &comparison, true).replace('\n', " "),
            compare::page(&comparison).replace("&#39;", "'"),
            compare::json(&comparison).to_string(),
            words(&bars.expect("there are figures").svg()),
        ]
    };
    let (one, other) = (loaded(480.0), loaded(700.0));
    for told in said(&[one.clone(), other.clone()]) {
        assert!(told.contains(SHARE), "{told}");
    }
    let real = |mut run: Run| {
        run.manifest.kernel.virtual_time = false;
        run
    };
    for told in said(&[real(one.clone()), other.clone()]) {
        assert!(told.contains("Of B: the network's share of a page load"), "{told}");
        assert!(told.contains("Of A: all of it, with the browser's own work"), "{told}");
    }
    for told in said(&[real(one), real(other)]) {
        assert!(!told.contains("share"), "{told}");
    }
}

#[test]
fn where_time_is_real_it_is_all_of_a_page_load() {
    let mut run = pages();
    run.manifest.kernel.virtual_time = false;
    let text = table::render(100, &run.manifest, &Results::from(&run), &BTreeMap::new());
    assert!(!text.contains("share"), "{text}");
}

#[test]
fn json_and_page_have_the_same_figures_and_claims_find_them_in_seconds() {
    let run = pages();
    let results = Results::from(&run);
    let text = json::document(&run.manifest, &results).to_string();
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    let row = &shown["results"][0];
    assert_eq!(row["pages"]["load_ms"], 490.0);
    assert_eq!((&row["sent"], &row["received"]), (&Value::from(2), &Value::from(2)));
    assert_eq!(shown["results"][1]["loss_ratio"], 1.0);
    let page = page_of(&run, &BTreeMap::new());
    assert!(page.contains("the network&#39;s share") || page.contains("the network's share"));
    let values = |metric| -> Vec<Option<(f64, f64)>> {
        results.values(metric).into_iter().map(|(_, _, value)| value).collect()
    };
    assert_eq!(values(Metric::Load), [Some((0.49, 0.49)), None]);
    assert_eq!(values(Metric::Received), [Some((2.0, 2.0)), Some((0.0, 0.0))]);
    assert_eq!(values(Metric::Loss), [Some((0.0, 0.0)), Some((1.0, 1.0))]);
}

/// A request that came by HTTP/2 with this status.
fn request(kind: &str, status: u16) -> PageRequest {
    PageRequest {
        url: format!("https://page.test/{status}"),
        kind: kind.into(),
        protocol: "h2".into(),
        status: Some(status),
        end_ms: Some(10.0),
        bytes: 1000,
        ..PageRequest::default()
    }
}

#[test]
fn an_error_is_no_page_and_what_a_page_misses_and_came_by_is_told() {
    let load = |number, end, load_ms, requests| PageLoad {
        number,
        warm: false,
        t_ns: 0,
        end,
        doc_ms: Some(100.0),
        paint_ms: None,
        fcp_ms: None,
        lcp_ms: None,
        load_ms,
        moved: Vec::new(),
        requests,
    };
    let loads = [
        load(
            0,
            PageEnd::Loaded,
            Some(500.0),
            vec![request("Document", 200), request("Image", 404)],
        ),
        load(1, PageEnd::Answered(503), None, vec![request("Document", 503)]),
    ];
    let facts = loads.iter().map(|load| {
        let text = serde_json::to_string(load).expect("a load is JSON");
        Fact::new(When::During, Subject::stream("page", Told::PageLoad), text)
    });
    let cell = CellData { facts: facts.collect(), ..CellData::default() };
    let run = run(vec![("unloaded", "page", 0, cell)]);
    let results = Results::from(&run);
    let text = json::document(&run.manifest, &results).to_string();
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    let pages = &shown["results"][0]["pages"];
    assert_eq!((&pages["begun"], &pages["loaded"]), (&2.into(), &1.into()));
    assert_eq!(pages["load_ms"], 500.0, "of the one that came");
    assert_eq!(pages["protocols"], serde_json::json!({ "h2": 2 }));
    assert_eq!(pages["failed_requests"], 1);
    let said = results.warnings().join("\n");
    assert!(
        said.contains("1 of 2 page loads did not come to their end: the server answered 503"),
        "{said}"
    );
    assert!(
        said.contains("1 of 2 requests of pages that came failed, as https://page.test/404: 404"),
        "{said}"
    );
    let metrics = quell_report::export::prometheus(&run.manifest, &results);
    let labels = metrics.lines().find(|line| line.starts_with("quell_pages_loaded{"));
    assert!(labels.is_some_and(|line| line.ends_with("} 1")), "{metrics}");
    for line in ["mark=\"load\"} 0.5", "mark=\"doc\"} 0.1", "quell_page_failed_requests{"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(!metrics.contains("quell_packets"), "a page is no packet: {metrics}");
}
