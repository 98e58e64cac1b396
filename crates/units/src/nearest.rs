//! "Did you mean": the nearest right word to a wrong one.

/// The word that was most likely meant; none where nothing is near.
pub fn nearest<'a>(wrong: &str, right: &[&'a str]) -> Option<&'a str> {
    right
        .iter()
        .map(|r| (strsim::damerau_levenshtein(wrong, r), *r))
        .filter(|(distance, r)| {
            let (length, longer) =
                (r.chars().count(), r.chars().count().max(wrong.chars().count()));
            // Words that share no letter, as two hosts `a` and `c`, are strangers however short they are.
            *distance <= 1 + length / 3 && *distance < longer
        })
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
        assert_eq!(nearest("c", &["a", "b"]), None, "one letter says nothing");
        assert_eq!(nearest("lan-", &["lan-a"]), Some("lan-a"));
        assert_eq!(hint("zebra", &["delay", "rate"]), "; there are: delay, rate");
    }
}
