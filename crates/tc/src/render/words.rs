//! Words of a command.

use quell_units::Bytes;

/// A command's words so far.
pub(super) struct Words(pub(super) String);

impl Words {
    pub(super) fn put(&mut self, word: impl ToString) {
        self.0.push(' ');
        self.0.push_str(&word.to_string());
    }

    /// `name value`, if the option was given.
    pub(super) fn opt<T: ToString>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(name);
            self.put(value.to_string());
        }
    }

    pub(super) fn bytes(&mut self, name: &str, value: Option<Bytes>) {
        // Without a unit: tc's "kb" is 1024 bytes, people's is not.
        self.opt(name, value.map(Bytes::get));
    }

    /// A word for on and one for off.
    pub(super) fn flag(&mut self, on: &str, off: &str, value: Option<bool>) {
        match value {
            Some(true) => self.put(on),
            Some(false) if !off.is_empty() => self.put(off),
            _ => {}
        }
    }
}

/// A word that a shell takes as it is.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
