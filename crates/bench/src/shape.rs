//! What `quell shape` costs: traffic through it beside none, and thousands of subscribers beside one `tc -batch`.
//!
//! ```text
//!   near (10.9.0.1) ═══ veth ═══ (10.9.0.2) far       two namespaces that end with this program
//!     quell flow ──── host-fair, far above ────► quell serve
//!     quell shape apply | tc -batch                   the same steps: those that `quell shape plan` prints
//! ```
//!
//! Rounds alternate. Times are of the whole program, memory the most that it had.

use crate::options::BenchOptions;
use crate::stats::{Scratch, busy, median};
use crate::veth::{BenchHost, FAR, VethPair};
use serde_json::Value;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    let (pair, scratch) = (VethPair::new()?, Scratch::new()?);
    measure_stream(options, &pair, scratch.path())?;
    at_once(options, &pair, scratch.path())?;
    when_there(options, &pair, scratch.path())
}

fn seconds(options: &BenchOptions) -> u64 {
    options.seconds.unwrap_or(3)
}

struct ProgramCost {
    /// Where what it printed stands, if that was options for.
    pub out: String,
    pub seconds: f64,
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

/// What each command took, over the rounds.
#[derive(Default)]
struct CostTable(Vec<(&'static str, Vec<f64>, u64)>);

impl CostTable {
    fn note(&mut self, what: &'static str, went: &ProgramCost) {
        match self.0.iter_mut().find(|(name, ..)| *name == what) {
            Some((_, seconds, memory)) => {
                seconds.push(went.seconds);
                *memory = went.memory.max(*memory);
            }
            None => self.0.push((what, vec![went.seconds], went.memory)),
        }
    }

    fn print(&self) {
        for (what, seconds, memory) in &self.0 {
            println!("  {what:<44} {:>8.3} s   {:>6.0} MB", median(seconds), *memory as f64 / 1e6);
        }
    }
}

/// Fails where a change took other than so many steps.
fn steps(went: &ProgramCost, wanted: usize) -> Result<(), String> {
    let json: Value = serde_json::from_str(&went.out).map_err(|e| e.to_string())?;
    match json["steps"].as_array().map(Vec::len) {
        Some(count) if count == wanted => Ok(()),
        _ => Err(format!("one ceiling took other than {wanted} steps: {}", json["steps"])),
    }
}

/// Classes that are made when their subscriber is there, both ways.
fn when_there(options: &BenchOptions, pair: &VethPair, folder: &Path) -> Result<(), String> {
    let file = folder.join("subscribers.toml");
    let named = file.display().to_string();
    let with_file = ["--file", &named];
    let with_json = ["--file", &named, "--json"];
    let rates = "up = \"10Gbit\"\ndown = \"10Gbit\"";
    let run_shape = |arguments: &[&str]| shape(options, pair, folder, arguments);
    let mut costs = CostTable::default();
    for _ in 0..options.rounds {
        policy(options, rates, "10Mbit", &file)?;
        let plan = [&["plan", "--dev", "near0"][..], &with_file].concat();
        costs.note("quell shape plan", &run_shape(&plan)?);
        costs.note("quell shape apply", &run_shape(&apply(&with_file))?);
        policy(options, rates, "11Mbit", &file)?;
        costs.note("one other ceiling, of one who is not there", &run_shape(&apply(&with_file))?);
        run(pair, Command::new(&options.quell).args(["ping", "10.9.0.2", "-c", "1"]), folder)?;
        policy(options, rates, "12Mbit", &file)?;
        let went = run_shape(&apply(&with_json))?;
        steps(&went, 1)?;
        costs.note("one other ceiling, of one who is there", &went);
        for (what, name, wanted) in [
            ("quell shape change, one who is there", "s0", 1),
            ("quell shape change, one who is not there", "s1", 0),
        ] {
            let went = run_shape(&["change", name, "--up", "13Mbit", "--json"])?;
            steps(&went, wanted)?;
            costs.note(what, &went);
        }
        costs.note("quell shape status", &run_shape(&["status"])?);
        costs.note("quell shape off", &run_shape(&["off", "--dev", "near0"])?);
    }
    let (of, rounds) = (options.subscribers, options.rounds);
    println!(
        "\n{of} subscribers both ways, classes when they are there, median of {rounds} rounds"
    );
    costs.print();
    Ok(())
}

/// Classes that are made at once, one way.
fn at_once(options: &BenchOptions, pair: &VethPair, folder: &Path) -> Result<(), String> {
    let [file, commands] = ["subscribers.toml", "batch"].map(|name| folder.join(name));
    let (named, batch_file) = (file.display().to_string(), commands.display().to_string());
    let with_file = ["--file", &named, "--eager"];
    let with_json = ["--file", &named, "--eager", "--json"];
    let run_shape = |arguments: &[&str]| shape(options, pair, folder, arguments);
    let mut costs = CostTable::default();
    let mut lines = 0;
    let has_tc = run(pair, Command::new("tc").arg("-V"), folder).is_ok();
    for _ in 0..options.rounds {
        policy(options, UP, "10Mbit", &file)?;
        let plan = [&["plan", "--json", "--dev", "near0"][..], &with_file].concat();
        costs.note("quell shape plan", &run_shape(&plan)?);
        lines = batch(&folder.join("out"), &commands)?;
        if has_tc {
            let tc = run(pair, Command::new("tc").args(["-batch", &batch_file]), folder)?;
            costs.note("tc -batch", &tc);
            run(pair, Command::new("tc").args(["qdisc", "del", "dev", "near0", "root"]), folder)?;
        }
        costs.note("quell shape apply", &run_shape(&apply(&with_file))?);
        policy(options, UP, "11Mbit", &file)?;
        let went = run_shape(&apply(&with_json))?;
        steps(&went, 1)?;
        costs.note("quell shape apply, one other ceiling", &went);
        costs.note("quell shape off", &run_shape(&["off", "--dev", "near0"])?);
    }
    println!(
        "\n{} subscribers, {lines} steps at once, median of {} rounds",
        options.subscribers, options.rounds
    );
    costs.print();
    if !has_tc {
        println!("  tc -batch: left out, there is no tc");
    }
    Ok(())
}
