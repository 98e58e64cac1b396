//! Lines that change: what leaves such a line is its series' integral, to the packet, whatever format the series is in.
//!
//! ```text
//!   a ──lan── r ──(one link a file: its series)── b, c, d …
//!   a packet comes to the line at sent + delay(sent), begins when the one before is through, and has left when the integral says
//! ```

use super::support::{PING, TestFolder};
use quell_series::{LineSeries, SeriesFile, Steps};
use quell_units::{Rate, Span};
use std::fmt::Write;
use std::path::Path;

/// Ethernet, IPv4 and UDP headers.
pub const HEADERS: u64 = 14 + 20 + 8;
pub const PAYLOAD: u64 = 500;
/// Looks at the clock while a packet is on its way.
pub const CLOCK_NS: u64 = 2_000;

/// A packet of a stream: when it was sent, and when it came.
pub struct Packet {
    pub sent: u64,
    pub came: Option<u64>,
    /// When its answer came.
    pub answered: Option<u64>,
}

/// The packets of a run's streams, by name.
pub fn packets(folder: &TestFolder, run: &Path, stream: &str) -> Vec<Packet> {
    let name = run.to_string_lossy();
    let output = folder.quell(&["data", "export", "csv", &name, "--table", "samples"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rows = text.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a row of names");
    let column = |name: &str| head.iter().position(|it| *it == name).expect("it has the column");
    let [at, up, rtt, of] = ["t_ns", "up_ns", "rtt_ns", "stream"].map(column);
    let number = |text: &str| text.parse::<u64>().ok();
    let of_stream = rows.filter(|row| row[of] == stream);
    of_stream
        .filter_map(|row| Some((number(row[at])?, [up, rtt].map(|column| number(row[column])))))
        .map(|(sent, took)| (sent, took.map(|took| Some(sent + took?))))
        .map(|(sent, [came, answered])| Packet { sent, came, answered })
        .collect()
}

/// A link to a host of its own for each file, and a stream of so many Mbit/s over it.
fn experiment(files: &[(&str, String, f64)], payload: u64, duration: &str) -> String {
    let mut text = format!(
        "name = \"series\"\nduration = \"{duration}\"\nprobes-run = \"together\"\n[topology]\nhosts = [\"a\""
    );
    files.iter().for_each(|(name, ..)| write!(text, ", \"{name}\"").expect("memory takes it"));
    text += "]\nrouters = [\"r\"]\n[[topology.link]]\nname = \"lan\"\nends = [\"a\", \"r\"]\n";
    for (number, (name, _, rate)) in files.iter().enumerate() {
        write!(
            text,
            "[[topology.link]]\nname = \"l{number}\"\nends = [\"r\", \"{name}\"]\nup = {{ series = \"{name}.txt\" }}\n\
             [[probe]]\nname = \"{name}\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"{name}\"\nrate = \"{rate}Mbit\"\nsize = \"{payload}B\"\n"
        )
        .expect("memory takes it");
    }
    text + "[[scenario]]\nname = \"s\"\n"
}

/// When so many bytes have left whose first bit could leave at `from`.
pub fn departure(rate: &Steps<Rate>, from: u64, bytes: u64) -> u64 {
    let mut left = u128::from(bytes) * 8 * 1_000_000_000;
    let mut round = from - from % rate.end().nanos();
    loop {
        for (begin, end, rate) in rate.iter() {
            let (begin, end) = ((round + begin.nanos()).max(from), round + end.nanos());
            let (lasts, bps) = (u128::from(end.saturating_sub(begin)), u128::from(rate.bps()));
            if left <= lasts * bps {
                return begin + left.div_ceil(bps) as u64;
            }
            left -= lasts * bps;
        }
        round += rate.end().nanos();
    }
}

/// Holds what came against the series itself.
fn as_the_integral_says(name: &str, series: &LineSeries, packets: &[Packet], payload: u64) {
    let delay = |at: u64| {
        let delay = series.delay.as_ref().map(|delay| delay.at(Span::from_nanos(at)).nanos());
        at + delay.unwrap_or(0)
    };
    let came: Vec<(u64, u64)> =
        packets.iter().filter_map(|p| Some((delay(p.sent), p.came?))).collect();
    let mut order = came.clone();
    order.sort_unstable();
    let size = payload + HEADERS;
    let (mut begun, mut bytes, mut through) = (0, 0, 0);
    for (number, (at_line, came)) in order.iter().enumerate() {
        let wanted = match &series.rate {
            None => *at_line,
            Some(rate) => {
                if *at_line > through {
                    (begun, bytes) = (*at_line, 0);
                }
                bytes += size;
                through = departure(rate, begun, bytes);
                through
            }
        };
        assert!(
            came.abs_diff(wanted) <= CLOCK_NS,
            "{name}, packet {number} of {}: came at {came} ns, the series says {wanted} ns",
            order.len()
        );
    }
}

fn direction(text: &str) -> LineSeries {
    let file = SeriesFile::read(text.as_bytes(), None).expect("it is a series");
    file.up.or(file.down).expect("it has a direction")
}

#[test]
fn a_line_of_each_format_sends_as_its_series_says_to_the_packet() {
    let mahimahi: String =
        (1..=300).filter(|ms| ms % 7 != 0).map(|ms| format!("{ms}\n").repeat(ms % 3)).collect();
    let leocc: String = (0..60).map(|n| format!("{}\n", 20 + n * 7 % 13)).collect();
    let cellreplay: String =
        (0..20).map(|n| format!("{} {} 0 2\n", n * 50, 24 + n * 5 % 17)).collect();
    let autorate: String = (0..4)
        .map(|s| {
            let (stamp, rate) = (1_795_888_801 + s, 1000 + s * 400 % 900);
            format!("LOAD; 2026-11-28-18:00:01; {stamp}.0; {stamp}.000001; {rate}; {rate}; {rate}; {rate}\n")
        })
        .collect();
    let autorate = format!(
        "LOAD_HEADER; LOG_DATETIME; LOG_TIMESTAMP; PROC_TIME_US; DL_ACHIEVED_RATE_KBPS; UL_ACHIEVED_RATE_KBPS; \
         CAKE_DL_RATE_KBPS; CAKE_UL_RATE_KBPS\n{autorate}"
    );
    let trip = |n: u64| {
        let (at, up) = (n * 100_000_000, 10_000_000 + n * 3 % 7 * 1_000_000);
        format!(
            "{{\"lost\": \"false\", \"delay\": {{\"send\": {up}, \"receive\": {up}, \"rtt\": {}}}, \
             \"timestamps\": {{\"client\": {{\"send\": {{\"monotonic\": {at}}}}}}}}}",
            2 * up
        )
    };
    let irtt: Vec<String> = (0..30).map(trip).collect();
    let files = [
        ("csv", "t_ms,rate_bps,delay_ms,loss\n0,2000000,,\n1.5,0,,\n40,3000001,,\n41,999999,,\n70\n".to_owned(), 4.0),
        ("mahimahi", mahimahi, 40.0),
        ("leocc", leocc, 0.5),
        ("cellreplay", cellreplay, 0.5),
        ("ibox", "{\"bottleneck_bandwidth\": 1500, \"propagation_delay\": 20.5, \"cross_traffic_pattern\": [0, 700, 300]}".to_owned(), 2.0),
        ("irtt", format!("{{\"config\": {{}}, \"round_trips\": [{}]}}", irtt.join(",")), 0.5),
        ("autorate", autorate, 3.0),
        ("stormguard", "schema_version;timestamp_unix_ms;site;direction;queue_mbps;throughput_mbps;effective_rtt_ms\n\
          1;1000;Hill;download;2;1.5;31\n1;2000;Hill;download;1;1;31\n1;3000;Hill;download;2;2;31\n".to_owned(), 3.0),
    ];
    let folder = TestFolder::new();
    files.iter().for_each(|(name, text, _)| drop(folder.file(&format!("{name}.txt"), text)));
    folder.run(&experiment(&files, PAYLOAD, "2s"), &[]);
    let run = folder.only_run();
    for (name, text, _) in &files {
        let packets = packets(&folder, &run, name);
        assert!(packets.iter().filter(|p| p.came.is_some()).count() > 100, "{name}");
        as_the_integral_says(name, &direction(text), &packets, PAYLOAD);
    }
}

/// Steps of 1 ms between 150 and 450 Mbit/s.
fn fine() -> String {
    let mut text = "t_ms,rate_bps,delay_ms,loss\n".to_owned();
    let rates = (0..400_u64).map(|n| 150_000_000 + n * 7_919 % 301 * 1_000_000);
    rates.enumerate().for_each(|(ms, rate)| writeln!(text, "{ms},{rate},,").expect("it fits"));
    text + "400\n"
}

#[test]
fn steps_of_a_millisecond_at_300_mbit_are_held_to_the_packet_and_a_run_is_repeated_without_its_file()
 {
    let folder = TestFolder::new();
    let file = folder.file("fine.txt", &fine());
    let text = experiment(&[("fine", String::new(), 600.0)], 1400, "500ms");
    folder.run(&text, &[]);
    let run = folder.only_run();
    let first = packets(&folder, &run, "fine");
    assert!(first.iter().filter(|p| p.came.is_some()).count() > 10_000);
    as_the_integral_says("fine", &direction(&fine()), &first, 1400);
    std::fs::remove_file(file).expect("it was there");
    let name = run.to_string_lossy().into_owned();
    let again = folder.quell(&["run", &name, "--out", "again", "--json"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let samples = |folder: &Path| std::fs::read(folder.join("samples.parquet")).expect("samples");
    let second = std::fs::read_dir(folder.path().join("again")).expect("a folder").flatten();
    let second = second.map(|e| e.path()).find(|path| path.is_dir()).expect("a run");
    assert!(samples(&second) == samples(&run), "the same bytes");
}

#[test]
fn losses_and_delays_change_at_their_steps_and_not_a_packet_sooner_or_later() {
    let series = "t_ms,rate_bps,delay_ms,loss\n0,,20,0\n300,,35,1\n450,,5.5,0\n500,,50,0\n800\n";
    let folder = TestFolder::new();
    folder.file("far.txt", series);
    folder.run(&experiment(&[("far", String::new(), 4.0)], PAYLOAD, "2s"), &[]);
    let packets = packets(&folder, &folder.only_run(), "far");
    let line = direction(series);
    let loss = line.loss.as_ref().expect("losses");
    for packet in &packets {
        let lost = loss.at(Span::from_nanos(packet.sent)).ppb() > 0;
        assert_eq!(packet.came.is_none(), lost, "sent at {} ns", packet.sent);
    }
    as_the_integral_says("far", &line, &packets, PAYLOAD);
}

#[test]
fn an_aqm_keeps_its_delay_before_a_line_that_changes_and_a_plain_buffer_does_not() {
    let steps = |(n, rate): (usize, &u64)| format!("{},{},,\n", n * 100, rate * 1_000_000);
    let rates: String = [5, 20, 8, 14, 3, 25, 10].iter().enumerate().map(steps).collect();
    let folder = TestFolder::new();
    folder.file("lte.csv", &format!("t_ms,rate_bps,delay_ms,loss\n{rates}700\n"));
    let mut waits = Vec::new();
    for queue in
        ["queue = \"codel\"", "queue = \"fq_codel\"", "queue = \"cake\"", "buffer = \"300p\""]
    {
        let text = format!(
            "name = \"aqm\"\nduration = \"4s\"\nwarm-up = \"2s\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n\
             [[topology.link]]\nname = \"lan\"\nends = [\"a\", \"r\"]\nboth = {{ delay = \"10ms\" }}\n\
             [[topology.link]]\nname = \"lte\"\nends = [\"r\", \"b\"]\nup = {{ series = \"lte.csv\", {queue} }}\n\
             [[load]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n\
             [[scenario]]\nname = \"s\"\nloads = [\"bulk\"]\n{PING}"
        );
        waits.push(folder.run(&text, &[]).number("s", "ping", "rtt_ms.p50"));
    }
    assert!(waits[..3].iter().all(|wait| *wait < 45.0) && waits[3] > 100.0, "{waits:?}");
}

#[test]
fn the_series_of_a_line_is_named_where_it_can_not_be_followed() {
    let folder = TestFolder::new();
    folder.file("fine.txt", &fine());
    let text = experiment(&[("fine", String::new(), 1.0)], PAYLOAD, "1s");
    let wrong = text.replace("up = { series", "up = { rate = \"1Mbit\", series");
    let later = "[[timeline]]\nat = \"0.5s\"\nlink = \"l0\"\nup = { rate = \"2Mbit\" }\n";
    for (text, words) in [
        (text.replace("fine.txt", "none.txt"), "none.txt"),
        (format!("{text}{later}"), "timeline at 500ms: the rate and grid of `l0` stay as they are"),
        (wrong, "`rate` is in fine.txt already; leave one out"),
    ] {
        let file = folder.file("wrong.toml", &text);
        let output = folder.quell(&["run", &file.to_string_lossy()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(words), "{said}");
    }
}
