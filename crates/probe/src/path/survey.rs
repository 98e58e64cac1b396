//! What is asked of each hop once: how large a packet may be to get there, and whether its TOS byte arrives as it was sent. Pure.
//!
//! ```text
//!   hop 1   marked packet ── which TOS byte is quoted?
//!           1500 bytes    ── answered: the path carries them to here
//!   hop 2   1500 bytes    ── "too big, 1400" from hop 1: so large is the link behind it
//!           1400 bytes    ── answered
//!   hop 3   1400 bytes    ── silence, twice; small ones are answered: halve until it is known what is
//! ```
//!
//! A hop that is silent to large packets may be one that answers none; the next one tells. Only where that one is silent too, and answers what this
//! one did, do they vanish on the way.

use std::net::IpAddr;

/// How often something is asked before silence counts.
const TRIES: u8 = 2;
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
    /// Which TOS byte arrives there?
    Marks { ttl: u8 },
    /// Does a packet of so many bytes get there?
    Size { ttl: u8, bytes: u32 },
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The hop answered.
    Answered,
    /// Somebody says that it is too big, and what is not: a router, or this host where nobody is named.
    TooBig { by: Option<IpAddr>, mtu: u32 },
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
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Which TOS byte arrives?
    Marks,
    /// Does the largest one get there?
    Most,
    /// Do small ones, still?
    Small,
    /// The largest that does is at least `low` and below `high`.
    Halve { low: u32, high: u32 },
    /// It answered so much and no more; does it still, or has it fallen silent to all?
    Again { bytes: u32 },
    /// The hop before answered no more than this; does this one?
    Suspect(u32),
}

/// The survey of one path.
#[derive(Debug)]
pub struct Survey {
    sizes: Sizes,
    marks: bool,
    hops: Vec<HopSize>,
    /// Which hops answer at all.
    answering: Vec<bool>,
    /// Index of the hop that is asked.
    at: usize,
    state: State,
    tries: u8,
    /// Who said last that it was too big.
    said: Option<IpAddr>,
    times_said: u8,
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
            answering,
            at: 0,
            state: State::Most,
            tries: 0,
            said: None,
            times_said: 0,
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
        let bytes = match self.state {
            State::Marks => return Some(Ask::Marks { ttl }),
            State::Most => self.sizes.most,
            State::Small => self.sizes.small,
            State::Halve { low, high } => between(low, high),
            State::Again { bytes } | State::Suspect(bytes) => bytes,
        };
        Some(Ask::Size { ttl, bytes })
    }

    /// Whether it asks one hop again and again, which should not be so fast that the hop limits its answers.
    pub fn searches(&self) -> bool {
        matches!(self.state, State::Small | State::Halve { .. } | State::Again { .. })
    }

    /// What is known of each hop.
    pub fn hops(&self) -> &[HopSize] {
        &self.hops
    }

    /// Takes what came of the last question.
    pub fn take(&mut self, outcome: Outcome) {
        let Some(ask) = self.next() else { return };
        let outcome = match (outcome, ask) {
            // Who says that what fits is too big, or that less than any link carries is not, says nothing.
            (Outcome::TooBig { mtu, .. }, Ask::Size { bytes, .. })
                if !(self.sizes.least.max(self.sizes.small)..bytes).contains(&mtu) =>
            {
                Outcome::Silence
            }
            (Outcome::TooBig { .. }, Ask::Marks { .. }) => Outcome::Silence,
            (Outcome::TooBig { .. }, _) if self.times_said == MOST_SAID => Outcome::Silence,
            (outcome, _) => outcome,
        };
        match outcome {
            Outcome::TooBig { by, mtu } => {
                self.times_said += 1;
                self.sizes.most = mtu;
                self.said = by.or(self.said);
                self.suspect = None;
                self.go(State::Most);
            }
            Outcome::Silence if self.tries + 1 < TRIES => self.tries += 1,
            Outcome::Silence => self.silent(),
            Outcome::Answered => self.answered(ask),
        }
    }

    fn answered(&mut self, ask: Ask) {
        match (self.state, ask) {
            (State::Most, Ask::Size { bytes, .. }) => {
                if let Some((before, _)) = self.suspect.take() {
                    self.hops[before].answers_less = true;
                }
                let said = self.said.take().map(Limit::Said);
                self.found(bytes, said);
            }
            (State::Suspect(bytes), _) => {
                // The hop before could not answer more, nor does this one: they vanish before that one.
                if let Some((before, _)) = self.suspect.take() {
                    self.hops[before].limit = Some(Limit::Vanish);
                }
                self.sizes.most = bytes;
                self.found(bytes, None);
            }
            (State::Small, Ask::Size { bytes, .. }) => self.halve(bytes, self.sizes.most),
            (State::Halve { high, .. }, Ask::Size { bytes, .. }) => self.halve(bytes, high),
            (State::Again { .. }, Ask::Size { bytes, .. }) => {
                let is_last = self.at + 1 == self.hops.len();
                self.suspect = (!is_last).then_some((self.at, bytes));
                self.found(bytes, is_last.then_some(Limit::Vanish));
            }
            (State::Marks, _) | (_, Ask::Marks { .. }) => self.go(State::Most),
        }
    }

    fn silent(&mut self) {
        match (self.state, self.suspect) {
            (State::Marks, _) => self.go(State::Most),
            (State::Most, Some((_, bytes))) => self.go(State::Suspect(bytes)),
            (State::Most, None) if self.sizes.most > self.sizes.small => self.go(State::Small),
            (State::Suspect(_), _) => {
                self.suspect = None;
                self.go(State::Small);
            }
            (State::Halve { low, high }, _) => self.halve(low, between(low, high)),
            // It answers nothing any more.
            (State::Most | State::Small | State::Again { .. }, _) => self.forward(),
        }
    }

    fn halve(&mut self, low: u32, high: u32) {
        self.go(match high - low > 1 {
            true => State::Halve { low, high },
            false => State::Again { bytes: low },
        });
    }

    fn found(&mut self, bytes: u32, limit: Option<Limit>) {
        self.hops[self.at].bytes = Some(bytes);
        self.hops[self.at].limit = limit;
        self.forward();
    }

    fn forward(&mut self) {
        self.at += 1;
        self.begin();
    }

    /// The next hop that answers at all.
    fn begin(&mut self) {
        while self.answering.get(self.at) == Some(&false) {
            self.at += 1;
        }
        self.go(if self.marks { State::Marks } else { State::Most });
    }

    fn go(&mut self, state: State) {
        self.state = state;
        self.tries = 0;
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
        while let Some(Ask::Size { ttl, bytes }) = survey.next() {
            asked += 1;
            assert!(asked < 400, "it ends");
            let hops = usize::from(ttl);
            let narrow = (0..hops).find(|n| links[*n] < bytes);
            survey.take(match narrow {
                Some(n) if mute[n] => Outcome::Silence,
                Some(0) => Outcome::TooBig { by: None, mtu: links[0] },
                Some(n) => Outcome::TooBig { by: Some(router(n as u8)), mtu: links[n] },
                None if answers[hops - 1] < bytes => Outcome::Silence,
                None => Outcome::Answered,
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
    fn a_search_takes_few_answers_of_those_that_a_router_grants() {
        for wanted in [1400, 1492, 1280, 1401, 1333, 700, 85] {
            let mut survey = Survey::new(SIZES, false, vec![true]);
            let (mut asked, mut answered) = (0, 0);
            while let Some(Ask::Size { bytes, .. }) = survey.next() {
                asked += 1;
                answered += u32::from(bytes <= wanted);
                survey.take(if bytes <= wanted { Outcome::Answered } else { Outcome::Silence });
            }
            assert_eq!(survey.hops[0].bytes, Some(wanted));
            assert!(
                answered <= if USUAL.contains(&wanted) { 6 } else { 13 },
                "{wanted}: {answered}"
            );
            assert!(asked < 45, "{wanted}: {asked}");
        }
    }

    #[test]
    fn a_hop_that_falls_silent_while_it_is_asked_leaves_its_size_unknown() {
        let mut survey = Survey::new(SIZES, false, vec![true]);
        survey.take(Outcome::Silence);
        survey.take(Outcome::Silence);
        assert_eq!(survey.next(), Some(Ask::Size { ttl: 1, bytes: 84 }));
        survey.take(Outcome::Answered);
        while survey.next().is_some() {
            survey.take(Outcome::Silence);
        }
        assert_eq!(survey.hops[0], HopSize::default());
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
            assert!(matches!(survey.next(), Some(Ask::Size { ttl: 1, bytes: 84..=1500 }) | None));
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

    #[test]
    fn marks_are_asked_for_first_and_silence_about_them_stops_nothing() {
        let mut survey = Survey::new(SIZES, true, vec![true, true]);
        assert_eq!(survey.next(), Some(Ask::Marks { ttl: 1 }));
        survey.take(Outcome::Silence);
        assert_eq!(survey.next(), Some(Ask::Marks { ttl: 1 }));
        survey.take(Outcome::Silence);
        assert_eq!(survey.next(), Some(Ask::Size { ttl: 1, bytes: 1500 }));
        survey.take(Outcome::Answered);
        assert_eq!(survey.next(), Some(Ask::Marks { ttl: 2 }));
    }
}
