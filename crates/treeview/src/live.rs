//! The hierarchy of this machine's devices, over netlink.

use nix::errno::Errno;
use quell_hierarchy::{Hierarchy, LiveDevice, Record, What, assemble, records_of};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::Link;
use quell_netlink::tc::snapshot;
use quell_netlink::{NetlinkError, Stack};
use quell_tc::Handle;
use quell_tc::observed::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// Why there is no hierarchy.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error("there is no device {asked} here; there are {known}")]
    NoDevice { asked: String, known: String },
    #[error("the device {0} went away while it was read")]
    WentAway(String),
    #[error(transparent)]
    Kernel(#[from] NetlinkError),
    #[error("{0}: {1}")]
    Device(String, NetlinkError),
    #[error("{0}")]
    Unclear(String),
}

/// Whose the classes of a device are, by what it has.
pub type Whose<'a> = dyn FnMut(&str, &Snapshot) -> BTreeMap<Handle, String> + 'a;

/// Reads all devices of this namespace, or one with the IFBs that it feeds: the hierarchy, and where in it the one is that was asked for.
pub fn read(
    device: Option<&str>,
    whose: &mut Whose<'_>,
) -> Result<(Hierarchy, Option<usize>), LiveError> {
    let links = Stack::open().and_then(|mut stack| stack.links())?;
    let mut socket = Socket::open(Protocol::Route)?;
    let ifbs: BTreeSet<&str> = links
        .iter()
        .filter(|link| link.kind.as_deref() == Some("ifb"))
        .map(|link| link.name.as_str())
        .collect();
    let mut names = BTreeMap::new();
    let mut read = |link: &Link| of(&mut socket, link, whose, &mut names);
    let mut records = Vec::new();
    match device {
        None => {
            for link in &links {
                records.extend(read(link)?.unwrap_or_default());
            }
        }
        Some(name) => {
            let mut wanted = vec![name.to_owned()];
            let mut next = 0;
            while let Some(name) = wanted.get(next).cloned() {
                next += 1;
                let Some(link) = links.iter().find(|link| link.name == name) else {
                    let known: Vec<&str> =
                        links.iter().take(12).map(|link| link.name.as_str()).collect();
                    return Err(LiveError::NoDevice { asked: name, known: known.join(", ") });
                };
                let own = read(link)?.ok_or(LiveError::WentAway(name))?;
                for fed in own.iter().filter_map(feeds).flatten() {
                    if ifbs.contains(fed.as_str()) && !wanted.contains(&fed) {
                        wanted.push(fed);
                    }
                }
                records.extend(own);
            }
        }
    }
    let is_ifb = |name: &str| ifbs.contains(name);
    let mut hierarchy =
        assemble(records, None, is_ifb).map_err(|(_, why)| LiveError::Unclear(why))?;
    for device in &mut hierarchy.devices {
        for class in device.nodes.iter_mut().filter(|node| node.class) {
            class.whose = names.get(&(device.name.clone(), class.handle)).cloned();
        }
    }
    // A device without any queue has no records.
    let only = device.and_then(|name| hierarchy.device(name));
    Ok((hierarchy, only))
}

/// Devices to which a filter redirects.
fn feeds(record: &Record) -> Option<Vec<String>> {
    let What::Filter(filter) = &record.what else { return None };
    Some(
        filter
            .deeds
            .iter()
            .filter(|deed| deed.redirects)
            .filter_map(|deed| deed.to.clone())
            .collect(),
    )
}

/// A device's records; none where it went away after it was listed. Whose its classes are joins `names`.
fn of(
    socket: &mut Socket,
    link: &Link,
    whose: &mut Whose<'_>,
    names: &mut BTreeMap<(String, Handle), String>,
) -> Result<Option<Vec<Record>>, LiveError> {
    match snapshot(socket, link.index) {
        Ok(snapshot) => {
            let found = whose(&link.name, &snapshot).into_iter();
            names.extend(found.map(|(class, name)| ((link.name.clone(), class), name)));
            Ok(Some(records_of(&LiveDevice { name: &link.name, snapshot: &snapshot })))
        }
        Err(error) if error.errno() == Some(Errno::ENODEV) => Ok(None),
        Err(error) => Err(LiveError::Device(link.name.clone(), error)),
    }
}
