//! `quell mesh show`: what a mesh's folder tells, in a terminal, as a page, a figure or JSON.

use crate::failure::Failure;
use crate::figure_options::{Format, Look, write_figure};
use crate::options::Json;
use crate::results::{shown, write};
use crate::text::{columns, document, lines, put};
use clap::Args;
use quell_mesh::events::{MeshFindings, clock};
use quell_mesh::file::AgentEntry;
use quell_mesh::folder::FolderError;
use quell_mesh::history::MeshHistory;
use quell_mesh::matrix::{MatrixRow, matrix};
use quell_mesh::{page, smoke, text};
use quell_units::Span;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The folder that `quell mesh collect` writes
    pub folder: PathBuf,
    /// One pair alone, with its changes and paths: agent,peer or agent,peer,class
    #[arg(long, value_name = "A,B", value_parser = pair)]
    pub pair: Option<PairName>,
    /// How far back from when the collector last stored something
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub last: Span,
    /// File to write: .html, a page of all; with --pair .svg, .png or .pdf, its smoke figure
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The mesh's file, for the sites of its agents; without it those whose names differ in a number at their end are one site
    #[arg(long, value_name = "FILE")]
    pub mesh: Option<PathBuf>,
    #[command(flatten)]
    pub look: Look,
    #[command(flatten)]
    pub json: Json,
}

#[derive(Debug, Clone)]
pub struct PairName {
    agent: String,
    peer: String,
    class: Option<String>,
}

fn pair(text: &str) -> Result<PairName, String> {
    match text.split(',').collect::<Vec<_>>()[..] {
        [agent, peer] => Ok(PairName { agent: agent.into(), peer: peer.into(), class: None }),
        [agent, peer, class] => {
            Ok(PairName { agent: agent.into(), peer: peer.into(), class: Some(class.into()) })
        }
        _ => Err("write two agents, as fra-1,ams-2, or their class behind them".into()),
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        Failure::unreadable(error)
    }
}

/// What a folder holds of this time before what was measured last.
pub fn read(folder: &Path, length: Span) -> Result<MeshHistory, Failure> {
    let none = || {
        Failure::check(format!(
            "{} holds nothing that was measured; `quell mesh collect --out` writes such a folder",
            folder.display()
        ))
    };
    let length = i64::try_from(length.nanos()).unwrap_or(i64::MAX);
    MeshHistory::latest(folder, length)?.ok_or_else(none)
}

fn sites(file: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let site = |(agent, entry): (String, AgentEntry)| Some((agent, entry.site?));
    Ok(super::plan::read(file)?.agents.into_iter().filter_map(site).collect())
}

pub fn show(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let mut mesh = read(&args.folder, args.last)?;
    mesh.sites = args.mesh.as_deref().map(sites).transpose()?;
    let findings = MeshFindings::of(&mesh);
    let mut rows = matrix(&mesh, &findings);
    if let Some(PairName { agent, peer, class }) = &args.pair {
        rows.retain(|row| {
            *row.pair.agent == **agent
                && *row.pair.peer == **peer
                && class.as_ref().is_none_or(|class| *row.pair.class == **class)
        });
        if rows.is_empty() {
            return Err(Failure::usage(format!("{agent} measured nothing to {peer} in this time")));
        }
    }
    if let Some(output) = &args.output {
        write_file(args, output, &mesh, &findings, &rows)?;
        println!("{}", shown(output));
    } else if args.json.json {
        println!("{}", document(&report(&mesh, &findings, &rows)));
    } else {
        let mut said = match args.pair {
            None => text::sentences(&mesh, &findings),
            Some(_) => rows.iter().flat_map(|row| text::details(&mesh, row)).collect(),
        };
        said.push(format!("Until {}:", clock(mesh.to_ns, 0)));
        let said: String = said.iter().map(|said| lines("", said, columns())).collect();
        put(&format!("{said}\n{}", text::table(&mesh, &rows)));
    }
    Ok(ExitCode::SUCCESS)
}

fn write_file(
    args: &ShowArgs,
    output: &Path,
    mesh: &MeshHistory,
    findings: &MeshFindings,
    rows: &[MatrixRow],
) -> Result<(), Failure> {
    if output.extension().is_some_and(|e| e == "html") {
        return write(output, page::page(mesh, findings, false).as_bytes());
    }
    let format = Format::of(output)?;
    let (Some(_), [row]) = (&args.pair, rows) else {
        let why =
            "a figure is of one pair: name it with --pair agent,peer,class, or write an .html";
        return Err(Failure::usage(why));
    };
    let figure = args.look.of(smoke::smoke(mesh, row.pair, row.history, 980))?;
    write_figure(&figure, output, format, args.look.dpi)
}

fn report(mesh: &MeshHistory, findings: &MeshFindings, rows: &[MatrixRow]) -> Value {
    let ms = |seconds: Option<f64>| seconds.map(|s| s * 1e3);
    let incidents = findings
        .incidents
        .iter()
        .map(|incident| json!({ "says": incident.sentence(mesh.to_ns), "found": incident }));
    let pairs = rows.iter().map(|row| {
        json!({
            "agent": &*row.pair.agent,
            "peer": &*row.pair.peer,
            "class": &*row.pair.class,
            "state": row.state,
            "since_ns": row.since(),
            "sent": row.history.last_hour.sent,
            "loss": row.loss,
            "rtt_ms": { "p50": ms(row.p50), "p99": ms(row.p99), "usual_p99": ms(row.usual_p99) },
            "changes": row.changes,
            "paths": row.history.paths,
            "bulk": row.history.bulk,
        })
    });
    json!({
        "says": text::sentences(mesh, findings)[0],
        "from_ns": mesh.from_ns,
        "to_ns": mesh.to_ns,
        "incidents": incidents.collect::<Vec<_>>(),
        "pairs": pairs.collect::<Vec<_>>(),
    })
}
