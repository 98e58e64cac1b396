//! The file was slower than the network.

use crate::row::{Cause, Row};
use quell_finding::Severity;

pub(super) const ROW: Row = Row {
    cause: Cause::Disk,
    name: "disk",
    title: "the file was slower than the network",
    sentence: "{sender} waited for its file: the disk was slower than the network",
    rule: "reading or writing the file took more than two thirds of the time",
    severity: Severity::Warning,
    why: "the network could carry more than the disk reads or writes",
    remedies: &["measure without the file; a faster disk"],
    source: "measured: time in read(2) and write(2)",
};
