//! What the hellos of a test's UDP streams carry, so that no stranger's are taken for them.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use std::fmt;
use subtle::ConstantTimeEq;

pub const TOKEN: usize = 16;

/// Random bytes of one test. The client says them in its parameters, as hexadecimal digits; then each hello and each answer to one carries them.
/// They are secrets: comparing takes the same time wherever the first difference is, and nothing prints them.
#[derive(Clone, Copy)]
pub struct HelloToken([u8; TOKEN]);

impl HelloToken {
    /// Of these bytes, which nobody can foresee.
    pub const fn new(bytes: [u8; TOKEN]) -> Self {
        Self(bytes)
    }

    pub fn bytes(&self) -> &[u8; TOKEN] {
        &self.0
    }

    /// From its digits; none unless it is all of them.
    fn parse(text: &str) -> Option<Self> {
        let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|n| u8::try_from(n).ok());
        let mut bytes = [0; TOKEN];
        let pairs = text.as_bytes().chunks_exact(2);
        if text.len() != 2 * TOKEN {
            return None;
        }
        for (to, pair) in bytes.iter_mut().zip(pairs) {
            *to = digit(&pair[0])? << 4 | digit(&pair[1])?;
        }
        Some(Self(bytes))
    }
}

impl PartialEq for HelloToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for HelloToken {}

impl fmt::Debug for HelloToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HelloToken(…)")
    }
}

impl Serialize for HelloToken {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        to.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for HelloToken {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| {
            D::Error::custom(format!("a token has {} hexadecimal digits", 2 * TOKEN))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_out_as_it_went_in_and_what_is_none_is_refused() {
        let token = HelloToken::new(std::array::from_fn(|n| 0xf0 | n as u8));
        let text = serde_json::to_string(&token).unwrap();
        assert_eq!(text, r#""f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff""#);
        assert_eq!(serde_json::from_str::<HelloToken>(&text).unwrap(), token);
        assert_eq!(format!("{token:?}"), "HelloToken(…)");
        let short = "7".repeat(31);
        for wrong in [
            String::new(),
            short.clone(),
            short.clone() + "77",
            short.clone() + "g",
            "é".repeat(16),
        ] {
            assert!(
                serde_json::from_str::<HelloToken>(&format!("\"{wrong}\"")).is_err(),
                "{wrong}"
            );
        }
    }
}
