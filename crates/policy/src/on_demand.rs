//! Subscribers' classes that are made when their subscriber is there, and not before.
//!
//! ```text
//!   htb 1:  1:1 at `rate`                         always there: `tree`
//!    ├ 1:fffe          all that are none of them, and who came just now
//!    ├ a class a group
//!    │  ├ a class a group within
//!    │  └ a class each ── fq_codel                made for those who are there: `class`
//!    └ a class each ── fq_codel
//!   prefix ─► class                               all of them: `prefixes`
//! ```

use crate::subscribers::{ALL, NUMBERS, OTHERS, Subscriber, Subscribers};
use crate::{PolicyError, Tell};
use quell_tc::{Class, ClassKind, Handle, Prefix, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// What is made of subscribers when.
#[derive(Debug, Clone, PartialEq)]
pub struct OnDemand {
    policy: Subscribers,
    /// Which of the policy's subscribers has which class.
    owners: BTreeMap<u16, usize>,
    parents: BTreeMap<String, Handle>,
    groups: BTreeSet<Handle>,
    /// What is always there. The filter that finds packets' subscribers is still to come.
    pub tree: Tree,
}

/// Sorts of classes that are tried beforehand, at most.
const SORTS: usize = 64;

impl Subscribers {
    /// The same without the classes of those who are not there. A filter is still to come that finds packets' subscribers.
    pub fn plan_on_demand(self, tell: Tell) -> Result<OnDemand, PolicyError> {
        self.counting.check("subscribers")?;
        self.check(tell)?;
        let numbers = self.numbers();
        let groups = self.group_classes(&numbers);
        let id = |name: &str| Handle::class(1, numbers[&("group", name)]);
        let names = self.groups.iter().map(|group| group.name.as_str());
        let parents: BTreeMap<String, Handle> =
            names.map(|name| (name.to_owned(), id(name))).collect();
        let ids = parents.values().copied().collect();
        let tree = Tree::from(self.root(self.nested(groups)));
        let number = |one: &Subscriber| numbers[&("subscriber", one.name.as_str())];
        let owners = self.subscribers.iter().map(number).zip(0..).collect();
        Ok(OnDemand { owners, parents, groups: ids, tree, policy: self })
    }
}

/// Puts classes into that of their parent, wherever it is below.
fn put_in(class: &mut Class, coming: &mut BTreeMap<Handle, Vec<Class>>) {
    class.classes.iter_mut().for_each(|within| put_in(within, coming));
    class.classes.extend(class.id.and_then(|id| coming.remove(&id)).unwrap_or_default());
}

impl OnDemand {
    pub const OTHERS: Handle = Handle::class(1, OTHERS);

    /// The numbers that classes may have which come and go; groups, which don't, have some of them too.
    pub fn minors() -> (u16, u16) {
        (NUMBERS.start as u16, (NUMBERS.end - 1) as u16)
    }

    pub fn count(&self) -> usize {
        self.owners.len()
    }

    pub fn prefixes(&self) -> impl Iterator<Item = (Prefix, Handle)> {
        self.owners.iter().flat_map(|(minor, at)| {
            let one = &self.policy.subscribers[*at];
            one.prefixes.iter().map(|prefix| (prefix.0, Handle::class(1, *minor)))
        })
    }

    pub fn numbers(&self) -> impl Iterator<Item = u16> {
        self.owners.keys().copied()
    }

    pub fn name(&self, minor: u16) -> Option<&str> {
        Some(&self.policy.subscribers[*self.owners.get(&minor)?].name)
    }

    /// The class of a subscriber with its queue, and the class that it is in; none if it is nobody's.
    pub fn class(&self, minor: u16) -> Option<(Handle, Class)> {
        let one = &self.policy.subscribers[*self.owners.get(&minor)?];
        let group = one.group.as_ref().and_then(|name| self.parents.get(name));
        Some((group.copied().unwrap_or(ALL), self.policy.class_of(one, minor)))
    }

    /// Whether a class is a group's, and so always there.
    pub fn is_group(&self, class: Handle) -> bool {
        self.groups.contains(&class)
    }

    /// Numbers of classes of each sort, a few of thousands that are alike: what a kernel takes of one it takes of all.
    pub fn likely(&self) -> Vec<u16> {
        let mut sorts = BTreeSet::new();
        let mut likely = Vec::new();
        for (minor, at) in &self.owners {
            let one = &self.policy.subscribers[*at];
            let sort = (one.floor.bps(), one.ceiling.bps(), one.group.is_some());
            if sorts.len() < SORTS && sorts.insert(sort) {
                likely.push(*minor);
            }
        }
        likely
    }

    /// The tree with the classes of these subscribers in it; of others nothing.
    pub fn with(&self, minors: impl IntoIterator<Item = u16>) -> Tree {
        let mut tree = self.tree.clone();
        let Some(link) = tree.queue.as_mut().and_then(|root| root.classes.first_mut()) else {
            return tree;
        };
        let mut coming = BTreeMap::<Handle, Vec<Class>>::new();
        for (parent, class) in minors.into_iter().filter_map(|minor| self.class(minor)) {
            coming.entry(parent).or_default().push(class);
        }
        put_in(link, &mut coming);
        tree
    }

    pub fn minor_of(&self, name: &str) -> Option<u16> {
        let is = |at: &usize| self.policy.subscribers[*at].name == name;
        self.owners.iter().find(|(_, at)| is(at)).map(|(minor, _)| *minor)
    }

    /// Whether a class that is there can stay: it is somebody's, of the same kind and in the same place. Its rates can be changed where it is.
    pub fn can_stay(&self, minor: u16, parent: Handle) -> bool {
        self.class(minor).is_some_and(|(wanted, class)| {
            wanted == parent && matches!(class.kind, ClassKind::Htb(_))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tell;
    use crate::subscribers::{Group, PrefixText, Subscriber};
    use quell_units::Rate;

    fn one(name: &str, prefix: &str, group: Option<&str>) -> Subscriber {
        Subscriber {
            name: name.into(),
            prefixes: vec![PrefixText(prefix.parse().expect("a prefix"))],
            floor: Rate::from_bps(100_000),
            ceiling: Rate::from_bps(20_000_000),
            group: group.map(Into::into),
        }
    }

    fn three() -> Subscribers {
        Subscribers {
            counting: Rate::from_bps(100_000_000).into(),
            subscribers: vec![
                one("ann", "10.0.0.0/24", Some("north")),
                one("bob", "10.0.0.7", None),
                one("eve", "2001:db8::/48", Some("north")),
            ],
            groups: [("north", Some("site")), ("empty", None), ("site", None)]
                .map(|(name, within)| Group {
                    name: name.into(),
                    ceiling: Rate::from_bps(30_000_000),
                    group: within.map(Into::into),
                })
                .into(),
            translated: false,
        }
    }

    fn minor(all: &OnDemand, name: &str) -> u16 {
        all.numbers().find(|minor| all.name(*minor) == Some(name)).expect("it is named")
    }

    #[test]
    fn with_everybody_there_the_classes_are_those_that_are_made_at_once() {
        let all = three().plan_on_demand(Tell::Source).expect("a plan");
        let mut at_once = three().plan(Tell::Source).expect("a plan").tree;
        at_once.queue.as_mut().expect("a root").filters.clear();
        let steps = |tree: Tree| {
            let steps = tree.plan().expect("handles and parents fit together").steps;
            steps.iter().map(|step| format!("{step:?}")).collect::<BTreeSet<_>>()
        };
        assert_eq!(steps(all.with(all.numbers())), steps(at_once));
    }

    #[test]
    fn with_nobody_there_only_groups_and_the_rest_have_classes() {
        let all = three().plan_on_demand(Tell::Source).expect("a plan");
        let plan = all.with([]).plan().expect("it fits");
        let classes =
            plan.steps.iter().filter(|step| matches!(step, quell_tc::Step::Class { .. })).count();
        assert_eq!(classes, 4, "the line, `site`, `north`, all others; in `empty` is nobody");
        assert_eq!(all.prefixes().count(), 3);
        assert_eq!(all.likely().len(), 2, "ann and eve are alike");
    }

    #[test]
    fn who_is_in_another_group_now_can_not_stay_where_it_is() {
        let all = three().plan_on_demand(Tell::Source).expect("a plan");
        let (ann, bob) = (minor(&all, "ann"), minor(&all, "bob"));
        let north = all.class(ann).expect("ann has one").0;
        assert!(all.can_stay(ann, north) && all.can_stay(bob, ALL));
        assert!(!all.can_stay(ann, ALL) && !all.can_stay(bob, north));
        assert!(!all.can_stay(ann ^ 1, ALL), "nobody's");
    }
}
