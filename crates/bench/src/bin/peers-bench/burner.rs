//! Keeps a CPU busy, for so long and no longer.

use crate::place::{End, Place};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Burners for all CPUs; they end when this is dropped, or by themselves.
pub struct Burners(Vec<Child>);

/// The longest that a burner lives.
const LONGEST_S: u64 = 20;

impl Burners {
    /// One for each CPU.
    pub fn start(place: &Place) -> Result<Self, String> {
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let mut burners = Self(Vec::new());
        for _ in 0..count {
            let mut command = Command::new(&me);
            command.args(["burn", &LONGEST_S.to_string()]).stdin(Stdio::null());
            burners.0.push(place.start(End::Far, &mut command)?);
        }
        Ok(burners)
    }

    /// Ends them. Their CPU time goes to nobody's account: they are waited for here.
    pub fn end(self) {}
}

impl Drop for Burners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The process: the argument is how many seconds it lives.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let seconds = arguments.first().and_then(|a| a.parse().ok()).unwrap_or(1).min(LONGEST_S);
    let (begun, life) = (Instant::now(), Duration::from_secs(seconds));
    let mut state = 1u64;
    while begun.elapsed() < life {
        for _ in 0..1_000_000 {
            state =
                std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
    Ok(())
}
