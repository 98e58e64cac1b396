//! CPUs that may be used.

use crate::SysError;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use std::sync::OnceLock;

/// The CPUs that the calling thread may run on, in ascending order.
pub fn allowed_cpus() -> Result<Vec<usize>, SysError> {
    let set = sched_getaffinity(Pid::from_raw(0))
        .map_err(|errno| SysError::new("read the CPUs that may be used", errno))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

/// A CPU for each of a process's workers: the first has that on which the scheduler had us when this was asked first, the next ones those behind it.
/// So processes beside each other do not all take the same. None where the kernel does not say.
pub fn cpu_of_worker(worker: usize) -> Option<usize> {
    static FIRST: OnceLock<usize> = OnceLock::new();
    let cpus = allowed_cpus().ok().filter(|cpus| !cpus.is_empty())?;
    let first = FIRST.get_or_init(|| sched_getcpu().unwrap_or(0));
    let first = cpus.iter().position(|cpu| cpu == first).unwrap_or(0);
    Some(cpus[(first + worker) % cpus.len()])
}

/// From now on the calling thread, and those that it starts, run on this CPU only.
///
/// Errors with `EINVAL` where there is no such CPU, or it may not be used.
pub fn run_on(cpu: usize) -> Result<(), SysError> {
    let failed = |errno| {
        SysError::new(format!("run on CPU {cpu} alone"), errno)
            .advise("see /proc/self/status, Cpus_allowed_list")
    };
    let mut set = CpuSet::new();
    set.set(cpu).map_err(failed)?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_has_a_cpu_of_its_own_as_long_as_there_are_some() {
        let cpus = allowed_cpus().expect("Linux says");
        let mut taken: Vec<_> = (0..cpus.len()).filter_map(cpu_of_worker).collect();
        assert_eq!(cpu_of_worker(cpus.len()), Some(taken[0]));
        taken.sort_unstable();
        assert_eq!(taken, cpus);
    }
}
