//! Somebody who listens, for TCP connects: takes every connection and gives it up at once.

use crate::ProbeError;
use quell_sys::socket::stream::{accept, listen};
use quell_sys::wait::{Bell, came, readable, wait};
use std::net::{SocketAddr, TcpListener};

#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens. Errors when the port is in use.
    pub fn prepare(bind: SocketAddr) -> Result<Self, ProbeError> {
        Ok(Self(listen(bind)?))
    }

    /// Where it listens; none when the kernel does not say.
    pub fn local(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    pub fn run(self, stop: &Bell) -> Result<(), ProbeError> {
        loop {
            let mut fds = [readable(stop), readable(&self.0)];
            wait(&mut fds)?;
            if came(&fds[0]) {
                return Ok(());
            }
            while let Some((connection, _)) = accept(&self.0)? {
                connection.reset();
            }
        }
    }
}
