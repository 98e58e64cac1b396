//! What went wrong with a broker, for a person: what was tried, where, what it answered, what to do.

use crate::{BusConfig, OLDEST};
use async_nats::{ConnectError, ConnectErrorKind};
use std::error::Error;

pub(crate) struct Refusal<'a> {
    config: &'a BusConfig,
}

/// What an error says, and those from which it comes, each once.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let said = source.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = source.source();
    }
    text
}

/// The first two numbers of a version.
pub(crate) fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

impl<'a> Refusal<'a> {
    pub fn of(config: &'a BusConfig) -> Self {
        Self { config }
    }

    pub fn connecting(&self, error: &ConnectError) -> String {
        let url = &self.config.url;
        let why = error.source().map(chain).unwrap_or_default();
        let who =
            self.config.credentials.as_ref().map_or("who has no credentials".into(), |c| c.who());
        match error.kind() {
            ConnectErrorKind::ServerParse => {
                format!("{url} is no broker's address; write nats://HOST:PORT or tls://HOST:PORT")
            }
            ConnectErrorKind::Dns => format!("{url}: the host has no address ({why})"),
            ConnectErrorKind::AuthorizationViolation => {
                format!(
                    "{url} refuses {who}; see its configuration, which `quell mesh rights` writes"
                )
            }
            ConnectErrorKind::Authentication => {
                format!("{url}: the nkey's seed can't be used ({why})")
            }
            ConnectErrorKind::TimedOut => format!("{url} does not answer within 5 s"),
            _ if why.contains("certificate") || why.contains("Certificate") => format!(
                "{url} shows a certificate that is not believed ({why}); --ca FILE names whose are"
            ),
            ConnectErrorKind::Tls => format!("{url}: TLS does not come about ({why})"),
            _ if why.contains("expected INFO") => {
                format!("{url}: who answers there is no nats-server ({why})")
            }
            _ => format!("{url} can't be reached ({why})"),
        }
    }

    pub fn too_old(&self, version: &str) -> String {
        let (major, minor) = OLDEST;
        format!(
            "{} is nats-server {version}; {major}.{minor} is the oldest that will do",
            self.config.url
        )
    }

    pub fn no_jetstream(&self) -> String {
        format!(
            "{} runs without JetStream, in which plans are kept; write `jetstream {{}}` into its configuration",
            self.config.url
        )
    }

    pub fn slow(&self, what: &str) -> String {
        format!(
            "{} takes longer than 5 s to {what}: it is overloaded, or its disk is",
            self.config.url
        )
    }

    pub fn gone(&self) -> String {
        format!("the connection to {} broke", self.config.url)
    }

    pub fn refused(&self, error: &dyn std::fmt::Display) -> String {
        format!("{}: {error}", self.config.url)
    }
}
