//! FIFOs, bands, and the absence of a queue.

use quell_units::Bytes;
use serde::{Deserialize, Serialize};

/// A FIFO bounded in packets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pfifo {
    /// Packets; default the device's transmit queue length.
    pub limit: Option<u32>,
}

/// A FIFO bounded in bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bfifo {
    /// Bytes; default the device's transmit queue length times its MTU.
    pub limit: Option<Bytes>,
}

/// Three FIFO bands by RFC 1349's reading of the TOS byte; its length is the device's transmit queue length.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PfifoFast {}

/// No queue at all, what loopback and tunnels have.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noqueue {}

/// A root that gives each hardware queue its own child; only for devices with several.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mq {}

/// Bands served in strict order; band *n* is class *n+1*.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prio {
    /// Bands, 2 to 16; default 3.
    pub bands: Option<u8>,
    /// Band of each of the 16 packet priorities; default 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub priomap: Vec<u8>,
}

impl Prio {
    /// The kernel's own mapping of packet priorities to three bands (`pfifo_fast` has it too).
    pub const DEFAULT_PRIOMAP: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

    /// Bands after defaults.
    pub fn band_count(&self) -> u8 {
        self.bands.unwrap_or(3)
    }
}
