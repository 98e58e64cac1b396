//! A path, hop by hop: packets whose TTL ends on the way, and what routers say of them.
//!
//! ```text
//!   rounds    which hop of which flow is probed when         ┐
//!   survey    how large a packet gets to each hop,           │ pure
//!             and whether its TOS byte arrives as sent       ┘
//!   sockets   a flow's socket: UDP, ICMP echo, or SYNs from one port; the error queue tells who answered
//!   driver    one thread: sends, listens, keeps a ledger for each hop of each flow; driver/quoted what raw sockets see
//! ```
//!
//! All packets of a flow have the same ports (of ICMP the same identifier and checksum), so that routers which spread traffic over several links
//! send them the same way. No rights are needed, but for one thing: the TOS byte with which a packet came to a router stands in the header that it
//! quotes, and only raw sockets see that.

mod driver;
mod rounds;
mod sockets;
mod survey;

pub use survey::{HopSize, SizeLimit};

use crate::{Patience, ProbeError};
use quell_model::EchoSample;
use quell_sys::secret;
use quell_sys::socket::{IcmpErrors, Way};
use quell_units::{Span, Tos};
use quell_wire::icmp_error::{Label, Meaning};
use sockets::FlowSocket;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

pub const MOST_FLOWS: u16 = 64;
/// The TOS byte of the packets that ask whether it arrives: EF and ECT(0), which those who clear either do clear.
pub const MARKED: Tos = Tos::from_byte(0xba);

/// Raw sockets of this process tell their replies apart by identifiers that count up from here.
static FLOWS: AtomicU16 = AtomicU16::new(0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeKind {
    Icmp,
    /// UDP datagrams to a port where nobody listens.
    Udp,
    Tcp,
}

#[derive(Debug, Clone)]
pub struct PathSpec {
    /// The other end; the port counts for UDP and TCP.
    pub to: SocketAddr,
    pub sent: ProbeKind,
    /// How many flows, 1 to [`MOST_FLOWS`].
    pub flows: u16,
    /// The own port of the first flow, the others count up from it; 0 for any.
    pub port: u16,
    /// From one round to the next; in each, each hop of one flow is probed once.
    pub interval: Span,
    /// Rounds of each flow; none is without end.
    pub count: Option<u64>,
    pub size: u32,
    /// TOS or traffic class byte; TCP keeps the ECN bits for itself.
    pub tos: Tos,
    pub most_hops: u8,
    pub patience: Patience,
    /// By which own address and device packets leave.
    pub way: Way,
    pub survey: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// What became of probes of a hop. Probes beyond the hop where the flow ends are not told.
    Samples {
        flow: u16,
        ttl: u8,
        samples: Vec<EchoSample>,
    },
    Answer(HopAnswer),
    /// What the survey knows so far of the first flow's hops; the first is hop 1.
    Sizes(Vec<HopSize>),
    Surveyed,
    /// The sizes that get to a hop are searched, which takes about so long yet.
    Searching {
        ttl: u8,
        left_ns: u64,
    },
    /// That search took too long, and was left at this hop.
    SearchLeft {
        ttl: u8,
    },
    /// Somebody says of a probe, which asked for no size, that it is too big.
    TooBig {
        by: IpAddr,
        /// What is not, as that router has it.
        mtu: u32,
    },
    Ends {
        flow: u16,
        /// The hop at which the other end, or somebody who sends no further, answered.
        ttl: Option<u8>,
    },
    /// How many answers so far are about no packet of ours: a router quotes too little, a NAT changed it, or strangers made it up.
    Unmatched(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopAnswer {
    pub flow: u16,
    pub ttl: u8,
    pub from: IpAddr,
    /// What was said: none is the other end's own answer.
    pub said: Option<Meaning>,
    pub back_ttl: Option<u8>,
    /// TOS byte as it was sent, and as it came there, where that could be seen.
    pub marks: Option<(Tos, Tos)>,
    pub labels: Vec<Label>,
}

#[derive(Debug)]
pub struct PathProbe {
    spec: PathSpec,
    flows: Vec<FlowSocket>,
    /// What asks for sizes and marks where the flow itself can't.
    surveyor: Option<FlowSocket>,
    raw: Option<IcmpErrors>,
}

impl PathProbe {
    /// Opens the sockets.
    ///
    /// Errors when a parameter can't be, there is no route, or for ICMP where neither ping sockets nor raw ones are allowed.
    pub fn open(spec: PathSpec) -> Result<Self, ProbeError> {
        let wrong = |why: String| ProbeError::Parameter { stream: spec.to.ip().to_string(), why };
        if spec.flows == 0 || spec.flows > MOST_FLOWS {
            return Err(wrong(format!("{} flows; 1 to {MOST_FLOWS} can be", spec.flows)));
        }
        if spec.interval.is_zero() {
            return Err(wrong("the interval is zero; take at least 1us".into()));
        }
        let base = (std::process::id() as u16).wrapping_mul(31);
        let secret = secret::number()?;
        let open = |flow: u16| {
            let port = if spec.port == 0 { 0 } else { spec.port.saturating_add(flow) };
            match spec.sent {
                ProbeKind::Udp => FlowSocket::udp(spec.to, &spec.way, port, secret),
                ProbeKind::Tcp => FlowSocket::tcp(spec.to, &spec.way, port),
                ProbeKind::Icmp => {
                    let own = base.wrapping_add(FLOWS.fetch_add(1, Ordering::Relaxed));
                    FlowSocket::echo(spec.to.ip(), &spec.way, (flow, own), secret)
                }
            }
        };
        let flows = (0..spec.flows).map(open).collect::<Result<_, _>>()?;
        let surveyor = match spec.sent {
            // A SYN is as large as it is, and has no ECN bits of ours.
            ProbeKind::Tcp if spec.survey => Some(FlowSocket::udp(spec.to, &spec.way, 0, secret)?),
            _ => None,
        };
        let raw = IcmpErrors::open(spec.to.is_ipv6()).ok();
        Ok(Self { spec, flows, surveyor, raw })
    }

    /// The ports, or identifiers of ICMP, by which routers know the flows.
    pub fn ports(&self) -> Vec<u16> {
        self.flows.iter().map(FlowSocket::port).collect()
    }

    /// Whether it can be seen with which TOS byte packets arrive at routers: only with the right to raw sockets.
    pub fn sees_marks(&self) -> bool {
        self.raw.is_some()
    }
}
