//! The steps of learning a line against a `quell serve`, each bounded in time and bytes.
//!
//! ```text
//!   idle pings ──► for up, then down: train ──► brief flood (the rate, about) ──► light (loss) ──► gentle overload, pings beside
//!                                                                    ──► hard, small packets ──► hard, large packets
//!                                     ──► long, where the rate varies ──► gentle, ECT(0), then ECT(1) (marks)
//!              ──► both at once
//! ```
//!
//! A train leaves at once, and how far apart its packets come tells the rate about; the brief flood is repeated at twice its rate until the line is full.

use crate::flood::{Flood, busy, spacing};
use crate::over_time::{self, Steadiness};
use quell_flow::{Amount, FlowError, FlowMeasurement, FlowPlan, Senders, Transport};
use quell_model::task::UdpEcho;
use quell_model::{EchoSample, Event};
use quell_probe::{ProbeError, ProbeOptions};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::{Alarm, Bell, readable, wait};
use quell_units::{Span, Tos, fmt};
use quell_wire::auth::Secret;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

const IDLE: Span = Span::from_secs(5);
/// Between two pings then: no multiple of the grids on which lines let packets leave, so that some come just before one.
const IDLE_INTERVAL: Span = Span::from_micros(9_700);
/// Before the large ones, which tell a policer's burst.
const PAUSE: Span = Span::from_secs(1);
/// Payload of small packets, and of large ones, which every IPv6 path (1280 bytes) and so every tunnel carries whole.
const SMALL: u64 = 100;
const LARGE: u64 = 1200;
/// Packets of a train.
const TRAIN: u64 = 32;
/// How many times what the line carries comes in a gentle overload, in which queues that manage themselves show how, and in a hard one, which fills
/// every buffer; and both on a slow line, whose buffers take long to fill.
const OVERLOADS: (f64, f64) = (1.08, 2.0);
const OVERLOADS_SLOW: (f64, f64) = (1.5, 4.0);
const SLOW_BPS: f64 = 5e6;
/// Bytes for a line of up to 100 Mbit/s.
pub const USUAL_BUDGET: f64 = 150e6;
/// Fewest bits a second of a line that is learnt.
const SLOWEST_BPS: f64 = 64e3;
/// The longest flood that looks how a rate varies, in seconds, and the shortest that tells anything.
const LONG_S: (f64, f64) = (1.0, 10.0);
/// How many times the most that was seen of a rate that varies comes then.
const BEYOND: f64 = 1.5;
/// Codes of ECN: ECT(0) and ECT(1).
const ECT: [(u8, &str); 2] = [(2, "a gentle overload, ECT(0)"), (1, "a gentle overload, ECT(1)")];
/// A share of a flood that comes from which on the line is not full.
const ALL: f64 = 0.97;

#[derive(Debug, Clone)]
pub struct LearnPlan {
    pub host: String,
    pub to: SocketAddr,
    pub secret: Option<Secret>,
    /// Most bytes that are sent, both directions together; without one 150 MB, and beyond 100 Mbit/s as much more as the line is faster.
    pub budget: Option<u64>,
    /// Both ends have the same clock: what a packet takes one way is known.
    pub one_clock: bool,
}

#[derive(Debug)]
pub enum LearnProgress<'a> {
    /// Before the floods of a direction: what they will take.
    Ahead {
        seconds: f64,
        bytes: f64,
    },
    Step {
        name: &'a str,
        seconds: f64,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum TwinError {
    #[error(transparent)]
    Flow(#[from] FlowError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error(transparent)]
    System(#[from] SysError),
    #[error("{0} answers no STAMP packets: start `quell serve --bind ADDRESS` there")]
    Silent(SocketAddr),
    #[error("the server does not log packets: it needs the same Quell as here")]
    NoLog,
    #[error("the line {0} carries {1:.0} kbit/s; 64 kbit/s are the least that is learnt")]
    TooSlow(&'static str, f64),
    #[error("{0} is itself the bottleneck: {1}")]
    Bottleneck(&'static str, String),
    #[error("a budget of {} ends before {step}, which takes {}", fmt::bytes(*.budget), fmt::bytes(*.takes))]
    Budget { budget: u64, step: &'static str, takes: u64 },
    #[error("{0}: {1}")]
    Broke(&'static str, String),
    #[error("{0}. While the line was idle, it lost {1} of {2} pings: find out why first")]
    Lossy(Box<TwinError>, usize, usize),
    #[error("stopped")]
    Stopped,
}

/// All that was seen of a line.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LineObservations {
    /// The other end as it was named, and when it began, as RFC 3339 has it.
    pub to: String,
    pub measured: String,
    pub one_clock: bool,
    pub idle: Vec<EchoSample>,
    pub up: DirectionObservations,
    pub down: DirectionObservations,
    /// Up and down, at once.
    pub together: Option<[Flood; 2]>,
    /// Why it ended before its end.
    pub broke: Option<String>,
    pub bytes: f64,
    pub seconds: f64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectionObservations {
    pub light: Option<Flood>,
    pub gentle: Option<Flood>,
    pub pings: Vec<EchoSample>,
    pub small: Option<Flood>,
    pub large: Option<Flood>,
    /// Where the rate varies.
    pub long: Option<Flood>,
    /// Of packets that may be marked: ECT(0), ECT(1).
    pub ecn: Vec<Flood>,
}

/// What is learnt until the end, until the bell rings or until something breaks; errors where it did before the first flood.
pub fn learn(
    plan: &LearnPlan,
    stop: &Bell,
    tell: &mut dyn FnMut(LearnProgress<'_>),
) -> Result<LineObservations, TwinError> {
    let begun_ns = monotonic_ns();
    let mut learner = Learner { plan, stop, tell, begun_ns, bytes: 0.0 };
    let one_clock = plan.one_clock;
    let mut found =
        LineObservations { idle: learner.idle()?, one_clock, ..LineObservations::default() };
    let ended = learner.floods(&mut found);
    (found.bytes, found.seconds) = (learner.bytes, learner.now_s());
    match ended {
        Err(error) if found.up.large.is_none() => return Err(beside_losses(error, &found.idle)),
        Err(error) => found.broke = Some(error.to_string()),
        Ok(()) => {}
    }
    Ok(found)
}

/// An idle line that loses packets may be why the results did not come.
fn beside_losses(error: TwinError, idle: &[EchoSample]) -> TwinError {
    let lost = idle.iter().filter(|ping| !ping.status.is_answered()).count();
    match error {
        TwinError::Flow(_) | TwinError::Broke(..) if lost > 0 => {
            TwinError::Lossy(error.into(), lost, idle.len())
        }
        error => error,
    }
}

impl LineObservations {
    /// Whether all of it can be: what is read from a file may be anything.
    pub fn is_possible(&self) -> bool {
        let floods = |way: &DirectionObservations| {
            let each = [&way.light, &way.gentle, &way.small, &way.large, &way.long];
            each.into_iter().flatten().chain(&way.ecn).all(Flood::is_possible)
        };
        floods(&self.up)
            && floods(&self.down)
            && self.together.iter().flatten().all(Flood::is_possible)
    }
}

struct Learner<'a> {
    plan: &'a LearnPlan,
    stop: &'a Bell,
    tell: &'a mut dyn FnMut(LearnProgress<'_>),
    begun_ns: u64,
    bytes: f64,
}

/// A flood that is to be sent.
#[derive(Clone, Copy)]
struct Wanted {
    name: &'static str,
    way: Senders,
    size: u64,
    /// Packets a second.
    rate: f64,
    seconds: f64,
    pings: bool,
    tos: u8,
}

/// How long each step of a direction takes, by its rate in bits a second.
struct Lengths {
    light: f64,
    gentle: f64,
    small: f64,
    large: f64,
    /// Of each code of ECN.
    ecn: f64,
    overloads: (f64, f64),
}

impl Lengths {
    fn of(bps: f64) -> Self {
        let of = |bits: f64, least: f64, most: f64| (bits / bps).clamp(least, most);
        let overloads = if bps < SLOW_BPS { OVERLOADS_SLOW } else { OVERLOADS };
        Self {
            light: of(1e8, 1.0, 4.0),
            gentle: of(1.8e8, 1.8, 8.0),
            small: of(5e7, 0.5, 6.0),
            large: of(7e7, 0.7, 7.0),
            ecn: of(5e7, 0.5, 2.0),
            overloads,
        }
    }

    fn shortened(self, part: f64) -> Self {
        let [light, gentle, small, large, ecn] =
            [self.light, self.gentle, self.small, self.large, self.ecn].map(|of| of * part);
        Self { light, gentle, small, large, ecn, ..self }
    }

    fn seconds(&self) -> f64 {
        // Each has to begin, and to drain; pings and a pause of a second each come before one.
        self.light + self.gentle + self.small + self.large + 2.0 * self.ecn + 5.0
    }

    fn bytes(&self, bps: f64) -> f64 {
        let (gentle, hard) = self.overloads;
        let gentle = gentle * (self.gentle + 2.0 * self.ecn);
        let floods = 0.3 * self.light + gentle + hard * (self.small + self.large);
        bps / 8.0 * floods
    }
}

impl Learner<'_> {
    fn now_s(&self) -> f64 {
        monotonic_ns().saturating_sub(self.begun_ns) as f64 / 1e9
    }

    /// IP's and UDP's headers.
    fn headers(&self) -> u64 {
        if self.plan.to.is_ipv6() { 48 } else { 28 }
    }

    fn step(&mut self, name: &str, seconds: f64) {
        (self.tell)(LearnProgress::Step { name, seconds });
    }

    /// Pings over the idle line.
    fn idle(&mut self) -> Result<Vec<EchoSample>, TwinError> {
        self.step("pings over the idle line", IDLE.as_secs_f64());
        let rows = pings(self.plan.to, IDLE, IDLE_INTERVAL, self.stop)?;
        match rows.iter().any(|row| row.status.is_answered()) {
            true => Ok(rows),
            false => Err(TwinError::Silent(self.plan.to)),
        }
    }

    /// Nothing is sent, so that a policer's bucket fills.
    fn pause(&mut self) -> Result<(), TwinError> {
        self.step("a pause", PAUSE.as_secs_f64());
        let mut alarm = Alarm::new()?;
        alarm.set(Some(monotonic_ns() + PAUSE.nanos()))?;
        wait(&mut [readable(&alarm), readable(self.stop)])?;
        Ok(())
    }

    fn floods(&mut self, found: &mut LineObservations) -> Result<(), TwinError> {
        let mut rates = [0.0; 2];
        for (at, up) in [true, false].into_iter().enumerate() {
            let (way, name) = if up { (Senders::Up, "up") } else { (Senders::Down, "down") };
            let rate = self.about(way)?;
            rates[at] = rate;
            let wire = (LARGE + self.headers() + 14) as f64;
            let bps = rate * wire * 8.0;
            if bps < SLOWEST_BPS {
                return Err(TwinError::TooSlow(name, bps / 1e3));
            }
            let lengths = Lengths::of(bps);
            // The other direction may take as much.
            let usual = USUAL_BUDGET * (bps / 1e8).max(1.0);
            let room = match self.plan.budget {
                None => usual / 2.2,
                Some(_) => self.left(usual, up),
            };
            let part = (room / lengths.bytes(bps)).clamp(0.05, 1.0);
            let lengths = lengths.shortened(part);
            let (seconds, bytes) = (lengths.seconds(), lengths.bytes(bps));
            (self.tell)(LearnProgress::Ahead { seconds, bytes });
            let seen = if up { &mut found.up } else { &mut found.down };
            self.direction(way, rate, &lengths, seen)?;
            let most = self.left(usual, up);
            self.long(way, most, seen)?;
        }
        found.together = self.together(rates)?;
        Ok(())
    }

    /// Bytes of the budget that a direction may still take.
    fn left(&self, usual: f64, up: bool) -> f64 {
        let budget = self.plan.budget.map_or(usual, |budget| budget as f64);
        (budget - self.bytes) / if up { 2.2 } else { 1.1 }
    }

    /// Where the rate was not the same all the time, a flood that fills the line whatever it carries.
    fn long(
        &mut self,
        way: Senders,
        most: f64,
        seen: &mut DirectionObservations,
    ) -> Result<(), TwinError> {
        let [large, small] = over_time::of_direction(seen);
        if [&large, &small].iter().all(|steps| over_time::steadiness(steps) == Steadiness::Steady) {
            return Ok(());
        }
        let rate = BEYOND * large.iter().map(|step| step.rate).fold(0.0, f64::max);
        let seconds = (most / (rate * LARGE as f64)).min(LONG_S.1);
        if rate > 0.0 && seconds >= LONG_S.0 {
            let name = "a long overload, since the rate varies";
            let wanted = Wanted { name, way, size: LARGE, rate, seconds, pings: false, tos: 0 };
            seen.long = Some(self.flood(wanted)?.0);
        }
        Ok(())
    }

    /// About how many large packets a second the line carries.
    fn about(&mut self, way: Senders) -> Result<f64, TwinError> {
        let train = Wanted {
            name: "a train",
            way,
            size: LARGE,
            rate: 100.0,
            seconds: 0.0,
            pings: false,
            tos: 0,
        };
        let (flood, _) = self.flood(train)?;
        let packets = flood.packets();
        let rate = Some(1.0 / spacing(&packets)).filter(|rate| rate.is_finite() && *rate < 3e5);
        let mut rate = rate.unwrap_or(100.0).max(4.0);
        for _ in 0..14 {
            let seconds = (24.0 / rate).clamp(0.4, 3.0);
            let name = "a brief flood";
            let wanted = Wanted { name, rate: 1.3 * rate, seconds, ..train };
            let (flood, _) = self.flood(wanted)?;
            let packets = flood.packets();
            if let Some(busy) = busy(&packets).filter(|busy| busy.len() > packets.len() / 2) {
                return Ok(1.0 / spacing(&packets[busy]));
            }
            let came = packets.len() as f64 / flood.sent.max(1) as f64;
            if came < ALL {
                // Behind what a policer lets through at once.
                let last = &packets[packets.len() / 2..];
                return Ok(if last.len() > 4 { 1.0 / spacing(last) } else { rate });
            }
            rate *= 2.0;
        }
        Ok(rate)
    }

    fn direction(
        &mut self,
        way: Senders,
        rate: f64,
        lengths: &Lengths,
        seen: &mut DirectionObservations,
    ) -> Result<(), TwinError> {
        let wire = |size: u64| (size + self.headers() + 14) as f64;
        let (gentle, hard) = lengths.overloads;
        let small_rate = rate * wire(LARGE) / wire(SMALL);
        let of = |name, size, rate, seconds, pings| Wanted {
            name,
            way,
            size,
            rate,
            seconds,
            pings,
            tos: 0,
        };
        seen.light = Some(
            self.flood(of("a light stream", SMALL, 0.3 * small_rate, lengths.light, false))?.0,
        );
        // On a slow line few large packets make a long wait.
        let (size, all) = match lengths.overloads == OVERLOADS_SLOW {
            true => (SMALL, small_rate),
            false => (LARGE, rate),
        };
        let wanted = of("a gentle overload", size, gentle * all, lengths.gentle, true);
        let (gentle, pings) = self.flood(wanted)?;
        seen.pings = pings;
        let small =
            of("an overload of small packets", SMALL, hard * small_rate, lengths.small, false);
        seen.small = Some(self.flood(small)?.0);
        self.pause()?;
        let large = of("an overload of large packets", LARGE, hard * rate, lengths.large, false);
        seen.large = Some(self.flood(large)?.0);
        seen.gentle = Some(gentle);
        for (tos, name) in ECT {
            let marked = Wanted { name, seconds: lengths.ecn, pings: false, tos, ..wanted };
            seen.ecn.push(self.flood(marked)?.0);
        }
        Ok(())
    }

    /// None where the budget has no room for it.
    fn together(&mut self, rates: [f64; 2]) -> Result<Option<[Flood; 2]>, TwinError> {
        let name = "both directions at once";
        // One rate for both: more than the faster carries.
        let rate = 1.2 * rates[0].max(rates[1]);
        let each_second = 2.0 * rate * (LARGE + self.headers() + 14) as f64;
        let seconds = match self.plan.budget {
            None => (USUAL_BUDGET / 10.0 / each_second).clamp(0.3, 2.0),
            Some(budget) => ((budget as f64 - self.bytes) / each_second).min(2.0),
        };
        if seconds < 0.3 {
            return Ok(None);
        }
        self.step(name, seconds);
        let wanted =
            Wanted { name, way: Senders::Both, size: LARGE, rate, seconds, pings: false, tos: 0 };
        let plan = self.flow_plan(wanted);
        let at_s = self.now_s();
        let measured = self.carried(&plan, name)?;
        self.bytes += each_second * seconds;
        Ok(Some([
            self.logged(&measured, true, wanted, at_s)?,
            self.logged(&measured, false, wanted, at_s)?,
        ]))
    }

    fn flow_plan(&self, wanted: Wanted) -> FlowPlan {
        let Wanted { way, size, rate, seconds, pings, tos, .. } = wanted;
        let bits = (rate * size as f64 * 8.0).max(1000.0) as u64;
        let is_train = seconds == 0.0;
        FlowPlan {
            transport: Transport::Udp,
            direction: way,
            amount: match is_train {
                true => Amount::Bytes(TRAIN * size),
                false => Amount::Time(Span::from_micros((seconds * 1e6) as u64)),
            },
            burst: if is_train { TRAIN as u32 } else { 1 },
            rate: Some(bits),
            block: Some(size),
            log: true,
            tos,
            latency: pings,
            // The server's reports are traffic, too.
            interval: Span::from_secs(10),
            secret: self.plan.secret.clone(),
            ..FlowPlan::new(&self.plan.host, self.plan.to)
        }
    }

    fn carried(
        &mut self,
        plan: &FlowPlan,
        name: &'static str,
    ) -> Result<FlowMeasurement, TwinError> {
        let measured = quell_flow::run(plan, self.stop, &mut |_| ())?;
        if self.stop.rings() {
            return Err(TwinError::Stopped);
        }
        match &measured.broke {
            Some(why) => Err(TwinError::Broke(name, why.clone())),
            None => Ok(measured),
        }
    }

    fn flood(&mut self, wanted: Wanted) -> Result<(Flood, Vec<EchoSample>), TwinError> {
        let up = wanted.way == Senders::Up;
        let way = if up { "up" } else { "down" };
        let wire = (wanted.size + self.headers() + 14) as f64;
        let bytes = wire * (wanted.rate * wanted.seconds).max(TRAIN as f64);
        match self.plan.budget {
            Some(budget) if self.bytes + bytes > budget as f64 => {
                return Err(TwinError::Budget { budget, step: wanted.name, takes: bytes as u64 });
            }
            _ => {}
        }
        self.step(&format!("{}, {way}", wanted.name), wanted.seconds);
        let at_s = self.now_s();
        let measured = self.carried(&self.flow_plan(wanted), wanted.name)?;
        let flood = self.logged(&measured, up, wanted, at_s)?;
        self.bytes += flood.sent as f64 * wire;
        let pings = measured.latency.loaded;
        Ok((flood, pings))
    }

    fn logged(
        &self,
        measured: &FlowMeasurement,
        up: bool,
        wanted: Wanted,
        at_s: f64,
    ) -> Result<Flood, TwinError> {
        let log = measured.log(up).ok_or(TwinError::NoLog)?.clone();
        let lane = measured.lanes.iter().find(|lane| lane.sends == up).ok_or(TwinError::NoLog)?;
        let sent = if up { lane.moved.1 } else { lane.omitted.expected + lane.mark.expected };
        let flood = Flood {
            packet: (wanted.size + self.headers()) as f64,
            apart_s: 1.0 / wanted.rate,
            sent,
            at_s,
            seconds: wanted.seconds,
            log,
        };
        if !flood.is_possible() {
            let why = "what the server says of its packets can't be".to_owned();
            return Err(TwinError::Broke(wanted.name, why));
        }
        let sender = if up { "this host" } else { "the server's host" };
        let asked = wanted.rate * wanted.seconds;
        if (sent as f64) < 0.9 * asked - 2.0 {
            let why = format!("it sent {sent} packets of {asked:.0} in {} s", wanted.seconds);
            return Err(TwinError::Bottleneck(sender, why));
        }
        Ok(flood)
    }
}

/// Small packets at this interval, by their numbers.
pub fn pings(
    to: SocketAddr,
    time: Span,
    interval: Span,
    stop: &Bell,
) -> Result<Vec<EchoSample>, TwinError> {
    let echo = UdpEcho {
        stream: "pings".into(),
        to,
        interval,
        size: 56,
        tos: Tos::from_byte(0),
        linger: Span::from_secs(2),
        other_clock: false,
    };
    let rows = Mutex::new(Vec::new());
    let emit = |event: Event| {
        if let Event::Echo { samples, .. } = event {
            rows.lock().unwrap_or_else(PoisonError::into_inner).extend(samples);
        }
    };
    let window = Window::from_now(Some(time.nanos()));
    quell_probe::udp::open(&[(echo, ProbeOptions::default())], 1)?.run(&window, stop, &emit)?;
    if stop.rings() {
        return Err(TwinError::Stopped);
    }
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    quell_model::rows::latest(&mut rows);
    rows.sort_by_key(|row: &EchoSample| row.t_ns);
    Ok(rows)
}

/// Packets a second that came of a flood, once it was under way.
pub fn came_rate(flood: &Flood) -> Option<f64> {
    let packets = flood.packets();
    let last = packets.get(packets.len() / 4..)?;
    let rate = 1.0 / spacing(last);
    rate.is_finite().then_some(rate)
}
