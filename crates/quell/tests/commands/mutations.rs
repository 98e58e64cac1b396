//! Files damaged at random: whatever stands in one, reading and checking it never panics, and an error always names something.

use quell_experiment::builtin;
use quell_experiment::spec::{check, load_file, set};

/// Enough randomness to damage files with (xorshift64*), the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        (drawn as usize) % limit.max(1)
    }
}

/// Reads and checks a text as the program does; the error, if there is one.
fn error_of(text: &str) -> Option<String> {
    match load_file::parse("my.toml", text) {
        Err(error) => Some(error.to_string()),
        Ok(experiment) => check::check(&experiment).err().map(|e| e.told("my.toml", text)),
    }
}

/// An error begins with the file's name and says more than that.
#[track_caller]
fn is_told_well(error: &str, text: &str) {
    for line in error.lines() {
        assert!(line.starts_with("my.toml"), "no file's name in {error:?} for\n{text}");
    }
    let why = error.split_once(": ").map_or("", |(_, why)| why);
    assert!(
        why.chars().filter(|c| c.is_alphabetic()).count() > 8,
        "{error:?} says nothing, for\n{text}"
    );
    assert!(error.len() < 20_000, "{} bytes of error for\n{text}", error.len());
}

/// Damages all built-in experiments; how many of the damaged ones were refused.
fn damage(seed: u64, times: usize, how: impl Fn(&mut Dice, &str) -> String) -> usize {
    let mut dice = Dice(seed);
    let mut refused = 0;
    for (_, original) in builtin::ALL {
        for _ in 0..times {
            let text = how(&mut dice, original);
            if let Some(error) = error_of(&text) {
                is_told_well(&error, &text);
                refused += 1;
            }
        }
    }
    refused
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[test]
fn without_a_line() {
    let refused = damage(1, 60, |dice, text| {
        let mut lines = lines(text);
        lines.remove(dice.below(lines.len()));
        lines.concat()
    });
    assert!(refused > 60, "many lines are needed, {refused} of 300");
}

#[test]
fn with_a_line_twice_or_in_another_place() {
    let refused = damage(2, 60, |dice, text| {
        let mut lines = lines(text);
        let line = lines[dice.below(lines.len())];
        lines.insert(dice.below(lines.len()), line);
        lines.concat()
    });
    assert!(refused > 100, "few lines can stand twice, {refused} of 300");
}

#[test]
fn with_two_lines_swapped() {
    damage(3, 40, |dice, text| {
        let mut lines = lines(text);
        let (a, b) = (dice.below(lines.len()), dice.below(lines.len()));
        lines.swap(a, b);
        lines.concat()
    });
}

#[test]
fn with_characters_changed() {
    let odd: Vec<char> = "\"'`[]{}=.,:#*±\\\n\0 -+_09azAZä🙂".chars().collect();
    damage(4, 80, |dice, text| {
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..=dice.below(3) {
            let at = dice.below(chars.len());
            match dice.below(3) {
                0 => chars[at] = odd[dice.below(odd.len())],
                1 => chars.insert(at, odd[dice.below(odd.len())]),
                _ => {
                    chars.remove(at);
                }
            }
        }
        chars.into_iter().collect()
    });
}

#[test]
fn with_other_values() {
    let odd = [
        "0",
        "-1",
        "1e308",
        "nan",
        "true",
        "\"\"",
        "\"0\"",
        "\"1\"",
        "[]",
        "[[]]",
        "{}",
        "\"*\"",
        "\"a.b.c\"",
        "\"1s\"",
        "\"18446744073709551615ns\"",
        "\"1bit\"",
        "\"99999Tbit\"",
        "\"0p\"",
        "\"100%\"",
        "9223372036854775807",
        "1979-05-27",
        "\"{server}\"",
        "[\"\"]",
        "[\"a\", \"a\"]",
        "{ kind = \"htb\" }",
        "\"router:\"",
        "\"😀\"",
    ];
    let refused = damage(5, 80, |dice, text| {
        let lines = lines(text);
        let keyed: Vec<usize> = (0..lines.len())
            .filter(|i| lines[*i].contains('=') && !lines[*i].starts_with('#'))
            .collect();
        let at = keyed[dice.below(keyed.len())];
        let key = lines[at].split('=').next().unwrap_or_default();
        let changed = format!("{key}= {}\n", odd[dice.below(odd.len())]);
        lines.iter().enumerate().map(|(i, l)| if i == at { changed.as_str() } else { l }).collect()
    });
    assert!(refused > 200, "few of these can be meant, {refused} of 400");
}

#[test]
fn cut_anywhere() {
    damage(6, 60, |dice, text| {
        let end = dice.below(text.len());
        let end = (0..=end).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text[..end].to_string()
    });
}

#[test]
fn changed_on_the_command_line() {
    let mut dice = Dice(7);
    let parts = [
        "topology", "link", "scenario", "probe", "load", "queue", "name", "0", "1", "99", "up",
        "rate", "expect", "dsl", "wan", "ping", "", "ä", "duration", "kind", "policy", "\"", " ",
    ];
    let values =
        ["", "1", "1Mbit", "[]", "{}", "[", "\"", "x", "0s", "{ a = 1 }", "=", "# x", "\n", "'''"];
    for _ in 0..400 {
        let path: Vec<&str> = (0..=dice.below(5)).map(|_| parts[dice.below(parts.len())]).collect();
        let change = format!("{}={}", path.join("."), values[dice.below(values.len())]);
        let (_, text) = builtin::ALL[dice.below(builtin::ALL.len())];
        match set::apply(text, std::slice::from_ref(&change)) {
            Err(error) => assert!(error.to_string().contains("--set"), "{error}"),
            Ok(text) => {
                if let Some(error) = error_of(&text) {
                    is_told_well(&error, &change);
                }
            }
        }
    }
}
