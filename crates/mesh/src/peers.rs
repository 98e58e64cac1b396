//! Whom each agent measures: k others, so that as many measure each, and an agent that comes or goes moves about k pairs.
//!
//! ```text
//!   ring 1   ams ─► fra ─► nyc ─► sin ─► ams     each ring has all agents in an order of its own, by the seed;
//!   ring 2   fra ─► sin ─► ams ─► nyc ─► fra     each agent measures the next one on each ring
//! ```

use quell_stats::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Of each agent its peers. What meets the same one on two rings has others of its own, by the seed.
pub fn peers<'a>(agents: &[&'a str], k: usize, seed: u64) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let rng = Rng::new(seed);
    let k = k.min(agents.len().saturating_sub(1));
    let mut peers: BTreeMap<&str, BTreeSet<&str>> =
        agents.iter().map(|agent| (*agent, BTreeSet::new())).collect();
    let in_order = |order: &Rng, of: &mut dyn Iterator<Item = &'a str>| {
        let mut drawn: Vec<(u64, &str)> = of.map(|a| (order.derive(a).u64(), a)).collect();
        drawn.sort_unstable();
        drawn
    };
    for ring in 0..k {
        let order = rng.derive(&format!("ring/{ring}"));
        let ring = in_order(&order, &mut agents.iter().copied());
        for (at, (_, agent)) in ring.iter().enumerate() {
            peers.entry(agent).or_default().insert(ring[(at + 1) % ring.len()].1);
        }
    }
    for (agent, found) in peers.iter_mut().filter(|(_, found)| found.len() < k) {
        let order = rng.derive(&format!("more/{agent}"));
        let mut others = agents.iter().copied().filter(|o| o != agent && !found.contains(o));
        let others = in_order(&order, &mut others);
        let missing = k - found.len();
        found.extend(others.into_iter().map(|(_, other)| other).take(missing));
    }
    peers
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("agent-{n}")).collect()
    }

    fn of(names: &[String], k: usize, seed: u64) -> BTreeSet<(String, String)> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all = peers(&names, k, seed).into_iter();
        all.flat_map(|(a, of)| of.into_iter().map(move |b| (a.to_owned(), b.to_owned()))).collect()
    }

    proptest! {
        #[test]
        fn each_measures_k_others_and_never_itself(count in 0_usize..60, k in 0_usize..40, seed: u64) {
            let pairs = of(&names(count), k, seed);
            prop_assert_eq!(pairs.len(), count * k.min(count.saturating_sub(1)));
            prop_assert!(pairs.iter().all(|(a, b)| a != b));
        }
    }

    #[test]
    fn one_agent_more_among_a_thousand_moves_about_thirty_pairs() {
        let (few, more) = (of(&names(1000), 30, 7), of(&names(1001), 30, 7));
        let gone = few.difference(&more).count();
        let new = more.difference(&few).count();
        assert!(gone <= 45 && new <= 75, "{gone} gone, {new} new of {}", more.len());
        let mut measured_by = BTreeMap::<&str, usize>::new();
        more.iter().for_each(|(_, b)| *measured_by.entry(b).or_default() += 1);
        let (least, most) =
            (measured_by.values().min().unwrap(), measured_by.values().max().unwrap());
        assert!(*least >= 25 && *most <= 40, "each is measured by {least} to {most}");
        let other = of(&names(1000), 30, 8);
        assert!(few.intersection(&other).count() < 2000, "another seed, another mesh");
    }
}
