//! A page's test: its turn, and then, line by line, what this end sees of it. It ends when its connection does.
//!
//! ```text
//!   {"wait":3}                               three are before it
//!   {"test":"8f…","seconds":120,"uses":…}    its turn: the number of its test, and the numbers of the grade
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

/// Said with `Retry-After`: the page asks again by itself.
const WAIT_ELSEWHERE: &str =
    "busy: as many wait as may, of this address or network or in all; ask again in a few seconds";

pub fn test(
    talk: &mut Http1Connection<'_, '_>,
    half_open: Option<HalfOpen<'_>>,
) -> Result<(), ConnectionEnd> {
    let (web, guest) = (talk.web, talk.guest);
    let stop = web.hub.stop;
    let Some(standing) = web.tests.stand(guest.peer.ip())? else {
        let busy = super::route::WebAnswer::text(503, WAIT_ELSEWHERE);
        talk.answer(&busy.last(), false)?;
        return Ok(());
    };
    talk.send(&heading(200, "application/x-ndjson", None, true))?;
    let mut alarm = Alarm::new()?;
    let end_ns = monotonic_ns().saturating_add(WEB.patience_ns);
    let (test, number) = loop {
        standing.bell.silence();
        if let Some(turn) = standing.turn(guest.peer, &guest.stream)? {
            break turn;
        }
        talk.line(&json!({ "wait": standing.before() + 1 }))?;
        if half_open.as_ref().is_some_and(HalfOpen::lost) {
            return Err(ConnectionEnd::Crowded);
        }
        let now = monotonic_ns();
        if now >= end_ns {
            return Err(ConnectionEnd::Late);
        }
        alarm.set(Some(now.saturating_add(WEB.wait_ns)))?;
        let mut fds =
            [readable(&*standing.bell), readable(&guest.stream), readable(stop), readable(&alarm)];
        wait(&mut fds)?;
        match () {
            () if came(&fds[2]) => return Err(ConnectionEnd::Stopped),
            // It says nothing on this connection any more: it left.
            () if came(&fds[1]) => return Err(ConnectionEnd::Gone),
            () => {}
        }
    };
    let held = RunningTest { test };
    drop((standing, half_open));
    let test = &held.test;
    let began = monotonic_ns();
    let seconds = test.end_ns.saturating_sub(began) / 1_000_000_000;
    talk.line(&json!({
        "test": number, "seconds": seconds, "uses": REQUIREMENTS, "least_samples": LEAST_SAMPLES,
    }))?;
    let mut next = began;
    let mut still = Still { moved: 0, since_ns: began };
    loop {
        next = next.saturating_add(WEB.look_ns).max(monotonic_ns());
        alarm.set(Some(next.min(test.end_ns)))?;
        let mut fds = [readable(&guest.stream), readable(stop), readable(&alarm)];
        wait(&mut fds)?;
        let now = monotonic_ns();
        match () {
            () if came(&fds[1]) => return Err(ConnectionEnd::Stopped),
            () if came(&fds[0]) || now >= test.end_ns => return Err(ConnectionEnd::Gone),
            () => {}
        }
        // The page is there: its test stays even while it measures an idle line.
        test.moved().map_err(|_| ConnectionEnd::Crowded)?;
        let look = test.look();
        if still.for_ns(&look, now) >= WEB.still_ns && web.tests.is_awaited() {
            return Err(ConnectionEnd::Crowded);
        }
        talk.line(&seen(&look, now.saturating_sub(began)))?;
    }
}

/// Since when nothing moved.
struct Still {
    moved: u64,
    since_ns: u64,
}

impl Still {
    fn for_ns(&mut self, look: &KernelView, now: u64) -> u64 {
        let moved = look.sums.down.saturating_add(look.sums.up);
        if moved != self.moved {
            *self = Self { moved, since_ns: now };
        }
        now.saturating_sub(self.since_ns)
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

#[cfg(test)]
mod stories {
    use super::*;
    use crate::web::measurement::Sums;

    #[test]
    fn who_moves_nothing_is_still_and_who_moves_a_byte_is_not() {
        let look = |down, up| KernelView {
            sums: Sums { down, up, ..Sums::default() },
            ..KernelView::default()
        };
        let mut still = Still { moved: 0, since_ns: 1_000 };
        assert_eq!(still.for_ns(&look(0, 0), 1_000 + WEB.still_ns), WEB.still_ns);
        assert_eq!(still.for_ns(&look(0, 1), 2_000 + WEB.still_ns), 0);
        assert_eq!(still.for_ns(&look(0, 1), 2_500 + WEB.still_ns), 500);
        assert_eq!(still.for_ns(&look(7, 1), 3_000 + WEB.still_ns), 0);
    }
}
