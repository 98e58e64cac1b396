//! What `apply` found and what it set: a file that outlives the boot, so that `revert` can bring things back.

use serde::{Deserialize, Serialize};

/// Where it is, below the root.
pub const PLACE: &str = "var/lib/quell/tune.toml";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningRecord {
    pub version: u32,
    pub wanted: String,
    /// When, in seconds since 1970.
    pub at: u64,
    pub kernel: String,
    /// The file for the next boot, as it was written.
    pub file: String,
    #[serde(rename = "setting")]
    pub settings: Vec<Setting>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Its key, as net/ipv4/tcp_rmem.
    pub key: String,
    /// What it was before Quell, as the kernel wrote it.
    pub before: String,
    pub set: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("it is no record of `quell tune apply`: {0}")]
    Damaged(String),
    #[error(
        "it was written by a newer Quell (version {0} of the record; this one reads {VERSION})"
    )]
    Newer(u32),
}

pub(crate) const VERSION: u32 = 1;
const HEAD: &str = "# Written by `quell tune apply`, for `quell tune revert`.\n";

impl TuningRecord {
    pub fn text(&self) -> String {
        let body = toml::to_string(self).expect("strings and numbers, tables last, can be written");
        format!("{HEAD}{body}")
    }

    /// What a file holds.
    pub fn read(text: &str) -> Result<Self, RecordError> {
        let record: TuningRecord =
            toml::from_str(text).map_err(|e| RecordError::Damaged(e.message().to_owned()))?;
        match record.version {
            VERSION => Ok(record),
            newer => Err(RecordError::Newer(newer)),
        }
    }

    pub fn before(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|s| s.key == key).map(|s| s.before.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            (wanted, file) in ("\\PC{0,60}", "[ -~\n\t]{0,300}"),
            settings in proptest::collection::vec(("[a-z_/0-9]{1,30}", "[ -~\t]{0,20}", "[ -~]{0,20}"), 0..6),
        ) {
            let settings = settings.into_iter().map(|(key, before, set)| Setting { key, before, set });
            let record = TuningRecord { version: VERSION, wanted, at: 7, kernel: "6.1.0".into(), file, settings: settings.collect() };
            prop_assert_eq!(TuningRecord::read(&record.text()).expect("its own text"), record);
        }
    }

    #[test]
    fn what_is_cut_off_or_newer_is_refused() {
        let set = |key: &str| Setting { key: key.into(), before: "1\t2".into(), set: "3 4".into() };
        let record = TuningRecord {
            version: VERSION,
            wanted: "transfer".into(),
            at: 7,
            kernel: "6.1".into(),
            file: "#\n".into(),
            settings: vec![set("a/b")],
        };
        let whole = record.text();
        let newer = whole.replace("version = 1", "version = 2");
        assert!(TuningRecord::read(&newer).expect_err("newer").to_string().contains("newer Quell"));
        let cut = &whole[..whole.len() - 12];
        assert!(
            TuningRecord::read(cut).expect_err("cut").to_string().contains("no record"),
            "{cut}"
        );
        assert!(TuningRecord::read("").is_err());
    }
}
