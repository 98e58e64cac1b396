//! ping-exp's chart of averages: a bar for each stream with its mean and deviation, and its loss.

use super::common::{
    Made, PageWidth, Subject, bound, listed, mark, of_bounds, of_few, series_name, source,
};
use crate::analysis::series::{StreamDelays, delays};
use quell_chart::{Axis, Bars, Figure, Legend, Panel};

pub(super) fn figure(subject: Subject, shape: PageWidth) -> Made {
    let run = subject.run;
    let title = "Mean round-trip time and loss, by stream";
    let all = delays(run, subject.which);
    if all.iter().flat_map(|s| &s.streams).all(|s| s.sent + s.unsure == 0) {
        return Err("No packets with answers were recorded in this run.".to_owned());
    }
    let several = all.iter().any(|scenario| scenario.streams.len() > 1);
    let mut names: Vec<String> = Vec::new();
    let mut streams: Vec<&StreamDelays> = Vec::new();
    let mut few: Vec<(String, Option<f64>)> = Vec::new();
    let mut unsure: Vec<(String, Option<f64>)> = Vec::new();
    for scenario in &all {
        for stream in &scenario.streams {
            let name = match all.len() {
                1 => stream.stream.clone(),
                _ => series_name(&scenario.scenario, &stream.stream, several),
            };
            few.push((name.clone(), stream.minority()));
            unsure.push((name.clone(), stream.unsure_part()));
            names.push(name + bound(stream.unsure_part()) + mark(stream.minority()));
            streams.push(stream);
        }
    }
    let (mut means, mut losses) = (Bars::new(""), Bars::new(""));
    for (index, stream) in streams.iter().enumerate() {
        means = match (stream.mean, stream.mdev) {
            (Some(mean), Some(mdev)) => {
                means.with_interval(index, mean, (mean - mdev).max(0.0), mean + mdev)
            }
            (Some(least), None) => means.at_least(index, least),
            (None, _) => means,
        };
        losses = match stream.loss {
            (least, most) if least < most => losses.between(index, least, most),
            (least, _) => losses.at(index, least),
        };
    }
    let share = Axis::linear("Lost").percent().with_zero();
    let times = Axis::linear("Mean RTT").unit("ms").with_zero();
    let label = if all.len() == 1 { "Stream" } else { "" };
    let above = Panel::new(Axis::categories("", names.clone()), times).mark(means);
    let below = Panel::new(Axis::categories(label, names), share).mark(losses).relative_height(0.5);
    Ok(Figure::new(title)
        .subtitle(format!(
            "{}; whiskers: one mean deviation (mdev of ping) to either side",
            listed(streams.iter().map(|s| &s.stream))
        ))
        .note(format!(
            "{}. All repeats; a stream without answers has no bar above.{}{}",
            source(&run.manifest),
            of_bounds(unsure.into_iter()),
            of_few(few.into_iter())
        ))
        .panel(above)
        .panel(below)
        .legend(Legend::Hidden)
        .size(shape.width(980), 480))
}
