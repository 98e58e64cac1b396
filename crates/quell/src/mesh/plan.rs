//! `quell mesh plan`: what a mesh would send, before it does.

use crate::failure::Failure;
use crate::options::Json;
use crate::text::{document, say};
use clap::Args;
use quell_mesh::file::{DayHours, MeshFile};
use quell_mesh::folder::MeshReader;
use quell_mesh::schedule::{KnownPaths, known_paths};
use quell_mesh::traffic::Traffic;
use quell_sys::input;
use quell_sys::wall::realtime_ns;
use quell_units::fmt;
use quell_units::table::{Align, Table};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The mesh's file
    #[arg(default_value = "mesh.toml", value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    measured: MeasuredPaths,
    #[command(flatten)]
    json: Json,
}

#[derive(Debug, Args)]
pub struct MeasuredPaths {
    /// The collector's folder: no two bulk tests share a hop that was measured in the last seven days
    #[arg(long = "measured", value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl MeasuredPaths {
    pub fn known(&self) -> Result<KnownPaths, Failure> {
        let Some(folder) = &self.folder else { return Ok(KnownPaths::new()) };
        let from_ns = realtime_ns() as i64 - 7 * DayHours::DAY.nanos() as i64;
        Ok(known_paths(&MeshReader::open(folder)?, from_ns)?)
    }
}

/// Longest file: 1,000 agents take 60 kB.
const LARGEST: u64 = 16 << 20;

/// Agents in the table; --json has all.
const SHOWN: usize = 20;

pub fn read(path: &Path) -> Result<MeshFile, Failure> {
    let name = path.display().to_string();
    let text = input::text(path, LARGEST)
        .map_err(|why| Failure::unusable(format!("could not read {name}: {why}")))?;
    MeshFile::parse(&name, &text).map_err(Failure::unusable)
}

pub fn plan(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let file = read(&args.file)?;
    let traffic = Traffic::of(&file.schedule(1, &args.measured.known()?));
    if args.json.json {
        say(&document(&traffic));
        return Ok(ExitCode::SUCCESS);
    }
    say(&told(&traffic));
    Ok(ExitCode::SUCCESS)
}

fn told(traffic: &Traffic) -> String {
    let agents = fmt::plural(traffic.agents.len(), "agent");
    let packets = fmt::frequency(traffic.packets_per_second);
    let month = fmt::bytes(traffic.bytes_per_month as u64);
    let mut text = format!("{agents} would send {packets} packets a second, {month} a month.\n\n");
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Right]);
    let head = ["agent", "peers", "packets/s", "a month"];
    table.row(head.map(str::to_owned).to_vec());
    let mut agents: Vec<_> = traffic.agents.iter().collect();
    agents.sort_by(|(_, a), (_, b)| b.bytes_per_month.total_cmp(&a.bytes_per_month));
    for (name, agent) in agents.iter().take(SHOWN) {
        let month = fmt::bytes(agent.bytes_per_month as u64);
        let packets = fmt::frequency(agent.packets_per_second);
        table.row(vec![(*name).clone(), agent.peers.to_string(), packets, month]);
    }
    text += &format!("{table}\n");
    if let Some(more @ 1..) = agents.len().checked_sub(SHOWN) {
        text += &format!("and {more} agents that send less\n");
    }
    let stored = fmt::bytes(traffic.stored_bytes_per_day as u64);
    let (pairs, rows) = (fmt::count(traffic.pairs as u64), fmt::count(traffic.rows_per_day as u64));
    text += &format!("Pairs: {pairs}. Stored a day: {rows} rows, about {stored}.\n");
    if traffic.unbounded_per_day > 0.0 {
        let tests = fmt::count(traffic.unbounded_per_day.round() as u64);
        text += &format!("Bulk tests a day without a rate: {tests}. Their bytes are unknown.\n");
    }
    let refused = &traffic.refused;
    if let Some(first) = refused.first() {
        let (count, first) = (
            refused.len(),
            format!("{} of {} to {}: {}", first.class, first.agent, first.peer, first.why),
        );
        text += &format!("Refused: {}, the first {first}.\n", fmt::plural(count, "probe"));
    }
    text.trim_end().to_owned()
}
