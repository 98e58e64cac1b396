//! A configuration as one line, which is the filter's name in the kernel: whoever lists filters sees by it whose program that is and what
//! it was told, and it can be loaded again.
//!
//! ```text
//!   quell2 dst=128 idle=60s at=2:1 by=1,1,0 rest=2:81
//! ```
//!
//! What is as usual is left out. Words are short, so that the longest line still fits ([`NAME_MOST`]). The number behind the first word is
//! that of the program's tables: another one is another program, of another version of Quell ([`is_of_another_version`]).

use std::fmt;
use std::str::FromStr;

use super::config::{Config, HostKey, Hosts, Layout, Parts, TierBy, Tiers, VXLAN_PORT};
use super::keys::Keys;
use crate::Handle;

/// Begins the name of a classifier, of whatever version.
const FAMILY: &str = "quell";

/// Begins the name of one that is ours.
const OURS: &str = "quell2";

/// Bytes of a name that the kernel takes, the 0 at its end among them (`CLS_BPF_NAME_LEN`, net/sched/cls_bpf.c).
pub const NAME_MOST: usize = 256;

/// As the line has them where nothing else is said.
fn usual() -> Parts {
    Parts {
        keys: Keys::NONE,
        flows: 1,
        hosts: None,
        tiers: Tiers::default(),
        layout: Layout::Cake,
        other: None,
        seed: 0,
        vxlan_port: VXLAN_PORT,
        tunnels_only: false,
    }
}

/// Whether a filter's name is one that another version of Quell gave its classifier: this one can neither read nor load that program.
pub fn is_of_another_version(name: &str) -> bool {
    let first = name.split(' ').next().unwrap_or_default();
    let number = first.strip_prefix(FAMILY).unwrap_or_default();
    first != OURS && !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, usual) = (self.parts(), usual());
        f.write_str(OURS)?;
        if parts.keys != usual.keys {
            write!(f, " keys={:x}", parts.keys.bits())?;
        }
        if parts.flows != usual.flows {
            write!(f, " flows={}", parts.flows)?;
        }
        if let Some(hosts) = &parts.hosts {
            let Hosts { by, classes, idle, v4_prefix, v6_prefix, neighbours, translated } = hosts;
            write!(f, " {}={classes} idle={idle}", by.name())?;
            if (*v4_prefix, *v6_prefix) != (32, 128) {
                write!(f, " bits={v4_prefix},{v6_prefix}")?;
            }
            if *neighbours {
                f.write_str(" macs")?;
            }
            if *translated {
                f.write_str(" nat")?;
            }
        }
        let Tiers { of, by, cake_tins } = &parts.tiers;
        if *of != usual.tiers.of {
            f.write_str(" tiers=")?;
            of.iter().try_for_each(|tier| write!(f, "{tier:x}"))?;
        }
        if *by == TierBy::Tunnel {
            f.write_str(" inside")?;
        }
        if let Some(handle) = cake_tins {
            write!(f, " tins={handle:x}")?;
        }
        if let Layout::Classes { major, base, host_step, tier_step, flow_step } = parts.layout {
            write!(f, " at={major:x}:{base:x} by={host_step:x},{tier_step:x},{flow_step:x}")?;
        }
        if let Some(other) = parts.other {
            write!(f, " rest={other}")?;
        }
        if parts.seed != usual.seed {
            write!(f, " seed={:x}", parts.seed)?;
        }
        if parts.vxlan_port != usual.vxlan_port {
            write!(f, " vx={}", parts.vxlan_port)?;
        }
        if parts.tunnels_only {
            f.write_str(" tunnels-only")?;
        }
        Ok(())
    }
}

/// The name is none that this version of Quell gives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no configuration of Quell's classifier")]
pub struct NotOurs;

impl FromStr for Config {
    type Err = NotOurs;

    fn from_str(text: &str) -> Result<Self, NotOurs> {
        read(text).ok_or(NotOurs)
    }
}

fn read(text: &str) -> Option<Config> {
    let mut words = text.split(' ');
    if words.next() != Some(OURS) {
        return None;
    }
    let mut parts = usual();
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "keys" => parts.keys = Keys::from_bits(hex(value)?),
            "flows" => parts.flows = value.parse().ok()?,
            "idle" => parts.hosts.as_mut()?.idle = value.parse().ok()?,
            "bits" => {
                let (v4, v6) = value.split_once(',')?;
                let hosts = parts.hosts.as_mut()?;
                (hosts.v4_prefix, hosts.v6_prefix) = (v4.parse().ok()?, v6.parse().ok()?);
            }
            "macs" => parts.hosts.as_mut()?.neighbours = true,
            "nat" => parts.hosts.as_mut()?.translated = true,
            "tunnels-only" => parts.tunnels_only = true,
            "tiers" => {
                let digits: Vec<u8> = value
                    .chars()
                    .map(|c| c.to_digit(16).map(|digit| digit as u8))
                    .collect::<Option<_>>()?;
                parts.tiers.of = digits.try_into().ok()?;
            }
            "inside" => parts.tiers.by = TierBy::Tunnel,
            "tins" => parts.tiers.cake_tins = Some(hex(value)?.try_into().ok()?),
            "at" => {
                let Handle { major, minor: base } = value.parse().ok()?;
                let (host_step, tier_step, flow_step) = (0, 0, 0);
                parts.layout = Layout::Classes { major, base, host_step, tier_step, flow_step };
            }
            "by" => {
                let numbers: Vec<u16> = value
                    .split(',')
                    .map(|number| hex(number)?.try_into().ok())
                    .collect::<Option<_>>()?;
                let [host_step, tier_step, flow_step] = numbers.try_into().ok()?;
                let Layout::Classes { major, base, .. } = parts.layout else { return None };
                parts.layout = Layout::Classes { major, base, host_step, tier_step, flow_step };
            }
            "rest" => parts.other = Some(value.parse().ok()?),
            "seed" => parts.seed = u64::from_str_radix(value, 16).ok()?,
            "vx" => parts.vxlan_port = value.parse().ok()?,
            by => {
                let by = HostKey::ALL.into_iter().find(|key| key.name() == by)?;
                parts.hosts = Some(Hosts::new(by, value.parse().ok()?));
            }
        }
    }
    Config::new(parts).ok()
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}
