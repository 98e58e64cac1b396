//! Why there is no classifier, or what it would not do.

use std::io;

/// What went wrong between us and the kernel.
#[derive(Debug, thiserror::Error)]
pub enum ClassifyError {
    #[error(
        "could not load the classifier: this kernel has no bpf(2) (CONFIG_BPF_SYSCALL is off). Take a kernel that has it, or the kernel's own hashing, which sees no hosts in \
         tunnels"
    )]
    Off,
    #[error(
        "this kernel takes no BPF program as a filter (CONFIG_NET_CLS_BPF is off, or its module cls_bpf is not there); load \
         the module, or take a kernel that has it"
    )]
    NoFilter,
    #[error(
        "could not load the classifier: the kernel lets only CAP_BPF and CAP_NET_ADMIN in its first user namespace load programs ({0}). Be root, \
         outside of a container. A kernel that is locked down lets nobody"
    )]
    NotAllowed(io::Error),
    #[error("could not {tried}: {answer}{log}; kernels from 5.12 on can run it, this is {kernel}")]
    Refused { tried: String, answer: io::Error, log: String, kernel: String },
    #[error("could not {tried}: {answer}")]
    Table { tried: String, answer: String },
}

impl ClassifyError {
    /// True if the kernel can't have a classifier, whoever asks.
    pub fn proves_kernel_lacks_feature(&self) -> bool {
        matches!(self, ClassifyError::Off | ClassifyError::NoFilter)
    }

    /// True if this process may not even load a program of two instructions here, as the kernel has just answered: nothing follows for ours.
    pub fn proves_no_program_loads(&self) -> bool {
        matches!(self, ClassifyError::Off | ClassifyError::NotAllowed(_))
    }

    /// What the kernel says to the program of two instructions that is loaded before ours.
    pub(crate) fn of_first_call(answer: io::Error) -> Self {
        match answer.raw_os_error() {
            Some(libc::ENOSYS) => ClassifyError::Off,
            Some(libc::EPERM | libc::EACCES) => ClassifyError::NotAllowed(answer),
            _ => Self::refused("load a program of two instructions by bpf(2)".into(), answer, ""),
        }
    }

    pub(crate) fn refused(tried: String, answer: io::Error, log: &str) -> Self {
        // Its last lines say why; before them are thousands of steps.
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        let end = lines[lines.len().saturating_sub(3)..].join(" | ");
        let log = if end.is_empty() { end } else { format!(" (its verifier: {end})") };
        let kernel = nix::sys::utsname::uname()
            .map_or_else(|_| "unknown".into(), |name| name.release().to_string_lossy().into());
        ClassifyError::Refused { tried, answer, log, kernel }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(errno: i32) -> ClassifyError {
        ClassifyError::of_first_call(io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn a_kernel_without_bpf_and_a_user_without_rights_are_told_apart() {
        assert!(first(libc::ENOSYS).proves_kernel_lacks_feature());
        assert!(first(libc::ENOSYS).to_string().contains("CONFIG_BPF_SYSCALL is off"));
        assert!(!first(libc::EPERM).proves_kernel_lacks_feature());
        assert!(first(libc::ENOSYS).proves_no_program_loads());
        assert!(first(libc::EPERM).proves_no_program_loads());
        assert!(!first(libc::EINVAL).proves_no_program_loads());
        assert!(first(libc::EPERM).to_string().contains("Be root"));
        let other = first(libc::ENOMEM).to_string();
        assert!(
            other.contains("two instructions by bpf(2)") && other.contains("memory"),
            "{other}"
        );
    }

    #[test]
    fn of_the_verifiers_thousand_lines_the_last_ones_are_shown() {
        let log: String = (0..1000).map(|i| format!("{i}: step\n")).collect();
        let error = io::Error::from_raw_os_error(libc::EACCES);
        let said = ClassifyError::refused("load it".into(), error, &log).to_string();
        assert!(said.contains("997: step | 998: step | 999: step") && said.len() < 300, "{said}");
    }
}
