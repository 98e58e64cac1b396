//! Loads and probes as tasks, with the servers that they need.

use super::PlanError;
use crate::kinds::{Maker, Probe, Role};
use crate::spec::{Experiment, Scenario};
use quell_lab::topology::Network;
use quell_model::Task;
use quell_units::Span;

/// All tasks of a cell. `linger` is how long a packet may be under way: probes wait so long for replies, UDP loads for what they sent
/// last.
pub fn tasks(
    experiment: &Experiment,
    network: &Network,
    scenario: &Scenario,
    probes: &[&Probe],
    linger: Span,
    seed: u64,
) -> Result<Vec<Task>, PlanError> {
    let mut maker = Maker::new(network, experiment.warm_up, experiment.duration, linger, seed);
    for name in &scenario.loads {
        let load = experiment.load.iter().find(|l| l.name() == name).ok_or_else(|| {
            PlanError::Other(format!(
                "scenario `{}` names the load `{name}`, which is not there",
                scenario.name
            ))
        })?;
        maker.begin(Role::Load, name);
        load.plan(&mut maker)?;
    }
    for probe in probes {
        maker.begin(Role::Probe, probe.name());
        probe.plan(&mut maker)?;
    }
    Ok(maker.tasks())
}
