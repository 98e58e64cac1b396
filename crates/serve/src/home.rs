//! The networks that this machine is in: whom a server of a home serves, and by which addresses it is reached.
//!
//! ```text
//!   addresses of the interfaces ──┬─► a client of one of their networks?    --home
//!                                 └─► http://ADDRESS:PORT/                  what to type on the phone
//! ```

use quell_netlink::{Prefix, Stack};
use std::net::{IpAddr, SocketAddr};

/// Addresses with their networks; none where the kernel does not tell.
pub fn networks() -> Vec<Prefix> {
    let addresses = Stack::open().and_then(|mut stack| stack.addresses()).unwrap_or_default();
    addresses.into_iter().filter(|address| !address.tentative).map(|a| a.prefix).collect()
}

/// Whether a host is of this machine or of a home's network that it is in: one of private addresses, or of IPv6.
pub fn is_of_home(networks: &[Prefix], host: IpAddr) -> bool {
    let host = host.to_canonical();
    let is_private = match host {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local(),
        IpAddr::V6(_) => true,
    };
    let holds = |network: &Prefix| match is_private {
        true => network.length() > 0 && network.holds(host),
        false => network.address() == host,
    };
    host.is_loopback() || networks.iter().any(holds)
}

/// Where a browser of another machine finds the page of a server that listens there: IPv4 first, which is shorter to type, and of it
/// private addresses, which the phones of a home have; of a home no others.
pub fn pages(networks: &[Prefix], local: SocketAddr, home: bool) -> Vec<String> {
    let reaches = |ip: &IpAddr| match (local.ip(), ip) {
        (own, _) if !own.is_unspecified() => own.to_canonical() == *ip,
        (IpAddr::V4(_), IpAddr::V6(_)) => false,
        // One of a link can't be typed into a browser.
        (_, IpAddr::V6(ip)) => !ip.is_unicast_link_local(),
        _ => true,
    };
    let mut all: Vec<IpAddr> = networks.iter().map(|network| network.address()).collect();
    let is_public = |ip: &IpAddr| matches!(ip, IpAddr::V4(ip) if !ip.is_private());
    all.retain(|ip| !ip.is_loopback() && reaches(ip) && !(home && is_public(ip)));
    all.sort_by_key(|ip| (ip.is_ipv6(), is_public(ip), *ip));
    all.dedup();
    let port = |ip| match local.port() {
        80 => SocketAddr::new(ip, 80).to_string().trim_end_matches(":80").to_owned(),
        port => SocketAddr::new(ip, port).to_string(),
    };
    all.into_iter().map(|ip| format!("http://{}/", port(ip))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Vec<Prefix> {
        let all = [
            "127.0.0.1/8",
            "192.168.1.7/24",
            "198.51.100.9/24",
            "::1/128",
            "fe80::7/64",
            "2001:db8:1:2::7/64",
        ];
        all.map(|text| text.parse().expect("an address with its network")).to_vec()
    }

    #[test]
    fn a_home_serves_its_own_networks_and_nobody_else() {
        for (host, is_served) in [
            ("127.0.0.1", true),
            ("192.168.1.200", true),
            ("::ffff:192.168.1.200", true),
            ("192.168.2.1", false),
            ("198.51.100.9", true),
            ("198.51.100.10", false),
            ("203.0.113.1", false),
            ("2001:db8:1:2::99", true),
            ("2001:db8:1:3::99", false),
        ] {
            assert_eq!(is_of_home(&home(), host.parse().unwrap()), is_served, "{host}");
        }
        assert!(!is_of_home(&[Prefix::ALL_V6], "2001:db8::1".parse().unwrap()), "no network");
    }

    #[test]
    fn each_address_is_one_to_type() {
        let pages = |local: &str| pages(&home(), local.parse().unwrap(), false);
        let v4 = ["http://192.168.1.7:5201/", "http://198.51.100.9:5201/"];
        assert_eq!(pages("0.0.0.0:5201"), v4);
        assert_eq!(pages("[::]:5201"), [v4[0], v4[1], "http://[2001:db8:1:2::7]:5201/"]);
        assert_eq!(pages("192.168.1.7:80"), ["http://192.168.1.7/"]);
        assert_eq!(pages("127.0.0.1:5201"), [""; 0]);
        let of_home = super::pages(&home(), "[::]:5201".parse().unwrap(), true);
        assert_eq!(of_home, [v4[0], "http://[2001:db8:1:2::7]:5201/"], "no public IPv4");
    }
}
