//! How long a change waits to be confirmed.

use quell_units::Span;

/// How long a change waits to be confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It stays.
    Never,
    /// It is taken back then.
    Within(Span),
}

impl Patience {
    /// How long, where it is not for ever.
    pub fn span(self) -> Option<Span> {
        match self {
            Patience::Never => None,
            Patience::Within(span) => Some(span),
        }
    }
}

/// It as it is typed.
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
