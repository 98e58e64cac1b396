//! CPU time of this process and of the whole host: getrusage(2), `/proc/stat`.

use crate::cpu;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use quell_sys::clock::monotonic_ns;

/// CPU time so far. Differences are what counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuTimes {
    /// When, in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    /// This process in user space, in seconds.
    pub user_s: f64,
    /// This process in the kernel, in seconds.
    pub system_s: f64,
    /// The whole host, all CPUs: not idle, in clock ticks.
    pub busy_ticks: u64,
    /// All CPUs, idle or not, in clock ticks.
    pub all_ticks: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuShare {
    /// This process in user space, in percent of one CPU.
    pub user: f64,
    /// This process in the kernel, in percent of one CPU.
    pub system: f64,
    /// The whole host, in percent of all its CPUs; none where it can't be read.
    pub host_busy: Option<f64>,
}

impl CpuTimes {
    pub fn now() -> Self {
        let mut times = Self { at_ns: monotonic_ns(), ..Self::default() };
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            times.user_s = usage.user_time().num_microseconds() as f64 / 1e6;
            times.system_s = usage.system_time().num_microseconds() as f64 / 1e6;
        }
        if let Ok(stat) = std::fs::read_to_string("/proc/stat") {
            let cpus = cpu::ticks(&stat).unwrap_or_default();
            times.all_ticks = cpus.iter().map(|cpu| cpu.all).sum();
            times.busy_ticks = cpus.iter().map(|cpu| cpu.all - cpu.idle).sum();
        }
        times
    }

    /// What was used from an earlier look to this.
    pub fn since(&self, before: &Self) -> CpuShare {
        let wall = self.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let percent = |used: f64| if wall > 0.0 { used.max(0.0) / wall * 100.0 } else { 0.0 };
        let all = self.all_ticks.saturating_sub(before.all_ticks);
        let busy = self.busy_ticks.saturating_sub(before.busy_ticks);
        CpuShare {
            user: percent(self.user_s - before.user_s),
            system: percent(self.system_s - before.system_s),
            host_busy: (all > 0).then(|| busy as f64 / all as f64 * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_idle_time_is_fully_busy() {
        let before = CpuTimes { at_ns: 0, user_s: 1.0, system_s: 1.0, busy_ticks: 0, all_ticks: 0 };
        let after = CpuTimes {
            at_ns: 2_000_000_000,
            user_s: 1.5,
            system_s: 2.0,
            busy_ticks: 50,
            all_ticks: 50,
        };
        let share = CpuShare { user: 25.0, system: 50.0, host_busy: Some(100.0) };
        assert_eq!(after.since(&before), share);
        assert_eq!(before.since(&before).host_busy, None);
    }

    #[test]
    fn this_host_tells_of_its_cpu() {
        assert!(CpuTimes::now().all_ticks > 0);
    }
}
