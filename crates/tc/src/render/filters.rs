//! Filters and actions in `tc`'s words.

use super::words::{Words, quoted};
use crate::filter::bytecode_text;
use crate::{Action, Bpf, BpfProgram, Exceed, Filter, FilterKind, Flow, FlowMode, Flower, Skbedit};

pub(super) fn filter(w: &mut Words, filter: &Filter) {
    // tc takes no address of any protocol; what has a VLAN tag goes past its command.
    w.opt("protocol", Some(filter.family_behind_tags().unwrap_or(filter.protocol)));
    w.opt("prio", filter.prio);
    match (&filter.kind, filter.handle) {
        (FilterKind::Fw(fw), Some(mark)) => {
            let mask = fw.mask.map(|mask| format!("/{mask:#x}")).unwrap_or_default();
            w.put(format!("handle {mark:#x}{mask}"));
        }
        (_, handle) => w.opt("handle", handle.map(|handle| format!("{handle:#x}"))),
    }
    w.put(filter.kind.kernel_name());
    match &filter.kind {
        FilterKind::U32(u32) => u32.r#match.iter().for_each(|one| w.opt("match", Some(one))),
        FilterKind::Flow(flow) => flow_options(w, flow),
        FilterKind::Flower(flower) => flower_options(w, flower),
        FilterKind::Bpf(bpf) => bpf_options(w, bpf),
        // No command has it.
        FilterKind::Classify(config) => w.opt("name", Some(quoted(&config.to_string()))),
        FilterKind::Roster(side) => {
            w.opt("object-pinned", Some(quoted(&format!("<subscribers by {}>", side.address()))));
        }
        FilterKind::Fw(_) | FilterKind::Matchall(_) => {}
    }
    w.opt("classid", filter.class);
    filter.actions.iter().for_each(|one| action(w, one));
}

fn flow_options(w: &mut Words, flow: &Flow) {
    let keys: Vec<String> = flow
        .keys
        .iter()
        .map(|key| match serde_json::to_value(key) {
            Ok(serde_json::Value::String(name)) => name,
            _ => format!("{key:?}"),
        })
        .collect();
    match flow.mode {
        FlowMode::Hash => w.opt("hash keys", Some(keys.join(","))),
        FlowMode::Map => w.opt("map key", Some(keys.join(","))),
    }
    for (name, bits) in [("and", flow.and), ("or", flow.or), ("xor", flow.xor)] {
        w.opt(name, bits.map(|bits| format!("{bits:#x}")));
    }
    w.opt("rshift", flow.rshift);
    w.opt("addend", flow.addend.map(|addend| format!("{addend:#x}")));
    w.opt("divisor", flow.divisor);
    w.opt("baseclass", flow.baseclass);
    w.opt("perturb", flow.perturb.map(|span| span.nanos() / 1_000_000_000));
}

fn flower_options(w: &mut Words, flower: &Flower) {
    w.opt("dst_mac", flower.dst_mac);
    w.opt("src_mac", flower.src_mac);
    w.opt("ip_proto", flower.ip_proto);
    w.opt("ip_tos", flower.ip_tos);
    w.opt("dst_ip", flower.dst_ip);
    w.opt("src_ip", flower.src_ip);
    w.opt("dst_port", flower.dst_port);
    w.opt("src_port", flower.src_port);
}

fn bpf_options(w: &mut Words, bpf: &Bpf) {
    match &bpf.program {
        BpfProgram::Pinned(path) => w.opt("object-pinned", Some(quoted(&path.to_string_lossy()))),
        BpfProgram::Bytecode(code) => w.opt("bytecode", Some(quoted(&bytecode_text(code)))),
        // No command can name another process's descriptor: shown for the reader only.
        BpfProgram::Loaded { name, .. } => {
            w.opt("object-pinned", Some(quoted(&format!("<{name}>"))))
        }
    }
    w.flag("direct-action", "", Some(bpf.direct_action));
}

fn action(w: &mut Words, action: &Action) {
    match action {
        Action::Drop => w.put("action drop"),
        Action::Pass => w.put("action pass"),
        Action::Connmark => w.put("action connmark"),
        // For the reader only: its options are not known.
        Action::Other(kind) => w.opt("action", Some(quoted(kind))),
        Action::Redirect(device) => {
            w.opt("action mirred egress redirect dev", Some(quoted(device)));
        }
        Action::Mirror(device) => w.opt("action mirred egress mirror dev", Some(quoted(device))),
        Action::Skbedit(Skbedit { mark, mask, priority }) => {
            w.put("action skbedit");
            let mask = mask.map(|mask| format!("/{mask:#x}")).unwrap_or_default();
            w.opt("mark", mark.map(|mark| format!("{mark}{mask}")));
            w.opt("priority", *priority);
        }
        Action::Police(police) => {
            w.opt("action police rate", Some(police.rate));
            w.opt("burst", Some(police.burst.get()));
            w.bytes("mtu", police.mtu);
            w.opt(
                "conform-exceed",
                Some(match police.exceed {
                    Exceed::Drop => "drop",
                    Exceed::Continue => "continue",
                }),
            );
        }
    }
}
