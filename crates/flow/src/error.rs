//! Why there is no result.

use nix::errno::Errno;
use quell_sys::SysError;
use quell_sys::socket::exchange::ExchangeError;
use quell_sys::socket::preface::PrefaceError;
use quell_units::Span;
use std::net::SocketAddr;

/// Why a test did not come about, or broke off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    #[error("{0}")]
    Parameter(String),
    #[error("{0}")]
    System(#[from] SysError),
    #[error(
        "no answer from {0} within {1}: is the address right, does a firewall let TCP port {port} through?",
        port = .0.port()
    )]
    Silent(SocketAddr, Span),
    #[error(
        "no UDP datagram came back from {0}, which answers over TCP: does a firewall hold back UDP port {port}?",
        port = .0.port()
    )]
    NoUdp(SocketAddr),
    #[error(
        "nobody listens at {0}: start `quell serve --bind ADDRESS` or `iperf3 -s` there, or name its port with -p"
    )]
    Refused(SocketAddr),
    /// The server has other things to do, or does not want us.
    #[error(
        "the server {0} is busy with another test, or does not let this client in. A `quell serve` has --max-tests and \
         --max-tests-per-client tests at once, and may want a --secret-file. Try again when it is free"
    )]
    Busy(SocketAddr),
    #[error("the server {server} gave up: {}{}", code_text(*.code), errno_text(*.errno))]
    Server {
        server: SocketAddr,
        /// iperf3's error number (iperf_api.h).
        code: i32,
        /// Its errno; 0 for none.
        errno: i32,
    },
    #[error("the server {0} ended the test{when}", when = at(.1))]
    Ended(SocketAddr, &'static str),
    #[error("the server {0} vanished{when}", when = at(.1))]
    Vanished(SocketAddr, &'static str),
    /// What this end told of the test was never acknowledged, and the server, which waits for it, told nothing.
    #[error(
        "the results of this end did not reach the server {0}, though they were sent again and again, so that it did not tell its own"
    )]
    Unheard(SocketAddr),
    /// The word that was due did not come for too long; others may have.
    #[error("the server {0} did not say within {2} s what was due{when}", when = at(.1))]
    Late(SocketAddr, &'static str, u64),
    #[error("{0} does not speak iperf3's protocol{when}: {2}", when = at(.1))]
    Foreign(SocketAddr, &'static str, String),
    #[error("{0}")]
    Secret(#[from] PrefaceError),
    /// Somebody wanted it to end before data flowed.
    #[error("stopped before anything was measured")]
    Stopped,
}

impl FlowError {
    /// Whether nobody was found at that address; another of the same host may have somebody.
    pub fn is_nobody(&self) -> bool {
        match self {
            Self::Silent(..) | Self::Refused(_) => true,
            Self::System(error) => matches!(
                error.errno,
                Errno::EHOSTUNREACH
                    | Errno::ENETUNREACH
                    | Errno::ENETDOWN
                    | Errno::EADDRNOTAVAIL
                    | Errno::EAFNOSUPPORT
            ),
            _ => false,
        }
    }
}

fn at(when: &str) -> String {
    if when.is_empty() { String::new() } else { format!(" {when}") }
}

/// What iperf3's numbers mean, of those that a client's wishes can cause (iperf_api.h).
fn code_text(code: i32) -> String {
    let what = match code {
        134 => {
            "it may not use this congestion control (see sysctl net.ipv4.tcp_allowed_congestion_control there)"
        }
        5 => "it does not do so long a test (-t; a `quell serve` as its --max-time says)",
        6 => "it does not do so many streams (-P; a `quell serve` as its --max-streams says)",
        7 | 20 => "it does not do so large writes or datagrams (-l)",
        27 => {
            "it does not do so high a rate (-b; a `quell serve` as its --max-rate and --max-rate-per-client say)"
        }
        101 => "its system does not let it begin the test",
        12 => "it does not leave out so long a time (-O)",
        _ => return format!("its error {code}"),
    };
    format!("{what}, its error {code}")
}

fn errno_text(errno: i32) -> String {
    match errno {
        0 => String::new(),
        errno => format!(", {}", nix::errno::Errno::from_raw(errno).desc()),
    }
}

impl FlowError {
    pub(crate) fn from_exchange(
        error: ExchangeError,
        server: SocketAddr,
        when: &'static str,
        patience_s: u64,
    ) -> Self {
        match error {
            ExchangeError::Closed => Self::Vanished(server, when),
            ExchangeError::Late => Self::Late(server, when, patience_s),
            ExchangeError::Stopped => Self::Stopped,
            ExchangeError::System(error) => Self::System(error),
        }
    }
}
