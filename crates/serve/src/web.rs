//! The page that measures from a browser, and the server side of draft-ietf-ippm-responsiveness, over HTTP on the server's own port.
//!
//! ```text
//!   admission ── GET, POST … ──► converse  heads, answers, one after the other; an unknown connection all the while
//!                                  │
//!                                route    what is asked for, by whom
//!                                  ├─► the page, small answers
//!                                  ├─► control   a page's test: its turn, then what this end sees of it, line by line
//!                                  └─► carry     its data, down or up ──┐
//!                                tests    who measures ◄─ a session's place, its rates, its time ┘
//! ```
//!
//! A page's test lives as long as its control connection: when a phone leaves, all that it had ends with that. A client of the draft has none;
//! its test lives as long as it moves data.

mod carry;
mod control;
mod converse;
mod route;
mod talk;
mod tests;

use crate::hub::Hub;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_web::keys::{Keys, hex};
use quell_web::sent::Sent;
use quell_wire::auth::Secret;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Mutex;
use tests::lock;

pub use converse::{begins, converse};

/// That there is to be a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebConfig {
    /// Names by which it may be asked for, beside addresses and names that lead nowhere outside.
    pub names: Vec<String>,
}

/// Results that are kept of what command lines sent.
const MOST_RESULTS: usize = 64;
/// Those of one client.
const MOST_OF_ONE: usize = 8;

/// What all browsers share.
pub struct Web<'h> {
    hub: &'h Hub<'h>,
    config: WebConfig,
    keys: Keys,
    tests: tests::Tests<'h>,
    results: Mutex<VecDeque<(IpAddr, Sent)>>,
}

impl<'h> Web<'h> {
    /// Nobody is there yet.
    pub fn new(hub: &'h Hub<'h>, config: WebConfig) -> Result<Self, SysError> {
        let own = hex(&quell_sys::secret::nonce()?);
        let own = Secret::parse(own.as_bytes()).expect("64 digits are no short secret");
        Ok(Self {
            hub,
            config,
            keys: Keys::new(own),
            tests: tests::Tests::new(hub),
            results: Mutex::default(),
        })
    }

    /// Keeps a result. The oldest of the same client goes first, then the oldest of all.
    fn keep(&self, ip: IpAddr, sent: Sent) {
        let client = crate::places::client(ip);
        let mut results = lock(&self.results);
        let of_one = results.iter().filter(|(ip, _)| *ip == client).count();
        let oldest = match () {
            () if of_one >= MOST_OF_ONE => results.iter().position(|(ip, _)| *ip == client),
            () if results.len() >= MOST_RESULTS => Some(0),
            () => None,
        };
        oldest.and_then(|at| results.remove(at));
        results.push_back((client, sent));
    }

    /// What command lines sent, the newest last.
    fn results(&self) -> Vec<Sent> {
        lock(&self.results).iter().map(|(_, sent)| sent.clone()).collect()
    }
}

/// Seconds of the clock that runs on.
fn now_s() -> u64 {
    monotonic_ns() / 1_000_000_000
}
