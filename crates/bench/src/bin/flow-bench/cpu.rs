//! CPU time: of a process that ended, and of the whole machine.

use nix::sys::resource::{Usage, UsageWho, getrusage};
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// What all children that were waited for used until now, in seconds.
pub fn children() -> f64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |usage: Usage| {
        let of = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
        of(usage.user_time()) + of(usage.system_time())
    })
}

/// What all CPUs together were busy since boot, in seconds: everything but idle and waiting for disks.
pub fn busy() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first.split_whitespace().skip(1).filter_map(|t| t.parse().ok()).collect();
    let total: f64 = ticks.iter().take(8).sum();
    (total - ticks.get(3).unwrap_or(&0.0) - ticks.get(4).unwrap_or(&0.0)) / 100.0
}

/// Waits for a child's end, for so long at most; then ends it.
pub fn end(mut child: Child, patience: Duration) -> Result<ExitStatus, String> {
    let steps = patience.as_millis() / 5;
    for _ in 0..steps {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => std::thread::park_timeout(Duration::from_millis(5)),
            Err(e) => return Err(e.to_string()),
        }
    }
    let _ = child.kill();
    child.wait().map_err(|e| e.to_string())
}
