//! Where and why the kernel drops packets: the drop monitor (`net/core/drop_monitor.c`, `CONFIG_NET_DROP_MONITOR`).
//!
//! ```text
//!   configure: a message a packet ─► start ─► kfree_skb(packet, reason) anywhere ──► group "events": reason, place, device, the packet's head
//! ```
//!
//! There is one in a kernel, in its first network namespace, and it tells of packets of all namespaces. It needs CAP_NET_ADMIN there, and
//! CAP_SYS_ADMIN to listen. What it was set to comes back when [`DropMonitor`] is dropped.

use crate::core::{DecodeError, Message, MulticastGroup, NetlinkError, Protocol, Reply};
use crate::generic::{self, Family};
use nix::errno::Errno;

/// `NET_DM_CMD_*` of `include/uapi/linux/net_dropmon.h`.
mod command {
    pub const CONFIG: u8 = 2;
    pub const START: u8 = 3;
    pub const STOP: u8 = 4;
    pub const PACKET_ALERT: u8 = 5;
    pub const CONFIG_GET: u8 = 6;
    pub const STATS_GET: u8 = 8;
}

/// `NET_DM_ATTR_*`.
mod attr {
    pub const ALERT_MODE: u16 = 1;
    pub const SYMBOL: u16 = 3;
    pub const IN_PORT: u16 = 4;
    pub const PROTO: u16 = 6;
    pub const PAYLOAD: u16 = 7;
    pub const TRUNC_LEN: u16 = 9;
    pub const QUEUE_LEN: u16 = 11;
    pub const STATS: u16 = 12;
    pub const REASON: u16 = 23;
    /// Within IN_PORT.
    pub const PORT_INDEX: u16 = 0;
    pub const PORT_NAME: u16 = 1;
    /// Within STATS.
    pub const DROPPED: u16 = 0;
}

/// `NET_DM_ALERT_MODE_PACKET`.
const EACH_PACKET: u8 = 1;
/// What is wanted of each packet, in bytes: Ethernet with tags, IPv6, TCP.
const HEAD: u32 = 96;
/// Packets that may wait in the kernel, on each CPU; 1000 unless it is told otherwise.
const QUEUE: u32 = 10_000;
/// What both are where nobody set them; 0 is "the whole packet".
const USUAL_QUEUE: u32 = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedPacket {
    /// Why, by the kernel's word (`enum skb_drop_reason`), as "NO_SOCKET"; kernels older than 5.17 don't tell.
    pub reason: Option<String>,
    /// The function that dropped it, as "tcp_v4_rcv".
    pub place: String,
    /// The interface by which it came, where it came by one: its name, or its number in the namespace that it is in, which nobody tells.
    pub device: Option<String>,
    pub protocol: u16,
    /// Its first bytes: from its Ethernet header on where it has one, else from that of its protocol.
    pub head: Vec<u8>,
}

impl DroppedPacket {
    /// `None` for what is no such message.
    pub(crate) fn parse(reply: &Reply) -> Result<Option<Self>, DecodeError> {
        let (header, attrs) = reply.split::<{ generic::HEADER }>()?;
        if header[0] != command::PACKET_ALERT {
            return Ok(None);
        }
        let mut packet = Self {
            reason: None,
            place: String::new(),
            device: None,
            protocol: 0,
            head: Vec::new(),
        };
        for attr in attrs {
            let attr = attr?;
            match attr.kind {
                attr::REASON => packet.reason = Some(attr.str()?.to_owned()),
                attr::SYMBOL => {
                    // tcp_v4_rcv+0x3e/0xc80
                    let place = attr.str()?;
                    packet.place = place.split('+').next().unwrap_or(place).to_owned();
                }
                attr::IN_PORT => {
                    let (name, index) = (
                        attr.nested().find(attr::PORT_NAME)?,
                        attr.nested().find(attr::PORT_INDEX)?,
                    );
                    packet.device = match (name, index) {
                        (Some(name), _) => Some(name.str()?.to_owned()),
                        (None, Some(index)) => Some(format!("interface {}", index.u32()?)),
                        (None, None) => None,
                    };
                }
                attr::PROTO => packet.protocol = attr.u16()?,
                attr::PAYLOAD => packet.head = attr.payload.to_vec(),
                _ => {}
            }
        }
        Ok(Some(packet))
    }
}

/// Watches, until it is dropped.
#[derive(Debug)]
pub struct DropMonitor {
    family: Family,
    group: MulticastGroup,
    /// How it told before; none where somebody else watches too, and it is theirs to stop.
    was: Option<u8>,
}

impl DropMonitor {
    /// Begins to watch. Errors with `ENOENT` where the kernel has no drop monitor, or the calling thread is not in its first network
    /// namespace; with `EPERM` without rights; and where somebody else watches otherwise than packet by packet.
    pub fn open() -> Result<Self, NetlinkError> {
        let mut family = Family::open("NET_DM")?;
        // The group had this number before it had a name.
        let group = MulticastGroup::open(Protocol::Generic, family.group("events").unwrap_or(1))?;
        let was = mode(&mut family)?;
        match configure(&mut family, EACH_PACKET, HEAD, QUEUE) {
            Ok(()) => {
                let start = family.message("start the drop monitor", command::START);
                if let Err(error) = family.socket.request_ack(&start) {
                    // It is theirs who came between.
                    let _ = configure(&mut family, was, 0, USUAL_QUEUE);
                    return Err(error);
                }
                Ok(Self { family, group, was: Some(was) })
            }
            // It runs already: what it tells, it tells all.
            Err(error) if error.errno() == Some(Errno::EBUSY) && was == EACH_PACKET => {
                Ok(Self { family, group, was: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Hands on the packets that were dropped since, at most `most`.
    pub fn hear(
        &mut self,
        most: usize,
        mut each: impl FnMut(DroppedPacket),
    ) -> Result<(), NetlinkError> {
        let number = self.family.number();
        self.group.hear(most, |reply| {
            if reply.kind == number
                && let Some(packet) = DroppedPacket::parse(reply)?
            {
                each(packet);
            }
            Ok(())
        })
    }

    /// How many packets were dropped and could not be told of, since the monitor was started; and how often there was no room for what it
    /// told.
    pub fn missed(&mut self) -> Result<(u64, u64), NetlinkError> {
        let message = self.family.message("ask what the drop monitor missed", command::STATS_GET);
        let replies = self.family.socket.request(&message)?;
        let read = || -> Result<u64, DecodeError> {
            let Some(reply) = replies.first() else { return Ok(0) };
            let (_, attrs) = reply.split::<{ generic::HEADER }>()?;
            let Some(stats) = attrs.find(attr::STATS)? else { return Ok(0) };
            stats.nested().find(attr::DROPPED)?.map_or(Ok(0), |dropped| dropped.u64())
        };
        let missed = read().map_err(|why| NetlinkError::answer(message.tried(), why))?;
        Ok((missed, self.group.overflows()))
    }
}

impl Drop for DropMonitor {
    fn drop(&mut self) {
        let Some(was) = self.was else { return };
        let stop = self.family.message("stop the drop monitor", command::STOP);
        // There is nobody left to tell.
        let _ = self.family.socket.request_ack(&stop);
        let _ = configure(&mut self.family, was, 0, USUAL_QUEUE);
    }
}

fn mode(family: &mut Family) -> Result<u8, NetlinkError> {
    let message = family.message("ask how the drop monitor tells", command::CONFIG_GET);
    let replies = family.socket.request(&message)?;
    let read = || -> Result<u8, DecodeError> {
        let missing = DecodeError::Missing { what: "alert mode" };
        let (_, attrs) = replies.first().ok_or(missing)?.split::<{ generic::HEADER }>()?;
        attrs.find(attr::ALERT_MODE)?.ok_or(missing)?.u8()
    };
    read().map_err(|why| NetlinkError::answer(message.tried(), why))
}

fn configure(family: &mut Family, mode: u8, head: u32, queue: u32) -> Result<(), NetlinkError> {
    let mut message: Message = family.message("set how the drop monitor tells", command::CONFIG);
    message
        .attrs()
        .u8(attr::ALERT_MODE, mode)
        .u32(attr::TRUNC_LEN, head)
        .u32(attr::QUEUE_LEN, queue);
    family.socket.request_ack(&message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::AttrWriter;

    fn alert(write: impl FnOnce(&mut AttrWriter)) -> Reply {
        let mut writer = AttrWriter::new();
        writer.raw(&[command::PACKET_ALERT, 2, 0, 0]);
        write(&mut writer);
        Reply { kind: 0, flags: 0, payload: writer.as_bytes().to_vec() }
    }

    #[test]
    fn a_packet_is_told_with_its_reason_and_its_place() {
        let reply = alert(|to| {
            to.str(attr::SYMBOL, "tcp_v4_rcv+0x3e/0xc80")
                .nested(attr::IN_PORT, |port| {
                    port.u32(0, 7).str(attr::PORT_NAME, "eth0");
                })
                .u16(attr::PROTO, 0x0800)
                .bytes(attr::PAYLOAD, &[0x45, 0])
                .str(attr::REASON, "NO_SOCKET");
        });
        let packet = DroppedPacket {
            reason: Some("NO_SOCKET".into()),
            place: "tcp_v4_rcv".into(),
            device: Some("eth0".into()),
            protocol: 0x0800,
            head: vec![0x45, 0],
        };
        assert_eq!(DroppedPacket::parse(&reply), Ok(Some(packet)));
    }

    #[test]
    fn an_older_kernel_tells_no_reason_and_other_messages_are_none() {
        let packet = DroppedPacket::parse(&alert(|to| {
            to.str(attr::SYMBOL, "0xffff");
        }))
        .unwrap();
        assert_eq!(
            packet.map(|packet| (packet.reason, packet.place)),
            Some((None, "0xffff".into()))
        );
        let by_number = alert(|to| {
            to.nested(attr::IN_PORT, |port| {
                port.u32(attr::PORT_INDEX, 3);
            });
        });
        let packet = DroppedPacket::parse(&by_number).unwrap();
        assert_eq!(packet.and_then(|packet| packet.device), Some("interface 3".into()));
        let other = Reply { kind: 0, flags: 0, payload: vec![1, 2, 0, 0] };
        assert_eq!(DroppedPacket::parse(&other), Ok(None));
    }
}
