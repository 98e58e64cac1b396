//! The page of `quell serve --web` in Chromium. Where Chromium is not installed these stories are left out, which is said.
//!
//! ```text
//!   loopback   the page as a person meets it: pressed, read, kept, forgotten; its secret; how it looks
//!   the lab    a line that is known: what the page says of it is compared with what it is
//! ```

use crate::browser::lacks_chromium;
use crate::browser::looks::{is_fine_on_every_screen, is_quiet};
use crate::browser::tab::Tab;
use crate::server::Served;
use crate::support::{Said, TestFolder, program, said};
use quell_page::browser::BrowserOptions;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

fn number(result: &Value, key: &str) -> f64 {
    result[key].as_f64().unwrap_or_else(|| panic!("{key} in {result}"))
}

/// What a command tells as JSON.
#[track_caller]
fn told(asked: &Said) -> Value {
    println!("{:?}: {}{}", asked.code, asked.out, asked.error);
    assert_eq!((asked.code, &*asked.error), (Some(0), ""));
    serde_json::from_str(&asked.out).expect("it is JSON")
}

/// When the page can be used.
const READY: &str = "document.body.dataset.state === 'ready'";

/// A tab with the page of this address, ready.
fn opened(url: &str, size: (u32, u32)) -> Tab {
    opened_with(url, size, &BrowserOptions::default())
}

fn opened_with(url: &str, size: (u32, u32), options: &BrowserOptions) -> Tab {
    let mut tab = Tab::new(size, options);
    tab.go(url, READY);
    tab
}

/// When the page had its first content, in milliseconds from when it was asked for.
const PAINTED: &str = "new Promise(done => new PerformanceObserver(list => {
    const all = list.getEntriesByName('first-contentful-paint');
    if (all.length) done(all[0].startTime);
}).observe({ type: 'paint', buffered: true }))";

#[test]
fn a_person_presses_one_button_and_is_told_what_the_line_does() {
    if lacks_chromium() {
        return;
    }
    let served = Served::new(&["--web", "--max-rate", "50Mbit"]);
    let at = format!("http://{}/", served.at);
    let mut tab = opened(&at, (1280, 900));
    println!("first contentful paint: {} ms", tab.value(PAINTED));
    tab.keep_picture("ready-light-1280");
    let result = tab.measure();
    println!("{result:#}");
    // No more than 50 Mbit/s of payload, in both directions together and so in each; how much less depends on who else has the CPUs.
    for way in ["down", "up"] {
        assert!((0.1..52.5).contains(&number(&result, way)), "{way}");
    }
    assert!(number(&result, "rpm") > 0.0 && number(&result, "fresh") > 0.0);
    // The log says what was measured, and nothing of the connections that a browser opens to spare.
    let measured = served.event("measured", "down_mbit");
    assert_eq!(measured["down_mbit"], result["down"], "{measured}");
    let head = tab.text("#verdict-head");
    let says = format!("{}: {head}", tab.text("#grade"));
    assert!(
        says.starts_with(measured["what"].as_str().expect("words").trim_end_matches('…')),
        "{says}"
    );
    assert!(head.contains(" beside a full "), "{head}");
    for (of, many) in [("#uses li", 3), ("#history tbody tr", 1)] {
        assert_eq!(tab.value(&format!("document.querySelectorAll('{of}').length")), many, "{of}");
    }
    // A bad line's page as well: what mends it, and what is passed on.
    tab.run("document.getElementById('advice').hidden = false");
    is_fine_on_every_screen(&mut tab, "done");
    tab.run("document.getElementById('share-picture').click()");
    tab.until("document.getElementById('status').textContent === 'The picture is saved.'");
    tab.run("document.getElementById('share-link').click()");
    let link = tab.value("document.getElementById('link').value");
    let link = link.as_str().expect("a link").to_owned();
    tab.run("document.getElementById('clear').click()");
    tab.until("document.querySelectorAll('#history tbody tr').length === 0");
    assert_eq!(tab.value("localStorage.getItem('quell-history')"), Value::Null);
    let others =
        "performance.getEntriesByType('resource').every(e => e.name.startsWith(location.origin))";
    assert_eq!(tab.value(others), true, "no other host was asked");
    // Who opens the link sees the same figures; what is no result is none.
    let mut theirs = opened(&link, (390, 800));
    theirs.until("document.getElementById('status').textContent.startsWith('Shared: measured ')");
    assert_eq!(theirs.text("#verdict-head"), head);
    assert_eq!(theirs.text("#down"), tab.text("#down"));
    let mut broken = opened(&format!("{at}#r=bm9uc2Vuc2U"), (390, 800));
    broken.until("document.getElementById('status').textContent === 'Ready.'");
}

#[test]
fn the_page_grades_a_line_as_the_commands_do() {
    use quell_grade::{Assessment, LEAST_SAMPLES, LoadedDelay, REQUIREMENTS};
    if lacks_chromium() {
        return;
    }
    let measured = |added_ms: f64, loss: f64, samples: usize| LoadedDelay {
        idle_ms: 20.0,
        p50_ms: 20.0 + added_ms / 2.0,
        p95_ms: 20.0 + added_ms,
        loss,
        least_loss: loss,
        jitter_ms: None,
        samples,
        load: "beside a full upload".into(),
        connections: 3,
        seconds: 6.0,
    };
    let added =
        [-5.0, 0.3, 5.26, 9.97, 14.2, 30.0, 59.9, 60.0, 200.0, 399.0, 400.0, 1000.0, 2345.6];
    let losses = [0.0, 0.0002, 0.009, 0.01, 0.02, 0.05, 0.1, 1.0];
    let mut table: Vec<LoadedDelay> = added
        .iter()
        .flat_map(|added| losses.map(|loss| measured(*added, loss, LEAST_SAMPLES)))
        .collect();
    table.push(measured(5.0, 0.0, LEAST_SAMPLES - 1));
    let inputs: Vec<Value> = table
        .iter()
        .map(|m| {
            json!({ "idle": m.idle_ms, "p50": m.p50_ms, "p95": m.p95_ms, "loss": m.loss, "samples": m.samples, "load": m.load })
        })
        .collect();
    let rule = json!({ "uses": REQUIREMENTS, "least_samples": LEAST_SAMPLES });
    let served = Served::new(&["--web"]);
    let mut tab = opened(&format!("http://{}/", served.at), (390, 800));
    let script = format!(
        "import('/figures.js').then(({{ assess }}) => {}.map(one => assess(one, {rule})))",
        Value::from(inputs)
    );
    let page = tab.value(&script);
    for (line, page) in table.iter().zip(page.as_array().expect("a list")) {
        let command = Assessment::of(line);
        let Some(command) = command else {
            assert!(page.is_null(), "{line:?}: {page}");
            continue;
        };
        let command = serde_json::to_value(command).expect("JSON");
        for (ours, theirs) in [("grade", "grade"), ("sentence", "sentence")] {
            assert_eq!(page[theirs], command[ours], "{line:?}");
        }
        for (page, command) in page["uses"]
            .as_array()
            .expect("a list")
            .iter()
            .zip(command["uses"].as_array().expect("a list"))
        {
            assert_eq!((&page["use"], &page["outcome"]), (&command["use"], &command["outcome"]));
            let cost = |one: &Value, key: &str| one[key].as_f64().expect("a number");
            assert!((cost(page, "cost") - cost(command, "cost_ms")).abs() < 1e-9, "{line:?}");
        }
    }
}

/// The focus is at something, and can be seen: an outline of two pixels at least, in a colour that is not the ground's.
const FOCUS: &str = "(() => {
    const e = document.activeElement;
    if (!e || e === document.body) return null;
    const [style, ground] = [getComputedStyle(e), getComputedStyle(document.body).backgroundColor];
    const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 && style.outlineColor !== ground;
    const box = e.getBoundingClientRect();
    const inside = box.top < innerHeight && box.bottom > 0;
    return { name: e.id || e.textContent.trim().slice(0, 20), seen: seen && inside };
})()";

/// Presses Tab until the focus is at this; it can be seen wherever it is on the way.
#[track_caller]
fn tab_to(tab: &mut Tab, name: &str) {
    let mut passed = Vec::new();
    for _ in 0..20 {
        tab.key("Tab");
        let focus = tab.value(FOCUS);
        if focus.is_null() {
            continue;
        }
        assert_eq!(focus["seen"], true, "the focus is to be seen: {focus}");
        passed.push(focus["name"].clone());
        if focus["name"] == name {
            return;
        }
    }
    panic!("no Tab leads to {name}: {passed:?}");
}

#[test]
fn without_a_mouse_a_measurement_is_begun_watched_stopped_begun_again_and_forgotten() {
    if lacks_chromium() {
        return;
    }
    let served = Served::new(&["--web", "--max-rate", "50Mbit"]);
    let at = format!("http://{}/", served.at);
    let mut tab = Tab::new((390, 800), &BrowserOptions::default());
    tab.listen();
    tab.go(&at, READY);
    let state = "document.body.dataset.state";
    tab_to(&mut tab, "start");
    tab.keep_picture("focus-light-390");
    tab.looks(390, 800, "dark");
    tab.keep_picture("focus-dark-390");
    tab.key("Enter");
    assert_eq!(tab.value(state), "running");
    tab_to(&mut tab, "stop");
    tab.key("Enter");
    tab.until("document.body.dataset.state === 'failed'");
    assert_eq!(tab.text("#status"), "Stopped.");
    // What had the focus is gone: it is where one goes on.
    assert_eq!(tab.value("document.activeElement.id"), "start");
    assert_eq!(tab.value(FOCUS)["seen"], true);

    // What is drawn while it measures is kept: dots and points of lines at each change of the picture.
    tab.run(
        "window.drawn = [];
         const points = (line) => document.querySelector(`#picture polyline.${line}`)?.points.numberOfItems ?? 0;
         new MutationObserver(() => {
             if (document.body.dataset.state !== 'running') return;
             drawn.push([document.querySelectorAll('#picture circle.dot').length, points('down'), points('up')]);
         }).observe(document.getElementById('picture'), { childList: true })",
    );
    tab.key("Enter");
    for line in ["down", "up"] {
        tab.until(&format!("document.querySelector('#picture polyline.{line}')"));
        tab.keep_picture(&format!("live-{line}-dark-390"));
    }
    assert_eq!(tab.value("document.getElementById('progress').hidden"), false, "how long it takes");
    tab.until("document.body.dataset.state === 'done'");
    println!("{}", tab.value("drawn"));
    // A browser that has no CPU for a second draws what came in it at once.
    for what in 0..3 {
        let steps = tab.value(&format!("new Set(drawn.map(one => one[{what}])).size"));
        assert!(steps.as_u64() > Some(1), "it grows while it measures");
    }
    assert!(tab.text("#down").parse::<f64>().is_ok_and(|rate| rate > 0.0), "{}", tab.text("#down"));
    assert_eq!(tab.value("document.activeElement.id"), "start");
    // All that is below can be reached and used as well.
    tab_to(&mut tab, "What the words mean");
    tab.key("Enter");
    tab.until("document.activeElement.parentElement.open");
    tab_to(&mut tab, "clear");
    tab.key("Enter");
    tab.until("document.querySelectorAll('#history tbody tr').length === 0");
    assert_eq!(tab.value("document.activeElement.id"), "start");
    is_quiet(&mut tab, &at);
}

#[test]
fn behind_one_address_a_page_too_many_says_so_and_begins_by_itself() {
    if lacks_chromium() {
        return;
    }
    let served = Served::new(&["--web", "--max-rate", "200Mbit", "--max-tests-per-client", "1"]);
    let mut tab = opened(&format!("http://{}/", served.at), (1280, 900));
    tab.run(
        "const status = document.getElementById('status');
         window.said = [];
         new MutationObserver(() => said.push([performance.now(), status.textContent]))
             .observe(status, { childList: true })",
    );
    // The one place of this address is a flow's, as long as its data flows.
    let at = served.at.to_string();
    let mut other = program(&["flow", &at, "-t", "600", "--no-latency"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    served.event("began", "quell");
    tab.run("said.length = 0; document.getElementById('start').click()");
    tab.until("document.getElementById('status').textContent.includes('It asks again in')");
    other.kill().and_then(|()| other.wait()).expect("it was there");
    // Nobody presses anything.
    tab.until("said.some(([, text]) => text.includes('idle line')) || document.body.dataset.state === 'failed'");
    assert_eq!(tab.value("document.body.dataset.state"), "running");
    let said = tab.value("said");
    let said = said.as_array().expect("what it said, and when");
    let when = |word: &str| {
        let of = |one: &&Value| one[1].as_str().is_some_and(|text| text.contains(word));
        said.iter().find(of).and_then(|one| one[0].as_f64()).expect(word)
    };
    let waited = when("idle line") - when("It asks again in 5 seconds");
    assert!((4900.0..60_000.0).contains(&waited), "it waited {waited} ms: {said:?}");
    // Until it began nothing else was said: the page's own greeting comes late.
    let texts: Vec<_> = said.iter().filter_map(|one| one[1].as_str()).collect();
    let known = ["Asking", "Busy"];
    assert!(texts.iter().all(|text| known.iter().any(|word| text.starts_with(word))), "{texts:?}");
    tab.run("document.getElementById('stop').click()");
}

#[test]
fn a_secret_is_asked_for_and_does_not_travel_and_the_command_lines_figures_stand_in_the_history() {
    if lacks_chromium() {
        return;
    }
    const SECRET: &str = "correct horse battery staple";
    let folder = TestFolder::new();
    folder.write("key", SECRET);
    let key = folder.path("key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    let key = key.to_str().expect("a plain name");
    let served = Served::new(&["--web", "--secret-file", key]);
    let at = served.at.to_string();
    let flow = ["flow", &at, "-t", "1", "--web", "--secret-file", key];
    let told = said(program(&flow), &flow).fine();
    assert!(told.contains(&format!("sent to the page at http://{at}/")), "{told}");

    let mut tab = opened(&format!("http://{at}/"), (390, 800));
    tab.until("!document.getElementById('ask').hidden");
    assert_eq!(tab.value("document.getElementById('start').disabled"), true);
    let try_it = |tab: &mut Tab, secret: &str| {
        tab.run(&format!("document.getElementById('secret').value = '{secret}'"));
        tab.run("document.getElementById('ask').requestSubmit()");
    };
    try_it(&mut tab, "correct horse battery stable");
    tab.until("document.getElementById('status').textContent.includes('hat is not the secret')");
    tab.keep_picture("secret-light-390");
    try_it(&mut tab, SECRET);
    tab.until("!document.getElementById('start').disabled");
    tab.until("document.querySelectorAll('#history tbody tr').length === 1");
    let row = tab.text("#history tbody tr");
    assert!(row.contains("the command line: TCP, up"), "{row}");
}

#[test]
#[ignore = "it is started in the lab by the next, beside a server"]
fn the_page_on_a_line_of_the_lab() {
    let Ok(server) = std::env::var("QUELL_WEB_SERVER") else { return };
    let options = BrowserOptions { is_virtual: true, ..BrowserOptions::default() };
    let mut tab = opened_with(&format!("http://{server}:5201/"), (390, 800), &options);
    let result = tab.measure();
    tab.keep_picture("bad-line-light-390");
    tab.looks(390, 800, "dark");
    tab.keep_picture("bad-line-dark-390");
    println!("result: {result}");
    println!("verdict: {} | {}", tab.text("#verdict-head"), tab.text("#plan"));
}

#[test]
fn on_a_known_line_the_page_tells_its_rates_and_the_length_of_its_queues() {
    if lacks_chromium() {
        return;
    }
    // The modem's line carries 2.5 Mbit/s up and 8 down; each way 100 packets wait in it, 0.48 s up and 0.15 s down.
    let this = std::env::current_exe().expect("it runs");
    let this = this.to_str().expect("a plain name");
    let serve = format!("server: {} serve --web --bind 0.0.0.0", env!("CARGO_BIN_EXE_quell"));
    let lab = ["lab", "exec", "home-link", "b", "--memory", "1024", "--with", &serve, "--", "env"];
    let test = ["web::the_page_on_a_line_of_the_lab", "--exact", "--ignored", "--nocapture"];
    let pictures = std::env::var("QUELL_WEB_PICTURES").map(|to| format!("QUELL_WEB_PICTURES={to}"));
    let pictures: Vec<&str> = pictures.iter().map(String::as_str).collect();
    let lab = [&lab[..], &pictures, &["QUELL_WEB_SERVER={server}", this], &test].concat();
    let done = program(&lab).output().expect("the program starts");
    let out = String::from_utf8_lossy(&done.stdout);
    let found = out.lines().find_map(|line| line.split_once("result: "));
    let (_, result) = found.unwrap_or_else(|| {
        panic!("{out}{}", String::from_utf8_lossy(&done.stderr));
    });
    let result: Value = serde_json::from_str(result).expect("it is JSON");
    println!("{out}");
    let is = |key: &str, range: std::ops::Range<f64>| {
        assert!(range.contains(&number(&result, key)), "{key} in {range:?}: {result:#}");
    };
    // What is left of a line's rate without the headers: 1448 of 1514 bytes, 7.65 and 2.39. Either end gets what came behind a lost packet
    // when that packet comes: what waited so when the six seconds began, at most the queue's 100 packets, counts too.
    is("down", 7.4..7.85);
    is("up", 2.3..2.5);
    is("idle", 20.3..22.0);
    is("downDelay", 60.0..175.0);
    is("upDelay", 250.0..515.0);
    is("rpm", 100.0..300.0);
    assert!(out.contains("calls and games break beside a full "), "{out}");
    let (up, down) = (number(&result, "up"), number(&result, "down"));
    let plan = format!("quell shape plan --dev DEVICE --line {up:.1}/{down:.1}");
    assert!(out.contains(&plan), "{plan}: {out}");
}

#[test]
fn over_tls_rpm_puts_its_probes_into_the_loaded_connections_and_believes_whom_it_is_told() {
    let served = Served::new(&["--web", "--max-rate", "50Mbit"]);
    let url = format!("https://{}", served.at);
    let refused = |arguments: &[&str]| said(program(arguments), arguments).refused(3);
    let unknown = refused(&["flow", "--rpm", &url]);
    assert!(unknown.contains("UnknownIssuer") && unknown.contains("--insecure"), "{unknown}");
    let folder = TestFolder::new();
    let asked = ["flow", "--rpm", &url, "--insecure", "--time", "6", "--json", "--save"];
    let shown = |told: &Value| -> Value {
        let run = told["run"].as_str().expect("it was kept");
        serde_json::from_str(&folder.quell(&["show", run, "--json"]).fine()).expect("JSON")
    };
    let row = |shown: &Value, stream: &str| {
        let mut all = shown["results"].as_array().expect("a list").iter();
        all.find(|row| row["stream"] == stream).unwrap_or_else(|| panic!("{shown:#}")).clone()
    };
    let told = told(&folder.quell(&asked));
    // Up, what the server's kernel took counts, and it keeps more than the server has read: this line is slow behind its end.
    for (way, most) in [("down", 56e6), ("up", 500e6)] {
        let bits = told[way]["bits_per_second"].as_f64();
        assert!(bits.is_some_and(|bits| (1e5..most).contains(&bits)), "{told:#}");
    }
    assert_eq!(told["tls"], true, "{told:#}");
    let shown = shown(&told);
    let kept = |stream: &str| row(&shown, stream);
    assert_eq!(kept("idle-connection")["sent"], 10, "{shown:#}");
    for way in ["down", "up"] {
        for (probes, stream) in [("foreign_probes", "request"), ("self_probes", "within")] {
            let counted = told[way][probes].as_u64();
            // The last may have come back when the figure was made already.
            let of_run = &kept(&format!("{way}-{stream}"))["sent"];
            assert!(of_run.as_u64() >= counted, "{probes} {counted:?}, in the run {of_run}");
        }
        assert!(told[way]["tls_ms"].as_f64() > Some(0.0), "{told:#}");
    }
    // A server that only talks plainly, and one that knows nothing of TLS.
    let plain = Served::new(&[]);
    let none = refused(&["flow", "--rpm", &format!("https://{}", plain.at), "--insecure"]);
    assert!(none.contains("no TLS with"), "{none}");
}

#[test]
fn a_server_shows_the_certificate_that_it_is_given_and_a_client_believes_its_file() {
    use base64::Engine;
    use quell_tls::identity::{Identity, Name};
    let folder = TestFolder::new();
    let pem = |kind: &str, der: &[u8]| {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
    };
    let made = Identity::new("a test", &[Name::Dns("localhost".into())], b"a test's");
    folder.write("certificate", pem("CERTIFICATE", &made.certificate));
    folder.write("key", pem("PRIVATE KEY", &made.key));
    folder.write("neither", "nothing");
    let at = |name: &str| folder.path(name).to_str().expect("a plain name").to_owned();
    let (certificate, key, neither) = (at("certificate"), at("key"), at("neither"));
    let served = Served::new(&[
        "--web",
        "--max-rate",
        "50Mbit",
        "--certificate",
        &certificate,
        "--key",
        &key,
    ]);
    let url = format!("https://localhost:{}", served.at.port());
    let asked = ["flow", "--rpm", "-4", &url, "--ca", &certificate, "--time", "4", "--json"];
    assert!(told(&said(program(&asked), &asked))["rpm"].as_f64() > Some(0.0));
    let refused = |arguments: &[&str], code| said(program(arguments), arguments).refused(code);
    let bad = refused(
        &["serve", "--web", "--port", "0", "--certificate", &certificate, "--key", &neither],
        2,
    );
    assert!(bad.contains("PEM"), "{bad}");
    let bad = refused(&["flow", "--rpm", &url, "--ca", &neither], 2);
    assert!(bad.contains("PEM"), "{bad}");
}

/// 20 ms there and back, 10 Mbit/s up and 50 down, and for each connection a queue of its own that is kept short.
const SHORT_QUEUES: &str = r#"
hosts = ["a", "server"]
routers = ["router"]

[[link]]
name = "lan"
ends = ["a", "router"]

[[link]]
name = "wan"
ends = ["router", "server"]
up   = { rate = "10Mbit", delay = "10ms", queue = "fq_codel" }
down = { rate = "50Mbit", delay = "10ms", queue = "fq_codel" }
"#;

#[test]
fn within_a_loaded_connection_a_request_waits_for_what_the_line_holds_and_not_for_what_the_ends_do()
{
    let folder = TestFolder::new();
    folder.write("line.toml", SHORT_QUEUES);
    let quell = env!("CARGO_BIN_EXE_quell");
    let serve = format!("server: {quell} serve --web --bind 0.0.0.0");
    let lab = ["lab", "exec", "line.toml", "a", "--memory", "1024", "--with", &serve, "--"];
    let rpm =
        [quell, "flow", "--rpm", "https://{server}:5201", "--insecure", "--time", "30", "--json"];
    let told: Value =
        serde_json::from_str(&folder.quell(&[&lab[..], &rpm[..]].concat()).fine()).expect("JSON");
    println!("{told:#}");
    let ms = |way: &str, what: &str| told[way][what].as_f64().expect("there is one");
    for way in ["down", "up"] {
        assert_eq!(told[way]["confidence"], "high", "{told:#}");
        // Those of their own have a queue each, and it is empty.
        for alone in ["tcp_ms", "tls_ms", "http_ms"] {
            assert!((20.0..24.0).contains(&ms(way, alone)), "{way}, {alone}: {told:#}");
        }
    }
    // Nine connections share the line: a packet each 11 ms up, 2 ms down. Two of them wait at the end that sends, and what fq_codel leaves in the
    // queue; some probes wait for what was lost before them. A record of 16 kB ahead of them would be 118 ms up.
    assert!((30.0..85.0).contains(&ms("up", "loaded_ms")), "{told:#}");
    assert!((22.0..55.0).contains(&ms("down", "loaded_ms")), "{told:#}");
    assert!(ms("up", "bits_per_second") > 8.6e6, "{told:#}");
    assert!(ms("down", "bits_per_second") > 44e6, "{told:#}");
}
