//! An experiment's text and its machines: a file of machines put into it, and the addresses by which hosts reach each other.
//!
//! ```text
//!   text ──[machines] of --on──► text ──addresses found──► text, as the run keeps it: the same command has the same machines again
//! ```

use crate::spec::Experiment;
use crate::spec::load_file::{self, ReadError};
use crate::spec::machines::{Machine, Machines};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Value};

#[derive(Debug, thiserror::Error)]
pub enum MachinesError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0}")]
    Other(String),
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MachinesFile {
    machines: Machines,
}

/// Gives an experiment's text the machines of a file, and what is to be said of whose host is which. Hosts and machines of one name belong together,
/// the others as they come.
pub fn put(
    text: &str,
    experiment: &Experiment,
    file: &Path,
) -> Result<(String, Option<String>), MachinesError> {
    let name = file.display().to_string();
    let own = load_file::read_file(file)?;
    let MachinesFile { machines: known } = load_file::parse_as(&name, &own)?;
    let failed = |why: String| MachinesError::Other(format!("{name}: {why}"));
    let mut read: DocumentMut = own.parse().map_err(|e| failed(format!("{e}")))?;
    let table = read["machines"].as_table_like_mut().ok_or_else(|| failed("no table".into()))?;
    let keys: Vec<String> = table.iter().map(|(key, _)| key.to_owned()).collect();
    let (machines, settings): (Vec<&String>, Vec<&String>) =
        keys.iter().partition(|key| known.hosts.contains_key(*key));
    let hosts = experiment.hosts_at_work();
    let managed = |m: &&&String| !hosts.contains(m) && known.manages_host(m);
    let mut left = machines.iter().filter(|m| !hosts.contains(m) && !managed(m));
    let mut pairs = Vec::new();
    for host in &hosts {
        let machine = match machines.contains(&host) {
            true => host,
            false => left.next().copied().ok_or_else(|| {
                let (hosts, has) = (hosts.join(", "), machines.len());
                failed(format!(
                    "`{}` has hosts {hosts}, and here are {has} machines; give one for `{host}`",
                    experiment.name
                ))
            })?,
        };
        pairs.push((host.clone(), machine.clone()));
    }
    pairs.extend(machines.iter().filter(managed).map(|m| ((*m).clone(), (*m).clone())));
    let mut given: Vec<(String, Item)> = Vec::new();
    for key in settings {
        given.extend(table.get(key).map(|item| (key.clone(), item.clone())));
    }
    for (host, machine) in &pairs {
        given.extend(table.get(machine).map(|item| (host.clone(), item.clone())));
    }
    let mut document: DocumentMut = text.parse().map_err(|e| failed(format!("{e}")))?;
    document.insert("machines", Item::Table(given.into_iter().collect()));
    let renamed = pairs.iter().filter(|(host, machine)| host != machine);
    let renamed: Vec<String> = renamed.map(|(h, m)| format!("`{h}` is {m}")).collect();
    Ok((document.to_string(), (!renamed.is_empty()).then(|| renamed.join(", "))))
}

/// Gives each machine of a text that names no address of its own the one by which the others reach it: what the name in `ssh://` is resolved to,
/// and of this machine the one from which it reaches the first of the others.
pub fn with_addresses(text: &str, machines: &Machines) -> Result<String, MachinesError> {
    let failed = |why: String| MachinesError::Other(why);
    let mut found = BTreeMap::new();
    for (host, machine) in &machines.hosts {
        let Some(ssh) = machine.ssh.as_ref().filter(|_| machine.addresses.is_empty()) else {
            continue;
        };
        let addresses = resolved(ssh).map_err(|why| {
            failed(format!(
                "machine `{host}`: {why}; say how other hosts reach it: \
                 {host} = {{ on = \"{ssh}\", address = [\"192.0.2.7\"] }}"
            ))
        })?;
        found.insert(host.clone(), addresses);
    }
    let known = |host: &str, machine: &Machine| {
        found.get(host).cloned().unwrap_or_else(|| machine.addresses.clone())
    };
    let others = machines.hosts.iter().filter(|(_, machine)| machine.ssh.is_some());
    let others: Vec<IpAddr> = others.flat_map(|(host, machine)| known(host, machine)).collect();
    let own = from_here(&others);
    let mut document: DocumentMut = text.parse().map_err(|e| failed(format!("{e}")))?;
    for (host, machine) in &machines.hosts {
        let addresses = match (known(host, machine), &machine.ssh) {
            (addresses, None) if addresses.is_empty() => own.clone(),
            (addresses, _) => addresses,
        };
        let on = machine.ssh.as_deref().unwrap_or("local");
        let list = addresses.iter().map(IpAddr::to_string).collect::<Array>();
        let mut table = InlineTable::new();
        table.insert("on", on.into());
        table.insert("address", Value::Array(list));
        document["machines"][host] = Item::Value(Value::InlineTable(table));
    }
    Ok(document.to_string())
}

/// The addresses of the host in `ssh://[USER@]HOST[:PORT]`, the first of each family.
fn resolved(ssh: &str) -> Result<Vec<IpAddr>, String> {
    let rest = ssh.trim_start_matches("ssh://");
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let name = match rest.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => rest.split(':').next().unwrap_or_default(),
    };
    let all = std::net::ToSocketAddrs::to_socket_addrs(&(name, 0))
        .map_err(|e| format!("the name `{name}` has no address here ({e})"))?;
    let all: Vec<IpAddr> = all.map(|a| a.ip()).collect();
    let of = |is: fn(&IpAddr) -> bool| all.iter().copied().find(is);
    Ok(of(IpAddr::is_ipv4).into_iter().chain(of(IpAddr::is_ipv6)).collect())
}

/// The own addresses from which packets to others leave, one a family; those of loopback where there are no others.
fn from_here(others: &[IpAddr]) -> Vec<IpAddr> {
    if others.is_empty() {
        return vec![IpAddr::from([127, 0, 0, 1]), std::net::Ipv6Addr::LOCALHOST.into()];
    }
    let own = |is: fn(&IpAddr) -> bool, any: &str| {
        let to = others.iter().copied().find(is)?;
        let socket = UdpSocket::bind(any).ok()?;
        // Of a datagram socket that only asks for the route.
        socket.connect(SocketAddr::new(to, 9)).ok()?;
        socket.local_addr().ok().map(|a| a.ip())
    };
    let v4 = own(IpAddr::is_ipv4, "0.0.0.0:0");
    v4.into_iter().chain(own(IpAddr::is_ipv6, "[::]:0")).collect()
}
