//! Starting a guest's kernel process.

use super::confine::Confinement;
use super::init::END;
use super::watch::{self, Guest};
use super::{BootError, Clock, Console, GuestSpec, MINIMUM_MIB};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, getppid};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where a guest's clock begins, in nanoseconds: on 1970-01-21.
const BEGIN_NS: u64 = 1_767_225_600_000_000;

/// How much more CPU time than wall time, in seconds: it ends a guest that nobody watches any more.
const CPU_MARGIN_S: u64 = 10;

/// Boots a guest. It runs from now on, and ends with the value that is returned.
pub fn boot(spec: GuestSpec) -> Result<Guest, BootError> {
    if spec.memory_mib < MINIMUM_MIB {
        return Err(BootError::Memory(spec.memory_mib));
    }
    if let Some(bad) = spec.arguments.iter().find(|a| !is_plain(a)) {
        return Err(BootError::Argument { argument: bad.clone() });
    }
    if !spec.dir.is_dir() {
        let error = io::Error::from_raw_os_error(libc::ENOTDIR);
        return Err(BootError::Part { part: "folder", path: spec.dir, error });
    }
    // The kernel process works in the folder, where a relative path would mean something else.
    let absolute = |part, path: &Path| {
        std::fs::canonicalize(path).map_err(|error| BootError::Part {
            part,
            path: path.to_path_buf(),
            error,
        })
    };
    let kernel = absolute("kernel", &spec.kernel)?;
    let init_path = absolute("program", &spec.init)?;
    let init = open(&init_path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(|e| BootError::Part { part: "program", path: init_path, error: e.into() })?;
    let end = spec.dir.join(END);
    match std::fs::remove_file(&end) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(BootError::Part { part: "last word", path: end, error });
        }
        _ => {}
    }

    let mut command = Command::new(&kernel);
    command.arg0("linux").current_dir(&spec.dir);
    // User-mode Linux keeps its control socket below the home folder, and does not start without one: the guest's own folder.
    command.env_clear().env("HOME", ".");
    // The kernel process has the guest's program open: as its standard input, which a console on null leaves unused and which is the
    // same number for every guest, since the number is part of the command line; else as whatever number is free.
    let (console, program, kept) = match spec.console {
        Console::Inherit => (None, init.as_raw_fd(), Some(init)),
        Console::Null => {
            let log: File = memfd_create("guest console", MFdFlags::MFD_CLOEXEC)
                .map_err(|e| BootError::Watch(e.into()))?
                .into();
            let twin = || log.try_clone().map_err(BootError::Watch);
            command.stdin(Stdio::from(init)).stdout(twin()?).stderr(twin()?);
            (Some(log), libc::STDIN_FILENO, None)
        }
    };
    command.args(arguments(&spec, program));
    let cpu_limit_s = spec.wall_limit.as_secs().saturating_add(CPU_MARGIN_S);
    let (parent, cpu) = (nix::unistd::getpid(), spec.cpu);
    let confinement = Confinement::to(&spec.dir).map_err(|error| BootError::Part {
        part: "folder",
        path: spec.dir.clone(),
        error,
    })?;
    // SAFETY: `prepare` makes system calls only and allocates nothing.
    unsafe {
        command.pre_exec(move || prepare(kept.as_ref(), parent, cpu, cpu_limit_s, &confinement));
    }
    watch::start(command, kernel, &spec, console, end)
}

/// What a kernel's command line hands on unchanged.
fn is_plain(argument: &str) -> bool {
    !argument.is_empty()
        && argument.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '\\'))
}

/// The kernel's command line, where the kernel process has the guest's program open as the descriptor `program`.
fn arguments(spec: &GuestSpec, program: RawFd) -> Vec<String> {
    let mut arguments = vec![format!("mem={}M", spec.memory_mib)];
    if spec.clock == Clock::Virtual {
        arguments.push("time-travel=inf-cpu".into());
        arguments.push(format!("time-travel-start={BEGIN_NS}"));
    }
    // Taken away before the command line is kept.
    arguments.push(format!("quell_seed={}", spec.seed));
    let root = ["root=/dev/root", "rootfstype=hostfs", "ro", "quiet", "norandmaps", "noreboot"];
    arguments.extend(root.map(String::from));
    arguments.push("con=null".into());
    arguments.push(match spec.console {
        Console::Null => "con0=null".into(),
        Console::Inherit => "con0=fd:0,fd:1".into(),
    });
    // Without it the kernel adds it at the end, where it would be an argument of init's.
    arguments.push("console=tty0".into());
    // Followed in the guest, link by link, through the host's files: to the kernel process's own open file.
    arguments.push(format!("init=/proc/self/fd/{program}"));
    arguments.push("--".into());
    arguments.extend(spec.arguments.iter().cloned());
    arguments
}

/// Between fork and exec. `kept` is open in the kernel process beside its three standard streams, and nothing else is: neither what our
/// caller left open nor what other threads have open at this moment.
fn prepare(
    kept: Option<&OwnedFd>,
    parent: Pid,
    cpu: Option<usize>,
    cpu_limit_s: u64,
    confinement: &Confinement,
) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        // It ended before the line above.
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    no_random_addresses()?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    // An unprivileged process may only lower a limit that it was given.
    let _ = setrlimit(Resource::RLIMIT_CPU, cpu_limit_s, cpu_limit_s + CPU_MARGIN_S);
    if let Some(cpu) = cpu {
        let mut set = CpuSet::new();
        set.set(cpu)?;
        sched_setaffinity(Pid::from_raw(0), &set)?;
    }
    confinement.enter()?;
    close_on_exec();
    if let Some(kept) = kept {
        fcntl(kept, FcntlArg::F_SETFD(FdFlag::empty()))?;
    }
    Ok(())
}

/// Has every descriptor above the standard ones closed by exec, but not before: one of them tells our parent of failures.
fn close_on_exec() {
    // SAFETY: takes numbers. Linux before 5.11 does not know it; what our caller left open is then open in the kernel process too.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

/// The kernel's own addresses are then the same each time, and those of the programs in it.
fn no_random_addresses() -> io::Result<()> {
    const ASK: libc::c_ulong = 0xffff_ffff;
    // SAFETY: takes numbers.
    let set = unsafe {
        match libc::personality(ASK) {
            -1 => -1,
            now => libc::personality((now | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong),
        }
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn spec() -> GuestSpec {
        GuestSpec {
            kernel: "/bin/true".into(),
            memory_mib: 64,
            seed: 7,
            init: "/bin/true".into(),
            arguments: vec!["cell".into()],
            dir: std::env::temp_dir(),
            wall_limit: Duration::from_secs(10),
            cpu: None,
            clock: Clock::Virtual,
            console: Console::Null,
        }
    }

    #[test]
    fn the_command_line_names_neither_folder_nor_program() {
        let line = arguments(&spec(), 0).join(" ");
        assert!(!line.contains("/tmp") && !line.contains("true"), "{line}");
        assert!(line.ends_with("init=/proc/self/fd/0 -- cell"), "{line}");
        let other = GuestSpec { dir: "/else/where".into(), init: "/other".into(), ..spec() };
        assert_eq!(line, arguments(&other, 0).join(" "));
    }

    #[test]
    fn nonsense_is_refused_before_anything_starts() {
        let with = |change: fn(&mut GuestSpec)| {
            let mut spec = spec();
            change(&mut spec);
            boot(spec).err().map(|e| e.to_string()).unwrap_or_default()
        };
        assert!(with(|s| s.memory_mib = 8).contains("32 MiB"));
        assert!(with(|s| s.arguments = vec!["a b".into()]).contains("a b"));
        assert!(with(|s| s.dir = "/no/such".into()).contains("/no/such"));
        assert!(with(|s| s.kernel = "/no/kernel".into()).contains("/no/kernel"));
        assert!(with(|s| s.init = "/no/program".into()).contains("/no/program"));
    }
}
