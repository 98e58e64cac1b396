//! `quell lab exec` and `quell lab shell`: any program of this machine on a host of a topology.

use crate::args::{Backend, Lab, LabPlace};
use crate::failure::Failure;
use crate::run::{guest_options, prepare, text_of};
use quell_experiment::run::{Carrier, lab_exec};
use quell_experiment::spec::load_file;
use quell_lab::cell::CellPlan;
use quell_lab::exec::{ExecPlan, Program};
use quell_lab::topology::Topology;
use quell_model::CellId;
use quell_units::Span;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// `quell lab`.
pub fn lab(command: &Lab) -> Result<ExitCode, Failure> {
    let (lab, host, with, show_with, after, argv, interactive) = match command {
        Lab::Shell { lab, host } => {
            let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
            (lab, host.clone(), Vec::new(), false, Span::ZERO, vec![shell], true)
        }
        Lab::Exec { lab, host, with, show_with, after, command } => {
            (lab, Some(host.clone()), with.clone(), *show_with, *after, command.clone(), false)
        }
    };
    let cell = cell(lab)?;
    let network = cell.topology.parse().map_err(Failure::usage)?;
    let host = match host {
        Some(host) => host,
        None => cell.topology.hosts.first().cloned().unwrap_or_default(),
    };
    network.find("the command line", &host).map_err(Failure::usage)?;
    let mut companions = Vec::new();
    for text in &with {
        let (host, command) = text.split_once(':').ok_or_else(|| {
            Failure::usage(format!(
                "--with \"{text}\": write 'HOST: COMMAND', as 'server: iperf3 -s'"
            ))
        })?;
        network.find("--with", host.trim()).map_err(Failure::usage)?;
        let words = command.split_whitespace().map(|w| network.fill_in("--with", w));
        let argv = words.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
        if argv.is_empty() {
            return Err(Failure::usage(format!("--with \"{text}\" names no program")));
        }
        companions.push(Program { host: host.trim().into(), argv });
    }
    let words = argv.iter().map(|w| network.fill_in("the command line", w));
    let argv = words.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
    let plan = ExecPlan {
        cell,
        main: Program { host, argv },
        with: companions,
        show_with,
        head_start: after,
        interactive,
        terminal: None,
        folder: std::env::current_dir()
            .map(|d| d.to_string_lossy().into_owned())
            .unwrap_or_else(|_| "/".into()),
        environment: std::env::vars().collect(),
    };
    let carrier = match lab.kernel {
        Backend::Guest => Carrier::Guest(guest_options(&lab.guest)?),
        Backend::Host => Carrier::Host,
    };
    let real_time = lab.real_time || interactive;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::system(format!("listening for signal {signal}: {e}")))?;
    }
    // On the host's kernel an interactive program shares our terminal: Ctrl-C is for it.
    let never = AtomicBool::new(false);
    let stop = if interactive { &never } else { &*stop };
    let code = lab_exec(&plan, &carrier, real_time, stop).map_err(Failure::system)?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(255)))
}

/// The network of an experiment, with the queues of a scenario where one is named; or a topology by itself.
fn cell(lab: &LabPlace) -> Result<CellPlan, Failure> {
    let (name, text) = text_of(&lab.topology)?;
    let is_experiment = text.parse::<toml::Table>().is_ok_and(|t| t.contains_key("topology"));
    if is_experiment {
        let only: Vec<String> = lab.scenario.iter().cloned().collect();
        let ready = prepare(&name, &[], &only)?;
        let mut cell = ready
            .plans
            .into_iter()
            .next()
            .ok_or_else(|| Failure::usage(format!("{name} has no scenario")))?;
        cell.tasks.clear();
        cell.changes.clear();
        if lab.scenario.is_none() {
            cell.queues.clear();
        }
        return Ok(cell);
    }
    let topology: Topology = load_file::parse_as(&name, &text).map_err(Failure::usage)?;
    topology.parse().map_err(|e| Failure::usage(format!("{name}: {e}")))?;
    if let Some(scenario) = &lab.scenario {
        return Err(Failure::usage(format!(
            "{name} is a topology and has no scenario `{scenario}`"
        )));
    }
    Ok(CellPlan {
        id: CellId { scenario: "lab".into(), probe: "exec".into(), repeat: 0 },
        seed: 1,
        topology,
        sysctl: BTreeMap::new(),
        node_sysctl: BTreeMap::new(),
        routes: Vec::new(),
        queues: Vec::new(),
        changes: Vec::new(),
        tasks: Vec::new(),
        warm_up: Span::from_nanos(0),
        duration: Span::from_nanos(0),
    })
}
