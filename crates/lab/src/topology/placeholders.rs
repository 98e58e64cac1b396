//! Addresses in the words of a command: `{server}` and `{server/6}`.
//!
//! ```text
//!   ping -c 3 {server}          ──►  ping -c 3 10.0.2.2
//!   curl http://[{server/6}]/   ──►  curl http://[fd00:0:0:2::2]/
//!   echo {{server}}             ──►  echo {server}
//! ```

use super::{Network, TopologyError};
use std::net::IpAddr;

impl Network {
    /// A word of a command with each `{node}` and `{node/6}` replaced by that node's address; `place` says in an error where the word is.
    ///
    /// Braces around anything else are the command's own (as in `curl -w %{time_total}`), unless they hold what is nearly a node's
    /// name, or are all of the word: then they are taken for a slip. Doubled braces stand for themselves.
    pub fn fill_in(&self, place: &str, word: &str) -> Result<String, TopologyError> {
        let mut text = String::new();
        let mut rest = word;
        while let Some(start) = rest.find('{') {
            text.push_str(&rest[..start]);
            let from = &rest[start..];
            if let Some((name, after)) = braced(from, "{{", "}}") {
                text.push_str(&format!("{{{name}}}"));
                rest = after;
            } else if let Some((name, after)) = braced(from, "{", "}") {
                match self.address(place, name, from.len() == word.len() && after.is_empty())? {
                    Some(address) => text.push_str(&address.to_string()),
                    None => text.push_str(&format!("{{{name}}}")),
                }
                rest = after;
            } else {
                text.push('{');
                rest = &from[1..];
            }
        }
        text.push_str(rest);
        Ok(text)
    }

    /// The address that a name in braces stands for; none where it stands for nothing of ours.
    fn address(
        &self,
        place: &str,
        name: &str,
        is_all: bool,
    ) -> Result<Option<IpAddr>, TopologyError> {
        let (node, ipv6) = match name.strip_suffix("/6") {
            Some(node) => (node, true),
            None => (name, false),
        };
        if let Some(&index) = self.index.get(node) {
            let address = match ipv6 {
                true => self.v6(index).map(IpAddr::V6),
                false => self.v4(index).map(IpAddr::V4),
            };
            let none = || TopologyError::NoAddress { place: place.into(), node: node.into() };
            return address.map(Some).ok_or_else(none);
        }
        let known: Vec<&str> = self.nodes.iter().map(|n| n.name.as_str()).collect();
        if is_all || quell_units::nearest::nearest(node, &known).is_some() {
            let place = format!("{place}, in `{{{name}}}` (doubled braces stand for themselves),");
            return self.find(&place, node).map(|_| None);
        }
        Ok(None)
    }
}

/// What stands between the braces at the start of a text, and what comes after them; none where it could not be a node's name.
fn braced<'a>(text: &'a str, open: &str, close: &str) -> Option<(&'a str, &'a str)> {
    let inside = text.strip_prefix(open)?;
    let end = inside.find('}')?;
    let (name, after) = (&inside[..end], inside[end..].strip_prefix(close)?);
    let could_be = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let node = name.strip_suffix("/6").unwrap_or(name);
    (!node.is_empty() && node.chars().all(could_be)).then_some((name, after))
}

#[cfg(test)]
mod tests {
    use crate::topology::{Network, Topology};

    fn network() -> Network {
        let topology: Topology = toml::from_str(
            "hosts = [\"a\", \"server\"]\n[[link]]\nname = \"l\"\nends = [\"a\", \"server\"]\n",
        )
        .unwrap();
        topology.parse().unwrap()
    }

    fn filled(word: &str) -> Result<String, String> {
        network().fill_in("--", word).map_err(|e| e.to_string())
    }

    #[test]
    fn names_in_braces_become_addresses_wherever_they_stand() {
        assert_eq!(filled("{server}").unwrap(), "10.0.0.2");
        assert_eq!(filled("http://[{server/6}]:80/{a}").unwrap(), "http://[fd00::2]:80/10.0.0.1");
    }

    #[test]
    fn a_name_that_nothing_has_is_refused_with_the_right_one() {
        for word in ["{sever}", "http://{sever}/", "{sever/6}"] {
            let said = filled(word).unwrap_err();
            assert!(said.contains("sever") && said.contains("`server`"), "{said}");
        }
        assert!(filled("{elsewhere}").is_err());
    }

    #[test]
    fn braces_of_the_commands_own_stay() {
        for word in ["%{time_total}", "{}", "{ print $1 }", "${HOME}", "a{b", "}{", "{ä}"] {
            assert_eq!(filled(word).unwrap(), word);
        }
        assert_eq!(filled("{{server}}").unwrap(), "{server}");
        assert_eq!(filled("{{print}}").unwrap(), "{print}");
    }
}
