//! What a person asks for, as queues for interfaces.
//!
//! ```text
//!   hosts ──► DEV ── root queue: what leaves, at --up
//!             DEV ── ingress: all that comes ──► IFB ── root queue, at --down ──► hosts
//! ```

use crate::failure::Failure;
use clap::Args;
use quell_act::{DeviceGoal, Goal, LinkGoal, Machine};
use quell_shaper::{Host, HostFair, Tell};
use quell_sys::input::Input;
use quell_tc::{Action, Filter, Handle, Ingress, Match, Places, Tree, U32};
use quell_units::Rate;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The part of a line's rate that is used, so that packets wait here and not in the modem.
const PERCENT: u64 = 95;

/// No tree that a person writes is longer.
const LARGEST: u64 = 64 << 20;

/// What is wanted of which interface.
#[derive(Debug, Args)]
pub struct Wanted {
    /// The interface that leads to the internet
    #[arg(long = "dev", value_name = "DEV")]
    pub device: String,
    /// Rate of what leaves, a little below the line's
    #[arg(long, value_name = "RATE", conflicts_with_all = ["line", "tree"])]
    pub up: Option<Rate>,
    /// Rate of what comes, a little below the line's
    #[arg(long, value_name = "RATE", conflicts_with_all = ["line", "tree"])]
    pub down: Option<Rate>,
    /// The line's rates in Mbit/s, up/down; 95 % of them are used
    #[arg(long, value_name = "UP/DOWN", value_parser = line, conflicts_with = "tree")]
    pub line: Option<(Rate, Rate)>,
    /// A host that gets an equal share, by its addresses with commas between (repeatable)
    #[arg(long = "host", value_name = "ADDRESSES", value_parser = addresses, conflicts_with = "tree")]
    pub hosts: Vec<Vec<IpAddr>>,
    /// Bytes that each packet costs on the line beyond its Ethernet frame
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub overhead: u16,
    /// A tree of queues of your own instead, as in an experiment (TOML)
    #[arg(long, value_name = "FILE")]
    pub tree: Option<PathBuf>,
}

fn line(text: &str) -> Result<(Rate, Rate), String> {
    let wrong = || format!("`{text}`: give the line's rates in Mbit/s, up/down, as 10/50");
    let (up, down) = text.split_once('/').ok_or_else(wrong)?;
    let rate = |text: &str| {
        let megabits: f64 = text.trim().parse().map_err(|_| wrong())?;
        let sane = megabits.is_finite() && megabits > 0.0 && megabits <= 1e6;
        // A tenth of a kilobit is finer than any line is known.
        let bits = (megabits * 10_000.0).round() as u64 * 100;
        if sane && bits > 0 { Ok(Rate::from_bps(bits)) } else { Err(wrong()) }
    };
    Ok((rate(up)?, rate(down)?))
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

/// The address by which an IFB is known to be ours: that of its interface's name (FNV-1a), marked as given by hand.
fn mac_of(device: &str) -> [u8; 6] {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hash = device.bytes().fold(0xcbf2_9ce4_8422_2325, step).to_be_bytes();
    [0x02, b'Q', b'l', hash[5], hash[6], hash[7]]
}

impl Wanted {
    /// In words.
    pub fn words(&self) -> String {
        if let Some(tree) = &self.tree {
            return format!("the tree {}", tree.display());
        }
        let rates = self.rates();
        let one = |name: &str, rate: Option<Rate>| rate.map(|rate| format!("{name} {rate}"));
        let rates = [one("up", rates.0), one("down", rates.1)];
        let rates: Vec<String> = rates.into_iter().flatten().collect();
        format!("host-fair, {}, {} hosts", rates.join(", "), self.hosts.len())
    }

    fn rates(&self) -> (Option<Rate>, Option<Rate>) {
        let used = |rate: Rate| Some(Rate::from_bps(rate.bps() / 100 * PERCENT));
        match self.line {
            Some((up, down)) => (used(up), used(down)),
            None => (self.up, self.down),
        }
    }

    /// What is to be on this machine.
    pub fn goal(&self, machine: &mut dyn Machine) -> Result<Goal, Failure> {
        let now = machine.read(&Goal::default()).map_err(Failure::system)?;
        let names: Vec<&str> = now.links.keys().map(String::as_str).collect();
        let Some(link) = now.links.get(&self.device) else {
            return Err(Failure::usage(format!(
                "there is no interface `{}`; there are: {}",
                self.device,
                names.join(", ")
            )));
        };
        let mut goal = Goal::default();
        let (own, beyond) = self.trees()?;
        if let Some(tree) = &beyond {
            let name = ifb_of(&self.device);
            goal.links.push(LinkGoal {
                name: name.clone(),
                mac: mac_of(&self.device),
                there: true,
            });
            goal.devices.push(device(&name, None, tree)?);
        }
        goal.devices.push(device(&self.device, Some(link.index), &own)?);
        Ok(goal)
    }

    /// The tree of the interface itself, and that of the IFB behind it.
    fn trees(&self) -> Result<(Tree, Option<Tree>), Failure> {
        if let Some(file) = &self.tree {
            return Ok((read(file)?, None));
        }
        let (up, down) = self.rates();
        if up.is_none() && down.is_none() {
            return Err(Failure::usage(
                "what rate? give --line 10/50, or --up and --down, or --tree",
            ));
        }
        if self.hosts.is_empty() {
            return Err(Failure::usage("which hosts share the line? give --host ADDRESS for each"));
        }
        let hosts: Vec<Host> = self
            .hosts
            .iter()
            .map(|addresses| Host { name: addresses[0].to_string(), addresses: addresses.clone() })
            .collect();
        let shaped = |rate, tell| {
            let policy = HostFair { overhead: self.overhead, ..HostFair::new(rate) };
            policy.plan(&hosts, tell).map(|shaped| shaped.tree).map_err(Failure::usage)
        };
        let mut own = match up {
            Some(rate) => shaped(rate, Tell::Source)?,
            None => Tree::default(),
        };
        let beyond = down.map(|rate| shaped(rate, Tell::Destination)).transpose()?;
        if beyond.is_some() {
            own.ingress = Some(Ingress { filters: vec![all_to(&ifb_of(&self.device))] });
        }
        Ok((own, beyond))
    }
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

fn read(file: &Path) -> Result<Tree, Failure> {
    let named = |why: String| Failure::unusable(format!("{}: {why}", file.display()));
    let mut text = String::new();
    let input = Input::open(file).map_err(|e| named(e.to_string()))?;
    input.take(LARGEST).read_to_string(&mut text).map_err(|e| named(e.to_string()))?;
    let tree: Tree = toml::from_str(&text).map_err(|e| named(e.to_string()))?;
    if tree == Tree::default() {
        return Err(named("no queue is in it".into()));
    }
    Ok(tree)
}

/// A queue's handle in the root of an interface, for status.
pub const ROOT: Handle = Handle::ROOT;
