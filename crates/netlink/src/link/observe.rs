//! What interfaces are there, and what they have counted.

use super::header;
use super::name::{LinkName, Mac};
use crate::core::{Attr, DecodeError, Message, NetlinkError, Reply};
use crate::stack::Stack;
use serde::{Deserialize, Serialize};

const HEADER: usize = 16;

/// An interface as the kernel describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its number in this namespace.
    pub index: u32,
    /// Its name. Text, because the kernel may know names that can't be made any more.
    pub name: String,
    /// What made it: "veth", "ifb", "bridge"; none for loopback and most hardware.
    pub kind: Option<String>,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// `IFF_*` flags.
    pub flags: u32,
    /// Hardware address, if it is an Ethernet one.
    pub mac: Option<Mac>,
    /// The index of what it stands on or is connected to (a VLAN's parent, a veth's other end, in
    /// that end's namespace).
    pub parent: Option<u32>,
    /// The bridge that it is a port of.
    pub master: Option<u32>,
    /// Whether the cable is plugged in; a veth has carrier when both ends are up.
    pub carrier: Option<bool>,
    /// How often carrier came and went since it was made (4.16 and later).
    pub carrier_changes: Option<u32>,
    /// Queue length, in packets.
    pub tx_queue_len: Option<u32>,
    pub tx_queues: Option<u32>,
    /// The name of its root queue.
    pub qdisc: Option<String>,
    /// Largest number of segments of a GSO packet.
    pub gso_max_segs: Option<u32>,
    /// Largest GSO packet, in bytes.
    pub gso_max_size: Option<u32>,
    pub stats: LinkStats,
}

/// An interface's counters since it was made (`struct rtnl_link_stats64`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkStats {
    pub rx_packets: u64,
    pub tx_packets: u64,
    /// Bytes received, Ethernet header included.
    pub rx_bytes: u64,
    /// Bytes sent, Ethernet header included.
    pub tx_bytes: u64,
    pub rx_errors: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Good packets received that the kernel dropped.
    pub rx_dropped: u64,
    /// Packets dropped on the way out (queue drops are counted at the queue).
    pub tx_dropped: u64,
    /// Received when the ring was full.
    pub rx_over_errors: u64,
    /// Received with a wrong checksum.
    pub rx_crc_errors: u64,
    pub rx_fifo_errors: u64,
    /// Missed because the host had no buffer.
    pub rx_missed_errors: u64,
}

impl Link {
    /// Whether it is switched on.
    pub fn is_up(&self) -> bool {
        self.flags & libc::IFF_UP as u32 != 0
    }

    /// Whether it is switched on, has carrier, and its queue takes packets. Between the last two lies a moment in which packets are
    /// dropped without a word: the kernel attaches the queue (`dev_activate`) right after it says that the link runs (`linkwatch_do_dev`
    /// of `net/core/link_watch.c`), and holds its lock over both.
    pub fn can_carry(&self) -> bool {
        let ready = libc::IFF_LOWER_UP as u32 | libc::IFF_RUNNING as u32;
        self.is_up() && self.flags & ready == ready
    }

    pub(crate) fn parse(reply: &Reply) -> Result<Self, DecodeError> {
        let (header, attrs) = reply.split::<HEADER>()?;
        let word = |at: usize| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let mut name = None;
        let mut link = Self {
            index: word(4),
            name: String::new(),
            kind: None,
            mtu: 0,
            flags: word(8),
            mac: None,
            parent: None,
            master: None,
            carrier: None,
            carrier_changes: None,
            tx_queue_len: None,
            tx_queues: None,
            qdisc: None,
            gso_max_segs: None,
            gso_max_size: None,
            stats: LinkStats::default(),
        };
        for attr in attrs {
            let attr = attr?;
            match attr.kind {
                libc::IFLA_IFNAME => name = Some(attr.str()?.to_owned()),
                libc::IFLA_ADDRESS => link.mac = attr.array().ok().map(Mac),
                libc::IFLA_MTU => link.mtu = attr.u32()?,
                libc::IFLA_LINK => link.parent = Some(attr.u32()?),
                libc::IFLA_MASTER => link.master = Some(attr.u32()?),
                libc::IFLA_QDISC => link.qdisc = Some(attr.str()?.to_owned()),
                libc::IFLA_TXQLEN => link.tx_queue_len = Some(attr.u32()?),
                libc::IFLA_NUM_TX_QUEUES => link.tx_queues = Some(attr.u32()?),
                libc::IFLA_CARRIER => link.carrier = Some(attr.u8()? != 0),
                libc::IFLA_CARRIER_CHANGES => link.carrier_changes = Some(attr.u32()?),
                libc::IFLA_GSO_MAX_SEGS => link.gso_max_segs = Some(attr.u32()?),
                libc::IFLA_GSO_MAX_SIZE => link.gso_max_size = Some(attr.u32()?),
                libc::IFLA_STATS64 => link.stats = LinkStats::parse(&attr)?,
                libc::IFLA_LINKINFO => {
                    if let Some(kind) = attr.nested().find(libc::IFLA_INFO_KIND)? {
                        link.kind = Some(kind.str()?.to_owned());
                    }
                }
                _ => {}
            }
        }
        link.name = name.ok_or(DecodeError::Missing { what: "interface name" })?;
        Ok(link)
    }
}

impl LinkStats {
    /// The counters at the front are the same in every kernel; later kernels add some behind.
    fn parse(attr: &Attr<'_>) -> Result<Self, DecodeError> {
        const COUNTERS: usize = 16;
        let truncated = DecodeError::Truncated {
            what: "interface statistics",
            wanted: COUNTERS * 8,
            got: attr.payload.len(),
        };
        let (words, _) = attr.payload.as_chunks::<8>();
        let words: &[[u8; 8]; COUNTERS] = words.first_chunk().ok_or(truncated)?;
        let counter = |at: usize| u64::from_ne_bytes(words[at]);
        Ok(Self {
            rx_packets: counter(0),
            tx_packets: counter(1),
            rx_bytes: counter(2),
            tx_bytes: counter(3),
            rx_errors: counter(4),
            tx_errors: counter(5),
            rx_dropped: counter(6),
            tx_dropped: counter(7),
            rx_over_errors: counter(11),
            rx_crc_errors: counter(12),
            rx_fifo_errors: counter(14),
            rx_missed_errors: counter(15),
        })
    }
}

impl Stack {
    /// The interface of this name. Errors with `ENODEV` when there is none.
    pub fn link(&mut self, name: &LinkName) -> Result<Link, NetlinkError> {
        let mut message = Message::with_header(
            format!("find interface {name}"),
            libc::RTM_GETLINK,
            0,
            &header(0, 0, 0),
        );
        message.attrs().str(libc::IFLA_IFNAME, name.as_str());
        self.one_link(&message)
    }

    /// The interface with this number. Errors with `ENODEV` when there is none.
    pub fn link_at(&mut self, index: u32) -> Result<Link, NetlinkError> {
        let tried = format!("read interface {index}");
        self.one_link(&Message::with_header(tried, libc::RTM_GETLINK, 0, &header(index, 0, 0)))
    }

    /// The number of the interface of this name.
    pub fn index_of(&mut self, name: &LinkName) -> Result<u32, NetlinkError> {
        self.link(name).map(|link| link.index)
    }

    /// All interfaces of the namespace.
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let message =
            Message::with_header("list the interfaces", libc::RTM_GETLINK, 0, &header(0, 0, 0));
        let mut links = Vec::new();
        self.socket().dump(&message, |reply| {
            links.push(Link::parse(reply)?);
            Ok(())
        })?;
        Ok(links)
    }

    fn one_link(&mut self, message: &Message) -> Result<Link, NetlinkError> {
        let replies = self.socket().request(message)?;
        let missing = DecodeError::Missing { what: "interface" };
        replies
            .first()
            .ok_or(missing)
            .and_then(Link::parse)
            .map_err(|why| NetlinkError::answer(message.tried(), why))
    }
}
