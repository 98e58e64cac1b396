//! CPUs: which ones may be used, and staying on one.
//!
//! A guest kernel's system calls are three to four times cheaper when it stays on one CPU, and a
//! prober that is moved about measures its own moves.

use crate::SysError;
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The CPUs that the calling thread may run on, in ascending order.
pub fn allowed_cpus() -> Result<Vec<usize>, SysError> {
    allowed_cpus_of(Pid::from_raw(0))
}

/// Keeps the calling thread, and what it starts from now on, on one CPU.
///
/// Errors with `EINVAL` when there is no such CPU or a cpuset forbids it.
pub fn pin_thread(cpu: usize) -> Result<(), SysError> {
    pin(Pid::from_raw(0), cpu)
}

/// Keeps every present thread of this process, and what they start from now on, on one CPU.
pub fn pin_process(cpu: usize) -> Result<(), SysError> {
    let tried = || format!("list this process's threads to pin them to CPU {cpu}");
    for entry in std::fs::read_dir("/proc/self/task").map_err(|e| SysError::io(tried(), &e))? {
        let entry = entry.map_err(|e| SysError::io(tried(), &e))?;
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match pin(Pid::from_raw(thread), cpu) {
            // The thread ended meanwhile.
            Err(error) if error.errno == Errno::ESRCH => {}
            result => result?,
        }
    }
    Ok(())
}

fn allowed_cpus_of(thread: Pid) -> Result<Vec<usize>, SysError> {
    let set = sched_getaffinity(thread)
        .map_err(|errno| SysError::new("read the CPUs that may be used", errno))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

fn pin(thread: Pid, cpu: usize) -> Result<(), SysError> {
    let failed = |errno| {
        SysError::new(format!("pin to CPU {cpu}"), errno)
            .advise("take one of the CPUs that the process may use, see `taskset -p`")
    };
    let mut set = CpuSet::new();
    set.set(cpu).map_err(failed)?;
    sched_setaffinity(thread, &set).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_cpu_and_the_others_keep_theirs() {
        let before = allowed_cpus().unwrap();
        let last = *before.last().unwrap();
        let pinned = std::thread::spawn(move || {
            pin_thread(last).unwrap();
            allowed_cpus().unwrap()
        });
        assert_eq!(pinned.join().unwrap(), vec![last]);
        assert_eq!(allowed_cpus().unwrap(), before);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        assert_eq!(pin_thread(1023).unwrap_err().errno, Errno::EINVAL);
        assert_eq!(pin_thread(1_000_000).unwrap_err().errno, Errno::EINVAL);
    }
}
