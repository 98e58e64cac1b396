//! The commands themselves over known networks: `quell ping` on `a`, `quell serve` on `b`, in virtual time.

use super::support::{QUELL, QUIET, TestFolder, near, two_hosts};
use serde_json::Value;

const UNUSED: &str = "[[probe]]\nname = \"unused\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"b\"\n";

/// What a program on `a` says in JSON, with `quell serve` on `b`.
fn on_a(line: &str, rest: &str, program: &[&str]) -> Value {
    let dir = TestFolder::new();
    let file = dir.file("network.toml", &two_hosts(line, rest));
    let serve = format!("b: {QUELL} serve --bind ::");
    let file = file.to_string_lossy();
    let exec = ["lab", "exec", &*file, "a", "--scenario", "s", "--with", &serve, "--"];
    let output = dir.quell(&[&exec, program].concat());
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"))
}

fn ping(line: &str, rest: &str, arguments: &[&str]) -> Value {
    let common = [QUELL, "ping", "--json", "-i", "20ms", "-c", "400"];
    let said = on_a(line, rest, &[&common, arguments].concat());
    said["streams"][0].clone()
}

#[track_caller]
fn number(said: &Value, path: &str) -> f64 {
    let value = path.split('.').fold(said, |value, part| &value[part]);
    value.as_f64().unwrap_or_else(|| panic!("{path} is {value} in {said:#}"))
}

#[test]
fn a_path_of_10_ms_up_and_30_ms_down_is_that_to_each_method_in_both_families() {
    let line = "up = { delay = \"10ms\" }\ndown = { delay = \"30ms\" }";
    let rest = format!("{QUIET}{UNUSED}");
    for (to, family) in [("{b}", "-4"), ("{b/6}", "-6")] {
        for method in ["icmp", "udp", "tcp"] {
            let port: &[&str] = if method == "tcp" { &["-p", "5201"] } else { &[] };
            let said = ping(line, &rest, &[&[to, family, "--method", method], port].concat());
            near(number(&said, "sent"), 400.0, 0.0);
            near(number(&said, "received"), 400.0, 0.0);
            for point in ["min", "p50", "max"] {
                near(number(&said, &format!("rtt_ms.{point}")), 40.0, 0.005);
            }
            if method == "udp" {
                // Two programs don't know that they share a clock: the sum is certain, each way within the bound that is told.
                let (up, down) = (number(&said, "up_ms.p50"), number(&said, "down_ms.p50"));
                let bound = number(&said, "clock_offset.bound_ms");
                near(up + down, 40.0, 0.005);
                near(up, 10.0, bound);
                near(number(&said, "clock_offset.offset_ms"), 0.0, bound);
                near(bound, 20.0, 0.005);
            }
        }
    }
}

#[test]
fn each_eighth_packet_lost_on_the_way_there_or_back_is_told_so_by_stamp() {
    for (on, there, elsewhere) in [("a", "lost_up", "lost_down"), ("b", "lost_down", "lost_up")] {
        for (to, family, protocol, at) in
            [("{b}", "ip", "ip protocol", 28), ("{b/6}", "ipv6", "ip6 protocol", 48)]
        {
            let rest = format!(
                "[[scenario]]\nname = \"s\"\nqueues = [\"eighth\"]\n[[queue]]\nname = \"eighth\"\non = \"{on}:line\"\n\
                 [queue.queue]\nkind = \"prio\"\nfilter = [{{ kind = \"u32\", protocol = \"{family}\", \
                 match = [\"{protocol} 17 0xff\", \"u32 0x0 0x7 at {at}\"], action = \"drop\" }}]\n{UNUSED}"
            );
            let line = "both = { delay = \"5ms\" }";
            let said = ping(line, &rest, &[to, "--method", "udp"]);
            near(number(&said, "sent"), 400.0, 0.0);
            near(number(&said, "lost"), 50.0, 0.0);
            near(number(&said, there), 50.0, 0.0);
            near(number(&said, elsewhere), 0.0, 0.0);
        }
    }
}
