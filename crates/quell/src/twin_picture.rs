//! A measured line as a picture: rate, delay and loss over time, and how long packets wait in its queue at which load.

use crate::failure::Failure;
use crate::series::panels;
use crate::twin::series;
use quell_chart::{Axis, Figure, Panel, Polyline};
use quell_policy::FRAME;
use quell_series::measured_line::{MarkingThreshold, MeasuredDirection, QueueKind, value};
use quell_series::{LineSeries, MeasuredLine, SeriesFile, Steps};
use quell_twin::sentence;
use quell_units::{Buffer, Span};
use std::path::Path;

/// As much of a line that does not vary is drawn.
const MINUTE: Span = Span::from_secs(60);
/// The targets of CoDel (RFC 8289), of which CAKE's is one, and PIE (RFC 8033).
const CODEL: Span = Span::from_millis(5);
const PIE: Span = Span::from_millis(15);

/// `path` is the line's, whose folder has its series.
pub fn picture(path: &Path, line: &MeasuredLine) -> Result<Figure, Failure> {
    let (mut up, mut down) = (series(path, &line.up, true)?, series(path, &line.down, false)?);
    let rates = [&up, &down].into_iter().flatten().filter_map(|series| series.rate.as_ref());
    let end = rates.map(Steps::end).max().unwrap_or(MINUTE);
    for (series, way) in [(&mut up, &line.up), (&mut down, &line.down)] {
        *series = Some(over_time(series.take().unwrap_or_default(), way, end));
    }
    let file = SeriesFile { up, down, notes: Vec::new() };
    let figure = Figure::new("The line").subtitle(sentence(line)).columns(2);
    let figure = panels(&file).into_iter().fold(figure, Figure::panel);
    let ways = [("up", &line.up), ("down", &line.down)];
    let waits: Vec<_> =
        ways.iter().filter_map(|(way, of)| Some(Polyline::new(*way, portrait(of)?))).collect();
    let axes =
        (Axis::linear("Load").unit("% of the rate"), Axis::linear("Wait").unit("ms").from(0.0));
    Ok(match waits.is_empty() {
        true => figure,
        false => figure
            .panel(Panel::new(axes.0, axes.1).marks(waits))
            .note("Wait: in the line's queue, beside TCP flows"),
    })
}

/// What varies of a direction, and beside it what does not.
fn over_time(series: LineSeries, way: &MeasuredDirection, end: Span) -> LineSeries {
    LineSeries {
        rate: series.rate.or(way.passes().and_then(|rate| Steps::constant(rate, end))),
        delay: series.delay.or(value(&way.delay).and_then(|delay| Steps::constant(delay, end))),
        loss: series.loss.or(value(&way.loss).and_then(|loss| Steps::constant(loss, end))),
        trains: series.trains,
    }
}

/// Load in per cent of the rate, and the wait in ms: none until the line is full, then the whole buffer, or the target of a queue that keeps itself
/// short. None where that is unknown.
fn portrait(way: &MeasuredDirection) -> Option<[(f64, f64); 4]> {
    let target = match value(&way.ecn_marks_at) {
        Some(MarkingThreshold::At(at)) => at,
        _ => CODEL,
    };
    let full = match value(&way.queue)? {
        QueueKind::TailDrop => {
            let bytes = match value(&way.buffer)? {
                Buffer::Packets(count) => u64::from(count) * FRAME,
                Buffer::Bytes(bytes) => bytes.get(),
            };
            way.passes()?.time_for(bytes)
        }
        QueueKind::Pie => PIE,
        QueueKind::Policer => Span::ZERO,
        QueueKind::Codel | QueueKind::FqCodel | QueueKind::Cake | QueueKind::Dualpi2 => target,
    };
    let full = full.as_millis_f64();
    Some([(0.0, 0.0), (100.0, 0.0), (100.0, full), (150.0, full)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_buffer_is_waited_for_and_a_queue_that_keeps_itself_short_has_its_target() {
        let wait = |queue: &str, more: &str| {
            let text = format!(
                "version = 1\n[up]\nrate = {{ value = \"10 Mbit/s\" }}\nqueue = {{ value = \"{queue}\" }}\n{more}"
            );
            portrait(&MeasuredLine::parse(&text).expect("a line").up).map(|points| points[3].1)
        };
        let drop = |buffer| wait("tail-drop", &format!("buffer = {{ value = \"{buffer}\" }}"));
        assert_eq!(drop("256 kB"), Some(204.8));
        assert_eq!(drop("100 packets"), Some(121.12));
        assert_eq!(wait("tail-drop", ""), None);
        assert_eq!(wait("pie", ""), Some(15.0));
        assert_eq!(wait("fq-codel", "ecn-marks-at = { value = \"1 ms\" }"), Some(1.0));
        assert_eq!(wait("policer", ""), Some(0.0));
    }
}
