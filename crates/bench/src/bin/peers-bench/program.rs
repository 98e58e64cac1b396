//! Who is compared, and how one round of each goes.

use crate::burner::Burners;
use crate::place::{End, FAR, FAR_DEVICE, Place};
use crate::{Asked, UDP_BYTES, cpu};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// A program that tells round-trip times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// `quell ping`.
    QuellIcmp,
    /// `fping`.
    Fping,
    /// `quell ping --method udp` against `quell serve`.
    QuellUdp,
    /// `irtt`.
    Irtt,
}

/// What came out of a round.
#[derive(Debug, Clone)]
pub struct Round {
    /// Of each packet, in microseconds, sorted.
    excess_us: Vec<f64>,
    wire_us: Vec<f64>,
    /// CPU seconds of the program, its start and end included, without its server.
    pub cpu_s: f64,
}

impl Round {
    /// The excess of which so many are no larger.
    pub fn excess(&self, share: f64) -> f64 {
        quantile(&self.excess_us, share)
    }

    /// The kernel's own round-trip time.
    pub fn wire(&self, share: f64) -> f64 {
        quantile(&self.wire_us, share)
    }
}

/// A process that is ended when nobody waits for it any more.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Peer {
    /// All of them, those that are compared beside each other.
    pub const ALL: [Self; 4] = [Self::QuellIcmp, Self::Fping, Self::QuellUdp, Self::Irtt];

    /// For the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::QuellIcmp => "quell, ICMP",
            Self::Fping => "fping",
            Self::QuellUdp => "quell, STAMP",
            Self::Irtt => "irtt",
        }
    }

    /// Whether it can be run here.
    pub fn is_there(self, asked: &Asked) -> bool {
        let mut asking = match self {
            Self::QuellIcmp | Self::QuellUdp => Command::new(&asked.quell),
            Self::Fping => Command::new("fping"),
            Self::Irtt => Command::new("irtt"),
        };
        asking.arg(if self == Self::Irtt { "version" } else { "--version" });
        let said = asking.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let there = said.is_ok_and(|s| s.success());
        if !there {
            println!("{} is not here, and left out", self.name());
        }
        there
    }

    /// One round. Errors when a packet was lost, or a program failed.
    pub fn round(self, asked: &Asked, place: &Place, busy: bool) -> Result<Round, String> {
        let _server = self.server(asked, place)?;
        let burners = busy.then(|| Burners::start(place)).transpose()?;
        let mut near = watch(place, End::Near, self.is_udp())?;
        let far = self.is_udp().then(|| watch(place, End::Far, true)).transpose()?;
        let used = cpu::children();
        let mut client = place.start(End::Near, &mut self.client(asked))?;
        let said = output(&mut client);
        let _ = client.wait();
        let cpu_s = cpu::children() - used;
        if let Some(burners) = burners {
            burners.end();
        }
        let rtt_us = self.read(&said?)?;
        let mut wire_us = apart(&stamps(&mut near)?, asked.packets)?;
        if let Some(mut far) = far {
            let answering_us = apart(&stamps(&mut far)?, asked.packets)?;
            if answering_us.len() != wire_us.len() {
                return Err("the two ends of the wire saw different packets".into());
            }
            wire_us.iter_mut().zip(answering_us).for_each(|(wire, answering)| *wire -= answering);
        }
        if rtt_us.len() != wire_us.len() {
            let (told, seen) = (rtt_us.len(), wire_us.len());
            return Err(format!("it told of {told} replies, and the wire carried {seen}"));
        }
        let mut excess_us: Vec<f64> = rtt_us.iter().zip(&wire_us).map(|(r, w)| r - w).collect();
        excess_us.sort_by(f64::total_cmp);
        wire_us.sort_by(f64::total_cmp);
        Ok(Round { excess_us, wire_us, cpu_s })
    }

    fn is_udp(self) -> bool {
        matches!(self, Self::QuellUdp | Self::Irtt)
    }

    /// What answers, where the kernel doesn't. It is there when this returns.
    fn server(self, asked: &Asked, place: &Place) -> Result<Option<Held>, String> {
        let mut command = match self {
            Self::QuellIcmp | Self::Fping => return Ok(None),
            Self::QuellUdp => {
                let mut command = Command::new(&asked.quell);
                command.args(["serve", "--bind", FAR]);
                command
            }
            Self::Irtt => {
                let mut command = Command::new("irtt");
                command.args(["server", "-b", FAR, "-i", "1ms"]);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut held = Held(place.start(End::Far, &mut command)?);
        // Each says so when it listens, and irtt a line before that.
        let lines = if self == Self::Irtt { 2 } else { 1 };
        let mut said = BufReader::new(held.0.stdout.take().ok_or("a server has no output")?);
        let mut line = String::new();
        for _ in 0..lines {
            said.read_line(&mut line).map_err(|e| e.to_string())?;
        }
        held.0.stdout = Some(said.into_inner());
        if line.is_empty() {
            return Err("its server ended at once".into());
        }
        Ok(Some(held))
    }

    fn client(self, asked: &Asked) -> Command {
        let (count, every) = (asked.packets.to_string(), asked.interval_ms);
        let mut command = match self {
            Self::QuellIcmp | Self::QuellUdp => Command::new(&asked.quell),
            Self::Fping => Command::new("fping"),
            Self::Irtt => Command::new("irtt"),
        };
        match self {
            Self::QuellIcmp | Self::QuellUdp => {
                command.args(["ping", FAR, "-c", &count, "-i", &format!("{every}ms")]);
                command.arg("--json=lines");
                if self.is_udp() {
                    command.args(["--method", "udp", "-s", &UDP_BYTES.to_string()]);
                }
            }
            Self::Fping => {
                command.args(["-C", &count, "-p", &every.to_string(), "-q", FAR]);
            }
            Self::Irtt => {
                let long = format!("{}ms", every * asked.packets as u64);
                command.args(["client", "-Q", "-i", &format!("{every}ms"), "-d", &long]);
                command.args(["-l", &UDP_BYTES.to_string(), "-o", "-", FAR]);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The round-trip times that it told, in microseconds, in order of sending.
    fn read(self, said: &Said) -> Result<Vec<f64>, String> {
        let nothing = || format!("it said `{}{}`", said.out, said.error);
        let mut times: Vec<(u64, f64)> = Vec::new();
        match self {
            Self::Fping => {
                // `10.9.0.2 : 0.045 0.032 …`, in milliseconds, on standard error.
                let line = said.error.lines().find_map(|l| l.split_once(" : "));
                let values = line.ok_or_else(nothing)?.1.split_whitespace();
                let values = values.map(|v| v.parse::<f64>().map(|ms| ms * 1e3));
                let values: Result<Vec<f64>, _> = values.collect();
                return values.map_err(|_| nothing());
            }
            Self::QuellIcmp | Self::QuellUdp => {
                for line in said.out.lines() {
                    let value: serde_json::Value =
                        serde_json::from_str(line).map_err(|_| nothing())?;
                    let (seq, rtt) = (value["seq"].as_u64(), value["rtt_ns"].as_f64());
                    times.extend(seq.zip(rtt.map(|ns| ns / 1e3)));
                }
            }
            Self::Irtt => {
                let value: serde_json::Value =
                    serde_json::from_str(&said.out).map_err(|_| nothing())?;
                for trip in value["round_trips"].as_array().ok_or_else(nothing)? {
                    let (seq, rtt) = (trip["seqno"].as_u64(), trip["delay"]["rtt"].as_f64());
                    times.extend(seq.zip(rtt.map(|ns| ns / 1e3)));
                }
            }
        }
        times.sort_by_key(|(seq, _)| *seq);
        Ok(times.into_iter().map(|(_, us)| us).collect())
    }
}

/// What a program said on both of its outputs.
struct Said {
    out: String,
    error: String,
}

/// Reads both to their ends; they are far smaller than a pipe takes, or come on one of them only.
fn output(child: &mut Child) -> Result<Said, String> {
    let mut said = Said { out: String::new(), error: String::new() };
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut said.out).map_err(|e| e.to_string())?;
    }
    if let Some(mut error) = child.stderr.take() {
        error.read_to_string(&mut said.error).map_err(|e| e.to_string())?;
    }
    Ok(said)
}

type Lines = BufReader<std::process::ChildStdout>;

/// Starts a watcher at one end, and waits until it sees packets.
fn watch(place: &Place, end: End, udp: bool) -> Result<(Held, Lines), String> {
    let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
    let device = if end == End::Near { crate::watch::NEAR_DEVICE } else { FAR_DEVICE };
    command.args(["watch", device]).stdin(Stdio::piped()).stdout(Stdio::piped());
    match udp {
        true => command.args(["udp", &UDP_BYTES.to_string()]),
        false => command.arg("icmp"),
    };
    let mut held = Held(place.start(end, &mut command)?);
    let mut lines = BufReader::new(held.0.stdout.take().ok_or("the watcher has no output")?);
    let mut line = String::new();
    lines.read_line(&mut line).map_err(|e| e.to_string())?;
    match line.trim() {
        "ready" => Ok((held, lines)),
        _ => Err("the watcher could not begin".into()),
    }
}

/// Ends a watcher and takes all that it saw.
fn stamps((watcher, seen): &mut (Held, Lines)) -> Result<String, String> {
    drop(watcher.0.stdin.take());
    let mut stamps = String::new();
    seen.read_to_string(&mut stamps).map_err(|e| e.to_string())?;
    Ok(stamps)
}

/// From request to reply at one end of the wire, in microseconds. The n-th reply answers the n-th request where each has one.
fn apart(stamps: &str, packets: usize) -> Result<Vec<f64>, String> {
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    for line in stamps.lines() {
        let Some((way, ns)) = line.split_once(' ') else { continue };
        let ns: u64 = ns.parse().map_err(|_| format!("the watcher said `{line}`"))?;
        if way == "out" { requests.push(ns) } else { replies.push(ns) }
    }
    // irtt leaves out packets for which its timer was late.
    if requests.len() != replies.len() || requests.len() * 2 < packets {
        let (out, back) = (requests.len(), replies.len());
        return Err(format!("of {packets} packets {out} were seen to leave and {back} to return"));
    }
    Ok(replies.iter().zip(&requests).map(|(r, q)| r.saturating_sub(*q) as f64 / 1e3).collect())
}

/// The value of which so large a share is no larger, of sorted values.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((share * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
}
