//! What the guests' first process does in the tests.

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use quell_lab::guest::init::{SHARED, mount_all, power_off, push};
use quell_sys::socket::stream::{Discarded, TcpSocket};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Never returns.
pub fn first_process(tasks: &[String]) {
    if let Err(error) = mount_all() {
        power_off(Some(&error.to_string()));
    }
    let task = tasks.first().map_or("", String::as_str);
    let result = match task {
        "hello" => write("hello", "hello from within\n"),
        "facts" => facts(),
        "facts-of-another-program" => {
            another_program();
            facts()
        }
        "sleep" => sleep_long(),
        "nap" => nap(),
        "devices" => devices(),
        "floats" => floats(),
        "reads-on" => reads_on(),
        "copies" => copies(),
        "fail" => Err("the router has no such interface".into()),
        "exit" => std::process::exit(3),
        "enemy" => enemy(),
        "eat" => eat(),
        "hang" => hang(),
        "wait" => wait(),
        other => Err(format!("no task `{other}`")),
    };
    power_off(result.err().as_deref())
}

fn write(name: &str, text: &str) -> Result<(), String> {
    std::fs::write(Path::new(SHARED).join(name), text).map_err(|e| format!("{name}: {e}"))
}

/// Tries to write to a file of the host's whose path lies in `target`; tells what came of it.
fn enemy() -> Result<(), String> {
    const AT: &str = "/run/host";
    std::fs::create_dir(AT).map_err(|e| e.to_string())?;
    let none = nix::mount::MsFlags::empty();
    nix::mount::mount(Some("host"), AT, Some("hostfs"), none, Some("/"))
        .map_err(|e| e.to_string())?;
    let read = |path: String| std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"));
    let target = read(format!("{SHARED}/target"))?;
    let tried = std::fs::write(format!("{AT}{target}"), "as the guest wants it");
    write("tried", &format!("{tried:?}"))
}

/// Everything that a seed decides.
fn facts() -> Result<(), String> {
    let mut text = String::new();
    let uuid =
        std::fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(|e| e.to_string())?;
    let _ = writeln!(text, "uuid {}", uuid.trim());
    let mut bytes = [0_u8; 64];
    // SAFETY: the buffer is as long as said.
    unsafe {
        libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0);
        let random = libc::getauxval(libc::AT_RANDOM) as *const [u8; 16];
        let _ = writeln!(text, "getrandom {bytes:?}\nauxiliary {:?}", *random);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 5001)).map_err(|e| e.to_string())?;
    for _ in 0..3 {
        let to = listener.local_addr().map_err(|e| e.to_string())?;
        let stream = TcpStream::connect(to).map_err(|e| e.to_string())?;
        let from = stream.local_addr().map_err(|e| e.to_string())?;
        let _ = writeln!(text, "port {}", from.port());
    }
    // Longer than a minute: the kernel's generator takes a new key meanwhile.
    std::thread::sleep(Duration::from_secs(100));
    let uuid =
        std::fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(|e| e.to_string())?;
    let _ = writeln!(text, "later {}", uuid.trim());
    write("facts", &text)
}

/// Memory, computing and writing to the random device, as another program or compiler might have it.
fn another_program() {
    let mut memory = vec![1_u8; 20 << 20];
    for index in (0..memory.len()).step_by(4096) {
        memory[index] = memory[index / 2].wrapping_mul(3);
    }
    std::hint::black_box(&memory);
    let _ = std::fs::write("/dev/urandom", [7; 100]);
}

fn sleep_long() -> Result<(), String> {
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(1000));
    write("slept", &began.elapsed().as_nanos().to_string())
}

fn nap() -> Result<(), String> {
    let naps = (0..50).map(|_| {
        let began = Instant::now();
        std::thread::sleep(Duration::from_millis(20));
        began.elapsed().as_nanos().to_string()
    });
    let naps: Vec<String> = naps.collect();
    write("naps", &naps.join("\n"))
}

/// A reader of what comes bit by bit, in one call; the sender looks at its sum meanwhile.
fn reads_on() -> Result<(), String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 5002)).map_err(|e| e.to_string())?;
    let to = listener.local_addr().map_err(|e| e.to_string())?;
    let mut sender = TcpStream::connect(to).map_err(|e| e.to_string())?;
    let (reader, _) = listener.accept().map_err(|e| e.to_string())?;
    let reader = TcpSocket::accepted(reader.into());
    let discarded = Discarded::new(1 << 20);
    let (seen, answer) = std::thread::scope(|scope| {
        let seen = scope.spawn(|| {
            let mut seen = Vec::new();
            for _ in 0..5 {
                sender.write_all(&[0; 10_000])?;
                std::thread::sleep(Duration::from_millis(1));
                seen.push(discarded.bytes());
            }
            sender.shutdown(std::net::Shutdown::Write).map(|()| seen)
        });
        let answer = reader.discard_on(&discarded);
        (seen.join(), answer)
    });
    let seen = seen.map_err(|_| "the sender")?.map_err(|e: std::io::Error| e.to_string())?;
    write("read", &format!("{answer:?} {} {seen:?}", discarded.bytes()))
}

fn devices() -> Result<(), String> {
    let mut wrong = String::new();
    for (path, kind) in [
        ("/dev/null", 'c'),
        ("/dev/random", 'c'),
        ("/dev/net/tun", 'c'),
        ("/dev/ptmx", 'c'),
        ("/dev/pts", 'd'),
        ("/proc/self/status", 'f'),
        ("/sys/class/net/lo", 'd'),
        ("/proc/sys/net/ipv6/conf/lo/forwarding", 'f'),
        ("/proc/sys/net/ipv4/tcp_available_congestion_control", 'f'),
    ] {
        use std::os::unix::fs::FileTypeExt;
        let right = std::fs::metadata(path).is_ok_and(|m| match kind {
            'c' => m.file_type().is_char_device(),
            'd' => m.is_dir(),
            _ => m.is_file(),
        });
        if !right {
            let _ = writeln!(wrong, "{path} is not there");
        }
    }
    for name in ["/tmp/a", "/run/a", "/dev/shm/a"] {
        if let Err(error) = std::fs::write(name, "a") {
            let _ = writeln!(wrong, "{name}: {error}");
        }
    }
    let own = std::env::current_exe().and_then(std::fs::metadata);
    if let Err(error) = own {
        let _ = writeln!(wrong, "the first process's own program: {error}");
    }
    // The host's files are not to be changed, except in the shared folder.
    if std::fs::write("/etc/quell-was-here", "").is_ok() {
        let _ = writeln!(wrong, "the host's /etc can be written");
    }
    // SAFETY: opens a device and asks for a terminal.
    if unsafe { libc::posix_openpt(libc::O_RDWR) } < 0 {
        let _ = writeln!(wrong, "no terminal: {}", std::io::Error::last_os_error());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// A system call with values in floating-point registers, which a function of the C library may overwrite but the kernel may not.
/// Gives its result and what is in the registers afterwards.
fn call(number: i64, arguments: [i64; 2], held: [f64; 2]) -> (i64, [f64; 2]) {
    let (mut result, [mut first, mut last]) = (number, held);
    // SAFETY: used for calls that take numbers and structures that live longer; a fork's child only computes and exits.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            inlateout("xmm0") first,
            inlateout("xmm15") last,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    (result, [first, last])
}

extern "C" fn on_signal(_: libc::c_int) {
    // Overwrites the registers that the interrupted code holds.
    call(libc::SYS_getppid, [0, 0], [-1.0, -2.0]);
}

/// Floating-point registers survive other threads, forks and signal handlers: the kernel copies them only when it must.
fn floats() -> Result<(), String> {
    let action =
        SigAction::new(SigHandler::Handler(on_signal), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler only computes.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.map_err(|e| e.to_string())?;
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 10_000 };
    let pause_at = std::ptr::from_ref(&pause) as i64;
    let hold = move |name: &str, number, arguments, round: u32| {
        let held = [f64::from(round) + 0.25, f64::from(round) * 3.5];
        match call(number, arguments, held) {
            (result, after) if after == held => Ok(result),
            (_, after) => Err(format!("{name}: {held:?} became {after:?}")),
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4)
            .map(|thread| {
                scope.spawn(move || {
                    (0..1000).try_for_each(|round| {
                        let round = thread * 10_000 + round;
                        hold("a yield", libc::SYS_sched_yield, [0, 0], round)?;
                        hold("a pause", libc::SYS_nanosleep, [pause_at, 0], round)?;
                        hold("a call", libc::SYS_getppid, [0, 0], round).map(drop)
                    })
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked".to_string())??;
        }
        Ok::<(), String>(())
    })?;
    let own = i64::from(std::process::id());
    for round in 0..50 {
        hold("a signal", libc::SYS_kill, [own, libc::SIGUSR1.into()], round)?;
        let forked = hold("a fork", libc::SYS_fork, [0, 0], round);
        match forked {
            // SAFETY: ends the child, which tells by its exit code whether it had the registers.
            Ok(0) => unsafe { libc::_exit(0) },
            Err(_) if i64::from(std::process::id()) != own => unsafe { libc::_exit(1) },
            other => {
                let child = nix::unistd::Pid::from_raw(other? as i32);
                match waitpid(child, None) {
                    Ok(WaitStatus::Exited(_, 0)) => {}
                    other => return Err(format!("a child had other values: {other:?}")),
                }
            }
        }
    }
    Ok(())
}

/// Pages of a mapped file that it writes to become its own, by and by and many at once; with another process, where memory is short.
fn copies() -> Result<(), String> {
    const PAGE: usize = 4096;
    const PAGES: usize = 8192;
    let place = Path::new(SHARED).join("pages");
    let page = |number: usize| [number as u8 ^ (number >> 8) as u8; PAGE];
    let mut file = std::fs::File::create(&place).map_err(|e| e.to_string())?;
    (0..PAGES).try_for_each(|number| file.write_all(&page(number))).map_err(|e| e.to_string())?;
    let file = std::fs::File::open(&place).map_err(|e| e.to_string())?;
    let (size, rights) = (PAGES * PAGE, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a mapping of its own, of a file that stays as it is; nobody else has the slice.
    let mapped = unsafe {
        let at =
            libc::mmap(std::ptr::null_mut(), size, rights, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        if at == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().to_string());
        }
        std::slice::from_raw_parts_mut(at.cast::<u8>(), size)
    };
    // Every 64 KB has pages that are looked at before, and one in three has pages that are written.
    let wrong = |mapped: &[u8], mark: u8| {
        (0..PAGES).find(|number| {
            let here = &mapped[number * PAGE..][..PAGE];
            let first = if number % 48 == 7 { mark } else { page(*number)[0] };
            here[0] != first || here[1..] != page(*number)[1..]
        })
    };
    let write = |mapped: &mut [u8], mark: u8| {
        (7..PAGES).step_by(48).for_each(|number| mapped[number * PAGE] = mark);
    };
    std::hint::black_box((0..PAGES).step_by(5).map(|n| mapped[n * PAGE]).max());
    write(mapped, 200);
    // SAFETY: the child looks at memory, and ends.
    let child = match unsafe { fork() }.map_err(|e| e.to_string())? {
        ForkResult::Child => {
            write(mapped, 201);
            std::process::exit(i32::from(wrong(mapped, 201).is_some()));
        }
        ForkResult::Parent { child } => child,
    };
    if waitpid(child, None) != Ok(WaitStatus::Exited(child, 0)) {
        return Err("the child finds other pages than it should".into());
    }
    wrong(mapped, 200)
        .map_or(Ok(()), |number| Err(format!("page {number} is not what it should be")))
}

/// Takes memory until there is none.
fn eat() -> Result<(), String> {
    let mut all = Vec::new();
    loop {
        all.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

fn hang() -> Result<(), String> {
    write("ready", "")?;
    loop {
        std::hint::spin_loop();
    }
}

/// Writes something and keeps the file open, with another process beside it that sleeps; then hangs, so that virtual time stands
/// still.
fn wait() -> Result<(), String> {
    let place = Path::new(SHARED).join("kept");
    let mut file = std::fs::File::create(place).map_err(|e| e.to_string())?;
    file.write_all(b"written, not closed").map_err(|e| e.to_string())?;
    push(&file).map_err(|e| e.to_string())?;
    // SAFETY: the child only sleeps.
    if let ForkResult::Child = unsafe { fork() }.map_err(|e| e.to_string())? {
        loop {
            std::thread::sleep(Duration::from_secs(1_000_000));
        }
    }
    // For the other one to begin.
    std::thread::sleep(Duration::from_millis(1));
    hang()
}
