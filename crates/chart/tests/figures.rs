//! What a reader relies on: nothing is cut, nothing collides, nothing is made up.

use proptest::prelude::*;
use quell_chart::{
    Axis, Band, Bars, Boxes, Drawing, Ecdf, Figure, FiveNumbers, Legend, Mark, Panel, Polyline,
    Scatter, Spans, Stack, TextRole, Theme,
};
use std::path::Path;

fn plain(mark: impl Into<Mark>) -> Figure {
    let (x, y) = (Axis::linear("Time").unit("s"), Axis::linear("Delay").unit("ms"));
    Figure::new("Title").size(420, 260).panel(Panel::new(x, y).mark(mark))
}

fn five(shift: f64) -> FiveNumbers {
    FiveNumbers {
        low: shift,
        q1: shift + 1.0,
        median: shift + 2.0,
        q3: shift + 4.0,
        high: shift + 8.0,
        outliers: vec![shift + 15.0],
    }
}

/// The picture without its words: what is inside the plots.
fn data(drawing: &Drawing) -> &str {
    let start = drawing.svg.find("<svg x=").expect("a plot");
    let end = drawing.svg.rfind("</svg>\n</svg>").map_or(drawing.svg.len(), |at| at);
    let end = drawing.svg[start..].find("</svg>").map_or(end, |at| start + at);
    &drawing.svg[start..end]
}

fn check(drawing: &Drawing) {
    let (w, h) = (f64::from(drawing.width), f64::from(drawing.height));
    for text in &drawing.texts {
        let r = text.rect;
        let inside = r.x >= -0.5 && r.y >= -0.5 && r.right() <= w + 0.5 && r.bottom() <= h + 0.5;
        assert!(inside, "{text:?} leaves the canvas of {w} x {h}");
    }
    for (i, a) in drawing.texts.iter().enumerate() {
        for b in &drawing.texts[i + 1..] {
            let (mut a_rect, mut b_rect) = (a.rect, b.rect);
            // Boxes include room for accents and descenders of neighbours: half a pixel may be shared.
            for r in [&mut a_rect, &mut b_rect] {
                (r.y, r.h) = (r.y + 0.5, r.h - 1.0);
            }
            assert!(!a_rect.overlaps(&b_rect), "{a:?} and {b:?} overlap");
        }
    }
    assert!(!drawing.svg.contains("NaN") && !drawing.svg.contains("inf"), "{}", drawing.svg);
}

#[test]
fn long_words_above_and_below_leave_room_for_a_wider_font() {
    let long = "share of the packets that were sent, of all repeats; a line that ends below 100 % shows the loss ".repeat(4);
    let figure = plain(Polyline::new("a", [(0.0, 1.0), (1.0, 2.0)]));
    let drawing = figure.title(&*long).subtitle(&*long).note(&*long).draw(Theme::Light);
    let lines = drawing.texts.iter().filter(|t| t.role == TextRole::Heading);
    let widest = lines.map(|t| t.rect.x + t.rect.w * 1.1).fold(0.0, f64::max);
    assert!((300.0..=f64::from(drawing.width)).contains(&widest), "{widest}");
}

fn says(drawing: &Drawing, words: &str) -> bool {
    let all: Vec<&str> = drawing.texts.iter().map(|t| t.text.as_str()).collect();
    all.join(" ").contains(words)
}

#[test]
fn each_kind_of_mark_looks_as_it_did() {
    let categories = |mark: Mark| {
        Figure::new("Title").size(420, 260).panel(
            Panel::new(Axis::categories("", ["one", "two"]), Axis::linear("Delay").unit("ms"))
                .mark(mark),
        )
    };
    let gaps = [
        (0.0, Some(1.0)),
        (1.0, Some(3.0)),
        (2.0, None),
        (3.0, Some(2.0)),
        (4.0, None),
        (5.0, Some(2.5)),
        (6.0, Some(0.5)),
    ];
    let kinds = [
        ("line", plain(Polyline::with_gaps("a line", gaps))),
        ("steps", plain(Polyline::with_gaps("steps", gaps).stepped())),
        (
            "scatter",
            plain(Scatter::new("points", (0..9).map(|i| (f64::from(i), f64::from(i * i))))),
        ),
        (
            "stack",
            plain(
                Stack::new([0.0, 1.0, 2.0, 3.0])
                    .layer("low", [1.0, 2.0, f64::NAN, 1.0])
                    .layer("high", [1.0, f64::NAN, f64::NAN, 2.0]),
            ),
        ),
        ("ecdf", plain(Ecdf::new("share", [(1.0, 0.25), (2.0, 0.5), (8.0, 0.75)]))),
        ("boxes", categories(Boxes::new("").at(0, five(0.0)).at(1, five(10.0)).into())),
        ("bars", categories(Bars::new("mean").at(0, 3.0).with_interval(1, 5.0, 4.0, 7.0).into())),
        ("band", plain(Band::new("interval", [(0.0, 1.0, 2.0), (1.0, 1.5, 3.0), (2.0, 1.0, 1.5)]))),
        (
            "annotations",
            plain(Polyline::new("", [(0.0, 0.0), (10.0, 5.0)])).panel(
                Panel::new(Axis::linear(""), Axis::linear(""))
                    .mark(Polyline::new("", [(0.0, 0.0), (10.0, 5.0)]))
                    .mark(Mark::phase(2.0, 6.0, "phase"))
                    .mark(Mark::event(3.0, "event"))
                    .mark(Mark::reference(4.0, "limit")),
            ),
        ),
    ];
    let bless = std::env::var_os("QUELL_BLESS").is_some();
    for (name, figure) in kinds {
        let drawing = figure.draw(Theme::Light);
        check(&drawing);
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.svg"));
        if bless {
            std::fs::write(&path, &drawing.svg).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            golden == drawing.svg,
            "{name} looks different from {}; look at it, then run again with QUELL_BLESS=1",
            path.display()
        );
        assert_eq!(figure.draw(Theme::Light), drawing, "the same description, the same bytes");
    }
}

#[test]
fn a_gap_is_not_bridged() {
    let whole = plain(Polyline::new("", [(0.0, 1.0), (1.0, 2.0), (2.0, 1.0), (3.0, 2.0)]))
        .draw(Theme::Light);
    assert_eq!(data(&whole).matches('M').count(), 1);
    for hole in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let points = [(0.0, 1.0), (1.0, 2.0), (1.5, hole), (2.0, 1.0), (3.0, 2.0)];
        for line in [Polyline::new("", points), Polyline::new("", points).stepped()] {
            let drawing = plain(line).draw(Theme::Light);
            assert_eq!(data(&drawing).matches('M').count(), 2, "{hole}: {}", data(&drawing));
        }
        let band = points.map(|(x, y)| (x, y, y + 1.0));
        assert_eq!(data(&plain(Band::new("", band)).draw(Theme::Light)).matches('M').count(), 2);
    }
}

#[test]
fn a_step_holds_until_the_gap_and_no_further() {
    let points =
        [(0.0, Some(1.0)), (4.0, Some(2.0)), (5.0, None), (10.0, Some(1.0)), (11.0, Some(1.0))];
    let drawing = plain(Polyline::with_gaps("", points).stepped()).draw(Theme::Light);
    let (before, after) = data(&drawing).split_once('H').unwrap().1.split_once('M').unwrap();
    let number = |s: &str| s.split(['H', 'V', ' ']).next_back().unwrap().parse::<f64>().unwrap();
    let begin = after.split(' ').next().unwrap().parse::<f64>().unwrap();
    // The gap lasts from 5 to 10 of 11 on the axis.
    assert!((number(before) / begin - 0.5).abs() < 0.02, "{before} {after}");
}

#[test]
fn a_value_between_two_gaps_is_seen() {
    let points = [
        (0.0, Some(1.0)),
        (1.0, Some(2.0)),
        (2.0, None),
        (3.0, Some(9.0)),
        (4.0, None),
        (5.0, Some(1.0)),
        (6.0, Some(2.0)),
    ];
    let drawing = plain(Polyline::with_gaps("", points)).draw(Theme::Light);
    assert!(data(&drawing).contains("h0"), "a dot stands for the single value");
    let x = points.map(|p| p.0);
    let y = points.map(|p| p.1.unwrap_or(f64::NAN));
    let stack = plain(Stack::new(x).layer("", y)).draw(Theme::Light);
    assert!(data(&stack).contains("h1.6"), "a thin column stands for the single value");
}

/// CPU time of this thread, in seconds: however busy the machine is.
fn cpu() -> i64 {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).expect("Linux has it").tv_sec()
}

#[test]
fn a_million_points_make_a_small_file_that_keeps_the_spike() {
    let mut points: Vec<(f64, f64)> =
        (0..1_000_000).map(|i| (f64::from(i), f64::from(i % 97))).collect();
    points[777_777].1 = 5000.0;
    let before = cpu();
    let many = plain(Polyline::new("", points)).draw(Theme::Light);
    let took = cpu() - before;
    assert!(many.svg.len() < 60_000, "{}", many.svg.len());
    // Where the spike stands, told by a figure that has little else.
    let few = [(0.0, 0.0), (777_777.0, 5000.0), (999_999.0, 0.0)];
    let few = plain(Polyline::new("", few)).draw(Theme::Light);
    let path = data(&few).split(" d=\"").nth(1).unwrap();
    let spike = path.split(['M', 'L', 'h', '"']).filter(|s| s.contains(' ')).nth(1).unwrap();
    assert!(data(&many).contains(spike), "{spike} is missing");
    assert!(
        took < 10,
        "{took} s of CPU time for a million points, in a build that is not optimised"
    );
}

#[test]
fn zeros_on_a_logarithmic_axis_are_left_out_and_said() {
    let y = Axis::log10("Delay").unit("ms");
    let points = [(0.0, 10.0), (1.0, 0.0), (2.0, 30.0), (3.0, -5.0), (4.0, 200.0)];
    let figure =
        Figure::new("").panel(Panel::new(Axis::linear("Time"), y).mark(Polyline::new("", points)));
    let drawing = figure.draw(Theme::Light);
    check(&drawing);
    assert!(says(&drawing, "2 values of zero or below"), "{:?}", drawing.texts);
    assert!(!data(&drawing).contains('L'), "no line across what was left out");
}

#[test]
fn nothing_to_show_is_said() {
    let empty = [
        Figure::new("nothing at all"),
        plain(Polyline::new("a", [])),
        plain(Polyline::new("a", [(0.0, f64::NAN), (f64::INFINITY, 1.0)])),
        plain(Scatter::new("a", [])),
        plain(Stack::new([])),
        plain(Boxes::new("").at(7, five(1.0))),
        plain(Mark::reference(3.0, "limit")),
        Figure::new("").panel(
            Panel::new(Axis::categories("", [""; 0]), Axis::linear(""))
                .mark(Bars::new("").at(0, 1.0)),
        ),
        Figure::new("").panel(
            Panel::new(Axis::linear(""), Axis::log10("")).mark(Scatter::new("", [(0.0, 0.0)])),
        ),
    ];
    for figure in empty {
        let drawing = figure.draw(Theme::Light);
        check(&drawing);
        assert!(says(&drawing, "no data"), "{figure:?}");
        drawing.png(1.0).unwrap();
    }
}

#[test]
fn one_point_and_constants_and_extremes_have_an_axis() {
    let cases: [&[(f64, f64)]; 8] = [
        &[(5.0, 7.0)],
        &[(0.0, 0.0)],
        &[(0.0, 3.0), (1.0, 3.0), (2.0, 3.0)],
        &[(0.0, -1e300), (1.0, 1e300)],
        &[(0.0, 1e18), (1.0, 3e18)],
        &[(0.0, 1e-300), (1.0, 2e-300)],
        &[(0.0, 1e15), (1.0, 1e15 + 1.0)],
        &[(0.0, f64::MAX), (1.0, f64::MIN_POSITIVE), (2.0, 4.0)],
    ];
    for points in cases {
        for y in [Axis::linear("Delay"), Axis::log10("Delay"), Axis::linear("").with_zero()] {
            let panel = Panel::new(Axis::linear("Time"), y.clone());
            let drawing = Figure::new("")
                .panel(panel.mark(Polyline::new("", points.to_vec())))
                .draw(Theme::Light);
            check(&drawing);
            let placed = points
                .iter()
                .any(|p| p.1.abs() <= 1e300 && (p.1 > 0.0 || y != Axis::log10("Delay")));
            let ticks = drawing.texts.iter().filter(|t| t.role == TextRole::Tick).count();
            assert!(ticks >= 3 || !placed, "{points:?} {y:?}: {:?}", drawing.texts);
        }
    }
}

#[test]
fn long_names_are_whole_and_apart() {
    let long = "three bulk uploads over the tunnel, again";
    assert!(long.len() >= 40);
    let names: Vec<String> = (0..6).map(|i| format!("{long} {i}")).collect();
    let boxes = || (0..6).fold(Boxes::new(""), |b, i| b.at(i, five(i as f64 + 1.0)));
    for width in [300, 760, 1200] {
        for swap in [false, true] {
            let (names, values) =
                (Axis::categories("Scenario", names.clone()), Axis::log10("Delay").unit("ms"));
            let panel = match swap {
                true => {
                    Panel::new(values, names).mark(Spans::new("", (0..6).map(|i| (i, 1.0, 2.0))))
                }
                false => Panel::new(names, values).mark(boxes()),
            };
            let drawing = Figure::new("").size(width, 300).panel(panel).draw(Theme::Light);
            check(&drawing);
            let shown: String = drawing
                .texts
                .iter()
                .filter(|t| t.role == TextRole::Tick)
                .map(|t| t.text.as_str())
                .collect();
            let visible: String = shown.split_whitespace().collect();
            let wanted: String = long.split_whitespace().collect();
            assert_eq!(visible.matches(&wanted).count(), 6, "{width} {swap}: {shown}");
        }
    }
}

#[test]
fn many_series_with_long_names_fit_every_legend() {
    for legend in [Legend::Top, Legend::Bottom, Legend::Right] {
        let lines = (0..17).map(|i| {
            Polyline::new(
                format!("flow {i} from 2001:db8:1234:5678:9abc:def0:1234:{i} to the far end"),
                [(0.0, f64::from(i)), (1.0, 2.0)],
            )
        });
        let panel = || {
            Panel::new(Axis::linear("Time").unit("s"), Axis::linear("Rate"))
                .title("A panel")
                .marks(lines.clone())
        };
        let figure = Figure::new("T")
            .note("A note.")
            .columns(2)
            .legend(legend)
            .panel(panel())
            .panel(panel());
        let drawing = figure.draw(Theme::Light);
        check(&drawing);
        let words: String = drawing
            .texts
            .iter()
            .filter(|t| t.role == TextRole::Legend)
            .map(|t| t.text.as_str())
            .collect();
        assert_eq!(words.matches("flow").count(), 17, "{legend:?}");
    }
}

#[test]
fn crowded_events_do_not_meet_and_lost_labels_are_counted() {
    let events = (0..40).map(|i| Mark::event(f64::from(i) * 0.25, format!("event number {i}")));
    let drawing = plain(Polyline::new("", [(0.0, 0.0), (10.0, 1.0)]))
        .panel(
            Panel::new(Axis::linear(""), Axis::linear(""))
                .mark(Polyline::new("", [(0.0, 0.0), (10.0, 1.0)]))
                .marks(events),
        )
        .draw(Theme::Light);
    check(&drawing);
    let shown = drawing.texts.iter().filter(|t| t.role == TextRole::Annotation).count();
    assert!(shown >= 4 && says(&drawing, &format!("{} event labels found no room", 40 - shown)));
}

#[test]
fn hostile_names_stay_names() {
    let evil = "</text></svg><script>alert(1)</script>&\"'\u{1}\u{ffff}";
    let figure = Figure::new(evil).subtitle(evil).note(evil).panel(
        Panel::new(Axis::linear(evil).unit(evil), Axis::categories(evil, [evil]))
            .title(evil)
            .mark(Bars::new(evil).at(0, 1.0))
            .mark(Mark::event(0.5, evil)),
    );
    for theme in [Theme::Adaptive, Theme::Light] {
        let drawing = figure.draw(theme);
        assert!(!drawing.svg.contains("<script") && drawing.svg.matches("</svg>").count() == 2);
    }
    figure.png(1.0).expect("still well-formed XML");
}

#[test]
fn an_adaptive_figure_follows_the_reader_and_falls_back() {
    let svg = plain(Polyline::new("a", [(0.0, 1.0), (1.0, 2.0)])).svg();
    assert!(
        svg.contains("prefers-color-scheme:dark") && svg.contains(".qs-s0{stroke:var(--qc-s0)}")
    );
    assert!(svg.contains("stroke=\"#0072b2\""), "for what skips the style sheet");
    // rsvg-convert, Inkscape and CairoSVG paint an attribute black that they can't read, and know no @supports.
    let paints =
        svg.split([' ', '>']).filter(|a| a.starts_with("fill=") || a.starts_with("stroke="));
    let plain_paint = |a: &&str| a.contains("=\"none\"") || a.contains("=\"#");
    assert!(paints.clone().count() > 20 && paints.clone().all(|a| plain_paint(&a)), "{svg}");
    let outside = svg.split_once("@supports").map(|(before, _)| before).unwrap_or_default();
    assert!(!outside.contains("var("), "rules that others would try to follow");
    assert!(!plain(Polyline::new("a", [])).draw(Theme::Light).svg.contains("var("));
}

#[test]
fn the_same_name_looks_the_same_in_each_panel() {
    let panel = |names: [&str; 2]| {
        let lines = names.map(|name| Polyline::new(name, [(0.0, 1.0), (1.0, 2.0)]));
        Panel::new(Axis::linear(""), Axis::linear("")).marks(lines)
    };
    let svg =
        Figure::new("").panel(panel(["a", "b"])).panel(panel(["b", "a"])).draw(Theme::Light).svg;
    // Legend, first panel, second panel.
    assert_eq!(
        (svg.matches("stroke=\"#0072b2\"").count(), svg.matches("stroke=\"#d55e00\"").count()),
        (3, 3)
    );
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1e3..1e3f64,
        2 => any::<f64>(),
        1 => Just(f64::NAN),
        1 => Just(0.0),
        1 => Just(1e18),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_numbers_and_names_nothing_is_cut(
        points in prop::collection::vec((number(), number()), 0..40),
        name in "\\PC{0,60}",
        label in "[a-z ]{0,80}",
        logs in (any::<bool>(), any::<bool>()),
        size in (240u32..1200, 120u32..600),
        columns in 1usize..4,
        ends in (prop::option::of(number()), prop::option::of(number())),
    ) {
        let axis = |log: bool| if log { Axis::log10(label.clone()) } else { Axis::linear(label.clone()).unit("s") };
        let mut y = axis(logs.1);
        if let Some(low) = ends.0 { y = y.from(low); }
        if let Some(high) = ends.1 { y = y.to(high); }
        let panel = Panel::new(axis(logs.0), y)
            .mark(Polyline::new(name.clone(), points.clone()))
            .mark(Scatter::new("points", points.clone()))
            .marks(points.iter().take(4).map(|p| Mark::event(p.0, name.clone())))
            .marks(points.iter().take(2).map(|p| Mark::reference(p.1, label.clone())));
        let figure = Figure::new(label.clone()).size(size.0, size.1).columns(columns);
        let drawing = (0..columns).fold(figure, |f, _| f.panel(panel.clone())).draw(Theme::Light);
        let (w, h) = (f64::from(drawing.width), f64::from(drawing.height));
        for text in &drawing.texts {
            let r = text.rect;
            prop_assert!(r.x >= -0.5 && r.y >= -0.5 && r.right() <= w + 0.5 && r.bottom() <= h + 0.5, "{text:?} of {w} x {h}");
        }
        let ticks: Vec<_> = drawing.texts.iter().filter(|t| t.role == TextRole::Tick).collect();
        for (i, a) in ticks.iter().enumerate() {
            for b in &ticks[i + 1..] {
                prop_assert!(!a.rect.overlaps(&b.rect), "{a:?} {b:?}");
            }
        }
        prop_assert!(drawing.png(0.25).is_ok(), "{:?}", drawing.png(0.25));
    }
}
