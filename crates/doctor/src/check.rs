//! A check: what it looks at, when it speaks, and what it says then.

use crate::Facts;
use quell_finding::{Finding, Outcome, Severity};
use serde::Serialize;

/// The USE method's three, and what is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// How busy something is.
    Utilisation,
    /// Work that had to wait, or was turned away.
    Saturation,
    /// What went wrong.
    Errors,
    /// What is set so that it costs speed.
    Configuration,
    /// What lies between the two ends.
    Path,
}

impl Group {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Utilisation => "utilisation",
            Self::Saturation => "saturation",
            Self::Errors => "errors",
            Self::Configuration => "configuration",
            Self::Path => "path",
        }
    }
}

/// A check of the catalogue.
#[derive(Debug)]
pub struct Check {
    /// Its number in the catalogue.
    pub number: u32,
    /// Its name, by which it is asked for.
    pub name: &'static str,
    /// Where it belongs.
    pub group: Group,
    /// What is wrong when it speaks.
    pub title: &'static str,
    /// What it reads.
    pub evidence: &'static str,
    /// When it speaks.
    pub rule: &'static str,
    /// How much that matters; some findings of it may matter less or more.
    pub severity: Severity,
    /// Why it matters.
    pub why: &'static str,
    /// What to do in general.
    pub fix: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// Looks. Errors with the reason why it could not.
    pub look: fn(&Facts<'_>) -> Result<Outcome, String>,
}

impl Check {
    /// A finding of this check, with nothing seen and nothing to do yet.
    pub fn finding(&self, subject: impl Into<String>, says: impl Into<String>) -> Finding {
        Finding {
            id: self.name.to_owned(),
            subject: subject.into(),
            severity: self.severity,
            sure: true,
            says: says.into(),
            evidence: Vec::new(),
            why: self.why.to_owned(),
            remedies: Vec::new(),
            source: self.source.to_owned(),
        }
    }
}

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The check's name.
    pub check: String,
    /// Where it belongs.
    pub group: Group,
    /// What it came to.
    #[serde(flatten)]
    pub outcome: Outcome,
}
