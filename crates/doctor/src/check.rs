//! A check: what it looks at, when it speaks, and what it says then.

use crate::Facts;
use quell_cause::Cause;
use quell_finding::{Finding, Severity};
use serde::Serialize;

/// The USE method's three, and what is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckGroup {
    Utilisation,
    Saturation,
    Errors,
    Configuration,
    /// What lies between the two ends.
    Path,
}

impl CheckGroup {
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

/// A check of the catalogue. One that has a cause's name finds that cause, and says of it what the table of causes does.
#[derive(Debug, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub group: CheckGroup,
    /// What is wrong when it speaks.
    pub title: &'static str,
    pub evidence: &'static str,
    pub rule: &'static str,
    /// How much that matters; some findings of it may matter less or more.
    pub severity: Severity,
    pub why: &'static str,
    /// What to do in general, the best first.
    pub remedies: &'static [&'static str],
    pub source: &'static str,
    /// Looks. Errors with the reason why it could not.
    #[serde(skip)]
    pub look: fn(&Facts<'_>) -> Result<CheckOutcome, String>,
}

impl Check {
    pub(crate) const fn of_cause(
        cause: Cause,
        group: CheckGroup,
        evidence: &'static str,
        look: fn(&Facts<'_>) -> Result<CheckOutcome, String>,
    ) -> Self {
        let row = cause.row();
        Self {
            name: row.name,
            group,
            title: row.title,
            evidence,
            rule: row.rule,
            severity: row.severity,
            why: row.why,
            remedies: row.remedies,
            source: row.source,
            look,
        }
    }

    /// The cause that it finds, if it is one of the table.
    pub fn cause(&self) -> Option<Cause> {
        quell_cause::named(self.name).map(|row| row.cause)
    }

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

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "detail")]
pub enum CheckOutcome {
    Found(Vec<Finding>),
    /// It looked, and nothing is wrong.
    Fine,
    /// There is nothing here that it could be about: why.
    NotApplicable(String),
    CouldNotLook(String),
}

impl CheckOutcome {
    /// What was found, or fine where that is nothing.
    pub fn of(findings: Vec<Finding>) -> Self {
        if findings.is_empty() { Self::Fine } else { Self::Found(findings) }
    }

    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Found(findings) => findings,
            _ => &[],
        }
    }
}

/// A check and what it came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckVerdict {
    pub check: String,
    pub group: CheckGroup,
    #[serde(flatten)]
    pub outcome: CheckOutcome,
}
