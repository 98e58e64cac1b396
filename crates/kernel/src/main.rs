//! Finds the lab's kernel, or builds it, before there is a `quell`: `tools/quick` builds both side by side. With `--find` nothing is built.

use quell_kernel::{KernelOptions, build, find};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = KernelOptions::default();
    let mut arguments = std::env::args().skip(1);
    let mut only_find = false;
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--find" => only_find = true,
            "--source" => options.source = arguments.next().map(Into::into),
            "--version" => options.series = arguments.next().map(|s| s.parse()).transpose()?,
            _ => {
                return Err(
                    format!("{name} is not --find, --source PATH or --version SERIES").into()
                );
            }
        }
    }
    match find(&options) {
        Err(error) if only_find => return Err(error.into()),
        Err(_) => {}
        Ok(kernel) => {
            println!("{}", kernel.path.display());
            return Ok(());
        }
    }
    let mut next = Duration::ZERO;
    let kernel = build(&options, &mut |progress| {
        // Every ten seconds: another program writes beside it.
        if progress.elapsed >= next {
            next = progress.elapsed + Duration::from_secs(10);
            eprintln!("   Lab kernel {progress}");
        }
    })?;
    println!("{}", kernel.path.display());
    Ok(())
}
