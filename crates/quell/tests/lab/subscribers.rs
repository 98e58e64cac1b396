//! Subscribers whose classes are made when they show up, on a lab's router.
//!
//! ```text
//!   a (10.0.0.1) ──┐
//!                  ├── router ──── modem ════ server        classes on the router's `wan` come and go, both ways
//!   b (10.0.1.1) ──┘        wan          dsl
//! ```

use super::support::{QUELL, TestFolder, on_the_router};

/// Host b's script, while the router applies a policy and others run theirs; `$Q` is quell, `$1` the server. What it printed, and the router's
/// status 20 s after that.
fn beside(policy: &str, others: &[(&str, &str)], b: &str) -> String {
    let folder = TestFolder::new();
    let written = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the test's folder takes a file");
        path.display().to_string()
    };
    let file = written("p.toml", policy.to_owned());
    let router = format!(
        "$Q shape apply --dev wan --file {file} --confirm-within never >/dev/null; sleep 20; $Q shape status --json; sleep 60"
    );
    let script = |name: &str, text: &str| {
        let path = written(name, format!("set -e\nQ={QUELL}\n{text}\n"));
        format!("sh {path} {{server}}")
    };
    let mut with = vec![format!("router: {}", script("router.sh", &router))];
    for (host, text) in others {
        with.push(format!("{host}: {}", script(&format!("{host}.sh"), text)));
    }
    let own = script("b.sh", b);
    let mut arguments = vec!["lab", "exec", "home-link", "b", "--show-with", "--after", "5s"];
    for with in &with {
        arguments.extend(["--with", with]);
    }
    arguments.push("--");
    arguments.extend(own.split(' '));
    let output = folder.quell(&arguments);
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// Ann behind host a, with all of the line; bob behind host b.
const TWO: &str = r#"
line = "2.5/8"
lazy = true
[[subscriber]]
name = "ann"
prefixes = ["10.0.0.0/24", "fd00::/64"]
up = { floor = "100kbit", ceiling = "2.5Mbit" }
down = { floor = "100kbit", ceiling = "8Mbit" }
[[subscriber]]
name = "bob"
prefixes = ["10.0.1.0/24", "fd00:0:0:1::/64"]
up = { floor = "1Mbit", ceiling = "1500kbit" }
down = { floor = "1Mbit", ceiling = "4Mbit" }
"#;

/// A figure behind a word in what was printed.
fn figure(said: &str, before: &str) -> f64 {
    let rest = said.split(before).nth(1).unwrap_or_else(|| panic!("`{before}` is in: {said}"));
    let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.parse().unwrap_or_else(|_| panic!("a number behind `{before}`: {said}"))
}

#[test]
fn within_50_ms_of_his_first_packet_a_subscriber_is_in_his_own_class() {
    // A packet a millisecond: as many as went through the class of all others, so many milliseconds he had none.
    let said = beside(TWO, &[], "$Q ping $1 -i 1ms -c 300 >/dev/null; sleep 18");
    let up = said.split("\"device\": \"wan\"").nth(2).unwrap_or(&said);
    let of = |name: &str| figure(up.split(name).nth(1).unwrap_or(""), "\"sent_packets\": ");
    let (others, bob) = (of("\"all others\""), of("\"bob\""));
    println!("{others} packets before he had his class, {bob} in it");
    assert!(others <= 50.0, "{said}");
    assert!(bob >= 240.0, "{said}");
}

#[test]
fn who_showed_up_has_his_floor_under_anothers_flood_and_his_ceiling_alone() {
    let serve = ("server", "exec $Q serve --bind 0.0.0.0");
    let flow = "$Q flow $1 -t 8 --json";
    let rate = |said: &str| {
        let up = said.split("\"up\": {").nth(1).expect("what went up");
        figure(up, "\"bits_per_second\": ") / 1e6
    };
    let alone = rate(&beside(TWO, &[serve], flow));
    let flood = ("a", "sleep 2; exec $Q flow $1 -u -b 8M -t 14 >/dev/null");
    let beside = rate(&beside(TWO, &[serve, flood], flow));
    println!("{alone} Mbit/s alone, {beside} under a flood");
    assert!((1.3..1.5).contains(&alone), "alone he has his ceiling, without headers: {alone}");
    assert!(beside > 0.9, "under a flood he has his floor, without headers: {beside}");
}

#[test]
fn ten_thousand_who_never_show_up_take_less_than_100_mb_of_kernel_memory_both_ways() {
    let script = r#"set -e
        awk 'BEGIN {
            print "up = \"10Gbit\"\ndown = \"10Gbit\"";
            for (n = 0; n < 10000; n++)
                printf "[[subscriber]]\nname = \"s%d\"\nprefixes = [\"10.%d.%d.%d\"]\nup = { floor = \"10kbit\", ceiling = \"20Mbit\" }\ndown = { floor = \"10kbit\", ceiling = \"40Mbit\" }\n",
                    n, 16 + n / 65536, n / 256 % 256, n % 256
        }' >/tmp/p.toml
        taken() { awk '/^(Slab|VmallocUsed|Percpu):/ { sum += $2 } END { print sum }' /proc/meminfo; }
        before=$(taken)
        $Q shape apply --dev wan --file /tmp/p.toml --confirm-within never
        sleep 2
        echo "took $(($(taken) - before)) kB"
        $Q shape status
        $Q shape off --dev wan"#;
    let said = on_the_router(script);
    let kilobytes = figure(&said, "took ");
    println!("{kilobytes} kB");
    assert!(kilobytes < 100_000.0, "{said}");
    assert!(said.contains("0 of 10000 subscribers are here"), "{said}");
}
