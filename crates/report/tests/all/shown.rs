//! What is shown of a run: table, JSON, figures and page, whatever the run is like.

use crate::common::{
    echo, figure_of, flows, home_link, on_ways, packets, page_of, picture_of, pings, run, steady,
};
use quell_model::manifest::ExpectationRecord;
use quell_model::{CellStatus, EchoStatus, Fact, Outcome, Subject, TaskRecord, When};
use quell_report::analysis::series;
use quell_report::{Results, figures, html, json, table};
use quell_store::{CellData, OutputLine, Run};
use serde_json::Value;
use std::collections::BTreeMap;

fn published(text: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("bulk".to_owned(), text.to_owned())])
}

fn table_of(run: &Run, published: &BTreeMap<String, String>) -> String {
    let text = table::render(100, &run.manifest, &Results::from(run), published);
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
    }
    text
}

#[test]
fn a_row_is_a_scenario_where_each_probe_measures_one_thing() {
    let found = table_of(&home_link(1), &published("0.6 % loss, 2.6 ms jitter"));
    let expected = "\
20261121T101503-home-link · seed 42 · guest kernel 6.1.0 · virtual time

scenario    loss   jitter    delay     delay       RTT       RTT      goodput   share   loads
                       up   up p50  down p50       p50       p99           up      up      up
          udp, %  udp, ms  udp, ms   udp, ms  ping, ms  ping, ms  tcp, Mbit/s  tcp, %  Mbit/s
─────────────────────────────────────────────────────────────────────────────────────────────
unloaded     0.0    1.000   10.500    10.000    20.500    21.000        2.400   100.0       –
bulk         5.0    1.000    231.0    10.000     241.0     241.0        0.600    25.0   1.800
  └ published: 0.6 % loss, 2.6 ms jitter
";
    assert_eq!(found, expected);
}

#[test]
fn intervals_stand_below_means_where_there_are_three_repeats() {
    let found = table_of(&home_link(3), &published("0.6 % loss"));
    // Two blocks of columns: what has no room beside stands below.
    let bulk = found.lines().zip(found.lines().skip(1)).filter(|(l, _)| l.starts_with("bulk"));
    let below: String = bulk.map(|(_, below)| below).collect();
    assert_eq!(below.matches('–').count(), 8, "an interval for each figure: {found}");
    assert_eq!(below.matches('≥').count(), 1, "300 packets are too few for a p99's: {found}");
    assert!(found.contains("too few for one of its ends"), "{found}");
    assert!(!found.contains(" -") && !found.contains('±'), "nothing reads as negative: {found}");
    assert!(found.contains("means over 3 repeats") && found.contains("3 are few"), "{found}");
    let many = table_of(&home_link(12), &BTreeMap::new());
    assert!(many.contains("12 repeats") && many.contains("95 % interval"), "{many}");
    assert!(table_of(&home_link(2), &BTreeMap::new()).contains("intervals need three"));
}

#[test]
fn a_table_fits_the_screen_that_it_is_for() {
    for (repeats, width) in [(1, 70), (1, 80), (3, 70), (3, 80), (3, 200)] {
        let run = home_link(repeats);
        let notes = published("0.6 % loss, 2.6 ms jitter, and what else others had to say of it");
        let text = table::render(width, &run.manifest, &Results::from(&run), &notes);
        for line in text.lines() {
            let columns = line.chars().count();
            assert!(columns <= width.min(100), "{columns} of {width} columns: {text}");
        }
        assert!(text.contains("0.6 % loss"), "{text}");
    }
}

#[test]
fn many_cells_with_the_same_end_are_told_in_one_line() {
    let mut run = home_link(6);
    for cell in &mut run.manifest.cells[3..] {
        cell.status = CellStatus::Planned;
    }
    let found = table_of(&run, &BTreeMap::new());
    assert_eq!(found.matches("not begun").count(), 1, "{found}");
    let all = run.manifest.cells.len();
    assert!(found.contains(&format!("{} of {all} measurements did not run", all - 3)), "{found}");
    assert!(found.contains(&format!("and {} more: not begun", all - 4)), "{found}");
}

#[test]
fn the_list_of_runs_says_how_each_stands_and_why_one_cannot_be_read() {
    let base = tempfile::tempdir().unwrap();
    assert!(table::runs(100, &quell_store::list(base.path()).unwrap()).contains("no runs"));
    let manifest = quell_model::Manifest { complete: false, ..home_link(1).manifest };
    let writer = quell_store::RunWriter::create(base.path(), manifest.clone()).unwrap();
    std::fs::create_dir(base.path().join("pictures")).unwrap();
    let found = table::runs(100, &quell_store::list(base.path()).unwrap());
    assert!(found.contains("20261121T101503-home-link  ▸ running, 0 of 6"), "{found}");
    assert!(found.contains("pictures                   ✗ unreadable"), "{found}");
    assert!(found.contains("no manifest.json"), "{found}");
    writer.finish(manifest).unwrap();
    let found = table::runs(100, &quell_store::list(base.path()).unwrap());
    assert!(found.contains("◐ partial, 0 of 6"), "the cells left no journals: {found}");
}

#[test]
fn a_row_is_a_stream_where_probes_run_together() {
    let mut data = echo("ping-cs1", pings(&[Some((20.0, 10.0)); 10]));
    data.echoes.extend(echo("udp-ef", packets(&[Some((20.0, 10.0)); 10])).echoes);
    data.flows = flows(vec![steady("down-1", 3.0, 0), steady("up-1", 1.0, 0)]).flows;
    let ways = [
        ("ping-cs1", "wan up", Some("wan down")),
        ("udp-ef", "wan up", Some("wan down")),
        ("up", "wan up", None),
        ("down", "wan down", None),
    ];
    let data = on_ways(data, &ways);
    let found = table_of(&run(vec![("fifo", "all", 0, data)]), &BTreeMap::new());
    let expected = "\
20261121T101503-home-link · seed 42 · guest kernel 6.1.0 · virtual time

scenario  stream    way       loss  jitter  jitter   delay     delay     RTT     RTT  goodput  share
                                        up     RTT  up p50  down p50     p50     p99
                                 %      ms      ms      ms        ms      ms      ms   Mbit/s      %
────────────────────────────────────────────────────────────────────────────────────────────────────
fifo      ping-cs1  –          0.0       –   0.000       –         –  30.000  30.000        –      –
          udp-ef    –          0.0   0.000       –  20.000    10.000  30.000  30.000        –      –
          down-1    wan down     –       –       –       –         –       –       –    3.000   99.7
          up-1      wan up       –       –       –       –         –       –       –    1.000   99.2
";
    assert_eq!(found, expected);
}

#[test]
fn long_and_hostile_names_keep_the_table_within_its_width() {
    let name = "\u{1b}[31m".to_owned() + &"x".repeat(300);
    let cell = |repeat| {
        let mut data = echo(&name, packets(&[Some((1e6, 1e6)), None, Some((1.0, 1.0))]));
        data.flows = steady("all", 1e5, 0);
        (name.as_str(), "probe", repeat, data)
    };
    let run = run(vec![cell(0), cell(1), cell(2)]);
    let found = table_of(&run, &BTreeMap::from([(name.clone(), "word ".repeat(90))]));
    assert!(!found.contains('\u{1b}'), "a terminal would obey it");
}

fn partial() -> Run {
    let mut run = home_link(1);
    run.manifest.complete = false;
    for (index, record) in run.manifest.cells.iter_mut().enumerate().skip(4) {
        record.status = if index == 4 { CellStatus::Partial } else { CellStatus::Planned };
        record.reason = (index == 4).then(|| "it has no end: up to 3.0 s".to_owned());
        run.cells[index] = CellData::default();
    }
    run
}

fn empty() -> Run {
    let mut run = run(vec![]);
    run.manifest.complete = false;
    run
}

#[test]
fn a_partial_run_says_so_everywhere_and_shows_what_there_is() {
    let run = partial();
    let text = table_of(&run, &BTreeMap::new());
    assert!(text.contains("PARTIAL: 2 of 6 measurements"), "{text}");
    assert!(text.contains("✗ bulk.ping.0: partial: it has no end: up to 3.0 s"), "{text}");
    assert!(text.contains("✗ bulk.tcp.0: not begun"), "{text}");
    let page = page_of(&run, &BTreeMap::new());
    let notice = page.find("Partial run").expect("a notice");
    assert!(notice < page.find("<figure").expect("figures of what there is"));
    assert!(page.contains("it has no end: up to 3.0 s"));
    let json = json::document(&run.manifest, &Results::from(&run));
    assert_eq!(json["complete"], false);
}

#[test]
fn a_run_that_is_being_written_has_its_tables_so_far_and_no_verdict_yet() {
    let mut run = partial();
    let last = run.manifest.cells.len() - 1;
    run.manifest.cells[last].status = CellStatus::Planned;
    run.cells[last] = CellData::default();
    let text = table::so_far(80, &run.manifest, &Results::from(&run));
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let cells = &run.manifest.cells;
    let count = |status| cells.iter().filter(|c| c.status == status).count();
    let (over, under_way) = (count(CellStatus::Complete), count(CellStatus::Partial));
    let standing =
        format!("so far: {over} of {} measurements over, {under_way} under way", cells.len());
    assert_eq!(text.lines().nth(1), Some(&*standing), "{text}");
    assert!(text.contains("unloaded") && !text.contains("PARTIAL"), "{text}");
    let none = table::so_far(80, &empty().manifest, &Results::from(&empty()));
    assert_eq!(none.lines().count(), 2, "{none}");
}

#[test]
fn an_empty_run_has_an_answer_for_everything() {
    let run = empty();
    assert!(table_of(&run, &BTreeMap::new()).contains("Nothing was measured."));
    let page = page_of(&run, &BTreeMap::new());
    assert!(page.contains("Nothing was measured"));
    for name in figures::NAMES {
        assert!(figure_of(&run, name.name, &[]).is_err(), "{}", name.name);
    }
}

#[test]
fn every_figure_of_full_and_partial_runs_becomes_a_picture() {
    for run in [home_link(3), partial()] {
        let mut shown = Vec::new();
        for figures::Name { name, .. } in figures::NAMES {
            let Ok(figure) = figure_of(&run, name, &[]) else { continue };
            assert!(figure.png(1.0).unwrap().starts_with(b"\x89PNG"), "{name}");
            shown.push(name);
        }
        // Neither loads pages, nor has scenarios that belong together.
        let lacks = |name: &str| name == "page-waterfall" || name.starts_with("before-after");
        let with_data = figures::NAMES.map(|n| n.name).into_iter().filter(|n| !lacks(n));
        assert_eq!(shown, with_data.collect::<Vec<_>>());
    }
}

#[test]
fn figures_say_what_they_show() {
    let run = home_link(1);
    let svg = |name: &str| picture_of(&run, name);
    assert!(svg("goodput-time").contains("Mbit/s"));
    assert!(svg("goodput-time").contains("bulk-1"));
    assert!(svg("goodput-time").contains("behind a repaired loss"), "it is said when it came");
    assert!(svg("rtt-time").contains("bulk (5 lost)"));
    assert!(svg("queue-backlog").contains("modem:wan (pfifo)"));
    assert!(svg("rtt-cdf").contains("20261121T101503-home-link"));
}

#[test]
fn flows_of_two_directions_do_not_stand_on_each_other() {
    let data = flows(vec![steady("tcp", 2.5, 0), steady("film", 2.0, 0)]);
    let one = on_ways(data.clone(), &[("tcp", "dsl up", None), ("film", "dsl up", None)]);
    let two = on_ways(data, &[("tcp", "dsl up", None), ("film", "dsl down", None)]);
    let svg = |data| picture_of(&run(vec![("s", "tcp", 0, data)]), "goodput-time");
    assert!(!svg(one).contains("dsl up"), "one panel needs no name");
    let apart = svg(two);
    assert!(apart.contains("dsl up") && apart.contains("dsl down"));
}

#[test]
fn a_flow_whose_way_nobody_knows_has_a_panel_that_says_so() {
    let data = flows(vec![steady("tcp", 2.5, 0), steady("film", 2.0, 0)]);
    let data = on_ways(data, &[("tcp", "dsl up", None)]);
    let svg = picture_of(&run(vec![("s", "tcp", 0, data)]), "goodput-time");
    assert!(svg.contains("dsl up") && svg.contains("way not known"));
}

/// A ping and a stream with one-way delays in each of two scenarios; in the second, of `answered` of 100 packets.
fn two_streams(answered: usize) -> Run {
    let all: Vec<_> = (0..100).map(|n| Some((20.0 + (n % 7) as f64, 10.0))).collect();
    let few: Vec<_> = all.iter().enumerate().map(|(n, d)| d.filter(|_| n < answered)).collect();
    let cell = |delays: &[_]| {
        let mut data = echo("tick", pings(delays));
        data.echoes.extend(echo("udp", packets(delays)).echoes);
        data
    };
    run(vec![("calm", "all", 0, cell(&all)), ("flood", "all", 0, cell(&few))])
}

#[test]
fn every_figure_names_the_streams_that_it_shows_and_shows_all_that_were_named() {
    let both = ["tick".to_owned(), "udp".to_owned()];
    for name in ["rtt-time", "rtt-scatter", "rtt-averages", "rtt-cdf", "rtt-box", "jitter-gap"] {
        let usual = picture_of(&two_streams(90), name);
        let own = if name == "jitter-gap" { "udp" } else { "tick" };
        assert!(usual.contains(own), "{name} does not say that it shows {own}");
        for stream in &both {
            let one = figure_of(&two_streams(90), name, std::slice::from_ref(stream));
            let one = one.unwrap().svg();
            let other = both.iter().find(|b| *b != stream).unwrap();
            assert!(one.contains(stream.as_str()) && !one.contains(other.as_str()), "{name}");
            let left_out = if own == "udp" { "tick" } else { "udp" };
            let says = format!("Not shown: {left_out}; --streams names some.");
            assert!(usual.contains(&says), "{name} does not say that it leaves out {left_out}");
        }
        let svg = figure_of(&two_streams(90), name, &both).unwrap().svg();
        assert!(svg.contains("tick") && svg.contains("udp"), "{name} drops a stream");
    }
}

#[test]
fn a_stream_that_a_figure_would_leave_out_is_refused_by_name() {
    let refused = |name: &str, streams: &[&str]| {
        let streams: Vec<String> = streams.iter().map(|s| (*s).to_owned()).collect();
        figure_of(&home_link(1), name, &streams).unwrap_err().to_string()
    };
    let found = refused("rtt-time", &["ping", "tcp"]);
    assert!(found.contains("can't show the stream \"tcp\"") && found.contains("ping"), "{found}");
    assert!(refused("goodput-time", &["udp"]).contains("\"udp\""));
    assert!(refused("rtt-time", &["pnig"]).contains("there are udp, ping, tcp"));
}

#[test]
fn times_of_a_minority_are_marked_in_boxes_averages_and_jitter() {
    for name in ["rtt-box", "rtt-averages", "jitter-gap"] {
        let few = picture_of(&two_streams(23), name);
        assert!(few.contains("flood *") && few.contains("flood 23.0 %"), "{name}: {few}");
        assert!(!few.contains("calm *"), "{name}");
        let most = picture_of(&two_streams(51), name);
        assert!(!most.contains(" *"), "{name}");
    }
}

#[test]
fn a_scenario_without_two_answers_to_compare_says_so_in_its_place() {
    for answered in [0, 1] {
        let svg = picture_of(&two_streams(answered), "jitter-gap");
        let says = format!("{answered} of 100 packets answered, no two to compare");
        let words: Vec<&str> = svg.split('>').filter_map(|part| part.split('<').next()).collect();
        let words: Vec<&str> = words.iter().flat_map(|words| words.split_whitespace()).collect();
        assert!(words.join(" ").contains(&says), "{words:?}");
        assert!(svg.contains(">calm<"), "the other has its line: {svg}");
    }
}

#[test]
fn a_figure_of_dots_says_when_it_shows_a_part_of_the_packets() {
    let svg = |count: usize| {
        let delays: Vec<_> = (0..count).map(|n| Some((20.0 + (n % 7) as f64, 0.0))).collect();
        let run = run(vec![("s", "voip", 0, echo("voip", pings(&delays)))]);
        picture_of(&run, "rtt-scatter")
    };
    let few = svg(100);
    assert!(few.contains("A dot for each packet") && few.contains("Stream voip"));
    let many = svg(9000);
    assert!(many.contains("of 9000 packets") && !many.contains("A dot for each packet"));
}

#[test]
fn an_unknown_figure_is_answered_with_those_that_there_are() {
    let error = figure_of(&home_link(1), "rtt-tiem", &[]).unwrap_err().to_string();
    assert!(error.contains("\"rtt-tiem\"") && error.contains("rtt-time, rtt-scatter"), "{error}");
}

#[test]
fn json_has_the_promised_keys_and_null_where_a_value_does_not_apply() {
    let run = home_link(1);
    let json = json::document(&run.manifest, &Results::from(&run));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for key in ["run", "experiment", "seed", "complete", "kernel", "results", "wall_s", "virtual_s"]
    {
        assert!(keys(&json).contains(&key.to_owned()), "{key}");
    }
    assert_eq!(json["run"], "20261121T101503-home-link");
    assert_eq!(json["seed"], 42);
    assert_eq!(json["kernel"]["backend"], "guest");
    assert_eq!(json["kernel"]["version"], "6.1.0");
    assert_eq!(json["kernel"]["virtual_time"], true);
    let rows = json["results"].as_array().unwrap();
    assert_eq!(rows.len(), 9, "three probes in two scenarios, and the load in three cells");
    let promised = [
        "scenario",
        "probe",
        "stream",
        "repeat",
        "sent",
        "received",
        "loss_ratio",
        "jitter_ms",
        "rtt_ms",
        "goodput_mbps",
        "share",
    ];
    for row in rows {
        for key in promised {
            assert!(keys(row).contains(&key.to_owned()), "{key}");
        }
    }
    let find = |scenario: &str, stream: &str| {
        rows.iter().find(|r| r["scenario"] == scenario && r["stream"] == stream).unwrap()
    };
    let ping = find("bulk", "ping");
    assert_eq!((&ping["sent"], &ping["received"]), (&Value::from(100), &Value::from(95)));
    assert_eq!(ping["loss_ratio"], 0.05);
    assert_eq!(ping["rtt_ms"]["max"], 241.0);
    for key in ["min", "mean", "p50", "p90", "p99", "max"] {
        assert!(ping["rtt_ms"][key].is_number(), "{key}");
    }
    assert!(ping["goodput_mbps"].is_null() && ping["share"].is_null());
    let tcp = find("bulk", "tcp");
    assert!((tcp["share"].as_f64().unwrap() - 0.25).abs() < 1e-4);
    assert!(tcp["sent"].is_null() && tcp["rtt_ms"].is_null() && tcp["jitter_ms"].is_null());
    assert_eq!(find("bulk", "bulk-1")["probe"], "udp", "loads are rows of their cell");
}

const HOSTILE: &str = "<script>alert('\"x\"')</script>&<img src=http://evil.example/>\u{7}";

fn hostile() -> Run {
    let mut data = echo(HOSTILE, packets(&[Some((20.0, 10.0)), None]));
    data.flows = steady(HOSTILE, 1.0, 0);
    data.queues = vec![crate::common::queue(HOSTILE, &[5, 6])];
    data.outputs =
        vec![OutputLine { task: HOSTILE.into(), stderr: false, line: HOSTILE.repeat(3) }];
    data.facts = vec![Fact::new(When::Before, Subject::Queues("x".into()), HOSTILE)];
    let mut run = run(vec![(HOSTILE, HOSTILE, 0, data)]);
    let m = &mut run.manifest;
    for text in [
        &mut m.run,
        &mut m.title,
        &mut m.experiment,
        &mut m.experiment_text,
        &mut m.started,
        &mut m.clock,
        &mut m.quell,
        &mut m.kernel.version,
        &mut m.kernel.key,
    ] {
        *text = HOSTILE.into();
    }
    m.changes = vec![HOSTILE.into()];
    for map in [&mut m.machine, &mut m.sysctls, &mut m.queues] {
        map.insert(HOSTILE.into(), HOSTILE.into());
    }
    let (claim, found) = (HOSTILE.to_owned(), HOSTILE.to_owned());
    m.expectations = vec![ExpectationRecord { claim, held: false, found }];
    let (id, host) = (HOSTILE.to_owned(), HOSTILE.to_owned());
    m.cells[0].reason = Some(HOSTILE.into());
    m.cells[0].tasks =
        vec![TaskRecord { id, host, outcome: Some(Outcome::Failed(HOSTILE.into())) }];
    run
}

#[test]
fn hostile_names_and_texts_are_only_ever_text_on_the_page() {
    let run = hostile();
    let published = BTreeMap::from([(HOSTILE.to_owned(), HOSTILE.to_owned())]);
    let page = page_of(&run, &published);
    for forbidden in ["<script>alert", "<img", "onerror=", "\u{7}"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.matches("&lt;script&gt;").count() > 20, "they are shown, as text");
}

#[test]
fn the_page_asks_nothing_of_the_network() {
    for run in [home_link(3), hostile()] {
        let page = page_of(&run, &BTreeMap::new());
        let lower = page.to_lowercase();
        for outside in ["src=\"", "href=\"http", "href=\"//", "url(\"", "@import", "<link"] {
            assert!(!lower.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"), "and a browser is told so");
    }
}

#[test]
fn the_page_opens_with_what_came_out_and_a_picture_then_tables_and_how_it_was_measured() {
    let mut run = home_link(3);
    run.manifest.expectations = vec![
        ExpectationRecord { claim: "ping.p99 > 200ms".into(), held: true, found: "241 ms".into() },
        ExpectationRecord { claim: "udp.loss = 0".into(), held: false, found: "5 %".into() },
    ];
    let published = published("about 1/4 of the link");
    let about = "What a full line does.\n\n    a ──── b";
    let given =
        html::Given { published: &published, about, swept: &[], capacities: &[], changed: &[] };
    let page = html::render(&run, &Results::from(&run), &given);
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what} is missing"));
    let order = [
        "<p id=\"conclusion\">udp.loss = 0 does not hold: 5 %.</p>",
        "<figure id=\"rtt-box\"",
        "<a href=\"#expectations\">1 of 2 expectations hold.</a>",
        "<p>What a full line does.</p>\n<pre>    a ──── b</pre>",
        "id=\"tables\"",
        "loads up",
        "id=\"expectations\"",
        "Every stream of every measurement",
        "id=\"how\"",
    ];
    for two in order.windows(2) {
        assert!(at(two[0]) < at(two[1]), "{} comes after {}", two[0], two[1]);
    }
    for shown in [
        "✓ held",
        "✗ failed",
        "1 of 2",
        "about 1/4 of the link",
        "RFC 3550",
        "duration = ",
        "width=device-width",
    ] {
        at(shown);
    }
}

#[test]
fn dots_of_many_packets_are_as_dense_as_the_packets() {
    // One of ten waits; a figure of extremes would show as many of these as of the others.
    let delays: Vec<_> =
        (0..90_000).map(|n| Some((if n % 10 == 0 { 90.0 } else { 10.0 }, 0.0))).collect();
    let run = run(vec![("s", "voip", 0, echo("voip", pings(&delays)))]);
    let delays = series::delays(&run, series::Which::Usual);
    let dots = &delays[0].streams[0].dots;
    let slow = dots.iter().filter(|(_, ms)| *ms > 50.0).count() as f64 / dots.len() as f64;
    assert!((3000..=4000).contains(&dots.len()), "{}", dots.len());
    assert!((0.08..0.12).contains(&slow), "{slow}");
}

#[test]
fn a_figure_without_data_is_refused_with_the_reason() {
    let ping = run(vec![("s", "ping", 0, echo("ping", pings(&[Some((1.0, 1.0)); 9])))]);
    for (name, why) in [
        ("tcp", "No TCP connection"),
        ("one-way", "No stream with one-way"),
        ("goodput-time", "No flows"),
    ] {
        let refused = figure_of(&ping, name, &[]).expect_err(name).to_string();
        assert!(refused.contains("would be empty") && refused.contains(why), "{refused}");
    }
    figure_of(&ping, "rtt-time", &[]).expect("it has round trips");
}

#[test]
fn totals_have_a_panel_each_way_with_the_lines_rate_and_one_of_the_ping() {
    let capacity = |scenario: &str, mbps| figures::Capacity {
        scenario: scenario.to_owned(),
        way: "dsl up".to_owned(),
        steps: vec![(0.0, mbps)],
    };
    let svg = |capacities: &[figures::Capacity]| {
        let wanted = figures::Wanted { capacities, ..figures::Wanted::default() };
        figures::figure_with(home_link(1), "totals", &wanted).expect("it has both").svg()
    };
    let alike = svg(&[capacity("unloaded", 2.5), capacity("bulk", 2.5)]);
    let rate = "rate: 2.5<";
    for said in [">dsl up<", ">Ping<", rate, "Flows: tcp, bulk-1", "Goodput of all flows (Mbit/s)"]
    {
        assert!(alike.contains(said), "{said}");
    }
    let apart = svg(&[capacity("unloaded", 2.5), capacity("bulk", 5.0)]);
    assert!(!apart.contains("rate: "), "one line for two rates would be wrong for one");
}

#[test]
fn a_part_of_the_measurement_is_shown_alone_and_at_its_own_times() {
    let wanted = figures::Wanted { span: (4.0, Some(6.0)), ..figures::Wanted::default() };
    let of =
        |name| figures::figure_with(home_link(1), name, &wanted).expect("there are data").svg();
    for name in ["rtt-time", "goodput-time", "totals"] {
        let svg = of(name);
        assert!(svg.contains(">5.0<") && !svg.contains(">3.0<"), "{name}");
    }
    let late = figures::Wanted { span: (50.0, None), ..wanted };
    let refused = figures::figure_with(home_link(1), "rtt-time", &late).expect_err("it took 10 s");
    assert!(refused.to_string().contains("would be empty"), "{refused}");
}

#[test]
fn each_panel_of_a_narrow_page_begins_at_nought() {
    let run = home_link(1);
    let usual = figures::Wanted::default();
    let narrow = |name| figures::one(&run, name, figures::PageWidth::Narrow, &usual);
    for (name, figure) in figures::NAMES.into_iter().filter_map(|n| Some((n, narrow(n)?))) {
        let svg = figure.svg();
        // Scenarios one after the other would go on to 20 s.
        assert!(!svg.contains(">18<") && !svg.contains(">20.4<"), "{}", name.name);
    }
}

#[test]
fn scenarios_that_are_named_come_in_the_order_in_which_they_are() {
    let both = ["bulk".to_owned(), "unloaded".to_owned()];
    let run = figures::only(home_link(1), &both).expect("both are there");
    let first = run.manifest.cells.iter().map(|c| &*c.id.scenario).next();
    assert_eq!((first, run.cells.len()), (Some("bulk"), 6));
    let refused =
        figures::only(run, &["flood".to_owned()]).expect_err("it is not there").to_string();
    assert!(
        refused.contains("no scenario \"flood\" in this run; there are bulk, unloaded"),
        "{refused}"
    );
}

/// Packets of which nobody can know whether they were lost: their connects were answered after the kernel had sent the SYN again, or not at all.
fn partly_unsure(answered: usize) -> Run {
    let delays: Vec<_> = (0..100).map(|i| Some((20.0 + (i % 3) as f64, 0.0))).collect();
    let mut samples = pings(&delays);
    for sample in &mut samples[answered..] {
        (sample.status, sample.rtt_ns) = (EchoStatus::Unsure, None);
    }
    run(vec![
        ("calm", "all", 0, echo("tick", samples)),
        ("calm", "all", 1, echo("tick", pings(&delays))),
    ])
}

/// As of a summary of ping or a report of mtr, which count answers and have no packets.
#[test]
fn answers_without_times_are_not_drawn_as_lost() {
    let untimed = |p: quell_model::EchoSample| quell_model::EchoSample { rtt_ns: None, ..p };
    let delays: Vec<_> = (0..100).map(|n| (n >= 3).then_some((10.0, 1.0))).collect();
    let samples = pings(&delays).into_iter().map(untimed).collect();
    let svg = picture_of(&run(vec![("mtr", "mtr", 0, echo("hop", samples))]), "rtt-averages");
    assert!(svg.contains(">3.00\u{202f}%<") && !svg.contains(">100\u{202f}%<"), "{svg}");
}

#[test]
fn averages_of_times_of_which_only_bounds_are_known_are_marked_as_bounds() {
    let svg = |run| picture_of(&run, "rtt-averages");
    let bounds = svg(partly_unsure(90));
    assert!(bounds.contains("tick ≥") && bounds.contains("tick 5.0 %"), "{bounds}");
    assert!(bounds.contains(">≥21.0<"), "the mean is at least so much: {bounds}");
    assert!(bounds.contains(">≥0\u{202f}% ≤5.00\u{202f}%<"), "the loss is between: {bounds}");
    for name in ["rtt-box", "rtt-cdf"] {
        let marked = |run| picture_of(&run, name).contains("calm 5.0 %");
        assert!(marked(partly_unsure(90)) && !marked(partly_unsure(100)), "{name}");
    }
    let exact = svg(partly_unsure(100));
    assert!(!exact.contains('≥') && !exact.contains('≤'), "{exact}");
}

#[test]
fn a_line_as_it_is_is_orange_and_what_was_done_about_it_blue_in_each_figure() {
    let cell =
        |name: &'static str, ms| (name, "ping", 0, echo("ping", pings(&[Some((ms, 1.0)); 30])));
    let mut run = run(vec![cell("bulk", 400.0), cell("bulk-shaped", 20.0)]);
    let before = |svg: &str, name: &str| {
        let (head, _) = svg.split_once(&format!(">{name}<")).expect("it is in the legend");
        let colour = head.rsplit_once("stroke=\"").expect("a sample before it").1;
        colour[..7].to_owned()
    };
    for (figure, names) in
        [("before-after", ["as it is", "shaped"]), ("rtt-cdf", ["bulk", "bulk-shaped"])]
    {
        let svg = picture_of(&run, figure);
        let colours = names.map(|name| before(&svg, name));
        assert_eq!(colours, ["#d55e00", "#0072b2"], "{figure}");
    }
    // What an experiment names belongs together, too.
    let pairs = |run: &Run| quell_report::insight::Pair::all(&run.manifest).len();
    run.manifest.cells[1].id.scenario = "cake".to_owned();
    assert_eq!(pairs(&run), 0);
    run.manifest.against.insert("cake".to_owned(), "bulk".to_owned());
    assert_eq!(pairs(&run), 1);
}
