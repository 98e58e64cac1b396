//! Names of hosts, as far as this machine knows them without asking anybody: by address or hardware address.
//!
//! ```text
//!   /etc/hosts                         192.0.2.7 printer
//!   leases of dnsmasq, on OpenWrt too  1795500000 02:00:00:00:00:07 192.0.2.9 laptop 01:02:…
//! ```
//!
//! Hosts name themselves when they ask for a lease, so that what is shown of it is cleaned like all that comes from outside.

use quell_sys::input;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

/// Where dnsmasq keeps its leases: Debian, OpenWrt.
const LEASES: [&str; 2] = ["/var/lib/misc/dnsmasq.leases", "/tmp/dhcp.leases"];

/// No such file of a network is longer.
const LARGEST: u64 = 1 << 20;

/// Names by what they belong to.
#[derive(Debug, Default)]
pub struct Names {
    addresses: BTreeMap<IpAddr, String>,
    macs: BTreeMap<[u8; 6], String>,
}

impl Names {
    /// Reads them.
    pub fn read() -> Self {
        let mut names = Names::default();
        names.hosts(&text(Path::new("/etc/hosts")));
        LEASES.iter().for_each(|file| names.leases(&text(Path::new(file))));
        names
    }

    /// That of a host with this hardware address and these addresses.
    pub fn of(&self, mac: Option<[u8; 6]>, addresses: &[IpAddr]) -> Option<&str> {
        let by_mac = mac.and_then(|mac| self.macs.get(&mac));
        let name = by_mac.or_else(|| addresses.iter().find_map(|a| self.addresses.get(a)));
        name.map(String::as_str)
    }

    fn hosts(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            if let (Some(Ok(address)), Some(name)) = (words.next().map(str::parse), words.next()) {
                self.addresses.entry(address).or_insert_with(|| name.to_owned());
            }
        }
    }

    fn leases(&mut self, text: &str) {
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, mac, address, name, ..] = words[..] else { continue };
            if name == "*" {
                continue;
            }
            if let Ok(address) = address.parse() {
                self.addresses.insert(address, name.to_owned());
            }
            // Of IPv6 a number of the client's own stands there.
            if let Some(mac) = hardware(mac) {
                self.macs.insert(mac, name.to_owned());
            }
        }
    }
}

fn hardware(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

/// A file's text; nothing where there is none.
fn text(path: &Path) -> String {
    // Where everybody may make files, a pipe may stand in its place.
    input::bytes(path, LARGEST)
        .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_by_its_lease_before_its_address_is_looked_up() {
        let mut names = Names::default();
        names.hosts("127.0.0.1 localhost\n192.0.2.7  printer printer.lan # upstairs\nnonsense\n");
        names.leases(
            "1795500000 02:00:00:00:00:07 192.0.2.9 laptop 01:02:00:00:00:00:07\n1795500000 02:00:00:00:00:08 192.0.2.10 * *\n\
             duid 00:01\n1795500000 123456 2001:db8::9 laptop 00:01:00\n",
        );
        let of = |mac: Option<u8>, addresses: &[&str]| {
            let mac = mac.map(|last| [2, 0, 0, 0, 0, last]);
            let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
            names.of(mac, &addresses).map(str::to_owned)
        };
        assert_eq!(of(None, &["192.0.2.7"]).as_deref(), Some("printer"));
        assert_eq!(of(Some(7), &["192.0.2.250"]).as_deref(), Some("laptop"));
        assert_eq!(of(None, &["2001:db8::1", "2001:db8::9"]).as_deref(), Some("laptop"));
        assert_eq!(of(Some(8), &["192.0.2.10"]), None, "who did not say is not called a star");
    }
}
