//! Any program of this machine, run on a host of the topology: a load.

use super::kind::{Bad, Kind, Opening, Works, opens};
use super::maker::Maker;
use crate::plan::PlanError;
use quell_load::command::PreparedCommand;
use quell_model::{Metric, Task, TaskKind};
use quell_units::Span;
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Program {
    pub name: String,
    pub on: String,
    /// Program and arguments. No shell: `["iperf3", "-c", "{server}"]`; `{node}` stands for that node's IPv4 address, `{node/6}`
    /// for its IPv6 address.
    pub run: Vec<String>,
    /// When it starts, from the start of the measurement; absent, with the warm-up.
    pub start: Option<Span>,
    /// When it is ended; absent, at the end.
    pub duration: Option<Span>,
}

impl Kind for Program {
    fn name(&self) -> &str {
        &self.name
    }

    fn hosts(&self) -> Vec<&str> {
        vec![&self.on]
    }

    fn times(&self) -> (Option<Span>, Option<Span>) {
        (self.start, self.duration)
    }

    fn metrics(&self) -> &'static [Metric] {
        &[]
    }

    fn check(&self, bad: Bad<'_>) {
        if self.run.is_empty() {
            bad("run", "`run` names no program".into());
        }
    }

    fn plan(&self, maker: &mut Maker<'_>) -> Result<(), PlanError> {
        let argv = self.run.iter().map(|word| maker.fill_in(word)).collect::<Result<_, _>>()?;
        let when = maker.warmed_up(self.start, self.duration);
        maker.client(&self.on, when, TaskKind::Command { argv });
        Ok(())
    }
}

impl Works for Program {
    fn work(task: &Task) -> Option<Opening<'_>> {
        match &task.kind {
            TaskKind::Command { argv } => {
                opens(|| PreparedCommand::prepare(&task.id, argv), PreparedCommand::run)
            }
            _ => None,
        }
    }
}
