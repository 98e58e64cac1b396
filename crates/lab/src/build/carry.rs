//! Links that carry: the kernel brings one to life a little after it was set up.

use super::error::BuildError;
use quell_netlink::{NetlinkError, Stack};
use quell_sys::clock;
use quell_sys::netns::NetNs;

/// Longest wait for links to carry, in nanoseconds.
pub(super) const PATIENCE_NS: u64 = 5_000_000_000;

/// How often it is looked, in nanoseconds.
const LOOK_NS: u64 = 1_000_000;

/// Waits until those links of a namespace that are `ours` carry.
///
/// The kernel looks at its links once a second (`linkwatch_schedule_work`), so that it is asked up to a thousand times: through one socket that was
/// opened in there. A thread that moves in for each look costs ten times as much.
pub(super) fn wait_for_carriers(
    place: &str,
    space: &NetNs,
    give_up: u64,
    ours: impl Fn(&str) -> bool,
) -> Result<(), BuildError> {
    let refused =
        |error: NetlinkError| BuildError::Netlink { node: place.into(), error: error.into() };
    let mut stack = space.run(Stack::open)?.map_err(refused)?;
    loop {
        let links = stack.links().map_err(refused)?;
        let Some(link) = links.iter().find(|l| ours(&l.name) && !l.can_carry()) else {
            return Ok(());
        };
        if clock::monotonic_ns() > give_up {
            return Err(BuildError::Plan(format!(
                "link `{}` of `{place}` does not come up",
                link.name
            )));
        }
        clock::sleep_until(clock::monotonic_ns() + LOOK_NS)?;
    }
}
