//! Options of queues and classes in `tc`'s words.

use super::{Words, time};
use crate::qdisc::*;
use crate::{ClassKind, Curve, Qdisc};

pub(super) fn options(w: &mut Words, qdisc: &Qdisc) {
    match qdisc {
        Qdisc::FqCodel(q) => {
            w.opt("limit", q.limit);
            w.opt("flows", q.flows);
            w.bytes("quantum", q.quantum);
            w.span("target", q.target);
            w.span("interval", q.interval);
            w.span("ce_threshold", q.ce_threshold);
            w.bytes("memory_limit", q.memory_limit);
            w.opt("drop_batch", q.drop_batch);
            w.flag("ecn", "noecn", q.ecn);
        }
        Qdisc::Codel(q) => {
            w.opt("limit", q.limit);
            w.span("target", q.target);
            w.span("interval", q.interval);
            w.span("ce_threshold", q.ce_threshold);
            w.flag("ecn", "noecn", q.ecn);
        }
        Qdisc::Pie(q) => {
            w.opt("limit", q.limit);
            w.span("target", q.target);
            w.span("tupdate", q.tupdate);
            w.opt("alpha", q.alpha);
            w.opt("beta", q.beta);
            w.flag("ecn", "noecn", q.ecn);
            w.flag("bytemode", "nobytemode", q.bytemode);
            w.flag("dq_rate_estimator", "no_dq_rate_estimator", q.dq_rate_estimator);
        }
        Qdisc::FqPie(q) => {
            w.opt("limit", q.limit);
            w.opt("flows", q.flows);
            w.span("target", q.target);
            w.span("tupdate", q.tupdate);
            w.opt("alpha", q.alpha);
            w.opt("beta", q.beta);
            w.bytes("quantum", q.quantum);
            w.bytes("memory_limit", q.memory_limit);
            w.opt("ecn_prob", q.ecn_prob);
            w.flag("ecn", "noecn", q.ecn);
            w.flag("bytemode", "nobytemode", q.bytemode);
            w.flag("dq_rate_estimator", "no_dq_rate_estimator", q.dq_rate_estimator);
        }
        Qdisc::Red(q) => {
            w.bytes("limit", q.limit);
            w.bytes("min", q.min);
            w.bytes("max", q.max);
            w.bytes("avpkt", q.avpkt);
            w.opt("burst", q.burst);
            w.opt("probability", q.probability.map(|p| p.as_f64()));
            w.opt("bandwidth", q.bandwidth);
            w.flag("ecn", "", q.ecn);
            w.flag("harddrop", "", q.harddrop);
            w.flag("adaptive", "", q.adaptive);
            w.flag("nodrop", "", q.nodrop);
        }
        Qdisc::Cake(q) => cake(w, q),
        Qdisc::Htb(q) => {
            w.opt("default", q.default.map(|class| format!("{:x}", class.minor)));
            w.opt("r2q", q.r2q);
            w.opt("direct_qlen", q.direct_qlen);
        }
        Qdisc::Hfsc(q) => w.opt("default", q.default.map(|class| format!("{:x}", class.minor))),
        Qdisc::Tbf(q) => {
            w.opt("rate", q.rate);
            w.bytes("burst", q.burst);
            w.bytes("limit", q.limit);
            w.span("latency", q.latency);
            w.opt("peakrate", q.peakrate);
            w.bytes("mtu", q.mtu);
            w.opt("overhead", q.overhead);
            w.opt("mpu", q.mpu);
            w.opt("linklayer", q.linklayer.map(link_layer));
        }
        Qdisc::Sfq(q) => {
            w.opt("limit", q.limit);
            w.opt("perturb", q.perturb.map(|span| span.nanos() / 1_000_000_000));
            w.bytes("quantum", q.quantum);
            w.opt("depth", q.depth);
            w.flag("headdrop", "", q.headdrop);
            w.opt("divisor", q.divisor);
            w.opt("flows", q.flows);
            w.bytes("redflowlimit", q.redflowlimit);
            w.bytes("min", q.min);
            w.bytes("max", q.max);
            w.bytes("avpkt", q.avpkt);
            w.opt("burst", q.burst);
            w.opt("probability", q.probability.map(|p| p.as_f64()));
            w.flag("ecn", "", q.ecn);
            w.flag("harddrop", "", q.harddrop);
        }
        Qdisc::Prio(q) => {
            w.opt("bands", q.bands);
            bands(w, &q.priomap);
        }
        Qdisc::Ets(q) => {
            w.opt("bands", q.bands);
            w.opt("strict", q.strict);
            if !q.quanta.is_empty() {
                w.put("quanta");
                q.quanta.iter().for_each(|quantum| w.put(quantum.get()));
            }
            bands(w, &q.priomap);
        }
        Qdisc::Fq(q) => fq(w, q),
        Qdisc::Netem(q) => netem(w, q),
        Qdisc::Pfifo(q) => w.opt("limit", q.limit),
        Qdisc::Bfifo(q) => w.bytes("limit", q.limit),
        Qdisc::Drr(_) | Qdisc::PfifoFast(_) | Qdisc::Noqueue(_) | Qdisc::Mq(_) => {}
    }
}

pub(super) fn class_options(w: &mut Words, kind: &ClassKind) {
    match kind {
        ClassKind::Htb(c) => {
            w.opt("rate", c.rate);
            w.opt("ceil", c.ceil);
            w.bytes("burst", c.burst);
            w.bytes("cburst", c.cburst);
            w.opt("prio", c.prio);
            w.bytes("quantum", c.quantum);
            w.opt("overhead", c.overhead);
            w.opt("mpu", c.mpu);
            w.bytes("mtu", c.mtu);
            w.opt("linklayer", c.linklayer.map(link_layer));
        }
        ClassKind::Hfsc(c) => {
            for (name, curve) in [("rt", c.rt), ("ls", c.ls), ("ul", c.ul)] {
                w.opt(name, curve.map(service_curve));
            }
        }
        ClassKind::Drr(c) => w.bytes("quantum", c.quantum),
        ClassKind::Band => {}
    }
}

fn service_curve(curve: Curve) -> String {
    match (curve.m1, curve.d) {
        (None, None) => format!("rate {}", curve.m2),
        (m1, d) => {
            let m1 = m1.map_or_else(|| "0bit".to_owned(), |rate| rate.to_string());
            let d = d.map_or_else(|| "0us".to_owned(), time);
            format!("m1 {m1} d {d} m2 {}", curve.m2)
        }
    }
}

fn link_layer(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::Ethernet => "ethernet",
        LinkLayer::Atm => "atm",
        LinkLayer::Adsl => "adsl",
    }
}

fn bands(w: &mut Words, priomap: &[u8]) {
    if !priomap.is_empty() {
        w.put("priomap");
        priomap.iter().for_each(|band| w.put(band));
    }
}

fn cake(w: &mut Words, q: &Cake) {
    w.opt("bandwidth", q.bandwidth);
    w.flag("autorate-ingress", "", q.autorate);
    w.span("rtt", q.rtt);
    if let Some(diffserv) = q.diffserv {
        w.put(match diffserv {
            Diffserv::Diffserv3 => "diffserv3",
            Diffserv::Diffserv4 => "diffserv4",
            Diffserv::Diffserv8 => "diffserv8",
            Diffserv::BestEffort => "besteffort",
            Diffserv::Precedence => "precedence",
        });
    }
    if let Some(isolation) = q.isolation {
        w.put(match isolation {
            FlowIsolation::Flowblind => "flowblind",
            FlowIsolation::Srchost => "srchost",
            FlowIsolation::Dsthost => "dsthost",
            FlowIsolation::Hosts => "hosts",
            FlowIsolation::Flows => "flows",
            FlowIsolation::DualSrchost => "dual-srchost",
            FlowIsolation::DualDsthost => "dual-dsthost",
            FlowIsolation::TripleIsolate => "triple-isolate",
        });
    }
    w.flag("nat", "nonat", q.nat);
    w.flag("wash", "nowash", q.wash);
    w.flag("split-gso", "no-split-gso", q.split_gso);
    w.flag("ingress", "egress", q.ingress);
    if let Some(filter) = q.ack_filter {
        w.put(match filter {
            AckFilter::Off => "no-ack-filter",
            AckFilter::On => "ack-filter",
            AckFilter::Aggressive => "ack-filter-aggressive",
        });
    }
    if let Some(framing) = q.framing {
        w.put(match framing {
            Framing::NoAtm => "noatm",
            Framing::Atm => "atm",
            Framing::Ptm => "ptm",
        });
    }
    w.opt("overhead", q.overhead);
    w.opt("mpu", q.mpu);
    w.bytes("memlimit", q.memlimit);
    w.opt("fwmark", q.fwmark.map(|mask| format!("{mask:#x}")));
}

fn fq(w: &mut Words, q: &Fq) {
    w.opt("limit", q.limit);
    w.opt("flow_limit", q.flow_limit);
    w.opt("buckets", q.buckets);
    w.bytes("quantum", q.quantum);
    w.bytes("initial_quantum", q.initial_quantum);
    w.opt("maxrate", q.maxrate);
    w.opt("low_rate_threshold", q.low_rate_threshold);
    w.span("refill_delay", q.refill_delay);
    w.opt("orphan_mask", q.orphan_mask);
    w.flag("pacing", "nopacing", q.pacing);
    w.span("ce_threshold", q.ce_threshold);
    w.span("timer_slack", q.timer_slack);
    w.span("horizon", q.horizon);
    w.flag("horizon_drop", "horizon_cap", q.horizon_drop);
}

fn netem(w: &mut Words, q: &Netem) {
    w.opt("limit", q.limit);
    w.span("delay", q.delay);
    if let Some(jitter) = q.jitter {
        w.put(time(jitter));
        if let Some(correlation) = q.delay_correlation {
            w.put(correlation);
        }
    }
    if let Some(model) = &q.gemodel {
        w.opt("loss gemodel", Some(model.to_bad));
        w.put(model.to_good);
        if model.loss_in_bad.is_some() || model.loss_in_good.is_some() {
            w.put(model.loss_in_bad.map_or_else(|| "100%".to_owned(), |r| r.to_string()));
        }
        if let Some(loss) = model.loss_in_good {
            w.put(loss);
        }
    }
    for (name, ratio, correlation) in [
        ("loss random", q.loss, q.loss_correlation),
        ("duplicate", q.duplicate, q.duplicate_correlation),
        ("corrupt", q.corrupt, q.corrupt_correlation),
        ("reorder", q.reorder, q.reorder_correlation),
    ] {
        w.opt(name, ratio);
        if let Some(correlation) = correlation {
            w.put(correlation);
        }
        if name == "loss random" {
            w.flag("ecn", "", q.ecn);
        }
    }
    w.opt("gap", q.gap);
    w.opt("rate", q.rate);
    let framing = [q.packet_overhead, q.cell_size.map(|n| n as i32), q.cell_overhead];
    let given = framing.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    framing[..given].iter().for_each(|number| w.put(number.unwrap_or(0)));
    if let Some(slot) = &q.slot {
        w.opt("slot", Some(time(slot.min)));
        w.put(time(slot.max.unwrap_or(slot.min)));
        w.opt("packets", slot.packets);
        w.bytes("bytes", slot.bytes);
    }
}
