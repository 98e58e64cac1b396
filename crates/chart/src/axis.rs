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
    pub(crate) percent: bool,
    pub(crate) time: bool,
    pub(crate) clock: bool,
    pub(crate) scale: Scale,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) zero: bool,
}

impl Axis {
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// Time in seconds, with an automatic range: never made logarithmic.
    #[must_use]
    pub fn time(label: impl Into<String>) -> Self {
        Self { time: true, ..Self::linear(label).unit("s") }
    }

    /// Time in seconds since a midnight, labelled as a clock shows it: `03:12`; over days, by their number.
    #[must_use]
    pub fn clock(label: impl Into<String>) -> Self {
        Self { time: true, clock: true, ..Self::linear(label) }
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

    /// The same with equal ratios in equal space; none where that makes no sense: time, shares, names.
    pub(crate) fn logarithmic(&self) -> Option<Self> {
        let can = self.scale == Scale::Linear && !self.time && !self.percent;
        let ends =
            self.low.filter(|low| *low > 0.0).zip(self.high).map(|(low, high)| decent(low, high));
        let (low, high) = ends.unzip();
        can.then(|| Self {
            scale: Scale::Log10,
            zero: false,
            low,
            high: high.or(self.high),
            ..self.clone()
        })
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

/// The ends of a logarithmic axis that holds both values: 1, 2 or 5 times a power of ten, so that both get a label. As they are where they are so
/// close that this would leave most of the axis empty.
#[must_use]
pub fn decent(low: f64, high: f64) -> (f64, f64) {
    const CLOSE: f64 = 3.0;
    let sound = low > 1e-280 && high < 1e280 && high / low > CLOSE;
    if !sound {
        return (low, high);
    }
    // A thousandth beyond an end is on it.
    let all = |v: f64| {
        let power = v.log10().floor() as i32;
        (power - 1..=power + 1).flat_map(|p| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(p)))
    };
    let below = all(low).filter(|v| *v <= low * 1.001).fold(0.0, f64::max);
    let above = all(high).filter(|v| *v >= high * 0.999).fold(f64::INFINITY, f64::min);
    (below, above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_ends_where_it_can_have_labels() {
        let near = |(a, b): (f64, f64), (c, d): (f64, f64)| {
            (a / c - 1.0).abs() < 1e-9 && (b / d - 1.0).abs() < 1e-9
        };
        assert!(near(decent(20.4, 498.0), (20.0, 500.0)));
        assert!(near(decent(0.7, 1001.0), (0.5, 1000.0)), "{:?}", decent(0.7, 1001.0));
        assert!(near(decent(0.0002, 0.0031), (0.0002, 0.005)));
        assert_eq!(
            decent(95.0, 105.0),
            (95.0, 105.0),
            "an axis from 50 to 200 would be mostly empty"
        );
        assert_eq!(decent(0.0, 5.0), (0.0, 5.0));
    }
}
