//! Draws files of `tc`'s output, to be looked at and to record goldens: `tree_gallery WIDTH OUT.png|- FILE [DEVICE] [all]`; `-` is text.

use quell_chart::Theme;
use quell_treeview::{Look, View, picture, text};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [width, out, file, rest @ ..] = words.as_slice() else {
        return Err("tree_gallery WIDTH OUT.png|- FILE [all]".into());
    };
    let reading = quell_hierarchy::read(&std::fs::read_to_string(file)?, None)?;
    let only = rest.first().and_then(|name| reading.hierarchy.device(name));
    let all = rest.iter().any(|word| word == "all");
    let view = View { hierarchy: &reading.hierarchy, only, rates: None, all, details: false };
    let width: u32 = width.parse()?;
    if out == "-" {
        let look = Look { width: width as usize, unicode: true, colour: false };
        text(&view, &look).iter().for_each(|line| println!("{line}"));
        return Ok(());
    }
    std::fs::write(out, picture(&view, width, Theme::Light).png(1.5)?)?;
    Ok(())
}
