//! A terminal to run the program on.

use nix::libc;
use std::fs::File;
use std::os::fd::FromRawFd;

/// A terminal: the end that a person has, and the one that a program gets.
pub fn terminal(lines: u16, columns: u16) -> (File, File) {
    let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: the pointers are those of two numbers that are filled and a size that is read; the descriptors are then ours alone.
    unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut ours, &mut theirs, null, std::ptr::null(), &size), 0);
        (File::from_raw_fd(ours), File::from_raw_fd(theirs))
    }
}
