//! What was found: one type for all verdicts about a host or a path.
//!
//! ```text
//!   Finding = id · subject · severity · says · evidence · why · remedies · source ──► four lines, or JSON
//! ```
//!
//! Pure: no I/O, no clock. See docs/adr/0022-one-finding.md.

mod evidence;
mod remedy;
mod text;

pub use evidence::{Evidence, Value};
pub use remedy::Remedy;
pub use text::{WIDEST, lines, seen, to_do, wrapped};

use serde::{Deserialize, Serialize};

/// How much something matters, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Note,
    /// Costs speed, or will when there is load.
    Warning,
    /// Loses packets, connections or most of the speed.
    Serious,
}

impl Severity {
    pub const ALL: [Self; 3] = [Self::Note, Self::Warning, Self::Serious];

    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Serious => "serious",
        }
    }
}

impl std::str::FromStr for Severity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|severity| severity.name() == text);
        found.ok_or_else(|| format!("`{text}` is no severity: take note, warning or serious"))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The check that found it, as "listen-overflow".
    pub id: String,
    /// What it is about: a device, a connection, a setting, "this host".
    pub subject: String,
    pub severity: Severity,
    /// Whether what was seen leaves no other cause.
    #[serde(default = "is_sure")]
    pub sure: bool,
    /// What is wrong, in one plain sentence.
    pub says: String,
    /// What was seen, with where it was read.
    pub evidence: Vec<Evidence>,
    pub why: String,
    /// What to do, the best first.
    pub remedies: Vec<Remedy>,
    /// Who says so: documentation, a measurement.
    pub source: String,
}

fn is_sure() -> bool {
    true
}

impl Finding {
    #[must_use]
    pub fn saw(mut self, evidence: Evidence) -> Self {
        self.evidence.push(evidence);
        self
    }

    /// Names something to do, in place of the check's general advice where it is the first.
    #[must_use]
    pub fn cure(mut self, remedy: Remedy) -> Self {
        self.remedies.push(remedy);
        self
    }
}

/// Puts the worst first, and what is alike together.
pub fn worst_first(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        b.severity.cmp(&a.severity).then_with(|| (&a.id, &a.subject).cmp(&(&b.id, &b.subject)))
    });
}
