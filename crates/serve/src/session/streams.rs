//! How the streams of a test come, and what each may send.
//!
//! UDP streams may come from another address than the client's connection. It proves that address first, or anybody could have a server send at
//! somebody else:
//!
//! ```text
//!   client, address A ── parameters: `elsewhere` ──► CreateStreams
//!   client, address B ── TCP, the test's cookie ───► the streams of this test are those of B
//!                     ◄── one byte ─────────────────
//!                     ── hello ────────────────────►
//! ```

use super::lane::ServedLane;
use super::plan::{Break, ServePlan, Unfit};
use super::talk::ControlConnection;
use crate::hub::{Accepted, Hub, Pass, at_once};
use crate::limits::TEST;
use crate::waiting::{Opened, Streams, Waiting};
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::stream::TcpSocket;
use quell_sys::socket::{Inbox, Udp};
use quell_sys::wait::{Alarm, came, readable, wait};
use quell_wire::iperf3::{Cookie, Greeting, HelloToken, State};
use std::net::IpAddr;
use std::os::fd::AsFd;

/// Everything until data may flow: the plan, what each stream may send in bits a second, the streams.
pub fn prepare(
    hub: &Hub<'_>,
    guest: &Accepted,
    talk: &mut ControlConnection<'_>,
    pass: &Pass<'_>,
    cookie: Cookie,
) -> Result<(ServePlan, StreamRates, Vec<ServedLane>), Break> {
    let used = || {
        let why = "another test has its cookie, or its address is being given UDP streams";
        Break::Busy(why.into())
    };
    talk.say(State::ParamExchange)?;
    let plan = ServePlan::of(&talk.parameters()?, &hub.limits)?;
    pass.streams(plan.streams()).map_err(|full| Break::Busy(full.to_string()))?;
    let rates = rates(hub, pass, &plan)?;
    let mut ip = guest.peer.ip().to_canonical();
    let proven = match plan.udp && plan.elsewhere {
        true => {
            let other = Streams::Tcp { elsewhere: true };
            let entry = hub.expect(cookie, ip, other, 1)?.ok_or_else(used)?;
            talk.say(plan.asks_for_streams())?;
            Some(Proven::of(gather(hub, guest, talk, &plan, (&entry.waiting, pass), 1)?)?)
        }
        false => None,
    };
    ip = proven.as_ref().map_or(ip, |proven| proven.ip);
    // Held until all streams are there. A token says of which test they are.
    let known_by = plan.known_by(hub.secret.is_some());
    let entry = hub.expect(cookie, ip, known_by, plan.streams())?.ok_or_else(used)?;
    match &proven {
        Some(proven) => proven.tell(),
        None => talk.say(plan.asks_for_streams())?,
    }
    let wanted = plan.streams();
    let mut opened = gather(hub, guest, talk, &plan, (&entry.waiting, pass), wanted)?;
    // In the order in which the client opened them: by that it numbers them.
    opened.sort_by_key(|opened| match opened {
        Opened::Tcp(number, _) => *number,
        Opened::Udp(_) => 0,
    });
    let lanes = opened
        .into_iter()
        .enumerate()
        .map(|(index, opened)| match opened {
            Opened::Tcp(_, stream) => {
                if rates.all.is_some() {
                    at_once(&stream)?;
                }
                ServedLane::tcp(index, stream, &plan, rates.all.is_some(), hub.congestion)
            }
            Opened::Udp(socket) => ServedLane::udp(index, socket, guest.peer.is_ipv6(), &plan),
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok((plan, rates, lanes))
}

/// In bits a second: what each stream that this end sends may use, and what the whole test may.
#[derive(Debug, Clone, Copy)]
pub struct StreamRates {
    pub each: Option<u64>,
    pub all: Option<u64>,
}

fn rates(hub: &Hub<'_>, pass: &Pass<'_>, plan: &ServePlan) -> Result<StreamRates, Break> {
    let asked = plan.total_rate();
    for limit in [hub.limits.rate_of_one, hub.limits.rate] {
        if let (Some(asked), Some(limit)) = (asked, limit)
            && asked > limit
        {
            let why = format!("{asked} bit/s are more than the {limit} that it may have");
            return Err(Unfit::new(Unfit::RATE, why).into());
        }
    }
    let limit = hub.limits.rate_of_client();
    let all = match plan.udp && plan.up > 0 {
        true => pass.datagrams(asked).map_err(|full| Break::Busy(full.to_string()))?,
        false => limit.map(|limit| asked.unwrap_or(limit)),
    };
    let share = all.map(|all| all / plan.streams().max(1) as u64);
    let each = [share, plan.rate].into_iter().flatten().min();
    Ok(StreamRates { each, all })
}

fn gather(
    hub: &Hub<'_>,
    guest: &Accepted,
    talk: &ControlConnection<'_>,
    plan: &ServePlan,
    (waiting, pass): (&Waiting, &Pass<'_>),
    wanted: usize,
) -> Result<Vec<Opened>, Break> {
    let mut alarm = Alarm::new()?;
    let mut end_ns = monotonic_ns().saturating_add(talk.patience_ns());
    alarm.set(Some(end_ns))?;
    let mut opened: Vec<Opened> = Vec::new();
    let mut greeted = Vec::new();
    loop {
        let before = opened.len();
        opened.extend(waiting.take()?);
        if opened.len() > before {
            pass.active().map_err(|_| Break::Idle)?;
            end_ns = match plan.udp {
                // Each is greeted for round trips of the path, one after the other. Nothing else of it takes time, and others wait for their turn.
                true => end_ns.saturating_add(talk.round_trips_ns()),
                // Each has to prove itself, where there is a secret: a step each.
                false => monotonic_ns().saturating_add(talk.patience_ns()),
            };
            alarm.set(Some(end_ns))?;
        }
        if opened.len() >= wanted {
            return Ok(opened);
        }
        let sockets = opened.iter().filter_map(|opened| match opened {
            Opened::Udp(socket) => Some(socket),
            Opened::Tcp(..) => None,
        });
        let mut fds = vec![
            readable(&waiting.came),
            readable(&guest.stream),
            readable(hub.stop),
            readable(&alarm),
        ];
        let fixed = fds.len();
        fds.extend(sockets.clone().map(readable::<Udp>));
        wait(&mut fds)?;
        if came(&fds[2]) {
            return Err(Break::ServerStopped);
        }
        if came(&fds[1])
            && let Some(state) = talk.heard()?
        {
            return Err(Break::Protocol(format!("{state:?} while its streams were awaited")));
        }
        if came(&fds[3]) && !came(&fds[0]) {
            return Err(waiting.failed().map_or(Break::Late, Break::System));
        }
        let again: Vec<bool> = fds[fixed..].iter().map(came).collect();
        greeted.resize(again.len(), 0);
        for ((socket, again), greeted) in sockets.zip(again).zip(&mut greeted) {
            if again {
                greet_again(socket, plan.token, greeted);
            }
        }
    }
}

/// A hello that comes again: the answer was lost. Answered a few times only: it could be another server's answer to ours. A stranger's is not.
fn greet_again(socket: &Udp, token: Option<HelloToken>, greeted: &mut u32) {
    let mut inbox = Inbox::new(4, 64);
    // An error tells that the client closed its socket: then its control connection ends as well.
    let got = inbox.receive(socket.as_fd()).unwrap_or(0);
    if got > 0
        && *greeted < TEST.greetings
        && let Some((_, hello)) = inbox
            .iter()
            .find(|(_, bytes)| Greeting::read(bytes).is_some_and(|hello| hello.token == token))
    {
        *greeted += 1;
        let _ = socket.send(&crate::udp::reply(hello));
    }
}

/// The address that a client proved, with the connection that did; it is told by [`Proven::tell`] when its streams may come.
#[derive(Debug)]
pub struct Proven {
    pub ip: IpAddr,
    stream: TcpSocket,
}

impl Proven {
    fn of(opened: Vec<Opened>) -> Result<Self, Break> {
        let stream = opened.into_iter().find_map(|opened| match opened {
            Opened::Tcp(_, stream) => Some(stream),
            Opened::Udp(_) => None,
        });
        let stream = stream.ok_or(Break::Gone)?;
        let ip = stream.peer().ok_or(Break::Gone)?.ip().to_canonical();
        Ok(Self { ip, stream })
    }

    /// Its streams are awaited now.
    pub fn tell(&self) {
        // One byte always finds room in a socket that was never used; who is gone needs none.
        let _ = self.stream.write_now(&[State::CreateStreams.byte()]);
    }
}
