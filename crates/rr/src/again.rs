//! Of a call in which segments were sent again: whose were lost. Pure.
//!
//! ```text
//!   request lost           request ×          timer here ─ request ──► reply        this end's packet
//!   reply lost             request ──►  × reply  timer here ─ request ──► "I had it" (DSACK)
//!                                                timer there ─ reply                the server's packet
//!   SYN-ACK lost           SYN ──►  × SYN-ACK    timer here ─ SYN ──► SYN-ACK again the server's packet
//! ```
//!
//! A retransmission by this end does not tell: an acknowledgement that was lost makes its timer run out as a lost request does, and so does a queue
//! that grows. What the server had already it says (DSACK, RFC 2883), and what it sent again itself it says in its next word. Where neither tells, or both
//! ends sent again what was needed, nobody knows: the DSACK itself may have been lost. Nor where the receiver's host sends none (`tcp_dsack` of
//! ip-sysctl.rst), or nothing tells that it does. Where the server says nothing, an answer that comes a timer's time
//! later than the path has it may have been lost or not.
//!
//! ```text
//!   late     SYN ─────────────────►            timer here, SYN again ──► "SYN-ACK again"      both came: nothing was lost
//!            request ─────────────────►        timer here, request again ──► "I had it"       nor here
//! ```
//!
//! Where packets overtake each other, a receiver throws away what is older than a segment that was sent again and came first (PAWS, RFC 7323, section
//! 5.2): none was lost, and a timer is waited for all the same.
//!
//! ```text
//!   2 overtakes 1   ── 1 2 3 ──►  3 and 2 come first: "1 is missing" (SACK) ─ 1 again ──►  comes, newer than 1, 2 and 3
//!                                                                            the first 3, older than that, is outdated
//! ```
//!
//! A path that doubles packets makes a DSACK of each as well, sent again or not. Where it may (copies.rs), what came twice proves nothing of what was sent
//! again: fewer DSACKs than segments sent again say that one was needed, as many leave it open.
//!
//! So of a SYN that was sent again it is asked which one was answered, by its timestamp (RFC 7323), and how many of the SYN-ACKs came. And nothing is
//! called lost before an answer to a later request came, behind which a DSACK can't be, or the kernel itself took the timeout back (RFC 3522).

use crate::client::{Call, Syn};
use crate::copies::{Copied, copied};

/// Whose packet a call waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// One of this end.
    Here,
    /// One of the server.
    There,
    /// One of either: a timer ran out, and nothing tells which way the packet went.
    Somewhere,
    /// Perhaps none: a packet was lost, or late.
    Perhaps,
}

/// Why segments were sent again of which none was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needless {
    /// No timer ran out where they were sent: what was sent behind them came before them, and TCP took them for lost.
    Overtaken,
    /// A timer ran out, and nothing tells that packets overtook each other.
    Timer,
    /// A timer of that host ran out, or it does not count them; packets may have overtaken each other as well.
    Unknown,
    /// They may have been needed: what came twice may be copies of the path's.
    Perhaps,
}

/// No retransmission timer runs out sooner on any Linux.
const SOONEST_NS: u64 = 5_000_000;

/// Nor on one whose routes do not say so (`TCP_RTO_MIN`, include/net/tcp.h; RFC 6298 has a second).
const LEAST_NS: u64 = 200_000_000;

impl Call {
    /// Whether a timer may have run out between the request and the whole reply: the timer lasts for a round trip and that time at least, and
    /// what it sends again takes the other one.
    pub(crate) fn may_have_waited_for_a_timer(&self) -> bool {
        self.beyond_the_path_ns() >= SOONEST_NS
    }

    /// What it took beyond the server's own time and two round trips, in nanoseconds.
    fn beyond_the_path_ns(&self) -> u64 {
        let own_ns = self.word.map_or(0, |word| word.own_ns);
        let took_ns = self.latency_ns.unwrap_or(0).saturating_sub(self.connecting_ns);
        took_ns.saturating_sub(own_ns).saturating_sub(2 * self.rtt_ns())
    }

    fn rtt_ns(&self) -> u64 {
        u64::from(self.min_rtt_us.unwrap_or(0)) * 1000
    }

    /// Whether the answer to a request of one segment may have been sent again, as far as anybody can tell: the server says nothing, and
    /// it, or a part of it, came later than the path has it by what a timer lasts.
    fn answer_may_have_been_lost(&self) -> bool {
        let gap_ns = self.gap_ns.saturating_sub(self.rtt_ns());
        let quiet_ns = self.beyond_the_path_ns().saturating_sub(self.gathering_ns).max(gap_ns);
        self.word.is_none() && self.held == 0 && self.unacked <= 1 && quiet_ns >= LEAST_NS
    }

    /// Whose packet it waited for; none where it waited for no timer. Of a call out of [`without_needless`].
    pub(crate) fn lost(&self) -> Option<Lost> {
        match (self.lost_of_handshake(), self.lost_of_data()) {
            (Some(Lost::Perhaps), data @ Some(_)) => data,
            (handshake @ Some(_), Some(Lost::Perhaps)) => handshake,
            (Some(one), Some(other)) if one != other => Some(Lost::Somewhere),
            (one, other) => one.or(other),
        }
    }

    /// The same, of the handshake alone. Of a SYN that comes again before the handshake is over the server sends its SYN-ACK again
    /// (`tcp_check_req`, net/ipv4/tcp_minisocks.c), as it does where no ACK of it came.
    fn lost_of_handshake(&self) -> Option<Lost> {
        let there = self.word.and_then(|word| word.resent).map(|resent| resent.segments);
        match (self.answered, there, self.syn_acks_again) {
            _ if self.syns == 0 => None,
            (Some(Syn::Later), Some(0), _) => Some(Lost::Here),
            (Some(Syn::Later), _, _) => Some(Lost::Somewhere),
            // The only one, or one of those that all came.
            (Some(Syn::First), Some(0), _) => None,
            (Some(Syn::First), Some(there), Some(came)) if came >= there.into() => {
                self.doubted[1].then_some(Lost::Perhaps)
            }
            (Some(Syn::First), Some(_), Some(_)) => Some(Lost::There),
            _ => Some(Lost::Perhaps),
        }
    }

    /// The same, of request and reply.
    fn lost_of_data(&self) -> Option<Lost> {
        let data = self.retransmits.saturating_sub(self.syns);
        // Without a timer it was a fast retransmission: nobody waited longer than the path takes.
        let here = data > 0 && self.timers != Some(0);
        let waited = self.may_have_waited_for_a_timer();
        let there = self.there.map(|there| there.segments > 0 && there.timers != Some(0) && waited);
        match (here, there) {
            (true, _) | (_, Some(true)) if self.overtaken => Some(Lost::Perhaps),
            (true, _) if !self.would_tell => Some(Lost::Perhaps),
            (true, Some(false)) => Some(Lost::Here),
            (true, _) => Some(Lost::Somewhere),
            (false, Some(true)) if !self.would_tell_there => Some(Lost::Perhaps),
            (false, Some(true)) => Some(Lost::There),
            (false, Some(false)) => self.may_have_lost_what_came_twice().then_some(Lost::Perhaps),
            (false, None) => {
                let timer = self.timers.is_some_and(|timers| timers > 0);
                let had_it = self.needless > 0 && timer && waited;
                (had_it || self.answer_may_have_been_lost()).then_some(Lost::Perhaps)
            }
        }
    }

    /// Whether a timer was waited for that sent again what came twice, which the path may have doubled.
    fn may_have_lost_what_came_twice(&self) -> bool {
        let here = self.needless > 0 && self.doubted[0] && self.timers != Some(0);
        let there = self.there.filter(|there| there.needless > 0 && self.doubted[1]);
        let there = there.is_some_and(|there| there.timers != Some(0));
        (here || there) && self.may_have_waited_for_a_timer()
    }

    /// Whether segments were sent again in it, by either end, of which none was lost, and why. Of a call out of [`without_needless`].
    ///
    /// What is sent again without a timer is sent for what came behind it (SACK, duplicate ACKs; RFC 6675, RFC 8985), and as it had arrived, too, it
    /// came later than that.
    pub(crate) fn needless(&self) -> Option<Needless> {
        let data = self.retransmits > self.syns;
        let syns = self.syns > 0 && self.lost_of_handshake().is_none();
        let there = self.there.filter(|there| there.needless > 0);
        let was_needless = self.needless > 0 || there.is_some() || syns;
        if data || !was_needless || self.lost().is_some() {
            return None;
        }
        if self.needless > 0 && self.doubted[0] || there.is_some() && self.doubted[1] {
            return Some(Needless::Perhaps);
        }
        let here = (self.needless > 0).then_some(self.timers);
        let there = there.map(|there| there.timers.map(u64::from));
        let timers: Vec<_> = here.into_iter().chain(there).collect();
        let ran_out = |timers: &Option<u64>| timers.is_some_and(|timers| timers > 0);
        Some(match () {
            () if !syns && timers.iter().all(|timers| *timers == Some(0)) => Needless::Overtaken,
            () if self.overtaken => Needless::Unknown,
            // A SYN is sent again for nothing else.
            () if timers.iter().all(ran_out) => Needless::Timer,
            () => Needless::Unknown,
        })
    }
}

/// The calls, without the segments that either end sent again needlessly: `retransmits` and `there.segments` are those that were needed, `needless`
/// those that were not. The other end tells of them in its next ACK, which may come with the next call.
pub(crate) fn without_needless(calls: &[Call]) -> Vec<Call> {
    let [copied_here, copied_there] = copied(calls);
    let mut calls = calls.to_vec();
    let (mut here, mut there) = (0, 0);
    for call in calls.iter_mut().rev() {
        let data = call.retransmits.saturating_sub(call.syns);
        // Its DSACK came too, most likely: then it is used up.
        let told = forgive(&mut here, call.needless, data);
        let forgiven = if call.undone { data } else { told };
        call.retransmits -= forgiven;
        call.needless = forgiven;
        if let Some(resent) = &mut call.there {
            let forgiven = forgive(&mut there, resent.needless, resent.segments);
            resent.segments -= forgiven;
            resent.needless = forgiven;
        }
        // What the kernel took back it knows by timestamps, unless it counts what comes twice.
        let is_known = copied_here == Copied::Perhaps && call.undone;
        call.doubted = [copied_here != Copied::No && !is_known, copied_there != Copied::No];
        // Of other calls a connection of its own says nothing.
        if call.connecting_ns > 0 {
            (here, there) = (0, 0);
        }
    }
    calls
}

/// How many of these segments were not needed; `open` are needless ones that belong to earlier calls.
fn forgive(open: &mut u32, needless: u32, segments: u32) -> u32 {
    *open += needless;
    let forgiven = segments.min(*open);
    *open -= forgiven;
    forgiven
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::{Resent, Word};

    /// A call over a path of 20 ms that took 240 ms; this end sent again so many segments.
    fn slow(retransmits: u32) -> Call {
        Call {
            latency_ns: Some(240_000_000),
            min_rtt_us: Some(20_000),
            timers: Some(u64::from(retransmits)),
            retransmits,
            would_tell: true,
            would_tell_there: true,
            ..Call::default()
        }
    }

    fn resent(segments: u32, needless: u32) -> Option<Resent> {
        Some(Resent { segments, needless, timers: Some(segments) })
    }

    fn told(call: Call, there: Option<Resent>) -> Call {
        Call { there, ..call }
    }

    fn lost(calls: &[Call]) -> Vec<Option<Lost>> {
        alone(calls).iter().map(Call::lost).collect()
    }

    /// These calls, as they are behind many in which nothing was sent again and nothing came twice: their path doubles no packets.
    fn alone(calls: &[Call]) -> Vec<Call> {
        let quiet = vec![told(Call { latency_ns: Some(20_000_000), ..slow(0) }, resent(0, 0)); 400];
        without_needless(&[&quiet[..], calls].concat()).split_off(quiet.len())
    }

    #[test]
    fn a_request_that_is_sent_again_was_lost_where_the_server_sent_nothing_again() {
        assert_eq!(lost(&[told(slow(1), resent(0, 0))]), [Some(Lost::Here)]);
        assert_eq!(lost(&[slow(1)]), [Some(Lost::Somewhere)], "nobody tells");
        let fast = Call { timers: Some(0), ..slow(1) };
        assert_eq!(lost(&[told(fast, resent(0, 0))]), [None], "no timer ran out");
    }

    #[test]
    fn a_reply_that_the_server_sent_again_was_lost_on_its_way_here() {
        let needless = Call { needless: 1, ..slow(1) };
        assert_eq!(lost(&[told(needless.clone(), resent(1, 0))]), [Some(Lost::There)]);
        assert_eq!(lost(&[told(slow(0), resent(1, 0))]), [Some(Lost::There)]);
        assert_eq!(lost(&[told(slow(1), resent(1, 0))]), [Some(Lost::Somewhere)], "no DSACK came");
        assert_eq!(lost(std::slice::from_ref(&needless)), [Some(Lost::Perhaps)], "nobody tells");
        assert_eq!(lost(&[told(needless, resent(0, 0))]), [None], "it was late");
    }

    #[test]
    fn an_answer_that_is_late_by_a_timers_time_may_have_been_lost_unless_the_server_says_more() {
        let silent = |ms: u64| Call { latency_ns: Some(ms * 1_000_000), unacked: 1, ..slow(0) };
        assert_eq!(lost(&[silent(239), silent(240)]), [None, Some(Lost::Perhaps)]);
        let parts = Call { gathering_ns: 230_000_000, gap_ns: 225_000_000, ..silent(250) };
        let steady = Call { gap_ns: 10_000_000, ..parts.clone() };
        assert_eq!(lost(&[parts, steady]), [Some(Lost::Perhaps), None]);
        let word = Some(Word { held_never: true, dsack: true, ..Word::default() });
        assert_eq!(lost(&[Call { word, ..silent(260) }]), [None]);
        assert_eq!(lost(&[Call { unacked: 9, ..silent(260) }]), [None], "it took its time to go");
    }

    #[test]
    fn what_the_server_sent_again_needlessly_or_without_a_timer_nobody_waited_for() {
        // The request that was lost carried the ACK of the reply before: that was sent again, too.
        let before = Call { latency_ns: Some(20_000_000), ..slow(0) };
        let calls = [told(before.clone(), resent(1, 0)), told(slow(1), resent(0, 1))];
        assert_eq!(lost(&calls), [None, Some(Lost::Here)]);
        let calls = [told(before, resent(1, 0)), told(slow(1), resent(0, 0))];
        assert_eq!(lost(&calls), [None, Some(Lost::Here)], "nor in a call that took a round trip");
        let fast = Some(Resent { segments: 1, needless: 0, timers: Some(0) });
        assert_eq!(lost(&[told(slow(0), fast)]), [None]);
    }

    /// A call whose SYN was sent again so often, and the SYN-ACK, of which so many came beside the first.
    fn handshake(syns: u32, answered: Syn, there: u32, came: u64) -> Call {
        let resent = Some(Resent { segments: there, needless: 0, timers: None });
        let word = Word { resent, held_never: true, dsack: true, ..Word::default() };
        Call {
            syns,
            answered: Some(answered),
            syn_acks_again: Some(came),
            latency_ns: Some(1_020_000_000),
            connecting_ns: 1_010_000_000,
            word: Some(word),
            ..slow(syns)
        }
    }

    #[test]
    fn a_syn_that_is_sent_again_was_lost_where_the_later_one_was_answered_and_no_syn_ack_sent_again()
     {
        assert_eq!(lost(&[handshake(1, Syn::Later, 0, 0)]), [Some(Lost::Here)]);
        assert_eq!(lost(&[handshake(1, Syn::First, 1, 0)]), [Some(Lost::There)]);
        assert_eq!(lost(&[handshake(2, Syn::First, 3, 0)]), [Some(Lost::There)]);
        let both = handshake(2, Syn::Later, 1, 0);
        assert_eq!(lost(&[both]), [Some(Lost::Somewhere)], "one of each, or two");
    }

    #[test]
    fn a_syn_that_a_queue_kept_for_longer_than_its_timer_was_not_lost() {
        // The second one made the server send its SYN-ACK again: both came.
        assert_eq!(lost(&[handshake(1, Syn::First, 1, 1)]), [None]);
        assert_eq!(lost(&[handshake(1, Syn::First, 0, 0)]), [None], "it came behind the ACK");
        let late = alone(&[handshake(1, Syn::First, 1, 1)]);
        assert_eq!(late[0].needless(), Some(Needless::Timer));
        let uncounted = Call { syn_acks_again: None, ..handshake(1, Syn::First, 1, 1) };
        let no_time = Call { answered: None, ..handshake(1, Syn::First, 0, 0) };
        let silent = |answered| Call { word: None, ..handshake(1, answered, 0, 0) };
        assert_eq!(lost(&[silent(Syn::Later)]), [Some(Lost::Somewhere)]);
        let silent = silent(Syn::First);
        for unknown in [uncounted, no_time, silent] {
            assert_eq!(lost(&[unknown]), [Some(Lost::Perhaps)]);
        }
    }

    /// As the lab had it, on a path that loses nothing: the receiver had thrown a segment away, being older than one that was sent again.
    #[test]
    fn where_packets_overtake_each_other_nobody_knows_whether_one_was_lost_or_outdated() {
        let overtaken = |call| Call { overtaken: true, ..call };
        let here = overtaken(told(slow(1), resent(0, 0)));
        let there = overtaken(told(slow(0), resent(1, 0)));
        let both = overtaken(told(slow(1), resent(1, 0)));
        assert_eq!(lost(&[here]), [Some(Lost::Perhaps)]);
        assert_eq!(lost(&[there]), [Some(Lost::Perhaps)]);
        assert_eq!(lost(&[both]), [Some(Lost::Perhaps)]);
        assert_eq!(lost(&[overtaken(told(slow(0), resent(0, 0)))]), [None], "nothing came again");
        let fast = Call { timers: Some(0), ..slow(1) };
        assert_eq!(lost(&[overtaken(told(fast, resent(0, 0)))]), [None], "no timer ran out");
    }

    #[test]
    fn nothing_is_lost_before_an_answer_to_a_later_request_came_and_no_dsack_before_it() {
        let open = Call { would_tell: false, ..told(slow(1), resent(0, 0)) };
        assert_eq!(lost(std::slice::from_ref(&open)), [Some(Lost::Perhaps)]);
        let there = Call { would_tell_there: false, ..told(slow(0), resent(1, 0)) };
        assert_eq!(lost(&[there]), [Some(Lost::Perhaps)]);
        // Of what one end says that it had, the other's saying nothing takes nothing away.
        let here = Call { would_tell_there: false, ..told(slow(1), resent(0, 0)) };
        let there = Call { would_tell: false, ..told(slow(0), resent(1, 0)) };
        assert_eq!(lost(&[here, there]), [Some(Lost::Here), Some(Lost::There)]);
        let undone = Call { undone: true, ..open };
        assert_eq!(lost(std::slice::from_ref(&undone)), [None], "what came was the first one");
        assert_eq!(alone(std::slice::from_ref(&undone))[0].needless(), Some(Needless::Timer));
        // The DSACK of it is told in the next call, and stands for no other.
        let lost_before = told(slow(1), resent(0, 0));
        let calls = [lost_before, undone, Call { needless: 1, ..told(slow(0), resent(0, 0)) }];
        assert_eq!(lost(&calls), [Some(Lost::Here), None, None]);
    }

    /// As the lab had it on a path of 60 ms that reorders a fifth and loses nothing: TCPFastRetrans is TcpRetransSegs, and TCPTimeouts 0.
    #[test]
    fn what_is_sent_again_needlessly_without_a_timer_was_overtaken() {
        let why = |call| alone(&[call])[0].needless();
        let here = |timers, overtaken| Call { needless: 1, timers, overtaken, ..slow(1) };
        assert_eq!(why(told(here(Some(0), false), resent(0, 0))), Some(Needless::Overtaken));
        assert_eq!(why(told(here(Some(1), false), resent(0, 0))), Some(Needless::Timer));
        assert_eq!(why(told(here(Some(1), true), resent(0, 0))), Some(Needless::Unknown));
        assert_eq!(why(told(here(None, false), resent(0, 0))), Some(Needless::Unknown));
        let there = |timers| Some(Resent { segments: 4, needless: 4, timers });
        assert_eq!(why(told(slow(0), there(Some(0)))), Some(Needless::Overtaken));
        assert_eq!(why(told(slow(0), there(Some(1)))), Some(Needless::Timer));
        assert_eq!(why(told(here(Some(0), true), there(Some(1)))), Some(Needless::Unknown));
        assert_eq!(why(told(slow(0), resent(0, 0))), None);
    }

    /// As the lab had it with 1 % lost and 3 % doubled: each segment that was sent again was needed, and as many came twice.
    #[test]
    fn where_the_path_doubles_packets_nobody_knows_whether_what_was_sent_again_was_needed() {
        let needless = Call { needless: 1, copied: true, ..slow(1) };
        let fast = |call| Call { timers: Some(0), ..call };
        let of = |call: Call| without_needless(&[call]).remove(0);
        let waited = of(told(needless.clone(), resent(0, 0)));
        assert_eq!((waited.lost(), waited.needless()), (Some(Lost::Perhaps), None));
        let again = of(told(fast(needless.clone()), resent(0, 0)));
        assert_eq!((again.lost(), again.needless()), (None, Some(Needless::Perhaps)));
        let copied_there = Call { copied_there: true, ..slow(0) };
        let waited = of(told(copied_there.clone(), resent(1, 1)));
        assert_eq!((waited.lost(), waited.needless()), (Some(Lost::Perhaps), None));
        let there = Some(Resent { segments: 1, needless: 1, timers: Some(0) });
        let again = of(told(copied_there.clone(), there));
        assert_eq!((again.lost(), again.needless()), (None, Some(Needless::Perhaps)));
        let undone = of(told(Call { undone: true, ..needless.clone() }, resent(0, 0)));
        assert_eq!(undone.lost(), Some(Lost::Perhaps), "a kernel counts copies, too");
        // More was sent again than came twice.
        let more = of(told(Call { retransmits: 2, ..needless.clone() }, resent(0, 0)));
        assert_eq!(more.lost(), Some(Lost::Here));
        // Where nothing shows that it does, and nothing that it does not.
        let perhaps = of(told(Call { copied: false, ..fast(needless) }, resent(0, 0)));
        assert_eq!(perhaps.needless(), Some(Needless::Perhaps));
        let syn_ack = Call { copied_there: true, ..handshake(1, Syn::First, 1, 1) };
        assert_eq!(of(syn_ack).lost(), Some(Lost::Perhaps), "which of them came?");
    }

    #[test]
    fn what_came_twice_of_one_connection_was_not_sent_again_on_another() {
        let lost_one = told(Call { connecting_ns: 1, ..slow(1) }, resent(0, 0));
        let doubled = Call { needless: 1, connecting_ns: 1, ..told(slow(0), resent(0, 0)) };
        assert_eq!(without_needless(&[lost_one, doubled])[0].lost(), Some(Lost::Here));
    }
}
