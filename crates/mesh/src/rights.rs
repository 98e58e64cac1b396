//! What nats-server is to be told of a mesh: who is there, and what each may say and hear.
//!
//! An agent may speak on its own subject and hear its own answers, in which its plan is: so no other's rows are written and no other's plan is read. It may
//! ask nothing of JetStream: the broker writes the answer to whatever subject who asks names, also to one that deletes all plans.

use crate::messages::{from_agent, to_agent};

/// Whose credentials the collector and `quell mesh apply` have.
pub const HUB: &str = "hub";

/// Lines of nats-server's configuration, by the public nkey of the hub and of each agent: there is no secret in it.
pub fn server_config(hub: &str, agents: &[(String, String)]) -> String {
    let mut text = format!(
        "# nats-server's configuration, as quell mesh rights wrote it: nats-server -c nats-server.conf\n\
         listen: 0.0.0.0:4222\n\
         jetstream {{ store_dir: \"/var/lib/nats\", max_file: 256MB }}\n\
         # Agents and their hub dial in with TLS where this names a certificate and its key:\n\
         # tls {{ cert_file: \"/etc/nats/cert.pem\", key_file: \"/etc/nats/key.pem\" }}\n\
         authorization {{\n  users = [\n    {{ nkey: {hub} }}\n"
    );
    for (agent, key) in agents {
        let (from, to) = (from_agent(agent), to_agent(agent));
        text += &format!(
            "    {{ nkey: {key}, permissions: {{\n      \
             publish: [\"{from}\"], subscribe: [\"{to}\"] }} }}\n"
        );
    }
    text + "  ]\n}\n"
}
