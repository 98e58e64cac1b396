//! What a policy comes to on an interface of this machine.
//!
//! ```text
//!   hosts ──► DEV ── root queue: what leaves, at --up
//!             DEV ── ingress: all that comes ──► IFB ── root queue, at --down ──► hosts
//! ```

use crate::choice::{by_nat, choose_here, find_hosts, find_named, is_read_into, look_inside};
use crate::subscriber_classes::{self, SubscriberClasses};
use crate::{CommandError, ifb_of, interface, kernel, mac_of};
use quell_act::{DeviceGoal, Goal, HostTableGoal, LinkGoal, LinkNow, Log, Machine, kernel_has};
use quell_netlink::sysctl;
use quell_policy::{
    DeviceTraits, FollowPolicy, Lack, LinePolicy, PolicyName, Tell, read_list, write_list,
};
use quell_sys::input;
use quell_tc::qdisc::Cake;
use quell_tc::{Action, Filter, Ingress, Places, Qdisc, Tree};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// No file that a person writes is longer.
const LARGEST: u64 = 16 << 20;

pub struct LinePlan {
    pub goal: Goal,
    pub words: String,
    /// What was chosen for the person, and why.
    pub remarks: Vec<String>,
    /// What must be known before anything is applied: that the kernel has no queue that keeps delay short.
    pub no_aqm: Option<String>,
    /// Subscribers of whom only those who are there have classes.
    pub subscribers: Option<SubscriberClasses>,
    /// What it was planned of, with all that was chosen.
    pub policy: LinePolicy,
}

/// A policy as it is to be on an interface, what is left open chosen for this machine. `file` is where its tree was read.
pub fn plan_line(
    machine: &mut dyn Machine,
    device: &str,
    policy: LinePolicy,
    file: &str,
) -> Result<LinePlan, CommandError> {
    let (link, tunnel) = link_named(machine, device)?;
    settled(device, &link, policy, file, Some(tunnel.as_deref()))
}

/// One in which all has been chosen.
pub fn plan_chosen(
    machine: &mut dyn Machine,
    device: &str,
    policy: LinePolicy,
) -> Result<LinePlan, CommandError> {
    let (link, _) = link_named(machine, device)?;
    settled(device, &link, policy, "", None)
}

/// What was applied, as it is to be on this machine now.
pub fn plan_again(log: &Log, machine: &mut dyn Machine) -> Result<LinePlan, CommandError> {
    plan_chosen(machine, &log.begun.device, policy_of_log(log)?)
}

/// A policy as an undo log keeps it: subscribers a line each, since a log has room for 16 MB, and for what was in force before.
#[derive(Serialize, Deserialize)]
struct LoggedPolicy {
    policy: LinePolicy,
    subscribers: String,
}

/// The text of a policy for an undo log.
pub fn recipe_of(policy: &LinePolicy) -> Result<String, CommandError> {
    let subscribers = write_list(&policy.subscribers);
    let mut policy = policy.clone();
    policy.subscribers.clear();
    serde_json::to_string(&LoggedPolicy { policy, subscribers }).map_err(CommandError::system)
}

/// The policy in force, as its log keeps it.
pub fn policy_of_log(log: &Log) -> Result<LinePolicy, CommandError> {
    policy_of_recipe(&log.begun.recipe).map_err(CommandError::System)
}

fn policy_of_recipe(text: &str) -> Result<LinePolicy, String> {
    let kept: LoggedPolicy = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let (subscribers, _) = read_list(&kept.subscribers, &[])?;
    Ok(LinePolicy { subscribers, ..kept.policy })
}

/// An interface, and of the others the first one that is the end of a tunnel in which Quell's classifier reads.
pub fn link_named(
    machine: &mut dyn Machine,
    name: &str,
) -> Result<(LinkNow, Option<String>), CommandError> {
    let now = machine.read(&Goal::default()).map_err(CommandError::system)?;
    let link = now.links.get(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = now.links.keys().map(String::as_str).collect();
        CommandError::usage(format!(
            "there is no interface `{name}`; there are: {}",
            names.join(", ")
        ))
    })?;
    let is_tunnel = |link: &LinkNow| link.up && link.kind.as_deref().is_some_and(is_read_into);
    let mut others = now.links.iter().filter(|(other, _)| *other != name);
    let tunnel = others.find(|(_, link)| is_tunnel(link)).map(|(other, _)| other.clone());
    Ok((link, tunnel))
}

/// `choice` is made where there is one, of which the tunnel that ends here is a part.
fn settled(
    name: &str,
    link: &LinkNow,
    mut all: LinePolicy,
    file: &str,
    choice: Option<Option<&str>>,
) -> Result<LinePlan, CommandError> {
    let beside = match choice {
        Some(_) => interface::remarks(name, link.index, &all),
        None => Vec::new(),
    };
    let mut no_aqm = None;
    let (own, beyond, words, remarks) = match &all.tree {
        Some(tree) => {
            if *tree == Tree::default() {
                return Err(CommandError::unusable(format!("{file}: no queue is in it")));
            }
            (tree.clone(), None, format!("the tree {file}"), beside)
        }
        None => {
            let named = all.named().is_some();
            let (mut policy, mut remarks) = choose_here(&all, choice.flatten().is_some());
            if let Some(tunnel) = choice {
                if policy == PolicyName::HostFair && all.hosts.is_empty() {
                    let said = find_hosts(&mut all, &mut policy, traits_of(link), named)?;
                    if policy != PolicyName::HostFair {
                        remarks.clear();
                    }
                    remarks.extend(said);
                } else {
                    remarks.extend(find_named(&mut all, policy, traits_of(link)));
                }
                if policy == PolicyName::Cake {
                    remarks.extend(look_inside(&mut all, tunnel));
                }
            }
            remarks.extend(beside);
            if choice.is_some() {
                remarks.extend(all.cut(policy));
            }
            all.policy = Some(policy);
            if let Some(why) = all.why_not_followed(policy) {
                return Err(CommandError::usage(why));
            }
            remarks.extend(all.follow.as_ref().map(FollowPolicy::words));
            let lazy = all.is_lazy(policy);
            let why_not = if lazy { subscriber_classes::why_not(name) } else { None };
            if let Some(why) = &why_not {
                remarks.push(format!(
                    "all classes are made at once, and not when their subscribers are there: {why}"
                ));
            }
            if lazy && why_not.is_none() {
                return on_demand(name, link, all, remarks);
            }
            let (mut own, mut beyond) = trees(&all, policy, traits_of(link), name)?;
            let mut both: Vec<&mut Tree> = [&mut own].into_iter().chain(&mut beyond).collect();
            let instead = kernel::with_what_there_is(&mut both).map_err(CommandError::system)?;
            no_aqm = instead.last().cloned();
            remarks.extend(instead);
            (own, beyond, all.words(policy), remarks)
        }
    };
    let mut goal = Goal::default();
    if by_nat(&all) {
        goal.host_tables.push(HostTableGoal { device: name.to_owned(), there: true });
    }
    if let Some(tree) = &beyond {
        let ifb = ifb_of(name);
        goal.links.push(LinkGoal { name: ifb.clone(), mac: mac_of(name), there: true });
        goal.devices.push(device_goal(&ifb, None, tree)?);
    }
    goal.devices.push(device_goal(name, Some(link.index), &own)?);
    Ok(LinePlan { goal, words, remarks, no_aqm, subscribers: None, policy: all })
}

/// The same of subscribers of whom only those who are there have classes.
fn on_demand(
    name: &str,
    link: &LinkNow,
    all: LinePolicy,
    mut remarks: Vec<String>,
) -> Result<LinePlan, CommandError> {
    let standby = SubscriberClasses::of(&all, name, traits_of(link))?;
    let mut goal =
        Goal { dynamic: standby.dynamic(), likely: standby.likely()?, ..Goal::default() };
    let mut own = Tree::default();
    for way in &standby.directions {
        let tree = way.tree([]);
        if way.device == name {
            own.queue = tree.queue;
            continue;
        }
        goal.links.push(LinkGoal { name: way.device.clone(), mac: mac_of(name), there: true });
        goal.devices.push(device_goal(&way.device, None, &tree)?);
        own.ingress = Some(Ingress { filters: vec![Filter::all_to(&way.device)] });
    }
    goal.devices.push(device_goal(name, Some(link.index), &own)?);
    remarks.extend(standby.remarks());
    let words = all.words(PolicyName::Subscribers);
    let no_aqm = None;
    Ok(LinePlan { goal, words, remarks, no_aqm, subscribers: Some(standby), policy: all })
}

pub fn traits_of(link: &LinkNow) -> DeviceTraits {
    DeviceTraits {
        headless: link.mac.is_none(),
        // There only where the kernel tracks connections.
        tracked: sysctl::read("net/netfilter/nf_conntrack_count").is_ok(),
    }
}

/// The tree of the interface itself, and that of the IFB behind it.
pub fn trees(
    all: &LinePolicy,
    policy: PolicyName,
    traits: DeviceTraits,
    name: &str,
) -> Result<(Tree, Option<Tree>), CommandError> {
    let tree = |rate, tell| all.tree(policy, tell, rate, traits).map_err(CommandError::unusable);
    let (up, down) = all.rates();
    let mut own = up.map(|rate| tree(rate, Tell::Source)).transpose()?.unwrap_or_default();
    let beyond = down.map(|rate| tree(rate, Tell::Destination)).transpose()?;
    if beyond.is_some() {
        let mut filter = Filter::all_to(&ifb_of(name));
        if by_nat(all) {
            filter.actions.insert(0, Action::Connmark);
        }
        own.ingress = Some(Ingress { filters: vec![filter] });
    }
    Ok((own, beyond))
}

/// What this machine's kernel lacks of a policy's queues; none where it lacks nothing, or could not be asked.
pub fn lacking_here(all: &LinePolicy, policy: PolicyName) -> Option<String> {
    let modules = match policy {
        PolicyName::Cake => match kernel_has(Qdisc::from(Cake::default())) {
            Some(false) => vec!["sch_cake"],
            _ => Vec::new(),
        },
        _ => {
            let (mut own, mut beyond) = trees(all, policy, DeviceTraits::default(), "").ok()?;
            let mut both: Vec<_> = [&mut own].into_iter().chain(&mut beyond).collect();
            kernel::lacks(&mut both).into_iter().map(Lack::name).collect()
        }
    };
    missing(&modules)
}

fn missing(modules: &[&str]) -> Option<String> {
    let load = match modules {
        [] => return None,
        [one] => format!("modprobe {one}"),
        more => format!("modprobe -a {}", more.join(" ")),
    };
    Some(format!(
        "This machine's kernel lacks {}, so `apply` would give less here: first try `{load}`.",
        modules.join(", ")
    ))
}

fn device_goal(name: &str, index: Option<u32>, tree: &Tree) -> Result<DeviceGoal, CommandError> {
    let plan = tree.plan().map_err(CommandError::usage)?;
    let places = Places::of(&plan);
    Ok(DeviceGoal { name: name.to_owned(), index, places, things: plan.things() })
}

/// A file that a person wrote, as what it is meant to be.
pub fn policy_of_file<T>(
    file: &Path,
    parse: impl FnOnce(&str) -> Result<T, toml::de::Error>,
) -> Result<T, CommandError> {
    let text = text_of(file)?;
    parse(&text).map_err(|why| {
        let before = why.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(0, |before| before.matches('\n').count()) + 1;
        CommandError::unusable(format!("{}, line {line}: {}", file.display(), why.message()))
    })
}

/// A policy with the subscribers of the table that it names.
pub fn with_list(mut all: LinePolicy, file: &Path) -> Result<LinePolicy, CommandError> {
    let Some(list) = all.list.take() else { return Ok(all) };
    let list = file.parent().unwrap_or(Path::new("")).join(list);
    let groups: Vec<&str> = all.groups.iter().map(|group| group.name.as_str()).collect();
    let wrong = |why: String| CommandError::unusable(format!("{}, {why}", list.display()));
    let (subscribers, _) = read_list(&text_of(&list)?, &groups).map_err(wrong)?;
    if subscribers.is_empty() {
        return Err(wrong("no subscriber is in it, nothing but the names of columns".to_owned()));
    }
    all.subscribers.extend(subscribers);
    Ok(all)
}

pub fn text_of(file: &Path) -> Result<String, CommandError> {
    let named = |why: std::io::Error| CommandError::unusable(format!("{}: {why}", file.display()));
    input::text(file, LARGEST).map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose_with_cake;

    #[test]
    fn a_trial_has_what_the_labs_kernel_has_and_says_what_is_missing_here_in_a_line() {
        assert_eq!(choose_with_cake(&LinePolicy::default()), PolicyName::HostFair);
        assert_eq!(missing(&[]), None);
        let said = missing(&["sch_cake"]).expect("a line");
        assert!(said.contains("lacks sch_cake,") && said.contains("`modprobe sch_cake`"), "{said}");
        let said = missing(&[Lack::Drr.name(), Lack::Bpf.name()]).expect("a line");
        assert!(said.contains("`modprobe -a sch_drr cls_bpf`"), "{said}");
    }

    #[test]
    fn a_log_has_room_for_as_many_subscribers_as_there_can_be_twice() {
        let one = "{ name = \"subscriber-12345\", prefixes = [\"192.0.2.128/25\"], \
                   up = { floor = \"100kbit\", ceiling = \"100Mbit\" }, \
                   down = { floor = \"100kbit\", ceiling = \"100Mbit\" } }";
        let one: LinePolicy = toml::from_str(&format!("subscriber = [{one}]")).expect("a policy");
        let subscribers = vec![one.subscribers[0].clone(); 65_264];
        let text = recipe_of(&LinePolicy { subscribers, ..one }).expect("a recipe");
        assert!(2 * text.len() < 12 << 20, "{} bytes", text.len());
    }

    #[test]
    fn a_policy_is_read_from_its_log_as_it_was_written() {
        let files = [
            "line = \"10/50\"\npolicy = \"cake\"\nlink = \"docsis\"",
            "up = \"1Mbit\"\nhosts = [[\"192.0.2.7\", \"2001:db8::7\"]]",
            "[tree]\nqueue = { kind = \"htb\", default = \"1:2\", class = [{ id = \"1:2\", rate = \"1Mbit\" }] }",
            "line = \"10/50\"\nlazy = true\n[[group]]\nname = \"north\"\nup = \"5Mbit\"\ndown = \"9Mbit\"\n\
             [[subscriber]]\nname = \"Elm St. 9, \\\"Town\\\"\"\nprefixes = [\"192.0.2.0/29\", \"2001:db8::/48\"]\n\
             group = \"north\"\nup = { floor = \"1Mbit\", ceiling = \"4Mbit\" }\n\
             down = { floor = \"1Mbit\", ceiling = \"9Mbit\" }",
        ];
        for file in files {
            let policy: LinePolicy = toml::from_str(file).expect(file);
            let text = recipe_of(&policy).expect("a recipe");
            assert_eq!(policy_of_recipe(&text), Ok(policy), "{text}");
        }
    }
}
