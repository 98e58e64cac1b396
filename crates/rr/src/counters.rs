//! What this host's TCP counted: `/proc/net/netstat` (net/ipv4/proc.c), of the calling thread's network namespace.

use quell_netlink::sock_diag::TcpInfo;
use serde::Serialize;

/// The counters that tell of waiting, as differences between two looks or since the start of the namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Acknowledgements that were sent because their delay was over (`DelayedACKs`).
    pub delayed_acks: u64,
    /// Retransmission timeouts (`TCPTimeouts`).
    pub timeouts: u64,
    /// Probes for a lone segment, before such a timeout (`TCPLossProbes`); 0 where the kernel has none.
    pub loss_probes: u64,
    /// Segments thrown away as older than one before them that had been sent again (RFC 7323, section 5; `PAWSEstab`).
    #[serde(skip)]
    pub outdated: u64,
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
        Some(Self {
            delayed_acks: value("DelayedACKs")?,
            timeouts: value("TCPTimeouts")?,
            loss_probes: value("TCPLossProbes").unwrap_or(0),
            outdated: value("PAWSEstab").unwrap_or(0),
        })
    }

    /// What was added since an earlier look.
    pub fn since(self, before: Self) -> Self {
        Self {
            delayed_acks: self.delayed_acks.saturating_sub(before.delayed_acks),
            timeouts: self.timeouts.saturating_sub(before.timeouts),
            loss_probes: self.loss_probes.saturating_sub(before.loss_probes),
            outdated: self.outdated.saturating_sub(before.outdated),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ConnectionCounters {
    /// Segments sent again (`tcpi_total_retrans`).
    pub(crate) again: u32,
    /// Segments that the other end had twice (`tcpi_dsack_dups`).
    pub(crate) twice: u32,
    /// How often the other end had a segment before one that was sent sooner (`tcpi_reord_seen`).
    pub(crate) overtakes: u32,
}

impl ConnectionCounters {
    pub(crate) fn of(info: &TcpInfo) -> Self {
        Self {
            again: info.total_retrans,
            twice: info.dsack_dups.unwrap_or(0),
            overtakes: info.reord_seen.unwrap_or(0),
        }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            again: self.again.saturating_sub(before.again),
            twice: self.twice.saturating_sub(before.twice),
            overtakes: self.overtakes.saturating_sub(before.overtakes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_are_found_by_their_names() {
        let text = "TcpExt: SyncookiesSent DelayedACKs TW TCPTimeouts TCPLossProbes PAWSEstab\n\
                    TcpExt: 1 118 3 7 2 5\nIpExt: InNoRoutes\nIpExt: 9\n";
        let counters = Counters { delayed_acks: 118, timeouts: 7, loss_probes: 2, outdated: 5 };
        assert_eq!(Counters::read(text), Some(counters));
        assert_eq!(Counters::read("TcpExt: TCPTimeouts\nTcpExt: 7\n"), None);
        assert_eq!(Counters::read("IpExt: A\n"), None);
        let before = Counters { delayed_acks: 100, ..counters };
        assert_eq!(counters.since(before), Counters { delayed_acks: 18, ..Counters::default() });
    }

    #[test]
    fn this_kernel_has_them() {
        assert!(Counters::now().is_some());
    }
}
