//! Which hop of which flow is probed when. Pure.
//!
//! ```text
//!   first round of a flow    1 2 3 │ 4   5 │ …    three at a time: the next one leaves when one was answered, or was not for a while;
//!                                                 it ends where the other end answered, or behind too many silent hops
//!   each round after it      1    2    3    4     spread evenly over the interval
//!   with several flows       flow 1, flow 2, …    a round each in turn: no hop is asked more often than without them
//! ```

use std::collections::{BTreeMap, BTreeSet};

/// Probes under way at once while the path is not known.
const AHEAD: usize = 3;
/// Silent hops behind the last one that answered after which nothing more is expected.
pub const SILENT: u8 = 8;
/// So many rounds after a hop behind it answered, one that says that it sends no further is not believed.
const BELIED: u64 = 3;
/// So often an end does not answer by chance at a hop beyond the first that comes to it, and never there.
const OFTEN: u64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundStep {
    /// Send a probe now; it was due at that time.
    Send {
        flow: u16,
        ttl: u8,
        due_ns: u64,
    },
    Until(u64),
    /// Nothing before a probe that is under way was answered or given up.
    Answer,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredBy {
    Router,
    /// A router that says that it sends no further.
    Stop,
    End,
}

#[derive(Debug, Clone, Copy)]
pub struct Pacing {
    pub interval_ns: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    pub count: Option<u64>,
    pub flows: u16,
    pub most_hops: u8,
}

#[derive(Debug, Clone, Default)]
struct FlowEnd {
    /// The hops behind the last router at which its end answered, and how often it did there: where the way's length varies, these are several, and
    /// one is known when a router was where the nearest is.
    seen: BTreeMap<u8, u64>,
    farthest: u8,
    /// The farthest at which it was not the end.
    router: u8,
    /// Hops that say that they send no further.
    stops: BTreeSet<u8>,
    /// Hops that answered otherwise, and in which round last.
    passed: BTreeMap<u8, u64>,
}

impl FlowEnd {
    fn last(&self) -> Option<u8> {
        self.seen.keys().next().copied()
    }

    /// The nearest hop that sends no further, unless those behind it answered since this round.
    fn stop(&self, since: u64) -> Option<u8> {
        let is_belied = |stop: u8| {
            let mut behind = self.passed.iter().filter(|(ttl, _)| **ttl > stop);
            behind.any(|(_, round)| *round >= since)
        };
        self.stops.iter().copied().find(|stop| !is_belied(*stop))
    }

    fn times(&self) -> u64 {
        self.seen.values().next().copied().unwrap_or(0)
    }
}

#[derive(Debug)]
pub struct Rounds {
    pacing: Pacing,
    one_at_a_time: bool,
    ends: Vec<FlowEnd>,
    round: u64,
    began_ns: u64,
    /// The hop that is next in this round.
    ttl: u8,
}

impl Rounds {
    pub fn new(pacing: Pacing, one_at_a_time: bool) -> Self {
        let ends = vec![FlowEnd::default(); usize::from(pacing.flows.max(1))];
        Self { pacing, one_at_a_time, ends, round: 0, began_ns: pacing.start_ns, ttl: 1 }
    }

    /// What to do at `now_ns`, while `open` probes are under way.
    pub fn next(&mut self, now_ns: u64, open: usize) -> RoundStep {
        let flows = self.ends.len() as u64;
        if self.pacing.count.is_some_and(|count| self.round >= count.saturating_mul(flows)) {
            return RoundStep::Done;
        }
        if self.ttl == 1 && self.began_ns >= self.pacing.end_ns {
            return RoundStep::Done;
        }
        let flow = (self.round % flows) as u16;
        let exploring = self.round < flows;
        let limit = self.limit(flow);
        if self.ttl > limit {
            // What is under way may make the path longer.
            let is_open = self.ends[usize::from(flow)].last().is_none();
            if exploring && is_open && open > 0 {
                return RoundStep::Answer;
            }
            self.round += 1;
            self.ttl = 1;
            // What took longer than the interval is not made up for.
            self.began_ns = self.began_ns.saturating_add(self.pacing.interval_ns).max(now_ns);
            return self.next(now_ns, open);
        }
        let room = if self.one_at_a_time { 1 } else { AHEAD };
        if (exploring || self.one_at_a_time) && open >= room {
            return RoundStep::Answer;
        }
        let part = self.pacing.interval_ns / u64::from(limit.max(1)) * u64::from(self.ttl - 1);
        let due_ns = self.began_ns.saturating_add(if exploring { 0 } else { part });
        if due_ns > now_ns {
            return RoundStep::Until(due_ns);
        }
        let ttl = self.ttl;
        self.ttl += 1;
        let due_ns = if exploring || self.one_at_a_time { now_ns } else { due_ns };
        RoundStep::Send { flow, ttl, due_ns }
    }

    pub fn answered(&mut self, flow: u16, ttl: u8, at: AnsweredBy) {
        let round = self.round;
        let Some(end) = self.ends.get_mut(usize::from(flow)) else { return };
        end.farthest = end.farthest.max(ttl);
        if at == AnsweredBy::Stop {
            end.stops.insert(ttl);
            return;
        }
        end.stops.remove(&ttl);
        end.passed.insert(ttl, round);
        if at == AnsweredBy::End {
            *end.seen.entry(ttl).or_default() += 1;
            // The path became shorter.
            end.router = end.router.min(ttl.saturating_sub(1));
            return;
        }
        end.router = end.router.max(ttl);
        // A router where the end was: the path became longer.
        end.seen.retain(|seen, _| *seen > ttl);
    }

    /// What came to the end would have come with so many hops too, as its TTL there shows; unless routers, which also answered, set that.
    pub fn came_with_more(&mut self, flow: u16, hops: u8) {
        if self.ends.get(usize::from(flow)).is_some_and(|end| end.router < hops) {
            self.answered(flow, hops, AnsweredBy::End);
        }
    }

    /// The hop at which a flow ends, once that is known. One whose end answered farther off than those of others, and seldom, is no longer than theirs,
    /// unless a router answered there: an end that limits its answers leaves out now the nearest probe that came there, now another.
    pub fn last(&self, flow: u16) -> Option<u8> {
        let end = self.ends.get(usize::from(flow))?;
        let last = end.last();
        let stop = end.stop(self.round.saturating_sub(BELIED * self.ends.len() as u64));
        if stop.is_some_and(|stop| last.is_none_or(|last| stop <= last)) {
            return stop;
        }
        let own = last?;
        if end.times() >= OFTEN {
            return Some(own);
        }
        let others = self.ends.iter().filter_map(FlowEnd::last);
        others.filter(|last| *last > end.router).min().map(|last| last.min(own))
    }

    /// The farthest hop of a flow that answered; 0 where none did.
    pub fn farthest(&self, flow: u16) -> u8 {
        self.ends.get(usize::from(flow)).map_or(0, |end| end.farthest)
    }

    pub fn is_explored(&self, flow: u16) -> bool {
        self.round > u64::from(flow)
    }

    fn limit(&self, flow: u16) -> u8 {
        let end = &self.ends[usize::from(flow)];
        let last = end.last().unwrap_or_else(|| end.farthest.saturating_add(SILENT));
        // Whether hops behind one that sends no further answer all the same is looked at once.
        let ahead = if self.is_explored(flow) { 0 } else { AHEAD as u8 };
        let stop = end.stop(0).map_or(u8::MAX, |stop| stop.saturating_add(ahead));
        last.min(stop).min(self.pacing.most_hops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rounds(flows: u16, count: u64) -> Rounds {
        let pacing = Pacing {
            interval_ns: 1000 * MS,
            start_ns: 0,
            end_ns: u64::MAX,
            count: Some(count),
            flows,
            most_hops: 30,
        };
        Rounds::new(pacing, false)
    }

    fn end_if(ends: bool) -> AnsweredBy {
        if ends { AnsweredBy::End } else { AnsweredBy::Router }
    }

    /// Sends to a path of `length` hops, each answering at once; what was sent when.
    fn story(mut rounds: Rounds, length: u8) -> Vec<(u64, u16, u8)> {
        let (mut sent, mut now) = (Vec::new(), 0);
        loop {
            match rounds.next(now, 0) {
                RoundStep::Send { flow, ttl, .. } => {
                    sent.push((now / MS, flow, ttl));
                    rounds.answered(flow, ttl.min(length), end_if(ttl >= length));
                }
                RoundStep::Until(time) => now = time,
                RoundStep::Answer => panic!("nothing is under way"),
                RoundStep::Done => return sent,
            }
        }
    }

    #[test]
    fn a_path_is_explored_at_once_and_then_each_hop_is_asked_in_its_part_of_the_interval() {
        let sent = story(rounds(1, 2), 4);
        let first = [(0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 0, 4)];
        let second = [(1000, 0, 1), (1250, 0, 2), (1500, 0, 3), (1750, 0, 4)];
        assert_eq!(sent, [first, second].concat());
    }

    #[test]
    fn flows_take_turns_so_that_no_hop_is_asked_more_often() {
        let sent = story(rounds(3, 2), 2);
        let of_first_hop: Vec<_> = sent.iter().filter(|s| s.2 == 1).collect();
        let wanted = [(0, 0), (1000, 1), (2000, 2), (3000, 0), (4000, 1), (5000, 2)];
        assert_eq!(of_first_hop.len(), 6);
        let mut rounds = rounds(2, 1);
        rounds.answered(0, 1, AnsweredBy::End);
        rounds.next(0, 0);
        assert!(matches!(rounds.next(0, 0), RoundStep::Until(_)));
        assert_eq!((rounds.is_explored(0), rounds.is_explored(1)), (true, false));
        for (sent, (time, flow)) in of_first_hop.iter().zip(wanted) {
            assert_eq!((sent.0, sent.1), (time, flow));
        }
    }

    #[test]
    fn only_three_are_under_way_while_the_path_is_unknown() {
        let mut rounds = rounds(1, 1);
        for ttl in 1..=3 {
            let open = usize::from(ttl) - 1;
            assert_eq!(rounds.next(0, open), RoundStep::Send { flow: 0, ttl, due_ns: 0 });
        }
        assert_eq!(rounds.next(0, 3), RoundStep::Answer);
        rounds.answered(0, 1, AnsweredBy::Router);
        assert!(matches!(rounds.next(MS, 2), RoundStep::Send { ttl: 4, .. }));
    }

    #[test]
    fn behind_silent_hops_nothing_is_expected_any_more() {
        let mut rounds = rounds(1, 1);
        rounds.answered(0, 2, AnsweredBy::Router);
        let mut sent = 0;
        while let RoundStep::Send { ttl, .. } = rounds.next(0, 0) {
            sent = ttl;
        }
        assert_eq!(sent, 2 + SILENT);
        assert_eq!((rounds.last(0), rounds.farthest(0)), (None, 2));
    }

    #[test]
    fn a_path_that_becomes_longer_is_followed() {
        let mut rounds = rounds(1, 9);
        rounds.answered(0, 3, AnsweredBy::End);
        rounds.answered(0, 5, AnsweredBy::End);
        assert_eq!(rounds.last(0), Some(3), "what came later from beyond says nothing new");
        rounds.answered(0, 3, AnsweredBy::Router);
        assert_eq!(rounds.last(0), Some(5), "it answered there too");
        rounds.answered(0, 4, AnsweredBy::End);
        assert_eq!(rounds.last(0), Some(4));
        rounds.answered(0, 5, AnsweredBy::Router);
        assert_eq!(rounds.last(0), None, "nobody knows yet");
    }

    /// Packets take two hops or three, one by one: now a router is the second hop, now the end.
    #[test]
    fn a_path_whose_length_varies_has_an_end_all_the_time() {
        let mut rounds = rounds(1, 9);
        for hops in [3, 2, 2, 3, 3, 2, 3] {
            for ttl in 1..=3 {
                rounds.answered(0, ttl, end_if(ttl >= hops));
            }
            assert!(rounds.last(0).is_some());
        }
    }

    #[test]
    fn an_end_that_leaves_out_answers_is_no_farther_for_one_flow_than_for_another() {
        let mut rounds = rounds(3, 9);
        for (flow, end) in [(0, 5), (1, 7), (2, 7)] {
            for ttl in 1..=4 {
                rounds.answered(flow, ttl, AnsweredBy::Router);
            }
            rounds.answered(flow, end, AnsweredBy::End);
        }
        assert_eq!((rounds.last(0), rounds.last(1), rounds.last(2)), (Some(5), Some(5), Some(5)));
        assert_eq!(rounds.limit(1), 7, "it is asked all the same");
        // A router at the fifth hop: this flow goes another way.
        rounds.answered(2, 5, AnsweredBy::Router);
        assert_eq!(rounds.last(2), Some(7));
        // The fifth never answers, the seventh does each time: a router that says nothing.
        (1..OFTEN).for_each(|_| rounds.answered(1, 7, AnsweredBy::End));
        assert_eq!(rounds.last(1), Some(7));
        rounds.answered(2, 4, AnsweredBy::End);
        assert_eq!((rounds.last(0), rounds.last(2)), (Some(5), Some(4)), "its way became shorter");
    }

    #[test]
    fn the_ttl_with_which_a_packet_came_to_the_end_tells_how_far_that_is() {
        let mut rounds = rounds(1, 9);
        rounds.answered(0, 3, AnsweredBy::Router);
        rounds.answered(0, 8, AnsweredBy::End);
        rounds.came_with_more(0, 5);
        assert_eq!((rounds.last(0), rounds.limit(0)), (Some(5), 5));
        rounds.came_with_more(0, 2);
        assert_eq!(rounds.last(0), Some(5), "a router sets TTLs");
    }

    #[test]
    fn one_at_a_time_takes_as_long_as_it_takes_and_makes_up_for_nothing() {
        let mut rounds = rounds(1, 3);
        rounds.one_at_a_time = true;
        rounds.answered(0, 2, AnsweredBy::End);
        assert!(matches!(rounds.next(0, 0), RoundStep::Send { ttl: 1, .. }));
        assert_eq!(rounds.next(0, 1), RoundStep::Answer);
        assert!(matches!(rounds.next(900 * MS, 0), RoundStep::Send { ttl: 2, .. }));
        // The next round begins when this one is over, not before.
        assert!(matches!(rounds.next(1800 * MS, 0), RoundStep::Send { ttl: 1, .. }));
        assert_eq!(rounds.next(1900 * MS, 0), RoundStep::Until(2300 * MS));
    }

    /// Answers of a path of four hops, whose second says that it sends no further; those behind it answer, or do not.
    fn stopped(rounds: &mut Rounds, behind: bool) -> Vec<u8> {
        let (mut asked, mut now) = (Vec::new(), 0);
        let round = rounds.round;
        while rounds.round == round {
            match rounds.next(now, 0) {
                RoundStep::Send { ttl, .. } if rounds.round == round => {
                    asked.push(ttl);
                    match ttl {
                        1 => rounds.answered(0, 1, AnsweredBy::Router),
                        2 => rounds.answered(0, 2, AnsweredBy::Stop),
                        3 if behind => rounds.answered(0, 3, AnsweredBy::Router),
                        4 if behind => rounds.answered(0, 4, AnsweredBy::End),
                        _ => {}
                    }
                }
                RoundStep::Send { .. } | RoundStep::Answer | RoundStep::Done => break,
                RoundStep::Until(time) => now = time,
            }
        }
        asked
    }

    #[test]
    fn who_says_that_it_sends_no_further_is_not_believed_while_those_behind_it_answer() {
        let mut rounds = rounds(1, 20);
        for _ in 0..3 {
            stopped(&mut rounds, true);
            assert_eq!((rounds.last(0), rounds.limit(0)), (Some(4), 4));
        }
        // Now nothing comes from behind it.
        (0..=BELIED).for_each(|_| drop(stopped(&mut rounds, false)));
        assert_eq!((rounds.last(0), rounds.limit(0)), (Some(2), 4), "it may come back");
        stopped(&mut rounds, true);
        assert_eq!(rounds.last(0), Some(4));
        rounds.answered(0, 2, AnsweredBy::Router);
        assert_eq!(rounds.last(0), Some(4));
    }

    #[test]
    fn a_path_that_goes_no_further_ends_there_once_hops_behind_were_asked() {
        let mut rounds = rounds(1, 20);
        assert_eq!(stopped(&mut rounds, false), [1, 2, 3, 4, 5]);
        assert_eq!((rounds.last(0), rounds.limit(0)), (Some(2), 2));
    }
}
