//! Flowtables of nftables: connections that take a short way past most of the stack, some of them in hardware.

use crate::core::{DecodeError, Message, NetlinkError, Protocol, Reply, Socket};
use crate::nat::{header, nftables};

/// `NFTA_FLOWTABLE_*`, within its hook `NFTA_FLOWTABLE_HOOK_*`, within that `NFTA_DEVICE_NAME`.
mod attr {
    pub const TABLE: u16 = 1;
    pub const NAME: u16 = 2;
    pub const HOOK: u16 = 3;
    pub const FLAGS: u16 = 7;
    pub const HOOK_DEVICES: u16 = 3;
    pub const DEVICE_NAME: u16 = 1;
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flowtable {
    pub table: String,
    pub name: String,
    /// The interfaces whose connections take it.
    pub devices: Vec<String>,
    /// Whether devices are asked to forward by themselves.
    pub in_hardware: bool,
}

/// All of them.
///
/// # Errors
/// The kernel has no nftables or no flowtables, or we lack the right.
pub fn all() -> Result<Vec<Flowtable>, NetlinkError> {
    // `NFT_MSG_GETFLOWTABLE`.
    let message = Message::with_header("list nftables' flowtables", nftables(23), 0, &header(0, 0));
    let mut found = Vec::new();
    Socket::open(Protocol::Netfilter)?.dump(&message, |reply| {
        found.push(parse(reply)?);
        Ok(())
    })?;
    Ok(found)
}

pub(crate) fn parse(reply: &Reply) -> Result<Flowtable, DecodeError> {
    let (_, attrs) = reply.split::<4>()?;
    let mut found = Flowtable::default();
    for attr in attrs {
        let attr = attr?;
        match attr.kind {
            attr::TABLE => found.table = attr.str()?.to_owned(),
            attr::NAME => found.name = attr.str()?.to_owned(),
            // `NFT_FLOWTABLE_HW_OFFLOAD`.
            attr::FLAGS => found.in_hardware = u32::from_be_bytes(attr.array()?) & 1 != 0,
            attr::HOOK => {
                if let Some(devices) = attr.nested().find(attr::HOOK_DEVICES)? {
                    for device in devices.nested() {
                        let device = device?;
                        if device.kind == attr::DEVICE_NAME {
                            found.devices.push(device.str()?.to_owned());
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::AttrWriter;

    #[test]
    fn a_flowtable_is_known_by_its_interfaces_and_whether_it_is_in_hardware() {
        let mut attrs = AttrWriter::new();
        attrs.str(attr::TABLE, "filter").str(attr::NAME, "fast").nested(attr::HOOK, |hook| {
            hook.be32(1, 0).be32(2, 0).nested(attr::HOOK_DEVICES, |devices| {
                devices.str(attr::DEVICE_NAME, "wan").str(attr::DEVICE_NAME, "lan");
            });
        });
        attrs.be32(4, 7).be32(attr::FLAGS, 1);
        let payload = [&header(1, 0)[..], attrs.as_bytes()].concat();
        let reply = Reply { kind: nftables(23), flags: 0, payload };
        let wanted = Flowtable {
            table: "filter".into(),
            name: "fast".into(),
            devices: vec!["wan".into(), "lan".into()],
            in_hardware: true,
        };
        assert_eq!(parse(&reply).unwrap(), wanted);
    }
}
