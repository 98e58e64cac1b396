//! A line in the system's log for each change: what, who asked for it, the way back.
//!
//! ```text
//!   <29>quell[4711]: wan: in force: cake, up 9.5Mbit; by quell shape apply of ann; way back: quell shape off --dev wan
//!   /dev/log: journald or a syslog daemon, as syslog(3) writes to it; where there is none, nothing is written
//! ```

use crate::transaction::tool;
use crate::{Begun, Log, Standing};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

const SOCKET: &str = "/dev/log";

/// That a change is in force. Nobody who changes a machine waits for its log, or fails for want of one.
pub(crate) fn in_force(log: &Log) {
    let what = match log.standing {
        Standing::Awaiting(_) => "in force until it is confirmed or taken back",
        Standing::Unfinished => "in force while it is measured",
        _ => "in force",
    };
    let device = &log.begun.device;
    let back = match tool(&log.begun.who.command) {
        _ if log.standing == Standing::Unfinished => String::new(),
        "quell tune" => "; way back: quell tune revert".to_owned(),
        tool => format!("; way back: {tool} off --dev {device}"),
    };
    let _ = send(Path::new(SOCKET), &line(log, what, &back));
}

/// That a change is no longer in force.
pub(crate) fn undone(log: &Log) {
    let _ = send(Path::new(SOCKET), &line(log, "as it was before", ""));
}

fn send(socket: &Path, line: &str) -> std::io::Result<usize> {
    let ours = UnixDatagram::unbound()?;
    ours.set_nonblocking(true)?;
    ours.send_to(line.as_bytes(), socket)
}

fn line(log: &Log, what: &str, back: &str) -> String {
    let Begun { device, wanted, who, .. } = &log.begun;
    // Who asked, also behind sudo.
    let person = std::env::var("SUDO_USER");
    let person = person.unwrap_or_else(|_| format!("uid {}", nix::unistd::getuid()));
    let text = format!("{device}: {what}: {wanted}; by {} of {person}{back}", who.command);
    let text = text.replace(char::is_control, "?");
    // Facility daemon, severity notice (RFC 5424, section 6.2.1).
    format!("<29>quell[{}]: {text}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Before, Who};

    #[test]
    fn a_change_is_one_line_of_the_systems_log_and_no_log_is_no_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("log");
        assert!(send(&socket, "nobody listens").is_err());
        let syslog = UnixDatagram::bind(&socket).expect("a socket");
        let begun = Begun {
            boot: String::new(),
            namespace: 1,
            device: "wan".into(),
            index: None,
            who: Who { pid: 1, command: "quell shape apply".into(), at: 0 },
            wanted: "cake, up 9.5Mbit\n<0>forged".into(),
            recipe: String::new(),
            earlier: None,
            before: Before::default(),
            origin: None,
        };
        let log = Log::new(folder.path(), begun, None);
        send(&socket, &line(&log, "in force", "; way back")).expect("it is sent");
        let mut datagram = [0; 500];
        let length = syslog.recv(&mut datagram).expect("a line");
        let said = String::from_utf8_lossy(&datagram[..length]);
        assert!(said.starts_with("<29>quell[") && !said.contains('\n'), "{said}");
        assert!(said.contains("]: wan: in force: cake") && said.ends_with("; way back"), "{said}");
        assert!(said.contains("; by quell shape apply of "), "{said}");
    }
}
