//! `--prove lab`: the same transfer over a path of that rate and time, in guests with virtual time.

use super::{Measured, Proof};
use crate::failure::Failure;
use crate::options::Guest;
use crate::progress::Show;
use crate::tune::asked::ProveArgs;
use crate::tune::look::Settings;
use quell_experiment::run::{Carrier, Options};
use quell_experiment::spec::{check, load_file};
use quell_model::metric::Metric;
use quell_report::analysis::Results;
use quell_store::Run;
use quell_sys::wait::Bell;
use quell_tune::{FRESH, Host, Path, Tuning, dotted};
use quell_units::Span;
use std::sync::Arc;

/// Round trips in which a transfer finds its speed beside those in which it doubles.
const SETTLING_TRIPS: u64 = 8;

/// Bytes that a connection sends first: ten segments (RFC 6928).
const FIRST_WINDOW: u64 = 14_480;

/// Round trips that are measured.
const MEASURED_TRIPS: u64 = 10;

/// What a guest's TCP takes of its memory at most is 1/16 (`tcp_mem`), both ends' buffers together.
const MEMORY_PER_BYTE: u64 = 80;

/// Measures in the lab.
pub fn in_lab(plan: &Tuning, host: &Host, args: &ProveArgs) -> Result<Proof, Failure> {
    let (Some(rate), Some(rtt)) = (plan.wish.rate, plan.wish.rtt) else {
        return Err(Failure::usage("the lab's path needs --rate and --rtt"));
    };
    let path = Path { rate, rtt, mtu: plan.wish.mtu, overhead: 14 };
    let text = experiment(plan, host, &path, args.rounds);
    let experiment = load_file::parse("tune-proof", &text).map_err(Failure::system)?;
    let plans = check::check(&experiment).map_err(Failure::system)?;
    let needed = 256 + (path.product().saturating_mul(MEMORY_PER_BYTE) >> 20);
    if needed > (host.memory >> 20).min(65_536) {
        return Err(Failure::system(format!(
            "the lab would need {needed} MiB of memory for {rate} over {rtt}, and this machine has {}; try a lower rate",
            host.memory >> 20
        )));
    }
    let memory = args.guest.memory.max(u32::try_from(needed).unwrap_or(u32::MAX));
    let guest = Guest { memory, ..args.guest.clone() };
    let options = crate::run::guest_options(&guest, &[])?;
    let release = options.kernel.version.parse().map_err(Failure::system)?;
    let base = std::env::temp_dir().join(format!("quell-tune-{}", std::process::id()));
    let gone = Gone(base.clone());
    // Each guest may have that much memory.
    let cpus = quell_sys::affinity::allowed_cpus().map_or(1, |c| c.len().max(1));
    let fit = usize::try_from((host.memory >> 20) / needed.max(1)).unwrap_or(1).max(1);
    let options = Options {
        base,
        carrier: Carrier::Guest(options),
        jobs: cpus.min(fit),
        text,
        changes: Vec::new(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    crate::interrupt::listen(&stop)?;
    let mut show = Show::new(&["now".to_owned(), "then".to_owned()]);
    let mut tell = |progress: &_| show.update(progress);
    let finished = quell_experiment::run::run(&experiment, &plans, &options, &stop, &mut tell)
        .map_err(Failure::system)?;
    show.finish();
    if finished.stopped {
        return Err(Failure::check("stopped before it was over; nothing was changed"));
    }
    let run = Run::read(&finished.folder).map_err(Failure::system)?;
    let results = Results::from(&run);
    let of = |scenario: &str| -> Vec<f64> {
        let all = results.values(Metric::Goodput);
        let ours = all
            .into_iter()
            .filter(|(cell, stream, _)| cell.scenario == scenario && *stream == "transfer");
        ours.filter_map(|(_, _, value)| value.map(|(bits, _)| bits)).collect()
    };
    let (now, then) = (of("now"), of("then"));
    drop(gone);
    if now.len() < 3 || then.len() < 3 {
        let why = finished.manifest.cells.iter().find_map(|cell| cell.reason.clone());
        return Err(Failure::system(format!(
            "the lab did not measure all of it{}",
            why.map(|why| format!(": {why}")).unwrap_or_default()
        )));
    }
    // The lab's kernel has a window fraction of its own.
    let guest = Host { release, ..host.clone() };
    let predicted =
        [false, true].map(|then| plan.reach(&path, &guest, then).map(|r| r.bits_per_second));
    let predicted = predicted[0].zip(predicted[1]).map(|(now, then)| [now, then]);
    let place = format!(
        "in the lab ({rate}, {rtt}, Linux {release}, {} seeds), one transfer, both ends alike",
        args.rounds
    );
    Ok(Proof { place, ways: vec![Measured { way: "up", now, then, predicted }] })
}

/// Takes the run away.
struct Gone(std::path::PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The path, a transfer, and both kinds of settings: those that a host of the lab has of its own.
fn experiment(plan: &Tuning, host: &Host, path: &Path, seeds: u32) -> String {
    let own = |key: &str| {
        FRESH.contains(&key) || matches!(key, "net/ipv4/tcp_rmem" | "net/ipv4/tcp_wmem")
    };
    let now: Settings =
        host.now.iter().filter(|(key, _)| own(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let mut then = now.clone();
    for (key, value) in plan.settings().filter(|(key, _)| own(key)) {
        then.insert(key.to_owned(), value.to_owned());
    }
    let table = |settings: &Settings| {
        let lines: Vec<String> = settings
            .iter()
            .map(|(key, value)| {
                let value: Vec<&str> = value.split_whitespace().collect();
                format!("\"{}\" = \"{}\"", dotted(key), value.join(" "))
            })
            .collect();
        let table = lines.join(", ");
        format!("{{ here = {{ {table} }}, there = {{ {table} }} }}")
    };
    let trips = |count: u64| {
        Span::from_nanos(path.rtt.nanos().saturating_mul(count)).nanos().max(1_000_000_000)
    };
    let doublings = (path.product() / FIRST_WINDOW).checked_ilog2().unwrap_or(0) + 1;
    // A product of buffer, as routers of long paths have it.
    let packets = (path.product() / u64::from(path.mtu)).max(100);
    format!(
        "name = \"tune-proof\"\nseed = 1\nrepeat = {seeds}\nwarm-up = \"{}\"\nduration = \"{}\"\nprobes-run = \"together\"\n\
         [topology]\nhosts = [\"here\", \"there\"]\n\
         [[topology.link]]\nname = \"path\"\nends = [\"here\", \"there\"]\nmtu = {}\n\
         both = {{ rate = \"{}\", delay = \"{}\", buffer = \"{packets}p\" }}\n\
         [[load]]\nname = \"transfer\"\nkind = \"tcp\"\nfrom = \"here\"\nto = \"there\"\n\
         [[scenario]]\nname = \"now\"\nloads = [\"transfer\"]\nsysctl = {}\n\
         [[scenario]]\nname = \"then\"\nloads = [\"transfer\"]\nsysctl = {}\n\
         [[probe]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"here\"\nto = \"there\"\ninterval = \"100ms\"\n",
        Span::from_nanos(trips(SETTLING_TRIPS + u64::from(doublings))),
        Span::from_nanos(trips(MEASURED_TRIPS)),
        path.mtu,
        path.rate,
        Span::from_nanos(path.rtt.nanos() / 2),
        table(&now),
        table(&then),
    )
}
