//! What nats-server is to be told of a mesh: who is there, and what each may say and hear.
//!
//! An agent may speak on its own subject and hear its own answers, in which its plan is: so no other's rows are written and no other's plan is read. It may
//! ask nothing of JetStream: the broker writes the answer to whatever subject who asks names, also to one that deletes all plans.

use crate::messages::{from_agent, to_agent};

/// Whose credentials the collector and `quell mesh apply` have.
pub const HUB: &str = "hub";

/// nats-server's configuration, which whoever runs it may change; its users stand in a file of their own.
pub const SERVER_CONFIG: &str = "\
# nats-server's configuration, as quell mesh rights wrote it once: nats-server -c nats-server.conf
listen: 0.0.0.0:4222
jetstream { store_dir: \"/var/lib/nats\", max_file: 256MB }
# Agents and their hub dial in with TLS where this names a certificate and its key:
# tls { cert_file: \"/etc/nats/cert.pem\", key_file: \"/etc/nats/key.pem\" }
authorization {
  include users.conf
}
";

/// Its users, by the public nkey of the hub and of each agent: there is no secret in it.
pub fn users(hub: &str, agents: &[(String, String)]) -> String {
    let mut text =
        format!("# Written anew by each quell mesh rights.\nusers = [\n  {{ nkey: {hub} }}\n");
    for (agent, key) in agents {
        let (from, to) = (from_agent(agent), to_agent(agent));
        text += &format!(
            "  {{ nkey: {key}, permissions: {{\n    \
             publish: [\"{from}\"], subscribe: [\"{to}\"] }} }}\n"
        );
    }
    text + "]\n"
}
