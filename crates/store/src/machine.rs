//! What machine this is, for the manifest.

use std::collections::BTreeMap;

/// Name, kernel, processor, cores and memory of this machine; what can't be read is left out.
pub fn machine() -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    if let Ok(name) = nix::sys::utsname::uname() {
        facts.insert("name".to_string(), name.nodename().to_string_lossy().into_owned());
        facts.insert("kernel".to_string(), name.release().to_string_lossy().into_owned());
        facts.insert("architecture".to_string(), name.machine().to_string_lossy().into_owned());
    }
    let field = |file: &str, key: &str| {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find(|l| l.starts_with(key))?;
        line.split_once(':').map(|(_, value)| value.trim().to_string())
    };
    if let Some(model) = field("/proc/cpuinfo", "model name") {
        facts.insert("processor".to_string(), model);
    }
    if let Some(memory) = field("/proc/meminfo", "MemTotal") {
        facts.insert("memory".to_string(), memory);
    }
    if let Ok(allowed) = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)) {
        let cpus = (0..nix::sched::CpuSet::count()).filter(|cpu| allowed.is_set(*cpu) == Ok(true));
        facts.insert("cpus".to_string(), cpus.count().to_string());
    }
    facts
}
