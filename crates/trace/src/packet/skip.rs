//! What is left out, and why.

use super::other::Other;

/// Why a frame is not looked at further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// A kind of link that is not read; with its number.
    Link(u32),
    /// Neither IPv4 nor IPv6; what it is instead.
    NotIp(Other),
    /// IP, but not TCP; what it is instead.
    NotTcp(Other),
    /// A fragment: its parts are not put together.
    Fragment,
    /// Less was captured than the headers need.
    CutShort,
    /// It contradicts itself, as a header that is longer than its packet.
    Malformed,
}
