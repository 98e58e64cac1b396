//! One [`Change`] as one netlink message.

use std::borrow::Borrow;

use quell_tc::{Change, Handle, Place, Seen, Thing};

use super::message::{How, Prepared, changeable, header, prepare};
use super::{Names, Root, names, raw};
use crate::core::{Message, NetlinkError, Socket, flags};

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
    all(socket, ifindex, changes, None)
}

/// The same, where the root queue is to be the one that was seen, and nobody's who has put it there since. `root` is what is there afterwards.
pub fn carry_all_out_over<C: Borrow<Change>>(
    socket: &mut Socket,
    ifindex: u32,
    changes: &[C],
    root: &mut Root,
) -> Result<(), (usize, NetlinkError)> {
    all(socket, ifindex, changes, Some(root))
}

fn all<C: Borrow<Change>>(
    socket: &mut Socket,
    ifindex: u32,
    changes: &[C],
    mut root: Option<&mut Root>,
) -> Result<(), (usize, NetlinkError)> {
    let names = names::of(socket).map_err(|error| (0, error))?;
    let changes: Vec<&Change> = changes.iter().map(Borrow::borrow).collect();
    let mut expected = root.as_deref().cloned();
    let prepared = |(number, change): (usize, &&Change)| {
        let how = how(change, expected.as_ref());
        if let Some(expected) = &mut expected {
            expected.changed(change);
        }
        ready(change, ifindex, &names, how).map_err(|error| (number, error))
    };
    let ready: Vec<Prepared> =
        changes.iter().enumerate().map(prepared).collect::<Result<_, _>>()?;
    let mut first = 0;
    while first < ready.len() {
        let many = changes[first..].iter().take_while(|change| is_inside(change)).count();
        let next = first + many.max(1);
        let some: Vec<&Message> = ready[first..next].iter().map(|ready| &ready.message).collect();
        if let Some(root) = &root {
            root.is_there(socket, ifindex, changes[first]).map_err(|error| (first, error))?;
        }
        socket.request_all(&some).map_err(|(number, error)| (first + number, error))?;
        if let Some(root) = &mut root {
            changes[first..next].iter().for_each(|change| root.changed(change));
        }
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

/// How something is made: a root queue alone, where the device's default is expected; what filters hang on on the way in always, since one that
/// is there stays.
fn how(change: &Change, expected: Option<&Root>) -> How {
    match (expected, change.place()) {
        (Some(expected), Place::Qdisc { parent: Handle::ROOT, .. }) if expected.is_default() => {
            How::CreateAlone
        }
        (Some(_), Place::Qdisc { parent: Handle::INGRESS, .. }) => How::CreateAlone,
        _ => How::Create,
    }
}

fn ready(
    change: &Change,
    ifindex: u32,
    names: &dyn Names,
    made: How,
) -> Result<Prepared, NetlinkError> {
    let device = names.name_of(ifindex).unwrap_or_else(|| format!("interface {ifindex}"));
    match change {
        Change::Make(Thing::Step(step)) => prepare(step, ifindex, names, made),
        Change::Alter(Thing::Step(step)) => {
            let step = changeable(step.clone());
            let nothing = || NetlinkError::invalid(format!("{change} on {device}"), "it can't be");
            prepare(&step.ok_or_else(nothing)?, ifindex, names, How::Change)
        }
        Change::Make(Thing::Seen(seen)) => {
            Ok(again(seen, ifindex, format!("{change} on {device}"), made).into())
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
    let create = if how == How::Change { 0 } else { flags::CREATE };
    let mut message = match seen.place {
        Place::Qdisc { parent, handle } => {
            let more = match how {
                How::Create => flags::REPLACE,
                How::CreateAlone => flags::EXCL,
                How::Change => 0,
            };
            let head = header(ifindex, handle.to_u32(), parent.to_u32(), 0);
            Message::with_header(tried, libc::RTM_NEWQDISC, create | more, &head)
        }
        Place::Class { parent, id } => {
            let head = header(ifindex, id.to_u32(), parent.to_u32(), 0);
            Message::with_header(tried, libc::RTM_NEWTCLASS, create, &head)
        }
        Place::Filter { parent, prio, protocol, handle, .. } => {
            let exclusive = if how == How::Change { 0 } else { flags::EXCL };
            // u32's hash table gets its number from the kernel.
            let fresh = seen.kind == "u32" && how != How::Change;
            let handle = if fresh { handle & 0xfff } else { handle };
            let head = header(ifindex, handle, parent.to_u32(), order(prio, protocol));
            Message::with_header(tried, libc::RTM_NEWTFILTER, create | exclusive, &head)
        }
    };
    named(&mut message, seen.place, &seen.kind);
    raw::write(message.attrs(), &seen.raw);
    message
}

fn removal(place: Place, kind: &str, ifindex: u32, tried: String) -> Message {
    let (message, head) = match place {
        Place::Qdisc { parent, handle } => {
            (libc::RTM_DELQDISC, header(ifindex, handle.to_u32(), parent.to_u32(), 0))
        }
        Place::Class { parent, id } => {
            (libc::RTM_DELTCLASS, header(ifindex, id.to_u32(), parent.to_u32(), 0))
        }
        Place::Filter { parent, prio, protocol, handle, .. } => {
            (libc::RTM_DELTFILTER, header(ifindex, handle, parent.to_u32(), order(prio, protocol)))
        }
    };
    let mut message = Message::with_header(tried, message, 0, &head);
    // A root queue of another kind is somebody else's: the kernel refuses it then.
    if matches!(place, Place::Filter { .. } | Place::Qdisc { parent: Handle::ROOT, .. }) {
        named(&mut message, place, kind);
    }
    message
}

fn named(message: &mut Message, place: Place, kind: &str) {
    message.attrs().str(libc::TCA_KIND, kind);
    if let Place::Filter { chain: chain @ 1.., .. } = place {
        message.attrs().u32(super::message::TCA_CHAIN, chain);
    }
}

fn order(prio: u16, protocol: u16) -> u32 {
    (u32::from(prio) << 16) | u32::from(protocol.to_be())
}
