//! Which kinds of queue the running kernel has.

use quell_netlink::Stack;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::VethEnd;
use quell_netlink::tc;
use quell_sys::netns::NetNs;
use quell_tc::{Places, Qdisc, Queue, Tree};

/// Whether the kernel has a kind of queue; tried in a namespace of its own. None where that can't be tried.
pub fn kernel_has(qdisc: Qdisc) -> Option<bool> {
    let things = Tree::from(Queue::from(qdisc)).plan().ok()?.things();
    NetNs::new().ok()?.run(|| try_on_a_cable(&things)).ok()?
}

fn try_on_a_cable(things: &[quell_tc::Thing]) -> Option<bool> {
    let mut stack = Stack::open().ok()?;
    let end = |name: &str| Some(VethEnd::new(name.parse().ok()?));
    stack.create_veth(&end("here")?, &end("there")?).ok()?;
    let index = stack.index_of(&"here".parse().ok()?).ok()?;
    let mut socket = Socket::open(Protocol::Route).ok()?;
    Some(tc::lead_to(&mut socket, index, things, Places::ALL).is_ok())
}
