//! What is drawn while it goes fits the terminal as it is, also when its size changes.

use super::support::TestFolder;
use super::terminal::terminal;
use nix::libc;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;

/// Columns that a line takes on a terminal.
fn columns(line: &str) -> usize {
    let mut parts = line.split("\x1b[");
    let first = parts.next().map_or(0, |part| part.chars().count());
    let behind =
        |part: &str| part.trim_start_matches(|c: char| !c.is_alphabetic()).chars().skip(1).count();
    first + parts.map(behind).sum::<usize>()
}

#[test]
fn quell_alone_asks_a_person_what_is_wrong_and_names_the_command() {
    let dir = TestFolder::new();
    let (mut ours, theirs) = terminal(24, 80);
    let twin = || theirs.try_clone().expect("a descriptor");
    let mut command = dir.command(&[]);
    command.stdin(twin()).stdout(twin()).stderr(twin());
    ours.write_all(b"4\n").expect("it is typed");
    let ended = command.status().expect("quell can be started");
    drop((command, theirs));
    let mut said = Vec::new();
    // A terminal whose other end is closed gives EIO behind what was said.
    let _ = ours.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    assert!(ended.success() && said.contains("What is wrong?"), "{said}");
    assert!(said.contains("\r\n  quell doctor\r\n"), "{said}");
}

#[test]
fn the_lines_of_a_live_view_are_as_wide_as_the_terminal_is_now() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let dir = TestFolder::new();
    let (mut ours, theirs) = terminal(30, 100);
    let twin = || theirs.try_clone().expect("a descriptor");
    let to = format!("127.0.0.1:{port}");
    let mut command = dir.command(&["ping", "-m", "tcp", &to, "-i", "50ms", "-c", "6000"]);
    command.env("TERM", "xterm").stdin(twin()).stdout(twin()).stderr(twin());
    let mut child = command.spawn().expect("quell can be started");
    drop((command, theirs));
    let line = move |ours: &mut std::fs::File| {
        let (mut line, mut byte) = (Vec::new(), [0]);
        // It ends by itself after five minutes; then the terminal gives EIO.
        while ours.read(&mut byte).is_ok_and(|got| got == 1) && byte != *b"\n" {
            line.push(byte[0]);
        }
        assert_eq!(byte, *b"\n", "it ended");
        let line = String::from_utf8_lossy(&line).replace('\r', "");
        (columns(&line), line.contains("Ctrl-C"))
    };
    // The first line of each picture takes all but one of the columns; a chart's grow to that.
    for wide in [100, 72, 95] {
        let size = libc::winsize { ws_row: 30, ws_col: wide, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the kernel reads the structure, which lives longer than the call.
        assert_eq!(unsafe { libc::ioctl(ours.as_raw_fd(), libc::TIOCSWINSZ, &size) }, 0);
        let most = usize::from(wide) - 1;
        while line(&mut ours) != (most, true) {}
        // Three pictures and more.
        let lines: Vec<(usize, bool)> = (0..100).map(|_| line(&mut ours)).collect();
        assert!(lines.iter().all(|found| found.0 <= most), "{wide}: {lines:?}");
        assert!(
            lines.iter().filter(|found| **found == (most, true)).count() > 1,
            "{wide}: {lines:?}"
        );
    }
    child.kill().expect("it is ours");
    let _ = child.wait();
}
