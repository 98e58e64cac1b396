//! From values to places: the range of an axis, and the place of a value in it.

use crate::axis::{Axis, Scale};

/// Larger magnitudes have no place: differences of them would overflow.
pub(crate) const LARGEST: f64 = 1e300;

/// Whether a value can have a place on a linear axis.
pub(crate) fn drawable(v: f64) -> bool {
    v.is_finite() && v.abs() <= LARGEST
}

/// What the marks ask of one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub low: f64,
    pub high: f64,
    /// Values that a logarithmic axis has no place for.
    pub left_out: usize,
    pub zero: bool,
    /// Share of the range to keep free at both ends.
    pub pad: f64,
}

impl Extent {
    pub(crate) fn new() -> Self {
        Self { low: f64::INFINITY, high: f64::NEG_INFINITY, left_out: 0, zero: false, pad: 0.0 }
    }

    pub(crate) fn add(&mut self, axis: &Axis, v: f64) {
        if !drawable(v) {
            return;
        }
        if axis.is_log() && v <= 0.0 {
            self.left_out += 1;
            return;
        }
        self.low = self.low.min(v);
        self.high = self.high.max(v);
    }

    pub(crate) fn merge(&mut self, other: &Extent) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.zero |= other.zero;
        self.pad = self.pad.max(other.pad);
    }

    fn is_empty(&self) -> bool {
        self.low > self.high
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScaleRange {
    pub low: f64,
    pub high: f64,
    pub log: bool,
    /// Whether nothing lies outside, so that shapes at the edge may stick out a little.
    pub automatic: bool,
}

impl ScaleRange {
    /// The range for an axis; `None` when there's nothing to show.
    pub(crate) fn find(axis: &Axis, extent: &Extent) -> Option<ScaleRange> {
        match &axis.scale {
            Scale::Categories(names) if names.is_empty() => None,
            Scale::Categories(names) => Some(ScaleRange {
                low: -0.5,
                high: names.len() as f64 - 0.5,
                log: false,
                automatic: true,
            }),
            Scale::Log10 => Self::logarithmic(axis, extent),
            Scale::Linear => Self::linear(axis, extent),
        }
    }

    fn linear(axis: &Axis, extent: &Extent) -> Option<ScaleRange> {
        if extent.is_empty() {
            return None;
        }
        let (mut low, mut high) = (extent.low, extent.high);
        let zero = axis.zero || extent.zero;
        if zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        // Below this, f64 can't tell ticks apart.
        let floor = low.abs().max(high.abs()) * 1e-9;
        if high - low <= floor {
            let half = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
            (low, high) = if zero { (low, low + half) } else { (low - half, high + half) };
        } else {
            let pad = (high - low) * extent.pad;
            // The foot of a bar stands on the axis.
            let (down, up) = (!zero || low < 0.0, !zero || high > 0.0);
            // Padding must not invent negative amounts.
            let padded = if down { low - pad } else { low };
            low = if low >= 0.0 && padded < 0.0 { 0.0 } else { padded };
            high += if up { pad } else { 0.0 };
        }
        let fixed_low = axis.low.filter(|v| drawable(*v));
        let fixed_high = axis.high.filter(|v| drawable(*v));
        low = fixed_low.unwrap_or(low);
        high = fixed_high.unwrap_or(high);
        let automatic = low <= extent.low && extent.high <= high;
        if high <= low {
            high = low + low.abs().max(1.0) * 0.1;
        }
        Some(ScaleRange { low, high, log: false, automatic })
    }

    fn logarithmic(axis: &Axis, extent: &Extent) -> Option<ScaleRange> {
        if extent.is_empty() {
            return None;
        }
        let (mut low, mut high) = (extent.low.max(1e-300).log10(), extent.high.max(1e-300).log10());
        if high - low < 0.02 {
            (low, high) = (low - 0.3, high + 0.3);
        } else {
            let pad = (high - low) * extent.pad;
            (low, high) = (low - pad, high + pad);
        }
        let fixed = |v: Option<f64>| v.filter(|v| drawable(*v) && *v > 0.0).map(f64::log10);
        let automatic = fixed(axis.low).is_none() && fixed(axis.high).is_none();
        low = fixed(axis.low).unwrap_or(low);
        high = fixed(axis.high).unwrap_or(high);
        if high <= low {
            high = low + 0.3;
        }
        let (low, high) = (10f64.powf(low.max(-305.0)), 10f64.powf(high.min(305.0)));
        let (low, high) = if automatic { crate::axis::decent(low, high) } else { (low, high) };
        let automatic = low <= extent.low && extent.high <= high;
        Some(ScaleRange { low, high, log: true, automatic })
    }

    /// Where a value lies, 0 at the lower end and 1 at the upper; `None` without a place.
    pub(crate) fn place(&self, v: f64) -> Option<f64> {
        // Ends and ticks may lie a little beyond the largest value.
        if !v.is_finite() || v.abs() > LARGEST * 1e4 || (self.log && v <= 0.0) {
            return None;
        }
        let at = if self.log {
            (v.log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
        } else {
            (v - self.low) / (self.high - self.low)
        };
        // Far outside is far outside: keeps the numbers in the file short.
        Some(at.clamp(-100.0, 100.0))
    }

    /// Whether a value lies inside, ends included.
    pub(crate) fn contains(&self, v: f64) -> bool {
        self.place(v).is_some_and(|at| (-1e-9..=1.0 + 1e-9).contains(&at))
    }
}
