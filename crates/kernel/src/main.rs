//! Builds the lab's kernel, or finds it, before there is a `quell`: `make demo` builds both side by side.

use quell_kernel::{KernelOptions, build};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut told = Duration::ZERO;
    let kernel = build(&KernelOptions::default(), &mut |progress| {
        // Every ten seconds: other programs write beside it.
        if progress.elapsed >= told {
            told = progress.elapsed + Duration::from_secs(10);
            eprintln!("lab kernel: {progress}");
        }
    })?;
    println!("{}", kernel.path.display());
    Ok(())
}
