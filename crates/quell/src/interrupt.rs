//! Ctrl-C: the first time an orderly end, the second time the end.

use crate::failure::Failure;
use quell_sys::wait::Bell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The first signal rings the bell, the second ends the program.
pub fn listen(stop: &Arc<Bell>) -> Result<(), Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let bell = Arc::clone(stop);
        let registered =
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&asked)))
                // SAFETY: ringing is one write(2) to a descriptor that lives as long as the closure; that is async-signal-safe.
                .and_then(|_| unsafe {
                    signal_hook::low_level::register(signal, move || bell.ring())
                });
        registered.map_err(|e| Failure::system(format!("listening for signal {signal}: {e}")))?;
    }
    Ok(())
}
