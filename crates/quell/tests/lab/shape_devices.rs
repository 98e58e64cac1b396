//! `quell shape` on interfaces that are no plain Ethernet: the ends of tunnels, a VLAN.
//!
//! ```text
//!   a, b ── router ═══ tun, in wan ═══ far ── server        the router's end of the tunnel is shaped, both ways
//! ```

use super::found_apart::{lacks_ip, on_the_router, with_a_tunnel};
use super::support::{TestFolder, on_the_router_of};
use serde_json::Value;

/// Applies each of two policies to an interface, sends ten pings of 56 bytes by it, and takes it off again. `$DEV`, `$TO`.
const SHAPED: &str = r#"
    ping() { $Q ping -4 -c 10 -i 10ms $TO >/dev/null; }
    until $Q ping -4 -c 1 $TO >/dev/null 2>&1; do sleep 0.1; done
    $Q tree $DEV --json >/tmp/before
    for policy in cake tiers; do
        $Q shape apply --dev $DEV --line 10/10 --link pppoe-ptm --policy $policy --confirm-within never --json
        ping
        $Q shape status --json
        echo next
        $Q shape off --dev $DEV >/dev/null
    done
    $Q shape plan --dev $DEV --line 10/10 --link pppoe-ptm --policy cake --json
    $Q shape plan --dev $DEV --line 10/10 --link pppoe-ptm --policy tiers --json
    echo next
    $Q tree $DEV --json >/tmp/after
    $Q shape status
"#;

/// The queues that somebody made there before and after are the same: none.
const SAME: &str = r#"
    grep -c '"kind": "\(cake\|htb\|ingress\)"' /tmp/before /tmp/after || true
"#;

/// What the queues of an interface and of its IFB counted of ten pings, and how they count a packet on the line.
#[track_caller]
fn held(said: &str, device: &str, bytes: u64, htb_overhead: &str) {
    let parts: Vec<&str> = said.split("next\n").collect();
    assert_eq!(parts.len(), 4, "{said}");
    for part in &parts[..2] {
        let mut documents = serde_json::Deserializer::from_str(part).into_iter::<Value>();
        let status = documents.nth(1).expect("status").expect("JSON");
        let one = &status["shaped"][0];
        assert_eq!((&one["device"], &one["in_order"]), (&device.into(), &true.into()), "{part}");
        let queues = one["queues"].as_array().expect("queues");
        let names: Vec<&str> = queues.iter().filter_map(|queue| queue["device"].as_str()).collect();
        assert_eq!(names, [format!("i-{device}"), device.to_owned()], "{part}");
        for queue in queues {
            assert_eq!(
                (&queue["sent_packets"], &queue["sent_bytes"]),
                (&10.into(), &bytes.into()),
                "{queue}"
            );
        }
    }
    // 30 bytes beyond the IP packet; CAKE knows itself where that begins, and HTB is told what it does not see.
    let plans: Vec<Value> = serde_json::Deserializer::from_str(parts[2])
        .into_iter()
        .map(|plan| plan.expect("JSON"))
        .collect();
    assert!(plans[0]["commands"].to_string().contains("overhead 30"), "{}", plans[0]);
    assert!(plans[1]["commands"].to_string().contains(htb_overhead), "{}", plans[1]);
    assert!(parts[3].contains("nothing of Quell's is in force"), "{said}");
    assert!(parts[3].contains("/tmp/before:0\n/tmp/after:0"), "{said}");
}

#[test]
fn the_end_of_a_tunnel_is_shaped_both_ways_and_left_as_it_was() {
    for kind in ["ipip", "gre", "wireguard"] {
        let script = format!("DEV=tun TO=server; {SHAPED}{SAME}");
        let said = on_the_router(&with_a_tunnel(kind, "", ""), &[], &script);
        // There are IP packets in its queue, without any header before them.
        held(&said, "tun", 840, "overhead 30");
    }
}

#[test]
fn a_vlan_is_shaped_both_ways_and_left_as_it_was() {
    if lacks_ip() {
        return;
    }
    // Without IPv6, which says something by itself now and then.
    let vlan = |end: u8| {
        format!(
            "ip link add link wan name v5 type vlan id 5; echo 1 >/proc/sys/net/ipv6/conf/v5/disable_ipv6; ip addr add 10.9.5.{end}/24 dev v5; ip link set v5 up"
        )
    };
    let folder = TestFolder::new();
    let beyond = format!("set -e\n{}\nsleep 600\n", vlan(2));
    let beyond = format!("modem: sh {}", folder.file("beyond.sh", &beyond).display());
    let script = format!("{}; DEV=v5 TO=10.9.5.2; {SHAPED}{SAME}", vlan(1));
    let said = on_the_router_of(&folder, "home-link", &[&beyond], &script);
    // With their Ethernet headers.
    held(&said, "v5", 980, "overhead 16");
}
