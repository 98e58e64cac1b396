//! All that was read of a host at one time.

use crate::sockets::Sockets;
use crate::{Reading, Texts};
use quell_netlink::ethtool::Hardware;
use quell_netlink::link::Link;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When, in nanoseconds of the monotonic clock.
    pub at_ns: u64,
    pub texts: Texts,
    /// When this network namespace got the oldest of its addresses, in hundredths of a second after the kernel's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_address_cs: Option<u32>,
    pub devices: Reading<BTreeMap<String, Device>>,
    pub queues: Reading<Vec<QueueCounters>>,
    /// Why some of the hardware's facts are missing.
    pub hardware_unseen: Vec<String>,
    pub sockets: Reading<Sockets>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// What the kernel tells of each.
    pub link: Link,
    pub hardware: Hardware,
    /// Its driver's own counters, of hardware only.
    pub counters: BTreeMap<String, u64>,
    /// The device on its bus, as sysfs tells of it.
    pub bus: BTreeMap<String, String>,
    /// The figures of `link.stats` that a posted text has; none where the kernel told all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_stats: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueCounters {
    pub device: String,
    pub kind: String,
    /// As "1:" or "1:10".
    pub parent: String,
    /// Whether no other queue is above it.
    pub root: bool,
    pub packets: u64,
    /// Packets that it dropped, those of queues below included where it is classful.
    pub drops: u64,
    pub backlog_packets: u64,
    /// Bytes that wait.
    pub backlog_bytes: u64,
    /// Packets that it marked instead of dropping; none for kinds that never mark.
    pub marks: Option<u64>,
    /// Packets that it dropped since it held as many as it may (`drop_overlimit` of fq_codel); none where that is not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_drops: Option<u64>,
    /// Its options, by tc's words; none for kinds that Quell does not know.
    pub options: Option<serde_json::Map<String, serde_json::Value>>,
    /// Of a root queue with classes, what will go wrong in them, as `quell tree` says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
}

impl Device {
    /// Whether it stands for hardware: it is on a bus.
    pub fn is_hardware(&self) -> bool {
        !self.bus.is_empty()
    }

    /// Whether a figure of `link.stats` was read.
    pub fn knows(&self, figure: &str) -> bool {
        self.known_stats.as_ref().is_none_or(|known| known.iter().any(|name| name == figure))
    }

    /// Its speed in Mbit/s, as its driver tells.
    pub fn speed(&self) -> Option<u32> {
        self.hardware.modes.as_ref()?.speed
    }
}

impl Snapshot {
    /// Seconds from an earlier snapshot to this.
    pub fn seconds_since(&self, earlier: &Self) -> f64 {
        self.at_ns.saturating_sub(earlier.at_ns) as f64 / 1e9
    }

    /// Seconds since the kernel started.
    pub fn uptime(&self) -> Reading<f64> {
        let text = self.texts.get("/proc/uptime")?;
        let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
        first.ok_or_else(|| "/proc/uptime holds no number".to_owned())
    }

    /// Seconds that this network namespace's counters ran: a container's are younger than its kernel.
    pub fn counted_for(&self) -> Reading<f64> {
        let began = f64::from(self.first_address_cs.unwrap_or(0)) / 100.0;
        self.uptime().map(|uptime| (uptime - began).max(0.0))
    }

    pub fn devices(&self) -> Reading<&BTreeMap<String, Device>> {
        self.devices.as_ref().map_err(String::clone)
    }

    pub fn queues(&self) -> Reading<&[QueueCounters]> {
        self.queues.as_deref().map_err(String::clone)
    }

    pub fn sockets(&self) -> Reading<&Sockets> {
        self.sockets.as_ref().map_err(String::clone)
    }

    /// The kernel's version: major and minor.
    pub fn kernel(&self) -> Reading<(u32, u32)> {
        let text = self.texts.setting("kernel/osrelease")?;
        let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
        match (parts.next().flatten(), parts.next().flatten()) {
            (Some(major), Some(minor)) => Ok((major, minor)),
            _ => Err(format!("`{text}` is no version of a kernel")),
        }
    }
}
