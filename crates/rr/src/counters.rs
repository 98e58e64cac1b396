//! What this host's TCP counted: `/proc/net/netstat` (net/ipv4/proc.c), of the calling thread's network namespace; and of one connection (`TCP_INFO`).

use quell_netlink::sock_diag::TcpInfo;
use serde::Serialize;

const SACK: u8 = 2;

/// The counters that tell of waiting, as differences between two looks or since the start of the namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Acknowledgements that were sent because their delay was over (`DelayedACKs`).
    pub delayed_acks: u64,
    /// Retransmission timeouts (`TCPTimeouts`).
    pub timeouts: u64,
    /// Probes for a lone segment, before such a timeout (`TCPLossProbes`); 0 where the kernel has none.
    pub loss_probes: u64,
    /// Timeouts that the kernel took back: what was acknowledged had been sent before it sent again (RFC 3522; `TCPLossUndo`, `TCPFullUndo`).
    #[serde(skip)]
    pub undone: Option<u64>,
    /// SYNs and SYN-ACKs for connections that stood (`TCPSYNChallenge`): after a handshake, its SYN-ACK once more.
    #[serde(skip)]
    pub syns_again: Option<u64>,
    /// Segments that came and were thrown away, being older than one before them that had been sent again (RFC 7323, section 5; `PAWSEstab`).
    #[serde(skip)]
    pub outdated: Option<u64>,
}

impl Counters {
    /// Those of now; none where the file can't be read.
    pub fn now() -> Option<Self> {
        Self::read(&std::fs::read_to_string("/proc/thread-self/net/netstat").ok()?)
    }

    /// Reads the file: lines of names, each followed by a line of values.
    pub fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|l| l.starts_with("TcpExt:"));
        let (names, values) = (lines.next()?, lines.next()?);
        let value = |wanted: &str| {
            let at = names.split(' ').position(|name| name == wanted)?;
            values.split(' ').nth(at)?.parse().ok()
        };
        let loss_probes = value("TCPLossProbes").unwrap_or(0);
        let (delayed_acks, timeouts) = (value("DelayedACKs")?, value("TCPTimeouts")?);
        let undone = value("TCPLossUndo").zip(value("TCPFullUndo"));
        let undone = undone.map(|(loss, full): (u64, u64)| loss + full);
        let syns_again = value("TCPSYNChallenge");
        let outdated = value("PAWSEstab");
        Some(Self { delayed_acks, timeouts, loss_probes, undone, syns_again, outdated })
    }

    /// What was added since an earlier look.
    pub fn since(self, before: Self) -> Self {
        let both = |now: Option<u64>, before| Some(now?.saturating_sub(before?));
        Self {
            delayed_acks: self.delayed_acks.saturating_sub(before.delayed_acks),
            timeouts: self.timeouts.saturating_sub(before.timeouts),
            loss_probes: self.loss_probes.saturating_sub(before.loss_probes),
            undone: both(self.undone, before.undone),
            syns_again: both(self.syns_again, before.syns_again),
            outdated: both(self.outdated, before.outdated),
        }
    }
}

/// Segments that were sent again, and DSACKs.
pub(crate) fn again(info: &TcpInfo) -> (u32, u32) {
    (info.total_retrans, info.dsack_dups.unwrap_or(0))
}

/// How often the other end was seen to have a segment before one that was sent sooner, and not again.
pub(crate) fn overtakes(info: &TcpInfo) -> u32 {
    info.reord_seen.unwrap_or(0)
}

/// Whether the kernel learns which of the segments that it sent again were needless.
pub(crate) fn tells(info: &TcpInfo) -> bool {
    info.options & SACK != 0 && info.dsack_dups.is_some()
}

/// Whether this host says of segments that it had them already (DSACK, RFC 2883), in the calling thread's network namespace; none where it does not
/// tell.
pub fn sends_dsack() -> Option<bool> {
    let said = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_dsack").ok()?;
    Some(said.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_are_found_by_their_names() {
        let text = "TcpExt: SyncookiesSent DelayedACKs TW TCPTimeouts TCPLossProbes\nTcpExt: 1 118 3 7 2\n\
                    IpExt: InNoRoutes\nIpExt: 9\n";
        let counters =
            Counters { delayed_acks: 118, timeouts: 7, loss_probes: 2, ..Counters::default() };
        assert_eq!(Counters::read(text), Some(counters));
        assert_eq!(Counters::read("TcpExt: TCPTimeouts\nTcpExt: 7\n"), None);
        assert_eq!(Counters::read("IpExt: A\n"), None);
        let before = Counters { delayed_acks: 100, ..counters };
        assert_eq!(counters.since(before), Counters { delayed_acks: 18, ..Counters::default() });
        let more = "TcpExt: DelayedACKs TCPTimeouts TCPFullUndo TCPLossUndo TCPSYNChallenge PAWSEstab\n\
                    TcpExt: 0 0 1 2 4 5\n";
        let more = Counters::read(more).unwrap();
        assert_eq!((more.undone, more.syns_again, more.outdated), (Some(3), Some(4), Some(5)));
        assert_eq!(more.since(more).undone, Some(0));
        assert_eq!(more.since(counters).undone, None, "it did not count then");
    }

    #[test]
    fn this_kernel_has_them() {
        assert!(Counters::now().is_some());
    }
}
