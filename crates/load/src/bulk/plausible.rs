//! Which datagrams of a flow can be its own: anybody may write to its socket under the other end's address. Pure.
//!
//! ```text
//!   datagram ──► as long as agreed? ──► a number that can have been sent by now? ──► near the newest? ──yes──► believed
//!                    │ no                    │ no                                        │ no
//!                    └─► ignored             └─► ignored                                 └─► held until the next one goes on from there;
//!                                                                                            ignored where it does not
//! ```
//!
//! So one datagram alone never says that many were lost before it.
//!
//! ```text
//!   number                 ╱ a rate was agreed: what it makes since the receiver began, and what AHEAD_NS and a batch hold
//!     │                ╱ ·
//!     │            ╱ ·       · · what comes
//!     └──────────────────── time
//! ```
//!
//! A receiver begins before its sender does, or finds what came before in its socket, with the kernel's stamp. So no datagram of the flow's own comes
//! sooner, however late the first ones were.

/// A number is near the newest within so many, where no rate was agreed.
const NEAR: u64 = 1000;

/// For so long a sender may have sent before its receiver began, in nanoseconds, …
const AHEAD_NS: u64 = 100_000_000;

/// … so many datagrams more at once, …
const BATCH: u64 = 16;

/// … and so much faster than agreed, as a divisor of what was agreed: clocks.
const FASTER: u64 = 200;

/// Without an agreed rate, for so long it may have sent before.
const EARLIER_NS: u64 = 5_000_000_000;

/// Where so many that are near have come since one that is far, the flow did not go on from there.
const STAYED: u32 = 64;

/// Datagrams a second that no sender sends.
const FASTEST: u64 = 100_000_000;

/// What is to become of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// It is of this flow.
    Own,
    /// It is not, or that shows later.
    NotYet,
    /// It is, and so is the one before it with this number.
    OwnWith(u64),
}

/// What is known of a flow.
#[derive(Debug)]
pub(super) struct Plausible {
    /// Bytes of each of its datagrams, where that was agreed.
    size: Option<usize>,
    /// Most of them in a second, as a sender may have sent them for so long before.
    most: u64,
    earlier_ns: u64,
    /// A number is near the newest within so many, and so many may be ahead of the rate.
    near: u64,
    since_ns: Option<u64>,
    /// A number far from the newest, and how far.
    held: Option<(u64, u64)>,
    /// How many have been near since.
    stayed: u32,
    /// How far the last that went on was, halved with each that was near.
    stride: u64,
    ignored: u64,
}

impl Plausible {
    /// Of so many bytes each, at so many bits a second, where that was agreed, of which so many may leave together.
    pub fn new(size: Option<usize>, rate: Option<u64>, burst: u32) -> Self {
        let agreed = rate.zip(size).map(|(rate, size)| {
            let most = rate / (8 * size.max(1) as u64) + 1;
            most.saturating_add(most / FASTER)
        });
        let most = agreed.map_or(FASTEST, |most| most.min(FASTEST));
        let at_once = (u128::from(most) * u128::from(AHEAD_NS) / 1_000_000_000) as u64;
        let (earlier_ns, near) = match agreed {
            Some(_) => (0, at_once + u64::from(burst).max(BATCH)),
            None => (EARLIER_NS, NEAR),
        };
        let (since_ns, held) = (None, None);
        Self { size, most, earlier_ns, near, since_ns, held, stayed: 0, stride: 0, ignored: 0 }
    }

    /// The receiver was there then. Where nobody says so, it began with the first number.
    pub fn began(&mut self, then_ns: u64) {
        self.since_ns = Some(self.since_ns.map_or(then_ns, |since_ns| since_ns.min(then_ns)));
    }

    /// Whether one of so many bytes can be of this flow; counted where it can't.
    pub fn fits(&mut self, bytes: usize) -> bool {
        let fits = self.size.is_none_or(|size| size == bytes);
        self.ignored += u64::from(!fits);
        fits
    }

    /// What to make of a number that is found now, where this was the newest.
    pub fn judge(&mut self, number: u64, newest: u64, now_ns: u64) -> Judged {
        let lasted = now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns));
        let lasted = u128::from(lasted.saturating_add(self.earlier_ns));
        let most = lasted * u128::from(self.most) / 1_000_000_000 + u128::from(self.near);
        if u128::from(number) > most {
            self.ignored += 1;
            return Judged::NotYet;
        }
        let ahead = number.saturating_sub(newest);
        let near = self.near.min(NEAR);
        if ahead <= near.max(2 * self.stride) {
            self.stride = if ahead <= near { self.stride / 2 } else { ahead };
            self.stayed = self.stayed.saturating_add(1);
            if self.stayed >= STAYED {
                self.end();
            }
            return Judged::Own;
        }
        // Where much is lost the next is as far again.
        let goes_on = |held: u64, ahead: u64| {
            number != held
                && held.saturating_sub(near) <= number
                && number - held.min(number) <= near.max(2 * ahead)
        };
        match self.held.take() {
            Some((held, before)) if goes_on(held, before) => {
                self.stride = number.saturating_sub(held);
                Judged::OwnWith(held)
            }
            other => {
                self.ignored += u64::from(other.is_some());
                (self.held, self.stayed) = (Some((number, ahead)), 0);
                Judged::NotYet
            }
        }
    }

    /// Nothing more comes: who was held is nobody's.
    pub fn end(&mut self) {
        self.ignored += u64::from(self.held.take().is_some());
    }

    /// How many are not of this flow.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// What it makes of these numbers, which come a millisecond apart: those that are believed, in order, and how many are not.
    fn believed(mut flow: Plausible, numbers: &[u64]) -> (Vec<u64>, u64) {
        let (mut all, mut newest) = (Vec::new(), 0);
        for (number, ms) in numbers.iter().zip(0..) {
            match flow.judge(*number, newest, ms * 1_000_000) {
                Judged::Own => all.push(*number),
                Judged::NotYet => {}
                Judged::OwnWith(held) => all.extend([held, *number]),
            }
            newest = all.iter().copied().max().unwrap_or(0);
        }
        flow.end();
        (all, flow.ignored())
    }

    fn any() -> Plausible {
        Plausible::new(None, None, 1)
    }

    #[test]
    fn one_number_far_ahead_is_not_believed_and_costs_nothing() {
        let (all, ignored) = believed(any(), &[1, 2, 50_000, 3, 4, 50_000, 5, u64::MAX, 6]);
        assert_eq!((all, ignored), (vec![1, 2, 3, 4, 5, 6], 3));
        // Twice the same, and as the first and the last.
        let (all, ignored) = believed(any(), &[60_000, 60_000, 1, 2, 3, 1_000_000]);
        assert_eq!((all, ignored), (vec![1, 2, 3], 3));
    }

    #[test]
    fn two_far_numbers_with_much_of_the_flow_between_them_do_not_agree() {
        let own = 1..=1000_u64;
        let forged = |n: u64| 1_000_000 + n * 7919;
        let mixed = |each: u64| {
            let with = |n| [Some(n), (n % each == 0).then_some(forged(n))];
            own.clone().flat_map(with).flatten().collect::<Vec<u64>>()
        };
        assert_eq!(believed(any(), &mixed(100)), (own.clone().collect(), 10));
    }

    #[test]
    fn where_many_were_lost_the_flow_goes_on_from_there() {
        let (all, ignored) = believed(any(), &[1, 2, 40_000, 40_001, 40_003]);
        assert_eq!((all, ignored), (vec![1, 2, 40_000, 40_001, 40_003], 0));
        // Overtaken just then.
        assert_eq!(
            believed(any(), &[1, 40_001, 40_000, 40_002]),
            (vec![1, 40_001, 40_000, 40_002], 0)
        );
        // One of ten thousand comes.
        let few: Vec<u64> = (1..20).map(|n| n * 10_000).collect();
        assert_eq!(believed(any(), &few), (few.clone(), 0));
        // Where none is lost any more, one alone is nobody's again.
        let again: Vec<u64> = (1..4).map(|n| n * 10_000).chain(30_001..30_020).collect();
        let with = |last: u64| again.iter().copied().chain([last]).collect::<Vec<u64>>();
        assert_eq!(believed(any(), &with(45_000)), (again.clone(), 1));
    }

    #[test]
    fn no_more_is_believed_than_can_have_been_sent() {
        // 178 datagrams of 1400 bytes a second; a second after the first, one batch and what 100 ms hold may be ahead.
        let flow = || Plausible::new(Some(1400), Some(2_000_000), 1);
        for far in [[900, 901], [300, 301], [230, 231]] {
            let mut flow = flow();
            assert_eq!(flow.judge(1, 0, 0), Judged::Own);
            for n in 2..=178 {
                assert_eq!(flow.judge(n, n - 1, n * S / 178), Judged::Own, "{n}");
            }
            assert_eq!(far.map(|n| flow.judge(n, 178, S)), [Judged::NotYet; 2], "{far:?}");
            assert_eq!(flow.ignored(), 2, "they are not even held");
        }
        // After two seconds without any, all those may have been lost: the next has to agree.
        let mut late = flow();
        assert_eq!(late.judge(1, 0, 0), Judged::Own);
        assert_eq!(late.judge(350, 1, 2 * S), Judged::NotYet);
        assert_eq!(late.judge(351, 1, 2 * S), Judged::OwnWith(350));
        let mut any = any();
        any.judge(1, 0, 0);
        assert_eq!(any.judge(u64::from(u32::MAX), 1, S), Judged::NotYet);
        assert_eq!(any.ignored(), 1, "of any rate too");
    }

    #[test]
    fn what_came_late_and_then_at_once_was_sent_since_the_receiver_began() {
        // The first waited a second for its way; then all come together.
        let mut flow = Plausible::new(Some(1400), Some(2_000_000), 1);
        flow.began(0);
        for n in 1..=178 {
            assert_eq!(flow.judge(n, n - 1, S), Judged::Own, "{n}");
        }
        // Bursts that were agreed, the first of them at once; and those that came before anybody looked.
        let mut bursts = Plausible::new(Some(1400), Some(2_000_000), 500);
        bursts.began(0);
        for n in 1..=500 {
            assert_eq!(bursts.judge(n, n - 1, 0), Judged::Own, "{n}");
        }
        let mut looked = Plausible::new(Some(1400), Some(2_000_000), 1);
        looked.began(S);
        looked.began(S / 178);
        for n in 1..=178 {
            assert_eq!(looked.judge(n, n - 1, S), Judged::Own, "{n}");
        }
    }

    #[test]
    fn another_length_is_none_of_it() {
        let mut flow = Plausible::new(Some(1400), None, 1);
        assert_eq!([16, 1400, 1399, 0].map(|bytes| flow.fits(bytes)), [false, true, false, false]);
        assert_eq!(flow.ignored(), 3);
    }
}
