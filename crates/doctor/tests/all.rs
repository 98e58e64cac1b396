//! The checks against facts that no lab can make: recorded hosts, connections, both ends of a path.

#[path = "all/connections.rs"]
mod connections;
#[path = "all/host.rs"]
mod host;
#[path = "all/peer.rs"]
mod peer;
#[path = "all/recorded.rs"]
mod recorded;
