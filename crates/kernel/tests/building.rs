//! Building the guest kernel from the real source, as far as it goes without taking minutes. Needs Debian's package
//! linux-source-6.1.

use quell_kernel::{BuildError, KernelOptions, NotFound, build};
use quell_sys::clock::monotonic_ns;
use quell_sys::pidfd;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What no step here takes, whatever else this machine does.
const PATIENCE: Duration = Duration::from_secs(300);

struct Cache(PathBuf);

impl Cache {
    fn new(name: &str) -> Cache {
        Cache(std::env::temp_dir().join(format!("quell-{name}-{}", std::process::id())))
    }

    fn options(&self) -> KernelOptions {
        KernelOptions { cache: Some(self.0.clone()), ..KernelOptions::default() }
    }

    /// Only an empty lock file may be left of a build that was stopped.
    fn assert_nothing_left(&self) {
        let left = std::fs::read_dir(self.0.join("kernel")).unwrap().flatten();
        let left: Vec<PathBuf> = left.map(|e| e.path()).collect();
        assert!(left.iter().all(|p| p.extension().is_some_and(|e| e == "lock")), "{left:?}");
        assert!(matches!(quell_kernel::find(&self.options()), Err(NotFound::NotBuilt { .. })));
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Programs that work below a folder.
fn programs_below(folder: &Path) -> Vec<OwnedFd> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let below = entries.filter(|e| {
        std::fs::read_link(e.path().join("cwd")).is_ok_and(|at| at.starts_with(folder))
    });
    let pids = below.filter_map(|e| e.file_name().to_string_lossy().parse().ok());
    pids.filter_map(|pid| pidfd::open(pid).ok()).collect()
}

#[test]
fn a_build_that_is_stopped_leaves_neither_files_nor_programs() {
    let cache = Cache::new("stopped");
    let cancel = Arc::new(Bell::new().unwrap());
    let options = KernelOptions { cancel: Some(Arc::clone(&cancel)), ..cache.options() };
    let mut phases = Vec::new();
    let result = build(&options, &mut |progress| {
        phases.push(progress.phase.clone());
        // In the middle of make, which by then has children.
        if progress.phase == "configure" {
            cancel.ring();
        }
    });
    match result {
        Err(BuildError::Cancelled) => {}
        other => panic!("{other:?}; this test needs the package linux-source-6.1"),
    }
    assert_eq!(phases, ["unpack", "configure"]);
    cache.assert_nothing_left();
    // Those that were ended need a CPU for that.
    let mut alarm = Alarm::new().unwrap();
    alarm.set(Some(monotonic_ns() + PATIENCE.as_nanos() as u64)).unwrap();
    for program in programs_below(&cache.0) {
        let mut fds = [readable(&program), readable(&alarm)];
        wait(&mut fds).unwrap();
        assert!(came(&fds[0]), "a program was left");
    }
}

#[test]
fn a_second_builder_waits_for_the_first_and_says_so() {
    let cache = Cache::new("second");
    let cancel = Arc::new(Bell::new().unwrap());
    let options = KernelOptions { cancel: Some(Arc::clone(&cancel)), ..cache.options() };
    let (tell, told) = mpsc::channel();
    let first = {
        let options = options.clone();
        std::thread::spawn(move || {
            build(&options, &mut |progress| {
                let _ = tell.send(progress.phase.clone());
            })
        })
    };
    assert_eq!(told.recv_timeout(PATIENCE).as_deref(), Ok("unpack"));
    let mut phases = Vec::new();
    let second = build(&options, &mut |progress| {
        phases.push(progress.phase.clone());
        cancel.ring();
    });
    assert!(matches!(second, Err(BuildError::Cancelled)), "{second:?}");
    assert!(matches!(first.join().unwrap(), Err(BuildError::Cancelled)));
    assert_eq!(phases, ["wait for another build"]);
    cache.assert_nothing_left();
}

#[test]
fn what_a_killed_builder_left_is_removed_by_the_next() {
    let cache = Cache::new("killed");
    let cancel = Arc::new(Bell::new().unwrap());
    let options = KernelOptions { cancel: Some(Arc::clone(&cancel)), ..cache.options() };
    let mut folder = None;
    let began = Instant::now();
    for round in 0..2 {
        cancel.silence();
        let result = build(&options, &mut |_| {
            let found = std::fs::read_dir(cache.0.join("kernel")).unwrap().flatten();
            let work = found.map(|e| e.path()).find(|p| p.to_string_lossy().ends_with(".building"));
            let work = work.expect("there is a folder to build in");
            assert!(!work.join("left").exists(), "round {round}");
            folder = Some(work);
            cancel.ring();
        });
        assert!(matches!(result, Err(BuildError::Cancelled)), "{result:?}");
        let work = folder.clone().expect("progress was told");
        std::fs::create_dir_all(work.join("left/behind")).unwrap();
        std::fs::write(work.join("left/behind/file"), "x").unwrap();
        assert!(matches!(quell_kernel::find(&options), Err(NotFound::NotBuilt { .. })));
    }
    assert!(began.elapsed() < PATIENCE);
}
