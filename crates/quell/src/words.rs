//! A command that an option takes as one text: its words, quoted as in a shell, which is not asked.

use crate::failure::Failure;

/// The words of `text`; quotes and backslashes keep blanks together, as POSIX has it for a shell. Nothing is expanded.
pub fn words(option: &str, text: &str) -> Result<Vec<String>, Failure> {
    let words = shlex::split(text).ok_or_else(|| {
        Failure::usage(format!("{option} \"{text}\": a quote is open at its end"))
    })?;
    if words.is_empty() {
        return Err(Failure::usage(format!("{option} \"{text}\" names no program")));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn quotes_keep_blanks_together() {
        let read = |text| words("--during", text).ok();
        let wanted = ["sh", "-c", "one two; three", "it's"].map(str::to_owned).to_vec();
        assert_eq!(read(r#"sh  -c 'one two; three' "it's""#), Some(wanted));
        assert_eq!(read("sh -c 'one"), None);
        assert_eq!(read("  "), None);
    }
}
