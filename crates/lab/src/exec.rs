//! Running programs of this machine on the hosts of a network: `quell lab exec` and `quell lab shell`.
//!
//! The network is built as for a cell; then the companions start, then the program. In virtual time the clock moves only when
//! everybody waits, so that a short sleep is enough for a server to listen: it has then done all that it could.

use crate::build::{self, Built};
use crate::cell::CellPlan;
use crate::guest::init::left_file;
use quell_sys::clock;
use quell_units::Span;
use quell_wire::text::line;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostProgram {
    pub host: String,
    /// Program and arguments, with addresses filled in.
    pub argv: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecPlan {
    /// The network and its queues; its tasks are not carried out.
    pub cell: CellPlan,
    /// The program whose output and exit code count.
    pub main: HostProgram,
    /// Programs that run beside it and are ended after it.
    pub with: Vec<HostProgram>,
    /// Whether what companions say is passed on at once; else only their last words, where the program or one of them fails.
    pub show_with: bool,
    /// What companions get before the program starts. In virtual time that is enough for all that does not wait for something else.
    pub head_start: Span,
    /// Whether the program has this process's own terminal, instead of having its output relayed.
    pub interactive: bool,
    /// The terminal that an interactive program is to control, by its device; none where it inherits one. Set by whoever runs the plan.
    #[serde(skip)]
    pub terminal: Option<String>,
    /// Folder to start in, as it is named where the programs run.
    pub folder: OsString,
    /// Environment of the program: name and value.
    pub environment: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Whether it came from standard error.
    pub stderr: bool,
    pub bytes: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error(transparent)]
    Build(#[from] build::BuildError),
    #[error("there is no host `{0}` in this topology")]
    Host(String),
    #[error("starting `{program}` on `{host}`: {error}")]
    Start { program: String, host: String, error: String },
    #[error(
        "starting in {}: {error} in the lab; go to another folder (as: cd /)",
        .folder.display()
    )]
    Folder { folder: OsString, error: std::io::Error },
    #[error("waiting for the program: {0}")]
    Wait(std::io::Error),
}

/// Builds the network and runs the programs; gives the main program's exit code (128 and the signal's number for a signal).
pub fn exec(plan: &ExecPlan, output: &mut dyn FnMut(Output)) -> Result<i32, ExecError> {
    // Else the answer at its start would be taken for the program's.
    std::env::set_current_dir(&plan.folder)
        .map_err(|error| ExecError::Folder { folder: plan.folder.clone(), error })?;
    let mut built = build::build(&plan.cell)?;
    let now = clock::monotonic_ns();
    built.queues.step(&built.network, &built.spaces, Span::from_nanos(0), now)?;
    let (said, hear) = mpsc::channel();
    let mut companions = Vec::new();
    for (index, program) in plan.with.iter().enumerate() {
        let mut child = spawn(plan, &built, program, false)?;
        listen(&mut child, Some(index), &said);
        companions.push(Companion::new(program, child));
    }
    if !companions.is_empty() {
        let until = clock::monotonic_ns() + plan.head_start.nanos();
        clock::sleep_until(until).map_err(|e| ExecError::Wait(std::io::Error::other(e)))?;
    }
    let mut child = spawn(plan, &built, &plan.main, plan.interactive)?;
    let mut open = listen(&mut child, None, &said);
    drop(said);
    while open > 0 {
        // Somebody still holds a sender, or there would be nothing open.
        let Ok(said) = hear.recv() else { break };
        match (said.companion, said.output) {
            (None, Some(piece)) => output(piece),
            (None, None) => open -= 1,
            (Some(index), piece) => companions[index].heard(piece, plan.show_with, output),
        }
    }
    let status = child.wait().map_err(ExecError::Wait)?;
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let failed = companions.iter_mut().any(Companion::has_failed);
    for companion in &mut companions {
        companion.end();
    }
    // What was said until now is on its way through the readers; a program that kept its output open for others may hold one back.
    let until = clock::monotonic_ns() + LAST_WORDS.as_nanos() as u64;
    while let left @ 1.. = until.saturating_sub(clock::monotonic_ns())
        && let Ok(said) = hear.recv_timeout(Duration::from_nanos(left))
    {
        if let Some(index) = said.companion {
            companions[index].heard(said.output, plan.show_with, output);
        }
    }
    if (code != 0 || failed) && !plan.show_with {
        companions.iter_mut().for_each(|companion| companion.tell(output));
    }
    if !plan.interactive
        && let Some(file) = left_file()
    {
        let said = format!(
            "quell: what was written to /tmp and /dev/shm in the guest is lost with it, as {}; have the program print what is to be kept\n",
            line(&file.to_string_lossy())
        );
        output(Output { stderr: true, bytes: said.into_bytes() });
    }
    Ok(code)
}

/// How long what companions said last may take to come through.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Most bytes of a companion's words that are kept.
const KEPT: usize = 4096;

/// A program that is ended with the main one.
struct Companion {
    child: Child,
    name: String,
    /// What it said and is not told yet: at most [`KEPT`] bytes, the last ones.
    words: Vec<u8>,
}

impl Companion {
    fn new(program: &HostProgram, child: Child) -> Self {
        let what = program.argv.first().map_or("", String::as_str);
        Self { child, name: format!("{}: {what}", program.host), words: Vec::new() }
    }

    /// It said something, or closed a stream.
    fn heard(&mut self, piece: Option<Output>, show: bool, output: &mut dyn FnMut(Output)) {
        match piece {
            Some(piece) => self.words.extend(piece.bytes),
            None if show => self.tell(output),
            None => {}
        }
        if show && let Some(end) = self.words.iter().rposition(|b| *b == b'\n') {
            let rest = self.words.split_off(end + 1);
            self.tell(output);
            self.words = rest;
        }
        let surplus = self.words.len().saturating_sub(KEPT);
        self.words.drain(..surplus);
    }

    /// Passes on what it said, each line behind its name.
    fn tell(&mut self, output: &mut dyn FnMut(Output)) {
        let words = std::mem::take(&mut self.words);
        for line in words.split_inclusive(|b| *b == b'\n') {
            let mut bytes = format!("[{}] ", self.name).into_bytes();
            bytes.extend(line.strip_suffix(b"\n").unwrap_or(line));
            bytes.push(b'\n');
            output(Output { stderr: true, bytes });
        }
    }

    /// Whether it ended by itself, and not well.
    fn has_failed(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(status)) if !status.success())
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(
    plan: &ExecPlan,
    built: &Built,
    program: &HostProgram,
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
    build::with_own_files(&built.network, &built.spaces[node], start)
        .map_err(|e| failed(e.to_string()))?
        .map_err(failed)
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

struct ProgramOutput {
    /// Which companion; none for the main program.
    companion: Option<usize>,
    /// What it wrote; none when it closed the stream.
    output: Option<Output>,
}

/// Reads what a program writes, each stream in a thread; how many streams there are. Each ends with a message without output.
fn listen(child: &mut Child, companion: Option<usize>, to: &mpsc::Sender<ProgramOutput>) -> usize {
    let streams: [(bool, Option<Box<dyn Read + Send>>); 2] = [
        (false, child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>)),
        (true, child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>)),
    ];
    let mut open = 0;
    for (stderr, stream) in streams {
        let Some(mut stream) = stream else { continue };
        open += 1;
        let to = to.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                let piece = Output { stderr, bytes: buffer[..count].to_vec() };
                if to.send(ProgramOutput { companion, output: Some(piece) }).is_err() {
                    return;
                }
            }
            // Whoever listened may have heard enough.
            let _ = to.send(ProgramOutput { companion, output: None });
        });
    }
    open
}
