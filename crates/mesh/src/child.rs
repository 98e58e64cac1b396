//! Paths, pages and bulk tests: each by a child of the agent's own program, so that what it needs is gone with it.
//!
//! ```text
//!   a slot is due ──► late? not started ──► quell path | page | flow … --json ──► a record, or why there is none
//!                                               ended after twice its time, or when the bell rings
//! ```

use crate::measure::Out;
use crate::plan::{GUARD, PlannedProbe, ProbeKind};
use crate::record::{PathHop, RecordKind, SlotEnd};
use crate::slots::{interval_ns, next_slot};
use quell_load::command::PreparedCommand;
use quell_model::Event;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::pace::Window;
use quell_sys::wait::{Alarm, Bell, readable, wait};
use quell_units::Span;
use serde::Deserialize;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Mutex;

/// Letters of a child's output: a page of thousands of requests has some.
const LONGEST: usize = 16 << 20;

/// Carries out one after the other at its time, from the slots at this wall time on, until the bell rings.
pub(crate) fn run(
    probes: &[PlannedProbe],
    (wall_ns, wall): (i64, fn() -> u64),
    program: &Path,
    stop: &Bell,
    out: &Out,
) -> Result<(), SysError> {
    let mut alarm = Alarm::new()?;
    let mut next: Vec<i64> = probes.iter().map(|probe| next_slot(probe, wall_ns)).collect();
    while !stop.rings() {
        let Some(at) = (0..next.len()).min_by_key(|at| next[*at]) else { break };
        let (probe, due_ns) = (&probes[at], next[at]);
        let late_ns = (wall() as i64).saturating_sub(due_ns);
        if late_ns < 0 {
            alarm.set(Some(monotonic_ns().saturating_add(late_ns.unsigned_abs())))?;
            wait(&mut [readable(stop), readable(&alarm)])?;
            continue;
        }
        let missed = missed(probe, late_ns);
        if missed > 0 {
            let why = "the agent measured something else when it was due".to_owned();
            let (count, end) = (missed as u64, SlotEnd::NotStarted(why));
            out.put(probe, RecordKind::Slots { wall_ns: due_ns, count, end });
            next[at] = due_ns.saturating_add(missed.saturating_mul(interval_ns(probe)));
            continue;
        }
        next[at] = due_ns.saturating_add(interval_ns(probe));
        let wall_ns = wall() as i64;
        let failed =
            |why| RecordKind::Slots { wall_ns: due_ns, count: 1, end: SlotEnd::Failed(why) };
        out.put(probe, measured(probe, program, stop, wall_ns).unwrap_or_else(failed));
    }
    Ok(())
}

/// Slots that are over where the first one was due so long ago. A bulk test that begins late would meet the next one on a host or hop.
fn missed(probe: &PlannedProbe, late_ns: i64) -> i64 {
    let interval_ns = interval_ns(probe);
    let is_late = probe.kind.is_bulk() && late_ns % interval_ns > GUARD.nanos() as i64;
    late_ns / interval_ns + i64::from(is_late)
}

fn measured(
    probe: &PlannedProbe,
    program: &Path,
    stop: &Bell,
    wall_ns: i64,
) -> Result<RecordKind, String> {
    let argv: Vec<String> =
        [vec![program.to_string_lossy().into_owned()], arguments(probe)].concat();
    let said = Mutex::new((String::new(), String::new()));
    let emit = |event: Event| {
        let (Event::Output { stderr, line, .. }, Ok(mut said)) = (event, said.lock()) else {
            return;
        };
        if stderr {
            said.1 = line;
        } else if said.0.len() + line.len() < LONGEST {
            said.0 += &line;
        }
    };
    let most = probe.kind.lasts().nanos().saturating_mul(2);
    let window = Window::from_now(Some(most));
    let command = PreparedCommand::prepare(&probe.class, &argv).map_err(|e| e.to_string())?;
    let ended = command.run(&window, stop, &emit);
    let (json, error) = said.into_inner().unwrap_or_default();
    let found = record(&probe.kind, &json, wall_ns);
    let why = match (found, ended) {
        (Ok(record), _) => return Ok(record),
        (Err(_), _) if stop.rings() => "it was ended: its plan is no longer in force".to_owned(),
        (Err(_), Ok(())) if monotonic_ns() >= window.end_ns() => {
            format!("it took longer than {}", Span::from_nanos(most))
        }
        (Err(why), Ok(())) => why,
        (Err(_), Err(why)) if error.is_empty() => why.to_string(),
        (Err(_), Err(_)) => error.trim_start_matches("quell: ").to_owned(),
    };
    Err(quell_wire::text::printable(&why, 200))
}

/// What is typed behind `quell`. Limits are checked already: [`crate::limits`].
fn arguments(probe: &PlannedProbe) -> Vec<String> {
    let lasts = probe.kind.lasts();
    let words = match &probe.kind {
        ProbeKind::Flow { down, rate, .. } => {
            let way = if *down { " -R" } else { "" };
            let rate = rate.map(|rate| format!(" -b {rate}")).unwrap_or_default();
            format!("flow --no-latency -t {lasts}{way}{rate}")
        }
        // Each direction for half of its time.
        ProbeKind::Rpm { .. } => format!("flow --rpm -t {}", Span::from_nanos(lasts.nanos() / 2)),
        ProbeKind::Page => format!("page -c 1 --no-scripts --timeout {lasts}"),
        _ => "path --no-survey -c 3 -i 0.2".to_owned(),
    };
    let words = words.split(' ').chain(["--json", "--", &probe.to]);
    words.map(str::to_owned).collect()
}

#[derive(Deserialize)]
struct FlowOutput {
    up: Option<FlowDirection>,
    down: Option<FlowDirection>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct FlowDirection {
    received_bytes: Option<u64>,
    seconds: Option<f64>,
    retransmits: Option<u64>,
}

#[derive(Deserialize)]
struct RpmOutput {
    up: Option<RpmDirection>,
    down: Option<RpmDirection>,
}

#[derive(Deserialize)]
struct RpmDirection {
    rpm: Option<f64>,
}

#[derive(Deserialize)]
struct PathOutput {
    hops: Vec<HopOutput>,
}

#[derive(Deserialize)]
struct HopOutput {
    addresses: Vec<HopAddress>,
    rtt_ms: Option<HopRtt>,
}

#[derive(Deserialize)]
struct HopAddress {
    address: IpAddr,
}

#[derive(Deserialize)]
struct HopRtt {
    p50: f64,
}

#[derive(Deserialize)]
struct PageOutput {
    pages: Vec<PageLoads>,
}

#[derive(Deserialize)]
struct PageLoads {
    loads: Vec<PageOutcome>,
}

#[derive(Deserialize)]
struct PageOutcome {
    end: String,
    why: Option<String>,
    load_ms: Option<f64>,
    bytes: u64,
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// What a child printed, as a record. Errors where that is no measurement.
fn record(kind: &ProbeKind, json: &str, wall_ns: i64) -> Result<RecordKind, String> {
    fn read<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, String> {
        serde_json::from_str(json).map_err(|error| format!("its result can't be read: {error}"))
    }
    match kind {
        ProbeKind::Flow { down, .. } => {
            let output: FlowOutput = read(json)?;
            let way = if *down { output.down } else { output.up };
            let found = way.and_then(|way| Some((way.received_bytes?, way.seconds?, way)));
            let (bytes, seconds, way) = match (output.error, found) {
                (None, Some(found)) => found,
                (error, _) => return Err(error.unwrap_or("what arrived is unknown".into())),
            };
            let (down, duration_ns, retransmits) = (*down, ns(seconds), way.retransmits);
            Ok(RecordKind::Flow { wall_ns, down, bytes, duration_ns, retransmits })
        }
        ProbeKind::Rpm { .. } => {
            let output: RpmOutput = read(json)?;
            let rpm = |way: Option<RpmDirection>| way.and_then(|way| way.rpm);
            match (rpm(output.down), rpm(output.up)) {
                (None, None) => Err("no probe came back".into()),
                (down, up) => Ok(RecordKind::Rpm { wall_ns, down, up }),
            }
        }
        ProbeKind::Page => {
            let output: PageOutput = read(json)?;
            let load = output.pages.into_iter().flat_map(|page| page.loads).next();
            let load = load.ok_or("no page was loaded")?;
            match load.load_ms {
                Some(ms) if load.end == "loaded" => {
                    Ok(RecordKind::Page { wall_ns, loaded_ns: ns(ms / 1e3), bytes: load.bytes })
                }
                _ => Err(load.why.unwrap_or(load.end)),
            }
        }
        _ => {
            let output: PathOutput = read(json)?;
            let hop = |hop: HopOutput| PathHop {
                address: hop.addresses.first().map(|one| one.address),
                rtt_ns: hop.rtt_ms.map(|rtt| ns(rtt.p50 / 1e3)),
            };
            Ok(RecordKind::Path { wall_ns, hops: output.hops.into_iter().map(hop).collect() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(kind: ProbeKind) -> PlannedProbe {
        let (class, peer, to) = ("test".into(), "ams".into(), "192.0.2.1:5201".into());
        let (interval, offset) = (Span::from_secs(100), Span::ZERO);
        PlannedProbe { class, peer, to, kind, interval, offset }
    }

    #[test]
    fn a_bulk_test_begins_in_time_or_not_at_all_and_a_path_may_be_late() {
        let bulk = probe(ProbeKind::Rpm { duration: Span::from_secs(20) });
        let path = probe(ProbeKind::Path);
        for (late_s, of_bulk, of_path) in
            [(0, 0, 0), (2, 0, 0), (3, 1, 0), (101, 1, 1), (250, 3, 2)]
        {
            let late_ns = late_s * 1_000_000_000;
            assert_eq!(
                (missed(&bulk, late_ns), missed(&path, late_ns)),
                (of_bulk, of_path),
                "{late_s}"
            );
        }
    }

    #[test]
    fn what_is_typed_is_bounded_by_the_plan() {
        let (duration, rate) = (Span::from_secs(20), Some(5_000_000));
        for (kind, typed) in [
            (ProbeKind::Path, "path --no-survey -c 3 -i 0.2 --json -- 192.0.2.1:5201"),
            (ProbeKind::Page, "page -c 1 --no-scripts --timeout 30s --json -- 192.0.2.1:5201"),
            (ProbeKind::Rpm { duration }, "flow --rpm -t 10s --json -- 192.0.2.1:5201"),
            (
                ProbeKind::Flow { duration, down: true, rate },
                "flow --no-latency -t 20s -R -b 5000000 --json -- 192.0.2.1:5201",
            ),
            (
                ProbeKind::Flow { duration, down: false, rate: None },
                "flow --no-latency -t 20s --json -- 192.0.2.1:5201",
            ),
        ] {
            assert_eq!(arguments(&probe(kind)).join(" "), typed);
        }
    }

    #[test]
    fn a_child_that_hangs_fails_or_says_nonsense_gives_the_slot_its_end() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("quell");
        let flow = |ms| {
            let duration = Span::from_millis(ms);
            probe(ProbeKind::Flow { duration, down: true, rate: None })
        };
        let fine = r#"echo '{"down": {"received_bytes": 5, "seconds": 1, "retransmits": null}, "up": null, "error": null}'"#;
        for (script, why) in [
            (fine, ""),
            ("sleep 60", "it took longer than 200ms"),
            ("echo 'quell: nobody listens' >&2; exit 3", "nobody listens"),
            ("echo nonsense", "its result can't be read: expected ident"),
            ("head -c 20000000 /dev/zero | tr '\\0' y", "its result can't be read"),
            ("kill -9 $$", "SIGKILL"),
            (r#"echo '{"up": null, "down": null, "error": "it broke"}'; exit 1"#, "it broke"),
        ] {
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            let ms = if script == "sleep 60" { 100 } else { 60_000 };
            let told = measured(&flow(ms), &program, &Bell::new().unwrap(), 0);
            let told = told.err().unwrap_or_default();
            assert!(told.contains(why) && told.is_empty() == why.is_empty(), "{script}: {told}");
        }
    }
}
