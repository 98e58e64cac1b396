//! Rules of nftables that the stories need: what a host refuses to take, or to pass on.

use super::net::Namespace;
use quell_netlink::core::{AttrWriter, Message, Protocol, Socket, flags};

const NFTABLES: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = NFTABLES << 8;
const NEW_CHAIN: u16 = (NFTABLES << 8) | 3;
const NEW_RULE: u16 = (NFTABLES << 8) | 6;
const TABLE: &str = "story";
const CHAIN: &str = "refuses";
const META_LENGTH: u32 = 0;
const META_OUT_NAME: u32 = 7;
const META_PROTOCOL: u32 = 16;
const TRANSPORT_HEADER: u32 = 2;
const EQUAL: u32 = 0;
const GREATER: u32 = 4;

/// Where it refuses: `NF_INET_LOCAL_IN`, `NF_INET_FORWARD`.
#[derive(Clone, Copy)]
pub enum Hook {
    In = 1,
    Forward = 2,
}

/// What is refused.
pub enum Refused {
    /// UDP to this port.
    Port(u16),
    Icmp,
    /// Packets of more bytes than these, to this device.
    Above(u32, &'static str),
    /// The same of TCP alone.
    TcpAbove(u32, &'static str),
    /// The same of ICMP alone.
    IcmpAbove(u32, &'static str),
}

/// Drops such packets of IPv4, and says nothing.
pub fn refuse(at: &Namespace, hook: Hook, refused: &[Refused]) {
    let mut batch = vec![
        edge(BATCH_BEGIN),
        made(NEW_TABLE, 0, |to| {
            to.str(1, TABLE);
        }),
    ];
    batch.push(made(NEW_CHAIN, flags::CREATE, |to| {
        to.str(1, TABLE).str(3, CHAIN).str(7, "filter").nested(4, |place| {
            place.be32(1, hook as u32).be32(2, 0);
        });
    }));
    batch.extend(refused.iter().map(rule));
    batch.push(edge(BATCH_END));
    at.run(|| Socket::open(Protocol::Netfilter).and_then(|mut socket| socket.batch(&batch)))
        .expect("the guest's kernel has nftables");
}

fn rule(refused: &Refused) -> Message {
    made(NEW_RULE, flags::CREATE | flags::APPEND, |to| {
        to.str(1, TABLE).str(2, CHAIN).nested(4, |to| {
            match refused {
                Refused::Port(port) => {
                    meta(to, META_PROTOCOL);
                    compare(to, EQUAL, &[17]);
                    expression(to, "payload", |to| {
                        to.be32(1, 1).be32(2, TRANSPORT_HEADER).be32(3, 2).be32(4, 2);
                    });
                    compare(to, EQUAL, &port.to_be_bytes());
                }
                Refused::Icmp => {
                    meta(to, META_PROTOCOL);
                    compare(to, EQUAL, &[1]);
                }
                Refused::Above(bytes, device)
                | Refused::TcpAbove(bytes, device)
                | Refused::IcmpAbove(bytes, device) => {
                    let protocol = match refused {
                        Refused::TcpAbove(..) => Some(6),
                        Refused::IcmpAbove(..) => Some(1),
                        _ => None,
                    };
                    if let Some(protocol) = protocol {
                        meta(to, META_PROTOCOL);
                        compare(to, EQUAL, &[protocol]);
                    }
                    meta(to, META_OUT_NAME);
                    let mut name = [0; 16];
                    name[..device.len()].copy_from_slice(device.as_bytes());
                    compare(to, EQUAL, &name);
                    meta(to, META_LENGTH);
                    // Numbers of the kernel's own are compared as bytes, and turned round for that.
                    expression(to, "byteorder", |to| {
                        to.be32(1, 1).be32(2, 1).be32(3, 1).be32(4, 4).be32(5, 4);
                    });
                    compare(to, GREATER, &bytes.to_be_bytes());
                }
            }
            expression(to, "immediate", |to| {
                to.be32(1, 0).nested(2, |to| {
                    to.nested(2, |verdict| {
                        verdict.be32(1, 0);
                    });
                });
            });
        });
    })
}

fn meta(to: &mut AttrWriter, key: u32) {
    expression(to, "meta", |to| {
        to.be32(2, key).be32(1, 1);
    });
}

fn compare(to: &mut AttrWriter, how: u32, value: &[u8]) {
    expression(to, "cmp", |to| {
        to.be32(1, 1).be32(2, how).nested(3, |to| {
            to.bytes(1, value);
        });
    });
}

fn expression(to: &mut AttrWriter, name: &str, data: impl FnOnce(&mut AttrWriter)) {
    to.nested(1, |element| {
        element.str(1, name).nested(2, data);
    });
}

fn edge(kind: u16) -> Message {
    let [high, low] = NFTABLES.to_be_bytes();
    Message::with_header("change nftables", kind, 0, &[0, 0, high, low])
}

fn made(kind: u16, more: u16, write: impl FnOnce(&mut AttrWriter)) -> Message {
    let family = nix::libc::AF_INET as u8;
    let mut message =
        Message::with_header("refuse packets", kind, more | flags::ACK, &[family, 0, 0, 0]);
    write(message.attrs());
    message
}
