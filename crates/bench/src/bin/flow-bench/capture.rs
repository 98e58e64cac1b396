//! Arrivals at the far end, by the kernel's stamps on a packet socket: the same for all who are compared.
//!
//! It wakes ten times a second and takes what waits, so that it takes little of the CPUs that it watches.

use crate::peer::{Held, Kind};
use crate::place::{End, FAR_DEVICE, Place};
use nix::errno::Errno;
use quell_sys::clock::{monotonic_ns, sleep_until};
use quell_sys::socket::Inbox;
use quell_sys::socket::option::{grow_receive_buffer, set};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// How far the gaps were from what was asked for, in nanoseconds, and how many packets a second came.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gaps {
    /// Half of the errors are smaller.
    pub p50: f64,
    /// 99 of 100 are.
    pub p99: f64,
    /// 999 of 1000 are.
    pub p999: f64,
    /// Packets a second.
    pub rate: f64,
}

/// A capture that runs.
pub struct Capture {
    process: Held,
    output: BufReader<std::process::ChildStdout>,
}

impl Capture {
    /// Starts it and waits until it sees packets.
    pub fn start(place: &Place, kind: Kind) -> Result<Self, String> {
        let Kind::Udp { size, rate: Some(rate) } = kind else {
            return Err("gaps of what has no rate".into());
        };
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        let gap_ns = size as f64 * 8e9 / rate as f64;
        let mut command = Command::new(me);
        command.args(["capture", &size.to_string(), &gap_ns.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Held(Some(place.start(End::Far, &mut command)?));
        let mut output = process.output()?;
        let mut line = String::new();
        output.read_line(&mut line).map_err(|e| e.to_string())?;
        Ok(Self { process, output })
    }

    /// Ends it.
    pub fn end(mut self) -> Result<Gaps, String> {
        drop(self.process.0.as_mut().and_then(|c| c.stdin.take()));
        let mut text = String::new();
        self.output.read_to_string(&mut text).map_err(|e| e.to_string())?;
        self.process.end()?;
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let [p50, p99, p999, rate] = numbers[..] else {
            return Err(format!("the capture said `{text}`"));
        };
        Ok(Gaps { p50, p99, p999, rate })
    }
}

/// The process: arguments are the payload's size and the gap asked for in nanoseconds.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let number = |n: usize| arguments.get(n).and_then(|a| a.parse::<f64>().ok()).unwrap_or(0.0);
    let (size, wanted) = (number(0) as usize, number(1));
    static OVER: AtomicBool = AtomicBool::new(false);
    let socket = open().map_err(|e| format!("a packet socket: {e}"))?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        OVER.store(true, Ordering::Relaxed);
    });
    println!("ready");
    let mut inbox = Inbox::new(512, 64);
    let mut stamps: Vec<u64> = Vec::with_capacity(1 << 20);
    let mut over = false;
    while !over {
        over = OVER.load(Ordering::Relaxed);
        sleep_until(monotonic_ns() + 50_000_000).map_err(|e| e.to_string())?;
        while inbox.receive(socket.as_fd()).map_err(|e| e.to_string())? > 0 {
            for (arrival, bytes) in inbox.iter() {
                // Ethernet, IPv4 without options, UDP.
                let is_udp = bytes.get(12..14) == Some(&[8, 0]) && bytes.get(23) == Some(&17);
                if is_udp && arrival.size == 42 + size {
                    stamps.extend(arrival.stamp_ns);
                }
            }
        }
    }
    // The start is everybody's own.
    let skip = stamps.len() / 10;
    let stamps = &stamps[skip..];
    let mut errors: Vec<f64> =
        stamps.windows(2).map(|p| ((p[1] as f64 - p[0] as f64) - wanted).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (share * errors.len() as f64) as usize;
        errors.get(place.min(errors.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    };
    let span = match stamps {
        [first, .., last] => (last - first) as f64 / 1e9,
        _ => f64::NAN,
    };
    println!("{} {} {} {}", at(0.5), at(0.99), at(0.999), stamps.len() as f64 / span);
    Ok(())
}

fn open() -> Result<OwnedFd, String> {
    const ALL: u16 = libc::ETH_P_IP as u16;
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: socket(2) has no memory arguments; a non-negative result is a descriptor that nobody else owns.
    let fd = unsafe {
        let raw = libc::socket(libc::AF_PACKET, kind, i32::from(ALL.to_be()));
        OwnedFd::from_raw_fd(Errno::result(raw).map_err(|e| e.to_string())?)
    };
    let name = std::ffi::CString::new(FAR_DEVICE).map_err(|e| e.to_string())?;
    // SAFETY: the name is a live C string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    // SAFETY: all zeros is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ALL.to_be();
    address.sll_ifindex = index as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of a whole address.
    let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    Errno::result(bound).map_err(|e| e.to_string())?;
    set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1, "stamps")
        .map_err(|e| e.to_string())?;
    grow_receive_buffer(fd.as_fd(), 256 << 20);
    Ok(fd)
}
