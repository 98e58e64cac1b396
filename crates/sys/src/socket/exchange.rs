//! Whole messages over TCP: all of the bytes, or an error that says why not, by a deadline or until somebody rings.

use super::stream::TcpSocket;
use crate::SysError;
use crate::wait::{Alarm, Bell, came, readable, wait, writable};
use nix::errno::Errno;

/// Why a message did not get through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    #[error("the other end closed the connection")]
    Closed,
    #[error("the other end did not answer in time")]
    Late,
    #[error("it was stopped")]
    Stopped,
    /// The connection broke, or the system would not let us.
    #[error("{0}")]
    System(#[from] SysError),
}

/// Messages with one end, all within one deadline.
#[derive(Debug)]
pub struct Exchange<'a> {
    stream: &'a TcpSocket,
    alarm: Alarm,
    stop: &'a Bell,
}

impl<'a> Exchange<'a> {
    /// Until `deadline_ns` of the monotonic clock (none: without end), or until the bell rings.
    pub fn new(
        stream: &'a TcpSocket,
        deadline_ns: Option<u64>,
        stop: &'a Bell,
    ) -> Result<Self, SysError> {
        let mut alarm = Alarm::new()?;
        alarm.set(deadline_ns)?;
        Ok(Self { stream, alarm, stop })
    }

    pub(super) fn stream(&self) -> &TcpSocket {
        self.stream
    }

    pub fn until(&mut self, deadline_ns: Option<u64>) -> Result<(), SysError> {
        self.alarm.set(deadline_ns)
    }

    /// Whether somebody rang. Where more and more is there to read, nothing else would tell.
    pub fn is_stopped(&self) -> bool {
        self.stop.rings()
    }

    /// Fills `bytes`. A time that is up does not take away what is already there.
    pub fn read(&mut self, mut bytes: &mut [u8]) -> Result<(), ExchangeError> {
        while !bytes.is_empty() {
            match self.stream.read_now(bytes) {
                Ok(0) => return Err(ExchangeError::Closed),
                Ok(got) => bytes = &mut bytes[got..],
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(false)?,
                Err(errno) => return Err(broken("read from a TCP connection", errno)),
            }
        }
        Ok(())
    }

    /// Hands all of `bytes` to the kernel.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), ExchangeError> {
        while !bytes.is_empty() {
            match self.stream.write_now(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(true)?,
                Err(errno) => return Err(broken("write to a TCP connection", errno)),
            }
        }
        Ok(())
    }

    fn wait(&mut self, to_write: bool) -> Result<(), ExchangeError> {
        let stream = if to_write { writable(self.stream) } else { readable(self.stream) };
        let mut fds = [stream, readable(self.stop), readable(&self.alarm)];
        wait(&mut fds)?;
        match () {
            () if came(&fds[1]) => Err(ExchangeError::Stopped),
            () if came(&fds[0]) => Ok(()),
            () => Err(ExchangeError::Late),
        }
    }
}

fn broken(tried: &str, errno: Errno) -> ExchangeError {
    match errno {
        Errno::ECONNRESET | Errno::EPIPE => ExchangeError::Closed,
        errno => SysError::new(tried, errno).into(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::clock::monotonic_ns;
    use crate::socket::stream::{Connected, StreamOptions, accept, listen};

    /// A connection over loopback.
    pub fn pair() -> (TcpSocket, TcpSocket) {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = TcpSocket::new(false, &StreamOptions::default()).unwrap();
        let to = listener.local_addr().unwrap();
        let soon = monotonic_ns() + 60_000_000_000;
        assert_eq!(client.connect(to, soon, &Bell::new().unwrap()), Ok(Connected::Yes));
        wait(&mut [readable(&listener)]).unwrap();
        let (server, _) = accept(&listener).unwrap().unwrap();
        (client, server)
    }

    #[test]
    fn a_message_comes_whole_also_when_it_comes_in_pieces_and_is_larger_than_any_buffer() {
        let (one, other) = pair();
        let sent: Vec<u8> = (0..20_000_000u32).map(|n| n as u8).collect();
        let bell = Bell::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| Exchange::new(&one, None, &bell).unwrap().write(&sent).unwrap());
            let mut got = vec![0; sent.len()];
            Exchange::new(&other, None, &bell).unwrap().read(&mut got).unwrap();
            assert!(got == sent);
        });
    }

    #[test]
    fn half_a_message_ends_with_the_time_the_bell_or_the_connection() {
        let (one, other) = pair();
        let bell = Bell::new().unwrap();
        let mut bytes = [0; 10];
        let now = monotonic_ns();
        let mut exchange = Exchange::new(&other, Some(now), &bell).unwrap();
        one.write(b"half").unwrap();
        assert_eq!(exchange.read(&mut bytes), Err(ExchangeError::Late));
        exchange.until(None).unwrap();
        bell.ring();
        assert_eq!(exchange.read(&mut bytes), Err(ExchangeError::Stopped));
        bell.silence();
        drop(one);
        assert_eq!(exchange.read(&mut bytes), Err(ExchangeError::Closed));
    }
}
