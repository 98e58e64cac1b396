//! What is wanted of a line, both ways, as one file says it.
//!
//! ```text
//!   line, link, hosts, subscribers ─┬─ up:   Policy at the line's rate up   ─► Tree, by source address
//!                                   └─ down: Policy at the line's rate down ─► Tree, by destination address
//! ```

use crate::follow_policy::{FollowPolicy, hold_tree};
use crate::subscribers::{Group, PrefixText, Subscriber, Subscribers};
use crate::{
    CakePolicy, Counting, Host, HostDetection, HostFair, HostsBy, LinePart, LineRates, LineType,
    OnDemand, Policy, PolicyError, Tell, Tiers,
};
use quell_tc::Tree;
use quell_units::fmt::plural;
use quell_units::{Rate, Span};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The part of a line's rate that is used, so that packets wait here and not in the modem.
const PERCENT: u64 = 95;

/// From so many subscribers on their classes are made when they are there.
pub const LAZY_FROM: usize = 256;

/// A subscriber that was silent for so long gives its class back.
pub const LAZY_IDLE: Span = Span::from_secs(300);

/// Classes of subscribers who are there, at most.
pub const LAZY_MOST: u16 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    HostFair,
    Cake,
    Tiers,
    Subscribers,
}

impl PolicyName {
    pub const ALL: [PolicyName; 4] =
        [PolicyName::HostFair, PolicyName::Cake, PolicyName::Tiers, PolicyName::Subscribers];

    pub fn name(self) -> &'static str {
        match self {
            PolicyName::HostFair => "host-fair",
            PolicyName::Cake => "cake",
            PolicyName::Tiers => "tiers",
            PolicyName::Subscribers => "subscribers",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct LinePolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyName>,
    /// The line's own rates; 95 % of them are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<LineRates>,
    /// What is sent on at most, a little below the line's rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<Rate>,
    /// What is let in at most, a little below the line's rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<Rate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<LineType>,
    /// Bytes that each packet costs beyond its Ethernet frame, or beyond what `link` says.
    pub overhead: u16,
    /// The least that a packet counts as, where it is another than `link` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mpu: Option<u16>,
    /// The usual round-trip time to the far end, for `cake`; 100 ms where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Span>,
    /// Whether `cake` drops acknowledgements of what comes, up, where a later one says the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ack_filter: bool,
    /// Whether `cake` clears the DSCP of what leaves, and of what comes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wash_up: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wash_down: bool,
    /// Whether subscribers get their classes when they are there, and not before; where absent from [`LAZY_FROM`] subscribers on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lazy: Option<bool>,
    /// After how long a silence such a class goes; where absent [`LAZY_IDLE`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lazy_idle: Option<Span>,
    /// How many such classes there are at most; where absent [`LAZY_MOST`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lazy_most: Option<u16>,
    /// A table of subscribers ([`read_list`](crate::read_list)); a relative name is from the folder of the policy file.
    #[serde(rename = "subscribers", skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Hosts that share the line, for `host-fair`: the addresses of each.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "as_sent")]
    pub hosts: Vec<Vec<IpAddr>>,
    /// Where no host is named, how `host-fair` finds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<HostDetection>,
    /// Those who share it, for `subscribers`.
    #[serde(rename = "subscriber", skip_serializing_if = "Vec::is_empty")]
    pub subscribers: Vec<TwoWaySubscriber>,
    #[serde(rename = "group", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<TwoWayGroup>,
    /// The bounds between which the rates follow a line that varies, in place of `line`, `up` and `down`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<FollowPolicy>,
    /// A tree of queues of one's own for the interface, instead of all that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Tree>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TwoWaySubscriber {
    pub name: String,
    pub prefixes: Vec<PrefixText>,
    /// Floor and ceiling of what is sent.
    pub up: Bounds,
    /// The same of what is received.
    pub down: Bounds,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// What somebody has for sure, and may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    pub floor: Rate,
    pub ceiling: Rate,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoWayGroup {
    pub name: String,
    /// What all of it may send together.
    pub up: Rate,
    /// What all of it may receive together.
    pub down: Rate,
    /// The group that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// What a device is like, as far as a policy asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceTraits {
    /// It gives packets no Ethernet header.
    pub headless: bool,
    /// The kernel tracks connections there, so that CAKE can look through address translation.
    pub tracked: bool,
}

impl LinePolicy {
    /// What is sent on at most, up and down; of a line that is followed the ceilings.
    pub fn rates(&self) -> (Option<Rate>, Option<Rate>) {
        let used = |rate: Rate| Rate::from_bps(rate.bps() / 100 * PERCENT);
        if let Some(follow) = &self.follow {
            return (Some(follow.ceiling.up), Some(follow.ceiling.down));
        }
        match self.line {
            Some(line) => (self.up.or(Some(used(line.up))), self.down.or(Some(used(line.down)))),
            None => (self.up, self.down),
        }
    }

    /// The policy, where one is named or follows from who is named.
    pub fn named(&self) -> Option<PolicyName> {
        let hosts = !self.hosts.is_empty() || self.found.is_some();
        let by_whom = match (self.subscribers.is_empty(), hosts) {
            (false, _) => Some(PolicyName::Subscribers),
            (true, true) => Some(PolicyName::HostFair),
            (true, false) => None,
        };
        self.policy.or(by_whom)
    }

    pub fn words(&self, policy: PolicyName) -> String {
        let (up, down) = self.rates();
        let floors = self.follow.as_ref().map(|follow| follow.floor);
        let one = |name: &str, floor: Option<Rate>, rate: Option<Rate>| match floor {
            Some(floor) => rate.map(|rate| format!("{name} {floor} to {rate}")),
            None => rate.map(|rate| format!("{name} {rate}")),
        };
        let mut words = vec![policy.name().to_owned()];
        words.extend(one("up", floors.map(|floors| floors.up), up));
        words.extend(one("down", floors.map(|floors| floors.down), down));
        words.extend(self.link.map(|link| link.name().to_owned()));
        let behind = if self.by_nat(policy) { " behind NAT" } else { "" };
        match policy {
            PolicyName::HostFair => words.push(match self.found_hosts().map(HostDetection::by) {
                None => plural(self.hosts.len(), "host") + behind,
                Some(HostsBy::Address) => "hosts found by their addresses".into(),
                Some(HostsBy::Inside) => "hosts found inside of tunnels".into(),
                Some(HostsBy::Nat) => "hosts found by their addresses behind NAT".into(),
                Some(HostsBy::Mark) => "hosts found by their marks".into(),
            }),
            PolicyName::Subscribers => {
                words.push(plural(self.subscribers.len(), "subscriber") + behind);
            }
            PolicyName::Cake if self.looks_inside() => words.push("inside of tunnels too".into()),
            PolicyName::Cake | PolicyName::Tiers => {}
        }
        words.join(", ")
    }

    /// For how many hosts there is room, up and down, where they are found at run time.
    pub fn places(&self, policy: PolicyName) -> Option<(u16, u16)> {
        let found = self.found_hosts().filter(|_| policy == PolicyName::HostFair)?;
        let at = |rate: Option<Rate>| rate.and_then(|rate| found.places_at(rate).ok()).unwrap_or(0);
        let (up, down) = self.rates();
        Some((at(up), at(down)))
    }

    /// Whether who is who is told by what a table writes into marks, where addresses are translated.
    pub fn by_nat(&self, policy: PolicyName) -> bool {
        let divides = matches!(policy, PolicyName::HostFair | PolicyName::Subscribers);
        divides && self.found.is_some_and(|found| found.by() == HostsBy::Nat)
    }

    /// Whether somebody is named by an address of IPv4.
    pub fn names_ipv4(&self, policy: PolicyName) -> bool {
        match policy {
            PolicyName::HostFair => self.hosts.iter().flatten().any(IpAddr::is_ipv4),
            PolicyName::Subscribers => {
                let mut all = self.subscribers.iter().flat_map(|one| &one.prefixes);
                all.any(|prefix| prefix.0.address.is_ipv4())
            }
            PolicyName::Cake | PolicyName::Tiers => false,
        }
    }

    /// Whether CAKE is told of hosts inside of tunnels.
    fn looks_inside(&self) -> bool {
        self.found.is_some_and(|found| found.by() == HostsBy::Inside)
    }

    /// How hosts are found, where none is named.
    pub fn found_hosts(&self) -> Option<HostDetection> {
        self.hosts.is_empty().then(|| self.found.unwrap_or_default())
    }

    /// The classes that a line is divided into, the same both ways, with the names of those whose they are. CAKE has none: it finds its hosts
    /// itself.
    pub fn parts(&self) -> Vec<LinePart> {
        // Names and places are the same for each rate and device.
        let any = Rate::from_bps(1_000_000_000);
        let policy = |name| self.policy(name, Tell::Source, any, DeviceTraits::default());
        match self.named().map(policy) {
            Some(Policy::HostFair(policy)) => policy.parts(&self.named_hosts()),
            Some(Policy::Tiers(_)) => Tiers::parts().into_iter().map(LinePart::of_line).collect(),
            Some(Policy::Subscribers(policy)) => {
                policy.parts().into_iter().map(LinePart::of_line).collect()
            }
            Some(Policy::Cake(_)) | None => Vec::new(),
        }
    }

    fn named_hosts(&self) -> Vec<Host> {
        let host = |addresses: &Vec<IpAddr>| Host {
            name: addresses.first().map(ToString::to_string).unwrap_or_default(),
            addresses: addresses.clone(),
        };
        self.hosts.iter().map(host).collect()
    }

    /// Whether subscribers get their classes when they are there. The table that says whose a prefix is knows nothing of marks.
    pub fn is_lazy(&self, policy: PolicyName) -> bool {
        policy == PolicyName::Subscribers
            && !self.by_nat(policy)
            && self.lazy.unwrap_or(self.subscribers.len() >= LAZY_FROM)
    }

    /// What is made when of one way's subscribers, at a rate.
    pub fn on_demand(
        &self,
        tell: Tell,
        rate: Rate,
        device: DeviceTraits,
    ) -> Result<OnDemand, PolicyError> {
        match self.policy(PolicyName::Subscribers, tell, rate, device) {
            Policy::Subscribers(policy) => policy.plan_on_demand(tell),
            _ => Err(PolicyError::Subscribers("nobody is named".into())),
        }
    }

    /// The tree for one way, at a rate; of a line that is followed it begins at the floor.
    pub fn tree(
        &self,
        policy: PolicyName,
        tell: Tell,
        rate: Rate,
        device: DeviceTraits,
    ) -> Result<Tree, PolicyError> {
        let hosts = self.named_hosts();
        let mut tree = self.policy(policy, tell, rate, device).plan(&hosts, tell)?.tree;
        if let Some(FollowPolicy { floor, .. }) = &self.follow {
            let floor = if tell == Tell::Destination { floor.down } else { floor.up };
            hold_tree(&mut tree, rate, floor);
        }
        Ok(tree)
    }

    /// Why a line can't be followed as this policy has it; none where it can, or is not to be.
    pub fn why_not_followed(&self, policy: PolicyName) -> Option<String> {
        self.follow.as_ref()?;
        if self.line.is_some() || self.up.is_some() || self.down.is_some() {
            return Some("`follow` gives the rates: leave out `line`, `up` and `down`".to_owned());
        }
        let name = policy.name();
        matches!(policy, PolicyName::Tiers | PolicyName::Subscribers).then(|| {
            format!("`follow` changes one rate in each direction, and {name} has many: take policy cake or host-fair")
        })
    }

    /// The policy for one way, at a rate.
    pub fn policy(
        &self,
        policy: PolicyName,
        tell: Tell,
        rate: Rate,
        device: DeviceTraits,
    ) -> Policy {
        let &LinePolicy { link, overhead, mpu, rtt, .. } = self;
        let counting = Counting { rate, overhead, link, mpu, headless: device.headless };
        match policy {
            PolicyName::HostFair => {
                let found = self.found_hosts();
                let translated = found.is_none() && self.by_nat(policy);
                Policy::HostFair(HostFair { counting, found, translated, ..HostFair::new(rate) })
            }
            PolicyName::Tiers => Policy::Tiers(Tiers { counting, ..Tiers::new(rate) }),
            PolicyName::Cake => {
                let nat = device.tracked;
                let inside = self.looks_inside();
                let down = tell == Tell::Destination;
                let ack_filter = self.ack_filter && !down;
                let wash = if down { self.wash_down } else { self.wash_up };
                Policy::Cake(CakePolicy { counting, nat, inside, rtt, ack_filter, wash })
            }
            PolicyName::Subscribers => {
                let down = tell == Tell::Destination;
                let one = |s: &TwoWaySubscriber| {
                    let Bounds { floor, ceiling } = if down { s.down } else { s.up };
                    let (name, prefixes) = (s.name.clone(), s.prefixes.clone());
                    Subscriber { name, prefixes, floor, ceiling, group: s.group.clone() }
                };
                let group = |g: &TwoWayGroup| {
                    let ceiling = if down { g.down } else { g.up };
                    Group { name: g.name.clone(), ceiling, group: g.group.clone() }
                };
                let subscribers = self.subscribers.iter().map(one).collect();
                let groups = self.groups.iter().map(group).collect();
                let translated = self.by_nat(policy);
                Policy::Subscribers(Subscribers { counting, subscribers, groups, translated })
            }
        }
    }
}

/// Addresses of hosts; those of IPv4 that are written as IPv6 (`::ffff:192.0.2.7`) are what they are on the wire.
fn as_sent<'de, D: serde::Deserializer<'de>>(text: D) -> Result<Vec<Vec<IpAddr>>, D::Error> {
    let hosts = Vec::<Vec<IpAddr>>::deserialize(text)?;
    let host = |addresses: Vec<IpAddr>| addresses.iter().map(IpAddr::to_canonical).collect();
    Ok(hosts.into_iter().map(host).collect())
}

impl LinePolicy {
    /// What there is to say of ceilings that nobody can have: of each way a line at most for groups, and one for subscribers.
    pub fn cut(&self, policy: PolicyName) -> Vec<String> {
        if policy != PolicyName::Subscribers {
            return Vec::new();
        }
        let (up, down) = self.rates();
        let up = up.map(|rate| self.cut_one_way("up", rate, |s| s.up, |g| g.up));
        let down = down.map(|rate| self.cut_one_way("down", rate, |s| s.down, |g| g.down));
        up.into_iter().chain(down).flatten().collect()
    }

    fn cut_one_way(
        &self,
        way: &str,
        line: Rate,
        bounds: fn(&TwoWaySubscriber) -> Bounds,
        ceiling: fn(&TwoWayGroup) -> Rate,
    ) -> Vec<String> {
        let known: std::collections::HashMap<&str, Rate> =
            self.groups.iter().map(|group| (group.name.as_str(), ceiling(group))).collect();
        let within = |group: Option<&str>| match group
            .filter(|name| known.get(name).is_some_and(|rate| *rate < line))
        {
            Some(name) => (format!("group `{name}`"), known[name]),
            None => ("the line".to_owned(), line),
        };
        let groups = self.groups.iter().map(|group| {
            let (what, most) = within(group.group.as_deref());
            (format!("group `{}`", group.name), ceiling(group), what, most)
        });
        let subscribers = self.subscribers.iter().map(|one| {
            let (what, most) = within(one.group.as_deref());
            (format!("`{}`", one.name), bounds(one).ceiling, what, most)
        });
        [said(way, groups), said(way, subscribers)].into_iter().flatten().collect()
    }
}

/// The first whose ceiling is above what there is, and how many more.
fn said(way: &str, all: impl Iterator<Item = (String, Rate, String, Rate)>) -> Option<String> {
    let mut above = all.filter(|(.., ceiling, _, most)| ceiling > most);
    let (who, ceiling, what, most) = above.next()?;
    let more = match above.count() {
        0 => String::new(),
        more => format!(", and so it is with {more} more"),
    };
    Some(format!("{way}, {who} can't have {ceiling}: {what} has {most}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        line = "100/200"
        link = "pppoe-ptm"

        [[group]]
        name = "north"
        up   = "30Mbit"
        down = "60Mbit"

        [[subscriber]]
        name     = "ann"
        prefixes = ["192.0.2.0/29", "2001:db8:1::/48"]
        up       = { floor = "2Mbit", ceiling = "20Mbit" }
        down     = { floor = "4Mbit", ceiling = "40Mbit" }
        group    = "north"
    "#;

    #[test]
    fn a_file_is_read_and_written_again_the_same() {
        let read: LinePolicy = toml::from_str(FILE).expect("a file");
        assert_eq!(read.named(), Some(PolicyName::Subscribers));
        let written = toml::to_string(&read).expect("text");
        assert_eq!(toml::from_str::<LinePolicy>(&written).expect("a file again"), read);
        let wrong = FILE.replace("prefixes", "prefix");
        assert!(toml::from_str::<LinePolicy>(&wrong).is_err(), "an unknown key is none");
    }

    #[test]
    fn a_host_in_ipv6_clothes_is_the_one_of_ipv4() {
        let read: LinePolicy =
            toml::from_str(r#"hosts = [["::ffff:192.0.2.7", "2001:db8::7"]]"#).expect("hosts");
        let wanted: Vec<IpAddr> =
            ["192.0.2.7", "2001:db8::7"].map(|text| text.parse().expect("an address")).into();
        assert_eq!(read.hosts, [wanted]);
    }

    #[test]
    fn each_way_has_its_own_figures() {
        let read: LinePolicy = toml::from_str(FILE).expect("a file");
        let (up, down) = read.rates();
        assert_eq!(
            (up, down),
            (Some(Rate::from_bps(95_000_000)), Some(Rate::from_bps(190_000_000)))
        );
        let policy = |tell| {
            let made = read.policy(
                PolicyName::Subscribers,
                tell,
                Rate::from_bps(95_000_000),
                DeviceTraits::default(),
            );
            match made {
                Policy::Subscribers(policy) => policy.subscribers[0].ceiling,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(policy(Tell::Source), Rate::from_bps(20_000_000));
        assert_eq!(policy(Tell::Destination), Rate::from_bps(40_000_000));
    }

    #[test]
    fn a_ceiling_above_the_line_or_the_group_is_told_once_each_way() {
        let one = |name: &str, up: &str, down: &str, group: &str| {
            format!(
                "[[subscriber]]\nname = \"{name}\"\nprefixes = [\"{name}::/64\"]\n{group}\n\
                 up = {{ floor = \"1Mbit\", ceiling = \"{up}\" }}\ndown = {{ floor = \"1Mbit\", ceiling = \"{down}\" }}\n"
            )
        };
        let north = "group = \"north\"";
        let file = [
            "up = \"20Mbit\"\ndown = \"100Mbit\"\n[[group]]\nname = \"north\"\nup = \"10Mbit\"\ndown = \"200Mbit\"\n",
            &one("a", "20Mbit", "100Mbit", ""),
            &one("b", "20Mbit", "150Mbit", north),
            &one("c", "30Mbit", "150Mbit", ""),
        ];
        let all: LinePolicy = toml::from_str(&file.concat()).expect("a policy");
        let said = all.cut(PolicyName::Subscribers);
        assert_eq!(
            said,
            [
                "up, `b` can't have 20Mbit: group `north` has 10Mbit, and so it is with 1 more",
                "down, group `north` can't have 200Mbit: the line has 100Mbit",
                "down, `b` can't have 150Mbit: the line has 100Mbit, and so it is with 1 more",
            ]
        );
        assert_eq!(all.cut(PolicyName::Tiers), [""; 0]);
    }
}
