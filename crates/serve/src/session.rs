//! One test of an iperf3 client or of `quell flow`, from cookie to results.
//!
//! ```text
//!   plan     what the client asks for, against the limits
//!   talk     the control connection
//!   streams  how they come
//!   lane     a stream: socket, thread, counts
//!   running  while data flows
//!   measured what is kept of that, and told meanwhile
//!   report   the results, for the client and for the log
//!
//!   admitted ─ parameters ─ streams come ─ data flows ─ TestEnd ─ results ─ done
//!                │             │              │           │          │
//!                └─────────────┴── client gone, too late, limit, stop ──► told, logged, everything given back
//! ```

mod lane;
mod measured;
mod plan;
mod report;
mod running;
mod streams;
mod talk;

use crate::event::{ServeEvent, Test, reason};
use crate::hub::{Accepted, Hub};
use crate::limits::{Full, lock};
use lane::ServedLane;
use measured::Measurement;
use plan::{Break, ServePlan};
use quell_sys::socket::option::set;
use quell_wire::iperf3::Cookie;
use running::{finish, measure};
use std::os::fd::AsFd;
use talk::ControlConnection;

/// Serves a test to its end; whether its data flowed.
pub fn run(hub: &Hub<'_>, guest: Accepted, cookie: Cookie) -> bool {
    let peer = guest.peer;
    let mut talk = match ControlConnection::new(&guest.stream, &hub.limits, hub.stop) {
        Ok(talk) => talk,
        Err(error) => {
            hub.refuse(peer, error);
            return false;
        }
    };
    let pass = match hub.begin(peer.ip(), &guest.stream, true) {
        Ok(pass) => pass,
        Err(full) => {
            talk.part(&Break::Busy(full.to_string()));
            hub.refuse(peer, full);
            return false;
        }
    };
    keep_alive(&guest);
    let ready = streams::prepare(hub, &guest, &mut talk, &pass, cookie);
    let (plan, rates, lanes) = match ready {
        Ok(ready) => ready,
        Err(why) => {
            let why = if pass.lost() { Break::Busy(Full::SentAway.to_string()) } else { why };
            talk.part(&why);
            hub.refuse(peer, why);
            return false;
        }
    };
    let (session, client, test) = (pass.number, peer, describe(&plan));
    let told = hub.tell_some(&ServeEvent::Began { session, client, test });
    let local = guest.stream.local().map(|local| local.ip());
    let mut measured = Measurement::new(&plan, local, &lanes);
    let result = measure(hub, (&guest, &pass), &mut talk, &plan, rates, &lanes, &mut measured);
    let outcome = report::outcome(&plan, &lanes, &measured);
    let result = result.and_then(|()| finish(&mut talk, &plan, &lanes, &mut measured));
    let result = result.map_err(|why| if pass.lost() { Break::Idle } else { why });
    if let Err(why) = &result {
        talk.part(why);
        // Its data connections break only when it has heard why.
        talk.await_end();
    }
    // Only now: the client reads its data connections until it has heard that all is over.
    lanes.iter().for_each(|lane| lane.abort());
    let broke = lanes.iter().find_map(ServedLane::broke).filter(|_| result.is_err());
    let why = result.err().map(|why| match broke {
        Some(error) => format!("{why}; {error}"),
        None => why.to_string(),
    });
    lock(&hub.counts).moved(&outcome);
    if told {
        let why = why.as_ref().map(reason);
        hub.tell(&ServeEvent::Ended { session: pass.number, client: peer, why, result: outcome });
    }
    true
}

/// Finds out that a client is gone without a word, where nothing else tells. Not within seconds: a path that is full of its data may take as long
/// for a probe, or lose nine of ten, and sixty of them in a row no more.
fn keep_alive(guest: &Accepted) {
    let fd = guest.stream.as_fd();
    for (level, name, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 5),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 2),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 60),
        // The client's data may fill the path: what we say shall not wait for more to say.
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
    ] {
        // Without it, the end of the test's time does the same.
        let _ = set(fd, level, name, value, "an option of the control connection");
    }
}

fn describe(plan: &ServePlan) -> Test {
    Test {
        protocol: if plan.udp { "udp" } else { "tcp" },
        direction: match (plan.up, plan.down) {
            (_, 0) => "up",
            (0, _) => "down",
            _ => "both",
        },
        streams: u32::try_from(plan.up.max(plan.down)).unwrap_or(u32::MAX),
        seconds: plan.time_ns.map(|ns| ns as f64 / 1e9),
        program: plan.program.clone(),
    }
}
