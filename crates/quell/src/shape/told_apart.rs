//! How hosts are told apart on this machine, where nobody said how: what is in the way of it here, and what helps.
//!
//! ```text
//!   host-fair ─► no program may be loaded?      CAKE
//!             ─► addresses are translated?      a table of nftables, unless somebody else uses connections' marks
//!   --host, subscribers ─► addresses are translated?      the same table, and filters by mark
//!   cake ─────► this machine ends a tunnel?     the classifier tells what is inside
//! ```

use super::kinds;
use super::state::may_change;
use crate::failure::Failure;
use quell_netlink::hosts_table;
use quell_shaper::{BothWays, DeviceTraits, Found, HostsBy, PolicyName};
use quell_tc::Qdisc;
use quell_tc::qdisc::Cake;

/// What is chosen where a person said nothing.
pub struct Choice {
    /// An interface that is the end of a tunnel.
    pub tunnel: Option<String>,
}

/// Whether interfaces of this kind pack packets as the classifier can unpack them.
pub fn is_read_into(kind: &str) -> bool {
    ["ipip", "sit", "gre", "gretap", "ip6tnl", "ip6gre", "ip6gretap", "vxlan"].contains(&kind)
}

/// Whether hosts can be found here. Where no program may be loaded CAKE takes the policy's place. What there is to say of it.
pub fn find_hosts(
    all: &mut BothWays,
    policy: &mut PolicyName,
    traits: DeviceTraits,
) -> Result<Vec<String>, Failure> {
    let found = all.found_hosts().unwrap_or_default();
    let said: Option<String> = match found.by() {
        HostsBy::Address if traits.tracked && found.by.is_none() => {
            let (by, said) = match translation(all.rates().1.is_some()) {
                Translation::None => (HostsBy::Address, None),
                Translation::Unseen => (HostsBy::Address, Some(UNSEEN.to_owned())),
                Translation::Hidden(why) => (HostsBy::Address, Some(format!("{HIDDEN} {why}"))),
                Translation::Noted => (HostsBy::Nat, Some(NOTED.to_owned())),
            };
            all.found = Some(Found { by: Some(by), ..found });
            said
        }
        HostsBy::Mark if all.rates().1.is_some() => Some(
            "what comes has no mark yet where it is queued: down, all hosts share one place".into(),
        ),
        _ => None,
    };
    let why = match kinds::may_classify() {
        Ok(()) => return Ok(said.into_iter().collect()),
        Err(error) if error.proves_no_program_loads() && !may_change() => {
            let unknown = "whether the classifier, which finds the hosts, can be loaded here only root can try";
            return Ok(said.into_iter().chain([unknown.to_owned()]).collect());
        }
        Err(error) => error,
    };
    if kinds::kernel_has(Qdisc::from(Cake::default())) != Some(true) {
        return Err(Failure::system(format!(
            "the hosts can't be found here: {why}. This kernel has no CAKE either: name the hosts with --host, or take --policy tiers"
        )));
    }
    (*policy, all.found) = (PolicyName::Cake, None);
    Ok(vec![format!(
        "the hosts can't be found by host-fair here: {why}. CAKE instead, which finds them itself"
    )])
}

/// Whether and how hosts' own addresses can be known here, and what there is to say of it.
enum Translation {
    /// Packets show them.
    None,
    /// Only root can see whether they do.
    Unseen,
    /// A table of nftables tells them.
    Noted,
    /// They can't, for this reason, and with this advice.
    Hidden(String),
}

const UNSEEN: &str =
    "whether addresses are translated here only root can see; if so, hosts are told apart by marks";

const NOTED: &str = "addresses are translated here: a table of nftables notes in connections' marks whose they are, so that IPv4 hosts are told apart \
     both ways; --hosts-by address leaves that out";

const HIDDEN: &str = "hosts can't be told apart where this machine translates their addresses";

/// How hosts are told apart where nobody said how and the kernel tracks connections; `down`: what comes is shaped too.
fn translation(down: bool) -> Translation {
    let others = match hosts_table::others() {
        Ok(others) => others,
        Err(_) if !may_change() => return Translation::Unseen,
        Err(error) => return Translation::Hidden(format!("({error}); --policy cake can")),
    };
    // That of before nftables can't be looked into.
    let older = std::fs::read_to_string("/proc/net/ip_tables_names").unwrap_or_default();
    let older = older.lines().any(|table| table == "nat");
    if !others.translates && !older {
        return Translation::None;
    }
    if others.marks_connections {
        return Translation::Hidden(
            "since other rules use connections' marks, and Quell would write the hosts' addresses there; --policy cake can, and so do marks \
             of your own: --hosts-by mark"
                .into(),
        );
    }
    if down && kinds::has_connmark() == Some(false) {
        let why = "this kernel lacks the action connmark, CONFIG_NET_ACT_CONNMARK";
        return Translation::Hidden(format!("({why}); --policy cake can"));
    }
    Translation::Noted
}

/// Those who are named by IPv4 addresses, where these are translated: packets show them no more. What there is to say of it.
pub fn find_named(all: &mut BothWays, policy: PolicyName, traits: DeviceTraits) -> Vec<String> {
    let asked = all.found.is_some_and(|found| found.by.is_some());
    if asked || !traits.tracked || !all.names_ipv4(policy) {
        return Vec::new();
    }
    let translation = match translation(all.rates().1.is_some()) {
        Translation::Noted if kinds::filters_by_mark() == Some(false) => Translation::Hidden(
            "(this kernel lacks the filter fw, CONFIG_NET_CLS_FW); --policy cake can, and so can host-fair without --host".into(),
        ),
        other => other,
    };
    match translation {
        Translation::None => Vec::new(),
        Translation::Unseen => vec![UNSEEN.into()],
        Translation::Hidden(why) => vec![format!(
            "{HIDDEN} {why}. As it is, IPv4 packets of nobody who is named are found: all of them count as all others'"
        )],
        Translation::Noted => {
            let lazy = all.is_lazy(policy);
            all.found = Some(Found { by: Some(HostsBy::Nat), ..Found::default() });
            let mut said = vec![NOTED.to_owned()];
            if lazy {
                said.push(
                    "all classes are made at once, and not when their subscribers are there: what finds those does not look into marks".into(),
                );
            }
            said
        }
    }
}

/// Whether hosts are told apart by what a table of nftables writes.
pub fn by_nat(all: &BothWays) -> bool {
    all.policy.is_some_and(|policy| all.by_nat(policy))
}

/// Where tunnels end here, CAKE is told what is in them, unless somebody said how hosts are found. What there is to say of it.
pub fn look_inside(all: &mut BothWays, choice: &Choice) -> Option<String> {
    let asked = all.found.is_some_and(|found| found.by() == HostsBy::Inside);
    let tunnel = choice.tunnel.as_ref().filter(|_| all.found.is_none());
    if !asked && tunnel.is_none() {
        return None;
    }
    let said = match tunnel {
        Some(tunnel) => format!("tunnels end here ({tunnel}): "),
        None => String::new(),
    };
    match kinds::may_classify() {
        Ok(()) => {
            all.found = Some(Found { by: Some(HostsBy::Inside), ..Found::default() });
            Some(format!(
                "{said}hosts and flows inside of them are told apart by Quell's classifier, all others by CAKE itself; \
                 --hosts-by address leaves tunnels to CAKE as well"
            ))
        }
        Err(why) => {
            all.found = None;
            asked.then(|| format!("CAKE can't be told what is inside of tunnels here: {why}"))
        }
    }
}
