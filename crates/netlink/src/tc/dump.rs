//! Reading an interface's queues, classes and filters.

use std::collections::BTreeMap;

use nix::errno::Errno;
use quell_tc::observed::{ObservedClass, ObservedFilter, ObservedQdisc, Snapshot};
use quell_tc::{Handle, Protocol};

use super::message::header;
use super::names::{self, Names};
use super::{decode_filter, decode_stats, options, raw};
use crate::core::{DecodeError, Message, NetlinkError, Reply, Socket, flags};

/// All that an interface has: queues, classes, and the filters of each place where filters can hang.
pub fn snapshot(socket: &mut Socket, ifindex: u32) -> Result<Snapshot, NetlinkError> {
    let qdiscs = dump_qdiscs(socket, ifindex)?;
    let classes = dump_classes(socket, ifindex)?;
    let mut places = Vec::new();
    for qdisc in &qdiscs {
        match qdisc.kind.as_str() {
            "clsact" => places.extend([Handle::CLSACT_INGRESS, Handle::CLSACT_EGRESS]),
            "ingress" => places.push(Handle::INGRESS_QDISC),
            _ if qdisc.handle.major != 0 => places.push(qdisc.handle),
            _ => {}
        }
    }
    let names = names::of(socket)?;
    let mut filters = Vec::new();
    for place in places {
        filters.extend(filters_at(socket, ifindex, place, &names)?);
    }
    // Only classes of these kinds have filters of their own; asking others for them gives the queue's again. Nearly all have none.
    let nested = classes.iter().filter(|class| matches!(class.kind.as_str(), "htb" | "hfsc"));
    let nested: Vec<Handle> = nested.map(|class| class.id).filter(|id| !id.is_qdisc()).collect();
    let ask = |place: &Handle| list("filters", libc::RTM_GETTFILTER, ifindex, place.to_u32());
    let questions: Vec<Message> = nested.iter().map(ask).collect();
    let mut readings: BTreeMap<usize, Filters> = BTreeMap::new();
    socket.dump_all(&questions, |table, reply| {
        let (parent, names) = (nested[table], &names);
        let reading = readings.entry(table).or_insert_with(|| Filters::at(parent));
        reading.take(reply, ifindex, names)
    })?;
    filters.extend(readings.into_values().flat_map(Filters::all));
    Ok(Snapshot { qdiscs, classes, filters })
}

/// The queues of an interface, also those that the kernel made by itself (their handle is `0:`).
pub fn dump_qdiscs(socket: &mut Socket, ifindex: u32) -> Result<Vec<ObservedQdisc>, NetlinkError> {
    let mut found = Vec::new();
    each(socket, "queues", libc::RTM_GETQDISC, ifindex, 0, |reply| {
        found.extend(qdisc(reply, ifindex)?);
        Ok(())
    })?;
    Ok(found)
}

fn qdisc(reply: &Reply, ifindex: u32) -> Result<Option<ObservedQdisc>, DecodeError> {
    let Some((head, kind, attrs)) = ours(reply, ifindex)? else { return Ok(None) };
    let (stats, extra) = decode_stats::of(kind, &attrs)?;
    Ok(Some(ObservedQdisc {
        ifindex,
        handle: head.handle,
        parent: head.parent,
        kind: kind.to_owned(),
        options: options::qdisc(kind, head.handle, attrs.find(libc::TCA_OPTIONS)?)?,
        stats,
        extra,
        raw: raw::of_qdisc(kind, &attrs)?,
    }))
}

/// The queues of all interfaces, in one reading.
pub fn dump_all_qdiscs(socket: &mut Socket) -> Result<Vec<ObservedQdisc>, NetlinkError> {
    let mut found = Vec::new();
    let message =
        Message::with_header("list the queues", libc::RTM_GETQDISC, 0, &header(0, 0, 0, 0));
    socket.dump(&message, |reply| {
        let (head, ..) = reply.split::<20>()?;
        let ifindex = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
        found.extend(qdisc(reply, ifindex)?);
        Ok(())
    })?;
    Ok(found)
}

/// The classes of an interface, also those that are only flows inside a queue.
pub fn dump_classes(socket: &mut Socket, ifindex: u32) -> Result<Vec<ObservedClass>, NetlinkError> {
    let mut found = Vec::new();
    each(socket, "classes", libc::RTM_GETTCLASS, ifindex, 0, |reply| {
        found.extend(class(reply, ifindex)?);
        Ok(())
    })?;
    Ok(found)
}

fn class(reply: &Reply, ifindex: u32) -> Result<Option<ObservedClass>, DecodeError> {
    let Some((head, kind, attrs)) = ours(reply, ifindex)? else { return Ok(None) };
    let (stats, extra) = decode_stats::of(kind, &attrs)?;
    Ok(Some(ObservedClass {
        ifindex,
        id: head.handle,
        parent: head.parent,
        leaf: (head.info != 0).then(|| Handle::from_u32(head.info)),
        kind: kind.to_owned(),
        options: options::class(kind, attrs.find(libc::TCA_OPTIONS)?)?,
        stats,
        extra,
        raw: raw::of_class(kind, &attrs)?,
    }))
}

/// One class of an interface and the queue in it, without looking at the others; nothing where it is not there. Filters in them are not read.
pub fn one_class(socket: &mut Socket, ifindex: u32, id: Handle) -> Result<Snapshot, NetlinkError> {
    let classes = one(socket, libc::RTM_GETTCLASS, (ifindex, id, Handle::from_u32(0)), class)?;
    // Below a class that is not there the kernel finds no queue.
    let inside = (ifindex, Handle::from_u32(0), id);
    let qdiscs = if classes.is_empty() {
        Vec::new()
    } else {
        one(socket, libc::RTM_GETQDISC, inside, qdisc)?
    };
    Ok(Snapshot { qdiscs, classes, filters: Vec::new() })
}

/// The queue in one class of an interface; none where there is no such class, or nothing in it.
pub fn queue_in(
    socket: &mut Socket,
    ifindex: u32,
    class: Handle,
) -> Result<Option<ObservedQdisc>, NetlinkError> {
    let inside = (ifindex, Handle::from_u32(0), class);
    Ok(one(socket, libc::RTM_GETQDISC, inside, qdisc)?.pop())
}

/// One entry of a table, by interface, handle and parent.
fn one<T>(
    socket: &mut Socket,
    kind: u16,
    (ifindex, handle, parent): (u32, Handle, Handle),
    decode: impl Fn(&Reply, u32) -> Result<Option<T>, DecodeError>,
) -> Result<Vec<T>, NetlinkError> {
    let which = if handle.to_u32() == 0 { parent } else { handle };
    let tried = format!("look at {which} of interface {ifindex}");
    let head = header(ifindex, handle.to_u32(), parent.to_u32(), 0);
    // Without it only who listens to all changes is told (`tclass_notify`, `qdisc_notify` in net/sched/sch_api.c).
    let ask = Message::with_header(tried.clone(), kind, flags::ECHO, &head);
    let replies = match socket.request(&ask) {
        Err(error) if error.errno() == Some(Errno::ENOENT) => return Ok(Vec::new()),
        other => other?,
    };
    let found = replies.iter().filter_map(|reply| decode(reply, ifindex).transpose());
    found.collect::<Result<_, _>>().map_err(|error| NetlinkError::answer(tried, error))
}

/// The filters of one queue, class or hook of an interface, in the order in which they are tried.
pub fn dump_filters(
    socket: &mut Socket,
    ifindex: u32,
    parent: Handle,
) -> Result<Vec<ObservedFilter>, NetlinkError> {
    let names = names::of(socket)?;
    filters_at(socket, ifindex, parent, &names)
}

fn filters_at(
    socket: &mut Socket,
    ifindex: u32,
    parent: Handle,
    names: &dyn Names,
) -> Result<Vec<ObservedFilter>, NetlinkError> {
    let mut reading = Filters::at(parent);
    each(socket, "filters", libc::RTM_GETTFILTER, ifindex, parent.to_u32(), |reply| {
        reading.take(reply, ifindex, names)
    })?;
    Ok(reading.all())
}

/// The filters of one place, while they are read.
struct Filters {
    parent: Handle,
    found: Vec<ObservedFilter>,
    /// u32's hash tables of each priority.
    tables: BTreeMap<u16, u32>,
}

impl Filters {
    fn at(parent: Handle) -> Self {
        Filters { parent, found: Vec::new(), tables: BTreeMap::new() }
    }

    fn take(&mut self, reply: &Reply, ifindex: u32, names: &dyn Names) -> Result<(), DecodeError> {
        let Some((head, kind, attrs)) = ours(reply, ifindex)? else { return Ok(()) };
        // Each kind also reports itself as such, with handle 0, and u32 its hash tables.
        let options = attrs.find(libc::TCA_OPTIONS)?;
        let table = kind == "u32" && head.handle.to_u32() & 0xfff == 0;
        if table && head.handle.to_u32() != 0 {
            *self.tables.entry((head.info >> 16) as u16).or_default() += 1;
        }
        let itself = head.handle.to_u32() == 0 && kind != "fw" && kind != "matchall";
        let bare = options.is_none_or(|options| options.payload.is_empty());
        if table || itself || (bare && head.handle.to_u32() == 0) {
            return Ok(());
        }
        let filter_head = decode_filter::FilterHeader {
            handle: head.handle.to_u32(),
            prio: (head.info >> 16) as u16,
            protocol: Protocol(u16::from_be(head.info as u16)),
        };
        self.found.push(ObservedFilter {
            ifindex,
            parent: self.parent,
            kind: kind.to_owned(),
            prio: filter_head.prio,
            protocol: filter_head.protocol,
            chain: attrs
                .find(super::message::TCA_CHAIN)?
                .map(|attr| attr.u32())
                .transpose()?
                .unwrap_or(0),
            handle: filter_head.handle,
            filter: decode_filter::filter(kind, &filter_head, options, names)?,
            program: decode_filter::number(options, [("bpf", 11)], kind)?,
            link: decode_filter::number(options, [("u32", 3)], kind)?.map(|table| table >> 20),
            flags: decode_filter::number(options, raw::FLAGS, kind)?.unwrap_or(0),
            raw: raw::of_filter(kind, options)?,
        });
        Ok(())
    }

    fn all(mut self) -> Vec<ObservedFilter> {
        // Each priority has a table of its own; more are somebody's, and can't be made again one by one.
        for filter in self.found.iter_mut().filter(|f| f.kind == "u32") {
            if self.tables.get(&filter.prio).is_some_and(|tables| *tables > 1) {
                filter.raw.hidden.get_or_insert_with(|| "its hash tables".to_owned());
            }
        }
        self.found
    }
}

fn each(
    socket: &mut Socket,
    what: &str,
    kind: u16,
    ifindex: u32,
    parent: u32,
    each: impl FnMut(&Reply) -> Result<(), DecodeError>,
) -> Result<(), NetlinkError> {
    socket.dump(&list(what, kind, ifindex, parent), each)
}

fn list(what: &str, kind: u16, ifindex: u32, parent: u32) -> Message {
    let tried = format!("list the {what} of interface {ifindex}");
    Message::with_header(tried, kind, 0, &header(ifindex, 0, parent, 0))
}

/// `struct tcmsg` of an answer.
struct TcHeader {
    handle: Handle,
    parent: Handle,
    info: u32,
}

type TcParts<'a> = (TcHeader, &'a str, crate::core::AttrReader<'a>);

/// An answer's parts, if it is about this interface: the kernel lists the queues of all.
fn ours(reply: &Reply, ifindex: u32) -> Result<Option<TcParts<'_>>, DecodeError> {
    let (head, attrs) = reply.split::<20>()?;
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if word(4) != ifindex {
        return Ok(None);
    }
    let kind = attrs
        .find(libc::TCA_KIND)?
        .ok_or(DecodeError::Missing { what: "libc::TCA_KIND" })?
        .str()?;
    let head = TcHeader {
        handle: Handle::from_u32(word(8)),
        parent: Handle::from_u32(word(12)),
        info: word(16),
    };
    Ok(Some((head, kind, attrs)))
}

/// Takes any attributes for those of queues, classes and filters of every kind.
#[cfg(any(test, feature = "hostile"))]
pub(crate) fn decode_as_everything(attrs: &[u8]) {
    let names = super::fixed_names(&[]);
    let head = decode_filter::FilterHeader { handle: 1, prio: 1, protocol: Protocol::ALL };
    let attrs = crate::core::AttrReader::new(attrs);
    for attr in attrs.clone() {
        let Ok(attr) = attr else { return };
        let options = Some(attr);
        for kind in quell_tc::Qdisc::KINDS {
            let _ = super::options::qdisc(kind, Handle::qdisc(1), options);
            let _ = super::options::class(kind, options);
            let _ = decode_stats::of(kind, &attrs);
        }
        for kind in quell_tc::FilterKind::KINDS {
            let _ = decode_filter::filter(kind, &head, options, &names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::AttrWriter;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_answer_makes_the_decoders_panic(
            kind in 0u16..30,
            payload in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            // Once as the options themselves, once as an attribute inside them.
            let mut writer = AttrWriter::new();
            writer.bytes(libc::TCA_OPTIONS, &payload);
            writer.nested(libc::TCA_OPTIONS, |w| { w.bytes(kind, &payload); });
            writer.bytes(4, &payload);
            decode_as_everything(writer.as_bytes());
        }
    }
}
