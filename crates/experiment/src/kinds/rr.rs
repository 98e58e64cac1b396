//! Request and response over TCP: a probe.

use super::kind::{Bad, Kind, Opening, Works, from_to, opens, payload};
use super::maker::Maker;
use crate::plan::PlanError;
use quell_model::task::{QuickAck, RrClient, RrPattern};
use quell_model::{Metric, Task, TaskKind};
use quell_rr::{ClientTask, ServerTask};
use quell_units::{Bytes, Span};
use serde::Deserialize;

/// Request and response over TCP: the next call begins when the reply is there.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RrProbe {
    pub name: String,
    pub from: String,
    pub to: String,
    /// How writes and replies follow each other.
    #[serde(default)]
    pub pattern: RrPattern,
    /// Bytes of each write, and of the reply.
    #[serde(default = "call_size")]
    pub size: Bytes,
    /// Most calls; it ends with them, or at the end of the measurement.
    #[serde(default = "some_calls")]
    pub calls: u32,
    /// `TCP_NODELAY` at both ends.
    #[serde(default)]
    pub nodelay: bool,
    /// What would be two writes is one of the same bytes.
    #[serde(default)]
    pub one_write: bool,
    /// `TCP_QUICKACK` at both ends: once, or again after each receive.
    pub quickack: Option<QuickAck>,
    #[serde(default)]
    pub ipv6: bool,
}

fn call_size() -> Bytes {
    Bytes::new(64)
}

fn some_calls() -> u32 {
    200
}

/// How long it waits for a connection, and then for a reply: a deep queue before a slow line holds it up for many seconds, and late is not
/// lost.
const PATIENCE: Span = Span::from_secs(60);

impl Kind for RrProbe {
    from_to!();

    fn metrics(&self) -> &'static [Metric] {
        &[
            Metric::Loss,
            Metric::RttMin,
            Metric::RttMean,
            Metric::RttP50,
            Metric::RttP90,
            Metric::RttP99,
            Metric::RttMax,
            Metric::Sent,
            Metric::Received,
        ]
    }

    fn check(&self, bad: Bad<'_>) {
        if !(1..=u64::from(quell_rr::client::LARGEST)).contains(&self.size.get()) {
            bad("size", format!("a size of {} can't be; give 1B to 1MiB", self.size));
        }
        if !(1..=1_000_000).contains(&self.calls) {
            bad("calls", format!("{} calls can't be; give 1 to 1000000", self.calls));
        }
    }

    fn plan(&self, maker: &mut Maker<'_>) -> Result<(), PlanError> {
        let client = RrClient {
            stream: self.name.clone(),
            to: maker.server(&self.to, self.ipv6, |bind| TaskKind::RrServer { bind })?,
            pattern: self.pattern,
            size: payload(self.size),
            calls: self.calls,
            nodelay: self.nodelay,
            one_write: self.one_write,
            quickack: self.quickack,
            patience: PATIENCE,
        };
        maker.client(&self.from, maker.measured(), TaskKind::Rr(client));
        Ok(())
    }
}

impl Works for RrProbe {
    fn work(task: &Task) -> Option<Opening<'_>> {
        match &task.kind {
            TaskKind::Rr(it) => opens(|| ClientTask::prepare(it), ClientTask::run),
            TaskKind::RrServer { bind } => {
                opens(|| ServerTask::prepare(*bind), |it, _, stop, _| it.run(stop))
            }
            _ => None,
        }
    }
}
