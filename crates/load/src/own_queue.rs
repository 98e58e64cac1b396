//! Whether packets stood in the queues of this host's own device while a flow ran.
//!
//! A queue stands before the narrowest place of a way, and nowhere else: where it is this host's own, the way is no narrower than that. Queues that hold
//! packets back until their time has come (fq, etf, taprio) have a backlog without being narrow; with one of these, only what a shaper held back
//! counts; what fq's `maxrate` lets out of each flow is told apart. Where a path is emulated (netem), the queue is the path's.
//!
//! A policer has no queue: it drops. What the device's queues drop, and filters before them (`ingress`, `clsact`, which count both ways together), is
//! counted too; what they drop where one of them plays a path, apart.
//!
//! What comes in has no queue of its own: who wants to shape it redirects it to another device, mostly an IFB, and shapes what leaves there.
//!
//! ```text
//!   eth0 comes in ──► clsact or ingress: mirred redirect ──► ifb0's queues ──► this host
//! ```

use quell_netlink::core::{Protocol, Socket};
use quell_netlink::tc::{dump_filters, dump_qdiscs};
use quell_netlink::{LinkName, Stack};
use quell_tc::observed::{ObservedFilter, ObservedQdisc};
use quell_tc::{Action, Handle, Qdisc};
use serde::Serialize;

/// A device's queues, looked at now and then.
pub struct OwnQueue {
    socket: Socket,
    ifindex: u32,
    overlimits: Option<u32>,
    /// What had been dropped and had left when counting began.
    before: Option<Counted>,
    standing: Standing,
}

/// What was seen at the looks at a device's queues.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Standing {
    pub device: String,
    /// The device whose incoming packets are redirected to this one, so that its queues hold back what comes in; none where it is what goes out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirected_from: Option<String>,
    /// Its queues' kinds, as the kernel spells them, the root's first.
    pub kinds: Vec<String>,
    pub looks: u64,
    /// Of these, at how many packets waited.
    pub stood: u64,
    /// Of those, at how many a rate had held packets back since the look before.
    pub held_back: u64,
    /// Most bytes that waited.
    #[serde(rename = "most_bytes")]
    pub most: u64,
    /// Packets that the device's queues dropped; 0 where these are a path's.
    pub dropped: u64,
    /// Packets that its queues dropped where one of them plays a path (netem); `dropped` has none of these.
    #[serde(rename = "emulated_dropped")]
    pub emulated: u64,
    /// Packets that filters before them dropped, going out or coming in.
    pub filtered: u64,
    /// Bytes that left its queues, with their headers.
    #[serde(rename = "left_bytes")]
    pub left: u64,
    /// The rate above which fq lets no flow out, in bits a second.
    #[serde(rename = "flow_bits_per_second")]
    pub flow_rate: Option<u64>,
    /// Looks at which packets waited, whosever these were.
    #[serde(skip)]
    pub waited: u64,
}

impl Standing {
    /// Whether packets waited most of the time.
    pub fn stands(&self) -> bool {
        self.stood * 2 > self.looks
    }

    /// Whether a rate held them back meanwhile: a shaper, not the device.
    pub fn is_shaped(&self) -> bool {
        self.held_back * 2 > self.looks
    }
}

impl OwnQueue {
    /// Of this device; none where it can't be seen.
    pub fn of(device: &str) -> Option<Self> {
        let standing = Standing { device: device.into(), ..Standing::default() };
        Self::seeing(standing)
    }

    /// Of the devices to which what comes in by this one is redirected.
    pub fn incoming(device: &str) -> Vec<Self> {
        let redirects = || {
            let ifindex = index(device)?;
            let mut socket = Socket::open(Protocol::Route).ok()?;
            let places = [Handle::CLSACT_INGRESS, Handle::INGRESS_QDISC];
            // Where there is no such place the kernel refuses.
            let filters = places.map(|at| dump_filters(&mut socket, ifindex, at));
            Some(redirects(&filters.into_iter().flatten().flatten().collect::<Vec<_>>()))
        };
        let found = redirects().unwrap_or_default().into_iter().filter(|to| to != device);
        let standing = |to| Standing {
            device: to,
            redirected_from: Some(device.into()),
            ..Standing::default()
        };
        found.filter_map(|to| Self::seeing(standing(to))).collect()
    }

    fn seeing(standing: Standing) -> Option<Self> {
        let ifindex = index(&standing.device)?;
        let socket = Socket::open(Protocol::Route).ok()?;
        let mut own = Self { socket, ifindex, overlimits: None, before: None, standing };
        own.begin();
        Some(own)
    }

    /// Counting begins: what was dropped before does not count.
    pub fn begin(&mut self) {
        self.before = self.dump().map(|queues| counted(&queues));
    }

    /// Looks once; `own` says whether this flow has packets on this host that have not left it ([`quell_sys::socket::bulk::on_this_host`]), which of those
    /// that come in nobody knows.
    pub fn look(&mut self, own: bool) {
        if let Some(queues) = self.dump() {
            self.note(&queues, own);
        }
    }

    /// Counts once more what was dropped, without a look at what waits.
    pub fn count(&mut self) {
        if let Some(queues) = self.dump() {
            self.note_counted(&queues);
        }
    }

    fn dump(&mut self) -> Option<Vec<ObservedQdisc>> {
        dump_qdiscs(&mut self.socket, self.ifindex).ok()
    }

    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    fn note(&mut self, queues: &[ObservedQdisc], own: bool) {
        self.note_counted(queues);
        self.standing.flow_rate = queues.iter().filter_map(flow_rate).min();
        // What stands below the root is counted by it too.
        let roots = || queues.iter().filter(|queue| queue.parent == Handle::ROOT);
        let waits: u64 = roots().map(|queue| u64::from(queue.stats.backlog_bytes)).sum();
        let overlimits = queues.iter().fold(0, |sum: u32, q| sum.wrapping_add(q.stats.overlimits));
        let held_back = self.overlimits.replace(overlimits).is_some_and(|last| last != overlimits);
        let waited = waits > 0
            && !queues.iter().any(is_path)
            && (held_back || !queues.iter().any(waits_for_its_time));
        // What others send may wait in a class of their own.
        let stands = waited && own;
        let seen = &mut self.standing;
        seen.looks += 1;
        seen.waited += u64::from(waited);
        seen.stood += u64::from(stands);
        seen.held_back += u64::from(stands && held_back);
        seen.most = seen.most.max(waits);
    }

    fn note_counted(&mut self, queues: &[ObservedQdisc]) {
        let now = counted(queues);
        let before = *self.before.get_or_insert(now);
        let seen = &mut self.standing;
        seen.dropped = u64::from(now.queued.wrapping_sub(before.queued));
        seen.emulated = u64::from(now.emulated.wrapping_sub(before.emulated));
        seen.filtered = u64::from(now.filtered.wrapping_sub(before.filtered));
        seen.left = now.left.saturating_sub(before.left);
        if seen.kinds.is_empty() {
            let roots = queues.iter().filter(|queue| queue.parent == Handle::ROOT);
            let rest = queues.iter().filter(|queue| queue.parent != Handle::ROOT);
            seen.kinds = roots.chain(rest).map(|queue| queue.kind.clone()).collect();
            seen.kinds.dedup();
        }
    }
}

/// Whether it holds packets back until their time has come, which is no queue by itself.
fn waits_for_its_time(queue: &ObservedQdisc) -> bool {
    matches!(queue.kind.as_str(), "fq" | "etf" | "taprio")
}

fn is_path(queue: &ObservedQdisc) -> bool {
    queue.kind == "netem"
}

fn index(device: &str) -> Option<u32> {
    let name: LinkName = device.parse().ok()?;
    Some(Stack::open().ok()?.link(&name).ok()?.index)
}

/// Devices to which filters redirect, each once; the kernel has no limit for filters, and nobody shapes with more than a few devices.
fn redirects(filters: &[ObservedFilter]) -> Vec<String> {
    const MOST: usize = 8;
    let mut found = Vec::new();
    let actions =
        filters.iter().filter_map(|filter| filter.filter.as_ref()).flat_map(|f| &f.actions);
    for action in actions {
        match action {
            Action::Redirect(to) if found.len() < MOST && !found.contains(to) => {
                found.push(to.clone())
            }
            _ => {}
        }
    }
    found
}

/// What a device dropped, in packets, and what left it, in bytes, since it is there.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// Bytes that left its queues.
    left: u64,
    /// Dropped by its queues, where none plays a path.
    queued: u32,
    /// By its queues, where one does.
    emulated: u32,
    /// By filters before them.
    filtered: u32,
}

fn counted(queues: &[ObservedQdisc]) -> Counted {
    let sum = |parent: Handle| {
        let there = queues.iter().filter(|queue| queue.parent == parent);
        there.fold(0, |sum: u32, queue| sum.wrapping_add(queue.stats.drops))
    };
    // What is dropped below the root is counted by it too.
    let (root, filtered) = (sum(Handle::ROOT), sum(Handle::INGRESS));
    let roots = queues.iter().filter(|queue| queue.parent == Handle::ROOT);
    let left = roots.fold(0, |sum: u64, queue| sum.saturating_add(queue.stats.bytes));
    match queues.iter().any(is_path) {
        true => Counted { left, queued: 0, emulated: root, filtered },
        false => Counted { left, queued: root, emulated: 0, filtered },
    }
}

/// What fq lets out of each flow at most, in bits a second.
fn flow_rate(queue: &ObservedQdisc) -> Option<u64> {
    match &queue.options {
        Some(Qdisc::Fq(fq)) => fq.maxrate.map(quell_units::Rate::bps),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_tc::observed::{Raw, Stats};
    use quell_tc::{Filter, Matchall};

    /// A root queue of this kind, with so many bytes in it, which has held packets back so often.
    fn root(kind: &str, backlog_bytes: u32, overlimits: u32) -> ObservedQdisc {
        ObservedQdisc {
            ifindex: 2,
            handle: Handle::qdisc(1),
            parent: Handle::ROOT,
            kind: kind.into(),
            options: None,
            stats: Stats { backlog_bytes, overlimits, ..Stats::default() },
            extra: None,
            raw: Raw::default(),
        }
    }

    /// One of which nothing was seen yet.
    fn counting() -> OwnQueue {
        OwnQueue {
            socket: Socket::open(Protocol::Route).unwrap(),
            ifindex: 2,
            overlimits: None,
            before: None,
            standing: Standing::default(),
        }
    }

    fn seen(looks: &[(ObservedQdisc, bool)]) -> Standing {
        let mut queue = counting();
        queue.standing.device = "eth0".into();
        for (root, own) in looks {
            queue.note(std::slice::from_ref(root), *own);
        }
        queue.standing
    }

    #[test]
    fn a_queue_stands_where_own_packets_wait_in_it_and_not_where_it_paces_or_is_the_paths() {
        let looks = |kind: &str, overlimits: u32, own: bool| -> Vec<_> {
            (0..10).map(|n| (root(kind, 3028, n * overlimits), own)).collect()
        };
        let shaped = seen(&looks("tbf", 7, true));
        assert!(shaped.stands() && shaped.is_shaped(), "{shaped:?}");
        let full = seen(&looks("pfifo_fast", 0, true));
        assert!(full.stands() && !full.is_shaped(), "the device itself: {full:?}");
        assert!(!seen(&looks("htb", 7, false)).stands(), "another's packets, in their own class");
        assert!(!seen(&looks("fq", 0, true)).stands(), "it paces");
        assert!(!seen(&looks("netem", 7, true)).stands(), "it is the path");
        let mut empty = looks("tbf", 7, true);
        empty.iter_mut().skip(4).for_each(|(root, _)| root.stats.backlog_bytes = 0);
        assert!(!seen(&empty).stands(), "at 4 of 10 looks");
    }

    #[test]
    fn what_comes_in_is_looked_for_where_filters_redirect_it_each_device_once() {
        let filter = |actions: &[Action]| ObservedFilter {
            ifindex: 2,
            parent: Handle::CLSACT_INGRESS,
            kind: "matchall".into(),
            prio: 1,
            protocol: quell_tc::Protocol::ALL,
            chain: 0,
            handle: 1,
            filter: Some(actions.iter().fold(Filter::new(Matchall {}, None), |filter, action| {
                filter.with_action(action.clone())
            })),
            program: None,
            link: None,
            flags: 0,
            raw: Raw::default(),
        };
        let to = |device: &str| Action::Redirect(device.into());
        let found = redirects(&[
            filter(&[Action::Mirror("copies".into()), to("ifb0")]),
            filter(&[Action::Pass]),
            filter(&[to("ifb0")]),
            filter(&[to("ifb1")]),
        ]);
        assert_eq!(found, ["ifb0", "ifb1"]);
        let many: Vec<_> = (0..100).map(|n| filter(&[to(&format!("ifb{n}"))])).collect();
        assert_eq!(redirects(&many).len(), 8);
    }

    #[test]
    fn what_the_own_queues_and_filters_drop_is_counted_from_the_beginning_and_a_paths_is_not() {
        let mut own = counting();
        let dropped = |kind: &str, parent, drops| ObservedQdisc {
            parent,
            stats: Stats { drops, ..Stats::default() },
            ..root(kind, 0, 0)
        };
        let queues = |kind: &str, queued, filtered| {
            [dropped(kind, Handle::ROOT, queued), dropped("clsact", Handle::INGRESS, filtered)]
        };
        own.note(&queues("prio", 100, u32::MAX), true);
        own.note(&queues("prio", 107, 4), true);
        assert_eq!((own.standing.dropped, own.standing.filtered), (7, 5));
        assert_eq!(own.standing.emulated, 0);
        own.before = None;
        own.note(&queues("netem", 0, 0), true);
        own.note(&queues("netem", 30, 2), true);
        assert_eq!((own.standing.dropped, own.standing.filtered), (0, 2));
        assert_eq!(own.standing.emulated, 30);
    }
}
