//! UDP streams that come from another address than the client's connection: it proves that address first, or anybody could have a server send at
//! somebody else.
//!
//! ```text
//!   client, address A ── parameters: `elsewhere` ──► CreateStreams
//!   client, address B ── TCP, the test's cookie ───► the streams of this test are those of B
//!                     ◄── one byte ─────────────────
//!                     ── hello ────────────────────►
//! ```

use super::broke::Break;
use super::talk::Talk;
use crate::guest::Guest;
use crate::hub::Hub;
use crate::waiting::{Opened, Waiting};
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::{Alarm, came, readable, wait};
use quell_wire::iperf3::State;
use std::net::IpAddr;

/// The address that a client proved, with the connection that did; it is told by [`Proven::tell`] when its streams may come.
#[derive(Debug)]
pub struct Proven {
    /// Where the streams come from.
    pub ip: IpAddr,
    stream: TcpSocket,
}

impl Proven {
    /// Waits for the connection, which `waiting` wants.
    pub fn wait_for(
        hub: &Hub<'_>,
        guest: &Guest,
        talk: &Talk<'_>,
        waiting: &Waiting,
    ) -> Result<Self, Break> {
        let mut alarm = Alarm::new()?;
        alarm.set(Some(monotonic_ns().saturating_add(talk.patience_ns())))?;
        loop {
            for opened in waiting.take()? {
                if let Opened::Tcp(_, stream) = opened
                    && let Some(peer) = stream.peer()
                {
                    return Ok(Self { ip: peer.ip().to_canonical(), stream });
                }
            }
            let mut fds = [
                readable(&waiting.came),
                readable(&guest.stream),
                readable(hub.stop),
                readable(&alarm),
            ];
            wait(&mut fds)?;
            if came(&fds[2]) {
                return Err(Break::ServerStopped);
            }
            if came(&fds[1])
                && let Some(state) = talk.heard()?
            {
                let why = format!("{state:?} while the address of its streams was awaited");
                return Err(Break::Protocol(why));
            }
            if came(&fds[3]) && !came(&fds[0]) {
                return Err(Break::Late);
            }
        }
    }

    /// Its streams are awaited now.
    pub fn tell(&self) {
        // One byte always finds room in a socket that was never used; who is gone needs none.
        let _ = self.stream.write_now(&[State::CreateStreams.byte()]);
    }
}
