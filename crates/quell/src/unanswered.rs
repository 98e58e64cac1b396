//! Packets that a server left unanswered, in words: of `quell ping`, and of the pings beside a flow.

/// What is known of so many packets that the server left unanswered by a limit, or as its socket was full; none where there are none.
pub fn left_unanswered(packets: u64) -> Option<String> {
    (packets > 0).then(|| {
        format!(
            "Of those without an answer the server left unanswered {packets} or less, by what its other answers say, as a `quell serve` does beyond its \
             --max-rate, and where its socket has no room: those were lost on no way, and how many of the others were is not known exactly.",
        )
    })
}
