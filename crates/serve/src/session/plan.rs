//! What a client asks for, as what will be done: checked against the limits. Pure.

use crate::limits::{Full, Limits, TEST};
use crate::waiting::Streams;
use quell_sys::SysError;
use quell_sys::socket::exchange::ExchangeError;
use quell_wire::iperf3::{HelloToken, Parameters, State, part_of, stream_place};
use quell_wire::text::printable;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServePlan {
    pub udp: bool,
    /// Streams from the client; they come first.
    pub up: usize,
    pub down: usize,
    /// The time at the start that does not count, in nanoseconds.
    pub omit_ns: u64,
    /// How long it takes after that, where the client says how long.
    pub time_ns: Option<u64>,
    /// Bytes of the test, all streams together, where the client asks for an amount and not for a time.
    pub bytes: Option<u64>,
    /// This end stops by itself when it has sent those: a Quell waits until they came.
    pub bounded: bool,
    pub len: usize,
    pub window: Option<u32>,
    pub mss: Option<u32>,
    pub nodelay: bool,
    pub tos: u8,
    /// Congestion controls of the streams that this end sends, in their order. Empty for the system's.
    pub congestion: Vec<String>,
    /// Most bits a second of each stream.
    pub rate: Option<u64>,
    /// Most bits a second that the kernel lets out of each stream.
    pub pacing: Option<u64>,
    /// Numbers of datagrams have 64 bits.
    pub wide: bool,
    pub zero_copy: bool,
    /// How often streams are looked at, in nanoseconds.
    pub look_ns: u64,
    /// How often the client is told what this end sees, in nanoseconds; none where it does not want to know.
    pub reports_ns: Option<u64>,
    /// Datagrams at a rate that leave together.
    pub burst: u32,
    /// Each datagram that comes is logged, of one stream.
    pub log: bool,
    /// What is sent is easy to compress.
    pub repeating: bool,
    pub whole: bool,
    /// The client wants what an iperf3 server would print.
    pub output: bool,
    /// The client understands Quell's addition.
    pub quell: bool,
    /// Its streams come from another address than its connection, or may.
    pub elsewhere: bool,
    /// What the hellos of its UDP streams carry.
    pub token: Option<HelloToken>,
    pub program: String,
}

/// Why a test is not carried out, in iperf3's words and in ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unfit {
    /// Number of an error of iperf3 (`iperf_api.h`).
    pub code: u32,
    pub why: String,
}

impl Unfit {
    /// `IEDURATION`.
    pub const DURATION: u32 = 5;
    /// `IENUMSTREAMS`.
    pub const STREAMS: u32 = 6;
    /// `IEBLOCKSIZE`.
    pub const BLOCK: u32 = 7;
    /// `IEOMIT`.
    pub const OMIT: u32 = 12;
    /// `IENOSCTP`.
    pub const SCTP: u32 = 18;
    /// `IEUDPBLOCKSIZE`.
    pub const DATAGRAM: u32 = 20;
    /// `IEBADTOS`.
    pub const TOS: u32 = 21;
    /// `IETOTALRATE`.
    pub const RATE: u32 = 27;
    /// `IEINITTEST`: with an errno that says more.
    pub const SYSTEM: u32 = 101;
    /// `IEMESSAGE`.
    pub const MESSAGE: u32 = 110;
    /// `IERECVPARAMS`.
    pub const PARAMETERS: u32 = 114;
    /// `IESETCONGESTION`.
    pub const CONGESTION: u32 = 134;

    pub fn new(code: u32, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    #[error("{0}")]
    Unfit(#[from] Unfit),
    #[error("{0}")]
    Busy(String),
    #[error("the client was stopped")]
    ClientStopped,
    #[error("the client went away")]
    Gone,
    #[error("the client did not go on in time")]
    Late,
    #[error("the client does not keep to the protocol: {0}")]
    Protocol(String),
    #[error("its time was up")]
    TimeUp,
    #[error("{}", Full::SentAway)]
    Idle,
    #[error("the server was stopped")]
    ServerStopped,
    #[error("{0}")]
    System(#[from] SysError),
}

impl From<ExchangeError> for Break {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Closed => Self::Gone,
            ExchangeError::Late => Self::Late,
            ExchangeError::Stopped => Self::ServerStopped,
            ExchangeError::System(error) => Self::System(error),
        }
    }
}

impl ServePlan {
    /// What these parameters mean. Errors when no test has them, or when they are beyond the limits.
    pub fn of(asked: &Parameters, limits: &Limits) -> Result<Self, Unfit> {
        let (omit_ns, time_ns) = times(asked);
        is_within(asked, limits, omit_ns.saturating_add(time_ns))?;
        let wide = asked.wide();
        let wishes = asked.quell.as_ref();
        let tos = asked.tos.unwrap_or(0);
        let tos = u8::try_from(tos)
            .map_err(|_| Unfit::new(Unfit::TOS, format!("a TOS byte of {tos}")))?;
        let mut congestion = wishes.map_or_else(Vec::new, |w| w.congestion.clone());
        if congestion.is_empty() {
            congestion.extend(asked.congestion.clone());
        }
        if let Some(name) = congestion.iter().find(|name| name.len() > TEST.congestion_name) {
            let why = format!("a congestion control with a name of {} bytes", name.len());
            return Err(Unfit::new(Unfit::CONGESTION, why));
        }
        let (up, down) = asked.streams();
        let some = |value: Option<u64>| value.filter(|v| *v > 0);
        let look_ns = wishes.map_or(0, |w| u64::from(w.look_ms) * 1_000_000);
        let version = asked
            .client_version
            .as_deref()
            .map_or("of no version".into(), |said| printable(said, TEST.version));
        Ok(Self {
            udp: asked.udp,
            up: up as usize,
            down: down as usize,
            omit_ns,
            time_ns: Some(time_ns).filter(|t| *t > 0),
            bytes: Some(asked.num).filter(|n| *n > 0 && time_ns == 0),
            bounded: wishes.is_some_and(|w| asked.tcp || w.bounded),
            len: asked.len as usize,
            window: some(asked.window).map(|w| u32::try_from(w).unwrap_or(u32::MAX)),
            mss: asked.mss.filter(|m| *m > 0),
            nodelay: asked.nodelay,
            tos,
            congestion,
            rate: some(asked.bandwidth),
            pacing: some(asked.fqrate),
            wide,
            zero_copy: wishes.is_some_and(|w| w.zero_copy),
            look_ns: if look_ns == 0 {
                TEST.look_ns
            } else {
                look_ns.clamp(TEST.least_look_ns, TEST.look_ns)
            },
            reports_ns: wishes
                .map(|w| u64::from(w.reports_ms) * 1_000_000)
                .filter(|ns| *ns > 0)
                .map(|ns| ns.max(TEST.least_report_ns)),
            burst: asked.burst.unwrap_or(1).clamp(1, TEST.burst),
            log: wishes.is_some_and(|w| w.log) && asked.parallel == 1,
            repeating: asked.repeating_payload.is_some_and(|flag| flag != 0),
            whole: asked.dont_fragment.is_some_and(|flag| flag != 0),
            output: asked.get_server_output.is_some_and(|flag| flag != 0),
            quell: wishes.is_some(),
            elsewhere: wishes.is_some_and(|w| w.elsewhere),
            token: wishes.and_then(|w| w.token).filter(|_| asked.udp),
            program: match wishes {
                // Its version field is what iperf3 servers want to read.
                Some(_) => "quell".into(),
                None => format!("iperf3 {version}"),
            },
        })
    }

    pub fn streams(&self) -> usize {
        self.up + self.down
    }

    /// By what they are known, where each connection proves a secret or none does.
    pub fn known_by(&self, proven: bool) -> Streams {
        match self.udp {
            true => Streams::Udp(self.token),
            false => Streams::Tcp { elsewhere: self.elsewhere || proven },
        }
    }

    pub fn asks_for_streams(&self) -> State {
        match self.token {
            Some(_) => State::CreateTokenStreams,
            None => State::CreateStreams,
        }
    }

    /// What the stream with this number has to send of the amount.
    pub fn bytes_of(&self, id: u32) -> Option<u64> {
        let place = stream_place(id).saturating_sub(self.up);
        let bytes = self.bytes.filter(|_| self.bounded)?;
        Some(part_of(bytes, place, self.down, self.udp.then_some(self.len as u64)))
    }

    /// When it ends, if its data began to flow at `start_ns`: so much after its own time, and never long after the longest that one may take. What
    /// came before, as pings without a load, is not its time.
    pub fn end_ns(&self, start_ns: u64, more_ns: u64, longest_ns: u64) -> u64 {
        let longest = start_ns.saturating_add(longest_ns);
        let Some(time_ns) = self.time_ns else { return longest };
        let own = start_ns.saturating_add(self.omit_ns).saturating_add(time_ns);
        own.saturating_add(more_ns).min(longest.saturating_add(TEST.grace_ns))
    }

    /// For how many seconds this end sent datagrams, where it was done, or the client's word of the end came, after so many. Nothing holds them back: their
    /// sender is through when its time is over, however late that word is.
    pub fn sent_datagrams_for(&self, until_the_word_s: f64) -> f64 {
        self.time_ns.map_or(until_the_word_s, |time| until_the_word_s.min(time as f64 / 1e9))
    }

    /// The congestion control of the stream with this index; none where this end only receives. A shorter list is gone through again.
    pub fn congestion_of(&self, index: usize) -> Option<&str> {
        let place = index.checked_sub(self.up)? % self.congestion.len().max(1);
        self.congestion.get(place).map(String::as_str)
    }

    /// Bits a second of all streams together, where the client says how many.
    pub fn total_rate(&self) -> Option<u64> {
        Some(self.rate?.saturating_mul(self.streams() as u64))
    }
}

/// The time that does not count, and how long it takes after that, in nanoseconds.
fn times(asked: &Parameters) -> (u64, u64) {
    let wishes = asked.quell.as_ref();
    let ns = |wish: Option<u64>, seconds: u32| match wish {
        Some(ms) => ms.saturating_mul(1_000_000),
        None => u64::from(seconds) * 1_000_000_000,
    };
    let omit_ms = wishes.and_then(|w| w.omit_ms);
    (ns(omit_ms, asked.omit), ns(wishes.and_then(|w| w.time_ms), asked.time))
}

/// Whether a test has these parameters, of so many nanoseconds, within the limits.
fn is_within(asked: &Parameters, limits: &Limits, lasts_ns: u64) -> Result<(), Unfit> {
    let unfit = |code, why: String| Err(Unfit::new(code, why));
    if asked.tcp == asked.udp {
        let why = if asked.sctp { "SCTP is not spoken here" } else { "neither TCP nor UDP" };
        return unfit(Unfit::SCTP, why.into());
    }
    if asked.parallel == 0 || asked.parallel > limits.streams {
        let (asked, most) = (asked.parallel, limits.streams);
        return unfit(Unfit::STREAMS, format!("{asked} streams; at most {most}"));
    }
    let (least, most, code) = match (asked.udp, asked.wide()) {
        (false, _) => (1, TEST.block, Unfit::BLOCK),
        (true, false) => (12, TEST.datagram, Unfit::DATAGRAM),
        (true, true) => (16, TEST.datagram, Unfit::DATAGRAM),
    };
    if !(least..=most).contains(&asked.len) {
        return unfit(code, format!("blocks of {} bytes; {least} to {most} can be", asked.len));
    }
    if u64::from(asked.omit) > TEST.omit_s {
        return unfit(Unfit::OMIT, format!("{} s that do not count", asked.omit));
    }
    if lasts_ns > limits.time_ns {
        let most = limits.time_ns / 1_000_000_000;
        let seconds = u64::from(asked.omit) + u64::from(asked.time);
        return unfit(Unfit::DURATION, format!("a test of {seconds} s; at most {most} s"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_wire::iperf3::Wishes;

    fn asked() -> Parameters {
        Parameters {
            tcp: true,
            time: 10,
            parallel: 2,
            len: 131_072,
            client_version: Some("3.12".into()),
            ..Parameters::default()
        }
    }

    fn plan(asked: &Parameters) -> Result<ServePlan, Unfit> {
        ServePlan::of(asked, &Limits::default())
    }

    #[test]
    fn what_iperf3_asks_for_by_default_is_a_plan() {
        let plan = plan(&asked()).unwrap();
        assert_eq!((plan.up, plan.down, plan.udp), (2, 0, false));
        assert_eq!(
            (plan.time_ns, plan.rate, plan.total_rate()),
            (Some(10_000_000_000), None, None)
        );
        assert_eq!(plan.program, "iperf3 3.12");
    }

    #[test]
    fn what_no_test_has_and_what_is_beyond_the_limits_is_refused_in_iperf3s_numbers() {
        let codes = [
            Parameters { udp: true, ..asked() },
            Parameters { tcp: false, sctp: true, ..asked() },
            Parameters { parallel: 0, ..asked() },
            Parameters { parallel: 129, ..asked() },
            Parameters { len: 0, ..asked() },
            Parameters { len: 2 << 20, ..asked() },
            Parameters { tcp: false, udp: true, len: 65_508, ..asked() },
            Parameters { tcp: false, udp: true, len: 11, ..asked() },
            Parameters { omit: 601, ..asked() },
            Parameters { time: 3601, ..asked() },
            Parameters { time: u32::MAX, omit: 600, ..asked() },
            Parameters { tos: Some(256), ..asked() },
            Parameters { tos: Some(-1), ..asked() },
            Parameters { congestion: Some("a".repeat(16)), ..asked() },
        ]
        .map(|asked| plan(&asked).unwrap_err().code);
        assert_eq!(codes, [18, 18, 6, 6, 7, 7, 20, 20, 12, 5, 5, 21, 21, 134]);
    }

    #[test]
    fn wishes_go_before_what_iperf3_can_say() {
        let wishes = Wishes {
            version: 1,
            look_ms: 100,
            congestion: vec!["cubic".into(), "bbr".into()],
            time_ms: Some(1500),
            ..Wishes::default()
        };
        let asked = Parameters { time: 2, quell: Some(wishes), bidirectional: true, ..asked() };
        let plan = plan(&asked).unwrap();
        assert_eq!((plan.time_ns, plan.look_ns), (Some(1_500_000_000), 100_000_000));
        assert_eq!(
            [0, 1, 2, 3, 4].map(|n| plan.congestion_of(n)),
            [None, None, Some("cubic"), Some("bbr"), Some("cubic")],
            "what comes from the client needs none"
        );
    }

    #[test]
    fn who_has_a_token_is_asked_for_streams_with_it_and_others_as_iperf3_asks() {
        let token = Some(HelloToken::new([7; 16]));
        let told = |udp: bool, token| {
            let quell = Some(Wishes { token, ..Wishes::default() });
            let plan = plan(&Parameters { tcp: !udp, udp, len: 1000, quell, ..asked() }).unwrap();
            (plan.asks_for_streams(), plan.known_by(false))
        };
        assert_eq!(told(true, token), (State::CreateTokenStreams, Streams::Udp(token)));
        assert_eq!(told(true, None), (State::CreateStreams, Streams::Udp(None)));
        let near = Streams::Tcp { elsewhere: false };
        assert_eq!(told(false, token), (State::CreateStreams, near));
    }

    #[test]
    fn connections_come_from_elsewhere_where_that_was_said_or_each_proves_a_secret() {
        let told = |elsewhere: bool, proven: bool| {
            let quell = Some(Wishes { elsewhere, ..Wishes::default() });
            let plan = plan(&Parameters { tcp: true, len: 1000, quell, ..asked() }).unwrap();
            plan.known_by(proven) == Streams::Tcp { elsewhere: true }
        };
        assert!(!told(false, false));
        assert!(told(true, false) && told(false, true));
    }

    #[test]
    fn an_amount_of_datagrams_is_what_is_sent_to_who_does_not_wait_until_it_came() {
        let plan = |bounded| {
            let quell = Some(Wishes { bounded, ..Wishes::default() });
            let (tcp, udp, reverse, len) = (false, true, true, 1000);
            let num = 100_001;
            plan(&Parameters { tcp, udp, reverse, len, num, quell, time: 0, ..asked() }).unwrap()
        };
        let (old, new) = (plan(false), plan(true));
        assert_eq!((old.bytes_of(1), old.bytes_of(3)), (None, None));
        assert_eq!(
            (new.bytes_of(1), new.bytes_of(3)),
            (Some(51_000), Some(50_000)),
            "101 of 1000 bytes"
        );
    }

    #[test]
    fn a_test_as_long_as_may_be_has_its_time_from_its_data_on_and_a_bounded_grace() {
        const S: u64 = 1_000_000_000;
        let quell = Wishes { time_ms: Some(3000), omit_ms: Some(2000), ..Wishes::default() };
        let asked = Parameters { time: 3, omit: 2, quell: Some(quell), ..asked() };
        let limits = Limits { time_ns: 5 * S, ..Limits::default() };
        let timed = ServePlan::of(&asked, &limits).unwrap();
        let end = |plan: &ServePlan, more| plan.end_ns(100 * S, more, limits.time_ns);
        assert_eq!([0, S, 60 * S].map(|more| end(&timed, more)), [105 * S, 106 * S, 115 * S]);
        let amount = ServePlan { time_ns: None, omit_ns: 0, ..timed.clone() };
        assert_eq!([0, 60 * S].map(|more| end(&amount, more)), [105 * S; 2]);
        let long = Parameters { time: 4, quell: None, ..asked };
        assert_eq!(ServePlan::of(&long, &limits).unwrap_err().code, Unfit::DURATION);
    }

    #[test]
    fn a_sender_of_datagrams_is_through_when_its_time_is_over_and_not_when_the_clients_word_comes()
    {
        let plan =
            plan(&Parameters { tcp: false, udp: true, len: 1000, time: 4, ..asked() }).unwrap();
        assert_eq!([5.052, 2.5].map(|word| plan.sent_datagrams_for(word)), [4.0, 2.5]);
    }

    #[test]
    fn a_version_can_not_write_to_the_log_what_it_likes() {
        let said = |version: &str| {
            plan(&Parameters { client_version: Some(version.into()), ..asked() }).unwrap().program
        };
        assert_eq!(said("3.12\n#9 forged"), "iperf3 3.12\\x0a#9 forged");
        assert_eq!(said(&"9".repeat(100)).chars().count(), "iperf3 ".len() + 25);
    }
}
