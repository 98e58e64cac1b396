//! Asking the other end: STAMP packets of several flows to a `quell serve`, and what came back of each.

use super::args::DoctorArgs;
use super::ends;
use crate::failure::Failure;
use crate::host::{self, Usual};
use crate::options::Family;
use quell_doctor::peer::{Peer, Probed};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::errors::path_errors;
use quell_sys::socket::{Inbox, Udp, option};
use quell_sys::wait::{Alarm, readable, wait};
use quell_sys::wall::realtime_ns;
use quell_wire::stamp::{ReflectorPacket, SenderPacket};
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// The port of `quell serve`.
const PORT: u16 = 5201;
/// The TOS bytes of the flows: most without a class, so that loss by source port shows; then ECT(0), EF with and without it, AF41.
const CLASSES: [u8; 20] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0xb8, 0xba, 0x88];
/// Packets of each flow, and the time between two of them.
const COUNT: u32 = 20;
const BETWEEN_NS: u64 = 40_000_000;
/// How long the last is waited for.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Bytes of a packet: as a small call's.
const SIZE: usize = 160;

/// Asks a host. Errors where its name is none, or no socket can be had; that nothing comes back is part of what is told.
pub(super) fn ask(args: &DoctorArgs, name: &str) -> Result<Peer, Failure> {
    let secret = args.secret.read()?;
    let usual = Usual { family: Family::default(), own: None, port: Some(PORT), device: None };
    let to = host::resolve(name, usual).map_err(Failure::usage)?.to;
    let mut asked =
        CLASSES.iter().map(|tos| ProbeFlow::open(to, *tos)).collect::<Result<Vec<_>, SysError>>();
    let asked = asked.as_mut().map_err(|e| Failure::system(e.to_string()))?;
    let mut alarm = Alarm::new().map_err(Failure::system)?;
    for number in 0..COUNT {
        asked.iter_mut().for_each(|flow| flow.send(number));
        collect(asked, &mut alarm, monotonic_ns() + BETWEEN_NS)?;
    }
    collect(asked, &mut alarm, monotonic_ns() + PATIENCE_NS)?;
    let flows: Vec<Probed> = asked.iter().map(|flow| flow.seen.clone()).collect();
    let ends = Err(String::new());
    let mut peer = Peer { host: to.to_string(), flows, ends };
    if !peer.answers() {
        return Err(Failure::system(format!(
            "--peer {name}: no answer to {COUNT} packets of each of {} flows to UDP {to}: does `quell serve --bind ADDRESS` run there, and \
             does a firewall hold back UDP port {}?",
            CLASSES.len(),
            to.port()
        )));
    }
    peer.ends = ends::ask(to, secret.as_ref(), args.idle);
    Ok(peer)
}

/// Takes answers until all have come, or it is time.
fn collect(asked: &mut [ProbeFlow], alarm: &mut Alarm, until: u64) -> Result<(), Failure> {
    alarm.set(Some(until)).map_err(Failure::system)?;
    let mut inbox = Inbox::new(32, SIZE);
    while monotonic_ns() < until {
        let done = |flow: &ProbeFlow| flow.seen.answered == COUNT;
        if asked.iter().all(done) {
            return Ok(());
        }
        {
            let mut waits: Vec<_> = asked.iter().map(|flow| readable(&flow.socket)).collect();
            waits.push(readable(&*alarm));
            wait(&mut waits).map_err(Failure::system)?;
        }
        asked.iter_mut().for_each(|flow| flow.take(&mut inbox));
    }
    Ok(())
}

/// One flow.
struct ProbeFlow {
    socket: Udp,
    ssid: u16,
    /// Numbers that came back: one that comes twice counts once.
    came: u64,
    seen: Probed,
}

impl ProbeFlow {
    fn open(to: SocketAddr, tos: u8) -> Result<Self, SysError> {
        let socket = Udp::connected(to, tos)?;
        option::tell_class_and_ttl(socket.as_fd(), to.is_ipv6())?;
        let port = socket.local()?.port();
        // Its port tells it apart from the others already.
        Ok(Self { socket, ssid: port, came: 0, seen: Probed { port, tos, ..Probed::default() } })
    }

    fn send(&mut self, number: u32) {
        let mut packet = SenderPacket::template(SIZE);
        SenderPacket { seq: number, sent_ns: realtime_ns(), ssid: self.ssid }.write(&mut packet);
        // What can't be sent is lost; an error that came back from the path is told once, and stands before the next packet.
        let _ = self.socket.send(&packet).or_else(|_| self.socket.send(&packet));
        self.seen.sent += 1;
    }

    fn take(&mut self, inbox: &mut Inbox) {
        // What came back from the path waits in a queue of its own, and wakes us until it is read.
        drop(path_errors(self.socket.as_fd()));
        loop {
            match inbox.receive(self.socket.as_fd()) {
                Ok(count) if count > 0 => {}
                Ok(_) | Err(nix::errno::Errno::EAGAIN) => return,
                // What came back from the path takes the place of an answer once.
                Err(_) => continue,
            }
            for (arrival, bytes) in inbox.iter() {
                let Some(answer) = ReflectorPacket::read(bytes) else { continue };
                let bit = 1_u64.checked_shl(answer.sender_seq).unwrap_or(0);
                if answer.ssid != self.ssid || bit == 0 || self.came & bit != 0 {
                    continue;
                }
                self.came |= bit;
                self.seen.answered += 1;
                // It counts from 0 in each session; answers may overtake each other.
                let sent = answer.sender_seq + 1;
                if self.seen.arrived.is_none_or(|(last, _)| sent > last) {
                    self.seen.arrived = Some((sent, answer.seq.saturating_add(1)));
                }
                self.seen.ttl_there = Some(answer.sender_ttl);
                self.seen.ttl_here = arrival.ttl.or(self.seen.ttl_here);
                *self.seen.returned.entry(arrival.tos.unwrap_or(0)).or_default() += 1;
            }
        }
    }
}
