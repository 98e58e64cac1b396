//! One step on an interface.

use std::fmt;

use super::thing::{Place, Thing, words};

#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Makes something. A queue takes the place of the one that is there under another handle, in one go; that one goes with all below it.
    Make(Thing),
    /// Changes the options of something where it is, so that packets in it stay.
    Alter(Thing),
    /// Takes something off, with all below it; a filter without a name stands for all of its priority. In place of a root queue the kernel puts the device's default, in a class a FIFO.
    Remove {
        place: Place,
        /// Its kind, as the kernel spells it.
        kind: String,
    },
}

impl Change {
    /// What the change is about.
    pub fn place(&self) -> Place {
        match self {
            Change::Make(thing) | Change::Alter(thing) => thing.place(),
            Change::Remove { place, .. } => *place,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Make(thing) => write!(f, "make {thing}"),
            Change::Alter(thing) => write!(f, "change {thing}"),
            Change::Remove { place, kind } => {
                write!(f, "take {} off", words(place, kind))
            }
        }
    }
}
