//! The policy for a kernel that has CAKE: one queue that shapes, finds hosts by itself, is fair between them and then between their flows.
//!
//! Up, hosts are told by source address; down, by destination address. Down, the shaper stands behind the bottleneck, so what it drops has
//! used the line already (`ingress`); and tiers are not looked at, since senders far away set those.

use crate::tier::FRAME;
use crate::{PolicyError, Shaped, Tell, host_detection};
use quell_tc::qdisc::{AckFilter, Cake, Diffserv, FlowIsolation};
use quell_tc::{Filter, Handle, Queue, Tree};
use quell_units::{Bytes, Rate, Span};

crate::line_type::counted! {
    pub struct CakePolicy {
        /// Hosts are told by the addresses that they have behind address translation, which the kernel's connection tracking knows.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub nat: bool,
        /// Hosts and flows inside of tunnels are told apart by Quell's classifier: CAKE sees two ends where the outer packet has IPv6 or UDP,
        /// or where it looks through address translation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub inside: bool,
        /// The usual round-trip time to the far end; 100 ms where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rtt: Option<Span>,
        /// Acknowledgements are dropped where a later one of the same flow waits too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub ack_filter: bool,
        /// The DSCP is cleared once the tin is chosen.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub wash: bool,
    }
}

/// What the line carries in a second, in full packets as the kernel accounts for them, where that is less than CAKE takes by itself (4 MiB and
/// more, `cake_reconfigure`, net/sched/sch_cake.c): of a slow line that would be the packets of half a minute.
fn memory(rate: Rate) -> Option<Bytes> {
    let packets = (rate.bytes_in(Span::from_secs(1)).get() / FRAME).max(LEAST_PACKETS);
    let memory = packets.saturating_mul(ACCOUNTED);
    (memory < USUAL_MEMORY).then_some(Bytes::new(memory))
}

/// Bytes that a full packet of a network card counts as: a page's half, and its description (`skb->truesize`).
const ACCOUNTED: u64 = 2304;

/// So many have room whatever the rate.
const LEAST_PACKETS: u64 = 32;

const USUAL_MEMORY: u64 = 4 << 20;

impl CakePolicy {
    pub fn new(rate: Rate) -> Self {
        CakePolicy {
            counting: rate.into(),
            nat: false,
            inside: false,
            rtt: None,
            ack_filter: false,
            wash: false,
        }
    }

    /// The plan for an interface. By marks CAKE tells nobody apart: it looks through the translation itself.
    pub fn plan(&self, tell: Tell) -> Result<Shaped, PolicyError> {
        self.counting.check("cake")?;
        let down = tell == Tell::Destination;
        let mut cake = Cake {
            bandwidth: Some(self.counting.rate),
            rtt: self.rtt,
            diffserv: Some(if down { Diffserv::BestEffort } else { Diffserv::Diffserv3 }),
            isolation: Some(match down {
                true => FlowIsolation::DualDsthost,
                false => FlowIsolation::DualSrchost,
            }),
            nat: Some(self.nat || tell == Tell::Mark),
            ingress: Some(down),
            ack_filter: self.ack_filter.then_some(AckFilter::On),
            wash: self.wash.then_some(true),
            memlimit: memory(self.counting.rate),
            ..Cake::default()
        };
        self.counting.tell_cake(&mut cake);
        let mut root = Queue::from(cake).with_handle(Handle::qdisc(1));
        if self.inside {
            let mut classify = Filter::new(host_detection::for_cake(tell), None);
            classify.prio = Some(1);
            root = root.with_filter(classify);
        }
        Ok(Shaped { tree: Tree::from(root), marking: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_by_the_address_on_their_side() {
        let told = |tell| {
            let shaped = CakePolicy::new(Rate::from_bps(1_000_000)).plan(tell).expect("a plan");
            let root = shaped.tree.queue.expect("a root queue");
            match root.qdisc {
                quell_tc::Qdisc::Cake(cake) => (cake.isolation, cake.nat, cake.ingress),
                other => panic!("{other:?}"),
            }
        };
        let (up, down) = (Some(FlowIsolation::DualSrchost), Some(FlowIsolation::DualDsthost));
        assert_eq!(told(Tell::Source), (up, Some(false), Some(false)));
        assert_eq!(told(Tell::Mark), (up, Some(true), Some(false)));
        assert_eq!(told(Tell::Destination), (down, Some(false), Some(true)));
    }
}
