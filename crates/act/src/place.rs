//! Where something is, whatever the kernel or a person calls it.

use quell_tc::{Handle, Place};

/// A place without what the kernel makes up: u32's hash table is numbered as it comes.
pub(crate) fn settled(mut place: Place, kind: &str) -> Place {
    if let (Place::Filter { handle, .. }, "u32") = (&mut place, kind) {
        *handle &= 0xfff;
    }
    place
}

/// Whether a thing hangs on the way in.
pub(crate) fn is_hook(place: Place) -> bool {
    match place {
        Place::Qdisc { parent, .. } => parent == Handle::INGRESS,
        Place::Class { .. } => false,
        Place::Filter { parent, .. } => parent.major == u16::MAX,
    }
}

/// Whether two are the same interface: by their numbers, where both have one.
pub(crate) fn same_device(a: (&str, Option<u32>), b: (&str, Option<u32>)) -> bool {
    match (a.1, b.1) {
        (Some(a), Some(b)) => a == b,
        _ => a.0 == b.0,
    }
}
