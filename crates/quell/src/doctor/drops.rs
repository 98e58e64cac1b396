//! Where and why the kernel drops packets while a command runs.

use quell_finding::wrapped;
use quell_host::drops::{Drops, meaning, merged};
use quell_netlink::NetlinkError;
use quell_netlink::drops::DropMonitor;
use quell_sys::netns::NetNs;
use serde_json::{Value, json};

/// Packets that are taken at a look. What comes faster waits in the kernel, and is counted as missed where there is no room for it.
const MOST_A_LOOK: usize = 20_000;
/// Rows that a person is shown.
const SHOWN: usize = 12;

/// What was dropped so far.
pub(super) struct Monitor {
    monitor: DropMonitor,
    drops: Drops,
}

/// What was dropped while the command ran, or why nobody knows.
pub struct Seen {
    drops: Drops,
    /// Packets that the kernel could not tell of, and how often what it told found no room.
    missed: (u64, u64),
}

impl Monitor {
    /// Begins to watch. Errors with the reason why that can't be.
    pub(super) fn open() -> Result<Self, String> {
        let monitor = DropMonitor::open().or_else(in_the_first_namespace);
        Ok(Self { monitor: monitor.map_err(|error| why(&error))?, drops: Drops::default() })
    }

    /// Takes what came.
    pub(super) fn look(&mut self) {
        let (monitor, drops) = (&mut self.monitor, &mut self.drops);
        // What can't be read is missing in the table, not in what is watched besides.
        let _ = monitor.hear(MOST_A_LOOK, |packet| drops.take(packet));
    }

    /// Ends watching.
    pub(super) fn finish(mut self) -> Seen {
        self.look();
        let missed = self.monitor.missed().unwrap_or_default();
        Seen { drops: self.drops, missed }
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

/// For a person.
pub(super) fn lines(seen: &Result<Seen, String>, width: usize) -> Vec<String> {
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => {
            return wrapped(&format!("Why packets were dropped could not be seen: {why}"), width);
        }
    };
    let rows = merged(&seen.drops.rows());
    if rows.is_empty() && seen.missed == (0, 0) {
        return wrapped("The kernel dropped no packet, in none of its network namespaces.", width);
    }
    let title = "Packets that the kernel dropped, in all its network namespaces:";
    let mut out = wrapped(title, width);
    let unknown = String::from("no reason told");
    for (row, count) in rows.iter().take(SHOWN) {
        let reason = row.reason.as_ref().unwrap_or(&unknown);
        let words = meaning(reason).map(|words| format!(": {words}")).unwrap_or_default();
        let device = row.device.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let text = quell_wire::text::line(&format!(
            "{reason}{words}; in {}; {}{device}",
            row.place, row.flow
        ));
        for (at, line) in wrapped(&text, width - 11).iter().enumerate() {
            let count = if at == 0 { count.to_string() } else { String::new() };
            out.push(format!("  {count:>7}  {line}"));
        }
    }
    let others = rows.iter().skip(SHOWN).map(|(_, count)| count).sum::<u64>() + seen.drops.others;
    if others > 0 {
        out.push(format!("  {others:>7}  of other flows (--json has more of them)"));
    }
    let (unheard, full) = seen.missed;
    if unheard > 0 || full > 0 {
        let text = format!(
            "More were dropped than could be told of: {unheard} at least, {full} times without room"
        );
        out.extend(wrapped(&text, width));
    }
    out
}

/// For a program.
pub(super) fn document(seen: &Result<Seen, String>) -> Value {
    match seen {
        Err(why) => json!({ "could_not_look": why }),
        Ok(seen) => {
            let row = |(row, count): &(&quell_host::drops::Dropped, u64)| {
                let words = row.reason.as_deref().and_then(meaning);
                json!({
                    "reason": row.reason,
                    "meaning": words,
                    "place": row.place,
                    "device": row.device,
                    "flow": row.flow,
                    "packets": count,
                })
            };
            json!({
                "rows": seen.drops.rows().iter().map(row).collect::<Vec<_>>(),
                "of_other_flows": seen.drops.others,
                "not_told": seen.missed.0,
                "times_without_room": seen.missed.1,
            })
        }
    }
}
