//! What the running kernel lacks for an experiment: each kind of device, queue, filter, action and congestion control is tried in a
//! scratch namespace before anything starts.

use crate::build::{BuildError, device, handing_on};
use crate::cell::{CellPlan, ChangeWhat};
use crate::line::{self, Punctuality};
use crate::topology::TunnelKind;
use quell_classify::Classifier;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkKind, NewLink, TunnelEnds, VethEnd};
use quell_netlink::tc::{self, ApplyError};
use quell_netlink::{LinkName, NetlinkError, Stack};
use quell_sys::netns::NetNs;
use quell_sys::socket::stream::{StreamOptions, TcpSocket};
use quell_tc::{Action, Clsact, Filter, FilterKind, Handle, Ingress, Places, Step, Thing, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

const PROBE: &str = "probe";

/// Everything that the plans need and this kernel has not, a line each. The caller needs the right to make a network namespace.
pub fn lacking(plans: &[CellPlan]) -> Result<Vec<String>, BuildError> {
    let mut found = BTreeMap::new();
    let space = NetNs::new()?;
    let result = space.run(|| probe(plans, &mut found))?;
    result
        .map_err(|error| BuildError::Netlink { node: "scratch".into(), error: Box::new(error) })?;
    Ok(found.into_iter().map(|(what, why)| format!("{what}: {why}")).collect())
}

fn probe(plans: &[CellPlan], found: &mut BTreeMap<String, String>) -> Result<(), NetlinkError> {
    let mut stack = Stack::open()?;
    let name: LinkName = PROBE.parse().expect("a short word is a device name");
    let peer: LinkName = "other".parse().expect("a short word is a device name");
    // One queue alone takes no `mq`.
    let end = VethEnd { tx_queues: 2, ..VethEnd::new(name.clone()) };
    let pair = stack.create_veth(&end, &VethEnd::new(peer));
    if is_lacking("device `veth`", pair, found)? {
        // Without it there is no network, and nothing to try the rest on.
        return Ok(());
    }
    let index = stack.index_of(&name)?;
    if plans.iter().any(needs_ifb) {
        let name: LinkName = "ifb".parse().expect("a short word is a device name");
        let made = stack.create_link(&NewLink::new(name, LinkKind::Ifb));
        is_lacking("device `ifb`", made, found)?;
    }
    for name in congestion_asked(plans) {
        let congestion = Some(name.to_owned());
        let options = StreamOptions { congestion, ..StreamOptions::default() };
        if let Err(error) = TcpSocket::new(false, &options) {
            found.insert(format!("congestion control `{name}`"), error.to_string());
        }
    }
    for kind in tunnels(plans) {
        let name: LinkName = "tunnel".parse().expect("a short word is a device name");
        let v4 = TunnelEnds::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let v6 = TunnelEnds::new(
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        );
        let kind = device(kind, v4, v6);
        let what = format!("tunnel `{}`", kind.name());
        let made = stack.create_link(&NewLink::new(name.clone(), kind));
        if !is_lacking(&what, made, found)? {
            let index = stack.index_of(&name)?;
            stack.delete_link(index)?;
        }
    }
    let mut seen = Vec::new();
    for plan in plans {
        for tree in trees(plan) {
            let Ok(steps) = tree.plan() else { continue };
            for step in steps.steps {
                if seen.contains(&step) {
                    continue;
                }
                try_step(index, &step, found);
                seen.push(step);
            }
        }
    }
    Ok(())
}

/// The congestion controls that plans ask for, each once.
pub fn congestion_asked(plans: &[CellPlan]) -> BTreeSet<&str> {
    let tasks = plans.iter().flat_map(|plan| &plan.tasks);
    tasks.filter_map(|task| task.kind.about().congestion).collect()
}

/// Whether the kernel lacks what was tried, which is noted; any other refusal is an error.
fn is_lacking(
    what: &str,
    made: Result<(), NetlinkError>,
    found: &mut BTreeMap<String, String>,
) -> Result<bool, NetlinkError> {
    match made {
        Ok(()) => Ok(false),
        Err(error) if error.proves_kernel_lacks_feature() => {
            found.insert(what.to_owned(), error.to_string());
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

fn tunnels(plans: &[CellPlan]) -> Vec<TunnelKind> {
    let mut kinds = Vec::new();
    for tunnel in plans.iter().flat_map(|p| &p.topology.tunnel) {
        if !kinds.contains(&tunnel.kind) {
            kinds.push(tunnel.kind);
        }
    }
    kinds
}

fn needs_ifb(plan: &CellPlan) -> bool {
    let changed =
        plan.changes.iter().any(|c| matches!(&c.what, ChangeWhat::Queue(q) if q.incoming));
    changed || plan.queues.iter().any(|q| q.incoming)
}

fn trees(plan: &CellPlan) -> Vec<Tree> {
    let links = plan.topology.link.iter().flat_map(|l| [&l.both, &l.up, &l.down]);
    let lines = links.flatten().cloned();
    let changed = plan.changes.iter().filter_map(|c| match &c.what {
        ChangeWhat::Line { line, .. } => Some(line.clone()),
        ChangeWhat::Queue(_) => None,
    });
    let mut trees = Vec::new();
    for line in lines.chain(changed) {
        trees.extend(line::tree(&line, 1500, None, Punctuality::Real));
        if let Some(middle) = line::middle(&line, Punctuality::Real) {
            trees.extend([middle, handing_on(PROBE)]);
        }
    }
    if needs_ifb(plan) {
        trees.push(incoming(false, Some(Filter::all_to(PROBE))));
    }
    trees.extend(plan.queues.iter().map(|q| q.tree.clone()));
    trees.extend(plan.changes.iter().filter_map(|c| match &c.what {
        ChangeWhat::Queue(queue) => Some(queue.tree.clone()),
        ChangeWhat::Line { .. } => None,
    }));
    trees
}

fn try_step(index: u32, step: &Step, found: &mut BTreeMap<String, String>) {
    match step {
        // Bare, without what a tree must have for packets to pass.
        Step::Qdisc { qdisc, .. } => {
            let (parent, handle) = (Handle::ROOT, Handle::qdisc(1));
            let bare = Thing::Step(Step::Qdisc { parent, handle, qdisc: qdisc.clone() });
            let made = Socket::open(Protocol::Route)
                .and_then(|mut socket| tc::lead_to(&mut socket, index, &[bare], Places::ALL));
            note(format!("queue `{}`", qdisc.kind()), made.err(), found);
        }
        Step::Ingress { clsact } => {
            let what = if *clsact { "queue `clsact`" } else { "queue `ingress`" };
            note(what.to_owned(), refusal(index, &incoming(*clsact, None)), found);
        }
        Step::Filter { filter, .. } => try_filter(index, filter, found),
        Step::Class { .. } => {}
    }
}

fn try_filter(index: u32, filter: &Filter, found: &mut BTreeMap<String, String>) {
    if let FilterKind::Classify(config) = &filter.kind {
        if let Err(error) = Classifier::load(config)
            && error.proves_no_program_loads()
        {
            found.entry("filter `classify`".into()).or_insert_with(|| error.to_string());
        }
        return;
    }
    if let FilterKind::Roster(_) = &filter.kind {
        return;
    }
    let mut filter = filter.clone();
    // The class is not there in the scratch namespace.
    filter.class = None;
    let actions = std::mem::take(&mut filter.actions);
    let name = format!("filter `{}`", filter.kind.name());
    note(name, refusal(index, &incoming(false, Some(filter.clone()))), found);
    for mut action in actions {
        let name = match &mut action {
            // Nor is the device to which packets are redirected.
            Action::Redirect(device) | Action::Mirror(device) => {
                *device = PROBE.into();
                "mirred"
            }
            Action::Skbedit(_) => "skbedit",
            Action::Police(_) => "police",
            Action::Connmark => "connmark",
            Action::Drop | Action::Pass => "gact",
            Action::Other(_) => continue,
        };
        // On a filter that every kernel has, so that it is the action that is refused.
        let with = Filter { actions: vec![action], ..Filter::all_to(PROBE) };
        note(format!("action `{name}`"), refusal(index, &incoming(false, Some(with))), found);
    }
}

fn refusal(index: u32, tree: &Tree) -> Option<NetlinkError> {
    let refused = Socket::open(Protocol::Route)
        .map_err(ApplyError::Left)
        .and_then(|mut socket| tc::apply(&mut socket, index, tree));
    match refused {
        Err(ApplyError::Kernel(error) | ApplyError::Left(error)) => Some(error),
        Ok(_) | Err(ApplyError::Tree(_)) => None,
    }
}

fn note(what: String, refused: Option<NetlinkError>, found: &mut BTreeMap<String, String>) {
    if let Some(error) = refused.filter(NetlinkError::proves_kernel_lacks_feature) {
        found.entry(what).or_insert_with(|| error.to_string());
    }
}

fn incoming(clsact: bool, filter: Option<Filter>) -> Tree {
    let filters = filter.into_iter().collect();
    if clsact {
        Tree { clsact: Some(Clsact { ingress: filters, egress: Vec::new() }), ..Tree::default() }
    } else {
        Tree { ingress: Some(Ingress { filters }), ..Tree::default() }
    }
}
