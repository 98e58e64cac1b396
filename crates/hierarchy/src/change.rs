//! What changed between two readings: counters per second.

use crate::model::{Device, Hierarchy, Node};
use crate::record::Counters;
use serde::Serialize;
use std::collections::HashMap;

/// Counters per second of a node.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PerSecond {
    pub bits: f64,
    pub packets: f64,
    pub drops: f64,
    /// Packets marked; `None` for kinds that don't mark.
    pub marks: Option<f64>,
}

/// Each device's nodes' counters per second, by their places in `now`. `None` for a node that is new, that counts nothing, or whose
/// counters began again.
pub fn change(before: &Hierarchy, now: &Hierarchy, seconds: f64) -> Vec<Vec<Option<PerSecond>>> {
    let old: HashMap<&str, &Device> =
        before.devices.iter().map(|device| (device.name.as_str(), device)).collect();
    let of = |device: &Device| {
        let old: HashMap<_, &Node> = old
            .get(device.name.as_str())
            .into_iter()
            .flat_map(|old| old.nodes.iter().map(|node| (key(old, node), node)))
            .collect();
        let one = |node: &Node| {
            per_second(&old.get(&key(device, node))?.counters?, &node.counters?, seconds)
        };
        device.nodes.iter().map(one).collect()
    };
    now.devices.iter().map(of).collect()
}

/// What stays the same of a node: queues that the kernel made have no handle of their own, but a place.
fn key<'a>(
    device: &'a Device,
    node: &'a Node,
) -> (bool, &'a str, quell_tc::Handle, Option<quell_tc::Handle>) {
    (node.class, &node.kind, node.handle, node.parent.map(|parent| device.nodes[parent].handle))
}

fn per_second(before: &Counters, now: &Counters, seconds: f64) -> Option<PerSecond> {
    if seconds <= 0.0 {
        return None;
    }
    let each = |before: u64, now: u64| Some(now.checked_sub(before)? as f64 / seconds);
    // Counters of 32 bits begin again.
    let short = |before: u64, now: u64| {
        let wraps =
            now < before && before <= u32::MAX.into() && before - now > u64::from(u32::MAX / 2);
        each(before, if wraps { now + (1 << 32) } else { now })
    };
    Some(PerSecond {
        bits: each(before.bytes, now.bytes)? * 8.0,
        packets: short(before.packets, now.packets)?,
        drops: short(before.drops, now.drops)?,
        marks: match (before.marks, now.marks) {
            (Some(before), Some(now)) => Some(short(before, now)?),
            _ => None,
        },
    })
}
