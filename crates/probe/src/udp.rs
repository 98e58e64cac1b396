//! A UDP stream against a reflector: STAMP packets at a constant rate, with one-way delays and the direction of losses.

use crate::prober::{self, Answer, Line, Stream, StreamSpec};
use crate::{Emit, ProbeError};
use nix::errno::Errno;
use quell_model::task::UdpEcho;
use quell_stats::Rng;
use quell_sys::pace::Window;
use quell_sys::socket::{Arrival, PathError, Udp};
use quell_sys::wait::Bell;
use quell_wire::stamp::{self, ReflectorPacket, SenderPacket, widen32};
use std::os::fd::{AsFd, BorrowedFd};

/// Largest payload of UDP over IPv4 (65,535 less 20 and 8).
const LARGEST: u32 = 65_507;

/// A UDP echo task that is ready to start.
#[derive(Debug)]
pub struct UdpEchoClient {
    echo: UdpEcho,
    line: StampLine,
    seed: u64,
}

#[derive(Debug)]
struct StampLine {
    socket: Udp,
    ssid: u16,
    packet: Vec<u8>,
    /// How many packets the reflector's count was behind so far: it wraps after 2^32.
    reflected: u64,
}

impl UdpEchoClient {
    /// Opens the socket. Errors when a parameter can't be, or there is no route.
    pub fn prepare(echo: &UdpEcho, seed: u64) -> Result<Self, ProbeError> {
        let wrong = |why: String| ProbeError::Parameter { stream: echo.stream.clone(), why };
        if echo.interval.is_zero() {
            return Err(wrong("the interval is zero; take at least 1us".into()));
        }
        if (echo.size as usize) < stamp::BASE || echo.size > LARGEST {
            return Err(wrong(format!(
                "a STAMP packet has {} to {LARGEST} bytes, not {}",
                stamp::BASE,
                echo.size
            )));
        }
        let socket = Udp::connected(echo.to, echo.tos.byte())?;
        let ssid = Rng::new(seed).derive("ssid").u64() as u16;
        let packet = SenderPacket::template(echo.size as usize);
        let line = StampLine { socket, ssid, packet, reflected: 0 };
        Ok(Self { echo: echo.clone(), line, seed })
    }

    /// Runs it: sends from the window's start on, ends by itself when every reply came or was waited for.
    pub fn run(self, window: &Window, stop: &Bell, emit: Emit<'_>) -> Result<(), ProbeError> {
        let spec = StreamSpec {
            interval_ns: self.echo.interval.nanos(),
            linger_ns: self.echo.linger.nanos(),
            size: self.echo.size,
            seed: Rng::new(self.seed).derive("pace").u64(),
            name: self.echo.stream,
        };
        let largest = self.echo.size as usize;
        let stream = Stream::new(spec, self.line, window)?;
        prober::run(vec![stream], largest, window, stop, emit)
    }
}

impl Line for StampLine {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn send(&mut self, seq: u64, sent_ns: u64) -> Result<(), Errno> {
        SenderPacket { seq: seq as u32, sent_ns, ssid: self.ssid }.write(&mut self.packet);
        self.socket.send(&self.packet)
    }

    fn read(&mut self, _arrival: &Arrival, bytes: &[u8], next: u64) -> Option<Answer> {
        let packet = ReflectorPacket::read(bytes).filter(|p| p.ssid == self.ssid)?;
        // The reflector counts what we sent, and perhaps copies that the network made: the count is near what it was.
        let near = self.reflected.saturating_add(1 << 31);
        let up_order = widen32(packet.seq, near).unwrap_or(u64::from(packet.seq));
        self.reflected = self.reflected.max(up_order);
        Some(Answer {
            seq: widen32(packet.sender_seq, next)?,
            up_order: Some(up_order),
            reflected_ns: Some((packet.received_ns, packet.sent_ns)),
        })
    }

    fn blamed(&self, error: &PathError, next: u64) -> Option<u64> {
        let quoted = error.quoted.first_chunk::<4>()?;
        widen32(u32::from_be_bytes(*quoted), next)
    }
}
