//! CPUs that may be used.

use crate::SysError;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The CPUs that the calling thread may run on, in ascending order.
pub fn allowed_cpus() -> Result<Vec<usize>, SysError> {
    let set = sched_getaffinity(Pid::from_raw(0))
        .map_err(|errno| SysError::new("read the CPUs that may be used", errno))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
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
