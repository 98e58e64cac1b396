//! Colours, dash patterns and marker shapes.
//!
//! A series has a *slot*; the slot picks one of eight colours, one of five dash patterns and one of seven
//! shapes. As 8, 5 and 7 share no divisor, no two of the first 280 series look alike, and neighbours
//! differ in all three, so that a figure can still be read in grey and by colour-blind eyes. The light colours
//! are Okabe and Ito's set, its pale blue, orange and pink darkened until they have 3 to 1 on white, and its yellow replaced by a wine red. The
//! two blues stand far apart: a figure has four or five series as a rule.

/// For which surroundings an SVG is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Theme {
    /// CSS variables that follow `prefers-color-scheme`; for browsers. A page may force a side with
    /// `data-theme="light"` or `data-theme="dark"` on its root element.
    #[default]
    Adaptive,
    /// Plain attributes, dark on white; for print and PNG.
    Light,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Behind everything.
    Ground,
    /// Titles and whatever must be read first.
    Ink,
    /// Tick labels, notes.
    Soft,
    Axis,
    Grid,
    Shade,
    Slot(usize),
}

const SLOTS: [(&str, &str); 8] = [
    ("#0072b2", "#4aa8e0"),
    ("#d55e00", "#f2803a"),
    ("#009e73", "#2fc49a"),
    ("#c86a9e", "#e79cc4"),
    ("#882255", "#c9628f"),
    ("#b87f00", "#f5c04d"),
    ("#2f8fc9", "#9bd5f7"),
    ("#4d4d4d", "#c4c4c4"),
];

/// How a series looks, for drawings that this crate does not make: a page's canvas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Colour on white, as `#rrggbb`.
    pub light: &'static str,
    /// Colour on near-black.
    pub dark: &'static str,
    /// Lengths of dashes and gaps in pixels, alternating; none for a full line.
    pub dash: Option<&'static str>,
}

/// The looks of the first 40 series: as figures have them, no two alike.
pub fn looks() -> impl Iterator<Item = Look> {
    (0..SLOTS.len() * 5).map(|slot| {
        let (light, dark) = SLOTS[slot % SLOTS.len()];
        Look { light, dark, dash: dash(slot) }
    })
}

const FIXED: [(Paint, &str, &str, &str); 6] = [
    (Paint::Ground, "bg", "#ffffff", "#14171a"),
    (Paint::Ink, "ink", "#1a1d21", "#eceff1"),
    (Paint::Soft, "soft", "#555b63", "#aab2ba"),
    (Paint::Axis, "axis", "#7d848c", "#868e96"),
    (Paint::Grid, "grid", "#e6e8eb", "#2a2f35"),
    (Paint::Shade, "shade", "#f1f2f4", "#20252a"),
];

impl Paint {
    fn both(self) -> (String, &'static str, &'static str) {
        if let Paint::Slot(slot) = self {
            let slot = slot % SLOTS.len();
            return (format!("s{slot}"), SLOTS[slot].0, SLOTS[slot].1);
        }
        let (_, name, light, dark) =
            FIXED.iter().find(|fixed| fixed.0 == self).copied().unwrap_or(FIXED[1]);
        (name.to_owned(), light, dark)
    }

    /// The value of a `fill` or `stroke` attribute: a plain colour, which every renderer knows.
    pub(crate) fn colour(self) -> &'static str {
        self.both().1
    }

    /// The classes by which an adaptive SVG's style sheet sets another colour than its attributes say; nothing in others.
    pub(crate) fn classes(theme: Theme, fill: Option<Paint>, stroke: Option<Paint>) -> String {
        if theme != Theme::Adaptive {
            return String::new();
        }
        let fill = fill.map(|paint| format!("qf-{}", paint.both().0));
        let stroke = stroke.map(|paint| format!("qs-{}", paint.both().0));
        let classes: Vec<String> = fill.into_iter().chain(stroke).collect();
        if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) }
    }
}

/// The style sheet of an adaptive SVG. It's the same in every figure, so that a page of several needs it once. What knows no variables of CSS skips
/// the block that uses them, and draws by the attributes.
pub fn style_sheet() -> String {
    let slots = (0..SLOTS.len()).map(Paint::Slot);
    let rules: String = FIXED
        .iter()
        .map(|fixed| fixed.0)
        .chain(slots)
        .map(|paint| {
            let (name, _, _) = paint.both();
            format!(".quell-chart .qf-{name}{{fill:var(--qc-{name})}}.quell-chart .qs-{name}{{stroke:var(--qc-{name})}}")
        })
        .collect();
    let list = |dark: bool| {
        let slots = (0..SLOTS.len()).map(Paint::Slot);
        FIXED
            .iter()
            .map(|fixed| fixed.0)
            .chain(slots)
            .map(|paint| {
                let (name, light, night) = paint.both();
                format!("--qc-{name}:{}", if dark { night } else { light })
            })
            .collect::<Vec<_>>()
            .join(";")
    };
    let (light, dark) = (list(false), list(true));
    format!(
        ".quell-chart{{{light}}}\
         @media (prefers-color-scheme:dark){{.quell-chart{{{dark}}}}}\
         :root[data-theme=light] .quell-chart{{{light}}}\
         :root[data-theme=dark] .quell-chart{{{dark}}}\
         @supports (fill:var(--qc-ink)){{{rules}}}"
    )
}

/// The dash pattern of a slot; `None` is a full line.
pub(crate) fn dash(slot: usize) -> Option<&'static str> {
    [None, Some("7 3"), Some("2 2.5"), Some("9 3 2 3"), Some("4 2")][slot % 5]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_forty_series_share_colour_and_dash() {
        let looks: std::collections::BTreeSet<_> =
            (0..40).map(|slot| (Paint::Slot(slot).colour(), dash(slot))).collect();
        assert_eq!(looks.len(), 40);
    }

    /// Contrast by WCAG 2.1; 3 to 1 is its floor for graphics, 4.5 for text.
    #[test]
    fn text_and_lines_are_readable_on_both_grounds() {
        let luminance = |hex: &str| {
            let channel = |i: usize| {
                let v = f64::from(u8::from_str_radix(&hex[i..i + 2], 16).unwrap()) / 255.0;
                if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
        };
        let grounds: [fn(Paint) -> &'static str; 2] =
            [|paint| paint.both().1, |paint| paint.both().2];
        for of in grounds {
            let ground = luminance(of(Paint::Ground));
            let contrast = |paint: Paint| {
                let l = luminance(of(paint));
                (l.max(ground) + 0.05) / (l.min(ground) + 0.05)
            };
            assert!(contrast(Paint::Ink) > 7.0 && contrast(Paint::Soft) > 4.5);
            assert!((0..8).all(|slot| contrast(Paint::Slot(slot)) >= 3.0));
        }
    }
}
