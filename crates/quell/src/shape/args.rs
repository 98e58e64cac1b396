//! What a person types after `quell shape`.

use crate::completion;
use crate::failure::Failure;
use crate::options::{Backend, Family, Guest, Json, Place, SecretFile, choice};
use clap::{Args, ValueEnum};
use quell_act::{Machine, Patience, patience};
use quell_policy::{
    HostDetection, HostsBy, LineBuffer, LineKind, LinePath, LinePolicy, LineType, PolicyName,
    TypedLine,
};
use quell_shaping::recipe::{RecipeTarget, plain_device};
use quell_shaping::{LinePlan, UndoLogs, plan_line, policy_of_file, with_list};
use quell_units::{Rate, Span};
use std::net::IpAddr;
use std::path::PathBuf;

/// Where logs and locks are.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// Folder of the undo logs; the default is gone after a reboot, as the queues are
    #[arg(long = "state", value_name = "FOLDER", default_value = quell_shaping::DEFAULT_FOLDER)]
    pub folder: PathBuf,
}

impl StateArgs {
    pub fn logs(&self) -> UndoLogs {
        UndoLogs { folder: self.folder.clone() }
    }
}

/// Where files are written.
#[derive(Debug, Args)]
pub struct Root {
    /// Root folder of another system, for its files of /etc
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    pub root: PathBuf,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub wanted: WantedArgs,
    /// Show the queues, and every step that would be taken
    #[arg(long)]
    pub steps: bool,
    /// Show the same as commands of ip and tc
    #[arg(long)]
    pub tc: bool,
    #[command(flatten)]
    pub state: StateArgs,
    #[command(flatten)]
    pub json: Json,
}

/// Whether a change waits to be confirmed; of `quell shape` and `quell tune` alike.
#[derive(Debug, Args)]
pub struct ConfirmWithin {
    /// Take it back after this time unless it is confirmed; `never` to keep it. The default of `quell shape apply` over ssh is 60s
    #[arg(long, value_name = "TIME", value_parser = patience)]
    pub confirm_within: Option<Patience>,
}

#[derive(Debug, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub wanted: WantedArgs,
    #[command(flatten)]
    pub confirm: ConfirmWithin,
    /// Replace queues that somebody else made; `quell shape off` restores them
    #[arg(long)]
    pub replace: bool,
    /// Replace also what can't be restored
    #[arg(long)]
    pub no_way_back: bool,
    #[command(flatten)]
    pub state: StateArgs,
    #[command(flatten)]
    pub json: Json,
}

#[derive(Debug, Args)]
pub struct ConfirmArgs {
    /// The interface; by default all that wait
    #[arg(long = "dev", value_name = "DEV", add = completion::devices())]
    pub device: Option<String>,
    #[command(flatten)]
    pub state: StateArgs,
    #[command(flatten)]
    pub json: Json,
}

#[derive(Debug, Args)]
pub struct OffArgs {
    /// The interface
    #[arg(long = "dev", value_name = "DEV", add = completion::devices())]
    pub device: String,
    /// Take off also what somebody changed or put in the place of Quell's queues since
    #[arg(long, conflicts_with = "keep")]
    pub replace: bool,
    /// Leave what somebody changed or put there since, and take off all else
    #[arg(long)]
    pub keep: bool,
    /// Off until the interface comes back or the machine reboots, if `quell shape persist` was called
    #[arg(long)]
    pub for_now: bool,
    #[command(flatten)]
    pub root: Root,
    #[command(flatten)]
    pub state: StateArgs,
    #[command(flatten)]
    pub json: Json,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The interface; by default all
    #[arg(long = "dev", value_name = "DEV", add = completion::devices())]
    pub device: Option<String>,
    /// Read repeatedly, and show who has how much per second
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1s")]
    pub watch: Option<Span>,
    /// As metrics, OpenMetrics: rates, backlog, delay, drops and marks by host and tier
    #[arg(long, conflicts_with_all = ["watch", "json"])]
    pub metrics: bool,
    #[command(flatten)]
    pub state: StateArgs,
    #[command(flatten)]
    pub json: Json,
}

#[derive(Debug, Args)]
pub struct RecoverArgs {
    #[command(flatten)]
    pub state: StateArgs,
    #[command(flatten)]
    pub json: Json,
}

/// Options of the watchdog.
#[derive(Debug, Args)]
pub struct WatchdogArgs {
    /// The undo log
    pub log: PathBuf,
    /// The process that takes the steps
    pub applier: u32,
    /// When it began, in seconds since 1970
    pub at: u64,
    /// When they must have been taken, on the monotonic clock
    pub limit: u64,
}

#[derive(Debug, Args)]
pub struct ChangeArgs {
    /// The subscriber
    pub name: String,
    /// The interface; by default the one that has subscribers
    #[arg(long = "dev", value_name = "DEV", add = completion::devices())]
    pub device: Option<String>,
    /// Ceiling of what it sends
    #[arg(long, value_name = "RATE")]
    pub up: Option<Rate>,
    /// Ceiling of what it receives
    #[arg(long, value_name = "RATE")]
    pub down: Option<Rate>,
    /// Floor of what it sends
    #[arg(long, value_name = "RATE")]
    pub up_floor: Option<Rate>,
    /// Floor of what it receives
    #[arg(long, value_name = "RATE")]
    pub down_floor: Option<Rate>,
    #[command(flatten)]
    pub confirm: ConfirmWithin,
    #[command(flatten)]
    pub root: Root,
    #[command(flatten)]
    pub state: StateArgs,
    #[command(flatten)]
    pub json: Json,
}

#[derive(Debug, Args)]
pub struct HoldArgs {
    /// The interface
    #[arg(long = "dev", value_name = "DEV", add = completion::devices())]
    pub device: String,
    /// Where another process does it already, wait and take over when that one ends
    #[arg(long)]
    pub stand_by: bool,
    #[command(flatten)]
    pub state: StateArgs,
}

#[derive(Debug, Args)]
pub struct FollowArgs {
    /// The interface
    #[arg(long = "dev", value_name = "DEV", add = completion::devices())]
    pub device: String,
    /// Where another process does it already, wait and take over when that one ends
    #[arg(long)]
    pub stand_by: bool,
    /// Change nothing, and print each change that would be made
    #[arg(long)]
    pub dry_run: bool,
    /// Wait for the end of this process, and put the rates where the policy says if it was killed
    #[arg(long, value_name = "PID", hide = true)]
    pub guard: Option<u32>,
    #[command(flatten)]
    pub secret: SecretFile,
    #[command(flatten)]
    pub state: StateArgs,
}

#[derive(Debug, Args)]
pub struct PersistArgs {
    /// The interface
    #[arg(long = "dev", value_name = "DEV", add = completion::devices())]
    pub device: String,
    #[command(flatten)]
    pub root: Root,
    #[command(flatten)]
    pub state: StateArgs,
    #[command(flatten)]
    pub json: Json,
}

#[derive(Debug, Args)]
pub struct ProveArgs {
    /// The interface
    #[arg(long = "dev", value_name = "DEV", add = completion::devices())]
    pub device: String,
    /// A `quell serve` beyond the line: HOST, HOST:PORT
    #[arg(long, value_name = "HOST", required_unless_present = "in_lab")]
    pub to: Option<String>,
    /// What can't be measured from here, in the lab on a line like this one: shares of hosts, order of tiers, floors and ceilings
    #[arg(long, conflicts_with = "to")]
    pub in_lab: bool,
    /// How long each direction is loaded
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub time: Span,
    /// First tell what the twin of the line foretells: what `quell twin learn` wrote
    #[arg(long, value_name = "FILE", conflicts_with = "in_lab")]
    pub twin: Option<PathBuf>,
    /// What carries the twin's traffic: the guest kernel, or this machine's in real time
    #[arg(long, value_enum, default_value_t = Backend::Guest, requires = "twin")]
    pub kernel: Backend,
    #[command(flatten)]
    pub family: Family,
    #[command(flatten)]
    pub secret: SecretFile,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub guest: Guest,
    #[command(flatten)]
    pub state: StateArgs,
    #[command(flatten)]
    pub json: Json,
}

#[derive(Debug, Args)]
pub struct TryArgs {
    #[command(flatten)]
    pub line: LineArgs,
    /// On the twin of a line: what `quell twin learn` wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["line", "kind", "rtt", "buffer"])]
    pub twin: Option<PathBuf>,
    #[command(flatten)]
    pub how: RehearsalArgs,
    #[command(flatten)]
    pub json: Json,
}

/// How it is tried.
#[derive(Debug, Args)]
pub struct RehearsalArgs {
    /// How long each measurement takes
    #[arg(long, default_value = "10s")]
    pub duration: Span,
    #[command(flatten)]
    pub path: LinePathArgs,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub guest: Guest,
}

/// What a line is like beside its rates.
#[derive(Debug, Clone, Default, Args)]
pub struct LinePathArgs {
    /// What sort of line it is, for what is not said: dsl, docsis, fibre or lte
    #[arg(long, value_name = "KIND")]
    pub kind: Option<LineKind>,
    /// The idle line's round-trip time to a server that is near
    #[arg(long, value_name = "TIME")]
    pub rtt: Option<Span>,
    /// The modem's buffer: a time (250ms), packets (100p) or bytes (256kB)
    #[arg(long, value_name = "SIZE")]
    pub buffer: Option<LineBuffer>,
}

impl LinePathArgs {
    pub fn path(&self) -> LinePath {
        LinePath::of(self.kind, self.rtt, self.buffer)
    }
}

#[derive(Debug, Args)]
pub struct RecipeArgs {
    /// Where it is pasted
    #[arg(long = "for", value_name = "TARGET", value_parser = choice([
        ("openwrt", "OpenWrt's sqm-scripts", RecipeTarget::Openwrt),
        ("networkd", "systemd-networkd", RecipeTarget::Networkd),
        ("tc", "A shell with ip and tc", RecipeTarget::Tc),
    ]))]
    pub target: RecipeTarget,
    /// The interface to the internet there; by default `wan` on OpenWrt, `eth0` elsewhere
    #[arg(long = "dev", value_name = "DEV", add = completion::devices(), value_parser = plain_device)]
    pub device: Option<String>,
    #[command(flatten)]
    pub line: LineArgs,
    /// Try it in the lab first, as by `quell shape try`; results are in comments at the top
    #[arg(long = "try")]
    pub tried: bool,
    #[command(flatten)]
    pub how: RehearsalArgs,
    #[command(flatten)]
    pub json: Json,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// OpenWrt's /etc/config/sqm
    Sqm,
    /// LibreQoS' ShapedDevices.csv
    Libreqos,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Whose file it is
    #[arg(value_enum)]
    pub format: ImportFormat,
    /// The file
    pub file: PathBuf,
    /// Only the queue of sqm for this interface
    #[arg(long = "dev", value_name = "DEV", add = completion::devices())]
    pub device: Option<String>,
    /// LibreQoS' network.json, which has the rates of parent nodes; where absent the one beside the file, if there is one
    #[arg(long, value_name = "FILE")]
    pub network: Option<PathBuf>,
}

/// What is wanted of a line.
#[derive(Debug, Args)]
pub struct LineArgs {
    /// How it is divided: host-fair, cake, tiers or subscribers; by default what fits
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    pub policy: Option<PolicyName>,
    /// A policy file (TOML); options override it
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Rate of what is sent, a little below the line's
    #[arg(long, value_name = "RATE", conflicts_with = "line")]
    pub up: Option<Rate>,
    /// Rate of what is received, a little below the line's
    #[arg(long, value_name = "RATE", conflicts_with = "line")]
    pub down: Option<Rate>,
    /// The line's rates, up/down: 10/50 (Mbit/s), 512kbit/2Mbit, 50down/10up; 95 % of them are used
    #[arg(long, value_name = "UP/DOWN")]
    pub line: Option<TypedLine>,
    /// What the line is: ethernet, vlan, docsis, pppoe-ptm, pppoe-atm …
    #[arg(long, value_name = "TYPE")]
    pub link: Option<LineType>,
    /// A host that gets an equal share: its addresses, separated by commas (repeatable)
    #[arg(long = "host", value_name = "ADDRESSES", value_parser = addresses)]
    pub hosts: Vec<Vec<IpAddr>>,
    /// Without --host: how many hosts have a place; by default 128, on a slow line fewer
    #[arg(long, value_name = "COUNT", conflicts_with = "hosts")]
    pub places: Option<u16>,
    /// How hosts are found: by their address, by that inside of tunnels that end here (also with --policy cake), by that behind address translation, or by a firewall mark. Those of --host: by address, or nat
    #[arg(long, value_name = "address|inside|nat|mark", value_parser = hosts_by)]
    pub hosts_by: Option<HostsBy>,
    /// Bits of an IPv6 address that make a host, for example 64 where each customer has such a prefix
    #[arg(long, value_name = "BITS", conflicts_with = "hosts", value_parser = clap::value_parser!(u8).range(1..=128))]
    pub ipv6_prefix: Option<u8>,
    /// Bytes that each packet costs on the line beyond its Ethernet frame, or beyond what --link says
    #[arg(long, value_name = "BYTES")]
    pub overhead: Option<u16>,
}

/// What is wanted of which interface.
#[derive(Debug, Args)]
pub struct WantedArgs {
    /// The interface that leads to the internet
    #[arg(long = "dev", value_name = "DEV", add = completion::devices())]
    pub device: String,
    #[command(flatten)]
    pub line: LineArgs,
    /// Make the classes of all subscribers at once, and not when they are there
    #[arg(long)]
    pub eager: bool,
    /// A tree of queues of your own instead (TOML, like the queues of an experiment)
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
        format!("`{text}` is no policy{hint}")
    })
}

fn hosts_by(text: &str) -> Result<HostsBy, String> {
    let found = HostsBy::ALL.into_iter().find(|by| by.name() == text);
    found.ok_or_else(|| {
        let names = HostsBy::ALL.map(HostsBy::name);
        let hint = quell_units::nearest::hint(text, &names);
        format!("`{text}` tells no hosts apart{hint}")
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

/// How to distinguish hosts that are named by their addresses.
fn told_by(by: HostsBy) -> Result<HostDetection, Failure> {
    match by {
        HostsBy::Address | HostsBy::Nat => {
            Ok(HostDetection { by: Some(by), ..HostDetection::default() })
        }
        HostsBy::Inside | HostsBy::Mark => Err(Failure::usage(format!(
            "--host names a host by its address, also behind address translation. --hosts-by {} is for hosts that nobody \
         names",
            by.name()
        ))),
    }
}

impl LineArgs {
    /// All that is said of the line, in options and file, with a rate.
    pub fn both_ways(&self) -> Result<LinePolicy, Failure> {
        let all = self.wanted()?;
        if all.tree.is_none() && all.rates() == (None, None) {
            return Err(Failure::usage("what rate? give --line 10/50, or --up and --down"));
        }
        Ok(all)
    }

    /// The same, be a rate said or not.
    pub fn wanted(&self) -> Result<LinePolicy, Failure> {
        let mut all: LinePolicy = match &self.file {
            Some(file) => with_list(policy_of_file(file, |text| toml::from_str(text))?, file)?,
            None => LinePolicy::default(),
        };
        if self.line.is_some() || self.up.is_some() || self.down.is_some() {
            // A rate of the file beside a rate of the options would be the one that nobody meant.
            let line = self.line.map(|line| line.rates);
            (all.line, all.up, all.down) = (line, self.up, self.down);
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
            all.found = Some(HostDetection {
                places: self.places.or(of_file.places),
                by: self.hosts_by.or(of_file.by),
                ipv6_prefix: self.ipv6_prefix.or(of_file.ipv6_prefix),
            });
        }
        if let Some(doubt) = self.line.and_then(TypedLine::doubt) {
            eprint!("{}", crate::text::lines("! ", &doubt, crate::text::columns()));
        }
        Ok(all)
    }
}

impl WantedArgs {
    /// What is to be on this machine.
    pub fn plan(&self, machine: &mut dyn Machine) -> Result<LinePlan, Failure> {
        let policy = match &self.tree {
            Some(file) => LinePolicy {
                tree: Some(policy_of_file(file, |text| toml::from_str(text))?),
                ..LinePolicy::default()
            },
            None => {
                let policy = self.line.both_ways()?;
                LinePolicy { lazy: if self.eager { Some(false) } else { policy.lazy }, ..policy }
            }
        };
        let file = self.tree.as_ref().or(self.line.file.as_ref());
        let file = file.map_or(String::new(), |f| f.display().to_string());
        Ok(plan_line(machine, &self.device, policy, &file)?)
    }
}
