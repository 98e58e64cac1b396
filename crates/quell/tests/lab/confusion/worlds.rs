//! Worlds whose cause of waiting is known, since they are made so: rates, delays, buffers, congestion controls and ends are drawn from a seed.
//!
//! ```text
//!   a ───la─── r ═══line═══ q ───lb─── b        a runs the instruments, b serves; what is wrong is at a, on the line, or at b
//! ```

use super::super::support::{PING, QUELL};
use quell_stats::Rng;
use std::fmt::Write;

/// What looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instrument {
    Flow,
    Calls,
    Trace,
    Doctor,
    Path,
}

use Instrument::{Calls, Doctor, Flow, Path, Trace};

impl Instrument {
    pub const ALL: [Self; 5] = [Flow, Calls, Trace, Doctor, Path];

    pub fn name(self) -> &'static str {
        match self {
            Flow => "flow",
            Calls => "rr",
            Trace => "trace",
            Doctor => "doctor",
            Path => "path",
        }
    }
}

/// Worlds of one cause.
pub struct Maker {
    /// The cause, or "healthy".
    pub cause: &'static str,
    /// Other names that are true of such a world as well: what the cause brings with it.
    pub also: &'static [&'static str],
    /// Who can see it from where it stands.
    pub seen_by: &'static [Instrument],
    make: fn(&mut Draw, &mut World),
}

/// Those of the table's causes that virtual time can make. A CPU's work and a disk's take no virtual time.
pub const MAKERS: &[Maker] = &[
    Maker {
        cause: "receiver-window",
        also: &[],
        seen_by: &[Flow, Trace, Doctor],
        make: receiver_window,
    },
    Maker { cause: "send-buffer", also: &[], seen_by: &[Flow, Doctor], make: send_buffer },
    // What was written at once may be too much for the line's buffer.
    Maker {
        cause: "sender-idle",
        also: &["fast-retransmit"],
        seen_by: &[Flow, Doctor],
        make: sender_idle,
    },
    // Who paces itself has nothing to send in between; a server that takes no more shuts its window.
    Maker {
        cause: "rate-limit",
        also: &["sender-idle", "receiver-window"],
        seen_by: &[Flow],
        make: rate_limit,
    },
    Maker { cause: "own-queue", also: &[], seen_by: &[Flow], make: own_queue },
    Maker {
        cause: "path-queue",
        also: &["fast-retransmit"],
        seen_by: &[Flow, Doctor],
        make: path_queue,
    },
    Maker {
        cause: "policer",
        also: &["fast-retransmit", "retransmission-timeout"],
        seen_by: &[Flow],
        make: policer,
    },
    Maker {
        cause: "fast-retransmit",
        also: &["retransmission-timeout"],
        seen_by: &[Trace, Doctor],
        make: fast_retransmit,
    },
    Maker {
        cause: "mtu-black-hole",
        also: &["retransmission-timeout"],
        seen_by: &[Flow, Trace, Doctor, Path],
        make: black_hole,
    },
    Maker {
        cause: "retransmission-timeout",
        also: &[],
        seen_by: &[Calls, Trace, Doctor],
        make: lost_calls,
    },
    Maker { cause: "delayed-ack", also: &[], seen_by: &[Calls, Trace, Doctor], make: delayed_ack },
    Maker { cause: "nagle", also: &[], seen_by: &[Calls, Trace], make: nagle },
    Maker { cause: "healthy", also: &[], seen_by: &[Calls, Trace, Doctor, Path], make: healthy },
];

/// A network, what is wrong in it, and what moves through it.
#[derive(Default)]
pub struct World {
    /// What stands in the network's table of the line.
    line: String,
    /// Routes of the scenario.
    routes: String,
    /// Shell commands at these nodes before anything moves.
    at_a: String,
    at_b: String,
    at_r: String,
    at_q: String,
    /// What `b` runs.
    server: String,
    /// What moves data: words behind `quell`, the server being `{b}`.
    traffic: String,
    /// What a shell at `a` does while `$P` moves it, until that ends.
    beside: String,
    /// Whether `b` sends.
    pub down: bool,
    /// Whether it is calls.
    calls: bool,
}

impl World {
    /// The world of this number.
    pub fn of(maker: &Maker, seed: u64, number: usize) -> World {
        let mut draw = Draw(Rng::new(seed).derive(&format!("{} {number}", maker.cause)));
        let mut world = World { down: number % 3 == 2, ..World::default() };
        world.server = format!("{QUELL} serve --bind 0.0.0.0");
        (maker.make)(&mut draw, &mut world);
        world
    }

    /// Who is asked in it. The doctor looks where it stands: it is asked where `a` sends, and of what a receiver sees.
    pub fn instruments(&self, maker: &Maker) -> Vec<Instrument> {
        let mut all = match self.calls {
            true => vec![Calls, Trace, Doctor],
            false => vec![Flow, Trace, Doctor],
        };
        let seen_by_receivers = ["path-queue", "delayed-ack"].contains(&maker.cause);
        all.retain(|instrument| *instrument != Doctor || !self.down || seen_by_receivers);
        all.extend(maker.seen_by.contains(&Path).then_some(Path));
        all
    }

    /// The network's file.
    pub fn network(&self) -> String {
        let Self { line, routes, .. } = self;
        format!(
            "name = \"world\"\nduration = \"1s\"\n[topology]\nhosts = [\"a\", \"b\"]\nrouters = [\"r\", \"q\"]\n\
             [[topology.link]]\nname = \"la\"\nends = [\"a\", \"r\"]\n\
             [[topology.link]]\nname = \"line\"\nends = [\"r\", \"q\"]\n{line}\n\
             [[topology.link]]\nname = \"lb\"\nends = [\"q\", \"b\"]\n\
             [[scenario]]\nname = \"s\"\n{routes}\n{PING}"
        )
    }

    /// What runs on other nodes than `a`.
    pub fn with(&self) -> Vec<String> {
        let shell = |node: &str, script: &str| {
            format!("{node}: sh -c 'PATH=$PATH:/usr/sbin:/sbin; {script}'")
        };
        let mut all =
            vec![shell("b", &format!("{}echo $$ >/tmp/server; exec {}", self.at_b, self.server))];
        for (node, script) in [("r", &self.at_r), ("q", &self.at_q)] {
            all.extend((!script.is_empty()).then(|| shell(node, &format!("{script} sleep 1000"))));
        }
        if self.down {
            all.push(shell(
                "b",
                "exec tcpdump --immediate-mode -U -Z root -i lb -s 128 -w /tmp/world.pcap tcp",
            ));
        }
        all
    }

    /// What `a` runs: each instrument in turn, its JSON behind a line with its name.
    pub fn script(&self, instruments: &[Instrument]) -> String {
        let traffic = format!("{QUELL} {}", self.traffic);
        let run = |options: &str| match self.beside.as_str() {
            "" => format!("{traffic} {options}"),
            beside => {
                format!("{traffic} {options} & P=$!; {{ {beside} }} & S=$!; wait $P; kill $S")
            }
        };
        let mut all = format!("PATH=$PATH:/usr/sbin:/sbin\n{}\n", self.at_a);
        let _ = writeln!(all, "cat >/tmp/traffic <<'EOF'\n{}\nEOF", run(">/dev/null 2>&1"));
        if !self.down {
            let _ = writeln!(
                all,
                "tcpdump --immediate-mode -U -Z root -i la -s 128 -w /tmp/world.pcap tcp 2>/dev/null & D=$!"
            );
        }
        let _ = writeln!(
            all,
            "until [ -s /tmp/world.pcap ] && [ -s /tmp/server ]; do sleep 0.01; done; sleep 0.2"
        );
        let _ = writeln!(all, "echo '== {}'", instruments[0].name());
        let _ = writeln!(all, "{}", run("--json"));
        if !self.down {
            let _ = writeln!(all, "kill $D; wait $D");
        }
        for instrument in &instruments[1..] {
            let _ = writeln!(all, "echo '== {}'", instrument.name());
            let _ = match instrument {
                Trace => writeln!(all, "{QUELL} trace /tmp/world.pcap --json"),
                Doctor => writeln!(
                    all,
                    "{QUELL} doctor --during 'sh /tmp/traffic' --severity note --json"
                ),
                _ => writeln!(all, "{QUELL} path -c 10 -i 100ms --json {{b}}"),
            };
        }
        all
    }
}

/// Numbers from the world's seed.
pub struct Draw(Rng);

impl Draw {
    /// Equally likely on a scale of logarithms.
    fn log(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.0.f64())
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len() as u64) as usize]
    }
}

/// A line the same both ways: Mbit/s, milliseconds there and back, a buffer of so many milliseconds.
fn line(mbit: f64, rtt_ms: f64, buffer_ms: f64) -> String {
    format!("both = {{ {} }}", way(mbit, rtt_ms, buffer_ms))
}

fn way(mbit: f64, rtt_ms: f64, buffer_ms: f64) -> String {
    let packets = (buffer_ms * mbit * 1e3 / (1514.0 * 8.0)).ceil().max(10.0);
    format!(
        "rate = \"{}kbit\", delay = \"{}us\", buffer = \"{packets}p\"",
        (mbit * 1e3).round(),
        (rtt_ms * 500.0).round()
    )
}

/// `sysctl` without the program.
fn set(key: &str, value: impl std::fmt::Display) -> String {
    format!("echo {value} >/proc/sys/net/ipv4/{key}; ")
}

impl World {
    /// Bulk data for so long, in the world's direction, by a congestion control that the sender's host has.
    fn bulk(&mut self, draw: &mut Draw, controls: &[&str], seconds: u32, options: &str) {
        let control = set("tcp_congestion_control", draw.pick(controls));
        self.at_sender(&control);
        let reverse = if self.down { " -R" } else { "" };
        self.traffic = format!("flow {{b}} -t {seconds}{reverse} {options}");
    }

    fn at_sender(&mut self, script: &str) {
        if self.down { &mut self.at_b } else { &mut self.at_a }.push_str(script);
    }

    fn at_receiver(&mut self, script: &str) {
        if self.down { &mut self.at_a } else { &mut self.at_b }.push_str(script);
    }
}

const LOSS_BASED: &[&str] = &["cubic", "reno", "cubic", "htcp"];
const ANY: &[&str] = &["cubic", "reno", "bbr", "htcp"];

/// A line that carries several windows of so many bytes in a round trip.
fn line_for_window(draw: &mut Draw, bytes: f64) -> String {
    loop {
        let rtt_ms = draw.log(20.0, 150.0);
        let mbit = draw.log(2.0, 5.0) * bytes * 8.0 / rtt_ms / 1e3;
        if (1.0..40.0).contains(&mbit) {
            return line(mbit, rtt_ms, draw.log(50.0, 300.0));
        }
    }
}

fn receiver_window(draw: &mut Draw, world: &mut World) {
    let window = draw.log(6e3, 60e3).round();
    world.line = line_for_window(draw, window);
    // Half of the buffer is window.
    world.at_receiver(&set("tcp_rmem", format!("4096 {0} {0}", window * 2.0)));
    world.bulk(draw, ANY, 6, "");
}

fn send_buffer(draw: &mut Draw, world: &mut World) {
    let window = draw.log(8e3, 60e3).round();
    world.line = line_for_window(draw, window);
    // Two thirds of it are used, of which half is data.
    let buffer = (window * 2.8).round();
    let begin = buffer.min(16_384.0);
    world.at_sender(&set("tcp_wmem", format!("4096 {begin} {buffer}")));
    world.bulk(draw, ANY, 6, "");
}

fn sender_idle(draw: &mut Draw, world: &mut World) {
    // What stands in its buffers is on its way within 0.2 s.
    world.at_sender(&set("tcp_wmem", "4096 16384 131072"));
    world.line = line(draw.log(10.0, 40.0), draw.log(2.0, 40.0), draw.log(30.0, 60.0));
    let (stopped, runs) = (draw.log(0.8, 1.5), draw.log(0.01, 0.04));
    let who = if world.down { "$(cat /tmp/server)" } else { "$P" };
    world.beside = format!(
        "sleep 0.5; while :; do kill -STOP {who}; sleep {stopped:.3}; kill -CONT {who}; sleep {runs:.3}; done"
    );
    world.bulk(draw, ANY, 8, "");
}

fn rate_limit(draw: &mut Draw, world: &mut World) {
    let mbit = draw.log(5.0, 40.0);
    world.line = line(mbit, draw.log(2.0, 80.0), draw.log(30.0, 200.0));
    let allowed = (mbit * draw.log(0.1, 0.75) * 1e3).round();
    match draw.pick(&[0, 1, 2, 3]) {
        0 => world.bulk(draw, ANY, 6, &format!("-b {allowed}k")),
        // What the device's fq allows each flow.
        1 if !world.down => {
            world.at_a = format!("tc qdisc add dev la root fq maxrate {allowed}kbit; ");
            world.bulk(draw, ANY, 6, "");
        }
        1 | 2 => world.bulk(draw, ANY, 6, &format!("--pacing {allowed}k")),
        _ => {
            let _ = write!(world.server, " --max-rate {allowed}kbit");
            world.bulk(draw, ANY, 6, "");
        }
    }
}

fn own_queue(draw: &mut Draw, world: &mut World) {
    world.down = false;
    let mbit = draw.log(1.5, 15.0);
    world.line = line(mbit * draw.log(2.0, 5.0), draw.log(2.0, 60.0), 100.0);
    let rate = format!("{}kbit", (mbit * 1e3).round());
    let htb = format!(
        "tc qdisc add dev la root handle 1: htb default 1; tc class add dev la parent 1: classid 1:1 htb rate {rate}; \
         tc qdisc add dev la parent 1:1 "
    );
    world.at_a = match draw.pick(&[0, 1, 2]) {
        0 => format!("tc qdisc add dev la root tbf rate {rate} burst 5k limit 100k; "),
        1 => format!("{htb} pfifo limit 100; "),
        _ => format!("{htb} fq_codel; "),
    };
    world.bulk(draw, LOSS_BASED, 6, "");
}

fn path_queue(draw: &mut Draw, world: &mut World) {
    let rtt_ms = draw.log(6.0, 80.0);
    let buffer_ms = (rtt_ms * draw.log(1.2, 4.0)).max(draw.log(80.0, 200.0));
    world.line = line(draw.log(2.0, 25.0), rtt_ms, buffer_ms);
    world.bulk(draw, LOSS_BASED, 8, "");
}

fn policer(draw: &mut Draw, world: &mut World) {
    let mbit = draw.log(2.0, 15.0);
    let rtt_ms = draw.log(6.0, 80.0);
    world.line = line(mbit * draw.log(3.0, 8.0), rtt_ms, 100.0);
    let burst = (mbit * 1e3 / 8.0 * draw.log(10.0, 60.0)).max(9e3).round();
    let police = format!(
        "tc qdisc add dev line clsact; tc filter add dev line ingress matchall action police rate {}kbit burst {burst} drop;",
        (mbit * 1e3).round()
    );
    if world.down { &mut world.at_r } else { &mut world.at_q }.push_str(&police);
    world.bulk(draw, LOSS_BASED, 8, "");
}

fn fast_retransmit(draw: &mut Draw, world: &mut World) {
    let (mbit, rtt_ms) = (draw.log(20.0, 40.0), draw.log(15.0, 60.0));
    let [clean, lossy] = ["".to_owned(), format!(", loss = \"{:.2}%\"", draw.log(1.5, 3.0))];
    let (up, down) = if world.down { (clean, lossy) } else { (lossy, clean) };
    let way = way(mbit, rtt_ms, 100.0);
    world.line = format!("up = {{ {way}{up} }}\ndown = {{ {way}{down} }}");
    world.bulk(draw, LOSS_BASED, 8, "");
}

fn black_hole(draw: &mut Draw, world: &mut World) {
    world.line = format!(
        "{}\nswallows-above = {}",
        line(draw.log(2.0, 30.0), draw.log(2.0, 100.0), 100.0),
        draw.log(1280.0, 1490.0).round()
    );
    world.bulk(draw, ANY, 6, "");
}

impl World {
    fn call(&mut self, options: &str) {
        self.calls = true;
        self.traffic = format!("rr {{b}} {options}");
    }
}

fn lost_calls(draw: &mut Draw, world: &mut World) {
    world.down = false;
    let way = format!("delay = \"{}us\"", (draw.log(1.0, 60.0) * 500.0).round());
    let loss = format!(", loss = \"{:.1}%\"", draw.log(4.0, 10.0));
    let (up, down) = draw.pick(&[(1, 0), (0, 1), (1, 1)]);
    let of = |lossy| format!("{{ {way}{} }}", if lossy == 1 { &*loss } else { "" });
    world.line = format!("up = {}\ndown = {}", of(up), of(down));
    world.call(&format!("--calls 500 --sizes {}", draw.log(1.0, 1400.0).round()));
}

fn delayed_ack(draw: &mut Draw, world: &mut World) {
    world.line = line(draw.log(5.0, 100.0), draw.log(0.3, 40.0), 100.0);
    let size = draw.log(2.0, 1400.0).round();
    if world.down {
        // The server writes its reply in two pieces.
        let own = std::env::current_exe().expect("a test has a file");
        let own = own.display();
        world.server = format!("{own} --ignored --exact confusion::worlds::writes_twice serve");
        return world.call(&format!("--calls 60 --sizes {size}"));
    }
    world.call(&format!("--pattern write-write-read --calls 60 --sizes {size}"));
}

fn nagle(draw: &mut Draw, world: &mut World) {
    world.down = false;
    world.line = line(draw.log(5.0, 100.0), draw.log(5.0, 80.0), 100.0);
    world.routes = "routes = [{ on = \"b\", to = \"a\", quickack = true }]".to_owned();
    let size = draw.log(1.0, 1400.0).round();
    world.call(&format!("--pattern write-write-read --calls 60 --sizes {size}"));
}

fn healthy(draw: &mut Draw, world: &mut World) {
    world.down = false;
    let rtt_ms = draw.log(0.2, 120.0);
    let way = way(draw.log(2.0, 200.0), rtt_ms, draw.log(20.0, 200.0));
    let jitter = match draw.pick(&[true, false, false]) {
        true => format!(", jitter = \"{}us\"", (rtt_ms * 50.0).round()),
        false => String::new(),
    };
    world.line = format!("both = {{ {way}{jitter} }}");
    let pattern = draw.pick(&["request-response", "connect", "write-write-read --nodelay"]);
    let size = draw.log(1.0, 8000.0).round();
    world.call(&format!("--pattern {pattern} --calls 60 --sizes {size}"));
}

/// A server of calls that is none of Quell's: it writes each reply in two pieces.
#[test]
#[ignore = "a program for other tests"]
fn writes_twice() {
    use std::io::{Read, Write};
    if !std::env::args().any(|argument| argument == "serve") {
        return;
    }
    let listener = std::net::TcpListener::bind("0.0.0.0:5201").expect("a free port");
    for stream in listener.incoming() {
        let mut stream = stream.expect("a client");
        let mut hello = [0; 32];
        if stream.read_exact(&mut hello).is_err() {
            continue;
        }
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| hello[at + i])) as usize;
        let (mut request, reply) = (vec![0; word(8)], vec![b'x'; word(12)]);
        let (head, tail) = reply.split_at(reply.len() / 2);
        while stream.read_exact(&mut request).is_ok() {
            if stream.write_all(head).and_then(|()| stream.write_all(tail)).is_err() {
                break;
            }
        }
    }
}
