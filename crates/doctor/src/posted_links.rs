//! Lines of `ip -s link` and ifconfig, as people post them.

use quell_netlink::link::{Link, LinkStats};
use std::collections::BTreeSet;

/// A figure of `ip -h`: as it is, or as `1.23M`.
pub(crate) fn scaled(word: &str) -> Option<u64> {
    let (number, unit) = match word.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => word.split_at(at),
        None => return word.parse().ok(),
    };
    let power = "kMGTP".find(unit.strip_suffix('i').unwrap_or(unit).chars().next()?)? as i32 + 1;
    let base: f64 = if unit.ends_with('i') { 1024.0 } else { 1000.0 };
    Some((number.parse::<f64>().ok()? * base.powi(power)) as u64)
}

/// A line of ifconfig, `RX packets 12 bytes 34 (34.0 B)`, or those of old and of BusyBox without their colons; whether it is one.
pub(crate) fn ifconfig(line: &str, link: &mut Link, known: &mut BTreeSet<&'static str>) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    if let ["UP", ..] = words[..] {
        link.flags = libc::IFF_UP as u32;
    }
    if let Some(at) = words.iter().position(|word| *word == "MTU") {
        link.mtu = words.get(at + 1).and_then(|mtu| mtu.parse().ok()).unwrap_or(link.mtu);
    }
    if !matches!(words[..], ["RX" | "TX", _, value, ..] if value.parse::<u64>().is_ok()) {
        return false;
    }
    let mut way = words[0];
    for pair in words.windows(2) {
        way = if matches!(pair[0], "RX" | "TX") { pair[0] } else { way };
        let head = format!("{way} {}", pair[0]).replace("RX overruns", "RX fifo");
        if let (Ok(value), Some((name, place))) = (pair[1].parse(), figure(&mut link.stats, &head))
        {
            *place = value;
            known.insert(name);
        }
    }
    true
}

/// `2: eth0: <BROADCAST,UP> mtu 1500 qdisc fq_codel state UP …`, or as ifconfig begins: `eth0: flags=4163<UP> mtu 1500`, `eth0 Link encap:Ethernet`.
pub(crate) fn link(line: &str) -> Option<Link> {
    if let Some((name, _)) = line.split_once(" Link encap:") {
        return Some(Link { name: name.trim().to_owned(), ..Link::default() });
    }
    let (number, rest) = match line.split_once(": flags=").and_then(|(_, rest)| rest.find('<')) {
        Some(_) => ("0", line),
        None => line.split_once(": ")?,
    };
    let index = number.parse().ok()?;
    let (name, rest) = rest.split_once('<')?;
    let name = name.strip_suffix(": ").or(name.split_once(": flags=").map(|(name, _)| name))?;
    let (flags, rest) = rest.split_once('>')?;
    let is_up = flags.split(',').any(|flag| flag == "UP");
    let mut words = rest.split_whitespace();
    let mtu = words.find(|word| *word == "mtu").and_then(|_| words.next()?.parse().ok());
    Some(Link {
        index,
        name: name.split('@').next().unwrap_or(name).to_owned(),
        flags: if is_up { libc::IFF_UP as u32 } else { 0 },
        mtu: mtu?,
        ..Link::default()
    })
}

/// Where a figure of `ip -s -s link` belongs, and its name.
pub(crate) fn figure<'a>(
    stats: &'a mut LinkStats,
    head: &str,
) -> Option<(&'static str, &'a mut u64)> {
    Some(match head {
        "RX bytes" => ("rx_bytes", &mut stats.rx_bytes),
        "RX packets" => ("rx_packets", &mut stats.rx_packets),
        "RX errors" => ("rx_errors", &mut stats.rx_errors),
        "RX dropped" => ("rx_dropped", &mut stats.rx_dropped),
        "RX missed" => ("rx_missed_errors", &mut stats.rx_missed_errors),
        "RX overrun" => ("rx_over_errors", &mut stats.rx_over_errors),
        "RX crc" => ("rx_crc_errors", &mut stats.rx_crc_errors),
        "RX fifo" => ("rx_fifo_errors", &mut stats.rx_fifo_errors),
        "TX bytes" => ("tx_bytes", &mut stats.tx_bytes),
        "TX packets" => ("tx_packets", &mut stats.tx_packets),
        "TX errors" => ("tx_errors", &mut stats.tx_errors),
        "TX dropped" => ("tx_dropped", &mut stats.tx_dropped),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::posted::read;

    #[test]
    fn figures_of_ifconfig_and_of_ip_for_people_are_read() {
        let new = "eth0: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1500\n        inet 192.0.2.7  netmask 255.255.255.0\n        \
                   ether 02:00:00:00:00:01  txqueuelen 1000  (Ethernet)\n        RX packets 123456  bytes 98765432 (94.1 MiB)\n        \
                   RX errors 3  dropped 17  overruns 5  frame 3\n        TX packets 5  bytes 600 (600.0 B)\n        \
                   TX errors 2  dropped 0 overruns 0  carrier 0  collisions 0\n";
        let old = "eth0      Link encap:Ethernet  HWaddr 02:00:00:00:00:01\n          UP BROADCAST RUNNING MULTICAST  MTU:1500  Metric:1\n          \
                   RX packets:123456 errors:3 dropped:17 overruns:5 frame:3\n          TX packets:5 errors:2 dropped:0 overruns:0 carrier:0\n          \
                   collisions:0 txqueuelen:1000\n          RX bytes:98765432 (94.1 MiB)  TX bytes:600 (600.0 B)\n";
        let ip = "2: eth0: <BROADCAST,UP> mtu 1500 qdisc fq_codel state UP mode DEFAULT group default qlen 1000\n    \
                  link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff\n    RX:  bytes packets errors dropped  missed   mcast\n         \
                  98.8M    123k      3      17       0       0\n    TX:  bytes packets errors dropped carrier collsns\n           \
                  600       5      2       0       0       0\n";
        for (text, bytes, packets) in
            [(new, 98_765_432, 123_456), (old, 98_765_432, 123_456), (ip, 98_800_000, 123_000)]
        {
            let (_, now, posted) = read(&[text.to_owned()]).expect("it is known");
            let link = &now.devices.expect("one")["eth0"].link;
            let stats = &link.stats;
            assert_eq!((link.mtu, link.is_up(), &posted.found[..]), (1500, true, &["links"][..]));
            assert_eq!((stats.rx_bytes, stats.rx_packets), (bytes, packets), "{text}");
            assert_eq!((stats.rx_errors, stats.rx_dropped, stats.tx_errors), (3, 17, 2), "{text}");
            assert_eq!((stats.tx_bytes, stats.tx_packets), (600, 5), "{text}");
        }
        let json =
            "{\"kernel\":{\"TcpRetransSegs\":77,\"TcpExtListenOverflows\":3,\"Ip6InReceives\":9}}";
        let pretty = json.replace([',', '{'], ",\n").replacen(",\n", "{\n", 1);
        for text in [json, &pretty.replace("\"kernel\":,", "\"kernel\": {")] {
            let (_, now, _) = read(&[text.to_owned()]).expect("it is known");
            let counters = ["Tcp.RetransSegs", "TcpExt.ListenOverflows", "Ip6InReceives"];
            assert_eq!(counters.map(|name| now.counter(name)), [Ok(77), Ok(3), Ok(9)], "{text}");
        }
    }
}
