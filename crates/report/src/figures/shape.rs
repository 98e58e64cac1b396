//! Wide as a desk's screen, or narrow as a phone.

/// For which width a figure is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A desk's screen, or paper.
    Wide,
    /// A phone held upright.
    Narrow,
}

impl Shape {
    /// Width in CSS pixels: as given, or a phone's.
    pub(crate) fn width(self, wide: u32) -> u32 {
        match self {
            Shape::Wide => wide,
            Shape::Narrow => 360,
        }
    }

    /// Panels beside each other: as given, or one.
    pub(crate) fn columns(self, wide: usize) -> usize {
        match self {
            Shape::Wide => wide,
            Shape::Narrow => 1,
        }
    }
}
