//! Steps from one tree to another, and the way back, on a model of the kernel.

use crate::after::KernelModel;
use proptest::prelude::*;
use quell_tc::observed::Snapshot;
use quell_tc::qdisc::{Drr, FqCodel, Htb, Pfifo, Prio, Sfq};
use quell_tc::{
    Change, Class, ClassKind, Clsact, Filter, Flower, Fw, Handle, HtbClass, Ingress, Match,
    Matchall, Place, Places, Prefix, Protocol, Qdisc, Queue, RoundRobinClass, Thing, Tree, U32,
    changes, seen,
};
use quell_units::{Bytes, Rate};

fn tree(text: &str) -> Tree {
    toml::from_str(text).unwrap()
}

/// From what is there to a tree, and what is there then. Each step is one that the kernel would take.
fn to(tree: &Tree, mut there: Snapshot) -> (Vec<Change>, Snapshot) {
    let steps = steps(tree, &there);
    for step in &steps {
        refuse_what_the_kernel_would(&there, step);
        there.carry_out(step);
    }
    (steps, there)
}

fn steps(tree: &Tree, there: &Snapshot) -> Vec<Change> {
    changes(&tree.plan().unwrap().things(), Places::ALL, there)
}

fn words(steps: &[Change]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

/// The rules of `tc_modify_qdisc`, `tc_ctl_tclass` and `tc_new_tfilter` (net/sched/) that an order of steps can break.
fn refuse_what_the_kernel_would(there: &Snapshot, step: &Change) {
    let queue = |handle: Handle| there.qdiscs.iter().find(|q| q.handle == handle);
    let holder = |parent: Handle| {
        parent == Handle::ROOT
            || parent == Handle::INGRESS
            || parent.major == u16::MAX
            || queue(Handle::qdisc(parent.major)).is_some()
    };
    let class = |id: Handle| there.classes.iter().find(|c| c.id == id);
    match step {
        Change::Make(thing) => match thing.place() {
            Place::Qdisc { parent, handle } => {
                assert!(holder(parent), "{step}: nothing to hang on");
                let bands = queue(Handle::qdisc(parent.major)).is_some_and(|q| q.kind == "prio");
                let outer = matches!(parent, Handle::ROOT | Handle::INGRESS);
                assert!(outer || bands || class(parent).is_some(), "{step}: no class {parent}");
                assert!(queue(handle).is_none(), "{step}: the name is taken");
                assert!(
                    there.classes.iter().all(|c| c.parent != parent || outer),
                    "{step}: no leaf"
                );
            }
            Place::Class { parent, id } => {
                assert!(holder(parent) && class(id).is_none(), "{step}: twice or nowhere");
                assert!(parent.is_qdisc() || class(parent).is_some(), "{step}: no parent");
            }
            Place::Filter { parent, prio, protocol, .. } => {
                assert!(holder(parent), "{step}: nothing to hang on");
                for other in there.filters.iter().filter(|f| f.parent == parent && f.prio == prio) {
                    assert_eq!(other.kind, thing.kind(), "{step}: another kind at this priority");
                    assert_eq!(other.protocol.0, protocol, "{step}: another protocol");
                    assert_ne!(other.kind, "matchall", "{step}: there can be one only");
                    if let (Thing::Step(quell_tc::Step::Filter { filter, .. }), Some(here)) =
                        (thing, &other.filter)
                        && other.kind == "flower"
                    {
                        assert_ne!(filter.kind, here.kind, "{step}: the same key");
                    }
                }
            }
        },
        Change::Alter(thing) => {
            let place = thing.place();
            let known = there.qdiscs.iter().any(|q| q.place() == place && q.kind == thing.kind())
                || there.classes.iter().any(|c| c.place() == place)
                || there.filters.iter().any(|f| f.place() == place);
            assert!(known, "{step}: not there");
            if let Place::Qdisc { .. } = place {
                assert!(!matches!(thing.kind(), "sfq" | "htb"), "{step}: it can't be changed");
            }
        }
        Change::Remove { place, .. } => match place {
            Place::Qdisc { .. } => {
                assert!(there.qdiscs.iter().any(|q| q.place() == *place), "{step}: not there");
            }
            Place::Class { id, .. } => {
                assert!(class(*id).is_some(), "{step}: not there");
                assert!(there.classes.iter().all(|c| c.parent != *id), "{step}: it holds classes");
                let named = there.filters.iter().filter_map(|f| f.filter.as_ref()?.class);
                assert!(named.clone().all(|c| c != *id), "{step}: a filter names it");
            }
            Place::Filter { parent, prio, handle: 0, .. } => {
                let of = |f: &&quell_tc::observed::ObservedFilter| {
                    f.parent == *parent && f.prio == *prio
                };
                assert!(there.filters.iter().any(|f| of(&f)), "{step}: not there");
            }
            Place::Filter { .. } => {
                assert!(there.filters.iter().any(|f| f.place() == *place), "{step}: not there");
            }
        },
    }
}

#[test]
fn a_host_that_gets_another_rate_costs_one_change_of_one_class() {
    let home = |rate: &str| {
        tree(&format!(
            r#"queue = {{ kind = "htb", default = "1:2", class = [
                {{ id = "1:1", rate = "10Mbit", class = [
                    {{ id = "1:2", rate = "{rate}", queue = {{ kind = "pfifo", limit = 50 }} }},
                    {{ id = "1:3", rate = "5Mbit", queue = "fq_codel" }} ] }} ],
              filter = [{{ kind = "flower", protocol = "ip", src_ip = "10.0.0.2", class = "1:3" }}] }}"#
        ))
    };
    let (_, there) = to(&home("2Mbit"), Snapshot::default());
    assert_eq!(words(&steps(&home("2Mbit"), &there)), [""; 0], "nothing differs");
    let (steps, after) = to(&home("3Mbit"), there.clone());
    assert_eq!(words(&steps), ["change htb class 1:2 under 1:1"]);
    let back = changes(&seen(&there), Places::ALL, &after);
    assert_eq!(words(&back), ["change htb class 1:2 under 1:1"]);
}

#[test]
fn a_queue_of_another_name_is_replaced_in_one_go_and_one_of_the_same_name_goes_first() {
    let (_, there) = to(&tree(r#"queue = { kind = "pfifo", handle = "9:" }"#), Snapshot::default());
    let (steps, there) = to(&tree(r#"queue = { kind = "fq_codel", handle = "1:" }"#), there);
    assert_eq!(words(&steps), ["make root queue 1: (fq_codel)"]);
    let (steps, _) = to(&tree(r#"queue = { kind = "sfq", handle = "1:" }"#), there);
    let wanted = ["take root queue 1: (fq_codel) off", "make root queue 1: (sfq)"];
    assert_eq!(words(&steps), wanted);
}

#[test]
fn the_last_u32_filter_of_a_priority_goes_with_its_hash_table() {
    let hook = |more: &str| {
        tree(&format!(
            r#"ingress = {{ filter = [
                {{ kind = "u32", prio = 7, match = "u32 0 0 at 0", action = "pass" }}{more} ] }}"#
        ))
    };
    let two = r#", { kind = "u32", prio = 1, match = "u32 0 0 at 0", action = "pass" },
                  { kind = "u32", prio = 1, match = "u32 1 1 at 0", action = "pass" }"#;
    let (_, there) = to(&hook(two), Snapshot::default());
    let (steps, after) = to(&hook(""), there);
    assert_eq!(words(&steps), ["take u32 filter 1 at ingress off"]);
    assert_eq!(after.filters.len(), 1);
}

#[test]
fn a_queue_that_loses_what_is_unmatched_gets_its_last_filter_first() {
    let text = r#"queue = { kind = "drr",
        class = [ { id = "1:1" }, { id = "1:2", queue = "pfifo" } ],
        filter = [ { kind = "flower", protocol = "ip", src_ip = "10.0.0.2", class = "1:1" },
                   { kind = "matchall", prio = 9, class = "1:2" } ] }"#;
    let (steps, _) = to(&tree(text), Snapshot::default());
    let wanted = [
        "make root queue 1: (drr)",
        "make drr class 1:2 under 1:",
        "make matchall filter 9 at 1:",
        "make drr class 1:1 under 1:",
        "make queue 2: (pfifo) in class 1:2",
        "make flower filter 1 at 1:",
    ];
    assert_eq!(words(&steps), wanted);
}

#[test]
fn a_catch_all_goes_over_to_another_class_without_a_gap() {
    let text = |class| {
        format!(
            r#"queue = {{ kind = "drr", class = [ {{ id = "1:1" }}, {{ id = "1:2" }} ],
                filter = [{{ kind = "matchall", prio = 100, class = "{class}" }}] }}"#
        )
    };
    let (_, there) = to(&tree(&text("1:1")), Snapshot::default());
    let mut now = there.clone();
    let steps = steps(&tree(&text("1:2")), &there);
    for step in &steps {
        now.carry_out(step);
        assert!(!now.filters.is_empty(), "after {step} every packet has a filter");
    }
    let classes: Vec<_> = now.filters.iter().filter_map(|f| f.filter.as_ref()?.class).collect();
    assert_eq!(classes, [Handle::class(1, 2)]);
}

#[test]
fn what_hangs_at_a_place_that_is_not_looked_at_stays() {
    let hook = r#"ingress = { filter = [{ kind = "matchall", action = "pass" }] }"#;
    let (_, there) = to(&tree(hook), Snapshot::default());
    let plan = tree(r#"queue = "pfifo""#).plan().unwrap();
    let steps = changes(&plan.things(), Places::of(&plan), &there);
    assert_eq!(words(&steps), ["make root queue 1: (pfifo)"]);
}

// ── random trees ────────────────────────────────────────────────────────────────────────────────────────────

fn leaf() -> impl Strategy<Value = Option<Queue>> {
    let kinds = prop_oneof![
        (1u32..3).prop_map(|limit| Qdisc::from(Pfifo { limit: Some(limit) })),
        (1u32..3).prop_map(|limit| FqCodel { limit: Some(limit), ..FqCodel::default() }.into()),
        (1u32..3)
            .prop_map(|n| Sfq { quantum: Some(Bytes::new(n.into())), ..Sfq::default() }.into()),
    ];
    let queue = (kinds, prop::option::of(0x20u16..0x24)).prop_map(|(qdisc, major)| {
        let queue = Queue::from(qdisc);
        match major {
            Some(major) => queue.with_handle(Handle::qdisc(major)),
            None => queue,
        }
    });
    prop::option::of(queue)
}

fn filters(major: u16) -> impl Strategy<Value = Vec<Filter>> {
    let class = (1u16..4).prop_map(move |minor| Handle::class(major, minor));
    let flower = (0u8..3, class.clone()).prop_map(|(host, class)| {
        let src_ip = Prefix::new([10, 0, 0, host].into(), 32);
        let filter = Filter::new(Flower { src_ip, ..Flower::default() }, Some(class));
        Filter { prio: Some(10), protocol: Protocol::IP, ..filter }
    });
    let fw = (1u32..4, class.clone()).prop_map(|(mark, class)| Filter {
        prio: Some(20),
        handle: Some(mark),
        ..Filter::new(Fw::default(), Some(class))
    });
    let u32 = (0u32..3, class.clone()).prop_map(|(value, class)| {
        let one = Match::Raw { width: 32, value, mask: u32::MAX, at: 12, next_header: false };
        Filter { prio: Some(30), ..Filter::new(U32 { r#match: vec![one] }, Some(class)) }
    });
    let all =
        class.prop_map(|class| Filter { prio: Some(40), ..Filter::new(Matchall {}, Some(class)) });
    let any = prop::collection::vec(prop_oneof![flower, fw, u32], 0..6);
    (any, all).prop_map(|(mut filters, all)| {
        // No two that match the same stand at one priority.
        let mut seen = Vec::new();
        filters.retain(|f| {
            let key = (f.prio, f.handle, format!("{:?}", f.kind));
            let new = !seen.contains(&key);
            seen.push(key);
            new
        });
        filters.push(all);
        filters
    })
}

fn root() -> impl Strategy<Value = Queue> {
    let rate =
        |n: u64| HtbClass { rate: Some(Rate::from_bps(n * 1_000_000)), ..HtbClass::default() };
    let htb = (1u16..3, prop::collection::vec((leaf(), 1u64..4, any::<bool>()), 3), filters(1))
        .prop_map(move |(default, leaves, filters)| {
            let default = Some(Handle::class(1, default));
            let mut queue = Queue::from(Htb { default, ..Htb::default() });
            let mut top = Class::new(Handle::class(1, 0xf), rate(9));
            for (minor, (leaf, mbit, nested)) in (1..).zip(leaves) {
                let mut class = Class::new(Handle::class(1, minor), rate(mbit));
                class.queue = leaf.map(Box::new);
                if nested {
                    top.classes.push(class);
                } else {
                    queue.classes.push(class);
                }
            }
            queue.classes.push(top);
            queue.filters = filters;
            queue.with_handle(Handle::qdisc(1))
        });
    let drr =
        (prop::collection::vec((leaf(), 1u64..3), 3), filters(1)).prop_map(|(leaves, filters)| {
            let mut queue = Queue::from(Drr::default()).with_handle(Handle::qdisc(1));
            for (minor, (leaf, quantum)) in (1..).zip(leaves) {
                let kind = RoundRobinClass { quantum: Some(Bytes::new(quantum)) };
                let mut class = Class::new(Handle::class(1, minor), kind);
                class.queue = leaf.map(Box::new);
                queue.classes.push(class);
            }
            queue.filters = filters;
            queue
        });
    let prio = (prop::collection::vec(leaf(), 3), 1u16..3).prop_map(|(leaves, major)| {
        let mut queue = Queue::from(Prio::default()).with_handle(Handle::qdisc(major));
        for (minor, leaf) in (1..).zip(leaves) {
            let mut class = Class::new(Handle::class(major, minor), ClassKind::Band);
            class.queue = leaf.map(Box::new);
            queue.classes.push(class);
        }
        queue
    });
    let plain = (leaf(), 1u16..3).prop_filter_map("a queue", |(leaf, major)| {
        leaf.map(|queue| queue.with_handle(Handle::qdisc(major)))
    });
    prop_oneof![2 => htb, 1 => drr, 1 => prio, 1 => plain]
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let hook = filters(1).prop_map(|filters| {
        let pass = |f: Filter| Filter { class: None, ..f }.with_action(quell_tc::Action::Pass);
        filters.into_iter().filter(|f| f.prio != Some(20)).map(pass).collect::<Vec<_>>()
    });
    (prop::option::of(root()), prop::option::of((any::<bool>(), hook)))
        .prop_map(|(queue, hook)| {
            let mut tree = Tree { queue, ..Tree::default() };
            match hook {
                Some((true, ingress)) => tree.clsact = Some(Clsact { ingress, egress: vec![] }),
                Some((false, filters)) => tree.ingress = Some(Ingress { filters }),
                None => {}
            }
            tree
        })
        // Handles that were drawn twice.
        .prop_filter("a tree that can be", |tree| tree.plan().is_ok())
}

/// What is there, in an order of no meaning.
fn sorted(there: &Snapshot) -> Vec<String> {
    let mut lines: Vec<String> = seen(there).iter().map(|thing| format!("{thing:?}")).collect();
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn from_any_tree_the_steps_lead_to_any_other_and_back_from_wherever_they_were_cut(
        first in any_tree(),
        second in any_tree(),
    ) {
        let (_, before) = to(&first, Snapshot::default());
        prop_assert_eq!(words(&steps(&first, &before)), [""; 0], "all is as wanted");
        let way = steps(&second, &before);
        let mut there = before.clone();
        for (number, step) in way.iter().enumerate() {
            refuse_what_the_kernel_would(&there, step);
            let last = there.clone();
            there.carry_out(step);
            // Back by one step.
            let mut back = there.clone();
            for undo in changes(&seen(&last), Places::ALL, &there) {
                refuse_what_the_kernel_would(&back, &undo);
                back.carry_out(&undo);
            }
            prop_assert_eq!(sorted(&back), sorted(&last), "step {}, {}, undone", number, step);
            // All of the way back from here.
            let mut back = there.clone();
            for undo in changes(&seen(&before), Places::ALL, &there) {
                refuse_what_the_kernel_would(&back, &undo);
                back.carry_out(&undo);
            }
            prop_assert_eq!(sorted(&back), sorted(&before), "back from step {}, {}", number, step);
        }
        prop_assert_eq!(words(&steps(&second, &there)), [""; 0], "all is as wanted then");
    }

    #[test]
    fn what_is_as_wanted_is_not_touched(tree in any_tree()) {
        let (_, there) = to(&tree, Snapshot::default());
        prop_assert_eq!(words(&changes(&seen(&there), Places::ALL, &there)), [""; 0]);
    }
}
