//! What is asked of each hop once: how large a packet may be to get there, and whether its TOS byte arrives as it was sent. Pure.
//!
//! ```text
//!   hop 1   marked packet ── which TOS byte is quoted?
//!           1500 bytes    ── answered: the path carries them to here
//!   hop 2   1500 bytes    ── "too big, 1400" from hop 1: so large is the link behind it
//!           1400 bytes    ── answered
//!   hop 3   1400 bytes    ── silence, twice: too large, or lost, or hop 3 answers seldom (Linux sends a peer one ICMP error a second)
//!           1400 + 84     ── a pair, the large one ahead: whatever lets one of the two be answered lets the first. Only the second is: halve
//!           1281 + 1280   ── only the second, four times: larger ones vanish, to the byte
//! ```
//!
//! Answers of equal chances leave out the first and not the second in one of four pairs at most, or one of two where pairs without any answer do not
//! count; a limit of answers does so only where its next one becomes due between the two. So silence to large packets alone proves nothing, and pairs do.
//!
//! Marked packets that had no answer are asked for again once all sizes are known, as pairs, an unmarked one behind the marked one.
//!
//! A hop that is silent to large packets may be one that answers none; the next one tells. Only where that one is silent too, and answers what this
//! one did, do they vanish on the way.

use std::net::IpAddr;

/// How often something is asked before silence counts.
const TRIES: u8 = 2;
/// Pairs of which only the small packet is answered before large ones are said to vanish, where every pair has an answer, …
const FORCED: u8 = 4;
/// … and at most, where some have none, each of which asks for one more.
const MOST_FORCED: u8 = 8;
/// Pairs without an answer after which a hop's size stays unknown.
const MOST_MISSED: u8 = 12;
/// How often a search may turn out to have been led astray by what was lost.
const MOST_ASTRAY: u8 = 8;
/// How often somebody may say that it is too big: more different links hardly follow each other.
const MOST_SAID: u8 = 16;

/// Sizes that links have: tunnels, PPPoE, IPv6's least. They are tried before others.
const USUAL: [u32; 20] = [
    576, 1006, 1280, 1300, 1350, 1360, 1380, 1400, 1412, 1420, 1424, 1430, 1440, 1450, 1454, 1460,
    1472, 1476, 1480, 1492,
];

/// Which sizes there can be, in bytes of the whole IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// What every link carries: 68 for IPv4 (RFC 791), 1280 for IPv6 (RFC 8200).
    pub least: u32,
    /// The smallest probe.
    pub small: u32,
    /// The largest one.
    pub most: u32,
}

/// A question to a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Which TOS byte arrives there? And an unmarked packet right behind the marked one?
    Marks { ttl: u8, beside: bool },
    /// Does a packet of so many bytes get there? And one of those bytes right behind it, which is small enough?
    Size { ttl: u8, bytes: u32, beside: Option<u32> },
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The hop answered.
    Answered,
    /// Somebody says that it is too big, and what is not: a router, or this host where nobody is named.
    TooBig { by: Option<IpAddr>, mtu: u32 },
    /// The hop answered the smaller packet of the two alone.
    Beside,
    /// Nothing came.
    Silence,
}

/// Why no larger packet gets to a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// This router said so.
    Said(IpAddr),
    /// Larger ones vanish, and nobody says why: a path MTU black hole (RFC 2923, section 2.1).
    Vanish,
}

/// What a hop showed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HopSize {
    /// The largest packet that is known to get there, in bytes of the whole IP packet.
    pub bytes: Option<u32>,
    /// Why it is no more than at the hop before.
    pub limit: Option<Limit>,
    /// The hop alone is silent to larger ones: those behind it answer them.
    pub answers_less: bool,
    /// Marked packets are never answered, unmarked ones right behind them are.
    pub marks_vanish: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Which TOS byte arrives?
    Marks,
    /// Does the largest one get there?
    Most,
    /// It was silent. Of a pair, is it that again, while this one is answered?
    Doubt { low: u32 },
    /// The largest that does is at least `low` and below `high`.
    Halve { low: u32, high: u32 },
    /// One byte more was not answered; is it never, while this is?
    Force { low: u32 },
    /// The hop before answered no more than this; does this one?
    Suspect { low: u32 },
    /// A marked packet had no answer. Of a pair, is it that again, while the unmarked one is answered?
    Again,
}

/// The survey of one path.
#[derive(Debug)]
pub struct Survey {
    sizes: Sizes,
    marks: bool,
    hops: Vec<HopSize>,
    /// Which hops answer at all, which were asked for sizes, which answered marked packets, and which were asked for these again.
    answering: Vec<bool>,
    asked: Vec<bool>,
    marked: Vec<bool>,
    asked_again: Vec<bool>,
    /// Whether nothing is to be asked any more.
    is_left: bool,
    /// What the own device carries.
    own_most: u32,
    /// The farthest hop that was asked for sizes, and the largest one behind it, while nearer ones are asked.
    front: usize,
    most_ahead: Option<u32>,
    /// Index of the hop that is asked.
    at: usize,
    state: State,
    /// How often the question was asked and nothing came …
    missed: u8,
    /// … or the smaller packet alone was answered.
    beside: u8,
    /// How often the search of this hop went astray.
    astray: u8,
    /// Whether both packets of a pair had no answer of this hop: it may limit them.
    spares: bool,
    /// Who said last that it was too big.
    said: Option<IpAddr>,
    times_said: u8,
    /// Who said it, and names no size that can be, as routers older than RFC 1191 do: that is searched.
    nameless: Option<IpAddr>,
    /// A hop that was silent to larger packets, and the most that it answered.
    suspect: Option<(usize, u32)>,
}

impl Survey {
    /// Of these hops, those that are `true` answer small packets.
    pub fn new(sizes: Sizes, marks: bool, answering: Vec<bool>) -> Self {
        let mut survey = Self {
            sizes,
            marks,
            hops: vec![HopSize::default(); answering.len()],
            asked: vec![false; answering.len()],
            marked: vec![false; answering.len()],
            asked_again: vec![false; answering.len()],
            answering,
            is_left: false,
            own_most: sizes.most,
            front: 0,
            most_ahead: None,
            at: 0,
            state: State::Most,
            missed: 0,
            beside: 0,
            astray: 0,
            spares: false,
            said: None,
            times_said: 0,
            nameless: None,
            suspect: None,
        };
        survey.begin();
        survey
    }

    /// The next question, the same until it is answered; none when all is known.
    pub fn next(&self) -> Option<Ask> {
        if self.at >= self.hops.len() {
            return None;
        }
        let ttl = (self.at + 1) as u8;
        let (bytes, beside) = match self.state {
            State::Marks => return Some(Ask::Marks { ttl, beside: false }),
            State::Again => return Some(Ask::Marks { ttl, beside: true }),
            State::Most => (self.sizes.most, None),
            State::Doubt { low } => (self.sizes.most, Some(low)),
            State::Halve { low, high } => (between(low, high), Some(low)),
            State::Force { low } | State::Suspect { low } => (low + 1, Some(low)),
        };
        Some(Ask::Size { ttl, bytes, beside })
    }

    /// Whether it asks one hop again and again, which should not be so fast that the hop limits its answers, nor beside others that do the same.
    pub fn searches(&self) -> bool {
        !matches!(self.state, State::Marks | State::Most)
    }

    /// Whether the hop that is asked left a pair without an answer, so that it should not be asked often.
    pub fn spares(&self) -> bool {
        self.spares
    }

    /// About how many questions a search still takes; none where none is under way.
    pub fn questions_left(&self) -> Option<u32> {
        let more = |all: u8| u32::from(all.saturating_sub(self.beside));
        let halvings = |low: u32, high: u32| high.saturating_sub(low).max(1).ilog2() + 1;
        let forced = (FORCED + self.missed).min(MOST_FORCED);
        // Where a hop answers no more, the one behind it is asked too.
        let next = if self.at + 1 < self.hops.len() { u32::from(FORCED) } else { 0 };
        Some(match self.state {
            State::Marks | State::Most | State::Again => return None,
            State::Doubt { low } => {
                more(TRIES) + halvings(low, self.sizes.most) + u32::from(FORCED) + next
            }
            State::Halve { low, high } => halvings(low, high) + u32::from(FORCED) + next,
            State::Force { .. } => more(forced) + next,
            State::Suspect { .. } => more(forced),
        })
    }

    /// A hop answered, which may have been silent before.
    pub fn answers(&mut self, ttl: u8) {
        let Some(answers) = self.answering.get_mut(usize::from(ttl).wrapping_sub(1)) else {
            return;
        };
        let is_new = !std::mem::replace(answers, true);
        if is_new && self.at >= self.hops.len() {
            self.begin();
        }
    }

    /// The end is at this hop, and nearer than was thought: what it answered farther off counts there. Whether the open question is not asked any more.
    pub fn ends_at(&mut self, ttl: u8) -> bool {
        let behind = usize::from(ttl);
        let (Some(end), true) = (behind.checked_sub(1), behind < self.hops.len()) else {
            return false;
        };
        let known = self.hops[behind..].iter().find(|hop| hop.bytes.is_some());
        if let (None, Some(known)) = (self.hops[end].bytes, known) {
            self.hops[end] = *known;
            self.asked[end] = true;
        }
        self.marked[end] |= self.marked[behind..].contains(&true);
        self.answering[end] = true;
        self.answering[behind..].fill(false);
        let is_moot = (behind..self.hops.len()).contains(&self.at);
        if is_moot {
            self.suspect = None;
            self.at = 0;
            self.begin();
        }
        is_moot
    }

    /// Asks nothing more; the hop at which that is, where there was more to ask about sizes.
    pub fn leave(&mut self) -> Option<u8> {
        let is_open = self.at < self.hops.len() && !matches!(self.state, State::Again);
        let left_at = is_open.then_some((self.at + 1) as u8);
        self.is_left = true;
        self.at = self.hops.len();
        left_at
    }

    /// What is known of each hop.
    pub fn hops(&self) -> &[HopSize] {
        &self.hops
    }

    /// Takes what came of the last question.
    pub fn take(&mut self, outcome: Outcome) {
        let Some(ask) = self.next() else { return };
        match outcome {
            Outcome::TooBig { mtu, .. } if !self.believes(mtu) => self.silent(),
            Outcome::TooBig { by, mtu } => {
                self.times_said += 1;
                self.sizes.most = mtu;
                self.own_most = if by.is_none() { mtu } else { self.own_most };
                self.said = by.or(self.said);
                self.suspect = None;
                self.go(State::Most);
            }
            Outcome::Answered => self.answered(ask),
            Outcome::Beside => self.only_beside(),
            Outcome::Silence => self.silent(),
        }
    }

    /// Whether that so large a packet is not too big can be true. Who says that what fits is too big, or that less than any link carries is not, names
    /// nothing; nor does who finds all too big.
    pub fn believes(&self, mtu: u32) -> bool {
        let Some(Ask::Size { bytes, .. }) = self.next() else { return false };
        let least = self.sizes.least.max(self.sizes.small);
        (least..bytes).contains(&mtu) && self.times_said < MOST_SAID
    }

    /// What was asked is too big, says somebody who can't be believed what is not.
    pub fn doubt(&mut self, by: IpAddr) {
        self.nameless = Some(by);
    }

    /// Why larger ones than were found do not get there.
    fn limit(&mut self) -> Limit {
        // A larger size that was named before is not what limits them.
        self.said = None;
        self.nameless.take().map_or(Limit::Vanish, Limit::Said)
    }

    fn answered(&mut self, ask: Ask) {
        let Ask::Size { bytes, .. } = ask else {
            self.marked[self.at] = true;
            return match self.state {
                State::Again => self.forward(),
                _ => self.go(State::Most),
            };
        };
        // What the hop before did not answer gets there.
        if let Some((before, _)) = self.suspect.take() {
            self.hops[before].answers_less = true;
        }
        match self.state {
            _ if bytes == self.sizes.most => {
                self.nameless = None;
                let said = self.said.take().map(Limit::Said);
                self.found(bytes, said);
            }
            State::Halve { high, .. } => self.halve(bytes, high),
            State::Force { .. } if self.astray == MOST_ASTRAY => self.forward(),
            _ => {
                self.astray += 1;
                self.go(State::Doubt { low: bytes });
            }
        }
    }

    fn only_beside(&mut self) {
        if !self.searches() {
            return self.silent();
        }
        self.beside += 1;
        let forced = self.beside >= (FORCED + self.missed).min(MOST_FORCED);
        match self.state {
            State::Doubt { low } if self.beside == TRIES => self.halve(low, self.sizes.most),
            State::Halve { low, high } => self.halve(low, between(low, high)),
            State::Force { low } if forced => {
                let is_last = !self.answering[self.at + 1..].contains(&true);
                let behind = self.hops[self.at + 1..].iter().find_map(|hop| hop.bytes);
                self.hops[self.at].answers_less = behind.is_some_and(|behind| behind > low);
                let vanish = is_last || behind.is_some_and(|behind| behind <= low);
                self.suspect = (!is_last && behind.is_none()).then_some((self.at, low));
                let limit = vanish.then(|| self.limit());
                self.found(low, limit);
            }
            State::Again if forced => {
                self.hops[self.at].marks_vanish = true;
                // They get to none behind it.
                self.marks = false;
                self.forward();
            }
            State::Suspect { low } if forced => {
                // The hop before could not answer more, nor does this one: they vanish before that one.
                if let Some((before, _)) = self.suspect.take() {
                    self.hops[before].limit = Some(self.limit());
                }
                self.sizes.most = low;
                self.found(low, None);
            }
            _ => {}
        }
    }

    fn silent(&mut self) {
        self.missed += 1;
        self.spares |= self.searches();
        let small = self.sizes.small;
        match (self.state, self.suspect) {
            (State::Marks | State::Most, _) if self.missed < TRIES => {}
            (State::Marks, _) => self.go(State::Most),
            (State::Most, Some((_, low))) => self.go(State::Suspect { low }),
            (State::Most, None) if self.sizes.most > small => self.go(State::Doubt { low: small }),
            (State::Most, None) => self.forward(),
            (State::Again, _) if self.missed == 2 * TRIES => self.forward(),
            _ if self.missed < MOST_MISSED => {}
            (State::Suspect { .. }, _) => {
                self.suspect = None;
                self.go(State::Doubt { low: small });
            }
            // It answers nothing any more, or too seldom.
            _ => self.forward(),
        }
    }

    fn halve(&mut self, low: u32, high: u32) {
        self.go(match high - low > 1 {
            true => State::Halve { low, high },
            false => State::Force { low },
        });
    }

    fn found(&mut self, bytes: u32, limit: Option<Limit>) {
        // Where the hop behind was asked first, its limit is this one's.
        let behind = self.hops[self.at + 1..].iter_mut().find(|hop| hop.bytes.is_some());
        if let Some(behind) = behind.filter(|hop| limit.is_some() && hop.bytes == Some(bytes)) {
            behind.limit = None;
        }
        self.hops[self.at].bytes = Some(bytes);
        self.hops[self.at].limit = limit;
        self.forward();
    }

    fn forward(&mut self) {
        self.at += 1;
        (self.astray, self.spares) = (0, false);
        self.begin();
    }

    /// The next hop that answers and was not asked yet; then those that answered no marked packet, if none behind them did.
    fn begin(&mut self) {
        let all = self.hops.len();
        let wants = |index: &usize| self.answering[*index] && !self.asked[*index];
        let first = (self.at.min(all)..all).find(wants).or_else(|| (0..all).find(wants));
        if let Some(next) = first.filter(|_| !self.is_left) {
            if next < self.front {
                self.most_ahead.get_or_insert(self.sizes.most);
                (self.said, self.nameless, self.suspect) = (None, None, None);
                let before = self.hops[..next].iter().rev().filter(|hop| !hop.answers_less);
                self.sizes.most =
                    before.filter_map(|hop| hop.bytes).next().unwrap_or(self.own_most);
            } else {
                self.sizes.most = self.most_ahead.take().unwrap_or(self.sizes.most);
                self.front = next;
            }
            (self.at, self.asked[next]) = (next, true);
            return self.go(if self.marks { State::Marks } else { State::Most });
        }
        let passed = self.marked.iter().rposition(|marked| *marked).map_or(0, |last| last + 1);
        let unmarked = |index: &usize| self.answering[*index] && !self.asked_again[*index];
        let again = (passed..all).find(unmarked).filter(|_| self.marks && !self.is_left);
        self.at = again.unwrap_or(all);
        if let Some(index) = again {
            self.asked_again[index] = true;
        }
        self.go(State::Again);
    }

    fn go(&mut self, state: State) {
        self.state = state;
        (self.missed, self.beside) = (0, 0);
    }
}

/// What to try between a size that is answered and one that is not: usual sizes, one more than these, then halves. A silent hop costs time, an
/// answer one of the few that routers grant.
fn between(low: u32, high: u32) -> u32 {
    let usual: Vec<u32> = USUAL.into_iter().filter(|size| (low + 1..high).contains(size)).collect();
    match usual.get(usual.len() / 2) {
        Some(size) => *size,
        None if USUAL.contains(&low) => low + 1,
        None => low + (high - low) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { least: 68, small: 84, most: 1500 };

    fn router(n: u8) -> IpAddr {
        [192, 0, 2, n].into()
    }

    /// Surveys a path whose link before hop n carries `links[n]` bytes; `mute[n]`: the router before it says nothing of what is too big;
    /// `answers[n]`: the most that hop n answers. The hops, and how many packets it took.
    fn survey(links: &[u32], mute: &[bool], answers: &[u32]) -> (Vec<HopSize>, usize) {
        let mut survey = Survey::new(SIZES, false, answers.iter().map(|a| *a > 0).collect());
        let mut asked = 0;
        while let Some(Ask::Size { ttl, bytes, beside }) = survey.next() {
            asked += 1;
            assert!(asked < 400, "it ends");
            let hops = usize::from(ttl);
            let fate = |bytes: u32| match (0..hops).find(|n| links[*n] < bytes) {
                Some(n) if mute[n] => Outcome::Silence,
                Some(0) => Outcome::TooBig { by: None, mtu: links[0] },
                Some(n) => Outcome::TooBig { by: Some(router(n as u8)), mtu: links[n] },
                None if answers[hops - 1] < bytes => Outcome::Silence,
                None => Outcome::Answered,
            };
            survey.take(match (fate(bytes), beside.map(fate)) {
                (Outcome::Silence, Some(Outcome::Answered)) => Outcome::Beside,
                (outcome, _) => outcome,
            });
        }
        (survey.hops, asked)
    }

    fn bytes(hops: &[HopSize]) -> Vec<Option<u32>> {
        hops.iter().map(|hop| hop.bytes).collect()
    }

    const ALL: u32 = 9999;

    #[test]
    fn a_small_link_is_told_by_the_router_before_it() {
        let (hops, asked) = survey(&[1500, 1500, 1400, 1400], &[false; 4], &[ALL; 4]);
        assert_eq!(bytes(&hops), [Some(1500), Some(1500), Some(1400), Some(1400)]);
        let limits: Vec<_> = hops.iter().map(|hop| hop.limit).collect();
        assert_eq!(limits, [None, None, Some(Limit::Said(router(2))), None]);
        assert_eq!(asked, 5);
    }

    #[test]
    fn packets_that_vanish_are_told_to_the_byte_and_where() {
        let (hops, _) = survey(&[1500, 1500, 1400, 1400], &[false, false, true, true], &[ALL; 4]);
        assert_eq!(bytes(&hops), [Some(1500), Some(1500), Some(1400), Some(1400)]);
        assert_eq!(hops[2].limit, Some(Limit::Vanish));
        assert_eq!(hops[3].limit, None);
        let (hops, _) = survey(&[1500, 1400], &[false, true], &[ALL; 2]);
        assert_eq!((hops[1].bytes, hops[1].limit), (Some(1400), Some(Limit::Vanish)));
    }

    #[test]
    fn a_hop_that_answers_no_large_packets_is_no_hole_in_the_path() {
        let (hops, _) = survey(&[1500; 4], &[false; 4], &[ALL, 600, ALL, ALL]);
        assert_eq!(bytes(&hops), [Some(1500), Some(600), Some(1500), Some(1500)]);
        assert!(hops[1].answers_less);
        assert!(hops.iter().all(|hop| hop.limit.is_none()), "{hops:?}");
    }

    #[test]
    fn a_search_is_short() {
        for wanted in [1400, 1492, 1280, 1401, 1333, 700, 85] {
            let (hops, asked) = survey(&[wanted], &[true], &[ALL]);
            assert_eq!((hops[0].bytes, hops[0].limit), (Some(wanted), Some(Limit::Vanish)));
            assert!(asked <= if USUAL.contains(&wanted) { 15 } else { 22 }, "{wanted}: {asked}");
        }
    }

    /// Pairs as the driver sends them to the last of hops that answer a packet each `limit` ms and are probed each `every` ms, by a path that loses one of
    /// `loses` packets, if any.
    fn limited(limit: u64, every: u64, phase: u64, loses: Option<u64>) -> Vec<HopSize> {
        let mut survey = Survey::new(SIZES, false, vec![true; 3]);
        let (mut now, mut due, mut probe, mut dice) = (phase % limit, 0, 0, phase);
        let mut lost = || {
            // Knuth's generator.
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            loses.is_some_and(|one_of| (dice >> 33) % one_of == 0)
        };
        for asked in 0.. {
            let Some(Ask::Size { beside, .. }) = survey.next() else { break };
            while probe <= now {
                if probe >= due {
                    due = probe + limit;
                }
                probe += every;
            }
            let mut answers = |now: u64| {
                let answers = !lost() && now >= due;
                if answers {
                    due = now + limit;
                }
                answers && !lost()
            };
            let outcome = match (answers(now), beside.is_some_and(|_| answers(now + 2))) {
                (true, _) => Outcome::Answered,
                (_, true) => Outcome::Beside,
                _ => Outcome::Silence,
            };
            survey.take(outcome);
            let pace = 1050 + asked % 5 * 70;
            // As the driver has it once the rounds are over, of which a probe a while is left here.
            now += match outcome {
                _ if survey.spares() => pace,
                Outcome::Answered => pace / 4,
                _ => 300.max(pace / 4),
            };
        }
        survey.hops
    }

    #[test]
    fn a_limit_of_answers_is_no_hole_whatever_its_beat_and_whatever_is_lost() {
        let mut stories = 0;
        for limit in [200, 500, 1000, 1050, 1120, 2000, 3000] {
            for every in [50, 150, 333, 1000, 1_000_000] {
                for loses in [None, Some(25), Some(5)] {
                    for phase in 0..20 {
                        let hops = limited(limit, every, phase * 97, loses);
                        assert!(
                            hops.iter().all(|hop| hop.limit.is_none()),
                            "{limit} {every} {loses:?} {phase}: {hops:?}"
                        );
                        stories += 1;
                    }
                }
            }
        }
        assert_eq!(stories, 2100);
    }

    #[test]
    fn a_search_that_a_loss_led_astray_begins_anew() {
        let mut survey = Survey::new(SIZES, false, vec![true]);
        let (mut was_lost, mut most_astray) = (false, 0);
        while let Some(Ask::Size { bytes, .. }) = survey.next() {
            let is_lost = bytes <= 1400 && !was_lost;
            was_lost |= is_lost;
            let fits = bytes <= 1400 && !is_lost;
            survey.take(if fits { Outcome::Answered } else { Outcome::Beside });
            most_astray = most_astray.max(survey.astray);
        }
        assert_eq!((survey.hops[0].bytes, most_astray), (Some(1400), 1));
        assert_eq!(survey.hops[0].limit, Some(Limit::Vanish));
    }

    #[test]
    fn a_hop_that_falls_silent_while_it_is_asked_leaves_its_size_unknown() {
        let mut survey = Survey::new(SIZES, false, vec![true]);
        survey.take(Outcome::Silence);
        survey.take(Outcome::Silence);
        assert_eq!(survey.next(), Some(Ask::Size { ttl: 1, bytes: 1500, beside: Some(84) }));
        survey.take(Outcome::Beside);
        while survey.next().is_some() {
            survey.take(Outcome::Silence);
        }
        assert_eq!(survey.hops[0], HopSize::default());
    }

    #[test]
    fn a_hop_is_asked_seldom_once_it_left_a_pair_without_an_answer() {
        let mut survey = Survey::new(SIZES, false, vec![true, true]);
        assert_eq!(survey.questions_left(), None, "nothing is searched");
        survey.take(Outcome::Silence);
        survey.take(Outcome::Silence);
        assert!(survey.searches() && !survey.spares(), "large ones may be too large");
        let first = survey.questions_left().expect("it searches");
        (0..4).for_each(|_| survey.take(Outcome::Beside));
        assert!(survey.questions_left().is_some_and(|left| left < first));
        assert!(!survey.spares());
        survey.take(Outcome::Silence);
        assert!(survey.spares());
        while survey.next().is_some_and(|ask| matches!(ask, Ask::Size { ttl: 1, .. })) {
            survey.take(Outcome::Beside);
        }
        assert!(!survey.spares(), "the next hop did nothing yet");
    }

    /// Somebody answers only what shows nothing: one small packet of a pair, and then none.
    #[test]
    fn a_survey_that_is_left_asks_nothing_more_and_keeps_what_it_knows() {
        let mut survey = Survey::new(SIZES, false, vec![true; 3]);
        survey.take(Outcome::Answered);
        (0..5).for_each(|_| survey.take(Outcome::Silence));
        assert_eq!((survey.leave(), survey.next()), (Some(2), None));
        assert_eq!(bytes(&survey.hops), [Some(1500), None, None]);
        assert_eq!(survey.leave(), None, "all was asked");
    }

    #[test]
    fn a_silent_hop_is_left_out() {
        let (hops, asked) = survey(&[1500; 3], &[false; 3], &[ALL, 0, ALL]);
        assert_eq!(bytes(&hops), [Some(1500), None, Some(1500)]);
        assert_eq!(asked, 2);
    }

    #[test]
    fn lies_about_sizes_lead_nowhere() {
        let mut survey = Survey::new(SIZES, false, vec![true]);
        for mtu in [0, 1, 67, 83, 1500, 65_535, u32::MAX] {
            survey.take(Outcome::TooBig { by: Some(router(1)), mtu });
            assert!(matches!(
                survey.next(),
                Some(Ask::Size { ttl: 1, bytes: 84..=1500, .. }) | None
            ));
        }
        // Somebody who always names one byte less can't keep us.
        let mut survey = Survey::new(SIZES, false, vec![true]);
        let mut asked = 0;
        while let Some(Ask::Size { bytes, .. }) = survey.next() {
            asked += 1;
            survey.take(Outcome::TooBig { by: Some(router(1)), mtu: bytes - 1 });
        }
        assert!(asked <= 40, "{asked}");
    }

    /// A router older than RFC 1191 names no size.
    #[test]
    fn a_size_that_nobody_names_is_searched_and_whose_link_it_is_is_told() {
        let mut survey = Survey::new(SIZES, false, vec![true; 2]);
        let mut asked = 0;
        while let Some(Ask::Size { bytes, beside, .. }) = survey.next() {
            asked += 1;
            let fits = bytes <= 1400;
            if !fits {
                assert!(!survey.believes(0));
                survey.doubt(router(1));
            }
            survey.take(match beside {
                _ if fits => Outcome::Answered,
                Some(_) => Outcome::Beside,
                None => Outcome::Silence,
            });
        }
        assert_eq!(bytes(&survey.hops), [Some(1400), Some(1400)]);
        assert_eq!(survey.hops[0].limit, Some(Limit::Said(router(1))));
        assert!(asked < 25, "{asked}");
    }

    #[test]
    fn marks_are_asked_for_first_and_silence_about_them_stops_nothing() {
        let mut survey = Survey::new(SIZES, true, vec![true, true]);
        assert_eq!(survey.next(), Some(Ask::Marks { ttl: 1, beside: false }));
        survey.take(Outcome::Silence);
        assert_eq!(survey.next(), Some(Ask::Marks { ttl: 1, beside: false }));
        survey.take(Outcome::Silence);
        assert_eq!(survey.next(), Some(Ask::Size { ttl: 1, bytes: 1500, beside: None }));
        survey.take(Outcome::Answered);
        assert_eq!(survey.next(), Some(Ask::Marks { ttl: 2, beside: false }));
    }

    /// Surveys three hops; to marked packets and pairs of one the hop with this number gives that. How often each hop was asked for marks as pairs.
    fn marks_of(mut survey: Survey, outcome: impl Fn(u8, bool) -> Outcome) -> (Survey, [u32; 3]) {
        let mut pairs = [0; 3];
        while let Some(ask) = survey.next() {
            survey.take(match ask {
                Ask::Marks { ttl, beside } => {
                    pairs[usize::from(ttl) - 1] += u32::from(beside);
                    assert!(pairs.iter().sum::<u32>() < 40, "it ends");
                    outcome(ttl, beside)
                }
                Ask::Size { .. } => Outcome::Answered,
            });
        }
        (survey, pairs)
    }

    #[test]
    fn marked_packets_without_an_answer_are_asked_for_again_beside_unmarked_ones() {
        let new = || Survey::new(SIZES, true, vec![true; 3]);
        // All were lost at first.
        let late = |_, beside| if beside { Outcome::Answered } else { Outcome::Silence };
        let (survey, pairs) = marks_of(new(), late);
        assert_eq!((pairs, survey.hops[0].marks_vanish), ([1, 1, 1], false));
        // What answers behind them lets them pass.
        let some = |ttl, _| if ttl == 2 { Outcome::Answered } else { Outcome::Silence };
        assert_eq!(marks_of(new(), some).1, [0, 0, 4]);
        let drops = |ttl, beside| match ttl {
            1 => Outcome::Answered,
            _ if beside => Outcome::Beside,
            _ => Outcome::Silence,
        };
        let (survey, pairs) = marks_of(new(), drops);
        assert_eq!(pairs, [0, 4, 0]);
        let vanish: Vec<bool> = survey.hops.iter().map(|hop| hop.marks_vanish).collect();
        assert_eq!(vanish, [false, true, false]);
    }

    #[test]
    fn an_end_that_turns_out_to_be_nearer_keeps_what_it_answered_farther_off() {
        // Its first probe was lost, so it answered at the fifth hop; the third was silent at first.
        let mut survey = Survey::new(SIZES, false, vec![true, true, false, false, true]);
        survey.take(Outcome::Answered);
        survey.take(Outcome::Answered);
        survey.take(Outcome::TooBig { by: Some(router(2)), mtu: 1400 });
        survey.take(Outcome::Answered);
        assert_eq!((survey.next(), survey.hops[4].bytes), (None, Some(1400)));
        assert!(!survey.ends_at(4), "nothing is asked");
        assert_eq!(survey.hops[3].limit, Some(Limit::Said(router(2))));
        survey.answers(3);
        assert_eq!(survey.next(), Some(Ask::Size { ttl: 3, bytes: 1500, beside: None }));
        survey.take(Outcome::TooBig { by: Some(router(2)), mtu: 1400 });
        survey.take(Outcome::Answered);
        assert_eq!(survey.next(), None);
        assert_eq!(bytes(&survey.hops[..4]), [Some(1500), Some(1500), Some(1400), Some(1400)]);
        let limits: Vec<_> = survey.hops[..4].iter().map(|hop| hop.limit).collect();
        assert_eq!(limits, [None, None, Some(Limit::Said(router(2))), None]);
    }

    #[test]
    fn a_question_to_an_end_that_is_nearer_is_asked_there() {
        let mut survey = Survey::new(SIZES, false, vec![false, false, true]);
        assert_eq!(survey.next(), Some(Ask::Size { ttl: 3, bytes: 1500, beside: None }));
        survey.take(Outcome::Silence);
        assert!(survey.ends_at(2));
        survey.answers(1);
        assert_eq!(survey.next(), Some(Ask::Size { ttl: 2, bytes: 1500, beside: None }));
        survey.take(Outcome::Answered);
        assert_eq!(survey.next(), Some(Ask::Size { ttl: 1, bytes: 1500, beside: None }));
        survey.take(Outcome::Answered);
        assert_eq!(survey.next(), None);
    }

    /// The end was searched before the hop ahead of it answered.
    #[test]
    fn packets_that_vanish_before_a_hop_that_is_asked_last_are_placed_there() {
        let mut survey = Survey::new(SIZES, false, vec![true, false, true]);
        let mut asked = 0;
        while let Some(Ask::Size { ttl, bytes, beside }) = survey.next() {
            asked += 1;
            assert!(asked < 99, "it ends");
            survey.take(match beside {
                _ if ttl == 1 || bytes <= 1400 => Outcome::Answered,
                Some(_) => Outcome::Beside,
                None => Outcome::Silence,
            });
            if survey.next().is_none() {
                survey.answers(2);
            }
        }
        assert_eq!(bytes(&survey.hops), [Some(1500), Some(1400), Some(1400)]);
        assert_eq!((survey.hops[1].limit, survey.hops[2].limit), (Some(Limit::Vanish), None));
    }
}
