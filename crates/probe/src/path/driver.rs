//! The driver: one thread that sends when it is time, and listens in between.
//!
//! ```text
//!   Rounds ─► probe ─┐                                       ┌─► Ledger of (flow, hop) ─► samples
//!   Survey ─► ask ───┴─► FlowSocket … error queue, raw ──────┴─► answers, sizes, marks
//! ```

mod quoted;
mod syns;
mod under;

use super::rounds::{Pacing, RoundStep, Rounds};
use super::sockets::{FlowSocket, HopPacket, HopReply, ReplyKind};
use super::survey::{SizeAnswer, Sizes, Survey, SurveyQuestion};
use super::{HopAnswer, MARKED, News, PathProbe, PathSpec, ProbeKind};
use crate::ledger::{EchoReply, Ledger, Refusal};
use crate::retry::HopConnects;
use crate::stream_socket::MOST_BATCHES;
use crate::{Patience, ProbeError};
use nix::errno::Errno;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::socket::{ErrorQueue, IcmpErrors, Inbox};
use quell_sys::wait::{Alarm, Bell, came, readable, wait, wake_exactly};
use quell_sys::wall::Wall;
use quell_units::Tos;
use quell_wire::hop_probe::{self, Quote};
use quell_wire::icmp_error::Meaning;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use under::{PacketUnderWay, is_before, who};

/// Packets that are remembered for what may still come.
const KEPT: usize = 1 << 14;
const FLUSH_NS: u64 = 100_000_000;
/// A probe that was not answered for so long holds up no other: at least, and at most.
const LEAST_GATE_NS: u64 = 300_000_000;
const MOST_GATE_NS: u64 = 1_000_000_000;
/// From one question to a hop that is searched to the next: Linux sends a peer one ICMP error a second (`icmp_ratelimit` of ip-sysctl.rst). …
const SEARCH_NS: u64 = 1_050_000_000;
/// … And so much more now and then, so that no beat of a limit is met each time.
const UNEVEN_NS: u64 = 70_000_000;
/// A hop that no round asks any more and that left no pair unanswered need not be spared: so many times as often.
const QUICKER: u64 = 4;
/// A search that goes on for so long after the rounds is over, whoever leads it astray: one of hops that answer once a second takes half of it.
const MOST_SEARCH_NS: u64 = 60_000_000_000;
/// Rounds that ask a hop no more often than this leave it answers for a search.
const SPARE_NS: u64 = 2 * SEARCH_NS;
const LARGEST: usize = 2048;

#[derive(Debug, Clone, Copy)]
struct Question {
    number: u64,
    /// The smaller one right behind it.
    beside: Option<u64>,
    beside_came: bool,
}

struct Driver<'a> {
    spec: PathSpec,
    flows: Vec<FlowSocket>,
    raw: Option<IcmpErrors>,
    /// Of the flows, that of the survey.
    surveyor: usize,
    rounds: Rounds,
    survey: Option<Survey>,
    asked: Option<Question>,
    /// When the last question left, and how much later than usual the next one does.
    asked_ns: u64,
    uneven_ns: u64,
    over_ns: Option<u64>,
    /// Who said last of an ordinary probe that it is too big, and what were not.
    too_big: Option<(IpAddr, u32)>,
    under: BTreeMap<u64, PacketUnderWay>,
    next: u64,
    ledgers: BTreeMap<(u16, u8), Ledger>,
    answering: Vec<bool>,
    ends: Vec<Option<u8>>,
    longest_ns: u64,
    /// Of SYNs: how long the one under way is awaited.
    patience: Patience,
    /// Of SYNs: how often an answer of a hop was awaited in vain; none where it ever answered.
    in_vain: Vec<Option<u32>>,
    connects: HopConnects,
    /// Flows and hops where the last SYN met a connection before it that is still there, for all that is known.
    left_over: BTreeSet<(u16, u8)>,
    /// Since when others wait for one probe at a time.
    one_at_a_time: bool,
    /// Answers that are about no packet of ours, for all that is known, and how many of them were told.
    unmatched: u64,
    told_unmatched: u64,
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
        let one_at_a_time = spec.sent == ProbeKind::Tcp;
        let own = surveyor.is_some();
        flows.extend(surveyor);
        let driver = Driver {
            surveyor: if own { flows.len() - 1 } else { 0 },
            rounds: Rounds::new(pacing, one_at_a_time),
            survey: None,
            asked: None,
            asked_ns: 0,
            uneven_ns: 0,
            over_ns: None,
            too_big: None,
            under: BTreeMap::new(),
            next: 1,
            ledgers: BTreeMap::new(),
            answering: vec![false; usize::from(spec.most_hops)],
            ends: vec![None; usize::from(spec.flows)],
            longest_ns: 0,
            patience: spec.patience,
            in_vain: vec![Some(0); usize::from(spec.most_hops)],
            connects: HopConnects::default(),
            left_over: BTreeSet::new(),
            one_at_a_time,
            unmatched: 0,
            told_unmatched: 0,
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
            self.flows.iter_mut().for_each(|flow| flow.look(now_ns));
            self.expire(now_ns);
            let wake_ns = self.send(now_ns);
            if now_ns >= flush_ns {
                self.flush(false);
                flush_ns = now_ns + FLUSH_NS;
            }
            if wake_ns.is_none() && self.waiting() == 0 {
                break;
            }
            let look_ns = self.flows.iter().filter_map(FlowSocket::look_ns).min();
            let due = [wake_ns, self.expiring_ns(), look_ns].into_iter().flatten().min();
            alarm.set(due.map(|due| due.min(flush_ns.max(now_ns + 1))))?;
            if !self.await_news(&alarm, stop)? {
                break;
            }
        }
        let now = self.window.t(monotonic_ns());
        self.decide(None);
        if self.survey.as_ref().is_some_and(|survey| survey.next().is_none()) {
            (self.emit)(News::Surveyed);
        }
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
        marks.iter().for_each(|mark| self.marked(mark));
        Ok(!stopped)
    }

    /// Sends what is due; when there is something to do next, none when all is done.
    fn send(&mut self, mut now_ns: u64) -> Option<u64> {
        let rounds = loop {
            let open = self.under.values().filter(|under| under.is_open).count();
            let open = if self.one_at_a_time { open } else { open - self.asks() };
            match self.rounds.next(now_ns, open) {
                RoundStep::Send { flow, ttl, due_ns } => {
                    self.probe(flow, ttl, now_ns.saturating_sub(due_ns));
                    now_ns = monotonic_ns();
                }
                RoundStep::Until(time) => break Some(time),
                RoundStep::Answer => break self.gate_ns(now_ns),
                RoundStep::Done => break None,
            }
        };
        let asks = self.ask(now_ns, rounds.is_none());
        [rounds, asks].into_iter().flatten().min()
    }

    fn is_open(&self, number: u64) -> bool {
        self.under.get(&number).is_some_and(|under| under.is_open)
    }

    fn asks(&self) -> usize {
        let numbers = self.asked.map(|asked| [Some(asked.number), asked.beside]);
        numbers.into_iter().flatten().flatten().filter(|number| self.is_open(*number)).count()
    }

    /// The next question of the survey; when silence is its answer, none when there is none left. A search waits until the rounds are over, where they
    /// end: the few answers that a hop grants are theirs.
    fn ask(&mut self, now_ns: u64, rounds_are_over: bool) -> Option<u64> {
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
        if rounds_are_over {
            let over_ns = *self.over_ns.get_or_insert(now_ns);
            if now_ns >= over_ns.saturating_add(MOST_SEARCH_NS) {
                self.end_search();
                return None;
            }
        }
        let pace_ns = self.pace_ns();
        let ask_after_ns = self.asked_ns.saturating_add(pace_ns);
        let searches = self.survey.as_ref().is_some_and(Survey::searches);
        if self.asked.is_none() && searches && ask_after_ns > now_ns {
            return Some(ask_after_ns);
        }
        for _ in 0..32 {
            if self.asked.is_some() || self.one_at_a_time && self.under.values().any(|u| u.is_open)
            {
                return self.gate_ns(now_ns);
            }
            let survey = self.survey.as_ref()?;
            let ask = survey.next()?;
            let has_end = self.spec.count.is_some() || self.window.has_end();
            let is_frugal = has_end && self.spec.interval.nanos() < SPARE_NS;
            if survey.searches() && is_frugal && !rounds_are_over {
                return None;
            }
            let headers = self.headers();
            let payload = |bytes: u32| bytes.saturating_sub(headers) as usize;
            let (ttl, tos, size, beside) = match ask {
                SurveyQuestion::Marks { ttl, beside } => {
                    let size = self.spec.size as usize;
                    (ttl, MARKED, size, beside.then_some(size))
                }
                SurveyQuestion::Size { ttl, bytes, beside } => {
                    (ttl, self.spec.tos, payload(bytes), beside.map(payload))
                }
            };
            match self.transmit(self.surveyor as u16, ttl, tos, size, None) {
                Ok(number) => {
                    let (surveyor, tos) = (self.surveyor as u16, self.spec.tos);
                    let beside =
                        beside.and_then(|size| self.transmit(surveyor, ttl, tos, size, None).ok());
                    self.asked = Some(Question { number, beside, beside_came: false });
                    (self.asked_ns, self.uneven_ns) = (now_ns, number % 5 * UNEVEN_NS);
                    self.tell_search(ttl, now_ns);
                }
                Err(Errno::EMSGSIZE) => {
                    // The own device's MTU stands in the error queue.
                    let came = self.come(self.surveyor);
                    let said = came.iter().rev().find(|came| came.from.is_none() && came.mtu > 0);
                    let outcome = said.map_or(SizeAnswer::Silence, |said| SizeAnswer::TooBig {
                        by: None,
                        mtu: said.mtu,
                    });
                    came.into_iter().filter(|came| came.from.is_some()).for_each(|came| {
                        self.understand(self.surveyor, came);
                    });
                    self.told(outcome);
                }
                Err(_) => self.told(SizeAnswer::Silence),
            }
        }
        Some(now_ns)
    }

    fn pace_ns(&self) -> u64 {
        let is_spared = self.survey.as_ref().is_none_or(Survey::spares);
        let part = if self.over_ns.is_none() || is_spared { 1 } else { QUICKER };
        (SEARCH_NS + self.uneven_ns) / part
    }

    /// Tells that it searches, and for about how long it will.
    fn tell_search(&self, ttl: u8, now_ns: u64) {
        let questions = self.survey.as_ref().and_then(Survey::questions_left);
        let Some(questions) = questions else { return };
        let gate_ns = self.longest_ns.saturating_mul(4).clamp(LEAST_GATE_NS, MOST_GATE_NS);
        let left_ns = u64::from(questions).saturating_mul(self.pace_ns().max(gate_ns));
        let most_ns = self.over_ns.map_or(u64::MAX, |over_ns| {
            over_ns.saturating_add(MOST_SEARCH_NS).saturating_sub(now_ns)
        });
        (self.emit)(News::Searching { ttl, left_ns: left_ns.min(most_ns) });
    }

    /// Ends the survey, whatever it still would ask.
    fn end_search(&mut self) {
        self.asked = None;
        let left_at = self.survey.as_mut().and_then(Survey::leave);
        if let Some(ttl) = left_at {
            (self.emit)(News::SearchLeft { ttl });
        }
    }

    /// Bytes of the IP header and what is behind it before the payload.
    fn headers(&self) -> u32 {
        (if self.spec.to.is_ipv6() { 40 } else { 20 }) + 8
    }

    fn told(&mut self, outcome: SizeAnswer) {
        self.asked = None;
        if let Some(survey) = &mut self.survey {
            let before = survey.next();
            survey.take(outcome);
            let hop = |ask: Option<SurveyQuestion>| {
                ask.map(|ask| match ask {
                    SurveyQuestion::Marks { ttl, .. } | SurveyQuestion::Size { ttl, .. } => ttl,
                })
            };
            if hop(before) != hop(survey.next()) {
                (self.emit)(News::Sizes(survey.hops().to_vec()));
            }
        }
    }

    /// Ends the open question once nothing of it is under way any more.
    fn settle(&mut self) {
        if let Some(asked) = self.asked
            && self.asks() == 0
        {
            self.told(if asked.beside_came { SizeAnswer::Beside } else { SizeAnswer::Silence });
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
        let packet = HopPacket { number, ttl, tos: tos.byte(), size };
        let sent_ns = self.flows[usize::from(flow)].send(self.spec.to.is_ipv6(), packet)?;
        self.next += 1;
        self.under.insert(
            number,
            PacketUnderWay {
                flow,
                ttl,
                seq,
                sent_ns,
                steps: self.wall.steps(),
                tos,
                is_open: true,
                is_answered: false,
                by: None,
                is_told: false,
                is_marked: false,
            },
        );
        while self.under.len() > KEPT {
            self.under.pop_first();
            self.settle();
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

    /// The only packet of that flow that is under way.
    fn only_one(&self, index: usize) -> Option<u64> {
        let own = |(_, under): &(&u64, &PacketUnderWay)| {
            under.is_open && usize::from(under.flow) == index
        };
        let mut open = self.under.iter().rev().filter(own);
        let (number, _) = open.next()?;
        open.next().is_none().then_some(*number)
    }

    /// When the first probe that others wait for will hold up nobody any more.
    fn gate_ns(&self, now_ns: u64) -> Option<u64> {
        let open = self.under.values().filter(|under| under.is_open);
        Some(
            open.map(|under| under.sent_ns + self.gate(under))
                .min()
                .unwrap_or(now_ns + LEAST_GATE_NS),
        )
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
        self.decide(Some(now));
        self.ledgers.values_mut().for_each(|ledger| ledger.expire(now));
        let is_late = |under: &PacketUnderWay| {
            under.is_open && now_ns >= under.sent_ns.saturating_add(self.gate(under))
        };
        let late = self.under.iter().filter(|(_, under)| is_late(under));
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        for number in late {
            self.give_up(number);
        }
        self.settle();
    }

    fn come(&mut self, index: usize) -> Vec<HopReply> {
        self.flows[index].take(&mut self.queue, &mut self.inbox, self.next)
    }

    fn take(&mut self, index: usize) {
        for came in self.come(index) {
            self.understand(index, came);
        }
    }

    /// Finds out what an answer means for the packet that it is about.
    fn understand(&mut self, index: usize, came: HopReply) {
        let number = match (came.about, came.from) {
            (Quote::Number(number), _) => number,
            // A router quotes too little of it, or it was never sent.
            (Quote::Short | Quote::Wrong, Some(_)) => {
                self.unmatched += 1;
                return;
            }
            // This host itself says it, of what it was just to send.
            (_, None) => match self.only_one(index) {
                Some(number) => number,
                None => return,
            },
        };
        let now_ns = self.wall.look();
        let stamp = came.stamp_ns.map(|stamp| self.wall.monotonic(stamp));
        let steps = self.wall.steps();
        let under = self.under.get_mut(&number).filter(|under| !is_before(stamp, under, steps));
        let Some(under) = under else { return };
        let first = std::mem::replace(&mut under.is_open, false);
        under.is_answered |= came.from.is_some();
        let under = *under;
        let received_ns = stamp.unwrap_or(now_ns).clamp(under.sent_ns, now_ns.max(under.sent_ns));
        let rtt_ns = received_ns - under.sent_ns;
        if first {
            self.longest_ns = self.longest_ns.max(rtt_ns);
        }
        let Some(from) = came.from else {
            if let Some(ledger) = under.seq.and(self.ledgers.get_mut(&(under.flow, under.ttl))) {
                ledger.error(under.seq.unwrap_or(0));
            }
            self.settle();
            return;
        };
        let said = match came.what {
            ReplyKind::Answer => None,
            ReplyKind::Error(meaning) => Some(meaning),
        };
        let at = who(said).filter(|_| self.tells_way(number, from, said));
        if under.seq.is_none() {
            self.surveyed(number, from, said, came.mtu);
        }
        if let Some(seq) = under.seq {
            self.answered(&under, seq, rtt_ns, came.again);
            let seen_late_ns = stamp.map(|_| now_ns.saturating_sub(received_ns));
            let reply = EchoReply { rtt_ns, seen_late_ns, ..EchoReply::default() };
            if let Some(ledger) = self.ledgers.get_mut(&(under.flow, under.ttl)) {
                match said {
                    // Nothing more is heard of a SYN with an error.
                    Some(Meaning::TooBig | Meaning::Other) if self.spec.sent == ProbeKind::Tcp => {
                        ledger.error(seq);
                    }
                    Some(Meaning::TooBig | Meaning::Other) => {
                        ledger.blamed(seq);
                    }
                    // It is not decided yet what became of the first.
                    _ if came.again.is_some() => {}
                    _ => ledger.reply(seq, reply),
                }
            }
            if let Some(at) = at {
                self.rounds.answered(under.flow, under.ttl, at);
                self.tell_ends();
                if under.flow == 0
                    && let Some(answers) = self.answering.get_mut(usize::from(under.ttl) - 1)
                {
                    *answers = true;
                    let is_on_way = self.rounds.last(0).is_none_or(|last| under.ttl <= last);
                    if let (Some(survey), true) = (&mut self.survey, is_on_way) {
                        survey.answers(under.ttl);
                    }
                }
            } else if said == Some(Meaning::TooBig) && self.too_big != Some((from, came.mtu)) {
                self.too_big = Some((from, came.mtu));
                (self.emit)(News::TooBig { by: from, mtu: came.mtu });
            }
        }
        // A question of the survey goes the way of the first flow, but where it has a socket of its own.
        if usize::from(under.flow) < self.ends.len() && at.is_some() {
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

    /// Tells where flows end, where that is news: what is learnt of one may tell it of others.
    fn tell_ends(&mut self) {
        for (ends, flow) in self.ends.iter_mut().zip(0..) {
            let ttl = self.rounds.last(flow);
            if *ends != ttl {
                *ends = ttl;
                (self.emit)(News::Ends { flow, ttl });
                if let (0, Some(ttl), Some(survey)) = (flow, ttl, &mut self.survey) {
                    self.asked.take_if(|_| survey.ends_at(ttl));
                    (self.emit)(News::Sizes(survey.hops().to_vec()));
                }
            }
        }
    }

    /// Whether an answer tells the way of its packet: the first does, and one of the end itself whatever was said before. What comes again may come from
    /// anywhere.
    fn tells_way(&mut self, number: u64, from: IpAddr, said: Option<Meaning>) -> bool {
        let is_end = from == self.spec.to.ip() && matches!(said, None | Some(Meaning::NoPort));
        let Some(under) = self.under.get_mut(&number) else { return false };
        let is_told = std::mem::replace(&mut under.is_told, true);
        under.is_first_of(from) && !is_told || is_end
    }

    fn surveyed(&mut self, number: u64, from: IpAddr, said: Option<Meaning>, mtu: u32) {
        let Some(asked) = &mut self.asked else { return };
        let is_answer = !matches!(said, Some(Meaning::TooBig | Meaning::Other));
        if asked.number == number {
            match said {
                Some(Meaning::TooBig) => match &mut self.survey {
                    Some(survey) if survey.believes(mtu) => {
                        self.told(SizeAnswer::TooBig { by: Some(from), mtu });
                    }
                    // The smaller one behind it may still be answered.
                    Some(survey) => survey.doubt(from),
                    None => {}
                },
                _ if is_answer => self.told(SizeAnswer::Answered),
                _ => {}
            }
        } else if asked.beside == Some(number) {
            asked.beside_came |= is_answer;
        }
        self.settle();
    }

    /// Hands samples on; those of a flow whose path is not known yet are kept back, unless that is all there will be.
    fn flush(&mut self, all: bool) {
        if self.unmatched != self.told_unmatched {
            self.told_unmatched = self.unmatched;
            (self.emit)(News::Unmatched(self.unmatched));
        }
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
