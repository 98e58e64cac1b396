//! What stands in a picture, read back from its SVG: lines in the units of their axes, and all words with their places.
#![allow(dead_code)]

/// A picture.
pub struct Drawn {
    /// Its panels, in order.
    pub panels: Vec<Plane>,
    words: Vec<Word>,
}

/// A panel's plane.
pub struct Plane {
    at: [f64; 4],
    x: [f64; 2],
    y: [f64; 2],
    /// Lines of series by their colour's number, as points in the units of the axes.
    pub lines: Vec<(usize, Vec<(f64, f64)>)>,
    /// Markers of series by their colour's number, in the units of the axes, whatever their shape.
    pub dots: Vec<(usize, Vec<(f64, f64)>)>,
    /// From where to where the bars and boxes of series stand, by their colour's number.
    pub bars: Vec<(usize, f64, f64)>,
}

struct Word {
    x: f64,
    y: f64,
    anchor: String,
    text: String,
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let rest = tag.split_once(&format!(" {name}=\""))?.1;
    Some(rest.split_once('"')?.0.to_owned())
}

fn number(tag: &str, name: &str) -> f64 {
    attribute(tag, name).and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
}

impl Drawn {
    /// Reads a picture.
    pub fn of(svg: &str) -> Self {
        let mut drawn = Drawn { panels: Vec::new(), words: Vec::new() };
        let mut paths: Vec<(usize, usize, String)> = Vec::new();
        let mut dots: Vec<(usize, usize, String)> = Vec::new();
        let mut rects: Vec<(usize, usize, f64, f64)> = Vec::new();
        let mut inside = false;
        for line in svg.lines() {
            if line.starts_with("<svg x=") {
                let at = ["x", "y", "width", "height"].map(|name| number(line, name));
                // The plane is drawn with some room around it, so that markers at its edge are whole.
                drawn.panels.push(Plane {
                    at,
                    x: [f64::NAN; 2],
                    y: [f64::NAN; 2],
                    lines: Vec::new(),
                    dots: Vec::new(),
                    bars: Vec::new(),
                });
                inside = true;
            } else if line == "</svg>" {
                inside = false;
            } else if line.starts_with("<text") {
                let text = line.split_once('>').and_then(|(_, rest)| rest.strip_suffix("</text>"));
                let anchor = attribute(line, "text-anchor").unwrap_or_default();
                let text = text.unwrap_or_default().replace("&#39;", "'").replace("&amp;", "&");
                drawn.words.push(Word { x: number(line, "x"), y: number(line, "y"), anchor, text });
            } else if inside && line.starts_with("<rect") {
                let class = attribute(line, "class").unwrap_or_default();
                if let Some(n) = class.strip_prefix("qf-s").and_then(|n| n.parse().ok()) {
                    let (y, h) = (number(line, "y"), number(line, "height"));
                    rects.push((drawn.panels.len() - 1, n, y + h, y));
                }
            } else if inside && line.starts_with("<path") {
                let class = attribute(line, "class").unwrap_or_default();
                let d = attribute(line, "d").unwrap_or_default();
                let colour = class.strip_prefix("qs-s").or(class.strip_prefix("qf-s"));
                if let Some(n) = colour.and_then(|n| n.parse().ok()) {
                    dots.push((drawn.panels.len() - 1, n, d.clone()));
                }
                if let Some(n) = class.strip_prefix("qs-s").and_then(|n| n.parse().ok()) {
                    paths.push((drawn.panels.len() - 1, n, d));
                }
            }
        }
        drawn.measure();
        for (panel, series, from, to) in rects {
            let plane = &mut drawn.panels[panel];
            let value = |y: f64| plane.y[0] + plane.y[1] * (y + plane.at[1]);
            let bar = (series, value(from), value(to));
            plane.bars.push(bar);
        }
        for (panel, series, path) in dots {
            let plane = &mut drawn.panels[panel];
            let points: Option<Vec<_>> = path.split('M').skip(1).map(marker).collect();
            let value = |(x, y): (f64, f64)| {
                (
                    plane.x[0] + plane.x[1] * (x + plane.at[0]),
                    plane.y[0] + plane.y[1] * (y + plane.at[1]),
                )
            };
            // What is no marker throughout is a line or an area.
            if let Some(points) = points.filter(|points| !points.is_empty()) {
                let points = points.into_iter().map(value).collect();
                plane.dots.push((series, points));
            }
        }
        for (panel, series, path) in paths {
            let plane = &mut drawn.panels[panel];
            let points = path.split(['M', 'L']).filter(|p| !p.is_empty());
            let points =
                points.filter_map(|p| p.trim_end_matches("h0").split_once(' ')).map(|(x, y)| {
                    let [x, y] = [x, y].map(|n| n.trim().parse().unwrap_or(f64::NAN));
                    (
                        plane.x[0] + plane.x[1] * (x + plane.at[0]),
                        plane.y[0] + plane.y[1] * (y + plane.at[1]),
                    )
                });
            let points = points.collect();
            plane.lines.push((series, points));
        }
        drawn
    }

    /// Finds the units of each plane: by the first and the last label of its axes; those of a shared axis stand below the lowest.
    fn measure(&mut self) {
        for plane in &mut self.panels {
            let [left, top, width, height] = plane.at;
            let is_left = |w: &&Word| {
                w.anchor == "end"
                    && w.x < left + 4.0
                    && w.x > left - 60.0
                    && (top..top + height + 8.0).contains(&w.y)
            };
            // Of the middle of the letters to their line.
            plane.y = scale(self.words.iter().filter(is_left).map(|w| (w.y - 3.96, &*w.text)));
            let below = |w: &&Word| {
                w.anchor == "middle"
                    && w.y > top + height
                    && (left - 1.0..left + width + 1.0).contains(&w.x)
            };
            let nearest =
                |found: &Word| found.text.trim_end_matches('%').trim().parse::<f64>().is_ok();
            let row = self
                .words
                .iter()
                .filter(below)
                .filter(|w| nearest(w))
                .map(|w| w.y)
                .fold(f64::INFINITY, f64::min);
            let labels = self.words.iter().filter(below).filter(|w| w.y == row);
            plane.x = scale(labels.map(|w| (w.x, &*w.text)));
        }
    }

    /// Whether these words stand in it, as one piece.
    pub fn says(&self, text: &str) -> bool {
        self.words.iter().any(|w| w.text.contains(text))
    }
}

/// Where a marker stands: its place, and behind it the shape, which is drawn relative to it.
fn marker(text: &str) -> Option<(f64, f64)> {
    let shape = text.find(|c: char| c.is_ascii_alphabetic())?;
    let is_relative = text[shape..].chars().all(|c| !c.is_ascii_uppercase());
    let (x, y) = text[..shape].split_once(' ')?;
    Some((x.trim().parse().ok()?, y.trim().parse().ok()?)).filter(|_| is_relative)
}

/// Offset and factor from dots to units, linear.
fn scale<'a>(labels: impl Iterator<Item = (f64, &'a str)>) -> [f64; 2] {
    let value = |text: &str| {
        text.trim_end_matches('%')
            .replace([',', '\u{a0}', '\u{2009}'], "")
            .replace('−', "-")
            .trim()
            .parse::<f64>()
            .ok()
    };
    let all: Vec<(f64, f64)> = labels.filter_map(|(at, text)| Some((at, value(text)?))).collect();
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return [f64::NAN; 2] };
    let factor = (last.1 - first.1) / (last.0 - first.0);
    [first.1 - factor * first.0, factor]
}

/// Whether all points are within these limits of those that are wanted.
#[track_caller]
pub fn near(found: &[(f64, f64)], wanted: &[(f64, f64)], limits: (f64, f64)) {
    let is_near = |(a, b): (&(f64, f64), &(f64, f64))| {
        (a.0 - b.0).abs() <= limits.0 && (a.1 - b.1).abs() <= limits.1
    };
    let all = found.len() == wanted.len() && found.iter().zip(wanted).all(is_near);
    assert!(all, "found {found:?}\nwanted {wanted:?}");
}
