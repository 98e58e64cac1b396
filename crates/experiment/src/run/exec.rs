//! Carrying a program for `quell lab`: the plan lies on a folder of its own in the temporary folder, output comes back through two
//! files that grow.
//!
//! ```text
//!   folder (only ours: 0700)   exec.json   read once, and gone: it has the program's environment
//!                            stdout, stderr ──inotify──► copied to our own streams as they grow
//! ```

use super::carrier::{self, Carrier, STOPPED};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use quell_lab::exec::{ExecPlan, Output, exec};
use quell_lab::guest::{self, Clock, Console, GuestExit, GuestSpec};
use quell_sys::wait::{Bell, came, readable};
use quell_sys::{pidfd, wait};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Most wall time of a program in a guest, unless told otherwise.
const WALL_LIMIT: Duration = Duration::from_secs(3600);

const TERMINAL: &str = "/dev/tty0";

/// File that the folder of a program has instead of a cell's `plan.json`.
pub(super) const PLAN: &str = "exec.json";

/// What a program is said to have ended with whose output nobody reads any more: as a shell says it of one that SIGPIPE ended.
const UNREAD: i32 = 128 + nix::libc::SIGPIPE;

/// Runs a program in a network of the lab; gives its exit code.
pub fn lab_exec(
    plan: &ExecPlan,
    carrier: &Carrier,
    real_time: bool,
    stop: &Bell,
) -> Result<i32, String> {
    let folder = ExecFolder::new()?;
    let text = serde_json::to_vec(plan).map_err(|e| e.to_string())?;
    for (name, bytes) in [(PLAN, text.as_slice()), ("stdout", b""), ("stderr", b"")] {
        let place = folder.0.join(name);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&place)
            .and_then(|mut file| file.write_all(bytes))
            .map_err(|e| format!("writing {}: {e}", place.display()))?;
    }
    let _terminal = plan.interactive.then(Terminal::keep);
    let end = match carrier {
        Carrier::Machines(_) => return Err("real hosts run no program of the lab".into()),
        Carrier::Guest(options) => {
            let clock = if real_time { Clock::Real } else { Clock::Virtual };
            let spec = GuestSpec {
                kernel: options.kernel_of(&plan.cell).path.clone(),
                memory_mib: options.memory_mib.saturating_add(plan.cell.memory_mib()),
                seed: plan.cell.seed,
                init: carrier::own_program()?,
                arguments: vec![carrier::GUEST_INIT.into()],
                dir: folder.0.clone(),
                wall_limit: options.wall_limit.unwrap_or(WALL_LIMIT),
                cpu: quell_sys::affinity::cpu_of_worker(0),
                clock,
                console: if plan.interactive { Console::Inherit } else { Console::Null },
            };
            let mut guest = guest::boot(spec).map_err(|e| e.to_string())?;
            let end = until_end(&folder.0, &guest, stop);
            match end {
                Ok(ProcessEnd::Ended) => match guest.wait().map_err(|e| e.to_string())? {
                    GuestExit::Clean => {}
                    other => return Err(other.to_string()),
                },
                _ => guest.kill(),
            }
            end?
        }
        Carrier::Host => on_host(plan, &folder.0, stop)?,
    };
    match end {
        ProcessEnd::Stopped => return Err(STOPPED.into()),
        ProcessEnd::Unread => return Ok(UNREAD),
        ProcessEnd::Ended => {}
    }
    let place = folder.0.join("exit");
    // The guest may have put anything there: no link is followed, no pipe waited for, and no more read than a page.
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let open = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(place);
    let mut text = String::new();
    open.and_then(|file| file.take(4096).read_to_string(&mut text))
        .map_err(|_| "the program's end was not reported".to_string())?;
    match text.strip_prefix("error ") {
        Some(error) => Err(error.to_string()),
        None => text.trim().parse().map_err(|_| format!("the exit code \"{text}\" can't be read")),
    }
}

fn on_host(plan: &ExecPlan, folder: &Path, stop: &Bell) -> Result<ProcessEnd, String> {
    let mut child = Command::new(carrier::own_program()?)
        .arg(carrier::HOST_CELL)
        .arg(folder)
        .stdin(if plan.interactive { Stdio::inherit() } else { Stdio::null() })
        .spawn()
        .map_err(|e| format!("starting the lab: {e}"))?;
    let end = pidfd::open(child.id())
        .map_err(|e| format!("waiting for the lab: {e}"))
        .and_then(|process| until_end(folder, &process, stop));
    if !matches!(end, Ok(ProcessEnd::Ended)) {
        // The kernel ends everything in the namespaces with their first process.
        let _ = child.kill();
    }
    child.wait().map_err(|e| format!("waiting for the lab: {e}"))?;
    end
}

/// Why waiting for a program is over.
enum ProcessEnd {
    Ended,
    Stopped,
    /// Nobody reads its output.
    Unread,
}

/// Copies what comes out until `process`, a descriptor that is readable then, has ended.
fn until_end(folder: &Path, process: &impl AsFd, stop: &Bell) -> Result<ProcessEnd, String> {
    let mut tail = Tail::open(folder)?;
    loop {
        // The files may have grown since they were opened, and before they were watched.
        if !tail.copy()? {
            return Ok(ProcessEnd::Unread);
        }
        let mut fds = [readable(process), readable(stop), readable(&tail)];
        wait::wait(&mut fds).map_err(|e| e.to_string())?;
        let [ended, stops, _] = fds.each_ref().map(came);
        if ended {
            return Ok(if tail.copy()? { ProcessEnd::Ended } else { ProcessEnd::Unread });
        }
        if stops {
            return Ok(ProcessEnd::Stopped);
        }
    }
}

/// The settings of our terminal: a kernel that was ended by force leaves them as it needed them.
struct Terminal(Option<Termios>);

impl Terminal {
    fn keep() -> Self {
        // What is no terminal has none.
        Terminal(tcgetattr(std::io::stdin()).ok())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(settings) = &self.0 {
            // A terminal that is gone needs no settings.
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, settings);
        }
    }
}

/// The first process's part: runs the plan and writes what comes out.
pub(super) fn carry_out(folder: &Path, in_guest: bool) -> Result<(), String> {
    let text = std::fs::read(folder.join(PLAN)).map_err(|e| format!("{PLAN}: {e}"))?;
    // It has the program's environment, and whoever ends us by force would leave it behind.
    std::fs::remove_file(folder.join(PLAN)).map_err(|e| format!("{PLAN}: {e}"))?;
    let mut plan: ExecPlan = serde_json::from_slice(&text).map_err(|e| format!("{PLAN}: {e}"))?;
    if in_guest {
        plan.terminal = Some(TERMINAL.into());
        // For the prompt; a guest has no other use for its name.
        let _ = nix::unistd::sethostname(&plan.main.host);
    }
    let open = |name: &str| {
        std::fs::OpenOptions::new()
            .append(true)
            .open(folder.join(name))
            .map_err(|e| format!("{name}: {e}"))
    };
    let (mut out, mut err) = (open("stdout")?, open("stderr")?);
    let result = exec(&plan, &mut |output: Output| {
        let file = if output.stderr { &mut err } else { &mut out };
        // A full disk loses output, but not the exit code.
        let _ = file.write_all(&output.bytes);
        if in_guest {
            let _ = guest::init::push(file);
        }
    });
    let text = match &result {
        Ok(code) => code.to_string(),
        Err(error) => format!("error {error}"),
    };
    std::fs::write(folder.join("exit"), text).map_err(|e| format!("exit: {e}"))
}

/// What grows in the output files, copied to our own streams. Readable when there may be more.
struct Tail {
    out: Growing,
    err: Growing,
    grown: Inotify,
}

struct Growing(File, u64);

impl Growing {
    /// Hands on what it has by now; what comes meanwhile is left for the next time, so that this has an end.
    fn each(&mut self, to: &mut dyn FnMut(&[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
        let mut buffer = [0; 64 * 1024];
        let there = self.0.metadata()?.len();
        while self.1 < there {
            let count = match self.0.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            if count == 0 {
                break;
            }
            self.1 += count as u64;
            to(&buffer[..count])?;
        }
        Ok(())
    }
}

impl Tail {
    fn open(folder: &Path) -> Result<Self, String> {
        let watched = |e: nix::Error| {
            format!(
                "watching the program's output with inotify: {}; has this user too many watches \
                 (/proc/sys/fs/inotify)?",
                e.desc()
            )
        };
        let grown =
            Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).map_err(watched)?;
        let open = |name: &str| {
            let place = folder.join(name);
            grown.add_watch(&place, AddWatchFlags::IN_MODIFY).map_err(watched)?;
            let file = File::open(place).map_err(|e| format!("{name}: {e}"))?;
            Ok::<_, String>(Growing(file, 0))
        };
        Ok(Tail { out: open("stdout")?, err: open("stderr")?, grown })
    }

    fn copy(&mut self) -> Result<bool, String> {
        // Which file grew does not matter: both are looked at, after this.
        while self.grown.read_events().is_ok_and(|events| !events.is_empty()) {}
        let (mut stdout, mut stderr) = (std::io::stdout(), std::io::stderr());
        // Nobody has to read errors.
        let _ = self.err.each(&mut |bytes| {
            let _ = stderr.write_all(bytes);
            Ok(())
        });
        let copied =
            self.out.each(&mut |bytes| stdout.write_all(bytes).and_then(|()| stdout.flush()));
        match copied {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(format!("writing the program's output: {error}")),
        }
    }
}

impl AsFd for Tail {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.grown.as_fd()
    }
}

/// A folder for one program that nobody else can look into, gone afterwards.
struct ExecFolder(PathBuf);

impl ExecFolder {
    fn new() -> Result<Self, String> {
        let template = std::env::temp_dir().join("quell-lab-XXXXXX");
        let made = nix::unistd::mkdtemp(&template);
        made.map(ExecFolder).map_err(|e| format!("making {}: {}", template.display(), e.desc()))
    }
}

impl Drop for ExecFolder {
    fn drop(&mut self) {
        // What it holds was copied out.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
