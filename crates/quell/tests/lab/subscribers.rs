//! Subscribers whose classes are made when they show up, on a lab's router.
//!
//! ```text
//!   a (10.0.0.1) ──┐
//!                  ├── router ──── modem ════ server        classes on the router's `wan` come and go, both ways
//!   b (10.0.1.1) ──┘        wan          dsl
//! ```

use super::support::{QUELL, TestFolder};

/// Host b's program, while the router applies a policy and others are at work; what it and the router printed.
fn beside(policy: &str, others: &[&str], b: &str, afterwards: &str) -> String {
    let folder = TestFolder::new();
    folder.write("p.toml", policy);
    let file = folder.path("p.toml").display().to_string();
    let router = format!(
        "router: sh -c '{QUELL} shape apply --dev wan --file {file} --confirm-within never >/dev/null && sleep 20 && {afterwards}'"
    );
    let others = others.iter().map(|other| other.replace("$Q", QUELL));
    let with: Vec<String> = [router].into_iter().chain(others).collect();
    let mut arguments = vec!["lab", "exec", "home-link", "b", "--after", "5s"];
    for with in &with {
        arguments.extend(["--with", with]);
    }
    let b = b.replace("$Q", QUELL);
    arguments.extend(["--", "sh", "-c", &b]);
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
    // A packet a millisecond: as many as went through the class of all others, so long he had none.
    let script =
        "for i in 1 2 3 4 5 6; do $Q ping {server} -i 1ms -c 50 -s 56 >/dev/null; done; sleep 18";
    let out = "/tmp/quell-subscribers.json";
    let afterwards = format!("{QUELL} shape status --json >{out}; cat {out}");
    let said = beside(TWO, &[], script, &afterwards);
    let up = said.split("\"device\": \"wan\"").nth(2).unwrap_or(&said);
    let others = figure(up.split("all others").nth(1).unwrap_or(""), "\"sent_packets\": ");
    let bob = figure(up.split("\"bob\"").nth(1).unwrap_or(""), "\"sent_packets\": ");
    assert!(others <= 50.0, "{others} packets among all others: {said}");
    assert!(bob >= 240.0, "{bob} packets in his own class: {said}");
}

#[test]
fn who_showed_up_has_his_floor_under_anothers_flood_and_his_ceiling_alone() {
    let server = "server: $Q serve --bind 0.0.0.0";
    let alone = beside(TWO, &[server], "$Q flow {server} -t 8 --json", "true");
    let rate = |said: &str| {
        let from = said.find('{').expect("a document");
        let to = said.rfind('}').expect("a document");
        let json: serde_json::Value = serde_json::from_str(&said[from..=to]).expect("JSON");
        json["up"]["bits_per_second"].as_f64().unwrap_or_else(|| panic!("a rate in {json}")) / 1e6
    };
    let up = rate(&alone);
    assert!((1.3..1.5).contains(&up), "alone he has his ceiling, without headers: {up}");
    let flood = "a: sh -c 'sleep 2; exec $Q flow {server} -u -b 8M -t 14 >/dev/null'";
    let up = rate(&beside(TWO, &[server, flood], "$Q flow {server} -t 8 --json", "true"));
    assert!(up > 0.9, "under a flood he has his floor, without headers: {up}");
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
    let with_quell = script.replace("$Q", QUELL);
    let output = TestFolder::new().quell(&[
        "lab",
        "exec",
        "home-link",
        "router",
        "--",
        "sh",
        "-c",
        &with_quell,
    ]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let kilobytes = figure(&said, "took ");
    println!("{kilobytes} kB");
    assert!(kilobytes < 100_000.0, "{said}");
    assert!(said.contains("0 of 10000 subscribers are here"), "{said}");
}
