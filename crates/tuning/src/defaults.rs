//! What the kernel would set by itself.
//!
//! Of most settings a fresh network namespace tells, since its initialisation gives them their defaults. Some it has from the first
//! namespace: `tcp_rmem`, `tcp_wmem`, the congestion control (`tcp_sk_init`, `tcp_set_default_congestion_control`), and with
//! `net.core.devconf_inherit_init_net` all below `conf/`. Those, and what only the first namespace has, come from a table.

use crate::facts::{HostFacts, Release};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelDefault {
    pub value: String,
    pub from: &'static str,
}

/// Settings that a fresh network namespace begins with at the kernel's default (`tcp_sk_init`, net/ipv4/tcp_ipv4.c).
pub const FRESH: [&str; 10] = [
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/tcp_no_metrics_save",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_notsent_lowat",
    "net/ipv4/tcp_window_scaling",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/tcp_moderate_rcvbuf",
    "net/ipv4/tcp_adv_win_scale",
    "net/ipv4/tcp_ecn",
];

/// From here on the receive buffer may grow to 32 MiB ("tcp: increase tcp_rmem[2] to 32 MB").
const RMEM_32_MIB: Release = Release::new(6, 16);
/// From here on its first size is 128 KiB ("tcp: up initial rmem to 128KB and SYN rwin to around 64KB").
const RMEM_128_KIB: Release = Release::new(4, 20);
/// From here on programs may ask for 4 MiB ("net: set net.core.rmem_max and net.core.wmem_max to 4 MB").
const MAX_4_MIB: Release = Release::new(6, 18);
/// `SK_RMEM_MAX` with pages of 4 KiB: 256 packets of 256 bytes with their overhead.
const SK_MEM_MAX: u64 = 212_992;
const MIB: u64 = 1 << 20;

/// The kernel's default of a setting; none where it is not known.
pub fn default_of(key: &str, host: &HostFacts) -> Option<KernelDefault> {
    if let Some(value) = host.fresh.get(key).filter(|_| FRESH.contains(&key)) {
        return Some(KernelDefault { value: value.clone(), from: "a fresh network namespace" });
    }
    let release = host.release;
    // Bytes, 1/128 of the pages (tcp_init).
    let limit = host.buffer_pages.map(|pages| pages.saturating_mul(host.page) / 128);
    let (value, from) = match key {
        "net/ipv4/tcp_rmem" => {
            let first = if release >= RMEM_128_KIB { 131_072 } else { 87_380 };
            let most = if release >= RMEM_32_MIB { 32 * MIB } else { 6 * MIB };
            let most = limit?.min(most).max(first);
            (format!("{} {first} {most}", host.page), "net/ipv4/tcp.c, tcp_init")
        }
        "net/ipv4/tcp_wmem" => {
            let most = limit?.clamp(65_536, 4 * MIB);
            (format!("{} 16384 {most}", host.page), "net/ipv4/tcp.c, tcp_init")
        }
        "net/ipv4/tcp_mem" => {
            let limit = (host.buffer_pages? / 16).max(128);
            let least = limit / 4 * 3;
            (format!("{least} {limit} {}", least * 2), "net/ipv4/tcp.c, tcp_init_mem")
        }
        "net/core/rmem_max" | "net/core/wmem_max" => {
            let most = if release >= MAX_4_MIB { 4 * MIB } else { SK_MEM_MAX };
            (most.to_string(), "net/core/sock.c")
        }
        "net/core/netdev_max_backlog" => ("1000".into(), "net/core/hotdata.c (dev.c before 6.9)"),
        "net/core/default_qdisc" => ("pfifo_fast".into(), "net/sched/sch_generic.c"),
        "net/ipv4/tcp_congestion_control" => ("cubic".into(), "net/ipv4/Kconfig"),
        "net/ipv4/tcp_notsent_lowat" => (u32::MAX.to_string(), "net/ipv4/tcp_ipv4.c, tcp_sk_init"),
        "net/ipv4/tcp_mtu_probing" | "net/ipv4/tcp_no_metrics_save" => {
            ("0".into(), "net/ipv4/tcp_ipv4.c, tcp_sk_init")
        }
        "net/ipv4/tcp_ecn" => ("2".into(), "net/ipv4/tcp_ipv4.c, tcp_sk_init"),
        key if FRESH.contains(&key) => ("1".into(), "net/ipv4/tcp_ipv4.c, tcp_sk_init"),
        _ => return None,
    };
    Some(KernelDefault { value, from })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::host;

    fn value(key: &str, host: &HostFacts) -> String {
        default_of(key, host).expect("it is known").value
    }

    #[test]
    fn the_table_says_what_kernels_said_of_themselves() {
        // 6.18 with 24 GB, as booted; tcp_mem there is 287895 383862 575790: the zones' watermarks grew after boot, by 0.6 %.
        let big = host(Release::new(6, 18), 6_103_350);
        assert_eq!(value("net/ipv4/tcp_rmem", &big), "4096 131072 33554432");
        assert_eq!(value("net/ipv4/tcp_wmem", &big), "4096 16384 4194304");
        assert_eq!(value("net/core/rmem_max", &big), "4194304");
        let pressure: Vec<f64> = value("net/ipv4/tcp_mem", &big)
            .split(' ')
            .map(|n| n.parse().expect("a number"))
            .collect();
        for (found, told) in pressure.iter().zip([287_895.0, 383_862.0, 575_790.0]) {
            assert!((found / told - 1.0f64).abs() < 0.01, "{found} {told}");
        }
        // The lab's 6.1 with 1 GiB.
        let lab = host(Release::new(6, 1), 250_000);
        assert_eq!(value("net/ipv4/tcp_rmem", &lab), "4096 131072 6291456");
        assert_eq!(value("net/core/wmem_max", &lab), "212992");
        // 128 MiB: a 128th of it is less than 6 MiB.
        let small = host(Release::new(6, 1), 30_000);
        assert_eq!(value("net/ipv4/tcp_rmem", &small), "4096 131072 960000");
        assert_eq!(value("net/ipv4/tcp_wmem", &small), "4096 16384 960000");
    }

    #[test]
    fn what_a_fresh_namespace_copies_from_the_first_is_not_taken_from_there() {
        let mut host = host(Release::new(6, 1), 250_000);
        host.fresh.insert("net/ipv4/tcp_rmem".into(), "1 2 3".into());
        host.fresh.insert("net/ipv4/tcp_sack".into(), "0".into());
        assert_eq!(value("net/ipv4/tcp_rmem", &host), "4096 131072 6291456");
        let sack = default_of("net/ipv4/tcp_sack", &host).expect("known");
        assert_eq!((sack.value.as_str(), sack.from), ("0", "a fresh network namespace"));
    }
}
