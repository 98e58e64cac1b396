//! Loads and probes as tasks, with the servers that they need.

use super::PlanError;
use crate::spec::{
    Experiment, Load, PingProbe, Probe, Program, RrProbe, Scenario, TcpFlow, TcpPingProbe, UdpFlow,
    UdpProbe,
};
use quell_lab::topology::Network;
use quell_model::task::{OnOff, PingStream, RrClient, TcpClient, TcpPingStream, UdpEcho, UdpSend};
use quell_model::{Task, TaskKind};
use quell_stats::rng::Rng;
use quell_units::Span;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How often flows report their state.
const REPORT: Span = Span::from_millis(100);

/// Where nobody of ours listens.
const DISCARD_PORT: u16 = 9;

/// How long an rr probe waits for a connection, and then for a reply: a deep queue before a slow line holds it up for many seconds, and late
/// is not lost.
const CALL_PATIENCE: Span = Span::from_secs(60);

/// First port of servers; each gets its own.
const FIRST_PORT: u16 = 5201;

/// All tasks of a cell. `linger` is how long a packet may be under way: probes wait so long for replies, UDP loads for what they sent
/// last.
pub fn tasks(
    experiment: &Experiment,
    network: &Network,
    scenario: &Scenario,
    probes: &[&Probe],
    linger: Span,
    seed: u64,
) -> Result<Vec<Task>, PlanError> {
    let mut maker = Maker {
        network,
        rng: Rng::new(seed),
        port: FIRST_PORT,
        warm_up: experiment.warm_up,
        duration: experiment.duration,
        linger,
        tasks: Vec::new(),
    };
    for name in &scenario.loads {
        let load = experiment.load.iter().find(|l| l.name() == name).ok_or_else(|| {
            PlanError::Other(format!(
                "scenario `{}` names the load `{name}`, which is not there",
                scenario.name
            ))
        })?;
        maker.load(load)?;
    }
    for probe in probes {
        maker.probe(probe)?;
    }
    Ok(maker.tasks)
}

struct Maker<'a> {
    network: &'a Network,
    rng: Rng,
    port: u16,
    warm_up: Span,
    duration: Span,
    linger: Span,
    tasks: Vec<Task>,
}

/// When a client runs.
#[derive(Clone, Copy)]
struct When {
    start_ns: i64,
    duration: Span,
}

impl Maker<'_> {
    fn load(&mut self, load: &Load) -> Result<(), PlanError> {
        match load {
            Load::Tcp(flow) => {
                let when = self.when(flow.start, flow.duration);
                self.tcp(&format!("load/{}", flow.name), flow, when)
            }
            Load::Udp(flow) => self.udp(flow),
            Load::Command(program) => self.command(program),
        }
    }

    fn probe(&mut self, probe: &Probe) -> Result<(), PlanError> {
        match probe {
            Probe::Ping(ping) => self.ping(ping),
            Probe::TcpPing(ping) => self.tcp_ping(ping),
            Probe::Udp(udp) => self.udp_echo(udp),
            Probe::Rr(rr) => self.rr(rr),
            Probe::Tcp(flow) => {
                // Like a load it warms up: what is measured is the transfer, not its first round trips. One that is limited is
                // measured as a whole.
                let limited = flow.bytes.is_some() || flow.duration.is_some();
                let start = flow.start.or(limited.then_some(Span::ZERO));
                let when = self.when(start, flow.duration);
                self.tcp(&format!("probe/{}", flow.name), flow, when)
            }
        }
    }

    /// Loads start with the warm-up and last to the end, unless they say otherwise.
    fn when(&self, start: Option<Span>, duration: Option<Span>) -> When {
        let start_ns = match start {
            Some(start) => start.nanos() as i64,
            None => -(self.warm_up.nanos() as i64),
        };
        let rest = (self.duration.nanos() as i64 - start_ns).max(0) as u64;
        let duration = duration.map_or(rest, |d| d.nanos().min(rest));
        When { start_ns, duration: Span::from_nanos(duration) }
    }

    fn push(&mut self, id: &str, host: &str, when: When, kind: TaskKind) {
        let seed = self.rng.derive(id).u64();
        self.tasks.push(Task {
            id: id.into(),
            host: host.into(),
            start_ns: when.start_ns,
            duration: when.duration,
            seed,
            kind,
        });
    }

    fn server(
        &mut self,
        id: &str,
        host: &str,
        ipv6: bool,
        kind: impl Fn(SocketAddr) -> TaskKind,
    ) -> u16 {
        let port = self.port;
        self.port += 1;
        let any: IpAddr =
            if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let when = When { start_ns: 0, duration: self.duration };
        self.push(&format!("server/{id}"), host, when, kind(SocketAddr::new(any, port)));
        port
    }

    fn address(&self, place: &str, node: &str, ipv6: bool) -> Result<IpAddr, PlanError> {
        let index = self.network.find(place, node)?;
        let address = match ipv6 {
            true => self.network.v6(index).map(IpAddr::V6),
            false => self.network.v4(index).map(IpAddr::V4),
        };
        address.ok_or_else(|| {
            PlanError::Other(format!("{place}: `{node}` has no link and so no address"))
        })
    }

    fn tcp(&mut self, id: &str, flow: &TcpFlow, when: When) -> Result<(), PlanError> {
        self.network.find(id, &flow.from)?;
        let to = self.address(id, &flow.to, flow.ipv6)?;
        // The window is set where the data arrives; for data that comes down, the client is that end.
        let window = flow.window;
        let port = self.server(id, &flow.to, flow.ipv6, |bind| TaskKind::TcpServer {
            bind,
            report: REPORT,
            window,
        });
        let client = TcpClient {
            stream: flow.name.clone(),
            to: SocketAddr::new(to, port),
            connections: flow.connections,
            direction: flow.direction,
            congestion: flow.congestion.clone(),
            tos: flow.tos,
            ecn: flow.ecn,
            pacing: flow.pacing,
            window: flow.window,
            mss: flow.mss,
            bytes: flow.bytes,
            report: REPORT,
        };
        self.push(id, &flow.from, when, TaskKind::Tcp(client));
        Ok(())
    }

    fn udp(&mut self, flow: &UdpFlow) -> Result<(), PlanError> {
        let id = format!("load/{}", flow.name);
        self.network.find(&id, &flow.from)?;
        let to = self.address(&id, &flow.to, flow.ipv6)?;
        let on_off = match (flow.on, flow.off) {
            (None, None) => None,
            (Some(on), Some(off)) => Some(OnOff { on, off }),
            _ => {
                return Err(PlanError::Other(format!(
                    "load `{}`: `on` and `off` go together",
                    flow.name
                )));
            }
        };
        let port = self
            .server(&id, &flow.to, flow.ipv6, |bind| TaskKind::UdpSink { bind, report: REPORT });
        let send = UdpSend {
            stream: flow.name.clone(),
            to: SocketAddr::new(to, port),
            rate: flow.rate,
            size: size(&id, flow.size.get())?,
            tos: flow.tos,
            on_off,
            report: REPORT,
            linger: self.linger,
        };
        let when = self.when(flow.start, flow.duration);
        self.push(&id, &flow.from, when, TaskKind::UdpSend(send));
        Ok(())
    }

    fn command(&mut self, program: &Program) -> Result<(), PlanError> {
        let id = format!("load/{}", program.name);
        self.network.find(&id, &program.on)?;
        let mut argv = Vec::new();
        for word in &program.run {
            argv.push(self.network.fill_in(&id, word)?);
        }
        let when = self.when(program.start, program.duration);
        self.push(&id, &program.on, when, TaskKind::Command { argv });
        Ok(())
    }

    fn ping(&mut self, ping: &PingProbe) -> Result<(), PlanError> {
        let id = format!("probe/{}", ping.name);
        self.network.find(&id, &ping.from)?;
        let to = self.address(&id, &ping.to, ping.ipv6)?;
        let stream = PingStream {
            stream: ping.name.clone(),
            to,
            interval: ping.interval,
            size: size(&id, ping.size.get())?,
            tos: ping.tos,
            linger: self.linger,
        };
        let when = When { start_ns: 0, duration: self.duration };
        self.push(&id, &ping.from, when, TaskKind::Ping { streams: vec![stream] });
        Ok(())
    }

    fn tcp_ping(&mut self, ping: &TcpPingProbe) -> Result<(), PlanError> {
        let id = format!("probe/{}", ping.name);
        self.network.find(&id, &ping.from)?;
        let to = self.address(&id, &ping.to, ping.ipv6)?;
        let port = match ping.listens {
            true => self.server(&id, &ping.to, ping.ipv6, |bind| TaskKind::TcpListener { bind }),
            false => DISCARD_PORT,
        };
        let stream = TcpPingStream {
            stream: ping.name.clone(),
            to: SocketAddr::new(to, port),
            interval: ping.interval,
            tos: ping.tos,
            linger: self.linger,
        };
        let when = When { start_ns: 0, duration: self.duration };
        self.push(&id, &ping.from, when, TaskKind::TcpPing { streams: vec![stream] });
        Ok(())
    }

    fn udp_echo(&mut self, udp: &UdpProbe) -> Result<(), PlanError> {
        let id = format!("probe/{}", udp.name);
        self.network.find(&id, &udp.from)?;
        let to = self.address(&id, &udp.to, udp.ipv6)?;
        let port = self.server(&id, &udp.to, udp.ipv6, |bind| TaskKind::UdpReflector { bind });
        let size = size(&id, udp.size.get())?;
        let echo = UdpEcho {
            stream: udp.name.clone(),
            to: SocketAddr::new(to, port),
            interval: udp.rate.time_for(u64::from(size)),
            size,
            tos: udp.tos,
            linger: self.linger,
        };
        let when = When { start_ns: 0, duration: self.duration };
        self.push(&id, &udp.from, when, TaskKind::UdpEcho(echo));
        Ok(())
    }

    fn rr(&mut self, rr: &RrProbe) -> Result<(), PlanError> {
        let id = format!("probe/{}", rr.name);
        self.network.find(&id, &rr.from)?;
        let to = self.address(&id, &rr.to, rr.ipv6)?;
        let port = self.server(&id, &rr.to, rr.ipv6, |bind| TaskKind::RrServer { bind });
        let client = RrClient {
            stream: rr.name.clone(),
            to: SocketAddr::new(to, port),
            pattern: rr.pattern,
            // Larger ones were refused when the file was checked.
            size: u32::try_from(rr.size.get()).unwrap_or(u32::MAX),
            calls: rr.calls,
            nodelay: rr.nodelay,
            one_write: rr.one_write,
            quickack: rr.quickack,
            patience: CALL_PATIENCE,
        };
        let when = When { start_ns: 0, duration: self.duration };
        self.push(&id, &rr.from, when, TaskKind::Rr(client));
        Ok(())
    }
}

/// A UDP or ICMP payload: what fits in an IP packet.
fn size(id: &str, bytes: u64) -> Result<u32, PlanError> {
    match u32::try_from(bytes) {
        Ok(size) if size <= 65_507 => Ok(size),
        _ => Err(PlanError::Other(format!(
            "{id}: a payload of {bytes} bytes does not fit in an IP packet; at most 65507"
        ))),
    }
}
