//! Who is compared, and how one round of each goes.

use crate::place::{End, FAR, Place};
use crate::{Asked, cpu};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// One connection, as fast as it goes.
    Tcp,
    /// Datagrams of `size` bytes of payload, as many as go or at a rate in bits of payload a second.
    Udp {
        /// Bytes.
        size: u64,
        /// Bits a second.
        rate: Option<u64>,
    },
}

/// Who.
#[derive(Debug, Clone, Copy)]
pub enum Peer {
    /// Ours; the word says how.
    Quell(&'static str),
    /// iperf3, with a further option.
    Iperf3(&'static str),
    /// nuttcp.
    Nuttcp,
}

/// What came out of a round.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// Bits or packets a second that were delivered.
    pub rate: f64,
    /// Share of packets that were lost.
    pub lost: f64,
    /// CPU seconds of both processes.
    pub cpu: f64,
    /// CPU seconds that the machine was busy.
    pub busy: f64,
    /// How long it took, with the processes' start and end.
    pub seconds: f64,
}

impl Outcome {
    /// What was delivered for a CPU second of both processes.
    pub fn per_cpu(&self) -> f64 {
        self.rate * self.seconds / self.cpu
    }

    /// What was delivered for a second that a CPU of the machine was busy.
    pub fn per_busy(&self) -> f64 {
        self.rate * self.seconds / self.busy
    }
}

/// Longest wait for a process to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// A process that is ended when nobody waits for it any more.
pub struct Held(pub Option<Child>);

impl Held {
    /// Waits for its end.
    pub fn end(mut self) -> Result<(), String> {
        let Some(child) = self.0.take() else { return Ok(()) };
        cpu::end(child, PATIENCE).map(drop)
    }

    /// Its output, once.
    pub fn output(&mut self) -> Result<BufReader<ChildStdout>, String> {
        let output = self.0.as_mut().and_then(|c| c.stdout.take());
        output.map(BufReader::new).ok_or_else(|| "a process has no output".into())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Peer {
    /// For the table.
    pub fn name(&self, asked: &Asked) -> String {
        match self {
            Self::Quell(how) if asked.quell.is_some() => format!("quell flow {how}"),
            Self::Quell(how) => format!("movers, {how}"),
            Self::Iperf3(option) => format!("iperf3 {option}"),
            Self::Nuttcp => "nuttcp".into(),
        }
    }

    /// A round.
    pub fn run(&self, asked: &Asked, place: &Place, kind: Kind) -> Result<Outcome, String> {
        let (used, busy, begun) = (cpu::children(), cpu::busy(), Instant::now());
        let mut outcome = match self {
            Self::Quell(how) => match &asked.quell {
                None => movers(asked, place, kind, how)?,
                Some(quell) => {
                    let mut server = Command::new(quell);
                    server.args(["serve", "--bind", FAR]);
                    let mut client = Command::new(quell);
                    client.args(["flow", FAR, "--json=iperf3"]);
                    if *how == "sendfile" {
                        client.arg("-Z");
                    }
                    iperf3(asked, place, kind, server, client)?
                }
            },
            Self::Iperf3(option) => {
                let mut server = Command::new("iperf3");
                server.args(["-s", "-1", "--forceflush"]);
                let mut client = Command::new("iperf3");
                client.args(["-c", FAR, "-J"]);
                client.args(option.split_whitespace());
                iperf3(asked, place, kind, server, client)?
            }
            Self::Nuttcp => nuttcp(asked, place)?,
        };
        outcome.cpu = cpu::children() - used;
        outcome.busy = cpu::busy() - busy;
        // The time that data flowed: starting and ending takes a little more.
        outcome.seconds = (asked.seconds as f64).min(begun.elapsed().as_secs_f64());
        Ok(outcome)
    }
}

fn movers(asked: &Asked, place: &Place, kind: Kind, how: &str) -> Result<Outcome, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let at = format!("{FAR}:5201");
    let seconds = asked.seconds.to_string();
    let (far, near) = match kind {
        Kind::Tcp => (
            vec!["mover".into(), "tcp-receive".into(), at.clone()],
            vec!["mover".into(), "tcp-send".into(), at, seconds, how.to_owned()],
        ),
        Kind::Udp { size, rate } => (
            vec!["mover".into(), "udp-receive".into(), at.clone(), how.to_owned()],
            vec![
                "mover".into(),
                "udp-send".into(),
                at,
                seconds,
                size.to_string(),
                rate.unwrap_or(0).to_string(),
                how.to_owned(),
            ],
        ),
    };
    let mut far = Command::new(&me).args(far).pipes(place, End::Far)?;
    let mut says = far.output()?;
    let mut line = String::new();
    says.read_line(&mut line).map_err(|e| e.to_string())?;
    let near = Command::new(&me).args(near).pipes(place, End::Near)?;
    let mut near = near;
    let mut sent = String::new();
    near.output()?.read_to_string(&mut sent).map_err(|e| e.to_string())?;
    near.end()?;
    // Its standard input ends: it counts what waits and ends too.
    drop(far.0.as_mut().and_then(|c| c.stdin.take()));
    line.clear();
    says.read_to_string(&mut line).map_err(|e| e.to_string())?;
    far.end()?;
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let [bytes, packets, lost, seconds] = numbers[..] else {
        return Err(format!("the receiver said `{line}`"));
    };
    Ok(match kind {
        Kind::Tcp => Outcome { rate: bytes * 8.0 / seconds, ..Outcome::default() },
        Kind::Udp { .. } => Outcome {
            rate: packets / seconds,
            lost: lost / (lost + packets).max(1.0),
            ..Outcome::default()
        },
    })
}

trait Pipes {
    fn pipes(&mut self, place: &Place, end: End) -> Result<Held, String>;
}

impl Pipes for Command {
    fn pipes(&mut self, place: &Place, end: End) -> Result<Held, String> {
        self.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        place.start(end, self).map(|child| Held(Some(child)))
    }
}

/// Client and server that speak as iperf3 does.
fn iperf3(
    asked: &Asked,
    place: &Place,
    kind: Kind,
    mut server: Command,
    mut client: Command,
) -> Result<Outcome, String> {
    let mut server = server.pipes(place, End::Far)?;
    let mut says = server.output()?;
    let mut line = String::new();
    while !line.contains("isten") {
        line.clear();
        if says.read_line(&mut line).map_err(|e| e.to_string())? == 0 {
            return Err("the server ended before it listened".into());
        }
    }
    client.args(["-t", &asked.seconds.to_string()]);
    if let Kind::Udp { size, rate } = kind {
        client.args(["-u", "-l", &size.to_string(), "-b", &rate.unwrap_or(0).to_string()]);
    }
    let mut client = client.pipes(place, End::Near)?;
    let mut json = String::new();
    client.output()?.read_to_string(&mut json).map_err(|e| e.to_string())?;
    client.end()?;
    if let Some(child) = &server.0 {
        // quell serve goes on until it is told; iperf3 -1 has ended.
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
    }
    server.end()?;
    let json: serde_json::Value =
        serde_json::from_str(&json).map_err(|e| format!("{e} in `{json:.200}`"))?;
    let number = |path: &str| {
        json.pointer(path)
            .and_then(serde_json::Value::as_f64)
            .ok_or_else(|| format!("no {path} in the client's report: {}", json["error"]))
    };
    Ok(match kind {
        Kind::Tcp => {
            Outcome { rate: number("/end/sum_received/bits_per_second")?, ..Outcome::default() }
        }
        Kind::Udp { .. } => {
            let (packets, lost) = (number("/end/sum/packets")?, number("/end/sum/lost_packets")?);
            Outcome {
                rate: (packets - lost) / number("/end/sum/seconds")?,
                lost: lost / packets.max(1.0),
                ..Outcome::default()
            }
        }
    })
}

fn nuttcp(asked: &Asked, place: &Place) -> Result<Outcome, String> {
    let server =
        Command::new("nuttcp").args(["-1", "--nofork", "-P", "5101"]).pipes(place, End::Far)?;
    let mut rate = None;
    // It does not say when it listens.
    for _ in 0..100 {
        let mut client = Command::new("nuttcp")
            .args(["-P", "5101", "-p", "5102", "-fparse", &format!("-T{}", asked.seconds), FAR])
            .pipes(place, End::Near)?;
        let mut text = String::new();
        client.output()?.read_to_string(&mut text).map_err(|e| e.to_string())?;
        client.end()?;
        let figure = |t: &str| t.strip_prefix("rate_Mbps=").and_then(|n| n.parse::<f64>().ok());
        rate = text.split_whitespace().find_map(figure);
        if rate.is_some() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    server.end()?;
    let rate = rate.ok_or("nuttcp gave no rate")? * 1e6;
    Ok(Outcome { rate, ..Outcome::default() })
}
