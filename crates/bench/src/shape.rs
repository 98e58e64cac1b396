//! What `quell shape` costs: traffic through it beside none, and thousands of subscribers beside one `tc -batch`.
//!
//! ```text
//!   near (10.9.0.1) ═══ veth ═══ (10.9.0.2) far       two namespaces that end with this program
//!     quell flow ──── host-fair, far above ────► quell serve
//!     quell shape apply | tc -batch                   the same steps: those that `quell shape plan` prints
//!   30 hosts ═══ router ═══ 10 Mbit/s, host-fair      in the lab, as is `quell shape try`
//! ```
//!
//! Rounds alternate. Times are of the whole program, memory the most that it had.

use crate::options::BenchOptions;
use crate::stats::{Scratch, busy, median};
use crate::veth::{BenchHost, FAR, VethPair};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    let (pair, scratch) = (VethPair::new()?, Scratch::new()?);
    measure_stream(options, &pair, scratch.path())?;
    measure_subscribers(options, &pair, scratch.path())?;
    measure_hosts(options, scratch.path())
}

fn seconds(options: &BenchOptions) -> u64 {
    options.seconds.unwrap_or(3)
}

/// How a program went.
struct ProgramCost {
    /// Where what it printed stands, if that was options for.
    pub out: String,
    /// From start to end.
    pub seconds: f64,
    /// Most memory that it had, in bytes.
    pub memory: u64,
}

/// `quell shape`, with its logs in this folder.
fn shape(
    options: &BenchOptions,
    pair: &VethPair,
    folder: &Path,
    arguments: &[&str],
) -> Result<ProgramCost, String> {
    run(pair, &mut command(options, folder, arguments), folder)
}

fn command(options: &BenchOptions, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(&options.quell);
    command.arg("shape").args(arguments).arg("--state").arg(folder.join("state"));
    command
}

/// What `quell shape apply` is called with.
fn apply<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["apply", "--dev", "near0", "--confirm-within", "never"], more].concat()
}

/// Runs a program at the near end until it ends well. What it prints goes through a file: this program stays small, since a child begins with
/// what its parent has.
fn run(pair: &VethPair, command: &mut Command, folder: &Path) -> Result<ProgramCost, String> {
    let shown = format!("{command:?}");
    let path = folder.join("out");
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    command.stdout(File::create(&path).map_err(failed)?).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut program = pair.start(BenchHost::Near, command)?;
    let mut error = String::new();
    let errors = program.child().stderr.take().ok_or("no output")?;
    // A watchdog that stays has no such output.
    errors.take(1 << 16).read_to_string(&mut error).map_err(|e| e.to_string())?;
    let (good, memory) = end(program.into_child())?;
    let seconds = begun.elapsed().as_secs_f64();
    if !good {
        return Err(format!("{error:.500}\n{shown}"));
    }
    let small = std::fs::metadata(&path).map_err(failed)?.len() < 1 << 16;
    let out = if small { std::fs::read_to_string(&path).map_err(failed)? } else { String::new() };
    Ok(ProgramCost { out, seconds, memory })
}

/// Whether a program ended well, and the most memory that it had, in bytes.
fn end(child: Child) -> Result<(bool, u64), String> {
    let mut status = 0;
    // SAFETY: all zeros are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both live through the call; nobody else waits for this child.
    let done = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    if done < 0 {
        return Err(std::io::Error::last_os_error().to_string());
    }
    Ok((libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, usage.ru_maxrss as u64 * 1024))
}

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
struct ShapedStream {
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

impl ShapedStream {
    fn new(name: &'static str, queues: Option<&[&str]>, comes: bool) -> Self {
        let queues = queues.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
        ShapedStream { name, queues, comes, rates: Vec::new(), cpus: Vec::new(), lacking: None }
    }

    fn go(&mut self, options: &BenchOptions, pair: &VethPair, folder: &Path) -> Result<(), String> {
        if self.lacking.is_some() {
            return Ok(());
        }
        if let Some(queues) = &self.queues {
            let queues: Vec<&str> = queues.iter().map(String::as_str).collect();
            if let Err(why) = shape(options, pair, folder, &apply(&queues)) {
                self.lacking = Some(why);
                return Ok(());
            }
        }
        let (rate, cpus) = stream(options, pair, folder, self.comes)?;
        self.rates.push(rate);
        self.cpus.push(cpus);
        if self.queues.is_some() {
            shape(options, pair, folder, &["off", "--dev", "near0"])?;
        }
        Ok(())
    }
}

fn measure_stream(options: &BenchOptions, pair: &VethPair, folder: &Path) -> Result<(), String> {
    let [one, two] = [("one.toml", ONE_STEP), ("two.toml", TWO_STEPS)].map(|(name, text)| {
        let path = folder.join(name);
        let written = std::fs::write(&path, text).map_err(|e| e.to_string());
        written.map(|()| path.display().to_string())
    });
    let (one, two) = (one?, two?);
    let mut ways = [
        ShapedStream::new("no queue", None, false),
        ShapedStream::new("host-fair", Some(&["--up", ABOVE, "--host", "10.9.0.1"]), false),
        ShapedStream::new("HTB, one step: u32", Some(&["--tree", &one]), false),
        ShapedStream::new("HTB, two steps: mark, then fw", Some(&["--tree", &two]), false),
        ShapedStream::new("what comes: no queue", None, true),
        ShapedStream::new(
            "what comes: tiers on an IFB",
            Some(&["--policy", "tiers", "--up", ABOVE, "--down", ABOVE]),
            true,
        ),
    ];
    for _ in 0..options.rounds {
        for way in &mut ways {
            way.go(options, pair, folder)?;
        }
    }
    println!(
        "\none TCP stream over veth, medians of {} rounds of {} s; CPUs of the whole machine",
        options.rounds,
        seconds(options)
    );
    let mut bare = f64::NAN;
    for way in ways {
        if let Some(why) = way.lacking {
            let line = why.lines().next().unwrap_or_default();
            println!("  {:<32} left out: {line}", way.name);
            continue;
        }
        let (rate, cpus) = (median(&way.rates), median(&way.cpus));
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
fn stream(
    options: &BenchOptions,
    pair: &VethPair,
    folder: &Path,
    comes: bool,
) -> Result<(f64, f64), String> {
    let mut server = Command::new(&options.quell);
    server.args(["serve", "--bind", FAR]).stdout(Stdio::piped());
    let mut server = pair.start(BenchHost::Far, &mut server)?;
    let _output = server.until(&["serving"])?;
    let mut client = Command::new(&options.quell);
    client.args(["flow", FAR, "-J", "-t", &seconds(options).to_string()]);
    if comes {
        client.arg("-R");
    }
    let before = busy();
    let went = run(pair, &mut client, folder)?;
    let cpus = (busy() - before) / went.seconds;
    server.stop()?;
    let json: Value = serde_json::from_str(&went.out).map_err(|e| e.to_string())?;
    let rate = json.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64);
    let rate = rate.ok_or_else(|| format!("no rate in the report: {}", json["error"]))?;
    Ok((rate, cpus))
}

/// Subscribers with a floor and a ceiling each, of whom the first, who is the near end, has this ceiling.
fn policy(options: &BenchOptions, rates: &str, first: &str, file: &Path) -> Result<(), String> {
    let one = |n: u32| {
        let ceiling = if n == 0 { first } else { "20Mbit" };
        let (high, low) = (n / 256, n % 256);
        let near = if n == 0 { ", \"10.9.0.1\"" } else { "" };
        format!(
            "[[subscriber]]\nname = \"s{n}\"\nprefixes = [\"10.{}.{}.{low}\"{near}]\n\
             up = {{ floor = \"100kbit\", ceiling = \"{ceiling}\" }}\n\
             down = {{ floor = \"100kbit\", ceiling = \"20Mbit\" }}\n",
            16 + high / 256,
            high % 256
        )
    };
    let subscribers: String = (0..options.subscribers).map(one).collect();
    std::fs::write(file, format!("{rates}\n{subscribers}")).map_err(|e| e.to_string())
}

/// One way's rate.
const UP: &str = "up = \"10Gbit\"";

/// The commands of a plan, as `tc -batch` takes them. How many there are.
fn batch(plan: &Path, to: &Path) -> Result<usize, String> {
    let failed = |e: std::io::Error| e.to_string();
    let mut file = BufWriter::new(File::create(to).map_err(failed)?);
    let mut count = 0;
    let plan: Value = serde_json::from_reader(BufReader::new(File::open(plan).map_err(failed)?))
        .map_err(|e| e.to_string())?;
    for line in plan["commands"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if let Some(command) = line.strip_prefix("tc ") {
            writeln!(file, "{command}").map_err(failed)?;
            count += 1;
        }
    }
    file.flush().map_err(failed)?;
    Ok(count)
}

fn measure_subscribers(
    options: &BenchOptions,
    pair: &VethPair,
    folder: &Path,
) -> Result<(), String> {
    at_once(options, pair, folder)?;
    when_there(options, pair, folder)
}

/// Classes that are made when their subscriber is there, both ways.
fn when_there(options: &BenchOptions, pair: &VethPair, folder: &Path) -> Result<(), String> {
    let file = folder.join("subscribers.toml");
    let named = file.display().to_string();
    let with_file = ["--file", &named];
    let rates = "up = \"10Gbit\"\ndown = \"10Gbit\"";
    let mut rows: Vec<(&str, Vec<f64>, u64)> = Vec::new();
    let mut note = |what: &'static str, went: &ProgramCost| match rows
        .iter_mut()
        .find(|(name, ..)| *name == what)
    {
        Some((_, seconds, memory)) => {
            seconds.push(went.seconds);
            *memory = went.memory.max(*memory);
        }
        None => rows.push((what, vec![went.seconds], went.memory)),
    };
    for _ in 0..options.rounds {
        policy(options, rates, "10Mbit", &file)?;
        let plan = [&["plan", "--dev", "near0"][..], &with_file].concat();
        note("quell shape plan", &shape(options, pair, folder, &plan)?);
        note("quell shape apply", &shape(options, pair, folder, &apply(&with_file))?);
        policy(options, rates, "11Mbit", &file)?;
        note(
            "one other ceiling, of one who is not there",
            &shape(options, pair, folder, &apply(&with_file))?,
        );
        run(pair, Command::new(&options.quell).args(["ping", "10.9.0.2", "-c", "1"]), folder)?;
        policy(options, rates, "12Mbit", &file)?;
        let with_json = [&with_file[..], &["--json"]].concat();
        let went = shape(options, pair, folder, &apply(&with_json))?;
        let json: Value = serde_json::from_str(&went.out).map_err(|e| e.to_string())?;
        if json["steps"].as_array().map(Vec::len) != Some(1) {
            return Err(format!("one ceiling took other than one step: {}", json["steps"]));
        }
        note("one other ceiling, of one who is there", &went);
        let mut change = |what: &'static str, name: &str, steps: usize| {
            let all = ["change", name, "--up", "13Mbit", "--json"];
            let went = shape(options, pair, folder, &all)?;
            let json: Value = serde_json::from_str(&went.out).map_err(|e| e.to_string())?;
            if json["steps"].as_array().map(Vec::len) != Some(steps) {
                return Err(format!("{what}: not {steps} steps: {}", json["steps"]));
            }
            note(what, &went);
            Ok(())
        };
        change("quell shape change, one who is there", "s0", 1)?;
        change("quell shape change, one who is not there", "s1", 0)?;
        note("quell shape status", &shape(options, pair, folder, &["status"])?);
        note("quell shape off", &shape(options, pair, folder, &["off", "--dev", "near0"])?);
    }
    let (of, rounds) = (options.subscribers, options.rounds);
    println!(
        "\n{of} subscribers both ways, classes when they are there, median of {rounds} rounds"
    );
    for (what, seconds, memory) in rows {
        println!("  {what:<44} {:>8.3} s   {:>6.0} MB", median(&seconds), memory as f64 / 1e6);
    }
    Ok(())
}

/// Classes that are made at once, one way.
fn at_once(options: &BenchOptions, pair: &VethPair, folder: &Path) -> Result<(), String> {
    let [file, commands] = ["subscribers.toml", "batch"].map(|name| folder.join(name));
    let (named, batch_file) = (file.display().to_string(), commands.display().to_string());
    let with_file = ["--file", &named, "--eager"];
    let (mut plan, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut change, mut off) = (Vec::new(), Vec::new());
    let (mut plan_memory, mut memory, mut their_memory) = (0, 0, 0);
    let (mut change_memory, mut off_memory) = (0, 0);
    let mut lines = 0;
    let has_tc = run(pair, Command::new("tc").arg("-V"), folder).is_ok();
    for _ in 0..options.rounds {
        policy(options, UP, "10Mbit", &file)?;
        let planned = shape(
            options,
            pair,
            folder,
            &[&["plan", "--json", "--dev", "near0"][..], &with_file].concat(),
        )?;
        lines = batch(&folder.join("out"), &commands)?;
        if has_tc {
            let tc = run(pair, Command::new("tc").args(["-batch", &batch_file]), folder)?;
            theirs.push(tc.seconds);
            their_memory = their_memory.max(tc.memory);
            run(pair, Command::new("tc").args(["qdisc", "del", "dev", "near0", "root"]), folder)?;
        }
        let quell = shape(options, pair, folder, &apply(&with_file))?;
        policy(options, UP, "11Mbit", &file)?;
        let with_json = [&with_file[..], &["--json"]].concat();
        let once_more = shape(options, pair, folder, &apply(&with_json))?;
        let json: Value = serde_json::from_str(&once_more.out).map_err(|e| e.to_string())?;
        if json["steps"].as_array().map(Vec::len) != Some(1) {
            return Err(format!("one ceiling took other than one step: {}", json["steps"]));
        }
        let gone = shape(options, pair, folder, &["off", "--dev", "near0"])?;
        off.push(gone.seconds);
        off_memory = off_memory.max(gone.memory);
        plan.push(planned.seconds);
        ours.push(quell.seconds);
        change.push(once_more.seconds);
        plan_memory = plan_memory.max(planned.memory);
        memory = memory.max(quell.memory);
        change_memory = change_memory.max(once_more.memory);
    }
    let line = |what: &str, seconds: Vec<f64>, bytes: u64| {
        println!("  {what:<38} {:>8.3} s   {:>6.0} MB", median(&seconds), bytes as f64 / 1e6);
    };
    println!(
        "\n{} subscribers, {lines} steps at once, median of {} rounds",
        options.subscribers, options.rounds
    );
    line("quell shape plan", plan, plan_memory);
    line("quell shape apply", ours, memory);
    if has_tc {
        line("tc -batch", theirs, their_memory);
    } else {
        println!("  tc -batch                              left out: there is no tc");
    }
    line("quell shape apply, one other ceiling", change, change_memory);
    line("quell shape off", off, off_memory);
    Ok(())
}

const HOSTS: usize = 30;

/// Thirty hosts, each with another number of connections, 1 to 5.
fn experiment() -> String {
    let names = |quoted: fn(usize) -> String| (0..HOSTS).map(quoted).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        r#"
name = "thirty-hosts"
duration = "30s"
warm-up = "30s"
probes-run = "together"
[topology]
hosts = [{}, "server"]
routers = ["router"]
[[topology.link]]
name = "wan"
ends = ["router", "server"]
up = {{ rate = "10Mbit", delay = "10ms" }}
down = {{ delay = "10ms" }}
[[queue]]
name = "fair"
on = "router:wan"
policy = {{ kind = "host-fair", rate = "9.6Mbit" }}
[[scenario]]
name = "fair"
loads = [{}]
queues = ["fair"]
[[probe]]
name = "ping"
kind = "ping"
from = "h0"
to = "server"
"#,
        names(|n| format!("\"h{n}\"")),
        names(|n| format!("\"l{n}\"")),
    );
    for n in 0..HOSTS {
        let connections = n % 5 + 1;
        let _ = write!(
            text,
            "[[topology.link]]\nname = \"lan{n}\"\nends = [\"h{n}\", \"router\"]\n\
             [[load]]\nname = \"l{n}\"\nkind = \"tcp\"\nfrom = \"h{n}\"\nto = \"server\"\nconnections = {connections}\n"
        );
    }
    text
}

fn measure_hosts(options: &BenchOptions, folder: &Path) -> Result<(), String> {
    let file = folder.join("hosts.toml");
    std::fs::write(&file, experiment()).map_err(|e| e.to_string())?;
    let out = folder.join("runs");
    std::fs::create_dir_all(&out).map_err(|e| e.to_string())?;
    let mut run = Command::new(&options.quell);
    run.arg("run").arg(&file).arg("--out").arg(&out).arg("--json");
    let document: Value = serde_json::from_str(&said(&mut run)?).map_err(|e| e.to_string())?;
    let mut shares = shares(&document)?;
    shares.sort_by(f64::total_cmp);
    let fair = 1.0 / HOSTS as f64;
    let percent = |share: f64| (share / fair - 1.0) * 100.0;
    println!(
        "\nshares of {HOSTS} hosts with 1 to 5 connections each, host-fair: {:+.1} to {:+.1} % of a fair one",
        percent(shares[0]),
        percent(shares[HOSTS - 1]),
    );
    let mut seconds = Vec::new();
    for _ in 0..options.rounds {
        let begun = Instant::now();
        said(Command::new(&options.quell).args(["shape", "try", "--line", "10/50", "--json"]))?;
        seconds.push(begun.elapsed().as_secs_f64());
    }
    println!("quell shape try --line 10/50: {:.1} s", median(&seconds));
    Ok(())
}

/// The hosts' shares, of all their connections: that of a load of several is named `l7-2`.
fn shares(document: &Value) -> Result<Vec<f64>, String> {
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for row in document["results"].as_array().into_iter().flatten() {
        if let (Some(stream), Some(share)) = (row["stream"].as_str(), row["share"].as_f64()) {
            let load = stream.split_once('-').map_or(stream, |(load, _)| load);
            *shares.entry(load).or_default() += share;
        }
    }
    match shares.len() {
        HOSTS => Ok(shares.into_values().collect()),
        other => Err(format!("shares of {other} hosts")),
    }
}

/// What a program printed that ended well.
fn said(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command.output().map_err(|e| format!("{shown}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {:.500}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{shown}: {e}"))
}
