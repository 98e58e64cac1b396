//! Builds the lab's kernel, or finds it, and says what is known of it. `quell kernel build` does the same with more comfort.

use quell_lab::kernel::{KernelOptions, build, info};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let force = std::env::args().any(|a| a == "--force");
    let options = KernelOptions { force, ..KernelOptions::default() };
    let mut told = -1;
    let kernel = build(&options, &mut |p| {
        let tenth = (p.fraction * 20.0) as i32;
        if tenth != told {
            told = tenth;
            let left = p.left.map(|l| format!(", {} s left", l.as_secs())).unwrap_or_default();
            eprintln!(
                "{}: {:.0} % after {} s{left}",
                p.phase,
                p.fraction * 100.0,
                p.elapsed.as_secs()
            );
        }
    })?;
    print!("{}", info(&kernel)?);
    Ok(())
}
