//! Which class a host has. The same in C is `../../src/bpf/hosts.h`, where it is described.

use super::hash::{host_hash, scale};
use super::parse::{Address, Packet, Parsed};
use super::whose::{Owners, Whose};
use quell_classify::{HostKey, Hosts};
use std::collections::HashMap;

/// Who holds a class.
#[derive(Debug, Clone, Copy)]
struct Holder {
    host: Address,
    last: u64,
}

#[derive(Debug, Clone)]
pub(super) struct HostTable {
    holders: Vec<Option<Holder>>,
    places: HashMap<Address, usize>,
    none_before: u64,
    pub(super) sharing: u64,
}

impl HostTable {
    pub(super) fn new(classes: u32) -> Self {
        let holders = vec![None; classes as usize];
        HostTable { holders, places: HashMap::new(), none_before: 0, sharing: 0 }
    }

    pub(super) fn held(&self) -> usize {
        self.places.len()
    }

    /// The host's class, from 0.
    pub(super) fn class_of(&mut self, seed: u64, hosts: &Hosts, host: Address, now: u64) -> u32 {
        if let Some(&at) = self.places.get(&host) {
            self.holders[at] = Some(Holder { host, last: now });
            return at as u32;
        }
        let wanted = scale(host_hash(seed, host), hosts.classes.into());
        if now >= self.none_before {
            let count = self.holders.len();
            let order = (0..count).map(|i| (wanted as usize + i) % count);
            let mut oldest = now;
            for at in order {
                match self.holders[at] {
                    Some(holder) if now - holder.last < hosts.idle.nanos() => {
                        oldest = oldest.min(holder.last)
                    }
                    before => {
                        if let Some(before) = before {
                            self.places.remove(&before.host);
                        }
                        self.holders[at] = Some(Holder { host, last: now });
                        self.places.insert(host, at);
                        return at as u32;
                    }
                }
            }
            self.none_before = oldest + hosts.idle.nanos();
        }
        self.sharing += 1;
        wanted
    }
}

/// Who sends or gets a packet.
pub(super) fn host_of(
    hosts: &Hosts,
    owners: &mut Owners,
    packet: &Packet<'_>,
    parsed: &Parsed,
    now: u64,
) -> Address {
    let mut address = match hosts.by {
        HostKey::Src => parsed.outer.src,
        HostKey::Dst => parsed.outer.dst,
        HostKey::TunnelSrc => parsed.inner.src,
        HostKey::TunnelDst => parsed.inner.dst,
        HostKey::Mark => return Address { high: u64::MAX - 2, low: packet.mark.into() },
        HostKey::Vlan => return Address { high: u64::MAX - 1, low: parsed.vlan.into() },
    };
    let is_v4 = address.high == 0 && address.low >> 32 == 0xffff;
    if hosts.translated && is_v4 && packet.mark != 0 {
        address.low = 0xffff_0000_0000 | u64::from(u32::from_be(packet.mark));
    }
    if hosts.neighbours {
        let gets = matches!(hosts.by, HostKey::Dst | HostKey::TunnelDst);
        match owners.of(address, gets, now) {
            Whose::Machine(number) => return Address { high: u64::MAX, low: number },
            Whose::Stranger => return Address { high: u64::MAX, low: u64::MAX },
            Whose::ByAddress => {}
        }
    }
    if is_v4 {
        let mask = u32::MAX.checked_shl(32 - u32::from(hosts.v4_prefix)).unwrap_or(0);
        Address { high: 0, low: address.low & (0xffff_0000_0000 | u64::from(mask)) }
    } else {
        let mask = u128::MAX.checked_shl(128 - u32::from(hosts.v6_prefix)).unwrap_or(0);
        ((u128::from(address.high) << 64 | u128::from(address.low)) & mask).into()
    }
}
