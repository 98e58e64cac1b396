//! Tells the program what it is built from: the commit, the compiler, the target. Nothing of when or where, so that the same source gives the
//! same program.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=QUELL_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Who packs it from an archive says which commit that is of.
    let told = std::env::var("QUELL_COMMIT").ok().filter(|told| !told.is_empty());
    // Who builds again and again to try a change does not wait for this after each commit.
    let asks_git = std::env::var("PROFILE").as_deref() == Ok("release");
    let commit = told.or_else(|| asks_git.then(|| commit(&tree)).flatten()).unwrap_or_default();
    println!("cargo:rustc-env=QUELL_COMMIT={}", commit.lines().next().unwrap_or_default());
    println!("cargo:rustc-env=QUELL_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let compiler = answer(Command::new(rustc).arg("--version")).unwrap_or_default();
    println!("cargo:rustc-env=QUELL_COMPILER={compiler}");
}

/// The commit that is checked out, with its day, as `1234567890ab of 2026-11-23`; none outside of git.
fn commit(tree: &Path) -> Option<String> {
    let git = |words: &[&str]| answer(Command::new("git").arg("-C").arg(tree).args(words));
    // A tree without git inside of somebody else's repository is not of that repository.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != tree.canonicalize().ok()? {
        return None;
    }
    let folder = tree.join(git(&["rev-parse", "--git-dir"])?);
    for file in ["HEAD", "logs/HEAD", "index"] {
        println!("cargo:rerun-if-changed={}", folder.join(file).display());
    }
    for member in std::fs::read_dir(tree.join("crates")).into_iter().flatten().flatten() {
        println!("cargo:rerun-if-changed={}", member.path().join("src").display());
    }
    let commit = git(&["log", "-1", "--format=%h of %cs", "--abbrev=12"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let changed = if changed.is_empty() { "" } else { ", with changes" };
    Some(format!("{commit}{changed}"))
}

/// What a program prints that ends well.
fn answer(command: &mut Command) -> Option<String> {
    // git would write the index to remember what it saw, and this would run again each time.
    let output = command.env("GIT_OPTIONAL_LOCKS", "0").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
