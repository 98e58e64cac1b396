//! Hosts as people name them, and their addresses: the same for every command.
//!
//! ```text
//!   example.org:853  ─┐
//!   192.0.2.7         ├─ split ─► name, port ─► literal, zone ──► addresses of the family ─► the first
//!   [fe80::1%eth0]:7 ─┘                     └─► the resolver ──┘                             the others are told where it fails
//! ```

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

const FORMS: &str = "give HOST, HOST:PORT, an address or [IPv6]:PORT";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Family {
    #[default]
    Any,
    V4,
    V6,
}

impl Family {
    fn takes(self, address: IpAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Family::Any => "IP",
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its first address of the family that is wanted.
    pub to: SocketAddr,
    /// Its other addresses of that family.
    pub others: Vec<IpAddr>,
}

impl Found {
    /// Attempts something with each of its addresses until one is there, which then is the first. Errors with what was said of each, the last of
    /// which may be something else than that nobody is there.
    pub fn reached<T, E: std::fmt::Display>(
        &mut self,
        nobody: impl Fn(&E) -> bool,
        mut attempt: impl FnMut(SocketAddr) -> Result<T, E>,
    ) -> Result<T, String> {
        let port = self.to.port();
        let others: Vec<SocketAddr> =
            self.others.iter().map(|other| SocketAddr::new(*other, port)).collect();
        let mut said = Vec::new();
        for (at, to) in std::iter::once(self.to).chain(others).enumerate() {
            match attempt(to) {
                Ok(done) => {
                    if let Some(other) = at.checked_sub(1).and_then(|at| self.others.get_mut(at)) {
                        *other = std::mem::replace(&mut self.to, to).ip();
                    }
                    return Ok(done);
                }
                Err(error) => {
                    said.push(error.to_string());
                    if !nobody(&error) {
                        break;
                    }
                }
            }
        }
        Err(said.join("\n"))
    }

    /// What to try where the first address does not answer.
    pub fn hint(&self) -> String {
        hint(&self.to, &self.others)
    }
}

/// What was tried of a host with other addresses, and which they are.
pub fn hint(to: &SocketAddr, others: &[IpAddr]) -> String {
    let words: Vec<String> = others.iter().map(ToString::to_string).collect();
    match &words[..] {
        [] => String::new(),
        _ => format!("\ntried was {}; the host is also {}", to.ip(), words.join(", ")),
    }
}

/// What holds for a host that does not say otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Usual<'a> {
    pub family: Family,
    /// The option that says so without being `-4` or `-6`, and the address behind it.
    pub own: Option<(&'static str, IpAddr)>,
    /// The port; none where the protocol has none, and then a host may name none either.
    pub port: Option<u16>,
    /// The device of link-local addresses that name none.
    pub device: Option<&'a str>,
}

/// Finds a host's address. Errors when it is written as no host is, is not known, or has no address of the family.
pub fn resolve(host: &str, usual: Usual<'_>) -> Result<Found, String> {
    let (name, own_port) = split(host)?;
    if own_port.is_some() && usual.port.is_none() {
        return Err(format!("`{host}`: ICMP has no ports; take --method udp or tcp"));
    }
    let port = own_port.or(usual.port).unwrap_or(0);
    let mut all: Vec<SocketAddr> = match literal(name, port, usual.device)? {
        Some(address) => vec![address],
        None => (name, port)
            .to_socket_addrs()
            .map_err(|e| format!("cannot find the host `{host}`: {}; {FORMS}", plain(&e)))?
            .map(as_sent)
            .collect(),
    };
    let mut seen = std::collections::HashSet::new();
    all.retain(|address| seen.insert(*address));
    let (mut fit, rest): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|address| usual.family.takes(address.ip()));
    if fit.is_empty() {
        let only: Vec<String> = rest.iter().map(|address| address.ip().to_string()).collect();
        let only = only.join(", ");
        let asked = usual
            .own
            .map_or_else(String::new, |(option, own)| format!(", which `{option} {own}` asks for"));
        return Err(format!("`{host}` has no {} address{asked}, only {only}", usual.family.name()));
    }
    let to = fit.remove(0);
    Ok(Found { to, others: fit.iter().map(SocketAddr::ip).collect() })
}

/// An address of this host as a person writes it, with its zone where it is one of a link; its port is 0.
pub fn own(text: &str) -> Result<SocketAddr, String> {
    literal(text, 0, None)?.ok_or_else(|| format!("`{text}` is no IP address"))
}

/// The device of an address that is one only with it.
pub fn zone(address: &SocketAddr) -> Option<String> {
    let SocketAddr::V6(address) = address else { return None };
    let index = Some(address.scope_id()).filter(|index| *index != 0)?;
    named(index)
}

/// The name of the device with this number. Of one that is not there nix says an empty one (0.30).
fn named(index: u32) -> Option<String> {
    let name = nix::net::if_::if_indextoname(index).ok()?.into_string().ok()?;
    Some(name).filter(|name| !name.is_empty())
}

/// A host and the port behind it: `host:853`, `[::1]:853`. A bare IPv6 address has none.
fn split(host: &str) -> Result<(&str, Option<u16>), String> {
    let port = |text: &str| match text.parse() {
        Ok(port) if port > 0 => Ok(Some(port)),
        _ => Err(format!("`{host}`: `{text}` is no port, a number from 1 to 65535; {FORMS}")),
    };
    let (name, port) = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(None) => return Err(format!("`{host}`: the `[` has no `]`; {FORMS}")),
        Some(Some((inside, ""))) => (inside, None),
        Some(Some((inside, after))) => match after.strip_prefix(':') {
            Some(text) => (inside, port(text)?),
            None => return Err(format!("`{host}`: `{after}` behind the `]`; {FORMS}")),
        },
        None => match host.split_once(':') {
            Some((name, text)) if !text.contains(':') => (name, port(text)?),
            _ => (host, None),
        },
    };
    if name.is_empty() {
        return Err(format!("`{host}` names no host; {FORMS}"));
    }
    Ok((name, port))
}

/// An address, with its zone where it has one (RFC 4007, section 11: `fe80::1%eth0`); none for a name.
fn literal(name: &str, port: u16, device: Option<&str>) -> Result<Option<SocketAddr>, String> {
    let (address, zone) = match name.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (name, None),
    };
    let v6: Ipv6Addr = match address.parse() {
        Ok(IpAddr::V6(v6)) => match v6.to_ipv4_mapped() {
            Some(_) if zone.is_some() => {
                return Err(format!("`{name}`: an IPv4 address has no zone"));
            }
            Some(v4) => return Ok(Some((v4, port).into())),
            None => v6,
        },
        Ok(IpAddr::V4(v4)) if zone.is_none() => return Ok(Some((v4, port).into())),
        Ok(IpAddr::V4(_)) => return Err(format!("`{name}`: an IPv4 address has no zone")),
        Err(_) if zone.is_none() => return Ok(None),
        Err(_) => return Err(format!("`{name}`: only IPv6 addresses have a zone")),
    };
    let needs = v6.is_unicast_link_local() || v6.octets()[..2] == [0xff, 0x02];
    let scope = match zone.or(device.filter(|_| needs)) {
        Some(zone) => index(zone).ok_or_else(|| {
            format!("`{name}`: there is no device `{zone}` here (those there are: ip link)")
        })?,
        None if needs => {
            return Err(format!(
                "`{name}` is an address of one link: say of which, as {name}%eth0"
            ));
        }
        None => 0,
    };
    Ok(Some(SocketAddrV6::new(v6, port, 0, scope).into()))
}

/// An address as packets bear it: IPv4 where it is only written as IPv6 (`::ffff:192.0.2.7`, RFC 4291, section 2.5.5.2).
fn as_sent(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => (v4, address.port()).into(),
        IpAddr::V6(_) => address,
    }
}

/// A device by name or number.
fn index(device: &str) -> Option<u32> {
    let number = device.parse().ok().filter(|number| named(*number).is_some());
    number.or_else(|| nix::net::if_::if_nametoindex(device).ok())
}

/// The resolver's words without the library's wrapping.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.strip_prefix("failed to lookup address information: ") {
        Some(rest) => rest.to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Usual<'_> = Usual { family: Family::Any, own: None, port: Some(5201), device: None };
    const FOUR: Usual<'_> = Usual { family: Family::V4, ..ANY };
    const SIX: Usual<'_> = Usual { family: Family::V6, ..ANY };

    fn to(host: &str) -> String {
        resolve(host, ANY).expect(host).to.to_string()
    }

    fn why(host: &str, usual: Usual<'_>) -> String {
        resolve(host, usual).expect_err(host)
    }

    #[test]
    fn addresses_are_taken_with_brackets_and_without_and_with_a_port_or_the_usual_one() {
        for (host, address) in [
            ("192.0.2.7", "192.0.2.7:5201"),
            ("192.0.2.7:853", "192.0.2.7:853"),
            ("::1", "[::1]:5201"),
            ("[::1]", "[::1]:5201"),
            ("[::1]:853", "[::1]:853"),
            ("[192.0.2.7]:853", "192.0.2.7:853"),
            ("2001:db8::7:853", "[2001:db8::7:853]:5201"),
        ] {
            assert_eq!(to(host), address);
        }
    }

    #[test]
    fn an_ipv4_address_in_the_clothes_of_ipv6_is_one_of_ipv4() {
        for (host, address) in [
            ("::ffff:192.0.2.7", "192.0.2.7:5201"),
            ("[::ffff:192.0.2.7]:853", "192.0.2.7:853"),
            ("::ffff:c000:207", "192.0.2.7:5201"),
        ] {
            assert_eq!(to(host), address);
        }
        assert!(resolve("::ffff:192.0.2.7", FOUR).is_ok());
        let only = "`::ffff:192.0.2.7` has no IPv6 address, only 192.0.2.7";
        assert_eq!(why("::ffff:192.0.2.7", SIX), only);
        assert!(why("::ffff:192.0.2.7%lo", ANY).contains("has no zone"));
        let mapped = "[::ffff:192.0.2.7]:7".parse().unwrap();
        assert_eq!(as_sent(mapped).to_string(), "192.0.2.7:7", "as a resolver may tell it");
    }

    #[test]
    fn the_next_address_is_tried_where_nobody_is_and_then_kept() {
        let here = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mut found = Found { to: (here(1), 853).into(), others: vec![here(2), here(3)] };
        let mut tried = Vec::new();
        let mut attempt = |to: SocketAddr| {
            tried.push(to.to_string());
            if to.ip() == here(2) { Ok(to) } else { Err("nobody") }
        };
        let nobody = |error: &&str| *error == "nobody";
        assert_eq!(found.reached(nobody, &mut attempt), Ok((here(2), 853).into()));
        assert_eq!(found.reached(nobody, &mut attempt), Ok((here(2), 853).into()));
        assert_eq!(tried, ["192.0.2.1:853", "192.0.2.2:853", "192.0.2.2:853"]);
        let all = found.reached(nobody, |_| Err::<(), _>("nobody"));
        assert_eq!(all, Err("nobody\nnobody\nnobody".to_owned()));
        // Who is there and does not want us is no reason to try another.
        assert_eq!(found.reached(nobody, |_| Err::<(), _>("busy")), Err("busy".to_owned()));
    }

    #[test]
    fn what_is_written_as_no_host_is_tells_which_part_and_the_forms() {
        for (host, word) in [
            ("", "names no host"),
            (":853", "names no host"),
            ("[]:853", "names no host"),
            ("[::1", "no `]`"),
            ("[::1]853", "`853` behind"),
            ("[::1]:", "`` is no port"),
            ("[::1]:x", "`x` is no port"),
            ("example.org:x", "`x` is no port"),
            ("example.org:0", "`0` is no port"),
            ("example.org:65536", "`65536` is no port"),
        ] {
            let why = why(host, ANY);
            assert!(why.contains(word) && why.contains("[IPv6]:PORT"), "{host}: {why}");
        }
    }

    #[test]
    fn a_zone_is_a_device_by_name_or_number() {
        for host in ["fe80::1%lo", "[fe80::1%lo]", "fe80::1%1", "[fe80::1%lo]:853"] {
            let found = resolve(host, ANY).expect(host).to;
            assert_eq!(zone(&found).as_deref(), Some("lo"), "{host}");
            assert_eq!(found.ip(), "fe80::1".parse::<IpAddr>().unwrap());
        }
        assert_eq!(zone(&resolve("::1", ANY).unwrap().to), None);
        let of_device = Usual { device: Some("lo"), ..ANY };
        let found = resolve("fe80::1", of_device).expect("the device is its zone").to;
        assert_eq!(zone(&found).as_deref(), Some("lo"));
        for (host, word) in [
            ("fe80::1", "fe80::1%eth0"),
            ("ff02::1", "ff02::1%eth0"),
            ("fe80::1%no-such", "no device `no-such`"),
            ("fe80::1%", "no device ``"),
            ("fe80::1%999999", "no device `999999`"),
            ("127.0.0.1%lo", "no zone"),
            ("name.invalid%lo", "only IPv6 addresses"),
        ] {
            let why = why(host, ANY);
            assert!(why.contains(word), "{host}: {why}");
        }
    }

    #[test]
    fn the_family_that_is_asked_for_is_taken_and_what_there_is_instead_is_told() {
        assert_eq!(resolve("127.0.0.1", FOUR).unwrap().to.ip().to_string(), "127.0.0.1");
        assert_eq!(why("127.0.0.1", SIX), "`127.0.0.1` has no IPv6 address, only 127.0.0.1");
        assert_eq!(why("[::1]:7", FOUR), "`[::1]:7` has no IPv4 address, only ::1");
        let from_six = Usual { own: Some(("-I", "::1".parse().unwrap())), ..SIX };
        let said = "`127.0.0.1` has no IPv6 address, which `-I ::1` asks for, only 127.0.0.1";
        assert_eq!(why("127.0.0.1", from_six), said);
    }

    #[test]
    fn other_addresses_of_a_host_are_told_where_the_first_fails() {
        let to = "192.0.2.7:5201".parse().unwrap();
        let one = Found { to, others: Vec::new() };
        assert_eq!(one.hint(), "");
        let others = vec!["192.0.2.8".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        assert_eq!(
            Found { others, ..one }.hint(),
            "\ntried was 192.0.2.7; the host is also 192.0.2.8, 2001:db8::7"
        );
    }

    #[test]
    fn a_name_that_nobody_has_is_told_with_the_resolvers_word() {
        let why = why("name.invalid", ANY);
        assert!(why.starts_with("cannot find the host `name.invalid`: "), "{why}");
        assert!(!why.contains("lookup address information"), "{why}");
    }

    #[test]
    fn icmp_has_no_ports() {
        let icmp = Usual { port: None, ..ANY };
        assert_eq!(resolve("[::1]", icmp).unwrap().to.port(), 0);
        assert!(why("127.0.0.1:7", icmp).contains("--method udp"));
    }
}
