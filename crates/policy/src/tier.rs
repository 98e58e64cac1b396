//! Three tiers by DSCP, as any policy builds them.
//!
//! ```text
//!   parent at `ceiling`
//!    ├ :1  high    first, whatever it sends …
//!    ├ :2  normal  … but for the floor of this tier …
//!    └ :3  bulk    … and of this one
//!       └ fq_codel in each: fair between flows, short queues
//! ```
//!
//! **Priority with a floor.** HTB serves classes that are within their own rate first, then those that borrow, in order of
//! priority (`htb_dequeue`, net/sched/sch_htb.c: levels, then priorities). The lower tiers have their floor as their own rate; the
//! high tier has next to none and borrows first. So the floors are served, then all of high, then what is left of normal, then of bulk.

use crate::Counting;
use quell_tc::qdisc::{FqCodel, Htb};
use quell_tc::{
    Bpf, BpfProgram, Class, ClassKind, Filter, Handle, HtbClass, Protocol, Queue, RoundRobinClass,
};
use quell_units::{Bytes, Rate, Ratio, Span};

/// The high tier's own rate: next to nothing, so that it always borrows.
pub const NEXT_TO_NOTHING: u64 = 8_000;

/// The tiers' names, the first one first.
pub const TIERS: [&str; 3] = ["high", "normal", "bulk"];

/// One full Ethernet frame: a turn.
pub const FRAME: u64 = 1514;

/// Bytes that may go at once.
pub const BURST: u64 = FRAME + 86;

/// DSCP names and TOS values of each tier, as `value/mask` of the whole byte. The mask leaves out ECN.
const HIGH: [u8; 6] = [
    0xb8, // EF
    0xb0, // VA
    0xa0, // CS5
    0xc0, // CS6
    0xe0, // CS7
    0x10, // RFC 1349 low delay, what interactive ssh long set; as a DSCP it is 4, unassigned
];
const BULK: [u8; 3] = [0x20, 0x04, 0x08]; // CS1, LE, RFC 1349 throughput

pub fn percent(n: u32) -> Ratio {
    format!("{n}%").parse().expect("a small whole percentage is a ratio")
}

/// What the normal tier has for sure where nothing else is said.
pub fn normal_floor() -> Ratio {
    percent(25)
}

/// The same of the bulk tier.
pub fn bulk_floor() -> Ratio {
    percent(5)
}

pub struct TierSet {
    /// Major of the HTB that they are in.
    pub major: u16,
    /// Minor of the high tier; the others follow.
    pub minor: u16,
    /// Major of the high tier's leaf; the others' follow.
    pub leaves: u16,
    /// Of which the floors are shares.
    pub floors_of: Rate,
    /// What each tier may have where the others leave it.
    pub ceiling: Rate,
    /// Floors of the normal and of the bulk tier.
    pub floors: (Ratio, Ratio),
    pub leaf: FqCodel,
}

impl TierSet {
    /// The class of packets that no filter matches.
    pub fn normal(&self) -> Handle {
        Handle::class(self.major, self.minor + 1)
    }

    pub fn classes(&self) -> Vec<Class> {
        let floor = |share: Ratio| {
            let rate = (self.floors_of.bps() as f64 * share.as_f64()) as u64;
            Rate::from_bps(rate.max(NEXT_TO_NOTHING))
        };
        let rates = [Rate::from_bps(NEXT_TO_NOTHING), floor(self.floors.0), floor(self.floors.1)];
        let tier = |(number, rate): (u16, Rate)| {
            let id = Handle::class(self.major, self.minor + number);
            let mut tier = htb_class(id, rate, self.ceiling, number as u8);
            let name = Handle::qdisc(self.leaves + number);
            tier.queue = Some(Box::new(Queue::from(self.leaf.clone()).with_handle(name)));
            tier
        };
        (0..).zip(rates).map(tier).collect()
    }
}

/// What leads packets to the tiers, of which this is the first. One program reads the DSCP also behind a VLAN tag, where flower and u32 do not,
/// and takes a tenth of the memory of eighteen filters.
pub fn filters(high: Handle) -> Vec<Filter> {
    let bytecode = Bpf { program: BpfProgram::Bytecode(by_dscp(high)), direct_action: false };
    let mut filter = Filter::new(bytecode, None);
    filter.prio = Some(1);
    vec![filter]
}

/// A program of classic BPF, which gives each packet its class of three. A tag that the kernel keeps beside a packet is none of the packet's
/// own protocol.
fn by_dscp(high: Handle) -> Vec<[u32; 4]> {
    // Offsets of linux/filter.h: what the kernel knows of the packet, and its network header.
    const PROTOCOL: u32 = 0xffff_f000;
    const NETWORK: u32 = 0xfff0_0000;
    const LOAD_HALF: u32 = 0x28;
    const LOAD_BYTE: u32 = 0x30;
    const AND: u32 = 0x54;
    const SHIFT_RIGHT: u32 = 0x74;
    const IS: u32 = 0x15;
    const GO: u32 = 0x05;
    const RETURN: u32 = 0x06;
    let to = |tier: u16| [RETURN, 0, 0, high.to_u32() + u32::from(tier) - 1];
    let count = (HIGH.len() + BULK.len()) as u32;
    let all = || HIGH.iter().map(|tos| (*tos, 1)).chain(BULK.iter().map(|tos| (*tos, 3)));
    let mut code = vec![
        [LOAD_HALF, 0, 0, PROTOCOL],
        [IS, 1, 0, u32::from(Protocol::IP.0)],
        // What is no IP packet is of the normal tier.
        [IS, 2, 5 + count, u32::from(Protocol::IPV6.0)],
        // The TOS byte.
        [LOAD_BYTE, 0, 0, NETWORK + 1],
        [GO, 0, 0, 2],
        // The traffic class, behind four bits of version.
        [LOAD_HALF, 0, 0, NETWORK],
        [SHIFT_RIGHT, 0, 0, 4],
        [AND, 0, 0, 0xfc],
    ];
    // Behind the comparisons stand the three ends: normal, high, bulk.
    for (at, (tos, tier)) in (1..).zip(all()) {
        let left = count - at;
        code.push([IS, left + if tier == 1 { 1 } else { 2 }, 0, tos.into()]);
    }
    code.extend([to(2), to(1), to(3)]);
    code
}

/// A class without a queue. 64 kB at its ceiling at once, since that is not where packets wait.
pub fn htb_class(id: Handle, rate: Rate, ceil: Rate, prio: u8) -> Class {
    Class::new(
        id,
        ClassKind::Htb(HtbClass {
            rate: Some(rate),
            ceil: Some(ceil),
            prio: Some(prio),
            burst: Some(Bytes::new(BURST)),
            cburst: Some(Bytes::new(64_000)),
            quantum: Some(Bytes::new(FRAME)),
            ..HtbClass::default()
        }),
    )
}

/// The one class in which packets wait for a line.
pub fn link_class(id: Handle, counting: Counting) -> Class {
    let rate = counting.htb_rate();
    let mut class = HtbClass {
        rate: Some(rate),
        ceil: Some(rate),
        burst: Some(Bytes::new(BURST)),
        cburst: Some(Bytes::new(BURST)),
        quantum: Some(Bytes::new(FRAME)),
        ..HtbClass::default()
    };
    counting.tell_htb(&mut class);
    Class::new(id, ClassKind::Htb(class))
}

/// Bounded in packets, and with a target above the time that one full packet takes (RFC 8290, section 5.2.2) at a rate that it has to itself
/// in turn with others.
pub fn codel(rate: Rate) -> FqCodel {
    let packet = rate.time_for(FRAME);
    let needed = packet.nanos().saturating_mul(3) / 2;
    // Half a second of the link: a flood that heeds no drop must not fill the usual 10240 packets. Few at a time go over
    // board then, so that others' packets are not swept along.
    let half_second = rate.bytes_in(Span::from_millis(500)).get() / FRAME;
    let bounded = FqCodel {
        limit: Some(u32::try_from(half_second).unwrap_or(u32::MAX).clamp(100, 10_240)),
        drop_batch: Some(8),
        quantum: Some(Bytes::new(FRAME)),
        ..FqCodel::default()
    };
    if needed <= 5_000_000 {
        return bounded;
    }
    FqCodel {
        target: Some(Span::from_micros(needed.div_ceil(1000))),
        interval: Some(Span::from_micros(100_000 + needed.div_ceil(1000))),
        ..bounded
    }
}

/// The inner HTBs' own limit, never reached: this, or twice the rate of a faster line.
pub(crate) const NEVER_REACHED: u64 = 10_000_000_000;

/// Major of the DRR; its minors are the hosts' places, from 1.
pub(crate) const HOSTS: u16 = 2;

/// Major of the first place's tiers.
pub(crate) const FIRST_TIERS: u16 = 0x10;

/// Major of the first leaf; four for each place. Every queue has a name of its own, so that another host more does not rename those of the
/// others, which would cost them their packets.
const FIRST_LEAVES: u16 = 0x1000;

pub(crate) struct HostClass {
    pub rate: Rate,
    /// Floors of the normal and of the bulk tier …
    pub floors: (Ratio, Ratio),
    pub floors_of: Rate,
    pub leaf: FqCodel,
}

impl HostClass {
    /// The class of a place, from 1, with its tiers and what leads to them.
    pub fn class(&self, number: u16) -> Class {
        let major = FIRST_TIERS + number;
        let never = Rate::from_bps(NEVER_REACHED.max(2 * self.rate.bps()));
        let tiers = TierSet {
            major,
            minor: 1,
            leaves: FIRST_LEAVES + 4 * number + 1,
            floors_of: self.floors_of,
            ceiling: never,
            floors: self.floors,
            leaf: self.leaf.clone(),
        };
        let mut host = htb_class(Handle::class(major, 0xf), never, never, 0);
        host.classes = tiers.classes();
        let mut queue = Queue::from(Htb { default: Some(tiers.normal()), ..Htb::default() })
            .with_handle(Handle::qdisc(major))
            .with_class(host);
        queue.filters = filters(Handle::class(major, 1));
        let turn = ClassKind::Drr(RoundRobinClass { quantum: Some(Bytes::new(FRAME)) });
        Class::new(Handle::class(HOSTS, number), turn).with_queue(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What such a program does, with a packet's ethertype and its first two bytes.
    fn run(code: &[[u32; 4]], ethertype: u16, first: u16) -> u32 {
        let (mut at, mut a) = (0, 0u32);
        loop {
            let [op, yes, no, k] = code[at];
            at += 1;
            match op {
                0x28 if k == 0xffff_f000 => a = ethertype.into(),
                0x28 if k == 0xfff0_0000 => a = first.into(),
                0x30 if k == 0xfff0_0001 => a = (first & 0xff).into(),
                0x54 => a &= k,
                0x74 => a >>= k,
                0x05 => at += k as usize,
                0x15 => at += if a == k { yes } else { no } as usize,
                0x06 => return k,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn one_program_tells_the_tiers_that_the_filters_tell() {
        let high = Handle::class(0x77, 1);
        let code = by_dscp(high);
        for tos in 0..=0xff_u8 {
            let is = |all: &[u8]| all.contains(&(tos & 0xfc));
            let tier = if is(&HIGH) {
                1
            } else if is(&BULK) {
                3
            } else {
                2
            };
            let wanted = Handle::class(0x77, tier).to_u32();
            assert_eq!(run(&code, 0x0800, 0x4500 | u16::from(tos)), wanted, "{tos:#x}");
            for label in [0, 0xf] {
                let first = 0x6000 | u16::from(tos) << 4 | label;
                assert_eq!(run(&code, 0x86dd, first), wanted, "{tos:#x}");
            }
            // Also an ethertype of the same number.
            assert_eq!(run(&code, tos.into(), u16::from(tos)), Handle::class(0x77, 2).to_u32());
        }
    }
}
