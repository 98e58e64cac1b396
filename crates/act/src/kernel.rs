//! The running kernel and its files, in the calling thread's network namespace.

use crate::steps::{LinkNow, Machine, Now};
use crate::{
    Change, DeviceTarget, FileGoal, Goal, HostTableGoal, OwnRoute, Refusal, RouteGoal, SysctlGoal,
};
use nix::errno::Errno;
use quell_classify::Loaded;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkChange, LinkKind, LinkName, NewLink};
use quell_netlink::route::{NewRoute, RouteMetrics};
use quell_netlink::tc::Root;
use quell_netlink::{Mac, NetlinkError, Prefix, Stack, hosts_table, sysctl, tc};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Talks to the kernel of the namespace in which it was opened.
#[derive(Debug)]
pub struct Kernel {
    stack: Stack,
    socket: Socket,
    /// Root queues as they were last seen, by interface: no other is replaced.
    roots: BTreeMap<u32, Root>,
}

impl Kernel {
    pub fn open() -> Result<Self, NetlinkError> {
        let (stack, socket) = (Stack::open()?, Socket::open(Protocol::Route)?);
        Ok(Kernel { stack, socket, roots: BTreeMap::new() })
    }

    fn index(&mut self, target: &DeviceTarget) -> Result<u32, Refusal> {
        match target.index {
            Some(index) => Ok(index),
            None => Ok(self.stack.index_of(&name(&target.name)?)?),
        }
    }

    fn set_route(&mut self, to: &str, route: Option<&OwnRoute>) -> Result<(), Refusal> {
        let to: Prefix = to.parse().map_err(|e| Refusal(format!("{to}: {e}")))?;
        let Some(route) = route else { return Ok(self.stack.delete_route(to)?) };
        let dev = self.stack.index_of(&name(&route.device)?)?;
        let metrics = RouteMetrics {
            quick_ack: route.quick_ack,
            initial_cwnd: route.initial_cwnd,
            ecn: route.ecn,
            congestion_control: route.congestion_control.clone(),
            ..RouteMetrics::default()
        };
        let new = NewRoute { to, via: route.via, dev, source: None, metrics };
        Ok(self.stack.replace_route(&new)?)
    }
}

fn name(text: &str) -> Result<LinkName, Refusal> {
    text.parse::<LinkName>().map_err(|error| Refusal(error.to_string()))
}

/// The routes that these prefixes have of their own, by prefix.
pub fn own_routes(
    stack: &mut Stack,
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, OwnRoute>, NetlinkError> {
    let mut routes = BTreeMap::new();
    for route in stack.routes()? {
        let to = route.to.to_string();
        let Some(index) = route.dev.filter(|_| wanted(&to)) else { continue };
        let metrics = route.metrics;
        let own = OwnRoute {
            via: route.via,
            device: stack.link_at(index)?.name,
            quick_ack: metrics.quick_ack,
            initial_cwnd: metrics.initial_cwnd,
            ecn: metrics.ecn,
            congestion_control: metrics.congestion_control,
        };
        routes.insert(to, own);
    }
    Ok(routes)
}

impl Machine for Kernel {
    fn read(&mut self, goal: &Goal) -> Result<Now, Refusal> {
        let mut now = Now::default();
        for link in self.stack.links()? {
            let (up, mac) = (link.is_up(), link.mac.map(|mac| mac.0));
            let there = LinkNow { index: link.index, kind: link.kind, mac, up };
            now.links.insert(link.name, there);
        }
        for device in &goal.devices {
            let Some(index) = now.target(device).and_then(|target| target.index) else { continue };
            match tc::snapshot(&mut self.socket, index) {
                Ok(snapshot) => {
                    self.roots.insert(index, Root::of(&snapshot));
                    now.queues.insert(index, snapshot);
                }
                // It went while it was read.
                Err(error) if error.errno() == Some(Errno::ENODEV) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for setting in &goal.sysctls {
            match sysctl::read(&setting.key) {
                Ok(value) => drop(now.sysctls.insert(setting.key.clone(), value)),
                Err(error) if error.errno() == Some(Errno::ENOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !goal.routes.is_empty() {
            let wanted = |to: &str| goal.routes.iter().any(|route| route.to == to);
            now.routes = own_routes(&mut self.stack, wanted)?;
        }
        for table in &goal.host_tables {
            let there = match hosts_table::is_there(&name(&table.device)?) {
                // Who may not look may not change it either: it is taken to be as it is wanted.
                Err(error) if error.errno() == Some(Errno::EPERM) => table.there,
                other => other?,
            };
            if there {
                now.host_tables.insert(table.device.clone());
            }
        }
        for file in &goal.files {
            now.files.insert(file.path.clone(), content(&file.path)?);
        }
        Ok(now)
    }

    fn carry_out(&mut self, change: &Change) -> Result<(), Refusal> {
        match change {
            Change::MakeIfb { name: text, mac, index } => {
                let (index, mac) = (*index, Some(Mac(*mac)));
                let link = NewLink { index, mac, ..NewLink::new(name(text)?, LinkKind::Ifb) };
                self.stack.create_link(&link)?;
                let index = self.stack.index_of(&name(text)?)?;
                self.stack.up(index)?;
            }
            Change::SwitchOn(target) => {
                let index = self.index(target)?;
                self.stack.change_link(index, &[LinkChange::Up(true)])?;
            }
            Change::DeleteIfb(target) => {
                let index = self.index(target)?;
                self.stack.delete_link(index)?;
            }
            Change::Queue { device, change } => {
                let index = self.index(device)?;
                let (ready, _loaded) = with_programs(&[change]).map_err(|(_, why)| why)?;
                let root = self.roots.entry(index).or_default();
                tc::carry_all_out_over(&mut self.socket, index, &ready, root)
                    .map_err(|(_, error)| error)?;
            }
            Change::Sysctl(SysctlGoal { key, value }) => sysctl::write(key, value)?,
            Change::Route(RouteGoal { to, route }) => self.set_route(to, route.as_ref())?,
            Change::HostTable(HostTableGoal { device, there: true }) => {
                hosts_table::make(&name(device)?)?
            }
            Change::HostTable(HostTableGoal { device, there: false }) => {
                hosts_table::delete(&name(device)?)?
            }
            Change::File(FileGoal { path, content }) => {
                let failed = |e| Refusal(format!("could not write {}: {e}", path.display()));
                write(path, content.as_ref()).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn carry_all_out(&mut self, changes: &[Change]) -> Result<(), (usize, Refusal)> {
        let mut first = 0;
        while let Some(change) = changes.get(first) {
            let Change::Queue { device, .. } = change else {
                self.carry_out(change).map_err(|why| (first, why))?;
                first += 1;
                continue;
            };
            let some: Vec<_> =
                changes[first..].iter().map_while(|one| queue_of(one, device)).collect();
            let index = self.index(device).map_err(|why| (first, why))?;
            let (ready, _loaded) =
                with_programs(&some).map_err(|(number, why)| (first + number, why))?;
            let root = self.roots.entry(index).or_default();
            tc::carry_all_out_over(&mut self.socket, index, &ready, root)
                .map_err(|(number, error)| (first + number, error.into()))?;
            first += some.len();
        }
        Ok(())
    }
}

/// Changes, those with a program among them made anew.
type Ready<'a> = Vec<Cow<'a, quell_tc::Change>>;

/// Changes as the kernel takes them: with a program loaded for each classifier, which lives until they are carried out. Those before one
/// whose program can't be loaded are not carried out either; which one that is, and why.
fn with_programs<'a>(
    changes: &[&'a quell_tc::Change],
) -> Result<(Ready<'a>, Loaded), (usize, Refusal)> {
    let mut loaded = Loaded::default();
    let mut ready = Vec::with_capacity(changes.len());
    for (number, change) in changes.iter().enumerate() {
        let made = quell_classify::ready(change, tc::classifier, &mut loaded);
        let made = made.map_err(|why| (number, Refusal(why.to_string())))?;
        ready.push(made.map_or(Cow::Borrowed(*change), Cow::Owned));
    }
    Ok((ready, loaded))
}

/// The change of a queue, class or filter, if it is one of this interface.
fn queue_of<'a>(change: &'a Change, on: &DeviceTarget) -> Option<&'a quell_tc::Change> {
    match change {
        Change::Queue { device, change } if device == on => Some(change),
        _ => None,
    }
}

fn content(path: &Path) -> Result<Option<(Vec<u8>, u32)>, Refusal> {
    let failed = |e: std::io::Error| Refusal(format!("could not read {}: {e}", path.display()));
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(e)),
        Ok(meta) if !meta.is_file() => {
            Err(Refusal(format!("{} is no file; nothing is written through it", path.display())))
        }
        Ok(meta) => {
            let bytes = std::fs::read(path).map_err(failed)?;
            Ok(Some((bytes, meta.permissions().mode() & 0o7777)))
        }
    }
}

/// Whole or not at all, and on the disk.
fn write(path: &Path, content: Option<&(Vec<u8>, u32)>) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    match content {
        None => match std::fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        },
        Some((bytes, mode)) => put(path, bytes, *mode)?,
    }
    std::fs::File::open(folder)?.sync_all()
}

/// Writes a file beside its place, syncs it, and renames it.
pub(crate) fn put(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let last = path.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    let beside = path.with_file_name(format!(".{last}.new"));
    // What a killed program left, or a link that somebody put there, goes; nothing is written through it.
    let _ = std::fs::remove_file(&beside);
    let written = (|| {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode).open(&beside)?;
        file.write_all(bytes)?;
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}
