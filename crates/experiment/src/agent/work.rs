//! A task as work: what is needed is opened in `prepare`, the rest happens in `run`. Reasons are for people.

use quell_load::command::PreparedCommand;
use quell_load::sample::{QueueSampler, SocketSampler};
use quell_load::sink::Sink;
use quell_load::tcp::{Client, Server};
use quell_load::udp::Sender;
use quell_model::{Event, Task, TaskKind};
use quell_probe::{Listener, Ping, Reflector, TcpPing, UdpEchoClient};
use quell_rr::{ClientTask, ServerTask};
use quell_sys::pace::Window;
use quell_sys::wait::Bell;

/// A task that is ready to start.
pub(super) enum Work {
    Ping(Ping),
    TcpPing(TcpPing),
    TcpListener(Listener),
    UdpEcho(UdpEchoClient),
    UdpReflector(Reflector),
    Tcp(Client),
    TcpServer(Server),
    UdpSend(Sender),
    UdpSink(Sink),
    Command(PreparedCommand),
    SampleQueues(QueueSampler),
    SampleSockets(SocketSampler),
    Rr(ClientTask),
    RrServer(ServerTask),
}

impl Work {
    /// Opens what the task needs.
    pub fn prepare(task: &Task) -> Result<Self, String> {
        let id = &task.id;
        let reason = |e: quell_probe::ProbeError| e.to_string();
        let why = |e: quell_load::LoadError| e.to_string();
        Ok(match &task.kind {
            TaskKind::Ping { streams } => {
                Work::Ping(Ping::prepare(streams, task.seed).map_err(reason)?)
            }
            TaskKind::TcpPing { streams } => {
                Work::TcpPing(TcpPing::prepare(streams, task.seed).map_err(reason)?)
            }
            TaskKind::TcpListener { bind } => {
                Work::TcpListener(Listener::prepare(*bind).map_err(reason)?)
            }
            TaskKind::UdpEcho(echo) => {
                Work::UdpEcho(UdpEchoClient::prepare(echo, task.seed).map_err(reason)?)
            }
            TaskKind::UdpReflector { bind } => {
                Work::UdpReflector(Reflector::prepare(*bind).map_err(reason)?)
            }
            TaskKind::Tcp(client) => {
                Work::Tcp(Client::prepare(id, client, task.seed).map_err(why)?)
            }
            TaskKind::TcpServer { bind, report, window } => {
                Work::TcpServer(Server::prepare(id, *bind, *report, *window).map_err(why)?)
            }
            TaskKind::UdpSend(send) => {
                Work::UdpSend(Sender::prepare(send, task.seed).map_err(why)?)
            }
            TaskKind::UdpSink { bind, report } => {
                Work::UdpSink(Sink::prepare(id, *bind, *report).map_err(why)?)
            }
            TaskKind::Command { argv } => {
                Work::Command(PreparedCommand::prepare(id, argv).map_err(why)?)
            }
            TaskKind::SampleQueues { devices, interval } => Work::SampleQueues(
                QueueSampler::prepare(&task.host, devices, *interval).map_err(why)?,
            ),
            TaskKind::SampleSockets { interval } => {
                Work::SampleSockets(SocketSampler::prepare(*interval).map_err(why)?)
            }
            TaskKind::Rr(client) => {
                Work::Rr(ClientTask::prepare(client).map_err(|e| e.to_string())?)
            }
            TaskKind::RrServer { bind } => {
                Work::RrServer(ServerTask::prepare(*bind).map_err(|e| e.to_string())?)
            }
        })
    }

    /// Carries it out: a client to its end, a server until the bell rings.
    pub fn run(
        self,
        window: &Window,
        stop: &Bell,
        emit: &(dyn Fn(Event) + Sync),
    ) -> Result<(), String> {
        let reason = |e: quell_probe::ProbeError| e.to_string();
        let why = |e: quell_load::LoadError| e.to_string();
        match self {
            Work::Ping(work) => work.run(window, stop, emit).map_err(reason),
            Work::TcpPing(work) => work.run(window, stop, emit).map_err(reason),
            Work::TcpListener(work) => work.run(stop).map_err(reason),
            Work::UdpEcho(work) => work.run(window, stop, emit).map_err(reason),
            Work::UdpReflector(work) => work.run(stop).map_err(reason),
            Work::Tcp(work) => work.run(window, stop, emit).map_err(why),
            Work::TcpServer(work) => work.run(window, stop, emit).map_err(why),
            Work::UdpSend(work) => work.run(window, stop, emit).map_err(why),
            Work::UdpSink(work) => work.run(window, stop, emit).map_err(why),
            Work::Command(work) => work.run(window, stop, emit).map_err(why),
            Work::SampleQueues(work) => work.run(window, stop, emit).map_err(why),
            Work::SampleSockets(work) => work.run(window, stop, emit).map_err(why),
            Work::Rr(work) => work.run(window, stop, emit).map_err(|e| e.to_string()),
            Work::RrServer(work) => work.run(stop).map_err(|e| e.to_string()),
        }
    }
}
