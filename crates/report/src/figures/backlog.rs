//! What waits in queues over time, one scenario after the other.

use super::{Made, Shape, empty, source};
use crate::analysis::series::backlog;
use quell_chart::{Axis, Figure, Line, Mark, Panel};
use quell_store::Run;

pub(super) fn figure(run: &Run, _: Shape) -> Made {
    let title = "Queue backlog over time";
    let Some(course) = backlog(run).filter(|c| !c.parts.is_empty()) else {
        return empty(title, run, "No queues were sampled in this run.");
    };
    if course.parts.iter().all(|p| p.lines.is_empty()) {
        return empty(title, run, "Queues were sampled, and nothing ever waited in them.");
    }
    let end = course.parts.last().map_or(1.0, |p| p.to_s);
    let x = Axis::linear("Time, one scenario after the other").unit("s").from(0.0).to(end);
    let mut panel = Panel::new(x, Axis::linear("Waiting").unit("kB").with_zero());
    let mut devices: Vec<&str> = Vec::new();
    for part in &course.parts {
        panel = panel.mark(Mark::phase(part.from_s, part.to_s, part.scenario.clone()));
        for line in &part.lines {
            if !devices.contains(&line.device.as_str()) {
                devices.push(&line.device);
            }
        }
    }
    for device in devices {
        let lines = || {
            let all = course.parts.iter().flat_map(|part| &part.lines);
            all.filter(|line| line.device == device)
        };
        let points = lines().flat_map(|line| {
            let kilobytes = line.bytes.iter().map(|(t, bytes)| (*t, bytes / 1e3));
            let gap = line.bytes.last().map(|(t, _)| (*t + 1e-3, f64::NAN));
            kilobytes.chain(gap)
        });
        let mut kinds: Vec<&str> = lines().map(|line| line.kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        panel = panel.mark(Line::new(format!("{device} ({})", kinds.join(", ")), points));
    }
    Ok(Figure::new(title)
        .subtitle(format!("Bytes waiting by device, in the cells of the probe {}", course.probe))
        .note(format!("{}. First repeat. 1 kB is 1000 bytes.", source(&run.manifest)))
        .panel(panel)
        .size(980, 420))
}
