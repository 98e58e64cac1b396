//! What was read of queues, on this machine or elsewhere, and how standard output gets it.

use super::args::TreeArgs;
use crate::failure::Failure;
use crate::screen;
use crate::text::WIDEST;
use quell_hierarchy::{Hierarchy, PerSecond};
use quell_shaping::{classes_by_name, hosts_by_class};
use quell_treeview::live::LiveError;
use quell_treeview::{Look, View, document, live};
use std::collections::BTreeMap;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};

/// What was read, and what of it is asked for.
pub(super) struct TreeSource {
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
pub(super) fn look() -> Look {
    let terminal = std::io::stdout().is_terminal();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    Look {
        width: if terminal { screen::size().0.min(WIDEST) } else { WIDEST },
        unicode: screen::unicode(),
        colour: screen::is_live() && !plain,
    }
}

/// What this machine has.
pub(super) fn here(args: &TreeArgs) -> Result<TreeSource, Failure> {
    let named = classes_by_name(&args.state.logs());
    let read = live::read(args.device.as_deref(), &mut |device, snapshot| {
        let own = named.iter().filter(|((name, _), _)| name == device);
        let mut whose: BTreeMap<_, _> =
            own.map(|((_, class), name)| (*class, name.clone())).collect();
        whose.extend(hosts_by_class(snapshot));
        whose
    });
    let (hierarchy, only) = read.map_err(|error| match error {
        LiveError::NoDevice { .. } => Failure::usage(error),
        _ => Failure::system(error),
    })?;
    Ok(TreeSource { hierarchy, only, rates: None })
}

/// JSON's strings come whole, or in pieces between escapes: what of them would command a terminal is written by its number. Each queue, class
/// and filter is written and forgotten: a chain of sixty thousand classes would take a gigabyte as a whole.
struct Printable<W>(W);

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.0.write_all(quell_wire::text::json(text).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

pub(super) fn print_json(view: &View<'_>) -> Result<(), Failure> {
    let mut out = Printable(BufWriter::new(std::io::stdout().lock()));
    let written = serde_json::to_writer_pretty(&mut out, &document(view));
    let written = written.map_err(std::io::Error::from).and_then(|()| out.write_all(b"\n"));
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => quell_sys::reader::leave(),
        written => written.map_err(|e| Failure::system(format!("writing to standard output: {e}"))),
    }
}

/// JSON in one line, with its end.
pub(super) fn json_line(view: &View<'_>) -> String {
    let mut out = Printable(Vec::new());
    // A `Vec` takes whatever is written, and every key is a string.
    let _ = serde_json::to_writer(&mut out, &document(view));
    String::from_utf8_lossy(&out.0).into_owned() + "\n"
}
