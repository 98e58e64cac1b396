//! One end as a process of its own: `flow-bench mover WHAT ADDRESS …`, started by the bench.
//!
//! A receiver says `ready` when it listens, and at the end what it counted: `bytes packets lost seconds`. It ends when its standard input
//! does.

use quell_load::bulk::{
    Copying, Limit, Payload, Tally, TcpReceiving, TcpSending, UdpHeader, UdpReceiving, UdpSending,
    UdpTally, tcp_receive, tcp_send, udp_receive, udp_send,
};
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::Udp;
use quell_sys::socket::bulk::prepare_receiving;
use quell_sys::socket::stream::{Connected, StreamOptions, TcpSocket, accept, listen};
use quell_sys::wait::{Bell, readable, wait};
use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Does it.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let text = |n: usize| arguments.get(n).map(String::as_str).unwrap_or_default();
    let number = |n: usize| text(n).parse::<u64>().unwrap_or(0);
    let at: SocketAddr = text(1).parse().map_err(|_| format!("{}: no address", text(1)))?;
    match text(0) {
        "tcp-receive" => tcp_far(at),
        "tcp-send" => tcp_near(at, number(2), text(3), number(4)),
        "udp-receive" => udp_far(at, text(2) == "trains"),
        "udp-send" => udp_near(at, number(2), number(3) as usize, number(4), text(5) == "trains"),
        other => Err(format!("no mover `{other}`")),
    }
}

/// Rings when standard input ends.
fn until_told() -> Result<Arc<Bell>, String> {
    let bell = Arc::new(Bell::new().map_err(|e| e.to_string())?);
    let ringer = Arc::clone(&bell);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ringer.ring();
    });
    Ok(bell)
}

fn tcp_far(at: SocketAddr) -> Result<(), String> {
    let bell = until_told()?;
    let listener = listen(at, None).map_err(|e| e.to_string())?;
    println!("ready");
    let mut fds = [readable(&listener), readable(&*bell)];
    wait(&mut fds).map_err(|e| e.to_string())?;
    let Some((stream, _)) = accept(&listener).map_err(|e| e.to_string())? else {
        return Err("nobody came".into());
    };
    let begun = monotonic_ns();
    let tally = Tally::new();
    tcp_receive(&stream, &TcpReceiving::default(), &tally, &bell).map_err(|e| e.to_string())?;
    let seconds = (monotonic_ns() - begun) as f64 / 1e9;
    println!("{} {} 0 {seconds}", tally.bytes(), tally.calls());
    Ok(())
}

fn tcp_near(at: SocketAddr, seconds: u64, copying: &str, block: u64) -> Result<(), String> {
    let bell = Bell::new().map_err(|e| e.to_string())?;
    let stream = TcpSocket::new(false, &StreamOptions::default()).map_err(|e| e.to_string())?;
    let soon = monotonic_ns() + 2_000_000_000;
    if stream.connect(at, soon, &bell).map_err(|e| e.to_string())? != Connected::Yes {
        return Err("no connection".into());
    }
    let mut what = TcpSending {
        limit: Limit::until(monotonic_ns() + seconds * 1_000_000_000),
        copying: if copying == "sendfile" { Copying::None } else { Copying::Once },
        ..TcpSending::default()
    };
    if block > 0 {
        what.block = block as usize;
    }
    let tally = Tally::new();
    tcp_send(&stream, &what, &tally, &bell).map_err(|e| e.to_string())?;
    stream.finish();
    println!("{} {} 0 0", tally.bytes(), tally.calls());
    Ok(())
}

fn udp_far(at: SocketAddr, trains: bool) -> Result<(), String> {
    let bell = until_told()?;
    let socket = Udp::listening(at).map_err(|e| e.to_string())?;
    let what = UdpReceiving { trains, ..UdpReceiving::default() };
    prepare_receiving(socket.as_fd(), what.buffer, trains);
    println!("ready");
    let tally = UdpTally::new();
    udp_receive(&socket, &what, &tally, &bell).map_err(|e| e.to_string())?;
    let counts = tally.counts();
    let seconds = (counts.last_ns - counts.first_ns) as f64 / 1e9;
    println!("{} {} {} {seconds}", counts.bytes, counts.packets, counts.lost());
    eprintln!("{counts:?}");
    Ok(())
}

fn udp_near(
    at: SocketAddr,
    seconds: u64,
    size: usize,
    rate: u64,
    trains: bool,
) -> Result<(), String> {
    let bell = Bell::new().map_err(|e| e.to_string())?;
    let socket = Udp::sending(at, 0).map_err(|e| e.to_string())?;
    let what = UdpSending {
        size,
        rate: (rate > 0).then_some(rate),
        limit: Limit::until(monotonic_ns() + seconds * 1_000_000_000),
        header: UdpHeader::Bits32,
        trains,
        burst: 1,
        payload: Payload::default(),
    };
    let tally = Tally::new();
    udp_send(&socket, &what, &tally, &bell).map_err(|e| e.to_string())?;
    println!("{} {} {} 0", tally.bytes(), tally.packets(), tally.skipped());
    Ok(())
}
