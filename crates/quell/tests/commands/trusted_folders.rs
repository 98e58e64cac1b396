//! Root, where another user was first: what he made is not used, and it is said what to do.

use crate::support::cable::{Cable, wide};
use crate::support::{TestFolder, left_out, said, says};
use nix::sys::stat::{Mode, umask};
use nix::unistd::mkfifo;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Who is on this machine too.
const OTHER: u32 = 4711;

/// What the other user does, in a folder in which everybody may make names, as /tmp.
fn other_does(dir: &TestFolder, script: &str) {
    std::fs::set_permissions(dir.path("."), Permissions::from_mode(0o1777)).unwrap();
    let done = Command::new("sh")
        .args(["-c", script])
        .current_dir(dir.path("."))
        .uid(OTHER)
        .gid(OTHER)
        .status();
    assert!(done.unwrap().success(), "{script}");
}

fn only_root_can_be_betrayed() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        left_out::for_want_of("only root starts a process of another user");
    }
    root
}

#[test]
fn runs_kernels_and_undo_logs_of_another_user_are_not_used() {
    if !only_root_can_be_betrayed() {
        return;
    }
    let dir = TestFolder::new();
    std::fs::create_dir(dir.path("mine")).unwrap();
    other_does(
        &dir,
        "mkdir runs state cache; mkdir cache/kernel; ln -s mine link; printf forged > state/1-eth0.undo",
    );
    for (arguments, folder) in [
        (&["ping", "127.0.0.1", "-c", "1", "--save", "--out", "runs"][..], "runs"),
        (&["ping", "127.0.0.1", "-c", "1", "--save", "--out", "link/runs"], "link"),
        (&["shape", "status", "--state", "state"], "state"),
        (&["shape", "recover", "--state", "state"], "state"),
        (&["tune", "status", "--root", "state"], "state"),
    ] {
        let error = dir.quell(arguments).refused(3);
        let whose = format!("{folder} belongs to another user (uid {OTHER})");
        says(&error, &[&whose, "take a folder of your own"]);
    }
    assert_eq!(std::fs::read_dir(dir.path("mine")).unwrap().count(), 0);

    // Root makes the folder his own, and not what is in it.
    let net = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
    let own = Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path("state"), own).unwrap();
    chown(dir.path("state"), Some(0), Some(0)).unwrap();
    let log = dir.path(&format!("state/{net}-eth0.undo"));
    std::fs::rename(dir.path("state/1-eth0.undo"), &log).unwrap();
    for command in [["shape", "status"], ["tune", "revert"]] {
        let error = dir.quell(&[command, ["--state", "state"]].concat()).refused(3);
        says(&error, &[&format!("undo belongs to another user (uid {OTHER})")]);
    }
    std::fs::remove_file(&log).unwrap();
    mkfifo(&log, Mode::S_IRWXU).unwrap();
    says(&dir.quell(&["shape", "status", "--state", "state"]).refused(3), &["no regular file"]);
    std::fs::remove_file(&log).unwrap();

    let build = ["lab", "kernel", "build"];
    let mut command = dir.command(&build);
    command.env("QUELL_CACHE", dir.path("cache"));
    says(&said(command, &build).refused(3), &["cache belongs to another user"]);
}

#[test]
fn a_root_unit_starts_no_program_that_others_could_replace_and_nobody_else_writes_it() {
    let cable = Cable::new();
    cable.dir.write("t.toml", wide(2, "1Mbit"));
    std::fs::create_dir_all(cable.dir.path("root/etc")).unwrap();
    std::fs::create_dir(cable.dir.path("open")).unwrap();
    cable.shape(&["apply", "--dev", "a0", "--tree", "t.toml", "--confirm-within", "never"]).fine();
    let persist = ["shape", "persist", "--dev", "a0", "--root", "root", "--state", "state"];
    let call = |program: &Path| {
        let mut command = Command::new(program);
        command.args(persist).current_dir(cable.dir.path("."));
        // SAFETY: umask(2) is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                umask(Mode::empty());
                Ok(())
            })
        };
        cable.here.run(|| said(command, &persist)).unwrap()
    };
    let copy = cable.dir.path("open/quell");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_quell")).arg(&copy).status();
    assert!(copied.unwrap().success());
    for mode in [0o777, 0o1777] {
        std::fs::set_permissions(cable.dir.path("open"), Permissions::from_mode(mode)).unwrap();
        let error = call(&copy).refused(1);
        says(&error, &["other users may write to", "install it first, as /usr/local/bin/quell"]);
    }
    let units = cable.dir.path("root/etc/systemd/system");
    assert!(!units.exists());
    call(Path::new(env!("CARGO_BIN_EXE_quell"))).fine();
    for (path, mode) in [(units.join("quell-shape@.service"), 0o644), (units, 0o755)] {
        let made = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(made, mode, "{}: {made:o}", path.display());
    }
}
