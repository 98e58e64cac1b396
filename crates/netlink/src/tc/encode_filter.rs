//! Filters and actions as attributes.

use quell_tc::rates::{RateSpec, transmit_ticks};
use quell_tc::{
    Action, Bpf, BpfProgram, Exceed, Filter, FilterKind, Flow, FlowMode, Flower, Handle, Police,
    Prefix, Protocol, U32, merge_keys,
};
use quell_units::Bytes;

use super::Names;
use crate::core::AttrWriter;

/// `TC_ACT_*` of `include/uapi/linux/pkt_cls.h`.
pub(super) mod verdict {
    pub const OK: i32 = 0;
    pub const SHOT: i32 = 2;
    pub const PIPE: i32 = 3;
    pub const STOLEN: i32 = 4;
    pub const UNSPEC: i32 = -1;
}

/// Writes a filter's `TCA_OPTIONS`. An error says what it needs and can't get.
pub(super) fn options(
    w: &mut AttrWriter,
    filter: &Filter,
    names: &dyn Names,
) -> Result<(), String> {
    let mut done = Ok(());
    w.nested_plain(libc::TCA_OPTIONS, |w| done = inner(w, filter, names));
    done
}

fn inner(w: &mut AttrWriter, filter: &Filter, names: &dyn Names) -> Result<(), String> {
    let class = filter.class.map(Handle::to_u32);
    let acts = &filter.actions;
    match &filter.kind {
        FilterKind::U32(u32) => {
            class.map(|class| w.u32(1, class));
            actions(w, 7, acts, names)?;
            selector(w, u32, class.is_some() || !acts.is_empty());
        }
        FilterKind::Flow(flow) => {
            self::flow(w, flow, |w| actions(w, 9, acts, names))?;
        }
        FilterKind::Fw(fw) => {
            fw.mask.map(|mask| w.u32(5, mask));
            class.map(|class| w.u32(1, class));
            actions(w, 4, acts, names)?;
        }
        FilterKind::Matchall(_) => {
            class.map(|class| w.u32(1, class));
            actions(w, 2, acts, names)?;
        }
        FilterKind::Flower(flower) => {
            self::flower(w, flower);
            class.map(|class| w.u32(1, class));
            actions(w, 3, acts, names)?;
            w.u32(22, 0);
            if filter.protocol != Protocol::ALL {
                w.be16(8, filter.protocol.0);
            }
        }
        FilterKind::Classify(_) | FilterKind::Roster(_) => {
            // Whoever sends it loads its program first, and names that.
            return Err("the classifier's program is not loaded".into());
        }
        FilterKind::Bpf(bpf) => {
            self::bpf(w, bpf, class)?;
            actions(w, 1, acts, names)?;
            if bpf.direct_action {
                w.u32(8, 1);
            }
        }
    }
    Ok(())
}

/// `struct tc_u32_sel` and its keys. A terminal one ends the search when it matches.
fn selector(w: &mut AttrWriter, u32: &U32, terminal: bool) {
    let keys = merge_keys(&u32.r#match).unwrap_or_default();
    let mut bytes = vec![0; 16];
    bytes[0] = terminal.into();
    bytes[2] = u8::try_from(keys.len()).unwrap_or(u8::MAX);
    for key in keys {
        bytes.extend(key.mask.to_be_bytes());
        bytes.extend(key.value.to_be_bytes());
        bytes.extend(key.at.to_ne_bytes());
        bytes.extend((-i32::from(key.next_header)).to_ne_bytes());
    }
    w.bytes(5, &bytes);
}

/// In `tc`'s order: it writes its options as it reads them, and how they are used at the end.
fn flow(
    w: &mut AttrWriter,
    flow: &Flow,
    actions: impl FnOnce(&mut AttrWriter) -> Result<(), String>,
) -> Result<(), String> {
    let keys = flow.keys.iter().fold(0u32, |bits, key| bits | 1 << *key as u32);
    w.u32(1, keys);
    flow.rshift.map(|rshift| w.u32(4, rshift));
    flow.addend.map(|addend| w.u32(5, addend));
    flow.divisor.map(|divisor| w.u32(8, divisor));
    flow.baseclass.map(|class| w.u32(3, class.to_u32()));
    flow.perturb.map(|span| w.u32(12, (span.nanos() / 1_000_000_000) as u32));
    actions(w)?;
    w.u32(2, u32::from(flow.mode == FlowMode::Hash));
    let bits = match (flow.and, flow.or, flow.xor) {
        (Some(and), _, _) => Some((and, 0)),
        (_, Some(or), _) => Some((!or, or)),
        (_, _, Some(xor)) => Some((u32::MAX, xor)),
        _ => None,
    };
    if let Some((mask, xor)) = bits {
        w.u32(6, mask);
        w.u32(7, xor);
    }
    Ok(())
}

fn flower(w: &mut AttrWriter, flower: &Flower) {
    for (mac, kind) in [(flower.dst_mac, 4), (flower.src_mac, 6)] {
        mac.map(|mac| w.bytes(kind, &mac.0).bytes(kind + 1, &[0xff; 6]));
    }
    let proto = flower.ip_proto.map(|proto| proto.0);
    proto.map(|proto| w.u8(9, proto));
    flower.ip_tos.map(|tos| w.u8(73, tos.value).u8(74, tos.mask));
    for (prefix, kind) in [(flower.dst_ip, 12), (flower.src_ip, 10)] {
        if let Some(prefix) = prefix {
            address(w, kind + 4 * u16::from(prefix.address.is_ipv6()), prefix);
        }
    }
    let (source, destination) = match proto {
        Some(17) => (20, 21),
        Some(132) => (41, 42),
        _ => (18, 19),
    };
    // Without a mask the kernel takes the whole port.
    for (port, kind) in [(flower.dst_port, destination), (flower.src_port, source)] {
        port.map(|port| w.be16(kind, port));
    }
}

fn address(w: &mut AttrWriter, kind: u16, prefix: Prefix) {
    let shift = |width: u32| width.saturating_sub(prefix.length.into());
    match prefix.address {
        std::net::IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(shift(32)).unwrap_or(0);
            w.bytes(kind, &v4.octets()).be32(kind + 1, mask);
        }
        std::net::IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(shift(128)).unwrap_or(0);
            w.bytes(kind, &v6.octets()).bytes(kind + 1, &mask.to_be_bytes());
        }
    }
}

fn bpf(w: &mut AttrWriter, bpf: &Bpf, class: Option<u32>) -> Result<(), String> {
    class.map(|class| w.u32(3, class));
    match &bpf.program {
        BpfProgram::Bytecode(code) => {
            w.u16(4, code.len() as u16);
            // struct sock_filter: 16-bit code, two 8-bit jumps, 32-bit operand.
            let ops = code.iter().flat_map(|[op, jt, jf, k]| {
                let head = (*op as u16).to_ne_bytes();
                [[head[0], head[1], *jt as u8, *jf as u8], k.to_ne_bytes()].concat()
            });
            w.bytes(5, &ops.collect::<Vec<u8>>());
        }
        // The message's maker opens pinned programs first, and keeps them open until the kernel has them.
        BpfProgram::Pinned(path) => {
            return Err(format!("the BPF program pinned at {} is not open", path.display()));
        }
        BpfProgram::Loaded { fd, name } => {
            w.u32(6, *fd as u32);
            w.str(7, name);
        }
    }
    Ok(())
}

/// A list of actions, numbered from 1, each `kind` and `options`.
fn actions(
    w: &mut AttrWriter,
    kind: u16,
    actions: &[Action],
    names: &dyn Names,
) -> Result<(), String> {
    if actions.is_empty() {
        return Ok(());
    }
    let mut done = Ok(());
    w.nested_plain(kind, |w| {
        for (number, one) in (1u16..).zip(actions) {
            w.nested_plain(number, |w| {
                if let Err(error) = action(w, one, names) {
                    done = Err(error);
                }
            });
        }
    });
    done
}

/// `tc_gen`: index, capabilities, verdict, two reference counts.
fn generic(verdict: i32) -> Vec<u8> {
    [0, 0, verdict, 0, 0].iter().flat_map(|value: &i32| value.to_ne_bytes()).collect()
}

fn action(w: &mut AttrWriter, action: &Action, names: &dyn Names) -> Result<(), String> {
    match action {
        Action::Drop | Action::Pass => {
            let verdict = if *action == Action::Drop { verdict::SHOT } else { verdict::OK };
            w.str(1, "gact").nested(2, |w| {
                w.bytes(2, &generic(verdict));
            });
        }
        Action::Redirect(device) | Action::Mirror(device) => {
            let index = names
                .index_of(device)
                .ok_or_else(|| format!("there is no device `{device}` to send packets to"))?;
            // Egress redirect takes the packet away, egress mirror lets the next action have it too.
            let (direction, verdict) = match action {
                Action::Redirect(_) => (1u32, verdict::STOLEN),
                _ => (2, verdict::PIPE),
            };
            let mut parms = generic(verdict);
            parms.extend(direction.to_ne_bytes());
            parms.extend(index.to_ne_bytes());
            w.str(1, "mirred").nested(2, |w| {
                w.bytes(2, &parms);
            });
        }
        Action::Skbedit(edit) => {
            w.str(1, "skbedit").nested(2, |w| {
                w.bytes(2, &generic(verdict::PIPE));
                edit.priority.map(|class| w.u32(3, class.to_u32()));
                edit.mark.map(|mark| w.u32(5, mark));
                edit.mask.map(|mask| w.u32(8, mask));
            });
        }
        Action::Connmark => {
            // struct tc_connmark: tc_gen, the zone and two bytes of padding.
            let mut parms = generic(verdict::PIPE);
            parms.extend([0; 4]);
            w.str(1, "connmark").nested(2, |w| {
                w.bytes(1, &parms);
            });
        }
        Action::Other(kind) => return Err(format!("an action of kind `{kind}` can't be made")),
        Action::Police(police) => {
            w.str(1, "police").nested(2, |w| self::police(w, police));
        }
    }
    Ok(())
}

fn police(w: &mut AttrWriter, police: &Police) {
    let mtu = police.mtu.map_or(0, |mtu| mtu.get() as u32);
    let rate = police.rate.bytes_per_second();
    let spec = RateSpec { mtu, ..RateSpec::plain(rate) };
    let verdict = match police.exceed {
        Exceed::Drop => verdict::SHOT,
        Exceed::Continue => verdict::UNSPEC,
    };
    // struct tc_police: index, action, limit, burst, mtu, two rates, two reference counts, capabilities.
    let mut parms: Vec<u8> =
        [0, verdict as u32, 0, transmit_ticks(rate, Bytes::get(police.burst)), mtu]
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect();
    parms.extend(spec.to_bytes());
    parms.extend([0; 12 + 12]);
    w.bytes(1, &parms);
    w.bytes(2, &spec.table());
    spec.rate64().map(|rate| w.u64(8, rate));
}
