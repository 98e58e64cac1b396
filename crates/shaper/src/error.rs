//! Why a policy can't be planned.

use quell_units::{Rate, Ratio};

/// Why a policy can't be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Too slow to divide.
    #[error("policy {policy}: a rate of {rate} can't be divided; give at least {least}")]
    RateTooLow {
        /// Of which policy.
        policy: &'static str,
        /// The rate.
        rate: Rate,
        /// The least that works.
        least: Rate,
    },
    /// No buckets, or more than there can be.
    #[error("policy host-fair: {0} buckets can't be; give 1 to 1024")]
    Buckets(u16),
    /// Nobody to serve.
    #[error(
        "policy host-fair: no host is behind this interface; put it on the one that leads to the internet"
    )]
    NoHosts,
    /// More hosts than marks.
    #[error("policy host-fair: marks tell at most {0} hosts apart behind address translation")]
    TooManyHosts(usize),
    /// The floors leave nothing.
    #[error(
        "policy {policy}: the floors of the tiers, {floors} together, must leave something: give less than 100%"
    )]
    Floors {
        /// Of which policy.
        policy: &'static str,
        /// What they are together.
        floors: String,
    },
    /// What is said of subscribers does not fit together.
    #[error("policy subscribers: {0}")]
    Subscribers(String),
}

/// Link rates below this leave a part less than HTB can count.
const LEAST_RATE: u64 = 16_000;

/// A rate that can be divided.
pub fn divisible(policy: &'static str, rate: Rate) -> Result<(), PolicyError> {
    let least = Rate::from_bps(LEAST_RATE);
    if rate < least {
        return Err(PolicyError::RateTooLow { policy, rate, least });
    }
    Ok(())
}

/// Floors of tiers that leave something to give by priority.
pub fn leave_something(policy: &'static str, floors: (Ratio, Ratio)) -> Result<(), PolicyError> {
    let together = floors.0.as_f64() + floors.1.as_f64();
    if together >= 1.0 {
        let floors = format!("{:.0} %", together * 100.0);
        return Err(PolicyError::Floors { policy, floors });
    }
    Ok(())
}
