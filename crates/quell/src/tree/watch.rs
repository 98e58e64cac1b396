//! Watching: read, wait, read again; what changed is shown per second, in place on a terminal.

use super::args::TreeArgs;
use super::source::{TreeSource, here, json_line, look};
use crate::failure::Failure;
use crate::pace::Pace;
use crate::screen;
use quell_hierarchy::{Hierarchy, change};
use quell_sys::clock::monotonic_ns;
use quell_treeview::text;
use quell_units::Span;
use std::process::ExitCode;

/// Two readings, so far apart.
pub(super) fn over(args: &TreeArgs, over: Span) -> Result<TreeSource, Failure> {
    let mut readings = Readings::new(args, over)?;
    readings.next()?;
    if !readings.pace.pause()? {
        return Err(Failure::check("it was stopped before the time was over"));
    }
    readings.next()
}

/// `--watch`: until Ctrl-C.
pub(super) fn watch(args: &TreeArgs, every: Span) -> Result<ExitCode, Failure> {
    let mut readings = Readings::new(args, every)?;
    let mut picture = screen::Screen::new();
    let in_place = screen::is_live() && !args.json.json;
    let mut found = readings.next()?;
    loop {
        if in_place {
            let (width, rows) = screen::size();
            let mut lines = text(&found.view(args), &look());
            if lines.len() >= rows.max(4) {
                let more = lines.len() + 2 - rows.max(4);
                lines.truncate(rows.max(4) - 2);
                lines
                    .push(format!("… {more} more lines: make the window higher, or name a device"));
            }
            screen::Screen::show(&picture.frame(&lines, width));
        } else if found.rates.is_some() {
            // The first reading has nothing to be held against.
            let shown = match args.json.json {
                true => json_line(&found.view(args)),
                false => text(&found.view(args), &look()).join("\n") + "\n\n",
            };
            let written = quell_sys::reader::print(std::io::stdout().lock(), shown.as_bytes());
            written.map_err(|e| Failure::system(format!("writing to standard output: {e}")))?;
        }
        if !readings.pace.pause()? {
            return Ok(ExitCode::SUCCESS);
        }
        found = readings.next()?;
    }
}

/// Readings, each with what changed since the one before.
struct Readings<'a> {
    args: &'a TreeArgs,
    pace: Pace,
    before: Option<(u64, Hierarchy)>,
}

impl<'a> Readings<'a> {
    fn new(args: &'a TreeArgs, every: Span) -> Result<Self, Failure> {
        Ok(Readings { args, pace: Pace::new(every)?, before: None })
    }

    fn next(&mut self) -> Result<TreeSource, Failure> {
        let mut found = here(self.args)?;
        let now = monotonic_ns();
        if let Some((then, before)) = &self.before {
            found.rates =
                Some(change(before, &found.hierarchy, now.saturating_sub(*then) as f64 / 1e9));
        }
        self.before = Some((now, found.hierarchy.clone()));
        Ok(found)
    }
}
