//! What the kernel told of filters, as `tc` would print it.

use quell_hierarchy::{LiveDevice, assemble, records_of};
use quell_tc::observed::{ObservedFilter, Raw, Snapshot};
use quell_tc::{Filter, Flower, Handle, Match, Protocol, U32};

fn filter(kind: &str, handle: u32, of: Filter) -> ObservedFilter {
    ObservedFilter {
        ifindex: 1,
        parent: Handle::qdisc(1),
        kind: kind.into(),
        prio: 1,
        protocol: of.protocol,
        chain: 0,
        handle,
        filter: Some(of),
        program: None,
        link: None,
        flags: 0,
        raw: Raw::default(),
    }
}

#[test]
fn linked_tables_and_what_the_hardware_does_are_told_live_too() {
    let u32 = |text: &str, class| {
        let of = U32 { r#match: vec![text.parse::<Match>().unwrap()] };
        Filter { protocol: Protocol::IP, ..Filter::new(of, class) }
    };
    let link = ObservedFilter {
        link: Some(3),
        ..filter("u32", 0x8000_0801, u32("u32 0x60000 0xff0000 at 8", None))
    };
    let inside = u32("u32 0x3690000 0xffff0000 at nexthdr+0", Some(Handle::class(1, 2)));
    let inside = filter("u32", 0x0030_0800, inside);
    let flower = Filter::new(Flower::default(), Some(Handle::class(0xffff, 0xffe2)));
    let flower = ObservedFilter { prio: 2, flags: 2 | 4, ..filter("flower", 1, flower) };
    let snapshot = Snapshot { filters: vec![inside, link, flower], ..Snapshot::default() };
    let records = records_of(&LiveDevice { name: "a", snapshot: &snapshot });
    let devices = assemble(records, None, |_| false).unwrap().devices;
    let said: Vec<String> = devices[0]
        .filters
        .iter()
        .map(|f| {
            let table = f.table.as_deref().unwrap_or("-");
            format!("{table}: {} [{}]", f.matches.join(", "), f.hardware.join(" "))
        })
        .collect();
    let wanted = [
        "-: ip protocol tcp, then table 3: []",
        "3: ip sport 873 []",
        "-:  [hw_tc 2 skip_sw in_hw]",
    ];
    assert_eq!(said, wanted);
}
