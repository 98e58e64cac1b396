//! By which clocks the times of a stream came about, for a person to read. Pure.

use std::fmt;

/// How many packets of a stream were stamped by whom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Clocks {
    pub sent_by_kernel: u64,
    /// Sent, stamped by this program before it called the kernel.
    pub sent_by_program: u64,
    pub received_by_kernel: u64,
    /// Answers whose time the kernel measured itself, from SYN to answer.
    pub measured: u64,
    /// Answers between whose departure and arrival the device's clock counted.
    pub by_device: u64,
    pub received_by_program: u64,
}

impl fmt::Display for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sent = [
            (self.sent_by_kernel, "kernel, before this host's queue"),
            (self.sent_by_program, "program"),
        ];
        let received = [
            (self.by_device, "network device (hardware, PHC)"),
            (self.received_by_kernel, "kernel"),
            (self.measured, "kernel, from SYN to answer (tcpi_rtt)"),
            (self.received_by_program, "program"),
        ];
        write!(f, "transmit: {}; receive: {}", words(&sent), words(&received))
    }
}

/// Who stamped, with numbers where it was not always the same.
fn words(by: &[(u64, &str)]) -> String {
    let by: Vec<_> = by.iter().filter(|(count, _)| *count > 0).collect();
    match by.as_slice() {
        [] => "nothing".into(),
        [(_, who)] => (*who).into(),
        several => {
            let parts: Vec<_> = several.iter().map(|(n, who)| format!("{who} ({n})")).collect();
            parts.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stamped_is_said_and_how_often_where_it_was_not_always_the_same() {
        let mut clocks = Clocks { sent_by_kernel: 9, received_by_kernel: 9, ..Clocks::default() };
        assert_eq!(
            clocks.to_string(),
            "transmit: kernel, before this host's queue; receive: kernel"
        );
        clocks.sent_by_program = 1;
        clocks.received_by_kernel = 0;
        assert_eq!(
            clocks.to_string(),
            "transmit: kernel, before this host's queue (9), program (1); receive: nothing"
        );
    }
}
