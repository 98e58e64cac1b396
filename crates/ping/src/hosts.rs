//! Hosts of a file and of a range, as fping has them.
//!
//! ```text
//!   -f hosts.txt          a name or address a line, # begins a comment
//!   -g 192.0.2.0/24       192.0.2.1 to 192.0.2.254
//!   -g 192.0.2.7 192.0.2.9
//! ```
//!
//! A range that holds more than can be pinged at once is refused before it is written out.

use crate::MOST;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The hosts of a text: the first word of each line that is not a comment.
pub fn listed(text: &str) -> impl Iterator<Item = String> {
    let first = |line: &str| line.split('#').next()?.split_whitespace().next().map(str::to_owned);
    text.lines().filter_map(first)
}

/// The addresses of a network or between two addresses, both included. Of an IPv4 network without its own and its broadcast address, as fping has it.
pub fn range(typed: &[String]) -> Result<Vec<IpAddr>, String> {
    let address =
        |text: &str| text.parse::<IpAddr>().map_err(|_| format!("`{text}` is no address"));
    let (first, last) = match typed {
        [] => return Ok(Vec::new()),
        [network] => {
            let (base, bits) = network.split_once('/').ok_or_else(|| {
                format!("`{network}` is no network; write 192.0.2.0/28, or the first and the last address")
            })?;
            let base = address(base)?;
            let width = if base.is_ipv4() { 32 } else { 128 };
            let bits = bits.parse().ok().filter(|bits| *bits <= width);
            let bits: u32 =
                bits.ok_or_else(|| format!("/{network}: a prefix has 0 to {width} bits"))?;
            let hosts = u128::MAX.checked_shl(width - bits).map_or(u128::MAX, |mask| !mask);
            let net = number(base) & !hosts;
            let inner = u128::from(base.is_ipv4() && width - bits > 1);
            (like(base, net + inner), like(base, net + hosts - inner))
        }
        [first, last, ..] => (address(first)?, address(last)?),
    };
    if first.is_ipv4() != last.is_ipv4() {
        return Err(format!("{first} and {last} are of two families"));
    }
    let (from, to) = (number(first), number(last));
    if from > to {
        return Err(format!("{last} comes before {first}"));
    }
    if to - from >= MOST as u128 {
        return Err(format!(
            "{first} to {last} are more than {MOST} addresses, which is what can be pinged at once"
        ));
    }
    Ok((from..=to).map(|n| like(first, n)).collect())
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

/// The address with this number, of the same family as another.
fn like(other: IpAddr, number: u128) -> IpAddr {
    match other {
        IpAddr::V4(_) => Ipv4Addr::from(number as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(number).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(typed: &[&str]) -> Result<Vec<String>, String> {
        let typed: Vec<String> = typed.iter().map(|t| (*t).to_owned()).collect();
        range(&typed).map(|all| all.iter().map(IpAddr::to_string).collect())
    }

    #[test]
    fn a_range_is_what_fping_makes_of_it() {
        assert_eq!(of(&["192.0.2.0/30"]), Ok(vec!["192.0.2.1".into(), "192.0.2.2".into()]));
        assert_eq!(of(&["192.0.2.9/31"]).unwrap(), ["192.0.2.8", "192.0.2.9"]);
        assert_eq!(of(&["192.0.2.9/32"]).unwrap(), ["192.0.2.9"]);
        assert_eq!(of(&["192.0.2.255", "192.0.3.1"]).unwrap().len(), 3);
        assert_eq!(of(&["192.0.2.0/24"]).unwrap().len(), 254);
        assert_eq!(of(&["2001:db8::/127"]).unwrap(), ["2001:db8::", "2001:db8::1"]);
    }

    #[test]
    fn a_range_that_can_t_be_is_refused_before_it_is_written_out() {
        for (typed, says) in [
            (&["0.0.0.0/0"][..], "more than"),
            (&["::/0"], "more than"),
            (&["::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], "more than"),
            (&["192.0.2.1"], "no network"),
            (&["192.0.2.1/33"], "0 to 32"),
            (&["192.0.2.9", "192.0.2.1"], "comes before"),
            (&["192.0.2.9", "::1"], "two families"),
            (&["x", "y"], "no address"),
        ] {
            let why = of(typed).unwrap_err();
            assert!(why.contains(says), "{typed:?}: {why}");
        }
    }

    #[test]
    fn a_file_has_a_host_a_line() {
        let text = "example.org  # ours\n\n# all\n  192.0.2.7 more words\r\n";
        assert_eq!(listed(text).collect::<Vec<_>>(), ["example.org", "192.0.2.7"]);
    }
}
