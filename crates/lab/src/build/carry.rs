//! Links that carry: the kernel brings one to life a little after it was set up.

use super::error::BuildError;
use quell_netlink::link::Link;
use quell_sys::clock;

/// Longest wait for links to carry, in nanoseconds.
pub(super) const PATIENCE_NS: u64 = 5_000_000_000;

/// How often it is looked, in nanoseconds.
const LOOK_NS: u64 = 1_000_000;

/// Waits until those links that are `ours` carry.
pub(super) fn wait_for_carriers(
    place: &str,
    give_up: u64,
    links: impl Fn() -> Result<Vec<Link>, BuildError>,
    ours: impl Fn(&str) -> bool,
) -> Result<(), BuildError> {
    loop {
        let links = links()?;
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
