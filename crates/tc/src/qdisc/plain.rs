//! FIFOs, bands, and the absence of a queue.

use std::ops::RangeInclusive;

use quell_units::Bytes;

use super::{Kind, check_priomap, need};
use crate::table::{Encoded, OptionError, Reported, options, word};

options! {
    /// A FIFO bounded in packets.
    Pfifo "pfifo" {
        /// Packets; default the device's transmit queue length.
        limit: Option<u32> = Name("limit"), Head(0), Count;
    }
}

impl Kind for Pfifo {}

options! {
    /// A FIFO bounded in bytes.
    Bfifo "bfifo" {
        /// Bytes; default the device's transmit queue length times its MTU.
        limit: Option<Bytes> = Name("limit"), Head(0), Count;
    }
}

impl Kind for Bfifo {}

options! {
    /// Three FIFO bands by RFC 1349's reading of the TOS byte; its length is the device's transmit queue length.
    PfifoFast "pfifo_fast" {}
}

impl Kind for PfifoFast {}

options! {
    /// No queue at all, what loopback and tunnels have.
    Noqueue "noqueue" {}
}

impl Kind for Noqueue {}

options! {
    /// A root that gives each hardware queue its own child; only for devices with several.
    Mq "mq" {}
}

impl Kind for Mq {
    const CLASSFUL: bool = true;

    /// One for each of the device's queues; how many these are only the kernel knows.
    fn classes(&self) -> Option<RangeInclusive<u16>> {
        Some(1..=MOST_QUEUES)
    }
}

/// Most transmit queues that a new device gets (`rtnl_create_link`, net/core/rtnetlink.c).
const MOST_QUEUES: u16 = 4096;

options! {
    /// Bands served in strict order; band *n* is class *n+1*.
    Prio "prio" {
        /// Bands, 2 to 16; default 3.
        bands: Option<u8> = Name("bands"), Part(0), Count;
        /// Band of each of the 16 packet priorities; default 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1.
        priomap: Vec<u8> = Name("priomap"), Part(0), Count;
    }
}

impl Prio {
    /// The kernel's own mapping of packet priorities to three bands (`pfifo_fast` has it too).
    pub const DEFAULT_PRIOMAP: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

    /// Bands after defaults.
    pub fn band_count(&self) -> u8 {
        self.bands.unwrap_or(3)
    }
}

impl Kind for Prio {
    const CLASSFUL: bool = true;

    fn check(&self) -> Result<(), String> {
        need((2..=16).contains(&self.band_count()), "prio has 2 to 16 bands")?;
        check_priomap(&self.priomap, self.band_count())
    }

    fn classes(&self) -> Option<RangeInclusive<u16>> {
        Some(1..=self.band_count().into())
    }

    fn encode(&self) -> Result<Option<Encoded>, String> {
        let mut map = Prio::DEFAULT_PRIOMAP;
        map.iter_mut().zip(&self.priomap).for_each(|(slot, band)| *slot = *band);
        let mut head = u32::from(self.band_count()).to_ne_bytes().to_vec();
        head.extend(map);
        // For multiqueue devices, never given.
        Ok(Some(Encoded { head, attrs: vec![(2, Vec::new().into())], marked: false }))
    }

    fn decode(from: &Reported<'_>) -> Result<Self, OptionError> {
        from.behind("prio options", 20)?;
        let bands = word(from.payload, 0).and_then(|bands| u8::try_from(bands).ok());
        Ok(Prio { bands, priomap: from.payload[4..20].to_vec() })
    }
}
