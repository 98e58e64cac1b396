//! What holds of every page, whatever is on it: it fits the screen, it can be read, it has no error, and asks nobody.

use super::tab::Tab;

/// Widths and heights of a desk, a tablet and a phone.
pub const SCREENS: [(u32, u32); 3] = [(1280, 1000), (768, 1100), (390, 1500)];

pub const SCHEMES: [&str; 2] = ["light", "dark"];

/// What is cut off: the document is wider than the screen, or something of it ends beyond the edge and nothing scrolls there.
const CUT_OFF: &str = "(() => {
    const wide = document.documentElement.clientWidth;
    const scrolls = (e) => e && e !== document.body && e !== document.documentElement
        && (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
    const found = [];
    if (document.documentElement.scrollWidth > wide) found.push(`the document: ${document.documentElement.scrollWidth}`);
    for (const e of document.body.querySelectorAll('*')) {
        const box = e.getBoundingClientRect();
        // Of a picture its words and its own edge: what is drawn beyond a panel's edge is clipped there.
        if (e.ownerSVGElement && !/^t(ext|span)$/.test(e.tagName)) continue;
        const seen = box.width > 1 && box.height > 1 && e.checkVisibility({ visibilityProperty: true });
        if (seen && (box.right > wide + 1 || box.left < -1) && !scrolls(e))
            found.push(`<${e.tagName} id='${e.id}'>: ${box.left} to ${box.right}: ${e.textContent.slice(0, 40)}`);
    }
    return found;
})()";

/// Words whose colour is hardly another than that of what lies behind them (below 4.5 to 1; WCAG 2.2, 1.4.3).
const UNREADABLE: &str = "(() => {
    const numbers = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
    const light = (c) => {
        const [r, g, b] = c.slice(0, 3).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (e) => {
        for (; e; e = e.parentElement) {
            const colour = numbers(getComputedStyle(e).backgroundColor);
            if (colour.length === 3 || colour[3] > 0) return colour;
        }
        return numbers(getComputedStyle(document.documentElement).colorScheme.includes('dark') ? '18,18,18' : '255,255,255');
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const [text, e] = [walker.currentNode.data.trim(), walker.currentNode.parentElement];
        if (!text || /^(STYLE|SCRIPT|TITLE|DESC|OPTION|NOSCRIPT)$/i.test(e.tagName) || e.closest(':disabled')) continue;
        if (!e.checkVisibility({ visibilityProperty: true })) continue;
        const style = getComputedStyle(e);
        const [a, b] = [light(numbers(e instanceof SVGElement ? style.fill : style.color)), light(behind(e))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (!(ratio >= 4.5)) found.push(`${ratio.toFixed(2)}: ${e.tagName}: ${text.slice(0, 40)}`);
    }
    return found;
})()";

/// Looks at the page on each screen in each scheme, and keeps a picture of each, of all of its height.
#[track_caller]
pub fn is_fine_on_every_screen(tab: &mut Tab, name: &str) {
    let mut grounds = Vec::new();
    for (width, height) in SCREENS {
        for scheme in SCHEMES {
            tab.looks(width, height, scheme);
            tab.painted();
            tab.keep_picture(&format!("{name}-{scheme}-{width}"));
            for (what, script) in [("cut off", CUT_OFF), ("hard to read", UNREADABLE)] {
                let found = tab.value(script);
                let found = found.as_array().expect("a list");
                assert!(found.is_empty(), "{name}, {scheme}, {width} px, {what}: {found:#?}");
            }
            grounds.push(tab.value("getComputedStyle(document.body).backgroundColor"));
        }
    }
    assert_ne!(grounds[0], grounds[1], "{name}: dark is another colour than light");
}

/// No script failed, nothing was refused, and nobody but the page's own place was asked.
#[track_caller]
pub fn is_quiet(tab: &mut Tab, own: &str) {
    // What was told until now is heard before an answer.
    tab.painted();
    assert_eq!(tab.complaints, Vec::<String>::new(), "{own}");
    let is_own = |url: &&String| {
        url.starts_with(own) || url.starts_with("blob:") || url.starts_with("data:")
    };
    let foreign: Vec<&String> = tab.asked.iter().filter(|url| !is_own(url)).collect();
    assert_eq!(foreign, Vec::<&String>::new(), "{own}");
    assert!(tab.asked.iter().any(|url| url.starts_with(own)), "what is asked is heard: {own}");
}
