//! One echo stream (ICMP echo, reflected UDP) in figures: loss, order, delays and their variation.

mod fold;
mod orders;
mod result;

pub use fold::EchoFold;
pub(crate) use orders::LEAST_UNSURE_NS;
pub use result::{Counts, EchoResult, Transit, Way};
pub(crate) use result::{is_minority, rtt_ms};
