//! The tests, as seen from the host.

use crate::left_out;
use nix::libc;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use quell_lab::guest::{Clock, Console, Guest, GuestExit, GuestSpec, boot};
use quell_lab::kernel::{self, KernelOptions, Series};
use quell_sys::clock::monotonic_ns;
use quell_sys::pidfd;
use quell_sys::wait::{Alarm, came, readable, wait};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

type Test = (&'static str, fn());

/// What nothing here takes, even where a guest has a tenth of a CPU.
const PATIENCE: Duration = Duration::from_secs(300);

const TESTS: [Test; 18] = [
    ("a_guest_boots_and_writes_a_file", a_guest_boots_and_writes_a_file),
    ("the_same_seed_gives_the_same_bytes_and_another_seed_others", same_seed_same_bytes),
    ("program_folder_and_environment_do_not_matter", program_folder_and_environment_do_not_matter),
    ("a_thousand_seconds_pass_in_one", a_thousand_seconds_pass_in_one),
    ("a_nap_of_20_ms_takes_20_ms", a_nap_of_20_ms_takes_20_ms),
    ("a_guest_has_what_programs_expect", || ends("devices", &GuestExit::Clean)),
    ("floating_point_survives_switches", || ends("floats", &GuestExit::Clean)),
    ("pages_that_are_written_are_ones_own_where_memory_is_short", copies),
    ("a_reader_asks_once_and_its_sum_is_seen_all_the_while", reads_on),
    ("a_host_that_hands_no_system_calls_over_gives_the_same_guest", without_messages),
    ("a_program_that_fails_says_why", a_program_that_fails_says_why),
    ("a_panic_is_told_as_one", a_panic_is_told_as_one),
    ("root_in_a_guest_writes_to_no_file_of_the_host", root_writes_to_no_file_of_the_host),
    ("a_guest_without_memory_is_told_as_one", a_guest_without_memory_is_told_as_one),
    ("a_hanging_guest_ends_at_its_limit", a_hanging_guest_ends_at_its_limit),
    ("a_killed_guest_leaves_no_process_and_what_it_wrote", a_killed_guest_leaves_no_process),
    ("a_killed_parent_leaves_no_process", a_killed_parent_leaves_no_process),
    ("a_kernel_without_virtual_time_is_refused", a_kernel_without_virtual_time_is_refused),
];

pub fn run_all(arguments: &[String]) {
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let mut failed = 0;
    for (name, test) in TESTS {
        if !filters.is_empty() && !filters.iter().any(|f| name.contains(f.as_str())) {
            continue;
        }
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(test));
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.2} s)", began.elapsed().as_secs_f64());
        failed += u32::from(outcome.is_err());
    }
    println!("{failed} failed");
    if failed > 0 {
        std::process::exit(1);
    }
}

/// A folder of a test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("quell-guest-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    fn read(&self, name: &str) -> String {
        let place = self.0.join(name);
        std::fs::read_to_string(&place).unwrap_or_else(|e| panic!("{}: {e}", place.display()))
    }

    fn wait_for(&self, name: &str) {
        let watch = Inotify::init(InitFlags::IN_NONBLOCK).expect("folders can be watched");
        let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        watch.add_watch(&self.0, flags).expect("the folder is there");
        let alarm = alarm();
        while !self.0.join(name).exists() {
            let mut fds = [readable(&watch), readable(&alarm)];
            wait(&mut fds).expect("a folder can be waited for");
            assert!(!came(&fds[1]), "the guest wrote no file `{name}`");
            let _ = watch.read_events();
        }
    }
}

/// It rings when patience is over.
fn alarm() -> Alarm {
    let mut alarm = Alarm::new().expect("a timer");
    let end = monotonic_ns() + PATIENCE.as_nanos() as u64;
    alarm.set(Some(end)).expect("a timer can be set");
    alarm
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Which series of kernels is tried: the usual one, or that which QUELL_TEST_SERIES names.
fn series() -> Series {
    let named = std::env::var("QUELL_TEST_SERIES").ok();
    named.map_or(Series::default(), |name| name.parse().expect("QUELL_TEST_SERIES names a series"))
}

fn kernel() -> PathBuf {
    let series = series();
    match kernel::find(&KernelOptions { series: Some(series), ..KernelOptions::default() }) {
        Ok(kernel) => kernel.path,
        Err(error) => panic!("{error}; build it with `quell lab kernel build --version {series}`"),
    }
}

fn own_program() -> PathBuf {
    std::env::current_exe().expect("a test knows its program")
}

fn spec(task: &str, folder: &Path) -> GuestSpec {
    GuestSpec {
        kernel: kernel(),
        memory_mib: 256,
        seed: 1,
        init: own_program(),
        arguments: vec!["within".into(), task.into()],
        dir: folder.to_path_buf(),
        wall_limit: PATIENCE,
        cpu: Some(0),
        clock: Clock::Virtual,
        console: Console::Null,
    }
}

fn start(spec: GuestSpec) -> Guest {
    boot(spec).unwrap_or_else(|e| panic!("{e}"))
}

fn run(spec: GuestSpec) -> GuestExit {
    start(spec).wait().expect("a guest can be waited for")
}

fn ends(task: &str, exit: &GuestExit) {
    let folder = Folder::new(task);
    assert_eq!(&run(spec(task, &folder.0)), exit);
    assert_none_left(&folder.0);
}

/// The processes of a guest work in its folder.
fn processes_in(folder: &Path) -> Vec<String> {
    let folder = std::fs::canonicalize(folder).expect("the folder is there");
    let entries = std::fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let in_folder =
        entries.filter(|e| std::fs::read_link(e.path().join("cwd")).is_ok_and(|at| at == folder));
    in_folder.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

/// SIGKILL takes a moment to arrive at all of them.
fn assert_none_left(folder: &Path) {
    let alarm = alarm();
    for pid in processes_in(folder) {
        // One that has gone since can't be opened.
        let Ok(process) = pidfd::open(pid.parse().expect("a process has a number")) else {
            continue;
        };
        let mut fds = [readable(&process), readable(&alarm)];
        wait(&mut fds).expect("a process can be waited for");
        assert!(came(&fds[0]), "left behind: {pid}");
    }
}

fn a_guest_boots_and_writes_a_file() {
    let folder = Folder::new("hello");
    let began = Instant::now();
    assert_eq!(run(spec("hello", &folder.0)), GuestExit::Clean);
    println!("  boot, hello and power off: {} ms", began.elapsed().as_millis());
    assert!(began.elapsed() < PATIENCE);
    assert_eq!(folder.read("hello"), "hello from within\n");
}

fn facts(change: impl FnOnce(&mut GuestSpec)) -> String {
    let folder = Folder::new("facts");
    let mut spec = spec("facts", &folder.0);
    change(&mut spec);
    assert_eq!(run(spec), GuestExit::Clean);
    folder.read("facts")
}

fn same_seed_same_bytes() {
    let first = facts(|_| {});
    assert_eq!(facts(|_| {}), first);
    let other = facts(|spec| spec.seed = 2);
    // Every line of it: a seed decides all of them. A port may be the same by chance, three of them hardly.
    for (a, b) in first.lines().zip(other.lines()).filter(|(a, _)| !a.starts_with("port")) {
        assert_ne!(a, b);
    }
    let ports = |text: &str| -> Vec<String> {
        text.lines().filter(|l| l.starts_with("port")).map(String::from).collect()
    };
    assert_ne!(ports(&first), ports(&other));
    // Two at once do not disturb each other.
    let folders = [Folder::new("left"), Folder::new("right")];
    let mut guests = [start(spec("facts", &folders[0].0)), start(spec("facts", &folders[1].0))];
    for (guest, folder) in guests.iter_mut().zip(&folders) {
        assert_eq!(guest.wait().unwrap(), GuestExit::Clean);
        assert_eq!(folder.read("facts"), first);
    }
}

fn program_folder_and_environment_do_not_matter() {
    let first = facts(|_| {});
    let elsewhere = Folder::new("a-program-with-a-longer-name-and-another-size");
    let copy = elsewhere.0.join("copy");
    let mut program = std::fs::read(own_program()).unwrap();
    program.extend([0; 100_000]);
    std::fs::write(&copy, program).unwrap();
    std::fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(facts(|spec| spec.init = copy.clone()), first, "a copy of the program");
    let other = facts(|spec| spec.arguments[1] = "facts-of-another-program".into());
    assert_eq!(other, first, "another program");
    let deep = elsewhere.0.join("a/b/c/d/e/f");
    std::fs::create_dir_all(&deep).unwrap();
    assert_eq!(facts(|spec| spec.memory_mib = 384), first, "another size of memory");
    let result = run(GuestSpec { dir: deep.clone(), ..spec("facts", &deep) });
    assert_eq!(result, GuestExit::Clean);
    assert_eq!(std::fs::read_to_string(deep.join("facts")).unwrap(), first, "another folder");
    // The environment of whoever boots it.
    let status = Command::new(own_program())
        .args(["parent", "facts"])
        .arg(&deep)
        .env("SOMETHING_LONG", "x".repeat(5000))
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(std::fs::read_to_string(deep.join("facts")).unwrap(), first, "another environment");
}

fn a_thousand_seconds_pass_in_one() {
    let folder = Folder::new("sleep");
    let began = Instant::now();
    assert_eq!(run(spec("sleep", &folder.0)), GuestExit::Clean);
    let took = began.elapsed();
    println!("  1000 virtual seconds: {} ms", took.as_millis());
    let slept: u64 = folder.read("slept").parse().unwrap();
    assert!((1_000_000_000_000..1_000_000_010_000).contains(&slept), "{slept} ns");
    assert!(took < PATIENCE, "{took:?}");
}

fn a_nap_of_20_ms_takes_20_ms() {
    let folder = Folder::new("nap");
    assert_eq!(run(spec("nap", &folder.0)), GuestExit::Clean);
    for nap in folder.read("naps").lines() {
        let nap: u64 = nap.parse().unwrap();
        // Reading the clock takes a quarter of a microsecond of virtual time.
        assert!((20_000_000..20_001_000).contains(&nap), "{nap} ns");
    }
}

fn reads_on() {
    let folder = Folder::new("reads-on");
    assert_eq!(run(spec("reads-on", &folder.0)), GuestExit::Clean);
    assert_eq!(folder.read("read"), "Ok(0) 50000 [10000, 20000, 30000, 40000, 50000]");
}

/// The guest's kernel then traces each system call, which is slower, and that is all.
fn without_messages() {
    let wanted = facts(|_| {});
    let below = |task: &str, folder: &Folder| {
        let mut command = Command::new(own_program());
        command.args(["parent", task]).arg(&folder.0).stdout(Stdio::null());
        // SAFETY: system calls only, between fork and exec.
        unsafe { command.pre_exec(take_the_messages) };
        command.spawn().expect("the test's own program can be started")
    };
    for task in ["facts", "floats"] {
        let folder = Folder::new(task);
        assert!(below(task, &folder).wait().unwrap().success(), "{task}");
        if task == "facts" {
            assert_eq!(folder.read("facts"), wanted);
        }
    }
    if series() != Series::V6_1 {
        left_out::kernel_lacks(
            "calls.edit is for Linux 6.1 alone, another guest's calls are all traced",
        );
        return;
    }
    // A program that sleeps in the guest does so in its call on the host, or else it is stopped by its tracer.
    let folder = Folder::new("traced");
    let mut parent = below("wait", &folder);
    folder.wait_for("ready");
    assert_traced_stops(1, &folder.0);
    parent.kill().unwrap();
    parent.wait().unwrap();
    let folder = Folder::new("asleep");
    let guest = start(spec("wait", &folder.0));
    folder.wait_for("ready");
    assert_traced_stops(0, &folder.0);
    drop(guest);
}

/// How many of a guest's processes are stopped by their tracer, as soon as the one that writes `ready` is done with that.
fn assert_traced_stops(wanted: usize, folder: &Path) {
    let state = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(") ").next()?.chars().next()
    };
    // Nobody is told when a process stops.
    let until = Instant::now() + PATIENCE;
    loop {
        let states: Vec<_> = processes_in(folder).iter().map(state).collect();
        if states.iter().filter(|s| **s == Some('t')).count() == wanted {
            return;
        }
        assert!(Instant::now() < until, "{wanted} stopped by a tracer of {states:?}");
        std::thread::yield_now();
    }
}

/// A filter that lets everything pass and has a listener, of which the kernel gives a process and all below it only one.
fn take_the_messages() -> std::io::Result<()> {
    const PASS: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut filter = [libc::sock_filter { code: PASS, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW }];
    let program = libc::sock_fprog { len: 1, filter: filter.as_mut_ptr() };
    // SAFETY: the filter lives longer than the calls. The copy of the listener stays open over exec.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && {
            let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
            let operation = libc::SECCOMP_SET_MODE_FILTER;
            let listener = libc::syscall(libc::SYS_seccomp, operation, flags, &raw const program);
            listener >= 0 && libc::dup(listener as i32) >= 0
        }
    };
    if set { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn a_program_that_fails_says_why() {
    let why = "the router has no such interface".to_string();
    ends("fail", &GuestExit::Failed { why });
}

fn a_panic_is_told_as_one() {
    let folder = Folder::new("exit");
    let exit = run(spec("exit", &folder.0));
    assert!(matches!(exit, GuestExit::Panicked { .. }), "{exit:?}");
    let text = exit.to_string();
    assert!(text.contains("panicked") && text.contains("Attempted to kill init"), "{text}");
    assert_none_left(&folder.0);
    let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

fn a_guest_without_memory_is_told_as_one() {
    let folder = Folder::new("eat");
    let exit = run(GuestSpec { memory_mib: 64, ..spec("eat", &folder.0) });
    assert!(matches!(exit, GuestExit::Panicked { .. }), "{exit:?}");
    let text = exit.to_string();
    assert!(text.contains("panicked") && text.to_lowercase().contains("memory"), "{text}");
    assert_none_left(&folder.0);
}

/// It mounts the host's files anew, and writable. The kernel process has no right to write, nor any other that root has but to read.
fn root_writes_to_no_file_of_the_host() {
    let (folder, other) = (Folder::new("enemy"), Folder::new("victim"));
    let victim = other.0.join("victim");
    std::fs::write(&victim, "as it was").expect("written");
    std::fs::write(folder.0.join("target"), victim.as_os_str().as_encoded_bytes())
        .expect("written");
    assert_eq!(run(spec("enemy", &folder.0)), GuestExit::Clean);
    assert_eq!(std::fs::read_to_string(&victim).expect("it is there"), "as it was");
    assert!(folder.read("tried").contains("ReadOnlyFilesystem"), "{}", folder.read("tried"));
    let guest = start(spec("wait", &folder.0));
    let status = std::fs::read_to_string(format!("/proc/{}/status", guest.pid())).expect("it runs");
    let rights = status.lines().find_map(|line| line.strip_prefix("CapPrm:\t"));
    assert!(["0000000000000000", "0000000000000004"].contains(&rights.expect("it has some")));
}

/// The file alone takes half of the memory, and gives way to what is written of it.
fn copies() {
    let folder = Folder::new("copies");
    assert_eq!(run(GuestSpec { memory_mib: 64, ..spec("copies", &folder.0) }), GuestExit::Clean);
}

fn a_hanging_guest_ends_at_its_limit() {
    let folder = Folder::new("hang");
    let limit = Duration::from_secs(2);
    let exit = run(GuestSpec { wall_limit: limit, ..spec("hang", &folder.0) });
    assert_eq!(exit, GuestExit::TimedOut { limit });
    assert_none_left(&folder.0);
}

fn a_killed_guest_leaves_no_process() {
    let folder = Folder::new("wait");
    let mut guest = start(spec("wait", &folder.0));
    folder.wait_for("ready");
    assert!(processes_in(&folder.0).len() >= 3, "the kernel and two programs");
    assert_eq!(folder.read("kept"), "written, not closed");
    let pid = nix::unistd::Pid::from_raw(guest.pid());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    assert_eq!(guest.wait().unwrap(), GuestExit::Killed { signal: 9 });
    assert_none_left(&folder.0);
    assert_eq!(folder.read("kept"), "written, not closed");
    // Dropping a guest, too.
    let folder = Folder::new("drop");
    let guest = start(spec("wait", &folder.0));
    folder.wait_for("ready");
    drop(guest);
    assert_none_left(&folder.0);
}

fn a_killed_parent_leaves_no_process() {
    let folder = Folder::new("orphan");
    let mut parent = Command::new(own_program())
        .args(["parent", "wait"])
        .arg(&folder.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("booted"), "{line}");
    folder.wait_for("ready");
    assert!(processes_in(&folder.0).len() >= 3);
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert_none_left(&folder.0);
}

/// A program of its own that boots a guest: `parent TASK FOLDER`.
pub fn parent(arguments: &[String]) {
    let mut guest = start(spec(&arguments[0], Path::new(&arguments[1])));
    println!("booted {}", guest.pid());
    let exit = guest.wait().unwrap();
    std::process::exit(i32::from(exit != GuestExit::Clean));
}

fn a_kernel_without_virtual_time_is_refused() {
    // A program that answers as a user-mode kernel does, but knows nothing of time travel.
    let folder = Folder::new("kernel");
    let source = folder.0.join("k.c");
    let program = folder.0.join("linux");
    let text = "#include <stdio.h>\n#include <string.h>\nint main(int n, char **a) {\n\
                puts(n > 1 && !strcmp(a[1], \"--version\") ? \"6.1.9\" : \"User Mode Linux v6.1.9\");\n\
                return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let status = Command::new("gcc").arg("-o").arg(&program).arg(&source).status().unwrap();
    assert!(status.success());
    let options = KernelOptions { kernel_file: Some(program), ..KernelOptions::default() };
    let error = kernel::find(&options).unwrap_err().to_string();
    assert!(error.contains("no virtual time") && error.contains("6.1.9"), "{error}");
    let ours = KernelOptions { kernel_file: Some(kernel()), ..KernelOptions::default() };
    let info = kernel::info(&kernel::find(&ours).unwrap()).unwrap();
    assert!(info.virtual_time && info.seeded);
}
