//! What `quell rpm` is asked to do.

use quell_tls::trust::Trust;
use quell_wire::auth::Secret;
use serde::Serialize;
use std::net::SocketAddr;

/// What to measure.
#[derive(Debug, Clone)]
pub struct RpmPlan {
    /// Where the server is.
    pub to: SocketAddr,
    /// How it is named in a request.
    pub authority: String,
    /// Whether it is asked over TLS.
    pub tls: bool,
    /// Whose certificates are believed there.
    pub trust: Trust,
    /// What its owner shares with us.
    pub secret: Option<Secret>,
    /// Most intervals of a second for each direction.
    pub most: usize,
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadDirection {
    /// The server.
    Down,
    /// This end.
    Up,
}

impl LoadDirection {
    /// The word for it, in tables and names.
    pub fn name(self) -> &'static str {
        match self {
            LoadDirection::Down => "down",
            LoadDirection::Up => "up",
        }
    }
}
