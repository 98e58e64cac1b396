//! TCP connects: a probe.

use super::kind::{
    Bad, Kind, Opening, PINGS, Works, check_interval, fifth, from_to, no_tos, opens,
};
use super::maker::Maker;
use crate::plan::PlanError;
use quell_model::task::TcpPingStream;
use quell_model::{Metric, Task, TaskKind};
use quell_probe::{Listener, Prober, plain, tcp};
use quell_units::{Span, Tos};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TcpPingProbe {
    pub name: String,
    pub from: String,
    pub to: String,
    #[serde(default = "fifth")]
    pub interval: Span,
    /// Whether somebody listens there. Where nobody does the host answers too, with a refusal.
    #[serde(default = "yes")]
    pub listens: bool,
    #[serde(default = "no_tos")]
    pub tos: Tos,
    #[serde(default)]
    pub ipv6: bool,
}

fn yes() -> bool {
    true
}

const DISCARD_PORT: u16 = 9;

impl Kind for TcpPingProbe {
    from_to!();

    fn metrics(&self) -> &'static [Metric] {
        PINGS
    }

    fn check(&self, bad: Bad<'_>) {
        check_interval(self.interval, Span::from_millis(1), bad);
    }

    fn plan(&self, maker: &mut Maker<'_>) -> Result<(), PlanError> {
        let to = match self.listens {
            true => maker.server(&self.to, self.ipv6, |bind| TaskKind::TcpListener { bind })?,
            false => (maker.address(&self.to, self.ipv6)?, DISCARD_PORT).into(),
        };
        let stream = TcpPingStream {
            stream: self.name.clone(),
            to,
            interval: self.interval,
            tos: self.tos,
            linger: maker.linger,
        };
        maker.client(&self.from, maker.measured(), TaskKind::TcpPing { streams: vec![stream] });
        Ok(())
    }
}

impl Works for TcpPingProbe {
    fn work(task: &Task) -> Option<Opening<'_>> {
        match &task.kind {
            TaskKind::TcpPing { streams } => {
                opens(|| tcp::open(&plain(streams), task.seed), Prober::run)
            }
            TaskKind::TcpListener { bind } => {
                opens(|| Listener::prepare(*bind), |it, _, stop, _| it.run(stop))
            }
            _ => None,
        }
    }
}
