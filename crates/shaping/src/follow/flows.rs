//! Round trips of the TCP flows that carry much, as a signal: what waits in the line, waits there itself. It needs no far end, and nothing is sent.
//!
//! ```text
//!   a queue of ours is full by TCP flows, at the floor ──► at the ceiling until their round trips rise: sees
//!                                                                      └─ 10 s without: unknown
//! ```
//!
//! A round trip tells nothing of its way: where both directions are full, both give way.

use super::line::FollowedLine;
use super::load_test::{LOAD_BEGINS_NS, TestPhase};
use super::signal_test::{SignalTest, SignalVerdict, judge};
use super::{Follower, slot};
use crate::CommandError;
use quell_classify::{ClassifyError, RoundTrip, RoundTrips};
use quell_model::task::Direction;
use quell_sys::clock::monotonic_ns;
use quell_units::{Rate, Span};

/// How long a test lets the flows fill the line.
pub const FILL: Span = Span::from_secs(10);
/// After a test that told nothing.
const AGAIN: Span = Span::from_secs(30);
/// A flow that was heard so lately is there.
const HEARD_NOW: Span = Span::from_millis(500);
/// Of round trips of late a median is taken.
const OF_LATE: usize = 40;

/// A signal that is tested by the user's own traffic: the flows, and pings where no far end takes a load.
pub struct OwnSignal {
    /// Its place among the signals.
    pub at: usize,
    /// Of the flows.
    pub trips: Option<Result<RoundTrips, ClassifyError>>,
    /// When one of each direction was told last, and not before when it is tested again.
    pub heard_ns: [u64; 2],
    pub next_test: [u64; 2],
    /// Added delays in ms: of each direction at the floor, and of the one that is tested at the ceiling.
    pub idle: [Vec<f64>; 2],
    pub loaded: Vec<f64>,
}

/// A test by the user's own traffic that is under way.
pub struct OwnTest {
    pub way: Direction,
    pub begun: u64,
    /// What had passed then.
    pub passed: u64,
}

pub fn way_of(trip: &RoundTrip) -> Direction {
    if trip.comes { Direction::Down } else { Direction::Up }
}

/// What a round trip of a flow has more than its least one.
pub fn added_ns(trip: &RoundTrip) -> i64 {
    (trip.seen_ns - trip.sent_ns).saturating_sub(trip.least_ns) as i64
}

impl OwnSignal {
    pub fn flows(at: usize, index: u32) -> Self {
        let trips = RoundTrips::load().and_then(|mut trips| trips.watch(index).map(|()| trips));
        OwnSignal { trips: Some(trips), ..Self::pings(at) }
    }

    pub fn pings(at: usize) -> Self {
        OwnSignal {
            at,
            trips: None,
            heard_ns: [0; 2],
            next_test: [0; 2],
            idle: [Vec::new(), Vec::new()],
            loaded: Vec::new(),
        }
    }

    pub fn round_trips(&self) -> Option<&RoundTrips> {
        self.trips.as_ref()?.as_ref().ok()
    }

    /// Notes an added delay at the floor.
    pub fn at_floor(&mut self, way: usize, ms: f64) {
        let idle = &mut self.idle[way];
        if idle.len() >= 5 * OF_LATE {
            idle.remove(0);
        }
        idle.push(ms);
    }

    /// Whether flows carry much now, and enough is known of them at the floor.
    pub fn is_ready(&self, way: usize, now: u64) -> bool {
        now < self.heard_ns[way] + HEARD_NOW.nanos()
            && now >= self.next_test[way]
            && self.idle[way].len() >= OF_LATE
    }

    /// A test is over.
    pub fn again(&mut self, way: usize, now: u64) {
        self.next_test[way] = now + AGAIN.nanos();
        (self.idle[way], self.loaded) = (Vec::new(), Vec::new());
    }

    /// What is known before a test.
    pub fn untested(&self) -> SignalTest {
        SignalTest::failed(match &self.trips {
            Some(Err(why)) => why.to_string(),
            _ => "no TCP flow has filled the line yet".to_owned(),
        })
    }

    /// What its test tells so far of flows that may send `ceiling` and do send `passed`.
    pub fn judged(&self, way: usize, ceiling: Rate, passed: Rate) -> SignalTest {
        let late = &self.loaded[self.loaded.len().saturating_sub(OF_LATE)..];
        let mut test = judge(&self.idle[way], late, 0, ceiling, passed);
        // Senders that are slow themselves look like a line that drops.
        if test.verdict == SignalVerdict::Blind {
            test.verdict = SignalVerdict::Unknown;
            test.why = Some("the flows sent less, or the line drops what would wait".to_owned());
        }
        test
    }
}

/// The round trips of flows, and the test of what the user's own traffic tests.
impl Follower<'_> {
    pub(super) fn read_flows(&mut self) -> Result<(), CommandError> {
        let next =
            |own: &mut OwnSignal| Some((own.at, own.trips.as_mut()?.as_mut().ok()?.next_trip()?));
        while let Some((signal, trip)) = self.own.iter_mut().find_map(next) {
            let (way, added) = (way_of(&trip), added_ns(&trip));
            let is_led = |line: &FollowedLine| line.way == way && line.is_led_by(signal);
            if let Some(at) = self.lines.iter().position(is_led) {
                self.count(monotonic_ns())?;
                self.sample(at, trip.sent_ns, trip.seen_ns, Some(added))?;
            }
            self.note_for_own_test(signal, way, (trip.sent_ns, trip.seen_ns), added);
        }
        Ok(())
    }

    /// Notes a delay for the test of a signal by the user's own traffic.
    pub(super) fn note_for_own_test(
        &mut self,
        signal: usize,
        way: Direction,
        (sent_ns, seen_ns): (u64, u64),
        delay_ns: i64,
    ) {
        // A ping waits in the queue of either direction.
        let is_elsewhere = self.lines.iter().any(|line| line.way != way && line.is_used(seen_ns));
        let Some(own) = self.own.iter_mut().find(|own| own.at == signal) else { return };
        own.heard_ns[slot(way)] = seen_ns;
        let ms = delay_ns as f64 / 1e6;
        match &self.phase {
            TestPhase::Own(test) if test.way == way => {
                if sent_ns > test.begun + LOAD_BEGINS_NS {
                    own.loaded.push(ms);
                }
            }
            _ if own.trips.is_none() && is_elsewhere => {}
            _ if self.lines.iter().any(|line| line.way == way && line.is_led_by(signal)) => {}
            _ => own.at_floor(slot(way), ms),
        }
    }

    /// Begins where a queue of ours is full, and nothing else tells of its line.
    pub(super) fn begin_own_test(&mut self, now: u64) -> Result<(), CommandError> {
        let may = |line: &&FollowedLine| {
            let believed = self.believed(line.way);
            let is_ready =
                |own: &OwnSignal| own.is_ready(slot(line.way), now) && !believed.contains(&own.at);
            line.is_waiting
                && line.is_used(now)
                && (line.signal.is_none() || line.is_held)
                && self.own.iter().any(is_ready)
        };
        let way = self.lines.iter().find(may).map(|line| line.way);
        let Some(way) = way.filter(|_| !self.options.dry_run) else { return Ok(()) };
        let line = self.lines.iter_mut().find(|line| line.way == way).expect("it was there");
        line.is_held = true;
        self.phase = TestPhase::Own(OwnTest { way, begun: now, passed: line.passed });
        self.put(way, |bounds| bounds.ceiling)
    }

    pub(super) fn test_own(&mut self, now: u64) -> Result<(), CommandError> {
        let TestPhase::Own(test) = &self.phase else { return Ok(()) };
        let (way, past) = (test.way, now.saturating_sub(test.begun));
        let Some(line) = self.lines.iter().find(|line| line.way == way) else { return Ok(()) };
        let (ceiling, passed) = (line.bounds.ceiling, line.passed - test.passed);
        let passed = u128::from(passed) * 8_000_000_000;
        let passed = Rate::from_bps((passed / u128::from(past.max(1))) as u64);
        let judge = |own: &OwnSignal| (own.at, own.judged(slot(way), ceiling, passed));
        let judged: Vec<_> = self.own.iter().map(judge).collect();
        let is_seen = judged.iter().any(|(_, test)| test.verdict == SignalVerdict::Sees);
        if !is_seen && past < FILL.nanos() {
            return Ok(());
        }
        self.phase = TestPhase::None;
        self.put(way, |bounds| bounds.floor)?;
        for (at, judged) in judged {
            self.note_test(self.names[at].clone(), way, judged);
        }
        self.own.iter_mut().for_each(|own| own.again(slot(way), now));
        for line in self.lines.iter_mut().filter(|line| line.way == way) {
            line.is_held = false;
            line.controller.turn();
        }
        self.believe();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_wait_longer_at_the_ceiling_see_the_queue_and_slow_ones_tell_nothing() {
        let none = ClassifyError::Table { tried: "look".to_owned(), answer: "no".to_owned() };
        let (heard_ns, next_test, idle) = ([0; 2], [0; 2], [vec![0.4; 50], Vec::new()]);
        let mut signal = OwnSignal {
            at: 0,
            trips: Some(Err(none)),
            heard_ns,
            next_test,
            idle,
            loaded: Vec::new(),
        };
        let mbit = |n: u64| Rate::from_bps(n * 1_000_000);
        signal.loaded = [vec![0.5; 300], vec![30.0; 40]].concat();
        assert_eq!(signal.judged(0, mbit(25), mbit(10)).verdict, SignalVerdict::Sees);
        signal.loaded = vec![0.6; 300];
        let slow = signal.judged(0, mbit(25), mbit(10));
        assert!(slow.to_string().contains("the flows sent less"), "{slow}");
        let all = signal.judged(0, mbit(25), mbit(25));
        assert!(all.to_string().contains("carried the whole load"), "{all}");
        assert!(signal.untested().to_string().contains("could not look: no"));
    }
}
