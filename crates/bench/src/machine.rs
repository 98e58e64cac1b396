//! The machine that figures were taken on.

/// `2 × AMD EPYC …, Linux 6.18.5`: what the figures hold for.
pub fn described() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let (cpus, release) = (read("/proc/cpuinfo"), read("/proc/sys/kernel/osrelease"));
    let names = cpus.lines().filter(|l| l.starts_with("model name"));
    let names: Vec<&str> = names.filter_map(|l| l.split_once(": ")).map(|(_, n)| n).collect();
    let name = names.first().copied().unwrap_or("CPU of no name");
    format!("{} × {name}, Linux {}", names.len().max(1), release.trim())
}
