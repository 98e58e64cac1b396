//! host-fair where nobody lists the hosts: they are found at run time, each has its share, and idle ones give their place back.
//!
//! ```text
//!   h1 ──┐
//!   …    ├── router ════ server        the router's `wan` is shaped
//!   hn ──┘        wan
//! ```

use super::support::{TestFolder, near, on_the_router};
use std::fmt::Write;

/// So many hosts, each with its loads, behind one line that is shaped a little below its rate; the share of each load.
struct Home {
    hosts: usize,
    /// What each host sends, by its number.
    load: fn(usize) -> &'static str,
    rate: &'static str,
    found: &'static str,
    /// How long it is measured, and what runs before.
    duration: &'static str,
    warm_up: &'static str,
}

impl Home {
    /// Those of hosts with one connection: of another one each connection has its own.
    fn shares(&self) -> Vec<f64> {
        let names: Vec<String> = (1..=self.hosts).map(|n| format!("\"h{n}\"")).collect();
        let names = names.join(", ");
        let mut text = format!(
            "name = \"found\"\nduration = \"{}\"\nwarm-up = \"{}\"\nprobes-run = \"together\"\n\
             [topology]\nhosts = [{names}, \"server\"]\nrouters = [\"router\"]\n\
             [[topology.link]]\nname = \"wan\"\nends = [\"router\", \"server\"]\n\
             both = {{ rate = \"{}\", delay = \"10ms\", buffer = \"100p\" }}\n\
             [[queue]]\nname = \"shaped\"\non = \"router:wan\"\n\
             policy = {{ kind = \"host-fair\", rate = \"96% of link wan.up\", found = {{ {} }} }}\n\
             [[scenario]]\nname = \"s\"\nloads = [{names}]\nqueues = [\"shaped\"]\n\
             [[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"h1\"\nto = \"server\"\n",
            self.duration, self.warm_up, self.rate, self.found
        );
        for n in 1..=self.hosts {
            write!(
                text,
                "[[topology.link]]\nname = \"lan{n}\"\nends = [\"h{n}\", \"router\"]\n\
                 [[load]]\nname = \"h{n}\"\nkind = \"tcp\"\nfrom = \"h{n}\"\nto = \"server\"\n{}\n",
                (self.load)(n)
            )
            .expect("a string takes all");
        }
        let results = TestFolder::new().run(&text, &[]);
        let single = (1..=self.hosts).filter(|n| !(self.load)(*n).contains("connections"));
        single.map(|n| results.number("s", &format!("h{n}"), "share")).collect()
    }
}

#[test]
fn each_of_thirty_hosts_has_a_thirtieth_and_the_one_with_four_transfers_no_more() {
    let shares = Home {
        hosts: 30,
        load: |n| if n == 7 { "connections = 4" } else { "" },
        rate: "30Mbit",
        found: "",
        duration: "20s",
        warm_up: "10s",
    }
    .shares();
    assert_eq!(shares.len(), 29);
    // Within 3 % of what is fair; what is left is that of the one with four.
    shares.iter().for_each(|share| near(share * 30.0, 1.0, 0.03));
}

#[test]
fn hosts_with_ipv6_are_found_too() {
    let shares = Home {
        hosts: 3,
        load: |n| if n == 1 { "connections = 4\nipv6 = true" } else { "ipv6 = true" },
        rate: "5Mbit",
        found: "",
        duration: "15s",
        warm_up: "10s",
    }
    .shares();
    shares.iter().for_each(|share| near(share * 3.0, 1.0, 0.03));
}

#[test]
fn two_share_a_place_only_where_all_are_taken() {
    let shares = |found| {
        let mut shares =
            Home { hosts: 4, load: |_| "", rate: "6Mbit", found, duration: "15s", warm_up: "10s" }
                .shares();
        shares.sort_by(f64::total_cmp);
        shares
    };
    // As many places as hosts, and one for what the router says itself: nobody shares, whatever the hash says.
    shares("places = 5").iter().for_each(|share| near(share * 4.0, 1.0, 0.03));
    // Fewer: some have one between them; nobody is left out, and all of the line is used.
    let shared = shares("places = 3");
    near(shared.iter().sum(), 1.0, 0.01);
    assert!(shared[0] > 0.1, "{shared:?}");
}

#[test]
fn a_host_that_comes_later_has_a_place_of_its_own_and_status_says_who_has_which() {
    let said = on_the_router(
        "APPLY='$Q shape apply --dev wan --line 2.5/8 --policy host-fair --places 4 --confirm-within never'; \
         eval $APPLY; $Q ping -4 -c 3 server >/dev/null; $Q shape status; echo later; \
         $Q ping -6 -c 2 server >/dev/null; eval $APPLY; $Q shape status; \
         $Q shape status --json; $Q shape off --dev wan | tail -n 1; $Q shape status",
    );
    let (before, later) = said.split_once("later").expect("both");
    for words in [
        "hosts found by their addresses; in force",
        "1 of 4 places for hosts taken",
        "    10.0.2.1  3 packets (294 B)",
    ] {
        assert!(before.contains(words), "`{words}` should be in: {said}");
    }
    for words in [
        // The one that was there before still has its place.
        "wan: all was as wanted",
        "    10.0.2.1       3 packets (294 B)",
        "2 of 4 places for hosts taken",
        "    fd00",
        "\"place\":",
        "nothing of Quell's is in force",
    ] {
        assert!(later.contains(words), "`{words}` should be in: {said}");
    }
}

#[test]
fn a_home_of_many_hosts_takes_less_than_16_mb_of_the_kernel() {
    // The queues of both ways, their filters and the classifier's tables; caches are warm by then.
    let said = on_the_router(
        "kernel() { awk '/^(Slab|VmallocUsed|Percpu):/ { n += $2 } END { print n }' /proc/meminfo; }; \
         apply() { $Q shape apply --dev wan --line 10/50 --policy host-fair --confirm-within never; }; \
         off() { $Q shape off --dev wan; }; \
         apply >/dev/null; off >/dev/null; a=$(kernel); apply >/dev/null; b=$(kernel); off >/dev/null; \
         echo took $((b - a)) kB, gave back $((b - $(kernel))) kB",
    );
    let took =
        said.split("took ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a figure");
    let took: i64 = took.parse().expect("kB");
    assert!((2_000..16_000).contains(&took), "{said}");
}
