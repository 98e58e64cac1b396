//! One UDP port, shared by a socket for whoever comes and a connected one for each peer that stays.
//!
//! ```text
//!                    ┌─ connected to 192.0.2.1:4000 ── its datagrams, in a queue of its own
//!   UDP port 5201 ───┼─ connected to 192.0.2.1:4001
//!                    └─ shared ── everybody else's
//! ```
//!
//! The kernel prefers a connected socket to the others (`compute_score`, net/ipv4/udp.c). Another socket of the same user
//! joins a port where one that has it allows that (`SO_REUSEPORT`, `udp_lib_lport_inuse`): ours do so for the moment in which a peer's socket
//! joins. Who else got in just then is found in /proc/net/udp, and no peer's socket is given out beside it.

use super::datagram::{self, Udp};
use super::ends;
use super::inbox::{Inbox, connect};
use super::option::set;
use crate::SysError;
use nix::errno::Errno;
use nix::sys::stat::fstat;
use nix::unistd::{Uid, fchown};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

#[derive(Debug)]
pub struct SharedUdp {
    socket: Udp,
    local: SocketAddr,
    /// Inodes of our sockets on this port, some of them closed by now.
    own: Mutex<HashMap<u64, Weak<UdpSocket>>>,
}

/// A datagram that got into a peer's queue while that was being connected, and is somebody else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    pub arrival: super::inbox::Arrival,
    pub bytes: Vec<u8>,
}

impl SharedUdp {
    /// Listens. Errors with `EADDRINUSE` when another socket has the port, whether that one shares or not.
    pub fn listening(bind: SocketAddr) -> Result<Self, SysError> {
        let socket = Udp::listening(bind)?;
        let local = socket.local()?;
        let own = HashMap::from([(inode(&socket)?, Arc::downgrade(&socket.socket))]);
        Ok(Self { socket, local, own: own.into() })
    }

    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The socket that everybody's datagrams come to, but those of connected peers.
    pub fn socket(&self) -> &Udp {
        &self.socket
    }

    /// Hands it to another user (fchown(2)), so that sockets for peers can be made after this process has become that user. Needs
    /// `CAP_CHOWN`.
    pub fn give_to(&self, user: u32) -> Result<(), SysError> {
        fchown(&self.socket, Some(Uid::from_raw(user)), None)
            .map_err(|errno| SysError::new(format!("give a socket to user {user}"), errno))
    }

    /// A socket on the same port that is connected to `peer`, which had sent to `to`, one of this host's addresses. Its receive stamps are
    /// on. Whatever had got into its queue before it was connected and is not the peer's is given back.
    /// Errors with `EADDRINUSE` where another program of this user has joined the port.
    pub fn branch(
        &self,
        peer: SocketAddr,
        to: Option<IpAddr>,
    ) -> Result<(Udp, Vec<Stray>), SysError> {
        let own = match (self.local.ip(), to) {
            (ip, Some(to)) if ip.is_unspecified() => match (ip, to) {
                // A socket of both families names IPv4 addresses as IPv6 ones.
                (IpAddr::V6(_), IpAddr::V4(to)) => to.to_ipv6_mapped().into(),
                (_, to) => to,
            },
            (ip, _) => ip,
        };
        let socket = self.join(self.on_link(own, peer))?;
        connect(socket.as_fd(), peer)?;
        socket.tell_all()?;
        let mut strays = Vec::new();
        let mut inbox = Inbox::new(8, 2048);
        // The queue is as long as what came within microseconds; and who floods it only harms this one peer.
        for _ in 0..64 {
            match inbox.receive(socket.as_fd()) {
                Ok(0) => break,
                Ok(_) => {}
                Err(_) => continue,
            }
            let others = inbox.iter().filter(|(arrival, _)| arrival.from != Some(peer));
            strays.extend(others.map(|(a, bytes)| Stray { arrival: *a, bytes: bytes.to_vec() }));
        }
        Ok((socket, strays))
    }

    /// A socket that has joined the port, when nobody else did.
    fn join(&self, at: SocketAddr) -> Result<Udp, SysError> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let ours: Vec<_> = own.values().filter_map(Weak::upgrade).collect();
        ours.iter().try_for_each(|socket| share(socket, true))?;
        let joined = open(at);
        ours.iter().try_for_each(|socket| share(socket, false))?;
        let socket = joined?;
        share(&socket, false)?;
        own.insert(inode(&socket)?, Arc::downgrade(&socket.socket));
        let there = beside(self.local)?;
        // A socket that is open may be missing there; one that is being closed may be there still.
        own.retain(|inode, socket| socket.strong_count() > 0 || there.contains(inode));
        if there.iter().all(|inode| own.contains_key(inode)) {
            return Ok(socket);
        }
        let error =
            SysError::new(format!("open a stream on UDP {}", self.local), Errno::EADDRINUSE);
        Err(error.advise("another program of this user has joined this port: see `ss -ulnp`, and give the server a user of its own"))
    }

    /// This port at one of this host's addresses; of a link-local one, on the link that the peer is on.
    fn on_link(&self, own: IpAddr, peer: SocketAddr) -> SocketAddr {
        let scope = |address: SocketAddr| match address {
            SocketAddr::V6(v6) => Some(v6.scope_id()).filter(|scope| *scope != 0),
            SocketAddr::V4(_) => None,
        };
        match own {
            IpAddr::V6(own) if own.is_unicast_link_local() => {
                let scope = scope(peer).or(scope(self.local)).unwrap_or(0);
                SocketAddrV6::new(own, self.local.port(), 0, scope).into()
            }
            own => SocketAddr::new(own, self.local.port()),
        }
    }
}

/// Whether other sockets of this user may join the port, for all that this one has to say.
fn share(socket: &impl AsFd, may: bool) -> Result<(), SysError> {
    set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, may.into(), "sharing of the port")
}

fn inode(socket: &Udp) -> Result<u64, SysError> {
    let failed = |errno| SysError::new("look at a socket of one's own", errno);
    Ok(fstat(socket).map_err(failed)?.st_ino)
}

/// The inodes of sockets of this network namespace to which datagrams for this address may come (proc_net(5)). Where others open and close sockets
/// meanwhile, some are left out: each read(2) counts anew from the first one (`udp_get_idx`, net/ipv4/udp.c).
fn beside(at: SocketAddr) -> Result<HashSet<u64>, SysError> {
    let mut all = HashSet::new();
    for table in [File::open("/proc/net/udp"), File::open("/proc/net/udp6")] {
        let table = match table {
            Ok(table) => BufReader::new(table),
            // A kernel without IPv6.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(SysError::io("read the UDP sockets of /proc/net", &error)),
        };
        all.extend(table.lines().map_while(Result::ok).filter_map(|line| {
            let mut columns = line.split_whitespace();
            let (address, port) = columns.nth(1)?.rsplit_once(':')?;
            let has = u16::from_str_radix(port, 16).ok()? == at.port()
                && overlap(at.ip(), printed_address(address)?);
            // slot, own address, peer's, state, queues, timer, retransmits, user, timeout, inode
            columns.nth(7)?.parse::<u64>().ok().filter(|_| has)
        }));
    }
    Ok(all)
}

/// Whether a socket at `theirs` may get what is sent to `ours`. One at `::` gets nothing of IPv4 where a socket of IPv4 is.
fn overlap(ours: IpAddr, theirs: IpAddr) -> bool {
    let (ours, theirs) = (ours.to_canonical(), theirs.to_canonical());
    match ours.is_unspecified() {
        true => ours.is_ipv6() || theirs.is_ipv4(),
        false => theirs == ours || theirs.is_unspecified() && theirs.is_ipv4() == ours.is_ipv4(),
    }
}

/// An address in /proc/net: each word as this machine's number.
fn printed_address(hex: &str) -> Option<IpAddr> {
    let words = hex.as_bytes().chunks(8).map(|word| {
        u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok().map(u32::to_ne_bytes)
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    match bytes.len() {
        4 => Some(<[u8; 4]>::try_from(bytes).ok()?.into()),
        _ => Some(<[u8; 16]>::try_from(bytes).ok()?.into()),
    }
}

/// A socket on a port that others may share.
fn open(bind: SocketAddr) -> Result<Udp, SysError> {
    let socket = datagram::open(bind.is_ipv6())?;
    share(&socket, true)?;
    ends::bind(socket.as_fd(), bind).map_err(|errno| {
        let error = SysError::new(format!("listen on UDP {bind}"), errno);
        match errno {
            Errno::EADDRINUSE => error.advise("another program has this port: see `ss -ulnp`"),
            Errno::EACCES => error.advise("ports below 1024 need root"),
            _ => error,
        }
    })?;
    Ok(Udp::adopt(socket, bind.is_ipv6()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{readable, wait};

    fn next(socket: &Udp) -> (Option<SocketAddr>, Vec<u8>) {
        wait(&mut [readable(socket)]).unwrap();
        let mut inbox = Inbox::new(1, 100);
        assert_eq!(inbox.receive(socket.as_fd()), Ok(1));
        let (arrival, bytes) = inbox.iter().next().unwrap();
        (arrival.from, bytes.to_vec())
    }

    #[test]
    fn each_peer_gets_its_own_socket_and_strangers_the_shared_one() {
        for (bind, at) in
            [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "::1")]
        {
            let shared = SharedUdp::listening(bind.parse().unwrap()).unwrap();
            let at: IpAddr = at.parse().unwrap();
            let to = SocketAddr::new(at, shared.local().port());
            let client = || UdpSocket::bind(SocketAddr::new(at, 0)).unwrap();
            let (one, two, stranger) = (client(), client(), client());
            let branches: Vec<Udp> = [&one, &two]
                .map(|c| shared.branch(c.local_addr().unwrap(), Some(at)).unwrap().0)
                .into();
            for (who, word) in [(&two, b"two"), (&one, b"one"), (&stranger, b"new")] {
                who.send_to(word, to).unwrap();
            }
            assert_eq!(next(&branches[0]).1, b"one", "{bind}");
            assert_eq!(next(&branches[1]).1, b"two");
            assert_eq!(next(shared.socket()), (stranger.local_addr().ok(), b"new".to_vec()));
            branches[0].send(b"answer").unwrap();
            let mut bytes = [0; 10];
            assert_eq!(one.recv_from(&mut bytes).unwrap(), (6, to));
        }
    }

    #[test]
    fn a_port_that_somebody_has_is_in_use() {
        let first = SharedUdp::listening("127.0.0.1:0".parse().unwrap()).unwrap();
        let error = SharedUdp::listening(first.local()).unwrap_err();
        assert_eq!(error.errno, Errno::EADDRINUSE);
    }

    #[test]
    fn nobody_of_the_same_user_joins_the_port() {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for bind in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let shared = SharedUdp::listening(bind.parse().unwrap()).unwrap();
            let port = shared.local().port();
            let peer = client.local_addr().unwrap();
            let _stream = shared.branch(peer, Some(peer.ip())).unwrap();
            for at in ["127.0.0.1", "0.0.0.0", "127.0.0.2", "::", "::1"] {
                let at: IpAddr = at.parse().unwrap();
                let wanted = shared.local().ip();
                if !wanted.is_unspecified() && wanted != at && !at.is_unspecified() {
                    continue;
                }
                if wanted.is_ipv4() && at.is_ipv6() {
                    continue;
                }
                let error = open((at, port).into()).unwrap_err();
                assert_eq!(error.errno, Errno::EADDRINUSE, "{at} beside {bind}");
            }
        }
    }

    #[test]
    fn who_joined_while_a_stream_was_opened_gets_no_stream() {
        let shared = SharedUdp::listening("0.0.0.0:0".parse().unwrap()).unwrap();
        let at = shared.local();
        share(&shared.socket, true).unwrap();
        let thief = open(SocketAddr::new([127, 0, 0, 1].into(), at.port())).unwrap();
        share(&shared.socket, false).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = client.local_addr().unwrap();
        let error = shared.branch(peer, Some(peer.ip())).unwrap_err();
        assert!(error.to_string().contains("has joined this port"), "{error}");
        drop(thief);
        shared.branch(peer, Some(peer.ip())).unwrap();
    }

    #[test]
    fn streams_are_opened_while_others_open_and_close_sockets() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let shared = SharedUdp::listening("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = |_| UdpSocket::bind("127.0.0.1:0").unwrap();
        let clients: Vec<UdpSocket> = (0..200).map(client).collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    (0..100).map(client).for_each(drop);
                }
            });
            let opened: Vec<_> = clients
                .iter()
                .map(|client| {
                    let peer = client.local_addr().unwrap();
                    shared.branch(peer, Some(peer.ip())).map(|(socket, _)| socket)
                })
                .collect();
            done.store(true, Ordering::Relaxed);
            let failed: Vec<_> = opened.into_iter().filter_map(Result::err).collect();
            assert!(failed.is_empty(), "{} of 200: {}", failed.len(), failed[0]);
        });
    }

    #[test]
    fn the_same_port_at_another_address_is_nobody_who_joined() {
        let shared = SharedUdp::listening("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = shared.local().port();
        let other = SharedUdp::listening(SocketAddr::new([127, 0, 0, 2].into(), port)).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = client.local_addr().unwrap();
        shared.branch(peer, Some(peer.ip())).unwrap();
        other.branch(peer, Some(other.local().ip())).unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (ours, theirs, overlaps) in [
            ("127.0.0.1", "0.0.0.0", true),
            ("0.0.0.0", "192.0.2.1", true),
            ("0.0.0.0", "::1", false),
            ("::", "192.0.2.1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::", false),
        ] {
            assert_eq!(overlap(ip(ours), ip(theirs)), overlaps, "{ours} {theirs}");
        }
        if cfg!(target_endian = "little") {
            assert_eq!(printed_address("0100007F"), Some(ip("127.0.0.1")));
            assert_eq!(
                printed_address("0000000000000000FFFF00000100007F"),
                Some(ip("::ffff:127.0.0.1"))
            );
        }
    }
}
