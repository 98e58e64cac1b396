//! Page loads in a real browser: Chromium is started, told to load a page, and asked what it waited for.
//!
//! ```text
//!   pure      waterfall   what the browser tells of its requests ──► a row each
//!             site        the lab's own page: a document, 60 objects, a script
//!             identity    its certificate, from a seed
//!             marks       what the page itself knows of its times
//!             loading     what is known of a load under way; where the page went by itself
//!   kernel    devtools    the protocol, over two pipes
//!             browser     the process: found, started, ended with all that it started
//!             profile     its folder, gone with it
//!             context     where pages are loaded, and how that is put away
//!             load        one page load
//!             server      serves the site over TLS: HTTP/1.1, or HTTP/2
//!             shown       which key a server shows
//!             script      how fast the browser's scripts are, with its compiler and without
//!   both      task        loads and server as tasks of an experiment
//! ```
//!
//! In virtual time a program's work takes no time: what a page load takes there is the network's share alone.

pub mod browser;
mod context;
pub mod devtools;
pub mod identity;
mod limits;
pub mod load;
mod loading;
mod marks;
mod plan;
mod profile;
mod run;
pub mod script;
pub mod server;
pub mod server_key;
pub mod site;
pub mod task;
pub mod waterfall;

pub use plan::{PagePlan, address};
pub use run::{PageReport, PageSeries, PageSink, ScriptSpeed, run};

use quell_store::StoreError;
use quell_sys::SysError;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    #[error("{0}")]
    NoBrowser(String),
    #[error("starting {}: {why}", .program.display())]
    Start { program: PathBuf, why: String },
    #[error("the browser ended while it was needed{0}")]
    Gone(String),
    #[error("the browser does not answer ({method}): it hangs, or this machine is far too busy")]
    Silent { method: String },
    #[error("the browser refuses {method}: {why}")]
    Refused { method: String, why: String },
    #[error("the browser says what is not the DevTools protocol: {0}")]
    Nonsense(String),
    #[error("{0}")]
    System(#[from] SysError),
    #[error("{0}")]
    Parameter(String),
    #[error("{0}")]
    UnknownKey(String),
    #[error("{0}")]
    Store(String),
    #[error("it was stopped")]
    Stopped,
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.to_string())
    }
}
