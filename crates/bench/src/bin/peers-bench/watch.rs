//! What the kernel saw: the stamps of requests and replies, by a packet socket on the device of one end.
//!
//! It wakes twenty times a second and takes what waits, so that it takes little of the CPUs that it watches.

use nix::errno::Errno;
use quell_sys::clock::{monotonic_ns, sleep_until};
use quell_sys::socket::Inbox;
use quell_sys::socket::option::{grow_receive_buffer, set};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The device of the end that asks.
pub const NEAR_DEVICE: &str = "near0";
/// Its address.
const NEAR: [u8; 4] = [10, 9, 0, 1];

/// The process: arguments are the device, then `icmp`, or `udp` and the size of the payload. When its input ends it prints a line for each
/// stamp: `out` for a request or `in` for a reply, and nanoseconds.
pub fn run(arguments: &[String]) -> Result<(), String> {
    static OVER: AtomicBool = AtomicBool::new(false);
    let udp_bytes = arguments.get(2).and_then(|a| a.parse::<usize>().ok());
    let socket = open(arguments.first().ok_or("no device is named")?)?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        OVER.store(true, Ordering::Relaxed);
    });
    println!("ready");
    let mut inbox = Inbox::new(256, 64);
    let mut stamps: Vec<(bool, u64)> = Vec::with_capacity(1 << 12);
    let mut over = false;
    while !over {
        over = OVER.load(Ordering::Relaxed);
        sleep_until(monotonic_ns() + 50_000_000).map_err(|e| e.to_string())?;
        while inbox.receive(socket.as_fd()).map_err(|e| e.to_string())? > 0 {
            for (arrival, frame) in inbox.iter() {
                if let (Some(out), Some(stamp)) =
                    (direction(frame, arrival.size, udp_bytes), arrival.stamp_ns)
                {
                    stamps.push((out, stamp));
                }
            }
        }
    }
    let lines: Vec<String> = stamps
        .iter()
        .map(|(out, stamp)| format!("{} {stamp}", if *out { "out" } else { "in" }))
        .collect();
    println!("{}", lines.join("\n"));
    Ok(())
}

/// Whether a frame is a request (or a reply); none for all others. Ethernet (14), IPv4 without
/// options (20), then ICMP echo, or UDP with a payload of this size.
fn direction(frame: &[u8], size: usize, udp_bytes: Option<usize>) -> Option<bool> {
    let out = frame.get(26..30)? == NEAR;
    let protocol = *frame.get(23)?;
    let wanted = frame.get(12..14)? == [8, 0]
        && match udp_bytes {
            Some(bytes) => protocol == 17 && size == 42 + bytes,
            None => protocol == 1 && *frame.get(34)? == if out { 8 } else { 0 },
        };
    wanted.then_some(out)
}

fn open(device: &str) -> Result<OwnedFd, String> {
    let protocol = i32::from((libc::ETH_P_ALL as u16).to_be());
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: socket(2) has no memory arguments; a non-negative result is a descriptor that nobody else owns.
    let fd = unsafe {
        let raw = libc::socket(libc::AF_PACKET, kind, protocol);
        OwnedFd::from_raw_fd(Errno::result(raw).map_err(|e| format!("a packet socket: {e}"))?)
    };
    let name = std::ffi::CString::new(device).map_err(|e| e.to_string())?;
    // SAFETY: all zeros is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: the name is a live C string.
    address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) } as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of a whole address.
    let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    Errno::result(bound).map_err(|e| format!("a packet socket on {device}: {e}"))?;
    set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1, "stamps")
        .map_err(|e| e.to_string())?;
    grow_receive_buffer(fd.as_fd(), 16 << 20);
    Ok(fd)
}
