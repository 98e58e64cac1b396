//! Carrying a program for `quell lab`: the plan lies on a desk of its own in the temporary folder, output comes back through two
//! files that grow.

use super::carrier::{self, Carrier, STOPPED};
use quell_lab::exec::{ExecPlan, Output, exec};
use quell_lab::guest::{self, Clock, Console, GuestExit, GuestSpec, screen};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often output is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// Most wall time of a program in a guest, unless told otherwise.
const WALL_LIMIT: Duration = Duration::from_secs(3600);

/// A guest's terminal.
const TERMINAL: &str = "/dev/tty0";

/// File that the desk of a program has instead of a cell's `plan.json`.
pub(super) const PLAN: &str = "exec.json";

/// Runs a program in a network of the lab; gives its exit code. `stop` ends it early.
pub fn lab_exec(
    plan: &ExecPlan,
    carrier: &Carrier,
    real_time: bool,
    stop: &AtomicBool,
) -> Result<i32, String> {
    let desk = Desk::new()?;
    let text = serde_json::to_vec(plan).map_err(|e| e.to_string())?;
    for (name, bytes) in [(PLAN, text.as_slice()), ("stdout", b""), ("stderr", b"")] {
        std::fs::write(desk.0.join(name), bytes)
            .map_err(|e| format!("writing {}: {e}", desk.0.join(name).display()))?;
    }
    match carrier {
        Carrier::Guest(options) => {
            let clock = if real_time { Clock::Real } else { Clock::Virtual };
            let cpus = quell_sys::affinity::allowed_cpus().unwrap_or_default();
            let spec = GuestSpec {
                kernel: options.kernel.clone(),
                memory_mib: options.memory_mib,
                seed: plan.cell.seed,
                init: carrier::own_program()?,
                arguments: vec![carrier::GUEST_INIT.into()],
                dir: desk.0.clone(),
                wall_limit: options.wall_limit.unwrap_or(WALL_LIMIT),
                cpu: cpus.first().copied(),
                clock,
                console: if plan.interactive { Console::Inherit } else { Console::Null },
            };
            let mut guest = guest::boot(spec).map_err(|e| e.to_string())?;
            let mut tail = Tail::open(&desk.0)?;
            let mut screen = plan.interactive.then(|| screen::Watch::new(&desk.0));
            let exit = loop {
                let exit = guest.wait_for(LOOK).map_err(|e| e.to_string())?;
                tail.copy();
                if let Some(exit) = exit {
                    break exit;
                }
                if let Some(screen) = &mut screen {
                    screen.look();
                }
                if stop.load(Ordering::Relaxed) {
                    guest.kill();
                    return Err(STOPPED.into());
                }
            };
            if exit != GuestExit::Clean {
                return Err(exit.to_string());
            }
        }
        Carrier::Host => on_host(plan, &desk.0, stop)?,
    }
    let place = desk.0.join("exit");
    let text = std::fs::read_to_string(&place)
        .map_err(|_| "the program's end was not reported".to_string())?;
    match text.strip_prefix("error ") {
        Some(error) => Err(error.to_string()),
        None => text.trim().parse().map_err(|_| format!("the exit code \"{text}\" can't be read")),
    }
}

fn on_host(plan: &ExecPlan, desk: &Path, stop: &AtomicBool) -> Result<(), String> {
    let mut child = Command::new(carrier::own_program()?)
        .arg(carrier::HOST_CELL)
        .arg(desk)
        .stdin(if plan.interactive { Stdio::inherit() } else { Stdio::null() })
        .spawn()
        .map_err(|e| format!("starting the lab: {e}"))?;
    let mut tail = Tail::open(desk)?;
    loop {
        let ended = child.try_wait().map_err(|e| format!("waiting for the lab: {e}"))?;
        tail.copy();
        if ended.is_some() {
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            // The kernel ends everything in the namespaces with their first process.
            let _ = child.kill();
            let _ = child.wait();
            return Err(STOPPED.into());
        }
        std::thread::sleep(LOOK);
    }
}

/// The first process's part: runs the plan and writes what comes out.
pub(super) fn carry_out(desk: &Path, in_guest: bool) -> Result<(), String> {
    let text = std::fs::read(desk.join(PLAN)).map_err(|e| format!("{PLAN}: {e}"))?;
    let mut plan: ExecPlan = serde_json::from_slice(&text).map_err(|e| format!("{PLAN}: {e}"))?;
    if in_guest {
        plan.terminal = Some(TERMINAL.into());
        if plan.interactive {
            screen::follow(desk, TERMINAL);
        }
        // For the prompt; a guest has no other use for its name.
        let _ = nix::unistd::sethostname(&plan.main.host);
    }
    let open = |name: &str| {
        std::fs::OpenOptions::new()
            .append(true)
            .open(desk.join(name))
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
    std::fs::write(desk.join("exit"), text).map_err(|e| format!("exit: {e}"))
}

/// What grows in the output files, copied to our own streams.
struct Tail {
    out: File,
    err: File,
}

impl Tail {
    fn open(desk: &Path) -> Result<Self, String> {
        let open = |name: &str| File::open(desk.join(name)).map_err(|e| format!("{name}: {e}"));
        Ok(Tail { out: open("stdout")?, err: open("stderr")? })
    }

    fn copy(&mut self) {
        let mut buffer = [0; 64 * 1024];
        while let Ok(count @ 1..) = self.out.read(&mut buffer) {
            let _ = quell_sys::reader::print(std::io::stdout(), &buffer[..count]);
        }
        while let Ok(count @ 1..) = self.err.read(&mut buffer) {
            let _ = quell_sys::reader::print(std::io::stderr(), &buffer[..count]);
        }
    }
}

/// A folder for one program, gone afterwards.
struct Desk(PathBuf);

impl Desk {
    fn new() -> Result<Self, String> {
        let base = std::env::temp_dir();
        for number in 0..1000u32 {
            let path = base.join(format!("quell-lab-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Desk(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("making {}: {error}", path.display())),
            }
        }
        Err(format!("no free name for a folder in {}", base.display()))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // What it holds was copied out.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
