//! A line that follows a series: the token bucket of the lab's kernel (crates/kernel/edits/line.edit).

use super::message::header;
use crate::core::{Message, NetlinkError, Socket};
use nix::errno::Errno;
use quell_tc::Handle;

/// What a bucket is to be.
pub struct LineBucket<'a> {
    /// Of each step its end in nanoseconds and its rate in bit/s.
    pub steps: &'a [(u64, u64)],
    /// Packets leave at multiples of so many nanoseconds; 0 where they leave when they are through.
    pub grid_ns: u64,
    /// The number of what it shares with another one, so that one of them sends at a time; 0 where it is alone.
    pub medium: u64,
}

/// Makes the bucket of this handle a line. False where it is one, which it stays.
///
/// # Errors
/// `EINVAL` where the kernel is none of the lab's.
pub fn follow(
    socket: &mut Socket,
    ifindex: u32,
    bucket: Handle,
    line: &LineBucket<'_>,
) -> Result<bool, NetlinkError> {
    let mut first = 0;
    // An attribute holds 64 KiB.
    for part in line.steps.chunks(4000) {
        let head = [0, line.steps.len() as u64, first, line.grid_ns, line.medium];
        first += part.len() as u64;
        let words = head.into_iter().chain(part.iter().flat_map(|(end, rate)| [*end, *rate]));
        match socket.request_ack(&message(ifindex, bucket, words)) {
            Err(error) if error.errno() == Some(Errno::EEXIST) => return Ok(false),
            sent => sent?,
        };
    }
    Ok(true)
}

/// Tells the bucket when its series begins, by the monotonic clock; until then its first step lasts.
pub fn begin(
    socket: &mut Socket,
    ifindex: u32,
    bucket: Handle,
    start_ns: u64,
) -> Result<(), NetlinkError> {
    socket.request_ack(&message(ifindex, bucket, [start_ns, 0, 0, 0, 0])).map(drop)
}

fn message(ifindex: u32, bucket: Handle, words: impl IntoIterator<Item = u64>) -> Message {
    let tried = format!("give the line {bucket} of interface {ifindex} its series");
    let head = header(ifindex, bucket.to_u32(), 0, 0);
    let mut message = Message::with_header(&tried, libc::RTM_NEWQDISC, 0, &head);
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    message.attrs().str(libc::TCA_KIND, "tbf");
    message.attrs().nested(libc::TCA_OPTIONS, |options| {
        // A head and steps: `struct quell_head`.
        options.bytes(100, &bytes);
    });
    message
}
