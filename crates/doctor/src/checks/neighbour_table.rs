use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "neighbour-table",
    group: CheckGroup::Utilisation,
    title: "the table of neighbours is nearly full",
    evidence: "entries, forced_gc_runs and table_fulls of /proc/net/stat/arp_cache and ndisc_cache; gc_thresh3",
    rule: "75 % of gc_thresh3 and cleared by force once an hour, or the table was full",
    severity: Severity::Serious,
    why: "a host that finds no room for a neighbour can't send to it at all",
    remedies: &["raise gc_thresh3 (and gc_thresh1, gc_thresh2 with it) above the number of hosts on the link"],
    source: "Documentation/networking/ip-sysctl.rst, neigh/default/gc_thresh3: 1024; neigh_alloc of net/core/neighbour.c; the share is our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let mut findings = Vec::new();
    let mut why = None;
    for (file, family) in [("arp_cache", "ipv4"), ("ndisc_cache", "ipv6")] {
        let key = format!("net/{family}/neigh/default/gc_thresh3");
        let seen = facts.now.stat(file, "entries").map(|entries| {
            // A kernel older than 4.9 does not count table_fulls.
            let moved = |name: &str| {
                let count = |s: &quell_host::Snapshot| s.stat(file, name).ok();
                CounterReading::between(facts.before.and_then(count), count(facts.now).unwrap_or(0))
            };
            (entries, facts.now.texts.number(&key), moved("table_fulls"), moved("forced_gc_runs"))
        });
        let (entries, most, full, forced) = match seen {
            Ok(seen) => seen,
            Err(error) => {
                why = Some(error);
                continue;
            }
        };
        let often = Threshold { least: 1, per_hour: 1.0 };
        let was_full = facts.is_over_since_boot(full, often);
        let share = most.as_ref().map_or(0.0, |most| percent(entries, *most));
        // Entries that were made by hand or by a routing daemon are among `entries`, but take no room from gc_thresh3. Of those that do, more
        // than gc_thresh2 (half of it, usually) make the kernel clear the table by force at a new neighbour.
        let fills = share >= 75.0 && facts.is_over_since_boot(forced, often);
        if !was_full && !fills {
            why = why.or(most.err());
            continue;
        }
        let source = format!("/proc/net/stat/{file}");
        let mut finding = CHECK.finding(format!("this host, {family}"), CHECK.title);
        if was_full {
            finding.says = "there was no room for a neighbour: packets to it were dropped".to_owned();
        }
        finding = finding.saw(Evidence::count("entries", entries, &source));
        for (name, moved) in [("table_fulls", full), ("forced_gc_runs", forced)] {
            if moved.total > 0 {
                finding.evidence.extend(moved.evidence(name, &source));
            }
        }
        if let Ok(most) = most {
            finding = finding.saw(Evidence::count("gc_thresh3", most, format!("/proc/sys/{key}")));
            finding = finding.cure(Remedy::sysctl(&key, (most * 4).to_string()));
        }
        findings.push(finding);
    }
    match why {
        Some(why) if findings.is_empty() => {
            let first = facts.now.texts.get("/proc/net/stat/arp_cache").is_ok();
            let hint = "; the kernel shows this table in its first network namespace only";
            Err(why + if first { "" } else { hint })
        }
        _ => outcome(&CHECK, findings),
    }
}
