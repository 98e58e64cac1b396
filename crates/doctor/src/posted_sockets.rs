//! What `ss -tinm` and `ss -uanm` print, as the sockets that checks read.
//!
//! ```text
//!   ESTAB 0 57920 10.0.0.2:5001 10.0.0.9:40422      ─ a socket: queues and ends
//!        skmem:(r0,rb131072,…) cubic rtt:20/3 busy:900ms rwnd_limited:800ms(88.9%)
//! ```
//!
//! `ss` leaves out what is zero; a clock of which it tells nothing is zero only beside one that it tells of (`tcp_stats_print` of misc/ss.c).

use quell_host::sockets::{Fold, Sockets};
use quell_netlink::sock_diag::{DiagSocket, SocketMemory, TcpInfo, TcpState};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::{IpAddr, SocketAddr};

/// Sockets of one output, each with whether it is of UDP.
#[derive(Debug, Default)]
pub struct SocketTable {
    all: Vec<(DiagSocket, bool)>,
    /// It is that of `ss -u`, which names no protocol: TCP has no unconnected sockets there.
    is_udp: bool,
    /// Sockets whose ports stand there by name.
    pub named_ports: usize,
}

impl SocketTable {
    /// Takes a line that begins a socket; whether it was one.
    pub fn begin(&mut self, line: &str) -> bool {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let mut is_udp = words.first() == Some(&"udp");
        let is_named = matches!(words.first(), Some(&("tcp" | "udp")));
        if is_named {
            words.remove(0);
        }
        let state = words.first().and_then(|word| state(word));
        if state.is_some() {
            words.remove(0);
        }
        self.is_udp |= !is_named && state == Some(TcpState::Closed);
        is_udp |= !is_named && self.is_udp;
        let [received, sent, local, remote, ..] = words[..] else { return false };
        let (Ok(received), Ok(sent)) = (received.parse(), sent.parse()) else { return false };
        if !local.contains(':') || !remote.contains(':') {
            return false;
        }
        let (Some(local), Some(remote)) = (end(local), end(remote)) else {
            self.named_ports += usize::from(state.is_some());
            return state.is_some();
        };
        // Without a word of the state, one was asked for.
        let state = state.unwrap_or(TcpState::Established);
        let socket = DiagSocket {
            local,
            remote,
            state,
            receive_queue: received,
            send_queue: sent,
            inode: 0,
            cookie: BuildHasherDefault::<DefaultHasher>::default()
                .hash_one((local, remote, is_udp)),
            info: None,
            congestion_control: None,
            memory: None,
        };
        self.all.push((socket, is_udp));
        true
    }

    /// Takes a line below a socket.
    pub fn details(&mut self, line: &str) {
        let Some((socket, is_udp)) = self.all.last_mut() else { return };
        let words: Vec<&str> = line.split_whitespace().collect();
        // Only with -i is there more than buffers.
        let has_info = words.iter().any(|w| w.starts_with("cwnd:") || w.starts_with("rto:"));
        if has_info && !*is_udp {
            socket.info.get_or_insert_with(unknown);
        }
        for (at, word) in words.iter().enumerate() {
            if let Some(memory) = word.strip_prefix("skmem:(") {
                socket.memory = Some(memory_of(memory.trim_end_matches(')')));
            }
            let figure = word.split_once(':').or_else(|| Some((word, words.get(at + 1)?)));
            let Some(info) = &mut socket.info else { continue };
            info.options |= option(word);
            if let Some((name, value)) = figure {
                take(info, name, value);
            }
        }
    }

    /// What several outputs tell, the earlier first: one that has a socket which the output before it has too was read later.
    pub fn readings(outputs: &[Self]) -> Vec<Sockets> {
        let mut readings: Vec<Vec<&(DiagSocket, bool)>> = Vec::new();
        for output in outputs.iter().filter(|output| !output.all.is_empty()) {
            let known: BTreeSet<u64> =
                readings.last().into_iter().flatten().map(|(socket, _)| socket.cookie).collect();
            let again = output.all.iter().any(|(socket, _)| known.contains(&socket.cookie));
            match readings.last_mut().filter(|_| !again) {
                Some(reading) => reading.extend(&output.all),
                None => readings.push(output.all.iter().collect()),
            }
        }
        readings.iter().map(|sockets| folded(sockets)).collect()
    }
}

fn folded(all: &[&(DiagSocket, bool)]) -> Sockets {
    let mut fold = Fold::default();
    for (socket, is_udp) in all {
        let mut socket = socket.clone();
        if let Some(info) = socket.info.as_mut().filter(|info| info.busy_time.is_some()) {
            info.rwnd_limited.get_or_insert(0);
            info.sndbuf_limited.get_or_insert(0);
        }
        if *is_udp { fold.udp(socket) } else { fold.tcp(socket) }
    }
    let mut sockets = fold.finish();
    let has_udp = all.iter().any(|(_, is_udp)| *is_udp);
    sockets.udp_unseen = (!has_udp).then(|| "ss -uanm is not in the text".to_owned());
    sockets
}

/// A word of `ss` for a state; UDP has two of them.
fn state(word: &str) -> Option<TcpState> {
    Some(match word {
        "ESTAB" => TcpState::Established,
        "SYN-SENT" => TcpState::SynSent,
        "SYN-RECV" => TcpState::SynReceived,
        "FIN-WAIT-1" => TcpState::FinWait1,
        "FIN-WAIT-2" => TcpState::FinWait2,
        "TIME-WAIT" => TcpState::TimeWait,
        "UNCONN" => TcpState::Closed,
        "CLOSE-WAIT" => TcpState::CloseWait,
        "LAST-ACK" => TcpState::LastAck,
        "LISTEN" => TcpState::Listen,
        "CLOSING" => TcpState::Closing,
        _ => return None,
    })
}

/// `10.0.0.1%eth0:22`, `[::ffff:10.0.0.1]:443`, `*:80`.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.rsplit_once(':')?;
    let address = address.trim_matches(['[', ']']).split(['%', ']']).next()?;
    let address = if address == "*" { "::" } else { address };
    let port = if port == "*" { 0 } else { port.parse().ok()? };
    Some(SocketAddr::new(address.parse::<IpAddr>().ok()?.to_canonical(), port))
}

/// `r0,rb131072,t0,tb87040,f0,w0,o0,bl0,d0`
fn memory_of(text: &str) -> SocketMemory {
    let mut memory = SocketMemory::default();
    for part in text.split(',') {
        let (name, value) = part.split_at(part.find(|c: char| c.is_ascii_digit()).unwrap_or(0));
        let Ok(value) = value.parse() else { continue };
        match name {
            "r" => memory.received = value,
            "rb" => memory.receive_buffer = value,
            "t" => memory.sent = value,
            "tb" => memory.send_buffer = value,
            "w" => memory.queued = value,
            "d" => memory.drops = value,
            _ => {}
        }
    }
    memory
}

/// What an old kernel tells: nothing of what is newer.
fn unknown() -> TcpInfo {
    TcpInfo::from_bytes(&[0; 104]).expect("that is as much as the oldest kernel gives")
}

/// A bit of `TCPI_OPT_*`.
fn option(word: &str) -> u8 {
    match word {
        "ts" => 1,
        "sack" => 2,
        "ecn" => 8,
        "ecnseen" => 16,
        word if word.starts_with("wscale:") => 4,
        _ => 0,
    }
}

fn take(info: &mut TcpInfo, name: &str, value: &str) {
    // Of `rtt:20/3`, `retrans:0/5`, `800ms(88.9%)` and `231Mbps`.
    let (first, second) = value.split_once('/').unwrap_or((value, ""));
    let first = first.split('(').next().unwrap_or(first);
    let micros = || Some((first.trim_end_matches("ms").parse::<f64>().ok()? * 1000.0) as u64);
    let count = |text: &str| text.parse::<u64>().ok();
    let small = |text: &str| text.parse::<u32>().ok();
    let set = |field: &mut u32, value: Option<u32>| *field = value.unwrap_or(*field);
    let time = || micros().and_then(|us| u32::try_from(us).ok());
    match name {
        "rtt" => set(&mut info.rtt, time()),
        "rcv_rtt" => set(&mut info.rcv_rtt, time()),
        "mss" => set(&mut info.snd_mss, small(first)),
        "rcvmss" => set(&mut info.rcv_mss, small(first)),
        "pmtu" => set(&mut info.pmtu, small(first)),
        "cwnd" => set(&mut info.snd_cwnd, small(first)),
        "unacked" => set(&mut info.unacked, small(first)),
        "lost" => set(&mut info.lost, small(first)),
        "sacked" => set(&mut info.sacked, small(first)),
        "rcv_space" => set(&mut info.rcv_space, small(first)),
        "lastsnd" => set(&mut info.last_data_sent, small(first)),
        "lastrcv" => set(&mut info.last_data_recv, small(first)),
        "backoff" => info.backoff = first.parse().unwrap_or(info.backoff),
        "retrans" => {
            set(&mut info.retrans, small(first));
            set(&mut info.total_retrans, small(second));
        }
        "minrtt" => info.min_rtt = time(),
        "notsent" => info.notsent_bytes = small(first),
        "snd_wnd" => info.snd_wnd = small(first),
        "dsack_dups" => info.dsack_dups = small(first),
        "data_segs_out" => info.data_segs_out = small(first),
        "data_segs_in" => info.data_segs_in = small(first),
        "bytes_sent" => info.bytes_sent = count(first),
        "bytes_retrans" => info.bytes_retrans = count(first),
        "bytes_acked" => info.bytes_acked = count(first),
        "bytes_received" => info.bytes_received = count(first),
        "busy" => info.busy_time = micros(),
        "rwnd_limited" => info.rwnd_limited = micros(),
        "sndbuf_limited" => info.sndbuf_limited = micros(),
        "delivery_rate" => info.delivery_rate = rate(first),
        _ => {}
    }
}

/// `231Mbps` in bytes per second.
fn rate(text: &str) -> Option<u64> {
    let text = text.strip_suffix("bps")?;
    let (number, scale) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    Some((number.parse::<f64>().ok()? * scale / 8.0) as u64)
}
