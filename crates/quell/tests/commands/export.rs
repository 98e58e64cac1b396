//! `quell data export`: a run as other programs read it; real Flent (Debian's package `flent`, 2.1.1) among them, where it is installed.

use crate::support::{TestFolder, says};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::io::Read;

/// A minute of two uploads, a download and two pings, of which one in ten is lost; a file as Flent writes it.
fn home(dir: &TestFolder) -> String {
    home_with(dir, "Ping (ms) \"odd\", name")
}

/// The same, with the second ping called so.
fn home_with(dir: &TestFolder, odd: &str) -> String {
    let t0 = 1_780_000_000.0;
    let ping = |ms: f64| -> Vec<Value> {
        let answered = (0..300).filter(|n| n % 10 != 5);
        let one = |n: i32| json!({"seq": n, "t": t0 + f64::from(n) * 0.2 + ms / 1e3, "val": ms + f64::from(n % 3)});
        answered.map(one).collect()
    };
    let flow = |mbps: f64| -> Vec<Value> {
        (1..=250)
            .map(|n| json!({"t": t0 + 5.0 + f64::from(n) * 0.2, "dur": 0.2, "val": mbps}))
            .collect()
    };
    let series = json!({
        "Ping (ms) ICMP": ping(20.0), (odd): ping(30.0),
        "TCP upload::1": flow(2.0), "TCP upload::2": flow(3.0), "TCP download::1": flow(16.0),
    });
    let names: Vec<&String> = series.as_object().expect("an object").keys().collect();
    let units = |name: &str| if name.starts_with("Ping") { "ms" } else { "Mbits/s" };
    let meta: Value = names.iter().map(|n| ((*n).clone(), json!({"UNITS": units(n)}))).collect();
    let file = json!({
        "version": 4, "x_values": [], "results": {}, "raw_values": series,
        "metadata": {"NAME": "rrul", "TITLE": "home", "T0": "2026-05-28T20:26:40Z", "TOTAL_LENGTH": 60, "SERIES_META": meta},
    });
    dir.write("home.flent", file.to_string());
    let told = dir.quell(&["data", "import", "home.flent", "--json"]).fine();
    let told: Value = serde_json::from_str(&told).expect("JSON");
    told["imported"][0]["run"].as_str().expect("a name").to_owned()
}

fn unpacked(bytes: &[u8]) -> Value {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).expect("it is gzip");
    serde_json::from_str(&text).expect("it is JSON")
}

/// What a program prints on a terminal.
fn on_a_terminal(dir: &TestFolder, arguments: &[&str]) -> (Option<i32>, String) {
    let (mut ours, theirs) = crate::terminal::terminal(24, 80);
    let reader = std::thread::spawn(move || {
        let mut shown = Vec::new();
        // It ends with an error (EIO) when nobody has the other end any more.
        let _ = ours.read_to_end(&mut shown);
        String::from_utf8_lossy(&shown).into_owned()
    });
    let mut child = {
        let mut command = dir.command(arguments);
        let other = theirs.try_clone().expect("a descriptor");
        command.stdout(theirs).stderr(other).spawn().expect("it can be started")
    };
    let code = child.wait().expect("it ends").code();
    (code, reader.join().expect("it reads"))
}

#[test]
fn a_terminal_is_shown_what_a_file_gets_and_no_name_commands_it_or_who_reads_the_file() {
    let dir = TestFolder::new();
    home_with(&dir, "Ping (ms) \u{1b}]0;pwn\u{7}\u{202e}\u{9b}2J");
    for (what, written) in [
        ("csv", "\\x1b]0;pwn\\x07\\u{202e}\\x9b2J"),
        // Its labels escape the backslash.
        ("prometheus", "\\\\x1b]0;pwn\\\\x07\\\\u{202e}\\\\x9b2J"),
    ] {
        let asked = ["data", "export", what, "home"];
        let whole = dir.quell(&asked).fine();
        let (code, shown) = on_a_terminal(&dir, &asked);
        assert_eq!(code, Some(0), "{shown}");
        let acts = |c: char| c.is_control() && !"\r\n\t".contains(c) || c == '\u{202e}';
        for text in [&whole, &shown] {
            says(text, &[written]);
            assert!(!text.contains(acts), "{asked:?}");
        }
    }
    let (code, shown) = on_a_terminal(&dir, &["data", "export", "flent", "home", "-o", "-"]);
    assert_eq!(code, Some(2), "{shown}");
    says(&shown, &["no text that a terminal shows; write it to a file"]);
}

#[test]
fn a_file_for_flent_has_rates_and_round_trips_on_its_grid_and_packet_by_packet() {
    let dir = TestFolder::new();
    home(&dir);
    says(
        &dir.quell(&["data", "export", "flent", "home", "-o", "out.flent.gz"]).fine(),
        &["out.flent.gz"],
    );
    let bytes = std::fs::read(dir.path("out.flent.gz")).expect("it was written");
    let file = unpacked(&bytes);
    assert_eq!(
        (&file["version"], &file["metadata"]["NAME"]),
        (&4.into(), &"rrul_be_nflows".into())
    );
    assert_eq!(file["metadata"]["T0"], "2026-05-28T20:26:40.000000Z");
    assert_eq!(file["x_values"].as_array().map(Vec::len), Some(300));
    // A value of the grid at 30 s.
    let at = |series: &str| file["results"][series][150].as_f64();
    for (series, wanted) in [
        ("TCP upload BE::1", 2.0),
        ("TCP upload sum", 5.0),
        ("TCP upload avg", 2.5),
        ("TCP download sum", 16.0),
        ("TCP totals", 21.0),
    ] {
        let found = at(series).expect(series);
        assert!((found - wanted).abs() < 0.001, "{series}: {found}");
    }
    assert_eq!(file["results"]["TCP upload BE::1"][10], Value::Null, "it began after 5 s");
    let icmp = file["raw_values"]["Ping (ms) ICMP"].as_array().expect("packets");
    assert_eq!(icmp.len(), 300, "a packet each");
    assert_eq!(icmp.iter().filter(|p| p["lost"] == true).count(), 30);
    // The same run gives the same bytes.
    dir.quell(&["data", "export", "flent", "home", "-o", "again.flent.gz"]).fine();
    assert_eq!(std::fs::read(dir.path("again.flent.gz")).expect("a file"), bytes);
}

#[test]
fn what_went_out_to_flent_comes_back_the_same() {
    let dir = TestFolder::new();
    let run = home(&dir);
    dir.quell(&["data", "export", "flent", &run, "-o", "back.flent.gz"]).fine();
    dir.quell(&["data", "import", "back.flent.gz", "--out", "second"]).fine();
    let rows = |place: &str, name: &str| -> Value {
        let text = dir.quell(&["show", name, "--out", place, "--json"]).fine();
        serde_json::from_str::<Value>(&text).expect("JSON")["results"].clone()
    };
    let find = |rows: &Value, stream: &str| -> Value {
        let all = rows.as_array().expect("rows");
        all.iter().find(|r| r["stream"] == stream).expect(stream).clone()
    };
    let (first, second) = (rows("runs", &run), rows("second", "last"));
    let (a, b) = (find(&first, "Ping (ms) ICMP"), find(&second, "Ping (ms) ICMP"));
    for key in ["sent", "received", "loss_ratio"] {
        assert_eq!(a[key], b[key], "{key}");
    }
    assert_eq!(a["rtt_ms"]["p50"], b["rtt_ms"]["p50"]);
    let goodput = |row: &Value| row["goodput_mbps"].as_f64().expect("a rate");
    let apart =
        goodput(&find(&first, "TCP download::1")) - goodput(&find(&second, "TCP download BE::1"));
    assert!(apart.abs() < 0.05, "{apart}");
}

#[test]
fn a_table_has_its_columns_and_every_row() {
    let dir = TestFolder::new();
    home(&dir);
    let csv = dir.quell(&["data", "export", "csv", "home"]).fine();
    let mut lines = csv.split("\r\n");
    let wanted = "t_ns,scenario,probe,repeat,stream,seq,rtt_ns,up_ns,down_ns,up_order,down_order,seen_late_ns,queued_ns,sent_late_ns,bytes,status";
    assert_eq!(lines.next(), Some(wanted));
    let rows: Vec<&str> = lines.filter(|l| !l.is_empty()).collect();
    assert_eq!(rows.len(), 2 * 300);
    // Quotes and commas of a name are quoted (RFC 4180, section 2).
    says(rows[0], &["\"Ping (ms) \"\"odd\"\", name\"", ",rrul,flent,0,", ",30000000,", ",ok"]);
    assert!(rows.iter().any(|row| row.ends_with(",lost") && row.contains(",,,,")), "{csv}");
    let flows = dir.quell(&["data", "export", "csv", "home", "--table", "flows", "-o", "-"]).fine();
    says(&flows, &["t_ns,scenario,probe,repeat,stream,side,bytes,", ",receiver,"]);
    says(
        &dir.quell(&["data", "export", "csv", "home", "--table", "facts"]).fine(),
        &["stream/TCP upload::1/way,up"],
    );
    says(
        &dir.quell(&["data", "export", "csv", "home", "--table", "rows"]).refused(2),
        &["samples", "facts"],
    );
}

#[test]
fn metrics_are_in_base_units_and_end_as_openmetrics_wants_it() {
    let dir = TestFolder::new();
    let run = home(&dir);
    let text = dir.quell(&["data", "export", "prometheus", "home"]).fine();
    assert!(text.ends_with("# EOF\n"));
    let labels = format!("run=\"{run}\",scenario=\"rrul\",probe=\"flent\"");
    let sample = |name: &str, stream: &str, more: &str| -> f64 {
        let start = format!("{name}{{{labels},stream=\"{stream}\",repeat=\"0\"{more}}} ");
        let line = text.lines().find_map(|l| l.strip_prefix(&*start));
        line.unwrap_or_else(|| panic!("{start} in {text}")).parse().expect("a number")
    };
    let near = |found: f64, wanted: f64| {
        assert!((found / wanted - 1.0).abs() < 1e-3, "{found} for {wanted}")
    };
    near(sample("quell_rtt_seconds", "Ping (ms) ICMP", ",quantile=\"0.5\""), 0.021);
    near(sample("quell_rtt_seconds_count", "Ping (ms) ICMP", ""), 270.0);
    near(sample("quell_rtt_seconds_sum", "Ping (ms) ICMP", ""), 270.0 * 0.021);
    near(sample("quell_loss_ratio", "Ping (ms) \\\"odd\\\", name", ""), 0.1);
    near(sample("quell_goodput_bytes_per_second", "TCP download::1", ""), 2e6);
    // Each metric is announced once, before its samples; units end the names.
    let mut announced = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("TYPE"), Some(name), Some(_)) => {
                assert!(!announced.contains(&name), "{name} twice");
                announced.push(name);
            }
            (Some("#"), Some("UNIT"), Some(name), Some(unit)) => {
                assert!(name.ends_with(unit), "{line}")
            }
            (Some("#"), ..) => {}
            (Some(start), ..) => {
                let name = start.split('{').next().unwrap_or_default();
                assert!(announced.last().is_some_and(|last| name.starts_with(last)), "{line}");
            }
            _ => panic!("an empty line"),
        }
    }
}

#[test]
fn a_cell_that_is_not_there_and_one_too_many_are_named() {
    let dir = TestFolder::new();
    home(&dir);
    let none = dir.quell(&[
        "data",
        "export",
        "flent",
        "home",
        "--measurement",
        "bulk.ping.0",
        "-o",
        "x.gz",
    ]);
    says(&none.refused(2), &["bulk.ping.0", "rrul.flent.0"]);
    says(&dir.quell(&["data", "export", "flent", "home"]).refused(2), &["--output"]);
    says(&dir.quell(&["data", "export", "csv", "nothing"]).refused(2), &["nothing"]);
}
