//! The table: a file a cause, in the order of [`Cause`](crate::Cause).

mod cpu;
mod delayed_ack;
mod disk;
mod fast_retransmit;
mod mtu_black_hole;
mod nagle;
mod own_queue;
mod path_queue;
mod policer;
mod rate_limit;
mod receiver_window;
mod retransmission_timeout;
mod send_buffer;
mod sender_idle;
mod unknown;

/// All causes, the unknown one last.
pub const TABLE: &[crate::Row] = &[
    receiver_window::ROW,
    send_buffer::ROW,
    sender_idle::ROW,
    cpu::ROW,
    disk::ROW,
    rate_limit::ROW,
    own_queue::ROW,
    path_queue::ROW,
    retransmission_timeout::ROW,
    fast_retransmit::ROW,
    delayed_ack::ROW,
    nagle::ROW,
    mtu_black_hole::ROW,
    policer::ROW,
    unknown::ROW,
];

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn each_cause_has_its_row_its_own_name_and_plain_sentences() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(row.cause as usize, at, "{}", row.name);
            assert!(TABLE[..at].iter().all(|other| other.name != row.name), "{}", row.name);
            for text in [row.title, row.sentence, row.rule, row.why, row.source] {
                assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", row.name);
                assert!(text.split_whitespace().count() <= 30, "{}: {text}", row.name);
            }
        }
    }
}
