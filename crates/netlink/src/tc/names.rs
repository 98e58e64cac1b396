//! Interfaces by name and by number.

use crate::core::{Message, NetlinkError, Socket};

/// Knows which interface has which name.
pub trait Names {
    /// The number of the interface with this name.
    fn index_of(&self, name: &str) -> Option<u32>;
    /// The name of the interface with this number.
    fn name_of(&self, index: u32) -> Option<String>;
}

/// Interfaces as they were at one moment.
#[derive(Debug, Clone, Default)]
struct NameTable(Vec<(u32, String)>);

impl Names for NameTable {
    fn index_of(&self, name: &str) -> Option<u32> {
        self.0.iter().find(|(_, other)| other == name).map(|(index, _)| *index)
    }

    fn name_of(&self, index: u32) -> Option<String> {
        self.0.iter().find(|(other, _)| *other == index).map(|(_, name)| name.clone())
    }
}

/// A fixed list, for encoding without a kernel.
pub fn fixed_names(list: &[(u32, &str)]) -> impl Names {
    NameTable(list.iter().map(|(index, name)| (*index, (*name).to_owned())).collect())
}

/// The interfaces that there are now.
pub(super) fn of(socket: &mut Socket) -> Result<impl Names + use<>, NetlinkError> {
    const GET_LINK: u16 = 18;
    const IFLA_IFNAME: u16 = 3;
    let mut table = NameTable::default();
    let message = Message::with_header("list interfaces", GET_LINK, 0, &[0; 16]);
    socket.dump(&message, |reply| {
        let (head, attrs) = reply.split::<16>()?;
        let index = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
        if let Some(name) = attrs.find(IFLA_IFNAME)? {
            table.0.push((index, name.str()?.to_owned()));
        }
        Ok(())
    })?;
    Ok(table)
}
