//! What a person asks for, as queues for interfaces.
//!
//! ```text
//!   hosts ──► DEV ── root queue: what leaves, at --up
//!             DEV ── ingress: all that comes ──► IFB ── root queue, at --down ──► hosts
//! ```

use super::chosen::choose_here;
use super::device;
pub use super::ifb::{ifb_of, mac_of};
use super::kept;
use super::kinds;
use super::standby::{self, Standby};
use super::told_apart::{Choice, by_nat, find_hosts, find_named, is_read_into, look_inside};
use crate::failure::Failure;
use clap::Args;
use quell_act::{Annex, DeviceGoal, Goal, HostTableGoal, LinkGoal, LinkNow, Log, Machine};
use quell_netlink::sysctl;
use quell_shaper::{
    BothWays, DeviceTraits, Found, HostsBy, LineRates, LineType, PolicyName, Tell, read_list,
};
use quell_sys::input;
use quell_tc::{Action, Filter, Handle, Ingress, Places, Tree};
use quell_units::Rate;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// No file that a person writes is longer.
const LARGEST: u64 = 16 << 20;

/// What is wanted of a line.
#[derive(Debug, Args)]
pub struct LineArgs {
    /// How it is divided: host-fair, cake, tiers or subscribers; where absent what fits
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    pub policy: Option<PolicyName>,
    /// A policy file (TOML); options given beside it go before what it says
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Rate of what leaves, a little below the line's
    #[arg(long, value_name = "RATE", conflicts_with = "line")]
    pub up: Option<Rate>,
    /// Rate of what comes, a little below the line's
    #[arg(long, value_name = "RATE", conflicts_with = "line")]
    pub down: Option<Rate>,
    /// The line's rates in Mbit/s, up/down; 95 % of them are used
    #[arg(long, value_name = "UP/DOWN")]
    pub line: Option<LineRates>,
    /// What the line is, as ethernet, vlan, docsis, pppoe-ptm or pppoe-atm
    #[arg(long, value_name = "TYPE")]
    pub link: Option<LineType>,
    /// A host that gets an equal share, by its addresses with commas between (repeatable)
    #[arg(long = "host", value_name = "ADDRESSES", value_parser = addresses)]
    pub hosts: Vec<Vec<IpAddr>>,
    /// Where no --host is given, for how many hosts there is a place; 128 where absent, on a slow line fewer
    #[arg(long, value_name = "COUNT", conflicts_with = "hosts")]
    pub places: Option<u16>,
    /// How hosts are found: by their address, by that inside of tunnels that end here (also with --policy cake), by that behind address translation, or by a firewall mark. Those of --host: by address, or nat
    #[arg(long, value_name = "address|inside|nat|mark", value_parser = hosts_by)]
    pub hosts_by: Option<HostsBy>,
    /// Bits of an IPv6 address that make a host, as 64 where each customer has such a prefix
    #[arg(long, value_name = "BITS", conflicts_with = "hosts", value_parser = clap::value_parser!(u8).range(1..=128))]
    pub ipv6_prefix: Option<u8>,
    /// Bytes that each packet costs on the line beyond its Ethernet frame, or beyond what --link says
    #[arg(long, value_name = "BYTES")]
    pub overhead: Option<u16>,
}

/// What is wanted of which interface.
#[derive(Debug, Args)]
pub struct Wanted {
    /// The interface that leads to the internet
    #[arg(long = "dev", value_name = "DEV")]
    pub device: String,
    #[command(flatten)]
    pub line: LineArgs,
    /// Make the classes of all subscribers at once, and not when they are there
    #[arg(long)]
    pub eager: bool,
    /// A tree of queues of your own instead, as in an experiment (TOML)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["policy", "file", "up", "down", "line", "link", "hosts", "overhead", "eager", "places", "hosts_by", "ipv6_prefix"]
    )]
    pub tree: Option<PathBuf>,
}

fn policy(text: &str) -> Result<PolicyName, String> {
    let named = |name: &PolicyName| name.name() == text;
    PolicyName::ALL.into_iter().find(named).ok_or_else(|| {
        let names = PolicyName::ALL.map(PolicyName::name);
        let hint = quell_units::nearest::hint(text, &names);
        format!("`{text}` is no policy{hint}; there are {}", names.join(", "))
    })
}

fn hosts_by(text: &str) -> Result<HostsBy, String> {
    let found = HostsBy::ALL.into_iter().find(|by| by.name() == text);
    found.ok_or_else(|| {
        let names = HostsBy::ALL.map(HostsBy::name);
        let hint = quell_units::nearest::hint(text, &names);
        format!("`{text}` tells no hosts apart{hint}; there are {}", names.join(", "))
    })
}

fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    let one = |a: &str| {
        let address = a.trim().parse().map_err(|_| {
            format!("`{a}` is no IP address; a host is given as 192.0.2.7,2001:db8::7")
        });
        // On the wire ::ffff:192.0.2.7 is the one of IPv4.
        address.map(|address: IpAddr| address.to_canonical())
    };
    text.split(',').map(one).collect()
}

/// What is wanted, once it is known where.
pub struct Settled {
    /// What is to be on this machine.
    pub goal: Goal,
    /// The same in words.
    pub words: String,
    /// The same as a log keeps it; nothing where it was read there.
    pub recipe: String,
    /// What of that is too long for a log.
    pub annex: Option<Annex>,
    /// What was chosen for the person, and why.
    pub remarks: Vec<String>,
    /// Subscribers of whom only those who are there have classes.
    pub standby: Option<Standby>,
    /// What all that is of.
    pub all: BothWays,
}

/// How hosts are told apart that are named by their addresses.
fn told_by(by: HostsBy) -> Result<Found, Failure> {
    match by {
        HostsBy::Address | HostsBy::Nat => Ok(Found { by: Some(by), ..Found::default() }),
        HostsBy::Inside | HostsBy::Mark => Err(Failure::usage(format!(
            "a host that is named by --host is told by its address, also behind address translation: --hosts-by {} is for hosts that \
             nobody names",
            by.name()
        ))),
    }
}

impl LineArgs {
    /// All that is said of the line, in options and file.
    pub fn both_ways(&self) -> Result<BothWays, Failure> {
        let mut all: BothWays = match &self.file {
            Some(file) => with_list(read(file, |text| toml::from_str(text))?, file)?,
            None => BothWays::default(),
        };
        if self.line.is_some() || self.up.is_some() || self.down.is_some() {
            // A rate of the file beside a rate of the options would be the one that nobody meant.
            (all.line, all.up, all.down) = (self.line, self.up, self.down);
        }
        all.policy = self.policy.or(all.policy);
        all.link = self.link.or(all.link);
        all.overhead = self.overhead.unwrap_or(all.overhead);
        if !self.hosts.is_empty() {
            all.hosts.clone_from(&self.hosts);
            all.found = self.hosts_by.map(told_by).transpose()?;
        } else if self.places.is_some() || self.hosts_by.is_some() || self.ipv6_prefix.is_some() {
            let of_file = all.found.unwrap_or_default();
            all.hosts.clear();
            all.found = Some(Found {
                places: self.places.or(of_file.places),
                by: self.hosts_by.or(of_file.by),
                ipv6_prefix: self.ipv6_prefix.or(of_file.ipv6_prefix),
            });
        }
        if all.tree.is_none() && all.rates() == (None, None) {
            return Err(Failure::usage("what rate? give --line 10/50, or --up and --down"));
        }
        Ok(all)
    }
}

impl Wanted {
    /// Finds out what is to be on this machine.
    pub fn settle(&self, machine: &mut dyn Machine) -> Result<Settled, Failure> {
        let (link, tunnel) = link_of(machine, &self.device)?;
        let all = match &self.tree {
            Some(file) => BothWays {
                tree: Some(read(file, |text| toml::from_str(text))?),
                ..BothWays::default()
            },
            None => {
                let all = self.line.both_ways()?;
                BothWays { lazy: if self.eager { Some(false) } else { all.lazy }, ..all }
            }
        };
        let file = self.tree.as_ref().or(self.line.file.as_ref());
        let file = file.map_or(String::new(), |f| f.display().to_string());
        settled(&self.device, &link, all, &file, Some(&Choice { tunnel }), true)
    }
}

/// A policy as it is to be on this machine, where all has been chosen.
pub fn settled_for(
    machine: &mut dyn Machine,
    device: &str,
    all: BothWays,
) -> Result<Settled, Failure> {
    let (link, _) = link_of(machine, device)?;
    settled(device, &link, all, "", None, true)
}

/// What was applied, as it is to be on this machine now.
pub fn settled_again(log: &Log, machine: &mut dyn Machine) -> Result<Settled, Failure> {
    let (link, _) = link_of(machine, &log.begun.device)?;
    let all = kept::read(log).map_err(Failure::system)?;
    settled(&log.begun.device, &link, all, "", None, false)
}

/// An interface, and of the others the first one that is the end of a tunnel in which Quell's classifier reads.
pub fn link_of(
    machine: &mut dyn Machine,
    name: &str,
) -> Result<(LinkNow, Option<String>), Failure> {
    let now = machine.read(&Goal::default()).map_err(Failure::system)?;
    let link = now.links.get(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = now.links.keys().map(String::as_str).collect();
        Failure::usage(format!("there is no interface `{name}`; there are: {}", names.join(", ")))
    })?;
    let is_tunnel = |link: &LinkNow| link.up && link.kind.as_deref().is_some_and(is_read_into);
    let mut others = now.links.iter().filter(|(other, _)| *other != name);
    let tunnel = others.find(|(_, link)| is_tunnel(link)).map(|(other, _)| other.clone());
    Ok((link, tunnel))
}

/// All that is wanted of one interface; `file` is where its tree was read. Without a choice all has been chosen; what is new has no log yet.
fn settled(
    name: &str,
    link: &LinkNow,
    mut all: BothWays,
    file: &str,
    choice: Option<&Choice>,
    is_new: bool,
) -> Result<Settled, Failure> {
    let beside = match choice {
        Some(_) => device::remarks(name, link.index, &all),
        None => Vec::new(),
    };
    let (own, beyond, words, remarks) = match &all.tree {
        Some(tree) => {
            if *tree == Tree::default() {
                return Err(Failure::unusable(format!("{file}: no queue is in it")));
            }
            (tree.clone(), None, format!("the tree {file}"), beside)
        }
        None => {
            let (mut policy, mut remarks) = choose_here(&all);
            if let Some(choice) = choice {
                if policy == PolicyName::HostFair && all.hosts.is_empty() {
                    remarks.extend(find_hosts(&mut all, &mut policy, traits_of(link))?);
                } else {
                    remarks.extend(find_named(&mut all, policy, traits_of(link)));
                }
                if policy == PolicyName::Cake {
                    remarks.extend(look_inside(&mut all, choice));
                }
            }
            remarks.extend(beside);
            if choice.is_some() {
                remarks.extend(all.cut(policy));
            }
            all.policy = Some(policy);
            let lazy = all.is_lazy(policy);
            let why_not = if lazy { standby::why_not(name) } else { None };
            if let Some(why) = &why_not {
                remarks.push(format!(
                    "all classes are made at once, and not when their subscribers are there: {why}"
                ));
            }
            if lazy && why_not.is_none() {
                return on_demand(name, link, all, remarks, is_new);
            }
            let (mut own, mut beyond) = trees(&all, policy, traits_of(link), name)?;
            let mut both: Vec<&mut Tree> = [&mut own].into_iter().chain(&mut beyond).collect();
            let instead = kinds::with_what_there_is(&mut both).map_err(Failure::system)?;
            remarks.extend(instead);
            (own, beyond, all.words(policy), remarks)
        }
    };
    let recipe = toml::to_string(&all).map_err(Failure::system)?;
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
    Ok(Settled { goal, words, recipe, annex: None, remarks, standby: None, all })
}

/// The same of subscribers of whom only those who are there have classes.
fn on_demand(
    name: &str,
    link: &LinkNow,
    all: BothWays,
    mut remarks: Vec<String>,
    is_new: bool,
) -> Result<Settled, Failure> {
    let standby = Standby::of(&all, name, traits_of(link))?;
    let mut goal = Goal { guests: standby.guests(), likely: standby.likely()?, ..Goal::default() };
    let mut own = Tree::default();
    for way in &standby.ways {
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
    let (recipe, annex) = match is_new {
        true => kept::write(&all).map(|(recipe, annex)| (recipe, Some(annex))),
        false => Ok((String::new(), None)),
    }
    .map_err(Failure::system)?;
    let words = all.words(PolicyName::Subscribers);
    Ok(Settled { goal, words, recipe, annex, remarks, standby: Some(standby), all })
}

/// What an interface of this machine is like.
pub fn traits_of(link: &LinkNow) -> DeviceTraits {
    DeviceTraits {
        headless: link.mac.is_none(),
        // There only where the kernel tracks connections.
        tracked: sysctl::read("net/netfilter/nf_conntrack_count").is_ok(),
    }
}

/// The tree of the interface itself, and that of the IFB behind it.
pub fn trees(
    all: &BothWays,
    policy: PolicyName,
    traits: DeviceTraits,
    name: &str,
) -> Result<(Tree, Option<Tree>), Failure> {
    let tree = |rate, tell| all.tree(policy, tell, rate, traits).map_err(Failure::unusable);
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

fn device_goal(name: &str, index: Option<u32>, tree: &Tree) -> Result<DeviceGoal, Failure> {
    let plan = tree.plan().map_err(Failure::usage)?;
    let places = Places::of(&plan);
    Ok(DeviceGoal { name: name.to_owned(), index, places, things: plan.things() })
}

/// A file that a person wrote, as what it is meant to be.
fn read<T>(
    file: &Path,
    parse: impl FnOnce(&str) -> Result<T, toml::de::Error>,
) -> Result<T, Failure> {
    let text = contents(file)?;
    parse(&text).map_err(|why| {
        let before = why.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(0, |before| before.matches('\n').count()) + 1;
        Failure::unusable(format!("{}, line {line}: {}", file.display(), why.message()))
    })
}

/// A policy with the subscribers of the table that it names.
fn with_list(mut all: BothWays, file: &Path) -> Result<BothWays, Failure> {
    let Some(list) = all.list.take() else { return Ok(all) };
    let list = file.parent().unwrap_or(Path::new("")).join(list);
    let groups: Vec<&str> = all.groups.iter().map(|group| group.name.as_str()).collect();
    let wrong = |why: String| Failure::unusable(format!("{}, {why}", list.display()));
    let (subscribers, _) = read_list(&contents(&list)?, &groups).map_err(wrong)?;
    if subscribers.is_empty() {
        return Err(wrong("no subscriber is in it, nothing but the names of columns".to_owned()));
    }
    all.subscribers.extend(subscribers);
    Ok(all)
}

/// The text of a file that a person wrote.
pub fn contents(file: &Path) -> Result<String, Failure> {
    let named = |why: std::io::Error| Failure::unusable(format!("{}: {why}", file.display()));
    input::text(file, LARGEST).map_err(named)
}

/// A queue's handle in the root of an interface, for status.
pub const ROOT: Handle = Handle::ROOT;
