//! Packets that a server left unanswered, in words: of `quell ping`, and of the pings beside a flow.

/// What is known of so many packets that the server left unanswered by a limit, or as its socket was full; none where there are none.
pub fn left_unanswered(packets: u64) -> Option<String> {
    (packets > 0).then(|| {
        format!(
            "Up to {packets} of the missing replies were not lost: the server left them unanswered, because of its \
         --max-rate or a full socket. So the number of lost packets is not known exactly.",
        )
    })
}
