//! Real hosts as the carrier: agents on other machines, each reached by a child `ssh HOST quell agent`, and on this one by a child of ours.
//!
//! ```text
//!   quell run ──┬─ ssh ann@server ──► sh ──► quell agent      the supervisor is this process
//!               └─ quell agent
//! ```
//!
//! Before anything is measured a rehearsal finds out whether all can begin: it opens what each task needs, sends nothing, and names the hosts
//! that fail.

use super::carrier::{STOPPED, own_program};
use super::inside::FileJournal;
use crate::spec::machines::{LostHost, Machine, Machines};
use quell_lab::cell::CellPlan;
use quell_lab::supervise::{Journal, Lease, MachineState, SuperviseError, supervise_machines};
use quell_lab::topology::Network;
use quell_model::{Task, TaskKind};
use quell_sys::wait::Bell;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What carries cells on machines.
#[derive(Debug, Clone)]
pub struct RealHosts {
    machines: Machines,
    /// The name under which an installed program lies in a user's cache: it tells its content.
    program: String,
    /// What the rehearsal found.
    states: Vec<MachineState>,
}

impl RealHosts {
    /// Looks whether all machines can begin with each task of these plans, at each of its ports, and with the queues that each scenario manages.
    /// With `install`, this program is copied to those that have not got it.
    pub fn rehearsed(
        machines: &Machines,
        plans: &[CellPlan],
        install: bool,
        stop: &Bell,
    ) -> Result<Self, String> {
        let by_ssh = machines.hosts.values().any(|machine| machine.ssh.is_some());
        let program = if by_ssh { program_name()? } else { String::new() };
        let mut hosts = Self { machines: machines.clone(), program, states: Vec::new() };
        if install {
            hosts.install()?;
        }
        let mut seen = BTreeSet::new();
        let manages = |task: &Task| matches!(task.kind, TaskKind::ManageQueues { .. });
        for plan in plans {
            let scenario = |task| manages(task).then_some(&plan.id.scenario);
            // A server's port follows from how many stand before it.
            let tasks = plan.tasks.iter().enumerate();
            let tasks = tasks.map(|(at, task)| (at, &task.host, &task.id, scenario(task)));
            let known = seen.len();
            seen.extend(tasks);
            if seen.len() > known {
                let states = hosts.supervise(plan, true, &mut Nowhere, stop).map_err(|error| {
                    format!("nothing was sent, since not all hosts can begin:\n{error}")
                })?;
                hosts.states.extend(states);
            }
        }
        Ok(hosts)
    }

    pub(super) fn kernels(&self) -> String {
        let mut kernels: Vec<&str> = self.states.iter().map(|s| s.agent.kernel.as_str()).collect();
        kernels.sort_unstable();
        kernels.dedup();
        kernels.join(", ")
    }

    pub(super) fn carry(&self, plan: &CellPlan, desk: &Path, stop: &Bell) -> Result<(), String> {
        let mut journal = FileJournal::open(&desk.join("events"), false)?;
        let ran = self.supervise(plan, false, &mut journal, stop);
        // A reason is a cell of a table.
        ran.map(drop).map_err(|why| why.replace("\n  ", "; ").replace('\n', "; "))
    }

    fn supervise(
        &self,
        plan: &CellPlan,
        rehearses: bool,
        journal: &mut dyn Journal,
        stop: &Bell,
    ) -> Result<Vec<MachineState>, String> {
        let lease = Lease {
            lost_after: self.machines.lost_after,
            goes_on: self.machines.lost_host == LostHost::GoOn,
            rehearses,
        };
        let mut network: Network = plan.topology.parse().map_err(|e| e.to_string())?;
        network.reach_at(&self.machines.addresses());
        let mut agents = Vec::new();
        for (host, machine) in &self.machines.hosts {
            if plan.tasks.iter().any(|task| task.host == *host) {
                agents.push((host.clone(), self.agent(machine)?));
            }
        }
        supervise_machines(plan, &network, agents, lease, journal, stop).map_err(|e| match e {
            SuperviseError::Stopped => STOPPED.to_owned(),
            SuperviseError::Hosts(failed) => {
                let of = |(host, why): &(String, String)| self.explained(host, why);
                failed.iter().map(of).collect::<Vec<_>>().join("\n")
            }
            other => other.to_string(),
        })
    }

    /// An agent on a machine, begun.
    fn agent(&self, machine: &Machine) -> Result<Child, String> {
        let mut command = match &machine.ssh {
            None => {
                let mut command = Command::new(own_program()?);
                command.arg("agent");
                command
            }
            Some(destination) => {
                let place = self.place();
                ssh(
                    destination,
                    &format!("p={place}; [ -x \"$p\" ] && exec \"$p\" agent; exec quell agent"),
                )
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|e| match &machine.ssh {
            Some(_) => {
                format!("starting ssh: {e}; is OpenSSH's client installed (openssh-client)?")
            }
            None => format!("starting an agent on this machine: {e}"),
        })
    }

    /// Where an installed program is, for a shell.
    fn place(&self) -> String {
        format!("\"${{XDG_CACHE_HOME:-$HOME/.cache}}/quell/bin/{}\"", self.program)
    }

    /// Copies this program to the machines that have not got it, whole or not at all.
    fn install(&self) -> Result<(), String> {
        let path = own_program()?;
        let failed = |e: std::io::Error| format!("reading {}: {e}", path.display());
        let size = std::fs::metadata(&path).map_err(failed)?.len();
        let script = include_str!("install.sh").replace("PLACE", &self.place());
        let script = script.replace("ARCH", std::env::consts::ARCH);
        let script = script.replace("SIZE", &size.to_string());
        let copied = |(host, destination): (&String, &String)| {
            let input = File::open(&path).map_err(failed)?;
            let mut command = ssh(destination, &script);
            command.stdin(input).stdout(Stdio::null());
            let done = command.output().map_err(|e| format!("starting ssh: {e}"))?;
            let said = String::from_utf8_lossy(&done.stderr).trim().replace('\n', "; ");
            match done.status.success() {
                true => Ok(()),
                false => Err(self.explained(host, &format!("installing there failed: {said}"))),
            }
        };
        let mut wrong = Vec::new();
        std::thread::scope(|scope| {
            let by_ssh = self.machines.hosts.iter();
            let by_ssh = by_ssh.filter_map(|(host, it)| Some((host, it.ssh.as_ref()?)));
            let copies: Vec<_> = by_ssh.map(|it| scope.spawn(move || copied(it))).collect();
            for copy in copies {
                let end = copy.join().unwrap_or_else(|_| Err("it panicked".into()));
                wrong.extend(end.err());
            }
        });
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    /// Why a host failed, and what to do about it where that is known.
    fn explained(&self, host: &str, why: &str) -> String {
        let machine = self.machines.hosts.get(host).and_then(|machine| machine.ssh.as_deref());
        let at = machine.map_or("this machine", |ssh| ssh);
        let advice = ADVICE.iter().find(|(word, _)| machine.is_some() && why.contains(word));
        let advice = advice.map(|(_, advice)| format!("\n  {advice}")).unwrap_or_default();
        let why =
            why.replace("its agent died", if machine.is_some() { "ssh ended" } else { "it died" });
        format!("`{host}` ({at}): {why}{advice}")
    }
}

/// What ssh, or the shell at the other end, says, and what helps.
const ADVICE: [(&str, &str); 7] = [
    ("quell: not found", "it has no quell there: give --install, or install it in its PATH"),
    ("speaks version", "give --install to use this version there"),
    ("it is from another version", "give --install to use this version there"),
    ("is changed by root alone", "log in there as root: ssh://root@HOST"),
    (
        "Permission denied",
        "ssh may ask for nothing here: use a key or ssh-agent, or log in first with ControlMaster",
    ),
    ("Host key verification failed", "its key is not known here: log in there once with ssh"),
    (
        "Address already in use",
        "another server has the port: stop it, or give [machines] first-port = 6201",
    ),
];

/// ssh that runs a script of ours in a plain shell at the other end. It asks nobody anything, and forwards nothing.
fn ssh(destination: &str, script: &str) -> Command {
    let mut command = Command::new("ssh");
    for option in ["BatchMode=yes", "ConnectTimeout=10", "ClearAllForwardings=yes"] {
        command.args(["-o", option]);
    }
    // In a URI ssh takes no address of IPv6.
    let v6 = destination.split_once('[').and_then(|(user, rest)| {
        let (address, port) = rest.split_once(']')?;
        Some((format!("{}{address}", user.trim_start_matches("ssh://")), port.strip_prefix(':')))
    });
    if let Some((_, Some(port))) = &v6 {
        command.args(["-p", port]);
    }
    let destination = v6.as_ref().map_or(destination, |(destination, _)| destination);
    // The user's own shell there may be any; it takes this as it is.
    command.args(["-T", "-a", "-x", destination, &format!("exec sh -c '{script}'")]);
    command
}

/// The name of this program by its content.
fn program_name() -> Result<String, String> {
    let path = own_program()?;
    let failed = |e: std::io::Error| format!("reading {}: {e}", path.display());
    let mut file = File::open(&path).map_err(failed)?;
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            count => digest.update(&buffer[..count]),
        }
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("quell-{digest}"))
}

/// The journal of a rehearsal.
struct Nowhere;

impl Journal for Nowhere {
    fn append(&mut self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}
