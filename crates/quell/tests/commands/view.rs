//! `quell open` as a person uses it. What the page does is tested beside its script.

use crate::support::{TestFolder, says};
use std::process::Command;

const OLD: &[u8] = include_bytes!("../../../foreign/tests/data/pingexp/python2-0.pickle");

fn dir() -> TestFolder {
    let dir = TestFolder::new();
    dir.write("old.pickle", OLD);
    dir.quell(&["data", "import", "old.pickle"]).fine();
    dir
}

#[test]
fn the_page_is_written_into_the_run_and_its_path_told() {
    let dir = dir();
    let told = dir.quell(&["open", "--no-open"]).fine();
    assert_eq!(told, "runs/20091110T230000-old/report.html\n");
    let page = std::fs::read_to_string(dir.path(told.trim())).expect("it was written");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    // It asks nothing of any network.
    assert!(
        !page.contains("http://")
            || page.matches("http://").count() == page.matches("http://www.w3.org/").count()
    );
    assert!(!page.contains("https://"), "no address of anything");
    says(&page, &["default-src 'none'"]);
}

#[test]
fn without_a_screen_it_says_what_to_do_with_the_file() {
    let dir = dir();
    let mut command = dir.command(&["open", "-o", "here.html"]);
    let got =
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").output().expect("it starts");
    assert_eq!(got.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&got.stdout), "here.html\n");
    says(&String::from_utf8_lossy(&got.stderr), &["no screen", "any browser"]);
}

/// A screen without a program that opens pages is no reason to fail.
#[test]
fn a_screen_without_a_browser_is_as_none() {
    let dir = dir();
    let mut command = dir.command(&["open", "-o", "here.html"]);
    let got = command.env("DISPLAY", ":99").env("PATH", dir.path("")).output().expect("it starts");
    assert_eq!(got.status.code(), Some(0));
    says(&String::from_utf8_lossy(&got.stderr), &["open it in any browser"]);
}

#[test]
fn on_a_screen_the_file_is_handed_to_the_browser() {
    let dir = dir();
    dir.write("script", "#!/bin/sh\nprintf %s \"$1\" > \"$(dirname \"$0\")/opened\"\n");
    let program = dir.path("xdg-open");
    // Copied by another process: what this one has open for writing, a child of another test may still hold when it is to be run.
    let copied = Command::new("cp").arg(dir.path("script")).arg(&program).status();
    assert!(copied.expect("cp is on every system").success());
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("it may be run");
    let path = format!("{}:/usr/bin:/bin", dir.path("").display());
    let mut command = dir.command(&["open", "-o", "here.html"]);
    let got = command.env("DISPLAY", ":99").env("PATH", path).output().expect("it starts");
    assert_eq!((got.status.code(), got.stderr.len()), (Some(0), 0));
    let opened = std::fs::read_to_string(dir.path("opened")).expect("the browser was called");
    let file = std::fs::canonicalize(dir.path("here.html")).expect("it is there");
    assert_eq!(opened, file.display().to_string());
}

#[test]
fn a_run_that_is_not_there_and_a_place_that_can_not_be_written_are_told() {
    let dir = dir();
    says(&dir.quell(&["open", "nothing"]).refused(2), &["nothing", "20091110T230000-old"]);
    says(&dir.quell(&["open", "-o", "no/such/x.html"]).refused(3), &["no/such/x.html"]);
}

#[test]
fn pages_and_figures_take_the_place_of_a_link_and_do_not_follow_it() {
    let dir = dir();
    dir.write("precious", "precious");
    let run = "runs/20091110T230000-old";
    let wanted = [
        (format!("{run}/report.html"), vec!["open", "--no-open"]),
        ("rtt.svg".to_owned(), vec!["plot", "last", "--figure", "rtt-time", "-o", "rtt.svg"]),
    ];
    for (place, command) in wanted {
        let place = dir.path(&place);
        let _ = std::fs::remove_file(&place);
        std::os::unix::fs::symlink(dir.path("precious"), &place).expect("a link can be made");
        dir.quell(&command).fine();
        assert!(std::fs::symlink_metadata(&place).expect("it is there").is_file(), "{command:?}");
        let precious = std::fs::read_to_string(dir.path("precious")).expect("it is there");
        assert_eq!(precious, "precious", "{command:?}");
    }
}

/// A limit on sizes of files is as good as a full disk, and needs no disk.
#[test]
fn a_page_that_can_not_be_written_whole_leaves_the_old_one() {
    use nix::sys::resource::{Resource, setrlimit};
    use std::os::unix::process::CommandExt;
    let dir = dir();
    dir.write("old.html", "the old page");
    let before = dir.names();
    let mut command = dir.command(&["open", "--no-open", "-o", "old.html"]);
    // SAFETY: system calls only, between fork and exec. Beyond the limit, write(2) then answers EFBIG.
    unsafe {
        command.pre_exec(|| {
            nix::libc::signal(nix::libc::SIGXFSZ, nix::libc::SIG_IGN);
            Ok(setrlimit(Resource::RLIMIT_FSIZE, 4096, 4096)?)
        });
    }
    let got = command.output().expect("it starts");
    assert_eq!(got.status.code(), Some(3));
    says(&String::from_utf8_lossy(&got.stderr), &["old.html"]);
    let page = std::fs::read_to_string(dir.path("old.html")).expect("it is there");
    assert_eq!(page, "the old page");
    assert_eq!(dir.names(), before, "and nothing beside it");
}
