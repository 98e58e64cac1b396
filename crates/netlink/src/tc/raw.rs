//! Queues, classes and filters byte for byte, so that they can be made again: what the kernel shows, without counters and times, and
//! without what it takes from nobody.

use quell_tc::classify::is_of_another_version;
use quell_tc::observed::Raw;
use quell_tc::{Filter, Place, Protocol, Seen, Step};

use super::decode_filter::named;
use crate::core::{Attr, AttrReader, AttrWriter, DecodeError};

pub(super) fn of_qdisc(kind: &str, attrs: &AttrReader<'_>) -> Result<Raw, DecodeError> {
    let mut raw = plain(attrs)?;
    if let Some(options) = &mut raw.options {
        match kind {
            "htb" => *options = rewrite(options, |attr| (attr.kind == 2).then(|| htb(attr)))?,
            "codel" => *options = rewrite(options, |attr| settled(attr, &[1, 3, 5]))?,
            "fq_codel" => *options = rewrite(options, |attr| settled(attr, &[1, 3, 7]))?,
            "sfq" => raw.hidden = sfq(options),
            // The one kind that shows no mark and asks for one.
            "ets" => raw.marked = true,
            "netem" if has_distribution(options)? => {
                raw.hidden = Some("its table of delays, if it has one".into());
            }
            _ => {}
        }
    }
    if let Some(stab) = attrs.find(libc::TCA_STAB)? {
        let base = stab.nested().find(1)?.map(|attr| attr.payload).unwrap_or_default();
        // `tsize` of `struct tc_sizespec`.
        if base.get(20..24).is_some_and(|size| size != [0; 4]) {
            raw.hidden = Some("its table of packet sizes".into());
        }
        raw.stab = Some(stab.payload.to_vec());
    }
    // `TCA_INGRESS_BLOCK`, `TCA_EGRESS_BLOCK`.
    for block in [13, 14] {
        if attrs.find(block)?.is_some() {
            raw.hidden = Some("the filters that it shares with other interfaces".into());
        }
    }
    Ok(raw)
}

/// `struct tc_htb_glob`: the kernel shows its version whole and takes the major part alone (`htb_init`, net/sched/sch_htb.c); the last
/// word counts packets.
fn htb(attr: Attr<'_>) -> Vec<u8> {
    let mut bytes = zeroed(attr, &[4]);
    let version = word(&bytes, 0);
    if let (Some(first), 0x1_0000..) = (bytes.first_chunk_mut::<4>(), version) {
        *first = (version >> 16).to_ne_bytes();
    }
    bytes
}

/// A time in µs that the kernel keeps in units of 1024 ns (`CODEL_SHIFT`), and rounds down on the way in and out: the one that leads to
/// what it has.
fn settled(attr: Attr<'_>, times: &[u16]) -> Option<Vec<u8>> {
    if !times.contains(&attr.kind) {
        return None;
    }
    let us = u64::from(attr.u32().ok()?);
    let kept = (us * 1000) >> 10;
    let us = if (kept << 10) / 1000 == us { us } else { us + 1 };
    Some((us as u32).to_ne_bytes().to_vec())
}

/// `struct tc_sfq_qopt_v1`: counters at its end. Where a limit is given the kernel takes no more flows than that (`sfq_change`,
/// net/sched/sch_sfq.c), so more flows than packets were asked for without one: then it has its usual limit, and is asked for as it was.
/// What is hidden is which of two changes came first.
fn sfq(options: &mut [u8]) -> Option<String> {
    const USUAL_LIMIT: u32 = 127;
    if let Some(stats) = options.get_mut(48..72) {
        stats.fill(0);
    }
    let (limit, flows) = (word(options, 2), word(options, 4));
    if flows <= limit {
        return None;
    }
    if limit != USUAL_LIMIT {
        return Some("that its limit was set before its flows, in two steps".into());
    }
    if let Some(place) = options.get_mut(8..12) {
        place.fill(0);
    }
    None
}

pub(super) fn of_class(kind: &str, attrs: &AttrReader<'_>) -> Result<Raw, DecodeError> {
    let mut raw = plain(attrs)?;
    if let (Some(options), "htb") = (&mut raw.options, kind) {
        // `level` of `struct tc_htb_opt` follows from the classes below.
        *options = rewrite(options, |attr| (attr.kind == 1).then(|| zeroed(attr, &[9])))?;
    }
    Ok(raw)
}

fn plain(attrs: &AttrReader<'_>) -> Result<Raw, DecodeError> {
    let options = attrs.find(libc::TCA_OPTIONS)?;
    Ok(Raw {
        marked: options.is_some_and(|attr| attr.marked),
        options: options.map(|attr| attr.payload.to_vec()),
        ..Raw::default()
    })
}

/// What netem waits for can come from a table, which the kernel takes and never shows (`netem_dump`, net/sched/sch_netem.c).
fn has_distribution(options: &[u8]) -> Result<bool, DecodeError> {
    const QOPT: usize = 24;
    let zero = |bytes: Option<&[u8]>| bytes.unwrap_or_default().iter().all(|byte| *byte == 0);
    let attrs = AttrReader::new(options.get(QOPT..).unwrap_or_default());
    let find = |kind| Ok::<_, DecodeError>(attrs.find(kind)?.map(|attr| attr.payload));
    let (jitter, jitter64, slot) = (options.get(20..24), find(11)?, find(12)?);
    Ok(!(zero(jitter) && zero(jitter64) && zero(slot.and_then(|slot| slot.get(24..)))))
}

/// A filter's kind: where its actions are, what of its attributes counts, and where its flags are.
struct AttrShape {
    actions: u16,
    counts: &'static [u16],
    flags: u16,
}

/// Where each kind has its flags: `TCA_U32_FLAGS` and so on.
pub(super) const FLAGS: [(&str, u16); 4] =
    [("u32", 11), ("flower", 22), ("matchall", 3), ("bpf", 9)];

/// `TCA_*` of `include/uapi/linux/pkt_cls.h`.
fn shape(kind: &str) -> Option<AttrShape> {
    let (actions, counts): (u16, &'static [u16]) = match kind {
        // The hash table is named by the kernel.
        "u32" => (7, &[2, 9, 12]),
        "flower" => (3, &[86]),
        "matchall" => (2, &[4, 5]),
        "fw" => (4, &[]),
        "flow" => (9, &[]),
        "bpf" => (1, &[10, 11]),
        "basic" => (3, &[5, 6]),
        _ => return None,
    };
    let flags = FLAGS.iter().find(|(own, _)| *own == kind).map_or(0, |(_, attr)| *attr);
    Some(AttrShape { actions, counts, flags })
}

pub(super) fn of_filter(kind: &str, options: Option<Attr<'_>>) -> Result<Raw, DecodeError> {
    let Some(options) = options else { return Ok(Raw::default()) };
    let mut raw = Raw { marked: options.marked, ..Raw::default() };
    let Some(shape) = shape(kind) else {
        raw.options = Some(options.payload.to_vec());
        return Ok(raw);
    };
    let f = options.nested();
    if kind == "u32" && f.find(3)?.is_some() {
        raw.hidden = Some("its hash tables".into());
    }
    let program = match kind {
        "bpf" if f.find(5)?.is_none() => Some(whose(&f)?),
        _ => None,
    };
    raw.hidden = match program {
        Some(Whose::Theirs) => Some("its program, which only its loader has".into()),
        Some(Whose::OfAnotherVersion) => {
            Some("its program, which only the version of Quell that made it has".into())
        }
        Some(Whose::Ours) | None => raw.hidden,
    };
    let told_by_program = matches!(program, Some(Whose::Ours | Whose::OfAnotherVersion));
    let mut w = AttrWriter::new();
    for attr in f {
        let attr = attr?;
        if shape.counts.contains(&attr.kind) {
            // Which program it is counts where it is taken for Quell's, since anybody may call his so.
            if told_by_program && attr.kind == bpf::TAG {
                copy(&mut w, attr);
            }
            continue;
        }
        if attr.kind == shape.flags && shape.flags != 0 {
            // What people give: `SKIP_HW`, `SKIP_SW`, `VERBOSE`. The rest tells what the hardware did.
            let given = attr.u32()? & 0b1_0011;
            if given != 0 {
                w.u32(attr.kind, given);
            }
        } else if attr.kind == shape.actions {
            actions(&mut w, attr, &mut raw)?;
        } else if kind == "u32" && attr.kind == 10 {
            // `success` of `struct tc_u32_mark`.
            w.bytes(attr.kind, &zeroed(attr, &[2]));
        } else {
            copy(&mut w, attr);
        }
    }
    raw.options = Some(w.as_bytes().to_vec());
    Ok(raw)
}

/// `TCA_BPF_*`.
mod bpf {
    /// The kernel's hash of a program.
    pub const TAG: u16 = 10;
}

/// Whose program it is, by its name.
enum Whose {
    /// A classifier of ours, in whose name all stands that is needed to load it again.
    Ours,
    /// One that another version of Quell made: known again, and taken off, but not loaded.
    OfAnotherVersion,
    Theirs,
}

fn whose(f: &AttrReader<'_>) -> Result<Whose, DecodeError> {
    let name = f.find(7)?.map(|attr| attr.str()).transpose()?.unwrap_or_default();
    Ok(match named(name) {
        Some(_) => Whose::Ours,
        None if is_of_another_version(name) => Whose::OfAnotherVersion,
        None => Whose::Theirs,
    })
}

/// A classifier of ours among things that were seen, as the step that makes it again.
pub fn classifier(seen: &Seen) -> Option<Step> {
    let Place::Filter { parent, chain: 0, prio, protocol, handle } = seen.place else {
        return None;
    };
    let attrs = AttrReader::new(seen.raw.options.as_deref()?);
    if seen.kind != "bpf" || attrs.find(5).ok()?.is_some() {
        return None;
    }
    let kind = named(attrs.find(7).ok()??.str().ok()?)?;
    let filter = Filter {
        protocol: Protocol(protocol),
        prio: Some(prio),
        handle: Some(handle).filter(|handle| *handle != 0),
        ..Filter::new(kind, None)
    };
    Some(Step::Filter { parent, filter })
}

fn actions(w: &mut AttrWriter, list: Attr<'_>, raw: &mut Raw) -> Result<(), DecodeError> {
    let mut inside = AttrWriter::new();
    for one in list.nested() {
        let one = one?;
        let mut written = AttrWriter::new();
        action(&mut written, one.nested(), raw)?;
        inside.bytes(flagged(one), written.as_bytes());
    }
    w.bytes(flagged(list), inside.as_bytes());
    Ok(())
}

/// `TCA_ACT_*`: the kernel's number, statistics and what the hardware did are left out.
fn action(w: &mut AttrWriter, attrs: AttrReader<'_>, raw: &mut Raw) -> Result<(), DecodeError> {
    let kind = attrs.find(1)?.map(|attr| attr.str()).transpose()?.unwrap_or_default().to_owned();
    // Where the parameters and the times are: `TCA_GACT_*`, `TCA_CSUM_*` and so on.
    let (parms, times) = match kind.as_str() {
        "csum" | "connmark" | "nat" => (1, 2),
        "police" => (1, 6),
        "pedit" => (4, 1),
        _ => (2, 1),
    };
    if kind == "police" {
        raw.hidden = Some("its policer's table of rates".into());
    }
    if kind == "bpf" {
        raw.hidden = Some("its action's program".into());
    }
    for attr in attrs {
        let attr = attr?;
        match attr.kind {
            1 | 6 | 8 => copy(w, attr),
            2 => {
                let mut inside = AttrWriter::new();
                for one in attr.nested() {
                    let one = one?;
                    if one.kind == times {
                        continue;
                    }
                    if one.kind != parms {
                        copy(&mut inside, one);
                        continue;
                    }
                    // `struct tc_gen`: index, capabilities, verdict, references, bindings. A policer's are elsewhere.
                    let own: &[usize] = if kind == "police" { &[0, 11, 12] } else { &[0, 3, 4] };
                    let bindings = word(one.payload, own[2]);
                    if bindings > 1 {
                        raw.hidden = Some("an action that it shares with other filters".into());
                    }
                    if kind == "mirred" && aims_at_nothing(attr, one.payload)? {
                        raw.hidden =
                            Some("where it sent packets, an interface that is gone".into());
                        raw.aims_at_nothing = true;
                    }
                    inside.bytes(flagged(one), &zeroed(one, own));
                }
                w.bytes(flagged(attr), inside.as_bytes());
            }
            _ => {}
        }
    }
    Ok(())
}

/// `struct tc_mirred`: the kernel shows interface 0 for one that went (`tcf_mirred_dump`, net/sched/act_mirred.c), and for a block of
/// several (`TCA_MIRRED_BLOCKID`).
fn aims_at_nothing(options: Attr<'_>, mirred: &[u8]) -> Result<bool, DecodeError> {
    Ok(word(mirred, 6) == 0 && options.nested().find(4)?.is_none())
}

fn word(bytes: &[u8], index: usize) -> u32 {
    let word = bytes.get(index * 4..).and_then(|rest| rest.first_chunk::<4>());
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

/// A struct with these 32-bit words zero.
fn zeroed(attr: Attr<'_>, words: &[usize]) -> Vec<u8> {
    let mut bytes = attr.payload.to_vec();
    for index in words {
        if let Some(word) = bytes.get_mut(index * 4..index * 4 + 4) {
            word.fill(0);
        }
    }
    bytes
}

/// Attributes with the payloads of some replaced.
fn rewrite(
    bytes: &[u8],
    replaced: impl Fn(Attr<'_>) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, DecodeError> {
    let mut w = AttrWriter::new();
    for attr in AttrReader::new(bytes) {
        let attr = attr?;
        match replaced(attr) {
            Some(payload) => drop(w.bytes(flagged(attr), &payload)),
            None => copy(&mut w, attr),
        }
    }
    Ok(w.as_bytes().to_vec())
}

fn copy(w: &mut AttrWriter, attr: Attr<'_>) {
    w.bytes(flagged(attr), attr.payload);
}

/// The attribute's number with its flag.
fn flagged(attr: Attr<'_>) -> u16 {
    if attr.marked { attr.kind | libc::NLA_F_NESTED as u16 } else { attr.kind }
}

/// Writes options and size table as they were shown.
pub(super) fn write(w: &mut AttrWriter, raw: &Raw) {
    if let Some(options) = &raw.options {
        w.bytes(
            if raw.marked {
                libc::TCA_OPTIONS | libc::NLA_F_NESTED as u16
            } else {
                libc::TCA_OPTIONS
            },
            options,
        );
    }
    if let Some(stab) = &raw.stab {
        w.bytes(libc::TCA_STAB | libc::NLA_F_NESTED as u16, stab);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_tc::Handle;

    /// `struct tc_sfq_qopt_v1` as a kernel shows it.
    fn shown(limit: u32, flows: u32) -> Vec<u8> {
        let words = [1514, 0, limit, 1024, flows, 127, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9];
        words.into_iter().flat_map(u32::to_ne_bytes).collect()
    }

    #[test]
    fn a_classifiers_name_with_another_program_behind_it_is_another_filter() {
        let raw = |name: &str, tag: [u8; 8]| {
            let mut w = AttrWriter::new();
            w.nested(libc::TCA_OPTIONS, |w| {
                w.str(7, name).bytes(bpf::TAG, &tag).u32(11, 42);
            });
            let attrs = AttrReader::new(w.as_bytes());
            of_filter("bpf", attrs.find(libc::TCA_OPTIONS).unwrap()).unwrap()
        };
        let ours = "quell2 src=2 idle=1min at=2:1 by=1,1,0 rest=2:3";
        let (one, other) = (raw(ours, [1; 8]), raw(ours, [2; 8]));
        assert_eq!((&one.hidden, &other.hidden), (&None, &None));
        assert_ne!(one.fingerprint(), other.fingerprint());
        // Of programs that nobody here can load the name says all that there is.
        assert!(raw("theirs", [1; 8]).hidden.is_some());
        assert_eq!(raw("theirs", [1; 8]), raw("theirs", [2; 8]));
        // That of another version is known again by its program, and can't be loaded.
        let older = |tag| raw("quell1 src=2 idle=1min at=2:1 steps=1,1,0 other=2:3", tag);
        assert!(older([1; 8]).hidden.is_some_and(|why| why.contains("version of Quell")));
        assert_ne!(older([1; 8]).fingerprint(), older([2; 8]).fingerprint());
        let place =
            Place::Filter { parent: Handle::qdisc(2), chain: 0, prio: 1, protocol: 3, handle: 1 };
        let seen = |raw| Seen { place, kind: "bpf".into(), raw };
        assert!(matches!(classifier(&seen(one)), Some(Step::Filter { .. })));
        assert_eq!(classifier(&seen(raw("theirs", [1; 8]))), None);
        assert_eq!(classifier(&seen(older([1; 8]))), None);
    }

    #[test]
    fn sfq_with_more_flows_than_packets_is_asked_for_as_it_was() {
        // Without a limit the kernel takes 512 flows; with one of 127 packets it would take 127.
        let mut options = shown(127, 512);
        assert_eq!(sfq(&mut options), None);
        assert_eq!((word(&options, 2), word(&options, 4)), (0, 512));
        let mut options = shown(127, 100);
        assert_eq!(sfq(&mut options), None);
        assert_eq!((word(&options, 2), word(&options, 4)), (127, 100));
        // That took two changes, and comes back by none.
        assert!(sfq(&mut shown(50, 512)).is_some());
    }
}
