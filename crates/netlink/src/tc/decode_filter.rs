//! Filters and actions, as the kernel reports them.

use std::net::IpAddr;

use quell_tc::rates::{bytes_in, read_rate};
use quell_tc::{
    Action, Bpf, BpfProgram, Exceed, Filter, FilterKind, Flow, FlowKey, FlowMode, Flower, Fw,
    Handle, IpProto, MacAddress, Masked, Match, Matchall, Police, Prefix, Protocol, Side, Skbedit,
    U32, classify,
};
use quell_units::{Bytes, Rate, Span};

use super::Names;
use super::encode_filter::verdict;
use crate::core::{Attr, AttrReader, DecodeError};

/// A filter's common part, from the message's header.
pub(super) struct FilterHeader {
    pub handle: u32,
    pub prio: u16,
    pub protocol: Protocol,
}

/// Reads `TCA_OPTIONS` of this kind; `None` for kinds and forms that we do not know (u32's hash tables, for one).
pub(super) fn filter(
    kind: &str,
    head: &FilterHeader,
    options: Option<Attr<'_>>,
    names: &dyn Names,
) -> Result<Option<Filter>, DecodeError> {
    let Some(options) = options else { return Ok(None) };
    let f = options.nested();
    let u32_of = |kind| f.find(kind)?.map(|attr: Attr<'_>| attr.u32()).transpose();
    let (kind, class, acts): (FilterKind, u16, u16) = match kind {
        "u32" => match f.find(5)? {
            Some(selector) => (U32 { r#match: matches(selector.payload) }.into(), 1, 7),
            None => return Ok(None),
        },
        "flow" => (flow(&f)?.into(), 0, 9),
        "fw" => (Fw { mask: u32_of(5)? }.into(), 1, 4),
        "matchall" => (Matchall {}.into(), 1, 2),
        "flower" => (flower(&f)?.into(), 1, 3),
        "bpf" => (bpf(&f)?, 3, 1),
        _ => return Ok(None),
    };
    let class = if class == 0 { None } else { u32_of(class)? };
    let mut actions = Vec::new();
    for attr in f.find(acts)?.map(|attr| attr.nested()).into_iter().flatten() {
        let attrs = attr?.nested();
        let kind =
            attrs.find(1)?.map(|kind| kind.str()).transpose()?.unwrap_or_default().to_owned();
        // What the filter matches, and its other actions, are known all the same.
        actions.push(action(attrs, names)?.unwrap_or(Action::Other(kind)));
    }
    Ok(Some(Filter {
        protocol: head.protocol,
        prio: Some(head.prio),
        handle: Some(head.handle),
        class: class.map(Handle::from_u32),
        kind,
        actions,
    }))
}

/// The keys behind `struct tc_u32_sel`, as raw matches.
fn matches(selector: &[u8]) -> Vec<Match> {
    let keys = selector.get(16..).unwrap_or_default().chunks_exact(16);
    keys.map(|key| {
        let word = |at: usize| [key[at], key[at + 1], key[at + 2], key[at + 3]];
        Match::Raw {
            width: 32,
            mask: u32::from_be_bytes(word(0)),
            value: u32::from_be_bytes(word(4)),
            at: i32::from_ne_bytes(word(8)),
            next_header: word(12) != [0; 4],
        }
    })
    .collect()
}

fn flow(f: &AttrReader<'_>) -> Result<Flow, DecodeError> {
    let get = |kind| f.find(kind)?.map(|attr: Attr<'_>| attr.u32()).transpose();
    let bits = get(1)?.unwrap_or(0);
    let keys = FlowKey::ALL.iter().filter(|key| bits & (1 << **key as u32) != 0).copied().collect();
    let mode = if get(2)? == Some(1) { FlowMode::Hash } else { FlowMode::Map };
    let (mask, xor) = (get(6)?.unwrap_or(u32::MAX), get(7)?.unwrap_or(0));
    let (and, or, changed) = match (mask, xor) {
        (u32::MAX, 0) => (None, None, None),
        (mask, 0) => (Some(mask), None, None),
        (mask, xor) if mask == !xor => (None, Some(xor), None),
        (_, xor) => (None, None, Some(xor)),
    };
    Ok(Flow {
        keys,
        mode,
        divisor: get(8)?,
        baseclass: get(3)?.map(Handle::from_u32),
        perturb: get(12)?.map(|seconds| Span::from_secs(seconds.into())),
        rshift: get(4)?,
        addend: get(5)?,
        and,
        or,
        xor: changed,
    })
}

fn flower(f: &AttrReader<'_>) -> Result<Flower, DecodeError> {
    let byte = |kind| f.find(kind)?.map(|attr: Attr<'_>| attr.u8()).transpose();
    let proto = byte(9)?;
    let prefix = |v4: u16, v6: u16| -> Result<Option<Prefix>, DecodeError> {
        for (kind, wide) in [(v4, false), (v6, true)] {
            let (Some(address), Some(mask)) = (f.find(kind)?, f.find(kind + 1)?) else { continue };
            let (address, length): (IpAddr, u32) = if wide {
                let mask = u128::from_be_bytes(mask.array()?);
                (address.array::<16>()?.into(), mask.count_ones())
            } else {
                (address.array::<4>()?.into(), mask.be32()?.count_ones())
            };
            return Ok(Prefix::new(address, length as u8));
        }
        Ok(None)
    };
    let port = |tcp: u16, udp: u16, sctp: u16| {
        let kind = match proto {
            Some(17) => udp,
            Some(132) => sctp,
            _ => tcp,
        };
        f.find(kind)?.map(|attr: Attr<'_>| attr.be16()).transpose()
    };
    let mac = |kind| -> Result<Option<MacAddress>, DecodeError> {
        f.find(kind)?.map(|attr: Attr<'_>| attr.array().map(MacAddress)).transpose()
    };
    Ok(Flower {
        ip_proto: proto.map(IpProto),
        src_ip: prefix(10, 14)?,
        dst_ip: prefix(12, 16)?,
        src_port: port(18, 20, 41)?,
        dst_port: port(19, 21, 42)?,
        ip_tos: match (byte(73)?, byte(74)?) {
            (Some(value), Some(mask)) => Some(Masked { value, mask }),
            _ => None,
        },
        src_mac: mac(6)?,
        dst_mac: mac(4)?,
    })
}

/// An attribute of 32 bits, which each kind has under a number of its own.
pub(super) fn number<const N: usize>(
    options: Option<Attr<'_>>,
    of: [(&str, u16); N],
    kind: &str,
) -> Result<Option<u32>, DecodeError> {
    let attr = of.iter().find(|(own, _)| *own == kind).map(|(_, attr)| *attr);
    let (Some(attr), Some(options)) = (attr, options) else { return Ok(None) };
    options.nested().find(attr)?.map(|attr| attr.u32()).transpose()
}

/// The filter of ours that has this name, in which all stands that is needed to load it again.
pub(super) fn named(name: &str) -> Option<FilterKind> {
    let subscribers = Side::of_filter(name).map(FilterKind::from);
    subscribers.or_else(|| name.parse::<classify::Config>().ok().map(FilterKind::from))
}

/// A program; that of ours by the name that it was given, in which all stands that it was told.
fn bpf(f: &AttrReader<'_>) -> Result<FilterKind, DecodeError> {
    let name = f.find(7)?.map(|attr| attr.str()).transpose()?.unwrap_or_default().to_owned();
    let program = match f.find(5)? {
        Some(ops) => BpfProgram::Bytecode(
            ops.payload
                .chunks_exact(8)
                .map(|op| {
                    let code = u16::from_ne_bytes([op[0], op[1]]);
                    let k = u32::from_ne_bytes([op[4], op[5], op[6], op[7]]);
                    [code.into(), op[2].into(), op[3].into(), k]
                })
                .collect(),
        ),
        None => match named(&name) {
            Some(ours) => return Ok(ours),
            None => BpfProgram::Loaded { fd: -1, name },
        },
    };
    let flags = f.find(8)?.map(|attr| attr.u32()).transpose()?.unwrap_or(0);
    Ok(Bpf { program, direct_action: flags & 1 != 0 }.into())
}

/// One action; `None` for those that we do not know.
fn action(attrs: AttrReader<'_>, names: &dyn Names) -> Result<Option<Action>, DecodeError> {
    let (Some(kind), Some(options)) = (attrs.find(1)?, attrs.find(2)?) else { return Ok(None) };
    let options = options.nested();
    let parms = |kind: u16| -> Result<Vec<u32>, DecodeError> {
        let payload = options.find(kind)?.map(|attr| attr.payload).unwrap_or_default();
        let words = payload.chunks_exact(4);
        Ok(words.map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect())
    };
    Ok(match kind.str()? {
        "gact" => match parms(2)?.get(2).map(|verdict| *verdict as i32) {
            Some(verdict::SHOT) => Some(Action::Drop),
            Some(verdict::OK) => Some(Action::Pass),
            // `TC_ACT_GOTO_CHAIN`.
            Some(goto) if goto >> 28 == 2 => {
                Some(Action::Other(format!("goto chain {}", goto & 0x0fff_ffff)))
            }
            _ => None,
        },
        "mirred" => match parms(2)?.as_slice() {
            [_, _, _, _, _, direction, index, ..] => {
                let name = names.name_of(*index).unwrap_or_else(|| format!("interface {index}"));
                match direction {
                    1 => Some(Action::Redirect(name)),
                    2 => Some(Action::Mirror(name)),
                    _ => None,
                }
            }
            _ => None,
        },
        "skbedit" => {
            let get = |kind| options.find(kind)?.map(|attr: Attr<'_>| attr.u32()).transpose();
            let priority = get(3)?.map(Handle::from_u32);
            // The kernel shows a mask only where it is not whole.
            Some(Action::Skbedit(Skbedit { mark: get(5)?, mask: get(8)?, priority }))
        }
        "connmark" => match parms(1)?.as_slice() {
            [_, _, verdict, _, _, zone]
                if *verdict as i32 == verdict::PIPE && *zone & 0xffff == 0 =>
            {
                Some(Action::Connmark)
            }
            _ => None,
        },
        "police" => police(&options)?,
        _ => None,
    })
}

fn police(options: &AttrReader<'_>) -> Result<Option<Action>, DecodeError> {
    let Some(parms) = options.find(1)? else { return Ok(None) };
    let word = |index: usize| {
        let bytes = parms.payload.get(index * 4..index * 4 + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    let spec = parms.payload.get(20..).and_then(|rest| rest.first_chunk::<12>());
    let (Some(spec), Some(verdict), Some(burst), Some(mtu)) = (spec, word(1), word(3), word(4))
    else {
        return Ok(None);
    };
    let rate64 = options.find(8)?.map(|attr| attr.u64()).transpose()?;
    let rate = read_rate(spec, rate64).bytes_per_second;
    let exceed = match verdict as i32 {
        verdict::SHOT => Exceed::Drop,
        verdict::UNSPEC => Exceed::Continue,
        _ => return Ok(None),
    };
    Ok(Some(Action::Police(Police {
        rate: Rate::from_bps(rate.saturating_mul(8)),
        burst: Bytes::new(bytes_in(rate, burst)),
        mtu: Some(Bytes::new(mtu.into())),
        exceed,
    })))
}
