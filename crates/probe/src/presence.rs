//! What answers show of the server beside their numbers: the mark that it wants back, and how many packets it left unanswered. Pure.
//!
//! ```text
//!   sent       0 1 2 3 4 5 6 7 8 9
//!   answered     1     4     7         each tells how many packets of the session the server left unanswered until then, or that it does not know
//!              └──────────────┘└─┘
//!              as many as it told; all that have no answer, where it left any before
//! ```
//!
//! A packet that the server left unanswered was lost on no way, and nobody can say of a single one that it was. Their number is what is told of a
//! stream: of those without an answer at most so many were not lost. Where the server told nothing behind the last answer, or does not know, all of
//! those packets may be among them.

use quell_wire::stamp::Presence;

#[derive(Debug, Default)]
pub(crate) struct UnansweredCount {
    mark: u32,
    told: u64,
    /// Packets without an answer, of which the server could not say how many it had left unanswered.
    unknown: u64,
    /// Packets answered so far, and the number behind the last of them.
    answered: u64,
    next: u64,
    counts: bool,
}

impl UnansweredCount {
    /// What the next packet brings back: 0 before the first answer.
    pub fn mark(&self) -> u32 {
        self.mark
    }

    /// A packet was answered, with the server's own number or without.
    pub fn answered(&mut self, seq: u64, numbered: bool, bytes: &[u8]) {
        self.answered += 1;
        self.next = self.next.max(seq + 1);
        self.counts |= numbered;
        let is_known = match Presence::read(bytes) {
            Some(presence) => {
                self.mark = presence.mark;
                self.told = self.told.max(presence.unanswered.unwrap_or(0).into());
                presence.unanswered.is_some()
            }
            // One that never counts is not known to leave any unanswered; one that does, and now does not, has no room or did so.
            None => numbered || (Presence::fits(bytes) && !self.counts),
        };
        if !is_known {
            self.unknown = self.unknown.max((seq + 1).saturating_sub(self.answered));
        }
    }

    /// Most packets without an answer that the server may have left unanswered, of all before this number.
    pub fn unanswered(&self, next: u64) -> u64 {
        match self.told + self.unknown {
            0 => 0,
            some => some + next.saturating_sub(self.next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_wire::stamp::{ReflectorPacket, SenderPacket};

    /// A server that says so of packets left unanswered; `None` is one that knows nothing of it.
    fn answer(size: usize, unanswered: Option<Option<u32>>) -> Vec<u8> {
        let mut bytes = SenderPacket::template(size);
        ReflectorPacket::reflect(&mut bytes, 1, 2, 3, 64);
        if let Some(unanswered) = unanswered {
            Presence { mark: 9, unanswered }.tell(&mut bytes);
        }
        bytes
    }

    fn shown(answers: &[(u64, bool, Vec<u8>)]) -> u64 {
        let mut shown = UnansweredCount::default();
        answers.iter().for_each(|(seq, numbered, bytes)| shown.answered(*seq, *numbered, bytes));
        shown.unanswered(100)
    }

    #[test]
    fn what_the_server_tells_bounds_what_it_left_unanswered() {
        let told = |n| answer(56, Some(n));
        assert_eq!(shown(&[(0, true, told(Some(0))), (60, true, told(Some(0)))]), 0, "lost, all");
        let some = [(0, true, told(Some(0))), (60, false, told(Some(20)))];
        assert_eq!(shown(&some), 20 + 39, "and those behind the last answer");
        let late = [(90, false, told(Some(30))), (60, false, told(Some(20)))];
        assert_eq!(shown(&late), 30 + 9);
        assert_eq!(shown(&[(50, false, told(None)), (60, true, told(Some(3)))]), 50 + 3 + 39);
        let mut shown = UnansweredCount::default();
        assert_eq!(shown.mark(), 0);
        shown.answered(0, true, &told(Some(0)));
        assert_eq!(shown.mark(), 9);
    }

    #[test]
    fn a_server_that_knows_nothing_of_it_is_judged_by_its_numbers() {
        let plain = |size| answer(size, None);
        assert_eq!(shown(&[(50, false, plain(56))]), 0, "it never counts");
        assert_eq!(shown(&[(50, true, plain(44)), (60, true, plain(44))]), 0, "it always does");
        let some = [(0, true, plain(56)), (50, false, plain(56)), (60, true, plain(56))];
        assert_eq!(shown(&some), 49 + 39, "it did, and stopped");
        assert_eq!(shown(&[(50, false, plain(44))]), 50 + 49, "there was no room to say it");
    }
}
