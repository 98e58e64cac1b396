//! The server itself: one TCP listener, one UDP socket, a thread for each connection.

use crate::admission;
use crate::congestion::CongestionHelper;
use crate::counts;
use crate::event::ServeEvent;
use crate::home;
use crate::hub::{Accepted, Hub, Tell};
use crate::limits::{Limits, SERVER};
use crate::privileges::{self, Account, PrivilegeError};
use crate::udp;
use crate::web::{Web, WebConfig, WebError};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use quell_metrics::MetricsEndpoint;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::memory;
use quell_sys::socket::shared::SharedUdp;
use quell_sys::socket::stream::{accept, listen};
use quell_sys::wait::{Alarm, Bell, came, readable, wait};
use quell_wire::auth::Secret;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::thread::{Builder, scope};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeConfig {
    pub bind: SocketAddr,
    pub limits: Limits,
    pub secret: Option<Secret>,
    /// Where clients reach it beside its own addresses, as behind NAT; port 0 for its own.
    pub reached_at: Vec<SocketAddr>,
    pub one_off: bool,
    pub time_ns: Option<u64>,
    /// Only hosts of the networks that this machine is in are served.
    pub home: bool,
    pub web: Option<WebConfig>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    #[error("{0}")]
    System(#[from] SysError),
    #[error("{0}")]
    Web(#[from] WebError),
    #[error("{0}")]
    Privileges(#[from] PrivilegeError),
}

#[derive(Debug)]
pub struct Server {
    tcp: TcpListener,
    udp: SharedUdp,
    config: ServeConfig,
    user: Option<String>,
    congestion: Option<CongestionHelper>,
    descriptors: u64,
}

impl Server {
    /// Listens with TCP and UDP on one port. Errors when either is in use, and where there are too few descriptors to serve anybody.
    pub fn prepare(config: ServeConfig) -> Result<Self, ServeError> {
        let descriptors = descriptors();
        spare_descriptors()?;
        let mut tries = 0;
        loop {
            let tcp = listen(config.bind)?;
            let failed = |e| SysError::io("read a listener's address", &e);
            let local = tcp.local_addr().map_err(failed)?;
            match SharedUdp::listening(local) {
                Ok(udp) => {
                    return Ok(Self {
                        tcp,
                        udp,
                        config,
                        user: None,
                        congestion: None,
                        descriptors,
                    });
                }
                // The port that TCP found may be taken for UDP: another one.
                Err(_) if config.bind.port() == 0 && tries < SERVER.ports => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub fn local(&self) -> SocketAddr {
        self.udp.local()
    }

    /// Gives up root's rights, if this process has them, and becomes that user. For a process that has one thread still.
    pub fn give_up_rights(&mut self, user: &str) -> Result<(), ServeError> {
        if privileges::is_root() {
            let account = Account::find(user)?;
            self.congestion = Some(CongestionHelper::start(&account)?);
            if privileges::can_become(&account) {
                self.udp.give_to(account.uid())?;
                privileges::drop_to(&account)?;
                self.user = Some(account.name);
            } else {
                privileges::stay(&account)?;
                self.user = Some("root of a user namespace that maps no other".to_owned());
            }
        }
        Ok(privileges::harden()?)
    }

    /// Serves until the bell rings, until its time is up, or with `one_off` until the first session has ended.
    pub fn run(
        &self,
        stop: &Bell,
        tell: Tell<'_>,
        metrics: Option<&MetricsEndpoint>,
    ) -> Result<(), ServeError> {
        let ServeConfig { limits, secret, reached_at, one_off, time_ns, web, home, .. } =
            self.config.clone();
        let limits = within(self.descriptors, limits);
        let trusted = secret.is_some();
        memory::share_arenas();
        let networks = home::networks();
        let pages =
            web.as_ref().map(|_| home::pages(&networks, self.local(), home)).unwrap_or_default();
        let mut hub = Hub::new(limits, secret, one_off, stop, tell);
        hub.congestion = self.congestion.as_ref();
        let own_port = self.local().port();
        let port = |at: SocketAddr| if at.port() == 0 { own_port } else { at.port() };
        hub.reached_at = reached_at.iter().map(|at| (at.ip(), port(*at)).into()).collect();
        if home {
            hub.is_for(networks);
        }
        let hub = hub;
        let web = web.map(|web| Web::new(&hub, web, self.local().ip())).transpose()?;
        hub.tell(&ServeEvent::Started {
            address: self.local(),
            secret: trusted,
            user: self.user.clone(),
            pages,
        });
        let end_ns = time_ns.map(|time| monotonic_ns().saturating_add(time));
        let (served, reflected) = scope(|scope| {
            let (hub, web) = (&hub, web.as_ref());
            let udp = Builder::new().name("udp".into());
            let udp = udp.spawn_scoped(scope, || udp::run(hub, &self.udp));
            let udp = match udp {
                Ok(thread) => thread,
                Err(error) => return (Err(SysError::io("start a thread", &error)), Ok(())),
            };
            if let Some(endpoint) = metrics {
                scope.spawn(move || endpoint.serve(hub.stop, &|| counts::page(hub)));
            }
            let served = self.accept((hub, web), scope, end_ns);
            // Everybody hears it: those who wait, and those who are blocked in a connection.
            stop.ring();
            hub.abort_all();
            (served, udp.join().unwrap_or(Ok(())))
        });
        hub.last_words();
        hub.tell(&ServeEvent::Stopped {
            sessions: hub.sessions(),
            reflected: hub.reflected.load(Ordering::Relaxed),
        });
        served?;
        reflected?;
        Ok(())
    }

    fn accept<'s, 'h: 's>(
        &'s self,
        (hub, web): (&'s Hub<'s>, Option<&'s Web<'h>>),
        scope: &'s std::thread::Scope<'s, '_>,
        end_ns: Option<u64>,
    ) -> Result<(), SysError> {
        let mut alarm = Alarm::new()?;
        let mut number = 0;
        loop {
            alarm.set(end_ns)?;
            let mut fds = [readable(hub.stop), readable(&alarm), readable(&self.tcp)];
            wait(&mut fds)?;
            if came(&fds[0]) || came(&fds[1]) {
                return Ok(());
            }
            // Those that wait are let in together: there may be more of them each time than one costs.
            for _ in 0..SERVER.at_once {
                if hub.is_crowded() {
                    rest(hub, &mut alarm, end_ns, SERVER.soon_ns)?;
                    break;
                }
                let (stream, peer) = match accept(&self.tcp) {
                    Ok(Some(accepted)) => accepted,
                    Ok(None) => break,
                    // No descriptor is left. The listener stays readable meanwhile, and asking again at once would spin.
                    Err(_) => {
                        make_room(hub, &mut alarm, end_ns)?;
                        break;
                    }
                };
                if !hub.serves(peer.ip(), true) {
                    hub.refuse(peer, "it is in none of this home's networks (--home)");
                    continue;
                }
                let half_open = loop {
                    if let Some(half_open) = hub.half_open(peer.ip(), &stream) {
                        break half_open;
                    }
                    if make_room(hub, &mut alarm, end_ns)? {
                        return Ok(());
                    }
                };
                let guest = Accepted { stream, peer, number, came_ns: monotonic_ns() };
                number += 1;
                let thread = Builder::new().name("guest".into()).stack_size(512 * 1024);
                // Without a thread the connection closes, and the client sees that.
                if let Err(error) = thread
                    .spawn_scoped(scope, move || admission::open((hub, web), guest, half_open))
                {
                    hub.refuse(peer, format!("no thread for it: {error}"));
                }
            }
        }
    }
}

/// Has somebody who does nothing with its descriptors give them back, and waits until that may have happened. Gives whether the server
/// is to end.
fn make_room(hub: &Hub<'_>, alarm: &mut Alarm, end_ns: Option<u64>) -> Result<bool, SysError> {
    let rest_ns = if hub.relieve() { SERVER.soon_ns } else { SERVER.rest_ns };
    rest(hub, alarm, end_ns, rest_ns)
}

/// Waits for so long; whether the server is to end.
fn rest(
    hub: &Hub<'_>,
    alarm: &mut Alarm,
    end_ns: Option<u64>,
    rest_ns: u64,
) -> Result<bool, SysError> {
    let rest = monotonic_ns().saturating_add(rest_ns);
    alarm.set(Some(end_ns.map_or(rest, |end| end.min(rest))))?;
    let mut fds = [readable(hub.stop), readable(&*alarm)];
    wait(&mut fds)?;
    Ok(came(&fds[0]) || end_ns.is_some_and(|end| end <= monotonic_ns()))
}

/// How many descriptors this process may have: as many as the system lets it.
fn descriptors() -> u64 {
    let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    match setrlimit(Resource::RLIMIT_NOFILE, most, most) {
        Ok(()) => most,
        Err(_) => now,
    }
}

/// Errors where one client's connections would find no descriptor: it would be told that it serves, and nobody would be.
fn spare_descriptors() -> Result<(), SysError> {
    let spare = |_| Bell::new().map_err(|error| error.errno);
    let found: Result<Vec<Bell>, Errno> = (0..SERVER.files_of_one).map(spare).collect();
    found.map(drop).map_err(|errno| {
        SysError::new(
            format!("open the {} files that serving one client takes", SERVER.files_of_one),
            errno,
        )
        .advise("let this process have more: ulimit -n 64, or LimitNOFILE=64 in its unit")
    })
}

/// Unknown connections take three descriptors each: all of them together less than half. Where there are few, a session takes up to eight
/// beside those of its streams, which all come as unknown connections first: places run out, and somebody at rest gives way, before
/// descriptors do.
fn within(descriptors: u64, limits: Limits) -> Limits {
    let part =
        |of: u64, least: usize| usize::try_from(descriptors / of).unwrap_or(usize::MAX).max(least);
    if descriptors >= SERVER.enough_files {
        return Limits { half_open: limits.half_open.min(part(8, 4)), ..limits };
    }
    let sessions = limits.sessions.min(part(32, 3));
    Limits {
        half_open: limits.half_open.min(part(12, 4)),
        streams_of_all: limits.streams_of_all.min(part(10, 4)),
        sessions,
        // The last place is not for a client that has all others.
        sessions_of_one: limits.sessions_of_one.min(sessions.saturating_sub(1).max(1)),
        ..limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_descriptors_are_few_all_that_may_be_there_at_once_finds_some() {
        for descriptors in [64, 100, 128, 256, 512] {
            let limits = within(descriptors, Limits::default());
            let streams = 2 * limits.streams_of_all;
            // Some unknown connections more, that were sent away for newcomers and have not seen it.
            let unknown = 3 * (limits.half_open + limits.half_open / 8 + 1);
            let all = 8 + unknown + 8 * limits.sessions + streams;
            assert!(all as u64 <= descriptors, "{all} of {descriptors}");
            assert!(limits.sessions_of_one < limits.sessions, "{descriptors}: one client has all");
        }
        let usual = within(16_384, Limits::default());
        assert_eq!((usual.sessions, usual.half_open, usual.streams_of_all), (32, 512, 1024));
    }
}
