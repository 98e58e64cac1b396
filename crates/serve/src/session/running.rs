//! A test while its data flows, until its results are told.

use super::lane::{ServedLane, Terms};
use super::measured::{Measurement, Reports, Sampling, said};
use super::plan::{Break, ServePlan, Unfit};
use super::report;
use super::streams::StreamRates;
use super::talk::ControlConnection;
use crate::hub::{Accepted, Hub, Pass};
use crate::limits::{PACE, TEST, Throttle};
use quell_load::bulk::Gate;
use quell_load::connection_sample::tcp_info;
use quell_load::rest::{Awaited, LOOK_NS, Rest};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_wire::iperf3::{Report, Results, State};
use std::sync::atomic::{AtomicU64, Ordering};

/// Lets data flow until the client says that it is done; errors when something else ends it. What was counted is kept either way.
pub fn measure<'a>(
    hub: &Hub<'_>,
    (guest, pass): (&Accepted, &'a Pass<'a>),
    talk: &mut ControlConnection<'a>,
    plan: &ServePlan,
    rates: StreamRates,
    lanes: &'a [ServedLane],
    measured: &mut Measurement,
) -> Result<(), Break> {
    talk.say(State::TestStart)?;
    let now = monotonic_ns();
    (measured.start_ns, measured.count_ns, measured.end_ns) = (now, now + plan.omit_ns, now);
    let after = |more: u64| plan.end_ns(now, more, hub.limits.time_ns);
    let ends = (after(TEST.grace_ns), after(TEST.drain_ns));
    // Nothing holds datagrams back: their time is over when it is, and not when the client's word has come. Nor does this end send on and on over TCP
    // where that never comes.
    let way_ns = TEST.late_ns.saturating_add(talk.round_trips_ns());
    let end_ns = |lane: &ServedLane| match (lane.sends, plan.udp) {
        (true, true) => after(0),
        (true, false) => after(way_ns).min(ends.1),
        (false, _) => ends.1,
    };
    // Rung for those that send, and for those that receive.
    let (halt, stop) = (Bell::new()?, Bell::new()?);
    let cpu = std::mem::take(&mut measured.cpu);
    let result = std::thread::scope(|scope| {
        for lane in lanes {
            let (stop, cpu) = (if lane.sends { &halt } else { &stop }, &cpu);
            let end_ns = end_ns(lane);
            let room = if lane.takes_datagrams() { hub.room() } else { None };
            let rate = rates.each;
            let work = move || {
                let trains = room.is_some();
                let throttle = Throttle::new(&hub.rates, guest.peer.ip(), plan.streams());
                let gate = &LaneGate { throttle, lane, held_ns: AtomicU64::new(0) };
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
            Some(_) => talk.send(&said(&Report::default())),
            None => Ok(()),
        };
        let result = first.and_then(|()| talk.say(State::TestRunning)).and_then(|()| {
            watch(hub, (guest, pass), talk, plan, (rates.all, ends), lanes, measured)
        });
        measured.end_ns = monotonic_ns();
        halt.ring();
        let result = match result {
            Ok(()) if plan.udp && plan.up > 0 => {
                await_rest(hub, (guest, pass), talk, lanes, measured)
            }
            Ok(()) if plan.down == 0 => await_amount(hub, plan, lanes, measured),
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

/// Holds a stream to the rates, and notes for how long.
struct LaneGate<'a> {
    throttle: Throttle<'a>,
    lane: &'a ServedLane,
    /// Since when the rate that is allowed is used up; 0 while it is not.
    held_ns: AtomicU64,
}

impl Gate for LaneGate<'_> {
    fn most(&self) -> Option<usize> {
        self.throttle.most()
    }

    fn pass(&self, bytes: usize, now: u64) -> Result<(), u64> {
        let passed = self.throttle.pass(bytes, now);
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
    (guest, pass): (&Accepted, &Pass<'_>),
    talk: &ControlConnection<'_>,
    plan: &ServePlan,
    (most, (mut end_ns, last_ns)): (Option<u64>, (u64, u64)),
    lanes: &[ServedLane],
    measured: &mut Measurement,
) -> Result<(), Break> {
    let mut alarm = Alarm::new()?;
    let mut looks = Sampling::new(plan, measured.start_ns, hub.limits.rate_of_client());
    let mut reports = Reports::new(plan, measured.start_ns);
    let mut counting = measured.count_ns <= measured.start_ns;
    let mut came_before = 0;
    let mut motion = (measured.start_ns, 0);
    let mut meter = most.filter(|_| plan.udp && plan.up > 0).map(|most| Meter {
        most,
        start_ns: measured.start_ns,
        next_ns: measured.start_ns + TEST.meter_ns,
        came: 0,
        throttle: Throttle::new(&hub.rates, guest.peer.ip(), 1),
    });
    loop {
        let metered = meter.as_ref().map_or(u64::MAX, |meter| meter.next_ns);
        let next = looks.next_ns.min(reports.next_ns).min(end_ns).min(metered).min(motion.0);
        alarm.set(Some(if counting { next } else { next.min(measured.count_ns) }))?;
        let mut fds = [readable(&guest.stream), readable(hub.stop), readable(&alarm)];
        wait(&mut fds)?;
        if came(&fds[1]) {
            return Err(Break::ServerStopped);
        }
        let heard = if came(&fds[0]) { talk.heard()? } else { None };
        match heard {
            Some(State::TestEnd) => {
                let t_ns = measured.t_ns(monotonic_ns());
                let marks: Vec<_> = lanes.iter().map(|lane| lane.counted(t_ns)).collect();
                looks.keep(&marks, measured);
                measured.unsaid = reports.unsaid();
                return Ok(());
            }
            Some(state) => return Err(Break::Protocol(format!("{state:?} while data flowed"))),
            None => {}
        }
        let now = monotonic_ns();
        if !counting && now >= measured.count_ns {
            counting = true;
            begin_to_count(now, &looks, lanes, measured);
        }
        reports.say(now, lanes, &guest.stream);
        if now >= looks.next_ns {
            looks.look(now, hub.tests(), lanes, measured);
        }
        if let Some(meter) = &mut meter {
            meter.look(now, lanes)?;
        }
        if now >= motion.0 {
            let bytes = lanes.iter().map(ServedLane::through).sum();
            let is_lost = if bytes > motion.1 { pass.active().is_err() } else { pass.lost() };
            if is_lost {
                return Err(Break::Idle);
            }
            motion = (now.saturating_add(TEST.motion_ns), bytes);
        }
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
            end_ns = now.saturating_add(TEST.still_ns).min(last_ns);
        }
    }
}

/// What comes from now on counts.
fn begin_to_count(now: u64, looks: &Sampling, lanes: &[ServedLane], measured: &mut Measurement) {
    measured.count_ns = now;
    let t_ns = measured.t_ns(now);
    measured.base = lanes.iter().map(|lane| lane.counted(t_ns)).collect();
    looks.keep(&measured.base.clone(), measured);
    measured.base_arrivals = lanes.iter().map(|lane| lane.arrivals()).collect();
    lanes.iter().for_each(|lane| lane.forget_longest());
}

/// Datagrams that come where a rate is limited.
struct Meter<'a> {
    throttle: Throttle<'a>,
    most: u64,
    start_ns: u64,
    next_ns: u64,
    /// Bytes until the last look.
    came: u64,
}

impl Meter<'_> {
    /// Charges what came, as far as it was allowed for; errors when it is too much.
    fn look(&mut self, now: u64, lanes: &[ServedLane]) -> Result<(), Break> {
        if now < self.next_ns {
            return Ok(());
        }
        let lasted = now.saturating_sub(self.start_ns);
        self.next_ns = now + TEST.meter_ns;
        let came = taken(lanes);
        let in_time = |ns: u64| {
            let bytes = u128::from(self.most) * u128::from(ns) / 8_000_000_000;
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        // More than that is the client's fault, and others shall not wait for it.
        let allowed = in_time(lasted.saturating_add(PACE.burst_ns));
        self.throttle.came(came.min(allowed).saturating_sub(self.came.min(allowed)), now);
        self.came = came;
        if came > in_time(lasted.saturating_add(TEST.too_fast_ns)).saturating_add(PACE.piece as u64)
        {
            let bits = came as f64 * 8e9 / lasted.max(1) as f64;
            let why = format!("it sent {bits:.0} bit/s; it may send {}", self.most);
            return Err(Unfit::new(Unfit::RATE, why).into());
        }
        Ok(())
    }
}

fn taken(lanes: &[ServedLane]) -> u64 {
    lanes.iter().filter(|lane| !lane.sends).map(|lane| lane.counted(0).moment.bytes).sum()
}

/// Waits for the client's datagrams that are still on their way, else they would be taken for lost: the client tells how many it sent.
fn await_rest<'a>(
    hub: &Hub<'_>,
    (guest, pass): (&Accepted, &'a Pass<'a>),
    talk: &mut ControlConnection<'a>,
    lanes: &'a [ServedLane],
    measured: &mut Measurement,
) -> Result<(), Break> {
    pass.active().map_err(|_| Break::Idle)?;
    let theirs = trade_begins(talk, measured)?;
    let sent = |lane: &ServedLane| {
        let told = theirs.streams.iter().find(|stream| stream.id == lane.id)?;
        u64::try_from(told.packets).ok().filter(|sent| *sent <= TEST.datagrams && !lane.sends)
    };
    measured.sent = lanes.iter().map(sent).collect();
    let here = lanes.iter().zip(&measured.sent).filter(|(lane, _)| lane.takes_datagrams());
    let awaited = Awaited {
        lanes: here.map(|(lane, sent)| (&**lane, *sent)).collect(),
        done_ns: measured.end_ns,
        until_ns: measured.end_ns.saturating_add(TEST.rest_ns),
    };
    let round_trip = || tcp_info(&guest.stream).map_or(0, |info| u64::from(info.rtt) * 1000);
    measured.rest_is_lost = awaited.wait(&round_trip, hub.stop)? != Rest::Unknown;
    Ok(())
}

/// Waits for what a client of TCP has handed to its kernel when it says that it is done, while it still comes.
fn await_amount(
    hub: &Hub<'_>,
    plan: &ServePlan,
    lanes: &[ServedLane],
    measured: &mut Measurement,
) -> Result<(), Break> {
    let mut alarm = Alarm::new()?;
    let (mut came_before, mut now) = (taken(lanes), measured.end_ns);
    while came_before < plan.bytes.unwrap_or(0)
        && now < measured.end_ns.saturating_add(TEST.still_ns)
    {
        alarm.set(Some(now.saturating_add(LOOK_NS)))?;
        let mut fds = [readable(hub.stop), readable(&alarm)];
        wait(&mut fds)?;
        if came(&fds[0]) {
            return Err(Break::ServerStopped);
        }
        now = monotonic_ns();
        let came = taken(lanes);
        if came > came_before {
            (came_before, measured.end_ns) = (came, now);
        }
    }
    Ok(())
}

/// The exchange of results as far as the client's.
fn trade_begins(
    talk: &mut ControlConnection<'_>,
    measured: &mut Measurement,
) -> Result<Results, Break> {
    talk.drains();
    talk.send(&std::mem::take(&mut measured.unsaid))?;
    talk.say(State::ExchangeResults)?;
    measured.trades = true;
    talk.results()
}

/// The exchange of results, until the client has all it wants.
pub fn finish(
    talk: &mut ControlConnection<'_>,
    plan: &ServePlan,
    lanes: &[ServedLane],
    measured: &mut Measurement,
) -> Result<(), Break> {
    if !measured.trades {
        trade_begins(talk, measured)?;
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
