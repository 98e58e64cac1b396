//! A page's test: line by line, what this end sees of it. It ends when its connection does.
//!
//! ```text
//!   {"test":"8f…","seconds":120,"uses":…}    the number of its test, and the numbers of the grade
//!   {"ms":250,"down":…,"up":…,"again":…}     four times a second: bytes, segments sent again, round-trip times
//! ```

use super::http1::{ConnectionEnd, Http1Connection, heading};
use super::measurement::{KernelView, RunningTest};
use crate::hub::HalfOpen;
use crate::limits::WEB;
use quell_grade::{LEAST_SAMPLES, REQUIREMENTS};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, came, readable, wait};
use serde_json::{Value, json};

pub fn test(
    talk: &mut Http1Connection<'_, '_>,
    half_open: Option<HalfOpen<'_>>,
) -> Result<(), ConnectionEnd> {
    let (web, guest) = (talk.web, talk.guest);
    let (test, number) = match web.tests.of_page(guest.peer, &guest.stream) {
        Ok(begun) => begun,
        // With `Retry-After`: the page asks again by itself.
        Err(full) => {
            return talk.answer(
                &super::route::WebAnswer::text(503, format!("busy: {full}")).last(),
                false,
            );
        }
    };
    let held = RunningTest { test };
    drop(half_open);
    let test = &held.test;
    talk.send(&heading(200, "application/x-ndjson", None, true))?;
    let began = monotonic_ns();
    let seconds = test.end_ns.saturating_sub(began) / 1_000_000_000;
    talk.line(&json!({
        "test": number, "seconds": seconds, "uses": REQUIREMENTS, "least_samples": LEAST_SAMPLES,
    }))?;
    let mut alarm = Alarm::new()?;
    let mut next = began;
    loop {
        next = next.saturating_add(WEB.look_ns).max(monotonic_ns());
        alarm.set(Some(next.min(test.end_ns)))?;
        let mut fds = [readable(&guest.stream), readable(web.hub.stop), readable(&alarm)];
        wait(&mut fds)?;
        let now = monotonic_ns();
        match () {
            () if came(&fds[1]) => return Err(ConnectionEnd::Stopped),
            // It says nothing on this connection any more: it left.
            () if came(&fds[0]) || now >= test.end_ns => return Err(ConnectionEnd::Gone),
            () if test.lost() => return Err(ConnectionEnd::Crowded),
            () => {}
        }
        talk.line(&seen(&test.look(), now.saturating_sub(began)))?;
    }
}

fn seen(look: &KernelView, ns: u64) -> Value {
    let ms = |us: f64| (us / 10.0).round() / 100.0;
    let mean = |all: &[u32]| all.iter().map(|us| f64::from(*us)).sum::<f64>() / all.len() as f64;
    json!({
        "ms": ns / 1_000_000,
        "down": look.sums.down,
        "up": look.sums.up,
        "again": look.sums.again,
        "disordered": look.sums.out_of_order,
        "rtt": (!look.rtts_us.is_empty()).then(|| ms(mean(&look.rtts_us))),
        "least": look.least_us.map(|us| ms(us.into())),
        "lines": look.lines,
    })
}

impl Http1Connection<'_, '_> {
    /// Sends a line as a chunk of its own (RFC 9112, section 7.1).
    fn line(&mut self, value: &Value) -> Result<(), ConnectionEnd> {
        let text = format!("{value}\n");
        self.send(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
    }
}
