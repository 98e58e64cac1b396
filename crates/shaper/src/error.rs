//! Why a policy can't be planned.

/// Why a policy can't be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Too slow to divide.
    #[error("policy host-fair: a rate of {rate} can't be divided; give at least {least}")]
    RateTooLow {
        /// The rate.
        rate: String,
        /// The least that works.
        least: String,
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
        "policy host-fair: the floors of the tiers, {0} together, must leave something: give less than 100%"
    )]
    Floors(String),
}
