//! Options of queues and classes, between plain data and bytes.

use std::cell::RefCell;

use quell_tc::{ClassKind, Encoded, Handle, OptionError, Payload, Qdisc, Reported};

use crate::core::{Attr, AttrReader, AttrWriter, DecodeError};

/// Writes `TCA_OPTIONS`, if there is anything to say.
pub(super) fn write(w: &mut AttrWriter, options: Option<Encoded>) {
    let Some(Encoded { head, attrs, marked }) = options else { return };
    if attrs.is_empty() && !head.is_empty() {
        w.bytes(libc::TCA_OPTIONS, &head);
        return;
    }
    let inside = |w: &mut AttrWriter| {
        w.raw(&head);
        list(w, &attrs);
    };
    if marked {
        w.nested(libc::TCA_OPTIONS, inside)
    } else {
        w.nested_plain(libc::TCA_OPTIONS, inside)
    };
}

fn list(w: &mut AttrWriter, attrs: &[(u16, Payload)]) {
    for (number, payload) in attrs {
        match payload {
            Payload::Bytes(bytes) => w.bytes(*number, bytes),
            Payload::List(inner) => w.nested(*number, |w| list(w, inner)),
        };
    }
}

/// Reads a queue's `TCA_OPTIONS`; `None` for kinds that we do not know.
pub(super) fn qdisc(
    kind: &str,
    handle: Handle,
    options: Option<Attr<'_>>,
) -> Result<Option<Qdisc>, DecodeError> {
    match options {
        Some(options) => read(handle, options, |reported| Qdisc::decode(kind, reported)),
        None => Ok(Qdisc::from_kind(kind)),
    }
}

/// Reads a class's `TCA_OPTIONS`; `None` for kinds whose classes we do not know.
pub(super) fn class(
    kind: &str,
    options: Option<Attr<'_>>,
) -> Result<Option<ClassKind>, DecodeError> {
    let Some(options) = options else { return Ok(None) };
    read(Handle::default(), options, |reported| ClassKind::decode(kind, reported))
}

fn read<T>(
    handle: Handle,
    options: Attr<'_>,
    decode: impl FnOnce(&Reported<'_>) -> Result<T, OptionError>,
) -> Result<T, DecodeError> {
    // The walk ends at a wrong length; that it did is told afterwards.
    let broken = RefCell::new(None);
    let split = |payload| {
        let mut list = Vec::new();
        for attr in AttrReader::new(payload) {
            match attr {
                Ok(attr) => list.push((attr.kind, attr.payload)),
                Err(error) => drop(broken.replace(Some(error))),
            }
        }
        list
    };
    let read = decode(&Reported::new(handle, options.payload, &split));
    match broken.take() {
        Some(error) => Err(error),
        None => read.map_err(DecodeError::from),
    }
}

impl From<OptionError> for DecodeError {
    fn from(error: OptionError) -> Self {
        match error {
            OptionError::Length(kind, wanted, got) => {
                DecodeError::AttributeLength { kind, wanted, got }
            }
            OptionError::Cut(what, wanted, got) => DecodeError::Truncated { what, wanted, got },
            OptionError::Missing(what) => DecodeError::Missing { what },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quell_tc::observed::{ObservedClass, ObservedQdisc, Raw, Snapshot, Stats};
    use quell_tc::{Step, Tree};

    use super::*;

    const CASES: &str = include_str!("../../tests/goldens/cases.toml");

    /// What is sent, as what a kernel would show that keeps it as it is.
    fn kept(options: Option<Encoded>) -> Vec<u8> {
        let mut writer = AttrWriter::new();
        write(&mut writer, options);
        writer.as_bytes().to_vec()
    }

    #[test]
    fn what_is_sent_for_every_golden_is_read_back_as_it_was_asked_for() {
        let mut cases: BTreeMap<String, Tree> = toml::from_str(CASES).unwrap();
        // On cells, and beyond what 32 bits hold, the kernel works the bucket out by itself.
        cases.retain(|name, _| !["tbf-atm", "tbf-fast"].contains(&name.as_str()));
        let (ifindex, stats, extra) = (1, Stats::default(), None);
        let raw = Raw { options: Some(Vec::new()), ..Raw::default() };
        let mut fields = 0;
        for (name, tree) in &cases {
            let mut plan = tree.plan().unwrap();
            plan.steps.retain(|step| matches!(step, Step::Qdisc { .. } | Step::Class { .. }));
            let mut seen = Snapshot::default();
            for step in plan.steps.clone() {
                match step {
                    Step::Qdisc { parent, handle, qdisc: asked } => {
                        let (bytes, kind) =
                            (kept(asked.encode().unwrap()), asked.kind().to_owned());
                        let attr = AttrReader::new(&bytes).find(libc::TCA_OPTIONS).unwrap();
                        let options = qdisc(&kind, handle, attr).unwrap();
                        fields += asked.fields().len();
                        let (extra, raw) = (extra.clone(), raw.clone());
                        let one = ObservedQdisc {
                            ifindex,
                            handle,
                            parent,
                            kind,
                            options,
                            stats,
                            extra,
                            raw,
                        };
                        seen.qdiscs.push(one);
                    }
                    Step::Class { parent, id, kind: asked } => {
                        let (bytes, kind) =
                            (kept(asked.encode().unwrap()), asked.name().to_owned());
                        let attr = AttrReader::new(&bytes).find(libc::TCA_OPTIONS).unwrap();
                        let options = class(&kind, attr).unwrap();
                        fields += asked.fields().len();
                        let (leaf, extra, raw) = (None, extra.clone(), raw.clone());
                        let one = ObservedClass {
                            ifindex,
                            id,
                            parent,
                            leaf,
                            kind,
                            options,
                            stats,
                            extra,
                            raw,
                        };
                        seen.classes.push(one);
                    }
                    _ => {}
                }
            }
            assert_eq!(
                quell_tc::changes(&plan.things(), quell_tc::Places::of(&plan), &seen),
                [],
                "{name}"
            );
        }
        assert!(fields > 150, "only {fields} options were tried");
    }
}
