//! Queues, classes and filters: put on an interface, changed, taken off, and read back.
//!
//! ```text
//!   quell_tc::Plan ──messages()──► RTM_NEWQDISC, RTM_NEWTCLASS, RTM_NEWTFILTER   (bytes as tc sends them)
//!                                          │ apply(), update()
//!                                        kernel
//!                                          │ snapshot()
//!   quell_tc::changes ◄── observed ◄── RTM_GETQDISC, RTM_GETTCLASS, RTM_GETTFILTER
//! ```

mod change;
mod decode_filter;
mod decode_stats;
mod dump;
mod encode_filter;
pub mod line;
mod message;
mod names;
mod options;
mod pinned;
mod raw;
mod root;

use nix::errno::Errno;
use quell_tc::{Change, Handle, Places, Qdisc, Step, Thing, Tree, TreeError};
use thiserror::Error;

pub use change::{carry_all_out, carry_all_out_over, carry_out};
#[cfg(any(test, feature = "hostile"))]
pub(crate) use dump::decode_as_everything;
pub use dump::{
    dump_all_qdiscs, dump_classes, dump_filters, dump_qdiscs, one_class, queue_in, snapshot,
};
pub use message::messages;
pub use names::{Names, fixed_names};
pub use raw::classifier;
pub use root::Root;

use crate::core::{Message, NetlinkError, Socket};
use message::{How, changeable};

/// Why a tree is not on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The tree breaks a rule; nothing was touched.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The kernel refused a step. What had been made before it was taken off again, so the interface has its default
    /// queue.
    #[error("{0}; the interface is back at its default queue")]
    Kernel(NetlinkError),
    /// The kernel refused something, and the interface was not touched by us, or not all of it could be undone.
    #[error("{0}")]
    Left(NetlinkError),
}

/// Leads an interface from what it has to what is wanted, and says which steps that took: none where all is as wanted.
///
/// # Errors
/// The kernel refused a step; those before it are in force.
pub fn lead_to(
    socket: &mut Socket,
    ifindex: u32,
    wanted: &[Thing],
    places: Places,
) -> Result<Vec<Change>, NetlinkError> {
    let there = snapshot(socket, ifindex)?;
    let changes = quell_tc::changes(wanted, places, &there);
    carry_all_out(socket, ifindex, &changes).map_err(|(_, error)| error)?;
    Ok(changes)
}

/// Puts a tree on an interface in place of what is there.
///
/// What the tree does not name stays: without `queue` the root, without `ingress` and `clsact` the way in. Old queues
/// are taken off before the new ones are made, with the packets in them; to keep those see [`update`].
pub fn apply(socket: &mut Socket, ifindex: u32, tree: &Tree) -> Result<(), ApplyError> {
    let plan = tree.plan()?;
    let names = names::of(socket).map_err(ApplyError::Left)?;
    let mut prepared = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        let ready = message::prepare(step, ifindex, &names, How::Create);
        prepared.push(ready.map_err(ApplyError::Left)?);
    }
    let touched = Touched::by(tree);
    touched.delete(socket, ifindex).map_err(ApplyError::Left)?;
    for ready in &prepared {
        if let Err(error) = socket.request_ack(&ready.message) {
            return Err(match touched.delete(socket, ifindex) {
                Ok(()) => ApplyError::Kernel(error),
                Err(_) => ApplyError::Left(error),
            });
        }
    }
    Ok(())
}

/// Changes the options of queues and classes where they are, so that the packets in them stay.
///
/// The interface must have this tree already, but for its options; those that it has `before` are not sent. Filters are left alone, and so are the kinds that the
/// kernel can't change: sfq, and HTB itself, but not its classes.
pub fn update(
    socket: &mut Socket,
    ifindex: u32,
    before: Option<&Tree>,
    tree: &Tree,
) -> Result<(), ApplyError> {
    let had = before.map_or(Ok(Vec::new()), |before| before.plan().map(|plan| plan.steps))?;
    let plan = tree.plan()?;
    let names = names::of(socket).map_err(ApplyError::Left)?;
    let new = plan.steps.into_iter().filter(|step| !had.contains(step));
    let queues = new.filter(|step| !matches!(step, Step::Filter { .. }));
    for step in queues.filter_map(changeable) {
        let ready = message::prepare(&step, ifindex, &names, How::Change);
        let ready = ready.map_err(ApplyError::Left)?;
        socket.request_ack(&ready.message).map_err(ApplyError::Left)?;
    }
    Ok(())
}

/// Replaces what stands below the outermost queues that two trees have in common, so that the packets in those stay: `before` is what the
/// interface has, `tree` what it is to have. The options of the queues in common become those of `tree`; packets that wait below them are
/// lost with their queue.
///
/// False where the trees have no outer queue in common, or differ on the way in: nothing was touched then, and [`apply`] is the way.
pub fn graft(
    socket: &mut Socket,
    ifindex: u32,
    before: &Tree,
    tree: &Tree,
) -> Result<bool, ApplyError> {
    if before.ingress != tree.ingress || before.clsact != tree.clsact {
        return Ok(false);
    }
    let queues = |tree: &Tree| Tree { ingress: None, clsact: None, ..tree.clone() }.plan();
    let (had, wanted) = (queues(before)?.steps, queues(tree)?.steps);
    // Beside what is replaced below an HTB there must be nothing.
    let same = |(a, b): &(&Step, &Step)| {
        is_same_outer(a, b) && has_one_place(&had, a) && has_one_place(&wanted, b)
    };
    let outer = had.iter().zip(&wanted).take_while(same).count();
    let last = outer.checked_sub(1).and_then(|i| match &wanted[i] {
        Step::Qdisc { handle, .. } | Step::Class { id: handle, .. } => Some(handle),
        _ => None,
    });
    let (Some(last), Some(Step::Qdisc { parent, .. })) = (last, wanted.get(outer)) else {
        return Ok(false);
    };
    if parent.major != last.major {
        return Ok(false);
    }
    let names = names::of(socket).map_err(ApplyError::Left)?;
    let prepare = |step: &Step, how| message::prepare(step, ifindex, &names, how);
    let mut todo = Vec::new();
    for (_, new) in had.iter().zip(&wanted).take(outer).filter(|(old, new)| old != new) {
        if let Some(step) = changeable(new.clone()) {
            todo.push(prepare(&step, How::Change).map_err(ApplyError::Left)?);
        }
    }
    let mut made = Vec::new();
    for step in &wanted[outer..] {
        made.push(prepare(step, How::Create).map_err(ApplyError::Left)?);
    }
    for ready in &todo {
        socket.request_ack(&ready.message).map_err(ApplyError::Left)?;
    }
    delete(socket, ifindex, *parent, "queue that is replaced").map_err(ApplyError::Left)?;
    for ready in &made {
        if let Err(error) = socket.request_ack(&ready.message) {
            return Err(match delete_root(socket, ifindex) {
                Ok(()) => ApplyError::Kernel(error),
                Err(_) => ApplyError::Left(error),
            });
        }
    }
    Ok(true)
}

/// Whether two steps are the same queue, but for its options, of a kind that may have one queue inside, or the same class.
fn is_same_outer(a: &Step, b: &Step) -> bool {
    match (a, b) {
        (
            Step::Qdisc { parent: pa, handle: ha, qdisc: a },
            Step::Qdisc { parent: pb, handle: hb, qdisc: b },
        ) => {
            pa == pb
                && ha == hb
                && a.kind() == b.kind()
                && matches!(a, Qdisc::Netem(_) | Qdisc::Tbf(_) | Qdisc::Htb(_))
        }
        (
            Step::Class { parent: pa, id: ia, kind: a },
            Step::Class { parent: pb, id: ib, kind: b },
        ) => pa == pb && ia == ib && a.name() == b.name(),
        _ => false,
    }
}

/// Whether a queue among the steps has one class at most, and nothing that chooses between classes.
fn has_one_place(steps: &[Step], of: &Step) -> bool {
    let Step::Qdisc { handle, .. } = of else { return true };
    let classes =
        steps.iter().filter(|s| matches!(s, Step::Class { id, .. } if id.major == handle.major));
    let chosen =
        |s: &Step| matches!(s, Step::Filter { parent, .. } if parent.major == handle.major);
    classes.count() <= 1 && !steps.iter().any(chosen)
}

/// Takes the root queue off, with all below it; the kernel puts the device's default there.
///
/// # Errors
/// The kernel refused. That there is nothing to take off is no error.
pub fn delete_root(socket: &mut Socket, ifindex: u32) -> Result<(), NetlinkError> {
    delete(socket, ifindex, Handle::ROOT, "root queue")
}

/// Takes the ingress or clsact qdisc off, with its filters.
///
/// # Errors
/// The kernel refused. That there is nothing to take off is no error.
pub fn delete_ingress(socket: &mut Socket, ifindex: u32) -> Result<(), NetlinkError> {
    delete(socket, ifindex, Handle::INGRESS, "ingress qdisc")
}

fn delete(
    socket: &mut Socket,
    ifindex: u32,
    parent: Handle,
    what: &str,
) -> Result<(), NetlinkError> {
    let head = message::header(ifindex, 0, parent.to_u32(), 0);
    let tried = format!("take the {what} off interface {ifindex}");
    let message = Message::with_header(tried, libc::RTM_DELQDISC, 0, &head);
    match socket.request_ack(&message) {
        // A default queue can't be taken off: ENOENT for the root, EINVAL for an ingress that is not there.
        Err(error) if matches!(error.errno(), Some(Errno::ENOENT | Errno::EINVAL)) => Ok(()),
        other => other,
    }
}

/// Which places a tree takes.
struct Touched {
    root: bool,
    ingress: bool,
}

impl Touched {
    fn by(tree: &Tree) -> Self {
        Touched {
            root: tree.queue.is_some(),
            ingress: tree.ingress.is_some() || tree.clsact.is_some(),
        }
    }

    fn delete(&self, socket: &mut Socket, ifindex: u32) -> Result<(), NetlinkError> {
        if self.root {
            delete_root(socket, ifindex)?;
        }
        if self.ingress {
            delete_ingress(socket, ifindex)?;
        }
        Ok(())
    }
}
