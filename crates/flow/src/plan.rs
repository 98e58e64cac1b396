//! What is to be measured, checked before anything is sent.

use crate::FlowError;
use quell_sys::socket::Way;
use quell_units::Span;
use quell_wire::auth::Secret;
use quell_wire::iperf3::{Parameters, Wishes, part_of, stream_place};
use std::net::SocketAddr;

/// Most streams in one direction (`MAX_STREAMS`, iperf3's iperf.h).
pub const MOST_STREAMS: u32 = 128;
/// Largest write of TCP in bytes (`MAX_BLOCKSIZE`).
pub const LARGEST_BLOCK: u64 = 1 << 20;
/// Largest payload of a datagram over IPv4; over IPv6 it is 20 more, which nobody needs.
pub const LARGEST_DATAGRAM: u64 = quell_wire::LARGEST_PAYLOAD as u64;
pub const SMALLEST_DATAGRAM: u64 = 12;
/// What TCP carries in a packet of Ethernet, with its timestamps over IPv4.
const USUAL_DATAGRAM: u64 = 1448;
/// What is written at once over TCP. With iperf3's 128 KiB a veth pair carried a tenth to a sixth less.
const BLOCK: u64 = 1 << 20;
/// What iperf3 sends over UDP when nobody says otherwise, in bits a second.
pub const UDP_RATE: u64 = 1_000_000;
/// Longest test, as iperf3 has it.
const LONGEST: Span = Span::from_secs(86_400);
/// How long a connection may take to come about, where nobody says.
const CONNECT_WITHIN: Span = Span::from_secs(10);
/// Most datagrams of a burst (`MAX_BURST` of iperf3).
const MOST_BURST: u32 = 1000;
const LONGEST_OMIT: Span = Span::from_secs(600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "TCP",
            Transport::Udp => "UDP",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Senders {
    Up,
    Down,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// After this time, the omitted one not counted.
    Time(Span),
    /// After so many bytes, all streams of a direction together.
    Bytes(u64),
}

#[derive(Debug, Clone)]
pub struct FlowPlan {
    pub host: String,
    pub to: SocketAddr,
    pub control: SocketAddr,
    pub transport: Transport,
    pub direction: Senders,
    pub streams: u32,
    pub amount: Amount,
    /// The amount in blocks, of which the path may decide how long they are; `amount` is then made of it.
    pub blocks: Option<u64>,
    /// Time at the start that does not count.
    pub omit: Span,
    /// Bits a second of each stream; none for as many as go.
    pub rate: Option<u64>,
    /// Datagrams at a rate that leave together.
    pub burst: u32,
    /// Numbers of datagrams have 64 bits.
    pub wide: bool,
    /// What is sent is easy to compress.
    pub repeating: bool,
    pub server_output: bool,
    /// A text that a server is told and that stands in the results.
    pub extra_data: Option<String>,
    /// Each datagram that comes is logged, by both ends; of one stream each way.
    pub log: bool,
    /// The CPU on which an iperf3 server shall work.
    pub server_cpu: Option<i32>,
    /// How long a connection may take to come about.
    pub connect_within: Span,
    /// It is over when nothing came for so long where something should.
    pub receive_within: Option<Span>,
    /// It is over when nothing of what was sent is acknowledged for so long (TCP).
    pub acknowledge_within: Option<Span>,
    /// The own port of the first stream; the next ones have the next.
    pub own_port: Option<u16>,
    /// Bits a second that the kernel lets out of each stream at most (TCP).
    pub pacing: Option<u64>,
    /// Bytes in one write or datagram; none for what suits the path.
    pub block: Option<u64>,
    pub window: Option<u64>,
    pub mss: Option<u32>,
    /// Congestion control of each stream; a shorter list is gone through again. Empty for the system's.
    pub congestion: Vec<String>,
    pub tos: u8,
    pub nodelay: bool,
    /// The payload is not copied on its way out.
    pub zero_copy: bool,
    pub interval: Span,
    pub way: Way,
    pub plain: bool,
    pub latency: bool,
    pub secret: Option<Secret>,
}

impl FlowPlan {
    /// The usual test of a server: TCP up, one stream, 10 s.
    pub fn new(host: &str, to: SocketAddr) -> Self {
        Self {
            host: host.into(),
            to,
            control: to,
            transport: Transport::Tcp,
            direction: Senders::Up,
            streams: 1,
            amount: Amount::Time(Span::from_secs(10)),
            blocks: None,
            omit: Span::ZERO,
            rate: None,
            burst: 1,
            wide: false,
            repeating: false,
            server_output: false,
            extra_data: None,
            log: false,
            server_cpu: None,
            connect_within: CONNECT_WITHIN,
            receive_within: None,
            acknowledge_within: None,
            own_port: None,
            pacing: None,
            block: None,
            window: None,
            mss: None,
            congestion: Vec::new(),
            tos: 0,
            nodelay: false,
            zero_copy: false,
            interval: Span::from_secs(1),
            way: Way::default(),
            plain: false,
            latency: true,
            secret: None,
        }
    }

    /// Refuses what no test can be; says what would be right.
    pub fn check(&self) -> Result<(), FlowError> {
        let wrong = |why: String| Err(FlowError::Parameter(why));
        if !(1..=MOST_STREAMS).contains(&self.streams) {
            return wrong(format!("{} streams; take 1 to {MOST_STREAMS}", self.streams));
        }
        match self.amount {
            Amount::Time(time) if time.is_zero() || time > LONGEST => {
                return wrong(format!("a test of {time}; take up to {LONGEST}"));
            }
            Amount::Bytes(0) => {
                return wrong("a test of 0 bytes; take at least 1".into());
            }
            _ => {}
        }
        if self.omit > LONGEST_OMIT {
            return wrong(format!(
                "{} left out at the start; take up to {LONGEST_OMIT}",
                self.omit
            ));
        }
        if !matches!(self.amount, Amount::Time(_)) && !self.omit.is_zero() {
            return wrong(
                "bytes (-n, -k) are counted from the start: leave out -O, or take -t".into(),
            );
        }
        if self.interval < Span::from_millis(10) {
            return wrong(format!("a report every {}; take at least 10ms", self.interval));
        }
        let (least, most) = match self.transport {
            Transport::Tcp => (1, LARGEST_BLOCK),
            Transport::Udp if self.wide => (SMALLEST_DATAGRAM + 4, LARGEST_DATAGRAM),
            Transport::Udp => (SMALLEST_DATAGRAM, LARGEST_DATAGRAM),
        };
        if !(1..=MOST_BURST).contains(&self.burst) {
            return wrong(format!("bursts of {}; take 1 to {MOST_BURST}", self.burst));
        }
        if self.connect_within.is_zero() {
            return wrong(
                "no connection comes about in no time; give --connect-timeout a time".into(),
            );
        }
        if let Some(block) = self.block.filter(|b| !(least..=most).contains(b)) {
            let what = if self.transport == Transport::Tcp { "writes" } else { "datagrams" };
            return wrong(format!("{what} of {block} bytes; take {least} to {most}"));
        }
        if self.mss.is_some_and(|mss| !(88..=32_767).contains(&mss)) {
            return wrong(
                "a segment size outside of 88 to 32767 bytes; leave out -M, or take one in there"
                    .into(),
            );
        }
        if self.window.is_some_and(|w| w == 0 || w > 1 << 30) {
            return wrong("a socket buffer of nothing, or beyond 1GiB".into());
        }
        if let Some(name) = self.congestion.iter().find(|c| c.is_empty() || c.len() > 15) {
            return wrong(format!("no congestion control is called `{name}`"));
        }
        if self.transport == Transport::Udp && !self.congestion.is_empty() {
            return wrong("UDP has no congestion control: leave out -C".into());
        }
        Ok(())
    }

    /// Whether streams go another way than the talk about them, and so may come from another address than a Quell server would expect.
    pub fn is_elsewhere(&self) -> bool {
        !self.plain && self.control.ip() != self.to.ip()
    }

    /// Whether it has to prove the address of its streams: a datagram's can be forged.
    pub fn proves_address(&self) -> bool {
        self.transport == Transport::Udp && self.is_elsewhere()
    }

    /// The congestion control of this end for the stream with this place; none where it only receives.
    pub fn congestion_of(&self, place: usize) -> Option<&String> {
        self.congestion.get(place % self.congestion.len().max(1)).filter(|_| self.sends(place))
    }

    /// What the stream with this number has to carry of an amount, in blocks of so many bytes; none where it is over after a time.
    pub fn amount_of(&self, id: u32, block: u64) -> Option<u64> {
        let Amount::Bytes(bytes) = self.amount else { return None };
        let streams = self.streams.max(1) as usize;
        let datagram = (self.transport == Transport::Udp).then_some(block);
        Some(part_of(bytes, stream_place(id) % streams, streams, datagram))
    }

    /// The same in datagrams of `block` bytes.
    pub fn datagrams_of(&self, id: u32, block: u64) -> Option<u64> {
        let amount = self.amount_of(id, block).filter(|_| self.transport == Transport::Udp)?;
        Some(amount.div_ceil(block.max(1)))
    }

    pub fn all_streams(&self) -> usize {
        self.streams as usize * if self.direction == Senders::Both { 2 } else { 1 }
    }

    /// Whether this host sends the stream with this place. Those of this host come first.
    pub fn sends(&self, place: usize) -> bool {
        match self.direction {
            Senders::Up => true,
            Senders::Down => false,
            Senders::Both => place < self.streams as usize,
        }
    }

    /// Bytes in one write or datagram, where the segments of the connection to the server have `mss` bytes.
    pub fn block_size(&self, mss: Option<u32>) -> u64 {
        match (self.block, self.transport) {
            (Some(block), _) => block,
            (None, Transport::Tcp) => BLOCK,
            // As iperf3: what fits in one packet of that connection, with its timestamps; loopback's at most 32 KiB.
            (None, Transport::Udp) => {
                mss.map_or(USUAL_DATAGRAM, |mss| u64::from(mss).clamp(SMALLEST_DATAGRAM, 32 << 10))
            }
        }
    }

    /// The same with an amount in bytes instead of one in blocks of so many bytes.
    pub fn in_bytes(&self, block: u64) -> Self {
        let bytes = self.blocks.map(|blocks| Amount::Bytes(blocks.saturating_mul(block)));
        let amount = bytes.unwrap_or(self.amount);
        Self { amount, ..self.clone() }
    }

    /// How often the server shall say what it sees while data flows, in milliseconds: often beside the lines that tell of it. 0 where these have no
    /// room for it, or need it not.
    fn reports_ms(&self) -> u32 {
        let of_server = match self.direction {
            Senders::Up => self.transport == Transport::Udp,
            Senders::Down => self.transport == Transport::Tcp,
            Senders::Both => false,
        };
        let quarter = self.interval.nanos() / 4_000_000;
        if of_server { quarter.clamp(50, 1000) as u32 } else { 0 }
    }

    /// Whether datagrams of this size, which nobody asked for, are shorter than those of a path of Ethernet.
    pub fn is_shrunk(&self, block: u64) -> bool {
        // Its headers are 20 bytes longer.
        let usual = USUAL_DATAGRAM - if self.to.is_ipv6() { 20 } else { 0 };
        self.transport == Transport::Udp && self.block.is_none() && block < usual
    }

    /// As a server is told. `block` as from [`FlowPlan::block_size`].
    pub fn parameters(&self, block: u64) -> Parameters {
        let (time, num) = match self.amount {
            Amount::Time(time) => (Some(time), 0),
            Amount::Bytes(bytes) => (None, bytes),
        };
        let server_sends = self.direction != Senders::Up;
        let whole =
            |span: Span| u32::try_from(span.nanos().div_ceil(1_000_000_000)).unwrap_or(u32::MAX);
        let flag = |set: bool| set.then_some(1);
        let fraction = |span: Span| {
            (!span.nanos().is_multiple_of(1_000_000_000)).then_some(span.nanos() / 1_000_000)
        };
        Parameters {
            tcp: self.transport == Transport::Tcp,
            udp: self.transport == Transport::Udp,
            omit: whole(self.omit),
            time: time.map_or(0, whole),
            num,
            burst: Some(self.burst).filter(|burst| *burst > 1),
            udp_counters_64bit: flag(self.wide && self.transport == Transport::Udp),
            repeating_payload: flag(self.repeating),
            dont_fragment: flag(self.way.whole && self.transport == Transport::Udp),
            get_server_output: flag(self.server_output),
            extra_data: self.extra_data.clone(),
            server_affinity: self.server_cpu,
            mss: self.mss,
            nodelay: self.nodelay,
            parallel: self.streams,
            reverse: self.direction == Senders::Down,
            bidirectional: self.direction == Senders::Both,
            window: self.window,
            len: block,
            bandwidth: self.rate,
            fqrate: self.pacing,
            pacing_timer: Some(1000),
            tos: (self.tos != 0).then_some(self.tos.into()),
            // Who does not send needs none, and might not be allowed to have it.
            congestion: self.congestion.first().filter(|_| server_sends).cloned(),
            client_version: Some("3.12".into()),
            quell: (!self.plain).then(|| Wishes {
                version: 1,
                look_ms: 100,
                log: self.log,
                congestion: if self.congestion.len() > 1 && server_sends {
                    self.congestion.clone()
                } else {
                    Vec::new()
                },
                zero_copy: self.zero_copy,
                elsewhere: self.is_elsewhere(),
                reports_ms: self.reports_ms(),
                // Each test has its own, see `ControlConnection`.
                token: None,
                bounded: self.transport == Transport::Udp
                    && server_sends
                    && matches!(self.amount, Amount::Bytes(_)),
                time_ms: time.and_then(fraction),
                omit_ms: fraction(self.omit),
            }),
            ..Parameters::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_wire::iperf3::stream_id;

    fn plan() -> FlowPlan {
        FlowPlan::new("there", "192.0.2.1:5201".parse().unwrap())
    }

    #[test]
    fn a_plain_iperf3_is_told_nothing_of_quell_and_whole_seconds() {
        let plan =
            FlowPlan { plain: true, amount: Amount::Time(Span::from_millis(1500)), ..plan() };
        let told = plan.parameters(1000);
        assert_eq!((told.time, told.quell, told.tcp, told.parallel), (2, None, true, 1));
        let ours = FlowPlan { plain: false, ..plan }.parameters(1000).quell.unwrap();
        assert_eq!((ours.time_ms, ours.omit_ms), (Some(1500), None));
    }

    #[test]
    fn a_server_is_told_that_streams_come_from_elsewhere_only_where_they_go_another_way() {
        let other = || "198.51.100.1:5201".parse().unwrap();
        let udp = || FlowPlan { transport: Transport::Udp, control: other(), ..plan() };
        let told = |plan: FlowPlan| plan.parameters(1000).quell.map(|wishes| wishes.elsewhere);
        assert_eq!(told(udp()), Some(true));
        assert_eq!(told(FlowPlan { control: plan().to, ..udp() }), Some(false), "the same way");
        let tcp = || FlowPlan { transport: Transport::Tcp, ..udp() };
        assert_eq!(told(tcp()), Some(true));
        assert!(udp().proves_address() && !tcp().proves_address(), "who connects has");
        assert_eq!(told(FlowPlan { control: plan().to, ..tcp() }), Some(false), "the same way");
        let plain = FlowPlan { plain: true, ..udp() };
        assert!(!plain.is_elsewhere(), "iperf3 asks for no proof");
        assert_eq!(told(plain), None);
    }

    #[test]
    fn a_server_that_does_not_send_is_not_told_of_a_congestion_control() {
        for (direction, told) in
            [(Senders::Up, false), (Senders::Down, true), (Senders::Both, true)]
        {
            for names in [&["cubic"][..], &["cubic", "bbr"]] {
                let congestion = names.iter().map(|name| (*name).to_owned()).collect();
                let parameters = FlowPlan { direction, congestion, ..plan() }.parameters(1000);
                let wishes = parameters.quell.expect("it is no plain iperf3");
                assert_eq!(parameters.congestion.is_some(), told, "{direction:?}");
                assert_eq!(!wishes.congestion.is_empty(), told && names.len() > 1);
            }
        }
    }

    #[test]
    fn datagrams_are_as_short_as_the_packets_of_the_path_unless_somebody_asks_for_a_size() {
        let udp = FlowPlan { transport: Transport::Udp, ..plan() };
        let sizes = [Some(1448), Some(1228), Some(348), Some(65_483), None];
        assert_eq!(sizes.map(|mss| udp.block_size(mss)), [1448, 1228, 348, 32_768, 1448]);
        assert!(udp.is_shrunk(1428) && !udp.is_shrunk(1448));
        let six = FlowPlan { to: "[2001:db8::1]:5201".parse().unwrap(), ..udp.clone() };
        assert!(six.is_shrunk(1427) && !six.is_shrunk(1428));
        let asked = FlowPlan { block: Some(100), ..udp };
        assert_eq!((asked.block_size(Some(1228)), asked.is_shrunk(100)), (100, false));
        assert!(!plan().is_shrunk(100), "TCP cuts by itself");
    }

    #[test]
    fn an_amount_is_shared_among_the_streams_of_each_direction() {
        let udp = FlowPlan {
            direction: Senders::Both,
            streams: 3,
            amount: Amount::Bytes(10_001),
            transport: Transport::Udp,
            ..plan()
        };
        let shares = |plan: &FlowPlan| {
            let ids = (0..plan.all_streams()).map(stream_id);
            ids.filter_map(|id| plan.amount_of(id, 1000)).collect::<Vec<_>>()
        };
        let tcp = FlowPlan { transport: Transport::Tcp, ..udp.clone() };
        assert_eq!(shares(&tcp), [3335, 3333, 3333, 3335, 3333, 3333]);
        assert_eq!(shares(&udp), [4000, 4000, 3000, 4000, 4000, 3000], "eleven datagrams each way");
        assert_eq!(udp.datagrams_of(1, 1000), Some(4));
        let few = FlowPlan { amount: Amount::Bytes(1001), ..udp.clone() };
        assert_eq!(shares(&few), [1000, 1000, 0, 1000, 1000, 0]);
        let timed = FlowPlan { amount: Amount::Time(Span::from_secs(1)), ..udp };
        assert_eq!(timed.datagrams_of(1, 1000), None);
    }

    #[test]
    fn what_can_not_be_is_refused_with_what_would_be_right() {
        let wrong = [
            (FlowPlan { streams: 0, ..plan() }, "1 to 128"),
            (FlowPlan { amount: Amount::Time(Span::ZERO), ..plan() }, "take up to"),
            (FlowPlan { amount: Amount::Bytes(0), ..plan() }, "at least 1"),
            (FlowPlan { amount: Amount::Bytes(1), omit: Span::from_secs(1), ..plan() }, "-O"),
            (FlowPlan { block: Some(2 << 20), ..plan() }, "writes of"),
            (FlowPlan { block: Some(11), transport: Transport::Udp, ..plan() }, "12 to 65507"),
            (
                FlowPlan { congestion: vec!["bbr".into()], transport: Transport::Udp, ..plan() },
                "-C",
            ),
            (FlowPlan { mss: Some(40), ..plan() }, "-M"),
        ];
        for (plan, says) in wrong {
            let error = plan.check().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(plan().check(), Ok(()));
    }

    #[test]
    fn in_both_directions_ours_come_first_and_congestion_controls_go_round() {
        let plan = FlowPlan {
            direction: Senders::Both,
            streams: 2,
            congestion: vec!["cubic".into(), "bbr".into()],
            ..plan()
        };
        assert_eq!((0..4).map(|n| plan.sends(n)).collect::<Vec<_>>(), [true, true, false, false]);
        assert_eq!(plan.congestion_of(1).unwrap(), "bbr");
        assert_eq!(plan.congestion_of(3), None, "the server sends it");
        assert_eq!(plan.all_streams(), 4);
    }
}
