//! Nothing explains the wait for certain.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::Unknown,
    name: "unknown",
    title: "nothing explains the wait for certain",
    sentence: "what {sender} waited for is unknown: several things took their part",
    rule: "none of the others explains most of the time",
    severity: Severity::Note,
    why: "the facts beside it are measured, and leave several causes",
    remedies: &[],
    source: "the facts beside it",
};
