//! "Did you mean": the nearest right word to a wrong one.

/// The word that was most likely meant; none where nothing is near.
pub fn nearest<'a>(wrong: &str, right: &[&'a str]) -> Option<&'a str> {
    right
        .iter()
        .map(|r| (strsim::damerau_levenshtein(wrong, r), *r))
        .filter(|(distance, r)| *distance <= 1 + r.chars().count() / 3)
        .min()
        .map(|(_, r)| r)
}

/// `; did you mean …?`, or the list of right words.
pub fn hint(wrong: &str, right: &[&str]) -> String {
    match nearest(wrong, right) {
        Some(word) => format!("; did you mean `{word}`?"),
        None if right.is_empty() => String::new(),
        None => format!("; there are: {}", right.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised_and_a_stranger_is_not() {
        assert_eq!(nearest("dealy", &["delay", "rate", "loss"]), Some("delay"));
        assert_eq!(nearest("zebra", &["delay", "rate", "loss"]), None);
        assert_eq!(hint("zebra", &["delay", "rate"]), "; there are: delay, rate");
    }
}
