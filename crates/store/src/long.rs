//! Turning a long journal of packets into a table without holding it in memory.
//!
//! ```text
//!   journal ──► packets ──► a window of them, sorted by time ──► the older half is written, again and again
//!           └─► all else (flows, queues, facts): little, collected as usual
//! ```
//!
//! Rows of several streams follow each other by time here, and not by stream as in other runs; what is read from the table is the
//! same.

use crate::data::{CellData, echo_order};
use crate::error::StoreError;
use crate::journal::{self, Course, Journal};
use crate::tables::Writers;
use quell_model::{CellId, EchoSample, Event};
use std::path::Path;

/// Packets that are held at once, some ten megabytes.
const WINDOW: usize = 1 << 16;

/// Reads a cell's journal: its packets go to the table at once, the rest is in what is returned. None when there is no journal.
pub(crate) fn echoes(
    path: &Path,
    cell: &CellId,
    tables: &mut Writers,
) -> Result<Option<Journal>, StoreError> {
    let mut window = Window::default();
    let mut rest = CellData::default();
    let course: Option<Course> = journal::walk(path, cell, |event| match event {
        Event::Echo { stream, samples } => {
            let index = window.index(stream);
            window.samples.extend(samples.into_iter().map(|s| (index, s)));
            if window.samples.len() >= WINDOW {
                window.write(WINDOW / 2, cell, tables)
            } else {
                Ok(())
            }
        }
        other => {
            rest.take(other);
            Ok(())
        }
    })?;
    let Some(course) = course else { return Ok(None) };
    window.write(usize::MAX, cell, tables)?;
    Ok(Some(Journal { data: rest.settled(), course }))
}

#[derive(Default)]
struct Window {
    names: Vec<String>,
    samples: Vec<(usize, EchoSample)>,
}

impl Window {
    fn index(&mut self, stream: String) -> usize {
        self.names.iter().position(|n| *n == stream).unwrap_or_else(|| {
            self.names.push(stream);
            self.names.len() - 1
        })
    }

    fn write(
        &mut self,
        most: usize,
        cell: &CellId,
        tables: &mut Writers,
    ) -> Result<(), StoreError> {
        let names = &self.names;
        self.samples.sort_by(|(a, x), (b, y)| {
            echo_order(x).cmp(&echo_order(y)).then_with(|| names[*a].cmp(&names[*b]))
        });
        let count = self.samples.len().min(most);
        let rows = self.samples[..count].iter().map(|(n, s)| (names[*n].as_str(), s));
        tables.append_echoes(cell, rows)?;
        self.samples.drain(..count);
        Ok(())
    }
}
