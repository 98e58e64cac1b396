//! Holding a connection back to its share of the server's rate.

use crate::hub::Hub;
use crate::rate::Share;
use nix::errno::Errno;
use quell_load::bulk::Gate;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::{Alarm, came, ending, readable, wait};

/// Waits until so many bytes of a connection may move. `ECANCELED`: the server ended before that; `EPIPE`: its client went, and takes no turn
/// from others; `ETIMEDOUT`: that time came.
pub fn pause(
    hub: &Hub<'_>,
    stream: &TcpSocket,
    share: &Share<'_>,
    bytes: usize,
    end_ns: u64,
) -> Result<(), Errno> {
    let mut alarm = None;
    loop {
        let now = monotonic_ns();
        let Err(at) = share.pass(bytes, now) else { return Ok(()) };
        if now >= end_ns {
            return Err(Errno::ETIMEDOUT);
        }
        let alarm = match &mut alarm {
            Some(alarm) => alarm,
            none => none.insert(Alarm::new().map_err(|e| e.errno)?),
        };
        alarm.set(Some(at.min(end_ns))).map_err(|e| e.errno)?;
        // A client that closed is heard of by this alone while what it sent before lies unread.
        let mut fds = [readable(hub.stop), ending(stream), readable(alarm)];
        wait(&mut fds).map_err(|e| e.errno)?;
        if came(&fds[0]) {
            return Err(Errno::ECANCELED);
        }
        if came(&fds[1]) {
            return Err(Errno::EPIPE);
        }
    }
}
