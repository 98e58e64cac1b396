//! Sequence numbers of 32 bits as positions that don't wrap.

/// Turns sequence numbers into positions, each as near as possible to the one before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Positions {
    near: Option<(u32, i64)>,
}

impl Positions {
    /// Whether any number was seen.
    pub(super) fn begun(&self) -> bool {
        self.near.is_some()
    }

    /// The position of a number. The first one ever is at 0.
    pub(super) fn place(&self, seq: u32) -> i64 {
        let Some((near, position)) = self.near else { return 0 };
        // The difference wraps as TCP's comparisons do (RFC 9293, 3.4).
        let step = seq.wrapping_sub(near).cast_signed();
        position.saturating_add(step.into())
    }

    /// Numbers that follow are near this one.
    pub(super) fn settle(&mut self, seq: u32) {
        self.near = Some((seq, self.place(seq)));
    }
}

#[cfg(test)]
mod tests {
    use super::Positions;

    #[test]
    fn positions_go_on_where_sequence_numbers_wrap() {
        let mut line = Positions::default();
        line.settle(u32::MAX - 9);
        assert_eq!(line.place(u32::MAX - 9), 0);
        assert_eq!(line.place(10), 20);
        line.settle(10);
        assert_eq!(line.place(u32::MAX - 9), 0);
        assert_eq!(line.place(1010), 1020);
    }
}
