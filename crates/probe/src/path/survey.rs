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
    pub small: u32,
    pub most: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurveyQuestion {
    /// Which TOS byte arrives there? And an unmarked packet right behind the marked one?
    Marks { ttl: u8, beside: bool },
    /// Does a packet of so many bytes get there? And one of those bytes right behind it, which is small enough?
    Size { ttl: u8, bytes: u32, beside: Option<u32> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeAnswer {
    Answered,
    /// Somebody says that it is too big, and what is not: a router, or this host where nobody is named.
    TooBig {
        by: Option<IpAddr>,
        mtu: u32,
    },
    /// The hop answered the smaller packet of the two alone.
    Beside,
    Silence,
}

/// Why no larger packet gets to a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeLimit {
    Said(IpAddr),
    /// Larger ones vanish, and nobody says why: a path MTU black hole (RFC 2923, section 2.1).
    Vanish,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HopSize {
    /// The largest packet that is known to get there, in bytes of the whole IP packet.
    pub bytes: Option<u32>,
    /// Why it is no more than at the hop before.
    pub limit: Option<SizeLimit>,
    /// The hop alone is silent to larger ones: those behind it answer them.
    pub answers_less: bool,
    /// Marked packets are never answered, unmarked ones right behind them are.
    pub marks_vanish: bool,
}

#[derive(Debug, Clone, Copy)]
enum SurveyState {
    Marks,
    /// Does the largest one get there?
    Most,
    /// It was silent. Of a pair, is it that again, while this one is answered?
    Doubt {
        low: u32,
    },
    /// The largest that does is at least `low` and below `high`.
    Halve {
        low: u32,
        high: u32,
    },
    /// One byte more was not answered; is it never, while this is?
    Force {
        low: u32,
    },
    /// The hop before answered no more than this; does this one?
    Suspect {
        low: u32,
    },
    /// A marked packet had no answer. Of a pair, is it that again, while the unmarked one is answered?
    Again,
}

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
    own_most: u32,
    /// The farthest hop that was asked for sizes, and the largest one behind it, while nearer ones are asked.
    front: usize,
    most_ahead: Option<u32>,
    /// Index of the hop that is asked.
    at: usize,
    state: SurveyState,
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
            state: SurveyState::Most,
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
    pub fn next(&self) -> Option<SurveyQuestion> {
        if self.at >= self.hops.len() {
            return None;
        }
        let ttl = (self.at + 1) as u8;
        let (bytes, beside) = match self.state {
            SurveyState::Marks => return Some(SurveyQuestion::Marks { ttl, beside: false }),
            SurveyState::Again => return Some(SurveyQuestion::Marks { ttl, beside: true }),
            SurveyState::Most => (self.sizes.most, None),
            SurveyState::Doubt { low } => (self.sizes.most, Some(low)),
            SurveyState::Halve { low, high } => (between(low, high), Some(low)),
            SurveyState::Force { low } | SurveyState::Suspect { low } => (low + 1, Some(low)),
        };
        Some(SurveyQuestion::Size { ttl, bytes, beside })
    }

    /// Whether it asks one hop again and again, which should not be so fast that the hop limits its answers, nor beside others that do the same.
    pub fn searches(&self) -> bool {
        !matches!(self.state, SurveyState::Marks | SurveyState::Most)
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
            SurveyState::Marks | SurveyState::Most | SurveyState::Again => return None,
            SurveyState::Doubt { low } => {
                more(TRIES) + halvings(low, self.sizes.most) + u32::from(FORCED) + next
            }
            SurveyState::Halve { low, high } => halvings(low, high) + u32::from(FORCED) + next,
            SurveyState::Force { .. } => more(forced) + next,
            SurveyState::Suspect { .. } => more(forced),
        })
    }

    /// A hop answered, which may have been silent before, or unknown.
    pub fn answers(&mut self, ttl: u8) {
        self.grow(ttl.into());
        let Some(answers) = self.answering.get_mut(usize::from(ttl).wrapping_sub(1)) else {
            return;
        };
        let is_new = !std::mem::replace(answers, true);
        if is_new && self.at >= self.hops.len() {
            self.begin();
        }
    }

    /// The end is at this hop: what it answered farther off counts there. Whether the open question is not asked any more.
    pub fn ends_at(&mut self, ttl: u8) -> bool {
        let behind = usize::from(ttl);
        let Some(end) = behind.checked_sub(1) else { return false };
        self.grow(behind);
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
            (self.suspect, self.at) = (None, 0);
        }
        if is_moot || self.at >= self.hops.len() {
            self.begin();
        }
        is_moot
    }

    /// Knows of at least so many hops.
    fn grow(&mut self, hops: usize) {
        let is_done = self.at >= self.hops.len();
        let hops = hops.max(self.hops.len());
        self.hops.resize(hops, HopSize::default());
        for each in [&mut self.answering, &mut self.asked, &mut self.marked, &mut self.asked_again]
        {
            each.resize(hops, false);
        }
        if is_done {
            self.at = hops;
        }
    }

    /// Asks nothing more; the hop at which that is, where there was more to ask about sizes.
    pub fn leave(&mut self) -> Option<u8> {
        let is_open = self.at < self.hops.len() && !matches!(self.state, SurveyState::Again);
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
    pub fn take(&mut self, outcome: SizeAnswer) {
        let Some(ask) = self.next() else { return };
        match outcome {
            SizeAnswer::TooBig { mtu, .. } if !self.believes(mtu) => self.silent(),
            SizeAnswer::TooBig { by, mtu } => {
                self.times_said += 1;
                self.sizes.most = mtu;
                self.own_most = if by.is_none() { mtu } else { self.own_most };
                self.said = by.or(self.said);
                self.suspect = None;
                self.go(SurveyState::Most);
            }
            SizeAnswer::Answered => self.answered(ask),
            SizeAnswer::Beside => self.only_beside(),
            SizeAnswer::Silence => self.silent(),
        }
    }

    /// Whether that so large a packet is not too big can be true. Who says that what fits is too big, or that less than any link carries is not, names
    /// nothing; nor does who finds all too big.
    pub fn believes(&self, mtu: u32) -> bool {
        let Some(SurveyQuestion::Size { bytes, .. }) = self.next() else { return false };
        let least = self.sizes.least.max(self.sizes.small);
        (least..bytes).contains(&mtu) && self.times_said < MOST_SAID
    }

    /// What was asked is too big, says somebody who can't be believed what is not.
    pub fn doubt(&mut self, by: IpAddr) {
        self.nameless = Some(by);
    }

    /// Why larger ones than were found do not get there.
    fn limit(&mut self) -> SizeLimit {
        // A larger size that was named before is not what limits them.
        self.said = None;
        self.nameless.take().map_or(SizeLimit::Vanish, SizeLimit::Said)
    }

    fn answered(&mut self, ask: SurveyQuestion) {
        let SurveyQuestion::Size { bytes, .. } = ask else {
            self.marked[self.at] = true;
            return match self.state {
                SurveyState::Again => self.forward(),
                _ => self.go(SurveyState::Most),
            };
        };
        // What the hop before did not answer gets there.
        if let Some((before, _)) = self.suspect.take() {
            self.hops[before].answers_less = true;
        }
        match self.state {
            _ if bytes == self.sizes.most => {
                self.nameless = None;
                let said = self.said.take().map(SizeLimit::Said);
                self.found(bytes, said);
            }
            SurveyState::Halve { high, .. } => self.halve(bytes, high),
            SurveyState::Force { .. } if self.astray == MOST_ASTRAY => self.forward(),
            _ => {
                self.astray += 1;
                self.go(SurveyState::Doubt { low: bytes });
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
            SurveyState::Doubt { low } if self.beside == TRIES => self.halve(low, self.sizes.most),
            SurveyState::Halve { low, high } => self.halve(low, between(low, high)),
            SurveyState::Force { low } if forced => {
                let is_last = !self.answering[self.at + 1..].contains(&true);
                let behind = self.hops[self.at + 1..].iter().find_map(|hop| hop.bytes);
                self.hops[self.at].answers_less = behind.is_some_and(|behind| behind > low);
                let vanish = is_last || behind.is_some_and(|behind| behind <= low);
                self.suspect = (!is_last && behind.is_none()).then_some((self.at, low));
                let limit = vanish.then(|| self.limit());
                self.found(low, limit);
            }
            SurveyState::Again if forced => {
                self.hops[self.at].marks_vanish = true;
                // They get to none behind it.
                self.marks = false;
                self.forward();
            }
            SurveyState::Suspect { low } if forced => {
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
            (SurveyState::Marks | SurveyState::Most, _) if self.missed < TRIES => {}
            (SurveyState::Marks, _) => self.go(SurveyState::Most),
            (SurveyState::Most, Some((_, low))) => self.go(SurveyState::Suspect { low }),
            (SurveyState::Most, None) if self.sizes.most > small => {
                self.go(SurveyState::Doubt { low: small })
            }
            (SurveyState::Most, None) => self.forward(),
            (SurveyState::Again, _) if self.missed == 2 * TRIES => self.forward(),
            _ if self.missed < MOST_MISSED => {}
            (SurveyState::Suspect { .. }, _) => {
                self.suspect = None;
                self.go(SurveyState::Doubt { low: small });
            }
            // It answers nothing any more, or too seldom.
            _ => self.forward(),
        }
    }

    fn halve(&mut self, low: u32, high: u32) {
        self.go(match high - low > 1 {
            true => SurveyState::Halve { low, high },
            false => SurveyState::Force { low },
        });
    }

    fn found(&mut self, bytes: u32, limit: Option<SizeLimit>) {
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
            return self.go(if self.marks { SurveyState::Marks } else { SurveyState::Most });
        }
        let passed = self.marked.iter().rposition(|marked| *marked).map_or(0, |last| last + 1);
        let unmarked = |index: &usize| self.answering[*index] && !self.asked_again[*index];
        let again = (passed..all).find(unmarked).filter(|_| self.marks && !self.is_left);
        self.at = again.unwrap_or(all);
        if let Some(index) = again {
            self.asked_again[index] = true;
        }
        self.go(SurveyState::Again);
    }

    fn go(&mut self, state: SurveyState) {
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
mod tests;
