//! What is chosen on this machine where nobody said it: the policy, and how hosts are told apart.
//!
//! ```text
//!   4 Mbit/s and more, BPF, no tunnel ─► host-fair, whose hosts are found      else CAKE? ─► cake      neither ─► tiers
//!   host-fair ─► no program may be loaded?      CAKE
//!             ─► addresses are translated?      a table of nftables, unless somebody else uses connections' marks
//!   --host, subscribers ─► addresses are translated?      the same table, and filters by mark
//!   cake ─────► this machine ends a tunnel?     the classifier tells what is inside
//! ```

use crate::{CommandError, kernel, may_change};
use quell_act::kernel_has;
use quell_netlink::hosts_table;
use quell_policy::{DeviceTraits, HostDetection, HostsBy, LinePolicy, PolicyName};
use quell_tc::Qdisc;
use quell_tc::qdisc::{Cake, Drr};
use quell_units::Rate;

/// Of slower lines a round of all hosts, a full packet each, takes longer than equal shares are worth (docs/shaping.md, "Ten homes").
const SLOW: Rate = Rate::from_bps(4_000_000);

/// What this machine would be given, and what there is to say of it where nobody named it. `tunnel`: one ends here.
pub fn choose_here(all: &LinePolicy, tunnel: bool) -> (PolicyName, Vec<String>) {
    choose(
        all,
        tunnel,
        || kernel_has(Qdisc::from(Cake::default())),
        || {
            if kernel_has(Qdisc::from(Drr::default())) == Some(false) {
                return Some(false);
            }
            match kernel::may_classify() {
                Ok(()) => Some(true),
                Err(error) if error.proves_no_program_loads() && !may_change() => None,
                Err(_) => Some(false),
            }
        },
    )
}

/// The same on a kernel that has all of it, as the lab's.
pub fn choose_with_cake(all: &LinePolicy) -> PolicyName {
    choose(all, false, || Some(true), || Some(true)).0
}

/// `has_cake` and `may_find` ask the kernel; none where that could not be tried.
fn choose(
    all: &LinePolicy,
    tunnel: bool,
    has_cake: impl FnOnce() -> Option<bool>,
    may_find: impl FnOnce() -> Option<bool>,
) -> (PolicyName, Vec<String>) {
    if let Some(named) = all.named() {
        return (named, Vec::new());
    }
    let (up, down) = all.rates();
    let slow = up.into_iter().chain(down).any(|rate| rate < SLOW);
    let may_find = may_find() != Some(false);
    if may_find && !slow && !tunnel {
        let why = "host-fair: an equal share for each machine, however many flows and addresses it has; with --policy cake a ping \
                   waits some 10 ms less";
        return (PolicyName::HostFair, vec![why.into()]);
    }
    let (policy, why) = match has_cake() {
        Some(true) if tunnel => return (PolicyName::Cake, Vec::new()),
        Some(true) if slow => (
            PolicyName::Cake,
            "cake: below 4 Mbit/s a ping waits some 50 ms less than with host-fair, whose shares are equal also where a host has many \
             flows or addresses",
        ),
        Some(true) => (
            PolicyName::Cake,
            "cake: this kernel has no DRR or takes no BPF program, without which no queue counts a host with many addresses as one",
        ),
        Some(false) if may_find => (
            PolicyName::HostFair,
            "this kernel has no CAKE (modprobe sch_cake loads it where it was built): host-fair instead, whose hosts are found by Quell's classifier",
        ),
        Some(false) => (
            PolicyName::Tiers,
            "this kernel has no CAKE (modprobe sch_cake loads it where it was built), and no DRR or takes no BPF program: three tiers by DSCP \
             instead, not fair between hosts",
        ),
        None => (
            PolicyName::Cake,
            "whether this kernel has CAKE could not be tried without the right to make a namespace",
        ),
    };
    (policy, vec![why.into()])
}

/// Whether interfaces of this kind pack packets as the classifier can unpack them.
pub fn is_read_into(kind: &str) -> bool {
    ["ipip", "sit", "gre", "gretap", "ip6tnl", "ip6gre", "ip6gretap", "vxlan"].contains(&kind)
}

/// Whether hosts can be found here. Where no program may be loaded CAKE takes the policy's place, and so it does where nobody `named` one and
/// only CAKE sees hosts behind a translation of addresses. What there is to say of it.
pub fn find_hosts(
    all: &mut LinePolicy,
    policy: &mut PolicyName,
    traits: DeviceTraits,
    named: bool,
) -> Result<Vec<String>, CommandError> {
    let found = all.found_hosts().unwrap_or_default();
    let said: Option<String> = match found.by() {
        HostsBy::Address if traits.tracked && found.by.is_none() => {
            let (by, said) = match translation(all.rates().1.is_some()) {
                Translation::None => (HostsBy::Address, None),
                Translation::Unseen => (HostsBy::Address, Some(UNSEEN.to_owned())),
                Translation::Hidden(why)
                    if !named && kernel_has(Qdisc::from(Cake::default())) == Some(true) =>
                {
                    *policy = PolicyName::Cake;
                    let why = why.split(';').next().unwrap_or_default();
                    return Ok(vec![format!(
                        "cake, which sees hosts through the translation of addresses here; host-fair can't, {why}"
                    )]);
                }
                Translation::Hidden(why) => (HostsBy::Address, Some(format!("{HIDDEN} {why}"))),
                Translation::Noted => (HostsBy::Nat, Some(NOTED.to_owned())),
            };
            all.found = Some(HostDetection { by: Some(by), ..found });
            said
        }
        HostsBy::Mark if all.rates().1.is_some() => Some(
            "what comes has no mark yet where it is queued: down, all hosts share one place".into(),
        ),
        _ => None,
    };
    let why = match kernel::may_classify() {
        Ok(()) => return Ok(said.into_iter().collect()),
        Err(error) if error.proves_no_program_loads() && !may_change() => {
            let unknown = "whether the classifier, which finds the hosts, can be loaded here only root can try";
            return Ok(said.into_iter().chain([unknown.to_owned()]).collect());
        }
        Err(error) => error,
    };
    if kernel_has(Qdisc::from(Cake::default())) != Some(true) {
        return Err(CommandError::system(format!(
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

const UNSEEN: &str = "whether addresses are translated here only root can see; if so, hosts are distinguished by marks";

const NOTED: &str = "addresses are translated here: a table of nftables marks connections by host, so that IPv4 hosts are \
         distinguished in both directions; --hosts-by address leaves that out";

const HIDDEN: &str = "hosts can't be distinguished where this machine translates their addresses";

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
    if down && kernel::has_connmark() == Some(false) {
        let why = "this kernel lacks the action connmark, CONFIG_NET_ACT_CONNMARK";
        return Translation::Hidden(format!("({why}); --policy cake can"));
    }
    Translation::Noted
}

/// Those who are named by IPv4 addresses, where these are translated: packets show them no more. What there is to say of it.
pub fn find_named(all: &mut LinePolicy, policy: PolicyName, traits: DeviceTraits) -> Vec<String> {
    let asked = all.found.is_some_and(|found| found.by.is_some());
    if asked || !traits.tracked || !all.names_ipv4(policy) {
        return Vec::new();
    }
    let translation = match translation(all.rates().1.is_some()) {
        Translation::Noted if kernel::filters_by_mark() == Some(false) => Translation::Hidden(
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
            all.found = Some(HostDetection { by: Some(HostsBy::Nat), ..HostDetection::default() });
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
pub fn by_nat(all: &LinePolicy) -> bool {
    all.policy.is_some_and(|policy| all.by_nat(policy))
}

/// Where tunnels end here, CAKE is told what is in them, unless somebody said how hosts are found. What there is to say of it.
pub fn look_inside(all: &mut LinePolicy, tunnel: Option<&str>) -> Option<String> {
    let asked = all.found.is_some_and(|found| found.by() == HostsBy::Inside);
    let tunnel = tunnel.filter(|_| all.found.is_none());
    if !asked && tunnel.is_none() {
        return None;
    }
    let said = match tunnel {
        Some(tunnel) => format!("tunnels end here ({tunnel}): "),
        None => String::new(),
    };
    match kernel::may_classify() {
        Ok(()) => {
            all.found =
                Some(HostDetection { by: Some(HostsBy::Inside), ..HostDetection::default() });
            Some(format!(
                "{said}hosts and flows inside of them are distinguished by Quell's classifier, all others by CAKE itself; \
                 --hosts-by address leaves tunnels to CAKE as well"
            ))
        }
        Err(why) => {
            all.found = None;
            asked.then(|| format!("CAKE can't learn what is inside of tunnels here: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_follows_from_the_line_and_what_the_kernel_has() {
        use PolicyName::{Cake, HostFair, Tiers};
        let (yes, no) = (Some(true), Some(false));
        for (line, tunnel, cake, bpf, wanted, words) in [
            ("10/50", false, yes, yes, HostFair, "--policy cake"),
            ("10/50", false, no, yes, HostFair, "an equal share"),
            ("10/50", false, None, None, HostFair, "an equal share"),
            ("10/50", false, yes, no, Cake, "no DRR or takes no BPF"),
            ("10/50", true, yes, yes, Cake, ""),
            ("2/50", false, yes, yes, Cake, "below 4 Mbit/s"),
            ("50/2", false, yes, yes, Cake, "below 4 Mbit/s"),
            ("2/50", false, no, yes, HostFair, "has no CAKE"),
            ("2/50", false, None, yes, Cake, "could not be tried"),
            ("10/50", false, no, no, Tiers, "no DRR or takes no BPF program"),
        ] {
            let all = LinePolicy { line: Some(line.parse().expect(line)), ..LinePolicy::default() };
            let (policy, said) = choose(&all, tunnel, || cake, || bpf);
            let said = said.join("\n");
            assert!(policy == wanted && said.contains(words), "{line} {cake:?} {bpf:?}: {said}");
        }
    }

    #[test]
    fn what_is_named_or_follows_from_who_is_named_is_taken_without_a_look_at_the_kernel() {
        let tiers = LinePolicy { policy: Some(PolicyName::Tiers), ..LinePolicy::default() };
        let hosts = vec![vec!["192.0.2.7".parse().expect("an address")]];
        let hosts = LinePolicy { hosts, ..LinePolicy::default() };
        for (all, wanted) in [(tiers, PolicyName::Tiers), (hosts, PolicyName::HostFair)] {
            let asked = || panic!("the kernel was asked");
            assert_eq!(choose(&all, false, asked, asked), (wanted, Vec::new()));
        }
    }
}
