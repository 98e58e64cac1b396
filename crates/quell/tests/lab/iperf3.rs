//! An unmodified iperf3 at either end, in virtual time: what it and Quell tell each other is right to the packet. Where none is
//! installed the tests say so.

use super::support::{PING, QUELL, QUIET, TestFolder, lacks_iperf3, near, two_hosts};
use serde_json::Value;

const FAST: &str = "both = { rate = \"100Mbit\", delay = \"1ms\" }";

/// What a program on `a` prints, with another beside it on `b`.
fn printed(line: &str, beside: &str, program: &str) -> String {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let (file, beside) = (file.to_string_lossy(), format!("b: {beside}"));
    let mut all = vec!["lab", "exec", &*file, "a", "--with", &*beside, "--"];
    all.extend(["sh", "-c", program]);
    let output = dir.quell(&all);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{program}: {error}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// What iperf3 with these options measures of `quell serve`.
fn of_quell(line: &str, options: &str) -> Value {
    let serve = format!("{QUELL} serve --bind ::");
    let printed = printed(line, &serve, &format!("iperf3 -p 5201 -J -c {options}"));
    serde_json::from_str(&printed).expect("iperf3 -J prints JSON")
}

/// What `quell flow` with these options measures of an iperf3.
fn of_iperf3(options: &str) -> Value {
    let program = format!("{QUELL} flow {{b}} --json {options}");
    serde_json::from_str(&printed(FAST, "iperf3 -s", &program)).expect("the result is JSON")
}

#[track_caller]
fn number(value: &Value, path: &str) -> f64 {
    let found = path.split('.').fold(value, |value, key| &value[key]);
    found.as_f64().unwrap_or_else(|| panic!("{path} is {found} in {value:#}"))
}

#[test]
fn it_gets_the_rate_that_it_asked_for() {
    if lacks_iperf3() {
        return;
    }
    let said = of_quell(FAST, "{b} -b 5M -t 3 -R");
    near(number(&said, "end.sum_received.bytes"), 5e6 / 8.0 * 3.0, 20_000.0);
}

#[test]
fn it_gets_the_rate_of_the_line() {
    if lacks_iperf3() {
        return;
    }
    // Towards the client only: iperf3 as the sender looks at its clock so often that virtual time costs a minute of real time.
    for rate in [20.0, 2.0] {
        let line = format!(
            "up = {{ delay = \"10ms\" }}\ndown = {{ rate = \"{rate}Mbit\", delay = \"10ms\" }}"
        );
        for (to, segment) in [("{b}", 1448.0), ("{b/6}", 1428.0)] {
            let said = of_quell(&line, &format!("{to} -R -t 8 -O 4"));
            let mbps = number(&said, "end.sum_received.bits_per_second") / 1e6;
            let wanted = rate * segment / 1514.0;
            near(mbps, wanted, wanted * 0.01);
        }
    }
}

#[test]
fn it_measures_udp_as_the_receiver_saw_it() {
    if lacks_iperf3() {
        return;
    }
    for (options, packets) in [
        ("-b 10M", 1042.0),
        ("-b 10M -R", 1042.0),
        ("-b 1M -P 3", 313.0),
        ("-b 5M --bidir", 521.0),
        ("-b 5M --udp-counters-64bit -O 1", 521.0),
    ] {
        let said = of_quell(FAST, &format!("{{b}} -u -t 1 -l 1200 {options}"));
        println!("{options}: {:#}", said["end"]["sum"]);
        near(number(&said, "end.sum.packets"), packets, 20.0);
        near(number(&said, "end.sum.lost_packets"), 0.0, 0.0);
    }
}

#[test]
fn several_clients_at_once_each_get_their_own_streams() {
    if lacks_iperf3() {
        return;
    }
    let rates = [3u32, 6, 9, 12];
    let client = |rate| {
        format!(
            "iperf3 -c {{b}} -p 5201 -J -u -b {rate}M -l 1000 -t 1 -P 2 > /tmp/{rate}.json & all=\"$all $!\"\n"
        )
    };
    let all: String = rates.map(client).concat();
    let tcp = "iperf3 -c {b} -p 5201 -J -t 1 -b 30M -R > /tmp/tcp.json & all=\"$all $!\"\n";
    let last = "for n in $all; do wait $n || exit 1; done; cat /tmp/3.json /tmp/6.json /tmp/9.json /tmp/12.json /tmp/tcp.json";
    let serve = format!("{QUELL} serve --bind 0.0.0.0");
    let text = printed(FAST, &serve, &format!("{all}{tcp}{last}"));
    let said: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_str(&text).into_iter().collect();
    let said = said.expect("iperf3 -J prints JSON");
    for (said, rate) in said.iter().zip(rates) {
        // Another's datagrams in this one's count would show as loss, or as too many.
        let wanted = f64::from(rate) * 1e6 * 2.0 / 8e3;
        near(number(said, "end.sum.packets"), wanted, 0.04 * wanted);
        near(number(said, "end.sum.lost_packets"), 0.0, 0.0);
    }
    near(number(&said[4], "end.sum_received.bytes"), 3.75e6, 0.3e6);
}

#[test]
fn quell_counts_datagrams_as_it_does_either_way() {
    if lacks_iperf3() {
        return;
    }
    for (option, way) in [("", "up"), ("-R", "down")] {
        let said = of_iperf3(&format!("-u -b 8M -l 1000 -t 1 {option}"));
        let datagrams = &said[way]["datagrams"];
        near(number(datagrams, "sent"), 1000.0, 20.0);
        near(number(datagrams, "arrived"), number(datagrams, "sent"), 0.0);
        near(number(datagrams, "lost"), 0.0, 0.0);
    }
}

#[test]
fn what_quell_omits_is_not_counted() {
    if lacks_iperf3() {
        return;
    }
    let said = of_iperf3("-b 80M -t 2 -O 1");
    println!("{said:#}");
    near(number(&said, "up.received_bytes"), 20e6, 0.5e6);
    near(number(&said, "up.seconds"), 2.0, 0.05);
    let omitted = |of: bool| {
        let all = said["intervals"].as_array().expect("a list");
        all.iter().filter(|i| i["omitted"] == of).count()
    };
    assert_eq!((omitted(true), omitted(false)), (1, 2), "{said:#}");
}
