//! What is asked for, and what is known of the host.

use quell_units::{Rate, Span};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Moves much data over long paths.
    Transfer,
    /// Measures throughput: one test must not know of the one before.
    Measure,
    /// Forwards packets of others.
    Router,
    Latency,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Transfer, Role::Measure, Role::Router, Role::Latency];

    pub fn name(self) -> &'static str {
        match self {
            Role::Transfer => "transfer",
            Role::Measure => "measure",
            Role::Router => "router",
            Role::Latency => "latency",
        }
    }

    pub fn needs_path(self) -> bool {
        matches!(self, Role::Transfer | Role::Measure)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Role::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| {
            let names = Role::ALL.map(Role::name);
            let hint = quell_units::nearest::hint(text, &names);
            format!("`{text}` is no role{hint}")
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wish {
    pub role: Role,
    /// The narrowest rate on the path.
    pub rate: Option<Rate>,
    /// The longest round-trip time that is to be filled.
    pub rtt: Option<Span>,
    /// Transfers at the same time, which share the memory.
    pub streams: u32,
    /// Bytes of the largest packet on the path.
    pub mtu: u32,
    /// Bytes of a reply that is to arrive in one round trip.
    pub reply: Option<u64>,
}

impl Wish {
    /// In words: `transfer, 10Gbit, 100ms`.
    pub fn words(&self) -> String {
        let mut words = vec![self.role.to_string()];
        words.extend(self.rate.map(|rate| rate.to_string()));
        words.extend(self.rtt.map(|rtt| rtt.to_string()));
        if self.streams > 1 {
            words.push(format!("{} streams", self.streams));
        }
        if self.mtu != 1500 {
            words.push(format!("MTU {}", self.mtu));
        }
        words.join(", ")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// 6 of 6.18.44.
    pub major: u32,
    /// 18 of 6.18.44.
    pub minor: u32,
}

impl Release {
    pub const fn new(major: u32, minor: u32) -> Self {
        Release { major, minor }
    }
}

impl FromStr for Release {
    type Err = String;

    /// Of what `uname -r` says, as `6.1.0-28-amd64`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Release { major, minor }),
            _ => Err(format!("`{text}` is no kernel's version")),
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct HostFacts {
    pub release: Release,
    pub page: u64,
    pub memory: u64,
    /// Pages from which the kernel reckons its defaults (`nr_free_buffer_pages`); none where /proc/zoneinfo is not to be read.
    pub buffer_pages: Option<u64>,
    /// Settings now, of [`KEYS`]; those that the kernel lacks, or that belong to another namespace, are missing.
    pub now: BTreeMap<String, String>,
    /// Settings in a fresh network namespace; empty where none could be made.
    pub fresh: BTreeMap<String, String>,
    /// Settings that can't be written here, and why.
    pub sealed: BTreeMap<String, String>,
    /// Whether the kernel has the queues fq and fq_codel; none where that could not be tried.
    pub has_fq: Option<bool>,
    pub has_fq_codel: Option<bool>,
}

impl HostFacts {
    pub fn value(&self, key: &str) -> Option<&str> {
        self.now.get(key).map(String::as_str)
    }
}

pub const KEYS: [&str; 21] = [
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_mem",
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/default_qdisc",
    "net/core/netdev_max_backlog",
    "net/core/netdev_budget_usecs",
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/tcp_no_metrics_save",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_notsent_lowat",
    "net/ipv4/tcp_window_scaling",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/tcp_moderate_rcvbuf",
    "net/ipv4/tcp_adv_win_scale",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_available_congestion_control",
    "net/ipv4/tcp_ecn",
    "net/ipv4/tcp_low_latency",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_distributions_write_them() {
        for (text, wanted) in [
            ("6.18.44-fc-v595", (6, 18)),
            ("6.1.0-28-amd64", (6, 1)),
            ("5.14.0-503.el9.x86_64", (5, 14)),
            ("6.6-rc3", (6, 6)),
        ] {
            assert_eq!(text.parse(), Ok(Release::new(wanted.0, wanted.1)), "{text}");
        }
        assert!("linux".parse::<Release>().is_err());
        assert!(
            Release::new(6, 6) < Release::new(6, 16) && Release::new(5, 19) < Release::new(6, 0)
        );
    }
}
