//! What is better done for one route or one connection than for the whole machine.

use crate::facts::{HostFacts, Role, Wish};
use crate::window::Path;
use serde::{Serialize, Serializer};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cure {
    /// What a route says, as `quickack 1`; none where it is a program's matter.
    pub route: Option<RouteCure>,
    /// A socket's option, as `TCP_QUICKACK`; none where there is none.
    pub socket: Option<&'static str>,
    /// What it does, when it helps, what it costs.
    pub why: String,
    pub source: &'static str,
}

/// What a route can say that cures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteCure {
    CongestionControl(String),
    QuickAck,
    Ecn,
    /// A first congestion window of so many segments.
    FirstWindow(u32),
}

impl fmt::Display for RouteCure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CongestionControl(name) => write!(f, "congctl {name}"),
            Self::QuickAck => f.write_str("quickack 1"),
            Self::Ecn => f.write_str("features ecn"),
            Self::FirstWindow(segments) => write!(f, "initcwnd {segments}"),
        }
    }
}

impl Serialize for RouteCure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

pub(crate) fn of(wish: &Wish, path: Option<&Path>, host: &HostFacts) -> Vec<Cure> {
    let available = host.value("net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let current = host.value("net/ipv4/tcp_congestion_control").unwrap_or_default();
    let mut cures = Vec::new();
    if matches!(wish.role, Role::Transfer | Role::Measure)
        && available.split_whitespace().any(|name| name == "bbr")
        && current.trim() != "bbr"
    {
        cures.push(Cure {
            route: Some(RouteCure::CongestionControl("bbr".into())),
            socket: Some("TCP_CONGESTION"),
            why: "where packets are lost that no queue dropped, cubic takes each for a full line; compare first: quell flow HOST -C cubic,bbr".into(),
            source: "ip-route(8); ESnet fasterdata, BBR",
        });
    }
    if wish.role == Role::Latency {
        cures.push(Cure {
            route: Some(RouteCure::QuickAck),
            socket: Some("TCP_QUICKACK"),
            why: "segments from there are acknowledged at once; without it a peer that writes twice before it reads waits 40 ms. More packets. \
                  The socket's option must be set again after each receive"
                .into(),
            source: "ip-route(8); tcp(7); net/ipv4/tcp_input.c, tcp_in_quickack_mode",
        });
        cures.push(Cure {
            route: None,
            socket: Some("TCP_NODELAY"),
            why: "the program's own cure for the same: a small write does not wait for the acknowledgement of the one before".into(),
            source: "RFC 896; tcp(7)",
        });
        cures.push(Cure {
            route: Some(RouteCure::Ecn),
            socket: None,
            why: "a queue on the way that marks (fq_codel, CAKE) need not drop, so nothing is sent again. Without such a queue it does nothing".into(),
            source: "RFC 3168; ip-route(8)",
        });
        if let Some(reply) = wish.reply {
            cures.push(first_window(wish, reply, path));
        }
    }
    cures
}

/// `initcwnd` for replies of one size.
fn first_window(wish: &Wish, reply: u64, path: Option<&Path>) -> Cure {
    let segment = u64::from(wish.mtu).saturating_sub(52).max(1);
    let needed = reply.div_ceil(segment);
    // More than a round trip's worth waits in a queue anyway.
    let line = path.map_or(u64::MAX, |path| path.product() / segment);
    let segments = needed.min(line).clamp(10, 64);
    let enough = if segments >= needed {
        "it arrives in one round trip"
    } else {
        "it needs fewer round trips"
    };
    Cure {
        route: Some(RouteCure::FirstWindow(u32::try_from(segments).unwrap_or(64))),
        socket: None,
        why: format!(
            "a reply of {reply} bytes is {needed} segments, and a new connection sends 10 and waits; with {segments} {enough}. \
             A burst of that size, to every host behind this route"
        ),
        source: "RFC 6928; ip-route(8)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Release;
    use crate::plan::tests::{host, wish};

    fn words(wish: &Wish) -> Vec<String> {
        let mut host = host(Release::new(6, 1), 4 << 18);
        host.now
            .insert("net/ipv4/tcp_available_congestion_control".into(), "reno cubic bbr".into());
        let path = wish.rate.zip(wish.rtt);
        let path = path.map(|(rate, rtt)| Path { rate, rtt, mtu: wish.mtu, overhead: 38 });
        of(wish, path.as_ref(), &host)
            .into_iter()
            .filter_map(|cure| Some(cure.route?.to_string()))
            .collect()
    }

    #[test]
    fn each_role_has_the_cures_that_help_it() {
        assert_eq!(words(&wish(Role::Transfer)), ["congctl bbr"]);
        assert_eq!(words(&wish(Role::Router)), [""; 0]);
        assert_eq!(words(&wish(Role::Latency)), ["quickack 1", "features ecn"]);
    }

    #[test]
    fn the_first_window_holds_the_reply_and_no_more_than_the_line() {
        let asked = |reply, rate: &str| {
            let rate = Some(rate.parse().expect("a rate"));
            let wish = Wish { reply: Some(reply), rate, ..wish(Role::Latency) };
            words(&wish).pop().expect("the last one")
        };
        // 30000 bytes are 21 segments.
        assert_eq!(asked(30_000, "10Gbit"), "initcwnd 21");
        assert_eq!(asked(1_000, "10Gbit"), "initcwnd 10");
        assert_eq!(asked(1_000_000, "10Gbit"), "initcwnd 64");
        // 100 ms of 2 Mbit/s are 17 segments.
        assert_eq!(asked(30_000, "2Mbit"), "initcwnd 17");
    }
}
