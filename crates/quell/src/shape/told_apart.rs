//! How hosts are told apart on this machine, where nobody said how: what is in the way of it here, and what helps.
//!
//! ```text
//!   host-fair ─► no program may be loaded?      CAKE
//!             ─► addresses are translated?      a table of nftables, unless somebody else uses connections' marks
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
            let (by, said) = through_translation(all.rates().1.is_some());
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

/// How hosts are found where nobody said how and the kernel tracks connections, and what there is to say of it; `down`: what comes is shaped
/// too.
fn through_translation(down: bool) -> (HostsBy, Option<String>) {
    let unless = "hosts can't be told apart where this machine translates their addresses";
    let others = match hosts_table::others() {
        Ok(others) => others,
        Err(_) if !may_change() => {
            let why = "whether addresses are translated here only root can see; if so, hosts are told apart by marks";
            return (HostsBy::Address, Some(why.into()));
        }
        Err(error) => {
            return (HostsBy::Address, Some(format!("{unless} ({error}); --policy cake can")));
        }
    };
    // That of before nftables can't be looked into.
    let older = std::fs::read_to_string("/proc/net/ip_tables_names").unwrap_or_default();
    let older = older.lines().any(|table| table == "nat");
    if !others.translates && !older {
        return (HostsBy::Address, None);
    }
    if others.marks_connections {
        let why = "since other rules use connections' marks, and Quell would write the hosts' addresses there";
        return (
            HostsBy::Address,
            Some(format!(
                "{unless}, {why}; --policy cake can, and so do marks of your own: --hosts-by mark"
            )),
        );
    }
    if down && kinds::has_connmark() == Some(false) {
        let why = "this kernel lacks the action connmark, CONFIG_NET_ACT_CONNMARK";
        return (HostsBy::Address, Some(format!("{unless} ({why}); --policy cake can")));
    }
    let said = "addresses are translated here: a table of nftables notes in connections' marks whose they are, so that IPv4 hosts are told apart \
                both ways; --hosts-by address leaves that out";
    (HostsBy::Nat, Some(said.into()))
}

/// Whether hosts are told apart by what a table of nftables writes.
pub fn by_nat(all: &BothWays) -> bool {
    let nat = all.hosts.is_empty() && all.found.is_some_and(|found| found.by() == HostsBy::Nat);
    nat && all.policy == Some(PolicyName::HostFair)
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
