//! The hierarchy as a picture: cards from left to right, arrows with what filters match.
//!
//! ```text
//!   ┌ eth0 ──────┐        ip dst 10.9.0.7
//!   │ htb 1:     ├──┬───▶┌ 1:20 ──────┐
//!   │ 211 kB     │  │    │ fq_codel   │        a class and the queue in it are one card
//!   └────────────┘  └───▶┌ 2 more … ──┐
//! ```
//!
//! Text is measured first; each card gets a column by its depth and a height by its words; a card's children lie in a band of their own, so
//! nothing can meet. Arrows that skip a column run behind the cards there.

mod cards;
mod layout;
mod style;

use crate::place::View;
use crate::words;
use cards::{Card, CardRow, Cards};
use layout::CardLayout;
use quell_chart::{Drawing, Rect, Sheet, Theme, Tone, Type};
use style::{FILTER, PAD, WRONG};

const TITLE: Type = Type { size: 15.0, bold: true, tone: Tone::Ink };
const NOTE: Type = Type { size: 10.0, bold: false, tone: Tone::Soft };
const ALARM: Type = Type { size: 10.5, bold: false, tone: Tone::Ink };
/// The picture, `width` CSS pixels wide unless its columns need more.
pub fn picture(view: &View<'_>, width: u32, theme: Theme) -> Drawing {
    let cards = Cards::of(view);
    let layout = CardLayout::of(&cards, f64::from(width));
    let title = words::devices(view);
    let title = format!("{}{}", title[..1].to_uppercase(), &title[1..]);
    let mut sheet = Sheet::new(layout.width.ceil() as u32, theme);
    let wide = layout.width - 2.0 * PAD;
    let mut top = PAD;
    for line in TITLE.wrap(&title, wide) {
        sheet.text(PAD, top, &line, TITLE);
        top += TITLE.leading();
    }
    let when = if view.rates.is_some() {
        "Amounts are per second; what waits, waits now."
    } else {
        "Amounts are since each queue was made."
    };
    top = paragraph(&mut sheet, top, wide, when, NOTE) + 10.0;

    links(&mut sheet, &cards, &layout, top);
    for (card, area) in cards.list.iter().zip(&layout.boxes) {
        draw(&mut sheet, card, &Rect { y: area.y + top, ..*area }, &layout);
    }
    top += layout.height + 12.0;
    for finding in &cards.findings {
        sheet.text(PAD, top, "!", Type { bold: true, tone: WRONG, ..ALARM });
        for line in ALARM.wrap(finding, wide - 12.0) {
            sheet.text(PAD + 12.0, top, &line, ALARM);
            top += ALARM.leading();
        }
        top += 3.0;
    }
    for line in &cards.notes {
        top = paragraph(&mut sheet, top + 2.0, wide, line, NOTE);
    }
    sheet.finish(&title, top + PAD)
}

fn paragraph(sheet: &mut Sheet, mut top: f64, wide: f64, text: &str, look: Type) -> f64 {
    for line in look.wrap(text, wide) {
        sheet.text(PAD, top, &line, look);
        top += look.leading();
    }
    top
}

/// Lines between cards: grey for what holds what, blue arrows for filters.
fn links(sheet: &mut Sheet, cards: &Cards, layout: &CardLayout, top: f64) {
    let from = |at: usize| (layout.boxes[at].right(), top + layout.boxes[at].y + layout.middle(at));
    let to = |at: usize| (layout.boxes[at].x, top + layout.boxes[at].y + layout.middle(at));
    for (at, card) in cards.list.iter().enumerate() {
        for &child in card
            .children
            .iter()
            .filter(|child| !cards.list[**child].arrivals.iter().any(|a| a.from == at))
        {
            let (start, end) = (from(at), to(child));
            sheet.link(start, start.0 + layout.gap * 0.5, end, Tone::Axis, 1.0, false);
        }
    }
    for (at, card) in cards.list.iter().enumerate() {
        let mut drawn = Vec::new();
        for arrival in &card.arrivals {
            if drawn.contains(&arrival.from) || arrival.from == at {
                continue;
            }
            drawn.push(arrival.from);
            let (start, end) = (from(arrival.from), to(at));
            // What comes from further left arrives a little lower, so that the two are told apart.
            let direct = cards.list[arrival.from].children.contains(&at);
            let shift = if direct { 0.0 } else { 5.0 };
            let bend = if direct { layout.gap * 0.5 } else { layout.gap * 0.28 };
            sheet.link(
                (start.0, start.1 + shift),
                start.0 + bend,
                (end.0, end.1 + shift),
                FILTER,
                1.1,
                true,
            );
        }
    }
}

fn draw(sheet: &mut Sheet, card: &Card, area: &Rect, layout: &CardLayout) {
    let mut y = area.y - layout.label_height(card);
    for arrival in layout.labels(card) {
        let (text, look) = arrival;
        let back = Rect { x: area.x, y, w: look.width(&text).min(area.w), h: look.leading() };
        sheet.card(back, 0.0, Tone::Ground, None);
        sheet.text(area.x, y, &text, look);
        y += look.leading();
    }
    let edge = if card.wrong {
        (WRONG, 1.8)
    } else if card.default {
        (Tone::Ink, 1.6)
    } else {
        (Tone::Axis, 0.9)
    };
    if card.folded {
        sheet.card(*area, 0.0, Tone::Ground, None);
        sheet.dashed(*area, Tone::Axis, 1.0);
    } else {
        sheet.card(*area, 4.0, Tone::Ground, Some(edge));
    }
    let mut y = area.y + layout::INSIDE;
    for (number, section) in card.sections.iter().enumerate() {
        if number > 0 {
            let line = y + layout::BETWEEN / 2.0 - 1.0;
            sheet.line((area.x + 6.0, line), (area.right() - 6.0, line), Tone::Grid, 1.0);
            y += layout::BETWEEN;
        }
        for line in section {
            let CardRow { text, look, beside } = line;
            if let Some((beside, look)) = beside {
                sheet.text_ending(area.right() - layout::INSIDE, y, beside, *look);
            }
            for part in layout.wrap(text, *look, beside.as_ref()) {
                sheet.text(area.x + layout::INSIDE, y, &part, *look);
                y += look.leading();
            }
        }
    }
}
