//! CPUs that may be used.

use crate::SysError;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The CPUs that the calling thread may run on, in ascending order.
pub fn allowed_cpus() -> Result<Vec<usize>, SysError> {
    let set = sched_getaffinity(Pid::from_raw(0))
        .map_err(|errno| SysError::new("read the CPUs that may be used", errno))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}
