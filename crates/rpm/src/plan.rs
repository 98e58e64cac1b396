//! What `quell rpm` is asked to do.

use quell_wire::auth::Secret;
use std::net::SocketAddr;

/// What to measure.
#[derive(Debug, Clone)]
pub struct RpmPlan {
    /// Where the server is.
    pub to: SocketAddr,
    /// How it is named in a request.
    pub authority: String,
    /// What its owner shares with us.
    pub secret: Option<Secret>,
    /// Most intervals of a second for each direction.
    pub most: usize,
}
