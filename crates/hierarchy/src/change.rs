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
    each_pair(before, now, |before, now| per_second(before, now, seconds))
}

/// Each device's nodes' counters with those that they had before.
fn each_pair<T>(
    before: &Hierarchy,
    now: &Hierarchy,
    pair: impl Fn(&Counters, &Counters) -> Option<T>,
) -> Vec<Vec<Option<T>>> {
    let old: HashMap<&str, &Device> =
        before.devices.iter().map(|device| (device.name.as_str(), device)).collect();
    let of = |device: &Device| {
        let old: HashMap<_, &Node> = old
            .get(device.name.as_str())
            .into_iter()
            .flat_map(|old| old.nodes.iter().map(|node| (key(old, node), node)))
            .collect();
        let one = |node: &Node| pair(&old.get(&key(device, node))?.counters?, &node.counters?);
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

/// The later reading with what moved since the earlier one in the place of its counters; what waits, waits now. A node that is new, or whose
/// counters began again, has none.
pub fn moved(before: &Hierarchy, now: &Hierarchy) -> Hierarchy {
    let counters = each_pair(before, now, difference);
    let mut moved = now.clone();
    for (device, counters) in moved.devices.iter_mut().zip(counters) {
        device.nodes.iter_mut().zip(counters).for_each(|(node, moved)| node.counters = moved);
        device.filters.iter_mut().for_each(|filter| filter.record.hits = None);
    }
    moved
}

fn difference(before: &Counters, now: &Counters) -> Option<Counters> {
    // Counters of 32 bits begin again.
    let short = |before: u64, now: u64| {
        let wraps =
            now < before && before <= u32::MAX.into() && before - now > u64::from(u32::MAX / 2);
        (if wraps { now + (1 << 32) } else { now }).checked_sub(before)
    };
    Some(Counters {
        bytes: now.bytes.checked_sub(before.bytes)?,
        packets: short(before.packets, now.packets)?,
        drops: short(before.drops, now.drops)?,
        overlimits: short(before.overlimits, now.overlimits)?,
        marks: match (before.marks, now.marks) {
            (Some(before), Some(now)) => Some(short(before, now)?),
            _ => None,
        },
        ..*now
    })
}

fn per_second(before: &Counters, now: &Counters, seconds: f64) -> Option<PerSecond> {
    let moved = difference(before, now).filter(|_| seconds > 0.0)?;
    let each = |count: u64| count as f64 / seconds;
    Some(PerSecond {
        bits: each(moved.bytes) * 8.0,
        packets: each(moved.packets),
        drops: each(moved.drops),
        marks: moved.marks.map(each),
    })
}
