//! The description of a figure: words, panels, and how they are arranged.

use crate::axis::Axis;
use crate::mark::Mark;

/// Where the names of the series stand. Never on top of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Legend {
    /// In rows between the title and the panels.
    #[default]
    Top,
    /// In rows below the panels.
    Bottom,
    Right,
    Hidden,
}

/// One coordinate system with its marks.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) marks: Vec<Mark>,
    pub(crate) weight: f64,
}

impl Panel {
    #[must_use]
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { title: String::new(), x, y, marks: Vec::new(), weight: 1.0 }
    }

    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Adds a mark; later ones are drawn above earlier ones.
    #[must_use]
    pub fn mark(mut self, mark: impl Into<Mark>) -> Self {
        self.marks.push(mark.into());
        self
    }

    #[must_use]
    pub fn marks<M: Into<Mark>>(mut self, marks: impl IntoIterator<Item = M>) -> Self {
        self.marks.extend(marks.into_iter().map(Into::into));
        self
    }

    /// Height relative to the panels in other rows; 1 unless told. A row is as high as its highest panel.
    #[must_use]
    pub fn relative_height(mut self, weight: f64) -> Self {
        self.weight = if weight.is_finite() { weight.clamp(0.1, 10.0) } else { 1.0 };
        self
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) note: String,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) panels: Vec<Panel>,
    pub(crate) columns: usize,
    pub(crate) shared_x: bool,
    pub(crate) legend: Legend,
    /// Series that have the first looks.
    pub(crate) first: Vec<String>,
}

impl Figure {
    /// A figure of 760 by 420 CSS pixels without panels.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            subtitle: String::new(),
            note: String::new(),
            width: 760,
            height: 420,
            panels: Vec::new(),
            columns: 1,
            shared_x: false,
            legend: Legend::Top,
            first: Vec::new(),
        }
    }

    /// Another title; none where it is empty.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<String>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// Small print below everything: source, method, what was left out.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Size in CSS pixels; the width is held within 240 to 10 000, the height within 120 to 10 000. A figure
    /// whose words leave too little room for its data becomes higher than asked for, as text is never cut.
    #[must_use]
    pub fn size(mut self, width: u32, height: u32) -> Self {
        self.width = width.clamp(240, 10_000);
        self.height = height.clamp(120, 10_000);
        self
    }

    /// Adds a panel; panels fill rows from the left.
    #[must_use]
    pub fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// Panels beside each other; 1 unless told. Fewer where they'd be narrower than 170 px.
    #[must_use]
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns.clamp(1, 12);
        self
    }

    /// Gives all panels one x range, and x labels to the lowest panel of each column only.
    #[must_use]
    pub fn share_x(mut self) -> Self {
        self.shared_x = true;
        self
    }

    #[must_use]
    pub fn also(mut self, note: &str) -> Self {
        if !note.is_empty() {
            let stop = if self.note.is_empty() || self.note.ends_with('.') { "" } else { "." };
            self.note = format!("{}{stop} {note}", self.note).trim().to_owned();
        }
        self
    }

    /// Without the beginning of its note, where that is said elsewhere.
    #[must_use]
    pub fn without(mut self, beginning: &str) -> Self {
        if let Some(rest) = self.note.strip_prefix(beginning) {
            self.note = rest.trim_start_matches(". ").to_owned();
        }
        self
    }

    /// Equal ratios of values take equal space: logarithmic axes for all that is no time, no share and no name. None where there is no such axis,
    /// or where areas stand on each other, whose heights would mean nothing.
    #[must_use]
    pub fn logarithmic(mut self) -> Option<Self> {
        let mut any = false;
        for panel in &mut self.panels {
            if panel.marks.iter().any(|mark| matches!(mark, Mark::Stack(_) | Mark::Spans(_))) {
                continue;
            }
            for axis in [&mut panel.x, &mut panel.y] {
                if let Some(turned) = axis.logarithmic() {
                    *axis = turned;
                    any = true;
                }
                any |= axis.is_log();
            }
        }
        any.then_some(self)
    }

    /// Every axis of time shows this range alone; the end stays where none is told.
    #[must_use]
    pub fn between(mut self, from: f64, to: Option<f64>) -> Self {
        for axis in self.panels.iter_mut().flat_map(|panel| [&mut panel.x, &mut panel.y]) {
            if axis.time {
                let begun = axis.clone().from(from);
                *axis = to.map_or(begun.clone(), |to| begun.to(to));
            }
        }
        self
    }

    /// Gives series of these names the first looks, in this order, wherever they appear: what has one colour in one figure has it in all.
    #[must_use]
    pub fn first<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.first = names.into_iter().map(Into::into).collect();
        self
    }

    #[must_use]
    pub fn legend(mut self, legend: Legend) -> Self {
        self.legend = legend;
        self
    }
}
