//! How long a change waits to be confirmed, before it is taken back.

use quell_units::Span;

/// How long a change waits to be confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    Never,
    Within(Span),
}

/// Over ssh a change is taken back after this time, unless it is confirmed or said otherwise.
const OVER_SSH: Span = Span::from_secs(60);

impl Patience {
    /// What was asked for, or else what is usual: over ssh nobody may be able to come back, and elsewhere somebody is there.
    pub fn or_usual(asked: Option<Patience>, is_over_ssh: impl FnOnce() -> bool) -> Self {
        match asked {
            Some(asked) => asked,
            None if is_over_ssh() => Patience::Within(OVER_SSH),
            None => Patience::Never,
        }
    }

    pub fn span(self) -> Option<Span> {
        match self {
            Patience::Never => None,
            Patience::Within(span) => Some(span),
        }
    }
}

/// It as it is typed: a time, or `never`.
pub fn patience(text: &str) -> Result<Patience, String> {
    if text == "never" {
        return Ok(Patience::Never);
    }
    let span: Span =
        text.parse().map_err(|_| format!("`{text}`: give a time as 60s, or `never`"))?;
    if span.nanos() < 1_000_000_000 {
        return Err("nobody confirms in less than a second".to_owned());
    }
    Ok(Patience::Within(span))
}

/// Whether a network carries what is typed here. `sudo` hides the variable, but not the processes above.
pub fn is_over_ssh() -> bool {
    let mut pid = std::process::id().to_string();
    let mut server_above = || {
        // As deep as any shell in a shell; a ring can't be.
        for _ in 0..64 {
            let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { break };
            // The name stands in brackets and may have any character in it.
            let Some((head, rest)) = stat.rsplit_once(')') else { break };
            let name = head.split_once('(').map_or("", |(_, name)| name);
            if ["sshd", "dropbear", "mosh-server"].iter().any(|server| name.starts_with(server)) {
                return true;
            }
            let Some(parent) = rest.split_whitespace().nth(1) else { break };
            pid = parent.to_owned();
        }
        false
    };
    std::env::var_os("SSH_CONNECTION").is_some() || server_above()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_ssh_a_change_is_to_be_confirmed_within_a_minute_where_nothing_else_is_said() {
        let minute = Patience::Within(Span::from_secs(60));
        assert_eq!(Patience::or_usual(None, || true), minute);
        assert_eq!(Patience::or_usual(None, || false), Patience::Never);
        // What was said holds, wherever one is.
        let never = patience("never").expect("a word");
        assert_eq!(Patience::or_usual(Some(never), || panic!("asked")), Patience::Never);
        let said = Some(patience("5s").expect("a time"));
        assert_eq!(
            Patience::or_usual(said, || panic!("asked")),
            Patience::Within(Span::from_secs(5))
        );
    }
}
