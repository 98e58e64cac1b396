//! What a person types after `quell tune`.

use crate::failure::Failure;
use crate::options::{Family, Guest, Json, SecretFile};
use crate::shape::ConfirmWithin;
use clap::Args;
use quell_netlink::Prefix;
use quell_tuning::{CommandError, Folders, Role, Wish};
use quell_units::{Bytes, Rate, Span};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub wish: WishArgs,
    /// Show cures of single routes as commands for this prefix (repeatable)
    #[arg(long = "to", value_name = "PREFIX")]
    pub to: Vec<Prefix>,
    /// Show every setting that was looked at, with its reason and source
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub prove: ProveArgs,
    #[command(flatten)]
    pub folders: FolderArgs,
    #[command(flatten)]
    pub json: Json,
}

/// How a gain is proven.
#[derive(Debug, Args)]
pub struct ProveArgs {
    /// Measure whether it helps: `lab`, a path of that rate and time in the lab; or HOST, where a `quell serve` runs
    #[arg(long, value_name = "lab|HOST")]
    pub prove: Option<String>,
    /// How often each is measured for --prove
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=100))]
    pub rounds: u32,
    /// How long each time with --prove HOST
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub time: Span,
    #[command(flatten)]
    pub secret: SecretFile,
    #[command(flatten)]
    pub guest: Guest,
}

#[derive(Debug, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub wish: WishArgs,
    /// Until it is confirmed nothing is kept for the next boot
    #[command(flatten)]
    pub confirm: ConfirmWithin,
    /// Give this prefix a route of its own with the role's cures, until the next boot (repeatable); it goes with revert
    #[arg(long, value_name = "PREFIX")]
    pub route: Vec<Prefix>,
    /// Until the next boot: no file is written
    #[arg(long)]
    pub for_now: bool,
    /// Set what can be set where some of it can't, for example in a container
    #[arg(long)]
    pub partly: bool,
    #[command(flatten)]
    pub prove: ProveArgs,
    #[command(flatten)]
    pub folders: FolderArgs,
    #[command(flatten)]
    pub json: Json,
}

/// Options of `quell tune status`, `confirm` and `recover`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub folders: FolderArgs,
    #[command(flatten)]
    pub json: Json,
}

#[derive(Debug, Args)]
pub struct RevertArgs {
    /// Bring back also what somebody else has changed since
    #[arg(long, conflicts_with = "keep_changed")]
    pub all: bool,
    /// Leave what somebody else has changed since as it is
    #[arg(long)]
    pub keep_changed: bool,
    #[command(flatten)]
    pub folders: FolderArgs,
    #[command(flatten)]
    pub json: Json,
}

/// What the host is there for, and over which path.
#[derive(Debug, Args)]
pub struct WishArgs {
    /// What this host is there for: transfer, measure, router or latency
    #[arg(long, value_name = "ROLE")]
    pub role: Option<Role>,
    /// The narrowest rate on the path, for example 10Gbit
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// The longest round-trip time that is to be filled, for example 100ms
    #[arg(long, value_name = "TIME", conflicts_with = "rtt_to")]
    pub rtt: Option<Span>,
    /// Measure the round-trip time to this host: HOST, HOST:PORT; it opens a TCP connection, by default to port 5201
    #[arg(long, value_name = "HOST")]
    pub rtt_to: Option<String>,
    /// Transfers at the same time, which share the memory
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub streams: u32,
    /// Bytes of the largest packet on the path
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub mtu: u32,
    /// Size of a reply that is to arrive in one round trip, for --role latency
    #[arg(long, value_name = "SIZE")]
    pub reply: Option<Bytes>,
}

/// Where files are.
#[derive(Debug, Args)]
pub struct FolderArgs {
    /// Root folder of another system, for its /etc and /var
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    pub root: PathBuf,
    /// Folder of the undo log of this boot
    #[arg(long, value_name = "FOLDER", default_value = "/run/quell/tune")]
    pub state: PathBuf,
}

impl FolderArgs {
    pub fn folders(&self) -> Folders {
        Folders { root: self.root.clone(), state: self.state.clone() }
    }

    /// The options that name other places, for commands that are shown.
    pub fn words(&self) -> String {
        let mut words = String::new();
        for (option, path, usual) in
            [("--root", &self.root, "/"), ("--state", &self.state, "/run/quell/tune")]
        {
            if path.as_os_str() != usual {
                words += &format!(" {option} {}", path.display());
            }
        }
        words
    }
}

impl WishArgs {
    /// What is wanted, once the round-trip time is known.
    pub fn wish(&self) -> Result<Wish, Failure> {
        let role = self.role.ok_or_else(|| {
            Failure::usage(
                "what is this host there for? give --role transfer, measure, router or latency; for transfer and measure also the \
                 path's --rate, as 10Gbit, and --rtt, as 100ms",
            )
        })?;
        let rtt = match &self.rtt_to {
            Some(host) => Some(measured(host)?),
            None => self.rtt,
        };
        let reply = self.reply.map(Bytes::get);
        let WishArgs { rate, streams, mtu, .. } = *self;
        Ok(Wish { role, rate, rtt, streams, mtu, reply })
    }
}

/// The least time between a SYN and its answer. One that refuses answers too.
fn measured(host: &str) -> Result<Span, Failure> {
    let found = Family::default().server(host, quell_wire::iperf3::PORT)?;
    let stop = crate::interrupt::bell()?;
    quell_tuning::least_rtt(found.to, &stop).map_err(|error| match error {
        CommandError::System(why) => Failure::system(why + &found.hint()),
        other => other.into(),
    })
}
