//! The policy for a kernel that has CAKE: one queue that shapes, finds hosts by itself, is fair between them and then between their flows.
//!
//! Up, hosts are told by source address; down, by destination address. Down, the shaper stands behind the bottleneck, so what it drops has
//! used the line already (`ingress`); and tiers are not looked at, since senders far away set those.

use crate::{PolicyError, Shaped, Tell, host_detection};
use quell_tc::qdisc::{Cake, Diffserv, FlowIsolation};
use quell_tc::{Filter, Handle, Queue, Tree};
use quell_units::{Rate, Span};

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
    }
}

impl CakePolicy {
    pub fn new(rate: Rate) -> Self {
        CakePolicy { counting: rate.into(), nat: false, inside: false, rtt: None }
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
