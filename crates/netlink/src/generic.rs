//! Generic netlink: families that have names, whose numbers the running kernel hands out.

use crate::core::{DecodeError, Message, NetlinkError, Protocol, Reply, Socket};
use nix::errno::Errno;

/// `struct genlmsghdr`: command, version, reserved.
pub(crate) const HEADER: usize = 4;

/// A conversation with one family.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) socket: Socket,
    number: u16,
    /// Its groups of listeners: names and numbers.
    groups: Vec<(String, u32)>,
}

impl Family {
    /// Errors with `ENOENT` when the kernel does not have the family.
    pub(crate) fn open(name: &str) -> Result<Self, NetlinkError> {
        let mut socket = Socket::open(Protocol::Generic)?;
        let tried = format!("find the kernel's \"{name}\" family");
        let mut message = Message::with_header(
            tried,
            libc::GENL_ID_CTRL as u16,
            0,
            &[libc::CTRL_CMD_GETFAMILY as u8, 1, 0, 0],
        );
        message.attrs().str(libc::CTRL_ATTR_FAMILY_NAME as u16, name);
        let part = format!("generic netlink family \"{name}\"");
        let replies = socket
            .request(&message)
            .map_err(|error| error.means_lacking(&part, &[Errno::ENOENT]))?;
        let missing = DecodeError::Missing { what: "family number" };
        let (number, groups) = replies
            .first()
            .ok_or(missing)
            .and_then(family)
            .map_err(|why| NetlinkError::answer(message.tried(), why))?;
        Ok(Self { socket, number, groups })
    }

    /// The number of a group of listeners.
    pub(crate) fn group(&self, name: &str) -> Option<u32> {
        self.groups.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// A request of this family.
    pub(crate) fn message(&self, tried: impl Into<String>, command: u8) -> Message {
        Message::with_header(tried, self.number, 0, &[command, 1, 0, 0])
    }
}

/// Its number and its groups.
fn family(reply: &Reply) -> Result<(u16, Vec<(String, u32)>), DecodeError> {
    let (_, attrs) = reply.split::<HEADER>()?;
    let mut groups = Vec::new();
    if let Some(all) = attrs.find(libc::CTRL_ATTR_MCAST_GROUPS as u16)? {
        for group in all.nested() {
            let group = group?.nested();
            if let (Some(name), Some(id)) = (
                group.find(libc::CTRL_ATTR_MCAST_GRP_NAME as u16)?,
                group.find(libc::CTRL_ATTR_MCAST_GRP_ID as u16)?,
            ) {
                groups.push((name.str()?.to_owned(), id.u32()?));
            }
        }
    }
    let missing = DecodeError::Missing { what: "family number" };
    Ok((attrs.find(libc::CTRL_ATTR_FAMILY_ID as u16)?.ok_or(missing)?.u16()?, groups))
}
