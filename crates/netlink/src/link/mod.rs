//! Interfaces: making, changing, listing and deleting them.
//!
//! ```text
//!   create_veth(here, there)     two ends of a cable, the second one perhaps in another namespace
//!   create_link(NewLink)         bridge, ifb, dummy, vlan, wireguard, tunnels
//!   change_link(index, changes)  up, down, mtu, mac, name, master, queue length, GSO
//!   link(name) · links()         what is there, with counters
//! ```

mod create;
mod kind;
mod message;
mod name;
mod observe;

pub use create::{LinkChange, NewLink, VethEnd};
#[cfg(test)]
pub(crate) use create::{change, new_link, new_veth};
pub use kind::{LinkKind, OuterTos, Tunnel, TunnelEnds, TunnelPayload, VlanId};
pub(crate) use message::header;
pub use name::{BadLinkName, LinkName, Mac};
pub use observe::{Link, LinkStats};
