//! What was read, and how standard output shows it.

use super::args::TreeArgs;
use crate::screen;
use crate::text::WIDEST;
use quell_hierarchy::{Hierarchy, PerSecond};
use quell_treeview::{Look, View};
use std::io::IsTerminal;

/// What was read, and what of it is asked for.
pub(crate) struct TreeSource {
    pub hierarchy: Hierarchy,
    pub only: Option<usize>,
    pub rates: Option<Vec<Vec<Option<PerSecond>>>>,
}

impl TreeSource {
    /// The same to be drawn.
    pub fn view<'a>(&'a self, args: &TreeArgs) -> View<'a> {
        View {
            hierarchy: &self.hierarchy,
            only: self.only,
            rates: self.rates.as_deref(),
            all: args.all,
            details: args.details,
        }
    }
}

/// How standard output shows it.
pub fn look() -> Look {
    let terminal = std::io::stdout().is_terminal();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    Look {
        width: if terminal { screen::size().0.min(WIDEST) } else { WIDEST },
        unicode: screen::unicode(),
        colour: screen::is_live() && !plain,
    }
}
