//! What `quell shape` says of an interface before it shapes it.

use crate::support::cable::Cable;
use crate::support::left_out;
use crate::support::says;
use quell_netlink::core::{Protocol, Socket};
use quell_netlink::link::{LinkKind, LinkName, NewLink};
use quell_netlink::{Stack, nat, tc};
use quell_tc::qdisc::{Mq, Pfifo};
use quell_tc::{Handle, Places, Step, Thing};

/// What is said beside the steps.
fn remarks(cable: &Cable, options: &[&str]) -> String {
    let said = cable.shape(&[&["plan", "--dev", "a0", "--json"], options].concat()).fine();
    let plan: serde_json::Value = serde_json::from_str(&said).unwrap();
    plan["remarks"].to_string()
}

#[test]
fn who_is_named_where_addresses_are_translated_is_found_or_it_is_said_that_nobody_is() {
    let cable = Cable::new();
    let a0: LinkName = "a0".parse().unwrap();
    let up = ["--up", "10Mbit"];
    let named = [&up[..], &["--host", "10.9.0.2,fd09::2"]].concat();
    assert_eq!(remarks(&cable, &named).matches("translated").count(), 0, "nobody does so yet");
    let masquerade = || nat::masquerade(std::slice::from_ref(&a0));
    match cable.here.run(masquerade).unwrap() {
        Err(error) if error.proves_kernel_lacks_feature() => {
            left_out::kernel_lacks(format!("a story of translated addresses: {error}"));
            return;
        }
        made => made.unwrap(),
    }
    let said = remarks(&cable, &named);
    let found = said.contains("a table of nftables notes in connections' marks");
    let hidden = said.contains("can't be told apart where this machine translates")
        && said.contains("count as all others'");
    assert!(found != hidden, "{said}");
    let table = cable.shape(&[&["plan", "--dev", "a0"], &named[..]].concat()).fine();
    assert_eq!(table.contains("make the nftables table ip quell-hosts-a0"), found, "{table}");
    // Who knows better says so; IPv6 shows its hosts.
    let by_address = [&named[..], &["--hosts-by", "address"]].concat();
    let six = [&up[..], &["--host", "fd09::2"]].concat();
    for known in [&by_address, &six] {
        assert!(!remarks(&cable, known).contains("translate"), "{known:?}");
    }
    let wrong = [&["plan", "--dev", "a0"], &named[..], &["--hosts-by", "mark"]].concat();
    says(&cable.shape(&wrong).refused(2), &["told by its address", "--hosts-by mark"]);
    let recipe = ["recipe", "--for", "tc", "--no-try", "--line", "10/50", "--host", "10.9.0.2"];
    says(
        &cable.dir.quell(&[&["shape"], &recipe[..]].concat()).fine(),
        &["count as all", "--policy cake looks"],
    );
    let nat = [&["shape"], &recipe[..], &["--hosts-by", "nat"]].concat();
    says(&cable.dir.quell(&nat).refused(2), &["a table for it that no command makes"]);
}

/// The queues of an interface, whoever made them, in the kernel's order.
fn queues(cable: &Cable, name: &str) -> Vec<(String, Handle, Handle)> {
    let look = || {
        let index = Stack::open().unwrap().index_of(&name.parse().unwrap()).unwrap();
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let all = tc::snapshot(&mut socket, index).unwrap().qdiscs;
        all.into_iter().map(|queue| (queue.kind, queue.parent, queue.handle)).collect()
    };
    cable.here.run(look).unwrap()
}

const NEVER: [&str; 2] = ["--confirm-within", "never"];

#[test]
fn where_an_interface_has_several_transmit_queues_that_one_takes_their_place_is_said_and_off_gives_them_back()
 {
    let cable = Cable::of(4);
    let up = ["--up", "10Mbit", "--policy", "tiers"];
    let plan = || cable.shape(&[&["plan", "--dev", "a0"], &up[..]].concat()).fine();
    assert!(!plan().contains("in place of"), "a cable's have no queue at all");
    // What the kernel gives a device by itself: mq, with a queue for each.
    let make = || {
        let mut stack = Stack::open().unwrap();
        let link =
            NewLink { tx_queues: Some(4), ..NewLink::new("many".parse().unwrap(), LinkKind::Ifb) };
        stack.create_link(&link).unwrap();
        let index = stack.index_of(&link.name).unwrap();
        stack.up(index).unwrap();
    };
    cable.here.run(make).unwrap();
    let default = queues(&cable, "many");
    assert_eq!(default.iter().filter(|(kind, ..)| kind == "mq").count(), 1, "{default:?}");
    assert_eq!(default.len(), 5, "{default:?}");
    let many = ["--dev", "many"];
    let told = cable.shape(&[&["apply"], &many[..], &up, &NEVER].concat()).fine();
    says(&told, &["one queue in place of 4: many"]);
    assert!(queues(&cable, "many").iter().all(|(kind, ..)| kind != "mq"));
    cable.shape(&[&["off"], &many[..]].concat()).fine();
    assert_eq!(queues(&cable, "many"), default);
    // One that somebody made, with something of his own in it.
    let step = |parent, handle, qdisc| Thing::Step(Step::Qdisc { parent, handle, qdisc });
    let theirs = [
        step(Handle::ROOT, Handle::qdisc(7), Mq {}.into()),
        step(Handle::class(7, 2), Handle::qdisc(0x70), Pfifo { limit: Some(77) }.into()),
    ];
    let put = || {
        let index = Stack::open().unwrap().index_of(&"a0".parse().unwrap()).unwrap();
        let mut socket = Socket::open(Protocol::Route).unwrap();
        tc::lead_to(&mut socket, index, &theirs, Places::ALL).unwrap();
    };
    cable.here.run(put).unwrap();
    says(&plan(), &["one queue in place of 4: a0 has 4 transmit queues"]);
    let (before, things) = (queues(&cable, "a0"), cable.things());
    let replace = [&["apply", "--dev", "a0", "--replace"], &up[..], &NEVER].concat();
    cable.shape(&replace).fine();
    cable.shape(&["off", "--dev", "a0"]).fine();
    assert_eq!((queues(&cable, "a0"), cable.things()), (before, things));
}

#[test]
fn what_is_above_the_interfaces_own_speed_or_above_the_line_is_said() {
    // A cable's driver says 10 Gbit/s.
    let cable = Cable::new();
    let said = remarks(&cable, &["--up", "12Gbit", "--down", "9Gbit", "--policy", "tiers"]);
    says(&said, &["up 12Gbit is above the 10Gbit that a0 itself carries"]);
    let said = remarks(&cable, &["--up", "10Gbit", "--policy", "tiers"]);
    assert!(!said.contains("above"), "{said}");
    let file = "up = \"20Mbit\"\ndown = \"40Mbit\"\n[[subscriber]]\nname = \"ann\"\nprefixes = [\"192.0.2.0/29\"]\n\
                up = { floor = \"1Mbit\", ceiling = \"20Mbit\" }\ndown = { floor = \"1Mbit\", ceiling = \"90Mbit\" }\n";
    cable.dir.write("s.toml", file);
    for options in [&["--file", "s.toml"][..], &["--file", "s.toml", "--eager"]] {
        let said = remarks(&cable, options);
        says(&said, &["down, `ann` can't have 90Mbit: the line has 40Mbit"]);
        assert!(!said.contains("up, `ann`"), "{said}");
    }
    let told = cable.shape(&[&["apply", "--dev", "a0", "--file", "s.toml"], &NEVER[..]].concat());
    says(&told.fine(), &["down, `ann` can't have 90Mbit"]);
}
