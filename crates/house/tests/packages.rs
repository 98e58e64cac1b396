//! `tools/need-packages` on a made-up machine: stubs stand in for dpkg, apt and sudo, and write down how they were called.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A machine with stubs for the programs that the script calls.
struct Machine {
    folder: PathBuf,
}

impl Machine {
    /// `user` is what `id -u` prints; `known` is a shell condition on `$name` for what apt knows.
    fn new(name: &str, user: u32, known: &str) -> Machine {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Left over from an earlier run, if anything.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the build folder can be written");
        let machine = Machine { folder };
        machine.program("id", &format!("echo {user}"));
        machine.program(
            "dpkg-query",
            "for name; do :; done; [ \"$name\" = gcc ] && printf 'install ok installed'",
        );
        machine.program(
            "apt-cache",
            &format!("for name; do :; done; if {known}; then echo \"Package: $name\"; fi"),
        );
        machine
            .program("apt-get", &format!("echo \"apt-get $*\" >>{}", machine.called().display()));
        for real in ["bash", "env", "sh"] {
            let place = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(real));
            let place = place.into_iter().find(|p| p.exists()).expect("every system has these");
            std::os::unix::fs::symlink(place, machine.folder.join(real))
                .expect("the folder is new");
        }
        machine
    }

    fn program(&self, name: &str, body: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("the folder can be written");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("the file is ours");
    }

    fn called(&self) -> PathBuf {
        self.folder.join("called")
    }

    fn need(&self, packages: &[&str]) -> Output {
        Command::new(quell_house::tree::root().join("tools/need-packages"))
            .args(packages)
            .env_clear()
            .env("PATH", &self.folder)
            .stdin(std::process::Stdio::null())
            .output()
            .expect("the script can be run")
    }

    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.called()).unwrap_or_default();
        text.lines().map(Into::into).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn what_is_there_is_neither_mentioned_nor_installed() {
    let machine = Machine::new("all-there", 0, "true");
    let output = machine.need(&["gcc"]);
    assert!(output.status.success());
    assert_eq!(said(&output), "");
    assert_eq!(machine.calls(), Vec::<String>::new());
}

#[test]
fn what_is_missing_is_named_with_its_use_and_installed_without_fresh_lists() {
    let machine = Machine::new("one-missing", 0, "true");
    let output = machine.need(&["gcc", "flex"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("flex               generates the parsers"),
        "{}",
        said(&output)
    );
    assert_eq!(machine.calls(), ["apt-get -y -q install --no-install-recommends flex"]);
}

#[test]
fn lists_are_fetched_once_where_apt_does_not_know_a_package() {
    let machine = Machine::new("no-lists", 0, "false");
    let output = machine.need(&["flex", "bison"]);
    assert!(output.status.success(), "{}", said(&output));
    let install = "apt-get -y -q install --no-install-recommends flex bison";
    assert_eq!(machine.calls(), ["apt-get -y -q update", install]);
}

#[test]
fn old_lists_are_fetched_anew_when_installing_fails() {
    let machine = Machine::new("old-lists", 0, "true");
    let called = machine.called();
    let fail_once = format!(
        "echo \"$3\" >>{0}; read -r first <{0}; [ \"$3\" = update ] && exit 0; [ -e {1} ] || {{ : >{1}; exit 100; }}",
        called.display(),
        machine.folder.join("tried").display()
    );
    machine.program("apt-get", &fail_once);
    let output = machine.need(&["flex"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(machine.calls(), ["install", "update", "install"]);
}

#[test]
fn without_root_and_sudo_it_says_what_to_run() {
    let machine = Machine::new("no-sudo", 1000, "true");
    let output = machine.need(&["flex"]);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.contains("you are not root and there is no sudo"), "{text}");
    assert!(text.contains("apt-get install --no-install-recommends flex"), "{text}");
    assert_eq!(machine.calls(), Vec::<String>::new());
}

#[test]
fn a_sudo_that_wants_a_password_where_nobody_can_type_is_not_waited_for() {
    let machine = Machine::new("sudo-asks", 1000, "true");
    machine.program("sudo", "[ \"$1\" = -n ] && exit 1; exec \"$@\"");
    let output = machine.need(&["flex"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("no terminal"), "{}", said(&output));
    machine.program("sudo", "[ \"$1\" = -n ] && shift; [ \"$1\" = true ] && exit 0; exec \"$@\"");
    assert!(machine.need(&["flex"]).status.success(), "a sudo without a password is used");
    assert_eq!(machine.calls().len(), 1);
}

#[test]
fn elsewhere_than_on_debian_it_says_what_is_needed_and_goes_on() {
    let machine = Machine::new("no-debian", 0, "true");
    std::fs::remove_file(machine.folder.join("apt-get")).expect("it was there");
    let output = machine.need(&["flex"]);
    assert!(output.status.success());
    assert!(
        said(&output).contains("no Debian system") && said(&output).contains("flex"),
        "{}",
        said(&output)
    );
}
