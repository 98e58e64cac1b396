//! Offloads: segmentation and coalescing that make one "packet" out of many (`ethtool`, over its
//! netlink family).
//!
//! With TSO, GSO or GRO a queue sees packets of up to 64 kB. That is fast, but a 100-packet buffer
//! is then not one, and a shaper's small packets wait behind giants. In a lab packets have to be
//! packets.

use crate::core::{Attr, AttrReader, DecodeError, Message, NetlinkError, Reply};
use crate::generic::{self, Family};
use crate::link::LinkName;
use std::collections::BTreeSet;

const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;

/// `ETHTOOL_A_FEATURES_*`, `ETHTOOL_A_HEADER_*`, `ETHTOOL_A_BITSET_*`.
const ATTR_HEADER: u16 = 1;
const ATTR_CHANGEABLE: u16 = 2;
const ATTR_WANTED: u16 = 3;
const ATTR_ACTIVE: u16 = 4;
const ATTR_FIXED: u16 = 5;
const HEADER_NAME: u16 = 2;
const HEADER_FLAGS: u16 = 3;
const OMIT_REPLY: u32 = 2;
const BITSET_BITS: u16 = 3;
const BITS_BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// An interface's features by the kernel's names: "tx-tcp-segmentation", "rx-gro".
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Features {
    /// What is on now.
    pub active: BTreeSet<String>,
    /// What can be switched.
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

    /// An interface's features.
    pub fn features(&mut self, name: &LinkName) -> Result<Features, NetlinkError> {
        let tried = format!("read the offloads of {name}");
        let mut message = self.family.message(tried, FEATURES_GET);
        message.attrs().nested(ATTR_HEADER, |header| {
            header.str(HEADER_NAME, name.as_str());
        });
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
        let mut message = self.family.message(tried, FEATURES_SET);
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
    message
        .attrs()
        .nested(ATTR_HEADER, |header| {
            header.str(HEADER_NAME, name.as_str()).u32(HEADER_FLAGS, OMIT_REPLY);
        })
        .nested(ATTR_WANTED, |bitset| {
            bitset.nested(BITSET_BITS, |bits| {
                for (feature, on) in features {
                    bits.nested(BITS_BIT, |bit| {
                        bit.str(BIT_NAME, feature);
                        if on {
                            bit.flag(BIT_VALUE);
                        }
                    });
                }
            });
        });
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
                ATTR_CHANGEABLE => features.changeable = names_in(&attr)?,
                ATTR_WANTED => features.wanted = names_in(&attr)?,
                ATTR_ACTIVE => features.active = names_in(&attr)?,
                ATTR_FIXED => fixed = names_in(&attr)?,
                _ => {}
            }
        }
        features.changeable.retain(|name| !fixed.contains(name));
        Ok(features)
    }
}

/// The names of a bitset's set bits. With a mask, a bit is set when it has a value; without one,
/// when it is listed.
pub(crate) fn names_in(bitset: &Attr<'_>) -> Result<BTreeSet<String>, DecodeError> {
    const NO_MASK: u16 = 1;
    let all_listed = bitset.nested().find(NO_MASK)?.is_some();
    let mut names = BTreeSet::new();
    let bits = bitset.nested().find(BITSET_BITS)?;
    for bit in bits.map_or(AttrReader::new(&[]), |bits| bits.nested()) {
        let bit = bit?.nested();
        let set = all_listed || bit.find(BIT_VALUE)?.is_some();
        if let (true, Some(name)) = (set, bit.find(BIT_NAME)?) {
            names.insert(name.str()?.to_owned());
        }
    }
    Ok(names)
}
