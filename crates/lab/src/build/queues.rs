//! Queues in place: each interface's line and what the user put on it, and how both change on the timeline.

use super::between::Between;
use super::node::{BuildError, PutError, in_space, link_name, within};
use crate::cell::{CellPlan, ChangeWhat, PlacedQueue};
use crate::line::{self, Punctuality};
use crate::topology::{Interface, Line, Network};
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkKind, LinkName, NewLink};
use quell_netlink::tc::{self, ApplyError};
use quell_netlink::{NetlinkError, Stack};
use quell_sys::netns::NetNs;
use quell_tc::{Action, Exceed, Filter, Ingress, Matchall, Police, Step, Tree};
use quell_units::{Bytes, Rate, Span};
use std::collections::{BTreeMap, BTreeSet};

/// What each interface has, so that a change can be told from what was.
pub struct Queues {
    places: BTreeMap<Interface, QueuePoint>,
    between: Between,
    clock: Punctuality,
    /// When the measurement started, by the monotonic clock.
    start_ns: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct QueuePoint {
    node: usize,
    /// The wire that begins here, and at which of its ends; none for a tunnel.
    wire: Option<(usize, usize)>,
    mtu: u32,
    /// Larger packets that come in here vanish.
    swallows_above: Option<u32>,
    line: Line,
    /// The line as the plan has it, where it changes by itself.
    series: Option<Line>,
    user: Option<Tree>,
    /// On the IFB device behind it.
    incoming: Option<Tree>,
    /// What stands on the device, line included.
    standing: Option<Tree>,
    /// What stands on the IFB device.
    standing_incoming: Option<Tree>,
    /// What stands in the middle of the link, towards the other end.
    standing_between: Option<Tree>,
}

/// The IFB device that queues what comes in at a device. Where the device's name does not fit into it, a number of that name does: those of
/// USB adapters are alike in their first letters.
pub fn ifb_name(device: &str) -> String {
    let most = nix::libc::IFNAMSIZ - 1;
    let whole = format!("i-{device}");
    if whole.len() <= most {
        return whole;
    }
    let number = quell_tc::hash(device.bytes()) & 0xff_ffff;
    let end = format!("-{number:06x}");
    let mut begin = whole;
    // A name that the kernel has may be of any bytes.
    while begin.len() > most - end.len() {
        begin.pop();
    }
    begin + &end
}

impl Queues {
    /// Puts every line and queue of the plan in place.
    pub(super) fn place(
        plan: &CellPlan,
        network: &Network,
        spaces: &[NetNs],
        between: Between,
    ) -> Result<Queues, BuildError> {
        let clock = Punctuality::of_this_kernel();
        let mut places = BTreeMap::new();
        for (node, this) in network.nodes.iter().enumerate() {
            for port in &this.ports {
                let at = Interface { node: this.name.clone(), device: port.device.clone() };
                let line = network.line(node, port);
                let refused = line::too_fine(line).filter(|_| clock == Punctuality::Real);
                if let Some(why) = refused {
                    return Err(BuildError::Plan(format!("the line at `{at}`: {why}")));
                }
                let changes = line.varies().is_some() || line::is_followed(line, clock);
                let series = changes.then(|| line.clone());
                let line = line::at(line, Span::from_nanos(0), clock);
                let wire = &network.wires[port.wire];
                let (mtu, swallows_above) = (wire.mtu, wire.swallows_above);
                let wire = Some((port.wire, usize::from(wire.ends[0] != node)));
                let place = QueuePoint {
                    node,
                    wire,
                    mtu,
                    swallows_above,
                    line,
                    series,
                    ..QueuePoint::default()
                };
                places.insert(at, place);
            }
        }
        for tunnel in &network.tunnels {
            for end in &tunnel.ends {
                let node =
                    network.find("tunnel", end).map_err(|e| BuildError::Plan(e.to_string()))?;
                let at = Interface { node: end.clone(), device: tunnel.name.clone() };
                places.insert(at, QueuePoint { node, mtu: 1500, ..QueuePoint::default() });
            }
        }
        let mut queues = Queues { places, between, clock, start_ns: None };
        for queue in &plan.queues {
            queues.add(queue)?;
        }
        let interfaces: Vec<Interface> = queues.places.keys().cloned().collect();
        for at in interfaces {
            queues.apply(network, spaces, &at)?;
        }
        Ok(queues)
    }

    /// Waits until the middles of links carry packets.
    pub(super) fn settle(&self) -> Result<(), BuildError> {
        self.between.settle()
    }

    /// Carries out one change of the timeline.
    pub fn change(
        &mut self,
        network: &Network,
        spaces: &[NetNs],
        what: &ChangeWhat,
    ) -> Result<(), BuildError> {
        let at = match what {
            ChangeWhat::Line { on, line } => {
                let place = self.at(on)?;
                place.line = place.line.changed_by(line);
                on
            }
            ChangeWhat::Queue(queue) => {
                let place = self.at(&queue.on)?;
                if queue.incoming {
                    place.incoming = Some(queue.tree.clone());
                } else {
                    // Filters on the way in, as a policy's marks, belong to another queue and stay.
                    let user = place.user.get_or_insert_with(Tree::default);
                    user.queue = queue.tree.queue.clone();
                }
                &queue.on
            }
        };
        self.apply(network, spaces, at)
    }

    /// When lines change by themselves, from the start of the measurement.
    pub fn steps(&self, length: Span) -> BTreeSet<Span> {
        let lines = self.places.values().filter_map(|place| place.series.as_ref());
        lines.flat_map(|line| line::changes(line, length, self.clock)).collect()
    }

    /// Brings lines that change by themselves to what they are so long after the start, which is a time of the monotonic clock.
    pub fn step(
        &mut self,
        network: &Network,
        spaces: &[NetNs],
        at: Span,
        start_ns: u64,
    ) -> Result<(), BuildError> {
        let clock = self.clock;
        self.start_ns = Some(start_ns);
        let interfaces: Vec<Interface> = self.places.keys().cloned().collect();
        for interface in interfaces {
            let place = self.at(&interface)?;
            let Some(series) = &place.series else { continue };
            let begins = at.is_zero() && line::is_followed(series, clock);
            let varies = series.varies().is_some();
            let (node, now) = (place.node, line::at(series, at, clock));
            if varies && place.line != now {
                place.line = now;
                self.apply(network, spaces, &interface)?;
            }
            if begins {
                let device = link_name(&interface.device)?;
                in_space(network, spaces, node, || begin(&device, start_ns))?;
            }
        }
        Ok(())
    }

    fn at(&mut self, on: &Interface) -> Result<&mut QueuePoint, BuildError> {
        self.places
            .get_mut(on)
            .ok_or_else(|| BuildError::Plan(format!("there is no interface `{on}`")))
    }

    /// Adds a queue to what an interface has; marking filters and a queue may come apart.
    fn add(&mut self, queue: &PlacedQueue) -> Result<(), BuildError> {
        let place = self.at(&queue.on)?;
        let slot = if queue.incoming { &mut place.incoming } else { &mut place.user };
        match slot {
            None => *slot = Some(queue.tree.clone()),
            Some(have) => {
                if queue.tree.queue.is_some() {
                    if have.queue.is_some() {
                        return Err(BuildError::Plan(format!(
                            "two queues are put on `{}`",
                            queue.on
                        )));
                    }
                    have.queue = queue.tree.queue.clone();
                }
                if let Some(more) = &queue.tree.ingress {
                    let ingress = have.ingress.get_or_insert_with(Ingress::default);
                    ingress.filters.extend(more.filters.clone());
                }
            }
        }
        Ok(())
    }

    /// Puts in place what an interface should have.
    fn apply(
        &mut self,
        network: &Network,
        spaces: &[NetNs],
        at: &Interface,
    ) -> Result<(), BuildError> {
        let Some(place) = self.places.get_mut(at) else { return Ok(()) };
        let mut on_device = line::tree(&place.line, place.mtu, place.user.as_ref(), self.clock);
        if let Some(size) = place.swallows_above {
            let tree = on_device.get_or_insert_with(Tree::default);
            let filters = &mut tree.ingress.get_or_insert_with(Ingress::default).filters;
            filters.insert(0, swallow(size));
        }
        let ifb = link_name(&ifb_name(&at.device))?;
        if place.incoming.is_some() {
            let tree = on_device.get_or_insert_with(Tree::default);
            let filters = &mut tree.ingress.get_or_insert_with(Ingress::default).filters;
            filters.push(Filter::all_to(ifb.as_str()));
        }
        let device = link_name(&at.device)?;
        let mut todo = Vec::new();
        if let Some(tree) = place.incoming.clone() {
            within(network, spaces, place.node, |stack| {
                if stack.index_of(&ifb).is_err() {
                    stack.create_link(&NewLink::new(ifb.clone(), LinkKind::Ifb))?;
                }
                let index = stack.index_of(&ifb)?;
                stack.up(index)
            })?;
            todo.push((&ifb, place.standing_incoming.replace(tree.clone()), tree));
        }
        if let Some(tree) = on_device {
            todo.push((&device, place.standing.replace(tree.clone()), tree));
        }
        let refused = |error| BuildError::Queue { at: at.clone(), error: Box::new(error) };
        for (name, before, tree) in &todo {
            spaces[place.node].visit(|| put(name, before.as_ref(), tree))?.map_err(refused)?;
        }
        let is_new = |(name, before, tree): &(&LinkName, Option<Tree>, Tree)| {
            **name == device && !before.as_ref().is_some_and(|before| same_shape(before, tree))
        };
        let is_new = line::is_followed(&place.line, self.clock) && todo.iter().any(is_new);
        if let Some(rates) = is_new.then(|| line::followed(&place.line)).flatten() {
            let steps: Vec<_> = rates.iter().map(|(_, end, r)| (end.nanos(), r.bps())).collect();
            let medium = place.wire.filter(|_| place.line.shared);
            let line = tc::line::LineBucket {
                steps: &steps,
                grid_ns: place.line.grid.map_or(0, Span::nanos),
                medium: medium.map_or(0, |(wire, _)| wire as u64 + 1),
            };
            in_space(network, spaces, place.node, || {
                let index = Stack::open()?.index_of(&device)?;
                let mut socket = Socket::open(Protocol::Route)?;
                let is_new = tc::line::follow(&mut socket, index, line::FOLLOWER, &line)?;
                self.start_ns.filter(|_| is_new).map_or(Ok(()), |start| begin(&device, start))
            })?;
        }
        let passage = || place.standing_between.as_ref().map(|_| line::passage());
        if let (Some((wire, end)), Some(tree)) =
            (place.wire, line::middle(&place.line, self.clock).or_else(passage))
            && let Some(middle) = self.between.of_wire(wire)?
        {
            let before = place.standing_between.replace(tree.clone());
            let name = &middle.facing[1 - end];
            middle.space.visit(|| put(name, before.as_ref(), &tree))?.map_err(refused)?;
        }
        Ok(())
    }
}

/// Tells the line on a device of the calling thread's namespace when its series begins.
fn begin(device: &LinkName, start_ns: u64) -> Result<(), NetlinkError> {
    let index = Stack::open()?.index_of(device)?;
    let mut socket = Socket::open(Protocol::Route)?;
    tc::line::begin(&mut socket, index, line::FOLLOWER, start_ns)
}

/// Puts a tree on a device of the calling thread's namespace. Queues that stay keep the packets that wait in them, and those that are
/// on their way.
fn put(name: &LinkName, before: Option<&Tree>, tree: &Tree) -> Result<(), PutError> {
    let index = Stack::open().and_then(|mut s| s.index_of(name)).map_err(ApplyError::Left)?;
    let mut socket = Socket::open(Protocol::Route).map_err(ApplyError::Left)?;
    if before.is_some_and(|before| same_shape(before, tree)) {
        return Ok(tc::update(&mut socket, index, before, tree)?);
    }
    let mut ready = tree.clone();
    // They live until the kernel has them.
    let _programs = quell_classify::ready_tree(&mut ready).map_err(PutError::Program)?;
    match before {
        Some(before) if tc::graft(&mut socket, index, before, &ready)? => Ok(()),
        _ => Ok(tc::apply(&mut socket, index, &ready)?),
    }
}

/// Whether two trees differ in nothing but options.
fn same_shape(a: &Tree, b: &Tree) -> bool {
    let shape = |tree: &Tree| {
        let steps = tree.plan().ok()?.steps;
        let shape = steps.into_iter().map(|step| match step {
            Step::Qdisc { parent, handle, qdisc } => format!("{parent} {handle} {}", qdisc.kind()),
            Step::Ingress { clsact } => format!("ingress {clsact}"),
            Step::Class { parent, id, kind } => format!("{parent} {id} {}", kind.name()),
            Step::Filter { parent, filter } => format!("{parent} {filter:?}"),
        });
        Some(shape.collect::<Vec<_>>())
    };
    shape(a).is_some_and(|a| shape(b) == Some(a))
}

/// A policer whose rate no packet exceeds, but whose largest packet is `size` (`tcf_police_act`, net/sched/act_police.c): the rest
/// is lost without an ICMP message. Where packets come in, it counts their Ethernet headers too.
fn swallow(size: u32) -> Filter {
    Filter::new(Matchall {}, None).with_action(Action::Police(Police {
        rate: Rate::from_bps(1_000_000_000_000),
        burst: Bytes::new(1_000_000_000),
        mtu: Some(Bytes::new(u64::from(size) + line::ETHERNET)),
        exceed: Exceed::Drop,
    }))
}

#[cfg(test)]
mod tests {
    use super::ifb_name;

    #[test]
    fn two_adapters_with_long_names_have_an_ifb_each() {
        assert_eq!(ifb_name("wan"), "i-wan");
        assert_eq!(ifb_name("abcdefghijklm"), "i-abcdefghijklm");
        let names =
            ["enx020000000001", "enx020000000002", "enx02000000000", "ééééééé"].map(ifb_name);
        for (at, name) in names.iter().enumerate() {
            assert!(name.len() <= 15 && !names[..at].contains(name), "{names:?}");
        }
    }
}
