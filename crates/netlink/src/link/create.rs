//! Making, changing and deleting interfaces.

use super::header;
use super::kind::{LinkKind, Tunnel};
use super::name::{LinkName, Mac};
use crate::core::{AttrWriter, Message, NetlinkError, flags};
use crate::stack::Stack;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `VETH_INFO_PEER`: the other end, as a whole `ifinfomsg` with attributes.
const VETH_PEER: u16 = 1;

#[derive(Debug, Clone)]
pub struct VethEnd<'a> {
    /// Its name in the namespace where it will be.
    pub name: LinkName,
    /// Its address; the kernel's own choice is random.
    pub mac: Option<Mac>,
    /// Largest packet without the Ethernet header, in bytes; 1500 if not given.
    pub mtu: Option<u32>,
    /// Queue length that pfifo-like queues start with, in packets; 1000 if not given.
    pub tx_queue_len: Option<u32>,
    /// The namespace to be born in; the socket's own if not given.
    pub namespace: Option<BorrowedFd<'a>>,
    /// Its number; the next free one if not given.
    pub index: Option<u32>,
    /// Transmit queues. With more than one the kernel puts `mq` at the root, and a flow's queue would depend on the CPU.
    pub tx_queues: u32,
}

impl VethEnd<'_> {
    /// An end with this name, the kernel's defaults, in the socket's namespace.
    pub fn new(name: LinkName) -> Self {
        Self {
            name,
            mac: None,
            mtu: None,
            tx_queue_len: None,
            namespace: None,
            index: None,
            tx_queues: 1,
        }
    }

    /// In iproute2's order.
    fn write(&self, to: &mut AttrWriter) {
        write_common(self.mac, self.mtu, self.tx_queue_len, to);
        to.u32(libc::IFLA_NUM_TX_QUEUES, self.tx_queues);
        if let Some(namespace) = self.namespace {
            to.i32(libc::IFLA_NET_NS_FD, namespace.as_raw_fd());
        }
        to.str(libc::IFLA_IFNAME, self.name.as_str());
    }
}

/// An interface to be made.
#[derive(Debug, Clone)]
pub struct NewLink<'a> {
    pub name: LinkName,
    pub kind: LinkKind,
    /// Its number; the kernel's choice if not given.
    pub index: Option<u32>,
    /// Its address, for the kinds that have one.
    pub mac: Option<Mac>,
    /// Largest packet, in bytes; the kind's default if not given.
    pub mtu: Option<u32>,
    /// Queue length that pfifo-like queues start with, in packets.
    pub tx_queue_len: Option<u32>,
    /// Transmit queues; the kind's own number if not given.
    pub tx_queues: Option<u32>,
    /// The namespace to be born in; the socket's own if not given.
    pub namespace: Option<BorrowedFd<'a>>,
}

impl NewLink<'_> {
    /// An interface with the kind's defaults, in the socket's namespace.
    pub fn new(name: LinkName, kind: LinkKind) -> Self {
        Self {
            name,
            kind,
            index: None,
            mac: None,
            mtu: None,
            tx_queue_len: None,
            tx_queues: None,
            namespace: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkChange {
    /// Takes part in traffic, or not.
    Up(bool),
    /// Resolves neighbours, or (off) needs permanent entries for all of them.
    Arp(bool),
    /// The `IFF_MULTICAST` flag.
    Multicast(bool),
    /// Largest packet, in bytes.
    Mtu(u32),
    /// A new name. The interface has to be down on kernels before 6.5.
    Name(LinkName),
    /// Becomes a port of the bridge with this index, or (None) leaves its bridge.
    Master(Option<u32>),
    /// Queue length, in packets.
    TxQueueLen(u32),
    /// Largest number of segments that one GSO packet may hold (1: packets are packets, even with
    /// GSO on).
    GsoMaxSegs(u32),
    /// Largest GSO packet, in bytes.
    GsoMaxSize(u32),
}

impl Stack {
    /// Makes a pair of virtual Ethernet interfaces: what is sent into one comes out of the other.
    ///
    /// Errors with `EEXIST` when a name is taken, `EPERM` without `CAP_NET_ADMIN` in both
    /// namespaces.
    pub fn create_veth(
        &mut self,
        here: &VethEnd<'_>,
        there: &VethEnd<'_>,
    ) -> Result<(), NetlinkError> {
        self.carry_out(&new_veth(here, there))
    }

    /// Makes an interface, down at first.
    ///
    /// Errors with `EOPNOTSUPP` "Unknown device type" when the kernel has no such kind.
    pub fn create_link(&mut self, link: &NewLink<'_>) -> Result<(), NetlinkError> {
        self.carry_out(&new_link(link))
    }

    /// Changes an interface, all changes in one request.
    pub fn change_link(&mut self, index: u32, changes: &[LinkChange]) -> Result<(), NetlinkError> {
        self.carry_out(&change(index, changes))
    }

    pub fn up(&mut self, index: u32) -> Result<(), NetlinkError> {
        self.change_link(index, &[LinkChange::Up(true)])
    }

    /// Deletes an interface; a veth takes its other end along.
    pub fn delete_link(&mut self, index: u32) -> Result<(), NetlinkError> {
        let tried = format!("delete interface {index}");
        self.carry_out(&Message::with_header(tried, libc::RTM_DELLINK, 0, &header(index, 0, 0)))
    }
}

pub(crate) fn new_veth(here: &VethEnd<'_>, there: &VethEnd<'_>) -> Message {
    let tried = format!("make the veth pair {} and {}", here.name, there.name);
    let mut message = creation(tried, here.index);
    let to = message.attrs();
    here.write(to);
    to.nested_plain(libc::IFLA_LINKINFO, |info| {
        info.str_unterminated(libc::IFLA_INFO_KIND, "veth").nested_plain(
            libc::IFLA_INFO_DATA,
            |data| {
                data.nested_plain(VETH_PEER, |peer| {
                    peer.raw(&header(there.index.unwrap_or(0), 0, 0));
                    there.write(peer);
                });
            },
        );
    });
    message
}

pub(crate) fn new_link(link: &NewLink<'_>) -> Message {
    let kind = link.kind.name();
    let mut message = creation(format!("make {kind} interface {}", link.name), link.index);
    let to = message.attrs();
    if let LinkKind::Vlan { parent, .. } = link.kind {
        to.u32(libc::IFLA_LINK, parent);
    }
    write_common(link.mac, link.mtu, link.tx_queue_len, to);
    link.tx_queues.map(|queues| to.u32(libc::IFLA_NUM_TX_QUEUES, queues));
    // A tunnel moved to another namespace keeps its outer side here.
    if let Some(namespace) = link.namespace {
        to.i32(libc::IFLA_NET_NS_FD, namespace.as_raw_fd());
    }
    to.str(libc::IFLA_IFNAME, link.name.as_str());
    to.nested_plain(libc::IFLA_LINKINFO, |info| {
        info.str_unterminated(libc::IFLA_INFO_KIND, kind);
        if link.kind.has_settings() {
            info.nested_plain(libc::IFLA_INFO_DATA, |data| link.kind.write_settings(data));
        }
    });
    message
}

pub(crate) fn change(index: u32, changes: &[LinkChange]) -> Message {
    let (mut flags, mut mask) = (0, 0);
    let mut set = |flag: u32, on: bool| {
        mask |= flag;
        flags = if on { flags | flag } else { flags & !flag };
    };
    for change in changes {
        match change {
            LinkChange::Up(on) => set(libc::IFF_UP as u32, *on),
            LinkChange::Arp(on) => set(libc::IFF_NOARP as u32, !on),
            LinkChange::Multicast(on) => set(libc::IFF_MULTICAST as u32, *on),
            _ => {}
        }
    }
    let tried = format!("change interface {index}: {changes:?}");
    let mut message =
        Message::with_header(tried, libc::RTM_NEWLINK, 0, &header(index, flags, mask));
    let to = message.attrs();
    for change in changes {
        let to = &mut *to;
        match change {
            LinkChange::Up(_) | LinkChange::Arp(_) | LinkChange::Multicast(_) => to,
            LinkChange::Mtu(bytes) => to.u32(libc::IFLA_MTU, *bytes),
            LinkChange::Name(name) => to.str(libc::IFLA_IFNAME, name.as_str()),
            LinkChange::Master(master) => to.u32(libc::IFLA_MASTER, master.unwrap_or(0)),
            LinkChange::TxQueueLen(packets) => to.u32(libc::IFLA_TXQLEN, *packets),
            LinkChange::GsoMaxSegs(segments) => to.u32(libc::IFLA_GSO_MAX_SEGS, *segments),
            LinkChange::GsoMaxSize(bytes) => to.u32(libc::IFLA_GSO_MAX_SIZE, *bytes),
        };
    }
    message
}

fn creation(tried: String, index: Option<u32>) -> Message {
    let flags = flags::CREATE | flags::EXCL;
    Message::with_header(tried, libc::RTM_NEWLINK, flags, &header(index.unwrap_or(0), 0, 0))
}

fn write_common(
    mac: Option<Mac>,
    mtu: Option<u32>,
    tx_queue_len: Option<u32>,
    to: &mut AttrWriter,
) {
    if let Some(mac) = mac {
        to.bytes(libc::IFLA_ADDRESS, &mac.0);
    }
    if let Some(mtu) = mtu {
        to.u32(libc::IFLA_MTU, mtu);
    }
    if let Some(packets) = tx_queue_len {
        to.u32(libc::IFLA_TXQLEN, packets);
    }
}

impl From<Tunnel> for LinkKind {
    fn from(tunnel: Tunnel) -> Self {
        Self::Tunnel(tunnel)
    }
}
