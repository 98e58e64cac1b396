//! What carries a cell: a guest kernel in virtual time, namespaces of the running kernel in real time, or real hosts (`machines`). The first two find their plan as
//! `plan.json` in the cell's desk and append to `events` beside it; both run the same supervisor and the same agents.
//!
//! ```text
//!   guest   quell ──► UML kernel ──► quell (first process) ──► agents
//!   host    quell ──► quell (own user, process, mount namespaces) ──► quell (first process) ──► agents
//! ```
//!
//! Either way the cell's first process holds everything: when it ends, or whoever started it, the kernel ends the rest.

use super::child::{ChildEnd, attend};
use super::machines::RealHosts;
use quell_lab::cell::CellPlan;
use quell_lab::guest::{self, Clock, Console, GuestExit, GuestSpec};
use quell_model::{Backend, KernelRecord};
use quell_sys::wait::{Bell, came, readable, wait};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The hidden command of the host backend's outer process.
pub const HOST_CELL: &str = "host-cell";
/// The hidden command that looks what the running kernel lacks.
pub const HOST_LACKS: &str = "host-lacks";
/// The hidden command of the first process in the host backend's namespaces.
pub const HOST_INIT: &str = "host-init";
/// The hidden command of the first process in a guest.
pub const GUEST_INIT: &str = "guest-init";

pub const STOPPED: &str = "it was stopped";

#[derive(Debug, Clone)]
pub enum Carrier {
    Guest(GuestOptions),
    Host,
    Machines(Box<RealHosts>),
}

#[derive(Debug, Clone)]
pub struct GuestKernel {
    pub path: PathBuf,
    pub version: String,
    /// Its key: source version and configuration; empty for one that was named.
    pub key: String,
}

#[derive(Debug, Clone)]
pub struct GuestOptions {
    pub kernel: GuestKernel,
    pub asked: BTreeMap<String, GuestKernel>,
    pub memory_mib: u32,
    /// Most wall time of one cell; none takes it from the cell's length.
    pub wall_limit: Option<Duration>,
}

impl GuestOptions {
    pub(super) fn kernel_of(&self, plan: &CellPlan) -> &GuestKernel {
        plan.kernel.as_ref().and_then(|series| self.asked.get(series)).unwrap_or(&self.kernel)
    }

    /// All that plans ask for; the usual one where they ask for none. Of each what `of` tells of it.
    fn told(&self, of: fn(&GuestKernel) -> &str) -> String {
        let all: Vec<&GuestKernel> = match self.asked.is_empty() {
            true => vec![&self.kernel],
            false => self.asked.values().collect(),
        };
        all.into_iter().map(of).collect::<Vec<_>>().join(", ")
    }
}

impl Carrier {
    pub fn record(&self) -> KernelRecord {
        match self {
            Carrier::Guest(options) => KernelRecord {
                backend: Backend::Guest,
                version: options.told(|kernel| &kernel.version),
                virtual_time: true,
                key: options.told(|kernel| &kernel.key),
            },
            Carrier::Host => KernelRecord {
                backend: Backend::Host,
                version: nix::sys::utsname::uname()
                    .map(|u| u.release().to_string_lossy().into_owned())
                    .unwrap_or_default(),
                virtual_time: false,
                key: String::new(),
            },
            Carrier::Machines(hosts) => KernelRecord {
                backend: Backend::Machines,
                version: hosts.kernels(),
                virtual_time: false,
                key: String::new(),
            },
        }
    }

    /// Carries out a cell whose desk is ready; the reason where it did not end well.
    pub(super) fn carry(
        &self,
        plan: &CellPlan,
        desk: &Path,
        worker: usize,
        stop: &Bell,
    ) -> Result<(), String> {
        match self {
            Carrier::Guest(options) => in_guest(options, plan, desk, worker, stop),
            Carrier::Host => on_host(plan, desk, stop),
            Carrier::Machines(hosts) => hosts.carry(plan, desk, stop),
        }
    }
}

pub(super) fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|e| format!("finding Quell's own program: {e}"))
}

/// Far above what a cell takes, so that only one that hangs reaches it.
fn guest_limit(plan: &CellPlan) -> Duration {
    Duration::from_secs(120) + Duration::from_secs_f64(plan.length().as_secs_f64() * 20.0)
}

fn in_guest(
    options: &GuestOptions,
    plan: &CellPlan,
    desk: &Path,
    worker: usize,
    stop: &Bell,
) -> Result<(), String> {
    let spec = GuestSpec {
        kernel: options.kernel_of(plan).path.clone(),
        memory_mib: options.memory_mib.saturating_add(plan.memory_mib()),
        seed: plan.seed,
        init: own_program()?,
        arguments: vec![GUEST_INIT.into()],
        dir: desk.to_path_buf(),
        wall_limit: options.wall_limit.unwrap_or_else(|| guest_limit(plan)),
        cpu: quell_sys::affinity::cpu_of_worker(worker),
        clock: Clock::Virtual,
        console: Console::Null,
    };
    let mut guest = guest::boot(spec).map_err(|e| e.to_string())?;
    let mut fds = [readable(&guest), readable(stop)];
    wait(&mut fds).map_err(|e| e.to_string())?;
    if !came(&fds[0]) {
        guest.kill();
        return Err(STOPPED.into());
    }
    let exit = guest.wait().map_err(|e| e.to_string())?;
    match exit {
        GuestExit::Clean => Ok(()),
        other => Err(other.to_string()),
    }
}

fn on_host(plan: &CellPlan, desk: &Path, stop: &Bell) -> Result<(), String> {
    let program = own_program()?;
    let child = Command::new(&program)
        .arg(HOST_CELL)
        .arg(desk)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("starting {}: {e}", program.display()))?;
    let limit =
        Duration::from_secs(60) + Duration::from_secs_f64(plan.length().as_secs_f64() * 1.5);
    match attend(child, stop, limit).map_err(|e| format!("waiting for a measurement: {e}"))? {
        ChildEnd::Ended(status, _) if status.success() => Ok(()),
        ChildEnd::Ended(status, words) if words.is_empty() => Err(status.to_string()),
        ChildEnd::Ended(_, words) => Err(words),
        ChildEnd::Stopped => Err(STOPPED.into()),
        ChildEnd::Late => Err("it did not end in time".into()),
    }
}

/// What the running kernel lacks for these plans, a line each. It is tried in a process of its own, which enters a user namespace
/// where it is not root.
pub fn host_lacking(plans: &[CellPlan]) -> Result<Vec<String>, String> {
    let failed = |e: std::io::Error| format!("starting a look at the running kernel: {e}");
    let text = serde_json::to_vec(plans).map_err(|e| e.to_string())?;
    let done = Command::new(own_program()?)
        .arg(HOST_LACKS)
        .stdin(handed(&text).map_err(failed)?)
        .output()
        .map_err(failed)?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).trim().to_string());
    }
    serde_json::from_slice(&done.stdout).map_err(|e| format!("a look at the running kernel: {e}"))
}

/// A text to be read by a child as its standard input. It lies in memory, so that nobody waits for the child to read it, and a child that
/// died without reading it does no harm.
fn handed(text: &[u8]) -> std::io::Result<Stdio> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    let mut file: File = memfd_create("plans", MFdFlags::MFD_CLOEXEC)?.into();
    file.write_all(text)?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_reads_nothing_of_a_long_plan_does_no_harm() {
        let plan = vec![b'x'; 1 << 20];
        let done = Command::new("sh")
            .args(["-c", "echo no such kernel >&2; exit 3"])
            .stdin(handed(&plan).unwrap())
            .output()
            .unwrap();
        assert_eq!(
            (done.status.code(), done.stderr.as_slice()),
            (Some(3), &b"no such kernel\n"[..])
        );
        let done = Command::new("wc").arg("-c").stdin(handed(&plan).unwrap()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "1048576");
    }
}
