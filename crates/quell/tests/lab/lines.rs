//! Lines as access networks have them: policers, grants at a grid, half duplex, cells and runs of losses, each held against its rule; and lines
//! that were measured.
//!
//! ```text
//!   a ──lan── r ══(the line)══ b
//! ```

use super::series::{CLOCK_NS, HEADERS, PAYLOAD, Packet, departure, packets};
use super::support::{PING, TestFolder, near};
use quell_series::Steps;
use quell_units::{Rate, Span};

const SIZE: u64 = PAYLOAD + HEADERS;

/// A stream of so many Mbit/s over a link; its packets.
fn stream(link: &str, mbit: f64, duration: &str) -> Vec<Packet> {
    let folder = TestFolder::new();
    folder.run(&experiment(link, mbit, duration), &[]);
    packets(&folder, &folder.only_run(), "udp")
}

fn experiment(link: &str, mbit: f64, duration: &str) -> String {
    format!(
        "name = \"line\"\nduration = \"{duration}\"\nprobes-run = \"together\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\"]\n\
         [[topology.link]]\nname = \"lan\"\nends = [\"a\", \"r\"]\n[[topology.link]]\nname = \"line\"\nends = [\"r\", \"b\"]\n{link}\n\
         [[scenario]]\nname = \"s\"\n\
         [[probe]]\nname = \"udp\"\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"{mbit}Mbit\"\nsize = \"{PAYLOAD}B\"\n"
    )
}

#[test]
fn a_policer_lets_its_burst_and_its_rate_through_to_the_packet_and_delays_nothing() {
    // Of the line's own rate, what a packet may wait behind the policer's burst.
    for (rest, wait) in [("", 0), (", rate = \"10Mbit\"", 60_000_000)] {
        let link = format!(
            "up = {{ delay = \"5ms\", police = {{ rate = \"2Mbit\", burst = 30000 }}{rest} }}"
        );
        let packets = stream(&link, 20.0, "2s");
        let begun = packets[0].sent;
        let mut through = 0;
        for (number, packet) in packets.iter().enumerate() {
            let most = 30_000.0 + 2e6 / 8.0 * (packet.sent - begun) as f64 / 1e9;
            let with_it = (through + SIZE) as f64;
            match packet.came {
                Some(came) => {
                    through += SIZE;
                    assert!(with_it <= most + 2.0, "{number}: {with_it} bytes of {most}");
                    let took = came - packet.sent - 5_000_000;
                    assert!(took <= wait + CLOCK_NS, "{number} took {took} ns more than the delay");
                }
                None => {
                    assert!(with_it >= most - 2.0, "{number} is lost: {with_it} bytes of {most}")
                }
            }
        }
        assert!(through > 500_000, "{through} bytes");
    }
}

#[test]
fn a_packet_leaves_at_the_grid_alone_with_all_that_the_line_carried_until_then() {
    let ms = Span::from_millis;
    let constant = Steps::constant(Rate::from_bps(8_000_000), ms(10)).expect("steps");
    let steps = [(0, 9_000_000), (7, 3_000_001), (8, 0), (15, 11_000_000)];
    let varies = Steps::new(steps.map(|(at, bps)| (ms(at), Rate::from_bps(bps))), ms(21));
    let folder = TestFolder::new();
    folder.file(
        "steps.csv",
        "t_ms,rate_bps,delay_ms,loss\n0,9000000\n7,3000001\n8,0\n15,11000000\n21\n",
    );
    for (rates, line, grid, mbit) in [
        (&constant, "rate = \"8Mbit\", grid = \"2ms\"", 2_000_000, 12.0),
        (&constant, "rate = \"8Mbit\", grid = \"2ms\"", 2_000_000, 1.1),
        (&varies.expect("steps"), "series = \"steps.csv\", grid = \"3ms\"", 3_000_000, 9.0),
    ] {
        let link = format!("up = {{ delay = \"5ms\", {line} }}");
        folder.run(&experiment(&link, mbit, "1s"), &["--out", line]);
        let runs = std::fs::read_dir(folder.path().join(line)).expect("runs").flatten();
        let run = runs.map(|entry| entry.path()).find(|path| path.is_dir()).expect("a run");
        let packets = packets(&folder, &run, "udp");
        std::fs::remove_dir_all(folder.path().join(line)).expect("it was there");
        // Up to when the line has served, and when the packet before left.
        let (mut begun, mut bytes, mut served, mut left) = (0, 0, 0, 0);
        let mut count = 0;
        for packet in packets {
            let Some(came) = packet.came else { continue };
            let at_line = packet.sent + 5_000_000;
            let granted = at_line - at_line % grid;
            if at_line > left && granted > served {
                (begun, bytes) = (granted, 0);
            }
            bytes += SIZE;
            served = departure(rates, begun, bytes);
            left = served.next_multiple_of(grid);
            assert!(came.abs_diff(left) <= CLOCK_NS, "{line}, {count}: {came} ns, not {left} ns");
            count += 1;
        }
        assert!(count > 200, "{count} packets");
    }
}

/// What one line sends, in the order in which it comes to it: when, and when its last bit was through.
type Direction = Vec<(u64, u64)>;

#[test]
fn the_directions_of_a_half_duplex_link_take_turns() {
    let link = "shared = true\nboth = { rate = \"8Mbit\", delay = \"1ms\", buffer = \"1000p\" }";
    let folder = TestFolder::new();
    folder.run(&experiment(link, 6.0, "500ms"), &[]);
    let packets = packets(&folder, &folder.only_run(), "udp");
    let answered = packets.iter().filter_map(|p| Some((p.sent, p.came?, p.answered?)));
    let mut answered: Vec<_> = answered.collect();
    assert!(answered.len() == packets.len() && packets.len() > 600, "nothing is lost");
    let up: Direction = answered.iter().map(|(sent, came, _)| (sent + 1_000_000, *came)).collect();
    answered.sort_unstable_by_key(|(_, came, _)| *came);
    let down: Direction =
        answered.iter().map(|(_, came, back)| (came + 1_000_000, *back)).collect();
    let ways = [up, down];
    let takes = SIZE * 1000;
    let (mut next, mut last, mut time) = ([0, 0], 1, 0);
    while next[0] < ways[0].len() || next[1] < ways[1].len() {
        let comes = |way: usize| ways[way].get(next[way]).map_or(u64::MAX, |(at, _)| *at);
        time = time.max(comes(0).min(comes(1)));
        let other = 1 - last;
        let way = if comes(other) <= time { other } else { last };
        time += takes;
        let came = ways[way][next[way]].1;
        let packet = next[way];
        assert!(came.abs_diff(time) <= 3 * CLOCK_NS, "{way}, {packet}: {came} ns, not {time} ns");
        // Looks at the clock are no part of the medium's time.
        time = came;
        next[way] += 1;
        last = way;
    }
}

#[test]
fn cells_carry_48_bytes_each_on_a_plain_line_and_on_one_with_a_grid() {
    // 98 bytes of a ping and 10 of overhead are 3 cells, 159 bytes: 1.272 ms each way.
    for (more, rtt, off) in [("", 2.544, 0.003), (", grid = \"10us\"", 2.56, 0.013)] {
        let link = format!("both = {{ rate = \"1Mbit\", overhead = 10, cells = true{more} }}");
        let text = experiment(&link, 0.1, "2s") + PING;
        let results = TestFolder::new().run(&text, &[]);
        near(results.number("s", "ping", "rtt_ms.min"), rtt, off);
    }
}

#[test]
fn losses_come_in_runs_as_long_as_the_line_says() {
    let packets = stream("up = { loss = \"2%\", loss-run = 4 }", 6.0, "20s");
    let lost = packets.iter().filter(|p| p.came.is_none()).count() as f64;
    let begins = |pair: &&[Packet]| pair[0].came.is_some() && pair[1].came.is_none();
    let runs = packets.windows(2).filter(begins).count() as f64;
    near(lost / packets.len() as f64, 0.02, 0.005);
    near(lost / runs, 4.0, 0.6);
}

#[test]
fn a_measured_line_gives_the_figures_of_the_same_line_written_out() {
    let folder = TestFolder::new();
    let known = "loss = { value = \"0 %\" }\noverhead = { value = \"8 B\" }\ndelay = { value = \"5 ms\", low = \"4.9 ms\", high = \"5.1 ms\" }\n";
    let measured = format!(
        "version = 1\n[up]\nseries = \"up.csv\"\ngrid = {{ value = \"2 ms\" }}\nbuffer = {{ value = \"64 kB\" }}\n\
         queue = {{ value = \"tail-drop\" }}\n{known}[down]\nrate = {{ value = \"8 Mbit/s\" }}\nqueue = {{ value = \"codel\" }}\n\
         buffer = {{ unknown = \"it never filled\" }}\n{known}"
    );
    std::fs::create_dir(folder.path().join("far")).expect("a folder");
    folder.file("far/line.toml", &measured);
    folder.file("far/up.csv", "t_ms,rate_bps,delay_ms,loss\n0,9000000\n40,3000000\n100\n");
    let load = "[[load]]\nname = \"bulk\"\nkind = \"tcp\"\nfrom = \"a\"\nto = \"b\"\n";
    let text = |link: &str| {
        let text = experiment(link, 0.5, "2s");
        text.replace("name = \"s\"\n", &format!("name = \"s\"\nloads = [\"bulk\"]\n{load}"))
    };
    let written = "up = { series = \"far/up.csv\", delay = \"5ms\", overhead = 8, buffer = \"64kB\", grid = \"2ms\" }\n\
                   down = { rate = \"8Mbit\", delay = \"5ms\", overhead = 8, queue = \"codel\" }";
    let (measured, said) = folder.run_to(0, &text("line = \"far/line.toml\""), &["--out", "m"]);
    assert!(said.contains("far/line.toml, down: buffer unknown: 100 packets taken"), "{said}");
    let written = folder.run(&text(written), &["--out", "w"]);
    assert_eq!(measured.json["results"], written.json["results"]);
    // The run has all that the files said.
    std::fs::remove_dir_all(folder.path().join("far")).expect("it was there");
    let runs = std::fs::read_dir(folder.path().join("m")).expect("runs").flatten();
    let run = runs.map(|entry| entry.path()).find(|path| path.is_dir()).expect("a run");
    let again = folder.quell(&["run", &run.to_string_lossy(), "--out", "again"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
}

#[test]
fn a_line_of_each_class_is_made_and_carries_traffic() {
    let folder = TestFolder::new();
    let file = folder.file("line.toml", "");
    for class in ["dsl", "docsis", "lte", "5g", "leo", "wifi", "policed"] {
        let made = folder.quell(&["series", "make", class, "--seed", "3", "-o", "line.toml"]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let text = experiment("line = \"line.toml\"", 1.0, "1s");
        let results = folder.run(&text, &["--out", class]);
        let loss = results.number("s", "udp", "loss_ratio");
        assert!(
            loss < 0.1,
            "{class}: {loss}: {}",
            std::fs::read_to_string(&file).expect("it is there")
        );
    }
}
