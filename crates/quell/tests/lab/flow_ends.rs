//! How a `quell flow` ends: an amount of datagrams, a stop by hand, packets that the path does not carry.

use super::support::{PING, QUELL, QUIET, TestFolder, near, two_hosts};
use serde_json::Value;
use std::process::Output;

/// What a command on `a` says, `quell flow` with a server on `b` being the rest of it.
fn said(network: &str, before: &[&str], arguments: &[&str]) -> Output {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", network);
    let (file, serve) = (file.to_string_lossy(), format!("b: {QUELL} serve --bind 0.0.0.0"));
    let all = ["lab", "exec", &*file, "a", "--with", &*serve, "--"];
    dir.quell(&[&all, before, &[QUELL, "flow", "{b}"], arguments].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two hosts and this line.
fn over(line: &str) -> String {
    two_hosts(line, &format!("{QUIET}{PING}"))
}

/// Two hosts of Ethernet, and between their routers a line whose packets are smaller.
fn narrow(first: &str, line: &str) -> String {
    format!(
        "name = \"story\"\nduration = \"20s\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\", \"q\"]\n\
         [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n{first}\n\
         [[topology.link]]\nname = \"line\"\nends = [\"r\", \"q\"]\n{line}\nboth = {{ delay = \"5ms\" }}\n\
         [[topology.link]]\nname = \"lb\"\nends = [\"q\", \"b\"]\n{QUIET}{PING}"
    )
}

fn json(output: &Output) -> Value {
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"))
}

#[test]
fn an_amount_of_datagrams_is_what_the_server_sends_and_what_is_lost_of_it_is_lost() {
    for (line, options, datagrams) in [
        ("both = { delay = \"50ms\" }", &["-R"][..], 100),
        ("up = { delay = \"5ms\" }\ndown = { delay = \"5ms\", loss = \"5%\" }", &["-R"], 100),
        ("down = { loss = \"5%\" }", &["-R", "-P", "3"], 100),
        ("both = { delay = \"50ms\" }", &["--bidir"], 100),
        // A queue that is full to the end throws the very last away, too.
        ("both = { rate = \"200kbit\", delay = \"5ms\", buffer = \"3p\" }", &["-R"], 100),
    ] {
        let amount = ["-u", "-n", "100000B", "-l", "1000", "-b", "1M", "--json"];
        let output = said(&over(line), &[], &[&amount, options].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let json = json(&output);
        let story = format!("{line} {options:?}: {:#}", json["down"]);
        let streams = json["results"]["there"]["streams"].as_array().expect("streams");
        let downs = streams.iter().filter(|s| options[0] == "-R" || s["id"] != 1);
        let sent: u64 = downs.filter_map(|stream| stream["bytes"].as_u64()).sum();
        assert_eq!(sent, datagrams * 1000, "{story}");
        let of = |what: &str| json["down"]["datagrams"][what].as_u64().expect("a number");
        assert_eq!(of("sent"), datagrams, "{story}");
        assert_eq!((of("arrived") + of("lost"), of("unseen")), (datagrams, 0), "{story}");
        assert_eq!(json["down"]["received_bytes"], of("arrived") * 1000, "{story}");
        let loses = line.contains("loss") || line.contains("buffer");
        assert_eq!(of("lost") > 0, loses, "{story}");
    }
}

#[test]
fn a_flow_that_is_stopped_behind_a_deep_queue_has_lost_no_pings() {
    // 2 of 1 Mbit/s fill a queue of 4 s: whatever was sent in the last four seconds is under way.
    let line = "both = { rate = \"1Mbit\", delay = \"10ms\", buffer = \"500kB\" }";
    let arguments = ["-u", "-b", "2M", "-t", "60", "--json"];
    let stop = ["timeout", "--preserve-status", "-s", "INT", "14"];
    let json = json(&said(&over(line), &stop, &arguments));
    let loaded = &json["latency"]["loaded"];
    assert_eq!(json["stopped"], true, "{loaded:#}");
    let of = |what: &str| loaded[what].as_u64().expect("a number");
    assert!(loaded["max_ms"].as_f64().expect("answers") > 3000.0, "{loaded:#}");
    assert_eq!(of("late"), 0, "{loaded:#}");
    // Twice the longest round trip are 8 s: of the first 4 s, in which the queue filled, it is known what was lost.
    assert!((100..260).contains(&of("sent")) && of("lost") < 20, "{loaded:#}");
}

/// A program of `quell lab exec`: a server of iperf3's protocol that answers over TCP alone, as one behind a firewall seems to.
#[test]
#[ignore = "a program for other tests"]
fn a_server_without_udp() {
    use quell_wire::iperf3::State;
    use std::io::{Read, Write};
    if !std::env::args().any(|a| a.ends_with("::a_server_without_udp")) {
        return;
    }
    let listener = std::net::TcpListener::bind("0.0.0.0:5202").expect("a free port");
    for stream in listener.incoming() {
        let mut talk = stream.expect("a client");
        let mut length = [0; 4];
        let said = talk
            .read_exact(&mut [0; 37])
            .and_then(|()| talk.write_all(&[State::ParamExchange.byte()]))
            .and_then(|()| talk.read_exact(&mut length))
            .and_then(|()| talk.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize]))
            .and_then(|()| talk.write_all(&[State::CreateStreams.byte()]));
        if said.is_ok() {
            // Until the client hangs up.
            let _ = std::io::copy(&mut talk, &mut std::io::sink());
        }
    }
}

#[test]
fn where_no_datagram_gets_through_the_check_failed_and_it_says_why() {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &over("both = { delay = \"5ms\" }"));
    let own = std::env::current_exe().expect("a test has a file");
    let serve = format!("b: {} --ignored --exact flow_ends::a_server_without_udp", own.display());
    let file = file.to_string_lossy();
    let all =
        ["lab", "exec", &*file, "a", "--with", &*serve, "--", QUELL, "flow", "{b}:5202", "-u"];
    let output = dir.quell(&[&all[..], &["-t", "2"]].concat());
    let error = text(&output.stderr).replace('\n', " ");
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no UDP datagram came back from"), "{error}");
    assert!(error.contains("does a firewall hold back UDP port 5202?"), "{error}");
}

#[test]
fn where_the_path_carries_no_such_datagram_a_size_is_advised_whoever_sends() {
    for (options, knows) in [(&[][..], true), (&["--bidir"], true), (&["-R"], false)] {
        let network = narrow("", "mtu = 1280");
        let arguments = [&["-u", "-t", "3", "-l", "1400"], options].concat();
        let output = said(&network, &[], &arguments);
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        let story = format!("{options:?}: {out}{error}");
        assert_eq!(output.status.code(), Some(1), "{story}");
        let error = error.replace('\n', " ");
        assert!(error.contains("can't send datagrams of 1400 bytes"), "{story}");
        // 1280 bytes without the headers of IPv4 and UDP.
        assert_eq!(error.contains("no more than -l 1252 fits in one packet"), knows, "{story}");
        assert!(knows || error.contains("take a smaller size (-l)"), "{story}");
        let headline = out.lines().find(|line| line.starts_with("You get")).expect("a headline");
        assert!(!headline.contains("bit/s sent"), "one datagram has no rate: {story}");
    }
    let fits = said(&narrow("", "mtu = 1280"), &[], &["-u", "-t", "2", "-l", "1252", "--json"]);
    near(json(&fits)["up"]["datagrams"]["loss"].as_f64().expect("a part"), 0.0, 0.0);
}

#[test]
fn a_run_that_was_kept_counts_what_was_sent_again_as_was_told() {
    // Segments are lost all the time, to the last moment.
    let line = "both = { rate = \"10Mbit\", delay = \"5ms\", loss = \"2%\" }";
    for more in [&["-t", "4"][..], &["-t", "4", "-P", "2"], &["-t", "3", "-O", "1"]] {
        let dir = TestFolder::new();
        let file = dir.file("network.toml", &over(line));
        let (file, serve) = (file.to_string_lossy(), format!("b: {QUELL} serve --bind 0.0.0.0"));
        let options = more.join(" ");
        let both = format!(
            "{QUELL} flow {{b}} --bidir -C cubic --no-latency --json --save {options} && {QUELL} show --json"
        );
        let all = ["lab", "exec", &*file, "a", "--with", &*serve, "--", "sh", "-c", &*both];
        let output = dir.quell(&all);
        let said = (text(&output.stdout), text(&output.stderr));
        let mut values = serde_json::Deserializer::from_str(&said.0).into_iter::<Value>();
        let mut next = || values.next().unwrap_or_else(|| panic!("{said:?}")).expect("JSON");
        let (told, kept) = (next(), next());
        for way in ["up", "down"] {
            let rows = kept["results"].as_array().expect("rows").iter();
            let of_way = rows.filter(|row| {
                row["stream"].as_str().is_some_and(|name| name.split('-').next() == Some(way))
            });
            let counts: Vec<u64> = of_way.filter_map(|row| row["retransmits"].as_u64()).collect();
            let told = told[way]["retransmits"].as_u64().expect("known");
            assert!(told > 10, "{told}");
            assert_eq!(counts.iter().sum::<u64>(), told, "{more:?}, {way}: {counts:?}");
        }
    }
}
