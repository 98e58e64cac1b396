//! What drivers tell of their hardware: link modes, rings, queues, coalescing, pause, error correction, offloads
//! (`Documentation/networking/ethtool-netlink.rst`), and their own counters (`ethtool -S`, an ioctl to this day).
//!
//! ```text
//!   Ethtool::all ── one dump a topic ──► each device that answers        (a topic that no driver has is empty)
//!   counters(device) ── ETHTOOL_GSTATS ──► "rx_missed_errors" = 17 …
//! ```

mod counters;
pub(crate) mod message;

pub use counters::{CountersError, counters};

use crate::core::{AttrReader, DecodeError, NetlinkError};
use crate::generic::{self, Family};
use crate::offload::Features;
use message::{all_names_in, ask_about, command, header, names_in};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What is told of one device; what its driver does not tell is none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hardware {
    /// Speed and duplex, and those that it could have.
    pub modes: Option<LinkModes>,
    /// Receive and transmit rings: packets now, and at most.
    pub rings: Option<Rings>,
    /// Queues now, and at most.
    pub channels: Option<Channels>,
    /// How interrupts are held back.
    pub coalescing: Option<Coalescing>,
    pub pause: Option<Pause>,
    /// Blocks that error correction could not mend (`ETHTOOL_A_FEC_STAT_UNCORR`).
    pub uncorrectable: Option<u64>,
    pub features: Option<Features>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkModes {
    /// Mbit/s; none where there is no link.
    pub speed: Option<u32>,
    /// 0 half, 1 full.
    pub duplex: Option<u8>,
    /// Whether both ends agree on it by themselves.
    pub autonegotiation: Option<bool>,
    /// What it can, as "1000baseT/Full".
    pub supported: BTreeSet<String>,
    pub advertised: BTreeSet<String>,
    /// What the other end offers.
    pub peer: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rings {
    pub rx: Option<u32>,
    pub rx_max: Option<u32>,
    pub tx: Option<u32>,
    pub tx_max: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Channels {
    /// Receive queues, combined ones included.
    pub rx: u32,
    pub rx_max: u32,
}

/// How interrupts are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coalescing {
    /// Whether the driver finds the time by itself.
    pub adaptive_rx: Option<bool>,
    /// Microseconds from a packet to its interrupt.
    pub rx_usecs: Option<u32>,
}

/// Flow control (IEEE 802.3 annex 31B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pause {
    /// Whether we stop when told to.
    pub rx: Option<bool>,
    /// Whether we tell others to.
    pub tx: Option<bool>,
    /// How often we were told to.
    pub rx_frames: Option<u64>,
    /// How often we told others to.
    pub tx_frames: Option<u64>,
}

/// What is asked: `ETHTOOL_MSG_*_GET`, and how its answer is read.
type Topic = (&'static str, u8, fn(&AttrReader<'_>, &mut Hardware) -> Result<(), DecodeError>);

const TOPICS: [Topic; 7] = [
    ("link modes", command::LINKMODES_GET, modes),
    ("offloads", command::FEATURES_GET, features),
    ("rings", command::RINGS_GET, rings),
    ("channels", command::CHANNELS_GET, channels),
    ("coalescing", command::COALESCE_GET, coalescing),
    ("pause", command::PAUSE_GET, pause),
    ("error correction", command::FEC_GET, fec),
];

/// The topics that count: pause and error correction.
const COUNTING: [u8; 2] = [command::PAUSE_GET, command::FEC_GET];

/// A conversation about the devices of one namespace.
#[derive(Debug)]
pub struct Ethtool {
    family: Family,
}

impl Ethtool {
    /// Opens the conversation in the calling thread's namespace. Errors with `ENOENT` when the kernel is older than 5.6 or was built
    /// without `CONFIG_ETHTOOL_NETLINK`.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { family: Family::open("ethtool")? })
    }

    /// What the link of one device does, in Mbit/s; none where its driver knows none, or there is no such device.
    pub fn speed(&mut self, device: &str) -> Option<u32> {
        let (name, command, _) = TOPICS[0];
        let mut message = self.family.message(format!("read the {name} of {device}"), command);
        ask_about(&mut message, Some(device), 0);
        let mut hardware = Hardware::default();
        for reply in self.family.socket.request(&message).ok()? {
            let (_, attrs) = reply.split::<{ generic::HEADER }>().ok()?;
            modes(&attrs, &mut hardware).ok()?;
        }
        hardware.modes?.speed
    }

    /// All that the drivers of all devices tell, by device, and the topics that the kernel refused, each with its reason.
    pub fn all(&mut self) -> (BTreeMap<String, Hardware>, Vec<NetlinkError>) {
        let mut found: BTreeMap<String, Hardware> = BTreeMap::new();
        let mut refused = Vec::new();
        for (name, command, read) in TOPICS {
            let mut message =
                self.family.message(format!("read the {name} of all devices"), command);
            const WITH_COUNTERS: u32 = 4;
            // A topic without counters refuses to be asked for them.
            let flags = if COUNTING.contains(&command) { WITH_COUNTERS } else { 0 };
            ask_about(&mut message, None, flags);
            let dumped = self.family.socket.dump(&message, |reply| {
                let (_, attrs) = reply.split::<{ generic::HEADER }>()?;
                if let Some(device) = device_of(&attrs)? {
                    read(&attrs, found.entry(device).or_default())?;
                }
                Ok(())
            });
            refused.extend(dumped.err());
        }
        (found, refused)
    }
}

fn device_of(attrs: &AttrReader<'_>) -> Result<Option<String>, DecodeError> {
    let Some(about) = attrs.find(header::ITSELF)? else { return Ok(None) };
    about.nested().find(header::NAME)?.map(|name| name.str().map(str::to_owned)).transpose()
}

fn number(attrs: &AttrReader<'_>, kind: u16) -> Result<Option<u32>, DecodeError> {
    attrs.find(kind)?.map(|attr| attr.u32()).transpose()
}

fn flag(attrs: &AttrReader<'_>, kind: u16) -> Result<Option<bool>, DecodeError> {
    attrs.find(kind)?.map(|attr| attr.u8().map(|value| value != 0)).transpose()
}

fn modes(attrs: &AttrReader<'_>, hardware: &mut Hardware) -> Result<(), DecodeError> {
    let mut found = LinkModes {
        autonegotiation: flag(attrs, 2)?,
        speed: number(attrs, 5)?.filter(|speed| ![0, u32::MAX].contains(speed)),
        duplex: attrs.find(6)?.map(|attr| attr.u8()).transpose()?.filter(|duplex| *duplex <= 1),
        ..LinkModes::default()
    };
    if let Some(ours) = attrs.find(3)? {
        found.advertised = names_in(&ours)?;
        found.supported = all_names_in(&ours)?;
    }
    if let Some(peer) = attrs.find(4)? {
        found.peer = names_in(&peer)?;
    }
    hardware.modes = Some(found);
    Ok(())
}

fn features(attrs: &AttrReader<'_>, hardware: &mut Hardware) -> Result<(), DecodeError> {
    hardware.features = Some(Features::of(attrs)?);
    Ok(())
}

fn rings(attrs: &AttrReader<'_>, hardware: &mut Hardware) -> Result<(), DecodeError> {
    hardware.rings = Some(Rings {
        rx_max: number(attrs, 2)?,
        tx_max: number(attrs, 5)?,
        rx: number(attrs, 6)?,
        tx: number(attrs, 9)?,
    });
    Ok(())
}

fn channels(attrs: &AttrReader<'_>, hardware: &mut Hardware) -> Result<(), DecodeError> {
    let count = |kind| number(attrs, kind).map(Option::unwrap_or_default);
    hardware.channels = Some(Channels {
        rx: count(6)?.saturating_add(count(9)?),
        rx_max: count(2)?.saturating_add(count(5)?),
    });
    Ok(())
}

fn coalescing(attrs: &AttrReader<'_>, hardware: &mut Hardware) -> Result<(), DecodeError> {
    hardware.coalescing =
        Some(Coalescing { adaptive_rx: flag(attrs, 11)?, rx_usecs: number(attrs, 2)? });
    Ok(())
}

fn pause(attrs: &AttrReader<'_>, hardware: &mut Hardware) -> Result<(), DecodeError> {
    let counted = |kind| -> Result<Option<u64>, DecodeError> {
        let Some(counters) = attrs.find(5)? else { return Ok(None) };
        counters.nested().find(kind)?.map(|attr| attr.u64()).transpose()
    };
    hardware.pause = Some(Pause {
        rx: flag(attrs, 3)?,
        tx: flag(attrs, 4)?,
        tx_frames: counted(2)?,
        rx_frames: counted(3)?,
    });
    Ok(())
}

/// The first word is the sum of all lanes.
fn fec(attrs: &AttrReader<'_>, hardware: &mut Hardware) -> Result<(), DecodeError> {
    let Some(counters) = attrs.find(5)? else { return Ok(()) };
    if let Some(uncorrectable) = counters.nested().find(3)? {
        let (words, _) = uncorrectable.payload.as_chunks::<8>();
        hardware.uncorrectable = words.first().map(|word| u64::from_ne_bytes(*word));
    }
    Ok(())
}

/// Takes an answer for one of every topic.
#[cfg(any(test, feature = "hostile"))]
pub(crate) fn decode_as_everything(reply: &crate::core::Reply) {
    let Ok((_, attrs)) = reply.split::<{ generic::HEADER }>() else { return };
    let _ = device_of(&attrs);
    for (_, _, read) in TOPICS {
        let _ = read(&attrs, &mut Hardware::default());
    }
}
