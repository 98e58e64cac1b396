//! A reader that is gone, under either way of treating SIGPIPE. Alone in its program, since the way belongs to the whole process.
#![allow(missing_docs)]

use nix::sys::signal::{SigHandler, Signal, signal};
use quell_sys::pipe::quietly;
use std::io::{ErrorKind, Write};

#[test]
fn a_reader_that_is_gone_is_an_error_and_not_the_end_of_the_program() {
    for way in [SigHandler::SigDfl, SigHandler::SigIgn, SigHandler::SigDfl] {
        // SAFETY: the default action and ignoring are valid handlers.
        unsafe { signal(Signal::SIGPIPE, way) }.unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        quietly(|| writer.write_all(b"heard")).unwrap();
        drop(reader);
        for _ in 0..2 {
            let error = quietly(|| writer.write_all(b"unheard")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        }
    }
}
