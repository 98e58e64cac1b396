//! The driver: one thread that sends when it is time, and listens in between.
//!
//! ```text
//!   Rounds ─► probe ─┐                                       ┌─► Ledger of (flow, hop) ─► samples
//!   Survey ─► ask ───┴─► FlowSocket … error queue, raw ──────┴─► answers, sizes, marks
//! ```

use super::rounds::{Pacing, Rounds, Step};
use super::sockets::{Came, FlowSocket, Known, Packet, What};
use super::survey::{Ask, Outcome, Sizes, Survey};
use super::{HopAnswer, MARKED, News, PathProbe, PathSpec, Sent};
use crate::ProbeError;
use crate::ledger::{Ledger, Refusal, Reply};
use crate::stream_socket::MOST_BATCHES;
use nix::errno::Errno;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::socket::{ErrorQueue, IcmpErrors, Inbox};
use quell_sys::wait::{Alarm, Bell, came, readable, wait, wake_exactly};
use quell_sys::wall::Wall;
use quell_units::Tos;
use quell_wire::hop_probe;
use quell_wire::icmp_error::{self, Meaning};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// Packets that are remembered for what may still come.
const KEPT: usize = 1 << 14;
/// Samples are handed on so often.
const FLUSH_NS: u64 = 100_000_000;
/// A probe that was not answered for so long holds up no other: at least, and at most.
const LEAST_GATE_NS: u64 = 300_000_000;
const MOST_GATE_NS: u64 = 1_000_000_000;
/// Before a SYN is sent again.
const SYN_GATE_NS: u64 = 950_000_000;
/// Bytes of the largest answer that is looked at.
const LARGEST: usize = 2048;

/// A packet under way.
#[derive(Debug, Clone, Copy)]
struct Under {
    flow: u16,
    ttl: u8,
    /// Its number among those to that hop; none of the survey's.
    seq: Option<u64>,
    sent_ns: u64,
    tos: Tos,
    size: usize,
    /// Whether others wait for what becomes of it.
    is_open: bool,
}

struct Driver<'a> {
    spec: PathSpec,
    flows: Vec<FlowSocket>,
    raw: Option<IcmpErrors>,
    /// Of the flows, that of the survey.
    surveyor: usize,
    rounds: Rounds,
    survey: Option<Survey>,
    /// The question that is open.
    asked: Option<u64>,
    /// No question before this time.
    ask_after_ns: u64,
    under: BTreeMap<u64, Under>,
    next: u64,
    ledgers: BTreeMap<(u16, u8), Ledger>,
    /// Hops of the first flow that answered.
    answering: Vec<bool>,
    ends: Vec<Option<u8>>,
    longest_ns: u64,
    /// Since when others wait for one probe at a time.
    one_at_a_time: bool,
    unmatched: u64,
    window: Window,
    wall: Wall,
    queue: ErrorQueue,
    inbox: Inbox,
    emit: &'a (dyn Fn(News) + Sync),
}

impl PathProbe {
    /// Runs it: to its count of rounds, until the window ends, or until the bell rings.
    pub fn run(
        self,
        window: &Window,
        stop: &Bell,
        emit: &(dyn Fn(News) + Sync),
    ) -> Result<(), ProbeError> {
        wake_exactly();
        let Self { spec, mut flows, surveyor, raw } = self;
        let pacing = Pacing {
            interval_ns: spec.interval.nanos(),
            start_ns: window.start_ns,
            end_ns: window.end_ns(),
            count: spec.count,
            flows: spec.flows,
            most_hops: spec.most_hops,
        };
        let one_at_a_time = spec.sent == Sent::Tcp;
        let own = surveyor.is_some();
        flows.extend(surveyor);
        let driver = Driver {
            surveyor: if own { flows.len() - 1 } else { 0 },
            rounds: Rounds::new(pacing, one_at_a_time),
            survey: None,
            asked: None,
            ask_after_ns: 0,
            under: BTreeMap::new(),
            next: 1,
            ledgers: BTreeMap::new(),
            answering: vec![false; usize::from(spec.most_hops)],
            ends: vec![None; usize::from(spec.flows)],
            longest_ns: 0,
            one_at_a_time,
            unmatched: 0,
            window: *window,
            wall: Wall::new(),
            queue: ErrorQueue::default(),
            inbox: Inbox::new(16, LARGEST),
            spec,
            flows,
            raw,
            emit,
        };
        driver.run(stop)
    }
}

impl Driver<'_> {
    fn run(mut self, stop: &Bell) -> Result<(), ProbeError> {
        let mut alarm = Alarm::new()?;
        let mut flush_ns = self.window.start_ns;
        loop {
            let now_ns = self.wall.look();
            self.expire(now_ns);
            let wake_ns = self.send(now_ns);
            if now_ns >= flush_ns {
                self.flush(false);
                flush_ns = now_ns + FLUSH_NS;
            }
            if wake_ns.is_none() && self.waiting() == 0 {
                break;
            }
            let due = [wake_ns, self.expiring_ns()].into_iter().flatten().min();
            alarm.set(due.map(|due| due.min(flush_ns.max(now_ns + 1))))?;
            if !self.await_news(&alarm, stop)? {
                break;
            }
        }
        let now = self.window.t(monotonic_ns());
        self.ledgers.values_mut().for_each(|ledger| ledger.finish(now));
        self.flush(true);
        Ok(())
    }

    /// Waits for whatever comes first, and takes it; whether to go on.
    fn await_news(&mut self, alarm: &Alarm, stop: &Bell) -> Result<bool, ProbeError> {
        if let Some(index) = self.flows.iter().position(FlowSocket::ended_at_once) {
            self.take(index);
            return Ok(!stop.rings());
        }
        let (stopped, raw, ready) = {
            let mut fds = vec![readable(stop), readable(alarm)];
            fds.extend(self.raw.iter().map(readable));
            let first = fds.len();
            let mut owners = Vec::new();
            for (index, flow) in self.flows.iter().enumerate() {
                if let Some(fd) = flow.awaits() {
                    fds.push(fd);
                    owners.push(index);
                }
            }
            wait(&mut fds)?;
            let ready: Vec<usize> = owners
                .into_iter()
                .zip(&fds[first..])
                .filter(|(_, fd)| came(fd))
                .map(|(i, _)| i)
                .collect();
            (came(&fds[0]), self.raw.is_some() && came(&fds[2]), ready)
        };
        // What is quoted is told with the answer, so it is read first.
        let marks = if raw { self.marks() } else { Vec::new() };
        for index in ready {
            self.take(index);
        }
        for (number, from, tos) in marks {
            self.marked(number, from, tos);
        }
        Ok(!stopped)
    }

    /// Sends what is due; when there is something to do next, none when all is done.
    fn send(&mut self, mut now_ns: u64) -> Option<u64> {
        let rounds = loop {
            let open = self.under.values().filter(|under| under.is_open).count();
            let open = if self.one_at_a_time { open } else { open - usize::from(self.asks()) };
            match self.rounds.next(now_ns, open) {
                Step::Send { flow, ttl, due_ns } => {
                    self.probe(flow, ttl, now_ns.saturating_sub(due_ns));
                    now_ns = monotonic_ns();
                }
                Step::Until(time) => break Some(time),
                Step::Answer => break self.gate_ns(now_ns),
                Step::Done => break None,
            }
        };
        let asks = self.ask(now_ns);
        [rounds, asks].into_iter().flatten().min()
    }

    fn asks(&self) -> bool {
        self.asked.is_some_and(|number| self.under.get(&number).is_some_and(|under| under.is_open))
    }

    /// The next question of the survey; when silence is its answer, none when there is none left.
    fn ask(&mut self, now_ns: u64) -> Option<u64> {
        if !self.spec.survey {
            return None;
        }
        if self.survey.is_none() {
            // It begins where the first flow's path is known.
            self.rounds.is_explored(0).then_some(())?;
            let last = self.rounds.last(0).unwrap_or(self.rounds.farthest(0));
            let headers = self.headers();
            let ipv6 = self.spec.to.is_ipv6();
            let sizes = Sizes {
                least: if ipv6 { 1280 } else { 68 },
                small: headers + self.spec.size.max(hop_probe::LEAST as u32),
                most: 65_535,
            };
            let answering = self.answering.iter().take(last.into()).copied().collect();
            self.survey = Some(Survey::new(sizes, self.raw.is_some(), answering));
        }
        if self.asked.is_none() && self.ask_after_ns > now_ns {
            return Some(self.ask_after_ns);
        }
        for _ in 0..32 {
            if self.asked.is_some() || self.one_at_a_time && self.under.values().any(|u| u.is_open)
            {
                return self.gate_ns(now_ns);
            }
            let ask = self.survey.as_ref()?.next()?;
            let headers = self.headers();
            let (ttl, tos, size) = match ask {
                // A length of its own, by which it is known where nothing but the header is quoted.
                Ask::Marks { ttl } => (ttl, MARKED, self.spec.size as usize + 1),
                Ask::Size { ttl, bytes } => {
                    (ttl, self.spec.tos, bytes.saturating_sub(headers) as usize)
                }
            };
            match self.transmit(self.surveyor as u16, ttl, tos, size, None) {
                Ok(number) => self.asked = Some(number),
                Err(Errno::EMSGSIZE) => {
                    // The own device's MTU stands in the error queue.
                    let came = self.come(self.surveyor);
                    let said = came.iter().rev().find(|came| came.from.is_none() && came.mtu > 0);
                    let outcome = said.map_or(Outcome::Silence, |said| Outcome::TooBig {
                        by: None,
                        mtu: said.mtu,
                    });
                    came.into_iter().filter(|came| came.from.is_some()).for_each(|came| {
                        self.understand(self.surveyor, came);
                    });
                    self.told(outcome);
                }
                Err(_) => self.told(Outcome::Silence),
            }
        }
        Some(now_ns)
    }

    /// Bytes of the IP header and what is behind it before the payload.
    fn headers(&self) -> u32 {
        (if self.spec.to.is_ipv6() { 40 } else { 20 }) + 8
    }

    fn told(&mut self, outcome: Outcome) {
        self.asked = None;
        if let Some(survey) = &mut self.survey {
            let before = survey.next();
            survey.take(outcome);
            if survey.searches() && outcome == Outcome::Answered {
                self.ask_after_ns = monotonic_ns() + self.spec.interval.nanos().min(MOST_GATE_NS);
            }
            let hop = |ask: Option<Ask>| {
                ask.map(|ask| match ask {
                    Ask::Marks { ttl } | Ask::Size { ttl, .. } => ttl,
                })
            };
            if hop(before) != hop(survey.next()) {
                (self.emit)(News::Sizes(survey.hops().to_vec()));
            }
        }
    }

    fn transmit(
        &mut self,
        flow: u16,
        ttl: u8,
        tos: Tos,
        size: usize,
        seq: Option<u64>,
    ) -> Result<u64, Errno> {
        let number = self.next;
        let packet = Packet { number, ttl, tos: tos.byte(), size };
        let sent_ns = self.flows[usize::from(flow)].send(self.spec.to.is_ipv6(), packet)?;
        self.next += 1;
        self.under.insert(number, Under { flow, ttl, seq, sent_ns, tos, size, is_open: true });
        while self.under.len() > KEPT {
            let gone = self.under.pop_first().map(|(number, _)| number);
            if gone.is_some() && gone == self.asked {
                self.told(Outcome::Silence);
            }
        }
        Ok(number)
    }

    fn probe(&mut self, flow: u16, ttl: u8, late_ns: u64) {
        let spec = &self.spec;
        let (size, patience) = (spec.size, spec.patience);
        let ledger = self.ledgers.entry((flow, ttl)).or_insert_with(|| Ledger::new(size, patience));
        let seq = ledger.next();
        let sent = self.transmit(flow, ttl, self.spec.tos, size as usize, Some(seq));
        let Some(ledger) = self.ledgers.get_mut(&(flow, ttl)) else { return };
        match sent {
            Ok(number) => {
                let sent_ns = self.under.get(&number).map_or(0, |under| under.sent_ns);
                ledger.sent(self.window.t(sent_ns), self.wall.steps(), late_ns);
            }
            Err(errno) => {
                ledger.refused(self.window.t(monotonic_ns()), late_ns, Refusal::of(errno));
            }
        }
    }

    /// When the first probe that others wait for will hold up nobody any more.
    fn gate_ns(&self, now_ns: u64) -> Option<u64> {
        let open = self.under.values().filter(|under| under.is_open);
        Some(open.map(|under| under.sent_ns + self.gate()).min().unwrap_or(now_ns + LEAST_GATE_NS))
    }

    fn gate(&self) -> u64 {
        match self.spec.sent {
            Sent::Tcp => SYN_GATE_NS,
            _ => self.longest_ns.saturating_mul(4).clamp(LEAST_GATE_NS, MOST_GATE_NS),
        }
    }

    fn waiting(&self) -> usize {
        self.ledgers.values().map(Ledger::waiting).sum()
    }

    fn expiring_ns(&self) -> Option<u64> {
        let first = |ledger: &Ledger| {
            let sent = ledger.sent_at(ledger.first())?.t_ns;
            let sent_ns = self.window.origin_ns.saturating_add_signed(sent);
            Some(sent_ns.saturating_add(ledger.patience_ns()) + 1)
        };
        self.ledgers.values().filter(|ledger| ledger.waiting() > 0).filter_map(first).min()
    }

    fn expire(&mut self, now_ns: u64) {
        let now = self.window.t(now_ns);
        self.ledgers.values_mut().for_each(|ledger| ledger.expire(now));
        let gate = self.gate();
        let late = |under: &Under| under.is_open && now_ns >= under.sent_ns.saturating_add(gate);
        let late: Vec<u64> =
            self.under.iter().filter(|(_, under)| late(under)).map(|(number, _)| *number).collect();
        for number in late {
            let Some(under) = self.under.get_mut(&number) else { continue };
            under.is_open = false;
            let flow = under.flow;
            self.flows[usize::from(flow)].give_up(number);
            if self.asked == Some(number) {
                self.told(Outcome::Silence);
            }
        }
    }

    fn come(&mut self, index: usize) -> Vec<Came> {
        self.flows[index].take(&mut self.queue, &mut self.inbox, self.next)
    }

    fn take(&mut self, index: usize) {
        for came in self.come(index) {
            self.understand(index, came);
        }
    }

    /// Finds out what an answer means for the packet that it is about.
    fn understand(&mut self, index: usize, came: Came) {
        let Some(number) = came.number.or_else(|| self.only_one(index)) else {
            // An error without the packet's number: from now on there is only one that it can be of.
            if came.from.is_some() {
                self.lose_track(index);
            }
            return;
        };
        let Some(under) = self.under.get_mut(&number) else { return };
        let first = std::mem::replace(&mut under.is_open, false);
        let under = *under;
        let now_ns = self.wall.look();
        let stamp = came.stamp_ns.map(|stamp| self.wall.monotonic(stamp));
        let received_ns = stamp.unwrap_or(now_ns).clamp(under.sent_ns, now_ns.max(under.sent_ns));
        let rtt_ns = received_ns - under.sent_ns;
        if first {
            self.longest_ns = self.longest_ns.max(rtt_ns);
        }
        let Some(from) = came.from else {
            if let Some(ledger) = under.seq.and(self.ledgers.get_mut(&(under.flow, under.ttl))) {
                ledger.error(under.seq.unwrap_or(0));
            }
            return;
        };
        let said = match came.what {
            What::Answer => None,
            What::Error(meaning) => Some(meaning),
        };
        if under.seq.is_none() {
            self.surveyed(number, from, said, came.mtu);
        }
        if let Some(seq) = under.seq {
            let reply = Reply {
                rtt_ns,
                seen_late_ns: stamp.map(|_| now_ns.saturating_sub(received_ns)),
                ..Reply::default()
            };
            if let Some(ledger) = self.ledgers.get_mut(&(under.flow, under.ttl)) {
                match said {
                    Some(Meaning::TooBig | Meaning::Other) => {
                        ledger.error(seq);
                    }
                    _ => ledger.reply(seq, reply),
                }
            }
            self.rounds.answered(under.flow, under.ttl, self.ends_path(from, said));
            let last = self.rounds.last(under.flow);
            if let Some(ends) = self.ends.get_mut(usize::from(under.flow))
                && *ends != last
            {
                *ends = last;
                (self.emit)(News::Ends { flow: under.flow, ttl: last });
            }
            if under.flow == 0
                && let Some(answers) = self.answering.get_mut(usize::from(under.ttl) - 1)
            {
                *answers = true;
            }
        }
        // A question of the survey goes the way of the first flow, but where it has a socket of its own.
        if usize::from(under.flow) < self.ends.len() && said != Some(Meaning::TooBig) {
            (self.emit)(News::Answer(HopAnswer {
                flow: under.flow,
                ttl: under.ttl,
                from,
                said,
                back_ttl: came.ttl,
                marks: None,
                labels: came.labels,
            }));
        }
    }

    /// An answer came of which nobody can know to which packet of this flow it belongs: what became of each of them is unknown.
    fn lose_track(&mut self, index: usize) {
        self.one_at_a_time = true;
        self.rounds.go_one_at_a_time();
        self.unmatched += 1;
        (self.emit)(News::Unmatched(self.unmatched));
        for under in self.under.values_mut().filter(|under| usize::from(under.flow) == index) {
            if let Some(seq) = under.seq.filter(|_| under.is_open)
                && let Some(ledger) = self.ledgers.get_mut(&(under.flow, under.ttl))
            {
                under.is_open = false;
                ledger.abandoned(seq);
            }
        }
    }

    /// Whether such an answer says that the path goes no further.
    fn ends_path(&self, from: IpAddr, said: Option<Meaning>) -> bool {
        match said {
            None | Some(Meaning::NoPort | Meaning::Unreachable(_)) => true,
            Some(Meaning::Expired | Meaning::TooBig | Meaning::Other) => from == self.spec.to.ip(),
        }
    }

    fn surveyed(&mut self, number: u64, from: IpAddr, said: Option<Meaning>, mtu: u32) {
        if self.asked != Some(number) {
            return;
        }
        self.told(match said {
            Some(Meaning::TooBig) => Outcome::TooBig { by: Some(from), mtu },
            Some(Meaning::Other) => Outcome::Silence,
            _ => Outcome::Answered,
        });
    }

    /// The packet that an answer without a number is about: the only one of that flow that is under way.
    fn only_one(&self, index: usize) -> Option<u64> {
        let mut open = self
            .under
            .iter()
            .rev()
            .filter(|(_, under)| under.is_open && usize::from(under.flow) == index);
        let (number, _) = open.next()?;
        open.next().is_none().then_some(*number)
    }

    /// What a raw socket saw of our packets: number, who quotes it, TOS byte.
    fn marks(&mut self) -> Vec<(u64, Option<IpAddr>, Tos)> {
        let Some(raw) = &self.raw else { return Vec::new() };
        let ipv6 = self.spec.to.is_ipv6();
        let mut found = Vec::new();
        for _ in 0..MOST_BATCHES {
            let Ok(1..) = self.inbox.receive(raw.as_fd()) else { break };
            for (arrival, bytes) in self.inbox.iter() {
                let error = raw.message(bytes).and_then(|m| icmp_error::read(ipv6, m));
                let Some(error) = error else { continue };
                // What is too big is told by a router before the hop that was asked.
                let is_other = error.quoted.destination != self.spec.to.ip();
                if is_other || error.meaning == Meaning::TooBig {
                    continue;
                }
                let known = self.flows.iter().find_map(|f| f.recognise(ipv6, &error, self.next));
                let number = match known {
                    Some(Known::Number(number)) => Some(number),
                    Some(Known::Length(length)) => self.asked.filter(|asked| {
                        self.under.get(asked).is_some_and(|under| under.size == length)
                    }),
                    None => None,
                };
                if let Some(number) = number {
                    let tos = Tos::from_byte(error.quoted.tos);
                    found.push((number, arrival.from.map(|from| from.ip()), tos));
                }
            }
        }
        found
    }

    fn marked(&mut self, number: u64, from: Option<IpAddr>, tos: Tos) {
        let (Some(under), Some(from)) = (self.under.get(&number), from) else { return };
        (self.emit)(News::Answer(HopAnswer {
            flow: if usize::from(under.flow) < self.ends.len() { under.flow } else { 0 },
            ttl: under.ttl,
            from,
            said: Some(Meaning::Expired),
            back_ttl: None,
            marks: Some((under.tos, tos)),
            labels: Vec::new(),
        }));
    }

    /// Hands samples on; those of a flow whose path is not known yet are kept back, unless that is all there will be.
    fn flush(&mut self, all: bool) {
        for ((flow, ttl), ledger) in &mut self.ledgers {
            let explored = all || self.rounds.is_explored(*flow);
            let beyond = self.rounds.last(*flow).is_some_and(|last| *ttl > last);
            if !explored && !beyond {
                continue;
            }
            let samples = ledger.take();
            if !samples.is_empty() && !beyond {
                (self.emit)(News::Samples { flow: *flow, ttl: *ttl, samples });
            }
        }
    }
}
