//! Stand-in.
#![allow(missing_docs)]
use quell_model::frame::{Decoder, encode};
use quell_model::*;
use quell_sys::clock::{monotonic_ns, sleep_until};
use std::io::{Read, Write};
use std::net::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Out = Arc<Mutex<Box<dyn Write + Send>>>;
fn emit(out: &Out, e: &Event) {
    let b = encode(e).unwrap();
    let mut o = out.lock().unwrap();
    let _ = o.write_all(&b);
    let _ = o.flush();
}
pub fn run(mut input: impl Read, output: impl Write + Send + 'static) -> Result<(), std::io::Error> {
    let out: Out = Arc::new(Mutex::new(Box::new(output)));
    let mut d = Decoder::new();
    let mut buf = [0; 65536];
    let mut tasks: Vec<Task> = vec![];
    let mut listeners = vec![];
    let mut clients = vec![];
    loop {
        while let Some(c) = d.next_value::<quell_model::Command>().map_err(std::io::Error::other)? {
            match c {
                quell_model::Command::Prepare { tasks: t } => {
                    for task in &t {
                        if let TaskKind::TcpServer { bind, .. } = &task.kind {
                            listeners.push((task.clone(), TcpListener::bind(bind)?));
                        }
                        emit(&out, &Event::Ready { task: task.id.clone() });
                    }
                    tasks = t;
                }
                quell_model::Command::Start { at_monotonic_ns: at } => {
                    for (_t, l) in listeners.drain(..) {
                        let out = out.clone();
                        std::thread::spawn(move || {
                            for s in l.incoming() {
                                let Ok(mut s) = s else { return };
                                let out = out.clone();
                                std::thread::spawn(move || {
                                    let mut name = [0; 32];
                                    let _ = s.read_exact(&mut name);
                                    let stream = String::from_utf8_lossy(&name).trim_end_matches('\0').to_string();
                                    let mut buf = vec![0; 1 << 16];
                                    let mut total = 0u64;
                                    let mut next = monotonic_ns();
                                    let mut samples = vec![];
                                    while let Ok(n @ 1..) = s.read(&mut buf) {
                                        total += n as u64;
                                        let now = monotonic_ns();
                                        if now >= next {
                                            samples.push(FlowSample { t_ns: now as i64 - at as i64, side: Side::Receiver, bytes: total, packets: 0, tcp: None });
                                            next = now + 100_000_000;
                                            if samples.len() > 10 {
                                                emit(&out, &Event::Flow { stream: stream.clone(), samples: std::mem::take(&mut samples) });
                                            }
                                        }
                                    }
                                });
                            }
                        });
                    }
                    for t in tasks.drain(..) {
                        if t.kind.is_server() { continue; }
                        let out = out.clone();
                        clients.push(std::thread::spawn(move || {
                            let start = (at as i64 + t.start_ns) as u64;
                            let _ = sleep_until(start);
                            let end = start + t.duration.nanos();
                            match &t.kind {
                                TaskKind::Tcp(c) => {
                                    let hs: Vec<_> = (1..=c.connections).map(|i| {
                                        let c = c.clone();
                                        std::thread::spawn(move || {
                                            let name = if c.connections > 1 { format!("{}-{i}", c.stream) } else { c.stream.clone() };
                                            let Ok(mut s) = TcpStream::connect(c.to) else { return };
                                            let mut h = [0; 32];
                                            h[..name.len()].copy_from_slice(name.as_bytes());
                                            let _ = s.write_all(&h);
                                            let _ = s.set_write_timeout(Some(Duration::from_millis(500)));
                                            let b = vec![0; 1 << 16];
                                            while monotonic_ns() < end { let _ = s.write(&b); }
                                        })
                                    }).collect();
                                    for h in hs { let _ = h.join(); }
                                }
                                TaskKind::UdpSend(u) => {
                                    let s = UdpSocket::bind("0.0.0.0:0").unwrap();
                                    let b = vec![0; u.size as usize];
                                    let gap = u.rate.time_for(u.size as u64).nanos();
                                    let mut n = start;
                                    while n < end { let _ = sleep_until(n); let _ = s.send_to(&b, u.to); n += gap; }
                                }
                                TaskKind::Ping { .. } | TaskKind::UdpEcho(_) => {
                                    let _ = sleep_until(end);
                                }
                                _ => {}
                            }
                            emit(&out, &Event::Ended { task: t.id.clone(), t_ns: 0, outcome: Outcome::Done });
                        }));
                    }
                }
                quell_model::Command::Stop => return Ok(()),
            }
        }
        let n = input.read(&mut buf)?;
        if n == 0 { return Ok(()); }
        d.push(&buf[..n]);
    }
}
