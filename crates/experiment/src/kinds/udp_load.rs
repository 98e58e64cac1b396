//! UDP at a constant rate, or as a Poisson process: a load.

use super::kind::{
    Bad, Kind, LARGEST_PAYLOAD, Opening, Works, check_gap, from_to, no_tos, opens, payload,
};
use super::maker::{Maker, REPORT};
use crate::plan::PlanError;
use quell_load::sink::Sink;
use quell_load::udp::Sender;
use quell_model::task::{OnOff, UdpSend};
use quell_model::{Metric, Task, TaskKind};
use quell_units::{Bytes, Rate, Span, Tos};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UdpFlow {
    pub name: String,
    pub from: String,
    pub to: String,
    pub rate: Rate,
    pub size: Bytes,
    #[serde(default = "no_tos")]
    pub tos: Tos,
    /// Sends for this long …
    pub on: Option<Span>,
    /// … then is silent for this long, and so on.
    pub off: Option<Span>,
    /// As a Poisson process of that mean rate, not at even times.
    #[serde(default)]
    pub poisson: bool,
    /// When it starts, from the start of the measurement; absent, with the warm-up.
    pub start: Option<Span>,
    /// How long it lasts; absent, to the end.
    pub duration: Option<Span>,
    #[serde(default)]
    pub ipv6: bool,
}

impl Kind for UdpFlow {
    from_to!();

    fn times(&self) -> (Option<Span>, Option<Span>) {
        (self.start, self.duration)
    }

    fn metrics(&self) -> &'static [Metric] {
        &[
            Metric::Loss,
            Metric::Goodput,
            Metric::GoodputAll,
            Metric::Share,
            Metric::Sent,
            Metric::Received,
        ]
    }

    fn check(&self, bad: Bad<'_>) {
        if !(32..=LARGEST_PAYLOAD).contains(&self.size.get()) {
            bad("size", format!("a payload of {} can't be; give 32 to 65507 bytes", self.size));
        } else {
            check_gap(self.rate, self.size, bad);
        }
        if self.on.is_some_and(Span::is_zero) {
            bad("on", "with `on` = 0 it never sends".into());
        }
        match (self.on, self.off) {
            (Some(_), None) => bad("on", "`on` and `off` go together".into()),
            (None, Some(_)) => bad("off", "`on` and `off` go together".into()),
            _ => {}
        }
    }

    fn plan(&self, maker: &mut Maker<'_>) -> Result<(), PlanError> {
        let sink = |bind| TaskKind::UdpSink { bind, report: REPORT };
        let send = UdpSend {
            stream: self.name.clone(),
            to: maker.server(&self.to, self.ipv6, sink)?,
            rate: self.rate,
            size: payload(self.size),
            tos: self.tos,
            on_off: self.on.zip(self.off).map(|(on, off)| OnOff { on, off }),
            poisson: self.poisson,
            report: REPORT,
            linger: maker.linger,
        };
        let when = maker.warmed_up(self.start, self.duration);
        maker.client(&self.from, when, TaskKind::UdpSend(send));
        Ok(())
    }
}

impl Works for UdpFlow {
    fn work(task: &Task) -> Option<Opening<'_>> {
        match &task.kind {
            TaskKind::UdpSend(it) => opens(|| Sender::prepare(it, task.seed), Sender::run),
            TaskKind::UdpSink { bind, report } => {
                opens(|| Sink::prepare(&task.id, *bind, *report), Sink::run)
            }
            _ => None,
        }
    }
}
