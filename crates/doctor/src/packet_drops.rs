//! Where and why the kernel drops packets while a command runs.

use quell_host::drops::{CountedDrop, DroppedPackets};
use quell_netlink::NetlinkError;
use quell_netlink::drops::DropMonitor;
use quell_sys::netns::NetNs;
use serde::Serialize;

/// Packets that are taken at a look. What comes faster waits in the kernel, and is counted as missed where there is no room for it.
const MOST_A_LOOK: usize = 20_000;

pub(crate) struct Monitor {
    monitor: DropMonitor,
    drops: DroppedPackets,
}

#[derive(Debug, Serialize)]
pub struct DropReport {
    /// Those with most packets first.
    pub rows: Vec<CountedDrop>,
    /// Packets that found no room among the rows.
    pub of_other_flows: u64,
    /// Packets that the kernel could not tell of.
    pub not_told: u64,
    /// How often what it told found no room.
    pub times_without_room: u64,
}

impl Monitor {
    /// Begins to watch. Errors with the reason why that can't be.
    pub fn open() -> Result<Self, String> {
        let monitor = DropMonitor::open().or_else(in_the_first_namespace);
        Ok(Self {
            monitor: monitor.map_err(|error| why(&error))?,
            drops: DroppedPackets::default(),
        })
    }

    pub fn look(&mut self) {
        let (monitor, drops) = (&mut self.monitor, &mut self.drops);
        // What can't be read is missing in the table, not in what is watched besides.
        let _ = monitor.hear(MOST_A_LOOK, |packet| drops.take(packet));
    }

    pub fn finish(mut self) -> DropReport {
        self.look();
        let (not_told, times_without_room) = self.monitor.missed().unwrap_or_default();
        let of_other_flows = self.drops.others;
        let rows = self.drops.rows();
        DropReport { rows, of_other_flows, not_told, times_without_room }
    }
}

/// The drop monitor is in the kernel's first network namespace, where process 1 is unless this is a container.
fn in_the_first_namespace(error: NetlinkError) -> Result<DropMonitor, NetlinkError> {
    let first = || {
        let first = NetNs::open("/proc/1/ns/net").ok()?;
        (first.inode() != NetNs::current().ok()?.inode()).then_some(first)
    };
    match first() {
        Some(first) if error.proves_kernel_lacks_feature() => {
            first.run(DropMonitor::open).unwrap_or(Err(error))
        }
        _ => Err(error),
    }
}

fn why(error: &NetlinkError) -> String {
    if error.proves_kernel_lacks_feature() {
        return "the kernel has no drop monitor (module drop_monitor), or shows it in another network namespace only"
            .to_owned();
    }
    error.to_string()
}
