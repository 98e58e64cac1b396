//! What of `quell mesh` talks to a broker, and `quell agent --bus`.

use super::plan::{MeasuredPaths, read};
use crate::failure::Failure;
use crate::options::{Json, endpoint, metrics_address};
use crate::results;
use crate::text::say;
use clap::Args;
use quell_bus::{Bus, BusConfig, BusCredentials, BusEvent, Subscriptions, new_nkey};
use quell_mesh::agent::{self, AgentConfig, AgentError};
use quell_mesh::collect::{self, CollectConfig};
use quell_mesh::collector::{AgentStatus, MeshStatus};
use quell_mesh::limits::Limits;
use quell_mesh::messages::STATUS;
use quell_mesh::rights::{HUB, SERVER_CONFIG, users};
use quell_mesh::{ALL_PLANS, AgentPlan, JournalError};
use quell_sys::clock::monotonic_ns;
use quell_units::{Bytes, Span};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How long a broker and a collector may take.
const PATIENCE_NS: u64 = 10_000_000_000;

#[derive(Debug, Args)]
pub struct BusArgs {
    /// The broker, a nats-server: nats://HOST[:PORT], tls://HOST[:PORT]
    #[arg(long, value_name = "URL")]
    pub bus: Option<String>,
    /// Certificates of the authorities that are believed (PEM); TLS is a must then
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// An nkey's seed, or a user and a password in two lines
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
}

impl BusArgs {
    fn config(&self, name: &str) -> Result<BusConfig, Failure> {
        let url = self.bus.clone();
        let url = url.ok_or_else(|| Failure::usage("--bus names the broker: nats://HOST:4222"))?;
        let credentials = self.credentials.as_deref().map(BusCredentials::from_file);
        Ok(BusConfig {
            url,
            ca: self.ca.clone(),
            credentials: credentials.transpose().map_err(Failure::usage)?,
            name: name.into(),
            subscriptions: Subscriptions::default(),
        })
    }
}

#[derive(Debug, Args)]
pub struct AgentArgs {
    #[command(flatten)]
    pub bus: BusArgs,
    /// This agent's name, as mesh.toml and the broker's configuration have it
    #[arg(long, requires = "bus")]
    pub name: Option<String>,
    /// Where what it measured is kept until the collector has it
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/quell-agent", requires = "bus")]
    pub journal: PathBuf,
    /// Most that may take; older packets become sketches then
    #[arg(long, value_name = "SIZE", default_value = "64MB", requires = "bus")]
    pub max_size: Bytes,
    /// What plans may ask of this host: a file of root's
    #[arg(long, value_name = "FILE", default_value = "/etc/quell/limits.toml", requires = "bus")]
    pub limits: PathBuf,
}

/// A line for a person, in which there may be words of the broker's.
fn tell(line: &str) {
    say(&format!("{}\n", quell_wire::text::printable(line, 1000)));
}

/// `quell agent --bus`.
pub fn agent(args: &AgentArgs) -> Result<ExitCode, Failure> {
    let name = args.name.as_deref();
    let name = name.ok_or_else(|| Failure::usage("--name names this agent, as mesh.toml does"))?;
    let limits = Limits::read(&args.limits).map_err(Failure::unusable)?;
    let bus = args.bus.config(name)?;
    let hub = host_of(&bus.url);
    if !limits.obeys(hub) {
        return Err(Failure::usage(format!(
            "{} does not name the broker's host {hub} under `obey`: its plans are not carried out",
            args.limits.display()
        )));
    }
    let config = AgentConfig {
        name: name.into(),
        host: nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned(),
        bus,
        journal: args.journal.clone(),
        most_bytes: args.max_size.get(),
        wall: quell_sys::wall::realtime_ns,
        // Also where a newer one took its place meanwhile.
        program: "/proc/self/exe".into(),
    };
    let stop = crate::interrupt::bell()?;
    let limited = |plan: &AgentPlan| limits.check(plan);
    agent::run(config, &stop, &limited, &mut tell).map_err(|error| match error {
        AgentError::Name(_) | AgentError::Refused(_) => Failure::usage(error),
        AgentError::Journal(JournalError::InUse(_)) => Failure::usage(error),
        AgentError::Journal(_) | AgentError::System(_) => Failure::system(error),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The host of a broker's address.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.rsplit_once(':').map_or(rest, |(host, _)| host)
}

#[derive(Debug, Args)]
pub struct CollectArgs {
    #[command(flatten)]
    pub bus: BusArgs,
    /// Where what agents measured is kept
    #[arg(short, long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Keep a copy there too: a folder, HOST:FOLDER (both by rsync) or rclone:REMOTE:PATH
    #[arg(long, value_name = "COPY")]
    pub copy: Option<String>,
    /// How long what came may wait until it is synced and acknowledged
    #[arg(long, value_name = "TIME", default_value = "1s", hide = true)]
    pub sync_each: Span,
    /// Serve a page of the mesh at /, and /metrics: 127.0.0.1:8080, or a port of this machine alone
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    pub web: Option<SocketAddr>,
}

/// `quell mesh collect`.
pub fn collect(args: &CollectArgs) -> Result<ExitCode, Failure> {
    let config = CollectConfig {
        bus: args.bus.config("collector")?,
        folder: args.out.clone(),
        copy: args.copy.clone(),
        sync_each: args.sync_each,
        web: args.web.map(|at| endpoint("--web", "the mesh", at)).transpose()?,
    };
    let stop = crate::interrupt::bell()?;
    collect::run(config, &stop, &mut tell).map_err(Failure::system)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Args)]
pub struct RightsArgs {
    /// The mesh's file
    pub file: PathBuf,
    /// Where the files go; credentials that are there stay
    #[arg(short, long, value_name = "FOLDER", default_value = "mesh")]
    pub out: PathBuf,
}

/// `quell mesh rights`: the broker's configuration, and what each proves itself with.
pub fn rights(args: &RightsArgs) -> Result<ExitCode, Failure> {
    let mesh = read(&args.file)?;
    let failed = |path: &Path, error: std::io::Error| {
        Failure::system(format!("could not make {}: {error}", path.display()))
    };
    std::fs::create_dir_all(&args.out).map_err(|error| failed(&args.out, error))?;
    let create = |path: &Path, text: &str| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())
    };
    let mut new = 0;
    let mut public_key = |name: &str| {
        let path = args.out.join(format!("{name}.credentials"));
        if path.exists() {
            let own = BusCredentials::from_file(&path).map_err(Failure::usage)?;
            let failed = |why| Failure::usage(format!("{}: {why}", path.display()));
            return own.public_key().map_err(failed);
        }
        let (own, key) = new_nkey().map_err(Failure::system)?;
        create(&path, &own.text()).map_err(|error| failed(&path, error))?;
        new += 1;
        Ok(key)
    };
    let hub = public_key(HUB)?;
    let agents = mesh.agents.keys().map(|agent| Ok((agent.clone(), public_key(agent)?)));
    let agents = agents.collect::<Result<Vec<_>, Failure>>()?;
    let path = args.out.join("nats-server.conf");
    if !path.exists() {
        create(&path, SERVER_CONFIG).map_err(|error| failed(&path, error))?;
    }
    let path = args.out.join("users.conf");
    results::write(&path, users(&hub, &agents).as_bytes())?;
    say(&format!(
        "Made in {}: users.conf, which nats-server.conf includes. New credentials, which only you can read: {new}.\n",
        args.out.display()
    ));
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The mesh's file
    pub file: PathBuf,
    #[command(flatten)]
    pub measured: MeasuredPaths,
    #[command(flatten)]
    pub bus: BusArgs,
}

/// `quell mesh apply`: each agent's plan into its key, where it is another one; keys of agents that are gone are deleted.
pub fn apply(args: &ApplyArgs) -> Result<ExitCode, Failure> {
    let mesh = read(&args.file)?;
    let mut config = args.bus.config("apply")?;
    config.subscriptions.keys = true;
    let mut bus = Bus::start(config).map_err(Failure::system)?;
    let mut keys = BTreeMap::new();
    answer(&mut bus, "its keys", |event| match event {
        BusEvent::Key { key, value, revision } => {
            keys.insert(key, (value, revision));
            None
        }
        BusEvent::AllKeys => Some(()),
        _ => None,
    })?;
    let old = |value: &Option<quell_bus::Bytes>| {
        value.as_ref().and_then(|text| serde_json::from_slice::<AgentPlan>(text).ok())
    };
    let last = keys.values().filter_map(|(value, _)| old(value)).map(|plan| plan.revision).max();
    let schedule = mesh.schedule(last.unwrap_or(0) + 1, &args.measured.known()?);
    let mut changed = 0;
    for plan in &schedule.plans {
        let (value, revision) = keys.remove(&plan.agent).unwrap_or((None, 0));
        let is_same = old(&value)
            .is_some_and(|old| AgentPlan { revision: old.revision, ..plan.clone() } == old);
        if !is_same {
            let text = serde_json::to_vec(plan).map_err(Failure::system)?;
            write(&mut bus, &plan.agent, Some(text), revision)?;
            changed += 1;
        }
    }
    let are_all = keys.remove(ALL_PLANS).is_some();
    let gone = keys.into_iter().filter(|(_, (value, _))| value.is_some());
    let mut deleted = 0;
    for (agent, (_, revision)) in gone {
        write(&mut bus, &agent, None, revision)?;
        deleted += 1;
    }
    if !are_all {
        // A collector may have written it meanwhile, or does so later.
        let _ = write(&mut bus, ALL_PLANS, Some(Vec::new()), 0);
    }
    say(&format!(
        "{} agents: {changed} plans written, {deleted} deleted, the others stay.\n",
        schedule.plans.len()
    ));
    for refused in &schedule.refused {
        say(&format!(
            "{} to {}, {}: {}\n",
            refused.agent, refused.peer, refused.class, refused.why
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn write(bus: &mut Bus, key: &str, value: Option<Vec<u8>>, revision: u64) -> Result<(), Failure> {
    bus.put(key, value, revision);
    let written = answer(bus, "a plan to be written", |event| match event {
        BusEvent::Written { result, .. } => Some(result),
        _ => None,
    })?;
    written.map(drop).map_err(|why| {
        Failure::system(format!("the plan of {key} was not written: {why}; apply once more"))
    })
}

/// Waits for an event; what the broker said instead is in the error.
fn answer<T>(
    bus: &mut Bus,
    what: &str,
    mut is: impl FnMut(BusEvent) -> Option<T>,
) -> Result<T, Failure> {
    let end_ns = monotonic_ns() + PATIENCE_NS;
    let mut why = "the broker says nothing".to_owned();
    while let Some(event) = bus.await_next(end_ns).map_err(Failure::system)? {
        if let BusEvent::Refused { why: said } | BusEvent::Lost { why: said } = &event {
            why.clone_from(said);
        }
        if let Some(found) = is(event) {
            return Ok(found);
        }
    }
    Err(Failure::system(format!("waited 10 s for {what}: {why}")))
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub bus: BusArgs,
    #[command(flatten)]
    pub json: Json,
}

/// `quell mesh status`: what the collector says of each agent and of how planned slots ended.
pub fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let mut bus = Bus::start(args.bus.config("status")?).map_err(Failure::system)?;
    answer(&mut bus, "a connection", |event| {
        matches!(event, BusEvent::Connected { .. }).then_some(())
    })?;
    bus.ask(STATUS);
    let said = answer(&mut bus, "the collector's answer", |event| match event {
        BusEvent::Answer { payload, .. } => Some(payload.map_err(|_| {
            Failure::check("No collector answers: agents are silent. Start quell mesh collect.")
        })),
        BusEvent::Refused { why } if why.contains("Permissions Violation") => {
            let why = format!("these credentials may not ask the collector, the hub's may: {why}");
            Some(Err(Failure::system(why)))
        }
        _ => None,
    })??;
    let status: MeshStatus = serde_json::from_slice(&said).map_err(Failure::unreadable)?;
    match args.json.json {
        true => println!("{}", crate::text::document(&serde_json::json!(status))),
        false => print_status(&status),
    }
    let is_well = status.trouble.is_none() && status.agents.iter().all(|one| !one.is_gone);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn print_status(status: &MeshStatus) {
    let gone = status.agents.iter().filter(|one| one.is_gone).count();
    say(&format!("{} agents, {gone} of them gone.\n", status.agents.len()));
    if let Some(why) = &status.trouble {
        say(&format!("The collector: {why}\n"));
    }
    if status.refused > 0 {
        say(&format!("{} messages were no agent's, and refused.\n", status.refused));
    }
    say("\nagent            probes      ok  failed  not started  unknown  state\n");
    for one in &status.agents {
        say(&format!(
            "{:<16} {:>6} {:>7} {:>7} {:>12} {:>8}  {}\n",
            one.name,
            one.probes,
            one.slots.ok,
            one.slots.failed,
            one.slots.not_started,
            one.slots.unknown + one.open,
            state(one)
        ));
    }
}

fn state(one: &AgentStatus) -> String {
    let Some(heard_s) = one.heard_s else { return "never heard".into() };
    let mut state = match (one.is_gone, one.plan) {
        (true, _) => format!("gone, last heard {heard_s:.0} s ago"),
        (false, None) => "silent".into(),
        (false, plan) if plan == one.wanted => "measures".into(),
        (false, _) => "measures by an older plan".into(),
    };
    if one.dropped > 0 {
        state += &format!("; dropped {} records", one.dropped);
    }
    if let Some(why) = &one.trouble {
        state += &format!("; {why}");
    }
    state
}
