//! `shape-cost`: one TCP stream through queues whose rate is never reached, and through none.
//!
//! ```text
//!   no queue │ host-fair │ one step: u32 ─► class │ two steps: skbedit mark, then fw ─► class │ the other way: IFB
//! ```

use crate::place::{End, FAR, Place};
use crate::program::{apply, run, shape};
use crate::{Asked, median};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// A rate above what the stream reaches.
const ABOVE: &str = "400Gbit";

/// The class is found in one look at the packet.
const ONE_STEP: &str = r#"
[queue]
kind    = "htb"
default = "1:2"
class   = [ { id = "1:1", rate = "400Gbit", quantum = 60000 }, { id = "1:2", rate = "400Gbit", quantum = 60000 } ]
filter  = [ { kind = "u32", protocol = "ip", match = "ip src 10.9.0.1/32", class = "1:1" } ]
"#;

/// The packet is marked first, and its class found by the mark then.
const TWO_STEPS: &str = r#"
[clsact]
egress = [ { kind = "u32", protocol = "ip", match = "ip src 10.9.0.1/32", action = { skbedit = { mark = 1 } } } ]
[queue]
kind    = "htb"
default = "1:2"
class   = [ { id = "1:1", rate = "400Gbit", quantum = 60000 }, { id = "1:2", rate = "400Gbit", quantum = 60000 } ]
filter  = [ { kind = "fw", handle = 1, class = "1:1" } ]
"#;

/// What the stream goes through.
struct Way {
    name: &'static str,
    /// What is given to `quell shape apply`; none for no queue.
    queues: Option<Vec<String>>,
    /// The stream comes from the far end.
    comes: bool,
    rates: Vec<f64>,
    cpus: Vec<f64>,
    /// Why it could not be tried.
    lacking: Option<String>,
}

impl Way {
    fn new(name: &'static str, queues: Option<&[&str]>, comes: bool) -> Self {
        let queues = queues.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
        Way { name, queues, comes, rates: Vec::new(), cpus: Vec::new(), lacking: None }
    }

    fn go(&mut self, asked: &Asked, place: &Place, folder: &Path) -> Result<(), String> {
        if self.lacking.is_some() {
            return Ok(());
        }
        if let Some(queues) = &self.queues {
            let queues: Vec<&str> = queues.iter().map(String::as_str).collect();
            if let Err(why) = shape(asked, place, folder, &apply(&queues)) {
                self.lacking = Some(why);
                return Ok(());
            }
        }
        let (rate, cpus) = stream(asked, place, folder, self.comes)?;
        self.rates.push(rate);
        self.cpus.push(cpus);
        if self.queues.is_some() {
            shape(asked, place, folder, &["off", "--dev", "near0"])?;
        }
        Ok(())
    }
}

pub fn measure(asked: &Asked, place: &Place, folder: &Path) -> Result<(), String> {
    let [one, two] = [("one.toml", ONE_STEP), ("two.toml", TWO_STEPS)].map(|(name, text)| {
        let path = folder.join(name);
        let written = std::fs::write(&path, text).map_err(|e| e.to_string());
        written.map(|()| path.display().to_string())
    });
    let (one, two) = (one?, two?);
    let mut ways = [
        Way::new("no queue", None, false),
        Way::new("host-fair", Some(&["--up", ABOVE, "--host", "10.9.0.1"]), false),
        Way::new("HTB, one step: u32", Some(&["--tree", &one]), false),
        Way::new("HTB, two steps: mark, then fw", Some(&["--tree", &two]), false),
        Way::new("what comes: no queue", None, true),
        Way::new(
            "what comes: tiers on an IFB",
            Some(&["--policy", "tiers", "--up", ABOVE, "--down", ABOVE]),
            true,
        ),
    ];
    for _ in 0..asked.rounds {
        for way in &mut ways {
            way.go(asked, place, folder)?;
        }
    }
    println!(
        "\none TCP stream over veth, medians of {} rounds of {} s; CPUs of the whole machine",
        asked.rounds, asked.seconds
    );
    let mut bare = f64::NAN;
    for way in ways {
        if let Some(why) = way.lacking {
            let line = why.lines().next().unwrap_or_default();
            println!("  {:<32} left out: {line}", way.name);
            continue;
        }
        let (rate, cpus) = (median(way.rates), median(way.cpus));
        if way.queues.is_none() {
            bare = rate;
        }
        println!(
            "  {:<32} {:>7.2} Gbit/s {:>6.3} {:>6.2} CPUs",
            way.name,
            rate / 1e9,
            rate / bare,
            cpus
        );
    }
    println!(
        "  published by IPFire (a D-525 on a line of 400 Mbit/s): none 400, 20 % CPU; IMQ, two steps 120;\n  \
         IFB, one step, no TOS rewritten, several queues 390, 40 to 50 % CPU"
    );
    Ok(())
}

/// What arrived of one stream, in bits per second, and how many CPUs were busy meanwhile.
fn stream(asked: &Asked, place: &Place, folder: &Path, comes: bool) -> Result<(f64, f64), String> {
    let mut server = Command::new(&asked.quell);
    server.args(["serve", "--bind", FAR]).stdout(Stdio::piped());
    let mut server = place.start(End::Far, &mut server)?;
    let mut says = BufReader::new(server.stdout.take().ok_or("the server has no output")?);
    let mut line = String::new();
    while !line.contains("serving") {
        line.clear();
        if says.read_line(&mut line).map_err(|e| e.to_string())? == 0 {
            return Err("the server ended before it listened".into());
        }
    }
    let mut client = Command::new(&asked.quell);
    client.args(["flow", FAR, "--json=iperf3", "-t", &asked.seconds.to_string()]);
    if comes {
        client.arg("-R");
    }
    let before = busy();
    let went = run(place, &mut client, folder)?;
    let cpus = (busy() - before) / went.seconds;
    let pid = nix::unistd::Pid::from_raw(server.id() as i32);
    let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
    server.wait().map_err(|e| e.to_string())?;
    let json: Value = serde_json::from_str(&went.out).map_err(|e| e.to_string())?;
    let rate = json.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64);
    let rate = rate.ok_or_else(|| format!("no rate in the report: {}", json["error"]))?;
    Ok((rate, cpus))
}

/// Seconds for which the machine's CPUs were busy, all of them together, since it was started: /proc/stat counts hundredths.
fn busy() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks = line.split_whitespace().skip(1).map(|n| n.parse().unwrap_or(0.0));
    // Idle time and waiting for disks are the fourth and fifth.
    ticks
        .take(8)
        .enumerate()
        .filter(|(n, _)| !(3..5).contains(n))
        .map(|(_, n): (_, f64)| n)
        .sum::<f64>()
        / 100.0
}
