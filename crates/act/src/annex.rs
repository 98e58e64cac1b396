//! What of a recipe is too long to be written with each record: a file beside the log, there as long as a recipe of the log names it.
//!
//! ```text
//!   4026531840-eth0.undo ──recipe──► "…0d3fb1c2a4958677-612345…"
//!   4026531840-eth0.0d3fb1c2a4958677-612345.annex        named by what is in it, so that it never becomes another
//! ```

use crate::beside::{Beside, annexes, place};
use crate::log::Log;
use crate::{ActError, kernel};
use std::path::Path;

/// Such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annex {
    /// Its name, which the recipe must have in it.
    pub name: String,
    /// What is in it.
    pub content: String,
}

impl Annex {
    /// One with this in it.
    pub fn of(content: String) -> Self {
        let name = format!("{:016x}-{}", quell_tc::hash(content.bytes()), content.len());
        Annex { name, content }
    }

    /// Writes it beside a log. It is on disk when this returns.
    pub(crate) fn write(&self, log: &Path) -> Result<(), ActError> {
        let path = place(log, &self.name);
        if path.exists() {
            return Ok(());
        }
        let failed = |e| ActError::NoLog(format!("could not write {}: {e}", path.display()));
        kernel::put(&path, self.content.as_bytes(), 0o600).map_err(failed)
    }
}

impl Log {
    /// What is in an annex that the recipe names.
    ///
    /// # Errors
    /// It can't be read. Where it is not there, a later change may have taken it away: its log names another.
    pub fn annex(&self, name: &str) -> Result<String, ActError> {
        let path = place(self.path(), name);
        let failed = |e| ActError::Unread(format!("could not read {}: {e}", path.display()));
        std::fs::read_to_string(&path).map_err(failed)
    }

    /// Whether a recipe names it that is in force, or is again when this change is undone.
    fn names(&self, annex: &str) -> bool {
        let earlier = self.begun.earlier.as_ref().map(|earlier| &earlier.recipe);
        [Some(&self.begun.recipe), earlier].into_iter().flatten().any(|text| text.contains(annex))
    }
}

/// Takes away what no log of a namespace names any more. Nobody writes one while a change's lock is held.
pub(crate) fn sweep(folder: &Path, namespace: u64) {
    for Beside { path, log, name } in annexes(folder, namespace) {
        // One that can't be read may name it.
        let needed = Log::read(&log).map_or(true, |log| log.is_some_and(|log| log.names(&name)));
        if !needed {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Before, Begun, Who};

    /// The log of a change that was begun.
    fn log(folder: &Path, device: &str, recipe: &str, earlier: Option<&Log>) -> Log {
        let begun = Begun {
            boot: String::new(),
            namespace: 7,
            device: device.to_owned(),
            index: None,
            who: Who { pid: 1, command: String::new(), at: 0 },
            wanted: String::new(),
            recipe: recipe.to_owned(),
            earlier: earlier.map(|log| log.as_earlier(Clone::clone)),
            before: Before::default(),
            origin: None,
            steps: Vec::new(),
        };
        let log = Log::new(folder, begun, earlier);
        log.begin().expect("a log");
        log
    }

    #[test]
    fn an_annex_is_there_as_long_as_a_recipe_names_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let [one, two, three] = ["1", "2", "3"].map(|text| Annex::of(text.to_owned()));
        let named = |annex: &Annex| format!("its list is {}", annex.name);
        let first = log(folder, "eth0.7", &named(&one), None);
        // Nobody's: of an interface whose name the other's begins with, too.
        for at in [folder.join("7-eth0.undo"), first.path().to_owned()] {
            two.write(&at).expect("it is written");
        }
        one.write(first.path()).expect("it is written");
        one.write(first.path()).expect("a second time it is there");
        sweep(folder, 8);
        assert!(first.annex(&two.name).is_ok(), "another namespace's");
        sweep(folder, 7);
        assert_eq!(first.annex(&one.name).expect("it is named"), "1");
        assert!(first.annex(&two.name).is_err());
        assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 2);
        // What is in force again when a change is undone is needed as well.
        let mut second = log(folder, "eth0.7", &named(&three), Some(&first));
        three.write(second.path()).expect("it is written");
        sweep(folder, 7);
        assert!(second.annex(&one.name).is_ok() && second.annex(&three.name).is_ok());
        // A change of the recipe alone can't be undone.
        let who = Who { pid: 1, command: String::new(), at: 0 };
        second.restate(who, "other".into(), named(&three)).expect("it is written");
        let read = Log::read(second.path()).expect("it is whole").expect("it is there");
        assert_eq!(
            (read.begun.wanted.as_str(), read.standing),
            ("other", crate::Standing::Confirmed)
        );
        sweep(folder, 7);
        assert!(read.annex(&one.name).is_err() && read.annex(&three.name).is_ok());
        read.over().expect("it goes");
        assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 0);
    }
}
