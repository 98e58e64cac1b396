//! What our own kernel offers, known from its configuration before it is built or booted.

use super::place::CONFIG;
use crate::cell::CellPlan;
use std::collections::BTreeSet;

/// Names of congestion controls whose option is called otherwise (net/ipv4/Makefile).
const OTHERWISE: [(&str, &str); 1] = [("hstcp", "highspeed")];

/// The congestion controls of the lab's kernel, by the names that `TCP_CONGESTION` takes, sorted.
pub fn congestion_controls() -> Vec<String> {
    let built_in = CONFIG.lines().filter_map(|line| {
        let name = line.strip_prefix("CONFIG_TCP_CONG_")?.strip_suffix("=y")?.to_ascii_lowercase();
        let other = OTHERWISE.iter().find(|(option, _)| *option == name);
        Some(other.map_or(name, |(_, name)| (*name).to_owned()))
    });
    // Not a control but the menu they stand in; and the one that no kernel can be without (net/ipv4/tcp_cong.c).
    let mut names: Vec<String> = built_in.filter(|name| name != "advanced").collect();
    names.push("reno".into());
    names.sort();
    names
}

/// The congestion controls that plans ask for, each once.
pub fn congestion_asked(plans: &[CellPlan]) -> BTreeSet<&str> {
    let tasks = plans.iter().flat_map(|plan| &plan.tasks);
    tasks.filter_map(|task| task.kind.about().congestion).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controls_of_the_configuration_are_named_as_the_kernel_names_them() {
        let names = congestion_controls();
        for name in ["bbr", "cubic", "highspeed", "reno", "vegas"] {
            assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
        }
        assert!(!names.iter().any(|n| n == "advanced" || n == "hstcp"), "{names:?}");
    }
}
