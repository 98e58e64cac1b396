//! The configuration as it lies in the program's map: `struct config` of `bpf/config.h`.

use crate::{Config, HostKey, Layout, TierBy};

/// `FLAG_HOST_IS_MAJOR`.
pub(crate) const HOST_IS_MAJOR: u32 = 1;
/// `FLAG_NEIGHBOURS`.
pub(crate) const NEIGHBOURS: u32 = 2;
/// `FLAG_TIER_TUNNEL`.
pub(crate) const TIER_TUNNEL: u32 = 4;
/// `FLAG_TRANSLATED`.
pub(crate) const TRANSLATED: u32 = 8;
/// `FLAG_TUNNELS_ONLY`.
pub(crate) const TUNNELS_ONLY: u32 = 16;

/// `struct config`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawConfig {
    pub seed: u64,
    pub idle_ns: u64,
    pub v6_mask: [u64; 2],
    pub v4_mask: u32,
    pub keys: u32,
    pub flags: u32,
    pub host: u32,
    pub hosts: u32,
    pub flows: u32,
    pub major: u32,
    pub base: u32,
    pub host_step: u32,
    pub tier_step: u32,
    pub flow_step: u32,
    pub other: u32,
    pub tin_major: u32,
    pub vxlan_port: u16,
    pub reserved: u16,
    pub tiers: [u8; 64],
}

// SAFETY: plain numbers without padding: 4 × 8, 13 × 4, 2 × 2 and 64 bytes are a multiple of 8.
unsafe impl aya::Pod for RawConfig {}
const _: () = assert!(size_of::<RawConfig>() == 32 + 52 + 4 + 64);

impl From<&Config> for RawConfig {
    fn from(config: &Config) -> Self {
        let parts = config.parts();
        let (flags, [major, base, host_step, tier_step, flow_step]) = match parts.layout {
            Layout::Cake => (HOST_IS_MAJOR, [0, 1, 0, 0, 1]),
            Layout::Classes { major, base, host_step, tier_step, flow_step } => {
                (0, [major, base, host_step, tier_step, flow_step].map(u32::from))
            }
        };
        let mut raw = RawConfig {
            seed: parts.seed,
            idle_ns: 0,
            v6_mask: [0; 2],
            v4_mask: 0,
            keys: parts.keys.bits(),
            flags,
            host: 0,
            hosts: 1,
            flows: parts.flows.into(),
            major,
            base,
            host_step,
            tier_step,
            flow_step,
            other: parts.other.map_or(0, |other| other.to_u32()),
            tin_major: parts.tiers.cake_tins.unwrap_or(0).into(),
            vxlan_port: parts.vxlan_port,
            reserved: 0,
            tiers: parts.tiers.of,
        };
        if parts.tiers.by == TierBy::Tunnel {
            raw.flags |= TIER_TUNNEL;
        }
        if parts.tunnels_only {
            raw.flags |= TUNNELS_ONLY;
        }
        if let Some(hosts) = &parts.hosts {
            raw.host = match hosts.by {
                HostKey::Src => 1,
                HostKey::Dst => 2,
                HostKey::TunnelSrc => 3,
                HostKey::TunnelDst => 4,
                HostKey::Mark => 5,
                HostKey::Vlan => 6,
            };
            raw.hosts = hosts.classes.into();
            raw.idle_ns = hosts.idle.nanos();
            raw.v4_mask = u32::MAX.checked_shl(32 - u32::from(hosts.v4_prefix)).unwrap_or(0);
            let v6 = u128::MAX.checked_shl(128 - u32::from(hosts.v6_prefix)).unwrap_or(0);
            raw.v6_mask = [(v6 >> 64) as u64, v6 as u64];
            if hosts.neighbours {
                raw.flags |= NEIGHBOURS;
            }
            if hosts.translated {
                raw.flags |= TRANSLATED;
            }
        }
        raw
    }
}

impl RawConfig {
    /// Whether hosts are told and counted as before, so that each may keep its class.
    pub(crate) fn has_hosts_of(&self, other: &RawConfig) -> bool {
        let flags = NEIGHBOURS | TRANSLATED;
        let hosts =
            |c: &RawConfig| (c.seed, c.v6_mask, c.v4_mask, c.host, c.hosts, c.flags & flags);
        hosts(self) == hosts(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hosts, Key, Keys, Parts};
    use quell_tc::Handle;

    fn hosts(classes: u16) -> Parts {
        Parts::hosts(1, 0x10, Hosts::new(HostKey::Src, classes), 4, Handle::class(1, 2))
    }

    #[test]
    fn prefixes_become_masks() {
        let of = |v4_prefix, v6_prefix| {
            let hosts = Hosts { v4_prefix, v6_prefix, ..Hosts::new(HostKey::Src, 4) };
            let raw = RawConfig::from(
                &Config::new(Parts { hosts: Some(hosts), ..self::hosts(4) }).unwrap(),
            );
            (raw.v4_mask, raw.v6_mask)
        };
        assert_eq!(of(32, 128), (u32::MAX, [u64::MAX, u64::MAX]));
        assert_eq!(of(24, 64), (0xffff_ff00, [u64::MAX, 0]));
        assert_eq!(of(0, 0), (0, [0, 0]));
        assert_eq!(of(1, 65), (1 << 31, [u64::MAX, 1 << 63]));
    }

    #[test]
    fn other_keys_leave_hosts_where_they_are_and_another_prefix_does_not() {
        let raw = |parts| RawConfig::from(&Config::new(parts).unwrap());
        let before = raw(hosts(8));
        assert!(raw(Parts { keys: Keys::NONE.with(Key::Mark), ..hosts(8) }).has_hosts_of(&before));
        let by_network = Hosts { v6_prefix: 64, ..Hosts::new(HostKey::Src, 8) };
        assert!(!raw(Parts { hosts: Some(by_network), ..hosts(8) }).has_hosts_of(&before));
    }
}
