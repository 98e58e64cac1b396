//! Names of agents, targets and classes: they become parts of paths and of subjects on the bus, so no path and no pattern is one.

/// Longest name, in bytes.
const LONGEST: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name: take 1 to {LONGEST} letters, digits, - and _, the first of them no -")]
pub struct NameError(pub String);

pub fn check_name(name: &str) -> Result<(), NameError> {
    let fits = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
    let is_name =
        (1..=LONGEST).contains(&name.len()) && name.bytes().all(fits) && !name.starts_with('-');
    if is_name { Ok(()) } else { Err(NameError(name.chars().take(LONGEST).collect())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_a_pattern_or_an_endless_name_is_none() {
        for good in ["fra", "ams-2", "Home_1", "7", &"x".repeat(63)] {
            assert_eq!(check_name(good), Ok(()));
        }
        for bad in ["", "..", "a/b", "a.b", "*", ">", "a b", "-v", "ü", "a\n", &"x".repeat(64)] {
            let why = check_name(bad).expect_err(bad).to_string();
            assert!(why.len() < 400 && why.contains("letters, digits"), "{why}");
        }
    }
}
