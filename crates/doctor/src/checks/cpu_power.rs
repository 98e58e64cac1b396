use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "cpu-power",
    group: CheckGroup::Configuration,
    title: "CPUs are set to save power",
    evidence: "scaling_governor; iommu on the kernel's command line",
    rule: "governor powersave without a driver of its own speed; iommu on without pt",
    severity: Severity::Note,
    why: "packets wait until a CPU wakes up or speeds up; an IOMMU costs up to 40 % on some hosts",
    remedies: &["governor performance for transfer hosts; iommu=pt; sources disagree about switching SMT off: measure"],
    source: "fasterdata.es.net, CPU governor and IOMMU (up to 40 %)",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let governor = facts.now.texts.get(path).map(str::trim);
    let mut findings = Vec::new();
    if governor == Ok("powersave") {
        let finding = CHECK
            .finding("this host", CHECK.title)
            .saw(Evidence::text("governor", "powersave", path))
            .cure(Remedy::advice("governor performance, where speed matters more than power"));
        findings.push(finding);
    }
    let line = facts.now.texts.get("/proc/cmdline").unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let on = ["intel_iommu=on", "amd_iommu=on", "iommu=force"].iter().find(|w| words.contains(w));
    if let Some(on) = on
        && !words.contains(&"iommu=pt")
    {
        let says = "the IOMMU translates each packet's memory";
        let finding = CHECK
            .finding("this host", says)
            .saw(Evidence::text("command line", *on, "/proc/cmdline"))
            .cure(Remedy::advice("add iommu=pt to the kernel's command line, and measure"));
        findings.push(finding);
    }
    if findings.is_empty() && governor.is_err() && line.is_empty() {
        return Ok(CheckOutcome::NotApplicable("this kernel sets no CPU speed".to_owned()));
    }
    outcome(&CHECK, findings)
}
