//! A test that waits for its streams, and who may bring them.

use crate::limits::lock;
use quell_sys::SysError;
use quell_sys::socket::Udp;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::Bell;
use quell_wire::iperf3::HelloToken;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

/// A stream of a test that a client has opened.
#[derive(Debug)]
pub enum Opened {
    /// A connection, in the order in which connections came.
    Tcp(u64, TcpSocket),
    /// A socket connected to the client.
    Udp(Udp),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Connections, by its cookie and their address; where they may come from elsewhere, by its cookie alone.
    Tcp { elsewhere: bool },
    /// Hellos, by their address and its token; of a client that has none by their address alone.
    Udp(Option<HelloToken>),
}

/// A connection of an address that is not the one of whoever has its cookie: that may be seen on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has the cookie of a test of another address, whose streams it can't have")]
pub struct Stranger;

#[derive(Debug)]
pub struct Waiting {
    pub ip: IpAddr,
    pub streams: Streams,
    opened: Mutex<OpenedStreams>,
    /// Rings when one has come.
    pub came: Bell,
}

#[derive(Debug)]
struct OpenedStreams {
    new: Vec<Opened>,
    /// Whose hellos have opened the streams over UDP.
    greeted: Vec<SocketAddr>,
    wanted: usize,
    /// Why one that came could not be opened.
    failed: Option<SysError>,
}

impl Waiting {
    pub fn new(ip: IpAddr, streams: Streams, wanted: usize) -> Result<Self, SysError> {
        let queue = OpenedStreams { new: Vec::new(), greeted: Vec::new(), wanted, failed: None };
        Ok(Self { ip, streams, opened: Mutex::new(queue), came: Bell::new()? })
    }

    /// Whether a hello from there has opened a stream. One that comes again, the server having had no time for the first, opens no other.
    pub fn knows(&self, client: SocketAddr) -> bool {
        lock(&self.opened).greeted.contains(&client)
    }

    /// Adds a stream, of one over UDP with whose hello has opened it; gives it back when there are enough.
    pub fn add(&self, opened: Opened, greeted: Option<SocketAddr>) -> Result<(), Opened> {
        let mut queue = lock(&self.opened);
        if queue.wanted == 0 {
            return Err(opened);
        }
        queue.wanted -= 1;
        queue.greeted.extend(greeted);
        queue.new.push(opened);
        self.came.ring();
        Ok(())
    }

    pub fn wants(&self) -> bool {
        lock(&self.opened).wanted > 0
    }

    /// Says that a stream that came can't be opened.
    pub fn fail(&self, error: SysError) {
        lock(&self.opened).failed = Some(error);
        self.came.ring();
    }

    /// Those that came since the last look. Errors when one could not be opened that is surely the client's: a hello without a token may be
    /// anybody's, and the client's own yet to come.
    pub fn take(&self) -> Result<Vec<Opened>, SysError> {
        let mut queue = lock(&self.opened);
        self.came.silence();
        match queue.failed.take_if(|_| self.streams != Streams::Udp(None)) {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut queue.new)),
        }
    }

    /// Why one could not be opened, where those that were wanted have not come in time.
    pub fn failed(&self) -> Option<SysError> {
        lock(&self.opened).failed.take()
    }
}
