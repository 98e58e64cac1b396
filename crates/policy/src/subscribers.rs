//! The policy for many who share a line and have each paid for something: a floor and a ceiling each, groups of them under one ceiling.
//!
//! ```text
//!   htb 1:  1:1 at `rate`
//!    ├ 1:fffe             all that are none of them
//!    ├ a class a group    at its ceiling
//!    │  ├ a class each    its floor for sure, up to its ceiling ── fq_codel
//!    │  └ a class a group within
//!    └ a class each       of those in no group
//! ```
//!
//! A packet's subscriber is that of the longest prefix: one filter priority for each length, so that flower finds it in a look-up a length.
//! A class has its number from its name, so that one more or one less, wherever it stands in a list, renames no other (but where two names
//! would have the same one).

use crate::host_fair::by_mark;
use crate::line_type::MOST_RATE;
use crate::tier::{FRAME, NEXT_TO_NOTHING, codel, htb_class, link_class};
use crate::{PolicyError, Shaped, Tell};
use quell_tc::qdisc::{FqCodel, Htb};
use quell_tc::{Class, ClassKind, Filter, Flower, Handle, HtbClass, Prefix, Queue, Tree};
use quell_units::{Bytes, Rate};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

crate::line_type::counted! {
    pub struct Subscribers {
        #[serde(rename = "subscriber")]
        pub subscribers: Vec<Subscriber>,
        #[serde(default, rename = "group", skip_serializing_if = "Vec::is_empty")]
        pub groups: Vec<Group>,
        /// They are told by their addresses in marks too, which a table writes where addresses are translated.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub translated: bool,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Subscriber {
    pub name: String,
    pub prefixes: Vec<PrefixText>,
    pub floor: Rate,
    pub ceiling: Rate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Group {
    pub name: String,
    /// What all of it may have together.
    pub ceiling: Rate,
    /// The group that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PrefixText(pub Prefix);

impl TryFrom<String> for PrefixText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(|prefix| PrefixText(as_sent(prefix)))
    }
}

/// An IPv4 address in the clothes of IPv6 (RFC 4291, section 2.5.5.2) is on no wire: what is meant is the one of IPv4.
fn as_sent(prefix: Prefix) -> Prefix {
    let plain = prefix.address.to_canonical();
    let length = prefix.length.checked_sub(96).filter(|_| plain != prefix.address);
    length.and_then(|length| Prefix::new(plain, length)).unwrap_or(prefix)
}

impl From<PrefixText> for String {
    fn from(prefix: PrefixText) -> String {
        prefix.0.to_string()
    }
}

/// Class numbers by "subscriber" or "group" and the name.
pub(crate) type Numbers<'a> = HashMap<(&'static str, &'a str), u16>;

pub(crate) const ALL: Handle = Handle::class(1, 1);

/// Those who are not named.
pub(crate) const OTHERS: u16 = 0xfffe;

/// Most groups within each other: the line and a subscriber take the other two of HTB's eight levels (`TC_HTB_MAXDEPTH`).
pub(crate) const GROUP_LEVELS: usize = 6;

/// Numbers of classes that names may get; a queue's major is the same number. HTB has 16 bits of them.
pub(crate) const NUMBERS: std::ops::Range<u32> = 0x10..0xff00;

/// Priorities of filters by the address in the mark, one for each length of an IPv4 prefix.
const BY_MARK: u16 = 33;

/// Flow queues in each leaf. The usual 1024 take 64 kB a subscriber, whether anybody is there or not.
const FLOWS: u32 = 128;

impl Subscribers {
    pub fn plan(&self, tell: Tell) -> Result<Shaped, PolicyError> {
        self.counting.check("subscribers")?;
        self.check(tell)?;
        let numbers = self.numbers();
        let mut groups = self.group_classes(&numbers);
        let (mut alone, mut filters) = (Vec::new(), Vec::new());
        for one in &self.subscribers {
            let minor = numbers[&("subscriber", one.name.as_str())];
            let (class, id) = (self.class_of(one, minor), Handle::class(1, minor));
            filters
                .extend(one.prefixes.iter().flat_map(|prefix| self.by_prefix(prefix.0, tell, id)));
            match one.group.as_deref().and_then(|name| groups.get_mut(name)) {
                Some(group) => group.classes.push(class),
                None => alone.push(class),
            }
        }
        let mut root = self.root(alone.into_iter().chain(self.nested(groups)).collect());
        root.filters = filters;
        Ok(Shaped { tree: Tree::from(root), marking: Vec::new() })
    }

    /// A prefix's filters: the address in the mark is asked first, since a router's own may be a subscriber's too.
    fn by_prefix(&self, prefix: Prefix, tell: Tell, class: Handle) -> Vec<Filter> {
        let mut own = by_prefix(prefix, tell, class);
        if !self.translated {
            return own;
        }
        own.iter_mut().for_each(|one| one.prio = one.prio.map(|prio| prio + BY_MARK));
        let length = u16::from(prefix.length);
        // The longest is asked first here too.
        let mark = BY_MARK.checked_sub(length).and_then(|prio| by_mark(prefix, class, prio));
        mark.into_iter().chain(own).collect()
    }

    /// The root queue, with these classes in that of the line, and that of all others behind them.
    pub(crate) fn root(&self, classes: Vec<Class>) -> Queue {
        let rate = self.counting.htb_rate();
        let mut link = link_class(ALL, self.counting);
        link.classes = classes;
        let others = Handle::class(1, OTHERS);
        let rest = htb_class(others, Rate::from_bps(NEXT_TO_NOTHING), rate, 1);
        link.classes.push(self.counting.told(limited(rest)).with_queue(leaf(OTHERS, rate, rate)));
        Queue::from(Htb { default: Some(others), ..Htb::default() })
            .with_handle(Handle::qdisc(1))
            .with_class(link)
    }

    /// The class of each group in which somebody is, with nobody in it yet.
    pub(crate) fn group_classes(&self, numbers: &Numbers<'_>) -> BTreeMap<&str, Class> {
        let rate = self.counting.htb_rate();
        let floors = self.floors();
        let class = |group: &'_ Group| {
            let id = Handle::class(1, numbers[&("group", group.name.as_str())]);
            let floor = Rate::from_bps(*floors.get(group.name.as_str())?);
            Some(self.counting.told(limited(htb_class(id, floor, group.ceiling.min(rate), 0))))
        };
        let named = self.groups.iter().map(|group| (group.name.as_str(), class(group)));
        named.filter_map(|(name, class)| Some((name, class?))).collect()
    }

    /// The outermost groups' classes, with those of the others in them.
    pub(crate) fn nested<'a>(&'a self, mut classes: BTreeMap<&'a str, Class>) -> Vec<Class> {
        let outer = self.outer_groups();
        let mut names: Vec<&str> = classes.keys().copied().collect();
        names.sort_by_key(|name| std::cmp::Reverse(chain(name, &outer).count()));
        let mut outermost = Vec::new();
        for name in names {
            let Some(class) = classes.remove(name) else { continue };
            match outer.get(name).and_then(|outer| classes.get_mut(outer)) {
                Some(outer) => outer.classes.push(class),
                None => outermost.push(class),
            }
        }
        outermost
    }

    /// The group that each is in, of those that are in one.
    fn outer_groups(&self) -> HashMap<&str, &str> {
        let named = self.groups.iter();
        named.filter_map(|group| Some((group.name.as_str(), group.group.as_deref()?))).collect()
    }

    /// What those in each group have for sure, together, in groups within it too.
    fn floors(&self) -> HashMap<&str, u64> {
        let outer = self.outer_groups();
        let mut floors = HashMap::<&str, u64>::new();
        for one in &self.subscribers {
            for name in one.group.iter().flat_map(|name| chain(name, &outer)) {
                let floors = floors.entry(name).or_default();
                *floors = floors.saturating_add(one.floor.bps());
            }
        }
        floors
    }

    pub(crate) fn class_of(&self, one: &Subscriber, minor: u16) -> Class {
        let rate = self.counting.htb_rate();
        let within = one.group.as_ref().and_then(|name| self.group(name));
        let ceiling = within.map_or(rate, |g| g.ceiling).min(one.ceiling).min(rate);
        let class = limited(htb_class(Handle::class(1, minor), one.floor, ceiling, 0));
        self.counting.told(class).with_queue(leaf(minor, ceiling, rate))
    }

    /// The subscribers' classes, with their names; that of all others comes last.
    pub(crate) fn parts(&self) -> Vec<(Handle, String)> {
        let numbers = self.numbers();
        let named = self.subscribers.iter().map(|one| {
            let name = one.name.as_str();
            (Handle::class(1, numbers[&("subscriber", name)]), name.to_owned())
        });
        let others = (Handle::class(1, OTHERS), "all others".to_owned());
        named.chain([others]).collect()
    }

    fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Finds out what does not fit together, before a kernel does.
    pub(crate) fn check(&self, tell: Tell) -> Result<(), PolicyError> {
        let wrong = |why: String| Err(PolicyError::Subscribers(why));
        if self.subscribers.is_empty() {
            return wrong("nobody is named; give a [[subscriber]] with its prefixes".into());
        }
        if tell == Tell::Mark {
            return wrong(
                "behind address translation their addresses can't be seen; shape the interface on their side".into(),
            );
        }
        let most = NUMBERS.len();
        let count = self.subscribers.len() + self.groups.len();
        if count > most {
            return wrong(format!("{count} subscribers and groups; HTB has classes for {most}"));
        }
        let known: HashMap<&str, Rate> =
            self.groups.iter().map(|group| (group.name.as_str(), group.ceiling)).collect();
        let is_there = |who: &str, group: Option<&str>| match group {
            Some(group) if !known.contains_key(group) => {
                let known: Vec<&str> = self.groups.iter().map(|g| g.name.as_str()).collect();
                let hint = quell_units::nearest::hint(group, &known);
                wrong(format!("{who} is in a group `{group}`, which is not there{hint}"))
            }
            _ => Ok(()),
        };
        let mut names = HashSet::with_capacity(count);
        let mut owners: HashMap<Prefix, &str> = HashMap::with_capacity(count);
        let mut all_floors = 0u64;
        for one in &self.subscribers {
            let Subscriber { name, floor, ceiling, .. } = one;
            if name.trim().is_empty() {
                let first = one.prefixes.first().map(|prefix| format!(", who has {}", prefix.0));
                return wrong(format!(
                    "one{} has no name; give each a name of its own",
                    first.unwrap_or_default()
                ));
            }
            if !names.insert(name.as_str()) {
                return wrong(format!("two are named `{name}`"));
            }
            if floor > ceiling {
                return wrong(format!(
                    "`{name}` has a floor of {floor} above its ceiling of {ceiling}"
                ));
            }
            if floor.bps() < NEXT_TO_NOTHING {
                let least = Rate::from_bps(NEXT_TO_NOTHING);
                return wrong(format!("`{name}` has a floor of {floor}; give at least {least}"));
            }
            sane(&format!("`{name}`"), *ceiling)?;
            if one.prefixes.is_empty() {
                return wrong(format!("`{name}` has no prefix"));
            }
            all_floors = all_floors.saturating_add(floor.bps());
            is_there(&format!("`{name}`"), one.group.as_deref())?;
            for prefix in &one.prefixes {
                if let Some(other) = owners.insert(prefix.0, name) {
                    let prefix = prefix.0;
                    return wrong(format!("`{other}` and `{name}` both have {prefix}"));
                }
            }
        }
        let mut groups = HashSet::new();
        let (outer, floors) = (self.outer_groups(), self.floors());
        for group in &self.groups {
            if !groups.insert(&group.name) {
                return wrong(format!("two groups are named `{}`", group.name));
            }
            let whose = format!("group `{}`", group.name);
            sane(&whose, group.ceiling)?;
            is_there(&whose, group.group.as_deref())?;
            if chain(&group.name, &outer).count() > GROUP_LEVELS {
                return wrong(format!(
                    "{whose} is in itself, or more than {GROUP_LEVELS} groups are within each other"
                ));
            }
            let floors = floors.get(group.name.as_str()).copied().unwrap_or_default();
            fits(&whose, floors, group.ceiling)?;
        }
        fits("the line", all_floors, self.counting.rate)
    }

    /// A class number for each name: that of its name's hash, or the next free one.
    pub(crate) fn numbers(&self) -> Numbers<'_> {
        let subscribers = self.subscribers.iter().map(|s| ("subscriber", s.name.as_str()));
        let names = subscribers.chain(self.groups.iter().map(|g| ("group", g.name.as_str())));
        // In one order, however the list is written.
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names.dedup();
        let mut taken = vec![false; NUMBERS.len()];
        let mut number = |key: (&'static str, &str)| {
            let hash = quell_tc::hash(key.0.bytes().chain(key.1.bytes()));
            let mut at = (hash % NUMBERS.len() as u64) as usize;
            while std::mem::replace(&mut taken[at], true) {
                at = (at + 1) % NUMBERS.len();
            }
            (NUMBERS.start as usize + at) as u16
        };
        names.into_iter().map(|key| (key, number(key))).collect()
    }
}

/// A group, that in which it is, and so on; of a circle a little more than may be within each other.
fn chain<'a>(name: &'a str, outer: &HashMap<&'a str, &'a str>) -> impl Iterator<Item = &'a str> {
    let all = std::iter::successors(Some(name), |name| outer.get(name).copied());
    all.take(GROUP_LEVELS + 1)
}

/// Whether floors fit into what there is.
fn fits(what: &str, floors: u64, rate: Rate) -> Result<(), PolicyError> {
    if floors > rate.bps() {
        let floors = Rate::from_bps(floors);
        return Err(PolicyError::Subscribers(format!(
            "the floors in {what} are {floors} together, and it has {rate}"
        )));
    }
    Ok(())
}

/// A ceiling that lets a full packet through each second, and that a line may have.
fn sane(whose: &str, ceiling: Rate) -> Result<(), PolicyError> {
    let wrong = |why: String| Err(PolicyError::Subscribers(format!("{whose} {why}")));
    if ceiling.bps() < 8 * FRAME {
        let least = Rate::from_bps(8 * FRAME);
        return wrong(format!("has a ceiling of {ceiling}; a full packet a second is {least}"));
    }
    if ceiling > MOST_RATE {
        return wrong(format!("has a ceiling of {ceiling}; no line carries more than {MOST_RATE}"));
    }
    Ok(())
}

/// Four packets at once, of its floor as of its ceiling: while the line sends somebody else's packet, a class that has earned its next one goes
/// on earning, and HTB forgets what does not fit into these.
fn limited(mut class: Class) -> Class {
    if let ClassKind::Htb(HtbClass { burst, cburst, .. }) = &mut class.kind {
        let few = Some(Bytes::new(4 * FRAME));
        (*burst, *cburst) = (few, few);
    }
    class
}

/// A leaf for a ceiling on a line. Its bound is by the line: were it by the ceiling, another ceiling would cost packets that wait.
fn leaf(number: u16, ceiling: Rate, line: Rate) -> Queue {
    let FqCodel { limit, .. } = codel(line);
    let leaf = FqCodel { flows: Some(FLOWS), limit, ..codel(ceiling) };
    Queue::from(leaf).with_handle(Handle::qdisc(number))
}

/// A prefix's filter; of that of everything two, of its halves: flower shows no address of which no bit counts.
fn by_prefix(prefix: Prefix, tell: Tell, class: Handle) -> Vec<Filter> {
    let (longest, odd) = if prefix.address.is_ipv4() { (32, 1) } else { (128, 2) };
    let parts = if prefix.length == 0 { halves(prefix) } else { vec![prefix] };
    let one = |part: Prefix| {
        let (src_ip, dst_ip) = match tell {
            Tell::Destination => (None, Some(part)),
            _ => (Some(part), None),
        };
        // Of any protocol: a packet with a VLAN tag counts as one of 802.1Q, and its addresses are found all the same.
        let mut filter = Filter::new(Flower { src_ip, dst_ip, ..Flower::default() }, Some(class));
        // The longest is asked first; u32, where it stands for flower, has one protocol a priority.
        filter.prio = Some(2 * (longest - u16::from(prefix.length)) + odd);
        filter
    };
    parts.into_iter().map(one).collect()
}

/// All addresses of a family as two prefixes.
fn halves(all: Prefix) -> Vec<Prefix> {
    let upper = match all.address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(1 << 31)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(1 << 127)),
    };
    [all.address, upper].into_iter().filter_map(|address| Prefix::new(address, 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_tc::{FilterKind, Protocol};

    fn one(name: &str, prefix: &str, floor: u64, ceiling: u64, group: Option<&str>) -> Subscriber {
        Subscriber {
            name: name.into(),
            prefixes: vec![PrefixText(prefix.parse().expect("a prefix"))],
            floor: Rate::from_bps(floor),
            ceiling: Rate::from_bps(ceiling),
            group: group.map(Into::into),
        }
    }

    fn policy(subscribers: Vec<Subscriber>) -> Subscribers {
        Subscribers {
            counting: Rate::from_bps(100_000_000).into(),
            subscribers,
            groups: vec![group("north", 30_000_000, None)],
            translated: false,
        }
    }

    fn group(name: &str, ceiling: u64, within: Option<&str>) -> Group {
        let ceiling = Rate::from_bps(ceiling);
        Group { name: name.into(), ceiling, group: within.map(Into::into) }
    }

    #[test]
    fn a_group_within_groups_has_its_class_in_theirs_and_their_floors_are_all_that_is_in_them() {
        let mut wanted = policy(two());
        wanted.groups.push(group("site", 50_000_000, None));
        wanted.groups.push(group("empty", 50_000_000, Some("site")));
        wanted.groups[0].group = Some("site".into());
        let shaped = wanted.plan(Tell::Source).expect("a plan");
        shaped.tree.plan().expect("handles and parents fit together");
        let link = &shaped.tree.queue.expect("a root").classes[0];
        let site = link.classes.iter().find(|class| !class.classes.is_empty()).expect("`site`");
        let rates = |class: &Class| match &class.kind {
            ClassKind::Htb(htb) => (htb.rate.map(Rate::bps), htb.ceil.map(Rate::bps)),
            other => panic!("{other:?}"),
        };
        let [north] = &site.classes[..] else { panic!("{site:#?}") };
        let (five, twenty) = (Some(5_000_000), Some(20_000_000));
        assert_eq!(rates(site), (five, Some(50_000_000)));
        assert_eq!(
            (rates(north), rates(&north.classes[0])),
            ((five, Some(30_000_000)), (five, twenty))
        );
        for (outer, says) in [
            (group("site", 4_000_000, None), "group `site` are 5Mbit together"),
            (group("site", 50_000_000, Some("nroth")), "is in a group `nroth`, which is not there"),
            (group("site", 50_000_000, Some("north")), "is in itself"),
        ] {
            wanted.groups[1] = outer;
            let said = refused(wanted.clone());
            assert!(said.contains(says), "{said}");
        }
    }

    fn two() -> Vec<Subscriber> {
        vec![
            one("ann", "10.0.0.0/24", 5_000_000, 20_000_000, Some("north")),
            one("bob", "10.0.0.7", 1_000_000, 50_000_000, None),
        ]
    }

    fn refused(policy: Subscribers) -> String {
        policy.plan(Tell::Source).expect_err("nonsense").to_string()
    }

    #[test]
    fn the_longest_prefix_is_asked_first() {
        let shaped = policy(two()).plan(Tell::Source).expect("a plan");
        shaped.tree.plan().expect("handles and parents fit together");
        let filters = shaped.tree.queue.expect("a root").filters;
        let prio = |text: &str| {
            let wanted: Prefix = text.parse().expect("a prefix");
            let is = |f: &&Filter| matches!(&f.kind, quell_tc::FilterKind::Flower(f) if f.src_ip == Some(wanted));
            filters.iter().find(is).and_then(|f| f.prio).expect("a filter")
        };
        assert!(prio("10.0.0.7/32") < prio("10.0.0.0/24"));
    }

    #[test]
    fn where_a_table_writes_addresses_into_marks_the_longest_prefix_of_those_is_asked_first() {
        let mut subscribers = two();
        subscribers.push(one("six", "2001:db8::/48", 8_000, 20_000, None));
        subscribers.push(one("rest", "0.0.0.0/0", 8_000, 20_000, None));
        let translated = Subscribers { translated: true, ..policy(subscribers) };
        let shaped = translated.plan(Tell::Source).expect("a plan");
        shaped.tree.plan().expect("handles and parents fit together");
        let filters = shaped.tree.queue.expect("a root").filters;
        let (marks, own): (Vec<_>, Vec<_>) =
            filters.iter().partition(|f| matches!(f.kind, FilterKind::Fw(_)));
        let found: Vec<_> = marks.iter().map(|f| (f.handle, f.prio)).collect();
        let wire = |last| Some(u32::from_ne_bytes([10, 0, 0, last]));
        assert_eq!(found, [(wire(0), Some(9)), (wire(7), Some(1))]);
        // All of them have their own address too, and it is asked behind every mark; who has all addresses needs no mark.
        assert_eq!(own.len(), 5);
        assert!(own.iter().all(|f| f.prio > Some(33)));
    }

    fn prefixes(policy: Subscribers) -> Vec<(Option<u16>, String)> {
        let root = policy.plan(Tell::Source).expect("a plan").tree.queue.expect("a root");
        let one = |filter: &Filter| {
            assert_eq!(filter.protocol, Protocol::ALL, "also with a VLAN tag");
            match &filter.kind {
                FilterKind::Flower(flower) => {
                    (filter.prio, flower.src_ip.expect("one").to_string())
                }
                other => panic!("{other:?}"),
            }
        };
        root.filters.iter().map(one).collect()
    }

    #[test]
    fn who_has_all_addresses_has_both_halves_of_them_and_is_asked_last() {
        let all = |text: &str| one("all", text, 8_000, 20_000, None);
        let told = prefixes(policy(vec![all("0.0.0.0/0")]));
        assert_eq!(told, [(Some(65), "0.0.0.0/1".into()), (Some(65), "128.0.0.0/1".into())]);
        let told =
            prefixes(policy(vec![all("::/0"), one("half", "8000::/1", 8_000, 9_000_000, None)]));
        assert_eq!(told[..2], [(Some(258), "::/1".into()), (Some(258), "8000::/1".into())]);
        assert_eq!(told[2], (Some(256), "8000::/1".into()));
    }

    #[test]
    fn an_ipv4_address_written_as_one_of_ipv6_is_the_one_of_ipv4() {
        let read =
            |text: &str| PrefixText::try_from(text.to_owned()).expect("a prefix").0.to_string();
        assert_eq!(read("::ffff:10.0.0.1"), "10.0.0.1/32");
        assert_eq!(read("::ffff:10.0.0.0/120"), "10.0.0.0/24");
        assert_eq!(read("::ffff:0:0/96"), "0.0.0.0/0");
        // Others of IPv6, and one of which these are only a part.
        for other in ["::/0", "2001:db8::/48", "::10.0.0.1/128", "::fffe:0:0/95"] {
            assert_eq!(read(other), other.replace("10.0.0.1", "a00:1"));
        }
    }

    #[test]
    fn one_more_wherever_it_stands_renames_nobody() {
        let many = |n: u16| -> Vec<Subscriber> {
            let make = |i: u16| {
                one(
                    &format!("s{i}"),
                    &format!("10.{}.{}.0/24", i / 256, i % 256),
                    8_000,
                    20_000,
                    None,
                )
            };
            (0..n).map(make).collect()
        };
        let before = policy(many(300));
        let mut more = many(300);
        more.insert(17, one("zoe", "10.200.0.0/24", 8_000, 20_000, None));
        let (before, after) = (before.numbers(), more);
        let after = policy(after);
        let after = after.numbers();
        let moved = before.iter().filter(|(name, number)| after[*name] != **number).count();
        assert_eq!(moved, 0);
    }

    #[test]
    fn more_than_htb_has_classes_for_are_refused_with_how_many_it_has() {
        let many = |count: u32| -> Vec<Subscriber> {
            let one = |n: u32| {
                let prefix = Ipv4Addr::from_bits(0x0a00_0000 + n).to_string();
                one(&format!("s{n}"), &prefix, 8_000, 20_000, None)
            };
            (0..count).map(one).collect()
        };
        let policy = |count| Subscribers {
            counting: Rate::from_bps(10_000_000_000).into(),
            ..policy(many(count))
        };
        let said = "70001 subscribers and groups; HTB has classes for 65264";
        for tell in [Tell::Source, Tell::Destination] {
            assert!(policy(70_000).plan(tell).expect_err("too many").to_string().contains(said));
            let lazy = policy(70_000).plan_on_demand(tell).expect_err("too many").to_string();
            assert!(lazy.contains(said), "{lazy}");
        }
        // With the group that makes as many as there can be.
        assert!(policy(65_263).plan_on_demand(Tell::Source).is_ok());
        assert!(policy(65_264).plan_on_demand(Tell::Source).is_err());
    }

    #[test]
    fn what_does_not_fit_together_is_named() {
        let mut twice = two();
        twice[1].prefixes = twice[0].prefixes.clone();
        assert!(refused(policy(twice)).contains("`ann` and `bob` both have 10.0.0.0/24"));
        let mut high = two();
        high[0].floor = Rate::from_bps(40_000_000);
        assert!(refused(policy(high.clone())).contains("above its ceiling"));
        high[0].ceiling = Rate::from_bps(40_000_000);
        assert!(refused(policy(high)).contains("group `north` are 40Mbit together"));
        let mut lost = two();
        lost[0].group = Some("nort".into());
        assert!(refused(policy(lost)).contains("did you mean `north`"));
        assert!(refused(policy(Vec::new())).contains("nobody is named"));
        let mut slow = two();
        (slow[0].floor, slow[0].ceiling) = (Rate::from_bps(8_000), Rate::from_bps(9_000));
        assert!(refused(policy(slow)).contains("a full packet a second is 12112bit"));
        let mut fast = two();
        fast[0].ceiling = Rate::from_bps(2_000_000_000_000);
        assert!(refused(policy(fast)).contains("no line carries more than 1Tbit"));
    }
}
