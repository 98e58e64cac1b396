//! What a program in the lab leaves behind, what it is told of its caller, and how it ends with whoever uses it.

use super::support::{PING, QUELL, QUIET, TestFolder, two_hosts};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Everything below a folder, with what others may do there.
fn left_in(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder can be read").flatten() {
        let mode = entry.metadata().expect("it is there").permissions().mode() & 0o777;
        found.push((entry.path(), mode));
        if entry.path().is_dir() {
            found.extend(left_in(&entry.path()));
        }
    }
    found
}

/// A program in the lab that has said that it runs, with the folder for its temporary files.
fn running(dir: &TestFolder) -> (Child, PathBuf) {
    let place = dir.path().join("temporary");
    std::fs::create_dir(&place).expect("the folder can be written");
    let script = ["sh", "-c", "echo up; exec sleep 600"];
    let mut command = dir.command(&["lab", "exec", "home-link", "b", "--real-time", "--"]);
    command.args(script).env("TMPDIR", &place).env("TOKEN", "a-secret-of-the-caller");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("quell can be started");
    let mut said = String::new();
    let output = child.stdout.as_mut().expect("a pipe");
    BufReader::new(output).read_line(&mut said).expect("it says something");
    assert_eq!(said, "up\n");
    (child, place)
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("it runs");
}

#[test]
fn a_programs_desk_is_for_nobody_else_and_its_environment_is_gone_once_read() {
    let dir = TestFolder::new();
    let (mut child, place) = running(&dir);
    let left = left_in(&place);
    assert!(left.len() > 1, "{left:?}");
    for (path, mode) in &left {
        assert_eq!(mode & 0o077, 0, "others may not look into {}", path.display());
        if path.is_file() {
            let text = std::fs::read(path).expect("we may");
            assert!(!String::from_utf8_lossy(&text).contains("PATH"), "{}", path.display());
        }
    }
    // By force, which no program can clean up after: nothing that is left tells of the environment.
    signal(&child, Signal::SIGKILL);
    child.wait().expect("it ends");
    assert!(!left_in(&place).iter().any(|(path, _)| path.ends_with("exec.json")));
}

#[test]
fn a_program_ends_with_the_terminal_that_it_was_started_from_and_leaves_nothing() {
    let dir = TestFolder::new();
    let (mut child, place) = running(&dir);
    signal(&child, Signal::SIGHUP);
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
    assert_eq!(left_in(&place), []);
}

#[test]
fn a_program_whose_output_nobody_reads_is_ended_and_leaves_nothing() {
    let dir = TestFolder::new();
    for way in [libc::SIG_DFL, libc::SIG_IGN] {
        let mut command = dir.command(&["lab", "exec", "home-link", "b", "--", "yes"]);
        command.env("TMPDIR", dir.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        // SAFETY: one system call, between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::signal(libc::SIGPIPE, way);
                Ok(())
            });
        }
        let mut child = command.spawn().expect("quell can be started");
        let mut first = [0; 2];
        child.stdout.take().expect("a pipe").read_exact(&mut first).expect("it says y");
        let status = child.wait().expect("it ends");
        assert_eq!((status.code(), status.signal()), (Some(141), None));
        assert_eq!(left_in(dir.path()), []);
    }
}

fn exec(dir: &TestFolder, more: &[&str], command: &[&str]) -> Command {
    dir.command(&[&["lab", "exec", "home-link", "b"], more, &["--"], command].concat())
}

fn told(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_program_gets_of_the_environment_what_programs_need_and_what_was_named() {
    let dir = TestFolder::new();
    let run = |more: &[&str]| {
        let mut command = exec(&dir, more, &["env"]);
        command.env("TOKEN", "a-secret").env("LC_ALL", "C").env("TZ", "UTC").env("OTHER", "x");
        told(command.output().expect("quell can be started"))
    };
    let (code, said, error) = run(&[]);
    assert_eq!(code, Some(0), "{error}");
    assert!(!said.contains("TOKEN") && !said.contains("OTHER"), "{said}");
    for needed in ["PATH=", "LC_ALL=C\n", "TZ=UTC\n", "QUELL_HOST=b\n"] {
        assert!(said.contains(needed), "{needed} in {said}");
    }
    let (_, said, _) = run(&["--env", "TOKEN"]);
    assert!(said.contains("TOKEN=a-secret\n") && !said.contains("OTHER"), "{said}");
    for wrong in ["NO_SUCH_NAME", "TOKEN=other"] {
        let (code, _, error) = run(&["--env", wrong]);
        assert!(code == Some(2) && error.contains(wrong), "{error}");
    }
}

/// A program in a network of which every kernel has all.
fn exec_plain(dir: &TestFolder, backend: &str, command: &[&str]) -> Command {
    let file = dir.file("plain.toml", &two_hosts("", &format!("{QUIET}{PING}")));
    let file = file.to_string_lossy();
    dir.command(&[&["lab", "exec", &*file, "b", "--kernel", backend, "--"], command].concat())
}

#[test]
fn a_folder_that_a_guest_does_not_see_is_refused_with_what_to_do() {
    let dir = TestFolder::new();
    let shared = tempfile::tempdir_in("/dev/shm").expect("everybody may write there");
    let folders = ["/run", "/dev", "/proc", "/sys"].map(Path::new);
    for folder in folders.into_iter().chain([shared.path()]) {
        let mut command = exec(&dir, &[], &["pwd"]);
        let (code, said, error) = told(command.current_dir(folder).output().expect("it starts"));
        assert_eq!((code, said.as_str()), (Some(2), ""), "{error}");
        for word in [&*folder.to_string_lossy(), "of its own", "another folder", "--kernel host"] {
            assert!(error.contains(word), "{word} in {error}");
        }
    }
    let mut command = exec_plain(&dir, "host", &["pwd"]);
    let (_, said, error) = told(command.current_dir(shared.path()).output().expect("it starts"));
    assert_eq!(Path::new(said.trim_end()), shared.path(), "{error}");
}

#[test]
fn a_shell_without_a_terminal_says_so_and_what_to_do() {
    let dir = TestFolder::new();
    let (code, _, error) = told(dir.quell(&["lab", "shell", "home-link", "b"]));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("terminal") && error.contains("quell lab exec"), "{error}");
}

#[test]
fn a_shell_ends_when_it_is_told_to_and_gives_its_terminal_back_as_it_was() {
    let dir = TestFolder::new();
    let (mut ours, theirs) = super::terminal::terminal(24, 80);
    let twin = || theirs.try_clone().expect("a descriptor");
    let settings = || nix::sys::termios::tcgetattr(&theirs).expect("it is a terminal");
    let before = settings();
    let mut command = dir.command(&["lab", "shell", "home-link", "b"]);
    command.env("SHELL", "/bin/sh").env("TMPDIR", dir.path());
    command.stdin(twin()).stdout(twin()).stderr(twin());
    let mut child = command.spawn().expect("quell can be started");
    let mut said = Vec::new();
    let mut byte = [0];
    while !said.ends_with(b"# ") {
        assert_eq!(ours.read(&mut byte).expect("it speaks"), 1);
        said.push(byte[0]);
    }
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("lost") && said.contains("Not a sandbox"), "{said}");
    assert_ne!(settings(), before, "the guest's kernel needs it raw");
    signal(&child, Signal::SIGTERM);
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
    assert_eq!(settings(), before);
    assert_eq!(left_in(dir.path()), []);
}

#[test]
fn a_system_that_forbids_tracing_is_told_with_what_to_do() {
    let dir = TestFolder::new();
    let mut command = exec(&dir, &[], &["true"]);
    // SAFETY: system calls only, between fork and exec.
    unsafe { command.pre_exec(forbid_ptrace) };
    let (code, _, error) = told(command.output().expect("quell can be started"));
    assert_eq!(code, Some(3), "{error}");
    for word in ["ptrace", "SYS_PTRACE", "yama/ptrace_scope", "--kernel host"] {
        assert!(error.contains(word), "{word} in {error}");
    }
}

/// As the seccomp filter of a container does it: ptrace(2) is answered with EPERM.
fn forbid_ptrace() -> std::io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut filter = [
        step(LOAD, 0, 0),
        step(JUMP, 1, libc::SYS_ptrace as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter lives longer than the calls.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if set { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn a_damaged_kernel_in_the_cache_is_told_with_what_to_do() {
    let path =
        Command::new(QUELL).args(["lab", "kernel", "path"]).output().expect("quell can be started");
    let path = PathBuf::from(String::from_utf8_lossy(&path.stdout).trim());
    let dir = TestFolder::new();
    let folder = path.parent().expect("a kernel lies in a folder");
    let copy = dir.path().join("kernel").join(folder.file_name().expect("it has a key"));
    std::fs::create_dir_all(&copy).expect("the folder can be written");
    for name in ["linux", "info.json"] {
        // By another process, so that no program of another test, started just then, holds the kernel open for writing.
        let cp = Command::new("cp").arg(folder.join(name)).arg(&copy).status();
        assert!(cp.expect("cp is on every system").success());
    }
    let run = || {
        let mut command = exec(&dir, &[], &["true"]);
        told(command.env("QUELL_CACHE", dir.path()).output().expect("quell can be started"))
    };
    assert_eq!(run().0, Some(0), "a copy works");
    let kernel = std::fs::File::options().write(true).open(copy.join("linux")).expect("it is ours");
    let size = kernel.metadata().expect("it is there").len();
    kernel.set_len(size - 4096).expect("it can be cut");
    drop(kernel);
    let (code, _, error) = run();
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("damaged") && error.contains("kernel build --force"), "{error}");
}
