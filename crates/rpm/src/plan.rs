//! What `quell flow --rpm` is asked to do.

use quell_tls::trust::Trust;
use quell_wire::auth::Secret;
use serde::Serialize;
use std::net::SocketAddr;

#[derive(Debug, Clone)]
pub struct RpmPlan {
    pub to: SocketAddr,
    pub authority: String,
    pub tls: bool,
    pub trust: Trust,
    /// What its owner shares with us.
    pub secret: Option<Secret>,
    /// Most intervals of a second for each direction.
    pub most: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadDirection {
    Down,
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
