//! The size of the terminal that a guest's shell shares with a person.
//!
//! ```text
//!   host    terminal's size ──changed?──► file in the shared folder
//!   guest   file ──changed?──► size of the guest's terminal ──► SIGWINCH to whoever draws there
//! ```
//!
//! The guest's kernel reads the size when the terminal is opened, and never again: it ignores SIGWINCH, since the terminal belongs to
//! another session (`register_winch`, arch/um/drivers/chan_user.c).

use nix::libc;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file in the shared folder.
const FILE: &str = "screen";

/// How often a guest looks, since nothing in it tells that a file of the host's changed. A person does not see the difference, a look is
/// two system calls, and a shell's guest has real time.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    lines: u16,
    columns: u16,
}

impl Size {
    /// That of a terminal; none of what is no terminal.
    fn of(terminal: &impl AsRawFd) -> Option<Size> {
        // SAFETY: a winsize is plain numbers, for which zeroes will do.
        let mut size: libc::winsize = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills the structure, which lives longer than the call.
        let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
        (result == 0).then_some(Size { lines: size.ws_row, columns: size.ws_col })
    }

    fn set(self, terminal: &File) -> io::Result<()> {
        let size =
            libc::winsize { ws_row: self.lines, ws_col: self.columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the kernel reads the structure, which lives longer than the call.
        match unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn read(text: &str) -> Option<Size> {
        let (lines, columns) = text.trim().split_once(' ')?;
        Some(Size { lines: lines.parse().ok()?, columns: columns.parse().ok()? })
    }
}

/// The host's part: call [`SizeWatch::look`] when the terminal's size has changed (SIGWINCH).
#[derive(Debug)]
pub struct SizeWatch {
    folder: PathBuf,
    last: Option<Size>,
}

impl SizeWatch {
    /// Of our own terminal, for the guest that shares this folder.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.into(), last: Size::of(&io::stdin()) }
    }

    /// Tells the guest if the size is another than the last time. A folder that can't be written leaves the guest with the old size.
    pub fn look(&mut self) {
        let now = Size::of(&io::stdin());
        let Some(size) = now.filter(|_| now != self.last) else { return };
        self.last = now;
        let new = self.folder.join("screen.new");
        // In one step, so that the guest never reads half of it.
        let _ = std::fs::write(&new, format!("{} {}\n", size.lines, size.columns))
            .and_then(|()| std::fs::rename(&new, self.folder.join(FILE)));
    }
}

/// The guest's part: from now on its terminal gets the size that the host tells. Ends with the guest.
pub fn follow(shared: &Path, terminal: &str) {
    let (file, terminal) = (shared.join(FILE), terminal.to_owned());
    std::thread::spawn(move || {
        let mut last = None;
        loop {
            std::thread::sleep(LOOK);
            let told = std::fs::read_to_string(&file).ok().and_then(|text| Size::read(&text));
            if told.is_none() || told == last {
                continue;
            }
            last = told;
            // Opened without becoming anybody's controlling terminal; one that is gone has no size.
            use std::os::unix::fs::OpenOptionsExt;
            let open = std::fs::OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
                .open(&terminal);
            if let (Ok(terminal), Some(size)) = (open, told) {
                let _ = size.set(&terminal);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_two_numbers_and_nothing_else() {
        assert_eq!(Size::read("33 77\n"), Some(Size { lines: 33, columns: 77 }));
        for wrong in ["", "33", "33 x", "99999999 1", "-1 5"] {
            assert_eq!(Size::read(wrong), None, "{wrong}");
        }
    }
}
