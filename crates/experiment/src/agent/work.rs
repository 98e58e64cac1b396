//! A task as work: what it needs is opened before the start, the rest happens after it. Reasons are for people.

use crate::kinds::{self, Opening, Work, opens};
use quell_load::sample::{QueueSampler, SocketSampler};
use quell_model::{Task, TaskKind};

pub fn prepare(task: &Task) -> Result<Work, String> {
    let opening = kinds::work(task).or_else(|| sampling(task));
    opening.ok_or("no kind of probe or load knows what this task is")?()
}

/// What is watched beside probes and loads.
fn sampling(task: &Task) -> Option<Opening<'_>> {
    match &task.kind {
        TaskKind::SampleQueues { devices, interval } => {
            opens(|| QueueSampler::prepare(&task.host, devices, *interval), QueueSampler::run)
        }
        TaskKind::SampleSockets { interval } => {
            opens(|| SocketSampler::prepare(*interval), SocketSampler::run)
        }
        _ => None,
    }
}
