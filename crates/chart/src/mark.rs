//! What is drawn in a panel.
//!
//! A mark that belongs to a series carries the series' *name*: marks of the same name, in whichever panel of a
//! figure, share colour, dash pattern and marker shape, and one entry in the legend. An empty name keeps
//! a mark out of the legend.
//!
//! NaN is a gap everywhere, and so is anything else without a place (infinities, magnitudes above 1e300). A
//! gap is never bridged.

/// Values along x, joined by a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Polyline {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) step: bool,
}

impl Polyline {
    /// Joins neighbouring points by straight lines. NaN in y is a gap.
    #[must_use]
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), step: false }
    }

    /// The same from optional values; `None` is a gap.
    #[must_use]
    pub fn with_gaps(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, Option<f64>)>,
    ) -> Self {
        Self::new(name, points.into_iter().map(|(x, y)| (x, y.unwrap_or(f64::NAN))))
    }

    /// Holds each value until the next point, or until a gap begins, instead: for states and interval means.
    #[must_use]
    pub fn stepped(mut self) -> Self {
        self.step = true;
        self
    }
}

/// Values along x as single markers.
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Scatter {
    #[must_use]
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect() }
    }
}

/// Areas on top of each other: how a whole divides into parts along x.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    pub(crate) x: Vec<f64>,
    pub(crate) layers: Vec<(String, Vec<f64>)>,
    pub(crate) step: bool,
}

impl Stack {
    /// A stack over these x values, without layers yet.
    #[must_use]
    pub fn new(x: impl IntoIterator<Item = f64>) -> Self {
        Self { x: x.into_iter().collect(), layers: Vec::new(), step: false }
    }

    /// Puts a layer on top: one value for each x; missing ones are NaN. Where other layers have a value,
    /// NaN adds nothing; where none has, the stack has a gap. Negative values add nothing.
    #[must_use]
    pub fn layer(mut self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        self.layers.push((name.into(), values.into_iter().collect()));
        self
    }

    /// Holds each value until the next x that has one: for interval means. End with the x that closes the last
    /// interval.
    #[must_use]
    pub fn stepped(mut self) -> Self {
        self.step = true;
        self
    }
}

/// An empirical distribution function: steps up from zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Ecdf {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Ecdf {
    /// Points (value, share of samples that are not above it), in ascending order. The last share may stay
    /// below one, where some samples never came.
    #[must_use]
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect() }
    }
}

/// The five numbers of a box, and what lies beyond its whiskers.
#[derive(Clone, Debug, PartialEq)]
pub struct FiveNumbers {
    /// End of the lower whisker.
    pub low: f64,
    /// Lower quartile.
    pub q1: f64,
    pub median: f64,
    /// Upper quartile.
    pub q3: f64,
    /// End of the upper whisker.
    pub high: f64,
    /// Samples beyond the whiskers.
    pub outliers: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Boxes {
    pub(crate) name: String,
    pub(crate) items: Vec<(usize, FiveNumbers)>,
}

impl Boxes {
    /// Boxes of one series. Several series in a panel stand side by side.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), items: Vec::new() }
    }

    /// Puts a box at a category. An index beyond the axis' names is left out, like numbers without a place.
    #[must_use]
    pub fn at(mut self, category: usize, numbers: FiveNumbers) -> Self {
        self.items.push((category, numbers));
        self
    }
}

/// Bars from zero, one for a category; their values stand above them where there is room.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    pub(crate) name: String,
    pub(crate) items: Vec<Bar>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub category: usize,
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    pub known: Known,
}

/// What is known of the value that a bar stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Known {
    Exactly,
    AtLeast,
    UpTo(f64),
}

impl Bars {
    /// Bars of one series. Several series in a panel stand side by side.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), items: Vec::new() }
    }

    #[must_use]
    pub fn at(mut self, category: usize, value: f64) -> Self {
        self.items.push(Bar { category, value, interval: None, known: Known::Exactly });
        self
    }

    /// Puts a bar of what is no less than this at a category; its label begins with ≥.
    #[must_use]
    pub fn at_least(mut self, category: usize, least: f64) -> Self {
        let known = Known::AtLeast;
        self.items.push(Bar { category, value: least, interval: None, known });
        self
    }

    /// Puts a bar of what lies between these at a category: as high as the least, with a whisker to the most, and both in its label.
    #[must_use]
    pub fn between(mut self, category: usize, least: f64, most: f64) -> Self {
        let (interval, known) = (Some((least, most)), Known::UpTo(most));
        self.items.push(Bar { category, value: least, interval, known });
        self
    }

    #[must_use]
    pub fn with_interval(mut self, category: usize, value: f64, low: f64, high: f64) -> Self {
        let known = Known::Exactly;
        self.items.push(Bar { category, value, interval: Some((low, high)), known });
        self
    }
}

/// Stretches along the value axis, in the row of a category: what happened when. All series share the row.
#[derive(Clone, Debug, PartialEq)]
pub struct Spans {
    pub(crate) name: String,
    pub(crate) items: Vec<(usize, f64, f64)>,
}

impl Spans {
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        items: impl IntoIterator<Item = (usize, f64, f64)>,
    ) -> Self {
        Self { name: name.into(), items: items.into_iter().collect() }
    }
}

/// A range of y along x: a confidence interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64, f64)>,
}

impl Band {
    /// Points (x, low, high). Give it the name of the line that it belongs to.
    #[must_use]
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect() }
    }
}

/// Anything that a panel draws.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Mark {
    /// See [`Polyline`].
    Polyline(Polyline),
    /// See [`Scatter`].
    Scatter(Scatter),
    /// See [`Stack`].
    Stack(Stack),
    /// See [`Ecdf`].
    Ecdf(Ecdf),
    /// See [`Boxes`].
    Boxes(Boxes),
    /// See [`Bars`].
    Bars(Bars),
    /// See [`Spans`].
    Spans(Spans),
    /// See [`Band`].
    Band(Band),
    /// A vertical line at x with a label above the panel: an event.
    Event {
        x: f64,
        /// What happened; may be empty.
        label: String,
    },
    /// A shaded range of x with a label above the panel.
    Phase {
        from: f64,
        to: f64,
        /// What went on; may be empty.
        label: String,
    },
    /// A horizontal line at y with a label to its right: a reference.
    Reference {
        y: f64,
        /// What it stands for; may be empty.
        label: String,
    },
}

impl Mark {
    #[must_use]
    pub fn event(x: f64, label: impl Into<String>) -> Self {
        Mark::Event { x, label: label.into() }
    }

    #[must_use]
    pub fn phase(from: f64, to: f64, label: impl Into<String>) -> Self {
        Mark::Phase { from: from.min(to), to: from.max(to), label: label.into() }
    }

    #[must_use]
    pub fn reference(y: f64, label: impl Into<String>) -> Self {
        Mark::Reference { y, label: label.into() }
    }
}

macro_rules! into_mark {
    ($($kind:ident)*) => {$(
        impl From<$kind> for Mark {
            fn from(mark: $kind) -> Self {
                Mark::$kind(mark)
            }
        }
    )*};
}
into_mark!(Polyline Scatter Stack Ecdf Boxes Bars Spans Band);
