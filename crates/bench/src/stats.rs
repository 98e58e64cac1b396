//! Medians and quartiles of rounds; CPU time and folders of the programs that are measured.

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::path::{Path, PathBuf};

/// The value below which such a share of the values is, between two of them in proportion.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = share * (values.len().max(1) - 1) as f64;
    let pick = |n: f64| values.get(n as usize).copied().unwrap_or(f64::NAN);
    let (low, high) = (pick(at.floor()), pick(at.ceil()));
    low + (high - low) * at.fract()
}

pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Median and quartiles, as they are printed.
pub fn spread(values: &[f64], scale: f64, digits: usize) -> String {
    let at = |share| quantile(values, share) / scale;
    format!("{:.digits$} [{:.digits$} to {:.digits$}]", at(0.5), at(0.25), at(0.75))
}

/// What all children that were waited for have used: CPU seconds, and how often one gave the CPU away.
pub fn children() -> (f64, f64) {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or((f64::NAN, f64::NAN), |usage: Usage| {
        let cpu = usage.user_time() + usage.system_time();
        (cpu.num_microseconds() as f64 / 1e6, usage.voluntary_context_switches() as f64)
    })
}

/// Seconds for which all CPUs together were busy since boot: everything but idle and waiting for disks (/proc/stat counts hundredths).
pub fn busy() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = first.split_whitespace().skip(1).filter_map(|t| t.parse().ok()).collect();
    let total: f64 = ticks.iter().take(8).sum();
    (total - ticks.get(3).unwrap_or(&0.0) - ticks.get(4).unwrap_or(&0.0)) / 100.0
}

/// A folder that ends with this program.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("quell-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Scratch(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
