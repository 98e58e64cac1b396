//! `quell shape prove --in-lab`: whether a policy keeps what it promises, on a line like the person's, in the lab.
//!
//! ```text
//!   a: four uploads ──┐                                   shares:  B has as much as A           (host-fair, cake)
//!                     ├── router ── modem ════ server      bounds:  nobody above a ceiling, all above a floor
//!   b: one            ┘        wan       dsl               order:   bulk makes room for normal, a ping of the high tier waits for neither
//! ```
//!
//! The hosts' shares and the order of tiers can't be measured on a real line with one host beyond it; they follow from the queues alone, and
//! the lab's kernel has the same ones.

use super::rehearsal::{Network, network};
use crate::failure::Failure;
use crate::options::{Backend, Guest, Json, Place};
use crate::run::{RunArgs, run};
use crate::text::say;
use quell_shaper::{BothWays, PolicyName};
use quell_units::Rate;
use std::process::ExitCode;

/// Runs it. Exit code 1 where a claim does not hold.
pub fn prove(
    all: &BothWays,
    policy: PolicyName,
    place: &Place,
    guest: &Guest,
    json: Json,
) -> Result<ExitCode, Failure> {
    let (changes, remarks) = changes(all, policy)?;
    if !json.json {
        say(&format!("{}, in the lab\n", all.words(policy)));
        remarks.iter().for_each(|remark| say(&format!("{remark}\n")));
        println!();
    }
    run(&RunArgs {
        experiment: "home-link".into(),
        changes,
        duration: None,
        repeat: None,
        seed: None,
        jobs: None,
        only: Vec::new(),
        place: Place { base: place.base.clone() },
        kernel: Some(Backend::Guest),
        guest: guest.clone(),
        report: None,
        json,
    })
}

/// What of home-link is otherwise: the line and its queues, what burdens it, and what must hold.
fn changes(all: &BothWays, policy: PolicyName) -> Result<(Vec<String>, Vec<String>), Failure> {
    let Network { line, mut changes, names, remarks } = network(all, policy)?;
    let mut proof = Proof::default();
    let (up, down) = all.rates();
    if up.is_some() {
        proof.shares("up", all, policy);
        // Of what comes CAKE looks at no tier: senders far away set those.
        proof.order(policy);
    }
    if down.is_some() {
        proof.shares("down", all, policy);
    }
    changes.extend([
        "name=shape-proof".to_owned(),
        format!("title=\"A line of {}: what its queues promise\"", String::from(line)),
        "about=\"What `quell shape prove --in-lab` was asked for; the network is that of home-link.\"".into(),
        "probes-run=together".into(),
        format!("expect=[{}]", proof.claims.join(", ")),
        format!("load=[{}]", proof.loads.join(", ")),
        format!("probe=[{}]", proof.probes()),
        format!("scenario=[{}]", proof.scenarios(&names)),
    ]);
    Ok((changes, remarks))
}

/// Loads, scenarios and claims, as an experiment has them.
#[derive(Default)]
struct Proof {
    loads: Vec<String>,
    /// Names, and the loads in them.
    scenarios: Vec<(String, Vec<String>)>,
    claims: Vec<String>,
}

impl Proof {
    /// A load of TCP connections.
    fn load(&mut self, name: &str, from: &str, way: &str, connections: u32, tos: Option<&str>) {
        let tos = tos.map(|tos| format!(", tos = \"{tos}\"")).unwrap_or_default();
        self.loads.push(format!(
            "{{ name = \"{name}\", kind = \"tcp\", from = \"{from}\", to = \"server\", direction = \"{way}\", \
             connections = {connections}{tos} }}"
        ));
    }

    fn claim(&mut self, text: String) {
        self.claims.push(format!("\"{text}\""));
    }

    /// Host A opens four connections, B one.
    fn shares(&mut self, way: &str, all: &BothWays, policy: PolicyName) {
        let (a, b, scenario) = (format!("a-{way}"), format!("b-{way}"), format!("shares-{way}"));
        // What is claimed of a load is claimed of each of its connections; a ceiling is one of them all.
        let many = if policy == PolicyName::Subscribers { 1 } else { 4 };
        self.load(&a, "a", way, many, None);
        self.load(&b, "b", way, 1, None);
        match policy {
            PolicyName::HostFair | PolicyName::Cake => {
                self.claim(format!("{scenario}.{b}.share = 50% ± 3%"));
            }
            // By flows alone: a fifth.
            PolicyName::Tiers => self.claim(format!("{scenario}.{b}.share = 20% ± 3%")),
            PolicyName::Subscribers => {
                for (one, name) in all.subscribers.iter().zip([&a, &b]) {
                    let bounds = if way == "up" { one.up } else { one.down };
                    self.claim(format!("{scenario}.{name}.goodput <= {}", bounds.ceiling));
                    // Of what HTB counts, 1448 of 1514 bytes are a transfer's.
                    let payload = Rate::from_bps(bounds.floor.bps() / 1514 * 1448 / 100 * 97);
                    self.claim(format!("{scenario}.{name}.goodput >= {payload}"));
                }
            }
        }
        self.scenarios.push((scenario, vec![a, b]));
    }

    /// Two transfers of each of two tiers from one host, and a ping of the highest.
    fn order(&mut self, policy: PolicyName) {
        if policy == PolicyName::Subscribers {
            return;
        }
        self.load("normal", "a", "up", 2, None);
        self.load("bulk", "a", "up", 2, Some("CS1"));
        self.claim("order.normal.goodput > 2 * order.bulk.goodput".into());
        self.claim("order.high.rtt.p99 < order.low.rtt.p99".into());
        self.scenarios.push(("order".into(), vec!["normal".into(), "bulk".into()]));
    }

    fn probes(&self) -> String {
        let ping = |(name, tos)| {
            format!(
                "{{ name = \"{name}\", kind = \"ping\", from = \"a\", to = \"server\", tos = \"{tos}\" }}"
            )
        };
        [("high", "EF"), ("low", "CS1")].map(ping).join(", ")
    }

    fn scenarios(&self, queues: &str) -> String {
        let one = |(name, loads): &(String, Vec<String>)| {
            let loads: Vec<String> = loads.iter().map(|load| format!("\"{load}\"")).collect();
            format!("{{ name = \"{name}\", loads = [{}], queues = {queues} }}", loads.join(", "))
        };
        self.scenarios.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_experiment::builtin;
    use quell_experiment::spec::{check, load_file, set};

    #[test]
    fn each_policy_has_its_claims_and_the_experiment_fits_together() {
        let file = "line = \"10/50\"\n[[subscriber]]\nname = \"ann\"\nprefixes = [\"192.0.2.0/29\"]\n\
                    up = { floor = \"1Mbit\", ceiling = \"4Mbit\" }\ndown = { floor = \"1Mbit\", ceiling = \"9Mbit\" }";
        let all: BothWays = toml::from_str(file).expect("a file");
        for (policy, claims) in [
            (PolicyName::Cake, 4),
            (PolicyName::HostFair, 4),
            (PolicyName::Tiers, 4),
            (PolicyName::Subscribers, 4),
        ] {
            let (changes, _) = changes(&all, policy).expect("changes");
            let text = builtin::find("home-link").expect("the built-in one");
            let text = set::apply(text, &changes).expect("fields that are there");
            let experiment = load_file::parse("proof", &text).expect("an experiment");
            assert_eq!(experiment.expect.len(), claims, "{policy:?}");
            check::check(&experiment).expect("it fits together");
        }
    }
}
