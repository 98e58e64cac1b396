//! ICMP echo: a probe.

use super::kind::{
    Bad, Kind, LARGEST_PAYLOAD, Opening, PINGS, Works, check_interval, fifth, from_to, no_tos,
    opens, payload,
};
use super::maker::Maker;
use crate::plan::PlanError;
use quell_model::task::PingStream;
use quell_model::{Metric, Task, TaskKind};
use quell_probe::{Prober, ping, plain};
use quell_units::{Bytes, Span, Tos};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PingProbe {
    pub name: String,
    pub from: String,
    pub to: String,
    #[serde(default = "fifth")]
    pub interval: Span,
    #[serde(default = "ping_size")]
    pub size: Bytes,
    #[serde(default = "no_tos")]
    pub tos: Tos,
    #[serde(default)]
    pub ipv6: bool,
}

fn ping_size() -> Bytes {
    Bytes::new(56)
}

impl Kind for PingProbe {
    from_to!();

    fn metrics(&self) -> &'static [Metric] {
        PINGS
    }

    fn check(&self, bad: Bad<'_>) {
        check_interval(self.interval, Span::from_micros(100), bad);
        let size = self.size.get();
        if size > LARGEST_PAYLOAD {
            let why = format!(
                "a payload of {size} bytes does not fit in an IP packet; at most {LARGEST_PAYLOAD}"
            );
            bad("size", why);
        }
    }

    fn plan(&self, maker: &mut Maker<'_>) -> Result<(), PlanError> {
        let stream = PingStream {
            stream: self.name.clone(),
            to: maker.address(&self.to, self.ipv6)?,
            interval: self.interval,
            size: payload(self.size),
            tos: self.tos,
            linger: maker.linger,
        };
        maker.client(&self.from, maker.measured(), TaskKind::Ping { streams: vec![stream] });
        Ok(())
    }
}

impl Works for PingProbe {
    fn work(task: &Task) -> Option<Opening<'_>> {
        match &task.kind {
            TaskKind::Ping { streams } => {
                opens(|| ping::open(&plain(streams), task.seed), Prober::run)
            }
            _ => None,
        }
    }
}
