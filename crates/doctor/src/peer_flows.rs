//! Asking the other end: STAMP packets of several flows to a `quell serve`, and what came back of each.
//!
//! ```text
//!   one packet, up to three times ── answered, or silent ──► 20 packets of 20 flows ── any answered ──► what both ends see
//!        └─ "unreachable", by ICMP: said at once                     └─ none: said
//! ```

use crate::examination::{DoctorError, DoctorProgress};
use crate::peer::{PeerReport, StampFlow};
use crate::peer_views;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::errors::{PathError, path_errors};
use quell_sys::socket::{Inbox, Udp, option};
use quell_sys::wait::{Alarm, readable, wait};
use quell_sys::wall::realtime_ns;
use quell_units::Span;
use quell_wire::auth::Secret;
use quell_wire::icmp_error::{Meaning, meaning, why_unreachable};
use quell_wire::stamp::{Presence, ReflectorPacket, SenderPacket};
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Who is at the other end.
pub struct PeerPlan {
    pub name: String,
    pub to: SocketAddr,
    /// What to try besides where it does not answer; begins a line of its own.
    pub hint: String,
    pub secret: Option<Secret>,
}

/// The TOS bytes of the flows: most without a class, so that loss by source port shows; then ECT(0), EF with and without it, AF41.
const CLASSES: [u8; 20] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0xb8, 0xba, 0x88];
/// Packets of each flow, and the time between two of them.
const COUNT: u32 = 20;
const BETWEEN_NS: u64 = 40_000_000;
/// Time for all of them.
const COUNT_NS: u64 = BETWEEN_NS * COUNT as u64;
/// How long the last is waited for.
const PATIENCE_NS: u64 = 1_000_000_000;
/// How often it is tried to have a first packet answered.
const OPENINGS: u32 = 3;
/// Bytes of a packet: as a small call's.
const SIZE: usize = 160;

/// Asks a host. Errors where no socket can be had, or nothing comes back.
pub(crate) fn ask(
    plan: &PeerPlan,
    sink: &mut dyn DoctorProgress,
) -> Result<PeerReport, DoctorError> {
    let to = plan.to;
    let flows = CLASSES.iter().map(|tos| ProbeFlow::open(to, *tos));
    let mut flows = flows.collect::<Result<Vec<_>, SysError>>()?;
    let mut alarm = Alarm::new()?;
    let mut first = open_the_path(plan, &mut alarm, sink)?;
    let longest = time(COUNT_NS + PATIENCE_NS);
    let words = format!("{} flows of {COUNT} packets: {longest} at most", CLASSES.len());
    sink.progress(&words, true);
    let done = |flow: &ProbeFlow| flow.seen.answered >= COUNT;
    for number in 0..COUNT {
        flows.iter_mut().for_each(|flow| flow.send(number));
        collect(&mut flows, done, &mut alarm, monotonic_ns() + BETWEEN_NS)?;
        // A router says that it finds no host once it has asked for one three times: by then the opening is over.
        first.take(&mut Inbox::new(1, SIZE));
        if first.hopeless && flows.iter().all(|flow| flow.seen.answered == 0) {
            return Err(unreachable(plan, &first));
        }
    }
    collect(&mut flows, done, &mut alarm, monotonic_ns() + PATIENCE_NS)?;
    if flows.iter().all(|flow| flow.seen.answered == 0) {
        // What is said of its packets may have come since.
        first.take(&mut Inbox::new(1, SIZE));
        return Err(silent(plan, flows.iter().chain([&first])));
    }
    sink.progress("both ends tell what they see: some 3 s", true);
    let ends = peer_views::ask(to, plan.secret.as_ref());
    let flows = flows.into_iter().map(|flow| flow.seen).collect();
    Ok(PeerReport { host: to.to_string(), flows, ends })
}

/// Somebody on the path says that packets don't get there.
fn unreachable(plan: &PeerPlan, flow: &ProbeFlow) -> DoctorError {
    let why = flow.refused.as_deref().unwrap_or_default();
    DoctorError::Failed(format!("--peer {}: {why}{}", plan.name, plan.hint))
}

fn silent<'a>(plan: &PeerPlan, mut flows: impl Iterator<Item = &'a ProbeFlow>) -> DoctorError {
    let PeerPlan { name, to, hint, .. } = plan;
    let refused = flows.find_map(|flow| flow.refused.clone());
    let refused = refused.map_or(String::new(), |why| format!(" ({why})"));
    DoctorError::Failed(format!(
        "--peer {name}: no answer to {COUNT} packets of each of {} flows to UDP {to}{refused}: does `quell serve --bind ADDRESS` run there, \
         and does a firewall hold back UDP port {}?{hint}",
        CLASSES.len(),
        to.port(),
    ))
}

/// Has one packet answered first. It may have to wait for a neighbour's hardware address, which is asked for once a second (RFC 826, RFC 4861)
/// where the path loses; what waits with it stands in a queue of this host that drops the rest, and no loss of the path's is that. Errors where
/// somebody on the path says that packets don't get there; where nobody says anything, other flows may go another way.
fn open_the_path(
    plan: &PeerPlan,
    alarm: &mut Alarm,
    sink: &mut dyn DoctorProgress,
) -> Result<ProbeFlow, DoctorError> {
    let to = plan.to;
    let mut first = ProbeFlow::open(to, 0)?;
    sink.progress(&format!("asking UDP {to}"), false);
    for number in 0..OPENINGS {
        if number > 0 {
            // All that is still to come where it stays silent.
            let most = time(PATIENCE_NS * u64::from(OPENINGS - number) + COUNT_NS + PATIENCE_NS);
            let words = format!("UDP {to} is silent: asked again, for {most} at most");
            sink.progress(&words, true);
        }
        first.send(number);
        let done = |flow: &ProbeFlow| flow.seen.answered > 0 || flow.hopeless;
        collect(std::slice::from_mut(&mut first), done, alarm, monotonic_ns() + PATIENCE_NS)?;
        if first.seen.answered > 0 {
            break;
        }
        if first.hopeless {
            return Err(unreachable(plan, &first));
        }
    }
    Ok(first)
}

/// A time, to the second above.
fn time(ns: u64) -> Span {
    Span::from_secs(ns.div_ceil(1_000_000_000))
}

/// Takes answers until each flow has what is waited for, or it is time.
fn collect(
    flows: &mut [ProbeFlow],
    done: impl Fn(&ProbeFlow) -> bool,
    alarm: &mut Alarm,
    until: u64,
) -> Result<(), DoctorError> {
    alarm.set(Some(until))?;
    let mut inbox = Inbox::new(32, SIZE);
    while monotonic_ns() < until {
        if flows.iter().all(&done) {
            return Ok(());
        }
        {
            let mut waits: Vec<_> = flows.iter().map(|flow| readable(&flow.socket)).collect();
            waits.push(readable(&*alarm));
            wait(&mut waits)?;
        }
        flows.iter_mut().for_each(|flow| flow.take(&mut inbox));
    }
    Ok(())
}

struct ProbeFlow {
    socket: Udp,
    ssid: u16,
    /// Numbers that came back: one that comes twice counts once.
    came: u64,
    /// The least and the most of the numbers that were answered, and of what the other end had counted then.
    answered: Option<((u32, u32), (u32, u32))>,
    /// What the other end gave this address, by which it knows that answers reach it.
    mark: u32,
    /// The least and the most that it said it had left unanswered; none where it said once that it does not know.
    unanswered: Option<Option<(u32, u32)>>,
    /// What came back of a packet instead of an answer, by ICMP; and that asking again is of no use.
    refused: Option<String>,
    hopeless: bool,
    seen: StampFlow,
}

impl ProbeFlow {
    fn open(to: SocketAddr, tos: u8) -> Result<Self, SysError> {
        let socket = Udp::connected(to, tos)?;
        option::tell_class_and_ttl(socket.as_fd(), to.is_ipv6())?;
        let port = socket.local()?.port();
        // Its port tells it apart from the others already.
        let seen = StampFlow { port, tos, unanswered: Some(0), ..StampFlow::default() };
        let (answered, unanswered, refused, hopeless) = (None, Some(None), None, false);
        let (came, mark) = (0, 0);
        Ok(Self { socket, ssid: port, came, answered, mark, unanswered, refused, hopeless, seen })
    }

    fn send(&mut self, number: u32) {
        let mut packet = SenderPacket::template(SIZE);
        SenderPacket { seq: number, sent_ns: realtime_ns(), ssid: self.ssid }.write(&mut packet);
        Presence::bring(self.mark, &mut packet);
        // What can't be sent is lost; an error that came back from the path is told once, and stands before the next packet.
        let _ = self.socket.send(&packet).or_else(|_| self.socket.send(&packet));
        self.seen.sent += 1;
    }

    fn take(&mut self, inbox: &mut Inbox) {
        // What came back from the path waits in a queue of its own, and wakes us until it is read.
        for error in path_errors(self.socket.as_fd()) {
            self.refuse(&error);
        }
        loop {
            match inbox.receive(self.socket.as_fd()) {
                Ok(count) if count > 0 => {}
                Ok(_) | Err(nix::errno::Errno::EAGAIN) => return,
                // What came back from the path takes the place of an answer once.
                Err(_) => continue,
            }
            for (arrival, bytes) in inbox.iter() {
                // Our own packet, from an echo: a reflector writes where a sender leaves zeros.
                if SenderPacket::read(bytes).is_some() {
                    continue;
                }
                let Some(answer) = ReflectorPacket::read(bytes) else { continue };
                let number = answer.sender_seq;
                let bit = 1_u64.checked_shl(number).unwrap_or(0);
                let strange = answer.ssid != self.ssid || number >= self.seen.sent;
                if strange || bit == 0 || self.came & bit != 0 {
                    continue;
                }
                self.came |= bit;
                self.seen.answered += 1;
                self.count(number, answer.seq);
                self.left_unanswered(Presence::read(bytes));
                self.seen.ttl_there = Some(answer.sender_ttl);
                self.seen.ttl_here = arrival.ttl.or(self.seen.ttl_here);
                *self.seen.returned.entry(arrival.tos.unwrap_or(0)).or_default() += 1;
            }
        }
    }

    /// A packet was answered, before which so many had come there. Answers may overtake each other, as packets may.
    fn count(&mut self, number: u32, came_before: u32) {
        let wider = |(least, most): (u32, u32), one: u32| (least.min(one), most.max(one));
        let (numbers, counts) = match self.answered {
            Some((numbers, counts)) => (wider(numbers, number), wider(counts, came_before)),
            None => ((number, number), (came_before, came_before)),
        };
        self.answered = Some((numbers, counts));
        let all = |(least, most): (u32, u32)| (most - least).saturating_add(1);
        self.seen.before_first = numbers.0;
        self.seen.arrived = Some((all(numbers), all(counts)));
    }

    /// What an answer says of packets without one; nothing of a reflector that does not know of it, which is taken to answer all.
    fn left_unanswered(&mut self, told: Option<Presence>) {
        let Some(told) = told else { return };
        self.mark = told.mark;
        self.unanswered = match (self.unanswered, told.unanswered) {
            (Some(Some((least, most))), Some(n)) => Some(Some((least.min(n), most.max(n)))),
            (Some(None), Some(n)) => Some(Some((n, n))),
            _ => None,
        };
        self.seen.unanswered =
            self.unanswered.map(|told| told.map_or(0, |(least, most)| most - least));
    }

    /// Something came back from the path.
    fn refuse(&mut self, error: &PathError) {
        let Ok(own) = self.socket.local() else { return };
        let (report, ipv6) = (&error.report, own.is_ipv6());
        let Some(from) = report.from.filter(|_| error.from_path) else { return };
        let meaning = meaning(ipv6, report.kind, report.code);
        let is_own = from == own.ip().to_canonical();
        let why = match meaning {
            Meaning::NoPort => format!(
                "{from} says that nobody listens at that UDP port: start `quell serve --bind ADDRESS` there, or name its port, HOST:PORT"
            ),
            // This host itself, of a neighbour whose hardware address nobody tells (`arp_error_report`, net/ipv4/arp.c): the answers may
            // be lost, so that asking again is worth it.
            Meaning::Unreachable(_) if is_own => {
                "no neighbour of this host answers for the way there".to_owned()
            }
            Meaning::Unreachable(code) => {
                format!("{from} says \"unreachable\": it {}", why_unreachable(ipv6, code).1)
            }
            _ => return,
        };
        self.hopeless |= meaning == Meaning::NoPort || !is_own;
        self.refused = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow whose packets of these numbers are answered, each with what the other end had counted before it.
    fn answered(with: &[(u32, u32)]) -> StampFlow {
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        let mut flow = ProbeFlow::open(to, 0).expect("a socket");
        flow.seen.sent = COUNT;
        for (number, came_before) in with {
            flow.seen.answered += 1;
            flow.count(*number, *came_before);
        }
        flow.seen
    }

    #[test]
    fn what_this_host_dropped_before_the_first_answer_was_lost_on_no_way() {
        // The first four waited for a neighbour's address in a queue that was full; 5 and 18 were lost on the way back, 9 on the way there.
        let came = |number: u32| (number, number - 4 - u32::from(number > 9));
        let numbers = (4..COUNT).filter(|number| ![5, 9, 18].contains(number)).map(came);
        let seen = answered(&numbers.collect::<Vec<_>>());
        assert_eq!((seen.before_first, seen.arrived), (4, Some((16, 15))));
        assert_eq!(seen.lost_by_way(), Some((1, 2)));
    }

    #[test]
    fn what_the_other_end_left_unanswered_was_lost_on_no_way() {
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        let told = |counts: &[Option<u32>]| {
            let mut flow = ProbeFlow::open(to, 0).expect("a socket");
            for unanswered in counts {
                flow.left_unanswered(Some(Presence { mark: 7, unanswered: *unanswered }));
            }
            assert_eq!(flow.mark, if counts.is_empty() { 0 } else { 7 });
            flow.seen.unanswered
        };
        assert_eq!(told(&[]), Some(0), "a reflector that tells nothing");
        assert_eq!(told(&[Some(3), Some(9), Some(5)]), Some(6));
        assert_eq!(told(&[Some(3), None, Some(5)]), None);
    }

    #[test]
    fn packets_that_overtake_each_other_are_not_lost() {
        let seen = answered(&[(1, 0), (0, 1), (3, 2), (2, 3)]);
        assert_eq!((seen.before_first, seen.lost_by_way()), (0, Some((0, 0))));
    }
}
