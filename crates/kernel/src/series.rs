//! The series of kernels that a lab can be built from: of each Debian's package with its source, and the edits that fit it.
//!
//! What an edit does is the same in each; where the source reads otherwise, the series has a file of its own.

use std::path::PathBuf;

/// A file of edits: its name and its text.
macro_rules! edits {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../edits/", $name)))),*]
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Series {
    /// Linux 6.1, Debian 12's own.
    #[default]
    V6_1,
    /// Linux 6.12, Debian 13's own, which Debian 12 has too.
    V6_12,
}

impl Series {
    pub const ALL: [Series; 2] = [Series::V6_1, Series::V6_12];

    pub fn name(self) -> &'static str {
        match self {
            Series::V6_1 => "6.1",
            Series::V6_12 => "6.12",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|series| series.name() == name)
    }

    /// The series that a version is of, as 6.12.117; what is of none is taken for the usual one, whose edits then fit or not.
    pub(crate) fn of(version: &str) -> Self {
        let is = |series: &Series| match version.strip_prefix(series.name()) {
            Some(rest) => !rest.starts_with(|c: char| c.is_ascii_digit()),
            None => false,
        };
        Self::ALL.into_iter().find(is).unwrap_or_default()
    }

    pub fn package(self) -> &'static str {
        match self {
            Series::V6_1 => "linux-source-6.1",
            Series::V6_12 => "linux-source-6.12",
        }
    }

    pub(crate) fn source(self) -> PathBuf {
        PathBuf::from(format!("/usr/src/{}.tar.xz", self.package()))
    }

    /// Files of edits, by name, in the order in which they are applied. `speed.edit` and `calls.edit`, which make a guest's system calls
    /// cheaper, were written for 6.1 and don't fit 6.12: a guest of it is slower, and nothing that is measured in virtual time knows it.
    pub(crate) fn edits(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Series::V6_1 => edits!(
                "clock.edit" "seeded.edit" "end-together.edit" "no-traces.edit" "last-words.edit" "wide-registers.edit"
                "memory.edit" "speed.edit" "calls.edit" "read-on.edit" "drops.edit"
                "line.edit"
            ),
            Series::V6_12 => edits!(
                "clock.edit" "seeded.edit" "6.12/end-together.edit" "no-traces.edit" "6.12/last-words.edit"
                "wide-registers.edit" "memory.edit" "read-on.edit" "drops.edit" "line.edit"
            ),
        }
    }
}

impl std::str::FromStr for Series {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(" and ");
        Self::named(name).ok_or_else(|| format!("the lab is built from Linux {}", names()))
    }
}

impl std::fmt::Display for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_of_the_series_whose_whole_name_it_begins_with() {
        let series = ["6.1", "6.1.192", "6.12", "6.12.117-x", "6.18.4", "linux"].map(Series::of);
        use Series::{V6_1, V6_12};
        assert_eq!(series, [V6_1, V6_1, V6_12, V6_12, V6_1, V6_1]);
        assert_eq!("6.12".parse(), Ok(V6_12));
        assert!("6.2".parse::<Series>().is_err_and(|why| why.contains("6.1 and 6.12")));
    }
}
