//! Why packets may go around a queue, as far as this machine itself tells.
//!
//! ```text
//!   the way to HOST leaves by another interface      the kernel's routes
//!   the device forwards by itself                    hw-tc-offload
//!   connections take a short way                     flowtables of nftables
//! ```

use quell_netlink::flowtable::{self, Flowtable};
use quell_netlink::offload::Offloads;
use quell_netlink::{LinkName, Stack};
use std::net::IpAddr;

/// All that is known of it, for packets between this machine and `to`.
pub fn ways_around(device: &str, to: IpAddr) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(leaves_by(to).and_then(|by| another_way(device, to, &by)));
    if forwards_by_itself(device) == Some(true) {
        found.push(format!(
            "hw-tc-offload is on, so that {device} may forward past its queues: ethtool -K {device} hw-tc-offload off"
        ));
    }
    let tables = flowtable::all().unwrap_or_default();
    found.extend(tables.iter().filter_map(|table| short_way(device, table)));
    found
}

/// The interface by which packets leave.
fn leaves_by(to: IpAddr) -> Option<String> {
    let mut stack = Stack::open().ok()?;
    let index = stack.leaves_by(to).ok()??;
    Some(stack.link_at(index).ok()?.name)
}

fn forwards_by_itself(device: &str) -> Option<bool> {
    let features = Offloads::open().ok()?.features(&device.parse::<LinkName>().ok()?).ok()?;
    Some(features.active.contains("hw-tc-offload"))
}

fn another_way(device: &str, to: IpAddr, by: &str) -> Option<String> {
    (by != device).then(|| format!("the way to {to} leaves by {by}, and not by {device}"))
}

fn short_way(device: &str, table: &Flowtable) -> Option<String> {
    let Flowtable { table, name, devices, in_hardware } = table;
    let hardware = if *in_hardware { " in hardware" } else { "" };
    devices.iter().any(|one| one == device).then(|| {
        format!("connections take a short way{hardware} past {device}: nftables' flowtable {name} in {table}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_around_the_queue_is_named_and_what_does_not_is_left_out() {
        let to = IpAddr::from([192, 0, 2, 7]);
        assert_eq!(another_way("wan", to, "wan"), None);
        let said = another_way("wan", to, "lte").expect("another");
        assert_eq!(said, "the way to 192.0.2.7 leaves by lte, and not by wan");
        let mut table = Flowtable {
            table: "filter".into(),
            name: "fast".into(),
            devices: vec!["wan".into(), "lan".into()],
            in_hardware: true,
        };
        let said = short_way("wan", &table).expect("it has wan");
        assert!(
            said.contains("short way in hardware") && said.contains("fast in filter"),
            "{said}"
        );
        table.devices.remove(0);
        assert_eq!(short_way("wan", &table), None);
    }
}
