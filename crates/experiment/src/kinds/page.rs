//! Page loads in a browser: a probe.

use super::kind::{Bad, Kind, Opening, Works, from_to, opens};
use super::maker::Maker;
use crate::plan::PlanError;
use quell_model::page::HttpVersion;
use quell_model::task::PageClient;
use quell_model::{Metric, Task, TaskKind};
use quell_page::server::SiteServer;
use quell_page::task::BrowserTask;
use quell_units::Span;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PageProbe {
    pub name: String,
    pub from: String,
    pub to: String,
    /// Most loads; it ends with them, or at the end of the measurement.
    #[serde(default = "some_loads")]
    pub loads: u32,
    /// Whether the browser keeps from load to load what it may keep. The first load then fills its cache and is not counted.
    #[serde(default)]
    pub warm: bool,
    #[serde(default = "two_minutes")]
    pub timeout: Span,
    /// By which version of HTTP it comes: `"1.1"` or `"2"`.
    #[serde(default, deserialize_with = "version")]
    pub http: HttpVersion,
    #[serde(default)]
    pub ipv6: bool,
}

/// A version of HTTP as people write it: a text, or the number that it looks like.
fn version<'de, D: Deserializer<'de>>(from: D) -> Result<HttpVersion, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum PageFields {
        Text(String),
        Number(f64),
    }
    let text = match PageFields::deserialize(from)? {
        PageFields::Text(text) => text,
        PageFields::Number(number) => number.to_string(),
    };
    text.parse().map_err(|why| D::Error::custom(format!("`{text}` is no version of HTTP: {why}")))
}

fn some_loads() -> u32 {
    3
}

fn two_minutes() -> Span {
    Span::from_secs(120)
}

impl Kind for PageProbe {
    from_to!();

    fn metrics(&self) -> &'static [Metric] {
        &[
            Metric::Loss,
            Metric::Doc,
            Metric::Paint,
            Metric::Fcp,
            Metric::Lcp,
            Metric::Load,
            Metric::LoadSd,
            Metric::Sent,
            Metric::Received,
        ]
    }

    fn lacks(&self) -> Option<String> {
        quell_page::browser::find(None).err().map(|error| error.to_string())
    }

    fn check(&self, bad: Bad<'_>) {
        if !(1..=10_000).contains(&self.loads) {
            bad("loads", format!("{} loads can't be; give 1 to 10000", self.loads));
        }
        if self.http == HttpVersion::Three {
            bad("http", "the lab's page comes by HTTP/1.1 or HTTP/2; give \"1.1\" or \"2\"".into());
        }
        if self.timeout < Span::from_millis(100) {
            let why = format!("no page is there within {}; give at least 100ms", self.timeout);
            bad("timeout", why);
        }
    }

    fn plan(&self, maker: &mut Maker<'_>) -> Result<(), PlanError> {
        let seed = maker.seed("certificate");
        let http = self.http;
        let server = |bind| TaskKind::PageServer { bind, seed, http };
        let client = PageClient {
            stream: self.name.clone(),
            to: maker.server(&self.to, self.ipv6, server)?,
            seed,
            loads: self.loads,
            warm: self.warm,
            patience: self.timeout,
            http,
        };
        maker.client(&self.from, maker.measured(), TaskKind::Page(client));
        Ok(())
    }
}

impl Works for PageProbe {
    fn work(task: &Task) -> Option<Opening<'_>> {
        match &task.kind {
            TaskKind::Page(it) => opens(|| BrowserTask::prepare(it), BrowserTask::run),
            TaskKind::PageServer { bind, seed, http } => {
                opens(|| SiteServer::prepare(*bind, *seed, *http), |it, _, stop, _| it.run(stop))
            }
            _ => None,
        }
    }
}
