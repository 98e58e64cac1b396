//! One [`Change`] as one netlink message.

use std::borrow::Borrow;

use quell_tc::{Change, Handle, Place, Seen, Thing};

use super::message::{
    DEL_CLASS, DEL_FILTER, DEL_QDISC, How, NEW_CLASS, NEW_FILTER, NEW_QDISC, Prepared, changeable,
    header, prepare,
};
use super::{Names, names, raw};
use crate::core::{Message, NetlinkError, Socket, flags};

const TCA_KIND: u16 = 1;
const TCA_CHAIN: u16 = 11;

/// Carries one change out on an interface.
///
/// # Errors
/// The kernel refused, and nothing was changed; the message names the step and the kernel's answer.
pub fn carry_out(socket: &mut Socket, ifindex: u32, change: &Change) -> Result<(), NetlinkError> {
    carry_all_out(socket, ifindex, std::slice::from_ref(change)).map_err(|(_, error)| error)
}

/// Carries changes out, one after the other. Where one of them can't be put into words, as one that names a device that is not there, nothing
/// is touched. What is below a root queue is told many at a time.
///
/// # Errors
/// The number of the first change that the kernel refused, from 0, and its answer; those before it are in force, and perhaps some behind it.
pub fn carry_all_out<C: Borrow<Change>>(
    socket: &mut Socket,
    ifindex: u32,
    changes: &[C],
) -> Result<(), (usize, NetlinkError)> {
    let names = names::of(socket).map_err(|error| (0, error))?;
    let changes: Vec<&Change> = changes.iter().map(Borrow::borrow).collect();
    let ready: Vec<Prepared> = changes
        .iter()
        .enumerate()
        .map(|(number, change)| ready(change, ifindex, &names).map_err(|error| (number, error)))
        .collect::<Result<_, _>>()?;
    let mut first = 0;
    while first < ready.len() {
        let many = changes[first..].iter().take_while(|change| is_inside(change)).count();
        let next = first + many.max(1);
        let some: Vec<&Message> = ready[first..next].iter().map(|ready| &ready.message).collect();
        socket.request_all(&some).map_err(|(number, error)| (first + number, error))?;
        first = next;
    }
    Ok(())
}

/// Whether a change is about what is inside a root queue. What leads packets somewhere else waits until all before it was taken.
fn is_inside(change: &Change) -> bool {
    match change.place() {
        Place::Qdisc { parent, .. } => !matches!(parent, Handle::ROOT | Handle::INGRESS),
        Place::Class { .. } => true,
        Place::Filter { parent, .. } => parent.major != u16::MAX,
    }
}

fn ready(change: &Change, ifindex: u32, names: &dyn Names) -> Result<Prepared, NetlinkError> {
    let device = names.name_of(ifindex).unwrap_or_else(|| format!("interface {ifindex}"));
    match change {
        Change::Make(Thing::Step(step)) => prepare(step, ifindex, names, How::Create),
        Change::Alter(Thing::Step(step)) => {
            let step = changeable(step.clone());
            let nothing = || NetlinkError::invalid(format!("{change} on {device}"), "it can't be");
            prepare(&step.ok_or_else(nothing)?, ifindex, names, How::Change)
        }
        Change::Make(Thing::Seen(seen)) => {
            Ok(again(seen, ifindex, format!("{change} on {device}"), How::Create).into())
        }
        Change::Alter(Thing::Seen(seen)) => {
            Ok(again(seen, ifindex, format!("{change} on {device}"), How::Change).into())
        }
        Change::Remove { place, kind } => {
            Ok(removal(*place, kind, ifindex, format!("{change} of {device}")).into())
        }
    }
}

/// Something as the kernel once showed it.
fn again(seen: &Seen, ifindex: u32, tried: String, how: How) -> Message {
    let create = if how == How::Create { flags::CREATE } else { 0 };
    let mut message = match seen.place {
        Place::Qdisc { parent, handle } => {
            let replace = if how == How::Create { flags::REPLACE } else { 0 };
            let head = header(ifindex, handle.to_u32(), parent.to_u32(), 0);
            Message::with_header(tried, NEW_QDISC, create | replace, &head)
        }
        Place::Class { parent, id } => {
            let head = header(ifindex, id.to_u32(), parent.to_u32(), 0);
            Message::with_header(tried, NEW_CLASS, create, &head)
        }
        Place::Filter { parent, prio, protocol, handle, .. } => {
            let exclusive = if how == How::Create { flags::EXCL } else { 0 };
            // u32's hash table gets its number from the kernel.
            let fresh = seen.kind == "u32" && how == How::Create;
            let handle = if fresh { handle & 0xfff } else { handle };
            let head = header(ifindex, handle, parent.to_u32(), order(prio, protocol));
            Message::with_header(tried, NEW_FILTER, create | exclusive, &head)
        }
    };
    named(&mut message, seen.place, &seen.kind);
    raw::write(message.attrs(), &seen.raw);
    message
}

fn removal(place: Place, kind: &str, ifindex: u32, tried: String) -> Message {
    let (message, head) = match place {
        Place::Qdisc { parent, handle } => {
            (DEL_QDISC, header(ifindex, handle.to_u32(), parent.to_u32(), 0))
        }
        Place::Class { parent, id } => {
            (DEL_CLASS, header(ifindex, id.to_u32(), parent.to_u32(), 0))
        }
        Place::Filter { parent, prio, protocol, handle, .. } => {
            (DEL_FILTER, header(ifindex, handle, parent.to_u32(), order(prio, protocol)))
        }
    };
    let mut message = Message::with_header(tried, message, 0, &head);
    if let Place::Filter { .. } = place {
        named(&mut message, place, kind);
    }
    message
}

fn named(message: &mut Message, place: Place, kind: &str) {
    message.attrs().str(TCA_KIND, kind);
    if let Place::Filter { chain: chain @ 1.., .. } = place {
        message.attrs().u32(TCA_CHAIN, chain);
    }
}

fn order(prio: u16, protocol: u16) -> u32 {
    (u32::from(prio) << 16) | u32::from(protocol.to_be())
}
