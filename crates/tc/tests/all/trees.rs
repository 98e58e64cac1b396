//! Trees as people write them: read, checked, put in order, shown, compared.

use quell_tc::observed::{ObservedClass, ObservedQdisc, Raw, Snapshot, Stats};
use quell_tc::qdisc::{FqCodel, Htb, Pfifo};
use quell_tc::{
    Class, ClassKind, Filter, Handle, HtbClass, Matchall, Places, Plan, Qdisc, Queue, Step, Tree,
    TreeError, changes, commands,
};
use quell_units::{Bytes, Rate};

fn tree(text: &str) -> Tree {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    match toml::from_str::<Tree>(text) {
        Err(error) => error.to_string(),
        Ok(tree) => tree.plan().expect_err("should be refused").to_string(),
    }
}

const HOME: &str = r#"
[queue]
kind = "htb"
default = "1:30"
[[queue.class]]
id = "1:1"
rate = "2.3Mbit"
[[queue.class.class]]
id = "1:10"
rate = "700kbit"
ceil = "2.3Mbit"
prio = 0
queue = { kind = "fq_codel", ecn = true }
[[queue.class.class]]
id = "1:30"
rate = "1600kbit"
ceil = "2.3Mbit"
queue = "fq_codel"
[[queue.filter]]
kind = "u32"
protocol = "ip"
match = "ip tos EF"
class = "1:10"
"#;

#[test]
fn a_home_tree_becomes_commands_in_the_order_the_kernel_takes_them() {
    let plan = tree(HOME).plan().unwrap();
    assert_eq!(
        commands(&plan, "eth0"),
        [
            "tc qdisc replace dev eth0 root handle 1: htb default 30",
            "tc class replace dev eth0 parent 1: classid 1:1 htb rate 2.3Mbit",
            "tc class replace dev eth0 parent 1:1 classid 1:10 htb rate 700kbit ceil 2.3Mbit prio 0",
            "tc qdisc replace dev eth0 parent 1:10 handle 10: fq_codel ecn",
            "tc class replace dev eth0 parent 1:1 classid 1:30 htb rate 1.6Mbit ceil 2.3Mbit",
            "tc qdisc replace dev eth0 parent 1:30 handle 30: fq_codel",
            "tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip tos 0xb8 0xfc classid 1:10",
        ]
    );
}

#[test]
fn a_tree_survives_being_written_and_read() {
    let before = tree(HOME);
    let toml = toml::to_string(&before).unwrap();
    assert_eq!(tree(&toml), before, "{toml}");
    let json = serde_json::to_string(&before).unwrap();
    assert_eq!(serde_json::from_str::<Tree>(&json).unwrap(), before, "{json}");
}

#[test]
fn the_same_tree_is_built_in_code() {
    let leaf = |minor, rate| {
        let rate = Some(Rate::from_bps(rate));
        Class::new(Handle::class(1, minor), HtbClass { rate, ..HtbClass::default() })
    };
    let queue = Queue::from(Htb { default: Some(Handle::class(1, 2)), ..Htb::default() })
        .with_class(leaf(1, 1_000_000).with_queue(FqCodel::default()))
        .with_class(leaf(2, 2_000_000))
        .with_filter(Filter::new(Matchall {}, Some(Handle::class(1, 1))));
    let text = r#"
        queue = { kind = "htb", default = "1:2", class = [
            { id = "1:1", rate = "1Mbit", queue = "fq_codel" }, { id = "1:2", rate = "2Mbit" } ],
            filter = { kind = "matchall", class = "1:1" } }"#;
    assert_eq!(Tree::from(queue), tree(text));
}

#[test]
fn handles_are_given_where_none_are_written_and_never_twice() {
    let plan = tree(
        r#"
        [queue]
        kind = "prio"
        [[queue.class]]
        queue = { kind = "prio", handle = "1:" }
        [[queue.class]]
        queue = "pfifo"
        [[queue.class]]
        queue = { kind = "htb", class = [{ rate = "1Mbit" }, { id = "7:1", rate = "1Mbit" }, { rate = "1Mbit" }] }
        "#,
    )
    .plan()
    .unwrap();
    let names: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "root queue 2: (prio)",
            "queue 1: (prio) in class 2:1",
            "queue 3: (pfifo) in class 2:2",
            "queue 7: (htb) in class 2:3",
            "htb class 7:2 under 7:",
            "htb class 7:1 under 7:",
            "htb class 7:3 under 7:",
        ]
    );
}

#[test]
fn filters_are_tried_in_the_order_written_around_those_with_a_prio() {
    let plan = tree(
        r#"
        [queue]
        kind = "prio"
        filter = [ { kind = "fw", handle = 1, class = "1:1" }, { kind = "matchall", prio = 2, class = "1:3" },
                   { kind = "fw", handle = 2, class = "1:2" } ]
        "#,
    )
    .plan()
    .unwrap();
    let prios = plan.steps.iter().filter_map(|step| match step {
        Step::Filter { filter, .. } => filter.prio,
        _ => None,
    });
    assert_eq!(prios.collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn filters_of_one_prio_are_of_one_kind_however_many_there_are() {
    let filters = |last: &str| {
        format!(
            r#"queue = {{ kind = "prio", filter = [
                {{ kind = "fw", handle = 1, prio = 7, class = "1:1" }},
                {{ kind = "matchall", prio = 9, class = "1:2" }},
                {{ kind = "fw", handle = 2, prio = 7, class = "1:2" }},
                {{ kind = "{last}", {}prio = 7, class = "1:3" }} ] }}"#,
            if last == "fw" { "handle = 3, " } else { "" }
        )
    };
    tree(&filters("fw")).plan().unwrap();
    assert!(refused(&filters("matchall")).contains("filters of one `prio` must be of one kind"));
}

#[test]
fn fq_codel_with_filters_needs_one_that_matches_everything() {
    let partly = r#"queue = { kind = "fq_codel", filter = [
        { kind = "u32", protocol = "ip", match = "ip tos EF", class = "1:1" } ] }"#;
    assert!(refused(partly).contains("fq_codel drops each packet that no filter matches"));
    let only_ip = r#"queue = { kind = "fq_codel", filter = [
        { kind = "matchall", protocol = "ip", class = "1:1" } ] }"#;
    assert!(refused(only_ip).contains("protocol all"));
    let map = r#"queue = { kind = "fq_codel", filter = [ { kind = "flow", handle = 1, keys = "mark" } ] }"#;
    assert!(refused(map).contains("drops"));
    for last in [
        r#"{ kind = "matchall", class = "1:2" }"#,
        r#"{ kind = "flow", handle = 1, mode = "hash", keys = ["src", "dst"] }"#,
        r#"{ kind = "u32", match = "u32 0 0 at 0", class = "1:2" }"#,
    ] {
        let text = format!(
            r#"queue = {{ kind = "fq_codel", filter = [
                {{ kind = "fw", handle = 1, class = "1:1" }}, {last} ] }}"#
        );
        assert!(tree(&text).plan().is_ok(), "{last}");
    }
    assert!(tree(r#"queue = "fq_codel""#).plan().is_ok());
    let nameless = r#"queue = { kind = "fq_codel", filter = [
        { kind = "flow", mode = "hash", keys = ["src", "dst"] } ] }"#;
    assert!(refused(nameless).contains("flow needs a `handle`"));
}

#[test]
fn what_the_kernel_would_refuse_or_misread_is_refused_first() {
    for (text, reason) in [
        (r#"queue = "fqcodel""#, "did you mean `fq_codel`"),
        (r#"queue = { kind = "fq_codel", limti = 5 }"#, "unknown field `limti`"),
        (r#"queue = { kind = "fq_codel", class = [{ queue = "pfifo" }] }"#, "which has none"),
        (r#"queue = { kind = "htb", class = [{ id = "1:1" }] }"#, "needs `rate`"),
        (r#"queue = { kind = "htb", class = [{ id = "1:1", rate = "0bit" }] }"#, "rate"),
        (
            r#"queue = { kind = "htb", class = [{ id = "1:1", rate = "1Mbit", ceil = "500kbit" }] }"#,
            "`ceil` is below `rate`",
        ),
        (
            r#"queue = { kind = "htb", handle = "1:", class = [{ id = "2:1", rate = "1Mbit" }] }"#,
            "its id must be `1:` and a minor",
        ),
        (
            r#"queue = { kind = "htb", class = [{ id = "1:1", rate = "1Mbit" }, { id = "1:1", rate = "1Mbit" }] }"#,
            "`1:1` is used twice",
        ),
        (
            r#"queue = { kind = "htb", default = "1:9", class = [{ id = "1:1", rate = "1Mbit" }] }"#,
            "default class `1:9` is none of its leaf classes",
        ),
        (
            r#"queue = { kind = "htb", class = [{ id = "1:1", rate = "1Mbit", queue = { kind = "pfifo", handle = "1:" } }] }"#,
            "`1:` is used twice",
        ),
        (
            r#"queue = { kind = "prio", filter = [{ kind = "matchall", class = "1:4" }] }"#,
            "`1:4` is not in queue `1:`",
        ),
        (
            r#"queue = { kind = "prio", filter = [{ kind = "matchall" }] }"#,
            "neither `class` nor `action`",
        ),
        (r#"queue = { kind = "prio", priomap = [0, 1, 5] }"#, "each of 16 priorities"),
        (r#"queue = { kind = "prio", class = [{ rate = "1Mbit" }] }"#, "unknown field `rate`"),
        (r#"queue = { kind = "tbf", rate = "1Mbit", burst = "2kB" }"#, "`limit` and `latency`"),
        (r#"queue = { kind = "netem", jitter = "1ms" }"#, "`jitter` needs `delay`"),
        (r#"queue = { kind = "drr", class = [{ id = "1:1" }] }"#, "drr drops each packet"),
        (r#"queue = { kind = "pfifo", handle = "1:1" }"#, "can't name a queue"),
        (r#"queue = { kind = "pfifo", handle = "ffff:" }"#, "can't name a queue"),
        ("[ingress]\n[clsact]", "both `ingress` and `clsact`"),
        (
            r#"ingress = { filter = [{ kind = "flower", protocol = "ipv6", src_ip = "10.0.0.1", action = "drop" }] }"#,
            "addresses need protocol",
        ),
        (
            r#"ingress = { filter = [{ kind = "matchall", action = { redirekt = "ifb0" } }] }"#,
            "unknown variant `redirekt`",
        ),
        (r#"queues = "fq_codel""#, "unknown field `queues`"),
    ] {
        let said = refused(text);
        assert!(said.contains(reason), "{text}\n  said: {said}\n  not: {reason}");
    }
}

#[test]
fn a_rate_below_one_byte_a_second_is_zero_for_the_kernel() {
    let class = HtbClass { rate: Some(Rate::from_bps(7)), ..HtbClass::default() };
    let queue = Queue::from(Htb::default()).with_class(Class::new(Handle::class(1, 1), class));
    assert!(matches!(Tree::from(queue).plan(), Err(TreeError::Class { .. })));
}

fn observed_queue(handle: Handle, parent: Handle, options: Qdisc) -> ObservedQdisc {
    ObservedQdisc {
        ifindex: 2,
        handle,
        parent,
        kind: options.kind().to_owned(),
        options: Some(options),
        stats: Stats::default(),
        extra: None,
        raw: Raw { options: Some(Vec::new()), ..Raw::default() },
    }
}

/// The steps from what is there to what is wanted.
fn left_to_do(plan: &Plan, there: &Snapshot) -> Vec<String> {
    let left = changes(&plan.things(), Places::of(plan), there);
    left.iter().map(ToString::to_string).collect()
}

/// What a faithful kernel would report for a plan without filters.
fn as_the_kernel_has_it(plan: &Plan) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for step in &plan.steps {
        match step {
            Step::Qdisc { parent, handle, qdisc } => {
                snapshot.qdiscs.push(observed_queue(*handle, *parent, qdisc.clone()));
            }
            Step::Class { parent, id, kind } => snapshot.classes.push(ObservedClass {
                ifindex: 2,
                id: *id,
                parent: if parent.is_qdisc() { Handle::ROOT } else { *parent },
                leaf: None,
                kind: kind.name().to_owned(),
                options: Some(kind.clone()),
                stats: Stats::default(),
                extra: None,
                raw: Raw { options: Some(Vec::new()), ..Raw::default() },
            }),
            Step::Ingress { .. } | Step::Filter { .. } => {}
        }
    }
    snapshot
}

#[test]
fn what_differs_is_changed_and_what_is_as_the_kernel_keeps_it_is_not() {
    let text = HOME.split("[[queue.filter]]").next().unwrap();
    let plan = tree(text).plan().unwrap();
    let mut snapshot = as_the_kernel_has_it(&plan);
    assert_eq!(left_to_do(&plan, &snapshot), [""; 0]);

    let Some(ClassKind::Htb(class)) = &mut snapshot.classes[1].options else { panic!("htb first") };
    class.ceil = Some(Rate::from_bps(700_000));
    // A burst comes back from ticks a few bytes off: no difference.
    class.burst = Some(Bytes::new(1601));
    snapshot.qdiscs.retain(|queue| queue.handle != Handle::qdisc(0x30));
    snapshot.qdiscs.push(observed_queue(
        Handle::qdisc(0x99),
        Handle::class(1, 0x30),
        Pfifo { limit: Some(9) }.into(),
    ));
    assert_eq!(
        left_to_do(&plan, &snapshot),
        ["change htb class 1:10 under 1:1", "make queue 30: (fq_codel) in class 1:30"]
    );
}

#[test]
fn a_bucket_at_a_high_rate_comes_back_in_larger_steps() {
    let class = |rate: &str| {
        let text = format!(
            r#"queue = {{ kind = "htb", class = [ {{ id = "1:1", rate = "{rate}", burst = "1600" }} ] }}"#
        );
        let plan = tree(&text).plan().unwrap();
        let mut snapshot = as_the_kernel_has_it(&plan);
        let Some(ClassKind::Htb(class)) = &mut snapshot.classes[0].options else { panic!("htb") };
        class.burst = Some(Bytes::new(1200));
        left_to_do(&plan, &snapshot).len()
    };
    assert_eq!((class("10Gbit"), class("1Mbit")), (0, 1), "a microsecond is 1250 bytes, or none");
}

#[test]
fn a_rate_comes_back_in_whole_bytes() {
    let text = r#"queue = { kind = "htb", class = [ { id = "1:1", rate = "633333bit" } ] }"#;
    let plan = tree(text).plan().unwrap();
    let mut snapshot = as_the_kernel_has_it(&plan);
    let mut differences = |rate| {
        let Some(ClassKind::Htb(class)) = &mut snapshot.classes[0].options else { panic!("htb") };
        class.rate = Some(Rate::from_bps(rate));
        left_to_do(&plan, &snapshot).len()
    };
    assert_eq!((differences(633_328), differences(633_320)), (0, 1));
}
