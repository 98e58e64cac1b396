//! Two namespaces and a cable between them.

use quell_netlink::address::NewAddress;
use quell_netlink::link::VethEnd;
use quell_netlink::quiet::quiet;
use quell_netlink::{LinkName, NetlinkError, Stack};
use quell_sys::SysError;
use quell_sys::netns::NetNs;
use std::os::fd::AsFd;
use std::process::{Child, Command};

/// The far end's address.
pub const FAR: &str = "10.9.0.2";
/// The device at the far end.
pub const FAR_DEVICE: &str = "far0";

/// Both ends.
pub struct Place {
    near: NetNs,
    far: NetNs,
}

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Where clients are.
    Near,
    /// Where servers are.
    Far,
}

impl Place {
    /// Builds it; it ends with this process and its children.
    pub fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let (near, far) = (NetNs::new()?, NetNs::new()?);
        near.run(|| -> Result<(), NetlinkError> {
            let here = VethEnd::new(name("near0"));
            let there = VethEnd { namespace: Some(far.as_fd()), ..VethEnd::new(name(FAR_DEVICE)) };
            Stack::open()?.create_veth(&here, &there)
        })??;
        near.run(|| up("near0", "10.9.0.1/24"))??;
        far.run(|| up(FAR_DEVICE, "10.9.0.2/24"))??;
        Ok(Self { near, far })
    }

    /// Starts a program at one end.
    pub fn start(&self, end: End, command: &mut Command) -> Result<Child, String> {
        let space = if end == End::Near { &self.near } else { &self.far };
        let shown = format!("{command:?}");
        let child = space.run(|| command.spawn()).map_err(|e: SysError| e.to_string())?;
        child.map_err(|e| format!("{shown}: {e}"))
    }
}

fn name(text: &str) -> LinkName {
    text.parse().expect("a short word is a device name")
}

fn up(device: &str, address: &str) -> Result<(), NetlinkError> {
    let mut stack = Stack::open()?;
    let lo = stack.index_of(&name("lo"))?;
    stack.up(lo)?;
    let index = stack.index_of(&name(device))?;
    quiet(&name(device))?;
    stack.up(index)?;
    let prefix = address.parse().expect("an address with its length");
    stack.add_address(index, &NewAddress::new(prefix))
}
