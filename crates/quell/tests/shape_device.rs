//! What `quell shape` says of an interface before it shapes it.

mod support;

use quell_netlink::link::LinkName;
use quell_netlink::nat;
use std::io::Write;
use support::cable::Cable;
use support::says;

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
            let line = format!("skipped a story of translated addresses: {error}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
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
