//! A line sends one packet at a time: the last bit of n bytes arrives n × 8 / rate and the delay after the first one left.
//!
//! ```text
//!   end  = when the last packet's bits are through, or the packet comes, whichever is later, + n × 8 / rate
//!   came = end + delay
//! ```

use super::support::{PING, QUIET, Results, TestFolder, UDP, near, two_hosts};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Looks at the clock, 32 ns each, while a packet is on its way there and back.
const CLOCK_US: f64 = 1.5;

/// Bytes of Ethernet, IPv4 and UDP (or ICMP) headers.
const HEADERS: usize = 14 + 20 + 8;

/// Microseconds that a frame with so many bytes of payload takes at a rate in Mbit/s.
fn bits_us(payload: usize, rate: f64) -> f64 {
    (payload + HEADERS) as f64 * 8.0 / rate
}

#[test]
fn a_line_that_is_typed_takes_the_place_of_the_files_with_its_buffer_and_nothing_else_is_claimed() {
    let folder = TestFolder::new();
    let line = ["--line", "20/4", "--kind", "dsl", "--rtt", "40ms", "--buffer", "50ms"];
    let run = ["run", "home-link", "--duration", "5s", "--json", "--only", "bulk"];
    let output =
        folder.quell(&[&run[..], &["--only", "unloaded", "--only", "flood"], &line].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["reversed?", "published figures are left out", "expectations are left out"] {
        assert!(said.contains(words), "`{words}` should be in: {said}");
    }
    let results = Results { json: serde_json::from_slice(&output.stdout).expect("it is JSON") };
    let quiet = 40.0 + (bits_us(56, 20.0) + bits_us(56, 4.0)) / 1e3;
    near(results.number("unloaded", "ping", "rtt_ms.p50"), quiet, CLOCK_US / 1e3);
    let full = results.number("bulk", "ping", "rtt_ms.p99");
    assert!((80.0..92.0).contains(&full), "50 ms of buffer: {full}");
    // Three times what the line carries, as in the file.
    let flooded = results.number("flood", "ping", "rtt_ms.p50");
    assert!((85.0..92.0).contains(&flooded), "50 ms of buffer: {flooded}");
}

#[test]
fn a_ping_takes_the_delay_and_the_bits_of_both_its_packets_at_each_size_and_rate() {
    for (up, down) in [(0.064, 0.064), (1.0, 1.0), (2.5, 8.0), (100.0, 10.0), (1000.0, 1000.0)] {
        let mut text = QUIET.to_string();
        for size in [56, 500, 1400] {
            for (six, ipv6) in [("", false), ("v6", true)] {
                text += &format!(
                    "[[probe]]\nname = \"p{size}{six}\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\ninterval = \"3s\"\n\
                     size = \"{size}B\"\nipv6 = {ipv6}\n"
                );
            }
        }
        // One after the other: probes of one cell would wait for each other's bits.
        let text = two_hosts(
            &format!(
                "up = {{ rate = \"{}kbit\", delay = \"10ms\" }}\ndown = {{ rate = \"{}kbit\", delay = \"10ms\" }}",
                up * 1e3, down * 1e3
            ),
            &text,
        )
        .replace("\"together\"", "\"apart\"");
        let results = TestFolder::new().run(&text, &[]);
        for size in [56, 500, 1400] {
            for (six, more) in [("", 0), ("v6", 20)] {
                let stream = format!("p{size}{six}");
                let wanted = 20_000.0 + bits_us(size + more, up) + bits_us(size + more, down);
                for point in ["min", "max"] {
                    let found = results.number("s", &stream, &format!("rtt_ms.{point}")) * 1e3;
                    near(found, wanted, CLOCK_US);
                }
            }
        }
    }
}

#[test]
fn a_jumbo_packet_and_an_overhead_count_on_the_line() {
    let probe = format!("{PING}size = \"8000B\"\n");
    let line = "mtu = 9000\nboth = { rate = \"10Mbit\", delay = \"1ms\", overhead = 44 }";
    let results = TestFolder::new().run(&two_hosts(line, &format!("{QUIET}{probe}")), &[]);
    let wanted = 2000.0 + 2.0 * bits_us(8000 + 44, 10.0);
    near(results.number("s", "ping", "rtt_ms.min") * 1e3, wanted, CLOCK_US);
    near(results.number("s", "ping", "rtt_ms.max") * 1e3, wanted, CLOCK_US);
}

/// A packet of a train that arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Came {
    port: u16,
    index: usize,
    payload: usize,
    /// Microseconds after the first packet of the train was sent.
    at_us: f64,
}

/// Sends a train from `a` to `b`, all packets at once: the payload of each, and the port to which it goes. Gives what came, in order.
fn train(line: &str, packets: &[(usize, u16)]) -> Vec<Came> {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &two_hosts(line, &format!("{QUIET}{PING}")));
    let own = std::env::current_exe().expect("the test's own program");
    let program = |task: &str, more: &str| {
        format!("env {more} {} --exact truth_line::{task} --ignored --nocapture", own.display())
    };
    let list: Vec<String> = packets.iter().map(|(size, port)| format!("{size}:{port}")).collect();
    let sender = format!(
        "a: {}",
        program("on_a_a_train_leaves", &format!("TO={{b}} TRAIN={}", list.join(",")))
    );
    let receiver = program("on_b_it_arrives", "QUELL_TEST=1");
    let file = file.to_string_lossy().into_owned();
    let mut arguments = vec!["lab", "exec", &file, "b", "--scenario", "s", "--with", &sender, "--"];
    arguments.extend(receiver.split(' '));
    let output = dir.quell(&arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{wrong}");
    let mut came = Vec::new();
    for line in said.lines().filter_map(|l| l.split_once("came ")) {
        let numbers: Vec<u64> = line.1.split(' ').map(|n| n.parse().expect("a number")).collect();
        let [port, index, payload, at_ns] = numbers[..] else { panic!("{said}") };
        let at_us = at_ns as f64 / 1e3;
        came.push(Came {
            port: port as u16,
            index: index as usize,
            payload: payload as usize,
            at_us,
        });
    }
    assert!(!came.is_empty(), "{said}{wrong}");
    came
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64
}

/// What runs on `a` in [`train`]; not a test of its own.
#[test]
#[ignore = "runs within a lab"]
fn on_a_a_train_leaves() {
    let (Ok(to), Ok(train)) = (std::env::var("TO"), std::env::var("TRAIN")) else { return };
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    // The receiver starts a second after its companion.
    std::thread::sleep(Duration::from_secs(3));
    let begun = now_ns();
    for (index, packet) in train.split(',').enumerate() {
        let (size, port) = packet.split_once(':').expect("a size and a port");
        let mut payload = vec![0; size.parse().expect("a size")];
        payload[..8].copy_from_slice(&begun.to_le_bytes());
        payload[8..16].copy_from_slice(&(index as u64).to_le_bytes());
        let port: u16 = port.parse().expect("a port");
        socket.send_to(&payload, (to.as_str(), port)).expect("a packet can be sent");
    }
}

/// What runs on `b` in [`train`]; not a test of its own.
#[test]
#[ignore = "runs within a lab"]
fn on_b_it_arrives() {
    if std::env::var("QUELL_TEST").is_err() {
        return;
    }
    let listen = |port: u16| {
        let socket = UdpSocket::bind(("0.0.0.0", port)).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mut buffer = [0; 9000];
        while let Ok(length) = socket.recv(&mut buffer) {
            let now = now_ns();
            let number = |at: usize| u64::from_le_bytes(buffer[at..at + 8].try_into().expect("8"));
            println!("came {port} {} {length} {}", number(8), now - number(0));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| listen(7001));
        scope.spawn(|| listen(7002));
    });
}

/// When the packets of a train must have come that wait for nobody but each other.
fn must_come(train: &[usize], rate: f64, delay_us: f64) -> Vec<f64> {
    let mut end = 0.0;
    train
        .iter()
        .map(|payload| {
            end += bits_us(*payload, rate);
            end + delay_us
        })
        .collect()
}

#[test]
fn packets_of_a_train_arrive_each_their_own_time_apart() {
    let small = vec![18; 15];
    let mixed = vec![1400, 18, 18, 700, 18, 1472, 1472, 18, 300, 18, 18, 18, 1000];
    let large_last = [vec![18; 20], vec![1472]].concat();
    for (rate, delay_us) in [(1.0, 5000.0), (2.5, 0.0), (100.0, 20_000.0)] {
        for sizes in [&small, &mixed, &large_last] {
            let line = format!("up = {{ rate = \"{rate}Mbit\", delay = \"{delay_us}us\" }}");
            let packets: Vec<(usize, u16)> = sizes.iter().map(|s| (*s, 7001)).collect();
            let came = train(&line, &packets);
            assert_eq!(came.len(), sizes.len());
            for (index, (came, wanted)) in
                came.iter().zip(must_come(sizes, rate, delay_us)).enumerate()
            {
                assert_eq!((came.index, came.payload), (index, sizes[index]));
                near(came.at_us, wanted, CLOCK_US);
            }
        }
    }
}

#[test]
fn a_buffer_holds_what_waits_and_not_the_packet_on_the_line() {
    // Frames of 142 bytes: one on the line, and ten or eleven in the buffer. (Behind a delay, netem would hand all of them on at once,
    // before the first one goes.)
    for (buffer, kept) in [("10p", 11), ("1700B", 12)] {
        let line = format!("up = {{ rate = \"1Mbit\", buffer = \"{buffer}\" }}");
        let came = train(&line, &[(100, 7001); 40]);
        let indices: Vec<usize> = came.iter().map(|c| c.index).collect();
        assert_eq!(indices, (0..kept).collect::<Vec<_>>(), "{buffer}");
    }
}

#[test]
fn a_users_queue_is_asked_for_a_packet_when_the_line_is_free_and_not_before() {
    // The other flow's packet comes last and waits for the packet on the line alone: a fair queue lets each flow send a packet in turn, and
    // the first one's turn, 1514 bytes, is a packet and the beginning of a second.
    let mut packets = vec![(1400, 7001); 10];
    packets.push((1400, 7002));
    let line = "up = { rate = \"1Mbit\", delay = \"5ms\", queue = \"fq_codel\" }";
    let came = train(line, &packets);
    let order: Vec<(u16, usize)> = came.iter().map(|c| (c.port, c.index)).collect();
    assert_eq!(order[..4], [(7001, 0), (7001, 1), (7002, 10), (7001, 2)], "{order:?}");
    let mut sorted: Vec<f64> = came.iter().map(|c| c.at_us).collect();
    sorted.sort_by(f64::total_cmp);
    for (found, wanted) in sorted.iter().zip(must_come(&[1400; 11], 1.0, 5000.0)) {
        near(*found, wanted, CLOCK_US);
    }
    // Small frames, too, leave one by one: the first flow has its turn of 256 bytes, five frames of 60, then comes the other. (A delay hands
    // all of them on at once; without one they come to the queue one by one, and a line that took some early would show.)
    for delay in ["delay = \"5ms\", ", ""] {
        let mut packets = vec![(18, 7001); 100];
        packets.push((18, 7002));
        let queue = "queue = { kind = \"fq_codel\", quantum = \"256B\" }";
        let came = train(&format!("up = {{ rate = \"1Mbit\", {delay}{queue} }}"), &packets);
        let place = came.iter().position(|c| c.port == 7002);
        assert_eq!(place, Some(5), "{delay} {came:?}");
    }
}

#[test]
fn what_is_sent_twice_takes_its_time_twice() {
    let came = train(
        "up = { rate = \"1Mbit\", delay = \"5ms\", duplicate = \"100%\" }",
        &[(100, 7001); 5],
    );
    let mut times: BTreeMap<usize, usize> = BTreeMap::new();
    came.iter().for_each(|c| *times.entry(c.index).or_default() += 1);
    assert!(times.len() == 5 && times.values().all(|n| *n == 2), "{came:?}");
    for (came, wanted) in came.iter().zip(must_come(&[100; 10], 1.0, 5000.0)) {
        near(came.at_us, wanted, CLOCK_US);
    }
}

#[test]
fn a_full_line_carries_its_rate_to_the_packet_whatever_the_packets_size() {
    for (rate, size, duration) in [(1.0, 44, 4.0), (1.0, 1400, 10.0), (50.0, 1400, 1.0)] {
        // Through a router: a host's own socket buffer would hold the flood back.
        let text = format!(
            "name = \"story\"\nduration = \"{duration}s\"\nwarm-up = \"2s\"\nprobes-run = \"together\"\n\
             [topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n\
             [[topology.link]]\nname = \"lan\"\nends = [\"a\", \"r\"]\n\
             [[topology.link]]\nname = \"line\"\nends = [\"r\", \"b\"]\nup = {{ rate = \"{rate}Mbit\" }}\n\
             [[load]]\nname = \"flood\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"{}Mbit\"\nsize = \"{size}B\"\n\
             [[scenario]]\nname = \"s\"\nloads = [\"flood\"]\n{PING}",
            rate * 2.0
        );
        let goodput = TestFolder::new().run(&text, &[]).number("s", "flood", "goodput_mbps");
        // The pings take from it: 98 bytes, 20 a second at most.
        let pings = 98.0 * 8.0 * 20.0 / 1e6;
        let share = size as f64 / (size + HEADERS) as f64;
        let one = size as f64 * 8.0 / 1e6 / duration;
        let most = rate * share + 2.0 * one;
        let least = (rate - pings) * share - 2.0 * one;
        assert!((least..=most).contains(&goodput), "{size} B: {goodput}, not {least} to {most}");
    }
}

#[test]
fn a_rate_that_changes_changes_the_bits_from_then_on_and_keeps_what_waits() {
    let text = two_hosts(
        "both = { rate = \"1Mbit\", delay = \"5ms\" }",
        &format!(
            "{QUIET}[[timeline]]\nat = \"10s\"\nlink = \"line\"\nup = {{ rate = \"4Mbit\" }}\n{PING}"
        ),
    );
    let results = TestFolder::new().run(&text, &[]);
    let (before, after) =
        (10_000.0 + 2.0 * bits_us(56, 1.0), 10_000.0 + bits_us(56, 1.0) + bits_us(56, 4.0));
    near(results.number("s", "ping", "rtt_ms.max") * 1e3, before, CLOCK_US);
    near(results.number("s", "ping", "rtt_ms.min") * 1e3, after, CLOCK_US);
    // Twice what the line carries waits for 5 s, 250 packets; a rate that comes to the line lets all of them through.
    let text = two_hosts(
        "up = { rate = \"108kbit\", delay = \"5ms\", buffer = \"1000p\" }",
        &format!(
            "{QUIET}[[timeline]]\nat = \"3s\"\nlink = \"line\"\nup = {{ rate = \"1Mbit\", delay = \"8ms\" }}\n{UDP}"
        ),
    );
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "udp", "loss_ratio"), 0.0, 0.0);
    near(results.number("s", "udp", "reordered_up"), 0.0, 0.0);
    assert!(results.number("s", "udp", "up_ms.max") > 1000.0);
    near(results.number("s", "udp", "up_ms.min") * 1e3, 8000.0 + bits_us(500, 1.0), CLOCK_US);
}

#[test]
fn a_line_that_gets_a_rate_later_has_it_from_then_on() {
    let text = two_hosts(
        "both = { delay = \"5ms\" }",
        &format!(
            "{QUIET}[[timeline]]\nat = \"10s\"\nlink = \"line\"\nup = {{ rate = \"1Mbit\" }}\n{PING}"
        ),
    );
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "ping", "rtt_ms.min") * 1e3, 10_000.0, CLOCK_US);
    near(results.number("s", "ping", "rtt_ms.max") * 1e3, 10_000.0 + bits_us(56, 1.0), CLOCK_US);
}

#[test]
fn packets_on_their_way_outlive_classes_that_others_follow() {
    let classes = |minors: &[u16]| {
        let class = |minor: &u16| format!("{{ id = \"1:{minor}\", rate = \"4Mbit\" }}");
        let list: Vec<String> = minors.iter().map(class).collect();
        format!("{{ kind = \"htb\", default = \"1:10\", class = [{}] }}", list.join(", "))
    };
    // 25 packets are within the line's delay at any time; none waits for the line.
    let text = two_hosts(
        "both = { rate = \"5Mbit\", delay = \"500ms\" }",
        &format!(
            "{QUIET}[[timeline]]\nat = \"4s\"\non = \"a:line\"\nqueue = {}\n\
             [[timeline]]\nat = \"8s\"\non = \"a:line\"\nqueue = {}\n\
             [[timeline]]\nat = \"12s\"\non = \"a:line\"\nqueue = \"fq_codel\"\n{UDP}",
            classes(&[10, 20]),
            classes(&[10, 20, 30]),
        ),
    );
    let results = TestFolder::new().run(&text, &[]);
    near(results.number("s", "udp", "loss_ratio"), 0.0, 0.0);
    near(results.number("s", "udp", "reordered_up"), 0.0, 0.0);
}
