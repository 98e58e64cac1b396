//! Holding a connection back to its share of the server's rate.

use crate::hub::Hub;
use crate::rate::Share;
use nix::errno::Errno;
use quell_load::bulk::Gate;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, came, readable, wait};

/// Waits until so many bytes may move; errors when the server ends before that.
pub fn pause(hub: &Hub<'_>, share: &Share<'_>, bytes: usize) -> Result<(), Errno> {
    while let Err(at) = share.pass(bytes, monotonic_ns()) {
        let mut alarm = Alarm::new().map_err(|e| e.errno)?;
        alarm.set(Some(at)).map_err(|e| e.errno)?;
        let mut fds = [readable(hub.stop), readable(&alarm)];
        wait(&mut fds).map_err(|e| e.errno)?;
        if came(&fds[0]) {
            return Err(Errno::ECANCELED);
        }
    }
    Ok(())
}
