//! Where each card stands: columns by depth, bands by subtree.

use super::cards::{Card, CardRow, Cards, PARTS};
use super::style::{FILTER, PAD};
use quell_chart::{Rect, Type};

/// Between a card's edge and its words.
pub(super) const INSIDE: f64 = 7.0;
/// Between two sections of a card, where a line is.
pub(super) const BETWEEN: f64 = 7.0;
/// Between two cards that lie below each other.
const BELOW: f64 = 11.0;
/// Narrowest and widest card.
const WIDTHS: (f64, f64) = (118.0, 236.0);
/// Narrowest picture: its words need room too.
const LEAST: f64 = 460.0;
/// A band higher than this has its parent at its top: its middle would be on another page.
const TALL: f64 = 1100.0;
/// Lines of filters above a card.
const LABELS: usize = 6;
const LABEL: Type = Type { size: 9.5, bold: false, tone: FILTER };

pub(super) struct CardLayout {
    /// Each card's box, without the labels above it.
    pub boxes: Vec<Rect>,
    pub width: f64,
    pub height: f64,
    /// Between two columns.
    pub gap: f64,
    card: f64,
}

impl CardLayout {
    pub(super) fn of(cards: &Cards, width: f64) -> Self {
        let columns = cards.list.iter().map(|card| card.depth + 1).max().unwrap_or(1) as f64;
        let gap = if width < 760.0 { 28.0 } else { 42.0 };
        let card =
            ((width - 2.0 * PAD - (columns - 1.0) * gap) / columns).clamp(WIDTHS.0, WIDTHS.1);
        let needed = 2.0 * PAD + columns * card + (columns - 1.0) * gap;
        let mut layout = CardLayout {
            boxes: vec![Rect::default(); cards.list.len()],
            width: needed.max(width.min(LEAST)),
            height: 0.0,
            gap,
            card,
        };
        // Children stand behind their parents in the list.
        let mut bands = vec![0.0f64; cards.list.len()];
        let own: Vec<f64> = cards
            .list
            .iter()
            .map(|card| layout.label_height(card) + layout.card_height(card))
            .collect();
        for at in (0..cards.list.len()).rev() {
            bands[at] = own[at].max(together(&cards.list[at].children, &bands));
        }
        let mut top = 0.0;
        let mut open: Vec<(usize, f64)> = Vec::new();
        for &root in &cards.roots {
            open.push((root, top));
            top += bands[root] + 2.0 * BELOW;
        }
        layout.height = (top - 2.0 * BELOW).max(0.0);
        while let Some((at, top)) = open.pop() {
            let card = &cards.list[at];
            let children = together(&card.children, &bands);
            let (mut y, mut child) = (top, top);
            if own[at] >= children {
                child += (own[at] - children) / 2.0;
            } else if children <= TALL {
                y += (children - own[at]) / 2.0;
            }
            let x = PAD + card.depth as f64 * (layout.card + gap);
            let label = layout.label_height(card);
            layout.boxes[at] = Rect { x, y: y + label, w: layout.card, h: own[at] - label };
            for &next in &card.children {
                open.push((next, child));
                child += bands[next] + BELOW;
            }
        }
        layout
    }

    pub(super) fn labels(&self, card: &Card) -> Vec<(String, Type)> {
        let mut lines: Vec<String> = Vec::new();
        let mut shown = 0;
        for arrival in &card.arrivals {
            let wrapped = LABEL.wrap(&arrival.text, self.card);
            if shown > 0 && lines.len() + wrapped.len() > LABELS {
                break;
            }
            shown += 1;
            lines.extend(wrapped);
        }
        match card.arrivals[shown..].iter().map(|arrival| arrival.filters).sum() {
            0 => {}
            1 => lines.push("and 1 filter more".into()),
            more => lines.push(format!("and {more} filters more")),
        }
        lines.into_iter().map(|line| (line, LABEL)).collect()
    }

    pub(super) fn label_height(&self, card: &Card) -> f64 {
        let lines = self.labels(card).len() as f64;
        if lines > 0.0 { lines * LABEL.leading() + 2.0 } else { 0.0 }
    }

    fn card_height(&self, card: &Card) -> f64 {
        let line = |line: &CardRow| {
            self.wrap(&line.text, line.look, line.beside.as_ref()).len() as f64
                * line.look.leading()
        };
        let sections: f64 = card.sections.iter().flatten().map(line).sum();
        sections + 2.0 * INSIDE + (card.sections.len().max(1) - 1) as f64 * BETWEEN
    }

    /// A card's line in lines that fit, with room for what stands at its right end.
    pub(super) fn wrap(
        &self,
        text: &str,
        look: Type,
        beside: Option<&(String, Type)>,
    ) -> Vec<String> {
        let taken = beside.map_or(0.0, |(text, look)| look.width(text) + 6.0);
        let limit = (self.card - 2.0 * INSIDE - taken).max(20.0);
        let mut lines: Vec<String> = Vec::new();
        for part in text.split(PARTS) {
            let joined = lines
                .last()
                .map(|line| format!("{line}{PARTS}{part}"))
                .filter(|joined| look.width(joined) <= limit);
            match (joined, lines.last_mut()) {
                (Some(joined), Some(last)) => *last = joined,
                _ => lines.extend(look.wrap(part, limit)),
            }
        }
        lines
    }

    /// Where lines meet a card, from its top: at the middle of its first words.
    pub(super) fn middle(&self, at: usize) -> f64 {
        (INSIDE + 8.0).min(self.boxes[at].h / 2.0)
    }
}

fn together(children: &[usize], bands: &[f64]) -> f64 {
    let sum: f64 = children.iter().map(|child| bands[*child]).sum();
    sum + children.len().saturating_sub(1) as f64 * BELOW
}
