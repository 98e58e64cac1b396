//! Ctrl-C: the first time an orderly end, the second time the end. Other signals ask for an orderly end each time: timeout(1) sends
//! two at once. A terminal that goes away is no signal for what was started with nohup(1).

use crate::failure::Failure;
use quell_sys::wait::Bell;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A bell that the first signal rings, as [`listen`] has it.
pub fn bell() -> Result<Arc<Bell>, Failure> {
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    listen(&stop)?;
    Ok(stop)
}

/// The first signal rings the bell; Ctrl-C after that ends the program.
pub fn listen(stop: &Arc<Bell>) -> Result<(), Failure> {
    listen_to(&[SIGINT, SIGTERM, SIGHUP], stop)
}

/// As [`listen`], for what has an orderly end that can't take long: Ctrl-C again asks for the same.
pub fn listen_patiently(stop: &Arc<Bell>) -> Result<(), Failure> {
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| !stays_ignored(*s)) {
        ring_on(signal, stop).map_err(|e| failed(signal, &e))?;
    }
    Ok(())
}

/// As [`listen`], without Ctrl-C, which is for the program that shares our terminal; but it does not end us either.
pub fn listen_beside_terminal(stop: &Arc<Bell>) -> Result<(), Failure> {
    let ignored = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, ignored).map_err(|e| failed(SIGINT, &e))?;
    listen_to(&[SIGTERM, SIGHUP], stop)
}

fn listen_to(signals: &[i32], stop: &Arc<Bell>) -> Result<(), Failure> {
    let asked = Arc::new(AtomicBool::new(false));
    for &signal in signals.iter().filter(|s| !stays_ignored(**s)) {
        let at_once = |asked| match signal {
            SIGINT => {
                signal_hook::flag::register_conditional_shutdown(signal, 130, asked).map(|_| ())
            }
            _ => Ok(()),
        };
        let registered = at_once(Arc::clone(&asked))
            .and_then(|()| signal_hook::flag::register(signal, Arc::clone(&asked)))
            .and_then(|_| ring_on(signal, stop));
        registered.map_err(|e| failed(signal, &e))?;
    }
    Ok(())
}

fn ring_on(signal: i32, bell: &Arc<Bell>) -> std::io::Result<()> {
    let bell = Arc::clone(bell);
    // SAFETY: ringing is one write(2) to a descriptor that lives as long as the closure; that is async-signal-safe.
    unsafe { signal_hook::low_level::register(signal, move || bell.ring()) }.map(|_| ())
}

fn failed(signal: i32, error: &std::io::Error) -> Failure {
    Failure::system(format!("listening for signal {signal}: {error}"))
}

/// Whether it was ignored when this program was started, as SIGHUP with nohup(1): then it stays so. From `SigIgn` (proc(5)). Ctrl-C always
/// counts: a shell without job control ignores it for all that it puts in the background, and kill(1) may then still mean it.
fn stays_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    signal == SIGHUP && mask >> (signal - 1) & 1 == 1
}
