//! From records to the hierarchy.
//!
//! ```text
//!   records ──1 whose?──► by device ──2 what hangs where──► nodes ──3 which class?──► filters ──4 who feeds whom──► Hierarchy
//! ```

use crate::findings;
use crate::model::{Device, Filter, Hierarchy, Node, Target};
use crate::record::{Attachment, FilterRecord, Hook, NodeRecord, Record, What};
use crate::u32_tables;
use quell_tc::{Handle, Qdisc};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Why records are no hierarchy: the line, and what is unclear.
pub type Unclear = (usize, String);

/// Puts records together. Those without a device belong to `nameless`, or to the one device that has their queue.
pub fn assemble(
    records: Vec<Record>,
    nameless: Option<&str>,
    is_ifb: impl Fn(&str) -> bool,
) -> Result<Hierarchy, Unclear> {
    let by_device = by_device(records, nameless)?;
    let mut devices: Vec<Device> =
        by_device.into_iter().map(|(name, records)| device(name, records, &is_ifb)).collect();
    join(&mut devices);
    for index in 0..devices.len() {
        devices[index].findings = findings::of(&devices, index);
    }
    Ok(Hierarchy { devices })
}

type NamedItems = Vec<(String, Vec<What>)>;

const NAMELESS: &str = "(unnamed device)";

fn by_device(records: Vec<Record>, nameless: Option<&str>) -> Result<NamedItems, Unclear> {
    // The majors of each device's queues tell whose a class is.
    let mut majors: HashMap<u16, BTreeSet<String>> = HashMap::new();
    let mut order: Vec<String> = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for record in &records {
        let Some(name) = &record.device else { continue };
        if known.insert(name.clone()) {
            order.push(name.clone());
        }
        if let What::Queue(queue) = &record.what {
            majors.entry(queue.handle.major).or_default().insert(name.clone());
        }
    }
    let mut found: HashMap<String, Vec<What>> = HashMap::new();
    let mut roots = 0;
    for record in records {
        let Record { device, line, what } = record;
        let name = match device.or_else(|| nameless.map(str::to_owned)) {
            Some(name) => name,
            None => whose(&what, &order, &majors).map_err(|why| (line, why))?,
        };
        if name == NAMELESS
            && matches!(&what, What::Queue(queue) if queue.place == Attachment::Root)
        {
            roots += 1;
            if roots > 1 {
                let why = "this is a second root queue, and neither names its device. Put the command above each output (+ tc qdisc show \
         dev eth0), or take the output of tc qdisc show, which names devices";
                return Err((line, why.into()));
            }
        }
        if known.insert(name.clone()) {
            order.push(name.clone());
        }
        found.entry(name).or_default().push(what);
    }
    Ok(order
        .into_iter()
        .map(|name| {
            let records = found.remove(&name).unwrap_or_default();
            (name, records)
        })
        .collect())
}

/// The device of a record that does not say it.
fn whose(
    what: &What,
    order: &[String],
    majors: &HashMap<u16, BTreeSet<String>>,
) -> Result<String, String> {
    let (major, shown) = match what {
        What::Queue(queue) => (
            match queue.place {
                Attachment::Under(parent) => Some(parent.major),
                _ => None,
            },
            format!("queue {} {}", queue.kind, queue.handle),
        ),
        What::Class(class) => {
            (Some(class.handle.major), format!("class {} {}", class.kind, class.handle))
        }
        What::Filter(filter) => {
            let major = filter.parent.or(filter.class).map(|handle| handle.major);
            (major.or(filter.hook.map(|_| u16::MAX)), format!("{} filter", filter.kind))
        }
        What::Asked(parent) => (parent.map(|handle| handle.major), "command".to_owned()),
    };
    let candidates: Vec<&String> = match major.and_then(|major| majors.get(&major)) {
        Some(names) => names.iter().collect(),
        None => order.iter().collect(),
    };
    match candidates.as_slice() {
        [] => Ok(NAMELESS.into()),
        [only] => Ok((*only).clone()),
        several => {
            let mut names: Vec<&str> = several.iter().take(4).map(|name| name.as_str()).collect();
            if several.len() > 4 {
                names.push("…");
            }
            Err(format!(
                "whose is this {shown}? It could be of {}: put the command above the output (+ tc class show dev {}), or name the \
                 device: quell tree {} --from FILE",
                names.join(", "),
                several[0],
                several[0]
            ))
        }
    }
}

/// Deepest nesting; the kernel allows eight queues in each other, and htb eight classes.
const DEEPEST: usize = 128;

fn shows_flows(kind: &str) -> bool {
    matches!(kind, "fq_codel" | "fq_pie" | "sfq" | "cake" | "fq")
}

/// What was read of a device, each thing once: what comes later is newer.
#[derive(Default)]
struct Sorted {
    /// Of several with the handle 0 each has its own place.
    queues: BTreeMap<(Handle, u8, Handle), NodeRecord>,
    classes: BTreeMap<Handle, NodeRecord>,
    /// Of queues whose classes are flows inside them.
    flows: HashMap<u16, BTreeSet<u16>>,
    filters: Vec<FilterRecord>,
    /// Queues whose filters were asked for; `None` is the root.
    asked: BTreeSet<Option<Handle>>,
}

impl Sorted {
    fn of(records: Vec<What>) -> Self {
        let mut sorted = Sorted::default();
        let mut numbers = HashMap::new();
        for what in records {
            match what {
                What::Queue(queue) => {
                    let (class, parent) = match queue.place {
                        Attachment::Root => (0, Handle::ROOT),
                        Attachment::Ingress => (1, Handle::INGRESS),
                        Attachment::Under(parent) => (2, parent),
                    };
                    sorted.queues.insert((queue.handle, class, parent), queue);
                }
                What::Class(class) if shows_flows(&class.kind) => {
                    let flows = sorted.flows.entry(class.handle.major).or_default();
                    flows.insert(class.handle.minor);
                }
                // hfsc shows itself as its own root class.
                What::Class(class) if class.handle.minor == 0 && class.kind == "hfsc" => {}
                What::Class(class) => drop(sorted.classes.insert(class.handle, class)),
                What::Asked(parent) => drop(sorted.asked.insert(parent)),
                What::Filter(filter) => {
                    let key = (
                        filter.parent,
                        filter.hook,
                        filter.prio,
                        filter.kind.clone(),
                        filter.name.clone(),
                        filter.matches.clone(),
                    );
                    match numbers.get(&key) {
                        Some(at) => sorted.filters[*at] = filter,
                        None => {
                            numbers.insert(key, sorted.filters.len());
                            sorted.filters.push(filter);
                        }
                    }
                }
            }
        }
        // The one place inside tbf, netem or red is worth a word only where a queue hangs in it.
        let under = sorted.queues.keys().filter(|key| key.1 == 2).map(|key| key.2);
        let used: BTreeSet<Handle> = under.collect();
        sorted.classes.retain(|handle, class| {
            !matches!(class.kind.as_str(), "tbf" | "netem" | "red") || used.contains(handle)
        });
        sorted.asked.extend(sorted.filters.iter().filter(|f| f.hook.is_none()).map(|f| f.parent));
        let order = |f: &FilterRecord| (f.parent, f.hook.map(|hook| hook as u8), f.chain, f.prio);
        sorted.filters.sort_by_key(order);
        u32_tables::settle(&mut sorted.filters);
        sorted
    }
}

fn device(name: String, records: Vec<What>, is_ifb: &impl Fn(&str) -> bool) -> Device {
    let Sorted { queues, classes, flows, filters, asked } = Sorted::of(records);
    let mut build = Build::default();
    let places: Vec<(usize, bool, Attachment)> = queues
        .into_values()
        .map(|record| (false, record))
        .chain(classes.into_values().map(|record| (true, record)))
        .map(|(class, record)| {
            let place = record.place;
            (build.node(class, record), class, place)
        })
        .collect();
    for (node, class, place) in places {
        build.hang(node, class, place);
    }
    for filter in &filters {
        build.hold(filter);
    }
    let (tops, adrift) = build.settle();
    for node in &mut build.nodes {
        if !node.class && shows_flows(&node.kind) {
            node.flows = flows.get(&node.handle.major).map_or(0, BTreeSet::len);
        }
    }
    let filters = build.filters(filters);
    let root = tops.first().map(|top| build.nodes[*top].handle);
    let filters_told = asked.into_iter().filter_map(|parent| parent.or(root)).collect();
    Device {
        ifb: is_ifb(&name),
        name,
        nodes: build.nodes,
        filters,
        tops,
        adrift,
        fed_by: Vec::new(),
        findings: Vec::new(),
        filters_told,
    }
}

#[derive(Default)]
struct Build {
    nodes: Vec<Node>,
    queues: HashMap<u16, usize>,
    classes: BTreeMap<Handle, usize>,
    tops: Vec<(u8, usize)>,
}

impl Build {
    fn node(&mut self, class: bool, record: NodeRecord) -> usize {
        let index = self.nodes.len();
        if class {
            self.classes.insert(record.handle, index);
        } else {
            self.queues.entry(record.handle.major).or_insert(index);
        }
        self.nodes.push(Node {
            class,
            kind: record.kind,
            handle: record.handle,
            whose: None,
            implied: false,
            parent: None,
            children: Vec::new(),
            settings: record.settings,
            is_default: false,
            default: record.default.map(|minor| Handle { minor, ..record.handle }),
            counters: record.counters,
            flows: 0,
            chosen_by: Vec::new(),
        });
        index
    }

    fn hang(&mut self, node: usize, class: bool, place: Attachment) {
        let own = self.nodes[node].handle;
        let parent = match place {
            Attachment::Root if !class => return self.tops.push((0, node)),
            Attachment::Ingress => return self.tops.push((1, node)),
            Attachment::Root => self.queues.get(&own.major).copied(),
            Attachment::Under(parent) if parent.minor == 0 => {
                self.queues.get(&parent.major).copied()
            }
            Attachment::Under(parent) => {
                self.classes.get(&parent).copied().or_else(|| self.implied(parent))
            }
        };
        if let Some(parent) = parent.filter(|parent| *parent != node) {
            self.nodes[node].parent = Some(parent);
        }
    }

    /// A queue that no output listed, in which a filter hangs.
    fn hold(&mut self, filter: &FilterRecord) {
        let (kind, handle, way) = match (filter.hook, filter.parent) {
            (Some(_), _) => ("ingress", Handle::qdisc(u16::MAX), 1),
            (None, Some(parent)) if parent.major == u16::MAX => ("ingress", parent, 1),
            (None, Some(parent)) => ("queue", Handle::qdisc(parent.major), 0),
            // It may hang on any queue.
            (None, None) if !self.nodes.is_empty() => return,
            (None, None) => {
                ("queue", filter.class.map_or(Handle::default(), |c| Handle::qdisc(c.major)), 0)
            }
        };
        let known = match way {
            1 => self.tops.iter().any(|(way, _)| *way == 1),
            _ => self.queues.contains_key(&handle.major),
        };
        if known {
            return;
        }
        let record = NodeRecord {
            kind: kind.to_owned(),
            handle,
            place: Attachment::Root,
            default: None,
            settings: Vec::new(),
            counters: None,
        };
        let node = self.node(false, record);
        self.nodes[node].implied = true;
        self.tops.push((way, node));
    }

    /// A class that a queue hangs in though no output listed it.
    fn implied(&mut self, handle: Handle) -> Option<usize> {
        let queue = *self.queues.get(&handle.major)?;
        let record = NodeRecord {
            kind: self.nodes[queue].kind.clone(),
            handle,
            place: Attachment::Root,
            default: None,
            settings: Vec::new(),
            counters: None,
        };
        let node = self.node(true, record);
        self.nodes[node].implied = true;
        self.nodes[node].parent = Some(queue);
        Some(node)
    }

    /// Makes children of parents; gives what hangs on the device, and what hangs on nothing. What goes round in a circle hangs on nothing.
    fn settle(&mut self) -> (Vec<usize>, Vec<usize>) {
        self.tops.sort_by_key(|(way, node)| (*way, self.nodes[*node].handle));
        let tops: Vec<usize> = self.tops.iter().map(|(_, node)| *node).collect();
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            if let Some(parent) = node.parent {
                below[parent].push(index);
            }
        }
        let mut seen = vec![false; self.nodes.len()];
        let reach = |from: Vec<usize>, seen: &mut Vec<bool>, nodes: &mut Vec<Node>| {
            let mut open: Vec<(usize, usize)> = from.into_iter().map(|at| (at, 0)).collect();
            while let Some((at, depth)) = open.pop() {
                if std::mem::replace(&mut seen[at], true) || depth >= DEEPEST {
                    continue;
                }
                let mut children: Vec<usize> =
                    below[at].iter().copied().filter(|child| !seen[*child]).collect();
                // A class' own queue stands before its classes.
                children.sort_by_key(|child| (nodes[*child].class, nodes[*child].handle));
                open.extend(children.iter().map(|child| (*child, depth + 1)));
                nodes[at].children = children;
            }
        };
        reach(tops.clone(), &mut seen, &mut self.nodes);
        // Then those whose parent is nowhere, then what is left: circles, opened at their first node, and what is too deep.
        let mut adrift = Vec::new();
        let lost: Vec<usize> =
            (0..self.nodes.len()).filter(|at| self.nodes[*at].parent.is_none()).collect();
        for at in lost.into_iter().chain(0..self.nodes.len()) {
            if !seen[at] {
                adrift.push(at);
                self.nodes[at].parent = None;
                reach(vec![at], &mut seen, &mut self.nodes);
            }
        }
        (tops, adrift)
    }

    /// Hangs filters where they belong, and tells classes by whom they are chosen.
    fn filters(&mut self, records: Vec<FilterRecord>) -> Vec<Filter> {
        let first = |is: &dyn Fn(&Node) -> bool| self.nodes.iter().position(is);
        let mut places = QueueIndex {
            nodes: &self.nodes,
            queues: &self.queues,
            classes: &self.classes,
            ingress: first(&|node| matches!(node.kind.as_str(), "ingress" | "clsact")),
            root: first(&|node| !node.class && node.parent.is_none()),
            steps: MOST_STEPS,
        };
        let filters: Vec<Filter> = records.into_iter().map(|record| places.put(record)).collect();
        for (number, filter) in filters.iter().enumerate() {
            let chosen = match &filter.target {
                Target::Class(class) => std::slice::from_ref(class),
                Target::Spread(classes) => classes,
                _ => &[],
            };
            chosen.iter().for_each(|class| self.nodes[*class].chosen_by.push(number));
        }
        for index in 0..self.nodes.len() {
            let default = self.nodes[index].default;
            if let Some(class) = default.and_then(|handle| self.classes.get(&handle)) {
                self.nodes[*class].is_default = true;
            }
        }
        filters
    }
}

/// Classes that filters which spread packets are followed to, of all filters of a device together; more than a person looks at.
const MOST_STEPS: usize = 1 << 20;

/// Where filters of a device can hang, and which classes they can choose.
struct QueueIndex<'a> {
    nodes: &'a [Node],
    queues: &'a HashMap<u16, usize>,
    classes: &'a BTreeMap<Handle, usize>,
    ingress: Option<usize>,
    root: Option<usize>,
    steps: usize,
}

impl QueueIndex<'_> {
    fn put(&mut self, record: FilterRecord) -> Filter {
        let (mut at, mut hook) = (None, record.hook);
        match record.parent {
            Some(Handle::CLSACT_INGRESS) => hook = Some(Hook::Ingress),
            Some(Handle::CLSACT_EGRESS) => hook = Some(Hook::Egress),
            Some(parent) if parent.major == u16::MAX => hook = hook.or(Some(Hook::Ingress)),
            Some(parent) if parent.minor == 0 => at = self.queues.get(&parent.major).copied(),
            Some(parent) => at = self.classes.get(&parent).copied(),
            // Not said: where its class is, else on the way in where there is such a place, else at the root.
            None if hook.is_some() => {}
            None => match record.class.and_then(|class| self.queues.get(&class.major)) {
                Some(queue) => at = Some(*queue),
                None if self.ingress.is_some() => hook = Some(Hook::Ingress),
                None => at = self.root,
            },
        }
        if hook.is_some() {
            at = self.ingress;
        }
        let target = self.target(&record, at, hook);
        let table = u32_tables::linked(&record.kind, &record.name).map(str::to_owned);
        let record = FilterRecord { hook, ..record };
        Filter { record, at, target, feeds: Vec::new(), table }
    }

    fn target(&mut self, record: &FilterRecord, at: Option<usize>, hook: Option<Hook>) -> Target {
        let queue = at.and_then(|node| {
            if self.nodes[node].class {
                self.queues.get(&self.nodes[node].handle.major).copied()
            } else {
                Some(node)
            }
        });
        let flows = queue.is_some_and(|queue| is_classless(&self.nodes[queue].kind));
        match (record.class, record.spread) {
            _ if record.opaque => Target::Opaque,
            (None, None) => Target::None,
            (_, Some(_)) if flows => Target::Flow,
            (base, Some(count)) => {
                let major = base
                    .or(queue.map(|queue| self.nodes[queue].handle))
                    .map_or(0, |handle| handle.major);
                let first = base.map_or(1, |base| base.minor);
                let last = u16::try_from(u32::from(first).saturating_add(count.max(1) - 1))
                    .unwrap_or(u16::MAX);
                let range = Handle { major, minor: first }..=Handle { major, minor: last };
                let found: Vec<usize> =
                    self.classes.range(range).map(|(_, class)| *class).take(self.steps).collect();
                self.steps -= found.len();
                match found.is_empty() {
                    true if self.steps == 0 => Target::Opaque,
                    true => Target::Missing,
                    false => Target::Spread(found),
                }
            }
            (Some(class), None) => match self.classes.get(&class) {
                Some(class) => Target::Class(*class),
                // The queue itself: as htb's way past its classes.
                None if class.minor == 0 && self.queues.contains_key(&class.major) => Target::None,
                None if flows => Target::Flow,
                None if hook.is_some() => Target::None,
                None => Target::Missing,
            },
        }
    }
}

/// Whether a filter's class is a flow inside the queue there.
fn is_classless(kind: &str) -> bool {
    Qdisc::from_kind(kind).is_some_and(|qdisc| !qdisc.is_classful())
}

fn join(devices: &mut [Device]) {
    let names: HashMap<String, usize> =
        devices.iter().enumerate().map(|(at, device)| (device.name.clone(), at)).collect();
    let mut fed = Vec::new();
    for (at, device) in devices.iter_mut().enumerate() {
        for (number, filter) in device.filters.iter_mut().enumerate() {
            let to = filter
                .deeds
                .iter()
                .filter(|deed| deed.redirects)
                .filter_map(|deed| names.get(deed.to.as_ref()?));
            filter.feeds = to.copied().filter(|to| *to != at).collect();
            fed.extend(filter.feeds.iter().map(|to| (*to, at, number)));
        }
    }
    for (to, from, filter) in fed {
        devices[to].fed_by.push((from, filter));
    }
}
