//! Manual pages and completions, as they are installed and used.

use crate::support::left_out;
use crate::support::{TestFolder, says};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Marks that clap puts where a text is to come.
const PLACEHOLDERS: [&str; 8] =
    ["{about", "{name", "{usage", "{options", "{all-args", "{after-help", "{n}", "{version"];

/// The commands that quell(1) names, as their pages are called.
fn named(first_page: &str) -> BTreeSet<String> {
    let see_also = first_page.rsplit_once("SEE ALSO").expect("it ends so").1;
    let names = see_also.split([',', '\n']).filter_map(|n| n.trim().strip_suffix("(1)"));
    names.map(|name| name.replace("\\-", "-")).filter(|name| name != "quell").collect()
}

#[test]
fn every_command_has_a_manual_page_of_its_own() {
    let dir = TestFolder::new();
    let first = dir.quell(&["man"]).fine();
    says(&first, &[".TH quell 1", "EXIT STATUS", "the system would not let us"]);
    let told = dir.quell(&["man", "--folder", "pages"]).fine();
    let written: BTreeSet<&str> = told.lines().collect();
    let commands = named(&first);
    assert!(commands.len() >= 22, "{commands:?}");
    for name in &commands {
        let file = format!("pages/{name}.1");
        assert!(written.contains(file.as_str()), "{file} is told: {told}");
        let page = std::fs::read_to_string(dir.path(&file)).expect("it was written");
        let name = name.replace('-', "\\-");
        says(&page, &[&format!("{name} \\- "), "SYNOPSIS", "OPTIONS", "EXAMPLES", "EXIT STATUS"]);
        for mark in PLACEHOLDERS {
            assert!(!page.contains(mark), "{file}: {mark}");
        }
    }
    assert_eq!(std::fs::read_to_string(dir.path("pages/quell.1")).expect("it is there"), first);
    // Again over what is there; and where nothing can be written.
    assert_eq!(dir.quell(&["man", "--folder", "pages"]).fine(), told);
    dir.write("file", "");
    says(&dir.quell(&["man", "--folder", "file"]).refused(3), &["writing file"]);
}

#[test]
fn mandoc_finds_nothing_wrong_with_any_page() {
    let dir = TestFolder::new();
    let told = dir.quell(&["man", "--folder", "pages"]).fine();
    let mut command = Command::new("mandoc");
    command.args(["-T", "lint", "-W", "warning"]).args(told.lines()).current_dir(dir.path("."));
    match command.output() {
        Ok(lint) => {
            let said = String::from_utf8_lossy(&lint.stdout);
            let first = said.lines().take(10).collect::<Vec<_>>().join("\n");
            assert!(said.is_empty() && lint.status.success(), "{first}");
        }
        Err(error) => {
            left_out::for_want_of(format!("there is no mandoc on this machine ({error})"))
        }
    }
}

#[test]
fn bash_completes_commands_options_and_names_that_only_the_machine_knows() {
    let dir = TestFolder::new();
    dir.write("calls.json", crate::support::irtt([(1_000, 20), (1_020, 21)].into_iter()));
    dir.quell(&["data", "import", "calls.json"]).fine();
    dir.write("quell.bash", dir.quell(&["completions", "bash"]).fine());
    let program = Path::new(env!("CARGO_BIN_EXE_quell")).parent().expect("a folder");
    let complete = |words: &str| {
        let last = words.rsplit(' ').next().unwrap_or_default();
        let said = Command::new("bash")
            .args(["--norc", "-c"])
            .arg(format!(
                "PATH={}:$PATH; source ./quell.bash; COMP_WORDS=({words}); \
                 COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
                 _clap_complete_quell quell '{last}' ''; echo \"${{COMPREPLY[@]}}\"",
                program.display()
            ))
            .current_dir(dir.path("."))
            .output()
            .expect("bash is on every Debian");
        assert!(said.stderr.is_empty(), "{words}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).expect("text").trim().to_owned()
    };
    for (typed, completed) in [
        ("quell pin", "ping"),
        ("quell lab kernel pa", "path"),
        ("quell ping --meth", "--method"),
        ("quell run home-link-p", "home-link-pages"),
        ("quell lab shell home-link-p", "home-link-pages"),
        ("quell run calls.js", "calls.json"),
        ("quell plot --figure rtt-sc", "rtt-scatter"),
        ("quell tree l", "lo"),
        ("quell shape status --dev l", "lo"),
        ("quell doctor --explain mtu-b", "mtu-black-hole"),
        ("quell doctor --only aliasing,listen-o", "aliasing,listen-overflow"),
        // What Quell starts itself is offered to nobody.
        ("quell host-", ""),
    ] {
        assert_eq!(complete(typed), completed, "{typed}");
    }
    let imported = complete("quell show 1");
    assert!(imported.ends_with("-calls"), "{imported}");
}

#[test]
fn zsh_and_fish_ask_the_program_as_bash_does() {
    let dir = TestFolder::new();
    for shell in ["zsh", "fish"] {
        says(&dir.quell(&["completions", shell]).fine(), &["COMPLETE=", "quell --"]);
        let mut asked = dir.command(&["--", "quell", "tree", "l"]);
        asked.env("COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "2").env("_CLAP_IFS", "\n");
        let said = asked.output().expect("quell can be started");
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "lo", "{shell}");
    }
    says(&dir.quell(&["completions", "csh"]).refused(2), &["'csh'", "bash, zsh, fish"]);
}

#[test]
fn make_install_puts_them_where_shells_and_man_look() {
    let dir = TestFolder::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let said = Command::new("make")
        .args(["-s", "install", "PREFIX=/usr"])
        .arg(format!("QUELL={}", env!("CARGO_BIN_EXE_quell")))
        .arg(format!("DESTDIR={}", dir.path("system").display()))
        .current_dir(root)
        .env_remove("MAKEFLAGS")
        .output()
        .expect("make is there, as for the kernel");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    for file in [
        "bin/quell",
        "share/man/man1/quell.1",
        "share/man/man1/quell-ping.1",
        "share/man/man1/quell-lab-kernel-build.1",
        "share/bash-completion/completions/quell",
        "share/zsh/site-functions/_quell",
        "share/fish/vendor_completions.d/quell.fish",
    ] {
        use std::os::unix::fs::PermissionsExt;
        let there = std::fs::metadata(dir.path("system/usr").join(file));
        let there = there.unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(there.len() > 0 && there.permissions().mode() & 0o444 == 0o444, "{file}");
    }
}
