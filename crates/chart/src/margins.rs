//! The room that the words around one panel need, given the size of its plot.

use crate::axis::Axis;
use crate::figure::Panel;
use crate::font;
use crate::mark::Mark;
use crate::scale::ScaleRange;
use crate::style::{ANNOTATION, TICK};
use crate::ticks::{self, Tick, Ticks};

/// Most that a name below a panel takes of its height: some fifty characters.
const TALLEST: f64 = 260.0;

/// A tick that may take several lines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Label {
    pub value: f64,
    pub lines: Vec<String>,
}

/// The ticks of one axis as they will be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct MarginSide {
    pub labels: Vec<Label>,
    pub minor: Vec<f64>,
    /// Written upwards, as there was no room across.
    pub upwards: bool,
}

impl MarginSide {
    fn of(ticks: Ticks) -> MarginSide {
        let label = |t: Tick| Label { value: t.value, lines: vec![t.label] };
        MarginSide {
            labels: ticks.major.into_iter().map(label).collect(),
            minor: ticks.minor,
            upwards: false,
        }
    }

    pub(crate) fn widest(&self) -> f64 {
        let lines = self.labels.iter().flat_map(|label| &label.lines);
        lines.map(|l| TICK.width(l)).fold(0.0, f64::max)
    }

    pub(crate) fn most_lines(&self) -> usize {
        self.labels.iter().map(|label| label.lines.len()).max().unwrap_or(0)
    }

    pub(crate) fn height(&self) -> f64 {
        if self.upwards { self.widest() + 4.0 } else { self.most_lines() as f64 * TICK.line() }
    }

    pub(crate) fn x(axis: &Axis, range: &ScaleRange, length: f64) -> MarginSide {
        if let Some(names) = axis.names() {
            return Self::x_names(names, length);
        }
        let fit = |places: &[(f64, &str)]| {
            let mut free = f64::NEG_INFINITY;
            places.iter().all(|(at, label)| {
                let half = TICK.width(label) / 2.0;
                let fits = at * length - half >= free;
                free = at * length + half + 12.0;
                fits
            })
        };
        Self::of(ticks::choose(axis, range, (length / 62.0).clamp(2.0, 14.0) as usize, fit))
    }

    fn x_names(names: &[String], length: f64) -> MarginSide {
        let room = length / names.len() as f64 - 8.0;
        let wrapped: Vec<Vec<String>> = names.iter().map(|name| TICK.wrap(name, room)).collect();
        let upwards = wrapped.iter().any(|lines| lines.len() > 4)
            || names.iter().any(|name| font::breaks_words(name, TICK.size, room));
        let lines =
            |i: usize| if upwards { vec![shortened(&names[i])] } else { wrapped[i].clone() };
        // Names that stand upwards still need a line's height each.
        let every = if upwards { (TICK.line() / (room + 8.0)).ceil().max(1.0) as usize } else { 1 };
        let labels = (0..names.len())
            .step_by(every)
            .map(|i| Label { value: i as f64, lines: lines(i) })
            .collect();
        MarginSide { labels, upwards, ..MarginSide::default() }
    }

    pub(crate) fn y(axis: &Axis, range: &ScaleRange, length: f64, widest: f64) -> MarginSide {
        if let Some(names) = axis.names() {
            let label = |(i, name): (usize, &String)| Label {
                value: i as f64,
                lines: TICK.wrap(name, widest),
            };
            let labels = names.iter().enumerate().map(label).collect();
            return MarginSide { labels, ..MarginSide::default() };
        }
        let fit = |places: &[(f64, &str)]| {
            places.windows(2).all(|pair| (pair[1].0 - pair[0].0) * length >= TICK.line() * 1.25)
        };
        Self::of(ticks::choose(axis, range, (length / 29.0).clamp(2.0, 9.0) as usize, fit))
    }

    pub(crate) fn least_height(&self, axis: &Axis) -> f64 {
        let names = axis.names().map_or(0, <[String]>::len) as f64;
        (names * (self.most_lines() as f64 * TICK.line() + 6.0)).max(90.0)
    }
}

/// A name as it stands upwards: of a very long one the beginning and the end, which tell it from its neighbours.
fn shortened(name: &str) -> String {
    let fits = |text: &str| TICK.width(text) <= TALLEST;
    if fits(name) {
        return name.to_owned();
    }
    let chars: Vec<char> = name.chars().collect();
    let cut = |kept: usize| -> String {
        let (begin, end) = (kept.div_ceil(2), chars.len() - kept / 2);
        chars[..begin].iter().chain(['…'].iter()).chain(&chars[end..]).collect()
    };
    // The most of it that fits: more of it is never narrower.
    let (mut kept, mut too_many) = (0, chars.len());
    while too_many - kept > 1 {
        let middle = kept.midpoint(too_many);
        if fits(&cut(middle)) { kept = middle } else { too_many = middle }
    }
    cut(kept)
}

pub(crate) fn axis_label(axis: &Axis) -> String {
    match (axis.label.trim(), axis.unit.trim()) {
        (label, "") => label.to_owned(),
        ("", unit) => unit.to_owned(),
        (label, unit) => format!("{label} ({unit})"),
    }
}

/// A label above the panel, for an event or a phase.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    /// Left edge of the text, from the plot's left edge.
    pub left: f64,
    pub text: String,
    /// Row, 0 is the lowest.
    pub row: usize,
    /// Where the line of an event stands; a phase has none.
    pub line: Option<f64>,
}

/// The labels above a panel, and how many found no room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    pub flags: Vec<Flag>,
    pub left_out: usize,
}

impl Flags {
    pub(crate) fn rows(&self) -> usize {
        self.flags.iter().map(|flag| flag.row + 1).max().unwrap_or(0)
    }

    /// Gives every label the lowest row where it meets no other label and no other event's line.
    pub(crate) fn arrange(panel: &Panel, range: &ScaleRange, length: f64) -> Flags {
        let mut wanted: Vec<(f64, bool, String)> = Vec::new();
        for mark in &panel.marks {
            match mark {
                Mark::Event { x, label } if !label.trim().is_empty() && range.contains(*x) => {
                    wanted.push((range.place(*x).unwrap_or(0.0) * length, true, label.clone()));
                }
                Mark::Phase { from, to, label } if !label.trim().is_empty() => {
                    let middle = visible(range, *from, *to).map(|(a, b)| (a + b) / 2.0 * length);
                    wanted.extend(middle.map(|at| (at, false, label.clone())));
                }
                _ => {}
            }
        }
        wanted.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut placed = Flags::default();
        for (at, event, label) in wanted {
            // The ellipsis is for labels wider than the whole plot.
            let text = fitted(&label, length);
            let w = ANNOTATION.width(&text);
            let left = if event { at - 3.0 } else { at - w / 2.0 };
            let left = left.min(length - w).max(0.0);
            let row = (0..4).find(|row| placed.is_free(*row, left, w, event.then_some(at)));
            match row {
                Some(row) => {
                    placed.flags.push(Flag { left, text, row, line: event.then_some(at) });
                }
                None => placed.left_out += 1,
            }
        }
        placed
    }

    fn is_free(&self, row: usize, left: f64, w: f64, line: Option<f64>) -> bool {
        self.flags.iter().all(|other| {
            let other_w = ANNOTATION.width(&other.text);
            let meets = left < other.left + other_w + 8.0 && other.left < left + w + 8.0;
            let crossed =
                other.line.is_some_and(|x| other.row > row && x > left - 3.0 && x < left + w + 3.0);
            let crosses = line.is_some_and(|x| {
                row > other.row && x > other.left - 3.0 && x < other.left + other_w + 3.0
            });
            !(crossed || crosses || (row == other.row && meets))
        })
    }
}

fn fitted(text: &str, limit: f64) -> String {
    if ANNOTATION.width(text) <= limit {
        return text.to_owned();
    }
    let mut short: String = text.to_owned();
    while short.pop().is_some() {
        let shown = format!("{}…", short.trim_end());
        if ANNOTATION.width(&shown) <= limit {
            return shown;
        }
    }
    String::new()
}

/// The part of a range of x that can be seen, 0 to 1.
pub(crate) fn visible(range: &ScaleRange, from: f64, to: f64) -> Option<(f64, f64)> {
    let end = |v: f64| range.place(if range.log { v.max(range.low * 0.5) } else { v });
    let (a, b) = (end(from)?.clamp(0.0, 1.0), end(to)?.clamp(0.0, 1.0));
    (b > a).then_some((a, b))
}

/// A reference line's label, to the right of the plot.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub y: f64,
    pub lines: Vec<String>,
}

pub(crate) fn references(panel: &Panel, range: &ScaleRange, widest: f64) -> Vec<Reference> {
    let one = |mark: &Mark| match mark {
        Mark::Reference { y, label } if range.contains(*y) => {
            let lines = ANNOTATION.wrap(label, widest);
            Some(Reference { y: *y, lines })
        }
        _ => None,
    };
    panel.marks.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_very_long_name_below_a_panel_keeps_its_beginning_and_its_end_and_is_no_taller_than_a_panel()
     {
        let long =
            |end: &str| format!("upload {}{end}", "of a stream that was imported ".repeat(9));
        let names = [long("one"), long("two"), "short-one".to_owned()];
        let side = MarginSide::x_names(&names, 200.0);
        assert!(side.upwards && side.height() <= TALLEST + 4.0, "{}", side.height());
        let shown: Vec<&str> = side.labels.iter().map(|label| &*label.lines[0]).collect();
        assert!(shown[0].starts_with("upload of") && shown[0].ends_with("one"), "{shown:?}");
        assert!(shown[1].ends_with("two") && shown[2] == "short-one", "{shown:?}");
    }
}
