//! Layers: arrows run downward only.
//!
//! ```text
//!   4  quell                       the command line
//!      mesh  twin                  above those whose measurements they carry out
//!   3  experiment  flow  serve  rpm  doctor  path  ping  shaping  tuning
//!      report                      below those whose figures are a run's: path
//!   2  probe  load  rr  page  act  lab  policy  treeview  host
//!      classify  kernel  tls       below others of their layer: a program for the kernel, over netlink; the lab's kernel; TLS over a socket
//!      metrics                    what Prometheus reads
//!   1  netlink  store  chart  trace  hierarchy  foreign  web  bus  series   one system thing each
//!      sys                         below them
//!   0  model  stats  wire  tc  cause  grade  pure: no I/O, no clock, no randomness
//!      units  finding              below all of them
//! ```

use cargo_metadata::Metadata;

/// The layers, lowest first. A crate may use crates of the layers below its own.
pub const LAYERS: &[(&str, &[&str])] = &[
    ("0, units", &["quell-units"]),
    ("0, below", &["quell-finding"]),
    ("0", &["quell-model", "quell-stats", "quell-wire", "quell-tc", "quell-cause", "quell-grade"]),
    ("1, below", &["quell-sys"]),
    (
        "1",
        &[
            "quell-netlink",
            "quell-store",
            "quell-chart",
            "quell-trace",
            "quell-hierarchy",
            "quell-foreign",
            "quell-web",
            "quell-bus",
            "quell-series",
        ],
    ),
    ("2, below", &["quell-classify", "quell-kernel", "quell-tls", "quell-metrics"]),
    (
        "2",
        &[
            "quell-probe",
            "quell-load",
            "quell-rr",
            "quell-page",
            "quell-act",
            "quell-lab",
            "quell-policy",
            "quell-treeview",
            "quell-host",
        ],
    ),
    ("3, below", &["quell-report"]),
    (
        "3",
        &[
            "quell-experiment",
            "quell-flow",
            "quell-serve",
            "quell-rpm",
            "quell-doctor",
            "quell-path",
            "quell-ping",
            "quell-shaping",
            "quell-tuning",
        ],
    ),
    ("3, above", &["quell-mesh", "quell-twin"]),
    ("4", &["quell"]),
    ("beside", &["quell-bench", "quell-house"]),
];

/// Crates that may use fewer than their layer allows: these and no others.
pub const ONLY: &[(&str, &[&str])] = &[
    ("quell-netlink", &["quell-units", "quell-tc"]),
    ("quell-store", &["quell-model", "quell-sys", "quell-units", "quell-wire"]),
    ("quell-chart", &[]),
    ("quell-trace", &["quell-cause", "quell-finding", "quell-units"]),
    ("quell-web", &["quell-grade", "quell-wire"]),
    ("quell-grade", &["quell-units"]),
    ("quell-foreign", &["quell-model", "quell-units"]),
    ("quell-series", &["quell-stats", "quell-units"]),
    ("quell-hierarchy", &["quell-units", "quell-wire", "quell-tc"]),
    ("quell-finding", &[]),
    ("quell-cause", &["quell-finding", "quell-units"]),
    ("quell-host", &["quell-hierarchy", "quell-netlink", "quell-sys", "quell-tc", "quell-wire"]),
    (
        "quell-doctor",
        &[
            "quell-cause",
            "quell-finding",
            "quell-hierarchy",
            "quell-host",
            "quell-netlink",
            "quell-store",
            "quell-sys",
            "quell-units",
            "quell-wire",
        ],
    ),
    ("quell-house", &[]),
];

/// A crate of the workspace and the crates of the workspace that it uses, for tests too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crate {
    pub name: String,
    pub uses: Vec<String>,
}

pub fn crates(metadata: &Metadata) -> Vec<Crate> {
    let members = metadata.workspace_packages();
    let own = |name: &str| members.iter().any(|m| m.name.as_str() == name);
    let uses = |member: &cargo_metadata::Package| {
        let all = member.dependencies.iter().map(|d| d.name.clone());
        all.filter(|name| own(name)).collect()
    };
    members.iter().map(|m| Crate { name: m.name.to_string(), uses: uses(m) }).collect()
}

pub fn problems(crates: &[Crate]) -> Vec<String> {
    let layer = |name: &str| LAYERS.iter().position(|(_, names)| names.contains(&name));
    let mut problems = Vec::new();
    for user in crates {
        let Some(own) = layer(&user.name) else {
            problems.push(format!("{} is in no layer: give it a place in LAYERS", user.name));
            continue;
        };
        let only = ONLY.iter().find(|(name, _)| *name == user.name).map(|(_, only)| *only);
        for used in &user.uses {
            let Some(theirs) = layer(used) else { continue };
            if theirs >= own {
                problems.push(format!(
                    "{} (layer {}) uses {used} (layer {}), which does not lie below it",
                    user.name, LAYERS[own].0, LAYERS[theirs].0
                ));
            } else if only.is_some_and(|only| !only.contains(&used.as_str())) {
                problems.push(format!("{} uses {used}, which ONLY does not allow it", user.name));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(crates: &[(&str, &[&str])]) -> Vec<Crate> {
        let one = |(name, uses): &(&str, &[&str])| Crate {
            name: (*name).into(),
            uses: uses.iter().map(|u| (*u).into()).collect(),
        };
        crates.iter().map(one).collect()
    }

    #[test]
    fn arrows_that_run_downward_are_fine() {
        let good =
            tree(&[("quell", &["quell-lab", "quell-units"]), ("quell-lab", &["quell-netlink"])]);
        assert_eq!(problems(&good), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_upward_is_found() {
        let found = problems(&tree(&[("quell-tc", &["quell-lab"])]));
        assert!(found.len() == 1 && found[0].contains("quell-lab"), "{found:?}");
    }

    #[test]
    fn an_arrow_within_a_layer_is_found() {
        let found = problems(&tree(&[("quell-lab", &["quell-policy"])]));
        assert!(found.len() == 1 && found[0].contains("quell-policy"), "{found:?}");
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        let found = problems(&tree(&[("quell-new", &[])]));
        assert!(found.len() == 1 && found[0].contains("quell-new"), "{found:?}");
    }

    #[test]
    fn a_chart_that_knows_the_units_of_networks_is_found() {
        let found = problems(&tree(&[("quell-chart", &["quell-units"])]));
        assert!(found.len() == 1 && found[0].contains("ONLY"), "{found:?}");
    }
}
