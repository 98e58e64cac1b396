//! WireGuard: keys and peers of an interface that was made with
//! [`crate::link::LinkKind::Wireguard`].
//!
//! ```text
//!   private key ──▶ interface ──▶ public key (the kernel calculates it; read it back and give it to the other end)
//! ```

use crate::core::{AttrReader, AttrWriter, DecodeError, NetlinkError, Reply};
use crate::generic::{self, Family};
use crate::prefix::{self, Prefix};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

const GET_DEVICE: u8 = 0;
const SET_DEVICE: u8 = 1;

/// `WGDEVICE_A_*`, `WGPEER_A_*`, `WGALLOWEDIP_A_*` of `include/uapi/linux/wireguard.h`.
mod device {
    pub const INDEX: u16 = 1;
    pub const PRIVATE_KEY: u16 = 3;
    pub const PUBLIC_KEY: u16 = 4;
    pub const FLAGS: u16 = 5;
    pub const LISTEN_PORT: u16 = 6;
    pub const PEERS: u16 = 8;
    pub const REPLACE_PEERS: u32 = 1;
}
mod peer {
    pub const PUBLIC_KEY: u16 = 1;
    pub const FLAGS: u16 = 3;
    pub const ENDPOINT: u16 = 4;
    pub const KEEPALIVE: u16 = 5;
    pub const LAST_HANDSHAKE: u16 = 6;
    pub const RX_BYTES: u16 = 7;
    pub const TX_BYTES: u16 = 8;
    pub const ALLOWED_IPS: u16 = 9;
    pub const REPLACE_ALLOWED_IPS: u32 = 2;
    pub const UPDATE_ONLY: u32 = 4;
}
mod allowed {
    pub const FAMILY: u16 = 1;
    pub const ADDRESS: u16 = 2;
    pub const LENGTH: u16 = 3;
}

/// A Curve25519 private key. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(pub [u8; 32]);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

/// A Curve25519 public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Its key; clamped by the kernel, so any 32 bytes will do.
    pub private_key: PrivateKey,
    /// The UDP port to listen on; the kernel picks one if not given.
    pub listen_port: Option<u16>,
    /// All its peers; others are removed.
    pub peers: Vec<Peer>,
}

/// The other end of a WireGuard tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub public_key: PublicKey,
    /// Where to send to, until it is heard from somewhere else.
    pub endpoint: Option<SocketAddr>,
    /// The inner addresses that it may use and that are sent to it.
    pub allowed_ips: Vec<Prefix>,
    /// Send an empty packet when nothing else was sent for this long; whole seconds, off if not
    /// given.
    pub keepalive: Option<Duration>,
}

/// What an interface is, as the kernel tells it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Its public key; none before a private key was set.
    pub public_key: Option<PublicKey>,
    pub listen_port: u16,
    pub peers: Vec<PeerStatus>,
}

/// A peer, as the kernel tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerStatus {
    pub public_key: PublicKey,
    /// When the last handshake was completed, since the epoch of the wall clock.
    pub last_handshake: Option<Duration>,
    /// Bytes received from it, outer WireGuard header included.
    pub rx_bytes: u64,
    /// Bytes sent to it, outer WireGuard header included.
    pub tx_bytes: u64,
}

/// Sets up and reads the WireGuard interfaces of one namespace.
#[derive(Debug)]
pub struct Wireguard {
    family: Family,
}

impl Wireguard {
    /// Opens the conversation in the calling thread's namespace. Errors with `ENOENT` when the
    /// kernel has no WireGuard.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { family: Family::open("wireguard")? })
    }

    /// Sets an interface up; what it had is replaced.
    pub fn configure(&mut self, index: u32, config: &Config) -> Result<(), NetlinkError> {
        let tried = format!("set up WireGuard on interface {index}");
        let mut message = self.family.message(tried, SET_DEVICE);
        write_config(index, config, message.attrs());
        self.family.socket.request_ack(&message)
    }

    /// Turns a peer's keepalive on (whole seconds, 1 to 65535) or off; the rest stays, its session too. Turned on while the interface is
    /// up, an empty packet is sent at once, and a handshake before it where there is no session.
    pub fn keepalive(
        &mut self,
        index: u32,
        peer: PublicKey,
        every: Option<Duration>,
    ) -> Result<(), NetlinkError> {
        let tried = format!("set a WireGuard peer's keepalive on interface {index}");
        let mut message = self.family.message(tried, SET_DEVICE);
        let seconds = every.map_or(0, |span| u16::try_from(span.as_secs()).unwrap_or(u16::MAX));
        message.attrs().u32(device::INDEX, index).nested(device::PEERS, |peers| {
            peers.nested(0, |element| {
                element
                    .bytes(peer::PUBLIC_KEY, &peer.0)
                    .u32(peer::FLAGS, peer::UPDATE_ONLY)
                    .u16(peer::KEEPALIVE, seconds);
            });
        });
        self.family.socket.request_ack(&message)
    }

    /// Reads an interface's state.
    pub fn status(&mut self, index: u32) -> Result<Status, NetlinkError> {
        let tried = format!("read WireGuard's state on interface {index}");
        let mut message = self.family.message(tried, GET_DEVICE);
        message.attrs().u32(device::INDEX, index);
        let mut status = Status::default();
        self.family.socket.dump(&message, |reply| status.add(reply))?;
        Ok(status)
    }
}

fn write_config(index: u32, config: &Config, to: &mut AttrWriter) {
    to.u32(device::INDEX, index)
        .bytes(device::PRIVATE_KEY, &config.private_key.0)
        .u32(device::FLAGS, device::REPLACE_PEERS);
    if let Some(port) = config.listen_port {
        to.u16(device::LISTEN_PORT, port);
    }
    to.nested(device::PEERS, |peers| {
        for peer in &config.peers {
            // Elements of a list: their kind is not looked at.
            peers.nested(0, |element| peer.write(element));
        }
    });
}

impl Peer {
    fn write(&self, to: &mut AttrWriter) {
        to.bytes(peer::PUBLIC_KEY, &self.public_key.0).u32(peer::FLAGS, peer::REPLACE_ALLOWED_IPS);
        if let Some(endpoint) = self.endpoint {
            to.bytes(peer::ENDPOINT, &sockaddr(endpoint));
        }
        if let Some(span) = self.keepalive {
            to.u16(peer::KEEPALIVE, u16::try_from(span.as_secs()).unwrap_or(u16::MAX));
        }
        to.nested(peer::ALLOWED_IPS, |list| {
            for allowed in &self.allowed_ips {
                list.nested(0, |element| {
                    let address = allowed.address();
                    element
                        .u16(allowed::FAMILY, prefix::family(address).into())
                        .bytes(allowed::ADDRESS, &prefix::octets(address))
                        .u8(allowed::LENGTH, allowed.length());
                });
            }
        });
    }
}

impl Status {
    /// A long list of peers comes in several messages, of which later ones repeat the interface's
    /// attributes or leave them out, and may go on with the last peer's addresses.
    pub(crate) fn add(&mut self, reply: &Reply) -> Result<(), DecodeError> {
        let (_, attrs) = reply.split::<{ generic::HEADER }>()?;
        for attr in attrs {
            let attr = attr?;
            match attr.kind {
                device::PUBLIC_KEY => self.public_key = Some(PublicKey(attr.array()?)),
                device::LISTEN_PORT => self.listen_port = attr.u16()?,
                device::PEERS => {
                    for element in attr.nested() {
                        let peer = PeerStatus::parse(element?.nested())?;
                        let known = self.peers.last().map(|last| last.public_key);
                        if known != Some(peer.public_key) {
                            self.peers.push(peer);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl PeerStatus {
    fn parse(attrs: AttrReader<'_>) -> Result<Self, DecodeError> {
        let key = attrs
            .find(peer::PUBLIC_KEY)?
            .ok_or(DecodeError::Missing { what: "peer's public key" })?;
        let mut status = Self {
            public_key: PublicKey(key.array()?),
            last_handshake: None,
            rx_bytes: 0,
            tx_bytes: 0,
        };
        for attr in attrs {
            let attr = attr?;
            match attr.kind {
                peer::RX_BYTES => status.rx_bytes = attr.u64()?,
                peer::TX_BYTES => status.tx_bytes = attr.u64()?,
                peer::LAST_HANDSHAKE => status.last_handshake = timespec(attr.array()?),
                _ => {}
            }
        }
        Ok(status)
    }
}

/// `struct __kernel_timespec`: seconds, nanoseconds, 64 bits each; zero means never.
fn timespec(bytes: [u8; 16]) -> Option<Duration> {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        i64::from_ne_bytes(word)
    };
    let seconds = u64::try_from(word(0)).ok()?;
    let nanos = u32::try_from(word(8)).ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos)).filter(|span| !span.is_zero())
}

/// `struct sockaddr_in` or `struct sockaddr_in6`.
fn sockaddr(endpoint: SocketAddr) -> Vec<u8> {
    let family = u16::from(prefix::family(endpoint.ip()));
    let mut bytes = family.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&endpoint.port().to_be_bytes());
    match endpoint {
        SocketAddr::V4(v4) => {
            bytes.extend_from_slice(&v4.ip().octets());
            bytes.extend_from_slice(&[0; 8]);
        }
        SocketAddr::V6(v6) => {
            bytes.extend_from_slice(&v6.flowinfo().to_be_bytes());
            bytes.extend_from_slice(&v6.ip().octets());
            bytes.extend_from_slice(&v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_the_kernels_socket_address_form() {
        let v4 = sockaddr("10.0.0.2:51820".parse().unwrap());
        assert_eq!(v4, [2, 0, 0xca, 0x6c, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        let v6 = sockaddr("[fd00::2]:51820".parse().unwrap());
        assert_eq!(v6.len(), 28);
        assert_eq!(&v6[..10], &[10, 0, 0xca, 0x6c, 0, 0, 0, 0, 0xfd, 0]);
    }

    #[test]
    fn a_private_key_is_not_printed() {
        assert!(!format!("{:?}", PrivateKey([7; 32])).contains('7'));
    }
}
