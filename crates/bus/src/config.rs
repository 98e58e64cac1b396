//! Whose broker, and who one is there.

use std::path::{Path, PathBuf};

/// Bytes of a file with credentials.
const LONGEST: u64 = 4096;

#[derive(Debug, Clone)]
pub struct BusConfig {
    /// `nats://HOST[:PORT]`, or `tls://…`.
    pub url: String,
    /// Certificates of authorities (PEM), instead of the system's; also makes TLS a must.
    pub ca: Option<PathBuf>,
    pub credentials: Option<BusCredentials>,
    /// What the broker shows of this connection, of letters, digits, `-` and `_`.
    pub name: String,
    pub subscriptions: Subscriptions,
}

impl BusConfig {
    /// Where answers come: each has its own, so that nobody else may listen.
    pub(crate) fn inbox(&self) -> String {
        format!("_INBOX.{}", self.name)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Subscriptions {
    pub subjects: Vec<String>,
    /// Whether all keys are told, and each change of one. The bucket is made where there is none.
    pub keys: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub enum BusCredentials {
    /// The seed of an Ed25519 key: `SU…`.
    Nkey(String),
    Password {
        user: String,
        password: String,
    },
}

impl std::fmt::Debug for BusCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.who())
    }
}

/// A user's key that nobody else has, and the name under which a broker's configuration knows it: `U…`.
pub fn new_nkey() -> Result<(BusCredentials, String), String> {
    let key = nkeys::KeyPair::new_user();
    let seed = key.seed().map_err(|error| format!("could not make an nkey: {error}"))?;
    Ok((BusCredentials::Nkey(seed), key.public_key()))
}

impl BusCredentials {
    /// The name under which a broker's configuration knows an nkey.
    pub fn public_key(&self) -> Result<String, String> {
        match self {
            Self::Nkey(seed) => nkeys::KeyPair::from_seed(seed)
                .map(|key| key.public_key())
                .map_err(|error| format!("this is no seed of an nkey: {error}")),
            Self::Password { user, .. } => Err(format!("user `{user}` has a password, no nkey")),
        }
    }

    /// As a file has it.
    pub fn text(&self) -> String {
        match self {
            Self::Nkey(seed) => format!("{seed}\n"),
            Self::Password { user, password } => format!("{user}\n{password}\n"),
        }
    }

    /// A file with an nkey's seed, or with a user's name in the first line and a password in the second. A `#` begins a remark.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let text = quell_sys::input::text(path, LONGEST).map_err(|error| {
            format!("could not read the credentials {}: {error}", path.display())
        })?;
        let mut lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        match (lines.next(), lines.next(), lines.next()) {
            (Some(seed), None, _) if seed.starts_with("SU") => Ok(Self::Nkey(seed.into())),
            (Some(user), Some(password), None) => {
                Ok(Self::Password { user: user.into(), password: password.into() })
            }
            _ => Err(format!(
                "{}: credentials are one line with an nkey's seed (SU…), or a user's name and a password in two",
                path.display()
            )),
        }
    }

    pub(crate) fn who(&self) -> String {
        match self {
            Self::Nkey(_) => "this nkey".into(),
            Self::Password { user, .. } => format!("user `{user}`"),
        }
    }
}
