//! Running programs of this machine on the hosts of a network: `quell lab exec` and `quell lab shell`.
//!
//! The network is built as for a cell; then the companions start, then the program. In virtual time the clock moves only when
//! everybody waits, so that a short sleep is enough for a server to listen: it has then done all that it could.

use crate::build::{self, Built};
use crate::cell::CellPlan;
use quell_sys::clock;
use quell_units::Span;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

/// A program to run on a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The host.
    pub host: String,
    /// Program and arguments, with addresses filled in.
    pub argv: Vec<String>,
}

/// What to run in which network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecPlan {
    /// The network and its queues; its tasks are not carried out.
    pub cell: CellPlan,
    /// The program whose output and exit code count.
    pub main: Program,
    /// Programs that run beside it and are ended after it.
    pub with: Vec<Program>,
    /// What companions get before the program starts. In virtual time that is enough for all that does not wait for something else.
    pub head_start: Span,
    /// Whether the program has this process's own terminal, instead of having its output relayed.
    pub interactive: bool,
    /// The terminal that an interactive program is to control, by its device; none where it inherits one. Set by whoever runs the plan.
    #[serde(skip)]
    pub terminal: Option<String>,
    /// Folder to start in.
    pub folder: String,
    /// Environment of the program: name and value.
    pub environment: Vec<(String, String)>,
}

/// A piece of output of the main program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Whether it came from standard error.
    pub stderr: bool,
    /// What was written.
    pub bytes: Vec<u8>,
}

/// Why nothing could be run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The network could not be built.
    #[error(transparent)]
    Build(#[from] build::BuildError),
    /// There is no such host.
    #[error("there is no host `{0}` in this topology")]
    Host(String),
    /// A program could not be started.
    #[error("starting `{program}` on `{host}`: {error}")]
    Start {
        /// The program.
        program: String,
        /// The host.
        host: String,
        /// What the system answered.
        error: String,
    },
    /// Waiting for it failed.
    #[error("waiting for the program: {0}")]
    Wait(std::io::Error),
}

/// Builds the network and runs the programs; gives the main program's exit code (128 and the signal's number for a signal).
pub fn exec(plan: &ExecPlan, output: &mut dyn FnMut(Output)) -> Result<i32, ExecError> {
    let built = build::build(&plan.cell)?;
    let mut companions = Vec::new();
    for program in &plan.with {
        let child = spawn(plan, &built, program, false)?;
        companions.push(Companion(child));
    }
    if !companions.is_empty() {
        let until = clock::monotonic_ns() + plan.head_start.nanos();
        clock::sleep_until(until).map_err(|e| ExecError::Wait(std::io::Error::other(e)))?;
    }
    let mut child = spawn(plan, &built, &plan.main, plan.interactive)?;
    relay(&mut child, output);
    let status = child.wait().map_err(ExecError::Wait)?;
    use std::os::unix::process::ExitStatusExt;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

/// A program that is ended with the main one.
struct Companion(Child);

impl Drop for Companion {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(
    plan: &ExecPlan,
    built: &Built,
    program: &Program,
    interactive: bool,
) -> Result<Child, ExecError> {
    let node = built.network.nodes.iter().position(|n| n.name == program.host);
    let node = node.ok_or_else(|| ExecError::Host(program.host.clone()))?;
    let start = || {
        let (name, arguments) =
            program.argv.split_first().ok_or_else(|| "no program was named".to_string())?;
        let mut command = Command::new(name);
        command.args(arguments).env_clear();
        command.envs(plan.environment.iter().map(|(k, v)| (k.as_str(), v.as_str())));
        command.env("QUELL_HOST", &program.host);
        if std::path::Path::new(&plan.folder).is_dir() {
            command.current_dir(&plan.folder);
        }
        if let Some(terminal) = plan.terminal.as_ref().filter(|_| interactive) {
            control(&mut command, terminal)?;
        }
        if !interactive {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        command.spawn().map_err(|e: std::io::Error| e.to_string())
    };
    let failed = |error: String| ExecError::Start {
        program: program.argv.join(" "),
        host: program.host.clone(),
        error,
    };
    let mut child = build::in_its_own_sysfs(&built.spaces[node], start)
        .map_err(|e| failed(e.to_string()))?
        .map_err(failed)?;
    if !interactive && program != &plan.main {
        // Nobody reads what companions say, and a full pipe would stop them.
        drain(child.stdout.take());
        drain(child.stderr.take());
    }
    Ok(child)
}

/// Makes the program the leader of a session that controls the terminal, so that Ctrl-C and job control work.
fn control(command: &mut Command, terminal: &str) -> Result<(), String> {
    use std::os::unix::process::CommandExt;
    let open = || {
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(terminal)
            .map_err(|e| format!("{terminal}: {e}"))
    };
    command.stdin(open()?).stdout(open()?).stderr(open()?);
    // SAFETY: system calls only, between fork and exec.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            match nix::libc::ioctl(0, nix::libc::TIOCSCTTY, 1) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            }
        });
    }
    Ok(())
}

fn drain(stream: Option<impl Read + Send + 'static>) {
    if let Some(mut stream) = stream {
        std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    }
}

/// Passes on what the program writes, until it has closed both streams.
fn relay(child: &mut Child, output: &mut dyn FnMut(Output)) {
    let (send, receive) = mpsc::channel();
    let mut readers = Vec::new();
    let streams: [(bool, Option<Box<dyn Read + Send>>); 2] = [
        (false, child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>)),
        (true, child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>)),
    ];
    for (stderr, stream) in streams {
        let Some(mut stream) = stream else { continue };
        let send = send.clone();
        readers.push(std::thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(count) = stream.read(&mut buffer) {
                let piece = Output { stderr, bytes: buffer[..count].to_vec() };
                if count == 0 || send.send(piece).is_err() {
                    break;
                }
            }
        }));
    }
    drop(send);
    while let Ok(piece) = receive.recv() {
        output(piece);
    }
    for reader in readers {
        // A reader that panicked has nothing more to say.
        let _ = reader.join();
    }
}
