//! A server of iperf3's protocol that a test plays itself: it can lie, be silent, and see each byte.

use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};

/// Words of the protocol (iperf_api.h).
pub const EXCHANGE_RESULTS: u8 = 13;
pub const DISPLAY_RESULTS: u8 = 14;

/// Takes a test of so many TCP streams up until its data flows: the connection over which both talk, and the streams.
pub fn take_up(listener: &TcpListener, streams: usize) -> Result<(TcpStream, Vec<TcpStream>)> {
    let known = || -> Result<TcpStream> {
        let (mut stream, _) = listener.accept()?;
        stream.read_exact(&mut [0; 37])?;
        Ok(stream)
    };
    let mut talk = known()?;
    talk.write_all(&[9])?;
    framed(&mut talk)?;
    talk.write_all(&[10])?;
    let streams = (0..streams).map(|_| known()).collect::<Result<_>>()?;
    talk.write_all(&[1, 2])?;
    Ok((talk, streams))
}

/// Reads what comes with its length before it.
pub fn framed(talk: &mut TcpStream) -> Result<()> {
    let mut length = [0; 4];
    talk.read_exact(&mut length)?;
    talk.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize])
}
