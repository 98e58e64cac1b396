//! What all parts of a picture share: its margin and its two colours, which everybody tells apart.

use quell_chart::Tone;

/// Around everything, in CSS pixels.
pub(super) const PAD: f64 = 18.0;
pub(super) const FILTER: Tone = Tone::Slot(0);
pub(super) const WRONG: Tone = Tone::Slot(1);
