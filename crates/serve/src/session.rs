//! One test of an iperf3 client or of `quell flow`, from cookie to results.
//!
//! ```text
//!   plan    what the client asks for, against the limits
//!   talk    the control connection
//!   lane    a stream: socket, thread, counts
//!   looks   what is kept of it over time
//!   motion  whether its bytes move: by that it keeps its place
//!   report  the results, for the client and for the log
//!   elsewhere  UDP streams from another address than the connection's
//!
//!   admitted ─ parameters ─ streams come ─ data flows ─ TestEnd ─ results ─ done
//!                │             │              │           │          │
//!                └─────────────┴── client gone, too late, limit, stop ──► told, logged, everything given back
//! ```

mod broke;
mod elsewhere;
mod lane;
mod looks;
mod measured;
mod motion;
mod plan;
mod report;
mod reports;
mod talk;

use crate::event::{Event, Test, reason};
use crate::guest::Guest;
use crate::hub::{Hub, Pass};
use crate::places::Full;
use crate::rate::{self, BURST_NS, PIECE, Share};
use crate::waiting::{Opened, Streams, Waiting};
use broke::Break;
use elsewhere::Proven;
use lane::{ServedLane, Terms};
use looks::Looks;
use measured::Measured;
use motion::Motion;
use nix::poll::PollFd;
use plan::{GRACE_NS, ServePlan, Unfit};
use quell_load::bulk::Gate;
use quell_load::look::tcp_info;
use quell_load::pauses::Pauses;
use quell_load::rest::{Awaited, Rest};
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::option::set;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_sys::{SysError, socket::Udp};
use quell_wire::iperf3::{Cookie, Greeting, HelloToken, Report, Results, State};
use reports::Reports;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use talk::{LONGEST_DRAIN_NS, Talk};

/// For how much longer than its time, and four round trips, a test's data is sent over TCP: its client may have begun late.
const LATE_NS: u64 = 1_000_000_000;
/// After that time, how often it is looked at whether data still comes.
const STILL_NS: u64 = 2_000_000_000;
/// Datagrams that are still on their way when the client says that it is done are waited for so long at most: it waits for the results.
const LONGEST_REST_NS: u64 = 10_000_000_000;
/// Datagrams can't be held back: a test that gets more of them than it may ends when they are so far ahead, …
const TOO_FAST_NS: u64 = 250_000_000;
/// … which is looked at so often.
const METER_NS: u64 = 50_000_000;
/// A stream whose last piece has not left its socket is looked at again after so long, which doubles …
const UNSENT_NS: u64 = 250_000;
/// … up to so long: a quarter of what all of them may hold takes so long.
const LONGEST_UNSENT_NS: u64 = BURST_NS / 4;
/// How often a stream's hello is answered again. `quell flow` says it ever more seldom, iperf3 once.
const MOST_GREETINGS: u32 = 8;
/// Most datagrams that a client is believed to have sent in one stream.
const MOST_DATAGRAMS: u64 = 1 << 48;

/// Serves a test to its end; whether its data flowed.
pub fn run(hub: &Hub<'_>, guest: Guest, cookie: Cookie) -> bool {
    let peer = guest.peer;
    let mut talk = match Talk::new(&guest.stream, hub.limits.handshake_ns, hub.stop) {
        Ok(talk) => talk,
        Err(error) => {
            hub.refuse(peer, error);
            return false;
        }
    };
    let pass = match hub.begin(peer.ip(), &guest.stream, true) {
        Ok(pass) => pass,
        Err(full) => {
            talk.part(&Break::Busy(full.to_string()));
            hub.refuse(peer, full);
            return false;
        }
    };
    keep_alive(&guest);
    let ready = prepare(hub, &guest, &mut talk, &pass, cookie);
    let (plan, rates, lanes) = match ready {
        Ok(ready) => ready,
        Err(why) => {
            let lost = pass.lost().then(|| Break::Busy(Full::SentAway.to_string()));
            let why = lost.unwrap_or(why);
            talk.part(&why);
            hub.refuse(peer, why);
            return false;
        }
    };
    let told = hub.began(peer, &pass, describe(&plan));
    let local = guest.stream.local().map(|local| local.ip());
    let mut measured = Measured::new(&plan, local, &lanes);
    let result = measure(hub, (&guest, &pass), &mut talk, &plan, rates, &lanes, &mut measured);
    let outcome = report::outcome(&plan, &lanes, &measured);
    let result = result.and_then(|()| finish(&mut talk, &pass, &plan, &lanes, &mut measured));
    let result = result.map_err(|why| if pass.lost() { Break::StoodStill } else { why });
    if let Err(why) = &result {
        talk.part(why);
        // Its data connections break only when it has heard why.
        talk.await_end();
    }
    // Only now: the client reads its data connections until it has heard that all is over.
    lanes.iter().for_each(|lane| lane.abort());
    let broke = lanes.iter().find_map(ServedLane::broke).filter(|_| result.is_err());
    let why = result.err().map(|why| match broke {
        Some(error) => format!("{why}; {error}"),
        None => why.to_string(),
    });
    hub.ended(told.then_some(Event::Ended {
        session: pass.number,
        client: peer,
        why: why.as_ref().map(reason),
        result: outcome,
    }));
    true
}

/// Finds out that a client is gone without a word, where nothing else tells. Not within seconds: a path that is full of its data may take as long
/// for a probe, or lose nine of ten, and sixty of them in a row no more.
fn keep_alive(guest: &Guest) {
    let fd = guest.stream.as_fd();
    for (level, name, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 5),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 2),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 60),
        // The client's data may fill the path: what we say shall not wait for more to say.
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
    ] {
        // Without it, the end of the test's time does the same.
        let _ = set(fd, level, name, value, "an option of the control connection");
    }
}

fn describe(plan: &ServePlan) -> Test {
    Test {
        protocol: if plan.udp { "udp" } else { "tcp" },
        direction: match (plan.up, plan.down) {
            (_, 0) => "up",
            (0, _) => "down",
            _ => "both",
        },
        streams: u32::try_from(plan.up.max(plan.down)).unwrap_or(u32::MAX),
        seconds: plan.time_ns.map(|ns| ns as f64 / 1e9),
        program: plan.program.clone(),
    }
}

/// Everything until data may flow: the plan, what each stream may send in bits a second, the streams.
fn prepare(
    hub: &Hub<'_>,
    guest: &Guest,
    talk: &mut Talk<'_>,
    pass: &Pass<'_>,
    cookie: Cookie,
) -> Result<(ServePlan, Rates, Vec<ServedLane>), Break> {
    let used = || Break::Protocol("another test has its cookie".into());
    talk.say(State::ParamExchange)?;
    let plan = ServePlan::of(&talk.parameters()?, &hub.limits)?;
    pass.heard();
    hub.streams(pass, plan.streams()).map_err(|full| Break::Busy(full.to_string()))?;
    let rates = rates(hub, guest, &plan)?;
    let mut ip = guest.peer.ip().to_canonical();
    let proven = match plan.udp && plan.elsewhere {
        true => {
            let other = Streams::Tcp { elsewhere: true };
            let entry = hub.expect(cookie, ip, other, 1)?.ok_or_else(used)?;
            talk.say(plan.asks_for_streams())?;
            Some(Proven::wait_for(hub, guest, talk, &entry.waiting)?)
        }
        false => None,
    };
    ip = proven.as_ref().map_or(ip, |proven| proven.ip);
    let deadline = monotonic_ns().saturating_add(hub.limits.handshake_ns);
    // Held until all streams are there. A token says of which test they are.
    let known_by = plan.known_by(hub.secret.is_some());
    let _turn = match known_by {
        Streams::Udp(None) => Some(hub.turn(ip, deadline, pass).ok_or_else(|| {
            Break::Busy("other tests of this address were being given their UDP streams".into())
        })?),
        _ => None,
    };
    let entry = hub.expect(cookie, ip, known_by, plan.streams())?.ok_or_else(used)?;
    match &proven {
        Some(proven) => proven.tell(),
        None => talk.say(plan.asks_for_streams())?,
    }
    let mut opened = gather(hub, guest, talk, &plan, (&entry.waiting, pass))?;
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
                    rate::at_once(&stream)?;
                }
                ServedLane::tcp(index, stream, &plan, rates.all.is_some())
            }
            Opened::Udp(socket) => ServedLane::udp(index, socket, guest.peer.is_ipv6(), &plan),
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok((plan, rates, lanes))
}

/// In bits a second: what each stream that this end sends may use, and what the whole test may.
#[derive(Debug, Clone, Copy)]
struct Rates {
    each: Option<u64>,
    all: Option<u64>,
}

fn rates(hub: &Hub<'_>, guest: &Guest, plan: &ServePlan) -> Result<Rates, Break> {
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
        true => {
            let admitted = hub.governor.admits(guest.peer.ip(), asked);
            admitted.map_err(|full: Full| Break::Busy(full.to_string()))?
        }
        false => limit.map(|limit| asked.unwrap_or(limit)),
    };
    let share = all.map(|all| all / plan.streams().max(1) as u64);
    let each = [share, plan.rate].into_iter().flatten().min();
    Ok(Rates { each, all })
}

/// Waits for the client's streams.
fn gather(
    hub: &Hub<'_>,
    guest: &Guest,
    talk: &Talk<'_>,
    plan: &ServePlan,
    (waiting, pass): (&Waiting, &Pass<'_>),
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
            pass.heard();
        }
        if opened.len() > before {
            end_ns = match plan.udp {
                // Each is greeted for round trips of the path, one after the other. Nothing else of it takes time, and others wait for their turn.
                true => end_ns.saturating_add(talk.round_trips_ns()),
                // Each has to prove itself, where there is a secret: a step each.
                false => monotonic_ns().saturating_add(talk.patience_ns()),
            };
            alarm.set(Some(end_ns))?;
        }
        if opened.len() >= plan.streams() {
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
    let mut inbox = quell_sys::socket::Inbox::new(4, 64);
    // An error tells that the client closed its socket: then its control connection ends as well.
    let got = inbox.receive(socket.as_fd()).unwrap_or(0);
    if got > 0
        && *greeted < MOST_GREETINGS
        && let Some((_, hello)) = inbox
            .iter()
            .find(|(_, bytes)| Greeting::read(bytes).is_some_and(|hello| hello.token == token))
    {
        *greeted += 1;
        let _ = socket.send(&crate::udp::reply(hello));
    }
}

/// Lets data flow until the client says that it is done; errors when something else ends it. What was counted is kept either way.
fn measure<'a>(
    hub: &Hub<'_>,
    (guest, pass): (&Guest, &'a Pass<'a>),
    talk: &mut Talk<'a>,
    plan: &ServePlan,
    rates: Rates,
    lanes: &'a [ServedLane],
    measured: &mut Measured,
) -> Result<(), Break> {
    talk.say(State::TestStart)?;
    let now = monotonic_ns();
    (measured.start_ns, measured.count_ns, measured.end_ns) = (now, now + plan.omit_ns, now);
    let after = |more: u64| plan.end_ns(now, more, hub.limits.time_ns);
    let ends = (after(GRACE_NS), after(LONGEST_DRAIN_NS));
    // Nothing holds datagrams back: their time is over when it is, and not when the client's word has come. Nor does this end send on and on over TCP
    // where that never comes.
    let way_ns = LATE_NS.saturating_add(talk.round_trips_ns());
    let end_ns = |lane: &ServedLane| match (lane.sends, plan.udp) {
        (true, true) => after(0),
        (true, false) => after(way_ns).min(ends.1),
        (false, _) => ends.1,
    };
    // Rung for those that send, and for those that receive.
    let (halt, stop) = (Bell::new()?, Bell::new()?);
    let share = Share::new(&hub.governor, guest.peer.ip(), rates.all).of_streams(plan.down);
    let share = &share.of_incoming(if plan.udp { 0 } else { plan.up });
    if let Some(all) = rates.all.filter(|_| plan.udp && plan.up > 0) {
        share.takes_datagrams(all, monotonic_ns());
    }
    let cpu = std::mem::take(&mut measured.cpu);
    let result = std::thread::scope(|scope| {
        for lane in lanes {
            let (stop, cpu) = (if lane.sends { &halt } else { &stop }, &cpu);
            let end_ns = end_ns(lane);
            let room = if lane.takes_datagrams() { hub.room() } else { None };
            let rate = rates.each;
            let work = move || {
                let trains = room.is_some();
                let gate = &Near {
                    share,
                    lane,
                    look_ns: AtomicU64::new(UNSENT_NS),
                    held_ns: AtomicU64::new(0),
                };
                lane.carry(plan, &Terms { rate, end_ns, stop, gate, trains }, cpu);
            };
            let thread = std::thread::Builder::new().name("lane".into()).stack_size(256 * 1024);
            if let Err(error) = thread.spawn_scoped(scope, work) {
                halt.ring();
                stop.ring();
                return Err(SysError::io("start a thread", &error).into());
            }
        }
        let first = match plan.reports_ns {
            // That it knows of reports.
            Some(_) => talk.send(&reports::said(&Report::default())),
            None => Ok(()),
        };
        let result = first.and_then(|()| talk.say(State::TestRunning)).and_then(|()| {
            let motion = Motion::new(pass, &guest.stream, hub.limits.handshake_ns);
            watch(hub, guest, talk, plan, (rates.all, share, ends), (lanes, motion), measured)
        });
        measured.end_ns = monotonic_ns();
        halt.ring();
        let result = match result {
            Ok(()) if plan.udp && plan.up > 0 => {
                await_rest(hub, (guest, pass), talk, lanes, measured)
            }
            result => result,
        };
        stop.ring();
        result
    });
    cpu.add_thread();
    measured.cpu = cpu;
    if measured.count_ns > measured.end_ns {
        // It ended before what counts began: nothing does.
        measured.count_ns = measured.end_ns;
        measured.base = lanes.iter().map(|lane| lane.counted(0)).collect();
    }
    measured.last = lanes.iter().map(|lane| lane.counted(0)).collect();
    if measured.rest_is_lost {
        for (last, sent) in measured.last.iter_mut().zip(&measured.sent) {
            // What is missing behind the last that came is lost too.
            last.expected = last.expected.max(sent.unwrap_or(0));
            last.moment.lost = last.expected.saturating_sub(last.moment.packets);
        }
    }
    measured.complete_moments();
    lanes.iter().for_each(|lane| lane.finish());
    result
}

/// Lets a piece through when the one before it has left: what waits in a socket for a window that is closed leaves all at once when it opens.
struct Near<'a> {
    share: &'a Share<'a>,
    lane: &'a ServedLane,
    /// After how long it is looked again. A piece leaves soon, as a rule, and who is late then takes turns for nothing.
    look_ns: AtomicU64,
    /// Since when the rate that is allowed is used up; 0 while it is not.
    held_ns: AtomicU64,
}

impl Gate for Near<'_> {
    fn most(&self) -> Option<usize> {
        self.share.most()
    }

    fn pass(&self, bytes: usize, now: u64) -> Result<(), u64> {
        if self.share.most().is_some() && self.lane.unsent() > 0 {
            let look_ns = self.look_ns.load(Ordering::Relaxed);
            self.look_ns.store((2 * look_ns).min(LONGEST_UNSENT_NS), Ordering::Relaxed);
            return Err(now.saturating_add(look_ns));
        }
        self.look_ns.store(UNSENT_NS, Ordering::Relaxed);
        let passed = self.share.pass_of(self.lane.id.into(), bytes, now);
        let held_ns = self.held_ns.load(Ordering::Relaxed);
        if held_ns > 0 {
            self.lane.was_held_back(now.saturating_sub(held_ns));
        }
        self.held_ns.store(if passed.is_err() { now } else { 0 }, Ordering::Relaxed);
        passed
    }
}

/// Looks at the streams from time to time, until the client says that it is done; it may send so many bits a second, and take until a time,
/// or, while its data still comes, until a later one.
fn watch(
    hub: &Hub<'_>,
    guest: &Guest,
    talk: &Talk<'_>,
    plan: &ServePlan,
    (most, share, (mut end_ns, last_ns)): (Option<u64>, &Share<'_>, (u64, u64)),
    (lanes, mut motion): (&[ServedLane], Motion<'_>),
    measured: &mut Measured,
) -> Result<(), Break> {
    let mut alarm = Alarm::new()?;
    let mut looks = Looks::new(plan, measured.start_ns, hub.limits.rate_of_client());
    let mut reports = Reports::new(plan, measured.start_ns);
    let mut counting = measured.count_ns <= measured.start_ns;
    let mut came_before = 0;
    let mut pauses =
        (plan.quell && !plan.udp && plan.up > 0).then(|| Pauses::new(measured.start_ns));
    let mut meter = most.filter(|_| plan.udp && plan.up > 0).map(|most| Meter {
        most,
        start_ns: measured.start_ns,
        next_ns: measured.start_ns + METER_NS,
        came: 0,
    });
    loop {
        let metered = meter.as_ref().map_or(u64::MAX, |meter| meter.next_ns);
        let beat = pauses.as_ref().map_or(u64::MAX, Pauses::due_ns);
        let next = looks.next_ns.min(reports.next_ns).min(end_ns).min(metered).min(motion.next_ns);
        let next = next.min(beat);
        alarm.set(Some(if counting { next } else { next.min(measured.count_ns) }))?;
        let mut fds: [PollFd<'_>; 3] =
            [readable(&guest.stream), readable(hub.stop), readable(&alarm)];
        wait(&mut fds)?;
        if let Some(pauses) = &mut pauses {
            pauses.note(monotonic_ns());
            measured.paused = pauses.share();
        }
        if came(&fds[1]) {
            return Err(Break::ServerStopped);
        }
        if came(&fds[0]) {
            match talk.heard()? {
                Some(State::TestEnd) => {
                    let t_ns = measured.t_ns(monotonic_ns());
                    let marks: Vec<_> = lanes.iter().map(|lane| lane.counted(t_ns)).collect();
                    looks.keep(&marks, measured);
                    measured.unsaid = reports.unsaid();
                    return Ok(());
                }
                Some(state) => {
                    return Err(Break::Protocol(format!("{state:?} while data flowed")));
                }
                None => {}
            }
        }
        let now = monotonic_ns();
        if !counting && now >= measured.count_ns {
            counting = true;
            measured.count_ns = now;
            let t_ns = measured.t_ns(now);
            measured.base = lanes.iter().map(|lane| lane.counted(t_ns)).collect();
            looks.keep(&measured.base.clone(), measured);
            measured.base_arrivals = lanes.iter().map(|lane| lane.arrivals()).collect();
            lanes.iter().for_each(|lane| lane.forget_longest());
        }
        reports.say(now, lanes, &guest.stream);
        if now >= looks.next_ns {
            looks.look(now, hub.tests(), lanes, measured);
        }
        if let Some(meter) = &mut meter {
            meter.look(now, lanes, share)?;
        }
        motion.look(now, lanes)?;
        // A client waits in vain for datagrams that can't be sent.
        if let Some(error) =
            lanes.iter().filter(|l| plan.udp && l.sends).find_map(ServedLane::broke)
        {
            return Err(error.into());
        }
        if now >= end_ns {
            let came = taken(lanes);
            if now >= last_ns || came == came_before {
                return Err(Break::TimeUp);
            }
            came_before = came;
            end_ns = now.saturating_add(STILL_NS).min(last_ns);
        }
    }
}

/// Datagrams that come where a rate is limited.
#[derive(Debug)]
struct Meter {
    /// Bits a second.
    most: u64,
    start_ns: u64,
    next_ns: u64,
    /// Bytes until the last look.
    came: u64,
}

impl Meter {
    /// Charges what came, as far as it was allowed for; errors when it is too much.
    fn look(&mut self, now: u64, lanes: &[ServedLane], share: &Share<'_>) -> Result<(), Break> {
        if now < self.next_ns {
            return Ok(());
        }
        let lasted = now.saturating_sub(self.start_ns);
        self.next_ns = now + METER_NS;
        let came = taken(lanes);
        let in_time = |ns: u64| {
            let bytes = u128::from(self.most) * u128::from(ns) / 8_000_000_000;
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        // More than that is the client's fault, and others shall not wait for it.
        let allowed = in_time(lasted.saturating_add(BURST_NS));
        share.came(came.min(allowed).saturating_sub(self.came.min(allowed)), now);
        self.came = came;
        if came > in_time(lasted.saturating_add(TOO_FAST_NS)).saturating_add(PIECE as u64) {
            let bits = came as f64 * 8e9 / lasted.max(1) as f64;
            let why = format!("it sent {bits:.0} bit/s; it may send {}", self.most);
            return Err(Unfit::new(Unfit::RATE, why).into());
        }
        if share.is_too_much(TOO_FAST_NS, now) {
            let why = "others send datagrams too, and its network more than its part";
            return Err(Unfit::new(Unfit::RATE, why).into());
        }
        Ok(())
    }
}

/// Bytes that came so far.
fn taken(lanes: &[ServedLane]) -> u64 {
    lanes.iter().filter(|lane| !lane.sends).map(|lane| lane.counted(0).moment.bytes).sum()
}

/// Waits for the client's datagrams that are still on their way, else they would be taken for lost: the client tells how many it sent.
fn await_rest<'a>(
    hub: &Hub<'_>,
    (guest, pass): (&Guest, &'a Pass<'a>),
    talk: &mut Talk<'a>,
    lanes: &'a [ServedLane],
    measured: &mut Measured,
) -> Result<(), Break> {
    let theirs = trade_begins(talk, (pass, lanes), measured)?;
    let sent = |lane: &ServedLane| {
        let told = theirs.streams.iter().find(|stream| stream.id == lane.id)?;
        u64::try_from(told.packets).ok().filter(|sent| *sent <= MOST_DATAGRAMS && !lane.sends)
    };
    measured.sent = lanes.iter().map(sent).collect();
    if measured.host.is_some() {
        for (lane, sent) in lanes.iter().zip(&measured.sent) {
            lane.all_sent(*sent);
        }
    }
    let here = lanes.iter().zip(&measured.sent).filter(|(lane, _)| lane.takes_datagrams());
    let awaited = Awaited {
        lanes: here.map(|(lane, sent)| (&**lane, *sent)).collect(),
        done_ns: measured.end_ns,
        until_ns: measured.end_ns.saturating_add(LONGEST_REST_NS),
    };
    let round_trip = || tcp_info(&guest.stream).map_or(0, |info| u64::from(info.rtt) * 1000);
    measured.rest_is_lost = awaited.wait(&round_trip, hub.stop)? != Rest::Unknown;
    Ok(())
}

/// The exchange of results as far as the client's.
fn trade_begins<'a>(
    talk: &mut Talk<'a>,
    (pass, lanes): (&'a Pass<'a>, &'a [ServedLane]),
    measured: &mut Measured,
) -> Result<Results, Break> {
    talk.drains(lanes, pass)?;
    talk.send(&std::mem::take(&mut measured.unsaid))?;
    talk.say(State::ExchangeResults)?;
    measured.trades = true;
    talk.results()
}

/// The exchange of results, until the client has all it wants.
fn finish<'a>(
    talk: &mut Talk<'a>,
    pass: &'a Pass<'a>,
    plan: &ServePlan,
    lanes: &'a [ServedLane],
    measured: &mut Measured,
) -> Result<(), Break> {
    if !measured.trades {
        trade_begins(talk, (pass, lanes), measured)?;
    }
    let results = report::results(plan, lanes, measured);
    let frame = quell_wire::iperf3::frame(&results)
        .map_err(|error| Break::Protocol(format!("the results are no JSON: {error}")))?;
    talk.send(&frame)?;
    talk.say(State::DisplayResults)?;
    match talk.hear() {
        Ok(State::IperfDone) => Ok(()),
        Ok(state) => Err(Break::Protocol(format!("{state:?} instead of its end"))),
        // It has all it wanted; some versions just close.
        Err(Break::Gone) => Ok(()),
        Err(error) => Err(error),
    }
}
