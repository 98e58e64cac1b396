//! What a person asks for, as queues for interfaces.
//!
//! ```text
//!   hosts ──► DEV ── root queue: what leaves, at --up
//!             DEV ── ingress: all that comes ──► IFB ── root queue, at --down ──► hosts
//! ```

use super::kinds;
use super::standby::{self, Standby};
use super::state::{asked_for, may_change};
use crate::failure::Failure;
use clap::Args;
use quell_act::{DeviceGoal, Goal, LinkGoal, LinkNow, Log, Machine};
use quell_netlink::sysctl;
use quell_shaper::{BothWays, DeviceTraits, Found, HostsBy, LineRates, LineType, PolicyName, Tell};
use quell_sys::input::Input;
use quell_tc::qdisc::Cake;
use quell_tc::{Action, Filter, Handle, Ingress, Match, Places, Qdisc, Tree, U32};
use quell_units::Rate;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// No file that a person writes is longer.
const LARGEST: u64 = 64 << 20;

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
    /// How hosts are found: by their address, by that inside of tunnels that end here, or by a firewall mark
    #[arg(long, value_name = "address|inside|mark", value_parser = hosts_by, conflicts_with = "hosts")]
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
        a.trim().parse().map_err(|_| {
            format!("`{a}` is no IP address; a host is given as 192.0.2.7,2001:db8::7")
        })
    };
    text.split(',').map(one).collect()
}

/// The IFB that queues what comes in at an interface.
pub fn ifb_of(device: &str) -> String {
    quell_lab::build::ifb_name(device)
}

/// The address by which an IFB is known to be ours: that of its interface's name, hashed, marked as given by hand.
pub fn mac_of(device: &str) -> [u8; 6] {
    let hash = quell_tc::hash(device.bytes()).to_be_bytes();
    [0x02, b'Q', b'l', hash[5], hash[6], hash[7]]
}

/// What is wanted, once it is known where.
pub struct Settled {
    /// What is to be on this machine.
    pub goal: Goal,
    /// The same in words.
    pub words: String,
    /// The same as a policy file.
    pub recipe: String,
    /// What was chosen for the person, and why.
    pub remarks: Vec<String>,
    /// Subscribers of whom only those who are there have classes.
    pub standby: Option<Standby>,
}

impl LineArgs {
    /// All that is said of the line, in options and file.
    pub fn both_ways(&self) -> Result<BothWays, Failure> {
        let mut all: BothWays = match &self.file {
            Some(file) => read(file, |text| toml::from_str(text))?,
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
            all.found = None;
        }
        if self.places.is_some() || self.hosts_by.is_some() || self.ipv6_prefix.is_some() {
            let of_file = all.found.unwrap_or_default();
            all.hosts.clear();
            all.found = Some(Found {
                places: self.places.or(of_file.places),
                by: self.hosts_by.unwrap_or(of_file.by),
                ipv6_prefix: self.ipv6_prefix.or(of_file.ipv6_prefix),
            });
        }
        if all.tree.is_none() && all.rates() == (None, None) {
            return Err(Failure::usage("what rate? give --line 10/50, or --up and --down"));
        }
        Ok(all)
    }
}

/// The policy, and what there is to say of it where nobody named one.
pub fn choose(
    all: &BothWays,
    has_cake: impl FnOnce() -> Option<bool>,
) -> (PolicyName, Vec<String>) {
    if let Some(named) = all.named() {
        return (named, Vec::new());
    }
    let why = match has_cake() {
        Some(true) => return (PolicyName::Cake, Vec::new()),
        Some(false) => "this kernel has no CAKE, which would find the hosts by itself: three tiers by DSCP instead, fair between flows \
                        and not between hosts; name the hosts with --host for that",
        None => return (PolicyName::Cake, vec!["whether this kernel has CAKE could not be tried without the right to make a namespace".into()]),
    };
    (PolicyName::Tiers, vec![why.into()])
}

impl Wanted {
    /// Finds out what is to be on this machine.
    pub fn settle(&self, machine: &mut dyn Machine) -> Result<Settled, Failure> {
        let link = link_of(machine, &self.device)?;
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
        settled(&self.device, &link, all, &file, true)
    }
}

/// What was applied, as it is to be on this machine now.
pub fn settled_again(log: &Log, machine: &mut dyn Machine) -> Result<Settled, Failure> {
    let link = link_of(machine, &log.begun.device)?;
    let all = asked_for(log).map_err(Failure::system)?;
    settled(&log.begun.device, &link, all, "", false)
}

fn link_of(machine: &mut dyn Machine, name: &str) -> Result<LinkNow, Failure> {
    let now = machine.read(&Goal::default()).map_err(Failure::system)?;
    now.links.get(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = now.links.keys().map(String::as_str).collect();
        Failure::usage(format!("there is no interface `{name}`; there are: {}", names.join(", ")))
    })
}

/// All that is wanted of one interface; `file` is where its tree was read. Where `choose` is not set, all has been chosen.
fn settled(
    name: &str,
    link: &LinkNow,
    mut all: BothWays,
    file: &str,
    may_choose: bool,
) -> Result<Settled, Failure> {
    let (own, beyond, words, remarks) = match &all.tree {
        Some(tree) => {
            if *tree == Tree::default() {
                return Err(Failure::unusable(format!("{file}: no queue is in it")));
            }
            (tree.clone(), None, format!("the tree {file}"), Vec::new())
        }
        None => {
            let has_cake = || kinds::kernel_has(Qdisc::from(Cake::default()));
            let (mut policy, mut remarks) = choose(&all, has_cake);
            if may_choose && policy == PolicyName::HostFair && all.hosts.is_empty() {
                remarks.extend(find_hosts(&mut all, &mut policy, traits_of(link))?);
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
                return on_demand(name, link, &all, remarks);
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
    if let Some(tree) = &beyond {
        let ifb = ifb_of(name);
        goal.links.push(LinkGoal { name: ifb.clone(), mac: mac_of(name), there: true });
        goal.devices.push(device(&ifb, None, tree)?);
    }
    goal.devices.push(device(name, Some(link.index), &own)?);
    Ok(Settled { goal, words, recipe, remarks, standby: None })
}

/// The same of subscribers of whom only those who are there have classes.
fn on_demand(
    name: &str,
    link: &LinkNow,
    all: &BothWays,
    mut remarks: Vec<String>,
) -> Result<Settled, Failure> {
    let standby = Standby::of(all, name, traits_of(link))?;
    let mut goal = Goal { guests: standby.guests(), likely: standby.likely()?, ..Goal::default() };
    let mut own = Tree::default();
    for way in &standby.ways {
        let tree = way.tree([]);
        if way.device == name {
            own.queue = tree.queue;
            continue;
        }
        goal.links.push(LinkGoal { name: way.device.clone(), mac: mac_of(name), there: true });
        goal.devices.push(device(&way.device, None, &tree)?);
        own.ingress = Some(Ingress { filters: vec![all_to(&way.device)] });
    }
    goal.devices.push(device(name, Some(link.index), &own)?);
    remarks.extend(standby.remarks());
    let recipe = serde_json::to_string(all).map_err(Failure::system)?;
    let words = all.words(PolicyName::Subscribers);
    Ok(Settled { goal, words, recipe, remarks, standby: Some(standby) })
}

/// Whether hosts can be found here. Where no program may be loaded CAKE takes the policy's place. What there is to say of it.
fn find_hosts(
    all: &mut BothWays,
    policy: &mut PolicyName,
    traits: DeviceTraits,
) -> Result<Vec<String>, Failure> {
    let by = all.found_hosts().unwrap_or_default().by;
    let said: Option<String> = match by {
        HostsBy::Address if traits.tracked => Some(
            "this kernel tracks connections: where it also translates addresses, what leaves has this machine's address, whoever sent it. \
             Hosts are told apart there by --policy cake, or by marks (docs/shaping.md)"
                .into(),
        ),
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
        own.ingress = Some(Ingress { filters: vec![all_to(&ifb_of(name))] });
    }
    Ok((own, beyond))
}

/// Sends every packet to an IFB, which every kernel with filters can.
fn all_to(ifb: &str) -> Filter {
    let any = Match::Raw { width: 32, value: 0, mask: 0, at: 0 };
    Filter::new(U32 { r#match: vec![any] }, None).with_action(Action::Redirect(ifb.to_owned()))
}

fn device(name: &str, index: Option<u32>, tree: &Tree) -> Result<DeviceGoal, Failure> {
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

/// The text of a file that a person wrote.
pub fn contents(file: &Path) -> Result<String, Failure> {
    let named = |why: std::io::Error| Failure::unusable(format!("{}: {why}", file.display()));
    let mut text = String::new();
    let input =
        Input::open(file).map_err(|e| Failure::unusable(format!("{}: {e}", file.display())))?;
    input.take(LARGEST).read_to_string(&mut text).map_err(named)?;
    Ok(text)
}

/// A queue's handle in the root of an interface, for status.
pub const ROOT: Handle = Handle::ROOT;
