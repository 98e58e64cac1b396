//! The hierarchy of this machine's devices, over netlink.

use super::found::TreeSource;
use crate::failure::Failure;
use crate::shape::StateArgs;
use quell_hierarchy::{LiveDevice, Record, What, assemble, records_of};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::Link;
use quell_netlink::tc::snapshot;
use quell_netlink::{NetlinkError, Stack};
use quell_shaping::{classes_by_name, hosts_by_class};
use quell_tc::Handle;
use std::collections::{BTreeMap, BTreeSet};

/// Reads all devices of this namespace, or one with the IFBs that it feeds.
pub(super) fn read(device: Option<&str>, state: &StateArgs) -> Result<TreeSource, Failure> {
    let refused = |error: NetlinkError| Failure::system(error);
    let links = Stack::open().and_then(|mut stack| stack.links()).map_err(refused)?;
    let mut socket = Socket::open(Protocol::Route).map_err(refused)?;
    let ifbs: BTreeSet<&str> = links
        .iter()
        .filter(|link| link.kind.as_deref() == Some("ifb"))
        .map(|link| link.name.as_str())
        .collect();
    let mut whose = classes_by_name(&state.logs());
    let mut records = Vec::new();
    match device {
        None => {
            for link in &links {
                records.extend(of(&mut socket, link, &mut whose)?.unwrap_or_default());
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
                    return Err(Failure::usage(format!(
                        "there is no device {name} here; there are {}",
                        known.join(", ")
                    )));
                };
                let own = of(&mut socket, link, &mut whose)?.ok_or_else(|| {
                    Failure::system(format!("the device {name} went away while it was read"))
                })?;
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
    let mut hierarchy = assemble(records, None, is_ifb).map_err(|(_, why)| Failure::system(why))?;
    for device in &mut hierarchy.devices {
        for class in device.nodes.iter_mut().filter(|node| node.class) {
            class.whose = whose.get(&(device.name.clone(), class.handle)).cloned();
        }
    }
    // A device without any queue has no records.
    let only = device.and_then(|name| hierarchy.device(name));
    Ok(TreeSource { hierarchy, only, rates: None })
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

/// A device's records; none where it went away after it was listed. Whose the classes of hosts are that were found at run time joins `whose`.
fn of(
    socket: &mut Socket,
    link: &Link,
    whose: &mut BTreeMap<(String, Handle), String>,
) -> Result<Option<Vec<Record>>, Failure> {
    match snapshot(socket, link.index) {
        Ok(snapshot) => {
            let found = hosts_by_class(&snapshot).into_iter();
            whose.extend(found.map(|(class, host)| ((link.name.clone(), class), host)));
            Ok(Some(records_of(&LiveDevice { name: &link.name, snapshot: &snapshot })))
        }
        Err(error) if error.errno() == Some(nix::errno::Errno::ENODEV) => Ok(None),
        Err(error) => Err(Failure::system(format!("{}: {error}", link.name))),
    }
}
