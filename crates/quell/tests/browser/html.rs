//! The pages that Quell writes, a run's report, a comparison and the zoomable picture, opened in Chromium as files. Where Chromium is not installed
//! these stories are left out, which is said.

use crate::browser::lacks_chromium;
use crate::browser::looks::{is_fine_on_every_screen, is_quiet};
use crate::browser::tab::Tab;
use crate::support::TestFolder;
use quell_page::browser::BrowserOptions;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

const LOADED: &str = "document.readyState === 'complete'";

/// A file of a folder as a page in a tab, and its address.
fn opened(path: &Path) -> (Tab, String) {
    let url = format!("file://{}", path.canonicalize().expect("it was written").display());
    let mut tab = Tab::new((1280, 1000), &BrowserOptions::default());
    tab.listen();
    tab.go(&url, &format!("location.href === '{url}' && {LOADED}"));
    (tab, url)
}

/// Explore, on the page of the latest run.
fn explored(folder: &TestFolder) -> (Tab, String) {
    folder.quell(&["open", "--no-open", "-o", "report.html"]).fine();
    let (mut tab, url) = opened(&folder.path("report.html"));
    tab.go(&format!("{url}#explore"), "typeof quellView === 'object'");
    (tab, url)
}

/// A folder with an invented run in it, and another in whose queues packets wait longer.
fn two_runs() -> TestFolder {
    let folder = TestFolder::new();
    for longer in [1.0, 1.3] {
        crate::invented::write(&folder.path("runs"), 3, longer).expect("runs can be written");
    }
    folder
}

/// The runs of a folder, oldest first.
fn runs(folder: &TestFolder) -> Vec<String> {
    let all = std::fs::read_dir(folder.path("runs")).expect("runs").flatten();
    let mut names: Vec<String> =
        all.map(|run| run.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_report_fits_every_screen_in_light_and_dark_and_asks_nobody() {
    if lacks_chromium() {
        return;
    }
    let folder = two_runs();
    folder.quell(&["open", "--no-open", "-o", "report.html"]).fine();
    let (mut tab, url) = opened(&folder.path("report.html"));
    is_fine_on_every_screen(&mut tab, "report");
    // Each figure is there once, in the shape for the screen.
    tab.looks(390, 800, "light");
    tab.run("document.querySelectorAll('details').forEach(d => { d.open = true; })");
    let figures = "[...document.querySelectorAll('figure')]";
    let seen = "[...f.querySelectorAll('div > svg')].filter(s => s.getBoundingClientRect().height > 50).length";
    assert!(tab.value(&format!("{figures}.length")).as_u64() > Some(6));
    assert_eq!(tab.value(&format!("{figures}.every(f => {seen} === 1)")), true);
    is_quiet(&mut tab, &url);
}

#[test]
fn a_comparison_fits_every_screen_in_light_and_dark_and_asks_nobody() {
    if lacks_chromium() {
        return;
    }
    let folder = two_runs();
    let [before, after] = &runs(&folder)[..] else { panic!("two runs") };
    let by_run = ["open", before, after, "--no-open", "-o", "runs.html"];
    let by_scenario = ["open", before, "--by", "scenario", "--no-open", "-o", "scenarios.html"];
    for (asked, page) in [(&by_run[..], "runs"), (&by_scenario, "scenarios")] {
        folder.quell(asked).fine();
        let (mut tab, url) = opened(&folder.path(&format!("{page}.html")));
        is_fine_on_every_screen(&mut tab, &format!("compare-{page}"));
        is_quiet(&mut tab, &url);
    }
}

/// What is drawn: the canvas as a picture.
fn drawn(tab: &mut Tab) -> String {
    tab.painted();
    let data = tab.value("document.getElementById('canvas').toDataURL()");
    data.as_str().expect("a picture").to_owned()
}

/// From when to when is seen, in nanoseconds.
fn span(tab: &mut Tab) -> f64 {
    tab.value("quellView.view.t[1] - quellView.view.t[0]").as_f64().expect("a time")
}

/// The names of all lines.
fn legend(tab: &mut Tab) -> Vec<String> {
    let names =
        tab.value("[...document.querySelectorAll('#legend button')].map(b => b.textContent)");
    names.as_array().expect("a list").iter().filter_map(|n| n.as_str().map(str::to_owned)).collect()
}

/// Pixels of the first panel in the first line's colour, a blue; without the strip of lost packets below.
const BLUE: &str = "(() => {
    const frame = quellView.frames()[0];
    const { data } = canvas.getContext('2d').getImageData(frame.x, frame.y, frame.w, frame.h);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) if (data[i + 2] - data[i] > 60) count++;
    return count;
})()";

#[test]
fn the_view_opens_on_the_worst_measurement_and_fits_every_screen() {
    if lacks_chromium() {
        return;
    }
    let folder = two_runs();
    let (mut tab, url) = explored(&folder);
    let chosen = "document.getElementById('cell').selectedOptions[0].textContent";
    let chosen = tab.value(chosen);
    // Most of what is sent into the flood is lost: there is little to see. Beside the worst is its cure.
    let beside = tab.value("document.getElementById('beside').selectedOptions[0].textContent");
    assert!(beside.as_str().is_some_and(|c| c.starts_with("bulk-shaped")), "{beside}");
    assert!(
        chosen.as_str().is_some_and(|c| c.starts_with("bulk")
            && !c.starts_with("bulk-shaped")
            && c.ends_with("(the worst)")),
        "{chosen}"
    );
    is_fine_on_every_screen(&mut tab, "view");
    tab.looks(1280, 1000, "light");
    tab.painted();
    // Each packet that was answered is drawn.
    let answered = "quellView.panels()[0].series[0].y.filter(v => !Number.isNaN(v)).length";
    let answered = tab.value(answered).as_u64().expect("a number");
    let blue = tab.value(BLUE).as_u64().expect("a number");
    assert!(blue > answered, "{blue} pixels of {answered} packets");
    // Measurements with long names leave all tools in one row.
    tab.run(
        "for (const select of [document.getElementById('cell'), document.getElementById('beside')]) {
            const option = document.createElement('option');
            option.textContent = 'unloaded-shaped-10Mbit: ping and udp, repeat 12';
            select.append(option);
        }",
    );
    let tops = "new Set([...document.querySelectorAll('#tools > *')].map(e => Math.round(e.getBoundingClientRect().top))).size";
    assert_eq!(tab.value(tops).as_u64(), Some(1), "one row");
    let mut pictures = Vec::new();
    for scheme in crate::browser::looks::SCHEMES {
        tab.looks(1280, 1000, scheme);
        pictures.push(drawn(&mut tab));
    }
    assert_ne!(pictures[0], pictures[1], "in the dark it is drawn in other colours");
    is_quiet(&mut tab, &url);
}

#[test]
fn the_view_is_zoomed_by_keys_and_wheel_and_lays_two_over_each_other() {
    if lacks_chromium() {
        return;
    }
    let folder = two_runs();
    let (mut tab, url) = explored(&folder);
    tab.run(
        "const beside = document.getElementById('beside');
         beside.value = '-1';
         beside.dispatchEvent(new Event('change'))",
    );
    let (whole, all) = (drawn(&mut tab), span(&mut tab));
    tab.run("document.getElementById('canvas').focus()");
    tab.key("+");
    assert!(span(&mut tab) < 0.8 * all);
    let closer = drawn(&mut tab);
    assert_ne!(closer, whole, "a part of it is drawn larger");
    tab.key("0");
    assert_eq!((span(&mut tab), drawn(&mut tab)), (all, whole.clone()), "and all of it again");
    let middle = tab.value("(() => { const b = document.getElementById('canvas').getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 3]; })()");
    let place = |n: usize| middle[n].as_f64().expect("a place");
    tab.wheel((place(0), place(1)), -240.0);
    assert!(span(&mut tab) < 0.8 * all);
    assert_ne!(drawn(&mut tab), whole);
    tab.key("0");

    // A second measurement, chosen by key as a person would who has no mouse.
    let alone = legend(&mut tab);
    tab.run("document.getElementById('beside').focus()");
    tab.key("ArrowDown");
    let other = tab.value("document.getElementById('beside').selectedOptions[0].textContent");
    let other = other.as_str().expect("a name");
    let both = legend(&mut tab);
    assert!(both.len() > alone.len(), "{both:?}");
    assert!(both.iter().any(|name| name.starts_with(&format!("{other}: "))), "{both:?}");
    let two = drawn(&mut tab);
    assert_ne!(two, whole);
    tab.keep_picture("view-two");
    is_quiet(&mut tab, &url);
}

/// What a person sees of the invented mesh, with a pair that a key opens.
fn is_the_meshs_page(tab: &mut Tab, name: &str) {
    is_fine_on_every_screen(tab, name);
    let said = tab.value("document.getElementById('conclusion').textContent");
    assert!(said.as_str().is_some_and(|s| s.contains("on the uplink of fra")), "{said}");
    let seen = "[...document.querySelectorAll('.pair')].filter(p => p.checkVisibility()).map(p => p.querySelector('h2').textContent)";
    assert_eq!(tab.value(&format!("{seen}.length")), 0);
    tab.run("document.querySelector('a[aria-label^=\"sin-2 to ams-1\"]').focus()");
    tab.key("Enter");
    assert_eq!(tab.value(seen), serde_json::json!(["sin-2 to ams-1, voice"]));
    let path = tab.value("document.querySelector('.pair:target').textContent");
    assert!(
        path.as_str().is_some_and(|p| p.contains("198.18.7.1") && p.contains("Median")),
        "{path}"
    );
    is_fine_on_every_screen(tab, &format!("{name}-pair"));
}

#[test]
fn a_mesh_fits_every_screen_and_a_pair_opens_by_key() {
    if lacks_chromium() {
        return;
    }
    let folder = TestFolder::new();
    crate::mesh::write(&folder.path("mesh"));
    folder.quell(&["mesh", "show", "mesh", "-o", "mesh.html"]).fine();
    let (mut tab, url) = opened(&folder.path("mesh.html"));
    is_the_meshs_page(&mut tab, "mesh");
    is_quiet(&mut tab, &url);
}

/// A collector whose broker is gone serves what it has; it ends with the test.
struct Collecting(Child);

impl Drop for Collecting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_collector_serves_the_same_page_over_http() {
    if lacks_chromium() {
        return;
    }
    let folder = TestFolder::new();
    crate::mesh::write(&folder.path("mesh"));
    let collect = ["mesh", "collect", "--bus", "nats://127.0.0.1:1", "--out", "mesh"];
    let mut command = folder.command(&[&collect[..], &["--web", "0"]].concat());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut collecting = Collecting(command.spawn().expect("the program starts"));
    let mut line = String::new();
    let said = collecting.0.stderr.take().expect("it is piped");
    BufReader::new(said).read_line(&mut line).expect("a line");
    let url = line.trim_end().strip_prefix("the mesh at ").unwrap_or_else(|| panic!("{line}"));
    let mut tab = Tab::new((1280, 1000), &BrowserOptions::default());
    tab.listen();
    tab.go(url, &format!("location.href === '{url}' && {LOADED}"));
    is_the_meshs_page(&mut tab, "mesh-served");
    is_quiet(&mut tab, url);
}
