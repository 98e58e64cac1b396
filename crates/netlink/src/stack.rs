//! One namespace's interfaces, addresses and routes: the typed face of an rtnetlink socket.

use crate::core::{Message, NetlinkError, Protocol, Socket};

/// The network stack of one namespace. Its operations are spread over the modules of what they work
/// on: [`crate::link`], [`crate::address`], [`crate::route`], [`crate::neighbour`].
#[derive(Debug)]
pub struct Stack {
    socket: Socket,
}

impl Stack {
    /// Opens the stack of the namespace that the calling thread is in.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::Route)? })
    }

    /// The socket beneath, for requests that have no typed form here.
    pub fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    pub(crate) fn carry_out(&mut self, message: &Message) -> Result<(), NetlinkError> {
        self.socket.request_ack(message)
    }
}
