//! Options that users of iperf3 and fping know, each beside what the peer does with it. Where a peer is missing the tests say so; trying to start it
//! proves it.

use crate::support::left_out;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use crate::server::{Served, iperf3_says, lacks_iperf3, once_free};
use crate::support::{Said, TestFolder, answer, program, said, says};

/// A port of loopback that is free at this moment.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// An iperf3 server, ended with the test.
struct Iperf3 {
    child: Child,
    port: String,
}

impl Iperf3 {
    fn new() -> Self {
        loop {
            let port = free_port();
            let mut command = Command::new("iperf3");
            command.args(["-s", "-B", "127.0.0.1", "--forceflush", "-p", &port]);
            let mut child =
                command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
            let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
            if lines.by_ref().map_while(Result::ok).any(|line| line.contains("listening")) {
                // It must not wait for a reader.
                std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
                return Self { child, port };
            }
            // Somebody took the port.
            let _ = child.wait();
        }
    }

    /// What a client's JSON says, `iperf3 -c` or `quell flow`.
    fn asked(&self, client: &mut Command, options: &[&str]) -> Value {
        client.args(["127.0.0.1", "-p", &self.port]).args(options).stdin(Stdio::null());
        let said = once_free(|| answer(client, options));
        let json: Option<Value> = serde_json::from_str(&said.out).ok();
        json.filter(|json| json.get("error").is_none())
            .unwrap_or_else(|| panic!("{client:?}: {}{}", said.out, said.error))
    }

    /// What iperf3 and Quell say to the same options.
    fn both(&self, options: &[&str]) -> [Value; 2] {
        let mut peer = Command::new("iperf3");
        peer.args(["-J", "-c"]);
        [
            self.asked(&mut peer, options),
            self.asked(&mut program(&["flow", "-J", "--no-latency"]), options),
        ]
    }
}

impl Drop for Iperf3 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Options, the place of a value in iperf3's JSON, and what it shall be.
type Habit<'a> = (&'a [&'a str], &'a str, Value);

#[test]
fn options_of_iperf3_do_what_they_do_there() {
    if lacks_iperf3() {
        return;
    }
    let server = Iperf3::new();
    let port = free_port();
    // Datagrams as the sender counts them: word that the test is over may overtake the last of them on a busy server.
    let habits: [Habit; 9] = [
        (&["-k", "20", "-l", "1K"], "/end/sum_sent/bytes", 20_480.into()),
        (&["-u", "-k", "20", "-l", "1K"], "/end/sum_sent/packets", 20.into()),
        (&["-t", "1", "-i", "0"], "/intervals/1", Value::Null),
        (
            &["-n", "1M", "--cport", &port],
            "/start/connected/0/local_port",
            port.parse::<u16>().unwrap().into(),
        ),
        (&["-n", "1M", "-B", "127.0.0.1%lo"], "/start/connected/0/local_host", "127.0.0.1".into()),
        (&["-n", "1M", "--extra-data", "vpn"], "/extra_data", "vpn".into()),
        (&["-u", "-n", "20K", "-l", "1K", "-b", "1M/5"], "/end/sum_sent/packets", 20.into()),
        (
            &["-u", "-n", "20K", "-l", "1K", "--dont-fragment", "--repeating-payload"],
            "/end/sum_sent/packets",
            20.into(),
        ),
        (
            &["-u", "-n", "20K", "-l", "1K", "--udp-counters-64bit"],
            "/end/sum/lost_packets",
            0.into(),
        ),
    ];
    for (options, at, shall) in habits {
        for (who, json) in ["iperf3", "quell"].into_iter().zip(server.both(options)) {
            let is = json.pointer(at).cloned().unwrap_or_default();
            assert_eq!(is, shall, "{who} {options:?} {at}");
        }
    }
    for (options, word) in [
        (&["-n", "1M", "--get-server-output"][..], "Accepted connection"),
        (&["-n", "1M", "-R", "--get-server-output"], "sender"),
    ] {
        for (who, json) in ["iperf3", "quell"].into_iter().zip(server.both(options)) {
            let text = json["server_output_text"].as_str().unwrap_or_default();
            assert!(text.contains(word), "{who}: {json:#}");
        }
    }
    // What stands in the lines, and where they go.
    let port = ["-p", &server.port, "-n", "1M", "--no-latency"];
    let dir = TestFolder::new();
    let flow = |more: &[&str]| {
        let arguments = [&["flow", "127.0.0.1"], &port[..], more].concat();
        once_free(|| dir.quell(&arguments))
    };
    says(&flow(&["-f", "k"]).fine(), &["up kbit/s", " kbit/s"]);
    says(&flow(&["-f", "M"]).fine(), &["up MiB/s"]);
    says(&flow(&["-V"]).fine(), &["compiler", "this host", "You get"]);
    let titled = flow(&["-T", "vpn", "--timestamps=%Y "]).fine();
    let year = &titled[..5];
    assert!(year.trim().parse::<u32>().is_ok_and(|year| year >= 2026), "{titled}");
    assert!(
        titled.lines().filter(|l| !l.is_empty()).all(|l| l.starts_with(&format!("{year}vpn:  ")))
    );
    assert_eq!(flow(&["--logfile", "log.txt"]).fine(), "");
    assert_eq!(flow(&["--logfile", "log.txt"]).fine(), "");
    let log = std::fs::read_to_string(dir.path("log.txt")).unwrap();
    assert_eq!(log.matches("You get").count(), 2, "as iperf3, it goes on at the end: {log}");
    says(&flow(&["-A", "60000"]).refused(2), &["CPU 60000"]);
    says(&flow(&["-b", "1M/5"]).refused(2), &["bursts are of datagrams"]);
}

/// Does what an answer says: each command that stands in it is one, and each option is one that is taken.
fn follow(dir: &TestFolder, asked: &str, answer: &str) {
    let (_, told) = answer.split_once("quell: ").expect("an error");
    let (_, advice) = told.split_once(": ").expect("what was typed, and what to do");
    let helps = ["serve", asked].map(|command| dir.quell(&[command, "--help"]).fine());
    let is_option = |word: &&str| {
        word.starts_with('-') && !advice.contains(&format!("systemctl enable {word}"))
    };
    let bare = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    for option in advice.split_whitespace().map(|word| word.trim_matches(bare)).filter(is_option) {
        let is_in = |help: &String| {
            help.split(|c: char| c.is_whitespace() || c == ',').any(|word| word == option)
        };
        assert!(helps.iter().any(is_in), "{option} is recommended and not taken: {answer}");
    }
    for command in advice.split('`').skip(1).step_by(2) {
        let typed = command.split(" …").next().unwrap_or_default();
        let (typed, has_end) = (typed.replace("RATE", "1Mbit"), typed.contains("TIME"));
        let typed = typed.replace("TIME", "100ms");
        let mut typed: Vec<&str> = typed.split(' ').skip(1).collect();
        typed.extend(["--port", "0"]);
        typed.extend(if has_end { &[][..] } else { &["--for", "100ms"] });
        says(&dir.quell(&typed).fine(), &["serv"]);
    }
}

#[test]
fn options_that_are_another_thing_here_are_answered_with_what_to_type() {
    let dir = TestFolder::new();
    for (typed, words) in [
        (&["flow", "-s"][..], &["quell serve"][..]),
        (&["flow", "-s", "-D"], &["quell serve"]),
        (&["flow", "h", "--sctp"], &["SCTP"]),
        (&["flow", "h", "--server-bitrate-limit", "1M"], &["quell serve --max-rate"]),
        (&["flow", "h", "--username", "me"], &["--secret-file"]),
        (&["flow", "h", "--idle-timeout", "5"], &["quell serve --for"]),
        (&["flow", "h", "-X", "name"], &["-B ADDRESS"]),
        (&["flow", "h", "--nstreams", "2"], &["-P N"]),
        (&["flow", "h", "-L", "1"], &["IPv6"]),
        (&["flow", "h", "--rsa-public-key-path", "key"], &["--secret-file"]),
        (&["flow", "h", "--pacing-timer", "1"], &["-b"]),
        (&["flow", "h", "-D"], &["quell-serve"]),
        (&["serve", "-D"], &["quell serve"]),
        (&["serve", "--idle-timeout", "5"], &["--for TIME"]),
    ] {
        let answer = dir.quell(typed).refused(2);
        says(&answer, words);
        follow(&dir, typed[0], &answer);
    }
    // The server's name behind -c, as iperf3 has it.
    let served = Served::new(&[]);
    let at = served.at.to_string();
    let out = dir.quell(&["flow", "-c", &at, "-n", "1M", "--no-latency"]).fine();
    says(&out, &["You get"]);
}

/// The columns of a line of figures, of which the first is its time ("0.1-0.2"): where all CPUs are busy, not to the tenth what was asked for.
fn row(line: &str) -> Option<Vec<&str>> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let (from, to) = columns.first()?.split_once('-')?;
    (from.parse::<f64>().is_ok() && to.parse::<f64>().is_ok()).then_some(columns)
}

#[test]
fn a_server_that_falls_silent_is_given_up_after_the_time_that_was_said() {
    let served = Served::new(&[]);
    let at = served.at.to_string();
    let arguments =
        ["flow", &at, "-R", "-t", "60", "--rcv-timeout", "400", "--no-latency", "-i", "0.1"];
    let mut child =
        program(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let stopped = lines.map_while(Result::ok).inspect(|line| {
        if row(line).is_some() {
            served.signal("STOP");
        }
    });
    let lines: Vec<String> = stopped.collect();
    let output = child.wait_with_output().unwrap();
    served.signal("CONT");
    assert_eq!(output.status.code(), Some(1), "{lines:?}");
    says(&String::from_utf8_lossy(&output.stderr), &["nothing came from the server for 400ms"]);
}

#[test]
fn what_the_server_sees_stands_in_the_lines_while_it_goes() {
    let served = Served::new(&[]);
    let at = served.at.to_string();
    let dir = TestFolder::new();
    let up = ["flow", &at, "-u", "-b", "1M", "-t", "1", "-i", "0.5", "--no-latency"];
    let out = dir.quell(&up).fine();
    says(&out, &["packets      lost   jitter ms"]);
    let down = ["flow", &at, "-R", "-b", "10M", "-t", "1", "-i", "0.5", "--no-latency"];
    let down = dir.quell(&down).fine();
    says(&down, &["sent again    RTT ms     cwnd kB"]);
    let windows = down.lines().filter_map(row).filter_map(|columns| columns.get(4)?.parse().ok());
    assert!(windows.max().is_some_and(|cwnd: u32| cwnd > 0), "its window is known: {down}");
    // An iperf3 client does not ask for it, and is not told.
    if !lacks_iperf3() {
        let (good, text) = iperf3_says(&served, &["-R", "-n", "1M"]);
        assert!(good, "{text}");
    }
}

/// fping's exit code and what it prints of either kind; none where there is none.
fn fping(options: &[&str]) -> Option<(i32, String)> {
    let output = match Command::new("fping").args(options).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            left_out::for_want_of(format!("there is no fping on this machine ({error})"));
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((output.status.code().expect("it ends"), text))
}

/// Whether this user may ping; else it is said, as the kernel says it.
fn may_ping() -> bool {
    let arguments = ["ping", "127.0.0.1", "-c", "1", "-q"];
    let tried = said(program(&arguments), &arguments);
    if tried.code == Some(3) {
        left_out::kernel_lacks(tried.error);
    }
    tried.code == Some(0)
}

#[test]
fn options_of_fping_do_what_they_do_there() {
    if !may_ping() {
        return;
    }
    let dir = TestFolder::new();
    dir.write("hosts", "127.0.0.1\n# nobody\n127.0.0.2\n");
    let file = dir.path("hosts").to_string_lossy().into_owned();
    let quick = ["-i", "20ms", "-W", "300ms"];
    // Lists of who answered and who did not: the same hosts, the same exit code.
    for (options, ours) in [
        (&["-a", "-f", &file][..], &["-a", "-f", &file][..]),
        (&["-a", "-g", "127.0.0.0/30"], &["-a", "-g", "127.0.0.0/30"]),
        (&["-a", "-g", "127.0.0.1", "127.0.0.3"], &["-a", "-g", "127.0.0.1", "127.0.0.3"]),
        (&["-u", "127.0.0.1"], &["-u", "127.0.0.1"]),
        (&["-a", "-H", "9", "127.0.0.1"], &["-a", "-H", "9", "127.0.0.1"]),
        (&["-a", "-M", "127.0.0.1"], &["-a", "-M", "127.0.0.1"]),
    ] {
        let arguments = [&["ping"], ours, &quick[..]].concat();
        let sorted = |text: &str| {
            let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
            names.sort();
            names
        };
        // A busy machine may have no CPU for either for as long as they wait; in five tries but one.
        let mut tries = Vec::new();
        while tries.len() < 5 {
            let said = dir.quell(&arguments);
            let Some((code, text)) = fping(options) else { return };
            let both = [(said.code, sorted(&said.out)), (Some(code), sorted(&text))];
            if both[0] == both[1] {
                break;
            }
            tries.push((both, said.error));
        }
        assert!(tries.len() < 5, "{ours:?}: {tries:?}");
    }
    let ping = |more: &[&str]| dir.quell(&[&["ping", "127.0.0.1"], &quick[..], more].concat());
    let ping_that_says = |more: &[&str], word: &str| {
        let says = |said: &Said| said.code == Some(0) && said.out.contains(word);
        let said = (0..5).map(|_| ping(more)).find(says);
        said.unwrap_or_else(|| panic!("{more:?} says no `{word}`")).fine()
    };
    // A summary every so often, and at the end.
    let out = ping(&["-c", "40", "-Q", "0.3"]).fine();
    assert!(out.matches("  RTT min ").count() >= 2, "{out}");
    // The wall clock before each line.
    let out = ping_that_says(&["-c", "2", "-D", "--outage"], "outage      0.000 s in all");
    let stamp = out.lines().find_map(|l| l.strip_prefix('[')?.split_once(']')).expect("a stamp").0;
    assert!(stamp.parse::<f64>().is_ok_and(|seconds| seconds > 1.7e9), "{out}");
    // A class by its DSCP.
    ping_that_says(&["-c", "1", "--dscp", "EF"], "TOS EF");
    // Too many, and none.
    dir.write("none", "# nobody\n");
    says(&dir.quell(&["ping", "-f", "none"]).refused(2), &["no host in the file"]);
    says(&dir.quell(&["ping", "-g", "10.0.0.0/8"]).refused(2), &["more than 256"]);
}
