//! The page that measures from a browser, and the server side of draft-ietf-ippm-responsiveness, over HTTP on the server's own port.
//!
//! ```text
//!   admission ── GET, POST … ──► converse  heads, answers, one after the other; an unknown connection all the while
//!        ── TLS ────────► secure    HTTP/2: the draft's addresses alone; many requests at once (crowd: how many connections)
//!                                  │
//!                                route    what is asked for, by whom
//!                                  ├─► the page, small answers
//!                                  ├─► control   a page's test: what this end sees of it, line by line
//!                                  └─► carry     its data, down or up ──┐
//!                                tests    who measures  ◄─ a session's place, its rates, its time ┘
//! ```
//!
//! A page's test lives as long as its control connection: when a phone leaves, all that it had ends with that. A client of the draft has none;
//! its test lives as long as it moves data.

mod carry;
mod control;
mod converse;
mod http1;
mod http2;
mod measurement;
mod route;
mod secure_clients;

use crate::hub::Hub;
use crate::limits::{WEB, client, lock};
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_tls::identity::{Identity, Name};
use quell_tls::trust::{ServerCertificate, TrustError};
use quell_web::keys::{Keys, hex};
use quell_web::sent::SentResult;
use quell_wire::auth::Secret;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

pub use converse::{begins, converse};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebConfig {
    /// Names by which it may be asked for, beside addresses and names that lead nowhere outside.
    pub names: Vec<String>,
    /// What it shows over TLS; made on the spot where absent.
    pub shown: Option<ServerCertificate>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    #[error("{0}")]
    System(#[from] SysError),
    #[error("{0}")]
    Tls(#[from] TrustError),
}

pub struct Web<'h> {
    hub: &'h Hub<'h>,
    config: WebConfig,
    keys: Keys,
    tls: Arc<rustls::ServerConfig>,
    secure: secure_clients::SecureCrowd,
    tests: measurement::Tests<'h>,
    results: Mutex<VecDeque<(IpAddr, SentResult)>>,
}

impl<'h> Web<'h> {
    pub fn new(hub: &'h Hub<'h>, config: WebConfig, bind: IpAddr) -> Result<Self, WebError> {
        let own = hex(&quell_sys::secret::nonce()?);
        let own = Secret::parse(own.as_bytes()).expect("64 digits are no short secret");
        let shown = match &config.shown {
            Some(shown) => shown.clone(),
            None => on_the_spot(&config.names, bind)?,
        };
        let tls = quell_tls::trust::server(&shown)?;
        Ok(Self {
            hub,
            tls,
            secure: secure_clients::SecureCrowd::new(&hub.limits),
            config,
            keys: Keys::new(own),
            tests: measurement::Tests::new(hub),
            results: Mutex::default(),
        })
    }

    /// Keeps a result: the last eight of a client, and the last of all.
    fn keep(&self, ip: IpAddr, sent: SentResult) {
        let client = client(ip);
        let mut results = lock(&self.results);
        let of_one = results.iter().filter(|(ip, _)| *ip == client).count();
        let oldest = match of_one >= WEB.results_of_one {
            true => results.iter().position(|(ip, _)| *ip == client),
            false => (results.len() >= WEB.results).then_some(0),
        };
        oldest.and_then(|at| results.remove(at));
        results.push_back((client, sent));
    }

    fn results(&self) -> Vec<SentResult> {
        lock(&self.results).iter().map(|(_, sent)| sent.clone()).collect()
    }
}

/// A certificate that nobody vouches for, with a key that nobody knows.
fn on_the_spot(names: &[String], bind: IpAddr) -> Result<ServerCertificate, SysError> {
    let mut all: Vec<Name> = names.iter().cloned().map(Name::Dns).collect();
    if !bind.is_unspecified() {
        all.push(Name::Ip(bind));
    }
    all.push(Name::Dns("localhost".into()));
    Ok(Identity::new("quell serve", &all, &quell_sys::secret::nonce()?).shown())
}

fn now_s() -> u64 {
    monotonic_ns() / 1_000_000_000
}
