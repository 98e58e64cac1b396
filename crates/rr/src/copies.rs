//! Whether what came twice at an end (DSACK, RFC 2883) was sent twice, or doubled by the path. Pure.
//!
//! ```text
//!   sent twice      1 ──► late …   1 again ──►        two came: the second was needless
//!   doubled         1 ×   1 again ──► ══►             two came, and the second was needed
//! ```
//!
//! A DSACK names positions and not packets, so that it does not tell the two apart. Of a connection of which more came twice than its sender had sent
//! again, the path doubled some for certain (the kernel holds it so: `tcp_dsack_seen`, net/ipv4/tcp_input.c); then no DSACK of that way proves anything.
//!
//! That a path doubles nothing is shown by calls in which nothing was sent again and nothing came twice: what the path doubles does not wait for
//! something to be sent again. Or what was sent there was seen to be overtaken, which is why something is sent again needlessly. Without either it is unknown.

use crate::client::Call;

/// A DSACK may come so many calls after what it is for.
const LATE: usize = 2;

/// How probable it may be at most that copies of the path's came just where something had been sent again.
const CHANCE: f64 = 0.01;

/// One in so many calls in which something came twice has to show that packets overtake each other.
const OVERTAKEN: usize = 10;

/// Whether a path doubles packets on one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Copied {
    /// Nothing came twice, or that was sent twice.
    #[default]
    No,
    /// Nothing tells.
    Perhaps,
    /// More came twice than had been sent again.
    Surely,
}

/// What one call tells of one way.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Segments sent again.
    again: u32,
    /// Those that came twice.
    twice: u32,
    /// More came twice than was sent again.
    surely: bool,
    /// Packets overtook each other.
    overtaken: bool,
    /// That nothing came twice would be known.
    tells: bool,
}

/// Whether these calls' path doubles packets: on the way to the server, and from it.
pub(crate) fn copied(calls: &[Call]) -> [Copied; 2] {
    let here = |call: &Call| Seen {
        again: call.retransmits.saturating_sub(call.syns),
        twice: call.needless,
        surely: call.copied,
        overtaken: call.reordered,
        tells: call.would_tell,
    };
    let there = |call: &Call| Seen {
        again: call.there.map_or(0, |there| there.segments),
        twice: call.there.map_or(0, |there| there.needless),
        surely: call.copied_there,
        overtaken: call.word.is_some_and(|word| word.overtaken),
        tells: call.would_tell_there && call.there.is_some(),
    };
    let begins: Vec<bool> = calls.iter().map(|call| call.connecting_ns > 0).collect();
    let of =
        |way: &dyn Fn(&Call) -> Seen| on_a_way(&calls.iter().map(way).collect::<Vec<_>>(), &begins);
    [of(&here), of(&there)]
}

/// The same of one way; `begins` says which of the calls has a connection of its own, or the first of one.
fn on_a_way(calls: &[Seen], begins: &[bool]) -> Copied {
    if calls.iter().any(|call| call.surely) {
        return Copied::Surely;
    }
    let (mut open, mut quiet, mut twice, mut with_copies, mut overtaken) = (0, 0, 0_u32, 0, 0);
    let mut connection = 0;
    for (at, call) in calls.iter().enumerate() {
        if begins.get(at) == Some(&true) {
            connection = at;
        }
        overtaken += usize::from(call.overtaken);
        with_copies += usize::from(call.twice > 0);
        // Whether something was sent again that may come twice in this call.
        let near = calls.get(at.saturating_sub(LATE).max(connection)..=at).unwrap_or_default();
        match near.iter().any(|call| call.again > 0) {
            true => (open, twice) = (open + 1, twice.saturating_add(call.twice)),
            // What was sent again in a call of another size may come in the first ones of this.
            false if call.twice > 0 && at >= LATE => return Copied::Perhaps,
            false => quiet += usize::from(call.tells),
        }
    }
    let share = f64::from(open) / (f64::from(open) + quiet as f64).max(1.0);
    match twice {
        0 => Copied::No,
        _ if overtaken > 0 && overtaken * OVERTAKEN >= with_copies => Copied::No,
        twice if share.powi(twice.min(1000).cast_signed()) <= CHANCE => Copied::No,
        _ => Copied::Perhaps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::{Resent, Word};

    /// A call in which so many segments were sent again by this end, and so many came twice.
    fn call(again: u32, twice: u32) -> Call {
        Call { retransmits: again, needless: twice, would_tell: true, ..Call::default() }
    }

    fn here(calls: &[Call]) -> Copied {
        copied(calls)[0]
    }

    /// As the lab had it with 1 % lost and 3 % doubled: of 8 segments sent again each was needed, and 25 came twice.
    #[test]
    fn where_more_comes_twice_than_was_sent_again_the_path_doubles_it() {
        let doubled = Call { copied: true, ..call(0, 1) };
        let calls = [vec![call(1, 1); 8], vec![doubled], vec![call(0, 0); 90]].concat();
        assert_eq!(here(&calls), Copied::Surely);
    }

    #[test]
    fn what_comes_twice_though_nothing_was_sent_again_before_may_be_a_copy_of_the_paths() {
        let late = [vec![call(1, 0), call(0, 0), call(0, 1)], vec![call(0, 0); 300]].concat();
        assert_eq!(here(&late), Copied::No, "a DSACK is late");
        let later = [vec![call(1, 0), call(0, 0), call(0, 0), call(0, 1)], vec![call(0, 0); 300]];
        assert_eq!(here(&later.concat()), Copied::Perhaps);
        let another = Call { connecting_ns: 1, ..call(0, 1) };
        let calls = [vec![call(1, 0), call(1, 1), another], vec![call(0, 0); 300]].concat();
        assert_eq!(here(&calls), Copied::Perhaps, "another connection's");
    }

    #[test]
    fn a_path_doubles_nothing_where_many_calls_without_anything_sent_again_show_no_copy() {
        let with_quiet =
            |quiet: usize| here(&[vec![call(1, 1); 3], vec![call(0, 0); quiet]].concat());
        assert_eq!((with_quiet(2), with_quiet(60)), (Copied::Perhaps, Copied::No));
        let untold = Call { would_tell: false, ..call(0, 0) };
        assert_eq!(here(&[vec![call(1, 1); 3], vec![untold; 60]].concat()), Copied::Perhaps);
        assert_eq!(here(&vec![call(1, 0); 9]), Copied::No, "nothing came twice");
    }

    #[test]
    fn where_packets_are_seen_to_overtake_each_other_something_is_sent_again_needlessly() {
        let overtaken = Call { reordered: true, ..call(1, 1) };
        assert_eq!(here(&[vec![call(1, 1); 9], vec![overtaken.clone()]].concat()), Copied::No);
        assert_eq!(here(&[vec![call(1, 1); 19], vec![overtaken]].concat()), Copied::Perhaps);
        let there = |overtaken| {
            let word = Word { overtaken, ..Word::default() };
            let there = Some(Resent { segments: 1, needless: 1, timers: Some(0) });
            copied(&vec![Call { there, word: Some(word), ..Call::default() }; 9])[1]
        };
        assert_eq!((there(true), there(false)), (Copied::No, Copied::Perhaps));
    }
}
