//! What is read of this host.

use crate::failure::Failure;
use crate::shape::kernel_has;
use nix::errno::Errno;
use nix::unistd::{AccessFlags, SysconfVar, access, geteuid, sysconf};
use quell_netlink::sysctl;
use quell_sys::netns::NetNs;
use quell_tc::qdisc::{Fq, FqCodel};
use quell_tune::{FRESH, Host, KEYS, Record, same};
use std::collections::BTreeMap;
use std::path::Path;

/// Values by key.
pub type Settings = BTreeMap<String, String>;

/// This host as it is.
pub fn host() -> Result<Host, Failure> {
    let release = nix::sys::utsname::uname().map_err(Failure::system)?;
    let release = release.release().to_string_lossy();
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|n| u64::try_from(n).ok());
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let memory = read("/proc/meminfo");
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let memory = memory.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let now = all(&KEYS);
    Ok(Host {
        release: release.parse().map_err(Failure::system)?,
        page: page.unwrap_or(4096),
        memory: memory.map(|kib| kib << 10).ok_or_else(|| {
            Failure::system(
                "/proc/meminfo does not tell how much memory there is; is /proc mounted?",
            )
        })?,
        buffer_pages: buffer_pages(&read("/proc/zoneinfo")),
        sealed: sealed(&now),
        fresh: NetNs::new().and_then(|space| space.run(|| all(&FRESH))).unwrap_or_default(),
        has_fq: kernel_has(Fq::default().into()),
        has_fq_codel: kernel_has(FqCodel::default().into()),
        now,
    })
}

/// The kernel's release in full.
pub fn release() -> String {
    let uname = nix::sys::utsname::uname();
    uname.map(|uname| uname.release().to_string_lossy().into_owned()).unwrap_or_default()
}

/// Settings that are there.
pub fn all<'a>(keys: impl IntoIterator<Item = &'a &'a str>) -> BTreeMap<String, String> {
    let one = |key: &&str| Some(((*key).to_owned(), sysctl::read(key).ok()?));
    keys.into_iter().filter_map(one).collect()
}

/// Settings that nobody can write here. That one who is not root can't is no such.
fn sealed(now: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let why = |key: &String| {
        let path = Path::new("/proc/sys").join(key);
        match access(&path, AccessFlags::W_OK) {
            Err(Errno::EROFS) => Some("/proc/sys is read-only, as in containers".to_owned()),
            Err(Errno::EACCES | Errno::EPERM) if geteuid().is_root() => {
                Some("it belongs to the whole machine, not to this network namespace".to_owned())
            }
            _ => None,
        }
    };
    now.keys().filter_map(|key| Some((key.clone(), why(key)?))).collect()
}

/// `nr_free_buffer_pages` (mm/page_alloc.c): of the zones that the kernel itself uses, what is managed above the high watermark.
fn buffer_pages(zones: &str) -> Option<u64> {
    let (mut sum, mut ours, mut high) = (0u64, false, 0u64);
    for line in zones.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Node"), _) => {
                let zone = line.rsplit(' ').next().unwrap_or_default();
                ours = matches!(zone, "DMA" | "DMA32" | "Normal");
            }
            (Some("high"), Some(pages)) => high = pages.parse().ok()?,
            (Some("managed"), Some(pages)) if ours => {
                sum += pages.parse::<u64>().ok()?.saturating_sub(high);
            }
            _ => {}
        }
    }
    (sum > 0).then_some(sum)
}

/// The host as it would be without what a record says that Quell set, as far as nobody else changed it since.
pub fn before(mut host: Host, record: Option<&Record>) -> Host {
    for setting in record.iter().flat_map(|record| &record.settings) {
        if let Some(now) = host.now.get_mut(&setting.key)
            && same(now, &setting.set)
        {
            now.clone_from(&setting.before);
        }
    }
    host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_buffers_are_those_of_the_kernels_own_zones() {
        // Of a machine with 24 GB, shortened; a zone's high watermark stands before what it manages.
        let zones = "Node 0, zone      DMA\n  pages free     3840\n        high     16\n        managed  3840\n\
                     Node 0, zone    DMA32\n        high     3660\n        managed  772918\n\
                     Node 0, zone   Normal\n        high     63892\n        managed  5394160\n\
                     Node 0, zone  Movable\n        high     32\n        managed  99\n";
        assert_eq!(buffer_pages(zones), Some(6_103_350));
        assert_eq!(buffer_pages(""), None);
    }
}
