//! Drawings of recorded queues: what a person reads, and that nothing stands on anything else.

use proptest::prelude::*;
use quell_chart::Theme;
use quell_hierarchy::{Hierarchy, change, read};
use quell_treeview::{Look, View, dot, picture, text};

const PLAIN: Look = Look { width: 100, unicode: true, colour: false };

macro_rules! outputs {
    ($($name:literal),+) => { [$(($name, include_str!(concat!("../../hierarchy/tests/data/", $name, ".txt")))),+] };
}

const OUTPUTS: [(&str, &str); 12] = outputs!(
    "fq-codel",
    "htb-u32",
    "prio-fw",
    "hfsc",
    "drr-flow",
    "cake",
    "mq",
    "ingress-ifb",
    "clsact-flower-bpf",
    "netem-red",
    "ets-fq",
    "u32-hash"
);

fn hierarchy(text: &str) -> Hierarchy {
    read(text, None).unwrap().hierarchy
}

fn recorded(name: &str) -> Hierarchy {
    hierarchy(OUTPUTS.iter().find(|output| output.0 == name).unwrap().1)
}

fn view(hierarchy: &Hierarchy) -> View<'_> {
    View { hierarchy, only: hierarchy.device("eth0"), rates: None, all: false, details: false }
}

fn lines(hierarchy: &Hierarchy) -> String {
    text(&view(hierarchy), &PLAIN).join("\n") + "\n"
}

/// Subscribers: each a class with a queue and a filter, of seven rates.
fn subscribers(count: usize) -> Hierarchy {
    let mut out = String::from(
        "qdisc htb 1: dev eth0 root r2q 10 default 0x2\n+ tc -s class show dev eth0\nclass htb 1:1 root rate 1Gbit ceil 1Gbit\n\
         class htb 1:2 parent 1:1 prio 0 rate 1Mbit ceil 1Gbit\n",
    );
    for n in 16..16 + count {
        let rate = 5 + n % 7 * 5;
        out += &format!(
            "class htb 1:{n:x} parent 1:1 leaf 8{n:03x}: prio 0 rate {rate}Mbit ceil 100Mbit\n Sent {} bytes 10 pkt (dropped 0, overlimits 0 requeues 0)\n backlog 0b 0p requeues 0\n",
            n * 1000
        );
        out += &format!("qdisc fq_codel 8{n:03x}: parent 1:{n:x} limit 10240p\n");
        out += &format!(
            "filter parent 1: protocol ip pref 1 u32 chain 0 fh 800::{n:x} order 1 key ht 800 bkt 0 *flowid 1:{n:x}\n  match 0a09{n:04x}/ffffffff at 16\n"
        );
    }
    hierarchy(&out)
}

#[test]
fn one_fq_codel_is_two_lines() {
    assert_eq!(
        lines(&recorded("fq-codel")),
        "\
eth0                                                        sent   packets  dropped  marked  waiting
└ fq_codel 8001:                                          211 kB       208        0       0        0
"
    );
}

#[test]
fn an_htb_shows_its_filters_its_default_class_and_what_is_wrong_with_it() {
    assert_eq!(lines(&recorded("htb-u32")), include_str!("data/htb-u32.shown"));
}

#[test]
fn an_ifb_hangs_below_the_filter_that_feeds_it() {
    assert_eq!(lines(&recorded("ingress-ifb")), include_str!("data/ingress-ifb.shown"));
}

#[test]
fn five_hundred_subscribers_fit_on_a_screen_and_none_is_lost() {
    let tree = subscribers(500);
    let shown = lines(&tree);
    assert!(shown.lines().count() <= 40, "{shown}");
    // Each class is either shown or counted.
    let more: usize = shown
        .lines()
        .filter_map(|l| l.split_once(" more like 1:"))
        .map(|(n, _)| n.trim_start_matches(['│', '├', '└', ' ']).parse::<usize>().unwrap())
        .sum();
    let named = shown.lines().filter(|l| l.contains("ceil 100Mbit")).count();
    assert_eq!(more + named, 500, "{shown}");
    assert!(shown.contains("499 more u32 filters of that kind"), "{shown}");
    let all = View { all: true, ..view(&tree) };
    assert_eq!(text(&all, &PLAIN).iter().filter(|l| l.contains("ceil 100Mbit")).count(), 500);
}

#[test]
fn hosts_with_deep_trees_of_their_own_become_one_that_stands_for_all() {
    let mut out = String::from("qdisc drr 1: dev eth0 root\n");
    for host in 1..=16 {
        out += &format!(
            "class drr 1:{host:x} root leaf {host:x}0: quantum 1514b\nqdisc htb {host:x}0: parent 1:{host:x} default 0x2\n"
        );
        for tier in 1..=3 {
            out += &format!(
                "class htb {host:x}0:{tier} root prio {tier} rate 1Mbit\nqdisc fq_codel {host:x}0{tier}: parent {host:x}0:{tier} limit 100p\n"
            );
        }
    }
    let tree = hierarchy(&out);
    let shown = lines(&tree);
    assert!(shown.contains("15 more like 1:1: 1:2 … 1:10"), "{shown}");
    assert!(shown.lines().count() < 16, "{shown}");
}

#[test]
fn every_line_fits_its_terminal_with_and_without_colour() {
    for (name, output) in OUTPUTS {
        let tree = hierarchy(output);
        for details in [false, true] {
            let view = View { only: None, details, ..view(&tree) };
            for width in [70, 100] {
                let plain = text(&view, &Look { width, ..PLAIN });
                assert!(
                    plain.iter().all(|line| line.chars().count() <= width),
                    "{name}: {plain:#?}"
                );
                let colour = text(&view, &Look { width, colour: true, ..PLAIN });
                let bare: Vec<String> = colour.iter().map(|line| without_escapes(line)).collect();
                assert_eq!(
                    plain,
                    bare.iter().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>(),
                    "{name}"
                );
            }
            let ascii = text(&view, &Look { unicode: false, ..PLAIN }).join("\n");
            assert!(ascii.replace('…', "").is_ascii(), "{name}: {ascii}");
        }
    }
}

fn without_escapes(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[test]
fn between_two_readings_amounts_are_per_second() {
    let before = recorded("htb-u32");
    let mut now = before.clone();
    let device = &mut now.devices[before.device("eth0").unwrap()];
    for node in &mut device.nodes {
        let counters = node.counters.as_mut().unwrap();
        counters.bytes += 500_000;
        counters.packets += 400;
        counters.drops += 3;
    }
    let rates = change(&before, &now, 2.0);
    let view = View { rates: Some(&rates), ..view(&now) };
    let shown = text(&view, &PLAIN).join("\n");
    assert!(
        shown.contains("bit/s")
            && shown.lines().nth(1).unwrap().contains("2.00 Mbit       200      1.5"),
        "{shown}"
    );
}

#[test]
fn no_word_of_a_picture_stands_on_another_or_beside_the_sheet() {
    let mut trees: Vec<(String, Hierarchy)> =
        OUTPUTS.iter().map(|(name, output)| ((*name).to_owned(), hierarchy(output))).collect();
    trees.push(("500 subscribers".into(), subscribers(500)));
    for (name, tree) in &trees {
        for width in [480, 960, 1400] {
            for details in [false, true] {
                let view = View { only: None, details, ..view(tree) };
                let drawing = picture(&view, width, Theme::Light);
                for (at, one) in drawing.texts.iter().enumerate() {
                    let r = one.rect;
                    let inside = r.x >= 0.0
                        && r.y >= 0.0
                        && r.right() <= f64::from(drawing.width)
                        && r.bottom() <= f64::from(drawing.height);
                    assert!(inside, "{name} {width}: {one:?}");
                    for other in &drawing.texts[at + 1..] {
                        assert!(!r.overlaps(&other.rect), "{name} {width}: {one:?} and {other:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_picture_becomes_pixels_and_dots_graph_is_balanced() {
    for (name, output) in OUTPUTS {
        let tree = hierarchy(output);
        let png = picture(&view(&tree), 700, Theme::Light).png(1.0).unwrap();
        assert!(png.starts_with(b"\x89PNG"), "{name}");
        let graph = dot(&view(&tree));
        assert!(
            graph.starts_with("digraph")
                && graph.matches('{').count() == graph.matches('}').count(),
            "{graph}"
        );
        let quotes = graph.replace("\\\"", "").matches('"').count();
        assert!(quotes.is_multiple_of(2), "{name}: {graph}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damaged_outputs_are_drawn_all_the_same(which in 0..OUTPUTS.len(), cuts in prop::collection::vec((0.0..1.0f64, 0..4u8), 1..6), width in 20usize..140) {
        let mut bytes = OUTPUTS[which].1.as_bytes().to_vec();
        for (at, how) in cuts {
            let at = (at * bytes.len() as f64) as usize;
            match how {
                0 => bytes.insert(at, b'"'),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => bytes.insert(at, b'\n'),
                _ => bytes.insert(at, b'7'),
            }
        }
        if let Ok(reading) = read(&String::from_utf8_lossy(&bytes), None) {
            let view = View { hierarchy: &reading.hierarchy, only: None, rates: None, all: width % 2 == 0, details: true };
            text(&view, &Look { width, ..PLAIN });
            dot(&view);
            picture(&view, 600, Theme::Adaptive);
        }
    }
}
