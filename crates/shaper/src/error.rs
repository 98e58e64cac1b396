//! Why a policy can't be planned.

use quell_units::{Rate, Ratio};
use std::net::IpAddr;

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
    /// Faster than any line.
    #[error("policy {policy}: no line carries {rate}; give at most {most}")]
    RateTooHigh {
        /// Of which policy.
        policy: &'static str,
        /// The rate.
        rate: Rate,
        /// The most that works.
        most: Rate,
    },
    /// More hosts than there are packets.
    #[error("policy host-fair: {hosts} hosts share {rate}, less than a packet a second for each")]
    TooThin {
        /// How many.
        hosts: usize,
        /// What they share.
        rate: Rate,
    },
    /// Two hosts have an address.
    #[error("policy host-fair: {0} is given twice")]
    Twice(IpAddr),
    /// No buckets, or more than there can be.
    #[error("policy host-fair: {0} buckets can't be; give 1 to 1024")]
    Buckets(u16),
    /// No places, or more than there can be.
    #[error("policy host-fair: {0} places can't be; give 1 to 1024")]
    Places(u16),
    /// Hosts can't be found so.
    #[error("policy host-fair: {0}")]
    Found(String),
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

/// Floors of tiers that leave something to give by priority.
pub fn leave_something(policy: &'static str, floors: (Ratio, Ratio)) -> Result<(), PolicyError> {
    let together = floors.0.as_f64() + floors.1.as_f64();
    if together >= 1.0 {
        let floors = format!("{:.0} %", together * 100.0);
        return Err(PolicyError::Floors { policy, floors });
    }
    Ok(())
}
