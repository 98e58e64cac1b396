//! Compiles the programs of `src/bpf` with clang for the kernel's BPF machine.
//!
//! The object has types with it, without which the kernel takes no function apart from the others. They name source files, but relative to
//! their folder: the same sources and the same clang give the same bytes, wherever they lie.

use std::path::Path;
use std::process::Command;

fn main() {
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let target = match std::env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() {
        Ok("big") => "bpfeb",
        _ => "bpfel",
    };
    for source in ["classify.c", "roster.c", "round_trips.c"] {
        compile(&clang, target, source, &Path::new(&out).join(source).with_extension("o"));
    }
}

fn compile(clang: &str, target: &str, source: &str, object: &Path) {
    let mut command = Command::new(clang);
    // Version 3 has 32-bit jumps and compare-and-exchange; kernels have it since 5.12.
    command.args([&format!("--target={target}"), "-mcpu=v3", "-O2", "-Wall", "-Wextra", "-Werror"]);
    command.args(["-nostdinc", "-Wno-unused-const-variable", "-fno-ident"]);
    command.args(["-g", "-fdebug-compilation-dir=."]);
    command.current_dir("src/bpf").args(["-c", source, "-o"]).arg(object);
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            panic!("{clang} could not compile src/bpf/{source} for {target} ({status})")
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => panic!(
            "the compiler `{clang}` is missing, which compiles the classifier for the kernel: install the Debian \
             package clang (`make build` does), or name another one by CLANG=…"
        ),
        Err(error) => panic!("{clang} could not be started: {error}"),
    }
}
