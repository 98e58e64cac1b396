//! A UDP stream that is reflected: a probe.

use super::kind::{
    Bad, Kind, LARGEST_PAYLOAD, Opening, Works, check_gap, from_to, no_tos, opens, payload,
};
use super::maker::Maker;
use crate::plan::PlanError;
use quell_model::task::UdpEcho;
use quell_model::{Metric, Task, TaskKind};
use quell_probe::{Prober, Reflector, udp};
use quell_units::{Bytes, Rate, Tos};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UdpProbe {
    pub name: String,
    pub from: String,
    pub to: String,
    pub rate: Rate,
    pub size: Bytes,
    #[serde(default = "no_tos")]
    pub tos: Tos,
    #[serde(default)]
    pub ipv6: bool,
}

impl Kind for UdpProbe {
    from_to!();

    fn metrics(&self) -> &'static [Metric] {
        &[
            Metric::Loss,
            Metric::LossUp,
            Metric::LossDown,
            Metric::JitterUp,
            Metric::JitterDown,
            Metric::JitterRtt,
            Metric::RttMin,
            Metric::RttMean,
            Metric::RttP50,
            Metric::RttP90,
            Metric::RttP99,
            Metric::RttMax,
            Metric::Sent,
            Metric::Received,
            Metric::Duplicates,
            Metric::Reordered,
            Metric::UpP50,
            Metric::DownP50,
            Metric::LostUp,
            Metric::LostDown,
        ]
    }

    fn check(&self, bad: Bad<'_>) {
        check_gap(self.rate, self.size, bad);
        if !(44..=LARGEST_PAYLOAD).contains(&self.size.get()) {
            let why = format!(
                "a payload of {} can't be; a measuring packet (RFC 8762) has 44 to 65507 bytes",
                self.size
            );
            bad("size", why);
        }
    }

    fn plan(&self, maker: &mut Maker<'_>) -> Result<(), PlanError> {
        let size = payload(self.size);
        let echo = UdpEcho {
            stream: self.name.clone(),
            to: maker.server(&self.to, self.ipv6, |bind| TaskKind::UdpReflector { bind })?,
            interval: self.rate.time_for(u64::from(size)),
            size,
            tos: self.tos,
            linger: maker.linger,
            other_clock: maker.other_clock,
        };
        maker.client(&self.from, maker.measured(), TaskKind::UdpEcho(echo));
        Ok(())
    }
}

impl Works for UdpProbe {
    fn work(task: &Task) -> Option<Opening<'_>> {
        match &task.kind {
            TaskKind::UdpEcho(it) => opens(|| udp::prepare(it, task.seed), Prober::run),
            TaskKind::UdpReflector { bind } => {
                opens(|| Reflector::prepare(*bind), |it, _, stop, _| it.run(stop))
            }
            _ => None,
        }
    }
}
