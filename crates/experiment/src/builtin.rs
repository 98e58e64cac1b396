//! The experiments that Quell brings along, as files that a person can copy.

pub const ALL: [(&str, &str); 25] = [
    ("home-link", include_str!("../../../experiments/home-link.toml")),
    ("home-link-pages", include_str!("../../../experiments/home-link-pages.toml")),
    ("rrul", include_str!("../../../experiments/rrul.toml")),
    ("congestion-controls", include_str!("../../../experiments/congestion-controls.toml")),
    ("window-bdp", include_str!("../../../experiments/window-bdp.toml")),
    ("mtu-blackhole", include_str!("../../../experiments/mtu-blackhole.toml")),
    ("small-messages", include_str!("../../../experiments/small-messages.toml")),
    ("ecn-band", include_str!("../../../experiments/ecn-band.toml")),
    ("sfq-perturb", include_str!("../../../experiments/sfq-perturb.toml")),
    ("host-shares", include_str!("../../../experiments/host-shares.toml")),
    ("tunnel-flows", include_str!("../../../experiments/tunnel-flows.toml")),
    ("tos-hash", include_str!("../../../experiments/tos-hash.toml")),
    ("shape-cost", include_str!("../../../experiments/shape-cost.toml")),
    ("rrul_be", include_str!("../../../experiments/rrul_be.toml")),
    ("rrul_cs8", include_str!("../../../experiments/rrul_cs8.toml")),
    ("rrul46", include_str!("../../../experiments/rrul46.toml")),
    ("rtt_fair", include_str!("../../../experiments/rtt_fair.toml")),
    ("tcp_nup", include_str!("../../../experiments/tcp_nup.toml")),
    ("tcp_ndown", include_str!("../../../experiments/tcp_ndown.toml")),
    ("tcp_upload", include_str!("../../../experiments/tcp_upload.toml")),
    ("tcp_download", include_str!("../../../experiments/tcp_download.toml")),
    ("cubic_bbr", include_str!("../../../experiments/cubic_bbr.toml")),
    ("bursts", include_str!("../../../experiments/bursts.toml")),
    ("voip", include_str!("../../../experiments/voip.toml")),
    ("http", include_str!("../../../experiments/http.toml")),
];

pub fn find(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{check, load_file};

    #[test]
    fn every_built_in_experiment_is_right_and_has_its_own_name() {
        for (name, text) in ALL {
            let experiment = load_file::parse(name, text).expect(name);
            assert_eq!(experiment.name, name);
            check::check(&experiment).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!experiment.expect.is_empty(), "{name} claims something");
            assert!(!experiment.title.is_empty() && !experiment.about.is_empty(), "{name}");
        }
    }

    #[test]
    fn no_built_in_experiment_needs_a_program_of_the_machine() {
        for (name, text) in ALL {
            let experiment = load_file::parse(name, text).expect(name);
            for cell in check::check(&experiment).expect(name) {
                let programs: Vec<_> = cell
                    .tasks
                    .iter()
                    .filter(|t| matches!(t.kind, quell_model::TaskKind::Command { .. }))
                    .collect();
                assert!(programs.is_empty(), "{name}: {programs:?}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_plans_and_another_gives_others() {
        let text = find("home-link").expect("it is built in");
        let plans = |seed: u64| {
            let mut experiment = load_file::parse("home-link", text).expect("it is right");
            experiment.seed = seed;
            check::check(&experiment).expect("it is right")
        };
        assert_eq!(plans(7), plans(7));
        assert_ne!(plans(7)[0].seed, plans(8)[0].seed);
        assert_eq!(plans(1).len(), 18, "six scenarios, three probes");
    }
}
