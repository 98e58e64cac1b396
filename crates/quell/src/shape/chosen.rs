//! The policy where nobody named one: what tells hosts apart by itself, as far as the kernel goes.
//!
//! ```text
//!   CAKE? ─► cake      no CAKE, but BPF? ─► host-fair, whose hosts are found      neither ─► tiers
//! ```

use super::kinds;
use quell_shaper::{BothWays, PolicyName};
use quell_tc::Qdisc;
use quell_tc::qdisc::Cake;

/// What this machine would be given, and what there is to say of it where nobody named it.
pub fn choose_here(all: &BothWays) -> (PolicyName, Vec<String>) {
    let has_cake = || kinds::kernel_has(Qdisc::from(Cake::default()));
    choose(all, has_cake, || kinds::may_classify().is_ok())
}

/// The same on a machine that has CAKE.
pub fn choose_with_cake(all: &BothWays) -> PolicyName {
    choose(all, || Some(true), || true).0
}

fn choose(
    all: &BothWays,
    has_cake: impl FnOnce() -> Option<bool>,
    may_find: impl FnOnce() -> bool,
) -> (PolicyName, Vec<String>) {
    if let Some(named) = all.named() {
        return (named, Vec::new());
    }
    let (policy, why) = match has_cake() {
        Some(true) => return (PolicyName::Cake, Vec::new()),
        Some(false) if may_find() => (
            PolicyName::HostFair,
            "this kernel has no CAKE: host-fair instead, whose hosts are found by Quell's classifier",
        ),
        Some(false) => (
            PolicyName::Tiers,
            "this kernel has no CAKE, which would find the hosts by itself, and takes no BPF program, which would too: three tiers by DSCP \
             instead, fair between flows and not between hosts; name the hosts with --host for that",
        ),
        None => (
            PolicyName::Cake,
            "whether this kernel has CAKE could not be tried without the right to make a namespace",
        ),
    };
    (policy, vec![why.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(all: &BothWays, cake: Option<bool>, bpf: bool) -> (PolicyName, String) {
        let (policy, said) = choose(all, || cake, || bpf);
        (policy, said.join("\n"))
    }

    #[test]
    fn without_cake_the_hosts_are_found_by_the_classifier_and_only_without_that_nobody_is_told_apart()
     {
        let all = BothWays::default();
        assert_eq!(chosen(&all, Some(true), true), (PolicyName::Cake, String::new()));
        let (policy, said) = chosen(&all, Some(false), true);
        assert_eq!(policy, PolicyName::HostFair);
        assert!(said.contains("no CAKE") && !said.contains("--host "), "{said}");
        let (policy, said) = chosen(&all, Some(false), false);
        assert_eq!(policy, PolicyName::Tiers);
        assert!(said.contains("name the hosts with --host"), "{said}");
        let (policy, said) = chosen(&all, None, true);
        assert_eq!(policy, PolicyName::Cake);
        assert!(said.contains("could not be tried"), "{said}");
    }

    #[test]
    fn what_is_named_or_follows_from_who_is_named_is_taken_without_a_look_at_the_kernel() {
        let tiers = BothWays { policy: Some(PolicyName::Tiers), ..BothWays::default() };
        let hosts = vec![vec!["192.0.2.7".parse().expect("an address")]];
        let hosts = BothWays { hosts, ..BothWays::default() };
        for (all, wanted) in [(tiers, PolicyName::Tiers), (hosts, PolicyName::HostFair)] {
            let chosen = choose(&all, || panic!("asked for CAKE"), || panic!("asked for BPF"));
            assert_eq!(chosen, (wanted, Vec::new()));
        }
    }
}
