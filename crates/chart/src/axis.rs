//! What an axis shows: its name, unit, scale and range.

/// How values become places.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Scale {
    /// Equal differences take equal space.
    #[default]
    Linear,
    /// Equal ratios take equal space. Values of zero and below have no place; the figure's note says how many
    /// were left out.
    Log10,
    /// One place for each name, in this order. Marks speak of a category by its index.
    Categories(Vec<String>),
}

/// An axis: description only, the range is found when the figure is drawn.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Axis {
    pub(crate) label: String,
    pub(crate) unit: String,
    pub(crate) si: bool,
    pub(crate) percent: bool,
    pub(crate) scale: Scale,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) zero: bool,
}

impl Axis {
    /// A linear axis with an automatic range.
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// A logarithmic axis (base 10) with an automatic range.
    #[must_use]
    pub fn log10(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log10, ..Self::linear(label) }
    }

    /// An axis of named places. Long names fit best on the y axis; on the x axis they're wrapped, and
    /// written upwards where wrapping isn't enough.
    #[must_use]
    pub fn categories<S: Into<String>>(
        label: impl Into<String>,
        names: impl IntoIterator<Item = S>,
    ) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { scale: Scale::Categories(names), ..Self::linear(label) }
    }

    /// The unit, as it stands behind the label in parentheses: `Axis::linear("Delay").unit("ms")`.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// A base unit (`s`, `bit/s`, `B`) that takes the SI prefix which makes the numbers short: values in s
    /// may be shown as ms. Seconds take no prefix above one.
    #[must_use]
    pub fn si_unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self.si = true;
        self
    }

    /// Shows shares of one as per cent: 0.25 reads "25 %".
    #[must_use]
    pub fn percent(mut self) -> Self {
        self.percent = true;
        self
    }

    /// Fixes the lower end. Ignored when it isn't a number, or not above zero on a logarithmic axis.
    #[must_use]
    pub fn from(mut self, low: f64) -> Self {
        self.low = Some(low);
        self
    }

    /// Fixes the upper end. Ignored when it isn't a number, or not above the lower end.
    #[must_use]
    pub fn to(mut self, high: f64) -> Self {
        self.high = Some(high);
        self
    }

    /// Makes an automatic range begin or end at zero, so that lengths can be compared. Bars, histograms and
    /// stacked areas do so by themselves. A logarithmic axis has no zero.
    #[must_use]
    pub fn with_zero(mut self) -> Self {
        self.zero = true;
        self
    }

    pub(crate) fn is_log(&self) -> bool {
        self.scale == Scale::Log10
    }

    pub(crate) fn names(&self) -> Option<&[String]> {
        match &self.scale {
            Scale::Categories(names) => Some(names),
            _ => None,
        }
    }
}
