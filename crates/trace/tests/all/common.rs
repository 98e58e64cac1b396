//! Captures for tests: packets told as in a story, written as files of any format.

#![allow(dead_code)]

use quell_trace::{TcpEvent, TraceOptions, TraceOutcome, TraceReport, analyse};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// Who sends: the client, 10.0.0.1:1033, or the server, 10.0.0.2:7890.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    Client,
    Server,
}

/// A packet of a story.
#[derive(Debug, Clone)]
pub struct Told {
    pub us: u64,
    pub from: From,
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub length: u16,
    pub window: u16,
    pub options: Vec<u8>,
    pub port: u16,
    pub id: u16,
    pub hops: u8,
}

pub fn told(us: u64, from: From, flags: u8, seq: u32, ack: u32, length: u16) -> Told {
    let (window, options, port, id, hops) = (32120, Vec::new(), 1033, 0, 64);
    Told { us, from, flags, seq, ack, length, window, options, port, id, hops }
}

impl Told {
    pub fn window(self, window: u16) -> Self {
        Told { window, ..self }
    }

    pub fn port(self, port: u16) -> Self {
        Told { port, ..self }
    }

    pub fn id(self, id: u16) -> Self {
        Told { id, ..self }
    }

    /// Hops that are left: senders begin with 64, each router takes one.
    pub fn hops(self, hops: u8) -> Self {
        Told { hops, ..self }
    }

    pub fn mss(mut self, mss: u16) -> Self {
        self.options.extend([2, 4]);
        self.options.extend(mss.to_be_bytes());
        self
    }

    pub fn scale(mut self, scale: u8) -> Self {
        self.options.extend([1, 3, 3, scale]);
        self
    }

    pub fn stamps(mut self, value: u32, echo: u32) -> Self {
        self.options.extend([1, 1, 8, 10]);
        self.options.extend(value.to_be_bytes());
        self.options.extend(echo.to_be_bytes());
        self
    }

    pub fn sack(mut self, blocks: &[(u32, u32)]) -> Self {
        self.options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (start, end) in blocks {
            self.options.extend(start.to_be_bytes());
            self.options.extend(end.to_be_bytes());
        }
        self
    }

    /// TCP header and payload.
    pub fn tcp(&self) -> Vec<u8> {
        let (source, destination) = match self.from {
            From::Client => (self.port, 7890),
            From::Server => (7890, self.port),
        };
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 0);
        let mut bytes = Vec::new();
        bytes.extend(source.to_be_bytes());
        bytes.extend(destination.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.push(((20 + options.len()) as u8 / 4) << 4);
        bytes.push(self.flags);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(options);
        bytes.resize(bytes.len() + usize::from(self.length), b'x');
        bytes
    }

    /// The packet as IPv4.
    pub fn ipv4(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let mut bytes = vec![0x45, 0];
        bytes.extend((20 + tcp.len() as u16).to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend([0x40, 0, self.hops, 6, 0, 0]);
        let (source, destination) = match self.from {
            From::Client => (1, 2),
            From::Server => (2, 1),
        };
        bytes.extend([10, 0, 0, source, 10, 0, 0, destination]);
        bytes.extend(tcp);
        bytes
    }

    /// The packet as IPv6, behind a destination options header.
    pub fn ipv6(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((8 + tcp.len() as u16).to_be_bytes());
        bytes.extend([60, self.hops]);
        let ends: [u8; 2] = match self.from {
            From::Client => [1, 2],
            From::Server => [2, 1],
        };
        for end in ends {
            bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
        }
        bytes.extend([6, 0, 1, 4, 0, 0, 0, 0]);
        bytes.extend(tcp);
        bytes
    }
}

/// The order of the bytes of a file's numbers.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    pub big: bool,
}

impl Order {
    pub fn u16(self, value: u16) -> [u8; 2] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    pub fn u32(self, value: u32) -> [u8; 4] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }
}

pub const LITTLE: Order = Order { big: false };
pub const BIG: Order = Order { big: true };

/// A frame with its time in nanoseconds.
pub type Timed = (u64, Vec<u8>);

pub fn frames(story: &[Told]) -> Vec<Timed> {
    story.iter().map(|p| (p.us * 1000, p.ipv4())).collect()
}

/// A classic file; `snap` cuts each frame.
pub fn pcap(order: Order, nanos: bool, link: u32, snap: usize, frames: &[Timed]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(order.u32(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }));
    file.extend(order.u16(2));
    file.extend(order.u16(4));
    file.extend([0; 8]);
    file.extend(order.u32(snap as u32));
    file.extend(order.u32(link));
    for (time, frame) in frames {
        let held = &frame[..frame.len().min(snap)];
        file.extend(order.u32((time / 1_000_000_000) as u32));
        let fraction = (time % 1_000_000_000) as u32;
        file.extend(order.u32(if nanos { fraction } else { fraction / 1000 }));
        file.extend(order.u32(held.len() as u32));
        file.extend(order.u32(frame.len() as u32));
        file.extend(held);
    }
    file
}

/// The story as a classic file of raw IP.
pub fn raw(story: &[Told]) -> Vec<u8> {
    pcap(LITTLE, false, 101, 65535, &frames(story))
}

/// A block of pcapng.
pub fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = order.u32(body.len() as u32 + 12);
    [&order.u32(kind)[..], &length, &body, &length].concat()
}

pub fn section(order: Order) -> Vec<u8> {
    let body = [&order.u32(0x1a2b_3c4d)[..], &order.u16(1), &order.u16(0), &[0xff; 8]].concat();
    block(order, 0x0a0d_0d0a, &body)
}

/// An interface with a resolution of its clock.
pub fn interface(order: Order, link: u16, resolution: Option<u8>) -> Vec<u8> {
    let mut body = [&order.u16(link)[..], &[0, 0], &order.u32(0)].concat();
    if let Some(resolution) = resolution {
        body.extend(order.u16(9));
        body.extend(order.u16(1));
        body.extend([resolution, 0, 0, 0]);
        body.extend([0; 4]);
    }
    block(order, 1, &body)
}

/// A packet as an enhanced block.
pub fn enhanced(order: Order, interface: u32, ticks: u64, frame: &[u8]) -> Vec<u8> {
    let length = order.u32(frame.len() as u32);
    let time = [order.u32((ticks >> 32) as u32), order.u32(ticks as u32)].concat();
    block(order, 6, &[&order.u32(interface)[..], &time, &length, &length, frame].concat())
}

pub fn read(file: &[u8]) -> TraceOutcome {
    analyse(file, &TraceOptions::default()).expect("the file's beginning is sound")
}

/// What a whole capture tells.
pub fn report(file: &[u8]) -> TraceReport {
    let outcome = read(file);
    assert!(outcome.broke_off.is_none(), "{:?}", outcome.broke_off);
    outcome.report
}

/// What happened in all connections.
pub fn events(report: &TraceReport) -> Vec<TcpEvent> {
    report.connections.iter().flat_map(|c| &c.moments).map(|m| m.moment.event).collect()
}

/// A call that stalls for 40 ms.
pub fn call() -> Vec<Told> {
    vec![
        told(0, From::Client, SYN, 1000, 0, 0).mss(1460),
        told(10, From::Server, SYN | ACK, 5000, 1001, 0).mss(1460),
        told(20, From::Client, ACK, 1001, 5001, 0),
        told(30, From::Client, ACK | PSH, 1001, 5001, 100),
        told(40_030, From::Server, ACK, 5001, 1101, 0),
        told(40_040, From::Client, ACK | PSH, 1101, 5001, 100),
        told(40_050, From::Server, FIN | ACK | PSH, 5001, 1201, 50),
        told(40_060, From::Client, FIN | ACK, 1201, 5052, 0),
    ]
}

/// What is said of it.
pub const STALL: [TcpEvent; 1] = [TcpEvent::Held];
