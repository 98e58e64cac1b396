//! A test from its first word to its last.
//!
//! ```text
//!   connect ── idle latency ── cookie, parameters, streams ──┬── a thread a stream: sends or receives
//!                                                            ├── a thread: latency beside the load
//!                                                            └── this thread: looks at each stream, reports, watches the server
//!   time or bytes are over ── senders stop ── both ends trade results ── datagrams still on their way come ── receivers stop
//! ```

use crate::Progress;
use crate::control::{AFTER, ControlConnection, RESULTS, STOPPED};
use crate::lane::{Move, OpenLane};
use crate::latency::{self, Latency, PingWait};
use crate::measurement::FlowMeasurement;
use crate::sampler::StreamSampler;
use crate::server_report;
use crate::{Amount, FlowError, FlowPlan, Senders, Transport, own_results};
use quell_host::cpu_time::CpuTimes;
use quell_host::{counted, end};
use quell_load::bulk::{Ended, Gate, Limit};
use quell_load::connection_sample;
use quell_load::lane::Lane;
use quell_load::rest::{Awaited, Rest};
use quell_model::EchoSample;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::{Alarm, Bell, came, readable, wait, wake_exactly};
use quell_units::Span;
use quell_wire::iperf3::{HostCounters, Results, State};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope, scope};
use std::time::SystemTime;

/// How often the end of a test of so many bytes is looked for, once it may have come, where nothing tells of it.
const CLOSE_LOOK_NS: u64 = 2_000_000;
/// How long the last bytes of a test may take to be acknowledged.
const LAST_BYTES_NS: u64 = 10_000_000_000;
/// How long a broken stream's server may take to say why.
const WHY_NS: u64 = 1_000_000_000;
/// How long a sender may take to end.
const SENDERS_NS: u64 = 200_000_000;
/// How long the last datagrams may be on their way: longer than any queue that somebody still uses.
const LONGEST_REST_NS: u64 = 60_000_000_000;
const DAY: Span = Span::from_secs(86_400);
const STACK: usize = 256 * 1024;

/// Carries a test out. `tell` is called as it goes, from this thread. When the bell rings, what was measured until then is traded and
/// returned.
///
/// Errors when no data flowed at all; later ones are in the outcome, with what was measured before.
pub fn run(
    plan: &FlowPlan,
    stop: &Bell,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<FlowMeasurement, FlowError> {
    plan.check()?;
    let mut talk = ControlConnection::open(plan, stop)?;
    let info = connection_sample::tcp_info(&talk.stream);
    let mss = info.map(|info| info.snd_mss).filter(|mss| *mss > 0);
    let block = plan.block_size(mss);
    let plan = &plan.in_bytes(block);
    tell(Progress::Connected { block });
    let latency = match plan.latency {
        true => latency::idle(plan, info.map_or(0, |info| info.rtt), stop),
        false => Latency::default(),
    };
    if stop.rings() {
        return Err(FlowError::Stopped);
    }
    talk = talk.greet(plan, stop)?;
    talk.introduce(plan.parameters(block), stop)?;
    // Open until the streams stand.
    let _proof = match plan.proves_address() {
        true => Some(talk.prove_address(plan, stop)?),
        false => None,
    };
    let lanes = (0..plan.all_streams())
        .map(|place| OpenLane::open(place, plan, &talk, stop))
        .collect::<Result<Vec<_>, _>>()?;
    talk.expect(State::TestStart, "when the streams stood", stop).map_err(|error| {
        let unheard = lanes.iter().find(|lane| !lane.is_heard);
        match (unheard, error) {
            // It was in vain that it waited for our datagrams, as we did for its.
            (Some(lane), FlowError::Ended(..)) => FlowError::NoUdp(lane.remote),
            (_, error) => error,
        }
    })?;
    talk.expect(State::TestRunning, "when the streams stood", stop)?;
    tell(Progress::Started { latency: &latency, hears: talk.heard().is_some() });
    let started = SystemTime::now();
    let device = lanes.first().and_then(|lane| end::device_with(lane.local.ip()));
    let test = Test { plan, talk: &talk, lanes: &lanes, block, device };
    let measured = test.measure(latency, stop, tell)?;
    let mut outcome = FlowMeasurement {
        started,
        cookie: talk.cookie.text().into(),
        block,
        control_mss: mss,
        control_rtt_us: info.map(|info| info.rtt),
        path_mtu: info.map(|info| info.pmtu),
        ..measured
    };
    for lane in &lanes {
        lane.abort();
    }
    outcome.intervals.shrink_to_fit();
    Ok(outcome)
}

struct Test<'a> {
    plan: &'a FlowPlan,
    talk: &'a ControlConnection,
    lanes: &'a [OpenLane],
    block: u64,
    device: Option<String>,
}

struct Ringing<'a>(&'a Bell);

impl Drop for Ringing<'_> {
    fn drop(&mut self) {
        self.0.ring();
    }
}

enum TestEnd {
    Complete,
    Stopped,
    Broke(String),
}

#[derive(Clone, Default)]
struct MissingResults {
    /// In words; none where nobody waited for them.
    broke: Option<String>,
    /// It said that they come, or waits for ours, which did not reach it.
    vanished: bool,
}

impl MissingResults {
    fn of(broke: String) -> Self {
        Self { broke: Some(broke), vanished: false }
    }
}

/// When to look for the last datagram of an amount: after half of the time that the rest takes to be sent, no later than when it must be lost.
fn until_last(rest_ns: u64, past_ns: u64) -> u64 {
    (rest_ns / 2).min(past_ns).max(CLOSE_LOOK_NS)
}

/// Bells of a test's threads.
struct Bells {
    /// Senders stop.
    halt: Bell,
    /// Receivers stop too.
    over: Bell,
    /// A mover ended, or an amount has come.
    ended: Bell,
    /// No more pings.
    enough: Bell,
    /// The last ping's fate is known.
    pinged: Bell,
}

/// How a test ended, and what both ends tell of it.
struct Traded {
    why: TestEnd,
    ours: Results,
    theirs: Result<Results, MissingResults>,
    rest: Rest,
}

impl Test<'_> {
    fn measure(
        &self,
        mut latency: Latency,
        stop: &Bell,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<FlowMeasurement, FlowError> {
        let new = Bell::new;
        let bells =
            Bells { halt: new()?, over: new()?, ended: new()?, enough: new()?, pinged: new()? };
        let counters = counted::now(self.device.as_deref());
        let start = monotonic_ns();
        let origin = start + self.plan.omit.nanos();
        let (end, bytes) = match self.plan.amount {
            Amount::Time(time) => (Some(origin + time.nanos()), 0),
            Amount::Bytes(bytes) => (None, bytes),
        };
        let duration_ns = end.map_or(DAY.nanos(), |end| end - start);
        let window = Window { origin_ns: origin, start_ns: start, duration_ns };
        let arrived = ByteCountdown::after(bytes, &bells.ended);
        let (loaded, pings) = (Mutex::new(Ok(0)), Mutex::new(Vec::new()));
        let (method, each_ns) = (latency.method, latency.each_ns);
        let (traded, after, watch, load_ended, waited) = scope(|scope| {
            self.spawn_streams(scope, end, &arrived, &bells)?;
            if let Some(method) = method {
                let (window, bells, loaded, pings) = (&window, &bells, &loaded, &pings);
                scope.spawn(move || {
                    let how = (method, each_ns);
                    let found = latency::loaded(self.plan, how, window, &bells.enough, pings);
                    *loaded.lock().unwrap_or_else(PoisonError::into_inner) = found;
                    bells.pinged.ring();
                });
            }
            let mut watch =
                StreamSampler::new(self.lanes, origin, start, self.plan, self.device.as_deref());
            // Whatever happens, the pings end with it.
            let _enough = Ringing(&bells.enough);
            let result = self.watch(&mut watch, end, (stop, &bells.ended), &pings, tell);
            let cpu = CpuTimes::now().since(&watch.cpu);
            bells.halt.ring();
            let load_ended = monotonic_ns();
            tell(Progress::Ending);
            let after = counted::now(self.device.as_deref());
            let traded = result.and_then(|why| {
                self.await_senders(&bells.ended)?;
                let ours = |watch: &StreamSampler<'_>| {
                    own_results::results(self.plan, watch, cpu, &counters, &after)
                };
                self.trade_and_settle(why, &mut watch, &ours, (load_ended, &pings, stop), tell)
            });
            bells.over.ring();
            // Senders that are stuck in the kernel, as those of zero copy, come free.
            if !matches!(&traded, Ok(Traded { theirs: Ok(_), .. })) {
                self.lanes.iter().for_each(|lane| lane.abort());
            }
            let is_whole =
                matches!(&traded, Ok(Traded { why: TestEnd::Complete, theirs: Ok(_), .. }));
            let waits = method.is_some() && is_whole;
            let needed_ns = match waits {
                true => {
                    let bells = (&bells.pinged, stop);
                    self.await_pings((load_ended, window), &pings, &watch, bells)?
                }
                // Nobody waits for those that are under way: they are not lost for it.
                false => latency::needed_ns(self.longest_round_trip_ns(&pings, &watch)),
            };
            let end_ns = window.t(monotonic_ns());
            let waited = PingWait { end_ns, needed_ns, whole: waits && !stop.rings() };
            traded.map(|traded| (traded, after, watch, load_ended, waited))
        })?;
        latency.loaded = latency::sorted(pings);
        // What was sent behind the load is no measure of it.
        latency.loaded.retain(|ping| ping.t_ns <= window.t(load_ended));
        latency::tell_late(&mut latency.loaded, waited);
        latency.pinged_beside(loaded.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(self.outcome(traded, watch, latency, counted::between(&counters, &after)))
    }

    /// A thread for each stream.
    fn spawn_streams<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        end: Option<u64>,
        arrived: &'env ByteCountdown<'_>,
        bells: &'env Bells,
    ) -> Result<(), FlowError> {
        for lane in self.lanes {
            let limit = self.limit(lane, end);
            let work = move || {
                let (block, halt, over) = (self.block, &bells.halt, &bells.over);
                wake_exactly();
                lane.carry(self.plan, &Move { block, limit, arrived, halt, over });
                bells.ended.ring();
            };
            let thread = Builder::new().stack_size(STACK).name("flow".into());
            thread.spawn_scoped(scope, work).map_err(|e| {
                bells.over.ring();
                bells.halt.ring();
                quell_sys::SysError::io("start a thread for a stream", &e)
            })?;
        }
        Ok(())
    }

    /// Both ends tell what they counted, and the last datagrams come.
    fn trade_and_settle(
        &self,
        why: TestEnd,
        watch: &mut StreamSampler<'_>,
        results: &dyn Fn(&StreamSampler<'_>) -> Results,
        (load_ended, pings, stop): (u64, &Mutex<Vec<EchoSample>>, &Bell),
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Traded, FlowError> {
        let mut ours = Results::default();
        let mut told = || {
            watch.settle(tell);
            ours = results(watch);
            ours.clone()
        };
        let (why, theirs) = self.trade(why, &mut told, stop);
        let rest = match (&why, &theirs) {
            (TestEnd::Complete, Ok(theirs)) => self.await_rest(theirs, load_ended, pings, stop)?,
            _ => Rest::Unknown,
        };
        watch.settle(tell);
        if ours.streams.is_empty() {
            ours = results(watch);
        }
        Ok(Traded { why, ours, theirs, rest })
    }

    fn outcome(
        &self,
        traded: Traded,
        watch: StreamSampler<'_>,
        latency: Latency,
        here: HostCounters,
    ) -> FlowMeasurement {
        let Traded { why, ours, theirs, rest } = traded;
        // Who stopped it did not want to wait for the server.
        let MissingResults { broke, vanished } = theirs.as_ref().err().cloned().unwrap_or_default();
        let (mut lanes, seconds) = (watch.outcomes(), watch.seconds());
        let mut doubts = Vec::new();
        let theirs = theirs
            .ok()
            .map(|theirs| server_report::checked(theirs, self.plan.transport, &lanes, &mut doubts));
        for told in theirs.iter().flat_map(|theirs| &theirs.streams) {
            if rest != Rest::Unknown
                && let Some(lane) = lanes.iter_mut().find(|lane| lane.id == told.id)
            {
                let most = self.plan.datagrams_of(told.id, self.block).unwrap_or(u64::MAX);
                lane.all_sent(u64::try_from(told.packets).unwrap_or(0).min(most));
            }
        }
        FlowMeasurement {
            plan: self.plan.clone(),
            started: SystemTime::UNIX_EPOCH,
            cookie: String::new(),
            block: self.block,
            control_mss: None,
            control_rtt_us: None,
            path_mtu: None,
            seconds,
            lanes,
            own_queue: watch.own_queue().cloned(),
            incoming: watch.incoming(),
            intervals: watch.intervals,
            ours,
            theirs,
            doubts,
            here: Some(here),
            latency,
            broke,
            results_vanished: vanished,
            stopped: matches!(why, TestEnd::Stopped),
        }
    }

    /// Waits for the pings that were sent beside the load, as long as the path shows to be needed: twice the longest round trip of a ping or of
    /// TCP, or what the server's results took. How long that is, in nanoseconds.
    fn await_pings(
        &self,
        (load_ended, window): (u64, Window),
        pings: &Mutex<Vec<EchoSample>>,
        watch: &StreamSampler<'_>,
        (pinged, stop): (&Bell, &Bell),
    ) -> Result<u64, FlowError> {
        let traded = monotonic_ns().saturating_sub(load_ended);
        let mut alarm = Alarm::new()?;
        loop {
            let longest = traded.max(self.longest_round_trip_ns(pings, watch));
            let needed = latency::needed_ns(longest);
            let now = monotonic_ns();
            let end = load_ended.saturating_add(needed);
            // Beside an amount pings go on until they are told to end, answered or not.
            let is_known = matches!(self.plan.amount, Amount::Bytes(_)) && {
                let pings = pings.lock().unwrap_or_else(PoisonError::into_inner);
                latency::all_known(&pings, window.t(load_ended))
            };
            if now >= end || stop.rings() || is_known {
                return Ok(needed);
            }
            alarm.set(Some(end.min(now + latency::FLUSH.nanos())))?;
            let mut fds = [readable(pinged), readable(stop), readable(&alarm)];
            wait(&mut fds)?;
            if came(&fds[0]) {
                return Ok(needed);
            }
        }
    }

    /// The longest round trip that a ping or TCP saw, in nanoseconds.
    fn longest_round_trip_ns(
        &self,
        pings: &Mutex<Vec<EchoSample>>,
        watch: &StreamSampler<'_>,
    ) -> u64 {
        let tcp_us = watch.now.iter().map(|mark| mark.moment.srtt_us).max().unwrap_or(0);
        self.round_trip_ns(pings).max(tcp_us * 1000)
    }

    fn round_trip_ns(&self, pings: &Mutex<Vec<EchoSample>>) -> u64 {
        let words_us = connection_sample::tcp_info(&self.talk.stream).map_or(0, |info| info.rtt);
        let pings = pings.lock().unwrap_or_else(PoisonError::into_inner);
        latency::longest_ns(&pings).max(u64::from(words_us) * 1000)
    }

    fn limit(&self, lane: &OpenLane, end: Option<u64>) -> Limit {
        let amount = self.plan.amount_of(lane.id, self.block);
        match (self.plan.amount, lane.sends) {
            (Amount::Time(_), true) => Limit { bytes: None, end_ns: end },
            // Receivers take what comes until all is over.
            (Amount::Time(_), false) => Limit::NONE,
            (Amount::Bytes(_), true) => Limit { bytes: amount.or(Some(0)), end_ns: end },
            (Amount::Bytes(_), false) if lane.takes_datagrams() || self.plan.streams == 1 => {
                Limit { bytes: amount, end_ns: None }
            }
            (Amount::Bytes(_), false) => Limit::NONE,
        }
    }

    fn watch(
        &self,
        watch: &mut StreamSampler<'_>,
        end: Option<u64>,
        (stop, ended): (&Bell, &Bell),
        pings: &Mutex<Vec<EchoSample>>,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<TestEnd, FlowError> {
        wake_exactly();
        let mut alarm = Alarm::new()?;
        let mut last_bytes = None;
        let mut silence = (0, monotonic_ns());
        let mut still = StallTimer::new(monotonic_ns());
        loop {
            let now = monotonic_ns();
            let is_over = self.all_through(watch, now, &mut last_bytes, pings)
                || end.is_some_and(|end| now >= end);
            watch.look(now, is_over, tell);
            if is_over {
                return Ok(TestEnd::Complete);
            }
            if let Some(why) = self.broken()? {
                watch.look(monotonic_ns(), true, tell);
                return Ok(TestEnd::Broke(why));
            }
            let close = match self.plan.amount {
                Amount::Time(_) => None,
                Amount::Bytes(_) => {
                    self.until_close_look(now, watch.start(), pings).map(|ns| now + ns)
                }
            };
            let next = [end, close].into_iter().flatten().fold(watch.due(now), u64::min);
            alarm.set(Some(next))?;
            let mut fds =
                [readable(&self.talk.stream), readable(stop), readable(&alarm), readable(ended)];
            wait(&mut fds)?;
            let (mut said, mut stopped) = (came(&fds[0]), came(&fds[1]));
            ended.silence();
            let mut word = None;
            if said {
                word = Some(self.talk.next("during the test", stop));
                match word {
                    Some(Ok(State::Report)) => {
                        (said, watch.heard) = (false, self.talk.heard());
                    }
                    // Half a word came, and then the bell rang.
                    Some(Err(FlowError::Stopped)) => (said, stopped) = (false, true),
                    _ => {}
                }
            }
            if said || stopped {
                watch.look(monotonic_ns(), true, tell);
            }
            if let Some(word) = word.filter(|_| said) {
                let why = match word {
                    Ok(state) => format!("the server said {state:?} in the middle of the test"),
                    Err(error) => self.why(&error),
                };
                return Ok(TestEnd::Broke(why));
            }
            if let Some(why) =
                self.silent(watch, &mut silence).or_else(|| self.stands(watch, &mut still))
            {
                watch.look(monotonic_ns(), true, tell);
                return Ok(TestEnd::Broke(why));
            }
            if stopped {
                return Ok(TestEnd::Stopped);
            }
        }
    }

    /// Why to end it, where nothing has come for longer than the plan has patience. `silence` is how much had come when something last did, and when.
    fn silent(&self, watch: &StreamSampler<'_>, silence: &mut (u64, u64)) -> Option<String> {
        let within = self.plan.receive_within?;
        if self.plan.direction == Senders::Up {
            return None;
        }
        let now = monotonic_ns();
        let here = self.lanes.iter().filter(|lane| !lane.sends);
        let came = here.map(|lane| lane.counted(watch.window_t(now)).moment.bytes).sum();
        if came > silence.0 {
            *silence = (came, now);
        }
        let waited = now.saturating_sub(silence.1);
        (waited > within.nanos())
            .then(|| format!("nothing came from the server for {within} (--rcv-timeout)"))
    }

    /// Why to end a test of so many bytes, where none of them have moved for long.
    fn stands(&self, watch: &StreamSampler<'_>, still: &mut StallTimer) -> Option<String> {
        let Amount::Bytes(bytes) = self.plan.amount else { return None };
        let now = monotonic_ns();
        let moved = self.lanes.iter().map(|lane| lane.counted(watch.window_t(now)).moment.bytes);
        let receives = self.lanes.iter().all(|lane| !lane.sends);
        still.look(moved.sum(), bytes, receives, now)
    }

    fn all_through(
        &self,
        watch: &mut StreamSampler<'_>,
        now: u64,
        last_bytes: &mut Option<u64>,
        pings: &Mutex<Vec<EchoSample>>,
    ) -> bool {
        let Amount::Bytes(bytes) = self.plan.amount else { return false };
        let acked = watch.note_done(now);
        let sent = self.lanes.iter().filter(|lane| lane.sends).all(|lane| lane.ended().is_some());
        if !sent {
            return false;
        }
        let since = *last_bytes.get_or_insert(now);
        let late = now.saturating_sub(since) > LAST_BYTES_NS;
        let receives = self.plan.direction != Senders::Up;
        let came: u64 = self
            .lanes
            .iter()
            .filter(|lane| !lane.sends)
            .map(|lane| lane.counted(watch.window_t(now)).moment.bytes)
            .sum();
        match receives {
            true if self.plan.transport == Transport::Udp => {
                let mut lanes = self.lanes.iter().filter(|lane| !lane.sends);
                (acked || late) && lanes.all(|lane| self.is_past(lane, now, watch.start(), pings))
            }
            // Only what is sent has an end that is not the receiver's.
            true => came >= bytes && (acked || late),
            false => acked || late,
        }
    }

    /// In how many nanoseconds to look whether a test of so many bytes is over; none where a bell tells. That a sender has written all, or that an
    /// amount has come over TCP, one does; that the last byte was acknowledged, or the last datagram came, nothing does.
    fn until_close_look(
        &self,
        now: u64,
        start: u64,
        pings: &Mutex<Vec<EchoSample>>,
    ) -> Option<u64> {
        let mut senders = self.lanes.iter().filter(|lane| lane.sends).peekable();
        if senders.peek().is_some() {
            return senders.any(|lane| lane.ended().is_some()).then_some(CLOSE_LOOK_NS);
        }
        let until = |lane: &OpenLane| {
            let past_ns = self.past_ns(lane, start, pings);
            until_last(self.lasts_ns(self.left(lane)), past_ns.saturating_sub(now))
        };
        match self.plan.transport {
            Transport::Tcp => None,
            Transport::Udp => self.lanes.iter().map(until).max(),
        }
    }

    /// Whether no more datagrams of an amount come on a stream: the last one did, or the sender must have sent it and nothing came for as long as
    /// the path shows to be needed.
    fn is_past(
        &self,
        lane: &OpenLane,
        now: u64,
        start: u64,
        pings: &Mutex<Vec<EchoSample>>,
    ) -> bool {
        self.left(lane) == 0 || now >= self.past_ns(lane, start, pings)
    }

    /// How many datagrams of an amount are behind the last one that came on a stream.
    fn left(&self, lane: &OpenLane) -> u64 {
        let count = self.plan.datagrams_of(lane.id, self.block).unwrap_or(0);
        count.saturating_sub(lane.counted(0).expected)
    }

    /// How long it takes to send so many datagrams at the rate that was asked for.
    fn lasts_ns(&self, datagrams: u64) -> u64 {
        self.plan.rate.map_or(0, |rate| {
            let bits = u128::from(datagrams) * u128::from(self.block) * 8;
            u64::try_from(bits * 1_000_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX)
        })
    }

    /// When what has not come on a stream of an amount must be lost.
    fn past_ns(&self, lane: &OpenLane, start: u64, pings: &Mutex<Vec<EchoSample>>) -> u64 {
        let count = self.plan.datagrams_of(lane.id, self.block).unwrap_or(0);
        let arrivals = lane.arrivals().unwrap_or_default();
        let quiet_ns = latency::needed_ns(self.round_trip_ns(pings));
        let quiet_ns = quiet_ns.max(arrivals.longest_ns.saturating_mul(2));
        let sent_ns = start.saturating_add(self.lasts_ns(count));
        sent_ns.max(arrivals.last_ns).saturating_add(quiet_ns)
    }

    /// Why a stream ended before its time, if one did; the server knows best.
    fn broken(&self) -> Result<Option<String>, FlowError> {
        let failed = self.lanes.iter().find_map(|lane| match lane.ended() {
            Some(Err(error)) if error.errno == nix::errno::Errno::EMSGSIZE => {
                Some((lane.id, self.too_large("this host", "the server")))
            }
            Some(Err(error)) => Some((lane.id, error.to_string())),
            Some(Ok(Ended::Closed)) => Some((lane.id, "the server closed it".into())),
            _ => None,
        });
        let Some((id, error)) = failed else { return Ok(None) };
        let mut alarm = Alarm::new()?;
        alarm.set(Some(monotonic_ns() + WHY_NS))?;
        let said = loop {
            let mut fds = [readable(&self.talk.stream), readable(&alarm)];
            wait(&mut fds)?;
            if !came(&fds[0]) {
                break None;
            }
            match self.talk.next("during the test", &Bell::new()?) {
                Ok(State::Report) if came(&fds[1]) => break None,
                Ok(State::Report) => {}
                said => break said.err(),
            }
        };
        Ok(Some(match said {
            Some(said) => self.why(&said),
            None => format!("stream {id} broke: {error}"),
        }))
    }

    fn why(&self, error: &FlowError) -> String {
        match error {
            FlowError::Server { errno: libc::EMSGSIZE, .. } => self.too_large("the server", "here"),
            error => error.to_string(),
        }
    }

    /// That datagrams are more than a packet of the path carries, and what fits as far as this host's kernel knows its path.
    fn too_large(&self, who: &str, to: &str) -> String {
        // Of the server's path this kernel knows nothing.
        let lanes = self.lanes.iter().filter(|lane| lane.sends);
        let most = lanes.filter_map(OpenLane::largest_datagram).min();
        let advice = match most.filter(|most| *most < self.block) {
            Some(most) => format!("no more than -l {most} fits in one packet from here; take that"),
            None => "take a smaller size (-l)".into(),
        };
        format!(
            "{who} can't send datagrams of {} bytes: that is more than a packet of its path to {to} carries (EMSGSIZE); {advice}",
            self.block
        )
    }

    /// Both ends tell what they saw; of a server that said its results come, and of which they did not, or which ours did not reach, that they vanished. Who wants it to end does not wait for a server that says nothing: then no error is why there are no results.
    fn trade(
        &self,
        over: TestEnd,
        ours: &mut dyn FnMut() -> Results,
        stop: &Bell,
    ) -> (TestEnd, Result<Results, MissingResults>) {
        let told = match &over {
            TestEnd::Broke(why) => {
                return (TestEnd::Complete, Err(MissingResults::of(why.clone())));
            }
            TestEnd::Complete => self.talk.trade(ours, AFTER, stop),
            // The bell rings already; a second time ends the program.
            TestEnd::Stopped => match Bell::new() {
                Ok(quiet) => self.talk.trade(ours, STOPPED, &quiet),
                Err(error) => Err(error.into()),
            },
        };
        let mut theirs = match (over, told) {
            (over, Ok(theirs)) => (over, theirs),
            (_, Err(FlowError::Stopped)) | (TestEnd::Stopped, Err(FlowError::Late(..))) => {
                return (TestEnd::Stopped, Err(MissingResults::default()));
            }
            (over, Err(error)) => {
                let vanished =
                    matches!(error, FlowError::Late(_, RESULTS, _) | FlowError::Unheard(_));
                return (
                    over,
                    Err(MissingResults { vanished, ..MissingResults::of(error.to_string()) }),
                );
            }
        };
        // The server's times begin with its data; ours with what counts.
        let omit = self.plan.omit.nanos().cast_signed();
        let parts = theirs.1.quell.iter_mut().flat_map(|part| &mut part.streams);
        for moment in parts.flat_map(|part| &mut part.moments) {
            moment.t_ns = moment.t_ns.saturating_sub(omit);
        }
        (theirs.0, Ok(theirs.1))
    }

    /// Waits until the senders of datagrams, which were told to end, have ended: the server is told how many they sent.
    fn await_senders(&self, ended: &Bell) -> Result<(), FlowError> {
        let mut alarm = Alarm::new()?;
        alarm.set(Some(monotonic_ns() + SENDERS_NS))?;
        let senders = || self.lanes.iter().filter(|lane| lane.sends && lane.info().is_none());
        while senders().any(|lane| lane.ended().is_none()) {
            let mut fds = [readable(ended), readable(&alarm)];
            wait(&mut fds)?;
            ended.silence();
            if came(&fds[1]) {
                break;
            }
        }
        Ok(())
    }

    /// Waits for the datagrams that are still on their way here.
    fn await_rest(
        &self,
        theirs: &Results,
        load_ended: u64,
        pings: &Mutex<Vec<EchoSample>>,
        stop: &Bell,
    ) -> Result<Rest, FlowError> {
        let sent = |id: u32| {
            let told = theirs.streams.iter().find(|stream| stream.id == id)?;
            let sent = u64::try_from(told.packets).ok()?;
            // Beyond an amount nothing counts.
            Some(sent.min(self.plan.datagrams_of(id, self.block).unwrap_or(u64::MAX)))
        };
        let here = self.lanes.iter().filter(|lane| lane.takes_datagrams());
        let lanes: Vec<(&Lane, Option<u64>)> = here.map(|lane| (&**lane, sent(lane.id))).collect();
        if lanes.is_empty() {
            return Ok(Rest::Unknown);
        }
        let until_ns = load_ended.saturating_add(LONGEST_REST_NS);
        let round_trip = || self.round_trip_ns(pings);
        Ok(Awaited { lanes, done_ns: load_ended, until_ns }.wait(&round_trip, stop)?)
    }
}

/// So long nothing moves before a test of an amount is given up: longer than TCP waits between two tries on a path that came to be of use lately
/// (RFC 6298, doubled from 1 s five times).
const STILL_NS: u64 = 60_000_000_000;

#[derive(Debug)]
pub(crate) struct StallTimer {
    moved: u64,
    since_ns: u64,
}

impl StallTimer {
    pub fn new(now_ns: u64) -> Self {
        Self { moved: 0, since_ns: now_ns }
    }

    /// Why to end it, where so many of the amount's bytes moved until now, and none for too long. `receives`: the server sends all of it.
    pub fn look(&mut self, moved: u64, amount: u64, receives: bool, now_ns: u64) -> Option<String> {
        if moved > self.moved {
            (self.moved, self.since_ns) = (moved, now_ns);
        }
        let waited = now_ns.saturating_sub(self.since_ns);
        let (done, stopped) = match receives {
            true => ("came", "sending"),
            false => ("were acknowledged", "reading"),
        };
        (waited > STILL_NS).then(|| {
            format!(
                "nothing moved for {} s: {} of {amount} bytes {done}; the server stopped {stopped}, or the path is broken",
                STILL_NS / 1_000_000_000,
                self.moved
            )
        })
    }
}

/// Rings when so many bytes have come on all streams; lets everything through.
pub(crate) struct ByteCountdown<'a> {
    left: AtomicU64,
    bell: &'a Bell,
}

impl<'a> ByteCountdown<'a> {
    pub fn after(bytes: u64, bell: &'a Bell) -> Self {
        Self { left: AtomicU64::new(bytes), bell }
    }
}

impl Gate for ByteCountdown<'_> {
    fn most(&self) -> Option<usize> {
        None
    }

    fn pass(&self, bytes: usize, _now_ns: u64) -> Result<(), u64> {
        let less = |left: u64| Some(left.saturating_sub(bytes as u64));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if before.is_ok_and(|left| left > 0 && left <= bytes as u64) {
            self.bell.ring();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_datagram_is_looked_for_ever_more_closely_and_not_all_the_time() {
        let (mut now, mut looks) = (0, 0);
        while now < 10_000_000_000 {
            now += until_last(10_000_000_000_u64.saturating_sub(now), u64::MAX);
            looks += 1;
        }
        assert!(looks < 20 && now < 10_000_000_000 + CLOSE_LOOK_NS, "{looks} looks, {now} ns");
        assert_eq!(until_last(8_000_000_000, 1_000_000_000), 1_000_000_000, "it must be lost then");
    }

    #[test]
    fn an_amount_that_stands_still_is_given_up_and_one_that_creeps_is_not() {
        const S: u64 = 1_000_000_000;
        let mut still = StallTimer::new(0);
        for second in 0..1000 {
            assert_eq!(still.look(second / 50, 5000, false, second * S), None, "at {second} s");
        }
        let why = still.look(19, 5000, false, 1012 * S).expect("61 s after the last byte");
        assert!(why.contains("60 s: 19 of 5000 bytes were acknowledged"), "{why}");
        let why = StallTimer::new(0).look(0, 5000, true, 61 * S).expect("nothing came at all");
        assert!(why.contains("stopped sending"), "{why}");
    }

    #[test]
    fn it_rings_once_when_the_last_byte_has_come() {
        let bell = Bell::new().unwrap();
        let arrived = ByteCountdown::after(1000, &bell);
        for (bytes, rings) in [(400, false), (599, false), (300, true), (300, false), (0, false)] {
            assert_eq!((arrived.pass(bytes, 0), bell.rings()), (Ok(()), rings), "{bytes}");
            bell.silence();
        }
    }
}
