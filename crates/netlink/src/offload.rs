//! Offloads: segmentation and coalescing that make one "packet" out of many (`ethtool`, over its
//! netlink family).
//!
//! With TSO, GSO or GRO a queue sees packets of up to 64 kB. That is fast, but a 100-packet buffer
//! is then not one, and a shaper's small packets wait behind giants. In a lab packets have to be
//! packets.

use crate::core::{AttrReader, DecodeError, Message, NetlinkError, Reply};
use crate::ethtool::message::{ask_about, bitset, command, names_in};
use crate::generic::{self, Family};
use crate::link::LinkName;
use std::collections::BTreeSet;

/// An interface's features by the kernel's names: "tx-tcp-segmentation", "rx-gro".
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Features {
    pub active: BTreeSet<String>,
    pub changeable: BTreeSet<String>,
    /// What is asked for. Off all the same is what needs something else that is off, as GSO needs scatter-gather ("requested on").
    pub wanted: BTreeSet<String>,
}

impl Features {
    /// The active features that join packets or take joined ones and that can be switched off. When
    /// this is empty, every packet in a queue is one packet on the wire.
    pub fn joining(&self) -> Vec<&str> {
        self.active
            .iter()
            .filter(|name| joins_packets(name) && self.changeable.contains(*name))
            .map(String::as_str)
            .collect()
    }
}

/// What to do with checksums when offloads are switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// Leave them: between virtual interfaces nobody calculates them, which saves time. A capture
    /// shows wrong ones.
    Leave,
    /// Have the kernel calculate each, as a plain network card's driver would.
    Calculate,
}

/// Reads and switches offloads of the interfaces of one namespace.
#[derive(Debug)]
pub struct Offloads {
    family: Family,
}

impl Offloads {
    /// Opens the conversation in the calling thread's namespace. Errors with `ENOENT` when the
    /// kernel is older than 5.6 or was built without `CONFIG_ETHTOOL_NETLINK`.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { family: Family::open("ethtool")? })
    }

    pub fn features(&mut self, name: &LinkName) -> Result<Features, NetlinkError> {
        let tried = format!("read the offloads of {name}");
        let mut message = self.family.message(tried, command::FEATURES_GET);
        ask_about(&mut message, Some(name.as_str()), 0);
        let replies = self.family.socket.request(&message)?;
        replies
            .first()
            .ok_or(DecodeError::Missing { what: "feature list" })
            .and_then(Features::parse)
            .map_err(|why| NetlinkError::answer(message.tried(), why))
    }

    /// Switches features on or off by name. The kernel may refuse single ones silently: read them
    /// back.
    pub fn set<'a>(
        &mut self,
        name: &LinkName,
        features: impl IntoIterator<Item = (&'a str, bool)>,
    ) -> Result<(), NetlinkError> {
        let tried = format!("switch offloads of {name}");
        let mut message = self.family.message(tried, command::FEATURES_SET);
        write_set(name, features, &mut message);
        self.family.socket.request_ack(&message)
    }

    /// Makes packets packets: switches off everything that joins them, reads back, and errors when
    /// something is still on.
    pub fn packets_are_packets(
        &mut self,
        name: &LinkName,
        checksums: Checksums,
    ) -> Result<(), NetlinkError> {
        let before = self.features(name)?;
        let mut off = before.joining();
        if checksums == Checksums::Calculate {
            let can_go = |feature: &&String| {
                feature.starts_with("tx-checksum") && before.changeable.contains(*feature)
            };
            off.extend(before.active.iter().filter(can_go).map(String::as_str));
        }
        if off.is_empty() {
            return Ok(());
        }
        self.set(name, off.into_iter().map(|feature| (feature, false)))?;
        let after = self.features(name)?;
        let left = after.joining();
        if left.is_empty() {
            return Ok(());
        }
        Err(NetlinkError::invalid(
            format!("switch off the offloads of {name}"),
            format!("still on: {}", left.join(", ")),
        ))
    }
}

fn joins_packets(feature: &str) -> bool {
    ["segmentation", "-gso", "-gro", "-lro"].iter().any(|part| feature.contains(part))
}

fn write_set<'a>(
    name: &LinkName,
    features: impl IntoIterator<Item = (&'a str, bool)>,
    message: &mut Message,
) {
    const OMIT_REPLY: u32 = 2;
    ask_about(message, Some(name.as_str()), OMIT_REPLY);
    message.attrs().nested(attr::WANTED, |bitset| {
        bitset.nested(bitset::BITS, |bits| {
            for (feature, on) in features {
                bits.nested(bitset::BIT, |bit| {
                    bit.str(bitset::NAME, feature);
                    if on {
                        bit.flag(bitset::VALUE);
                    }
                });
            }
        });
    });
}

/// `ETHTOOL_A_FEATURES_*`.
mod attr {
    pub const CHANGEABLE: u16 = 2;
    pub const WANTED: u16 = 3;
    pub const ACTIVE: u16 = 4;
    pub const FIXED: u16 = 5;
}

impl Features {
    pub(crate) fn parse(reply: &Reply) -> Result<Self, DecodeError> {
        let (_, attrs) = reply.split::<{ generic::HEADER }>()?;
        Self::of(&attrs)
    }

    pub(crate) fn of(attrs: &AttrReader<'_>) -> Result<Self, DecodeError> {
        let mut features = Self::default();
        let mut fixed = BTreeSet::new();
        for attr in attrs.clone() {
            let attr = attr?;
            match attr.kind {
                attr::CHANGEABLE => features.changeable = names_in(&attr)?,
                attr::WANTED => features.wanted = names_in(&attr)?,
                attr::ACTIVE => features.active = names_in(&attr)?,
                attr::FIXED => fixed = names_in(&attr)?,
                _ => {}
            }
        }
        features.changeable.retain(|name| !fixed.contains(name));
        Ok(features)
    }
}
