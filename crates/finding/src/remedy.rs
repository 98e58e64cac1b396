//! What to do about a finding: typed where a program can do it, words where only a person can.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Remedy {
    Sysctl {
        /// As "net/ipv4/tcp_sack".
        key: String,
        value: String,
    },
    Offload {
        device: String,
        feature: String,
        on: bool,
    },
    /// Put another queue at a device's root.
    Queue {
        device: String,
        queue: String,
    },
    /// A command for something that Quell does not do itself.
    Command {
        line: String,
    },
    /// Something that only a person can do.
    Advice {
        /// In a sentence without its full stop.
        text: String,
    },
}

impl Remedy {
    pub fn sysctl(key: &str, value: impl Into<String>) -> Self {
        Self::Sysctl { key: key.into(), value: value.into() }
    }

    /// Something that only a person can do.
    pub fn advice(text: impl Into<String>) -> Self {
        Self::Advice { text: text.into() }
    }

    /// A command for something that Quell does not do itself.
    pub fn command(line: impl Into<String>) -> Self {
        Self::Command { line: line.into() }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl { key, value } => {
                // A part with a dot in it, as an interface's name, keeps its slashes.
                let key = if key.contains('.') { key.clone() } else { key.replace('/', ".") };
                match value.contains(' ') {
                    true => write!(f, "sysctl -w {key}=\"{value}\""),
                    false => write!(f, "sysctl -w {key}={value}"),
                }
            }
            Self::Offload { device, feature, on } => {
                write!(f, "ethtool -K {device} {feature} {}", if *on { "on" } else { "off" })
            }
            Self::Queue { device, queue } => {
                write!(f, "tc qdisc replace dev {device} root {queue}")
            }
            Self::Command { line } => f.write_str(line),
            Self::Advice { text } => f.write_str(text),
        }
    }
}
