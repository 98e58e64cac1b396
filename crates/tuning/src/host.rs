//! What is read of this host.

use crate::CommandError;
use crate::{FRESH, HostFacts, KEYS, TuningRecord, same};
use nix::errno::Errno;
use nix::unistd::{AccessFlags, SysconfVar, access, geteuid, sysconf};
use quell_act::kernel_has;
use quell_host::Texts;
use quell_netlink::sysctl;
use quell_sys::netns::NetNs;
use quell_tc::qdisc::{Fq, FqCodel};
use std::collections::BTreeMap;
use std::path::Path;

pub type Settings = BTreeMap<String, String>;

pub fn this_host() -> Result<HostFacts, CommandError> {
    let release = nix::sys::utsname::uname().map_err(CommandError::system)?;
    let release = release.release().to_string_lossy();
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|n| u64::try_from(n).ok());
    let mut texts = Texts::default();
    ["/proc/meminfo", "/proc/zoneinfo"].iter().for_each(|path| texts.read(path));
    let now = all(&KEYS);
    Ok(HostFacts {
        release: release.parse().map_err(CommandError::system)?,
        page: page.unwrap_or(4096),
        memory: texts
            .memory()
            .map_err(|why| CommandError::system(format!("{why}; is /proc mounted?")))?,
        buffer_pages: texts.buffer_pages(),
        sealed: sealed(&now),
        fresh: NetNs::new().and_then(|space| space.run(|| all(&FRESH))).unwrap_or_default(),
        has_fq: kernel_has(Fq::default().into()),
        has_fq_codel: kernel_has(FqCodel::default().into()),
        now,
    })
}

pub fn release() -> String {
    let uname = nix::sys::utsname::uname();
    uname.map(|uname| uname.release().to_string_lossy().into_owned()).unwrap_or_default()
}

pub fn all<'a>(keys: impl IntoIterator<Item = &'a &'a str>) -> BTreeMap<String, String> {
    let one = |key: &&str| Some(((*key).to_owned(), sysctl::read(key).ok()?));
    keys.into_iter().filter_map(one).collect()
}

pub fn settings_of(record: &TuningRecord) -> Settings {
    let keys: Vec<&str> = record.settings.iter().map(|s| s.key.as_str()).collect();
    all(&keys)
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

/// The host as it would be without what a record says that Quell set, as far as nobody else changed it since.
pub fn before(mut host: HostFacts, record: Option<&TuningRecord>) -> HostFacts {
    for setting in record.iter().flat_map(|record| &record.settings) {
        if let Some(now) = host.now.get_mut(&setting.key)
            && same(now, &setting.set)
        {
            now.clone_from(&setting.before);
        }
    }
    host
}
