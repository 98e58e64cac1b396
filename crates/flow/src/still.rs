//! Tells when an amount stands still: it has no end of its own, so that a server that stops reading or sending would hold it for ever. Pure.

/// So long nothing moves before a test of an amount is given up: longer than TCP waits between two tries on a path that came to be of use lately
/// (RFC 6298, doubled from 1 s five times).
const STILL_NS: u64 = 60_000_000_000;

/// How much moved, and when it was last more.
#[derive(Debug)]
pub(crate) struct Still {
    moved: u64,
    since_ns: u64,
}

impl Still {
    /// Nothing has moved yet.
    pub fn new(now_ns: u64) -> Self {
        Self { moved: 0, since_ns: now_ns }
    }

    /// Why to end it, where so many of the amount's bytes moved until now, and none for too long. `receives`: the server sends all of it.
    pub fn look(&mut self, moved: u64, amount: u64, receives: bool, now_ns: u64) -> Option<String> {
        if moved > self.moved {
            (self.moved, self.since_ns) = (moved, now_ns);
        }
        let waited = now_ns.saturating_sub(self.since_ns);
        let (done, stopped) = match receives {
            true => ("came", "sending"),
            false => ("were acknowledged", "reading"),
        };
        (waited > STILL_NS).then(|| {
            format!(
                "nothing moved for {} s: {} of {amount} bytes {done}; the server stopped {stopped}, or the path is broken",
                STILL_NS / 1_000_000_000,
                self.moved
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_that_stands_still_is_given_up_and_one_that_creeps_is_not() {
        const S: u64 = 1_000_000_000;
        let mut still = Still::new(0);
        for second in 0..1000 {
            assert_eq!(still.look(second / 50, 5000, false, second * S), None, "at {second} s");
        }
        let why = still.look(19, 5000, false, 1012 * S).expect("61 s after the last byte");
        assert!(why.contains("60 s: 19 of 5000 bytes were acknowledged"), "{why}");
        let why = Still::new(0).look(0, 5000, true, 61 * S).expect("nothing came at all");
        assert!(why.contains("stopped sending"), "{why}");
    }
}
