//! What can go wrong in a conversation with the kernel.

use nix::errno::Errno;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// An operation that failed: what was tried, and why it did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetlinkError {
    /// What was asked, in words, with its object: "create veth a0".
    pub tried: String,
    pub cause: Cause,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The kernel read the request and said no.
    Refused {
        /// The kernel's error number.
        errno: Errno,
        /// The kernel's own explanation (extended ACK, `NLMSGERR_ATTR_MSG`), if it gave one.
        kernel_says: Option<String>,
        /// Which part of the request it disliked, if it said so.
        offender: Option<Offender>,
    },
    /// A system call failed before the kernel's network code read the request.
    System { call: &'static str, errno: Errno },
    /// No complete answer within this time.
    Timeout(Duration),
    /// The table changed under every one of this many attempts to read it (`NLM_F_DUMP_INTR`).
    KeptChanging {
        /// How often it was read.
        attempts: u32,
    },
    /// The kernel's answer could not be understood.
    Answer(DecodeError),
    /// An attribute of the request does not fit its 16-bit length field.
    Oversized { kind: u16 },
    /// The running kernel was built without this part.
    Lacking {
        /// The part, with its configuration option.
        part: String,
        /// The error number that showed it.
        errno: Errno,
    },
    /// The object that was asked for is not there, or the request makes no sense; in words.
    Invalid(String),
}

/// The part of a request that the kernel disliked, as its extended ACK names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offender {
    /// The attribute at this byte of the message (`NLMSGERR_ATTR_OFFS`), with its kind.
    Attribute {
        /// Offset from the message's start, in bytes.
        offset: u32,
        /// The attribute's kind, read back from the request.
        kind: Option<u16>,
    },
    /// An attribute of this kind is missing (`NLMSGERR_ATTR_MISS_TYPE`).
    Missing(u32),
}

/// Bytes from the kernel that do not have the form they should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("{what} is cut short: {got} of {wanted} bytes")]
    Truncated { what: &'static str, wanted: usize, got: usize },
    #[error("attribute {kind} claims {claimed} bytes where {available} are left")]
    LyingLength { kind: u16, claimed: usize, available: usize },
    #[error("attribute {kind} has {got} bytes instead of {wanted}")]
    AttributeLength { kind: u16, wanted: usize, got: usize },
    #[error("attribute {kind} is not text")]
    NotText { kind: u16 },
    #[error("the answer has no {what}")]
    Missing { what: &'static str },
}

impl NetlinkError {
    /// An error about something found before or after the conversation with the kernel, in words.
    pub fn invalid(tried: impl Into<String>, why: impl Into<String>) -> Self {
        Self { tried: tried.into(), cause: Cause::Invalid(why.into()) }
    }

    /// An error about an answer that could not be understood.
    pub fn answer(tried: impl Into<String>, why: DecodeError) -> Self {
        Self { tried: tried.into(), cause: Cause::Answer(why) }
    }

    /// A failed system call: `call` failed with `errno`.
    pub fn system(tried: impl Into<String>, call: &'static str, errno: Errno) -> Self {
        Self { tried: tried.into(), cause: Cause::System { call, errno } }
    }

    /// The kernel's error number, when there was one.
    pub fn errno(&self) -> Option<Errno> {
        match &self.cause {
            Cause::Refused { errno, .. }
            | Cause::System { errno, .. }
            | Cause::Lacking { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// The kernel's own explanation, when it gave one.
    pub fn kernel_says(&self) -> Option<&str> {
        match &self.cause {
            Cause::Refused { kernel_says, .. } => kernel_says.as_deref(),
            _ => None,
        }
    }

    /// The same error, but as the proof that the kernel lacks `part`, if it has one of these
    /// numbers: for operations where they can mean nothing else.
    #[must_use]
    pub(crate) fn means_lacking(mut self, part: &str, numbers: &[Errno]) -> Self {
        if let Some(errno) = self.errno().filter(|errno| numbers.contains(errno)) {
            self.cause = Cause::Lacking { part: part.to_owned(), errno };
        }
        self
    }

    /// True when the answer proves that the running kernel was built without what was asked for: a
    /// device kind, queue, classifier, action, protocol or family that it does not know. Only then
    /// may a test skip.
    pub fn proves_kernel_lacks_feature(&self) -> bool {
        // The texts of net/core/rtnetlink.c, net/sched/sch_api.c, cls_api.c and act_api.c for
        // exactly this case.
        const TEXTS: [&str; 4] = [
            "Unknown device type",
            "Specified qdisc kind is unknown",
            "TC classifier not found",
            "Failed to load TC action module",
        ];
        let says = self.kernel_says().unwrap_or_default();
        match &self.cause {
            Cause::Lacking { .. } => true,
            Cause::System { errno, .. } => {
                matches!(errno, Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT)
            }
            Cause::Refused { errno, .. } => {
                matches!(errno, Errno::EOPNOTSUPP | Errno::ENOENT)
                    && TEXTS.iter().any(|text| says.contains(text))
            }
            _ => false,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        if self.proves_kernel_lacks_feature() {
            return Some("load the module or use the lab's guest kernel, which has it");
        }
        match self.errno()? {
            Errno::EPERM | Errno::EACCES => Some(
                "this needs CAP_NET_ADMIN in the namespace: be root or enter a user namespace first",
            ),
            Errno::EEXIST => Some("something of this name or number is already there"),
            Errno::ENODEV => Some("there is no such interface in this namespace"),
            Errno::ENOBUFS => Some("the socket's receive buffer overran; ask again"),
            _ => None,
        }
    }
}

impl fmt::Display for NetlinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {}", self.tried, self.cause)?;
        match self.hint() {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for NetlinkError {}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { errno, kernel_says, offender } => {
                write!(f, "the kernel answered {errno:?}, {}", errno.desc())?;
                if let Some(text) = kernel_says {
                    write!(f, ", \"{text}\"")?;
                }
                match offender {
                    Some(Offender::Attribute { kind: Some(kind), offset }) => {
                        write!(f, ", about attribute {kind} at byte {offset}")
                    }
                    Some(Offender::Attribute { kind: None, offset }) => {
                        write!(f, ", about byte {offset}")
                    }
                    Some(Offender::Missing(kind)) => write!(f, ", missing attribute {kind}"),
                    None => Ok(()),
                }
            }
            Self::System { call, errno } => write!(f, "{call}: {errno:?}, {}", errno.desc()),
            Self::Timeout(after) => write!(f, "no complete answer within {after:?}"),
            Self::KeptChanging { attempts } => {
                write!(f, "the table changed during each of {attempts} readings")
            }
            Self::Answer(why) => write!(f, "the kernel's answer makes no sense: {why}"),
            Self::Oversized { kind } => {
                write!(f, "attribute {kind} of the request is longer than 65535 bytes")
            }
            Self::Lacking { part, errno } => {
                write!(f, "the running kernel has no {part}; it answered {errno:?}")
            }
            Self::Invalid(why) => f.write_str(why),
        }
    }
}
