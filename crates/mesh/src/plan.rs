//! What one agent is to measure. It ends at a time: an agent whose plan is not renewed falls silent.

use quell_units::{Span, Tos};
use serde::{Deserialize, Serialize};

/// The version of plans that this program writes and knows.
pub const PLAN_FORMAT: u32 = 1;

/// The key that is written when all plans are: a broker without it lost some, or all. No agent's name is this.
pub const ALL_PLANS: &str = "=all";

/// Wall time is nanoseconds since 1970, UTC, by the clock of whom it says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentPlan {
    /// The version of this format; an agent refuses those that it doesn't know.
    pub format: u32,
    pub agent: String,
    /// Rises with each change of the mesh's file.
    pub revision: u64,
    /// How long it is in force after it was received or renewed, by the agent's monotonic clock.
    pub lease: Span,
    pub probes: Vec<PlannedProbe>,
}

/// One thing that an agent measures again and again, of one peer or page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedProbe {
    /// The class of the mesh's file from which it comes, as `voice`: unique to a peer.
    pub class: String,
    /// The agent at the other end, or the name of a target that is none.
    pub peer: String,
    /// Its address, with a port where the kind needs one; a URL for a page.
    pub to: String,
    pub kind: ProbeKind,
    /// From the beginning of one to that of the next.
    pub interval: Span,
    /// When within the interval it begins, counted from 1970: spread by the mesh's seed.
    pub offset: Span,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ProbeKind {
    /// One packet each interval.
    Icmp { size: u16, tos: Tos },
    /// One packet each interval, to a STAMP reflector (RFC 8762): losses and delays of each direction.
    Stamp { size: u16, tos: Tos },
    /// One handshake each interval.
    Tcp,
    /// The hops on the way.
    Path,
    /// A page loaded.
    Page,
    /// Bulk data for so long, up or down; at most so many bits a second, where it says.
    Flow { duration: Span, down: bool, rate: Option<u64> },
    /// Responsiveness under load, for at most so long.
    Rpm { duration: Span },
}

/// How late a bulk test may begin; and how long its hosts and hops are left alone behind it: until buffers are empty, and for clocks that are not quite in step.
pub const GUARD: Span = Span::from_secs(2);

/// How long a page has its hosts for itself.
const PAGE: Span = Span::from_secs(30);

impl ProbeKind {
    /// How long one of it may take.
    pub fn lasts(&self) -> Span {
        match self {
            ProbeKind::Flow { duration, .. } | ProbeKind::Rpm { duration } => *duration,
            _ => PAGE,
        }
    }

    /// Whether it loads the path: two of these never share a host, or a hop that is known.
    pub fn is_bulk(&self) -> bool {
        matches!(self, ProbeKind::Flow { .. } | ProbeKind::Rpm { .. } | ProbeKind::Page)
    }
}
