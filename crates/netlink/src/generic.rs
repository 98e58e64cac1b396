//! Generic netlink: families that have names, whose numbers the running kernel hands out.

use crate::core::{DecodeError, Message, NetlinkError, Protocol, Socket};
use nix::errno::Errno;

/// The family that knows the others (`include/uapi/linux/genetlink.h`).
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const ATTR_FAMILY_ID: u16 = 1;
const ATTR_FAMILY_NAME: u16 = 2;

/// `struct genlmsghdr`: command, version, reserved.
pub(crate) const HEADER: usize = 4;

/// A conversation with one family.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) socket: Socket,
    number: u16,
}

impl Family {
    /// Errors with `ENOENT` when the kernel does not have the family.
    pub(crate) fn open(name: &str) -> Result<Self, NetlinkError> {
        let mut socket = Socket::open(Protocol::Generic)?;
        let tried = format!("find the kernel's \"{name}\" family");
        let mut message = Message::with_header(tried, CONTROLLER, 0, &[GET_FAMILY, 1, 0, 0]);
        message.attrs().str(ATTR_FAMILY_NAME, name);
        let part = format!("generic netlink family \"{name}\"");
        let replies = socket
            .request(&message)
            .map_err(|error| error.means_lacking(&part, &[Errno::ENOENT]))?;
        let number = || -> Result<u16, DecodeError> {
            let missing = DecodeError::Missing { what: "family number" };
            let (_, attrs) = replies.first().ok_or(missing)?.split::<HEADER>()?;
            attrs.find(ATTR_FAMILY_ID)?.ok_or(missing)?.u16()
        }()
        .map_err(|why| NetlinkError::answer(message.tried(), why))?;
        Ok(Self { socket, number })
    }

    /// A request of this family.
    pub(crate) fn message(&self, tried: impl Into<String>, command: u8) -> Message {
        Message::with_header(tried, self.number, 0, &[command, 1, 0, 0])
    }
}
